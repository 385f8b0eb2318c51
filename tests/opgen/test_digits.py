#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An example whose expected value has fewer digits than its type: each of the
three programs that compute examples says so, with a tolerance that passes.

    test_digits.py OPGEN CC LIBTENON TENON
"""

import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from lab import Lab  # noqa: E402

OPGEN, LIBRARY, TENON = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 3, 4))
SCRATCH = tempfile.TemporaryDirectory()
LAB = Lab([OPGEN], shlex.split(sys.argv[2]), pathlib.Path(SCRATCH.name))
FORMULA = """\
opgen: 1
op: sine
summary: Sine of every element
doc: Of radians.
dtypes: {T: [f64]}
inputs: [{name: x, dtype: T, doc: Any}]
outputs: [{name: out, dtype: T, shape: x, doc: The sine}]
forward: {out: sin(x)}
gradient: auto
examples:
  - {name: e, x: [1], out: [0.841471]}
"""
BOUND = """\
opgen: 1
op: sine
summary: Largest of two numbers
doc: By the C library.
params: [{name: a, type: float, default: 0.84147098480789651, doc: A number}]
outputs: [{name: out, dtype: f64, shape: [], doc: The number}]
binding:
  library: libm.so.6
  symbol: fabs
  returns: {c: double, to: out}
  thread: any
  args: [{c: double, pass: a}]
gradient: {none: true, why: it has no input}
examples:
  - {name: e, out: 0.841471}
"""
# sin(1) = 0.84147098480789651 (17 digits, by mpmath); the distance from
# 0.841471 is 1.5e-8, 8.2e-9 of 1 + 0.84.
VALUE = "0.8414709848078965"


def with_tolerance(text, tolerance):
    return text.replace("0.841471}", f"0.841471, tol: {tolerance}}}").replace(
        "[0.841471]}", f"[0.841471], tol: {tolerance}}}")


def examples_of_a_built_plugin():
    folder = LAB.build(LAB.write(FORMULA))
    command = [OPGEN, "check", folder, folder / "lab.so"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tap.equal(done.returncode, 1)
    assert VALUE in done.stderr, done.stderr
    assert "= help: write these digits, or add `tol: 1e-8` to the example" in \
        done.stderr, done.stderr
    folder = LAB.build(LAB.write(with_tolerance(FORMULA, "1e-8")))
    done = subprocess.run([OPGEN, "check", folder, folder / "lab.so"],
                          capture_output=True, text=True, check=False)
    tap.equal((done.returncode, done.stderr), (0, ""))


def generated_tests():
    status, said = LAB.tests(LAB.build(LAB.write(FORMULA)), LIBRARY)
    tap.equal(status, 1, said)
    assert "got 0.84147098480789" in said, said
    assert "; write more digits, or `tol: 1e-7` in the example" in said, said
    status, said = LAB.tests(
        LAB.build(LAB.write(with_tolerance(FORMULA, "1e-7"))), LIBRARY)
    tap.equal(status, 0, said)


def load(text):
    folder = LAB.write(text)
    return subprocess.run(
        [TENON, "run", "lab.sine", "--plugin", folder / "plugin.yaml"],
        capture_output=True, text=True, check=False)


def examples_of_a_binding():
    done = load(BOUND)
    assert done.returncode != 0, done.stdout
    said = " ".join(done.stderr.split())
    assert "element 0 of `out` is 0.8414709848078965" in said, said
    assert "; write more digits, or `tol: 1e-8`" in said, said
    done = load(with_tolerance(BOUND, "1e-8"))
    tap.equal((done.returncode, done.stderr), (0, ""))


def other_differences_are_shown_without_it():
    done = load(BOUND.replace("0.841471}", "0.8}"))
    assert "is 0.841470985, expected 0.8" in " ".join(done.stderr.split()), \
        done.stderr
    assert "digits" not in done.stderr, done.stderr


if __name__ == "__main__":
    with SCRATCH:
        tap.run([examples_of_a_built_plugin, generated_tests,
                 examples_of_a_binding,
                 other_differences_are_shown_without_it])
