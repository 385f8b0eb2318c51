/* SPDX-License-Identifier: Apache-2.0
 * fixture.h: the fixtures of the engine's tests: an allocator that counts and
 * fails on demand, engines of every kind, and functions that block until the
 * test releases them.
 */
#ifndef TESTS_ENGINE_FIXTURE_H_
#define TESTS_ENGINE_FIXTURE_H_

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "engine.h"

/* Counts living allocations. Refuses request number `fail_at` (from 1; 0: none)
 * since the last memory_fail_at, and with `for_ever` all later ones. */
typedef struct meter {
  _Atomic int64_t living;
  _Atomic int64_t asked;
  int64_t fail_at;
  bool for_ever;
} meter;

extern meter memory;

void memory_fail_at(int64_t n, bool for_ever);
const tn__env *memory_env(void);

/* Every kind of engine for tests of results. */
typedef struct kind {
  const char *name;
  uint32_t kind;
  uint32_t workers;
  uint32_t dispatch;
} kind;

enum { N_KINDS = 7 };
extern const kind kinds[N_KINDS];

tn__engine *engine_open(const kind *how);
/* A pooled engine that runs all functions on workers. */
tn__engine *engine_dispatch(uint32_t workers);
/* A pooled engine that may run small functions inside of push. */
tn__engine *engine_pooled(uint32_t workers);
/* Destroys the engine and asserts that no memory is left. */
void engine_close(tn__engine *engine);

typedef tn_code run_fn(void *arg, tn__token *token);

/* A list of accesses, with its length, for the end of a call of `push`. */
#define ON(...)                                              \
  (const tn__access[]){__VA_ARGS__},                         \
      (uint32_t)(sizeof((const tn__access[]){__VA_ARGS__}) / \
                 sizeof(tn__access))
#define R(var) \
  { &(var), TN__READ, 0 }
#define U(var) \
  { &(var), TN__UPDATE, 0 }
#define W(var) \
  { &(var), TN__OVERWRITE, 0 }

/* Pushes without flags. */
tn_code push(tn__engine *engine, run_fn *run, void *arg,
             const tn__access *access, uint32_t n);

/* A job that begins and then pends until the test ends it; it occupies no
 * worker. */
typedef struct held {
  sem_t began;
  tn__token *token;
} held;

/* Its function; `arg` is the held job. */
tn_code run_held(void *arg, tn__token *token);
/* Pushes it; it begins in its turn. */
void held_push(tn__engine *engine, held *job, const tn__access *access,
               uint32_t n);
void held_await(held *job); /* returns when it has begun */
void held_end(held *job, tn_code code);
/* Pushes it and waits until it has begun. */
void held_begin(tn__engine *engine, held *job, const tn__access *access,
                uint32_t n);

/* A function that blocks its thread until the test releases it. */
typedef struct block {
  sem_t began;
  sem_t go;
} block;

/* Its function; `arg` is the block, initialised. */
tn_code run_block(void *arg, tn__token *token);
void block_init(block *self);
void block_await(block *self); /* returns when it has begun */
/* Pushes it and waits until it has begun. */
void block_begin(tn__engine *engine, block *self, const tn__access *access,
                 uint32_t n);
void block_end(block *self);

/* Returns when *n is at least `wanted`. This thread does not help: only workers
 * can raise *n. */
void await_count(const _Atomic int *n, int wanted);

/* Gives other threads some microseconds to do something wrong. It yields only
 * once, as each yield may cost a time slice of every other thread. */
void let_others_run(void);

/* A log of numbers in the order of their addition, from any thread. */
typedef struct order {
  _Atomic int n;
  int v[2048];
} order;

/* A function that adds `number` to `log`. */
typedef struct note {
  order *log;
  int number;
} note;
tn_code run_note(void *arg, tn__token *token);

/* Fails with TN_INVALID and "boom <text>", where `arg` is the text. */
tn_code run_boom(void *arg, tn__token *token);

/* Adds one to an _Atomic int. */
tn_code run_count(void *arg, tn__token *token);

/* Asserts that the thread's error text contains each of the parts. */
#define EXPECT_TEXT(...) expect_text((const char *const[]){__VA_ARGS__, NULL})
void expect_text(const char *const *parts);

/* Returns TENON_SEED, or `seed`, and prints it, so that a failure can be
 * repeated. */
uint64_t seed_or(uint64_t seed);

#endif /* TESTS_ENGINE_FIXTURE_H_ */
