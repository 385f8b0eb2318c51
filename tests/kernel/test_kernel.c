/* SPDX-License-Identifier: Apache-2.0
 * tenon/kernel/kernel.h: conversions against a closed form, and the loop
 * walker.
 */
#include "levels.h"
#include "tenon/kernel/kernel.h"

#include <criterion/criterion.h>

/* --------------------------------------------------------------- conversions
 */

/* The magnitude of a small float with `m_bits` bits of mantissa, by the
 * definition of IEEE 754; beyond the largest one it goes on as if there were
 * no infinity. */
static double magnitude(unsigned bits, int m_bits, int bias) {
  const unsigned m = bits & ((1u << m_bits) - 1);
  const int e = (int)(bits >> m_bits);
  if (e == 0) return ldexp(m, 1 - bias - m_bits);
  return ldexp(m + (1u << m_bits), e - bias - m_bits);
}

Test(kernel, every_f16_becomes_the_f32_of_its_definition) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = tn_kernel_f16_to_f32((uint16_t)bits);
    const unsigned rest = bits & 0x7fffu;
    cr_assert_eq(!!signbit(value), bits >> 15, "%04x", bits);
    if (rest > 0x7c00u)
      cr_assert(isnan(value), "%04x", bits);
    else if (rest == 0x7c00u)
      cr_assert(isinf(value), "%04x", bits);
    else
      cr_assert_eq(fabs((double)value), magnitude(rest, 10, 15), "%04x", bits);
  }
}

Test(kernel, every_bf16_becomes_the_f32_of_its_definition) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = tn_kernel_bf16_to_f32((uint16_t)bits);
    const unsigned rest = bits & 0x7fffu;
    cr_assert_eq(!!signbit(value), bits >> 15, "%04x", bits);
    if (rest > 0x7f80u)
      cr_assert(isnan(value), "%04x", bits);
    else if (rest == 0x7f80u)
      cr_assert(isinf(value), "%04x", bits);
    else
      cr_assert_eq(fabs((double)value), magnitude(rest, 7, 127), "%04x", bits);
  }
}

/* Checks rounding between a magnitude and the next one, of both signs. */
static void expect_rounding(uint16_t (*convert)(float), unsigned bits,
                            double low, double high) {
  const float middle = (float)((low + high) / 2);
  const unsigned even = bits + (bits & 1);
  const unsigned below = convert(nextafterf(middle, 0));
  const unsigned above = convert(nextafterf(middle, INFINITY));
  cr_assert_eq(convert((float)low), bits, "%04x", bits);
  cr_assert_eq(convert(-(float)low), bits | 0x8000u, "%04x", bits);
  cr_assert_eq(convert(middle), even, "%04x", bits);
  cr_assert_eq(convert(-middle), even | 0x8000u, "%04x", bits);
  cr_assert_eq(below, bits, "below %04x", bits);
  cr_assert_eq(above, bits + 1, "above %04x", bits);
}

Test(kernel, f32_rounds_to_the_nearest_f16_and_ties_to_even) {
  for (unsigned bits = 0; bits < 0x7c00u; ++bits)
    expect_rounding(tn_kernel_f32_to_f16, bits, magnitude(bits, 10, 15),
                    magnitude(bits + 1, 10, 15));
}

/* The middle above the largest bf16 is beyond f32. */
Test(kernel, f32_rounds_to_the_nearest_bf16_and_ties_to_even) {
  for (unsigned bits = 0; bits < 0x7f7fu; ++bits)
    expect_rounding(tn_kernel_f32_to_bf16, bits, magnitude(bits, 7, 127),
                    magnitude(bits + 1, 7, 127));
}

Test(kernel, special_values_survive_conversion) {
  cr_expect_eq(tn_kernel_f32_to_f16(INFINITY), 0x7c00);
  cr_expect_eq(tn_kernel_f32_to_f16(-INFINITY), 0xfc00);
  cr_expect_eq(tn_kernel_f32_to_f16(1e30f), 0x7c00);
  cr_expect_eq(tn_kernel_f32_to_f16(-0.0f), 0x8000);
  cr_expect_eq(tn_kernel_f32_to_f16(1e-30f), 0);
  cr_expect(isnan(tn_kernel_f16_to_f32(tn_kernel_f32_to_f16(NAN))));
  cr_expect_eq(tn_kernel_f32_to_bf16(-INFINITY), 0xff80);
  cr_expect_eq(tn_kernel_f32_to_bf16(3.4028235e38f), 0x7f80);
  /* A NaN with a payload in the dropped bits. */
  const float low = tn_kernel_f32_from_bits(0x7f800001u);
  cr_expect(isnan(tn_kernel_bf16_to_f32(tn_kernel_f32_to_bf16(low))));
}

/* -------------------------------------------------------------------- walker
 */

typedef struct shaped {
  int64_t shape[4];
  int64_t strides[4];
  tn_tensor t;
} shaped;

static float memory[4096];

static const tn_tensor *tensor(shaped *s, int32_t ndim) {
  s->t = (tn_tensor){.data = memory,
                     .device_type = TN_DEVICE_CPU,
                     .ndim = ndim,
                     .dtype = TN_F32,
                     .shape = s->shape,
                     .strides = s->strides};
  return &s->t;
}

Test(kernel, dense_tensors_make_one_dimension) {
  shaped out = {{2, 3, 4}, {12, 4, 1}, {0}};
  shaped in = {{2, 3, 4}, {12, 4, 1}, {0}};
  tn_kernel_walk walk;
  tn_kernel_walk_init(&walk, tensor(&out, 3));
  cr_assert(tn_kernel_walk_add(&walk, tensor(&in, 3)));
  tn_kernel_walk_begin(&walk);
  cr_expect_eq(walk.ndim, 1);
  cr_expect_eq(walk.shape[0], 24);
  cr_expect_eq(walk.stride[1][0], 1);
}

Test(kernel, equally_transposed_tensors_make_one_dimension) {
  shaped out = {{4, 1, 3}, {1, 7, 4}, {0}};
  shaped in = {{4, 1, 3}, {1, 9, 4}, {0}};
  tn_kernel_walk walk;
  tn_kernel_walk_init(&walk, tensor(&out, 3));
  cr_assert(tn_kernel_walk_add(&walk, tensor(&in, 3)));
  tn_kernel_walk_begin(&walk);
  cr_expect_eq(walk.ndim, 1);
  cr_expect_eq(walk.shape[0], 12);
}

Test(kernel, broadcast_dimensions_have_no_step) {
  shaped out = {{2, 3, 4}, {12, 4, 1}, {0}};
  shaped row = {{3, 1}, {1, 1}, {0}};
  tn_kernel_walk walk;
  tn_kernel_run run;
  tn_kernel_walk_init(&walk, tensor(&out, 3));
  cr_assert(tn_kernel_walk_add(&walk, tensor(&row, 2)));
  tn_kernel_walk_begin(&walk);
  tn_kernel_walk_run(&walk, 17, 24, &run); /* (1,1,1) */
  cr_expect_eq(run.n, 3);
  cr_expect_eq(run.stride[1], 0);
  cr_expect_eq(run.at[1], (char *)(memory + 1));
}

Test(kernel, shapes_that_cannot_be_broadcast_are_refused) {
  shaped out = {{2, 3}, {3, 1}, {0}};
  shaped wide = {{1, 2, 3}, {6, 3, 1}, {0}};
  shaped other = {{2}, {1}, {0}};
  tn_kernel_walk walk;
  tn_kernel_walk_init(&walk, tensor(&out, 2));
  cr_expect_not(tn_kernel_walk_add(&walk, tensor(&wide, 3)));
  tn_kernel_walk_init(&walk, tensor(&out, 2));
  cr_expect_not(tn_kernel_walk_add(&walk, tensor(&other, 1)));
}

Test(kernel, a_single_number_is_one_dense_run) {
  shaped out = {{0}, {0}, {0}};
  tn_kernel_walk walk;
  tn_kernel_run run;
  tn_kernel_walk_init(&walk, tensor(&out, 0));
  tn_kernel_walk_begin(&walk);
  tn_kernel_walk_run(&walk, 0, 1, &run);
  cr_expect_eq(walk.size, 1);
  cr_expect_eq(run.n, 1);
  cr_expect_eq(run.stride[0], 1);
}

/* Strides 1000, -30 and 2: no two dimensions join. */
Test(kernel, runs_reach_every_element_once_wherever_they_are_cut) {
  shaped out = {{3, 4, 5}, {1000, -30, 2}, {0}};
  unsigned char seen[4096] = {0};
  tn_kernel_walk walk;
  tn_kernel_run run;
  tn_kernel_walk_init(&walk, tensor(&out, 3));
  walk.data[0] = (char *)(memory + 100);
  tn_kernel_walk_begin(&walk);
  for (int64_t i = 0; i < walk.size; i += run.n) {
    const int64_t end = i < 7 ? 7 : i < 31 ? 31 : walk.size;
    tn_kernel_walk_run(&walk, i, end, &run);
    cr_assert(run.n > 0 && i + run.n <= end);
    for (int64_t k = 0; k < run.n; ++k)
      ++seen[(float *)(void *)run.at[0] + k * run.stride[0] - memory];
  }
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 5; ++k)
        cr_expect_eq(seen[100 + 1000 * i - 30 * j + 2 * k], 1);
}

/* From element `first` on, in runs of two at most, beside a row that is
 * repeated: each run begins where the one before ended. */
static void follow(int64_t first) {
  shaped out = {{3, 4, 5}, {1000, -30, 2}, {0}};
  shaped row = {{5}, {7}, {0}};
  tn_kernel_walk walk;
  tn_kernel_run run;
  int64_t at = first;
  tn_kernel_walk_init(&walk, tensor(&out, 3));
  cr_assert(tn_kernel_walk_add(&walk, tensor(&row, 1)));
  walk.data[0] = (char *)(memory + 100);
  tn_kernel_walk_begin(&walk);
  tn_kernel_walk_run(&walk, first, walk.size, &run);
  for (;;) {
    if (run.n > 2) run.n = 2;
    const int64_t i = at / 20, j = at / 5 % 4, k = at % 5;
    cr_assert_leq(run.n, 5 - k);
    cr_expect_eq(run.at[0], (char *)(memory + 100 + 1000 * i - 30 * j + 2 * k));
    cr_expect_eq(run.at[1], (char *)(memory + 7 * k));
    at += run.n;
    if (at == 60) break;
    tn_kernel_walk_next(&walk, &run);
    cr_assert_eq(run.n, 5 - at % 5);
  }
}

Test(kernel, runs_follow_one_another) {
  follow(0);
  follow(13);
  follow(59);
}

/* ----------------------------------------------------------- load and store */

/* Every processor with AVX2 has F16C, which clang 14 cannot ask for. */
static bool host_has_avx2(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/* A line of every second element of one type, written and read back. */
static void round_trip(tn_dtype dtype, tn_dtype compute, const void *values,
                       void *back) {
  double spread[8] = {0};
  const tn_kernel_line line = {(char *)spread, 2, 3, dtype};
  for (uint32_t level = 0; level < 2; ++level) {
    const tn_kernel_mode mode = {compute, level};
    memset(back, 0, 3 * (size_t)tn_dtype_bytes(compute));
    tn_kernel_store(&line, &mode, values);
    tn_kernel_load(back, &mode, &line);
    if (!host_has_avx2()) break;
  }
}

Test(kernel, lines_convert_between_all_float_types) {
  const tn_dtype dtypes[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
  const float f32[] = {0.5f, -3, 96};
  const double f64[] = {0.5, -3, 96};
  for (size_t i = 0; i < 4; ++i) {
    float single[3];
    double wide[3];
    round_trip(dtypes[i], TN_F64, f64, wide);
    cr_expect_arr_eq(wide, f64, sizeof wide);
    if (dtypes[i] == TN_F64) continue; /* f64 never computes in f32 */
    round_trip(dtypes[i], TN_F32, f32, single);
    cr_expect_arr_eq(single, f32, sizeof single);
  }
}

/* The representation of a value in a type, and the value that is read back. */
typedef struct stored {
  tn_dtype dtype;
  double value;
  double back;
} stored;

static void check_stored(const stored *cases, size_t n, tn_dtype compute) {
  for (size_t i = 0; i < n; ++i) {
    double values[3], back[3]; /* room for any type */
    for (int k = 0; k < 3; ++k) {
      if (compute == TN_F32) ((float *)values)[k] = (float)cases[i].value;
      if (compute == TN_F64) values[k] = cases[i].value;
      if (compute == TN_I32) ((int32_t *)values)[k] = (int32_t)cases[i].value;
      if (compute == TN_I64) ((int64_t *)values)[k] = (int64_t)cases[i].value;
    }
    round_trip(cases[i].dtype, compute, values, back);
    for (int k = 0; k < 3; ++k) {
      const double got = compute == TN_F32   ? (double)((float *)back)[k]
                         : compute == TN_F64 ? back[k]
                         : compute == TN_I32 ? (double)((int32_t *)back)[k]
                                             : (double)((int64_t *)back)[k];
      cr_expect_eq(got, cases[i].back, "case %zu of %x: %.17g, not %.17g", i,
                   compute, got, cases[i].back);
    }
  }
}
#define CHECK_STORED(cases, compute) \
  check_stored(cases, sizeof(cases) / sizeof *(cases), compute)

Test(kernel, integers_wrap_when_they_are_narrowed) {
  static const stored cases[] = {{TN_I8, 127, 127},
                                 {TN_I8, 128, -128},
                                 {TN_I8, -129, 127},
                                 {TN_U8, 255, 255},
                                 {TN_U8, 256, 0},
                                 {TN_U8, -1, 255},
                                 {TN_I16, 32768, -32768},
                                 {TN_U16, 65536, 0},
                                 {TN_U16, -1, 65535},
                                 {TN_BOOL, 0, 0},
                                 {TN_BOOL, 256, 1},
                                 {TN_BOOL, -1, 1},
                                 {TN_I32, -2147483648.0, -2147483648.0}};
  static const stored wide[] = {{TN_U32, 4294967295.0, 4294967295.0},
                                {TN_U32, 4294967296.0, 0},
                                {TN_U32, -1, 4294967295.0},
                                {TN_I32, 2147483648.0, -2147483648.0},
                                {TN_U8, 511, 255},
                                {TN_I16, 98304, -32768},
                                {TN_BOOL, 4294967296.0, 1},
                                {TN_I64, -0x1p62, -0x1p62}};
  CHECK_STORED(cases, TN_I32);
  CHECK_STORED(wide, TN_I64);
}

Test(kernel, floats_become_the_nearest_integer_towards_zero) {
  static const stored cases[] = {{TN_I8, 1.75, 1},
                                 {TN_I8, -1.75, -1},
                                 {TN_I8, 1000, 127},
                                 {TN_I8, -1000, -128},
                                 {TN_U8, -0.5, 0},
                                 {TN_U8, -7, 0},
                                 {TN_U8, 255.5, 255},
                                 {TN_U8, 256, 255},
                                 {TN_U16, 70000, 65535},
                                 {TN_I16, -40000, -32768},
                                 {TN_I32, 0x1.fffffep30, 0x1.fffffep30},
                                 {TN_I32, -3e9, -2147483648.0},
                                 {TN_BOOL, 0.25, 1},
                                 {TN_BOOL, -0.0, 0},
                                 {TN_I32, (double)NAN, 0},
                                 {TN_U8, (double)NAN, 0},
                                 {TN_BOOL, (double)NAN, 1},
                                 {TN_I8, (double)INFINITY, 127},
                                 {TN_I8, (double)-INFINITY, -128}};
  static const stored wide[] = {{TN_I32, 3e9, 2147483647},
                                {TN_I32, -3e9, -2147483648.0},
                                {TN_U32, 5e9, 4294967295.0},
                                {TN_U32, -1, 0},
                                {TN_U32, 1.5, 1},
                                {TN_I64, 1e15, 1e15},
                                {TN_I64, -0x1p63, -0x1p63},
                                {TN_I64, -1e30, -0x1p63},
                                {TN_I64, (double)NAN, 0},
                                {TN_U8, 300, 255}};
  CHECK_STORED(cases, TN_F32);
  CHECK_STORED(wide, TN_F64);
}

/* 1 + 2^-11 + 2^-40 is above the middle of two halves; as a float it would be
 * the middle, and then go to the even one, 1. The same for bf16. */
Test(kernel, doubles_are_rounded_to_halves_once) {
  static const stored cases[] = {
      {TN_F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
      {TN_F16, 1 + 0x1p-11, 1},
      {TN_F16, 1 + 3 * 0x1p-11 - 0x1p-40, 1 + 0x1p-10},
      {TN_F16, -1 - 0x1p-11 - 0x1p-40, -1 - 0x1p-10},
      {TN_F16, 1e300, (double)INFINITY},
      {TN_F16, 0x1p-25 + 0x1p-60, 0x1p-24},
      {TN_BF16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
      {TN_BF16, 1 + 0x1p-8, 1},
      {TN_BF16, -1e300, (double)-INFINITY}};
  CHECK_STORED(cases, TN_F64);
}

/* Every half of a type and a float beside each, by the processor and by hand.
 */
static void check_halves(tn_dtype dtype, uint32_t n_levels) {
  enum { N = 1 << 16 };
  static uint16_t halves[N], again[TN_KERNEL_N_LEVELS][N];
  static float floats[TN_KERNEL_N_LEVELS][N];
  for (uint32_t i = 0; i < N; ++i) halves[i] = (uint16_t)i;
  for (uint32_t level = 0; level < n_levels; ++level) {
    const tn_kernel_mode mode = {TN_F32, level};
    const tn_kernel_line in = {(char *)halves, 1, N, dtype};
    const tn_kernel_line out = {(char *)again[level], 1, N - 5, dtype};
    tn_kernel_load(floats[level], &mode, &in);
    for (uint32_t i = 0; i < N; ++i) {
      const float exact = dtype == TN_F16 ? tn_kernel_f16_to_f32(halves[i])
                                          : tn_kernel_bf16_to_f32(halves[i]);
      cr_assert(floats[level][i] == exact ||
                (isnan(floats[level][i]) && isnan(exact)));
      floats[level][i] *= i % 3 ? 1.0017f : 1.00390625f; /* some are ties */
    }
    tn_kernel_store(&out, &mode, floats[level]);
    for (uint32_t i = 0; i < N - 5; ++i)
      cr_assert(again[level][i] == again[0][i] || isnan(floats[0][i]), "%x", i);
  }
}

Test(kernel, all_levels_give_the_same_halves) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const uint32_t n = (uint32_t)levels(features);
  check_halves(TN_F16, n);
  check_halves(TN_BF16, n);
}

/* x*y - y of halves in registers is that of each element alone, rounded once:
 * special ones as well, wherever a block ends, also in place. */
TN_KERNEL_BODY void blend(const tn_kernel_block *block, const void *params) {
  const float *x = (const float *)block->in[0];
  const float *y = (const float *)block->in[1];
  float *out = (float *)block->out;
  (void)params;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0, n = block->n; i < n; ++i) out[i] = x[i] * y[i] - y[i];
}
TN_KERNEL_HALVES(blend, 2)

static void check_half_body(tn_kernel_body *body, tn_dtype dtype) {
  uint16_t x[80], y[80];
  for (uint32_t step = 0; step < 700; ++step) {
    const int64_t n = step % 70 + 1;
    for (uint32_t i = 0; i < 80; ++i) {
      x[i] = (uint16_t)((step * 80 + i) * 2749u);
      y[i] = (uint16_t)((step * 80 + i) * 40503u + 7);
    }
    tn_kernel_block block = {.n = n, .out = y, .in = {x, y}};
    uint16_t old[80];
    memcpy(old, y, sizeof old);
    body(&block, NULL);
    for (int64_t i = 0; i < 80; ++i) {
      const int is_f16 = dtype == TN_F16;
      const float a =
          is_f16 ? tn_kernel_f16_to_f32(x[i]) : tn_kernel_bf16_to_f32(x[i]);
      const float b =
          is_f16 ? tn_kernel_f16_to_f32(old[i]) : tn_kernel_bf16_to_f32(old[i]);
      const float out = fmaf(a, b, -b);
      const uint16_t half =
          is_f16 ? tn_kernel_f32_to_f16(out) : tn_kernel_f32_to_bf16(out);
      const float got =
          is_f16 ? tn_kernel_f16_to_f32(y[i]) : tn_kernel_bf16_to_f32(y[i]);
      cr_assert(
          i < n ? y[i] == half || (isnan(got) && isnan(out)) : y[i] == old[i],
          "%x and %x, element %d of %d", x[i], old[i], (int)i, (int)n);
    }
  }
}

Test(kernel, halves_in_registers_are_rounded_once) {
  const tn_kernel_bodies f16 = TN_KERNEL_F16_BODIES(blend);
  const tn_kernel_bodies bf16 = TN_KERNEL_BF16_BODIES(blend);
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  cr_assert_null(f16.at[0]);
  for (size_t level = 1; level < n; ++level) {
    check_half_body(f16.at[level], TN_F16);
    check_half_body(bf16.at[level], TN_BF16);
  }
}

/* ------------------------------------------------------------- short lines */

static void add_body(const tn_kernel_block *block, const void *params) {
  const float *a = block->in[0], *b = block->in[1];
  float *y = block->out;
  (void)params;
  for (int64_t i = 0; i < block->n; ++i) y[i] = a[i] + b[i];
}

/* Two planes of rows, and an operand that is repeated in the dimensions of
 * `repeats` (bit d for dimension d), in integers that every type holds. */
enum { PLANES = 3, ROWS = 40, LONGEST = 70, CELLS = PLANES * ROWS * LONGEST };
typedef struct grid {
  int64_t shape[3];
  int64_t strides[3];
  tn_tensor t;
  char memory[2 * CELLS * sizeof(double)];
} grid;

static char *cell(grid *g, const int64_t place[3]) {
  int64_t at = 0;
  for (int d = 0; d < 3; ++d)
    at += (g->shape[d] == 1 ? 0 : place[d]) * g->strides[d];
  return g->memory + at * tn_dtype_bytes(g->t.dtype);
}

static double get_cell(grid *g, const int64_t place[3]) {
  const char *at = cell(g, place);
  double wide;
  float f;
  uint16_t half;
  if (g->t.dtype == TN_F64) {
    memcpy(&wide, at, sizeof wide);
    return wide;
  }
  if (g->t.dtype == TN_F16) {
    memcpy(&half, at, sizeof half);
    return (double)tn_kernel_f16_to_f32(half);
  }
  memcpy(&f, at, sizeof f);
  return (double)f;
}

/* Elements are `step` apart; each is a digit of its position. */
static void make_grid(grid *g, tn_dtype dtype, int64_t columns, int repeats,
                      int64_t step) {
  const int64_t shape[3] = {PLANES, ROWS, columns};
  g->t = (tn_tensor){.data = g->memory,
                     .ndim = 3,
                     .dtype = dtype,
                     .shape = g->shape,
                     .strides = g->strides};
  for (int d = 2; d >= 0; --d) {
    g->shape[d] = repeats >> d & 1 ? 1 : shape[d];
    g->strides[d] = step;
    step *= g->shape[d];
  }
  for (int64_t i = 0; i < step; ++i) {
    const float value = (float)(i % 13);
    const double wide = (double)value;
    const uint16_t half = tn_kernel_f32_to_f16(value);
    if (dtype == TN_F64)
      memcpy(g->memory + i * 8, &wide, sizeof wide);
    else if (dtype == TN_F16)
      memcpy(g->memory + i * 2, &half, sizeof half);
    else
      memcpy(g->memory + i * 4, &value, sizeof value);
  }
}

typedef struct short_case {
  int64_t columns;
  int64_t begin; /* of the second slice: inside of a line */
  tn_dtype dtype[3];
  int repeats;
  int64_t step; /* of the output */
  uint32_t add;
} short_case;

static void check_sums(const short_case *c, grid *y, grid *a, grid *b) {
  static grid before;
  int64_t p[3];
  make_grid(&before, c->dtype[0], c->columns, 0, c->step);
  for (p[0] = 0; p[0] < PLANES; ++p[0])
    for (p[1] = 0; p[1] < ROWS; ++p[1])
      for (p[2] = 0; p[2] < c->columns; ++p[2]) {
        const double old = c->add ? get_cell(&before, p) : 0;
        const double want = get_cell(a, p) + get_cell(b, p) + old;
        cr_assert_eq(get_cell(y, p), want, "%d columns, %d, at %d %d %d",
                     (int)c->columns, c->repeats, (int)p[0], (int)p[1],
                     (int)p[2]);
      }
}

static void add_wide(const tn_kernel_block *block, const void *params) {
  const double *a = block->in[0], *b = block->in[1];
  double *y = block->out;
  (void)params;
  for (int64_t i = 0; i < block->n; ++i) y[i] = a[i] + b[i];
}

static void run_short(const short_case *c) {
  static grid y, a, b;
  const int wide = c->dtype[1] == TN_F64;
  tn_kernel_task task = {.body = wide ? add_wide : add_body, .add = c->add};
  make_grid(&y, c->dtype[0], c->columns, 0, c->step);
  make_grid(&a, c->dtype[1], c->columns, 0, 1);
  make_grid(&b, c->dtype[2], c->columns, c->repeats, 1);
  task.mode.compute = wide ? TN_F64 : TN_F32;
  memcpy(task.dtype, c->dtype, sizeof c->dtype);
  tn_kernel_walk_init(&task.walk, &y.t);
  cr_assert(tn_kernel_walk_add(&task.walk, &a.t));
  cr_assert(tn_kernel_walk_add(&task.walk, &b.t));
  tn_kernel_walk_begin(&task.walk);
  (void)tn_kernel_task_slice(&task, 0, c->begin);
  (void)tn_kernel_task_slice(&task, c->begin, task.walk.size);
  check_sums(c, &y, &a, &b);
}

/* With blocks of several lines, for all repeated operands and all ends of
 * slices. */
Test(kernel, short_lines_are_computed_like_long_ones) {
  static const int64_t columns[] = {1, 2, 7, 32, LONGEST};
  for (int i = 0; i < 5; ++i)
    for (int repeats = 0; repeats < 8; ++repeats)
      for (int how = 0; how < 8; ++how) {
        const tn_dtype half = how & 2 ? TN_F16 : TN_F32;
        run_short(
            &(short_case){.columns = columns[i],
                          .begin = 5 * columns[i] + columns[i] / 2,
                          .dtype = {how & 4 ? half : TN_F32, TN_F32, half},
                          .repeats = repeats,
                          .step = how & 4 ? 2 : 1,
                          .add = how & 1});
        run_short(&(short_case){.columns = columns[i],
                                .begin = 3 * columns[i],
                                .dtype = {TN_F64, TN_F64, TN_F64},
                                .repeats = repeats,
                                .step = how & 4 ? 2 : 1,
                                .add = how & 1});
      }
}

/* ------------------------------------------------------- beyond the caches
 */

enum { WIDE = 400, HIGH = 5, DEEP = 2, APART = WIDE + 24 };
typedef struct far_case {
  int64_t row, plane; /* how far apart lines of the second input are */
  int64_t step;       /* and its elements */
  int64_t begin;      /* of the second slice */
} far_case;

static void one_body(const tn_kernel_block *block, const void *params) {
  const float *a = block->in[0], *b = block->in[1];
  float *y = block->out;
  (void)params;
  for (int64_t i = 0; i < block->n; ++i) y[i] = a[i] + *b;
}

static void check_far(const far_case *c) {
  static TN_KERNEL_LINED float y[DEEP * HIGH * WIDE];
  static float a[DEEP * HIGH * APART], b[DEEP * HIGH * WIDE];
  tn_kernel_task task = {.walk = {.size = DEEP * HIGH * WIDE,
                                  .ndim = 3,
                                  .n_operands = 3,
                                  .shape = {DEEP, HIGH, WIDE},
                                  .stride = {{HIGH * WIDE, WIDE, 1},
                                             {HIGH * APART, APART, 1},
                                             {c->plane, c->row, c->step}},
                                  .bytes = {4, 4, 4},
                                  .data = {(char *)y, (char *)a, (char *)b}},
                         .body = c->step == 0 ? one_body : add_body,
                         .mode = {.compute = TN_F32},
                         .one = c->step == 0 ? 2 : 0,
                         .stream = 1,
                         .dtype = {TN_F32, TN_F32, TN_F32}};
  for (int i = 0; i < DEEP * HIGH * APART; ++i) a[i] = (float)i;
  for (int i = 0; i < DEEP * HIGH * WIDE; ++i) b[i] = (float)(7 * i);
  memset(y, 0, sizeof y);
  (void)tn_kernel_task_slice(&task, 0, c->begin);
  (void)tn_kernel_task_slice(&task, c->begin, task.walk.size);
  for (int i = 0; i < DEEP * HIGH * WIDE; ++i) {
    const int64_t p = i / (HIGH * WIDE), r = i / WIDE % HIGH, k = i % WIDE;
    const float want = a[(p * HIGH + r) * APART + k] +
                       b[p * c->plane + r * c->row + k * c->step];
    cr_assert_eq(y[i], want, "element %d of rows %d apart, cut at %d", i,
                 (int)c->row, (int)c->begin);
  }
}

/* Lines end after whole chunks and a part of one; a slice may begin anywhere,
 * though all but the last case are where slices are cut. */
Test(kernel, lines_past_the_caches_are_the_same) {
  static const int64_t begins[] = {WIDE, 16, 3 * WIDE + 32, HIGH * WIDE, 77};
  for (int i = 0; i < 5; ++i) {
    check_far(&(far_case){WIDE, HIGH * WIDE, 1, begins[i]});
    check_far(&(far_case){0, WIDE, 1, begins[i]});
    check_far(&(far_case){0, 0, 1, begins[i]});
    check_far(&(far_case){1, HIGH, 0, begins[i]});
    check_far(&(far_case){0, 0, 0, begins[i]});
  }
}

/* Arrays of that size, with whole cache lines only. */
Test(kernel, broadcast_calls_go_past_the_caches_where_they_fill_lines) {
  static TN_KERNEL_LINED float y[64];
  tn_kernel_task task = {
      .walk = {.size = 4 << 20,
               .ndim = 2,
               .n_operands = 3,
               .shape = {4 << 10, 1 << 10},
               .stride = {{1 << 10, 1}, {1 << 10, 1}, {0, 1}},
               .bytes = {4, 4, 4},
               .data = {(char *)y}},
      .mode = {.compute = TN_F32},
      .dtype = {TN_F32, TN_F32, TN_F32}};
#if defined(__SSE2__)
  cr_assert(tn_kernel_task_streams(&task));
#endif
  task.walk.data[0] += 16;
  cr_assert_not(tn_kernel_task_streams(&task));
  task.walk.data[0] -= 16;
  task.dtype[2] = TN_F16;
  cr_assert_not(tn_kernel_task_streams(&task));
  task.dtype[2] = TN_F32;
  task.walk.size = task.walk.shape[0] = 1 << 10;
  cr_assert_not(tn_kernel_task_streams(&task));
}
