/* SPDX-License-Identifier: Apache-2.0
 * Every operator with register kernels, forward and backward, with each of its
 * inputs in registers: the bits of separate calls. Other operators are not part
 * of register runs, and the test counts them.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"
#include "tenon/kernel/kernel.h"

enum { N = 8192 + 37 }; /* long enough to be fused; ends within a block */

/* Of both signs, zeros, and above 1. */
static tn_array *numbers(tn_runtime *rt, uint64_t seed) {
  const int64_t n = N;
  double *values = host_draw(n, seed);
  for (int64_t i = 0; i < n; ++i) values[i] *= (double)(i % 13) / 4;
  tn_array *array = host_many(rt, TN_F32, 1, &n, values);
  free(values);
  return array;
}

static tn_entry node(tn_graph *g, const char *op, const char *params, size_t n,
                     const tn_entry *in) {
  tn_entry out;
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = params,
                                    .in = in,
                                    .n_in = (uint32_t)n},
                   &out));
  return out;
}

/* op(a, b) and its square, where a and b are computed from x and y; input
 * `held` of it is computed last. */
static tn_graph *graph_of(tn_runtime *rt, const char *op, const char *params,
                          size_t n_in, size_t held) {
  tn_graph *g = NULL;
  tn_entry in[2];
  OK(tn_graph_create(rt, &g));
  for (size_t i = 0; i < n_in; ++i)
    OK(tn_graph_variable(g, i ? "y" : "x", NULL, &in[i]));
  for (size_t k = 0; k < n_in; ++k) {
    const size_t i = n_in == 1 || k == 1 ? held : 1 - held;
    in[i] = node(g, "elemwise.add_scalar", i ? "scalar=0.25" : "scalar=0.5", 1,
                 &in[i]);
  }
  const tn_entry made = node(g, op, params, n_in, in);
  const tn_entry heads[] = {node(g, "elemwise.square", NULL, 1, &made), made};
  OK(tn_graph_heads_set(g, heads, 2));
  return g;
}

/* The results of a program: heads, then gradients if there are any. */
typedef struct results {
  tn_program *program;
  tn_array *arrays[4];
  size_t n;
} results;

static bool run(tn_graph *g, tn_array *const *in, size_t n_in, uint32_t flags,
                results *r) {
  static const char *const names[] = {"x", "y"};
  tn_argument given[2];
  for (size_t i = 0; i < n_in; ++i)
    given[i] = (tn_argument){.name = names[i], .array = in[i]};
  tn_bind how = {.struct_size = sizeof how,
                 .flags = flags,
                 .request = TN_REQ_WRITE,
                 .arguments = given,
                 .n_arguments = n_in};
  r->n = 0;
  bool slopes = tn_program_bind(g, &how, &r->program) == TN_OK;
  how.request = TN_REQ_NULL; /* without a gradient, forward alone */
  if (!slopes && tn_program_bind(g, &how, &r->program) != TN_OK) return false;
  OK(tn_program_forward(r->program, TN_CALL_TRAIN));
  for (size_t i = 0; i < 2; ++i)
    OK(tn_program_output(r->program, i, &r->arrays[r->n++]));
  if (!slopes) return true;
  OK(tn_program_backward(r->program, in + 2, 2));
  for (size_t i = 0; i < n_in; ++i)
    OK(tn_program_array(r->program, TN_PROGRAM_GRADIENT, names[i],
                        &r->arrays[r->n++]));
  return true;
}

static void same_bits(tn_array *a, tn_array *b, const char *what, size_t k) {
  float *one = malloc(N * sizeof *one), *two = malloc(N * sizeof *two);
  OK(tn_array_get(a, one, N * sizeof *one));
  OK(tn_array_get(b, two, N * sizeof *two));
  for (size_t i = 0; i < N; ++i)
    cr_assert((isnan(one[i]) && isnan(two[i])) ||
                  memcmp(&one[i], &two[i], sizeof *one) == 0,
              "%s, result %zu: element %zu is %.9g, and one by one %.9g", what,
              k, i, (double)one[i], (double)two[i]);
  free(one), free(two);
}

/* Returns how many calls used register kernels; 0 if floats are not its
 * business. */
static uint64_t compare(tn_runtime *rt, const char *op, const char *params,
                        size_t n_in, size_t held) {
  char what[160];
  results r[2];
  uint64_t in_registers = 0;
  tn_array *in[4];
  tn_graph *g = graph_of(rt, op, params, n_in, held);
  for (uint64_t i = 0; i < 4; ++i) in[i] = numbers(rt, i + 1);
  (void)snprintf(what, sizeof what, "%s %s, input %zu in registers", op,
                 params ? params : "", held);
  if (run(g, in, n_in, 0, &r[0])) {
    tn_program_stats stats = {.struct_size = sizeof stats};
    OK(tn_program_stats_get(r[0].program, &stats));
    in_registers = stats.n_in_registers;
    cr_assert(run(g, in, n_in, TN_BIND_NO_FUSE, &r[1]), "%s", what);
    cr_assert_eq(r[0].n, r[1].n);
    for (size_t i = 0; i < r[0].n; ++i)
      same_bits(r[0].arrays[i], r[1].arrays[i], what, i);
    tn_program_release(r[0].program), tn_program_release(r[1].program);
  }
  for (int i = 0; i < 4; ++i) tn_array_release(in[i]);
  tn_graph_release(g);
  return in_registers;
}

/* A runtime without these features, with nn and elemwise. */
static tn_runtime *open_without(uint64_t features) {
  tn_runtime *rt = NULL;
  tn_options options = {.struct_size = sizeof options, .cpu_mask = features};
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

/* Whether an operator has one or two inputs and no required parameter. */
static bool is_simple(tn_operator *op) {
  const tn_op *desc = tn_operator_desc(op);
  tn_params *params = NULL;
  if (strncmp(tn_operator_name(op), "elemwise.", 9) != 0) return false;
  if (desc->n_inputs < 1 || desc->n_inputs > 2 || desc->n_outputs != 1 ||
      (desc->flags & TN_OP_BACKWARD_ONLY))
    return false;
  if (tn_params_parse(op, "", &params) != TN_OK) return false;
  tn_params_release(params);
  return true;
}

static bool has_registers(void) {
#if TN_KERNEL_HAS_REGISTERS
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/* All of elemwise and some of nn; counts the calls of register kernels. Those
 * of nn are the three forward ones, and the gradients after the sum of two. */
static uint64_t count_all(uint64_t hidden) {
  static const char *const others[][2] = {
      {"nn.activation", "act_type=relu"},
      {"nn.activation", "act_type=sigmoid"},
      {"nn.activation", "act_type=tanh"},
      {"nn.activation", "act_type=softrelu"},
      {"nn.activation", "act_type=softsign"},
      {"nn.leaky_relu", "act_type=leaky slope=0.1"},
      {"nn.leaky_relu", "act_type=elu slope=0.3"},
      {"nn.leaky_relu", "act_type=selu"},
      {"elemwise.power_scalar", "scalar=1.5"},
      {"elemwise.clip", "a_min=-0.25 a_max=0.5"},
      {"elemwise.maximum_scalar", "scalar=0.1"}};
  tn_runtime *rt = open_without(hidden);
  tn_operator *op = NULL;
  uint64_t in_registers = 0;
  size_t tried = 0;
  for (size_t i = 0; tn_operator_at(rt, i, &op) == TN_OK && op; ++i) {
    if (!is_simple(op)) continue;
    const size_t n_in = tn_operator_desc(op)->n_inputs;
    for (size_t held = 0; held < n_in; ++held, ++tried)
      in_registers += compare(rt, tn_operator_name(op), NULL, n_in, held);
  }
  cr_assert_geq(tried, 100);
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    const uint64_t n = compare(rt, others[i][0], others[i][1], 1, 0);
    if (strncmp(others[i][0], "nn.", 3) == 0 && hidden == 0)
      cr_assert(n == (has_registers() ? 5 : 0), "%s %s: %d calls use registers",
                others[i][0], others[i][1], (int)n);
    in_registers += n;
  }
  tn_runtime_release(rt);
  return in_registers;
}

Test(register_calls, operators_have_the_bits_of_calls) {
  const uint64_t n = count_all(0);
  cr_assert(has_registers() ? n > 400 : n == 0, "%d calls use registers",
            (int)n);
}

Test(register_calls, operators_have_them_with_avx2) {
  const uint64_t n = count_all(TN_CPU_AVX512);
  cr_assert(has_registers() ? n > 400 : n == 0, "%d calls use registers",
            (int)n);
}

Test(register_calls, operators_without_vectors_use_no_registers) {
  cr_assert_eq(count_all(TN_CPU_AVX512 | TN_CPU_AVX2), 0);
}
