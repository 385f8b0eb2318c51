# SPDX-License-Identifier: Apache-2.0
"""The command line and environment of a test for `./dev gdb`.

    test_debug.py SOURCE_ROOT BUILD_ROOT
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import areas  # noqa: E402
import debug  # noqa: E402
import tap  # noqa: E402

LAB = [{"name": "sums", "suite": ["lab:engine"], "depends": ["sums@exe"],
        "cmd": ["/b/t/sums", "--tap", "more"], "env": {"SEED": "4 5"}},
       {"name": "layers", "suite": ["lab:product"], "depends": [],
        "cmd": ["/usr/bin/python3", "layers.py"], "env": {}}]
FILES = {"sums@exe": ["/b/t/sums"]}


def refusal(name):
    try:
        debug.plan(LAB, FILES, "/b", name)
    except areas.Unknown as failure:
        return str(failure)
    raise AssertionError(f"{name} was accepted")


def a_test_has_its_files_environment_and_words():
    tap.equal(debug.plan(LAB, FILES, "/b", "sums"),
              ["target t/sums", "set SEED=4 5", "word /b/t/sums",
               "word more"])


def a_script_is_no_program_for_gdb():
    assert "is a script of Python" in refusal("layers")


def an_unknown_test_gets_the_nearest_name():
    assert "did you mean 'sums'" in refusal("sumz")


if __name__ == "__main__":
    tap.run([a_test_has_its_files_environment_and_words,
             a_script_is_no_program_for_gdb,
             an_unknown_test_gets_the_nearest_name])
