/* SPDX-License-Identifier: Apache-2.0
 * stage.c: an engine and a device with numbers as work.
 */
#include "stage.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"

/* ------------------------------------------------------------------- device */

static void device_init(device *self) {
  memset(self, 0, sizeof *self);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
}

static tn_code refuse_once(device *self) {
  const bool refuses = self->refuses;
  self->refuses = false;
  return refuses ? tn__fail(TN_DEVICE, "the device hung up") : TN_OK;
}

static tn_code record_point(void *queue, void **fence) {
  line *self = (line *)queue;
  device *d = self->device;
  pthread_mutex_lock(&d->lock);
  const tn_code code = refuse_once(d);
  if (code == TN_OK) {
    point *p = (point *)malloc(sizeof *p);
    *p = (point){self, self->enqueued};
    *fence = p;
    ++d->fences;
    ++d->records;
  }
  pthread_mutex_unlock(&d->lock);
  return code;
}

static tn_code wait_for_point(void *queue, void *fence) {
  line *self = (line *)queue;
  device *d = self->device;
  if (d->cannot_wait) return tn__fail(TN_UNSUPPORTED, "no such thing");
  pthread_mutex_lock(&d->lock);
  const tn_code code = refuse_once(d);
  if (code == TN_OK && d->n_waits < WAITS) {
    d->waits[d->n_waits].line = self;
    d->waits[d->n_waits++].point = *(const point *)fence;
  }
  pthread_mutex_unlock(&d->lock);
  return code;
}

/* The result of a finished piece of work. */
static tn_code outcome_of(const point *p) {
  if (p->line->broken == 0 || p->number < p->line->broken) return TN_OK;
  return tn__fail(TN_DEVICE, "a unit overheated");
}

static tn_code query_point(void *fence, bool *done) {
  const point *p = (const point *)fence;
  device *d = p->line->device;
  pthread_mutex_lock(&d->lock);
  ++d->queries;
  *done = p->line->done >= p->number;
  const tn_code code = *done ? outcome_of(p) : TN_OK;
  pthread_mutex_unlock(&d->lock);
  return code;
}

static tn_code block_for_point(void *fence) {
  const point *p = (const point *)fence;
  device *d = p->line->device;
  pthread_mutex_lock(&d->lock);
  ++d->blocks;
  if (d->eager && p->line->done < p->number) p->line->done = p->number;
  while (p->line->done < p->number) pthread_cond_wait(&d->changed, &d->lock);
  const tn_code code = outcome_of(p);
  pthread_mutex_unlock(&d->lock);
  return code;
}

static void drop_point(void *fence) {
  device *d = ((const point *)fence)->line->device;
  pthread_mutex_lock(&d->lock);
  --d->fences;
  pthread_mutex_unlock(&d->lock);
  free(fence);
}

const tn__queue_ops line_ops = {record_point, wait_for_point, query_point,
                                block_for_point, drop_point};
const tn__queue_ops other_line_ops = {record_point, wait_for_point, query_point,
                                      block_for_point, drop_point};

void work_off(line *self) {
  pthread_mutex_lock(&self->device->lock);
  self->done = self->enqueued;
  pthread_cond_broadcast(&self->device->changed);
  pthread_mutex_unlock(&self->device->lock);
}

/* -------------------------------------------------------------------- stage */

void open_queue(stage *self, int i, const tn__queue_ops *which) {
  self->lines[i] = (line){.device = &self->device};
  cr_assert_eq(tn__queue_create(self->engine, which, &self->lines[i], "line",
                                &self->queues[i]),
               TN_OK);
}

void stage_open(stage *self, tn__engine *engine) {
  self->engine = engine;
  self->n = 0;
  device_init(&self->device);
  for (int i = 0; i < LINES; ++i) open_queue(self, i, &line_ops);
}

void stage_close(stage *self) {
  for (int i = 0; i < LINES; ++i) {
    work_off(&self->lines[i]);
    tn__queue_destroy(self->queues[i]);
  }
  cr_assert_eq(self->device.fences, 0, "%d fences are left",
               self->device.fences);
  engine_close(self->engine);
}

tn_code run_enqueue(void *arg, tn__token *token) {
  stage *self = (stage *)arg;
  line *on = (line *)tn__token_queue(token);
  if (on == NULL) return tn__fail(TN_INTERNAL, "no queue");
  pthread_mutex_lock(&self->device.lock);
  ++on->enqueued;
  pthread_mutex_unlock(&self->device.lock);
  atomic_fetch_add(&self->n, 1);
  return TN_OK;
}

tn_code push_on(stage *self, int queue, const tn__access *access, uint32_t n) {
  return tn__push(self->engine, &(tn__job){.name = "launch",
                                           .run = run_enqueue,
                                           .arg = self,
                                           .access = access,
                                           .n_access = n,
                                           .queue = self->queues[queue]});
}

void push_host(stage *self, const tn__access *access, uint32_t n) {
  cr_assert_eq(push(self->engine, run_count, &self->n, access, n), TN_OK);
}

tn_code await(stage *self, tn__var *var, uint32_t what, uint64_t ns) {
  return tn__wait(self->engine, var, what, ns);
}

void await_runs(const stage *self, int n) {
  while (self->n < n) sched_yield();
}

void await_issue(const stage *self) {
  tn__drain(self->engine);
}
