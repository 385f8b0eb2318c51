/* SPDX-License-Identifier: Apache-2.0
 * test_lower_plugin.c: reads whole plugins from manifests: the order of their
 * tables, targets, operators of second order, and exhausted memory.
 * test_lower.c has single operators.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define PLUGIN(name, files)                                  \
  "opgen: 1\nplugin: " name                                  \
  "\nrelease: 3\nsummary: For a test\nlicense: Apache-2.0\n" \
  "operators: [" files "]\n"

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

Test(plugin, kernels_for_finds_its_operator_in_other_manifests) {
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

/* ------------------------------------------------------------------- memory */

/* A plugin to read, and its options. */
typedef struct starved {
  const memory_file *files;
  tnm_plugin *(*read)(const tn__env *env, tnm_diags *diags);
} starved;

/* Lets each allocation fail in turn: expects an error and no leak. */
static void fail_allocations(const starved *what, bool for_ever) {
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

/* Derived gradients of both orders, and one that is a graph. */
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
  fail_allocations(&(starved){plugins, read_with}, false);
  fail_allocations(&(starved){derived, read_derived}, false);
}

Test(memory, memory_may_run_out_for_good) {
  fail_allocations(&(starved){plugins, read_with}, true);
  fail_allocations(&(starved){derived, read_derived}, true);
}

/* The second gradient with respect to the output gradient would read sixteen
 * tensors. */
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

Test(plugin, operators_of_second_order_follow_all_others) {
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
  cr_expect_str_eq(a->outputs[0]->name, "x_slope_"); /* x_slope is in use */
  cr_expect_str_eq(a->outputs[0]->formula, "out_head*x_slope");
  cr_expect_str_eq(a->outputs[1]->formula, "0"); /* not differentiable */
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

/* One operator in a plugin of its own; `rest` follows the summary. */
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

/* The host sums the results of elementwise backward kernels. No formula
 * describes that sum, so there is no second order. */
Test(plugin, gradients_of_broadcast_operators_are_elementwise) {
  tnm_plugin *p = read_operator(
      "dtypes: {T: [f32]}\n"
      "inputs: [{name: a, dtype: T}, {name: b, dtype: T}]\n"
      "outputs: [{name: out, dtype: T, shape: broadcast}]\n"
      "forward: {out: a*b}\ngradient: auto\n");
  cr_assert_eq(p->plugin->n_operators, 2);
  const tnm_operator *o = p->operators;
  cr_expect_neq(o->generated->flags & TN_KERNEL_ELEMENTWISE, 0);
  cr_expect_neq(o->generated_backward->flags & TN_KERNEL_ELEMENTWISE, 0);
  /* grad.out, a, b, out: of equal shape in some calls */
  cr_assert_eq(o->generated_backward->n_inplace, 3);
  cr_expect_eq(o->generated_backward->inplace[0].in, 2);
  tnm_plugin_release(p);
}

/* Output gradients and results have the loop's shape, gradients that of their
 * inputs. No gradient may replace its computation, because it is a sum. */
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

Test(plugin, a_derived_operator_has_the_family_of_its_operator) {
  tnm_plugin *p = read_operator(
      "family: linear algebra\ndtypes: {T: [f32]}\n"
      "inputs: [{name: x, dtype: T}]\n"
      "outputs: [{name: y, dtype: T, shape: x}]\n"
      "forward: {y: x*x}\ngradient: auto\n");
  cr_assert_eq(p->n_operators, 2);
  for (size_t i = 0; i < 2; ++i)
    cr_expect_str_eq(p->operators[i].op->family, "linear algebra");
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

Test(plugin, a_gradient_may_use_the_memory_of_an_output_gradient) {
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

/* `shape` is a function only before a parenthesis. */
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
