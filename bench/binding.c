/* SPDX-License-Identifier: Apache-2.0
 * Measures the cost of a call without a compiled wrapper: cblas_saxpy as
 * blas.axpy, bound by its manifest and called through libffi, and as a compiled
 * operator.
 *
 *   binding MANIFEST WRAPPER_SO     nanoseconds per call, by size
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "measure.h"

static const double seconds = 0.2;
static const int64_t sizes[] = {1, 64, 4096};

typedef void saxpy(int32_t n, float alpha, const float *x, int32_t dx, float *y,
                   int32_t dy);

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* One operator, its arrays, and the function itself. */
typedef struct subject {
  tn_runtime *rt;
  tn_operator *op;
  tn_array *x;
  tn_array *y;
  tn_prepared *prepared;
  saxpy *function;
  float *values;
  int32_t n;
} subject;

static void run_direct(void *arg) {
  const subject *s = arg;
  s->function(s->n, 1, s->values, 1, s->values + s->n, 1);
}

static void run_prepared(void *arg) {
  const subject *s = arg;
  must_succeed(tn_call_run(s->prepared));
}

/* In place: nothing is copied, so that the call is all there is. */
static void run_given(void *arg) {
  subject *s = arg;
  must_succeed(tn_call(s->rt, s->op, TN_IN(s->x, s->y), NULL, TN_OUT(&s->y)));
}

static tn_array *create_zeros(tn_runtime *rt, int64_t n) {
  tn_array *array = NULL;
  float *values = calloc((size_t)n, sizeof *values);
  if (!values) measure_fail("no memory");
  must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &array));
  must_succeed(tn_array_set(array, values, (size_t)n * sizeof *values));
  free(values);
  return array;
}

static void print_value(const char *what, int64_t n, double value) {
  printf("%s/%lld %.2f\n", what, (long long)n, value);
}

static void measure_operator(subject *s, const char *name, int64_t n) {
  char what[64];
  s->x = create_zeros(s->rt, n);
  s->y = create_zeros(s->rt, n);
  const tn_preparation call = {.struct_size = sizeof call,
                               .op = s->op,
                               .inputs = *TN_IN(s->x, s->y),
                               .outputs = *TN_OUT(&s->y)};
  must_succeed(tn_call_prepare(s->rt, &call, &s->prepared));
  (void)snprintf(what, sizeof what, "%s_prepared", name);
  print_value(what, n, measure_each(run_prepared, s, seconds));
  (void)snprintf(what, sizeof what, "%s_given", name);
  print_value(what, n, measure_each(run_given, s, seconds));
  tn_prepared_release(s->prepared);
  tn_array_release(s->x), tn_array_release(s->y);
}

/* The same function as both operators call. */
static void measure_direct(subject *s, int64_t n) {
  static const char *const names[] = {"libopenblas.so.0", "libblas.so.3"};
  void *library = dlopen(names[0], RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(names[1], RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "cblas_saxpy") : NULL;
  if (!symbol) measure_fail("no CBLAS");
  memcpy(&s->function, &symbol, sizeof symbol);
  s->n = (int32_t)n;
  s->values = calloc((size_t)n * 2, sizeof *s->values);
  if (!s->values) measure_fail("no memory");
  print_value("direct", n, measure_each(run_direct, s, seconds));
  free(s->values);
}

int main(int argc, char **argv) {
  const tn_options options = {.struct_size = sizeof options, .workers = 1};
  subject bound = {0}, compiled = {0};
  if (argc != 3) {
    fputs("usage: binding MANIFEST WRAPPER_SO\n", stderr);
    return 2;
  }
  must_succeed(tn_runtime_create(&options, &bound.rt));
  compiled.rt = bound.rt;
  const double before = measure_now();
  must_succeed(tn_plugin_load(bound.rt, argv[1]));
  printf("load/1 %.2f\n", 1e9 * (measure_now() - before));
  must_succeed(tn_plugin_load(bound.rt, argv[2]));
  must_succeed(tn_operator_get(bound.rt, "blas.axpy", &bound.op));
  must_succeed(tn_operator_get(bound.rt, "wrapped.axpy", &compiled.op));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    measure_direct(&bound, sizes[i]);
    measure_operator(&bound, "bound", sizes[i]);
    measure_operator(&compiled, "compiled", sizes[i]);
  }
  tn_runtime_release(bound.rt);
  return 0;
}
