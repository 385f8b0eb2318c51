# SPDX-License-Identifier: Apache-2.0
"""gcc and clang vectorise loops over the functions of math.h that do not call
libm, at every level, under the flags that plugins are compiled with, and say so.

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
    rint round_even trunc trunc_div sigmoid softplus gelu trigamma min max pow mod hypot
    sin_near cos_near tan_near log_near log2_near log10_near gamma lgamma""".split()
NARROW = ("mod", "gamma", "lgamma", "sin_near", "cos_near", "tan_near",
          "log_near", "log2_near", "log10_near")
F64 = [name for name in F32 if name not in NARROW]
PAIRS = ("min", "max", "pow", "mod", "hypot", "trunc_div")
# Instructions that SSE2 does not have.
DIRECT = [f"{name}_direct"
          for name in "floor ceil round rint round_even trunc".split()]
LEVELS = {"SSE2": "", "AVX2": "TN_KERNEL_AVX2", "AVX-512": "TN_KERNEL_AVX512"}
KINDS = (("f32", "float", F32 + DIRECT), ("f64", "double", F64 + DIRECT))


# The options of each compiler for a report, and its messages. -fno-ipa-icf:
# else gcc compiles equal functions once and reports so.
COMPILERS = {
    "gcc": (["-fno-ipa-icf", "-fopt-info-vec-optimized"], "loop vectorized"),
    "clang": (["-Rpass=loop-vectorize"], "vectorized loop")}


def plugin_flags():
    """The options that sdk/meson.build passes to plugins."""
    text = (SOURCE / "sdk" / "meson.build").read_text()
    found = re.search(r"^plugin_c_args = \[(.*?)\]", text, re.M | re.S)
    return re.findall(r"'([^']+)'", found[1])


def vectorised(compiler, path):
    """Line numbers of the loops of the file that are reported as vectorised."""
    ask, answer = COMPILERS[compiler]
    done = subprocess.run(
        [compiler, "-std=c11", "-O3", "-w", *plugin_flags(), *ask,
         "-I", SOURCE / "sdk" / "include", "-c", path, "-o", "/dev/null"],
        check=True, text=True, capture_output=True)
    report = re.compile(rf"{re.escape(path.name)}:(\d+):.*{answer}")
    return {int(number) for number in report.findall(done.stderr)}


@functools.lru_cache
def scalar_levels(compiler):
    """{("exp", "f32"): ["SSE2"], ...}: where the compiler leaves a loop over
    one function of math.h scalar."""
    lines, places = ['#include "tenon/kernel/kernel.h"'], {}
    for kind, element, names in KINDS:
        for name in names:
            second = ", b[i]" if name in PAIRS else ""
            if name.endswith("_near"):
                second = ", &far"
            for level, target in LEVELS.items():
                if name in DIRECT and level == "SSE2":
                    continue
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
        done = vectorised(compiler, path)
    return {case: [level for line, (other, level) in places.items()
                   if other == case and line not in done]
            for case, _ in places.values()}


def every_level_is(compiler, name, kind):
    if not shutil.which(compiler):
        raise tap.Skip(f"{compiler} is not installed")
    tap.equal(scalar_levels(compiler)[name, kind], [],
              f"levels at which {compiler} left the loop scalar")


if __name__ == "__main__":
    tap.run([(f"{compiler} vectorises {name}_{kind} at every level",
              lambda c=compiler, n=name, k=kind: every_level_is(c, n, k))
             for compiler in COMPILERS
             for kind, _, names in KINDS
             for name in names])
