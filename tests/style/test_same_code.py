#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same_code.py sees a changed instruction, and no name and no text."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SCRIPT = pathlib.Path(__file__).with_name("same_code.py")
SOURCE = """
#include <stdio.h>
static int add_one(int value) { return value + 1; }
int print_sum(int value) { puts("a sum"); return add_one(value) * 3; }
int read_first(const int *values) { return values[0]; }
"""


def compare(first, second, name="unit.c"):
    with tempfile.TemporaryDirectory() as scratch:
        for side, text, file in (("a", first, "unit.c"), ("b", second, name)):
            folder = pathlib.Path(scratch) / side
            folder.mkdir()
            (folder / file).write_text(text)
            subprocess.run(["gcc", "-O1", "-c", file, "-o", file[:-1] + "o"],
                           cwd=folder, check=True)
        return subprocess.run(
            [sys.executable, SCRIPT, "--objects", f"{scratch}/a", f"{scratch}/b"],
            capture_output=True, text=True, check=False)


def names_and_texts_are_no_difference():
    renamed = SOURCE.replace("print_sum", "show_total").replace(
        "a sum", "another longer text")
    done = compare(SOURCE, renamed, "other.c")
    tap.equal((done.returncode, done.stdout), (0, "the same machine code\n"))


def a_changed_constant_is_named():
    done = compare(SOURCE, SOURCE.replace("* 3", "* 5"))
    tap.equal(done.returncode, 1)
    tap.equal(done.stdout.splitlines()[0],
              "objects: changed or removed: print_sum; "
              "changed or new: print_sum")


def a_removed_function_is_named():
    done = compare(SOURCE, SOURCE.replace(
        "int read_first(const int *values) { return values[0]; }", ""))
    tap.equal(done.returncode, 1)
    assert "removed: read_first; changed or new: none" in done.stdout, done.stdout


def an_unknown_revision_is_refused():
    done = subprocess.run([sys.executable, SCRIPT, "no-such-revision", "HEAD"],
                          capture_output=True, text=True, check=False)
    tap.equal((done.returncode, done.stderr),
              (2, "same_code: git knows no revision no-such-revision\n"))


tap.run([names_and_texts_are_no_difference, a_changed_constant_is_named,
         a_removed_function_is_named, an_unknown_revision_is_refused])
