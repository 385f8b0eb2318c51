#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The faults that tests of `opgen generate --tests` find, and the code they pass.

    test_generated.py OPGEN CC LIBTENON TENON
"""

import pathlib
import re
import shlex
import shutil
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
HEAD = """\
opgen: 1
op: cube
summary: An operator of a test
doc: Nothing of use.
"""


def built(body, source="", head=HEAD):
    return LAB.build(LAB.write(head + body), source)


def run(*args, **more):
    return LAB.tests(built(*args, **more), LIBRARY)


def passes(result, *texts):
    status, said = result
    tap.equal(status, 0, said)
    assert "not ok" not in said, said
    for text in texts:
        assert text in said, f"no `{text}` in\n{said}"


def fails(result, *texts):
    status, said = result
    tap.equal(status, 1, said)
    for text in texts:
        assert text in said, f"no `{text}` in\n{said}"


# ---------------------------------------------------------- difference quotients

def half_types_alone_are_not_compared_with_quotients():
    body = """\
dtypes: {T: [f16, bf16, i32]}
inputs: [{name: x, dtype: T, doc: Any}]
outputs: [{name: y, dtype: T, shape: x, doc: Cube}]
forward: {y: 3*x^2}
gradient: auto
examples: [{name: e, x: [1, 2], y: [3, 12], grad: {y: [1, 1], x: [6, 12]}}]
"""
    passes(run(body), "lab.cube@1 e: numeric gradient, f16 # SKIP f16 is too "
           "coarse for difference quotients, and neither f64 nor f32 can replace "
           "it", "lab.cube@1 e gradient: f16")
    # In f32 beside them they are.
    passes(run(body.replace("bf16, i32", "f32")),
           "numeric gradient, f32, point 1\n")


def gradcheck_is_that_of_the_derived_operator_too():
    body = """\
dtypes: {T: [f32, f64]}
inputs: [{name: x, dtype: T, doc: Any}]
outputs: [{name: y, dtype: T, shape: x, doc: Cube}]
forward: {y: x^3}
gradient: auto
gradcheck: {points: 3, tol: 1e-3, skip: It has a kink}
examples: [{name: e, x: [1, 2], y: [1, 8]}]
"""
    passes(run(body), "lab.cube@1: numeric gradient # SKIP It has a kink",
           "lab.cube_grad@1: numeric gradient # SKIP It has a kink")
    passes(run(body.replace(", skip: It has a kink", "")),
           "lab.cube_grad@1 guessed: numeric gradient, f64, point 3\n")


# ------------------------------------------------------------- types to compute in

WIDER = """\
dtypes: {{T: [{types}], compute: {{T: {wide}}}}}
inputs: [{{name: x, dtype: T, doc: Any}}, {{name: z, dtype: T, doc: Any}}]
outputs: [{{name: y, dtype: T, shape: broadcast, doc: What is left}}]
forward: {{y: "{formula}"}}
gradient: {gradient}
examples: [{{name: e, x: [1, 2, 3], z: [[0], [1]], y: {rows}}}]
"""


def floats_compute_in_the_type_that_is_named():
    body = WIDER.format(types="f16, f32, f64", wide="f64", gradient="auto",
                        formula="(x + 16777216) - 16777215 + z",
                        rows="[[2, 3, 4], [3, 4, 5]]")
    passes(run(body), "e: f32, cpu, dense, new\n", "e: f16, cpu, columns, add\n",
           "e: f64, cpu, steps, write\n", "numeric gradient, f64")
    fails(run(body.replace(", compute: {T: f64}", "")),
          "`y` (f32), element (0,0): expected 2, got 1")


def integers_compute_in_the_type_that_is_named():
    none = "{none: true, why: it is a test}"
    body = WIDER.format(types="i8, u16, i32", wide="i64", gradient=none,
                        formula="select(x*1073741824 > 0, x, 0) + z",
                        rows="[[1, 2, 3], [2, 3, 4]]")
    passes(run(body), "e: u16, cpu, dense, new\n", "e: i32, cpu, repeated, new\n")
    fails(run(body.replace(", compute: {T: i64}", "")),
          "`y` (i8), element (0,1): expected 2, got 0")
    # Among floats there are halves, and functions that integers have not.
    body = WIDER.format(types="u8, i32", wide="f32", gradient=none,
                        formula="floor(exp(0*x) * x/2) + z",
                        rows="[[0, 1, 1], [1, 2, 2]]")
    passes(run(body), "e: u8, cpu, dense, new\n", "e: i32, cpu, dense, add\n")


# ------------------------------------------------------------------ partial shapes

HOOKED = """\
dtypes: {T: [f32]}
inputs: [{name: x, dtype: T, layout: contiguous, doc: A line}]
outputs: [{name: y, dtype: T, shape: {c: lab_cube_infer}, layout: contiguous, doc: The same}]
gradient: {none: true, why: it is a test}
kernels: [{device: cpu, forward: lab_cube}]
examples: [{name: e, x: [1, 2], y: [1, 2]}]
"""
HOOKED_C = """\
#include <string.h>
#include "op.gen.h"
int32_t lab_cube_infer(const tn_frame *call) {
  const tn_tensor *x = &call->in[0];
  const int64_t n = UNKNOWN;
  if (x->ndim < 0) return TN_OK;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 1,
                               x->shape[0] < 0 ? &n : x->shape);
}
int32_t lab_cube(const tn_frame *call) {
  const size_t n = (size_t)tn_tensor_size(&call->in[0]);
  memcpy(call->out[0].data, call->in[0].data, n * sizeof(float));
  return TN_OK;
}
"""


def a_function_that_guesses_shapes_is_found():
    passes(run(HOOKED, HOOKED_C.replace("UNKNOWN", "-1")),
           "lab.cube@1 e: partial shapes\n")
    fails(run(HOOKED, HOOKED_C.replace("UNKNOWN", "7")),
          "lab.cube@1 e: partial shapes: without the length 0 of `x`, inference "
          "refuses the example: shapes contradict")
    fails(run(HOOKED, HOOKED_C.replace("UNKNOWN", "call->out[0].ndim < 0 ? 7 : -1")),
          "lab.cube@1 e: partial shapes: without the length 0 of `x` and all "
          "outputs, inference states for `y` a rank, length or type that the "
          "example does not have, or loses one")


# ------------------------------------------------------------------------- later

LATER = """\
dtypes: {T: [f32, f64]}
inputs: [{name: x, dtype: T, layout: contiguous, doc: Any}]
outputs: [{name: y, dtype: T, shape: x, layout: contiguous, inplace: x, doc: The same}]
gradient: {kernel: backward, needs: {x: [grad.y]}}
kernels:
  - device: cpu
    forward: lab_cube
    backward: lab_cube
    writes: [write, inplace]
    flags: [reentrant, later]
examples: [{name: e, x: [1, 2], y: [1, 2], grad: {y: [1, 3], x: [1, 3]}}]
"""
LATER_C = """\
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "op.gen.h"
typedef struct work {
  const tn_frame *call;
  tn_later *later;
} work;
static void *finish(void *arg) {
  work w = *(work *)arg;
  free(arg);
  if (w.call->req[0] == TN_REQ_WRITE)
    memcpy(w.call->out[0].data, w.call->in[0].data,
           (size_t)tn_tensor_bytes(&w.call->in[0]) BEYOND);
  w.call->host->complete(w.later, TN_OK, NULL);
  return NULL;
}
int32_t lab_cube(const tn_frame *call) {
  work *w = malloc(sizeof *w);
  pthread_t thread;
  if (w == NULL) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory");
  *w = (work){call, call->host->defer(call)};
  if (w->later == NULL || pthread_create(&thread, NULL, finish, w) != 0)
    return TN_FAIL(call, TN_DEVICE, "no thread");
  pthread_detach(thread);
  return TN_LATER;
}
"""


def kernels_that_complete_later_are_tested_like_others():
    passes(run(LATER, LATER_C.replace("BEYOND", "")), "e: f32, cpu, dense, new\n",
           "e: f64, cpu, steps, write\n", "e: f32, cpu, dense, add\n",
           "numeric gradient, f64")
    fails(run(LATER, LATER_C.replace("BEYOND", "+ 64")), "lab.cube@1")


# -------------------------------------------------------------------- parameters

def integers_beyond_the_type_are_its_bounds():
    body = """\
params: [{name: limit, type: int, doc: Above all of them}]
dtypes: {T: [i8, i32, i64, u8, u32, f32]}
inputs: [{name: x, dtype: T, doc: Any}]
outputs: [{name: y, dtype: T, shape: x, doc: Whether it is below}]
forward: {y: "select(x < limit, 1, 0)"}
gradient: {none: true, why: it is a test}
examples:
  - {name: far, params: {limit: 4294967296}, x: [1, 2], y: [1, 1]}
  - {name: behind, params: {limit: -4294967295}, x: [1, 2], y: [0, 0]}
  - {name: near, params: {limit: 2}, x: [1, 2], y: [1, 0]}
"""
    passes(run(body), "lab.cube@1 far: i32, cpu, dense, new\n",
           "lab.cube@1 behind: i8, cpu, dense, new\n",
           "lab.cube@1 near: f32, cpu, dense, new\n")


# ------------------------------------------------------------------------ graphs

GRAPH = """\
dtypes: {{T: [f32, f64]}}
inputs: [{{name: x, dtype: T, doc: Any}}]
outputs: [{{name: y, dtype: T, shape: x, doc: Twice}}]
forward: {{y: 2*x}}
gradient: {{graph: {{x: "{graph}"}}}}
examples: [{{name: e, x: [1, 2], y: [2, 4], grad: {{y: [1, 3], x: [2, 6]}}}}]
"""
RIGHT = GRAPH.format(graph="lab.cube(grad.y)")
WRONG = GRAPH.format(graph="lab.cube(lab.cube(grad.y))")
UNKNOWN = GRAPH.format(graph="other.cubes(grad.y)")


def right_graphs_of_gradients_pass():
    passes(run(RIGHT), "lab.cube@1 e gradient: f32, cpu, dense, new\n",
           "lab.cube@1 e gradient: f64, cpu, steps, add\n",
           "lab.cube@1 e: numeric gradient, f64, point 1\n")


def what_types_cannot_be_is_left_out_and_not_skipped():
    result = run(RIGHT.replace("f32, f64", "f32, i32"))
    passes(result, "# left out: lab.cube@1 e gradient: i32, cpu, dense, new: "
           "tn_tape_watch: an array of i32 has no gradient")
    assert "SKIP" not in result[1], result[1]


def wrong_graphs_of_gradients_fail():
    fails(run(WRONG), "`x` (f32), element (0): expected 2, got 4",
          " - lab.cube@1 e: numeric gradient, f64, point 1: gradient of `x`")


def graphs_that_call_what_is_not_there_fail():
    fails(run(UNKNOWN), "not ok 1 - lab.cube@1: operators that its gradient "
          "calls: there is no operator", "other.cubes", "; name the plugin that has it on the "
          "command line, before this one")


def check(*given):
    folder = built(*given)
    done = subprocess.run([OPGEN, "check", folder, folder / "lab.so"],
                          text=True, capture_output=True, check=False)
    return done.returncode, done.stderr


def opgen_check_takes_graphs_for_what_they_are():
    tap.equal(check(RIGHT), (0, ""))
    status, said = check(WRONG)
    tap.equal(status, 1)
    assert "E0083" in said and "`grad.x` comes out as [4, 12]" in said, said


def tenon_run_computes_them():
    said = tap.output([TENON, "run", "lab.cube", "[1, 2]", "--grad",
                       "--plugin", built(RIGHT) / "lab.so"])
    tap.equal(said, "[2, 4]\ngrad.x:\n[2, 2]\n")


# ----------------------------------------------------------------------- kernels

KERNEL = """\
inputs: [{name: x, dtype: f32, doc: Any}]
outputs: [{name: y, dtype: f32, shape: x, doc: Twice}]
gradient: {none: true, why: it is a test}
kernels: [{device: DEVICE, forward: lab_cube, OTHER writes: [write]}]
examples: [{name: e, x: [1, 2, 3], y: [2, 4, 6]}, {name: m, x: [[1, 2], [3, 4]], y: [[2, 4], [6, 8]]}]
"""
TAKES = KERNEL.replace("DEVICE", "cpu").replace("OTHER",
                                                "supports: lab_takes,")
DENSE = """
#include "op.gen.h"
int32_t lab_cube(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->out[0]); ++i) y[i] = 2 * x[i];
  return TN_OK;
}
"""
DECLINES = DENSE + """
int32_t lab_takes(const tn_frame *call) {
  return TN_FAIL(call, %s, "not on a Monday");
}
"""


def an_operator_that_nobody_computes_fails():
    for code in "TN_UNSUPPORTED", "TN_UNIMPLEMENTED", "TN_INTERNAL":
        result = run(TAKES, DECLINES % code)
        fails(result, "not ok", "lab.cube@1: an example that runs: "
              "none was computed with any element type on any device",
              "not on a Monday")
        line = next(each for each in result[1].splitlines() if "SKIP" in each)
        assert line.startswith("ok 2 - lab.cube@1 e: any, cpu, dense, new # "
                               "SKIP no forward kernel of lab.cube@1 takes "
                               "this call: "), line
        assert line.endswith("not on a Monday"), line


def a_kernel_that_takes_a_call_and_gives_up_fails():
    """Its `supports` would have said so before anybody counted on it."""
    source = """
#include "op.gen.h"
int32_t lab_cube(const tn_frame *call) {
  return TN_FAIL(call, TN_UNSUPPORTED, "not on a Tuesday");
}
"""
    body = KERNEL.replace("DEVICE", "cpu").replace("OTHER", "")
    fails(run(body, source), "not ok 2 - lab.cube@1 e: any, cpu, dense, new: "
          "lab.cube@1: not on a Tuesday; in compute of kernel lab.cube.cpu",
          "say in `dtypes`, `when` or `supports` which calls the kernel does "
          "not take")


def a_kernel_that_ends_the_process_is_found_by_its_case():
    source = """
#include "op.gen.h"
#include <stdlib.h>
int32_t lab_cube(const tn_frame *call) {
  if (call->in[0].ndim == 2) abort();
  float *y = call->out[0].data;
  for (int64_t i = 0; i < 3; ++i) y[i] = 2 * ((float *)call->in[0].data)[i];
  return TN_OK;
}
"""
    body = KERNEL.replace("DEVICE", "cpu").replace("OTHER", "").replace(
        "shape: x,", "shape: x, layout: contiguous,").replace(
            "dtype: f32, doc: Any", "dtype: f32, layout: contiguous, doc: Any")
    # All cases of the second example that make a call, until the operator is
    # given up; and none of the first.
    status, said = run(body, source)
    tap.equal(status, 1, said)
    failed = re.findall(r"(?m)^not ok \d+ - (.*)", said)
    tap.equal(len(failed), 6, said)
    tap.equal(failed[0], "lab.cube@1 m: any, cpu, dense, new: the process was "
              "ended by signal 6 (Aborted)")
    assert all(line.startswith("lab.cube@1 m: ") for line in failed), said
    assert "# left out: the other cases of this operator\n" in said, said
    assert re.search(r"(?m)^1\.\.\d+$", said), said


def kernels_for_a_device_that_is_missing_are_skipped():
    body = KERNEL.replace("DEVICE", "cuda").replace("OTHER", "")
    source = '#include "op.gen.h"\nint32_t lab_cube(const tn_frame *call) ' \
        '{ (void)call; return TN_OK; }\n'
    passes(run(body, source), "# SKIP operator lab.cube@1 has no forward kernel")


def a_declared_type_that_no_kernel_takes_fails():
    body = KERNEL.replace("DEVICE", "cpu").replace("OTHER", "dtypes: [f32],")
    body = "dtypes: {T: [f32, f64]}\n" + body.replace(
        "dtype: f32, doc", "dtype: T, layout: contiguous, doc").replace(
            "dtype: f32, shape: x", "dtype: T, shape: x, layout: contiguous")
    fails(run(body, DENSE), "ok 2 - lab.cube@1 e: f32, cpu, dense, new\n",
          "not ok 35 - lab.cube@1: f64: forward: `dtypes` declares f64 for T, "
          "but no forward kernel took it; the last refusal: no forward kernel "
          "of lab.cube@1 takes this call")


def an_elementwise_kernel_that_errs_in_long_arrays_fails():
    body = KERNEL.replace("DEVICE", "cpu").replace(
        "OTHER", "flags: [elementwise],").replace(
            "doc: ", "layout: contiguous, doc: ")
    source = DENSE.replace("return TN_OK", "if (tn_tensor_size(&call->out[0]) "
                           "> 100) y[1] += 1;\n  return TN_OK")
    fails(run(body, source), "lab.cube@1 e: any, cpu, dense, batch: `y`, element "
          "number 1: expected 4 as in the example, got 5 among 257 rows")


def a_kernel_that_forgets_strides_fails_in_every_layout():
    body = KERNEL.replace("DEVICE", "cpu").replace("OTHER", "").replace(
        "[1, 2, 3], y: [2, 4, 6]", f"{list(range(1, 4001))}, "
        f"y: {list(range(2, 8001, 2))}")
    fails(run(body, DENSE), "not ok",
          "lab.cube@1 e: any, cpu, steps, write: the kernel wrote between the "
          "elements of `y`", "`y` (f32), element (1): expected 4, got ",
          "lab.cube@1 m: any, cpu, columns, write: `y` (f32), element (0,1): "
          "expected 4, got 6", "lab.cube@1 m: any, cpu, repeated, new: the "
          "kernel read or wrote 1 bytes after the last element of `x`")


# ------------------------------------------------------------------ replacements

def replacing():
    """A plugin `other`, and one of the same that replaces its operator."""
    body = KERNEL.replace("DEVICE", "cpu").replace("OTHER", "").replace(
        "doc: ", "layout: contiguous, doc: ")
    other = LAB.write(HEAD + body.replace("lab_cube", "other_cube"))
    manifest = other / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("plugin: lab",
                                                     "plugin: other"))
    LAB.build(other, DENSE.replace("lab_cube", "other_cube").replace(
        "2 * x", "3 * x"))
    return other, built("replaces: other.cube\n" + body, DENSE)


def a_plugin_that_replaces_an_operator_is_tried():
    other, folder = replacing()
    passes(LAB.tests(folder, LIBRARY, other / "lab.so", folder / "lab.so"),
           "lab.cube@1 e: any, cpu, dense, new\n")
    said = tap.output([TENON, "run", "other.cube", "[1, 2]", "--plugin",
                       other / "lab.so", "--plugin", folder / "lab.so"])
    tap.equal(said, "[2, 4]\n")


# --------------------------------------------------------- kernels for others

CUBED = """\
dtypes: {T: [f32, f64]}
inputs: [{name: x, dtype: T, layout: contiguous}]
outputs: [{name: y, dtype: T, shape: x, layout: contiguous}]
forward: {y: x^3}
gradient: auto
examples: [{name: e, x: [1, 2], y: [1, 8], grad: {y: [1, 1], x: [3, 12]}}]
"""
KERNELS_FOR = """\
opgen: 1
kernels_for: other.cube@1
kernels:
  - device: cpu
    priority: 100
    forward: lab_cube
    dtypes: [f32]
    writes: [write]
"""
CUBES = DENSE.replace("2 * x[i]", "x[i] * x[i] * x[i]")


def tried_for_another(source, init="", operator=CUBED):
    """Tests of kernels for an operator of the plugin `other`."""
    other, folder = LAB.write(HEAD + operator), LAB.write(KERNELS_FOR)
    manifest = other / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("plugin: lab",
                                                     "plugin: other"))
    LAB.build(other)
    manifest = folder / "plugin.yaml"
    manifest.write_text(manifest.read_text() + init)
    LAB.build(folder, source, given=[other])
    return LAB.tests(folder, LIBRARY, other / "lab.so", folder / "lab.so",
                     given=[other])


def kernels_that_their_plugin_withdrew_are_skipped():
    passes(tried_for_another(CUBES), "other.cube@1 e: f32, cpu, dense, new "
           "(lab.cube.cpu)\n")
    source = CUBES + """
#include "plugin.gen.h"
int32_t lab_init(const tn_host *host, tn_registrar *registrar, void **instance) {
  (void)host, (void)instance;
  return registrar->withdraw(registrar, "lab.cube.cpu", "nobody multiplies #1");
}
"""
    result = tried_for_another(source, "init: lab_init\n")
    passes(result, "ok 1 - other.cube@1 (lab.cube.cpu) # SKIP its plugin "
           "withdrew it: nobody multiplies _1\n1..1\n")


def quotient(result):
    """The result of the first one."""
    found = re.search(r"(?m)^(ok|not ok) \d+ - other.cube@1 e: numeric gradient, "
                      r"f32, point 1 \(lab.cube.cpu\)(:.*)?$", result[1])
    assert found, result[1]
    return found[1]


def quotients_of_an_f32_kernel_are_not_taken_with_settings_for_f64():
    """`gradcheck` is for the operator's own tests, which choose f64."""
    fine = CUBED + "gradcheck: {eps: 1e-7, tol: 1e-9}\n"
    passes(tried_for_another(CUBES, operator=fine),
           "other.cube@1 e: numeric gradient, f32, point 1 (lab.cube.cpu)\n")
    # Larger ones are taken as they are.
    wide = CUBED + "gradcheck: {tol: 0.5}\n"
    wrong = CUBES.replace("x[i] * x[i] * x[i]", "1.1f * x[i] * x[i] * x[i]")
    tap.equal(quotient(tried_for_another(wrong, operator=wide)), "ok")
    tap.equal(quotient(tried_for_another(wrong, operator=fine)), "not ok")
    # Of an operator without f64 they are for f32.
    narrow = fine.replace("[f32, f64]", "[f32]")
    tap.equal(quotient(tried_for_another(CUBES, operator=narrow)), "not ok")


# ------------------------------------------------------------ optional inputs

def an_optional_input_before_one_that_is_given_may_be_absent():
    folder = built("""\
dtypes: {T: [f32]}
inputs:
  - {name: x, dtype: T, layout: contiguous}
  - {name: a, dtype: T, shape: x, optional: true, layout: contiguous}
  - {name: b, dtype: T, shape: x, optional: true, layout: contiguous}
outputs: [{name: y, dtype: T, shape: x, layout: contiguous}]
require: [{that: has(a) != has(b), say: give either a or b}]
kernels: [{device: cpu, dtypes: [f32], forward: either}]
gradient: none
examples:
  - {name: first, x: [1, 2], a: [3, 4], y: [4, 6]}
  - {name: second, x: [1, 2], b: [3, 4], y: [-2, -2]}
""", """#include "op.gen.h"
int32_t either(const tn_frame *call) {
  const int second = (call->in_flags[1] & TN_IN_ABSENT) != 0;
  const float *x = (const float *)call->in[0].data;
  const float *other = (const float *)call->in[second ? 2 : 1].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    ((float *)call->out[0].data)[i] = second ? x[i] - other[i] : x[i] + other[i];
  return TN_OK;
}
""")
    tap.output([OPGEN, "check", folder, folder / "lab.so"])
    passes(LAB.tests(folder, LIBRARY), "first: f32, cpu, dense, write",
           "second: f32, cpu, dense, write", "second: f32, cpu, steps, add")


# ------------------------------------------------------------------- training

DOUBLES = """\
dtypes: {T: [f32]}
inputs: [{name: x, dtype: T, layout: contiguous}]
outputs: [{name: y, dtype: T, shape: x, layout: contiguous}]
kernels: [{device: cpu, forward: fade, backward: fade_back}]
gradient: {kernel: backward, needs: {x: [grad.y]}}
examples:
  - {name: usual, x: [1, 2], y: [1, 2], grad: {y: [3, 4], x: [3, 4]}}
  - name: trained
    training: TRAINING
    x: [1, 2]
    y: [2, 4]
    grad: {y: [3, 4], x: [6, 8]}
"""
FADE = """#include "op.gen.h"
static int32_t fill(const tn_frame *call, const tn_tensor *to, const float *v) {
  const float by = call->flags & TN_CALL_TRAIN ? 2 : 1;
  for (int64_t i = 0; i < tn_tensor_size(to); ++i)
    ((float *)to->data)[i] = by * v[i];
  return TN_OK;
}
int32_t fade(const tn_frame *call) {
  return fill(call, &call->out[0], (const float *)call->in[0].data);
}
int32_t fade_back(const tn_frame *call) {
  return fill(call, &call->out[0], (const float *)call->in[0].data);
}
"""


def an_example_may_be_a_call_of_training():
    folder = built(DOUBLES.replace("TRAINING", "true"), FADE)
    passes(LAB.tests(folder, LIBRARY), "trained: f32, cpu, dense, write",
           "trained gradient: f32, cpu, steps, write",
           "trained: numeric gradient, f32, point 1")
    page = folder / "page.md"
    tap.output([OPGEN, "docs", folder, "-o", page])
    tap.equal(page.read_text().count("In training:"), 1, "examples of training")
    fails(run(DOUBLES.replace("TRAINING", "false"), FADE), "not ok",
          "trained: f32, cpu, dense, write: ", "expected 2, got 1")


# ----------------------------------------------------------------- long texts

def warnings_of(folder, compiler):
    """Compiles the files of a folder with all warnings."""
    for source in sorted((folder / "generated").glob("*.gen.c")):
        tap.output([*compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic",
                    "-Werror", "-fsyntax-only", "-I", ROOT / "sdk/include",
                    "-I", folder / "generated", source])


# ------------------------------------------------------------- storage types

STORED = """\
params: [{name: to, type: dtype, values: [f32, f8e5m2, i4, u2], default: f32, doc: Any}]
dtypes: {T: [f32, f8e4m3fn, f4e2m1, i4]}
inputs: [{name: x, dtype: T, layout: contiguous, doc: Any}]
outputs: [{name: y, dtype: to, shape: x, layout: contiguous, doc: The same}]
gradient: {none: true, why: it is a test}
kernels: [{device: cpu, forward: lab_cube, writes: [write]}]
examples:
  - {name: e, x: [1, 2, 3], y: [1, 2, 3]}
  - {name: four, params: {to: i4}, x: [[-1, 2, 7], [0, 1, -8], [3, 4, 5]], y: [[-1, 2, 7], [0, 1, -8], [3, 4, 5]]}
  - {name: two, params: {to: u2}, x: [1, 2, 3, 0, 1], y: [1, 2, 3, 0, 1]}
  - {name: one, params: {to: f8e5m2}, x: 0.5, y: 0.5}
"""
STORED_C = """\
#include "op.gen.h"
#include "tenon/kernel/storage.h"
int32_t lab_cube(const tn_frame *call) {
  const tn_tensor *x = &call->in[0], *y = &call->out[0];
  const tn_storage_rule rule = {y->dtype, 1, TN_STORAGE_NEAREST};
  const float *from = x->data;
  float *to = y->data;
  for (int64_t i = 0; i < COUNT; ++i) {
    const float v =
        tn_storage_has(x->dtype) ? tn_storage_read(from, x->dtype, i) : from[i];
    if (tn_storage_has(y->dtype))
      tn_storage_write(to, &rule, i, (double)(VALUE));
    else
      to[i] = v;
  }
  return TN_OK;
}
"""


def stored(count="tn_tensor_size(x)", value="v"):
    return STORED_C.replace("COUNT", count).replace("VALUE", value)


def storage_types_are_compared_as_numbers():
    folder = built(STORED, stored())
    passes(LAB.tests(folder, LIBRARY), "lab.cube@1 e: f4e2m1, cpu, dense, new\n",
           "lab.cube@1 four: i4, cpu, shifted, write\n",
           "lab.cube@1 two: f8e4m3fn, cpu, dense, null y\n",
           "lab.cube@1 one: f32, cpu, front, write\n",
           "left out: lab.cube@1 four: f4e2m1: f4e2m1 cannot hold 7")
    tap.equal(check(STORED, stored()), (0, ""))
    fails(run(STORED, stored(value="i == 4 ? 0 : v")),
          "`y` (i4), element (1,1): expected 1, got 0")
    fails(run(STORED, stored(count="tn_tensor_size(x) + 3")),
          "the kernel")


def parts_have_every_operator_once():
    one = """\
inputs: [{name: x, dtype: f32, doc: Any}]
outputs: [{name: y, dtype: f32, shape: x, doc: The same}]
forward: {y: x}
gradient: none
examples: [{name: e, x: [1, 2], y: [1, 2]}]
"""
    names = ["cube", "ball", "cone"]
    folder = built("---\n".join([one] + [HEAD.replace("cube", name) + one
                                         for name in names[1:]]))

    def operators(status, said):
        tap.equal(status, 0, said)
        return set(re.findall(r"lab\.(\w+)@1", said))

    def part(text):
        return LAB.again(folder, folder / "lab.so", "--part", text)

    tap.equal(operators(*LAB.tests(folder, LIBRARY)), set(names))
    tap.equal(operators(*part("0/2")), {"cube", "cone"})
    tap.equal(operators(*part("1/2")), {"ball"})
    for wrong in "2/2", "1", "x/2", "1/x":
        tap.equal(part(wrong)[0], 2, wrong)


def texts_longer_than_c_promises_compile_without_a_warning():
    """C11 promises 4095 bytes of a literal."""
    compilers = [shlex.split(sys.argv[2])] + [
        [found] for found in map(shutil.which, ("gcc", "clang")) if found]
    numbers = ", ".join(["1"] * 2000)
    for length, kinds in (4095, set()), (4096, {"op.gen.c"}):
        doc = ("Words, and more of them. " * 200)[:length - 1] + "\n"
        folder = LAB.write("opgen: 1\nop: cube\nsummary: Of a test\ndoc: |\n  "
                           + doc + "inputs: [{name: x, dtype: f32}]\n"
                           "outputs: [{name: y, dtype: f32, shape: x}]\n"
                           "forward: {y: x}\ngradient: none\n"
                           f"examples: [{{name: e, x: [{numbers}]}}]\n")
        LAB.build(folder)
        tap.output([OPGEN, "generate", "--tests", folder / "plugin.yaml", "-o",
                    folder / "generated"])
        said = {each.name for each in (folder / "generated").glob("*")
                if "-Woverlength-strings" in each.read_text()}
        tap.equal(said, kinds | {"lab_test.gen.c"}, f"{length} bytes")
        for compiler in compilers:
            warnings_of(folder, compiler)
        formatter = shutil.which("clang-format-14")
        if formatter:
            shutil.copy(ROOT / ".clang-format", folder)
            tap.output([formatter, "--dry-run", "--Werror",
                        *(folder / "generated").glob("*.gen.[ch]")])


if __name__ == "__main__":
    with SCRATCH:
        tap.run([half_types_alone_are_not_compared_with_quotients,
                 floats_compute_in_the_type_that_is_named,
                 integers_compute_in_the_type_that_is_named,
                 gradcheck_is_that_of_the_derived_operator_too,
                 a_function_that_guesses_shapes_is_found,
                 kernels_that_complete_later_are_tested_like_others,
                 integers_beyond_the_type_are_its_bounds,
                 right_graphs_of_gradients_pass,
                 what_types_cannot_be_is_left_out_and_not_skipped,
                 wrong_graphs_of_gradients_fail,
                 graphs_that_call_what_is_not_there_fail,
                 opgen_check_takes_graphs_for_what_they_are,
                 tenon_run_computes_them,
                 an_operator_that_nobody_computes_fails,
                 a_kernel_that_takes_a_call_and_gives_up_fails,
                 a_kernel_that_ends_the_process_is_found_by_its_case,
                 kernels_for_a_device_that_is_missing_are_skipped,
                 a_declared_type_that_no_kernel_takes_fails,
                 an_elementwise_kernel_that_errs_in_long_arrays_fails,
                 a_kernel_that_forgets_strides_fails_in_every_layout,
                 a_plugin_that_replaces_an_operator_is_tried,
                 kernels_that_their_plugin_withdrew_are_skipped,
                 quotients_of_an_f32_kernel_are_not_taken_with_settings_for_f64,
                 an_optional_input_before_one_that_is_given_may_be_absent,
                 an_example_may_be_a_call_of_training,
                 storage_types_are_compared_as_numbers,
                 parts_have_every_operator_once,
                 texts_longer_than_c_promises_compile_without_a_warning])
