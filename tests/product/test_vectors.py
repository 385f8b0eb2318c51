# SPDX-License-Identifier: Apache-2.0
"""gcc vectorises the loops that opgen wrote, and says so.

    test_vectors.py SOURCE_ROOT GENERATED_FOLDER

Loops that call a function of libm are left out: they are not claimed to.
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, GENERATED = (pathlib.Path(each) for each in sys.argv[1:3])
LOOP = re.compile(r"^  for \(int64_t i = 0; i < block->n; \+\+i\)")


def loops(path):
    """Line numbers of the element loops of a generated file."""
    lines = path.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if LOOP.match(line)}


def vectorised(path):
    """Line numbers of the loops of the file that gcc reports as vectorised."""
    done = subprocess.run(
        # -fno-ipa-icf: else equal functions are compiled once and reported so.
        ["gcc", "-std=c11", "-O3", "-ffp-contract=fast", "-fno-math-errno",
         "-fno-trapping-math", "-fno-ipa-icf", "-fopt-info-vec-optimized",
         "-I", SOURCE / "sdk" / "include", "-I", GENERATED, "-c", path,
         "-o", "/dev/null"],
        check=True, text=True, capture_output=True)
    report = re.compile(rf"{re.escape(path.name)}:(\d+):.*loop vectorized")
    return {int(number) for number in report.findall(done.stderr)}


def every_loop_is(name):
    if not shutil.which("gcc"):
        raise tap.Skip("gcc is not installed")
    path = GENERATED / f"{name}.gen.c"
    assert loops(path), f"{path.name} has no loops"
    tap.equal(sorted(loops(path) - vectorised(path)), [],
              f"lines of {path.name} whose loop gcc left scalar")


if __name__ == "__main__":
    tap.run([(f"every loop of {name} is vectorised",
              lambda n=name: every_loop_is(n))
             for name in ("quadratic", "add", "mul", "smooth_l1")])
