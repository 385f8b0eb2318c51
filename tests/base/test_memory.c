/* SPDX-License-Identifier: Apache-2.0
 * Sizes, arena, vector and map, also when the allocator refuses.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "../growth.h"
#include "base.h"

Test(memory, sizes_of_tensors_do_not_overflow) {
  const int64_t plain[] = {2, 3}, empty[] = {0, 5}, unknown[] = {2, -1};
  const int64_t huge[] = {INT64_MAX, 4}, hidden[] = {0, INT64_MAX, 4};
  size_t bytes = 0;
  cr_assert(tn__tensor_bytes(TN_F32, 2, plain, &bytes));
  cr_assert_eq(bytes, 24);
  cr_assert(tn__tensor_bytes(TN_F64, 0, NULL, &bytes));
  cr_assert_eq(bytes, 8);
  cr_assert(tn__tensor_bytes(TN_F32, 2, empty, &bytes));
  cr_assert_eq(bytes, 0);
  cr_assert_not(tn__tensor_bytes(TN_F32, 2, unknown, &bytes));
  cr_assert_not(tn__tensor_bytes(TN_F32, 2, huge, &bytes));
  cr_assert_not(tn__tensor_bytes(TN_F32, 3, hidden, &bytes));
}

Test(memory, large_blocks_are_aligned_for_vectors) {
  const tn__env *env = tn__env_default();
  void *large = tn__alloc(env, 5000);
  cr_assert_eq((uintptr_t)large % 64, 0);
  tn__free(env, large);
  tn__free(env, NULL);
}

Test(memory, an_arena_gives_zeroed_aligned_memory_of_any_size) {
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  for (size_t n = 1; n < 20000; n = n * 3 + 1) {
    unsigned char *p = tn__arena_alloc(&arena, n);
    cr_assert_eq((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < n; ++i) cr_assert_eq(p[i], 0);
    memset(p, 0xff, n);
  }
  cr_assert_str_eq(tn__arena_text(&arena, "abcdef", 3), "abc");
  cr_assert_null(tn__arena_alloc(&arena, SIZE_MAX - 3));
  cr_assert(arena.failed);
  tn__arena_deinit(&arena);
}

Test(memory, a_vector_inserts_and_removes_in_place) {
  const tn__env *env = tn__env_default();
  tn__vec vec = {0};
  int items[20];
  for (int i = 0; i < 20; ++i)
    cr_assert_eq(tn__vec_push(env, &vec, &items[i]), TN_OK);
  tn__vec_remove(&vec, 3);
  cr_assert_eq(vec.n, 19);
  cr_assert_eq(vec.v[3], &items[4]);
  cr_assert_eq(tn__vec_reserve(env, &vec, 1), TN_OK);
  tn__vec_insert_reserved(&vec, 3, &items[3]);
  for (int i = 0; i < 20; ++i) cr_assert_eq(vec.v[i], &items[i]);
  tn__vec_deinit(env, &vec);
}

/* From an independent program, which gives the vectors of the paper too. */
Test(memory, names_are_hashed_by_siphash_1_3) {
  static const struct {
    size_t n;
    uint64_t hash;
  } known[] = {{0, 0xabac0158050fc4dc},  {1, 0xc9f49bf37d57ca93},
               {7, 0xd3927d989bb11140},  {8, 0x369095118d299a8e},
               {15, 0xd320d86d2a519956}, {63, 0x9d199062b7bbb3a8}};
  const uint64_t key[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  unsigned char bytes[64];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (unsigned char)i;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    cr_expect_eq(tn__siphash(key, bytes, known[i].n), known[i].hash, "%zu",
                 known[i].n);
}

/* Names of 16 bytes that had the same hash when it had no key: the second
 * eight undo the first. The words are random, and tried until all bytes are
 * printed. */
static void make_colliding_names(char (*names)[17], size_t n) {
  uint64_t random = 1, target = 0;
  for (size_t made = 0; made < n;) {
    uint64_t first = 0, state = 0x9e3779b97f4a7c15u, second;
    for (int i = 0; i < 8; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      first = first << 8 | ('a' + (random >> 59) % 26);
    }
    state = (state ^ first) * 0xff51afd7ed558ccdu;
    state = state << 29 | state >> 35;
    if (made == 0) target = state ^ 0x6161616161616161u;
    second = state ^ target;
    bool printed = true;
    for (int i = 0; i < 8; ++i) {
      const uint64_t c = second >> (8 * i) & 0xff;
      printed = printed && c > ' ' && c < 0x7f;
    }
    if (!printed) continue;
    memcpy(names[made], &first, 8);
    memcpy(names[made] + 8, &second, 8);
    names[made++][16] = 0;
  }
}

enum { N_COLLIDING = 8000 };

static char colliding[N_COLLIDING][17];

static double set_colliding(int n) {
  const tn__env *env = tn__env_default();
  tn__map map = {0};
  const double begin = growth_clock();
  for (int i = 0; i < n; ++i)
    cr_assert_eq(tn__map_set(env, &map, colliding[i], colliding[i]), TN_OK);
  const double seconds = growth_clock() - begin;
  tn__map_deinit(env, &map);
  return seconds;
}

/* Without a key the time is quadratic: a thousand times as long for 20000
 * names. */
Test(memory, a_map_cannot_be_made_slow_by_its_names) {
  make_colliding_names(colliding, N_COLLIDING);
  cr_assert_eq(tn__hash(colliding[0], 16),
               tn__hash(colliding[N_COLLIDING - 1], 16));
  expect_proportional(set_colliding, N_COLLIDING);
}

Test(memory, a_map_finds_set_keys_and_forgets_removed_ones) {
  enum { N = 500 };
  const tn__env *env = tn__env_default();
  static char keys[N][8];
  tn__map map = {0};
  cr_assert_null(tn__map_get(&map, "nothing"));
  tn__map_remove(&map, "nothing");
  for (int i = 0; i < N; ++i) {
    (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
    cr_assert_eq(tn__map_set(env, &map, keys[i], keys[i]), TN_OK);
  }
  for (int i = 0; i < N; i += 3) tn__map_remove(&map, keys[i]);
  for (int i = 0; i < N; ++i)
    cr_assert_eq(tn__map_get(&map, keys[i]), i % 3 == 0 ? NULL : keys[i]);
  cr_assert_eq(tn__map_set(env, &map, keys[1], keys[2]), TN_OK);
  cr_assert_eq(tn__map_get(&map, keys[1]), keys[2]);
  tn__map_deinit(env, &map);
}

static void *refuse_all(void *ctx, size_t bytes, size_t align) {
  (void)ctx, (void)bytes, (void)align;
  return NULL;
}

Test(memory, a_refused_allocation_is_an_error_with_its_size) {
  tn__env env = *tn__env_default();
  tn__vec vec = {0};
  tn__map map = {0};
  tn__buf buf;
  tn_text *text = NULL;
  env.allocator.alloc = refuse_all;
  cr_assert_eq(tn__vec_push(&env, &vec, &vec), TN_OUT_OF_MEMORY);
  cr_assert_str_eq(tn_error_text(),
                   "out of memory: the allocator refused 64 bytes for a list");
  cr_assert_eq(tn__map_set(&env, &map, "a", &map), TN_OUT_OF_MEMORY);
  cr_assert_eq(map.n, 0);
  tn__buf_init(&buf, &env);
  tn__buf_add(&buf, "text");
  cr_assert(buf.failed);
  cr_assert_eq(tn__buf_text(&buf, &text), TN_OUT_OF_MEMORY);
  cr_assert_null(text);
}
