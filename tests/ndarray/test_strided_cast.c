/* SPDX-License-Identifier: Apache-2.0
 * Copies across element types: every pair of dtypes. The expected values come
 * from conversions that this file derives from the definitions of the types.
 * They use long double, which represents every value of every dtype.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ndarray.h"

enum { N = 1 << 16 };

__extension__ typedef __int128 wide;

/* ---------------------------------------------------------------- reference */

typedef struct number {
  bool is_float;
  long double f;
  wide i;
} number;

/* Decodes a binary float of `bits` bits of which `fraction` follow the point.
 */
static long double decode_float(uint64_t v, int bits, int fraction) {
  int width = bits - 1 - fraction, bias = (1 << (width - 1)) - 1;
  long double sign = v >> (bits - 1) & 1 ? -1 : 1;
  int64_t exponent = (int64_t)(v >> fraction & ((1ull << width) - 1));
  long double m = (long double)(v & ((1ull << fraction) - 1));
  if (exponent == (1 << width) - 1)
    return m != 0 ? (long double)NAN : sign * (long double)INFINITY;
  if (exponent == 0) return sign * ldexpl(m, 1 - bias - fraction);
  return sign *
         ldexpl(m + ldexpl(1, fraction), (int)exponent - bias - fraction);
}

/* Encodes the nearest value, ties to even. */
static uint64_t encode_float(long double x, int bits, int fraction) {
  int width = bits - 1 - fraction, bias = (1 << (width - 1)) - 1, e;
  uint64_t sign = (uint64_t)(signbit(x) != 0) << (bits - 1);
  uint64_t infinite = ((1ull << width) - 1) << fraction;
  if (isnan(x)) return infinite | 1;
  if (isinf(x)) return sign | infinite;
  long double m = frexpl(fabsl(x), &e); /* in [1/2, 1) */
  if (m == 0) return sign;
  e = e - 1 < 1 - bias ? 1 - bias : e - 1;
  /* In units of the last place, a carry increments the exponent by itself. */
  uint64_t units = (uint64_t)rintl(ldexpl(fabsl(x), fraction - e));
  uint64_t all = ((uint64_t)(e + bias - 1) << fraction) + units;
  return sign | (all > infinite ? infinite : all);
}

static int fraction_of(tn_dtype dtype) {
  return dtype == TN_F16    ? 10
         : dtype == TN_BF16 ? 7
         : dtype == TN_F32  ? 23
         : dtype == TN_F64  ? 52
                            : 0;
}

static int bits_of(tn_dtype dtype) {
  return (int)tn_dtype_bytes(dtype) * 8;
}

static bool is_signed(tn_dtype dtype) {
  return dtype == TN_I8 || dtype == TN_I16 || dtype == TN_I32 ||
         dtype == TN_I64;
}

static number value_of(tn_dtype dtype, uint64_t v) {
  if (fraction_of(dtype))
    return (number){true, decode_float(v, bits_of(dtype), fraction_of(dtype)),
                    0};
  if (dtype == TN_BOOL) return (number){false, 0, v != 0};
  wide i = v;
  if (is_signed(dtype) && v >> (bits_of(dtype) - 1))
    i -= (wide)1 << bits_of(dtype);
  return (number){false, 0, i};
}

static uint64_t low_bits(wide i, int bits) {
  return (uint64_t)(i & (((wide)1 << bits) - 1));
}

static uint64_t integer_bits(tn_dtype dtype, number x) {
  int bits = bits_of(dtype);
  if (!x.is_float) return low_bits(x.i, bits); /* wraps */
  wide high = ((wide)1 << (bits - is_signed(dtype))) - 1;
  wide low = is_signed(dtype) ? -high - 1 : 0;
  if (isnan(x.f)) return 0;
  if (x.f >= (long double)high) return low_bits(high, bits);
  if (x.f <= (long double)low) return low_bits(low, bits);
  return low_bits((wide)x.f, bits);
}

static uint64_t bits_from(tn_dtype dtype, number x) {
  if (dtype == TN_BOOL) return x.is_float ? x.f != 0 : x.i != 0;
  if (!fraction_of(dtype)) return integer_bits(dtype, x);
  long double f = x.is_float ? x.f : (long double)x.i;
  return encode_float(f, bits_of(dtype), fraction_of(dtype));
}

/* ------------------------------------------------------------------- values */

static uint64_t random_state;

static uint64_t random_bits(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 2685821657736338717ull;
}

/* Every value of the short types. For the others: both sides of each power of
 * two, which has the roundings and bounds, and random bits. */
static uint64_t value_number(tn_dtype dtype, uint64_t k) {
  int bits = bits_of(dtype), fraction = fraction_of(dtype);
  if (dtype == TN_BOOL) return k & 1;
  if (bits <= 16) return k & ((1ull << bits) - 1);
  if (k >= 8192) return random_bits() >> (64 - bits);
  long double near = ldexpl(1, (int)(k / 64) - 1);
  long double offset = ((int)(k % 32) - 16) / 4.0L;
  long double x = (near + offset) * (k % 64 < 32 ? 1 : -1);
  if (fraction) return encode_float(x, bits, fraction);
  return fabsl(x) < 0x1p66L ? low_bits((wide)x, bits) : k;
}

static uint64_t load_bits(const char *from, int64_t bytes) {
  uint64_t v = 0;
  memcpy(&v, from, (size_t)bytes);
  return v;
}

static void store_bits(char *to, uint64_t v, int64_t bytes) {
  memcpy(to, &v, (size_t)bytes);
}

static tn_tensor row_tensor(void *data, tn_dtype dtype, int64_t *shape,
                            int64_t *stride) {
  return (tn_tensor){.data = data,
                     .device_type = TN_DEVICE_CPU,
                     .ndim = 1,
                     .dtype = dtype,
                     .shape = shape,
                     .strides = stride};
}

static bool is_equal(tn_dtype dtype, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!fraction_of(dtype)) return false;
  return isnan(decode_float(a, bits_of(dtype), fraction_of(dtype))) &&
         isnan(decode_float(b, bits_of(dtype), fraction_of(dtype)));
}

static void check_pair(tn_dtype to_dtype, tn_dtype from_dtype, char *to,
                       const char *from) {
  int64_t shape = N, one = 1, back = -1;
  int64_t y = tn_dtype_bytes(to_dtype), x = tn_dtype_bytes(from_dtype);
  tn_tensor source =
      row_tensor((void *)(uintptr_t)from, from_dtype, &shape, &one);
  tn_tensor target = row_tensor(to, to_dtype, &shape, &one);
  tn__tensor_cast(NULL, &target, &source);
  for (int64_t k = 0; k < N; ++k) {
    uint64_t v = load_bits(from + k * x, x), got = load_bits(to + k * y, y);
    uint64_t want = bits_from(to_dtype, value_of(from_dtype, v));
    cr_assert(is_equal(to_dtype, got, want),
              "%s 0x%llx to %s: 0x%llx, not 0x%llx", tn__dtype_name(from_dtype),
              (unsigned long long)v, tn__dtype_name(to_dtype),
              (unsigned long long)got, (unsigned long long)want);
  }
  /* The last elements again, one by one and backwards. */
  enum { FEW = 700 };
  uint64_t dense[FEW];
  for (int64_t k = 0; k < FEW; ++k) dense[k] = load_bits(to + k * y, y);
  shape = FEW;
  source = row_tensor((void *)(uintptr_t)from, from_dtype, &shape, &one);
  target = row_tensor(to + (FEW - 1) * y, to_dtype, &shape, &back);
  tn__tensor_cast(NULL, &target, &source);
  for (int64_t k = 0; k < FEW; ++k)
    cr_assert_eq(load_bits(to + (FEW - 1 - k) * y, y), dense[k]);
}

Test(cast, converts_between_all_dtypes) {
  char *from = malloc(8 * N), *to = malloc(8 * N);
  cr_assert(from && to);
  for (size_t i = 0; i < TN__N_ARITHMETIC; ++i) {
    tn_dtype dtype = tn__dtype_at(i);
    random_state = 88172645463325252ull + i;
    for (uint64_t k = 0; k < N; ++k)
      store_bits(from + (int64_t)k * tn_dtype_bytes(dtype),
                 value_number(dtype, k), tn_dtype_bytes(dtype));
    for (size_t j = 0; j < TN__N_ARITHMETIC; ++j)
      check_pair(tn__dtype_at(j), dtype, to, from);
  }
  free(from);
  free(to);
}

/* Rounded to f32 first, 1 + 2^-11 + 2^-40 would become a tie and be rounded
 * down. Bits from the definition of f16: 1 is 0x3c00, the next is 0x3c01. */
Test(cast, rounds_once) {
  double x = 1 + 0x1p-11 + 0x1p-40;
  int64_t large = (1ll << 62) + (1ll << 54) + 1; /* a tie of bf16, and 1 */
  uint16_t half = 0;
  int64_t shape = 1, one = 1;
  tn_tensor from = row_tensor(&x, TN_F64, &shape, &one);
  tn_tensor to = row_tensor(&half, TN_F16, &shape, &one);
  tn__tensor_cast(NULL, &to, &from);
  cr_assert_eq(half, 0x3c01);
  from = row_tensor(&large, TN_I64, &shape, &one);
  to = row_tensor(&half, TN_BF16, &shape, &one);
  tn__tensor_cast(NULL, &to, &from);
  cr_assert_eq(half, 0x5e81); /* 2^62 is 0x5e80 */
}

static int64_t i64_of(double x) {
  int64_t got = 1, shape = 1, one = 1;
  tn_tensor from = row_tensor(&x, TN_F64, &shape, &one);
  tn_tensor to = row_tensor(&got, TN_I64, &shape, &one);
  tn__tensor_cast(NULL, &to, &from);
  return got;
}

Test(cast, of_a_value_out_of_range_is_the_nearest_bound) {
  cr_assert_eq(i64_of(1e300), INT64_MAX);
  cr_assert_eq(i64_of(-INFINITY), INT64_MIN);
  cr_assert_eq(i64_of(NAN), 0);
  cr_assert_eq(i64_of(-1.99), -1);
}

Test(cast, uses_zeros_for_a_source_without_memory) {
  float to[4] = {1, 2, 3, 4};
  int64_t shape = 2, two = 2;
  tn_tensor y = row_tensor(to, TN_F32, &shape, &two);
  tn_tensor x = row_tensor(NULL, TN_I8, &shape, &two);
  tn__tensor_cast(NULL, &y, &x);
  cr_assert(to[0] == 0 && to[1] == 2 && to[2] == 0 && to[3] == 4);
}
