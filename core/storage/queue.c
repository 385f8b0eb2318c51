/* SPDX-License-Identifier: Apache-2.0
 * queue.c: the queues and fences of a device table as the engine wants them,
 * what is enqueued on them from here (copies, fills and sums), and recordings
 * of it.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "family.h"

enum { N_LANES = 3 };

/* What the engine knows as the `ctx` of a queue. */
typedef struct lane {
  tn__device *device;
  void *queue;  /* of the table */
  void *stream; /* what kernels get */
  void *last;   /* a fence of the table, for when no other can be had */
} lane;

/* What the engine knows as a fence. Kept for the next one after its end. */
typedef struct fence {
  struct fence *next;
  tn__device *device;
  void *handle; /* of the table */
} fence;

/* Indexed by TN_QUEUE_*. */
typedef struct tn__lanes {
  lane lane[N_LANES];
  pthread_mutex_t lock;
  fence *idle;
  _Atomic uintptr_t recorder; /* the thread whose work is recorded; 0: none */
} tn__lanes;

/* ------------------------------------------------------------------- fences */

static tn_code fence_open(const tn__device *device, void **out) {
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  int32_t rc = table->fence_open(table->ctx, device->id, out, &error);
  if (rc == TN_OK && *out != NULL) return TN_OK;
  *out = NULL;
  if (rc == TN_OK) rc = TN_PLUGIN;
  return tn__table_fail(device, rc, "opening a fence", &error);
}

static tn_code fence_create(tn__device *device, fence **out) {
  fence *f = tn__alloc(device->env, sizeof *f);
  if (f == NULL) return tn__fail_memory(sizeof *f, "a fence");
  *f = (fence){.device = device};
  const tn_code rc = fence_open(device, &f->handle);
  if (rc != TN_OK) {
    tn__free(device->env, f);
    return rc;
  }
  *out = f;
  return TN_OK;
}

static tn_code fence_get(tn__device *device, fence **out) {
  tn__lanes *lanes = device->lanes;
  pthread_mutex_lock(&lanes->lock);
  fence *f = lanes->idle;
  if (f != NULL) lanes->idle = f->next;
  pthread_mutex_unlock(&lanes->lock);
  if (f == NULL) return fence_create(device, out);
  *out = f;
  return TN_OK;
}

void tn__point_drop(void *arg) {
  fence *f = arg;
  tn__lanes *lanes = f->device->lanes;
  pthread_mutex_lock(&lanes->lock);
  f->next = lanes->idle;
  lanes->idle = f;
  pthread_mutex_unlock(&lanes->lock);
}

static tn_code fence_record(const lane *l, fence *f) {
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc =
      table->fence_record(table->ctx, f->handle, l->queue, &error);
  return rc == TN_OK
             ? TN_OK
             : tn__table_fail(l->device, rc, "recording a fence", &error);
}

/* Waits for everything enqueued, as nobody could tell when it is done: what it
 * uses may be freed. The thread's error text stays. */
static void settle(const lane *l) {
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (table->fence_record(table->ctx, l->last, l->queue, &error) == TN_OK)
    (void)table->fence_wait(table->ctx, l->last, &error);
}

tn_code tn__point_record(void *queue, void **out) {
  const lane *l = queue;
  fence *f = NULL;
  *out = NULL;
  tn_code rc = fence_get(l->device, &f);
  if (rc == TN_OK) rc = fence_record(l, f);
  if (rc == TN_OK) {
    *out = f;
    return TN_OK;
  }
  if (f != NULL) tn__point_drop(f);
  settle(l);
  return rc;
}

static tn_code wait_for(void *queue, void *arg) {
  const lane *l = queue;
  const fence *f = arg;
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (f->device->table != table)
    return tn__fail(TN_UNSUPPORTED, "%s cannot wait for %s itself",
                    l->device->name, f->device->name);
  const int32_t rc = table->queue_wait(table->ctx, l->queue, f->handle, &error);
  return rc == TN_OK ? TN_OK
                     : tn__table_fail(l->device, rc,
                                      "waiting for another queue", &error);
}

tn_code tn__point_query(void *arg, bool *done) {
  const fence *f = arg;
  const tn_device *table = f->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  int32_t answer = 0;
  const int32_t rc = table->fence_query(table->ctx, f->handle, &answer, &error);
  *done = answer != 0;
  return rc == TN_OK ? TN_OK
                     : tn__table_fail(f->device, rc, "enqueued work", &error);
}

tn_code tn__point_wait(void *arg) {
  const fence *f = arg;
  const tn_device *table = f->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc = table->fence_wait(table->ctx, f->handle, &error);
  return rc == TN_OK ? TN_OK
                     : tn__table_fail(f->device, rc, "enqueued work", &error);
}

static const tn__queue_ops queue_ops = {
    .record = tn__point_record,
    .wait = wait_for,
    .query = tn__point_query,
    .block = tn__point_wait,
    .drop = tn__point_drop,
};

tn_code tn__device_drain(const tn__device *device, uint32_t purpose) {
  void *f = NULL;
  if (device->lanes == NULL) return TN_OK;
  TN__TRY(tn__point_record(&device->lanes->lane[purpose], &f));
  const tn_code rc = tn__point_wait(f);
  tn__point_drop(f);
  return rc;
}

/* ----------------------------------------------------------- open and close */

static tn_code lane_open(tn__device *device, uint32_t purpose,
                         tn__queue **out) {
  static const char *const purposes[] = {"", " in", " out"};
  const tn_device *table = device->table;
  lane *l = &device->lanes->lane[purpose];
  tn_device_error error = {.struct_size = sizeof error};
  char place[TN__DEVICE_TEXT], name[TN__DEVICE_TEXT + 8];
  int32_t rc =
      table->queue_open(table->ctx, device->id, purpose, 0, &l->queue, &error);
  if (rc == TN_OK && l->queue == NULL) rc = TN_PLUGIN;
  if (rc != TN_OK) {
    l->queue = NULL;
    return tn__table_fail(device, rc, "opening a queue", &error);
  }
  l->device = device;
  TN__TRY(fence_open(device, &l->last));
  l->stream = table->queue_stream(table->ctx, l->queue);
  (void)snprintf(name, sizeof name, "%s%s", tn__device_text(device, place),
                 purposes[purpose]);
  return tn__queue_create(device->env->engine, &queue_ops, l, name, out);
}

static tn_code lanes_open(tn__device *device) {
  TN__TRY(lane_open(device, TN_QUEUE_COMPUTE, &device->compute));
  TN__TRY(lane_open(device, TN_QUEUE_COPY_IN, &device->copy_in));
  return lane_open(device, TN_QUEUE_COPY_OUT, &device->copy_out);
}

tn_code tn__device_open(tn__device *device) {
  device->lanes = tn__zalloc(device->env, sizeof *device->lanes);
  if (device->lanes == NULL)
    return tn__fail_memory(sizeof *device->lanes, "the queues of a device");
  (void)pthread_mutex_init(&device->lanes->lock, NULL);
  const tn_code rc = lanes_open(device);
  if (rc != TN_OK) tn__device_close(device);
  return rc;
}

static void queue_close(tn__queue **queue) {
  if (*queue != NULL) tn__queue_destroy(*queue);
  *queue = NULL;
}

void tn__device_close(tn__device *device) {
  tn__lanes *lanes = device->lanes;
  const tn_device *table = device->table;
  if (lanes == NULL) return;
  queue_close(&device->compute);
  queue_close(&device->copy_in);
  queue_close(&device->copy_out);
  for (int i = 0; i < N_LANES; ++i) {
    const lane *l = &lanes->lane[i];
    if (l->last != NULL) table->fence_close(table->ctx, l->last);
    if (l->queue != NULL) table->queue_close(table->ctx, l->queue);
  }
  while (lanes->idle != NULL) {
    fence *f = lanes->idle;
    lanes->idle = f->next;
    table->fence_close(table->ctx, f->handle);
    tn__free(device->env, f);
  }
  (void)pthread_mutex_destroy(&lanes->lock);
  tn__free(device->env, lanes);
  device->lanes = NULL;
}

/* ---------------------------------------------------------------- enqueuing */

void *tn__token_stream(const tn__token *token) {
  const lane *l = tn__token_queue(token);
  return l != NULL ? l->stream : NULL;
}

tn__queue *tn__device_copy_queue(const tn__device *to, const tn__device *from) {
  if (to == from) return to->compute;
  if (to->table == NULL) return from->copy_out;
  if (from->table == NULL || from->table == to->table) return to->copy_in;
  return NULL;
}

/* Whether the table of the queue knows both sides. */
static bool reaches(const lane *l, const tn_copy *copy) {
  const int32_t own = l->device->type;
  return (copy->to_type == own || copy->to_type == TN_DEVICE_CPU) &&
         (copy->from_type == own || copy->from_type == TN_DEVICE_CPU);
}

static tn_code fail_route(const tn_copy *copy) {
  return tn__fail(TN_UNSUPPORTED,
                  "bytes cannot be copied from device type %d to device type "
                  "%d on this queue; copy to cpu(0) first, and from there on",
                  copy->from_type, copy->to_type);
}

tn_code tn__device_copy(tn__token *token, const tn_copy *copy) {
  const lane *l = tn__token_queue(token);
  if (copy->bytes == 0) return TN_OK;
  if (l == NULL) {
    if (copy->to_type != TN_DEVICE_CPU || copy->from_type != TN_DEVICE_CPU)
      return fail_route(copy);
    memcpy(copy->to, copy->from, copy->bytes);
    return TN_OK;
  }
  if (!reaches(l, copy)) return fail_route(copy);
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  tn_copy sized = *copy;
  sized.struct_size = sizeof sized;
  const int32_t rc = table->copy(table->ctx, l->queue, &sized, &error);
  char doing[64];
  (void)snprintf(doing, sizeof doing, "a copy of %" PRIu64 " bytes",
                 copy->bytes);
  return rc == TN_OK ? TN_OK : tn__table_fail(l->device, rc, doing, &error);
}

static tn_code own_queue(const lane *l, const tn__device *device) {
  if (l != NULL && l->device == device) return TN_OK;
  return tn__fail(TN_INTERNAL, "%s is written from another queue",
                  device->name);
}

tn_code tn__device_fill(tn__token *token, const tn__device *device,
                        void *memory, uint8_t byte, size_t bytes) {
  const lane *l = tn__token_queue(token);
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (bytes == 0) return TN_OK;
  if (table == NULL) {
    memset(memory, byte, bytes);
    return TN_OK;
  }
  TN__TRY(own_queue(l, device));
  const int32_t rc =
      table->fill(table->ctx, l->queue, memory, byte, bytes, &error);
  return rc == TN_OK ? TN_OK : tn__table_fail(device, rc, "a fill", &error);
}

bool tn__device_sums(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least = offsetof(tn_device, sum) + sizeof table->sum;
  return table != NULL && table->struct_size >= least && table->sum != NULL;
}

/* As behind device.h's `sum_dtypes`. */
static uint64_t sum_dtypes(const tn_device *table) {
  const uint64_t floats = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64;
  const size_t least =
      offsetof(tn_device, sum_dtypes) + sizeof table->sum_dtypes;
  return floats | (table->struct_size >= least ? table->sum_dtypes : 0);
}

bool tn__device_adds(const tn__device *device, tn_dtype dtype) {
  return tn__device_sums(device) &&
         (sum_dtypes(device->table) & tn__dtype_bit(dtype)) != 0;
}

static bool is_copy(const tn_device_sum *sum) {
  return sum->n_summed == 0 && !(sum->flags & TN_SUM_ADD) && sum->from != NULL;
}

tn_code tn__device_sum(tn__token *token, const tn__device *device,
                       const tn_device_sum *sum) {
  const lane *l = tn__token_queue(token);
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  tn_device_sum sized = *sum;
  char place[TN__DEVICE_TEXT];
  if (!tn__device_sums(device))
    return tn__fail(TN_UNSUPPORTED, "%s has no sums",
                    tn__device_text(device, place));
  if (!is_copy(sum) && !tn__device_adds(device, sum->dtype))
    return tn__fail(TN_UNSUPPORTED, "%s has no sums of %s",
                    tn__device_text(device, place), tn__dtype_name(sum->dtype));
  TN__TRY(own_queue(l, device));
  sized.struct_size = sizeof sized;
  const int32_t rc = table->sum(table->ctx, l->queue, &sized, &error);
  return rc == TN_OK ? TN_OK : tn__table_fail(device, rc, "a sum", &error);
}

/* --------------------------------------------------------------- recordings */

/* A number that no other thread has at the same time. */
static uintptr_t self(void) {
  static _Thread_local char mine;
  return (uintptr_t)&mine;
}

bool tn__device_records(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least =
      offsetof(tn_device, graph_close) + sizeof table->graph_close;
  return table != NULL && table->struct_size >= least &&
         table->capture_begin != NULL && table->capture_end != NULL &&
         table->graph_launch != NULL && table->graph_close != NULL;
}

bool tn__device_is_recorded(const tn__device *device) {
  const tn__lanes *lanes = device->lanes;
  return lanes != NULL &&
         atomic_load_explicit(&lanes->recorder, memory_order_relaxed) == self();
}

tn_code tn__record_begin(tn__token *token) {
  const lane *l = tn__token_queue(token);
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc = table->capture_begin(table->ctx, l->queue, &error);
  if (rc != TN_OK)
    return tn__table_fail(l->device, rc, "beginning to record", &error);
  atomic_store_explicit(&l->device->lanes->recorder, self(),
                        memory_order_relaxed);
  return TN_OK;
}

/* The first failure is the one to tell. */
static tn_code give_up(const lane *l, tn_code rc) {
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  (void)table->capture_end(table->ctx, l->queue, NULL, &error);
  return rc;
}

tn_code tn__record_end(tn__token *token, tn_code rc, void **out) {
  const lane *l = tn__token_queue(token);
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  *out = NULL;
  atomic_store_explicit(&l->device->lanes->recorder, 0, memory_order_relaxed);
  if (rc != TN_OK) return give_up(l, rc);
  int32_t answer = table->capture_end(table->ctx, l->queue, out, &error);
  if (answer == TN_OK && *out == NULL) answer = TN_PLUGIN;
  if (answer == TN_OK) return TN_OK;
  *out = NULL;
  return tn__table_fail(l->device, answer, "recording", &error);
}

tn_code tn__record_launch(tn__token *token, void *recording) {
  const lane *l = tn__token_queue(token);
  const tn_device *table = l->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc =
      table->graph_launch(table->ctx, recording, l->queue, &error);
  return rc == TN_OK
             ? TN_OK
             : tn__table_fail(l->device, rc, "launching a recording", &error);
}

void tn__record_close(const tn__device *device, void *recording) {
  if (recording == NULL) return;
  device->table->graph_close(device->table->ctx, recording);
}
