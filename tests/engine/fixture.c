/* SPDX-License-Identifier: Apache-2.0
 * fixture.c: engines, a counting allocator, and functions that wait for the
 * test.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ memory */

meter memory;

static void *allocate(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  int64_t number = atomic_fetch_add(&memory.asked, 1) + 1;
  if (memory.fail_at != 0 &&
      (memory.for_ever ? number >= memory.fail_at : number == memory.fail_at))
    return NULL;
  void *piece = aligned_alloc(align, (bytes + align - 1) / align * align);
  if (piece != NULL) atomic_fetch_add(&memory.living, 1);
  return piece;
}

static void release(void *ctx, void *piece) {
  (void)ctx;
  if (piece != NULL) atomic_fetch_sub(&memory.living, 1);
  free(piece);
}

void memory_fail_at(int64_t n, bool for_ever) {
  memory.fail_at = n;
  memory.for_ever = for_ever;
  atomic_store(&memory.asked, 0);
}

const tn__env *memory_env(void) {
  static tn__env env;
  env = *tn__env_default();
  env.allocator.alloc = allocate;
  env.allocator.free = release;
  return &env;
}

/* ----------------------------------------------------------------- engines */

const kind kinds[N_KINDS] = {
    {"naive", TN__ENGINE_NAIVE, 0, 0},
    {"pooled, 1 worker", TN__ENGINE_POOLED, 1, 0},
    {"pooled, 2 workers", TN__ENGINE_POOLED, 2, 0},
    {"pooled, 8 workers", TN__ENGINE_POOLED, 8, 0},
    {"dispatch, 1 worker", TN__ENGINE_POOLED, 1, 1},
    {"dispatch, 2 workers", TN__ENGINE_POOLED, 2, 1},
    {"dispatch, 8 workers", TN__ENGINE_POOLED, 8, 1},
};

tn__engine *engine_open(const kind *how) {
  tn__engine *engine = NULL;
  const tn__engine_options options = {.env = memory_env(),
                                      .kind = how->kind,
                                      .workers = how->workers,
                                      .dispatch = how->dispatch};
  cr_assert_eq(tn__engine_create(&options, &engine), TN_OK, "%s: %s", how->name,
               tn_error_text());
  return engine;
}

tn__engine *engine_dispatch(uint32_t workers) {
  return engine_open(
      &(kind){"dispatch", TN__ENGINE_POOLED, workers, .dispatch = 1});
}

tn__engine *engine_pooled(uint32_t workers) {
  return engine_open(&(kind){"pooled", TN__ENGINE_POOLED, workers, 0});
}

void engine_close(tn__engine *engine) {
  tn__engine_destroy(engine);
  cr_assert_eq(memory.living, 0, "%lld blocks are left",
               (long long)memory.living);
}

/* -------------------------------------------------------------------- jobs */

tn_code push(tn__engine *engine, run_fn *run, void *arg,
             const tn__access *access, uint32_t n) {
  return tn__push(engine, &(tn__job){.name = "job",
                                     .run = run,
                                     .arg = arg,
                                     .access = access,
                                     .n_access = n});
}

tn_code run_held(void *arg, tn__token *token) {
  held *job = (held *)arg;
  job->token = token;
  sem_post(&job->began);
  return TN_OK;
}

void held_push(tn__engine *engine, held *job, const tn__access *access,
               uint32_t n) {
  sem_init(&job->began, 0, 0);
  job->token = NULL;
  cr_assert_eq(tn__push(engine, &(tn__job){.name = "held",
                                           .run = run_held,
                                           .arg = job,
                                           .access = access,
                                           .n_access = n,
                                           .flags = TN__JOB_ASYNC}),
               TN_OK, "%s", tn_error_text());
}

void held_await(held *job) {
  while (sem_wait(&job->began)) continue;
}

void held_end(held *job, tn_code code) {
  tn__token_done(job->token, code);
}

void held_begin(tn__engine *engine, held *job, const tn__access *access,
                uint32_t n) {
  held_push(engine, job, access, n);
  held_await(job);
}

tn_code run_block(void *arg, tn__token *token) {
  block *self = (block *)arg;
  (void)token;
  sem_post(&self->began);
  while (sem_wait(&self->go)) continue;
  return TN_OK;
}

void block_init(block *self) {
  sem_init(&self->began, 0, 0);
  sem_init(&self->go, 0, 0);
}

void block_await(block *self) {
  while (sem_wait(&self->began)) continue;
}

void block_begin(tn__engine *engine, block *self, const tn__access *access,
                 uint32_t n) {
  block_init(self);
  cr_assert_eq(push(engine, run_block, self, access, n), TN_OK);
  block_await(self);
}

void block_end(block *self) {
  sem_post(&self->go);
}

void await_count(const _Atomic int *n, int wanted) {
  while (*n < wanted) sched_yield();
}

void let_others_run(void) {
  for (volatile int i = 0; i < 2000; ++i) continue;
  sched_yield();
}

tn_code run_note(void *arg, tn__token *token) {
  const note *self = (const note *)arg;
  (void)token;
  self->log->v[atomic_fetch_add(&self->log->n, 1)] = self->number;
  return TN_OK;
}

tn_code run_boom(void *arg, tn__token *token) {
  (void)token;
  return tn__fail(TN_INVALID, "boom %s", (const char *)arg);
}

tn_code run_count(void *arg, tn__token *token) {
  (void)token;
  atomic_fetch_add((_Atomic int *)arg, 1);
  return TN_OK;
}

/* -------------------------------------------------------------------- else */

void expect_text(const char *const *parts) {
  for (; *parts != NULL; ++parts)
    cr_assert_not_null(strstr(tn_error_text(), *parts),
                       "\"%s\" is not part of \"%s\"", *parts, tn_error_text());
}

uint64_t seed_or(uint64_t seed) {
  const char *given = getenv("TENON_SEED");
  if (given != NULL) seed = strtoull(given, NULL, 10);
  cr_log_info("TENON_SEED=%llu", (unsigned long long)seed);
  return seed;
}
