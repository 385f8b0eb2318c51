#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cases.py: reading tables of cases, and writing them again."""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import cases  # noqa: E402
import tap  # noqa: E402

TABLE = r"""Words about the table.

=== base: three lines
+++ a.yaml
one
two
one

=== second
$ fmt @/a.yaml "@"
@@@ a.yaml
 two
-one
\+fac\x00tor\r
*3 same
>>> stderr
@/a.yaml: error[E0001]: nn.x@1
>>> status 0

=== third
--- a.yaml
+++ sub/b.yaml
---
four
"""


def read(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "table.txt"
        path.write_text(text)
        return cases.Table(path)


def a_case_changes_the_files_of_its_base():
    base, second, third = read(TABLE).cases
    tap.equal(base.files, {"a.yaml": b"one\ntwo\none\n"})
    tap.equal(second.files,
              {"a.yaml": b"one\ntwo\nfac\0tor\r\nsame\nsame\nsame\n"})
    tap.equal(third.files, {"sub/b.yaml": b"---\nfour\n"})


def a_line_to_change_must_exist():
    text = TABLE.replace(" two\n-one", "-one\n-one\n-one")
    try:
        read(text)
    except ValueError as error:
        tap.equal(str(error), "second: a.yaml has no further line b'one\\n'")
    else:
        raise AssertionError("no error")


def arguments_and_status_are_stated_or_usual():
    _, second, third = read(TABLE).cases
    tap.equal(second.arguments("/x y"), ["fmt", "/x y/a.yaml", "/x y"])
    tap.equal(second.expected_status(), 0)
    tap.equal(third.arguments("/x"), ["check", "/x"])
    third.stderr = "error[E0001]: x\n"
    tap.equal(third.expected_status(), 1)


def accepted_output_changes_nothing_else():
    table = read(TABLE)
    tap.equal(table.text(), TABLE)
    table.cases[2].expect("found\n", "error[E0001]\n", 1)
    tap.equal(table.text(), TABLE
              + ">>> stdout\nfound\n>>> stderr\nerror[E0001]\n")


def every_table_is_in_the_normal_form():
    for folder in "err", "cmd":
        for table in cases.read_tables(HERE / folder):
            tap.equal(table.text(), table.path.read_text(), table.path.name)


def every_case_has_a_name_of_its_own():
    for folder in "err", "cmd":
        names = [case.name for table in cases.read_tables(HERE / folder)
                 for case in table.cases if not case.is_base]
        twice = {name for name in names if names.count(name) > 1}
        tap.equal(twice, set(), folder)


tap.run([a_case_changes_the_files_of_its_base, a_line_to_change_must_exist,
         arguments_and_status_are_stated_or_usual,
         accepted_output_changes_nothing_else,
         every_table_is_in_the_normal_form, every_case_has_a_name_of_its_own])
