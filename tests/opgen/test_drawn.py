#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drawn calls (tenon/test/drawn.h) find kernels that crash, hang, end the
process, or read and write outside of their arrays.

    test_drawn.py OPGEN CC LIBTENON
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import tap  # noqa: E402
from lab import Lab  # noqa: E402

OPGEN, LIBRARY = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 3))
CC = shlex.split(sys.argv[2])
SCRATCH = tempfile.TemporaryDirectory()
LAB = Lab([OPGEN], CC, pathlib.Path(SCRATCH.name))

# One operator per kernel, which is a body of C.
BODIES = {
    "good": "for (i = 0; i < n; ++i) y[i] = x[i];",
    "refuses": "return TN_FAIL(call, TN_OUT_OF_RANGE, \"no, thanks\");",
    "reads_after": "for (i = 0; i < n; ++i) y[i] = x[i + 1];",
    "reads_before": "for (i = 0; i < n; ++i) y[i] = x[i - 1];",
    "writes_after": "for (i = 0; i <= n; ++i) y[i] = 1;",
    "writes_before": "for (i = -1; i < n; ++i) y[i] = 1;",
    "writes_input": "for (i = 0; i < n; ++i) ((float *)x)[i] += 1;",
    "trusts_other": "for (i = 0; i < n; ++i) y[i] = table[i];",
    "trusts_width": "for (i = 0; i < n; ++i) y[i] = x[i + width];",
    "exits": "exit(0);",
    "exits_at_once": "_exit(0);",
    "aborts": "abort();",
    "never_ends": "for (;;) (void)*(volatile float *)(void *)table;",
    "recurses": "return lab_recurses(call) + 1;",
    "is_internal": "return TN_FAIL(call, TN_INTERNAL, \"oops\");",
    "has_no_code": "return 5;",
}
HEAD = """\
opgen: 1
family: kernels
dtypes: {T: [f32]}
params:
  - {name: width, type: int, default: 0, min: 0, max: 2147483647, doc: Any}
inputs:
  - {name: data, dtype: T, layout: contiguous, doc: Any}
  - {name: table, dtype: T, layout: contiguous, independent: true, doc: Any}
outputs: [{name: out, dtype: T, shape: data, layout: contiguous, doc: Any}]
gradient: {none: true, why: it is a test}
each:
"""
KERNEL = """\
int32_t lab_%s(const tn_frame *call) {
  const int64_t n = tn_tensor_size(&call->in[0]);
  const float *x = (const float *)call->in[0].data;
  const float *table = (const float *)call->in[1].data;
  const int64_t width = *(const int64_t *)call->params;
  float *y = (float *)call->out[0].data;
  int64_t i = 0;
  (void)n, (void)x, (void)table, (void)width, (void)y, (void)i;
  %s
  return TN_OK;
}
"""
STORED = """\
opgen: 1
op: stored
summary: A kernel of a test
doc: Nothing of use.
params: [{name: to, type: dtype, values: [u8, i4, u2], default: i4, doc: Any}]
dtypes: {T: [u8, f8e5m2, f4e2m1, i2]}
inputs: [{name: data, dtype: T, layout: contiguous, doc: Any}]
outputs: [{name: out, dtype: to, shape: data, layout: contiguous, doc: Any}]
gradient: {none: true, why: it is a test}
kernels: [{device: cpu, forward: lab_stored}]
"""
STORED_C = """\
#include "op.gen.h"
int32_t lab_stored(const tn_frame *call) {
  const int64_t n = tn_tensor_bytes(&call->in[0]);
  const int64_t m = tn_tensor_bytes(&call->out[0]) + MORE;
  const uint8_t *x = call->in[0].data;
  uint8_t *y = call->out[0].data;
  for (int64_t i = 0; i < m; ++i) y[i] = i < n ? x[i] : 0;
  return TN_OK;
}
"""
PROGRAM = """\
#include "tenon/test/drawn.h"
int main(int argc, char **argv) { return tn_drawn_main(argc, argv); }
"""
PLUGIN = []
BESIDE = r"(?:signal 11|bytes beside an array were written)"


def build():
    """The plugin of all kernels, and the program that draws calls."""
    members = "".join(
        f"  - op: {name}\n    summary: A kernel of a test\n"
        f"    doc: Nothing of use.\n"
        f"    kernels: [{{device: cpu, forward: lab_{name}}}]\n"
        for name in BODIES)
    source = ("#include <stdlib.h>\n#include <unistd.h>\n"
              "#include \"op.gen.h\"\n" +
              "".join(KERNEL % each for each in BODIES.items()))
    folder = LAB.build(LAB.write(HEAD + members), source)
    (folder / "drawn.c").write_text(PROGRAM)
    tap.output([*CC, "-O1", "-D_GNU_SOURCE", "-I", ROOT / "sdk/include", "-o",
                folder / "drawn", folder / "drawn.c", LIBRARY,
                f"-Wl,-rpath,{LIBRARY.parent}", "-lm"])
    PLUGIN.append(folder)


def drawn(name, *options):
    """Status and lines of the calls of one operator."""
    seconds = "1" if name == "never_ends" else "60"
    done = subprocess.run(
        [PLUGIN[0] / "drawn", PLUGIN[0] / "lab.so", "--operator",
         f"lab.{name}", "--seconds", seconds, *options],
        text=True, check=False, capture_output=True, timeout=300)
    return done.returncode, done.stdout


def finds(name, why):
    """A failure with this reason, that the printed options repeat."""
    status, said = drawn(name)
    tap.equal(status, 1, said)
    found = re.search(r"^not ok \d+ - lab\.(\w+)@1: draw \d+ of seed 1\n"
                      rf"# .*{why}.*\n# in (forward|training): .*f32\(.*\n"
                      r"# repeat it with (.*)$", said, re.M)
    assert found, f"no `{why}` in\n{said}"
    tap.equal(found[1], name)
    again = drawn(name, *found[3].split()[4:], "--seed", "1")
    assert f"draw {found[3].split()[-1]} of seed 1" in again[1], again[1]
    tap.equal(again[0], 1, again[1])


def case(name, why):
    return (f"a kernel that {name} is found".replace("_", " "),
            lambda: finds(name, why))


def good_kernels_pass():
    for name in ("good", "refuses"):
        status, said = drawn(name)
        tap.equal(status, 0, said)
        assert f"ok 1 - lab.{name}@1: 400 drawn calls, " in said, said
    tap.equal(drawn("good", "--least", "100")[0], 0)


def a_kernel_that_computes_few_calls_fails_where_more_are_asked_for():
    status, said = drawn("refuses", "--least", "100")
    tap.equal(status, 1, said)
    assert "# at least 100 should be computed (--least)" in said, said


def all_of_them_are_called_in_spite_of_failures():
    done = subprocess.run([PLUGIN[0] / "drawn", PLUGIN[0] / "lab.so",
                           "--seconds", "1", "--draws", "20"], text=True,
                          check=False, capture_output=True, timeout=300)
    for name in BODIES:
        assert f"lab.{name}@1" in done.stdout, f"{name}:\n{done.stdout}"
    tap.equal(done.returncode, 1)


def plugins_that_do_not_load_are_no_success():
    done = subprocess.run([PLUGIN[0] / "drawn", "/nowhere.so"], text=True,
                          check=False, capture_output=True, timeout=300)
    tap.equal(done.returncode, 2)
    assert "Bail out! " in done.stdout and "/nowhere.so" in done.stdout, \
        done.stdout


def storage_types_are_drawn_in_their_bytes():
    for more in "0", "1":
        folder = LAB.build(LAB.write(STORED), STORED_C.replace("MORE", more))
        done = subprocess.run(
            [PLUGIN[0] / "drawn", folder / "lab.so", "--least", "100"],
            text=True, check=False, capture_output=True, timeout=300)
        tap.equal(done.returncode, int(more), done.stdout)
        if more == "1":
            assert re.search(BESIDE, done.stdout), done.stdout


if __name__ == "__main__":
    with SCRATCH:
        build()
        tap.run([good_kernels_pass,
                 a_kernel_that_computes_few_calls_fails_where_more_are_asked_for,
                 case("reads_after", r"signal 11"),
                 case("reads_before", r"signal 11"),
                 case("writes_after", BESIDE),
                 case("writes_before", BESIDE),
                 case("writes_input", r"an input was written"),
                 case("trusts_other", r"signal 11"),
                 case("trusts_width", r"signal 11"),
                 case("exits", r"the process was ended with status 0"),
                 case("exits_at_once", r"the process was ended with status 0"),
                 case("aborts", r"signal 6"),
                 case("never_ends", r"it did not return within 1 seconds"),
                 case("recurses", r"signal 11"),
                 case("is_internal", r"TN_INTERNAL: .*oops"),
                 case("has_no_code", r"TN_PLUGIN: .*5, which is no code"),
                 all_of_them_are_called_in_spite_of_failures,
                 storage_types_are_drawn_in_their_bytes,
                 plugins_that_do_not_load_are_no_success])
