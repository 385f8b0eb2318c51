/* SPDX-License-Identifier: Apache-2.0
 * test_heap.c: heaps keep memory for later requests, within bounds.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static const size_t MI = 1 << 20;

static stage s;

static void *alloc_piece(size_t bytes) {
  void *memory = NULL;
  cr_assert_eq(tn__heap_alloc(s.cpu, bytes, "a test", &memory), TN_OK, "%s",
               tn_error_text());
  return memory;
}

static tn__heap_stats get_stats(void) {
  tn__heap_stats now;
  tn__heap_stats_get(s.cpu, &now);
  return now;
}

/* ------------------------------------------------------------------ classes */

Test(heap, allocates_at_most_an_eighth_more_than_requested) {
  stage_open(&s);
  for (size_t bytes = 1; bytes < 12 * MI; bytes += bytes / 19 + 1) {
    void *memory = alloc_piece(bytes);
    const uint64_t held = get_stats().held;
    cr_assert_geq(held, bytes);
    cr_assert(held <= bytes + bytes / 8 || held <= (bytes + 63) / 64 * 64,
              "%zu bytes take %zu", bytes, (size_t)held);
    tn__heap_free(s.cpu, memory, bytes);
    cr_assert_eq(tn__heap_trim(s.cpu), held);
    cr_assert_eq(get_stats().held, 0);
  }
  stage_close(&s);
}

Test(heap, aligns_to_64_bytes_and_large_pieces_to_huge_pages) {
  stage_open(&s);
  const size_t sizes[] = {1, 63, 64, 65, 1000, 4097, 70000, MI, 2 * MI, 9 * MI};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    unsigned char *memory = alloc_piece(sizes[i]);
    const size_t align = sizes[i] >= 2 * MI ? 2 * MI : 64;
    cr_assert_eq((uintptr_t)memory % align, 0, "%zu bytes", sizes[i]);
    memory[0] = memory[sizes[i] - 1] = 1;
    tn__heap_free(s.cpu, memory, sizes[i]);
  }
  stage_close(&s);
}

Test(heap, reuses_the_piece_that_was_freed_last) {
  stage_open(&s);
  void *a = alloc_piece(1000), *b = alloc_piece(1010), *c = alloc_piece(990);
  tn__heap_free(s.cpu, b, 1010);
  tn__heap_free(s.cpu, c, 990);
  tn__heap_free(s.cpu, a, 1000);
  cr_assert_eq(alloc_piece(1020), a);
  cr_assert_eq(alloc_piece(970), c);
  cr_assert_eq(alloc_piece(1024), b);
  cr_assert_eq(get_stats().n_allocated, 3);
  cr_assert_eq(get_stats().n_reused, 3);
  tn__heap_free(s.cpu, a, 1020);
  tn__heap_free(s.cpu, b, 1024);
  tn__heap_free(s.cpu, c, 970);
  tn__heap_free(s.cpu, NULL, 8);
  stage_close(&s);
}

/* ------------------------------------------------------------------- bounds */

static uint64_t dice = 1;

static size_t random_below(size_t n) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(dice >> 33) % n;
}

enum { SLOTS = 64 };
typedef struct slot {
  void *memory;
  size_t bytes;
} slot;

static void replace_piece(slot *at, size_t bytes) {
  tn__heap_free(s.cpu, at->memory, at->bytes);
  at->memory = alloc_piece(bytes);
  at->bytes = bytes;
  const tn__heap_stats now = get_stats();
  cr_assert(2 * now.held <= 3 * now.peak_live || now.held <= MI,
            "%zu held, at most %zu were in use", (size_t)now.held,
            (size_t)now.peak_live);
}

static void free_slots(slot *slots) {
  for (int i = 0; i < SLOTS; ++i)
    tn__heap_free(s.cpu, slots[i].memory, slots[i].bytes);
  cr_assert_eq(get_stats().live, 0);
}

Test(heap, holds_half_more_than_was_in_use_at_most_under_random_sizes) {
  stage_open(&s);
  slot slots[SLOTS] = {{NULL, 0}};
  for (int i = 0; i < 10000; ++i)
    replace_piece(&slots[random_below(SLOTS)],
                  1 + random_below((size_t)1 << (6 + random_below(15))));
  free_slots(slots);
  stage_close(&s);
}

Test(heap, holds_half_more_than_was_in_use_at_most_when_sizes_drift) {
  stage_open(&s);
  slot slots[SLOTS] = {{NULL, 0}};
  for (size_t i = 0; i < 10000; ++i)
    replace_piece(&slots[i % SLOTS], 1000 + 13 * i + random_below(5000));
  for (size_t i = 10000; i-- > 0;)
    replace_piece(&slots[i % SLOTS], 1000 + 13 * i + random_below(5000));
  free_slots(slots);
  stage_close(&s);
}

/* 3 MiB were in use, so 4.5 may be held: a third piece pushes out the larger of
 * the two kept pieces. */
Test(heap, returns_the_largest_unused_piece_first) {
  stage_open(&s);
  void *one = alloc_piece(MI), *two = alloc_piece(2 * MI);
  tn__heap_free(s.cpu, one, MI);
  tn__heap_free(s.cpu, two, 2 * MI);
  cr_assert_eq(get_stats().held, 3 * MI);
  const size_t bytes = 7 * MI / 4;
  void *third = alloc_piece(bytes);
  cr_assert_eq(get_stats().held, MI + bytes);
  cr_assert_eq(alloc_piece(MI), one);
  tn__heap_free(s.cpu, one, MI);
  tn__heap_free(s.cpu, third, bytes);
  stage_close(&s);
}

Test(heap, trims_all_that_is_kept_and_nothing_else) {
  stage_open(&s);
  void *kept = alloc_piece(100), *used = alloc_piece(5000);
  tn__heap_free(s.cpu, kept, 100);
  cr_assert_eq(tn__heap_trim(s.cpu), 128);
  cr_assert_eq(tn__heap_trim(s.cpu), 0);
  const tn__heap_stats now = get_stats();
  cr_assert_eq(now.held, 5120);
  cr_assert_eq(now.live, 5000);
  cr_assert_eq(now.peak_live, 5100);
  cr_assert_eq(now.peak_held, 5248);
  cr_assert_eq(now.limit, UINT64_MAX);
  tn__heap_free(s.cpu, used, 5000);
  stage_close(&s);
}

/* ------------------------------------------------------------------- limits */

Test(limit, counts_memory_in_use) {
  const tn_memory_limit limit = {TN_DEVICE_CPU, 0, 10000};
  void *memory = NULL;
  stage_open_limited(&s, &limit, 1);
  void *first = alloc_piece(6000), *second = alloc_piece(2000);
  cr_assert_eq(tn__heap_alloc(s.cpu, 3000, "a test", &memory),
               TN_OUT_OF_MEMORY);
  cr_assert_null(memory);
  expect_text(
      "out of memory: 3000 bytes for a test would exceed the limit of 10000 "
      "bytes on cpu(0), of which 8192 are in use; release arrays, or raise the "
      "limit in tn_options.memory_limits");
  tn__heap_free(s.cpu, first, 6000);
  memory = alloc_piece(3000); /* kept pieces are returned */
  cr_assert_eq(get_stats().held, 2048 + 3072);
  cr_assert_eq(tn__heap_alloc(s.cpu, 20000, "a test", &first),
               TN_OUT_OF_MEMORY);
  tn__heap_free(s.cpu, memory, 3000);
  tn__heap_free(s.cpu, second, 2000);
  stage_close(&s);
}

Test(limit, is_separate_for_each_device) {
  const tn_memory_limit twice[] = {
      {TN_DEVICE_CPU, 0, 1}, {TN_DEVICE_CUDA, 0, 1}, {TN_DEVICE_CPU, 0, 2}};
  const tn_memory_limit wrong = {TN_DEVICE_CUDA, -1, 1};
  const tn_memory_limit beyond = {TN_DEVICE_CPU, 7, 1};
  s = (stage){.devices = NULL};
  cr_assert_eq(stage_try(&s, twice, 3), TN_INVALID);
  expect_text("tn_options.memory_limits[2]: cpu(0) is limited twice");
  cr_assert_eq(stage_try(&s, &beyond, 1), TN_INVALID);
  expect_text("tn_options.memory_limits[0]: cpu(7) does not exist");
  cr_assert_eq(stage_try(&s, &wrong, 1), TN_INVALID);
  expect_text(
      "tn_options.memory_limits[0]: device type 2(-1) is not a valid "
      "device");
  cr_assert_eq(stage_try(&s, twice, 2), TN_OK);
  cr_assert_eq(get_stats().limit, 1);
  stage_close(&s);
}

/* ----------------------------------------------------------------- failures */

Test(heap, reports_the_size_that_the_allocator_refused) {
  stage_open(&s);
  void *used = alloc_piece(5000), *memory = used;
  s.memory.fail_at = s.memory.n_calls + 2; /* the first is for a record */
  cr_assert_eq(tn__heap_alloc(s.cpu, 700, "a test", &memory), TN_OUT_OF_MEMORY);
  cr_assert_null(memory);
  expect_text(
      "out of memory: the allocator refused 700 bytes for a test on cpu(0), "
      "where 5120 bytes are in use; release arrays");
  s.memory.fail_at = s.memory.n_calls + 1;
  cr_assert_eq(tn__heap_alloc(s.cpu, 700, "a test", &memory), TN_OUT_OF_MEMORY);
  cr_assert_eq(get_stats().held, 5120);
  tn__heap_free(s.cpu, used, 5000);
  stage_close(&s);
}

Test(heap, trims_before_it_fails) {
  stage_open(&s);
  tn__heap_free(s.cpu, alloc_piece(5000), 5000);
  s.memory.fail_at = s.memory.n_calls + 2;
  void *memory = alloc_piece(700);
  cr_assert_eq(get_stats().held, 704);
  tn__heap_free(s.cpu, memory, 700);
  stage_close(&s);
}

Test(heap, refuses_impossible_sizes) {
  stage_open(&s);
  void *memory = &s;
  cr_assert_eq(tn__heap_alloc(s.cpu, SIZE_MAX, "a test", &memory),
               TN_OUT_OF_MEMORY);
  cr_assert_null(memory);
  cr_assert_eq(tn__heap_alloc(s.cpu, PTRDIFF_MAX, "a test", &memory),
               TN_OUT_OF_MEMORY);
  expect_text("are more than cpu(0) can ever have; check the shapes");
  stage_close(&s);
}

Test(create, survives_every_failing_allocation) {
  int64_t n = 0;
  tn_code rc = TN_OUT_OF_MEMORY;
  while (rc == TN_OUT_OF_MEMORY) {
    s = (stage){.memory = {.fail_at = ++n}};
    rc = stage_try(&s, NULL, 0);
    if (rc) cr_assert_eq(s.memory.n_live, 0);
  }
  cr_assert_eq(rc, TN_OK, "%s", tn_error_text());
  cr_assert_gt(n, 3);
  stage_close(&s);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 4, ROUNDS = 20000 };

/* Each piece is filled with the number of its owner while it is in use. */
static void *use_pieces(void *arg) {
  const int me = (int)(intptr_t)arg;
  unsigned char *mine[8] = {NULL};
  size_t bytes[8] = {0};
  uint64_t seed = (uint64_t)me;
  intptr_t wrong = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    const int k = i % 8;
    for (size_t b = 0; b < bytes[k]; ++b) wrong += mine[k][b] != me;
    tn__heap_free(s.cpu, mine[k], bytes[k]);
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    bytes[k] = 1 + (size_t)(seed >> 33) % 300;
    void *memory = NULL;
    if (tn__heap_alloc(s.cpu, bytes[k], "a test", &memory)) return &s;
    mine[k] = memory;
    memset(mine[k], me, bytes[k]);
    if (i % 1000 == me) (void)tn__heap_trim(s.cpu);
  }
  for (int k = 0; k < 8; ++k) tn__heap_free(s.cpu, mine[k], bytes[k]);
  return (void *)wrong;
}

Test(heap, serves_many_threads_at_once) {
  stage_open(&s);
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; ++i)
    cr_assert_eq(pthread_create(&threads[i], NULL, use_pieces, (void *)(i + 1)),
                 0);
  for (int i = 0; i < THREADS; ++i) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    cr_assert_null(wrong);
  }
  cr_assert_eq(get_stats().live, 0);
  stage_close(&s);
}

/* ------------------------------------------------------------- shared pages */

static int compare_places(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t) * (char *const *)a;
  const uintptr_t y = (uintptr_t) * (char *const *)b;
  return x < y ? -1 : x > y;
}

/* Pieces of 64 KiB to 2 MiB share huge pages, so they must not overlap. */
Test(heap, pieces_that_share_huge_pages_do_not_overlap) {
  enum { N = 400 };
  static struct {
    char *at;
    size_t bytes;
  } pieces[N];
  char *places[N];
  uint32_t seed = 1;
  stage_open(&s);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < N; ++i) {
      seed = seed * 1664525 + 1013904223;
      pieces[i].bytes = 60000 + (seed >> 8) % (2 * MI - 60000);
      pieces[i].at = alloc_piece(pieces[i].bytes);
      cr_assert_eq((uintptr_t)pieces[i].at % 64, 0);
      memset(pieces[i].at, i, pieces[i].bytes);
    }
    for (int i = 0; i < N; ++i) {
      cr_assert_eq(pieces[i].at[0], (char)i);
      cr_assert_eq(pieces[i].at[pieces[i].bytes / 2], (char)i);
      cr_assert_eq(pieces[i].at[pieces[i].bytes - 1], (char)i);
      places[i] = pieces[i].at;
    }
    qsort(places, N, sizeof *places, compare_places);
    for (int i = 1; i < N; ++i) cr_assert_neq(places[i - 1], places[i]);
    for (int i = 0; i < N; ++i)
      tn__heap_free(s.cpu, pieces[(i * 7) % N].at, pieces[(i * 7) % N].bytes);
    if (round % 2 == 1) (void)tn__heap_trim(s.cpu);
  }
  (void)tn__heap_trim(s.cpu);
  cr_assert_eq(get_stats().held, 0);
  stage_close(&s); /* finds memory that was not returned to the allocator */
}
