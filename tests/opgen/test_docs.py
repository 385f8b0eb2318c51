#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen docs`: pages in one file or a folder, and the examples on them.

    test_docs.py OPGEN PLUGIN_SO PLUGIN_FOLDER CC
"""

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


# ---------------------------------------------------------------------- folder

def folder_of(source, *args):
    """{file: text} of the folder that --pages writes."""
    out = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "pages"
    docs(source, "--pages", out, *args)
    return {path.name: path.read_text() for path in sorted(out.iterdir())}


PAGES = folder_of(SOURCE, "--plugin", BUILT)


def without_code(text):
    """The text in which Markdown is markup."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    return re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)", "x", text,
                  flags=re.S)


def the_folder_has_a_page_for_each_operator():
    names = re.findall(r"(?m)^op: (\w+)",
                       "".join(p.read_text() for p in
                               pathlib.Path(SOURCE).glob("*.yaml")))
    assert len(names) > 10, names
    tap.equal(sorted(set(names) - {name.removesuffix(".md") for name in PAGES}),
              [])
    for name, text in PAGES.items():
        if name == "README.md":
            assert text.startswith("# elemwise\n"), text[:40]
        else:
            assert text.startswith(
                f"# elemwise.{name[:-3]}\n".replace("_", "\\_")), text[:40]
        assert text.endswith("\n") and not text.endswith("\n\n"), name


def the_list_links_to_each_page_once():
    links = re.findall(r"\]\(([^)]+)\)", PAGES["README.md"])
    tap.equal(sorted(links), sorted(set(PAGES) - {"README.md"}))
    usual, gradients = PAGES["README.md"].split("## For gradients")
    assert "[sigmoid](sigmoid.md) | Logistic" in usual, usual
    assert "[add_grad](add_grad.md)" in gradients, gradients


def the_page_of_a_folder_is_that_of_the_file():
    text = section(docs(SOURCE, "--plugin", BUILT), "elemwise.sigmoid")
    tap.equal(PAGES["sigmoid.md"].split("\n", 2)[2].strip(),
              re.sub(r"(?m)^#(#+ )", r"\1", text).strip())


def pages_are_written_only_if_they_differ():
    out = FOLDER / "twice"
    docs(SOURCE, "--pages", out)
    before = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    docs(SOURCE, "--pages", out)
    tap.equal({p.name: p.stat().st_mtime_ns for p in out.iterdir()}, before)


def the_folder_and_the_file_exclude_each_other():
    done = opgen("docs", SOURCE, "--pages", FOLDER / "a", "-o", FOLDER / "b")
    tap.equal(done.returncode, 2, done.stderr)
    assert "`-o` and `--pages` exclude each other" in done.stderr, done.stderr


def text_of_a_manifest_is_no_markup():
    page = folder_of(LAB.write(HOSTILE))["hostile.md"]
    for shown in (r"Less \<script\>alert(1)\</script\> & "
                  r"""more" \*here\*.""".replace("more", '"more'),
                  "A &lt;b>tag&lt;/b>, `a < b | c`, **bold**, *soft*,",
                  "[here](https://tenon.example/x)",
                  "a lone * and a lone `tick.", "- two goes on\n  below",
                  "<i>code</i> | **kept**", "| `x\\|y` | 2 |",
                  "**A heading of the author's**", "None: \\<none\\>.",
                  "| Either \\| or &lt;/td>. |", "| &lt;/main>. |", "`<&>`"):
        assert shown in page, f"{shown} is not in\n{page}"
    assert not re.search(r"(?<!\\)<", without_code(page)), page


def random_text(dice):
    """Markdown, and text that looks like it."""
    pieces = ["a", "word", " ", " ", "\n", "*", "**", "`", "``", "[", "](", ")",
              "x.html", "|", "- ", "\\|", "<", ">", "&", '"', "<b>", "</p>",
              "~", "\u00e9"]
    return "".join(dice.choice(pieces) for _ in range(dice.randint(1, 60)))


def code_of_line(line):
    """A line without its code, by the rule of CommonMark: a run of backticks
    ends at the next run of that length."""
    found, at = "", 0
    while at < len(line):
        run = re.compile("`+").match(line, at)
        if not run:
            found, at = found + line[at], at + 1
            continue
        end = re.compile(r"(?<!`)" + run[0] + r"(?!`)").search(line, run.end())
        at = end.end() if end else run.end()
    return found


def no_text_of_a_manifest_adds_a_tag():
    dice = random.Random(4)
    documents = []
    for i in range(150):
        text = random_text(dice).replace("\n", "\n  ")
        documents.append(HOSTILE[:HOSTILE.index("doc: |")].replace(
            "op: hostile", f"op: op{i}") + f"doc: |2\n  .{text}\n"
            + HOSTILE[HOSTILE.index("params:"):])
    pages = folder_of(LAB.write("---\n".join(documents)))
    tap.equal(len(pages), 151)
    for name, page in pages.items():
        for line in page.splitlines():
            assert not re.search(r"(?<!\\)<[a-z/]", code_of_line(line)), (
                f"{name}: {line}")


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
        for args in (["-o", target], ["--pages", folder / "pages"]):
            done = opgen("docs", folder, "--plugin", folder / name, *args)
            tap.equal((done.returncode, done.stdout), (1, ""))
            assert f"{name}: nothing can be computed with it" in done.stderr
            assert why in done.stderr, done.stderr
    assert not target.exists() and not (folder / "pages").exists()


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


def operators_are_listed_by_family():
    folder = FOLDER / "families"
    folder.mkdir()
    (folder / "plugin.yaml").write_text(
        "opgen: 1\nplugin: some\nrelease: 1\nsummary: Some\n"
        "license: Apache-2.0\noperators: [all.yaml]\n")
    families = {"b": "linear algebra", "x": None, "a": "sums",
                "c": "linear algebra"}
    (folder / "all.yaml").write_text("---\n".join(
        f"opgen: 1\nop: {name}\n{f'family: {family}' if family else ''}\n"
        "summary: Twice\ninputs: [{name: p, dtype: f32}]\n"
        "outputs: [{name: q, dtype: f32, shape: p}]\n"
        "forward: {q: 2*p}\ngradient: auto\n"
        for name, family in families.items()))
    lists = {"Linear algebra": ["b", "c"], "Sums": ["a"],
             "Without a family": ["x"]}
    page = docs(folder).partition("<a id=")[0]
    found = re.findall(r"(?m)^\*\*(.*)\*\*$|^- \[(\w+)\](?!.*gradients)", page)
    expected = [(part if i == 0 else "", part if i > 0 else "")
                for title, names in lists.items()
                for i, part in enumerate([title, *names])]
    tap.equal(found, expected, page)
    index = folder_of(folder)["README.md"].partition("\n## For gradients")[0]
    tap.equal(re.findall(r"(?m)^### (.*)$|^\| \[(\w+)\]", index), expected, index)
    assert "Family: linear algebra.\n" in docs(folder), docs(folder)


def kernels_for_others_are_listed():
    folder = ROOT / "tests/opgen/ok/kernels_for"
    with_it = ("--with", ROOT / "tests/opgen/ok/convolution")
    text = section(docs(folder, *with_it), "Kernels for nn.convolution@1")
    tap.equal(text.count("| `cudnn.convolution.cuda` | "), 2, text)
    assert "| f16 bf16 f32 f64 | write add | `rank(kernel) >= 2`" in text, text
    pages = folder_of(folder, *with_it)
    tap.equal(list(pages), ["README.md"])
    assert "## Kernels for nn.convolution@1\n" in pages["README.md"]
    tap.equal("## Operators" in pages["README.md"], False)


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
    assert page.startswith("# alone\n\n**Arithmetic**\n\n"
                           "- [quadratic](#op-quadratic): "), page
    assert "## alone.quadratic\n" in page, page
    docs(folder / "quadratic.yaml", "--pages", folder / "pages")
    assert (folder / "pages/quadratic.md").exists()


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
    the_folder_has_a_page_for_each_operator, the_list_links_to_each_page_once,
    the_page_of_a_folder_is_that_of_the_file,
    pages_are_written_only_if_they_differ,
    the_folder_and_the_file_exclude_each_other,
    text_of_a_manifest_is_no_markup, no_text_of_a_manifest_adds_a_tag,
    examples_are_computed,
    without_a_plugin_the_manifest_speaks,
    a_plugin_beside_the_manifests_is_found,
    an_example_that_is_not_true_is_an_error, a_file_that_is_no_plugin_is_said,
    a_file_that_is_named_and_no_plugin_is_an_error,
    a_plugin_of_other_manifests_is_an_error,
    links_in_markdown_lead_somewhere, operators_are_listed_by_family, kernels_for_others_are_listed,
    sections_stand_in_one_order,
    kernels_of_formulas_are_for_both_devices,
    what_formulas_compute_in_is_told, one_file_is_written_once,
    a_file_needs_no_plugin_beside_it,
    a_link_leads_to_the_file_still])
