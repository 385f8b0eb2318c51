# SPDX-License-Identifier: Apache-2.0
"""Tests of Criterion run in the process itself, for a debugger.

    test_one_process.py LIBRARY PROGRAM

LIBRARY is tests/gdb/one_process.so, PROGRAM the tests of the log.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

LIBRARY, PROGRAM = sys.argv[1:3]


def run(pattern):
    """(status, messages) of the program for these tests."""
    done = subprocess.run(
        [PROGRAM], capture_output=True, text=True, check=False, timeout=100,
        env=dict(os.environ, LD_PRELOAD=LIBRARY, TENON_TEST=pattern))
    return done.returncode, done.stderr


def runs_the_selected_tests():
    status, said = run("log/parts_at_*")
    tap.equal((status, said),
              (0, "log/parts_at_the_default_level_log_no_debug_lines\n"))


def runs_several_tests_in_turn():
    status, said = run("log/*")
    tap.equal((status, said.count("log/")), (0, 6))


def reports_that_no_test_was_selected():
    status, said = run("nothing/*")
    assert "no test matches TENON_TEST\n" in said, said


if __name__ == "__main__":
    tap.run([runs_the_selected_tests, runs_several_tests_in_turn,
             reports_that_no_test_was_selected])
