/* SPDX-License-Identifier: Apache-2.0
 * Comparisons, logic, operations on bits, whole quotients and remainders, and
 * tests of numbers, of plugins/elemwise: the values of NumPy
 * (tests/reference/logic.py) in every type, bit by bit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host.h"

enum { MOST = 24 };

typedef struct whole_case {
  const char *op;
  tn_dtype dtype, made; /* of the operands, of the result */
  int64_t n;
  int64_t v[3][MOST]; /* the operands, then the result */
} whole_case;

typedef struct real_case {
  const char *op;
  tn_dtype dtype, made;
  int64_t n;
  double v[3][MOST];
} real_case;

static const whole_case whole_cases[] = {
#define WHOLE_CASES
#include "logic_cases.inc"
#undef WHOLE_CASES
};

static const real_case real_cases[] = {
#include "logic_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(logic, .init = open_all, .fini = close_all);

static int is_unary(const char *op) {
  return strstr("bitwise_not logical_not round_even is_nan is_inf is_finite",
                op) != NULL;
}

static tn_array *array_of(tn_dtype dtype, const void *bytes, int64_t n) {
  const tn_spec spec = {dtype, 1, &n};
  tn_array *array = NULL;
  OK(tn_array_create(rt, &spec, &array));
  OK(tn_array_set(array, bytes, (size_t)(n * tn_dtype_bytes(dtype))));
  return array;
}

/* The lowest bytes of integers. */
static void pack_integers(unsigned char *to, tn_dtype dtype, const int64_t *v,
                          int64_t n) {
  const size_t width = (size_t)tn_dtype_bytes(dtype);
  for (int64_t i = 0; i < n; ++i) memcpy(to + (size_t)i * width, &v[i], width);
}

static void pack_numbers(unsigned char *to, tn_dtype dtype, const double *v,
                         int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float narrow = (float)v[i];
    if (dtype == TN_F64)
      memcpy(to + 8 * i, &v[i], 8);
    else if (dtype == TN_F32)
      memcpy(to + 4 * i, &narrow, 4);
    else
      to[i] = v[i] != 0;
  }
}

static tn_array *call_named(const char *name, const tn_inputs *in) {
  char text[64];
  tn_array *y = NULL;
  (void)snprintf(text, sizeof text, "elemwise.%s", name);
  OK(tn_call(rt, host_operator(rt, text), in, NULL, TN_OUT(&y)));
  return y;
}

static void check_whole(const whole_case *c) {
  const int n_in = is_unary(c->op) ? 1 : 2;
  unsigned char bytes[MOST * 8], got[MOST * 8];
  tn_array *in[2] = {NULL, NULL};
  for (int i = 0; i < n_in; ++i) {
    pack_integers(bytes, c->dtype, c->v[i], c->n);
    in[i] = array_of(c->dtype, bytes, c->n);
  }
  tn_array *y = call_named(c->op, &(tn_inputs){(size_t)n_in, in});
  const size_t width = (size_t)tn_dtype_bytes(c->made);
  cr_assert_eq(tn_array_tensor(y)->dtype, c->made, "%s", c->op);
  OK(tn_array_get(y, got, (size_t)c->n * width));
  pack_integers(bytes, c->made, c->v[n_in], c->n);
  for (int64_t i = 0; i < c->n; ++i)
    cr_expect_arr_eq(got + (size_t)i * width, bytes + (size_t)i * width, width,
                     "%s of type %d, number %d: %lld, %lld", c->op,
                     (int)c->dtype, (int)i, (long long)c->v[0][i],
                     (long long)c->v[1][i]);
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(y);
}

static double number_at(const unsigned char *at, tn_dtype dtype, int64_t i) {
  double wide;
  float narrow;
  if (dtype == TN_BOOL) return at[i];
  memcpy(&wide, at + 8 * i, dtype == TN_F64 ? 8 : 0);
  memcpy(&narrow, at + 4 * i, 4);
  return dtype == TN_F64 ? wide : (double)narrow;
}

static void check_real(const real_case *c) {
  const int n_in = is_unary(c->op) ? 1 : 2;
  unsigned char bytes[MOST * 8] = {0}, got[MOST * 8] = {0};
  tn_array *in[2] = {NULL, NULL};
  for (int i = 0; i < n_in; ++i) {
    pack_numbers(bytes, c->dtype, c->v[i], c->n);
    in[i] = array_of(c->dtype, bytes, c->n);
  }
  tn_array *y = call_named(c->op, &(tn_inputs){(size_t)n_in, in});
  cr_assert_eq(tn_array_tensor(y)->dtype, c->made, "%s", c->op);
  OK(tn_array_get(y, got, (size_t)(c->n * tn_dtype_bytes(c->made))));
  for (int64_t i = 0; i < c->n; ++i) {
    const double have = number_at(got, c->made, i), want = c->v[n_in][i];
    const bool same = isnan(want)
                          ? isnan(have) != 0
                          : have == want && !signbit(have) == !signbit(want);
    cr_expect(same, "%s of type %d, number %d: %g, not %g", c->op,
              (int)c->dtype, (int)i, have, want);
  }
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(y);
}

Test(logic, integers_have_the_results_of_numpy_in_every_type) {
  for (size_t i = 0; i < sizeof whole_cases / sizeof *whole_cases; ++i)
    check_whole(&whole_cases[i]);
}

Test(logic, floats_have_the_results_of_numpy) {
  for (size_t i = 0; i < sizeof real_cases / sizeof *real_cases; ++i)
    check_real(&real_cases[i]);
}

/* Doubles do not have these numbers. */
Test(logic, integers_beyond_doubles_are_divided_exactly) {
  const int64_t a = INT64_C(9223372036854775807), b = INT64_C(3);
  const int64_t down = -a;
  int64_t got = 0;
  tn_array *in[3] = {array_of(TN_I64, &a, 1), array_of(TN_I64, &b, 1),
                     array_of(TN_I64, &down, 1)};
  static const struct {
    const char *op;
    int of; /* the dividend */
    int64_t out;
  } rows[] = {{"floor_divide", 0, INT64_C(3074457345618258602)},
              {"trunc_divide", 0, INT64_C(3074457345618258602)},
              {"floor_divide", 2, INT64_C(-3074457345618258603)},
              {"trunc_divide", 2, INT64_C(-3074457345618258602)},
              {"broadcast_mod", 2, 2},
              {"fmod", 2, -1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    tn_array *y = call_named(rows[i].op, TN_IN(in[rows[i].of], in[1]));
    OK(tn_array_get(y, &got, sizeof got));
    cr_expect_eq(got, rows[i].out, "%s: %lld", rows[i].op, (long long)got);
    tn_array_release(y);
  }
  for (int i = 0; i < 3; ++i) tn_array_release(in[i]);
}

/* As NumPy has it: -1 shifts all bits out, like 64. */
Test(logic, a_negative_distance_shifts_all_bits_out) {
  const int64_t a[] = {5, -5}, far[] = {-1, -1};
  int64_t got[2];
  tn_array *x = array_of(TN_I64, a, 2), *n = array_of(TN_I64, far, 2);
  tn_array *left = call_named("left_shift", TN_IN(x, n));
  tn_array *right = call_named("right_shift", TN_IN(x, n));
  OK(tn_array_get(left, got, sizeof got));
  cr_expect_eq(got[0], 0);
  cr_expect_eq(got[1], 0);
  OK(tn_array_get(right, got, sizeof got));
  cr_expect_eq(got[0], 0);
  cr_expect_eq(got[1], -1);
  tn_array_release(x), tn_array_release(n);
  tn_array_release(left), tn_array_release(right);
}
