# SPDX-License-Identifier: Apache-2.0
"""gcc vectorises loops over the functions of math.h that do not call libm, at
every level, and says so.

    test_math_vectors.py SOURCE_ROOT
"""

import functools
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE = pathlib.Path(sys.argv[1])

F32 = """exp expm1 log log1p log2 log10 sqrt rsqrt cbrt sin cos tan asin acos
    atan sinh cosh tanh asinh acosh atanh erf erfc abs sign floor ceil round
    rint trunc sigmoid softplus gelu min max pow mod hypot
    sin_near cos_near tan_near""".split()
F64 = """exp expm1 log log1p log2 sqrt rsqrt cbrt sinh cosh tanh abs sign floor
    ceil round rint trunc sigmoid softplus min max""".split()
PAIRS = ("min", "max", "pow", "mod", "hypot")
LEVELS = {"SSE2": "", "AVX2": "TN_KERNEL_AVX2", "AVX-512": "TN_KERNEL_AVX512"}


def vectorised(path):
    """Line numbers of the loops of the file that gcc reports as vectorised."""
    done = subprocess.run(
        # -fno-ipa-icf: else equal functions are compiled once and reported so.
        ["gcc", "-std=c11", "-O3", "-w", "-ffp-contract=fast", "-fno-math-errno",
         "-fno-trapping-math", "-fno-ipa-icf", "-fopt-info-vec-optimized",
         "-I", SOURCE / "sdk" / "include", "-c", path,
         "-o", "/dev/null"],
        check=True, text=True, capture_output=True)
    report = re.compile(rf"{re.escape(path.name)}:(\d+):.*loop vectorized")
    return {int(number) for number in report.findall(done.stderr)}


@functools.lru_cache
def scalar_levels():
    """{("exp", "f32"): ["SSE2"], ...}: where gcc leaves a loop over one
    function of math.h scalar."""
    lines, places = ['#include "tenon/kernel.h"'], {}
    for kind, element, names in (("f32", "float", F32), ("f64", "double", F64)):
        for name in names:
            second = ", b[i]" if name in PAIRS else ""
            if name.endswith("_near"):
                second = ", &far"
            for level, target in LEVELS.items():
                lines += [f"{target} void f{len(lines)}({element} *y, "
                          f"const {element} *a, const {element} *b,",
                          "int64_t n) { uint32_t far = 0; "
                          "TN_KERNEL_INDEPENDENT",
                          "for (int64_t i = 0; i < n; ++i) "
                          f"y[i] = tn_math_{name}_{kind}(a[i]{second}); "
                          f"y[0] += ({element})far; }}"]
                places[len(lines)] = (name, kind), level
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "loops.c"
        path.write_text("\n".join(lines) + "\n")
        done = vectorised(path)
    return {case: [level for line, (other, level) in places.items()
                   if other == case and line not in done]
            for case, _ in places.values()}


def every_level_is(name, kind):
    if not shutil.which("gcc"):
        raise tap.Skip("gcc is not installed")
    tap.equal(scalar_levels()[name, kind], [],
              "levels at which gcc left the loop scalar")


if __name__ == "__main__":
    tap.run([(f"{name}_{kind} is vectorised at every level",
              lambda n=name, k=kind: every_level_is(n, k))
             for kind, names in (("f32", F32), ("f64", F64))
             for name in names])
