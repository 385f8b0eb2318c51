# SPDX-License-Identifier: Apache-2.0
"""plugins/blas, on a machine that has a CBLAS; numbers by hand.

    test_blas.py SOURCE_ROOT TENON OPGEN
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, TENON, OPGEN = (
    pathlib.Path(each).resolve() for each in sys.argv[1:4])
BLAS = SOURCE / "plugins" / "blas"
# Rows of 3, 4 and 5: products with them are easy.
A = "[[1,2],[3,4],[5,6]]"


def run(op, *words, plugin="plugin.yaml"):
    done = subprocess.run([TENON, "run", f"blas.{op}", *words, "--plugin",
                           BLAS / plugin], text=True, capture_output=True,
                          check=False)
    if "install one of them" in done.stderr:
        raise tap.Skip("neither libopenblas.so.0 nor libblas.so.3 is here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_clean():
    tap.output([OPGEN, "check", "-Werror", BLAS])


def adds_a_multiple():
    tap.equal(run("axpy", "[1,2,3]", "[10,20,30]", "alpha=2"),
              "[12, 24, 36]\n")
    tap.equal(run("axpy", "[[1],[2]]", "[[-1],[4]]"), "[[0],\n [6]]\n")


def loads_one_operator_by_its_own_file():
    tap.equal(run("axpy", "[1]", "[1]", "alpha=-3", plugin="axpy.yaml"),
              "[-2]\n")


def scales():
    tap.equal(run("scal", "[1,-2]", "alpha=0.5"), "[0.5, -1]\n")
    tap.equal(run("dscal", "[[3]]", "alpha=1e300", "--dtype", "f64"),
              "[[3e300]]\n")


def multiplies_vectors():
    tap.equal(run("dot", "[1,2,3]", "[1,10,100]"), "321\n")
    tap.equal(run("ddot", "[1e-9,1]", "[1,4]", "--dtype", "f64"),
              "4.000000001\n")


def multiplies_a_matrix_and_a_vector():
    tap.equal(run("gemv", A, "[1,-1]", "[100,200,300]"), "[99, 199, 299]\n")
    tap.equal(run("gemv", A, "[10,1]", "[1,1,1]", "alpha=2", "beta=-1"),
              "[23, 67, 111]\n")


def refuses_shapes_that_do_not_fit():
    done = subprocess.run([TENON, "run", "blas.dot", "[1,2]", "[1,2,3]",
                           "--plugin", BLAS / "plugin.yaml"], text=True,
                          capture_output=True, check=False)
    if "install one of them" in done.stderr:
        raise tap.Skip("neither libopenblas.so.0 nor libblas.so.3 is here")
    assert done.returncode == 1 and "(2)" in done.stderr, done.stderr


if __name__ == "__main__":
    tap.run([is_clean, adds_a_multiple, loads_one_operator_by_its_own_file,
             scales, multiplies_vectors, multiplies_a_matrix_and_a_vector,
             refuses_shapes_that_do_not_fit])
