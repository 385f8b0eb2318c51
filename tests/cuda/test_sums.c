/* SPDX-License-Identifier: Apache-2.0
 * Sums of plugins/cuda for types other than floats, and of f32 into halves,
 * requested as the host does: every dtype, added to existing values or not, of
 * a thread's and of a block's size. The expected values follow from device.h:
 * here integers are added up modulo 2^64, and halves in doubles.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "bare_device.h"
#include "sum.h"
#include "tenon/kernel/kernel.h"

enum { N = 1024, MOST = 8 * N };

static bare_device device; /* its memory: the target, then the addend */
static uint8_t to[MOST], from[MOST];

static tn_device_error error = {.struct_size = sizeof error};

static void setup(void) {
  open_bare(&device, 4, 2 * MOST);
}

static void teardown(void) {
  free_bare(&device);
  close_bare(&device);
}

TestSuite(sums, .init = setup, .fini = teardown);

/* ------------------------------------------------------- expected values
 */

static size_t width_of(tn_dtype dtype) {
  return (size_t)tn_dtype_bytes(dtype);
}

/* An element, without a sign: sums have the same lowest bits. */
static uint64_t element(tn_dtype dtype, const uint8_t *at, int64_t i) {
  uint64_t bits = 0;
  memcpy(&bits, at + (size_t)i * width_of(dtype), width_of(dtype));
  return bits;
}

static int64_t count(const tn_sum_axis *axes, uint32_t n) {
  int64_t all = 1;
  for (uint32_t d = 0; d < n; ++d) all *= axes[d].n;
  return all;
}

static int64_t place(const tn_sum_axis *axes, uint32_t n, int64_t i, bool of) {
  int64_t at = 0;
  for (uint32_t d = n; d-- > 0; i /= axes[d].n)
    at += i % axes[d].n * (of ? axes[d].to : axes[d].from);
  return at;
}

/* Sums into `to`, as the device is to. `t0` and `f0` are the first elements. */
static void sum_here(const tn_device_sum *s, int64_t t0, int64_t f0) {
  const tn_sum_axis *cut = s->axes + s->n_kept;
  const bool is_copy = s->n_summed == 0 && s->flags == 0 && s->from;
  for (int64_t i = 0; i < count(s->axes, s->n_kept); ++i) {
    const int64_t y = t0 + place(s->axes, s->n_kept, i, true);
    const int64_t x = f0 + place(s->axes, s->n_kept, i, false);
    uint64_t all = s->flags & TN_SUM_ADD ? element(s->dtype, to, y) : 0;
    for (int64_t k = 0; k < count(cut, s->n_summed); ++k)
      all += s->from ? element(s->dtype, from,
                               x + place(cut, s->n_summed, k, false))
                     : (uint64_t)s->value;
    if (s->dtype == TN_BOOL && !is_copy) all = all != 0;
    memcpy(to + (size_t)y * width_of(s->dtype), &all, width_of(s->dtype));
  }
}

/* Bits of all kinds: of bool mostly 0, and true ones of other bytes than 1. */
static void fill(uint8_t *v, tn_dtype dtype, uint32_t state) {
  for (int i = 0; i < MOST; ++i) {
    state = state * 1664525u + 1013904223u;
    v[i] = (uint8_t)(state >> 24);
    if (dtype == TN_BOOL && state >> 10 & 3) v[i] = 0;
  }
}

static void agree(tn_device_sum s, int64_t t0, int64_t f0, const char *what) {
  static uint8_t have[MOST];
  const size_t width = width_of(s.dtype);
  fill(to, s.dtype, 1);
  fill(from, s.dtype, 2);
  put_bytes(&device, device.memory, to, MOST);
  put_bytes(&device, device.memory + MOST, from, MOST);
  s.struct_size = sizeof s;
  s.to = device.memory + (size_t)t0 * width;
  if (s.from) s.from = device.memory + MOST + (size_t)f0 * width;
  DEVICE_OK(cuda_queue_sum(&device.cuda, device.queue, &s, &error));
  get_bytes(&device, have, device.memory, MOST);
  sum_here(&s, t0, f0);
  for (size_t i = 0; i < MOST; ++i)
    cr_assert_eq(have[i], to[i],
                 "%s, dtype %#x, flags %u: byte %zu is %#x, "
                 "not %#x",
                 what, (unsigned)s.dtype, s.flags, i, have[i], to[i]);
}

static const tn_dtype whole[] = {TN_I8,  TN_I16, TN_I32, TN_I64, TN_U8,
                                 TN_U16, TN_U32, TN_U64, TN_BOOL};
enum { N_WHOLE = sizeof whole / sizeof *whole };

/* Every dtype, overwriting the target and adding to it. */
static void agree_always(tn_device_sum s, int64_t t0, int64_t f0,
                         const char *what) {
  for (int k = 0; k < N_WHOLE; ++k)
    for (uint32_t flags = 0; flags <= TN_SUM_ADD; ++flags) {
      s.dtype = whole[k];
      s.flags = flags;
      agree(s, t0, f0, what);
    }
}

/* --------------------------------------------------------------------- tests
 */

Test(sums, of_two_wrap) {
  const tn_sum_axis dense = {N, 1, 1}, turned[] = {{31, 1, -33}, {33, 31, 1}};
  agree_always((tn_device_sum){.n_kept = 1, .axes = &dense, .from = to}, 0, 0,
               "dense");
  agree_always((tn_device_sum){.n_kept = 2, .axes = turned, .from = to}, 0,
               30 * 33, "turned");
}

Test(sums, over_axes_wrap) {
  const tn_sum_axis columns[] = {{5, 2, 1}, {200, 0, 5}},
                    rows[] = {{4, -1, 250}, {250, 0, 1}},
                    all[] = {{30, 0, 33}, {33, 0, -1}};
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 1, .axes = columns, .from = to},
      3, 0, "columns");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 1, .axes = rows, .from = to}, 7,
      0, "rows");
  agree_always((tn_device_sum){.n_summed = 2, .axes = all, .from = to}, 9, 32,
               "all");
}

/* Long ones: in lines of fours, in lines that do not begin where fours do, or
 * are no fours, and along more axes than two. */
Test(sums, over_lines_wrap) {
  const tn_sum_axis fours[] = {{5, 1, 40}, {4, 0, 200}, {40, 0, 1}},
                    odd[] = {{5, 1, 39}, {5, 0, 195}, {39, 0, 1}},
                    gaps[] = {{4, 1, 41}, {4, 0, 164}, {40, 0, 1}},
                    steps[] = {{4, 1, 40}, {4, 0, 163}, {40, 0, 1}},
                    three[] = {
                        {2, 1, 500}, {3, 0, 150}, {5, 0, 30}, {11, 0, 2}};
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = fours, .from = to}, 2,
      0, "fours");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = fours, .from = to}, 2,
      3, "fours elsewhere");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = odd, .from = to}, 0,
      0, "no fours");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = gaps, .from = to}, 0,
      0, "sums between fours");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = steps, .from = to}, 0,
      0, "lines between fours");
  agree_always(
      (tn_device_sum){.n_kept = 1, .n_summed = 3, .axes = three, .from = to}, 0,
      0, "three axes");
}

Test(sums, of_a_value_are_that_everywhere) {
  const tn_sum_axis steps = {100, 3, 0};
  for (int value = 0; value < 2; ++value)
    agree_always((tn_device_sum){.n_kept = 1, .axes = &steps, .value = value},
                 5, 0, "value");
}

/* Of a signed type it may be below 0. */
Test(sums, of_a_negative_value_are_that) {
  const tn_sum_axis dense = {3, 1, 0};
  int16_t *v = (int16_t *)(void *)to;
  const int16_t want[] = {7, 29997, 32766, -32768};
  memset(to, 0, sizeof to);
  memcpy(v, (int16_t[]){10, 30000, -32767, -32768}, 4 * sizeof *v);
  put_bytes(&device, device.memory, to, MOST);
  DEVICE_OK(
      cuda_queue_sum(&device.cuda, device.queue,
                     &(tn_device_sum){.struct_size = sizeof(tn_device_sum),
                                      .flags = TN_SUM_ADD,
                                      .dtype = TN_I16,
                                      .n_kept = 1,
                                      .axes = &dense,
                                      .to = device.memory,
                                      .value = -3},
                     &error));
  get_bytes(&device, to, device.memory, MOST);
  cr_assert_arr_eq(v, want, sizeof want);
}

/* --------------------------------------------------------------- wide terms */

static float widen(tn_dtype dtype, uint16_t half) {
  return dtype == TN_F16 ? tn_kernel_f16_to_f32(half)
                         : tn_kernel_bf16_to_f32(half);
}

static uint16_t narrow(tn_dtype dtype, double x) {
  return dtype == TN_F16 ? tn_kernel_f32_to_f16((float)x)
                         : tn_kernel_f32_to_bf16((float)x);
}

/* Terms are multiples of 2^-12 below 2, so every sum of them is exact in f32,
 * and most of them are no halves. */
static void fill_wide(tn_dtype dtype) {
  uint16_t *halves = (uint16_t *)(void *)to;
  float *terms = (float *)(void *)from;
  uint32_t state = 3;
  for (int i = 0; i < MOST / 2; ++i) halves[i] = narrow(dtype, i % 32 * 0.125);
  for (int i = 0; i < MOST / 4; ++i) {
    state = state * 1664525u + 1013904223u;
    terms[i] = (float)((int)(state >> 18) - 8192) * 0x1p-12f;
  }
}

/* Sums into `to`, as the device does. */
static void sum_wide_here(const tn_device_sum *s, int64_t f0) {
  const tn_sum_axis *cut = s->axes + s->n_kept;
  uint16_t *halves = (uint16_t *)(void *)to;
  const float *terms = (const float *)(const void *)from;
  for (int64_t i = 0; i < count(s->axes, s->n_kept); ++i) {
    uint16_t *y = halves + place(s->axes, s->n_kept, i, true);
    const int64_t x = f0 + place(s->axes, s->n_kept, i, false);
    double all = s->flags & TN_SUM_ADD ? (double)widen(s->dtype, *y) : 0;
    for (int64_t k = 0; k < count(cut, s->n_summed); ++k)
      all += (double)terms[x + place(cut, s->n_summed, k, false)];
    *y = narrow(s->dtype, all);
  }
}

static void agree_wide(tn_device_sum s, int64_t f0, const char *name) {
  static uint8_t have[MOST];
  s.struct_size = sizeof s;
  s.to = device.memory;
  s.from = device.memory + MOST + f0 * (int64_t)sizeof(float);
  for (uint32_t i = 0; i < 4; ++i) {
    s.dtype = i < 2 ? TN_F16 : TN_BF16;
    s.flags = TN_SUM_WIDE | (i % 2 ? TN_SUM_ADD : 0);
    fill_wide(s.dtype);
    put_bytes(&device, device.memory, to, MOST);
    put_bytes(&device, device.memory + MOST, from, MOST);
    DEVICE_OK(cuda_queue_sum(&device.cuda, device.queue, &s, &error));
    get_bytes(&device, have, device.memory, MOST);
    sum_wide_here(&s, f0);
    for (size_t k = 0; k < MOST; ++k)
      cr_assert_eq(have[k], to[k], "%s, %u: byte %zu is %#x, not %#x", name, i,
                   k, have[k], to[k]);
  }
}

Test(sums, of_wide_terms_round_once) {
  const tn_sum_axis dense[] = {{500, 1, 1}}, few[] = {{100, 1, 5}, {5, 0, 1}},
                    columns[] = {{5, 2, 1}, {200, 0, 5}},
                    rows[] = {{4, 1, 250}, {250, 0, 1}},
                    fours[] = {{5, 1, 40}, {4, 0, 200}, {40, 0, 1}},
                    gaps[] = {{4, 1, 41}, {4, 0, 164}, {40, 0, 1}},
                    three[] = {
                        {2, 1, 500}, {3, 0, 150}, {5, 0, 30}, {11, 0, 2}};
  agree_wide((tn_device_sum){.n_kept = 1, .axes = dense}, 0, "dense");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 1, .axes = few}, 0,
             "few");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 1, .axes = columns}, 0,
             "columns");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 1, .axes = rows}, 0,
             "rows");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = fours}, 0,
             "fours");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = fours}, 2,
             "fours elsewhere");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 2, .axes = gaps}, 0,
             "gaps");
  agree_wide((tn_device_sum){.n_kept = 1, .n_summed = 3, .axes = three}, 0,
             "three axes");
}
