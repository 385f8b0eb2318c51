/* SPDX-License-Identifier: Apache-2.0
 * stage.c: the allocator, engine and devices for the tests of storage.
 */
#include "stage.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *memory = NULL;
  if (atomic_fetch_add(&m->n_calls, 1) + 1 == m->fail_at) return NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (posix_memalign(&memory, align, bytes)) return NULL;
  atomic_fetch_add(&m->n_live, 1);
  return memory;
}

static void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  atomic_fetch_sub(&m->n_live, 1);
  free(memory);
}

static tn_code make_stage(stage *s, const tn_memory_limit *limits, size_t n) {
  const tn__engine_options options = {.env = &s->env, .workers = 2};
  TN__TRY(tn__engine_create(&options, &s->engine));
  s->env.engine = s->engine;
  TN__TRY(tn__devices_create(&s->env, 1, limits, n, &s->devices));
  TN__TRY(tn__device_find(s->devices, TN_DEVICE_CPU, 0, &s->cpu));
  s->env.cpu = s->cpu;
  return TN_OK;
}

static void destroy_stage(stage *s) {
  if (s->engine) tn__engine_stop(s->engine);
  tn__devices_destroy(s->devices);
  tn__engine_destroy(s->engine);
  s->devices = NULL;
  s->engine = NULL;
}

/* The counts and the failing call keep the values that the caller has set. */
tn_code stage_try(stage *s, const tn_memory_limit *limits, size_t n) {
  s->env = *tn__env_default();
  s->env.allocator = (tn_allocator){&s->memory, meter_alloc, meter_free};
  const tn_code rc = make_stage(s, limits, n);
  if (rc) destroy_stage(s);
  return rc;
}

void stage_open_limited(stage *s, const tn_memory_limit *limits, size_t n) {
  *s = (stage){.devices = NULL};
  cr_assert_eq(stage_try(s, limits, n), TN_OK, "%s", tn_error_text());
}

void stage_open(stage *s) {
  stage_open_limited(s, NULL, 0);
}

void stage_close(stage *s) {
  destroy_stage(s);
  cr_assert_eq(s->memory.n_live, 0, "%lld allocations are left",
               (long long)s->memory.n_live);
}

/* ------------------------------------------------------------------- copies */

typedef struct transfer {
  tn__block *to;
  tn__block *from;
} transfer;

static tn_code run_copy(void *arg, tn__token *token) {
  const transfer *t = arg;
  const tn_copy copy = {.to = t->to->data,
                        .from = t->from->data,
                        .bytes = t->to->bytes,
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

tn_code stage_copy(stage *s, tn__block *to, tn__block *from) {
  transfer *t = malloc(sizeof *t);
  cr_assert(t);
  *t = (transfer){tn__block_retain(to), tn__block_retain(from)};
  const tn__access access[] = {{&from->var, TN__READ, 0},
                               {&to->var, TN__OVERWRITE, 0}};
  const tn__job job = {
      .name = "copy",
      .run = run_copy,
      .arg = t,
      .drop = drop_copy,
      .access = access,
      .n_access = 2,
      .queue = tn__device_copy_queue(to->device, from->device)};
  return tn__push(s->engine, &job);
}

tn__block *stage_block(tn__device *device, size_t bytes) {
  tn__block *block = NULL;
  cr_assert_eq(tn__block_create(device, bytes, &block), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn__block_materialise(block), TN_OK, "%s", tn_error_text());
  return block;
}

void expect_text(const char *part) {
  cr_assert(strstr(tn_error_text(), part), "%s", tn_error_text());
}
