/* SPDX-License-Identifier: Apache-2.0
 * Expressions as opgen compiles them (bench/expr), the same as hand-written
 * loops (hand.h), and the limit set by the memory (limit.h):
 *
 *   expression PLUGIN THREADS [NAME]   GB/s moved, by expression and size
 *
 * Each expression is a prepared call into an existing output, followed by a
 * wait. The results of the two must be the same but for rounding.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "call.h"
#include "expr.h"
#include "hand.h"
#include "limit.h"
#include "measure.h"

typedef struct expr_case {
  const char *name; /* "add_f64" */
  const char *op;
  const char *params;
  uint32_t n_in;
  enum hand_layout layout;
  tn_dtype dtype;
} expr_case;

#define ABC "a=0.5 b=-1.25 c=0.75"

static const expr_case cases[] = {
    {"add", "expr.add", "", 2, HAND_DENSE, TN_F32},
    {"mul", "expr.mul", "", 2, HAND_DENSE, TN_F32},
    {"axpy", "expr.axpy", "a=0.5", 2, HAND_DENSE, TN_F32},
    {"quadratic", "expr.quadratic", ABC, 1, HAND_DENSE, TN_F32},
    {"relu", "expr.relu", "", 1, HAND_DENSE, TN_F32},
    {"sigmoid", "expr.sigmoid", "", 1, HAND_DENSE, TN_F32},
    {"tanh", "expr.tanh", "", 1, HAND_DENSE, TN_F32},
    {"exp", "expr.exp", "", 1, HAND_DENSE, TN_F32},
    {"gelu", "expr.gelu", "", 1, HAND_DENSE, TN_F32},
    {"chain", "expr.chain", ABC, 1, HAND_DENSE, TN_F32},
    {"add_row", "expr.add", "", 2, HAND_ROW, TN_F32},
    {"add_column", "expr.add", "", 2, HAND_COLUMN, TN_F32},
    {"add_strided", "expr.add", "", 2, HAND_STRIDED, TN_F32},
    {"add_f64", "expr.add", "", 2, HAND_DENSE, TN_F64},
    {"add_f16", "expr.add", "", 2, HAND_DENSE, TN_F16},
    {"add_bf16", "expr.add", "", 2, HAND_DENSE, TN_BF16},
};

enum { N_CASES = sizeof cases / sizeof *cases };

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

static void print_value(const char *who, const char *name, int64_t n,
                        double value) {
  printf("%s%s/%lld %.2f\n", who, name, (long long)n, value);
  fflush(stdout);
}

/* ------------------------------------------------------------------- arrays */

/* One case of one size. The arrays have the layout of the memory, the views
 * that of the call. */
typedef struct subject {
  const expr_case *of;
  tn_runtime *rt;
  int64_t shape[2];
  tn_array *arrays[2];
  tn_array *views[2];
  tn_array *out;
  tn_prepared *call;
} subject;

/* Numbers between -4 and 4, in the type of the case. */
static tn_array *array_of(const subject *s, const int64_t shape[2]) {
  const int64_t n = shape[0] * shape[1];
  const size_t bytes = (size_t)n * sizeof(float);
  tn_array *array = NULL, *cast = NULL;
  float *values = malloc(bytes);
  uint32_t state = 1;
  if (!values) measure_fail("no memory for %zu bytes", bytes);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = 8 * ((float)(state >> 8) * 0x1p-24f) - 4;
  }
  must_succeed(tn_array_create(s->rt, &(tn_spec){TN_F32, 2, shape}, &array));
  must_succeed(tn_array_set(array, values, bytes));
  free(values);
  if (s->of->dtype == TN_F32) return array;
  must_succeed(tn_array_cast(array, s->of->dtype, &cast));
  must_succeed(tn_array_wait(cast));
  tn_array_release(array);
  return cast;
}

static void make_first(subject *s) {
  const tn_range half = {.axis = 1, .end = 2 * s->shape[1], .step = 2};
  const int64_t twice[] = {s->shape[0], 2 * s->shape[1]};
  const bool strided = s->of->layout == HAND_STRIDED;
  s->arrays[0] = array_of(s, strided ? twice : s->shape);
  if (strided)
    must_succeed(tn_array_slice(s->arrays[0], &half, &s->views[0]));
  else
    s->views[0] = tn_array_retain(s->arrays[0]);
}

static void make_second(subject *s) {
  const enum hand_layout layout = s->of->layout;
  const int64_t shape[] = {layout == HAND_ROW ? 1 : s->shape[0],
                           layout == HAND_COLUMN ? 1 : s->shape[1]};
  if (s->of->n_in < 2) return;
  s->arrays[1] = array_of(s, shape);
  must_succeed(tn_array_broadcast(s->arrays[1], 2, s->shape, &s->views[1]));
}

static void prepare_call(subject *s) {
  tn_preparation what = {.struct_size = sizeof what,
                         .inputs = {s->of->n_in, s->views},
                         .outputs = *TN_OUT(&s->out)};
  tn_operator *op = NULL;
  tn_params *params = NULL;
  must_succeed(tn_operator_get(s->rt, s->of->op, &op));
  must_succeed(tn_params_parse(op, s->of->params, &params));
  what.op = op;
  what.params = params;
  must_succeed(tn_call_prepare(s->rt, &what, &s->call));
  tn_params_release(params);
}

static subject subject_open(tn_runtime *rt, const expr_case *of, int64_t n) {
  const int64_t columns = expr_columns(n);
  subject s = {.of = of, .rt = rt, .shape = {n / columns, columns}};
  make_first(&s);
  make_second(&s);
  s.out = array_of(&s, s.shape);
  prepare_call(&s);
  return s;
}

static void subject_close(subject *s) {
  must_succeed(tn_wait_all(s->rt));
  tn_prepared_release(s->call);
  for (int i = 0; i < 2; ++i) {
    tn_array_release(s->views[i]);
    tn_array_release(s->arrays[i]);
  }
  tn_array_release(s->out);
}

/* -------------------------------------------------------------- comparison */

static const void *data_of(const tn_array *array) {
  return array ? tn_array_tensor(array)->data : NULL;
}

/* The output as floats; the caller frees it. */
static float *read_result(const subject *s) {
  const size_t bytes = (size_t)tn_array_size(s->out) * sizeof(float);
  float *values = malloc(bytes);
  tn_array *cast = NULL;
  if (!values) measure_fail("no memory for %zu bytes", bytes);
  must_succeed(tn_array_cast(s->out, TN_F32, &cast));
  must_succeed(tn_array_get(cast, values, bytes));
  tn_array_release(cast);
  return values;
}

static void compare_results(const subject *s, const float *ours,
                            const float *hand) {
  const float most = tn_dtype_bytes(s->of->dtype) == 2 ? 0.1f : 1e-5f;
  for (int64_t i = 0; i < tn_array_size(s->out); ++i)
    if (!(fabsf(ours[i] - hand[i]) <= most * (1 + fabsf(hand[i]))))
      measure_fail("%s: element %lld is %g here and %g by hand", s->of->name,
                   (long long)i, (double)ours[i], (double)hand[i]);
}

/* ----------------------------------------------------------------- measure */

static void run_subject(void *arg) {
  subject *s = arg;
  must_succeed(tn_call_run(s->call));
  must_succeed(tn_array_wait(s->out));
}

/* Bytes of memory that are moved: a repeated operand counts at most once, and
 * is left out. */
static double bytes_moved(const subject *s) {
  const bool repeated =
      s->of->layout == HAND_ROW || s->of->layout == HAND_COLUMN;
  const uint32_t n = repeated ? 2 : s->of->n_in + 1;
  return (double)n * (double)tn_dtype_bytes(s->of->dtype) *
         (double)(s->shape[0] * s->shape[1]);
}

static double measure_hand(const subject *s, uint32_t threads) {
  const hand_work work = {.name = s->of->name,
                          .a = data_of(s->arrays[0]),
                          .b = data_of(s->arrays[1]),
                          .out = tn_array_tensor(s->out)->data,
                          .n = s->shape[0] * s->shape[1],
                          .columns = s->shape[1],
                          .bytes = tn_dtype_bytes(s->of->dtype),
                          .layout = s->of->layout};
  return hand_each(&work, threads);
}

static void measure_case(tn_runtime *rt, const expr_case *of, int64_t n,
                         uint32_t threads) {
  subject s = subject_open(rt, of, n);
  const double bytes = bytes_moved(&s);
  print_value("", of->name, n,
              bytes / measure_each(run_subject, &s, ADD_SECONDS));
  float *ours = read_result(&s);
  const double hand = measure_hand(&s, threads);
  if (hand > 0) {
    float *theirs = read_result(&s);
    compare_results(&s, ours, theirs);
    free(theirs);
    print_value("hand/", of->name, n, bytes / hand);
  }
  free(ours);
  subject_close(&s);
}

/* By the arrays that are read, of n floats. */
static void measure_limits(int64_t n, uint32_t threads) {
  static const char *const names[] = {"", "1", "2"};
  for (uint32_t n_in = 1; n_in <= 2; ++n_in) {
    const double bytes = 4.0 * (n_in + 1) * (double)n;
    print_value("limit/", names[n_in], n,
                bytes / limit_each(n, n_in, threads, LIMIT_ORDINARY));
    print_value("limit_nt/", names[n_in], n,
                bytes / limit_each(n, n_in, threads, LIMIT_NON_TEMPORAL));
  }
  const double bytes = 8.0 * (double)n;
  print_value("limit/", "next", n,
              bytes / limit_each_read_next(n, threads, LIMIT_ORDINARY));
  print_value("limit_nt/", "next", n,
              bytes / limit_each_read_next(n, threads, LIMIT_NON_TEMPORAL));
}

static void measure_size(tn_runtime *rt, int64_t n, uint32_t threads,
                         const char *only) {
  if (!only) measure_limits(n, threads);
  for (int k = 0; k < N_CASES; ++k)
    if (!only || strcmp(only, cases[k].name) == 0)
      measure_case(rt, &cases[k], n, threads);
}

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  if (argc < 3 || argc > 4) {
    fputs("usage: expression PLUGIN THREADS [NAME]\n", stderr);
    return 2;
  }
  const int threads = atoi(argv[2]);
  const tn_options options = {.struct_size = sizeof options,
                              .workers = (uint32_t)threads};
  must_succeed(tn_runtime_create(&options, &rt));
  must_succeed(tn_plugin_load(rt, argv[1]));
  for (int i = expr_first(threads); i < 4; ++i)
    measure_size(rt, expr_sizes[i], (uint32_t)threads,
                 argc > 3 ? argv[3] : NULL);
  tn_runtime_release(rt);
  return 0;
}
