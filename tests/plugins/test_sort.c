/* SPDX-License-Identifier: Apache-2.0
 * sort, argsort, topk and topk_mask of plugins/tensor: values, places and
 * gradients of NumPy and torch (tests/reference/sort.py); lines of all lengths
 * and types against a comparison sort here; and messages.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* k is 0 for sort. */
typedef struct sort_case {
  const char *axis;
  int k;
  int is_ascend;
  host_operand data, out, places, head, gradient, mask;
} sort_case;

static const sort_case sort_cases[] = {
#include "sort_cases.inc"
};
enum { N_CASES = sizeof sort_cases / sizeof *sort_cases };

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(sort, .init = open_all, .fini = close_all);

/* ------------------------------------------------------------------- values */

static int is_same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static void expect_values(tn_array *array, const host_operand *want,
                          const char *op) {
  host_expect_shape(array, &want->shape, op, "");
  double *v = host_many_values(array);
  for (int64_t i = 0; i < tn_array_size(array); ++i)
    cr_assert(is_same(v[i], want->v[i]), "%s, element %lld: %g, not %g", op,
              (long long)i, v[i], want->v[i]);
  free(v);
}

static tn_params *order_params(tn_operator *op, const sort_case *c) {
  char text[80];
  const int with_k = strstr(tn_operator_desc(op)->name, "topk") != NULL;
  if (with_k)
    (void)snprintf(text, sizeof text, "%s is_ascend=%d k=%d", c->axis,
                   c->is_ascend, c->k);
  else
    (void)snprintf(text, sizeof text, "%s is_ascend=%d", c->axis, c->is_ascend);
  return host_params(op, text);
}

/* Both outputs, and the gradient of data. */
static void check_pair(const sort_case *c, tn_dtype dtype, const char *name) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = order_params(op, c);
  tn_array *data = host_operand_array(rt, dtype, &c->data);
  tn_array *head = host_operand_array(rt, dtype, &c->head);
  tn_array *out[2] = {NULL, NULL}, *grad = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, data));
  OK(tn_tape_call(tape, op, TN_IN(data), params, &(tn_outputs){2, out, NULL}));
  expect_values(out[0], &c->out, name);
  expect_values(out[1], &c->places, name);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = {1, out},
                                       .head_gradients = *TN_IN(head),
                                       .of = *TN_IN(data),
                                       .gradients = *TN_OUT(&grad)}));
  expect_values(grad, &c->gradient, name);
  tn_array_release(data), tn_array_release(head), tn_array_release(grad);
  tn_array_release(out[0]), tn_array_release(out[1]);
  tn_tape_release(tape);
  tn_params_release(params);
}

static void check_one(const sort_case *c, tn_dtype dtype, const char *name,
                      const host_operand *want) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = order_params(op, c);
  tn_array *data = host_operand_array(rt, dtype, &c->data), *out = NULL;
  OK(tn_call(rt, op, TN_IN(data), params, TN_OUT(&out)));
  expect_values(out, want, name);
  tn_array_release(data), tn_array_release(out);
  tn_params_release(params);
}

Test(sort, values_places_and_gradients_are_those_of_numpy) {
  static const tn_dtype types[] = {TN_F64, TN_F32, TN_F16, TN_BF16};
  for (int i = 0; i < N_CASES; ++i)
    for (int k = 0; k < 4; ++k) {
      const sort_case *c = &sort_cases[i];
      check_pair(c, types[k], c->k == 0 ? "tensor.sort" : "tensor.topk");
      check_one(c, types[k], "tensor.topk_mask", &c->mask);
      if (c->k == 0) check_one(c, types[k], "tensor.argsort", &c->places);
    }
}

/* ---------------------------------------------------------------- long lines
 */

/* An element of the comparison sort. */
typedef struct element {
  double value;
  int64_t place;
  int is_descending;
} element;

/* -1, 0 or 1; NaN is the greatest. */
static int compare_values(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
  return (a > b) - (a < b);
}

static int compare_elements(const void *a, const void *b) {
  const element *x = a, *y = b;
  const int order = compare_values(x->value, y->value);
  if (order != 0) return x->is_descending ? -order : order;
  return (x->place > y->place) - (x->place < y->place);
}

/* Lines along the axis: k of n elements, `inner` of them adjacent. */
typedef struct trial {
  tn_dtype dtype;
  int64_t outer, n, inner, k;
  int is_descending;
} trial;

static void compare_line(const trial *t, int64_t line, const double *data,
                         const double *out, const double *places) {
  const int64_t outer = line / t->inner, column = line % t->inner;
  element *all = malloc((size_t)t->n * sizeof *all);
  cr_assert_not_null(all);
  for (int64_t i = 0; i < t->n; ++i)
    all[i] = (element){data[(outer * t->n + i) * t->inner + column], i,
                       t->is_descending};
  qsort(all, (size_t)t->n, sizeof *all, compare_elements);
  for (int64_t i = 0; i < t->k; ++i) {
    const int64_t at = (outer * t->k + i) * t->inner + column;
    cr_assert(
        is_same(out[at], all[i].value) && (int64_t)places[at] == all[i].place,
        "%lld of %lld, line %lld, result %lld: %g of place %g, not %g of "
        "%lld",
        (long long)t->k, (long long)t->n, (long long)line, (long long)i,
        out[at], places[at], all[i].value, (long long)all[i].place);
  }
  free(all);
}

/* Numbers that the type holds: many are equal, some are NaN. */
static double draw_number(const trial *t, uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  const int is_float = t->dtype == TN_F32 || t->dtype == TN_F64 ||
                       t->dtype == TN_F16 || t->dtype == TN_BF16;
  const int wide = tn_dtype_bytes(t->dtype) >= 4;
  const uint32_t bits = (uint32_t)(*state >> 33);
  if (t->dtype == TN_BOOL) return bits % 2;
  if (is_float && bits % 50 == 0) return (double)NAN;
  if (is_float && !wide) return ((double)(bits % 255) - 127) / 4;
  if (is_float && bits % 3 == 0) return ((double)(bits % 99) - 49) * 1e30;
  if (is_float) return ((double)(bits % 2000001) - 1000000) / 4;
  const int is_signed = t->dtype == TN_I8 || t->dtype == TN_I16 ||
                        t->dtype == TN_I32 || t->dtype == TN_I64;
  const double number = wide ? bits % 3000000 : bits % 100;
  return is_signed ? number - (wide ? 1500000 : 50) : number;
}

static void run_trial(const trial *t, const char *name, const char *text) {
  const int64_t dims[] = {t->outer, t->n, t->inner};
  const int64_t size = t->outer * t->n * t->inner;
  uint64_t state = (uint64_t)(t->n * 31 + t->k);
  double *v = malloc((size_t)size * sizeof *v);
  cr_assert_not_null(v);
  for (int64_t i = 0; i < size; ++i) v[i] = draw_number(t, &state);
  tn_array *data = host_many(rt, t->dtype, 3, dims, v), *out[2] = {NULL, NULL};
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  OK(tn_call(rt, op, TN_IN(data), params, &(tn_outputs){2, out, NULL}));
  double *have = host_many_values(out[0]), *places = host_many_values(out[1]);
  double *exact = host_many_values(data);
  for (int64_t line = 0; line < t->outer * t->inner; ++line)
    compare_line(t, line, exact, have, places);
  free(v), free(have), free(places), free(exact);
  tn_array_release(data), tn_array_release(out[0]), tn_array_release(out[1]);
  tn_params_release(params);
}

static void run_sort(trial t) {
  char text[64];
  for (t.is_descending = 0; t.is_descending < 2; ++t.is_descending) {
    (void)snprintf(text, sizeof text, "axis=1 is_ascend=%d", !t.is_descending);
    t.k = t.n;
    run_trial(&t, "tensor.sort", text);
  }
}

static void run_topk(trial t) {
  char text[64];
  for (t.is_descending = 0; t.is_descending < 2; ++t.is_descending) {
    (void)snprintf(text, sizeof text, "axis=1 is_ascend=%d k=%d",
                   !t.is_descending, (int)t.k);
    run_trial(&t, "tensor.topk", text);
  }
}

static const tn_dtype all_types[] = {TN_F32,  TN_F64, TN_F16, TN_BF16,
                                     TN_BOOL, TN_I8,  TN_U8,  TN_I16,
                                     TN_U16,  TN_I32, TN_U32, TN_I64};
enum { N_TYPES = sizeof all_types / sizeof *all_types };

Test(sort, lines_of_all_lengths_and_types_are_in_order) {
  static const int64_t lengths[] = {2, 31, 32, 33, 100, 513, 3000};
  for (int i = 0; i < N_TYPES; ++i)
    for (int k = 0; k < 7; ++k) {
      run_sort((trial){all_types[i], 3, lengths[k], 1, 0, 0});
      run_sort((trial){all_types[i], 2, lengths[k], k % 2 ? 3 : 35, 0, 0});
    }
}

/* Longer than all threads leave to one of them. */
Test(sort, long_lines_are_in_order) {
  run_sort((trial){TN_F32, 1, 200001, 1, 0, 0});
  run_sort((trial){TN_F32, 1, 70000, 2, 0, 0});
  run_sort((trial){TN_F64, 2, 70000, 1, 0, 0});
  run_sort((trial){TN_F16, 1, 140000, 1, 0, 0});
  run_sort((trial){TN_I64, 1, 140000, 1, 0, 0});
  run_sort((trial){TN_U8, 1, 140000, 1, 0, 0});
}

Test(sort, the_first_of_lines_are_those_of_a_sort) {
  static const int64_t some[] = {1, 2, 32, 33, 60, 61, 400};
  for (int i = 0; i < N_TYPES; ++i)
    for (int k = 0; k < 7; ++k) {
      run_topk((trial){all_types[i], 3, 500, 1, some[k], 0});
      run_topk((trial){all_types[i], 1, 500, 5, some[k], 0});
    }
}

Test(sort, the_first_of_long_lines_are_those_of_a_sort) {
  static const int64_t some[] = {1, 20, 100, 5000, 20000, 150000};
  for (int k = 0; k < 6; ++k) {
    run_topk((trial){TN_F32, 1, 200001, 1, some[k], 0});
    run_topk((trial){TN_I64, 2, 140000, 1, some[k] / 2 + 1, 0});
  }
  run_topk((trial){TN_F32, 1, 70000, 2, 100, 0});
  run_topk((trial){TN_F32, 17, 70000, 1, 50, 0});
  run_topk((trial){TN_BOOL, 1, 200001, 1, 100, 0});
}

/* A sample of every 48th element says nothing about the others. */
static void check_sample(double sampled, double others) {
  enum { N = 200001, EVERY = 48, K = 5000 };
  const trial t = {TN_F32, 1, N, 1, K, 1};
  double *v = malloc(N * sizeof *v);
  cr_assert_not_null(v);
  for (int i = 0; i < N; ++i)
    v[i] = (i % EVERY == 0 ? sampled : others) + (double)(i * 7919LL % N);
  tn_array *data = host_many(rt, TN_F32, 1, (int64_t[]){N}, v);
  tn_array *out[2] = {NULL, NULL};
  tn_operator *op = host_operator(rt, "tensor.topk");
  tn_params *params = host_params(op, "k=5000");
  OK(tn_call(rt, op, TN_IN(data), params, &(tn_outputs){2, out, NULL}));
  double *have = host_many_values(out[0]), *places = host_many_values(out[1]);
  compare_line(&t, 0, v, have, places);
  free(v), free(have), free(places);
  tn_array_release(data), tn_array_release(out[0]), tn_array_release(out[1]);
  tn_params_release(params);
}

Test(sort, a_wrong_sample_changes_nothing) {
  check_sample(1e6, 0);
  check_sample(-1e6, 0);
}

/* ------------------------------------------------------------ hard elements */

static void expect_places(const char *text, tn_array *data, const int64_t *want,
                          int64_t n) {
  int64_t got[HOST_MAX];
  tn_operator *op = host_operator(rt, "tensor.argsort");
  tn_params *params = host_params(op, text);
  tn_array *out = NULL;
  OK(tn_call(rt, op, TN_IN(data), params, TN_OUT(&out)));
  OK(tn_array_get(out, got, (size_t)n * sizeof *got));
  for (int64_t i = 0; i < n; ++i)
    cr_assert_eq(got[i], want[i], "%s: place %lld is %lld", text, (long long)i,
                 (long long)got[i]);
  tn_array_release(out);
  tn_params_release(params);
}

static tn_array *new_vector(tn_dtype dtype, int64_t n, const void *elements) {
  tn_array *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){dtype, 1, &n}, &array));
  OK(tn_array_set(array, elements, (size_t)(n * tn_dtype_bytes(dtype))));
  return array;
}

/* A difference or a minus would overflow. */
Test(sort, ends_of_64_bit_integers_are_in_order) {
  const int64_t whole[] = {0, INT64_MAX, -1, INT64_MIN, 1, INT64_MIN};
  const uint64_t natural[] = {
      0, UINT64_MAX, 1, (uint64_t)INT64_MAX + 1, (uint64_t)INT64_MAX, 1};
  tn_array *x = new_vector(TN_I64, 6, whole);
  tn_array *y = new_vector(TN_U64, 6, natural);
  expect_places("", x, (const int64_t[]){3, 5, 2, 0, 4, 1}, 6);
  expect_places("is_ascend=false", x, (const int64_t[]){1, 4, 0, 2, 3, 5}, 6);
  expect_places("", y, (const int64_t[]){0, 2, 5, 4, 3, 1}, 6);
  expect_places("is_ascend=false", y, (const int64_t[]){1, 3, 4, 2, 5, 0}, 6);
  tn_array_release(x), tn_array_release(y);
}

/* Those with a sign are equal to those without one. */
Test(sort, nan_of_either_sign_is_the_greatest) {
  const uint32_t bits[] = {0xffc00000, 0x7f800000, 0x7fc00001, 0x80000000,
                           0,          0xff800000, 0x80000000};
  tn_array *x = new_vector(TN_F32, 7, bits);
  expect_places("", x, (const int64_t[]){5, 3, 4, 6, 1, 0, 2}, 7);
  expect_places("is_ascend=false", x, (const int64_t[]){0, 2, 1, 3, 4, 6, 5},
                7);
  tn_array_release(x);
}

/* Bits are moved, and not rounded or made equal. */
Test(sort, all_halves_are_in_order) {
  enum { ALL = 65536 };
  const int64_t n = ALL;
  static uint16_t halves[ALL], sorted[ALL];
  static uint8_t seen[ALL];
  for (int i = 0; i < ALL; ++i) halves[i] = (uint16_t)((unsigned)i * 40503u);
  tn_array *x = new_vector(TN_F16, n, halves), *y = NULL;
  OK(tn_call(rt, host_operator(rt, "tensor.sort"), TN_IN(x), NULL, TN_OUT(&y)));
  OK(tn_array_get(y, sorted, sizeof sorted));
  double *v = host_many_values(y);
  for (int i = 0; i < ALL; ++i) {
    cr_assert_eq(seen[sorted[i]]++, 0);
    if (i > 0) cr_assert(compare_values(v[i - 1], v[i]) <= 0, "%d", i);
  }
  free(v);
  tn_array_release(x), tn_array_release(y);
}

Test(sort, equal_elements_keep_their_order) {
  enum { MANY = 1000 };
  const int64_t n = MANY;
  static float ones[MANY];
  static int64_t places[MANY];
  for (int i = 0; i < MANY; ++i) ones[i] = 1;
  tn_array *x = new_vector(TN_F32, n, ones);
  for (int descending = 0; descending < 2; ++descending) {
    tn_operator *op = host_operator(rt, "tensor.argsort");
    tn_params *params =
        host_params(op, descending ? "is_ascend=false" : "axis=0");
    tn_array *y = NULL;
    OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
    OK(tn_array_get(y, places, sizeof places));
    for (int i = 0; i < MANY; ++i) cr_assert_eq(places[i], i);
    tn_array_release(y);
    tn_params_release(params);
  }
  tn_array_release(x);
}

/* -------------------------------------------------------------------- shapes
 */

/* Infers the first output for data with an unknown first dimension. */
static void expect_shape(const char *name, const char *text, uint32_t n_out,
                         const tn_sig *want) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_sig in = {TN_F32, 2, {-1, 3}}, out[2] = {{.ndim = -1}, {.ndim = -1}};
  const tn_code rc = tn_operator_infer(
      op, params, &(tn_signature){1, n_out, 0, 0, &in, out, NULL});
  cr_assert(rc == TN_OK || rc == TN_INCOMPLETE, "%s", tn_error_text());
  cr_assert_eq(out[0].ndim, want->ndim, "%s %s", name, text);
  for (int32_t d = 0; d < want->ndim; ++d)
    cr_assert_eq(out[0].shape[d], want->shape[d], "%s %s: dimension %d", name,
                 text, d);
  tn_params_release(params);
}

Test(sort, known_dimensions_are_inferred_beside_unknown_ones) {
  expect_shape("tensor.sort", "axis=0", 2, &(tn_sig){0, 2, {-1, 3}});
  expect_shape("tensor.sort", "axis=None", 2, &(tn_sig){0, 1, {-1}});
  expect_shape("tensor.argsort", "axis=1", 1, &(tn_sig){0, 2, {-1, 3}});
  expect_shape("tensor.topk", "k=2 axis=0", 2, &(tn_sig){0, 2, {2, 3}});
  expect_shape("tensor.topk", "k=9 axis=None", 2, &(tn_sig){0, 1, {9}});
  expect_shape("tensor.topk_mask", "k=2", 1, &(tn_sig){0, 2, {-1, 3}});
}

/* ------------------------------------------------------------------ requests
 */

Test(sort, an_output_alone_is_written) {
  const double numbers[] = {3, 1, 2};
  const tn_req first[] = {TN_REQ_WRITE, TN_REQ_NULL},
               second[] = {TN_REQ_NULL, TN_REQ_WRITE},
               adds[] = {TN_REQ_ADD, TN_REQ_WRITE};
  tn_operator *op = host_operator(rt, "tensor.topk");
  tn_params *params = host_params(op, "k=2");
  tn_array *x = host_array(rt, TN_F64, (host_shape){1, {3}}, numbers);
  tn_array *a[2] = {NULL, NULL}, *b[2] = {NULL, NULL};
  OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, a, first}));
  host_expect(a[0], (double[]){3, 2}, 2, 0);
  OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, b, second}));
  host_expect(b[1], (double[]){0, 2}, 2, 0);
  b[0] = a[0];
  OK(tn_call(rt, op, TN_IN(x), params, &(tn_outputs){2, b, adds}));
  host_expect(a[0], (double[]){6, 4}, 2, 0);
  tn_array_release(x), tn_array_release(a[0]), tn_array_release(b[1]);
  tn_params_release(params);
}

/* ----------------------------------------------------------- second gradients
 */

/* The gradient of the head of a gradient: elements at the places. */
static void check_second(const char *name, const char *text, int64_t n,
                         const double *want) {
  const double numbers[] = {3, 1, 2}, heads[] = {10, 20, 30}, u[] = {1, 2, 4};
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *x = host_array(rt, TN_F64, (host_shape){1, {3}}, numbers);
  tn_array *head = host_array(rt, TN_F64, (host_shape){1, {n}}, heads);
  tn_array *weight = host_array(rt, TN_F64, (host_shape){1, {3}}, u);
  tn_array *out[2] = {NULL, NULL}, *first = NULL, *second = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_watch(tape, head));
  OK(tn_tape_call(tape, op, TN_IN(x), params, &(tn_outputs){2, out, NULL}));
  tn_tape_query q = {.struct_size = sizeof q,
                     .flags = TN_TAPE_RECORD,
                     .heads = {1, out},
                     .head_gradients = {1, &head},
                     .of = {1, &x},
                     .gradients = {1, &first, NULL}};
  OK(tn_tape_gradient(tape, &q));
  q = (tn_tape_query){.struct_size = sizeof q,
                      .heads = {1, &first},
                      .head_gradients = {1, &weight},
                      .of = {1, &head},
                      .gradients = {1, &second, NULL}};
  OK(tn_tape_gradient(tape, &q));
  host_expect(second, want, n, 0);
  tn_array *all[] = {x, head, weight, out[0], out[1], first, second};
  for (int i = 0; i < 7; ++i) tn_array_release(all[i]);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(sort, a_gradient_has_a_gradient) {
  check_second("tensor.sort", "", 3, (double[]){2, 4, 1});
  check_second("tensor.sort", "is_ascend=false axis=None", 3,
               (double[]){1, 4, 2});
  check_second("tensor.topk", "k=2", 2, (double[]){1, 4});
}

/* ------------------------------------------------------------------ messages
 */

static tn_code call_order(const char *name, const char *text, tn_array *x) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *out[2] = {NULL, NULL};
  const size_t n = strcmp(name, "tensor.topk") == 0 ? 2 : 1;
  const tn_code code =
      tn_call(rt, op, TN_IN(x), params, &(tn_outputs){n, out, NULL});
  tn_params_release(params);
  tn_array_release(out[0]), tn_array_release(out[1]);
  return code;
}

Test(sort, an_axis_or_k_that_does_not_fit_is_an_error) {
  const double numbers[6] = {0};
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, numbers);
  tn_array *scalar = host_array(rt, TN_F64, (host_shape){0, {0}}, numbers);
  FAILS(call_order("tensor.sort", "axis=2", x), TN_OUT_OF_RANGE, "axis=2");
  FAILS(call_order("tensor.argsort", "axis=-3", x), TN_OUT_OF_RANGE, "axis=-3");
  FAILS(call_order("tensor.sort", "", scalar), TN_OUT_OF_RANGE,
        "an array of 0 dimensions has no axes");
  OK(call_order("tensor.sort", "axis=None", scalar));
  FAILS(call_order("tensor.topk", "k=4", x), TN_OUT_OF_RANGE,
        "k=4: the lines have 3 elements");
  FAILS(call_order("tensor.topk_mask", "k=7 axis=None", x), TN_OUT_OF_RANGE,
        "k=7: the lines have 6 elements");
  OK(call_order("tensor.topk", "k=6 axis=None", x));
  tn_array_release(x), tn_array_release(scalar);
}

/* The places of a gradient are an operand. */
Test(sort, a_place_out_of_range_is_an_error) {
  const double numbers[] = {1, 2, 3};
  const int64_t outside[] = {0, 1, 3};
  tn_array *x = host_array(rt, TN_F64, (host_shape){1, {3}}, numbers);
  tn_array *places = new_vector(TN_I64, 3, outside);
  tn_array *slope = NULL;
  FAILS(tn_call(rt, host_operator(rt, "tensor.sort_grad"),
                TN_IN(x, places, x, x, places), NULL, TN_OUT(&slope)),
        TN_OUT_OF_RANGE, "place 3 (number 2) is out of range");
  tn_array_release(x), tn_array_release(places), tn_array_release(slope);
}
