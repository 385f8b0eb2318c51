/* SPDX-License-Identifier: Apache-2.0
 * From manifests to tables: layouts, needs, kernels, targets, examples, and
 * what happens when memory runs out.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../comma.h"
#include "memory.h"
#include "tenon/chain.h"

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
static const tnm_operator *lower(const char *text) {
  static memory_file files[3];
  files[0] = (memory_file){"p/plugin.yaml", PLUGIN("demo", "op.yaml")};
  files[1] = (memory_file){"p/op.yaml", text};
  char *printed = memory_read(memory_env(files), "p", TNM_HUMAN, &current);
  cr_assert_not_null(current, "%s", printed);
  cr_assert_str_eq(printed, "");
  free(printed);
  return current->operators;
}

/* ---------------------------------------------------------------------- locale
 */

/* Numbers of parameters, of formulas, and of what a gradient follows from. */
static const tnm_operator *lower_numbers(void) {
  return lower(HEAD
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

/* ---------------------------------------------------------------------- params
 */

/* What a C compiler makes of the members that the manifest below declares. */
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

Test(lower, params_lie_as_a_c_compiler_lays_them_out) {
  const tn_op *op =
      lower(HEAD
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
      lower(HEAD
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
  const tn_op *op = lower(HEAD
                          "params: [{name: n, type: int, optional: true}]\n"
                          "outputs: [{name: out, dtype: f32, shape: [2]}]\n")
                        ->op;
  cr_expect_str_eq(op->params[0]->default_text, "None");
  cr_expect_eq(op->params[0]->flags, TN_FIELD_OPTIONAL);
}

/* ------------------------------------------------------------ formulas,
 * kernels
 */

#define QUADRATIC                                                       \
  HEAD "params: [{name: a, type: float, default: 0}]\n" FLOATS          \
       "inputs: [{name: data, dtype: T}]\n"                             \
       "outputs: [{name: out, dtype: T, shape: data, inplace: data}]\n" \
       "forward: {out: a*data^2}\n"                                     \
       "gradient: {formula: {data: 2*a*data*grad.out}}\n"

Test(lower, a_formula_gives_kernels_for_both_passes) {
  const tnm_operator *o = lower(QUADRATIC);
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
                   TN_KERNEL_ELEMENTWISE | TN_KERNEL_CHAIN);
  cr_expect_eq(o->generated->writes,
               TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
  cr_expect_eq(o->generated->n_dtype_sets, 1);
  cr_expect_eq(o->generated->dtype_sets[0], 0xf);
  cr_expect_eq(o->generated_backward->pass, TN_PASS_BACKWARD);
  cr_expect_eq(o->generated_backward->writes,
               TN_WRITES_WRITE | TN_WRITES_ADD | TN_WRITES_INPLACE);
}

Test(lower, a_gradient_needs_what_its_formula_names) {
  const tn_input_gradient *g = lower(QUADRATIC)->op->gradient->inputs[0];
  cr_assert_eq(g->n_needs, 2);
  cr_expect_eq(g->needs[0].what, TN_NEED_GRAD_OUT);
  cr_expect_eq(g->needs[1].what, TN_NEED_IN);
  cr_expect_eq(g->needs[1].metadata, 0);
  cr_expect_eq(g->inplace, 0);
  cr_expect_str_eq(g->formula, "2*a*data*grad.out");
}

Test(lower, with_two_gradients_none_is_written_in_place) {
  const tnm_operator *o =
      lower(HEAD FLOATS
            "inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}]\n"
            "outputs: [{name: out, dtype: T, shape: a}]\n"
            "forward: {out: a*b}\n"
            "gradient: {formula: {b: grad.out*a, a: grad.out*b}}\n");
  cr_expect_eq(o->generated->writes, TN_WRITES_WRITE | TN_WRITES_ADD);
  cr_expect_eq(o->generated_backward->writes, TN_WRITES_WRITE | TN_WRITES_ADD);
  cr_assert_eq(o->n_backward, 2);
  cr_expect_eq(o->backward[0].index, 0);
  cr_expect_str_eq(o->backward[0].text, "grad.out*b");
  cr_expect_eq(o->op->gradient->inputs[0]->needs[1].index, 1);
}

/* One loop per output: the first would overwrite what the second reads. */
Test(lower, with_two_outputs_none_is_written_in_place) {
  const tnm_operator *o =
      lower(HEAD FLOATS
            "inputs: [{name: a, dtype: T}]\n"
            "outputs: [{name: x, dtype: T, shape: a, inplace: a},\n"
            "          {name: y, dtype: T, shape: a}]\n"
            "forward: {x: a + 1, y: a - 1}\n"
            "gradient: {none: true, why: it is a test}\n");
  cr_expect_eq(o->generated->writes, TN_WRITES_WRITE | TN_WRITES_ADD);
}

Test(lower, a_second_interface_has_kernels_of_its_own_names) {
  const tnm_operator *o = lower(QUADRATIC "interface: 2\n");
  cr_expect_str_eq(o->generated->id, "demo.scale.v2.cpu");
  cr_expect_str_eq(o->generated->op, "demo.scale@2");
}

Test(lower, kernels_of_broadcast_operators_are_elementwise) {
  const tnm_operator *o =
      lower(HEAD FLOATS
            "inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
            "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
            "forward: {out: a + b}\n");
  cr_expect_neq(o->generated->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_eq(o->op->gradient->kind, TN_GRADIENT_NONE);
  cr_expect_null(o->generated_backward);
}

Test(lower, integers_and_types_to_compute_in_are_kept) {
  const tnm_operator *o = lower(HEAD
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
  "    resources: [rng, rng]\n"                                 \
  "    options: [{name: tune, type: bool, default: false}]\n"   \
  "    flags: [reentrant, capturable]\n"                        \
  "  - {device: cpu, forward: demo_scale_plain, priority: 3}\n" \
  "  - {device: cuda, forward: demo_scale_cuda}\n"

Test(lower, a_kernel_by_hand_stands_before_the_generated_one) {
  const tnm_operator *o = lower(KERNEL);
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

Test(lower, a_kernel_for_cuda_is_the_companions) {
  const tnm_operator *o = lower(KERNEL);
  cr_expect_not(o->kernels[0].companion);
  cr_expect(o->kernels[2].companion);
  for (uint32_t i = 0; i < current->plugin->n_kernels; ++i)
    cr_expect_eq(current->plugin->kernels[i]->device_type, TN_DEVICE_CPU);
}

Test(lower, a_kernel_carries_everything_that_is_said_of_it) {
  const tnm_kernel *k = lower(KERNEL)->kernels;
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
  cr_expect_eq(f->n_options, 1);
  cr_expect_eq(f->options_size, 4);
  cr_expect_eq(f->flags, TN_KERNEL_REENTRANT | TN_KERNEL_CAPTURABLE);
}

Test(lower, listed_needs_are_values_or_shapes_and_integers_are_stopped) {
  const tn_gradient *g =
      lower(HEAD FLOATS
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
      lower(HEAD
            "inputs: [{name: a, dtype: f32}]\n"
            "outputs: [{name: out, dtype: bool, shape: a}]\n"
            "gradient: {none: true, why: it is a step}\n");
  cr_expect_null(o->generated);
  cr_expect_eq(o->n_kernels, 0);
  cr_expect_str_eq(o->op->gradient->why, "it is a step");
  cr_expect_eq(o->op->outputs[0]->dtype, TN_BOOL);
}

/* -------------------------------------------------------------------- examples
 */

Test(lower, examples_become_numbers) {
  const tnm_operator *o =
      lower(QUADRATIC
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

Test(lower, a_variadic_input_gives_one_item_each) {
  const tnm_operator *o =
      lower(HEAD FLOATS
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

/* --------------------------------------------------------------- whole plugins
 */

static const memory_file plugins[] = {
    {"nn/plugin.yaml", PLUGIN("nn", "pool.yaml, unary.yaml")},
    {"nn/pool.yaml",
     "opgen: 1\nop: pool\nsummary: Pools\n"
     "params: [{name: kernel, type: ints, rank: 1..3}, {name: n, type: int}]\n"
     "dtypes: {T: [f32, f64]}\n"
     "inputs: [{name: data, dtype: T, shape: [N, S...]}]\n"
     "outputs: [{name: out, dtype: T, shape: [N, S/kernel...]}]\n"
     "require: [{that: N > 0, say: no rows}]\n"
     "gradient: {kernel: backward, needs: {data: [grad.out]}}\n"},
    {"nn/unary.yaml",
     "opgen: 1\nfamily: unary\ndtypes: {T: [f32]}\n"
     "inputs: [{name: data, dtype: T}]\n"
     "outputs: [{name: out, dtype: T, shape: data}]\n"
     "each:\n"
     "  - {op: exp, summary: Exponential, forward: {out: exp(data)}}\n"
     "  - {op: neg, summary: Negation, interface: 2, forward: {out: -data}}\n"},
    {"gpu/plugin.yaml", PLUGIN("gpu", "pool.yaml")},
    {"gpu/pool.yaml",
     "opgen: 1\nkernels_for: nn.pool@1\n"
     "kernels:\n"
     "  - {device: cuda, priority: 100, forward: gpu_pool, backward: "
     "gpu_pool_backward, when: rank(data) == 4, dtypes: [f32]}\n"},
    {NULL, NULL}};

Test(plugin, tables_hold_every_operator_and_kernel_in_order) {
  const tn__env *env = memory_env(plugins);
  tnm_plugin *p;
  free(memory_read(env, "nn/", TNM_HUMAN, &p));
  cr_assert_not_null(p);
  cr_assert_eq(p->plugin->n_operators, 3);
  cr_expect_str_eq(p->plugin->operators[0]->name, "pool");
  cr_expect_str_eq(p->plugin->operators[1]->name, "exp");
  cr_expect_str_eq(p->plugin->operators[2]->name, "neg");
  cr_expect_eq(p->plugin->operators[0]->n_dims, 1);
  cr_expect_eq(p->plugin->operators[0]->n_packs, 1);
  cr_expect_eq(p->plugin->operators[0]->n_requires, 1);
  cr_assert_eq(p->plugin->n_kernels, 2);
  cr_expect_eq(p->plugin->kernels[0], p->operators[1].generated);
  cr_expect_str_eq(p->plugin->kernels[1]->op, "nn.neg@2");
  cr_expect_eq(p->plugin->release, 3);
  cr_expect_eq(p->plugin->flags, TN_PLUGIN_UNLOADABLE);
  cr_assert_eq(p->n_files, 3);
  cr_expect_str_eq(p->files[0], "nn/plugin.yaml");
  cr_expect_str_eq(p->files[2], "nn/unary.yaml");
  tnm_plugin_release(p);
  cr_expect_eq(memory_live(), 0);
}

Test(plugin, the_hash_is_that_of_the_encoded_tables) {
  const tn__env *env = memory_env(plugins);
  tnm_plugin *p;
  free(memory_read(env, "nn", TNM_HUMAN, &p));
  cr_assert_not_null(p);
  tn__buf buf;
  tn__buf_init(&buf, env);
  tn__tables_encode(p->plugin, &buf);
  cr_expect_eq(p->plugin->manifest_hash, tn__hash(buf.s, buf.n));
  tn__buf_deinit(&buf);
  tnm_plugin_release(p);
}

Test(plugin, one_file_is_read_alone) {
  const tn__env *env = memory_env(plugins);
  tnm_plugin *p;
  free(memory_read(env, "nn/unary.yaml", TNM_HUMAN, &p));
  cr_assert_not_null(p);
  cr_expect_eq(p->n_operators, 2);
  cr_expect_eq(p->n_files, 2);
  tnm_plugin_release(p);
}

static tnm_plugin *read_with(const tn__env *env, tnm_diags *diags) {
  static const char *const with[] = {"nn"};
  tnm_read_options options = {.with = with, .n_with = 1};
  return tnm_plugin_read(env, "gpu", &options, diags);
}

Test(plugin, kernels_for_finds_its_operator_in_the_manifests_given) {
  const tn__env *env = memory_env(plugins);
  tnm_diags *diags = tnm_diags_create(env);
  tnm_plugin *p = read_with(env, diags);
  cr_assert_not_null(p);
  const tnm_operator *o = p->operators;
  cr_expect_null(o->op);
  cr_assert_not_null(o->target);
  cr_expect_str_eq(o->target->op, "nn.pool@1");
  cr_expect_eq(o->target->n_params, 2);
  cr_expect_eq(o->target->params_size, sizeof(tn_ints) + 8);
  cr_expect_str_eq(o->target_op->name, "pool");
  cr_expect_str_eq(o->kernels[0].forward->id, "gpu.pool.cuda");
  cr_expect_str_eq(o->kernels[0].backward->op, "nn.pool@1");
  cr_expect_not(o->kernels[0].companion, "the document says where they are");
  cr_expect_eq(p->plugin->n_operators, 0);
  cr_expect_eq(p->plugin->n_targets, 1);
  cr_expect_eq(p->plugin->flags, 0);
  cr_expect_eq(p->n_files, 5);
  tnm_plugin_release(p);
  tnm_diags_release(diags);
  cr_expect_eq(memory_live(), 0);
}

Test(plugin, a_manifest_beyond_a_mebibyte_is_refused) {
  char *text = malloc((1 << 20) + 2);
  memset(text, '#', (1 << 20) + 1);
  text[(1 << 20) + 1] = '\0';
  memory_file files[] = {{"p/plugin.yaml", text}, {NULL, NULL}};
  char *printed = memory_read(memory_env(files), "p", TNM_SHORT, NULL);
  cr_expect_str_eq(printed,
                   "p/plugin.yaml:1:1: error[E0001]: cannot read "
                   "`plugin.yaml`: it is larger than 1048576 bytes\n"
                   "opgen: 1 error in 1 manifest; `opgen explain E0001` says "
                   "more\n");
  free(printed);
  free(text);
}

Test(plugin, a_file_that_plugin_yaml_does_not_list_is_refused) {
  static const memory_file files[] = {
      {"p/plugin.yaml", PLUGIN("demo", "a.yaml")},
      {"p/b.yaml", "opgen: 1\n"},
      {NULL, NULL}};
  char *printed = memory_read(memory_env(files), "p/b.yaml", TNM_SHORT, NULL);
  cr_expect_not_null(
      strstr(printed,
             "p/plugin.yaml:6:1: error[E0009]: plugin.yaml does not "
             "list `b.yaml`\n"));
  free(printed);
}

/* ---------------------------------------------------------------------- memory
 */

/* A plugin that is read, and with what. */
typedef struct starved {
  const memory_file *files;
  tnm_plugin *(*read)(const tn__env *env, tnm_diags *diags);
} starved;

/* Each allocation fails in turn: an error, and nothing is left behind. */
static void starve(const starved *what, bool for_ever) {
  const tn__env *env = memory_env(what->files);
  size_t n = 0;
  for (bool refused = true; refused;) {
    memory_fail_at(++n, for_ever);
    tnm_diags *diags = tnm_diags_create(env);
    tnm_plugin *p = diags == NULL ? NULL : what->read(env, diags);
    refused = memory_refused();
    cr_assert_eq(p == NULL, refused, "allocation %zu", n);
    if (refused)
      cr_assert_not_null(strstr(tn_error_text(), "memory"), "%s",
                         tn_error_text());
    tnm_plugin_release(p);
    tnm_diags_release(diags);
    cr_assert_eq(memory_live(), 0, "allocation %zu", n);
  }
  cr_assert_gt(n, 10);
}

/* Gradients that are derived, of both orders, and one that is a graph. */
static const memory_file derived[] = {
    {"d/plugin.yaml", PLUGIN("d", "auto.yaml, graph.yaml")},
    {"d/auto.yaml",
     "opgen: 1\nop: gate\nsummary: Gate\n"
     "params: [{name: a, type: float, default: 1}]\n"
     "dtypes: {T: [f32, f64]}\n"
     "inputs: [{name: x, dtype: T}, {name: y, dtype: T, shape: x}]\n"
     "outputs: [{name: out, dtype: T, shape: x}]\n"
     "forward: {out: x*tanh(y) + 2*3*a}\ngradient: auto\n"},
    {"d/graph.yaml",
     "opgen: 1\nop: twice\nsummary: Twice\n"
     "params: [{name: a, type: float, default: 1}]\n"
     "dtypes: {T: [f32, f64]}\n"
     "inputs: [{name: x, dtype: T}]\n"
     "outputs: [{name: out, dtype: T, shape: x}]\n"
     "gradient: {graph: {x: 'e.mul(grad.out, k=a, n=\"x\")'}}\n"},
    {NULL, NULL}};

static tnm_plugin *read_derived(const tn__env *env, tnm_diags *diags) {
  return tnm_plugin_read(env, "d", NULL, diags);
}

Test(memory, each_allocation_may_fail_once) {
  starve(&(starved){plugins, read_with}, false);
  starve(&(starved){derived, read_derived}, false);
}

Test(memory, memory_may_run_out_for_good) {
  starve(&(starved){plugins, read_with}, true);
  starve(&(starved){derived, read_derived}, true);
}

/* The gradient of the gradient by its head would read sixteen tensors. */
Test(plugin, a_gradient_of_too_many_tensors_is_left_out_with_a_reason) {
  static const memory_file files[] = {
      {"p/plugin.yaml", PLUGIN("p", "op.yaml")},
      {"p/op.yaml",
       "opgen: 1\nop: eight\nsummary: Product\ndtypes: {T: [f32]}\n"
       "inputs: [{name: a, dtype: T}, {name: b, dtype: T, shape: a}, "
       "{name: c, dtype: T, shape: a}, {name: d, dtype: T, shape: a}, "
       "{name: e, dtype: T, shape: a}, {name: f, dtype: T, shape: a}, "
       "{name: g, dtype: T, shape: a}, {name: h, dtype: T, shape: a}]\n"
       "outputs: [{name: out, dtype: T, shape: a}]\n"
       "forward: {out: a*b*c*d*e*f*g*h}\ngradient: auto\n"},
      {NULL, NULL}};
  tnm_plugin *p;
  free(memory_read(memory_env(files), "p", TNM_HUMAN, &p));
  cr_assert_not_null(p);
  cr_assert_eq(p->plugin->n_operators, 2);
  cr_expect_eq(p->operators[0].n_backward, 8);
  cr_expect_eq(p->operators[1].n_backward, 0);
  const tn_gradient *g = p->operators[1].op->gradient;
  cr_assert_eq(g->kind, TN_GRADIENT_NONE);
  cr_expect_str_eq(g->why, "its formula is longer than a formula may be");
  tnm_plugin_release(p);
}

Test(plugin, operators_of_second_order_come_behind_all_others) {
  static const memory_file files[] = {
      {"p/plugin.yaml", PLUGIN("p", "op.yaml")},
      {"p/op.yaml",
       "opgen: 1\nfamily: f\ndtypes: {T: [f16, f32]}\n"
       "inputs: [{name: x, dtype: T}, {name: x_slope, dtype: T, shape: x}]\n"
       "outputs: [{name: out, dtype: T, shape: x}]\n"
       "each:\n"
       "  - {op: a, summary: A, forward: {out: x*x_slope}, gradient: {auto: "
       "true, stop: [x_slope]}}\n"
       "  - {op: b_grad, summary: Own, forward: {out: x}}\n"
       "  - {op: b, summary: B, forward: {out: x}, gradient: auto}\n"
       "  - {op: c, summary: C, forward: {out: exp(x)}, gradient: {formula: "
       "{x: grad.out*out, x_slope: 0}}}\n"
       "  - {op: d, summary: D, forward: {out: x}}\n"},
      {NULL, NULL}};
  static const char *const names[] = {"a", "b_grad", "b",     "c",
                                      "d", "a_grad", "c_grad"};
  tnm_plugin *p;
  free(memory_read(memory_env(files), "p", TNM_HUMAN, &p));
  cr_assert_not_null(p);
  cr_assert_eq(p->plugin->n_operators, 7);
  for (size_t i = 0; i < 7; ++i)
    cr_expect_str_eq(p->plugin->operators[i]->name, names[i]);
  const tn_op *a = p->plugin->operators[5];
  cr_expect_eq(a->flags, TN_OP_BACKWARD_ONLY);
  cr_assert_eq(a->n_inputs, 4);
  cr_assert_eq(a->n_outputs, 2);
  cr_expect_str_eq(a->inputs[0]->name, "out_head");
  cr_expect_str_eq(a->inputs[1]->name, "x");
  cr_expect_str_eq(a->inputs[3]->name, "out");
  cr_expect_str_eq(a->outputs[0]->name, "x_slope_"); /* x_slope is taken */
  cr_expect_str_eq(a->outputs[0]->formula, "out_head*x_slope");
  cr_expect_str_eq(a->outputs[1]->formula, "0"); /* never differentiated */
  cr_expect_eq(a->gradient->inputs[2]->stop, 1);
  cr_expect_str_eq(a->gradient->inputs[0]->formula, "grad.x_slope_*x_slope");
  tnm_plugin_release(p);
}

Test(memory, messages_survive_a_lack_of_memory) {
  static const memory_file files[] = {
      {"p/plugin.yaml", PLUGIN("demo", "a.yaml")},
      {"p/a.yaml", "opgen: 1\nop: X\nsummary: bad.\nparms: []\n"},
      {NULL, NULL}};
  const tn__env *env = memory_env(files);
  bool refused = true;
  for (size_t n = 1; refused; ++n) {
    memory_fail_at(n, false);
    free(memory_read(env, "p", TNM_HUMAN, NULL));
    refused = memory_refused();
    cr_assert_eq(memory_live(), 0, "allocation %zu", n);
  }
}

/* One operator in a plugin of its own; `rest` is all behind the summary. */
static tnm_plugin *read_operator(const char *rest) {
  char text[2048];
  (void)snprintf(text, sizeof text, "opgen: 1\nop: f\nsummary: F\n%s", rest);
  const memory_file files[] = {
      {"p/plugin.yaml", PLUGIN("p", "op.yaml")}, {"p/op.yaml", text}, {0}};
  tnm_plugin *p = NULL;
  char *printed = memory_read(memory_env(files), "p", TNM_HUMAN, &p);
  cr_assert_not_null(p, "%s", printed);
  free(printed);
  return p;
}

/* U is unused, M is used and never a float. */
Test(plugin, second_order_keeps_the_types_that_are_never_floats) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [i32, f32], U: [i64], M: [bool, u8]}\n"
      "inputs: [{name: x, dtype: T}, {name: m, dtype: M, shape: x}]\n"
      "outputs: [{name: out, dtype: T, shape: x}]\n"
      "forward: {out: 'select(m, x, 0)'}\n"
      "gradient: {formula: {x: 'select(m, grad.out, 0)'}}\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  const tn_dtype_var *const *vars = p->operators[1].op->dtype_vars;
  cr_expect_eq(vars[0]->allowed, TN_BIT_F32);
  cr_expect_eq(vars[1]->allowed, TN_BIT_I64);
  cr_expect_eq(vars[2]->allowed, TN_BIT_BOOL | TN_BIT_U8);
  tnm_plugin_release(p);
}

Test(plugin, forward_kernels_compute_integers_and_backward_ones_do_not) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [i32, f32]}\n"
      "inputs: [{name: x, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: x}]\n"
      "forward: {out: x*x}\ngradient: auto\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  cr_expect_eq(p->operators[0].generated->dtype_sets[0],
               TN_BIT_I32 | TN_BIT_F32);
  cr_expect_eq(p->operators[0].generated_backward->dtype_sets[0], TN_BIT_F32);
  tnm_plugin_release(p);
}

/* The host sums what backward kernels of elements compute; there is no formula
 * of that, so no second order. */
Test(plugin, gradients_of_broadcast_operators_are_of_elements) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [f32]}\n"
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
      "forward: {out: a*b}\ngradient: auto\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  const tnm_operator *o = p->operators;
  cr_expect_neq(o->generated->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_neq(o->generated_backward->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_eq(o->generated_backward->writes & TN_WRITES_INPLACE, 0);
  tnm_plugin_release(p);
}

/* Heads and results have the loop's shape, slopes that of what they belong to;
 * no slope stands for what computes it, because it is a sum of that. */
Test(plugin, second_orders_of_broadcasts_are_summed) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [f32]}\n"
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T}, "
      "{name: c, dtype: T, shape: b}]\n"
      "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
      "forward: {out: c*a/b}\ngradient: auto\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  const tnm_operator *o = &p->operators[1];
  const tn_op *op = o->op;
  static const uint32_t kinds[] = {TN_SHAPE_BROADCAST, TN_SHAPE_ANY,
                                   TN_SHAPE_ANY, TN_SHAPE_SAME,
                                   TN_SHAPE_BROADCAST};
  for (uint32_t i = 0; i < 5; ++i)
    cr_expect_eq(op->inputs[i]->shape_kind, kinds[i]);
  cr_expect_eq(op->inputs[3]->shape_index, 2);
  for (uint32_t i = 0; i < 3; ++i) {
    cr_expect_eq(op->outputs[i]->shape_kind, TN_SHAPE_SAME);
    cr_expect_eq(op->outputs[i]->shape_list, TN_OPERAND_IN);
    cr_expect_eq(op->outputs[i]->shape_index, i + 1);
  }
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    const tn_input_gradient *g = op->gradient->inputs[i];
    for (uint32_t k = 0; k < g->n_needs; ++k)
      cr_expect_neq(g->needs[k].what, TN_NEED_OUT);
  }
  cr_expect_neq(o->generated->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_not_null(o->generated_backward);
  tnm_plugin_release(p);
}

Test(plugin, operators_for_gradients_may_have_broadcast_inputs) {
  tnm_plugin *p = read_operator(
      "backward_only: true\ndtypes: {T: [f32]}\n"
      "inputs: [{name: head, dtype: T, shape: broadcast}, "
      "{name: x, dtype: T}]\n"
      "outputs: [{name: slope, dtype: T, shape: x}]\n"
      "forward: {slope: head*x}\n");
  cr_expect_eq(p->operators[0].op->inputs[0]->shape_kind, TN_SHAPE_BROADCAST);
  cr_expect_not_null(p->operators[0].generated);
  tnm_plugin_release(p);
}

Test(plugin, a_gradient_may_take_the_memory_of_that_of_an_output) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [f32]}\n"
      "inputs: [{name: x, dtype: T}, {name: y, dtype: T, shape: x}]\n"
      "outputs: [{name: a, dtype: T, shape: x}, {name: b, dtype: T, shape: "
      "x}]\n"
      "gradient:\n  kernel: backward\n"
      "  needs: {x: [grad.b], y: [grad.b]}\n  inplace: {x: grad.b}\n"
      "kernels: [{device: cpu, forward: acme_f, backward: acme_g, "
      "writes: [write, inplace]}]\n");
  const tnm_kernel *kernel = &p->operators[0].kernels[0];
  cr_expect_eq(kernel->backward->writes, TN_WRITES_WRITE | TN_WRITES_INPLACE);
  const tn_gradient *g = p->operators[0].op->gradient;
  cr_expect_eq(g->inputs[0]->inplace, 1);
  cr_expect_eq(g->inputs[1]->inplace, TN_NONE);
  tnm_plugin_release(p);
}

/* `shape` is a function only where a parenthesis follows. */
Test(plugin, a_parameter_may_be_called_shape) {
  tnm_plugin *p = read_operator(
      "params: [{name: shape, type: ints}]\ndtypes: {T: [f32]}\n"
      "inputs: [{name: x, dtype: T, shape: [shape(y)...]},\n"
      "  {name: y, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: [shape...]}]\n"
      "gradient: {none: true, why: test}\n"
      "kernels: [{device: cpu, forward: acme_shape}]\n");
  const tn_op *op = p->operators[0].op;
  cr_assert_str_eq(op->params[0]->name, "shape");
  cr_expect_eq(op->nodes[op->inputs[0]->terms[0].node].op,
               TN_NODE_OPERAND_SHAPE);
  cr_expect_eq(op->nodes[op->outputs[0]->terms[0].node].op, TN_NODE_PARAM);
  tnm_plugin_release(p);
}

Test(plugin, a_parameter_may_be_called_size) {
  tnm_plugin *p = read_operator(
      "params: [{name: size, type: int}]\ndtypes: {T: [f32]}\n"
      "inputs: [{name: x, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: [size + size(x)]}]\n"
      "gradient: {none: true, why: test}\n"
      "kernels: [{device: cpu, forward: acme_size}]\n");
  const tn_op *op = p->operators[0].op;
  const tn_node *sum = &op->nodes[op->outputs[0]->terms[0].node];
  cr_assert_str_eq(op->params[0]->name, "size");
  cr_assert_eq(sum->op, TN_NODE_ADD);
  cr_expect_eq(op->nodes[sum->a].op, TN_NODE_PARAM);
  cr_expect_eq(op->nodes[sum->b].op, TN_NODE_OPERAND_SIZE);
  tnm_plugin_release(p);
}

Test(plugin, a_type_that_a_parameter_states_has_a_second_order_too) {
  tnm_plugin *p = read_operator(
      "params: [{name: dtype, type: dtype}]\ndtypes: {T: [i32, f32]}\n"
      "inputs: [{name: x, dtype: T}]\n"
      "outputs: [{name: out, dtype: dtype, shape: x}]\n"
      "forward: {out: x}\ngradient: auto\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  const tn_op *second = p->operators[1].op;
  cr_expect_eq(second->inputs[0]->dtype_param, 0);
  cr_expect_eq(second->outputs[0]->dtype_param, TN_NONE);
  cr_expect_eq(second->outputs[0]->dtype_var, 0);
  tnm_plugin_release(p);
}
