# SPDX-License-Identifier: Apache-2.0
"""gcc and clang vectorise the loops that opgen wrote, at every level of
instructions, and say so.

    test_vectors.py SOURCE_ROOT GENERATED_FOLDER

Every loop of a generated file is compiled three times, or once at the lowest level
and another one at the two above it, or twice and at the highest level a loop that is
written with vectors; each time the compiler must report it with the
width of that level: 16, 32 and 64 bytes. Not claimed are
loops that call a function which math.h leaves to libm; remainders of integers, for
which no machine has an instruction; and loops that only move or fill memory, which
become memcpy and memset.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

SOURCE, GENERATED = (pathlib.Path(each) for each in sys.argv[1:3])
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


def is_scalar(name, body):
    """Whether a formula, parameters and all, is not claimed to vectorise."""
    if MOVE.search(body[body.index(" {"):]):
        return True
    if name.endswith("_f64"):
        return bool(set(CALL.findall(body)) - VECTORISED)
    if name.endswith("_f32"):
        return bool(set(CALL.findall(body)) & SCALAR)
    return bool(re.search(r"tn_math_(mod|div)_i", body))


def scalar_formulas(path):
    """Names of the formulas that are not claimed to vectorise."""
    text = path.with_name(path.name.replace(".gen.c", ".formula.gen.h")
                          ).read_text()
    functions = re.findall(r"^TN_MATH_FN \w+\s+(\w+)\((.*?)^}", text,
                           re.MULTILINE | re.DOTALL)
    return {name for name, body in functions if is_scalar(name, body)}


def loops(path):
    """{line: (class, bytes of its vectors at every level)} of the element loops of a generated file that are to be vectorised."""
    found = {}
    kind = None
    scalar = None
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        body = BODY.match(line)
        if body:
            if scalar is None:
                scalar = scalar_formulas(path)
            name, kind, lowest = body.groups()
            widths = levels(kind)
            if lowest:
                widths = widths[:1]
            elif re.search(rf"TN_KERNEL_LEVELS_FROM\({name}_loop,", text):
                widths = widths[1:]
            elif f"TN_KERNEL_LEVELS_WIDE({name}_loop)" in text:
                widths = widths[:-1]
            if name in scalar:
                kind = None
        if LOOP.match(line) and kind:
            found[number] = kind, widths
    return found


def report(compiler, flags, path):
    done = subprocess.run(
        [compiler, *FLAGS, *flags, "-I", SOURCE / "sdk" / "include", "-I",
         GENERATED, path, "-o", "/dev/null"],
        check=True, text=True, capture_output=True)
    return done.stderr


def gcc_misses(path):
    """The loops, and bytes of vectors, that gcc does not report."""
    # -fno-ipa-icf: else equal functions are compiled once and reported so.
    text = report("gcc", ["-c", "-fno-ipa-icf", "-fopt-info-vec-optimized"], path)
    found = re.findall(rf"{re.escape(path.name)}:(\d+):.*loop vectorized using "
                       r"(\d+) byte", text)
    seen = {(int(line), int(width)) for line, width in found}
    return [(line, width) for line, (_, widths) in loops(path).items()
            for width in widths if (line, width) not in seen]


def clang_misses(path):
    """The loops of which clang has no vectors at some level, or too short ones,
    with how many elements those should have and have. Some functions in f32
    compute in f64, of which the largest vector holds 8."""
    # The report is complete before instructions are chosen.
    text = report("clang", ["-S", "-emit-llvm", "-Rpass=loop-vectorize"], path)
    found = re.findall(rf"{re.escape(path.name)}:(\d+):.*vectorized loop "
                       r"\(vectorization width: (\d+)", text)
    seen = {}
    for line, width in found:
        seen.setdefault(int(line), []).append(int(width))
    misses = []
    for line, (kind, widths) in loops(path).items():
        most = 8 if kind == "f32" else 64
        wanted = [min(width // BYTES[kind], most) for width in widths]
        got = sorted(seen.get(line, []))[-len(wanted):]
        if len(got) < len(wanted) or any(a < b for a, b in zip(got, wanted)):
            misses.append((line, wanted, got))
    return misses


def levels(kind):
    """Bytes of vectors at every level at which a class has any: SSE2 lacks most
    instructions of 64-bit integers."""
    if platform.machine() != "x86_64":
        return (16,)
    return (32, 64) if kind == "i64" else (16, 32, 64)


def every_loop_is(name, compiler):
    if not shutil.which(compiler):
        raise tap.Skip(f"{compiler} is not installed")
    path = GENERATED / f"{name}.gen.c"
    assert loops(path), f"{path.name} has no loops"
    misses = {"gcc": gcc_misses, "clang": clang_misses}[compiler](path)
    tap.equal(misses, [], f"lines of {path.name} of which {compiler} made no "
              "vectors of that size")


if __name__ == "__main__":
    tap.run([(f"{compiler} vectorises every loop of {name} at every level",
              lambda n=name, c=compiler: every_loop_is(n, c))
             for name in sorted(path.name.split(".")[0]
                                for path in GENERATED.glob("*.gen.c")
                                if loops(path))
             for compiler in ("gcc", "clang")])
