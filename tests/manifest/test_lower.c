/* SPDX-License-Identifier: Apache-2.0
 * test_lower.c: lowers manifests to tables: layouts, needs, kernels, and
 * examples. test_lower_plugin.c has whole
 * plugins and exhausted memory.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../comma.h"
#include "memory.h"
#include "tenon/draft/registers.h"

#define PLUGIN(name, files)                                  \
  "opgen: 1\nplugin: " name                                  \
  "\nrelease: 3\nsummary: For a test\nlicense: Apache-2.0\n" \
  "operators: [" files "]\n"

#define HEAD "opgen: 1\nop: scale\nsummary: Scales\n"
#define FLOATS "dtypes: {T: [f16, bf16, f32, f64]}\n"

static tnm_plugin *current;

static void release_current(void) {
  tnm_plugin_release(current);
}

TestSuite(lower, .fini = release_current);

/* The operator of a plugin with one file, released after the test. */
static const tnm_operator *lower_text(const char *text) {
  static memory_file files[3];
  files[0] = (memory_file){"p/plugin.yaml", PLUGIN("demo", "op.yaml")};
  files[1] = (memory_file){"p/op.yaml", text};
  char *printed = memory_read(memory_env(files), "p", TNM_HUMAN, &current);
  cr_assert_not_null(current, "%s", printed);
  cr_assert_str_eq(printed, "");
  free(printed);
  return current->operators;
}

/* ------------------------------------------------------------------- locale */

/* Numbers of parameters, of formulas, and of sources of a gradient. */
static const tnm_operator *lower_numbers(void) {
  return lower_text(
      HEAD
      "params: [{name: a, type: float, default: 0.5, min: 0.25}]\n"
      "dtypes: {T: [f32]}\n"
      "inputs: [{name: data, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: data}]\n"
      "forward: {out: a*1.5*gelu(data)}\n"
      "gradient: auto\n");
}

Test(lower, a_locale_does_not_change_the_numbers_of_a_manifest) {
  char gradient[512];
  const tn_op *op = lower_numbers()->op;
  (void)snprintf(gradient, sizeof gradient, "%s",
                 op->gradient->inputs[0]->formula);
  cr_assert_not_null(strchr(gradient, '.'), "%s", gradient);
  release_current();
  take_decimal_comma();
  op = lower_numbers()->op;
  cr_assert_eq(op->params[0]->min_float, 0.25);
  cr_assert_str_eq(op->gradient->inputs[0]->formula, gradient);
}

/* ------------------------------------------------------------------- params */

/* The C compiler's layout of the members that the manifest below declares. */
struct expected_params {
  int32_t flag;
  int64_t n;
  int32_t has_n;
  double x;
  const char *s;
  int32_t mode;
  int32_t has_mode;
  int32_t last;
  tn_ints k;
  int32_t has_k;
  tn_floats w;
  tn_dtype type;
};

Test(lower, params_have_the_layout_of_a_c_compiler) {
  const tn_op *op =
      lower_text(
          HEAD
          "params:\n"
          "  - {name: flag, type: bool, default: true}\n"
          "  - {name: n, type: int, optional: true}\n"
          "  - {name: x, type: float, default: 0.5, min: 0, max: 1}\n"
          "  - {name: s, type: string, default: hello}\n"
          "  - {name: mode, type: enum, values: [fast, \"off\"], default: "
          "\"off\", optional: true}\n"
          "  - {name: last, type: bool, default: 0}\n"
          "  - {name: k, type: ints, rank: 1..3, optional: true}\n"
          "  - {name: w, type: floats, rank: k, default: 1}\n"
          "  - {name: type, type: dtype}\n"
          "outputs: [{name: out, dtype: type, shape: [2]}]\n")
          ->op;
  typedef struct expected_params p;
  static const size_t offsets[] = {
      offsetof(p, flag), offsetof(p, n),    offsetof(p, x),
      offsetof(p, s),    offsetof(p, mode), offsetof(p, last),
      offsetof(p, k),    offsetof(p, w),    offsetof(p, type)};
  cr_assert_eq(op->n_params, 9);
  for (size_t i = 0; i < 9; ++i)
    cr_expect_eq(op->params[i]->offset, offsets[i], "%s", op->params[i]->name);
  cr_expect_eq(op->params[1]->has_offset, offsetof(p, has_n));
  cr_expect_eq(op->params[4]->has_offset, offsetof(p, has_mode));
  cr_expect_eq(op->params[6]->has_offset, offsetof(p, has_k));
  cr_expect_eq(op->params[0]->has_offset, TN_NONE);
  cr_expect_eq(op->params_size, sizeof(p));
}

Test(lower, fields_carry_their_rules) {
  const tn_op *op =
      lower_text(
          HEAD
          "since: 2\n"
          "params:\n"
          "  - {name: kernel, type: ints, rank: 1..3, min: 1, doc: Window}\n"
          "  - {name: stride, type: ints, rank: kernel, default: [1, 2], "
          "alias: step}\n"
          "  - {name: rate, type: float, min: -1.5, max: 2, default: 1, "
          "dynamic: true, since: 3, deprecated: {since: 3, use: stride}}\n"
          "outputs: [{name: out, dtype: f32, shape: [2]}]\n")
          ->op;
  const tn_field *kernel = op->params[0];
  const tn_field *stride = op->params[1];
  const tn_field *rate = op->params[2];
  cr_expect_eq(kernel->flags, TN_FIELD_REQUIRED | TN_FIELD_HAS_MIN);
  cr_expect_eq(kernel->min_int, 1);
  cr_expect_eq(kernel->min_rank, 1);
  cr_expect_eq(kernel->max_rank, 3);
  cr_expect_eq(kernel->rank_of, TN_NONE);
  cr_expect_eq(kernel->since, 2);
  cr_expect_null(kernel->default_text);
  cr_expect_str_eq(kernel->doc, "Window");
  cr_expect_eq(stride->rank_of, 0);
  cr_expect_str_eq(stride->default_text, "[1, 2]");
  cr_expect_str_eq(stride->alias, "step");
  cr_expect_eq(rate->flags,
               TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX | TN_FIELD_DYNAMIC);
  cr_expect_eq(rate->min_float, -1.5);
  cr_expect_eq(rate->max_float, 2);
  cr_expect_eq(rate->since, 3);
  cr_expect_eq(rate->deprecated_since, 3);
  cr_expect_str_eq(rate->use, "stride");
}

Test(lower, an_optional_parameter_without_default_is_none) {
  const tn_op *op =
      lower_text(HEAD
                 "params: [{name: n, type: int, optional: true}]\n"
                 "outputs: [{name: out, dtype: f32, shape: [2]}]\n")
          ->op;
  cr_expect_str_eq(op->params[0]->default_text, "None");
  cr_expect_eq(op->params[0]->flags, TN_FIELD_OPTIONAL);
}

/* -------------------------------------------------------- formulas, kernels */

#define QUADRATIC                                                       \
  HEAD "params: [{name: a, type: float, default: 0}]\n" FLOATS          \
       "inputs: [{name: data, dtype: T}]\n"                             \
       "outputs: [{name: out, dtype: T, shape: data, inplace: data}]\n" \
       "forward: {out: a*data^2}\n"                                     \
       "gradient: {formula: {data: 2*a*data*grad.out}}\n"

Test(lower, a_formula_generates_kernels_for_both_passes) {
  const tnm_operator *o = lower_text(QUADRATIC);
  cr_assert_not_null(o->generated);
  cr_assert_not_null(o->generated_backward);
  cr_expect_str_eq(o->file, "op.yaml");
  cr_expect_str_eq(o->stem, "op");
  cr_expect_eq(o->n_forward, 1);
  cr_expect_eq(o->n_backward, 1);
  cr_expect_str_eq(o->op->outputs[0]->formula, "a*data^2");
  cr_expect_str_eq(o->generated->id, "demo.scale.cpu");
  cr_expect_str_eq(o->generated->op, "demo.scale@1");
  cr_expect_eq(o->generated->priority, 0);
  cr_expect_eq(o->generated->flags,
               TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC |
                   TN_KERNEL_ELEMENTWISE | TN_KERNEL_REGISTERS);
  cr_expect_eq(o->generated->writes,
               TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
  cr_expect_eq(o->generated->n_dtype_sets, 1);
  cr_expect_eq(o->generated->dtype_sets[0], 0xf);
  cr_expect_eq(o->generated_backward->pass, TN_PASS_BACKWARD);
  cr_expect_eq(o->generated_backward->writes,
               TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
}

Test(lower, a_gradient_needs_what_its_formula_names) {
  const tn_input_gradient *g = lower_text(QUADRATIC)->op->gradient->inputs[0];
  cr_assert_eq(g->n_needs, 2);
  cr_expect_eq(g->needs[0].what, TN_NEED_GRAD_OUT);
  cr_expect_eq(g->needs[1].what, TN_NEED_IN);
  cr_expect_eq(g->needs[1].metadata, 0);
  cr_expect_eq(g->inplace, 0);
  cr_expect_str_eq(g->formula, "2*a*data*grad.out");
}

/* Checks the pairs of a kernel; `pairs` has n of them. */
static void expect_pairs(const tn_kernel *kernel, const tn_inplace *pairs,
                         uint32_t n) {
  cr_assert_eq(kernel->n_inplace, n, "%u pairs", kernel->n_inplace);
  for (uint32_t i = 0; i < n; ++i) {
    cr_expect_eq(kernel->inplace[i].in, pairs[i].in, "pair %u", i);
    cr_expect_eq(kernel->inplace[i].out, pairs[i].out, "pair %u", i);
  }
}

/* Positions of the backward call: grad.out, a, b, out. The gradient of a is
 * computed first and leaves grad.out and a for that of b. */
Test(lower, a_gradient_overwrites_operands_that_no_later_one_reads) {
  const tnm_operator *o = lower_text(
      HEAD FLOATS
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
      "outputs: [{name: out, dtype: T, shape: a}]\n"
      "forward: {out: a*b}\n"
      "gradient: {formula: {b: grad.out*a, a: grad.out*b}}\n");
  cr_expect_eq(o->generated->writes, TN_WRITES_WRITE | TN_WRITES_ADD);
  static const tn_inplace pairs[] = {{2, 0}, {0, 1}, {1, 1}};
  expect_pairs(o->generated_backward, pairs, 3);
  cr_expect_eq(o->generated_backward->writes,
               TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
  cr_expect_eq(o->op->gradient->inputs[0]->inplace, 2);
  cr_expect_eq(o->op->gradient->inputs[1]->inplace, 0);
  cr_assert_eq(o->n_backward, 2);
  cr_expect_eq(o->backward[0].index, 0);
  cr_expect_str_eq(o->backward[0].text, "grad.out*b");
  cr_expect_eq(o->op->gradient->inputs[0]->needs[1].index, 1);
}

/* Each output has its own loop: the first would overwrite inputs of the
 * second. */
Test(lower, with_two_outputs_none_is_written_in_place) {
  const tnm_operator *o =
      lower_text(HEAD FLOATS
                 "inputs: [{name: a, dtype: T}]\n"
                 "outputs: [{name: x, dtype: T, shape: a, inplace: a},\n"
                 "          {name: y, dtype: T, shape: a}]\n"
                 "forward: {x: a + 1, y: a - 1}\n"
                 "gradient: {none: true, why: it is a test}\n");
  cr_expect_eq(o->generated->writes, TN_WRITES_WRITE | TN_WRITES_ADD);
}

Test(lower, the_last_output_that_reads_an_input_is_written_in_place) {
  const tnm_operator *o = lower_text(
      HEAD FLOATS
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
      "outputs: [{name: x, dtype: T, shape: a, inplace: [a, b]},\n"
      "          {name: y, dtype: T, shape: a, inplace: [b, a]}]\n"
      "forward: {x: a + b, y: a - 1}\n"
      "gradient: {none: true, why: it is a test}\n");
  static const tn_inplace pairs[] = {{1, 0}, {1, 1}, {0, 1}};
  expect_pairs(o->generated, pairs, 3);
  cr_expect_eq(o->op->outputs[0]->inplace, 0);
  cr_expect_eq(o->op->outputs[1]->inplace, 1);
  cr_expect_eq(o->n_inplace[TN_PASS_FORWARD], 4);
}

#define TWO_KERNELS                                                         \
  HEAD FLOATS                                                               \
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"      \
      "outputs: [{name: out, dtype: T, shape: a, inplace: [b, a]}]\n"       \
      "gradient:\n  kernel: backward\n  needs: {a: [grad.out, a, out], b: " \
      "[b]}"                                                                \
      "\n  inplace: {a: [grad.out, out], b: b}\n"

/* Positions of the backward call: grad.out, a, b, out. */
Test(lower, a_kernel_has_the_pairs_of_the_operator) {
  const tnm_operator *o =
      lower_text(TWO_KERNELS
                 "kernels: [{device: cpu, forward: f, backward: g, "
                 "writes: [write, inplace]}]\n");
  static const tn_inplace forward[] = {{1, 0}, {0, 0}};
  static const tn_inplace backward[] = {{0, 0}, {3, 0}, {2, 1}};
  expect_pairs(o->kernels[0].forward, forward, 2);
  expect_pairs(o->kernels[0].backward, backward, 3);
}

Test(lower, a_kernel_may_have_fewer_pairs_than_the_operator) {
  const tnm_operator *o = lower_text(
      TWO_KERNELS
      "kernels:\n  - {device: cpu, forward: f, backward: g, "
      "writes: [write, inplace], inplace: {out: a, grad.a: [out]}}\n"
      "  - {device: cpu, forward: h, backward: i, writes: [write, inplace], "
      "inplace: {out: [b]}}\n"
      "  - {device: cpu, forward: j, backward: k}\n");
  static const tn_inplace forward[] = {{0, 0}}, backward[] = {{3, 0}};
  static const tn_inplace second[] = {{1, 0}};
  expect_pairs(o->kernels[0].forward, forward, 1);
  expect_pairs(o->kernels[0].backward, backward, 1);
  expect_pairs(o->kernels[1].forward, second, 1);
  cr_expect_eq(o->kernels[1].backward->writes, TN_WRITES_WRITE);
  expect_pairs(o->kernels[2].forward, NULL, 0);
  expect_pairs(o->kernels[2].backward, NULL, 0);
}

Test(lower, kernels_of_a_second_interface_have_other_names) {
  const tnm_operator *o = lower_text(QUADRATIC "interface: 2\n");
  cr_expect_str_eq(o->generated->id, "demo.scale.v2.cpu");
  cr_expect_str_eq(o->generated->op, "demo.scale@2");
}

Test(lower, kernels_of_broadcast_operators_are_elementwise) {
  const tnm_operator *o =
      lower_text(HEAD FLOATS
                 "inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
                 "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
                 "forward: {out: a + b}\n");
  cr_expect_neq(o->generated->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_eq(o->op->gradient->kind, TN_GRADIENT_NONE);
  cr_expect_null(o->generated_backward);
}

/* Fused runs take kernels that are element by element or one reduction; those
 * over lines are neither. One output alone has an element for each of the loop,
 * so it may have the memory of data. */
Test(lower, kernels_over_lines_are_no_part_of_fused_runs) {
  const tnm_operator *o = lower_text(
      HEAD FLOATS
      "params: [{name: axis, type: int, default: -1}]\n"
      "axes: [axis]\n"
      "inputs: [{name: data, dtype: T}, {name: gamma, dtype: T, shape: {place: "
      "axis}}]\n"
      "outputs: [{name: out, dtype: T, shape: data, inplace: data},\n"
      "  {name: mean, dtype: T, shape: {line: axis}}]\n"
      "forward:\n  out: gamma*(data - mean(data, axis))\n"
      "  mean: mean(data, axis)\n"
      "gradient: auto\n");
  const tn_kernel *kernels[2] = {o->generated, o->generated_backward};
  for (int i = 0; i < 2; ++i) {
    cr_assert_not_null(kernels[i]);
    cr_expect_eq(kernels[i]->flags,
                 TN_KERNEL_REENTRANT | TN_KERNEL_DETERMINISTIC);
    cr_expect_eq(kernels[i]->writes,
                 TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
  }
  cr_expect_eq(o->axes->loop, 0);
  cr_expect_eq(o->axes->levels.inputs[1], TNM_LEVEL_PLACE);
  cr_expect_eq(o->axes->levels.outputs[1], TNM_LEVEL_LINE);
  /* a gradient with one element for each place is a sum: no second gradient */
  cr_expect_eq(current->n_operators, 1);
}

Test(lower, integers_and_types_to_compute_in_are_kept) {
  const tnm_operator *o =
      lower_text(HEAD
                 "dtypes: {T: [i32, f32], compute: {T: f64}}\n"
                 "inputs: [{name: a, dtype: T}]\n"
                 "outputs: [{name: out, dtype: T, shape: a}]\n"
                 "forward: {out: -a}\n");
  cr_expect_eq(o->generated->dtype_sets[0], TN_BIT_I32 | TN_BIT_F32);
  cr_expect_eq(o->op->dtype_vars[0]->allowed, TN_BIT_I32 | TN_BIT_F32);
  cr_expect_eq(o->compute[0], TN_F64);
}

#define KERNEL                                                  \
  QUADRATIC                                                     \
  "kernels:\n"                                                  \
  "  - device: cpu\n"                                           \
  "    supports: demo_takes\n"                                  \
  "    forward: demo_scale\n"                                   \
  "    backward: demo_scale_backward\n"                         \
  "    dtypes: [f32]\n"                                         \
  "    writes: [write, inplace]\n"                              \
  "    requires: {blas: \">=3\", omp: \"5\"}\n"                 \
  "    when: rank(data) >= 2\n"                                 \
  "    workspace: {bytes: demo_bytes, align: 128, max: 2MiB}\n" \
  "    state: {type: demo_state, create: demo_new, destroy: "   \
  "demo_free}\n"                                                \
  "    resources: [rng, order]\n"                               \
  "    options: [{name: tune, type: bool, default: false}]\n"   \
  "    flags: [reentrant, capturable]\n"                        \
  "  - {device: cpu, forward: demo_scale_plain, priority: 3}\n" \
  "  - {device: cuda, forward: demo_scale_cuda}\n"

Test(lower, a_kernel_by_hand_precedes_the_generated_one) {
  const tnm_operator *o = lower_text(KERNEL);
  cr_assert_eq(o->n_kernels, 3);
  cr_expect_str_eq(o->generated->id, "demo.scale.cpu.generated");
  cr_expect_str_eq(o->generated_backward->id, "demo.scale.cpu.generated");
  cr_expect_str_eq(o->kernels[0].forward->id, "demo.scale.cpu");
  cr_expect_str_eq(o->kernels[1].forward->id, "demo.scale.cpu.2");
  cr_expect_str_eq(o->kernels[2].forward->id, "demo.scale.cuda");
  cr_expect_eq(o->kernels[0].forward->priority, 10);
  cr_expect_eq(o->kernels[1].forward->priority, 3);
  cr_expect_eq(o->kernels[2].forward->device_type, TN_DEVICE_CUDA);
}

Test(lower, a_kernel_for_cuda_is_in_the_companion) {
  const tnm_operator *o = lower_text(KERNEL);
  cr_expect_not(o->kernels[0].companion);
  cr_expect(o->kernels[2].companion);
  for (uint32_t i = 0; i < current->plugin->n_kernels; ++i)
    cr_expect_eq(current->plugin->kernels[i]->device_type, TN_DEVICE_CPU);
}

Test(lower, a_kernel_has_all_stated_properties) {
  const tnm_kernel *k = lower_text(KERNEL)->kernels;
  const tn_kernel *f = k->forward;
  cr_expect_str_eq(k->forward_symbol, "demo_scale");
  cr_expect_str_eq(k->backward_symbol, "demo_scale_backward");
  cr_expect_str_eq(k->supports_symbol, "demo_takes");
  cr_expect_null(k[1].supports_symbol);
  cr_expect_str_eq(k->workspace_symbol, "demo_bytes");
  cr_expect_eq(k->workspace_align, 128);
  cr_expect_eq(k->workspace_max, 2097152);
  cr_expect_str_eq(k->state_type, "demo_state");
  cr_expect_eq(f->dtype_sets[0], TN_BIT_F32);
  cr_expect_eq(f->writes, TN_WRITES_WRITE | TN_WRITES_INPLACE);
  cr_expect_eq(k->backward->writes, TN_WRITES_WRITE);
  cr_expect_eq(k->backward->pass, TN_PASS_BACKWARD);
  cr_expect_str_eq(f->requirement, "blas >=3, omp 5");
  cr_expect_str_eq(f->when_text, "rank(data) >= 2");
  cr_expect_neq(f->when, TN_NONE);
  cr_expect_gt(f->n_nodes, f->when);
  cr_expect_eq(f->n_resources, 2);
  cr_expect_eq(f->resources[0], TN_RESOURCE_RANDOM);
  cr_expect_eq(f->resources[1], TN_RESOURCE_ORDER);
  cr_expect_eq(f->n_options, 1);
  cr_expect_eq(f->options_size, 4);
  cr_expect_eq(f->flags, TN_KERNEL_REENTRANT | TN_KERNEL_CAPTURABLE);
}

Test(lower, listed_needs_are_values_or_shapes_and_integers_are_stopped) {
  const tn_gradient *g =
      lower_text(HEAD FLOATS
                 "inputs:\n"
                 "  - {name: data, dtype: T}\n"
                 "  - {name: index, dtype: i64, independent: true}\n"
                 "  - {name: label, dtype: T, independent: true}\n"
                 "outputs: [{name: out, dtype: T, shape: data}]\n"
                 "gradient:\n"
                 "  kernel: backward\n"
                 "  needs: {data: [grad.out, index, shape(data), out]}\n"
                 "  stop: [label]\n")
          ->op->gradient;
  cr_assert_eq(g->kind, TN_GRADIENT_KERNEL);
  cr_assert_eq(g->n_inputs, 3);
  cr_expect_eq(g->inputs[0]->stop, 0);
  cr_expect_eq(g->inputs[1]->stop, 1);
  cr_expect_eq(g->inputs[2]->stop, 1);
  cr_assert_eq(g->inputs[0]->n_needs, 4);
  cr_expect_eq(g->inputs[0]->needs[1].what, TN_NEED_IN);
  cr_expect_eq(g->inputs[0]->needs[1].index, 1);
  cr_expect_eq(g->inputs[0]->needs[2].metadata, 1);
  cr_expect_eq(g->inputs[0]->needs[3].what, TN_NEED_OUT);
  cr_expect_eq(g->inputs[0]->inplace, TN_NONE);
}

Test(lower, an_operator_without_kernels_is_legal) {
  const tnm_operator *o =
      lower_text(HEAD
                 "inputs: [{name: a, dtype: f32}]\n"
                 "outputs: [{name: out, dtype: bool, shape: a}]\n"
                 "gradient: {none: true, why: it is a step}\n");
  cr_expect_null(o->generated);
  cr_expect_eq(o->n_kernels, 0);
  cr_expect_str_eq(o->op->gradient->why, "it is a step");
  cr_expect_eq(o->op->outputs[0]->dtype, TN_BOOL);
}

/* ----------------------------------------------------------------- examples */

Test(lower, examples_become_numbers) {
  const tnm_operator *o =
      lower_text(QUADRATIC
                 "examples:\n"
                 "  - name: two\n"
                 "    params: {a: 2}\n"
                 "    data: [[1, -2.5, inf], [4, 5, 6]]\n"
                 "    out: [[2, 12.5, inf], [32, 50, 72]]\n"
                 "    grad: {out: [[1, 1, 1], [1, 1, 1]]}\n"
                 "    tol: 1e-3\n"
                 "  - {name: empty, data: [[], []], out: [[], []]}\n"
                 "  - {name: scalar, data: 3, out: 0}\n");
  cr_assert_eq(o->n_examples, 3);
  const tnm_example *two = o->examples;
  cr_expect_eq(two->tol, 1e-3);
  cr_assert_eq(two->n_params, 1);
  cr_expect_str_eq(two->params[0].as.s, "2");
  cr_assert_eq(two->n_items, 2);
  cr_expect_str_eq(two->items[0].name, "data");
  cr_expect_eq(two->items[0].data.ndim, 2);
  cr_expect_eq(two->items[0].data.shape[0], 2);
  cr_expect_eq(two->items[0].data.shape[1], 3);
  cr_expect_eq(two->items[0].data.values[1], -2.5);
  cr_expect_eq(two->items[0].data.values[5], 6);
  cr_expect_eq(two->n_grads, 1);
  cr_expect_eq(o->examples[1].items[0].data.ndim, 2);
  cr_expect_eq(o->examples[1].items[0].data.shape[1], 0);
  cr_expect_eq(o->examples[1].items[0].data.n, 0);
  cr_expect_eq(o->examples[2].items[0].data.ndim, 0);
  cr_expect_eq(o->examples[2].items[0].data.values[0], 3);
}

Test(lower, a_variadic_input_has_one_item_per_tensor) {
  const tnm_operator *o = lower_text(
      HEAD FLOATS
      "inputs: [{name: parts, dtype: T, variadic: true}]\n"
      "outputs: [{name: out, dtype: T, shape: {c: demo_infer}}]\n"
      "examples: [{name: three, parts: [[1], [2, 3], 4], out: [1]}]\n");
  cr_expect_str_eq(o->infer_symbol, "demo_infer");
  cr_expect_eq(o->op->inputs[0]->flags, TN_ARG_VARIADIC);
  cr_assert_eq(o->examples[0].n_items, 4);
  cr_expect_str_eq(o->examples[0].items[1].name, "parts");
  cr_expect_eq(o->examples[0].items[1].data.shape[0], 2);
  cr_expect_eq(o->examples[0].items[2].data.ndim, 0);
}
