#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen fmt`: its output, and a proof that it never changes a meaning.

    test_fmt.py OPGEN VARIANTS

fmt/NAME.yaml is a manifest, fmt/NAME.expected its canonical form; the
second was written by hand. The properties are tried on every manifest of the
repository and on variants of them: keys in another order, comments, other
indentation, other spacing, lines of Windows. VARIANTS is how many of each plugin.
"""

import os
import pathlib
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import cases  # noqa: E402
import tap  # noqa: E402

OPGEN = str(pathlib.Path(sys.argv[1]).resolve())
N_VARIANTS = int(sys.argv[2])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


def opgen(*args, cwd=FOLDER):
    return subprocess.run([OPGEN, *map(str, args)], cwd=cwd, text=True,
                          capture_output=True, check=False,
                          env={**os.environ, "NO_COLOR": "1"})


def formatted(text, name="x.yaml"):
    """The formatted text, and the messages."""
    path = FOLDER / name
    path.write_bytes(text.encode())
    done = opgen("fmt", name)
    return path.read_bytes().decode(), done


def plugins():
    """Folders of plugins that have no mistakes."""
    listed = subprocess.run(["git", "ls-files", "*plugin.yaml"], cwd=ROOT,
                            text=True, capture_output=True, check=False)
    names = listed.stdout.split() or [
        str(p.relative_to(ROOT)) for p in ROOT.glob("plugins/*/plugin.yaml")]
    return [ROOT / pathlib.Path(n).parent for n in names
            if "/err/" not in n and "/mend/" not in n]


def copy(folder):
    """The manifests of a plugin, in a new folder."""
    target = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    for path in folder.glob("*.yaml"):
        shutil.copy(path, target)
    return target


def extra(folder):
    args = folder / "args"
    if not args.exists():
        targets = {name for text in texts_of(folder).values()
                   for name in re.findall(r"(?m)^kernels_for: (\w+)\.", text)}
        return [word for name in sorted(targets)
                for word in ("--with", str(ROOT / "plugins" / name))]
    return [str(folder / a) if a.startswith("..") else a
            for a in args.read_text().split()]


def generated(folder, origin):
    """The generated files of a plugin, without the places of manifests in
    comments. For operators that are bound to libraries: the output of `show`."""
    if any("binding:" in text for text in texts_of(folder).values()):
        done = opgen("show", "plugin.yaml", cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout
    out = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    done = opgen("generate", "plugin.yaml", "-o", out, *extra(origin),
                 cwd=folder)
    assert done.returncode == 0, done.stderr
    where = re.compile(r"/\* \w+\.yaml:\d+:.*?\*/", re.DOTALL)
    whole = {p.name: where.sub(lambda m: re.sub(r"\s+(\* )?", " ", m.group()),
                               p.read_text()) for p in out.iterdir()}
    return {name: re.sub(r"\.yaml:\d+", "", text)
            for name, text in whole.items()}


# ------------------------------------------------------------------- variants

def blocks(text):
    """A text as its entries at the left edge, each with its lines."""
    found = []
    for line in text.splitlines(keepends=True):
        if line[0] in " \n#" and found or found and line.startswith("- "):
            found[-1] += line
        else:
            found.append(line)
    return found


def shuffled(text, dice):
    pages = []
    for page in re.split(r"(?m)^---.*\n", text):
        entries = blocks(page)
        dice.shuffle(entries)
        pages.append("".join(entries))
    return "---\n".join(pages)


def in_text(lines):
    """Which lines belong to a `|` text."""
    inside, depth, result = False, 0, []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if inside and line.strip() and indent <= depth:
            inside = False
        result.append(inside)
        if not inside and re.search(r"[|>][+-]?\s*(#.*)?$", line):
            inside, depth = True, indent
    return result


def commented(text, dice):
    lines, result = text.splitlines(), []
    for number, (line, inside) in enumerate(zip(lines, in_text(lines))):
        indent = line[:len(line) - len(line.lstrip())]
        if not inside and dice.random() < 0.2:
            result.append(f"{indent}# above {number}")
        if not inside and line and dice.random() < 0.2 and "#" not in line:
            line += " " * dice.randint(1, 9) + f"# behind {number}"
        result.append(line)
    return "\n".join(result) + "\n"


def spaced(text, dice):
    lines, result = text.splitlines(), []
    for line, inside in zip(lines, in_text(lines)):
        prose = '"' in line or re.match(r" *(summary|doc):", line)
        if not inside and not prose and "#" not in line:
            line = re.sub(r"([\[{])(?=\S)",
                          lambda m: m[1] + " " * dice.randint(0, 2), line)
            line = re.sub(r", (?=\w+: |\[)",
                          lambda _: "," + " " * dice.randint(1, 3), line)
            line += " " * dice.randint(0, 2)
        if not inside and dice.random() < 0.1:
            result += [""] * dice.randint(1, 3)
        result.append(line)
    return "\n".join(result) + "\n"


def indented(text, _dice):
    """Indented twice as far; a text keeps its own indentation."""
    lines, result, base = text.splitlines(keepends=True), [], 0
    for line, inside in zip(lines, in_text(lines)):
        base = base if inside else 0
        if inside and line.strip():
            base = base or len(line) - len(line.lstrip())
            line = " " * base + line
        elif not inside:
            line = re.sub(r"^( *)(- )?", lambda m: m[1] * 2 + (
                "-   " if m[2] else ""), line)
        result.append(line)
    return "".join(result)


def dashes_at_the_edge(text, _dice):
    """Lists with the indentation of their keys."""
    if re.search(r"(?m)^    ", text):
        return text
    lines = text.splitlines(keepends=True)
    return "".join(line if inside else re.sub(r"^  - ", "- ", line)
                   for line, inside in zip(lines, in_text(lines)))


def of_windows(text, _dice):
    return text.replace("\n", "\r\n")


VARIANTS = [shuffled, commented, spaced, indented, dashes_at_the_edge,
            of_windows]


# ---------------------------------------------------------------------- tests

def becomes(case):
    text, done = formatted(case.read_text())
    assert done.returncode == 0 and not done.stderr, done.stderr
    tap.equal(text, case.with_suffix(".expected").read_text(), case.name)
    again, _ = formatted(text)
    tap.equal(again, text, "formatted twice")


def check_folder(folder, origin, wanted, comments):
    names = sorted(p.name for p in folder.glob("*.yaml"))
    done = opgen("fmt", *names, cwd=folder)
    assert done.returncode == 0, done.stderr
    once = {n: (folder / n).read_text() for n in names}
    tap.equal(generated(folder, origin), wanted, "what is generated")
    tap.equal(sorted(c.strip() for n in names
                     for c in COMMENT.findall(once[n])), comments, "comments")
    opgen("fmt", *names, cwd=folder)
    tap.equal({n: (folder / n).read_text() for n in names}, once, "twice")
    checked = opgen("fmt", "--check", *names, cwd=folder)
    tap.equal((checked.returncode, checked.stdout), (0, ""), "--check")


def texts_of(folder):
    return {p.name: p.read_text() for p in folder.glob("*.yaml")}


def comments_of(texts):
    return sorted(c.strip() for t in texts.values()
                  for c in COMMENT.findall(t))


def keeps_its_meaning(origin):
    texts = texts_of(origin)
    wanted = generated(origin, origin)
    check_folder(copy(origin), origin, wanted, comments_of(texts))


def variants_keep_it_too(origin):
    wanted = generated(origin, origin)
    for seed in range(N_VARIANTS):
        dice = random.Random(seed)
        folder = copy(origin)
        for path in folder.glob("*.yaml"):
            text = path.read_text()
            for variant in dice.sample(VARIANTS, 3):
                changed = variant(text, dice)
                text = changed if "\r" not in text else text
            path.write_bytes(text.encode())
        kept = comments_of(texts_of(folder))
        tap.equal(generated(folder, origin), wanted, f"variant {seed}")
        check_folder(folder, origin, wanted, kept)


def variants_of_one_text_become_one_text():
    text = (ROOT / "plugins/elemwise/quadratic.yaml").read_text()
    text = re.sub(r" *#.*", "", text)
    expected, _ = formatted(text)
    for seed in range(5 * N_VARIANTS):
        dice = random.Random(seed)
        for variant in (shuffled, indented, dashes_at_the_edge, of_windows):
            found, _ = formatted(variant(text, dice))
            tap.equal(found, expected, variant.__name__)


def mistakes_are_kept_as_they_are():
    """A file that is no YAML is left alone; any other becomes a fixed point."""
    folder = tempfile.mkdtemp(dir=FOLDER)
    cases.write_folders(HERE / "err", folder)
    for path in sorted(pathlib.Path(folder).glob("*/*.yaml")):
        if not path.is_file():
            continue
        before = path.read_bytes()
        (FOLDER / "x.yaml").write_bytes(before)
        done = opgen("fmt", "x.yaml")
        after = (FOLDER / "x.yaml").read_bytes()
        assert "report it" not in done.stderr, f"{path}: {done.stderr}"
        if done.returncode != 0:
            tap.equal(after, before, str(path))
            assert "error[E000" in done.stderr, f"{path}: {done.stderr}"
            continue
        again, _ = formatted(after.decode())
        tap.equal(again, after.decode(), str(path))


def check_prints_names_and_writes_nothing():
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    (folder / "good.yaml").write_text("opgen: 1\nop: x\n")
    (folder / "bad.yaml").write_text("op: x\nopgen: 1\n")
    done = opgen("fmt", "--check", "good.yaml", "bad.yaml", cwd=folder)
    tap.equal((done.returncode, done.stdout), (1, "bad.yaml\n"))
    tap.equal((folder / "bad.yaml").read_text(), "op: x\nopgen: 1\n")


def a_file_in_form_is_not_touched():
    path = FOLDER / "x.yaml"
    path.write_text("opgen: 1\nop: x\n")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    tap.equal(opgen("fmt", "x.yaml").returncode, 0)
    tap.equal((path.stat().st_mtime_ns, path.stat().st_ino), before)


def mode_and_links_are_kept():
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    path, link = folder / "x.yaml", folder / "link.yaml"
    path.write_text("op: x\nopgen: 1\n")
    path.chmod(0o640)
    link.symlink_to("x.yaml")
    tap.equal(opgen("fmt", "link.yaml", cwd=folder).returncode, 0)
    assert link.is_symlink()
    tap.equal(stat.S_IMODE(path.stat().st_mode), 0o640)
    tap.equal(path.read_text(), "opgen: 1\nop: x\n")
    tap.equal(sorted(os.listdir(folder)), ["link.yaml", "x.yaml"])


def a_missing_file_is_said():
    done = opgen("fmt", "none.yaml")
    tap.equal(done.returncode, 1)
    assert "none.yaml: No such file" in done.stderr, done.stderr


def what_yaml_allows_and_nobody_writes_is_refused():
    for text in ("? op\n: x\n", "? a\n  b\n: x\n"):
        found, done = formatted(text)
        tap.equal((found, done.returncode), (text, 1))
        assert "a key after `?`" in done.stderr, done.stderr


def texts_keep_their_end():
    """A file that ends within a text, and texts that do not fold."""
    for before, after in (
            ("op: x\ndoc: |\n    a\n\n    b",
             "op: x\ndoc: |-\n  a\n\n  b\n"),
            ("op: x\ndoc: |+\n  a\n\n\n", "op: x\ndoc: |+\n  a\n\n\n"),
            ("op: x\na: [b,\n  c\n\n   d]\n",
             "op: x\na: [b,\n  c\n\n   d]\n"),
            ('op: x\na: {b: "1\\\n  2"}\n',
             'op: x\na: {b: "1\\\n  2"}\n'),
            ("op: x\na: {doc: b,c,  d}\n", "op: x\na: {doc: b, c, d}\n"),
            ("op: x\na: {z, doc: b}\n", "op: x\na: {z , doc: b}\n")):
        found, done = formatted(before)
        tap.equal(found, after, done.stderr)
        tap.equal(formatted(found)[0], after, "twice")


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "plugins/*.yaml", "examples/*.yaml"], cwd=ROOT,
        text=True, capture_output=True, check=False).stdout.split()
    if not listed:
        raise tap.Skip("no git checkout")
    return listed


def ours_are_in_form():
    done = opgen("fmt", "--check", *tracked(), cwd=ROOT)
    tap.equal((done.returncode, done.stdout), (0, ""))


def those_in_the_docs_are_in_form():
    pages = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md",
             *sorted(ROOT.glob("examples/**/README.md"))]
    for page in pages:
        for text in re.findall(r"(?ms)^```yaml\n(.*?)^```$",
                               page.read_text()):
            if text.startswith("opgen: 1"):
                tap.equal(formatted(text)[0], text, page.name)


CASES = [(f"fmt/{path.name} becomes what is expected",
          lambda path=path: becomes(path))
         for path in sorted(HERE.glob("fmt/*.yaml"))]
for each in plugins():
    label = each.relative_to(ROOT)
    CASES.append((f"{label} keeps its meaning",
                  lambda each=each: keeps_its_meaning(each)))
    CASES.append((f"variants of {label} keep it too",
                  lambda each=each: variants_keep_it_too(each)))

tap.run(CASES + [
    variants_of_one_text_become_one_text, mistakes_are_kept_as_they_are,
    check_prints_names_and_writes_nothing, a_file_in_form_is_not_touched,
    what_yaml_allows_and_nobody_writes_is_refused, texts_keep_their_end,
    mode_and_links_are_kept, a_missing_file_is_said, ours_are_in_form,
    those_in_the_docs_are_in_form])
