# SPDX-License-Identifier: Apache-2.0
"""gcc and clang vectorise the loops that opgen wrote, at every level of
instructions, and say so.

    test_vectors.py SOURCE_ROOT GENERATED_FOLDER

Every loop of a generated file is compiled three times; each time the compiler
must report it with the width of that level: 16, 32 and 64 bytes. Loops in f64
that call a function which math.h leaves to libm are not claimed to be.
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
LOOP = re.compile(r"^  for \(int64_t i = 0; i < block->n; \+\+i\)")
CALL = re.compile(r"\b(?:tn_math_)(\w+)_f64\(")
VECTORISED = set("""abs cbrt ceil clip cosh exp expm1 floor log log1p log2 max min
    rint round rsqrt select sigmoid sign sinh softplus sqrt tanh trunc""".split())
BODY = re.compile(r"^TN_KERNEL_BODY void (\w+_(f32|f64|i32|i64))_loop\(")
FLAGS = ["-std=c11", "-O3", "-ffp-contract=fast", "-fno-math-errno",
         "-fno-trapping-math"]
BYTES = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}


def libm_calls(path):
    """Names of the formulas in f64 that call libm."""
    text = path.with_name(path.name.replace(".gen.c", ".formula.gen.h")
                          ).read_text()
    functions = re.findall(r"^TN_MATH_FN \w+ (\w+)\((.*?)^}", text,
                           re.MULTILINE | re.DOTALL)
    return {name for name, body in functions
            if set(CALL.findall(body)) - VECTORISED}


def loops(path):
    """{line: bytes of an element} of the element loops of a generated file that
    are to be vectorised."""
    found = {}
    size = 0
    scalar = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        body = BODY.match(line)
        if body:
            if scalar is None:
                scalar = libm_calls(path)
            name, kind = body.groups()
            size = 0 if name in scalar else BYTES[kind]
        if LOOP.match(line) and size:
            found[number] = size
    return found


def report(compiler, flags, path):
    done = subprocess.run(
        [compiler, *FLAGS, *flags, "-I", SOURCE / "sdk" / "include", "-I",
         GENERATED, "-c", path, "-o", "/dev/null"],
        check=True, text=True, capture_output=True)
    return done.stderr


def gcc_widths(path):
    """{(line, bytes of a vector)} that gcc reports."""
    # -fno-ipa-icf: else equal functions are compiled once and reported so.
    text = report("gcc", ["-fno-ipa-icf", "-fopt-info-vec-optimized"], path)
    found = re.findall(rf"{re.escape(path.name)}:(\d+):.*loop vectorized using "
                       r"(\d+) byte", text)
    return {(int(line), int(width)) for line, width in found}


def clang_widths(path):
    """The same of clang, which counts elements."""
    sizes = loops(path)
    text = report("clang", ["-Rpass=loop-vectorize"], path)
    found = re.findall(rf"{re.escape(path.name)}:(\d+):.*vectorized loop "
                       r"\(vectorization width: (\d+)", text)
    return {(int(line), int(width) * sizes.get(int(line), 0))
            for line, width in found}


def every_loop_is(name, compiler):
    if not shutil.which(compiler):
        raise tap.Skip(f"{compiler} is not installed")
    path = GENERATED / f"{name}.gen.c"
    assert loops(path), f"{path.name} has no loops"
    levels = (16, 32, 64) if platform.machine() == "x86_64" else (16,)
    wanted = {(line, width) for line in loops(path) for width in levels}
    seen = {"gcc": gcc_widths, "clang": clang_widths}[compiler](path)
    tap.equal(sorted(wanted - seen), [],
              f"lines of {path.name} and bytes of vectors that {compiler} "
              "does not report")


if __name__ == "__main__":
    tap.run([(f"{compiler} vectorises every loop of {name} at every level",
              lambda n=name, c=compiler: every_loop_is(n, c))
             for name in sorted(path.name.split(".")[0]
                                for path in GENERATED.glob("*.gen.c")
                                if loops(path))
             for compiler in ("gcc", "clang")])
