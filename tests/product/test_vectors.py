# SPDX-License-Identifier: Apache-2.0
"""The loops that opgen wrote have vectors, at every level of instructions.

    test_vectors.py SOURCE_ROOT GENERATED_FOLDER PLUGIN OPTIMIZATION

Every loop of a generated file is compiled three times, or once at the lowest level
and another one at the two above it, or twice and at the highest level a loop that is
written with vectors. In the plugin that this build made, each writes vectors of the
width of that level: 16, 32 and 64 bytes. clang, which compiles the same files once
more, must say so of each. Not claimed are loops that call a function which math.h
leaves to libm; quotients and remainders of integers, for which no machine has an
instruction; shifts by vectors at the lowest level, which lacks them; and loops that only move or fill memory, which become memcpy and memset.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from listing import Listing  # noqa: E402

SOURCE, GENERATED, PLUGIN = (pathlib.Path(each) for each in sys.argv[1:4])
OPTIMIZATION = sys.argv[4]
LOOP = re.compile(r"^  for \(int64_t i = 0, n = block->n; i < n; \+\+i\)")
CALL = re.compile(r"\b(?:tn_math_)(\w+)_f\d\d\(")
VECTORISED = set("""abs cbrt ceil clip cosh exp expm1 floor log log1p log2 max min
    rint round rsqrt select sigmoid sign sinh softplus sqrt tanh trunc""".split())
SCALAR = {"gamma", "lgamma", "digamma"}
BODY = re.compile(r"^TN_KERNEL_BODY void (\w+_(f32|f64|i32|i64))_loop(_lowest)?\(")
MOVE = re.compile(r"^ \{\n  return -?[\w.]+;\n$")
FLAGS = ["-std=c11", "-O3", "-ffp-contract=fast", "-fno-math-errno",
         "-fno-trapping-math"]
BYTES = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}
LEVELS = {16: "base", 32: "avx2", 64: "avx512"}
LISTINGS = []


def is_scalar(name, body):
    """Whether a formula, parameters and all, is not claimed to vectorise."""
    if MOVE.search(body[body.index(" {"):]):
        return True
    if name.endswith("_f64"):
        return bool(set(CALL.findall(body)) - VECTORISED)
    if name.endswith("_f32"):
        return bool(set(CALL.findall(body)) & SCALAR)
    return bool(re.search(r"tn_math_(mod|div|floor_div|trunc_div|trunc_mod)_i", body))


def formulas(path):
    """(name, parameters and body) of the formulas of a generated file."""
    text = path.with_name(path.name.replace(".kernel.gen.c", ".formula.gen.h")
                          ).read_text()
    return re.findall(r"^TN_MATH_FN \w+\s+(\w+)\((.*?)^}", text,
                      re.MULTILINE | re.DOTALL)


def scalar_formulas(path):
    """Names of the formulas that are not claimed to vectorise."""
    return {name for name, body in formulas(path) if is_scalar(name, body)}


def shift_formulas(path):
    """Names of the formulas that shift each number by another number of bits."""
    return {name for name, body in formulas(path) if "tn_math_shift_" in body}


def loops(path):
    """{line: (function, class, bytes of its vectors at every level)} of the element
    loops of a generated file; those that are not to be vectorised have no bytes."""
    found = {}
    scalar = shifts = None
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        body = BODY.match(line)
        if body:
            if scalar is None:
                scalar, shifts = scalar_formulas(path), shift_formulas(path)
            name, kind, lowest = body.groups()
            widths = levels(kind)
            if lowest:
                widths = widths[:1]
            elif re.search(rf"TN_KERNEL_LEVELS_FROM\({name}_loop,", text):
                widths = widths[1:]
            elif f"TN_KERNEL_LEVELS_WIDE({name}_loop)" in text:
                widths = widths[:-1]
            if name in shifts:
                widths = tuple(width for width in widths if width > 16)
            if name in scalar:
                widths = ()
        if LOOP.match(line):
            found[number] = f"{name}_loop", kind, widths
    return found


def made():
    """The results of the build."""
    if platform.machine() != "x86_64":
        raise tap.Skip("listings are read of x86-64 alone; clang says of each loop "
                       "what it made")
    if OPTIMIZATION not in ("2", "3", "s"):
        raise tap.Skip("plugins of this build are not optimised")
    if not LISTINGS:
        LISTINGS.append(Listing(PLUGIN))
    return LISTINGS[0]


def every_loop_has_vectors(path):
    wanted = [(f"{name}_{LEVELS[width]}", width)
              for name, _, widths in loops(path).values() for width in widths]
    tap.equal([(name, width) for name, width in wanted
               if width not in made().stores(name)], [],
              f"functions of {path.name} that write no vectors of that size")


def loops_of_calls_have_none():
    """Else those that are wanted may be seen where none are."""
    names = [f"{name}_{level}" for path in FILES
             for name, kind, widths in loops(path).values() if not widths
             for level in LEVELS.values() if re.match(r"(gammaln|lgamma|gamma)_out_f64", name)]
    assert len(names) == 6, names
    tap.equal([name for name in names if made().stores(name)], [], "vectors")


def clang_misses(path):
    """The loops of which clang has no vectors at some level, or too short ones,
    with how many elements those should have and have. Some functions in f32
    compute in f64, of which the largest vector holds 8."""
    # The report is complete before instructions are chosen.
    text = subprocess.run(
        ["clang", *FLAGS, "-S", "-emit-llvm", "-Rpass=loop-vectorize", "-I",
         SOURCE / "sdk" / "include", "-I", GENERATED, path, "-o", "/dev/null"],
        check=True, text=True, capture_output=True).stderr
    found = re.findall(rf"{re.escape(path.name)}:(\d+):.*vectorized loop "
                       r"\(vectorization width: (\d+)", text)
    seen = {}
    for line, width in found:
        seen.setdefault(int(line), []).append(int(width))
    misses = []
    for line, (_, kind, widths) in loops(path).items():
        most = 8 if kind == "f32" else 64
        wanted = [min(width // BYTES[kind], most) for width in widths]
        got = sorted(seen.get(line, []))[-len(wanted):] if wanted else []
        if len(got) < len(wanted) or any(a < b for a, b in zip(got, wanted)):
            misses.append((line, wanted, got))
    return misses


def clang_says_so(path):
    if not shutil.which("clang"):
        raise tap.Skip("clang is not installed")
    tap.equal(clang_misses(path), [], f"lines of {path.name} of which clang made "
              "no vectors of that size")


def levels(kind):
    """Bytes of vectors at every level at which a class has any: SSE2 lacks most
    instructions of 64-bit integers."""
    if platform.machine() != "x86_64":
        return (16,)
    return (32, 64) if kind == "i64" else (16, 32, 64)


FILES = [path for path in sorted(GENERATED.glob("*.kernel.gen.c")) if loops(path)]

if __name__ == "__main__":
    tap.run([(f"every loop of {path.name} has vectors at every level",
              lambda each=path: every_loop_has_vectors(each)) for path in FILES]
            + [("loops of calls have none", loops_of_calls_have_none)]
            + [(f"clang vectorises every loop of {path.name} at every level",
                lambda each=path: clang_says_so(each)) for path in FILES])
