/* SPDX-License-Identifier: Apache-2.0
 * The formulas of plugins/elemwise as plain C, in the form that is compiled for
 * a CUDA device, against the loops of the CPU at every level of instructions:
 * the same bits, on special values in all pairs and on random ones. Both are
 * compiled without contraction, so nothing but the order of operations counts.
 */
#include "test_formulas.h"
#include "levels.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

enum { N = 8192, MOST = TN_KERNEL_MAX_IN };

static const double specials[] = {0.0,
                                  -0.0,
                                  1,
                                  -1,
                                  0.5,
                                  -0.5,
                                  1.5,
                                  2.5,
                                  -2.5,
                                  3,
                                  -7,
                                  1e-3,
                                  1e10,
                                  -1e10,
                                  FLT_MAX,
                                  FLT_MIN,
                                  1e-42,
                                  -1e-42,
                                  88.5,
                                  -88.5,
                                  100,
                                  -103.25,
                                  2147e6,
                                  -2147e6,
                                  9e18,
                                  -9e18,
                                  0x1p-1074,
                                  709,
                                  -745,
                                  1e300,
                                  DBL_MIN,
                                  (double)INFINITY,
                                  (double)-INFINITY,
                                  (double)NAN};
enum { N_SPECIALS = sizeof specials / sizeof *specials };

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t random_bits(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* Within the range of an integer type. */
static double bounded(double value, double most) {
  if (!(value == value)) return 0;
  return value > most ? most : value < -most ? -most : value;
}

static void put(void *at, tn_dtype compute, int64_t i, double value) {
  if (compute == TN_F32) ((float *)at)[i] = (float)value;
  if (compute == TN_F64) ((double *)at)[i] = value;
  if (compute == TN_I32) ((int32_t *)at)[i] = (int32_t)bounded(value, 2e9);
  if (compute == TN_I64) ((int64_t *)at)[i] = (int64_t)bounded(value, 9e18);
  if (compute == TN_U64)
    ((uint64_t *)at)[i] = (uint64_t)(int64_t)bounded(value, 9e18);
}

/* Specials of the first two inputs in all pairs, then numbers around 1, then
 * any bits. */
static void fill(void *at, tn_dtype compute, size_t input) {
  for (int64_t i = 0; i < N; ++i) {
    const int64_t turn = input % 2 ? i / N_SPECIALS : i;
    const uint64_t bits = random_bits();
    if (i < N_SPECIALS * N_SPECIALS)
      put(at, compute, i, specials[turn % N_SPECIALS]);
    else if (i < N / 2)
      put(at, compute, i, (double)(int64_t)bits * 0x1p-60);
    else if (tn_dtype_bytes(compute) == 4)
      memcpy((char *)at + 4 * i, &bits, 4);
    else
      memcpy((char *)at + 8 * i, &bits, 8);
  }
}

static bool is_nan(const void *at, tn_dtype compute, int64_t i) {
  if (compute == TN_F32) return isnan(((const float *)at)[i]) != 0;
  return compute == TN_F64 && isnan(((const double *)at)[i]) != 0;
}

static double values[MOST][N], expected[N], found[N];

static void compare(const formula_case *c, size_t level) {
  const size_t bytes = (size_t)tn_dtype_bytes(c->compute);
  for (int64_t i = 0; i < N; ++i) {
    const char *a = (const char *)expected + (size_t)i * bytes;
    const char *b = (const char *)found + (size_t)i * bytes;
    const bool nan = is_nan(expected, c->compute, i);
    cr_expect(nan ? is_nan(found, c->compute, i) : memcmp(a, b, bytes) == 0,
              "%s at level %zu differs in element %lld", c->name, level,
              (long long)i);
  }
}

static void check(const formula_case *c) {
  tn_kernel_block block = {.n = N, .out = found};
  const void *in[MOST];
  for (size_t k = 0; k < c->n_in; ++k) {
    fill(values[k], c->compute, k);
    in[k] = block.in[k] = values[k];
  }
  c->plain(N, expected, in, c->params);
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n_levels = levels(features);
  for (size_t level = 0; level < n_levels; ++level) {
    memset(found, 0x5a, sizeof found);
    c->loop.at[level](&block, c->params);
    compare(c, level);
  }
}

Test(formulas, loops_have_the_results_of_plain_c) {
  cr_assert_gt(n_formula_cases, 20);
  for (size_t i = 0; i < n_formula_cases; ++i) check(&formula_cases[i]);
}
