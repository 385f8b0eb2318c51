#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`opgen eval`: results of formulas without a compiler, and messages.

    test_eval.py OPGEN LIBTENON_MANIFEST
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402

SCRATCH = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(SCRATCH.name)
CUBE = ROOT / "examples/author/cube.yaml"
UNARY = ROOT / "plugins/elemwise/unary.yaml"


def install():
    """The program beside the library, as an installation has them."""
    (FOLDER / "bin").mkdir()
    (FOLDER / "lib").mkdir()
    shutil.copy(sys.argv[1], FOLDER / "bin/opgen")
    shutil.copy(sys.argv[2], FOLDER / "lib/libtenon-manifest.so.0")


def evaluate(*args):
    return subprocess.run([FOLDER / "bin/opgen", "eval", *map(str, args)],
                          cwd=FOLDER, text=True, capture_output=True,
                          check=False)


def prints(expected, *args):
    done = evaluate(*args)
    tap.equal((done.stdout, done.stderr, done.returncode), (expected, "", 0),
              str(args))


def refuses(status, part, *args):
    done = evaluate(*args)
    tap.equal((done.stdout, done.returncode), ("", status), str(args))
    assert part in done.stderr, f"{part} is not in\n{done.stderr}"


def a_file_has_values_and_gradients():
    prints("[2, 16]\n", CUBE, "[1, 2]", "--param", "scale=2")
    prints("[[1, 8], [27, -64]]\ngrad.data:\n[[3, 12], [27, 48]]\n", CUBE,
           "[[1, 2], [3, -4]]", "--grad")


def an_expression_needs_no_file():
    prints("[2, 16]\n", "-e", "scale*data^3", "--param", "scale=2", "[1,2]")
    prints("[2, 16]\ngrad.data:\n[6, 24]\n", "-e", "scale*data^3", "--param",
           "scale=2", "[1, 2]", "--grad")


def inputs_have_the_order_of_their_first_use():
    prints("[[-9, -8], [-99, -98]]\n", "-e", "b - a", "[1, 2]", "[[10], [100]]")
    prints("7\ngrad.y:\n2\ngrad.x:\n1\n", "-e", "2*y + x", "3", "1", "--grad")


def negative_numbers_are_inputs():
    prints("-4\n", "-e", "x", "-4")
    prints("-0.5\n", "-e", "-x", ".5")
    prints("4\n", "-e", "-x", "-4")


def types_are_chosen():
    prints("[1, -4]\n", "-e", "a/b", "[3, -7]", "[2, 2]", "--dtype", "i32")
    prints("[1.5, -3.5]\n", "-e", "a/b", "[3, -7]", "[2, 2]")
    prints("4\n", "-e", "bit_and(x, 6)", "5")
    prints("0.1\n", "-e", "x", "0.1", "--dtype", "f64")
    prints("0.1\n", "-e", "x", "0.1")


def reductions_have_an_axis():
    prints("[[3], [7]]\n", "-e", "sum(x, axis)", "[[1, 2], [3, 4]]")
    prints("[[4, 6]]\n", "-e", "sum(x, axis)", "[[1, 2], [3, 4]]", "--param",
           "axis=0")


def an_operator_of_several_is_selected():
    prints("[3]\n", UNARY, "--op", "sqrt", "[9]")
    refuses(1, "has 31 operators\n  = help: choose one with `--op`: reciprocal",
            UNARY, "[9]")
    refuses(1, "has no operator `root`\n  = help: choose one with `--op`",
            UNARY, "[9]", "--op", "root")


def mistakes_of_formulas_have_a_place():
    refuses(1, "(formula):1:5: error[E0034]: `foo` is not a function", "-e",
            "x + foo(x)", "1")
    refuses(1, "(formula):1:4: error[E0030]", "-e", "x +", "1")
    refuses(1, "has no input", "-e", "1 + 2", "1")
    refuses(1, "expression has more than 64 levels", "-e", "(" * 100, "1")


def mistakes_of_inputs_have_a_place():
    for text, place, part in [
            ("[1, [2]]", 6, "a list and a number are beside each other"),
            ("[[1], 2]", 7, "a list and a number are beside each other"),
            ("[[1, 2], [3]]", 13, "lists of one level have different lengths"),
            ("[1, 2", 6, "`,` or `]` is missing"),
            ("[1 2]", 4, "`,` or `]` is missing"),
            ("[1, x]", 5, "a number is missing"),
            ("", 1, "a number is missing"),
            ("[1]]", 4, "nothing may follow here"),
            ("[" * 100 + "1", 18, "more levels than an array has dimensions")]:
        refuses(1, f"is invalid at character {place}: ", CUBE, text)
        refuses(1, part, CUBE, text)


def numbers_of_inputs_are_checked():
    refuses(1, "the operator has 2 inputs (x, y), but the command line has 1",
            "-e", "x + y", "1")
    refuses(1, "the operator has 1 input (data), but the command line has 2",
            CUBE, "1", "2")


def parameters_are_checked():
    refuses(1, "`s` is not a parameter of ", CUBE, "1", "--param", "s=2")
    refuses(2, "`--param` needs NAME=VALUE, not `scale`", CUBE, "1", "--param",
            "scale")
    refuses(1, "the parameter `k` is not in the formula `x`", "-e", "x", "1",
            "--param", "k=2")


def command_lines_are_checked():
    refuses(2, "an argument is missing")
    refuses(2, "an argument is missing", "-e", "x")
    refuses(2, "`--op` selects an operator of FILE", "-e", "x", "1", "--op",
            "cube")
    refuses(2, "`--dtype` is a type such as f32", CUBE, "1", "--dtype", "f31")
    refuses(1, "cannot read `nothing.yaml`", "nothing.yaml", "1")


def kernels_written_in_c_are_refused():
    refuses(1, "operator root has kernels written in C",
            ROOT / "examples/kernel/root.yaml", "1")


def an_integer_has_no_gradient():
    refuses(1, "opgen eval: the inputs have no gradient", "-e", "x^2", "3",
            "--dtype", "i32", "--grad")


install()
tap.run([
    a_file_has_values_and_gradients, an_expression_needs_no_file,
    inputs_have_the_order_of_their_first_use, negative_numbers_are_inputs,
    types_are_chosen, reductions_have_an_axis,
    an_operator_of_several_is_selected, mistakes_of_formulas_have_a_place,
    mistakes_of_inputs_have_a_place, numbers_of_inputs_are_checked,
    parameters_are_checked, command_lines_are_checked,
    kernels_written_in_c_are_refused, an_integer_has_no_gradient])
