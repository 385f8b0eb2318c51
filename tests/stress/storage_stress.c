/* SPDX-License-Identifier: Apache-2.0
 * storage_stress.c: several threads copy between blocks of the host and of two
 * fake devices, which all of them share, small ones and others, give blocks up
 * and take new ones, while memory is trimmed. Every block is full of one byte,
 * and a copy is of a whole block, so a block with two different bytes was torn.
 * Meant for ThreadSanitizer; a plain program, because Criterion does not start
 * under it.
 *
 *   storage_stress [copies per thread] [seed]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "storage.h"

enum { THREADS = 3, BLOCKS = 6, BYTES = 700, PLACES = 3 };

static tn__env env;
static tn__devices *devices;
static tn__device *places[PLACES];
static tn__block *blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of blocks */
static long n_copies = 2000;
static unsigned long long seed = 1;

static int fail(const char *what) {
  (void)fprintf(stderr, "storage_stress: %s: %s (seed %llu)\n", what,
                tn_error_text(), seed);
  exit(1);
}

static void must(tn_code code, const char *what) {
  if (code != TN_OK) (void)fail(what);
}

static size_t roll(uint64_t *dice, size_t n) {
  *dice = *dice * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(*dice >> 33) % n;
}

/* --------------------------------------------------------------------- jobs */

typedef struct transfer {
  tn__block *to;
  tn__block *from;
} transfer;

static tn_code run_copy(void *arg, tn__token *token) {
  const transfer *t = arg;
  const tn_copy copy = {.to = t->to->data,
                        .from = t->from->data,
                        .bytes = BYTES,
                        .to_type = t->to->device->type,
                        .to_id = t->to->device->id,
                        .from_type = t->from->device->type,
                        .from_id = t->from->device->id};
  return tn__device_copy(token, &copy);
}

static void drop_copy(void *arg) {
  transfer *t = arg;
  tn__block_release(t->to);
  tn__block_release(t->from);
  free(t);
}

/* Takes the two references over. Many are small, and share fences. */
static void push_copy(tn__block *to, tn__block *from) {
  static _Atomic uint32_t n;
  transfer *t = malloc(sizeof *t);
  if (t == NULL) exit(1);
  *t = (transfer){to, from};
  const tn__access access[] = {{&from->var, TN__READ, 0},
                               {&to->var, TN__OVERWRITE, 0}};
  const tn__job job = {
      .name = "copy",
      .run = run_copy,
      .arg = t,
      .drop = drop_copy,
      .access = access,
      .n_access = 2,
      .flags = atomic_fetch_add(&n, 1) % 5 != 0 ? TN__JOB_SMALL : 0,
      .queue = tn__device_copy_queue(to->device, from->device)};
  must(tn__push(env.engine, &job), "a push");
}

static tn__block *full_of(int byte) {
  tn__block *block = NULL;
  must(tn__block_create(places[0], BYTES, &block), "a block");
  must(tn__block_materialise(block), "its memory");
  memset(block->data, byte, BYTES);
  return block;
}

/* ------------------------------------------------------------------ threads */

/* Two references, to different blocks. */
static void pick(uint64_t *dice, tn__block **to, tn__block **from) {
  const size_t a = roll(dice, BLOCKS);
  const size_t b = (a + 1 + roll(dice, BLOCKS - 1)) % BLOCKS;
  pthread_mutex_lock(&lock);
  *to = tn__block_retain(blocks[a]);
  *from = tn__block_retain(blocks[b]);
  pthread_mutex_unlock(&lock);
}

/* Another block takes the place of a shared one, with the content of a third.
 */
static void replace(uint64_t *dice) {
  const size_t at = roll(dice, BLOCKS);
  tn__block *block = NULL, *to = NULL, *from = NULL;
  must(tn__block_create(places[roll(dice, PLACES)], BYTES, &block), "a block");
  must(tn__block_materialise(block), "its memory");
  pick(dice, &to, &from);
  push_copy(tn__block_retain(block), from);
  tn__block_release(to);
  pthread_mutex_lock(&lock);
  tn__block *old = blocks[at];
  blocks[at] = block;
  pthread_mutex_unlock(&lock);
  tn__block_release(old);
}

static void *work(void *arg) {
  uint64_t dice = seed * 1000 + (uint64_t)(uintptr_t)arg;
  for (long i = 0; i < n_copies; ++i) {
    tn__block *to = NULL, *from = NULL;
    pick(&dice, &to, &from);
    push_copy(to, from);
    if (i % 7 == 0) replace(&dice);
    if (i % 101 == 0) (void)tn__heap_trim(places[roll(&dice, PLACES)]);
  }
  return NULL;
}

/* --------------------------------------------------------------------- main */

static void check(tn__block *block) {
  tn__block *host = full_of(0);
  push_copy(tn__block_retain(host), tn__block_retain(block));
  must(tn__wait(env.engine, &host->var, TN__WAIT_WRITERS, TN__FOREVER),
       "a wait");
  const unsigned char *bytes = host->data;
  for (size_t i = 1; i < BYTES; ++i)
    if (bytes[i] != bytes[0] || bytes[0] == 0) (void)fail("a torn block");
  tn__block_release(host);
}

static void run(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < BLOCKS; ++i) blocks[i] = full_of(i + 1);
  for (uintptr_t i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0) exit(1);
  for (int i = 0; i < THREADS; ++i) (void)pthread_join(threads[i], NULL);
  for (int i = 0; i < BLOCKS; ++i) {
    check(blocks[i]);
    tn__block_release(blocks[i]);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) n_copies = atol(argv[1]);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  fake *f = fake_create(&(fake_options){.count = PLACES - 1, .seed = seed});
  env = *tn__env_default();
  const tn__engine_options options = {.env = &env, .workers = 4};
  must(tn__engine_create(&options, &env.engine), "an engine");
  must(tn__devices_create(&env, 1, NULL, 0, &devices), "devices");
  must(tn__devices_add(devices, fake_table(f)), "a table");
  must(tn__device_find(devices, TN_DEVICE_CPU, 0, &places[0]), "cpu");
  for (int i = 1; i < PLACES; ++i)
    must(tn__device_find(devices, TN_DEVICE_EXT, i - 1, &places[i]), "a fake");
  run();
  must(tn__wait_all(env.engine), "all");
  tn__engine_stop(env.engine);
  tn__devices_destroy(devices);
  tn__engine_destroy(env.engine);
  const fake_counts counts = fake_counts_get(f);
  if (counts.violations != 0) (void)fail(fake_violation(f));
  if (counts.pieces + counts.queues + counts.fences != 0) (void)fail("leaks");
  fake_destroy(f);
  return 0;
}
