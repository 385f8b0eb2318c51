/* SPDX-License-Identifier: Apache-2.0
 * test_random.c: Philox 4x32-10 compared with the known answers of its authors,
 * and streams that claim every block once.
 */
#include <criterion/criterion.h>
#include <tenon/kernel/kernel.h>

#include "stage.h"

/* ------------------------------------------------------------------- Philox */

/* From the file kat_vectors of Random123: counter and key with their lowest
 * words first. */
typedef struct known {
  uint32_t counter[4];
  uint32_t key[2];
  uint32_t answer[4];
} known;

static const known vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static uint64_t join_words(const uint32_t *words) {
  return words[0] | (uint64_t)words[1] << 32;
}

Test(philox, gives_the_published_answers) {
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) {
    const known *v = &vectors[i];
    const tn_kernel_bits bits = tn_kernel_philox(
        join_words(v->key), join_words(v->counter), join_words(v->counter + 2));
    for (int w = 0; w < 4; ++w)
      cr_assert_eq(bits.word[w], v->answer[w], "vector %zu, word %d", i, w);
  }
}

Test(philox, counts_blocks_in_the_low_words_of_the_counter) {
  const tn_random random = {.struct_size = sizeof random,
                            .key = 0x299f31d0a4093822u,
                            .offset = 0xfffffffffffffff0u};
  for (uint64_t i = 0; i < 40; ++i) {
    const tn_kernel_bits a = tn_kernel_random(&random, i);
    const tn_kernel_bits b =
        tn_kernel_philox(random.key, 0xfffffffffffffff0u + i, 0);
    for (int w = 0; w < 4; ++w) cr_assert_eq(a.word[w], b.word[w]);
  }
}

Test(uniform, covers_zero_to_just_below_one) {
  cr_assert_eq(tn_kernel_uniform_f32(0), 0.0f);
  cr_assert_eq(tn_kernel_uniform_f32(0xff), 0.0f);
  cr_assert_eq(tn_kernel_uniform_f32(0x80000000u), 0.5f);
  cr_assert_eq(tn_kernel_uniform_f32(UINT32_MAX), 16777215.0f / 16777216.0f);
  cr_assert_eq(tn_kernel_uniform_f64(0, 0), 0.0);
  cr_assert_eq(tn_kernel_uniform_f64(0, 0x40000000u), 0.25);
  cr_assert_eq(tn_kernel_uniform_f64(UINT32_MAX, UINT32_MAX),
               1.0 - 1.0 / 9007199254740992.0);
}

/* 4 * 65536 draws: the mean of so many is 1/2 within five times its deviation,
 * sqrt(1/12) / 512. */
Test(uniform, has_its_mean_in_the_middle) {
  double sum = 0;
  for (uint64_t i = 0; i < 65536; ++i) {
    const tn_kernel_bits bits = tn_kernel_philox(2026, i, 0);
    for (int w = 0; w < 4; ++w)
      sum += (double)tn_kernel_uniform_f32(bits.word[w]);
  }
  cr_assert_float_eq(sum / 262144, 0.5, 5 * 0.2886751 / 512);
}

/* ------------------------------------------------------------------ streams */

Test(random, claims_every_block_once) {
  tn__random random;
  tn__random_init(&random, 7);
  cr_assert_eq(random.key, 7);
  cr_assert_eq(tn__random_claim(&random, 3), 0);
  cr_assert_eq(tn__random_claim(&random, 0), 3);
  cr_assert_eq(tn__random_claim(&random, 5), 3);
  cr_assert_eq(tn__random_claim(&random, 1), 8);
}

Test(random, starts_again_with_a_seed) {
  tn__random random;
  tn__random_init(&random, 7);
  (void)tn__random_claim(&random, 30);
  tn__random_seed(&random, 9);
  cr_assert_eq(random.key, 9);
  cr_assert_eq(tn__random_claim(&random, 4), 0);
  cr_assert_eq(random.offset, 4);
}

/* Calls claim blocks when they are pushed, so workers and chunks change
 * nothing. */
static void draw_numbers(uint32_t *to, const tn_random *random, uint64_t first,
                         uint64_t n) {
  for (uint64_t i = first; i < first + n; ++i)
    to[i] = tn_kernel_random(random, i / 4).word[i % 4];
}

Test(random, draws_the_same_numbers_whole_and_split) {
  static uint32_t whole[1000], parts[1000];
  tn__random random;
  tn__random_init(&random, 123);
  (void)tn__random_claim(&random, 17);
  const tn_random place = {.key = random.key,
                           .offset = tn__random_claim(&random, 250)};
  draw_numbers(whole, &place, 0, 1000);
  draw_numbers(parts, &place, 613, 387);
  draw_numbers(parts, &place, 0, 3);
  draw_numbers(parts, &place, 3, 610);
  cr_assert_arr_eq(whole, parts, sizeof whole);
}

typedef struct slice {
  uint32_t *to;
  tn_random place;
} slice;

static int32_t draw_slice(void *arg, int64_t begin, int64_t end) {
  const slice *s = arg;
  draw_numbers(s->to, &s->place, (uint64_t)begin, (uint64_t)(end - begin));
  return TN_OK;
}

static void draw_with(uint32_t workers, uint32_t *to) {
  const tn__engine_options options = {.env = tn__env_default(),
                                      .workers = workers};
  tn__engine *engine = NULL;
  slice s = {to, {.key = 99, .offset = 1000}};
  cr_assert_eq(tn__engine_create(&options, &engine), TN_OK);
  cr_assert_eq(tn__parallel_for(engine, 4000, 37, draw_slice, &s), TN_OK);
  tn__engine_destroy(engine);
}

Test(random, draws_the_same_numbers_with_1_2_and_8_workers) {
  static uint32_t one[4000], two[4000], eight[4000];
  draw_with(1, one);
  draw_with(2, two);
  draw_with(8, eight);
  cr_assert_arr_eq(one, two, sizeof one);
  cr_assert_arr_eq(one, eight, sizeof one);
  const tn_kernel_bits first = tn_kernel_philox(99, 1000, 0);
  cr_assert_eq(one[0], first.word[0]);
  cr_assert_eq(one[3], first.word[3]);
}
