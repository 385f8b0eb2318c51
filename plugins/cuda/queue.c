/* SPDX-License-Identifier: Apache-2.0
 * queue.c: queues are streams, fences are events. A function here waits for the
 * device only if device.h says so.
 */
#include <sched.h>
#include <stdlib.h>

#include "devices.h"

/* Polls of an event before a thread sleeps for it: most events are nearly done,
 * and waking a thread costs tens of microseconds. */
enum { LOOKS = 64 };

typedef cuda_queue queue;

typedef struct fence {
  cuda_device *device;
  cuda_event event;
} fence;

int32_t cuda_leave_with(cuda_device *device, int result,
                        tn_device_error *error) {
  cuda_leave(device);
  return result == CUDA_OK ? TN_OK : cuda_fail(device, result, error);
}

/* ------------------------------------------------------------------ queues */

static int open_stream(const cuda_device *device, int32_t priority,
                       cuda_stream *out) {
  const cuda_driver *driver = &device->instance->driver;
  int least = 0, greatest = 0;
  const int result = driver->context_priorities(&least, &greatest);
  if (result != CUDA_OK) return result;
  return driver->stream_create(out, CUDA_STREAM_NON_BLOCKING,
                               priority > 0 ? greatest : least);
}

int32_t cuda_queue_open(void *ctx, int32_t id, uint32_t purpose,
                        int32_t priority, void **out, tn_device_error *error) {
  cuda_device *device = cuda_device_of(ctx, id);
  (void)purpose; /* each has a stream of its own, so that copies overlap */
  queue *q = calloc(1, sizeof *q);
  if (!q) return TN_OUT_OF_MEMORY;
  q->device = device;
  int32_t code = cuda_enter(device, error);
  if (code == TN_OK)
    code = cuda_leave_with(device, open_stream(device, priority, &q->stream),
                           error);
  if (code == TN_OK)
    *out = q;
  else
    free(q);
  return code;
}

void cuda_queue_close(void *ctx, void *handle) {
  queue *q = handle;
  tn_device_error error = {.struct_size = sizeof error};
  (void)ctx;
  if (cuda_enter(q->device, &error) == TN_OK) {
    const cuda_driver *driver = &q->device->instance->driver;
    (void)driver->stream_synchronize(q->stream);
    (void)driver->stream_destroy(q->stream);
    cuda_leave(q->device);
  }
  free(q);
}

void *cuda_queue_stream(void *ctx, void *handle) {
  const queue *q = handle;
  (void)ctx;
  return q->stream;
}

static cuda_address to_address(const void *memory) {
  return (cuda_address)(uintptr_t)memory;
}

static cuda_context get_context(const cuda_instance *instance, int32_t id) {
  return atomic_load_explicit(&instance->devices[id].context,
                              memory_order_acquire);
}

static int enqueue_copy(const queue *q, const tn_copy *c) {
  const cuda_instance *instance = q->device->instance;
  const cuda_driver *driver = &instance->driver;
  const cuda_address to = to_address(c->to), from = to_address(c->from);
  if (c->from_type == TN_DEVICE_CPU)
    return driver->copy_in(to, c->from, c->bytes, q->stream);
  if (c->to_type == TN_DEVICE_CPU)
    return driver->copy_out(c->to, from, c->bytes, q->stream);
  if (c->to_id == c->from_id)
    return driver->copy_within(to, from, c->bytes, q->stream);
  return driver->copy_across(to, get_context(instance, c->to_id), from,
                             get_context(instance, c->from_id), c->bytes,
                             q->stream);
}

/* Enters the first device, unless the other one is lost: then no copy works. */
static int32_t enter_between(cuda_device *device, cuda_device *other,
                             tn_device_error *error) {
  const int32_t code = cuda_check_lost(other, error);
  return code == TN_OK ? cuda_enter(device, error) : code;
}

static int32_t leave_between(cuda_device *device, cuda_device *other,
                             int result, tn_device_error *error) {
  int32_t code = TN_OK;
  if (result != CUDA_OK) code = cuda_fail_between(device, other, result, error);
  cuda_leave(device);
  return code;
}

/* The device at the other end of a copy, if it is a GPU. */
static cuda_device *other_side(const queue *q, const tn_copy *c) {
  cuda_device *devices = q->device->instance->devices;
  if (c->from_type != TN_DEVICE_CPU && c->from_id != q->device->id)
    return &devices[c->from_id];
  if (c->to_type != TN_DEVICE_CPU && c->to_id != q->device->id)
    return &devices[c->to_id];
  return q->device;
}

int32_t cuda_copy(void *ctx, void *handle, const tn_copy *c,
                  tn_device_error *error) {
  const queue *q = handle;
  cuda_device *other = other_side(q, c);
  (void)ctx;
  const int32_t code = enter_between(q->device, other, error);
  if (code != TN_OK) return code;
  return leave_between(q->device, other, enqueue_copy(q, c), error);
}

int32_t cuda_fill(void *ctx, void *handle, void *memory, int32_t byte,
                  uint64_t bytes, tn_device_error *error) {
  const queue *q = handle;
  (void)ctx;
  const int32_t code = cuda_enter(q->device, error);
  if (code != TN_OK) return code;
  const int result = q->device->instance->driver.fill(
      to_address(memory), (unsigned char)byte, bytes, q->stream);
  return cuda_leave_with(q->device, result, error);
}

int32_t cuda_queue_sum(void *ctx, void *handle, const tn_device_sum *sum,
                       tn_device_error *error) {
  const queue *q = handle;
  (void)ctx;
  const int32_t code = cuda_enter(q->device, error);
  if (code != TN_OK) return code;
  return cuda_leave_with(q->device, cuda_sum(q->stream, sum), error);
}

/* ------------------------------------------------------------------ fences */

int32_t cuda_fence_open(void *ctx, int32_t id, void **out,
                        tn_device_error *error) {
  cuda_device *device = cuda_device_of(ctx, id);
  fence *f = calloc(1, sizeof *f);
  if (!f) return TN_OUT_OF_MEMORY;
  f->device = device;
  int32_t code = cuda_enter(device, error);
  if (code == TN_OK)
    code = cuda_leave_with(
        device,
        device->instance->driver.event_create(
            &f->event, CUDA_EVENT_BLOCKING | CUDA_EVENT_NO_TIMING),
        error);
  if (code == TN_OK)
    *out = f;
  else
    free(f);
  return code;
}

void cuda_fence_close(void *ctx, void *handle) {
  fence *f = handle;
  tn_device_error error = {.struct_size = sizeof error};
  (void)ctx;
  if (cuda_enter(f->device, &error) == TN_OK) {
    (void)f->device->instance->driver.event_destroy(f->event);
    cuda_leave(f->device);
  }
  free(f);
}

int32_t cuda_fence_record(void *ctx, void *handle, void *at,
                          tn_device_error *error) {
  const fence *f = handle;
  const queue *q = at;
  (void)ctx;
  const int32_t code = cuda_enter(q->device, error);
  if (code != TN_OK) return code;
  return cuda_leave_with(
      q->device, q->device->instance->driver.event_record(f->event, q->stream),
      error);
}

int32_t cuda_queue_wait(void *ctx, void *handle, void *what,
                        tn_device_error *error) {
  const queue *q = handle;
  const fence *f = what;
  (void)ctx;
  const int32_t code = enter_between(q->device, f->device, error);
  if (code != TN_OK) return code;
  const int result =
      q->device->instance->driver.stream_wait(q->stream, f->event, 0);
  return leave_between(q->device, f->device, result, error);
}

/* Queries an event. CUDA_NOT_READY may also mean a recording in another thread,
 * which forbids the query. */
static int query_event(const fence *f) {
  const int result = f->device->instance->driver.event_query(f->event);
  return cuda_is_capture(result) ? CUDA_NOT_READY : result;
}

/* A lost device executes nothing, so all its fences are done. */
int32_t cuda_fence_query(void *ctx, void *handle, int32_t *out,
                         tn_device_error *error) {
  const fence *f = handle;
  (void)ctx;
  *out = 1;
  const int32_t code = cuda_enter(f->device, error);
  if (code != TN_OK) return code;
  const int result = query_event(f);
  if (result == CUDA_NOT_READY) *out = 0;
  return cuda_leave_with(f->device, result == CUDA_NOT_READY ? CUDA_OK : result,
                         error);
}

int32_t cuda_fence_wait(void *ctx, void *handle, tn_device_error *error) {
  const fence *f = handle;
  const cuda_driver *driver = &f->device->instance->driver;
  (void)ctx;
  const int32_t code = cuda_enter(f->device, error);
  if (code != TN_OK) return code;
  int result = CUDA_NOT_READY;
  for (int i = 0; i < LOOKS && result == CUDA_NOT_READY; ++i)
    result = query_event(f);
  if (result == CUDA_NOT_READY) result = driver->event_synchronize(f->event);
  while (cuda_is_capture(result) || result == CUDA_NOT_READY) {
    (void)sched_yield();
    result = query_event(f);
  }
  return cuda_leave_with(f->device, result, error);
}
