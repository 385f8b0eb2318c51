/* SPDX-License-Identifier: Apache-2.0
 * device_streams.c: the queues and fences of a device table, in the form that
 * the engine needs. Copies, fills and sums are enqueued here, and recordings of
 * enqueued work are made, launched and closed.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device_type.h"

enum { N_STREAMS = 3 };

/* The `ctx` of a queue in the engine. */
typedef struct stream {
  tn__device *device;
  void *queue;  /* queue of the table */
  void *native; /* passed to kernels */
  void *last;   /* a fence of the table, for use when no other can be opened */
} stream;

/* A fence in the engine. Reused after its end. */
typedef struct fence {
  struct fence *next;
  tn__device *device;
  void *handle; /* fence of the table */
} fence;

/* Indexed by TN_QUEUE_*. */
typedef struct tn__device_streams {
  stream v[N_STREAMS];
  pthread_mutex_t lock;
  fence *idle;
  _Atomic uintptr_t recorder; /* the thread that records; 0: none */
} tn__device_streams;

/* ------------------------------------------------------------------- fences */

static tn_code open_fence(const tn__device *device, void **out) {
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  int32_t rc = table->fence_open(table->ctx, device->id, out, &error);
  if (rc == TN_OK && *out != NULL) return TN_OK;
  *out = NULL;
  if (rc == TN_OK) rc = TN_PLUGIN;
  return tn__device_fail(device, rc, "opening a fence", &error);
}

static tn_code create_fence(tn__device *device, fence **out) {
  fence *f = tn__alloc(device->env, sizeof *f);
  if (f == NULL) return tn__fail_memory(sizeof *f, "a fence");
  *f = (fence){.device = device};
  const tn_code rc = open_fence(device, &f->handle);
  if (rc != TN_OK) {
    tn__free(device->env, f);
    return rc;
  }
  *out = f;
  return TN_OK;
}

static tn_code get_fence(tn__device *device, fence **out) {
  tn__device_streams *streams = device->streams;
  pthread_mutex_lock(&streams->lock);
  fence *f = streams->idle;
  if (f != NULL) streams->idle = f->next;
  pthread_mutex_unlock(&streams->lock);
  if (f == NULL) return create_fence(device, out);
  *out = f;
  return TN_OK;
}

void tn__device_fence_drop(void *arg) {
  fence *f = arg;
  tn__device_streams *streams = f->device->streams;
  pthread_mutex_lock(&streams->lock);
  f->next = streams->idle;
  streams->idle = f;
  pthread_mutex_unlock(&streams->lock);
}

static tn_code record_fence(const stream *s, fence *f) {
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc =
      table->fence_record(table->ctx, f->handle, s->queue, &error);
  return rc == TN_OK
             ? TN_OK
             : tn__device_fail(s->device, rc, "recording a fence", &error);
}

/* Waits for everything enqueued. Without a fence no thread can find out when
 * the work is done, and its memory may be freed. Keeps the error text of the
 * thread. */
static void wait_all(const stream *s) {
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (table->fence_record(table->ctx, s->last, s->queue, &error) == TN_OK)
    (void)table->fence_wait(table->ctx, s->last, &error);
}

tn_code tn__device_fence_record(void *queue, void **out) {
  const stream *s = queue;
  fence *f = NULL;
  *out = NULL;
  tn_code rc = get_fence(s->device, &f);
  if (rc == TN_OK) rc = record_fence(s, f);
  if (rc == TN_OK) {
    *out = f;
    return TN_OK;
  }
  if (f != NULL) tn__device_fence_drop(f);
  wait_all(s);
  return rc;
}

static tn_code wait_for_fence(void *queue, void *arg) {
  const stream *s = queue;
  const fence *f = arg;
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (f->device->table != table)
    return tn__fail(TN_UNSUPPORTED, "%s cannot wait for %s itself",
                    s->device->name, f->device->name);
  const int32_t rc = table->queue_wait(table->ctx, s->queue, f->handle, &error);
  return rc == TN_OK ? TN_OK
                     : tn__device_fail(s->device, rc,
                                       "waiting for another queue", &error);
}

tn_code tn__device_fence_query(void *arg, bool *done) {
  const fence *f = arg;
  const tn_device *table = f->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  int32_t answer = 0;
  const int32_t rc = table->fence_query(table->ctx, f->handle, &answer, &error);
  *done = answer != 0;
  return rc == TN_OK ? TN_OK
                     : tn__device_fail(f->device, rc, "enqueued work", &error);
}

tn_code tn__device_fence_wait(void *arg) {
  const fence *f = arg;
  const tn_device *table = f->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc = table->fence_wait(table->ctx, f->handle, &error);
  return rc == TN_OK ? TN_OK
                     : tn__device_fail(f->device, rc, "enqueued work", &error);
}

static const tn__queue_ops queue_ops = {
    .record = tn__device_fence_record,
    .wait = wait_for_fence,
    .query = tn__device_fence_query,
    .block = tn__device_fence_wait,
    .drop = tn__device_fence_drop,
};

tn_code tn__device_drain(const tn__device *device, uint32_t purpose) {
  void *f = NULL;
  if (device->streams == NULL) return TN_OK;
  TN__TRY(tn__device_fence_record(&device->streams->v[purpose], &f));
  const tn_code rc = tn__device_fence_wait(f);
  tn__device_fence_drop(f);
  return rc;
}

/* ----------------------------------------------------------- open and close */

static tn_code open_stream(tn__device *device, uint32_t purpose,
                           tn__queue **out) {
  static const char purposes[][5] = {"", " in", " out"};
  const tn_device *table = device->table;
  stream *s = &device->streams->v[purpose];
  tn_device_error error = {.struct_size = sizeof error};
  char place[TN__DEVICE_TEXT], name[TN__DEVICE_TEXT + 8];
  int32_t rc =
      table->queue_open(table->ctx, device->id, purpose, 0, &s->queue, &error);
  if (rc == TN_OK && s->queue == NULL) rc = TN_PLUGIN;
  if (rc != TN_OK) {
    s->queue = NULL;
    return tn__device_fail(device, rc, "opening a queue", &error);
  }
  s->device = device;
  TN__TRY(open_fence(device, &s->last));
  s->native = table->queue_stream(table->ctx, s->queue);
  (void)snprintf(name, sizeof name, "%s%s", tn__device_text(device, place),
                 purposes[purpose]);
  return tn__queue_create(device->env->engine, &queue_ops, s, name, out);
}

static tn_code open_streams(tn__device *device) {
  TN__TRY(open_stream(device, TN_QUEUE_COMPUTE, &device->compute));
  TN__TRY(open_stream(device, TN_QUEUE_COPY_IN, &device->copy_in));
  return open_stream(device, TN_QUEUE_COPY_OUT, &device->copy_out);
}

/* The lock of the devices is held. */
static tn_code open_queues(tn__device *device) {
  device->streams = tn__zalloc(device->env, sizeof *device->streams);
  if (device->streams == NULL)
    return tn__fail_memory(sizeof *device->streams, "the queues of a device");
  (void)pthread_mutex_init(&device->streams->lock, NULL);
  const tn_code rc = open_streams(device);
  if (rc != TN_OK) tn__device_close(device);
  return rc;
}

static void close_queue(tn__queue **queue) {
  if (*queue != NULL) tn__queue_destroy(*queue);
  *queue = NULL;
}

void tn__device_close(tn__device *device) {
  tn__device_streams *streams = device->streams;
  const tn_device *table = device->table;
  if (streams == NULL) return;
  close_queue(&device->compute);
  close_queue(&device->copy_in);
  close_queue(&device->copy_out);
  for (int i = 0; i < N_STREAMS; ++i) {
    const stream *s = &streams->v[i];
    if (s->last != NULL) table->fence_close(table->ctx, s->last);
    if (s->queue != NULL) table->queue_close(table->ctx, s->queue);
  }
  while (streams->idle != NULL) {
    fence *f = streams->idle;
    streams->idle = f->next;
    table->fence_close(table->ctx, f->handle);
    tn__free(device->env, f);
  }
  (void)pthread_mutex_destroy(&streams->lock);
  tn__free(device->env, streams);
  device->streams = NULL;
}

/* ---------------------------------------------------------------- enqueuing */

void *tn__token_stream(const tn__token *token) {
  const stream *s = tn__token_queue(token);
  return s != NULL ? s->native : NULL;
}

tn__queue *tn__device_copy_queue(const tn__device *to, const tn__device *from) {
  if (to == from) return to->compute;
  if (to->table == NULL) return from->copy_out;
  if (from->table == NULL || from->table == to->table) return to->copy_in;
  return NULL;
}

/* Returns whether the table of the queue supports both sides. */
static bool can_reach(const stream *s, const tn_copy *copy) {
  const int32_t own = s->device->type;
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
  const stream *s = tn__token_queue(token);
  if (copy->bytes == 0) return TN_OK;
  if (s == NULL) {
    if (copy->to_type != TN_DEVICE_CPU || copy->from_type != TN_DEVICE_CPU)
      return fail_route(copy);
    memcpy(copy->to, copy->from, copy->bytes);
    return TN_OK;
  }
  if (!can_reach(s, copy)) return fail_route(copy);
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  tn_copy sized = *copy;
  sized.struct_size = sizeof sized;
  const int32_t rc = table->copy(table->ctx, s->queue, &sized, &error);
  char doing[64];
  (void)snprintf(doing, sizeof doing, "a copy of %" PRIu64 " bytes",
                 copy->bytes);
  return rc == TN_OK ? TN_OK : tn__device_fail(s->device, rc, doing, &error);
}

static tn_code check_queue(const stream *s, const tn__device *device) {
  if (s != NULL && s->device == device) return TN_OK;
  return tn__fail(TN_INTERNAL, "%s is written from another queue",
                  device->name);
}

tn_code tn__device_fill(tn__token *token, const tn__device *device,
                        void *memory, uint8_t byte, size_t bytes) {
  const stream *s = tn__token_queue(token);
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  if (bytes == 0) return TN_OK;
  if (table == NULL) {
    memset(memory, byte, bytes);
    return TN_OK;
  }
  TN__TRY(check_queue(s, device));
  const int32_t rc =
      table->fill(table->ctx, s->queue, memory, byte, bytes, &error);
  return rc == TN_OK ? TN_OK : tn__device_fail(device, rc, "a fill", &error);
}

bool tn__device_can_sum(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least = offsetof(tn_device, sum) + sizeof table->sum;
  return table != NULL && table->struct_size >= least && table->sum != NULL;
}

/* Returns `sum_dtypes` as documented in device.h. */
static uint64_t get_sum_dtypes(const tn_device *table) {
  const uint64_t floats = TN_BIT_F16 | TN_BIT_BF16 | TN_BIT_F32 | TN_BIT_F64;
  const size_t least =
      offsetof(tn_device, sum_dtypes) + sizeof table->sum_dtypes;
  return floats | (table->struct_size >= least ? table->sum_dtypes : 0);
}

bool tn__device_can_add(const tn__device *device, tn_dtype dtype) {
  return tn__device_can_sum(device) &&
         (get_sum_dtypes(device->table) & tn__dtype_bit(dtype)) != 0;
}

bool tn__device_can_sum_wide(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least = offsetof(tn_device, sum_flags) + sizeof table->sum_flags;
  return tn__device_can_sum(device) && table->struct_size >= least &&
         (table->sum_flags & TN_SUM_WIDE) != 0;
}

static bool is_copy(const tn_device_sum *sum) {
  return sum->n_summed == 0 && sum->flags == 0 && sum->from != NULL;
}

tn_code tn__device_sum(tn__token *token, const tn__device *device,
                       const tn_device_sum *sum) {
  const stream *s = tn__token_queue(token);
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  tn_device_sum sized = *sum;
  char place[TN__DEVICE_TEXT];
  if (!tn__device_can_sum(device))
    return tn__fail(TN_UNSUPPORTED, "%s has no sums",
                    tn__device_text(device, place));
  if (!is_copy(sum) && !tn__device_can_add(device, sum->dtype))
    return tn__fail(TN_UNSUPPORTED, "%s has no sums of %s",
                    tn__device_text(device, place), tn__dtype_name(sum->dtype));
  if ((sum->flags & TN_SUM_WIDE) && !tn__device_can_sum_wide(device))
    return tn__fail(TN_UNSUPPORTED, "%s has no sums of f32 into %s",
                    tn__device_text(device, place), tn__dtype_name(sum->dtype));
  TN__TRY(check_queue(s, device));
  sized.struct_size = sizeof sized;
  const int32_t rc = table->sum(table->ctx, s->queue, &sized, &error);
  return rc == TN_OK ? TN_OK : tn__device_fail(device, rc, "a sum", &error);
}

/* --------------------------------------------------------------- recordings */

/* Returns a number that identifies this thread among all running threads. */
static uintptr_t get_thread(void) {
  static _Thread_local char mine;
  return (uintptr_t)&mine;
}

bool tn__device_can_record(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least =
      offsetof(tn_device, graph_close) + sizeof table->graph_close;
  return table != NULL && table->struct_size >= least &&
         table->capture_begin != NULL && table->capture_end != NULL &&
         table->graph_launch != NULL && table->graph_close != NULL;
}

bool tn__device_is_recording(const tn__device *device) {
  const tn__device_streams *streams = device->streams;
  return streams != NULL &&
         atomic_load_explicit(&streams->recorder, memory_order_relaxed) ==
             get_thread();
}

tn_code tn__recording_begin(tn__token *token) {
  const stream *s = tn__token_queue(token);
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc = table->capture_begin(table->ctx, s->queue, &error);
  if (rc != TN_OK)
    return tn__device_fail(s->device, rc, "beginning to record", &error);
  atomic_store_explicit(&s->device->streams->recorder, get_thread(),
                        memory_order_relaxed);
  return TN_OK;
}

/* The first failure is the one to report. */
static tn_code abandon_recording(const stream *s, tn_code rc) {
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  (void)table->capture_end(table->ctx, s->queue, NULL, &error);
  return rc;
}

tn_code tn__recording_end(tn__token *token, tn_code rc, void **out) {
  const stream *s = tn__token_queue(token);
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  *out = NULL;
  atomic_store_explicit(&s->device->streams->recorder, 0, memory_order_relaxed);
  if (rc != TN_OK) return abandon_recording(s, rc);
  int32_t answer = table->capture_end(table->ctx, s->queue, out, &error);
  if (answer == TN_OK && *out == NULL) answer = TN_PLUGIN;
  if (answer == TN_OK) return TN_OK;
  *out = NULL;
  return tn__device_fail(s->device, answer, "recording", &error);
}

tn_code tn__recording_launch(tn__token *token, void *recording) {
  const stream *s = tn__token_queue(token);
  const tn_device *table = s->device->table;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t rc =
      table->graph_launch(table->ctx, recording, s->queue, &error);
  return rc == TN_OK
             ? TN_OK
             : tn__device_fail(s->device, rc, "launching a recording", &error);
}

void tn__recording_close(const tn__device *device, void *recording) {
  if (recording == NULL) return;
  device->table->graph_close(device->table->ctx, recording);
}

tn_code tn__device_ensure_open(tn__device *device) {
  if (atomic_load_explicit(&device->is_open, memory_order_acquire))
    return TN_OK;
  pthread_mutex_lock(&device->devices->lock);
  tn_code rc = TN_OK;
  if (!atomic_load_explicit(&device->is_open, memory_order_relaxed)) {
    rc = open_queues(device);
    if (rc == TN_OK)
      atomic_store_explicit(&device->is_open, 1, memory_order_release);
  }
  pthread_mutex_unlock(&device->devices->lock);
  return rc;
}
