#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of the command `tenon`.

    run.py [--accept] PROGRAM PLUGIN PASSES [CASE...]

PROGRAM is the built tenon, PLUGIN the built elemwise.so; its folder becomes
TENON_PLUGIN_PATH, because a build tree has no lib/tenon beside its library.
PASSES is the built rewriter.so of tests/graph/passes.

A case is a folder golden/NAME with the files
  cmd     the command line: NAME=value words, then `tenon`, then its words
  stdout  its output, byte for byte
  stdin   the name of a fixture that is its standard input; absent means none
  stderr  its error messages; absent means none
  exit    its status; absent means 0
  wrote   the JSON file that it leaves as {tmp}/wrote.json; absent means none
  mask    lines `pattern => text`: differences between machines

The command runs without a shell, in a fresh folder with the files that
fixtures.py makes. In all files {plugins} means the folder of PLUGIN, {passes}
for that of PASSES, {tmp} for the fresh folder, {examples} for examples/.
--accept writes the program's output into the cases; look at the difference
before you commit it.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import fixtures  # noqa: E402
import tap  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
EXAMPLES = GOLDEN.parents[2] / "examples"


def read(path, default=""):
    return path.read_text() if path.exists() else default


def split_command(line):
    """Words of a command, and the variables before them."""
    words, variables = shlex.split(line), {}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        variables[name] = value
    return words, variables


def expand(value, places):
    for name, path in places.items():
        value = value.replace("{%s}" % name, path)
    return value


def collapse(value, places, masks):
    for name, path in places.items():
        value = value.replace(path, "{%s}" % name)
    for line in masks.splitlines():
        pattern, text = line.split(" => ")
        value = re.sub(pattern, text, value, flags=re.MULTILINE)
    return value


def run_case(case, program, plugin, passes):
    """The results of the command: {"stdout": ..., "stderr", "exit",
    "wrote"}."""
    with tempfile.TemporaryDirectory() as tmp:
        fixtures.make_all(pathlib.Path(tmp), plugin)
        places = {"passes": str(passes.parent), "plugins": str(plugin.parent),
                  "tmp": os.path.realpath(tmp), "examples": str(EXAMPLES)}
        words, variables = split_command(
            expand((case / "cmd").read_text(), places))
        tap.equal(words[0], "tenon", "program of the case")
        environment = dict(os.environ, TENON_PLUGIN_PATH=str(plugin.parent),
                           HOME=places["tmp"], TMPDIR=places["tmp"])
        environment.pop("TENON_LOG", None)
        environment.update(variables)
        piped = read(case / "stdin").strip()
        with open(os.path.join(tmp, piped) if piped else os.devnull,
                  "rb") as stdin:
            done = subprocess.run([program, *words[1:]], cwd=tmp, stdin=stdin,
                                  env=environment, capture_output=True,
                                  timeout=300, check=False)
        left = [path.name for path in pathlib.Path(tmp).glob("tenon-*")]
        tap.equal(left, [], "temporary files that are left")
        wrote = read(pathlib.Path(tmp) / "wrote.json")
    if wrote:
        json.loads(wrote)
    if "--json" in words and done.returncode == 0:
        json.loads(done.stdout)
    if "--state" in words and done.returncode == 0:
        json.loads(done.stderr)
    masks = read(case / "mask")
    status = done.returncode
    return {"stdout": collapse(done.stdout.decode(), places, masks),
            "stderr": collapse(done.stderr.decode(), places, masks),
            "exit": f"{status}\n" if status else "",
            "wrote": collapse(wrote, places, masks)}


def accept(case, found):
    for name, content in found.items():
        path = case / name
        if content or name == "stdout":
            path.write_text(content)
        elif path.exists():
            path.unlink()


def check(case, found):
    problems = []
    for name, content in found.items():
        expected = read(case / name)
        if content != expected:
            problems.append(f"{name}, expected:\n{expected}"
                            f"{name}, found:\n{content}")
    assert not problems, "\n".join(problems)


def run(case, built, accepting):
    found = run_case(case, *built)
    if accepting:
        accept(case, found)
    check(case, found)


def main():
    words = [word for word in sys.argv[1:] if word != "--accept"]
    built = [os.path.abspath(words[0]), pathlib.Path(words[1]).resolve(),
             pathlib.Path(words[2]).resolve()]
    cases = sorted(path.parent for path in GOLDEN.glob("*/cmd"))
    tap.run([(case.name.replace("_", " "),
              functools.partial(run, case, built, "--accept" in sys.argv))
             for case in cases if not words[3:] or case.name in words[3:]])


if __name__ == "__main__":
    main()
