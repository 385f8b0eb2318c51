/* SPDX-License-Identifier: Apache-2.0
 * philox.h: the words of many blocks are those of tn_kernel_philox.
 * tests/storage/test_random.c compares that with the published answers.
 */
#include "tenon/kernel/philox.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>

#include "levels.h"

static void check(const tn_random *random, uint64_t first, int64_t n,
                  uint32_t level) {
  uint32_t word[4 * 100 + 1];
  word[4 * n] = 77; /* stays */
  tn_philox_words(word, random, first, n, level);
  cr_assert_eq(word[4 * n], 77);
  for (int64_t i = 0; i < 4 * n; ++i) {
    const uint64_t block = random->offset + first + (uint64_t)i / 4;
    const tn_kernel_bits want = tn_kernel_philox(random->key, block, 0);
    cr_assert_eq(word[i], want.word[i % 4], "level %u, word %lld of %lld",
                 level, (long long)i, (long long)n);
  }
}

static void check_upper(uint64_t high, int64_t n, uint32_t level) {
  uint32_t word[4 * 100];
  const tn_philox_place place = {77, 0xffffffffu - 20, high};
  tn_philox_blocks(word, &place, n, level);
  for (int64_t i = 0; i < 4 * n; ++i) {
    const tn_kernel_bits want =
        tn_kernel_philox(place.key, place.low + (uint64_t)i / 4, high);
    cr_assert_eq(word[i], want.word[i % 4], "level %u, word %lld of %lld",
                 level, (long long)i, (long long)n);
  }
}

Test(philox, the_upper_half_of_a_counter_is_constant) {
  static const uint64_t high[] = {0, 1, 129, 0xfedcba9876543210u};
  uint64_t features[TN_KERNEL_N_LEVELS];
  const uint32_t n_levels = (uint32_t)levels(features);
  for (uint32_t level = 0; level < n_levels; ++level)
    for (size_t i = 0; i < sizeof high / sizeof *high; ++i) {
      check_upper(high[i], 100, level);
      check_upper(high[i], 7, level);
    }
}

Test(philox, many_blocks_have_the_words_of_each) {
  static const int64_t lengths[] = {0,  1,  3,  4,  7,  8,  15, 16,
                                    20, 31, 32, 39, 40, 71, 100};
  const tn_random low = {.key = 5, .offset = 0};
  const tn_random carry = {.key = 0xfedcba9876543210u,
                           .offset = 0xffffffffu - 20};
  const tn_random wrap = {.key = 1, .offset = UINT64_MAX - 33};
  uint64_t features[TN_KERNEL_N_LEVELS];
  const uint32_t n_levels = (uint32_t)levels(features);
  cr_log_info("%u levels", n_levels);
  for (uint32_t level = 0; level < n_levels; ++level)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
      check(&low, 0, lengths[i], level);
      check(&carry, 3, lengths[i], level);
      check(&wrap, 0, lengths[i], level);
    }
}
