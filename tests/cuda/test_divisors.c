/* SPDX-License-Identifier: Apache-2.0
 * Divisions by products, beside those of the language: numbers around all
 * powers of two and multiples of the divisor, and drawn ones of all lengths.
 */
#include <criterion/criterion.h>
#include <stdint.h>

int64_t divided(int64_t i, int64_t by);
int32_t divided_small(int32_t i, int32_t by);

enum { DRAWN = 200000 };

static void check(int64_t i, int64_t by) {
  if (i < 0 || by < 1) return;
  cr_assert_eq(divided(i, by), i / by, "%lld/%lld", (long long)i,
               (long long)by);
  if (i <= INT32_MAX && by <= INT32_MAX)
    cr_assert_eq(divided_small((int32_t)i, (int32_t)by), i / by,
                 "%lld/%lld in 32 bits", (long long)i, (long long)by);
}

static void check_around(int64_t i, int64_t by) {
  for (int64_t off = -2; off <= 2; ++off)
    if (i <= INT64_MAX - 2) check(i + off, by);
}

Test(divisors, divide_around_powers_and_multiples) {
  for (int a = 0; a < 63; ++a)
    for (int64_t off = -1; off <= 1; ++off) {
      const int64_t by = ((int64_t)1 << a) + off;
      check(INT64_MAX, by);
      check(INT32_MAX, by);
      for (int b = 0; b < 63; ++b) {
        check_around((int64_t)1 << b, by);
        if (by > 0) check_around(((int64_t)1 << b) / by * by, by);
      }
    }
}

Test(divisors, divide_drawn_numbers) {
  uint64_t state = 7;
  for (int k = 0; k < DRAWN; ++k) {
    uint64_t drawn[2];
    for (int j = 0; j < 2; ++j) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      drawn[j] = state >> (1 + (state >> 40) % 62);
    }
    check((int64_t)drawn[0], (int64_t)drawn[1]);
    if (drawn[1] > 0)
      check_around((int64_t)(drawn[0] / drawn[1] * drawn[1]),
                   (int64_t)drawn[1]);
  }
}
