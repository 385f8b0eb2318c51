#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen docs`: pages, the examples on them, and the site.

    test_docs.py OPGEN PLUGIN_SO PLUGIN_FOLDER CC
"""

import html.parser
import json
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from lab import RISKY, RISKY_C, Lab  # noqa: E402

OPGEN, BUILT, SOURCE = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:4])
CC = shlex.split(sys.argv[4])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
VOID = {"meta", "link", "input", "br", "hr", "img"}

LAB = Lab([OPGEN], CC, FOLDER)
# Text that would do harm if it were taken for markup.
HOSTILE = """\
opgen: 1
op: hostile
summary: Less <script>alert(1)</script> & "more" *here*
doc: |
  # A heading of the author's
  A <b>tag</b>, `a < b | c`, **bold**, *soft*, [here](https://tenon.example/x),
  [there](javascript:alert(1)), a lone * and a lone `tick.

  - one
  - two goes on
    below

  ```
  <i>code</i> | **kept**
  ```

  | a | b |
  |---|---|
  | `x\\|y` | 2 |
params:
  - {name: a, type: string, default: "<&>", doc: "Either | or </td>"}
dtypes: {T: [f32]}
inputs: [{name: data, dtype: T, doc: "</main>"}]
outputs: [{name: out, dtype: T, shape: data}]
forward: {out: data}
gradient: {none: true, why: "<none>"}
examples:
  - {name: one, data: [1], out: [1]}
"""
KERNELS = RISKY + """\
  - {name: crash, params: {how: 1}, data: [1], out: [2]}
  - {name: refuse, params: {how: 2}, data: [1], out: [2]}
  - {name: behind, data: [3], out: [6]}
"""


def opgen(*args):
    return subprocess.run([OPGEN, *map(str, args)], cwd=ROOT, text=True,
                          capture_output=True, check=False)


def docs(*args):
    done = opgen("docs", *args)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def section(text, title):
    """The text below a heading, up to the next of its level."""
    match = re.search(rf"(?ms)^(#+) {re.escape(title)}\n(.*?)(?=^\1 |^<a|\Z)",
                      text)
    assert match, f"no `{title}` in\n{text}"
    return match[2]


# ------------------------------------------------------------------------ HTML

class Page(html.parser.HTMLParser):
    """Checks that elements nest, and collects the references of a page."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.path, self.open, self.links, self.ids = path, [], [], set()
        self.loaded, self.text, self.seen = [], {}, []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open, f"{path.name}: open at the end: {self.open}"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.seen.append((tag, attrs))
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        if tag == "script":
            self.loaded.append(attrs["src"])
        if tag == "link":
            self.loaded.append(attrs["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (
            f"{self.path.name}:{self.getpos()}: </{tag}> in {self.open}")
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            key = self.open[-1]
            self.text[key] = self.text.get(key, "") + data


def site(folder, *args):
    out = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "site"
    docs(folder, "--site", out, *args)
    return out, {p.name: Page(p) for p in sorted(out.glob("*.html"))}


OUT, PAGES = site(SOURCE, "--plugin", BUILT)


def the_site_is_well_formed():
    assert len(PAGES) > 10, list(PAGES)
    for page in PAGES.values():
        tags = [tag for tag, _ in page.seen]
        for tag in ("html", "head", "title", "body", "main", "h1"):
            tap.equal(tags.count(tag), 1, f"{page.path.name}: {tag}")


def links_of_the_site_lead_somewhere():
    for page in PAGES.values():
        for link in page.links:
            target, _, place = link.partition("#")
            assert target in PAGES, f"{page.path.name}: {link}"
            assert not place or place in PAGES[target].ids, link
    linked = {link for page in PAGES.values() for link in page.links}
    tap.equal(sorted(set(PAGES) - linked), [], "pages that nothing leads to")


def the_site_needs_nothing_from_elsewhere():
    for page in PAGES.values():
        for name in page.loaded:
            assert (OUT / name).is_file(), f"{page.path.name}: {name}"
    for name in ("style.css", "search.js"):
        text = (OUT / name).read_text()
        assert not re.search(r"https?:|@import|url\(|fetch|import ", text)


def the_site_suits_phones_and_the_dark():
    for page in PAGES.values():
        assert ("meta", {"name": "viewport", "content":
                         "width=device-width, initial-scale=1"}) in page.seen
    style = (OUT / "style.css").read_text()
    assert "prefers-color-scheme: dark" in style
    assert "@media (max-width:" in style
    tap.equal(style.count("{"), style.count("}"), "braces")


def index_of(folder):
    """The index as data: one object per line, keys without quotes."""
    script = (folder / "search.js").read_text()
    body = script[script.index("["):script.index("];") + 1]
    body = re.sub(r"(?m)^  \{name: (.*), url: (.*), summary: (.*), text: "
                  r"(\".*\")\},$",
                  r'{"name": \1, "url": \2, "summary": \3, "text": \4},', body)
    return json.loads(re.sub(r",\s*\]$", "]", body.strip()))


def the_index_holds_every_operator():
    index = index_of(OUT)
    names = re.findall(r"(?m)^op: (\w+)",
                       "".join(p.read_text() for p in
                               pathlib.Path(SOURCE).glob("*.yaml")))
    tap.equal(sorted(set(names) - {e["name"] for e in index}), [])
    tap.equal(sorted(e["url"] for e in index),
              sorted(set(PAGES) - {"index.html"}))
    for entry in index:
        assert entry["url"] in PAGES, entry
    sigmoid = next(e for e in index if e["name"] == "sigmoid")
    assert "Logistic" in sigmoid["summary"] and "exp(-data)" in sigmoid["text"]


def the_search_finds():
    node = shutil.which("node")
    if not node:
        raise tap.Skip("node is not installed")
    program = """
const {search} = require(process.argv[1]);
for (const query of process.argv.slice(2))
  console.log(JSON.stringify(search(query).map(page => page.name)));
"""
    queries = ["quadratic", "QUAD", "logistic function", "curvature",
               "add_grad", "nothing of the kind", "", "  "]
    lines = tap.output([node, "-e", program, OUT / "search.js",
                        *queries]).splitlines()
    found = dict(zip(queries, map(json.loads, lines)))
    tap.equal(found["quadratic"][:2], ["quadratic", "quadratic_grad"])
    tap.equal(found["QUAD"][0], "quadratic")
    tap.equal(found["logistic function"], ["sigmoid"])
    tap.equal(sorted(found["curvature"]), ["smooth_l1", "smooth_l1_grad"])
    tap.equal(found["add_grad"][0], "add_grad")
    for nothing in queries[-3:]:
        tap.equal(found[nothing], [], repr(nothing))


def text_is_not_taken_for_markup():
    folder = LAB.write(HOSTILE)
    out, pages = site(folder)
    page = pages["hostile.html"]
    tags = [tag for tag, _ in page.seen]
    tap.equal(page.loaded, ["style.css", "search.js"])
    for tag in ("script", "main"):
        tap.equal(tags.count(tag), 1, tag)
    for tag in ("b", "i"):
        tap.equal(tags.count(tag), 0, tag)
    text = page.path.read_text()
    for shown in ("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"
                  " *here*.", "<code>a &lt; b | c</code>",
                  "<strong>bold</strong>", "<em>soft</em>",
                  '<a href="https://tenon.example/x">here</a>',
                  "[there](javascript:alert(1)), a lone * and a lone `tick.",
                  "<li>two goes on\nbelow</li>",
                  "&lt;i&gt;code&lt;/i&gt; | **kept**",
                  "<td><code>x|y</code></td><td>2</td>",
                  "<strong>A heading of the author&#x27;s</strong>".replace(
                      "&#x27;", "'"), "None: &lt;none&gt;.",
                  "<td>Either | or &lt;/td&gt;.</td>"):
        assert shown in text, f"{shown} is not in\n{text}"
    tap.equal(index_of(out)[0]["summary"],
              'Less <script>alert(1)</script> & "more" *here*')


def random_text(dice):
    """Markdown, and text that looks like it."""
    pieces = ["a", "word", " ", " ", "\n", "\n\n", "*", "**", "`", "```", "[",
              "](", ")", "x.html", "|", "|---|", "- ", "# ", "\\", "<", ">",
              "&", '"', "<b>", "</p>", "~", "\u00e9", "1. "]
    return "".join(dice.choice(pieces) for _ in range(dice.randint(1, 60)))


def any_text_gives_a_well_formed_page():
    dice = random.Random(4)
    documents = []
    for i in range(150):
        text = random_text(dice).replace("\n", "\n  ")
        documents.append(HOSTILE[:HOSTILE.index("doc: |")].replace(
            "op: hostile", f"op: op{i}") + f"doc: |2\n  .{text}\n"
            + HOSTILE[HOSTILE.index("params:"):])
    _, pages = site(LAB.write("---\n".join(documents)))
    tap.equal(len(pages), 151)
    for page in pages.values():
        tap.equal(page.loaded, ["style.css", "search.js"], page.path.name)


# -------------------------------------------------------------------- examples

def examples_are_computed():
    text = docs(SOURCE, "--plugin", BUILT)
    page = section(text, "elemwise.sigmoid")
    assert "Computed with `elemwise.so`." in page
    zero = section(page, "zero")
    assert "gives, computed:\n\n```\nout       = [[0.5, 0.5], [0.5, 0.5]]\n" \
        "grad.data = [[1, 2], [-1, 0]]\n```" in zero, zero
    far = section(page, "far_out")
    # exp(-200) is 1.4e-87, less than any f32.
    assert "out  = [0, 1]" in far, far
    assert "gives, as the manifest states" not in text


def without_a_plugin_the_manifest_speaks():
    text = docs(SOURCE)
    assert "computed" not in text.lower()
    zero = section(section(text, "elemwise.sigmoid"), "zero")
    assert "gives, as the manifest states:\n\n```\n" \
        "out       = [[0.5, 0.5], [0.5, 0.5]]\n" in zero, zero


def a_plugin_beside_the_manifests_is_found():
    folder = LAB.write(KERNELS)
    LAB.build(folder, RISKY_C)
    page = section(docs(folder), "lab.risky")
    fine = section(page, "fine")
    assert "gives, computed:\n\n```\nout  = [2, 5]\n```" in fine, fine
    assert "gives, computed:\n\n```\nout  = [6]\n```" in section(page, "behind")
    crash = section(page, "crash")
    assert "as the manifest states" in crash and "ended the process" in crash
    assert "Aborted" in crash, crash
    assert "no, thanks" in section(page, "refuse")
    assert "The others were computed with `lab.so`." in page
    assert "Computed with" not in page, page


def an_example_that_is_not_true_is_an_error():
    folder = LAB.write(KERNELS.replace("out: [6]", "out: [7]"))
    LAB.build(folder, RISKY_C)
    target = folder / "x.md"
    done = opgen("docs", folder, "-o", target)
    tap.equal(done.returncode, 1)
    assert ("op.yaml: example `behind` of `risky`: `out` differs from the "
            "result of lab.so") in done.stderr, done.stderr
    assert not target.exists()


def a_file_that_is_no_plugin_is_said():
    folder = LAB.write(KERNELS)
    (folder / "lab.so").write_text("nothing")
    page = docs(folder)
    assert "It could not be computed" in page, page
    assert "omputed with" not in page, page


def a_file_that_is_named_and_no_plugin_is_an_error():
    folder = LAB.write(KERNELS)
    (folder / "text.so").write_text("nothing")
    target = folder / "x.md"
    for name, why in (("text.so", "is not a shared object"),
                      ("none.so", "no such file")):
        for args in (["-o", target], ["--site", folder / "site"]):
            done = opgen("docs", folder, "--plugin", folder / name, *args)
            tap.equal((done.returncode, done.stdout), (1, ""))
            assert f"{name}: nothing can be computed with it" in done.stderr
            assert why in done.stderr, done.stderr
    assert not target.exists() and not (folder / "site").exists()


def a_plugin_of_other_manifests_is_an_error():
    """Also an older build of these: its results are not theirs."""
    folder, target = LAB.write(KERNELS), FOLDER / "other.md"
    LAB.build(folder, RISKY_C)
    renamed = LAB.write(KERNELS)
    (renamed / "plugin.yaml").write_text(
        (folder / "plugin.yaml").read_text().replace("lab", "bench"))
    (folder / "op.yaml").write_text(KERNELS.replace(
        "summary: ", "interface: 2\nsummary: "))
    for manifests, why in (
            (SOURCE, "this is the plugin `lab`, not `elemwise`"),
            (renamed, "this is the plugin `lab`, not `bench`"),
            (folder, "it was not built from the manifests of `lab` given "
             "here; build it again")):
        done = opgen("docs", manifests, "--plugin", folder / "lab.so", "-o",
                     target)
        tap.equal((done.returncode, done.stdout), (1, ""), why)
        assert f"lab.so: nothing can be computed with it: {why}\n" in (
            done.stderr), done.stderr
        assert not target.exists(), why
    page = section(docs(folder), "lab.risky")
    tap.equal(page.count("It could not be computed: it was not built from the "
                         "manifests of"), 4, page)
    assert "omputed with" not in page and "gives, computed" not in page


# -------------------------------------------------------------------- Markdown

def links_in_markdown_lead_somewhere():
    text = docs(SOURCE)
    places = re.findall(r'<a id="([^"]+)"></a>', text)
    links = re.findall(r"\]\(#([^)]+)\)", text)
    tap.equal(sorted(links), sorted(places))
    assert len(places) > 10


def kernels_for_others_are_listed():
    folder = ROOT / "tests/opgen/ok/kernels_for"
    with_it = ("--with", ROOT / "tests/opgen/ok/convolution")
    text = section(docs(folder, *with_it), "Kernels for nn.convolution@1")
    tap.equal(text.count("| `cudnn.convolution.cuda` | "), 2, text)
    assert "| f16 bf16 f32 f64 | write add | `rank(kernel) >= 2`" in text, text
    _, pages = site(folder, *with_it)
    tap.equal(list(pages), ["index.html"])
    assert "Kernels for nn.convolution@1" in pages["index.html"].text["h2"]
    tap.equal("Operators" in pages["index.html"].text["h2"], False)


def sections_stand_in_one_order():
    order = ["Formula", "Parameters", "Inputs", "Outputs", "States",
             "Requirements", "Gradient", "Examples", "Kernels"]
    for folder in (SOURCE, "tests/opgen/ok/operands",
                   "tests/opgen/ok/convolution", "tests/opgen/ok/family"):
        for page in docs(folder).split("<a id=")[1:]:
            titles = re.findall(r"(?m)^### (.*)$", page)
            tap.equal(titles, [t for t in order if t in titles], page[:60])
            for title in ("Inputs", "Outputs", "Gradient"):
                assert title in titles, f"{title}: {page[:60]}"


def kernels_of_formulas_are_for_both_devices():
    table = section(section(docs(SOURCE), "elemwise.quadratic"), "Kernels")
    rows = [line.split(" | ")[:3] for line in table.splitlines() if "`" in line]
    tap.equal(rows, [[f"| `elemwise.quadratic.{device}`", computes, device]
                     for computes in ("forward", "gradient")
                     for device in ("cpu", "cuda")])


def what_formulas_compute_in_is_told():
    folder = FOLDER / "wide"
    folder.mkdir()
    text = (pathlib.Path(SOURCE) / "quadratic.yaml").read_text()
    (folder / "quadratic.yaml").write_text(
        text.replace("  T: [f16", "  compute: {T: f64}\n  T: [f16"))
    page = docs(folder / "quadratic.yaml")
    assert "`T` is one of f16 bf16 f32 f64, computed in f64.\n" in page, page


def one_file_is_written_once():
    target = FOLDER / "once.md"
    docs(SOURCE, "-o", target)
    tap.equal(target.read_text(), docs(SOURCE))
    before = target.stat().st_mtime_ns
    docs(SOURCE, "-o", target)
    tap.equal(target.stat().st_mtime_ns, before, "time")


def a_file_needs_no_plugin_beside_it():
    folder = FOLDER / "alone"
    folder.mkdir()
    shutil.copy(pathlib.Path(SOURCE) / "quadratic.yaml", folder)
    page = docs(folder / "quadratic.yaml")
    assert page.startswith("# alone\n\n- [quadratic](#op-quadratic): "), page
    assert "## alone.quadratic\n" in page, page
    docs(folder / "quadratic.yaml", "--site", folder / "site")
    assert (folder / "site/quadratic.html").exists()


def a_link_leads_to_the_file_still():
    folder = FOLDER / "linked"
    folder.mkdir()
    target, link = folder / "page.md", folder / "link.md"
    target.write_text("old")
    link.symlink_to("page.md")
    docs(SOURCE, "-o", link)
    assert link.is_symlink()
    tap.equal(target.read_text(), docs(SOURCE))
    tap.equal(sorted(each.name for each in folder.iterdir()),
              ["link.md", "page.md"])


tap.run([
    the_site_is_well_formed, links_of_the_site_lead_somewhere,
    the_site_needs_nothing_from_elsewhere, the_site_suits_phones_and_the_dark,
    the_index_holds_every_operator, the_search_finds,
    text_is_not_taken_for_markup, any_text_gives_a_well_formed_page,
    examples_are_computed,
    without_a_plugin_the_manifest_speaks,
    a_plugin_beside_the_manifests_is_found,
    an_example_that_is_not_true_is_an_error, a_file_that_is_no_plugin_is_said,
    a_file_that_is_named_and_no_plugin_is_an_error,
    a_plugin_of_other_manifests_is_an_error,
    links_in_markdown_lead_somewhere, kernels_for_others_are_listed,
    sections_stand_in_one_order,
    kernels_of_formulas_are_for_both_devices,
    what_formulas_compute_in_is_told, one_file_is_written_once,
    a_file_needs_no_plugin_beside_it,
    a_link_leads_to_the_file_still])
