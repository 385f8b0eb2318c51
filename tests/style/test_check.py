#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A planted violation of each rule of check.py makes it fail."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SCRIPT = pathlib.Path(__file__).with_name("check.py")
HEAD = "/* SPDX-License-Identifier: Apache-2.0\n * part.c: a part. */\n"


def function(name, lines):
    """A function of this number of lines."""
    return (f"int {name}(void) {{\n" + "  part();\n" * (lines - 3)
            + "  return 0;\n}\n")


def measure(text):
    """The faults of a tree with one file of this text."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["git", "init", "-q", scratch], check=True)
        (pathlib.Path(scratch) / "part.c").write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, scratch], text=True,
                              capture_output=True, check=False)
        faults = [line.split(": ", 1)[1] for line in done.stdout.splitlines()
                  if line.startswith("# ")]
        tap.equal(done.returncode, 1 if faults else 0, done.stdout)
        return faults


def finds(text, fault):
    def case():
        found = measure(text)
        assert len(found) == 1 and fault in found[0], found
    return (f"finds: {fault}", case)


def a_clean_file_passes():
    tap.equal(measure(HEAD + function("add_one", 5)), [])


tap.run([
    a_clean_file_passes,
    finds("/* part.c: a part. */\n" + function("add_one", 5),
          "the first line does not state the licence"),
    finds(HEAD + "int a;\t/* tab */\n" + function("add_one", 5),
          "line 3: a tab"),
    finds(HEAD + "int " + "a" * 80 + ";\n" + function("add_one", 5),
          "line 3: 85 columns"),
    finds(HEAD + "/* TO" + "DO: more */\n" + function("add_one", 5),
          "line 3: unfinished"),
    finds(HEAD + "".join(function(f"add_{n}", 5) for n in range(20))
          + function("add_all", 81), "add_all: 81 lines, more than 80"),
    finds(HEAD + function("add_one", 13) * 3, "median 13"),
    finds(HEAD + function("add_one", 5) * 5 + function("add_two", 50) * 2,
          "nine in ten 50"),
])
