/* SPDX-License-Identifier: Apache-2.0
 * jobs.c: shared parts of the tests of engine.h.
 */
#include "jobs.h"

#include <stdlib.h>

const uint32_t engines[N_ENGINES] = {TN_ENGINE_POOLED, TN_ENGINE_NAIVE,
                                     TN_ENGINE_THREADED};
const uint32_t threaded[2] = {TN_ENGINE_POOLED, TN_ENGINE_THREADED};

_Atomic int64_t n_living;

void *count_alloc(void *ctx, size_t bytes, size_t align) {
  void *memory = NULL;
  (void)ctx;
  if (posix_memalign(&memory, align < 16 ? 16 : align, bytes)) return NULL;
  atomic_fetch_add(&n_living, 1);
  return memory;
}

void count_free(void *ctx, void *memory) {
  (void)ctx;
  if (memory) atomic_fetch_sub(&n_living, 1);
  free(memory);
}

tn_runtime *open_runtime(uint32_t engine, uint32_t workers) {
  tn_runtime *rt = NULL;
  const tn_options options = {.struct_size = sizeof options,
                              .engine = engine,
                              .workers = workers,
                              .allocator = {NULL, count_alloc, count_free}};
  EXPECT(tn_runtime_create(&options, &rt), TN_OK);
  return rt;
}

void close_runtime(tn_runtime *rt) {
  tn_runtime_release(rt);
  cr_assert_eq(n_living, 0, "%d allocations are left", (int)n_living);
}

tn_variable *make_variable(tn_runtime *rt) {
  tn_variable *variable = NULL;
  EXPECT(tn_variable_create(rt, NULL, NULL, &variable), TN_OK);
  return variable;
}

tn_code early(uint32_t engine, tn_code code) {
  return engine == TN_ENGINE_NAIVE ? code : TN_OK;
}

tn_code read_nothing(void *arg) {
  (void)arg;
  return TN_OK;
}

void add_one(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 1);
}

tn_code count_run(void *arg) {
  add_one(arg);
  return TN_OK;
}

static tn_code run_gate(void *arg) {
  gate *g = arg;
  (void)sem_post(&g->began);
  (void)sem_wait(&g->go);
  return TN_OK;
}

void push_gate(tn_runtime *rt, gate *g, tn_variable *x) {
  (void)sem_init(&g->began, 0, 0);
  (void)sem_init(&g->go, 0, 0);
  EXPECT(tn_push(rt, JOB(run_gate, g, TN_USES({x, TN_UPDATE}))), TN_OK);
  (void)sem_wait(&g->began);
}

tn_code keep_token(void *arg, tn_token *token) {
  keeper *k = arg;
  k->token = tn_token_retain(token);
  (void)sem_post(&k->began);
  return TN_OK;
}

void push_kept(tn_runtime *rt, keeper *k, tn_variable *x) {
  (void)sem_init(&k->began, 0, 0);
  EXPECT(tn_push(rt, ASYNC(keep_token, k, .name = "request",
                           TN_USES({x, TN_OVERWRITE}))),
         TN_OK);
  (void)sem_wait(&k->began);
}
