# SPDX-License-Identifier: Apache-2.0
"""The pages are true: code is a file's, output is a command's.

    test_docs.py SOURCE_ROOT BUILD_ROOT

A comment above a fence states its kind. `<!-- file: PATH -->`: the text is in
that file, word for word. `<!-- run -->`: a session; each `$ command` is run by
a shell, and must print what follows (but for blanks that end a line); `<!--
run: MODULE -->` where Python has that module. A session sees a built copy of
examples/author, in it those of examples/kernel and examples/rows, copies of
examples/zlib and examples/libm, the programs of examples/host, and one that
learns digits. `<!-- start -->`: a session as a newcomer has it. The fences of a
page begin in an empty folder, `cd` lasts, and no path of Tenon has a blank.
`<!-- start: quiet -->`: the same, and the output is not compared.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from installed import Installed  # noqa: E402

SOURCE, BUILD = (pathlib.Path(each) for each in sys.argv[1:3])
SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
TENON = Installed(BUILD, FOLDER)
PROJECT = FOLDER / "author"

PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
FENCE = re.compile(r"^<!-- (file|run|start)(?:: (\S+))? -->\n```\w*\n(.*?)^```$",
                   re.S | re.M)
SESSION = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
PLACE = re.compile(r"`((?:core|sdk|plugins|tools|bindings|tests|bench|docs|"
                   r"examples)/"
                   r"[\w/.-]+)`")


def is_of_file(name, text):
    assert text in (SOURCE / name).read_text(), (
        f"{name} does not hold these lines:\n{text}")


def is_printed(module, text):
    if module and subprocess.run(["python3", "-c", f"import {module}"],
                                 capture_output=True, check=False,
                                 env=TENON.environment()).returncode:
        raise tap.Skip(f"python3 has no {module}")
    for command, expected in SESSION.findall(text):
        found = TENON.run("bash", "-c", command, cwd=PROJECT)
        tap.equal(re.sub(r" +$", "", found, flags=re.M), expected, command)


class Newcomer:
    """The session of one page, in a folder of its own."""

    def __init__(self, page):
        self.folder = FOLDER / f"start-{page.stem}"
        self.folder.mkdir()
        self.at = self.folder

    def environment(self):
        tenon = FOLDER / "tenon"
        if not tenon.exists():
            tenon.symlink_to(TENON.root)
        return TENON.environment() | {
            "PATH": f"{tenon / 'bin'}:{TENON.environment()['PATH']}",
            "PKG_CONFIG_PATH": str(tenon / "lib" / "pkgconfig")}

    def holds(self, quiet, text):
        last = FOLDER / "last-folder"
        for command, expected in SESSION.findall(text):
            found = tap.output(
                ["bash", "-ec", f"{command}\npwd >{last}"],
                env=self.environment(), cwd=self.at)
            self.at = pathlib.Path(last.read_text().strip())
            if not quiet:
                tap.equal(re.sub(r" +$", "", found, flags=re.M), expected,
                          command)


def fences():
    """One case per marked fence of every page."""
    cases = []
    for page in PAGES:
        session = []
        for kind, name, text in FENCE.findall(page.read_text()):
            title = f"{page.name}: {kind} {text.splitlines()[0]}"
            holds = is_of_file if kind == "file" else is_printed
            if kind == "start":
                session = session or [Newcomer(page)]
                holds = session[0].holds
            cases.append((title.replace("#", ""),
                          lambda h=holds, n=name, t=text: h(n, t)))
    return cases


def files_that_pages_name_exist():
    for page in PAGES:
        for place in PLACE.findall(page.read_text()):
            assert (SOURCE / place).exists(), f"{page.name}: {place}"


KEY = re.compile(r'\{\s*"(\w+)",\s*([SLM |]+),\s*(true|false|must),')
ROW = re.compile(r"^\| `(\w+)` \| ([a-z ]+) \| (yes|) ?\|", re.M)
FORMS = {"S": "value", "L": "list", "M": "mapping"}


def schema_keys():
    """Of each mapping: its keys, their values, and whether they are
    required."""
    text = (SOURCE / "sdk/manifest/schema.c").read_text()
    text = text[:text.index("const tnm_schema ")]
    parts = re.split(r"static const tnm_key (\w+)_keys\[\] =|"
                     r"#define (OPERATOR_KEYS)\(must\)", text)
    found = {}
    for i in range(1, len(parts), 3):
        body = re.sub(r"\{\s*\\?\s*\"", '{"', parts[i + 2])
        found[parts[i] or parts[i + 1]] = [
            (name, " or ".join(FORMS[form] for form in forms.split(" | ")),
             "" if needed == "false" else "yes")
            for name, forms, needed in KEY.findall(body)]
    found["operator"] += found.pop("OPERATOR_KEYS")
    del found["member"]
    return found


def keys_of_manifests_are_those_of_the_schema():
    page = (SOURCE / "docs/reference/manifest.md").read_text()
    told = dict(re.findall(r"^<!-- keys: (\w+) -->\n(.*?)(?=^#|^<!--)", page,
                           re.S | re.M))
    schema = schema_keys()
    tap.equal(sorted(told), sorted(schema), "mappings")
    for name, keys in schema.items():
        assert keys, name
        tap.equal(ROW.findall(told[name]), keys, name)


def functions_of_formulas_are_those_of_the_language():
    page = (SOURCE / "docs/reference/manifest.md").read_text()
    for kind, file, pattern in (
            ("formulas", "sdk/algebra/function.c", r"\[TNM_F_\w+\] = \{\"(\w+)\""),
            ("rules", "sdk/manifest/shape.c", r"\{\"(\w+)\", \d, TN_NODE_")):
        known = re.findall(pattern, (SOURCE / file).read_text())
        part = page.split(f"<!-- functions: {kind} -->")[1]
        part = re.split(r"^[^|\n]", part, maxsplit=1, flags=re.M)[0]
        cells = "".join(line.split("|")[1] for line in part.splitlines() if line)
        told = re.findall(r"`(\w+)(?:\([^)]*\))?`", cells)
        tap.equal(sorted(told), sorted(known), kind)


def the_example_plugins_build():
    TENON.build_plugin(SOURCE / "examples" / "author", PROJECT)
    TENON.build_plugin(SOURCE / "examples" / "kernel", PROJECT / "kernel")
    TENON.build_plugin(SOURCE / "examples" / "rows", PROJECT / "rows")
    shutil.copytree(SOURCE / "examples" / "zlib", PROJECT / "zlib")
    shutil.copytree(SOURCE / "examples" / "libm", PROJECT / "libm")


def the_example_programs_compile():
    for source in (SOURCE / "examples" / "host").iterdir():
        if source.suffix in (".c", ".cpp"):
            TENON.compile(source, PROJECT / source.stem)
        else:
            shutil.copy(source, PROJECT)


def the_program_that_learns_compiles():
    """By the command of docs/tutorials/modeller.md."""
    folder = PROJECT / "digits"
    shutil.copytree(SOURCE / "examples", folder)
    page = (SOURCE / "docs/tutorials/modeller.md").read_text()
    command = re.search(r"^\$ (cc (?:.*\\\n)*.*)", page, re.M)[1]
    session = Newcomer(pathlib.PurePath("modeller.md"))
    tap.output(["bash", "-c", command], env=session.environment(), cwd=folder)


def every_folder_has_a_readme():
    for folder in ("core", "sdk", "plugins", "tools"):
        for path in [SOURCE / folder, *(SOURCE / folder).iterdir()]:
            if path.is_dir():
                assert (path / "README.md").exists(), f"{path} has no README"


if __name__ == "__main__":
    with SCRATCH:
        tap.run([the_example_plugins_build, the_example_programs_compile,
                 the_program_that_learns_compiles,
                 *fences(), files_that_pages_name_exist,
                 keys_of_manifests_are_those_of_the_schema,
                 functions_of_formulas_are_those_of_the_language, every_folder_has_a_readme])
