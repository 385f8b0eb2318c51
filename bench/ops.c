/* SPDX-License-Identifier: Apache-2.0
 * ops.c: the rows of ops.h by our operators. Prints "PASS/ROW MICROSECONDS",
 * the least of several batches, in processor time of the one computing thread:
 * other load on the machine can only increase it.
 *
 *   ops PLUGIN.so ... [-- PART ...]    only rows with such a part in the name
 *   ops --rows                         "PASS/ROW FLOPS GOAL" of all of them
 *   ops --inputs                       their inputs, as lines of JSON,
 *                                      for peers that are not in C
 *   ops --formulas PLUGIN.so ... [-- PART ...]
 *                                      formulas with reductions beside nn
 *                                      (ops_formulas.c)
 */
#include "ops_extra.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "measure.h"
#include "ops_formulas.h"
#include "ops_row.h"

static const double SECONDS = 0.2; /* of each figure */

/* Numbers below a limit, without a pattern. */
static tn_array *draw_index(tn_runtime *rt, const ops_shape *shape,
                            int64_t limit) {
  tn_array *array = NULL;
  ops_must_succeed(tn_array_create(
      rt, &(tn_spec){TN_I64, shape->ndim, shape->dims}, &array));
  const size_t n = (size_t)tn_array_size(array);
  int64_t *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu indices", n);
  for (size_t i = 0; i < n; ++i)
    values[i] = (int64_t)(i * 2654435761u % (uint64_t)limit);
  ops_must_succeed(tn_array_set(array, values, n * sizeof *values));
  free(values);
  return array;
}

/* The same numbers as i4, the first input of dequantize. */
static tn_array *pack_array(tn_runtime *rt, tn_array *array) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *packed = NULL;
  ops_must_succeed(tn_operator_get(rt, "elemwise.cast", &op));
  ops_must_succeed(tn_params_parse(op, "dtype=i4", &params));
  ops_must_succeed(tn_call(rt, op, TN_IN(array), params, TN_OUT(&packed)));
  tn_params_release(params);
  tn_array_release(array);
  return packed;
}

static ops_row open_row(tn_runtime *rt, const ops_case *c, tn_operator *op) {
  ops_row r = {.rt = rt, .op = op, .dtype = TN_F32};
  ops_must_succeed(tn_params_parse(r.op, c->params, &r.params));
  const ops_extra extra = ops_extra_of(c);
  r.n_out = extra.n_out;
  r.flags = extra.n_aux > 0 ? TN_CALL_TRAIN : 0;
  for (; r.n_in < OPS_IN && c->in[r.n_in].ndim > 0; ++r.n_in) {
    const ops_shape *shape = &c->in[r.n_in];
    r.in[r.n_in] = extra.index_limit > 0 && r.n_in == extra.index_at
                       ? draw_index(rt, shape, extra.index_limit)
                       : ops_draw_array(rt, r.dtype, shape->ndim, shape->dims);
  }
  if (strcmp(c->op, "nn.dequantize") == 0) r.in[0] = pack_array(rt, r.in[0]);
  r.n_grads = r.n_in - extra.n_aux;
  ops_row_prepare(&r);
  return r;
}

static void run_row(tn_runtime *rt, const ops_case *c) {
  tn_operator *op = NULL;
  if (tn_operator_get(rt, c->op, &op) != TN_OK) {
    fprintf(stderr, "SKIPPED %s: no operator %s\n", c->name, c->op);
    return;
  }
  ops_row r = open_row(rt, c, op);
  for (int p = 0; p < OPS_PASSES && c->pass[p].name; ++p) {
    const uint32_t grads = c->pass[p].grads;
    for (size_t i = 0; i < r.n_in; ++i)
      r.req[i] = (grads >> i & 1) != 0 ? TN_REQ_WRITE : TN_REQ_NULL;
    const double ns = measure_cpu(
        grads == 0 ? ops_row_forward : ops_row_backward, &r, SECONDS);
    printf("%s/%s %.2f\n", c->pass[p].name, c->name, ns / 1e3);
    fflush(stdout);
  }
  ops_row_close(&r);
}

static void print_row(const ops_case *c) {
  for (int p = 0; p < OPS_PASSES && c->pass[p].name; ++p)
    printf("%s/%s %.0f %g\n", c->pass[p].name, c->name, c->flops,
           c->pass[p].goal);
}

static void print_numbers(const int64_t *numbers, int n) {
  for (int i = 0; i < n; ++i)
    printf("%s%lld", i == 0 ? "[" : ", ", (long long)numbers[i]);
  printf("]");
}

/* The fields are those of ops_case and ops_extra. */
static void list_inputs(const ops_case *c) {
  const ops_extra extra = ops_extra_of(c);
  printf("{\"name\": \"%s\", \"torch\": \"%s\", \"n\": ", c->name, c->torch);
  print_numbers(c->n, OPS_NUMBERS);
  printf(", \"in\": [");
  for (int i = 0; i < OPS_IN && c->in[i].ndim > 0; ++i) {
    printf("%s", i == 0 ? "" : ", ");
    print_numbers(c->in[i].dims, c->in[i].ndim);
  }
  printf("], \"index_at\": %u, \"index_limit\": %lld}\n", extra.index_at,
         (long long)extra.index_limit);
}

static int list_all(void (*list_one)(const ops_case *)) {
  for (int i = 0; i < OPS_N_CASES; ++i) list_one(&ops_cases[i]);
  return 0;
}

/* The time counted is that of the calling thread. The engine with workers runs
 * short calls on that thread, as for any host. Longer calls use the engine
 * without workers, which runs everything there. */
enum { SHORT = 1 << 14, KINDS = 2 };

static int is_short(const ops_case *c) {
  int64_t n = 0;
  for (int i = 0; i < OPS_IN && c->in[i].ndim > 0; ++i) {
    int64_t size = 1;
    for (int32_t d = 0; d < c->in[i].ndim; ++d) size *= c->in[i].dims[d];
    n += size;
  }
  return n > 0 && n <= SHORT;
}

static tn_runtime *open_runtime(uint32_t engine, int n, char **plugins) {
  tn_runtime *rt = NULL;
  ops_must_succeed(tn_runtime_create(
      &(tn_options){
          .struct_size = sizeof(tn_options), .workers = 1, .engine = engine},
      &rt));
  for (int i = 0; i < n; ++i) ops_must_succeed(tn_plugin_load(rt, plugins[i]));
  return rt;
}

int main(int argc, char **argv) {
  int n = 1;
  if (argc == 2 && strcmp(argv[1], "--rows") == 0) return list_all(print_row);
  if (argc == 2 && strcmp(argv[1], "--inputs") == 0)
    return list_all(list_inputs);
  const int formulas = argc > 1 && strcmp(argv[1], "--formulas") == 0;
  argv += formulas;
  argc -= formulas;
  while (n < argc && strcmp(argv[n], "--") != 0) ++n;
  tn_runtime *const rt[KINDS] = {
      open_runtime(TN_ENGINE_NAIVE, n - 1, argv + 1),
      open_runtime(TN_ENGINE_POOLED, n - 1, argv + 1)};
  n += n < argc;
  if (formulas) ops_measure_formulas(rt[0], argc - n, argv + n);
  for (int i = 0; !formulas && i < OPS_N_CASES; ++i)
    if (ops_is_wanted(ops_cases[i].name, argc - n, argv + n))
      run_row(rt[is_short(&ops_cases[i])], &ops_cases[i]);
  for (int i = 0; i < KINDS; ++i) tn_runtime_release(rt[i]);
  return 0;
}
