/* SPDX-License-Identifier: Apache-2.0
 * scope.c: "device.cuda/1": offers this plugin's devices to plugins that call
 * another CUDA library.
 */
#include <string.h>
#include <time.h>

#include "devices.h"

enum { ROUNDS = 3, RUNS = 5 }; /* repetitions of work that is timed */

static int32_t enter_device(const tn_device_scope *scope, int32_t id,
                            tn_device_error *error) {
  return cuda_enter(cuda_device_of(scope->data, id), error);
}

static void leave_device(const tn_device_scope *scope, int32_t id) {
  cuda_leave(cuda_device_of(scope->data, id));
}

static int32_t check_device(const tn_device_scope *scope, int32_t id,
                            tn_device_error *error) {
  return cuda_check_status(cuda_device_of(scope->data, id), error);
}

static int32_t enqueue_sum(const tn_device_scope *scope, const tn_frame *call,
                           const tn_device_sum *what) {
  cuda_device *device = cuda_device_of(scope->data, call->run->device_id);
  tn_device_error error = {.struct_size = sizeof error};
  int32_t code = cuda_enter(device, &error);
  if (code == TN_OK) {
    const int result = cuda_sum(call->run->stream, what);
    cuda_leave(device);
    if (result != CUDA_OK) code = cuda_fail(device, result, &error);
  }
  return code == TN_OK ? TN_OK : TN_FAIL(call, code, "%s", error.text);
}

static int32_t get_info(const tn_device_scope *scope, int32_t id,
                        tn_device_info *out, tn_device_error *error) {
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  return cuda_info(scope->data, id, out, error);
}

static int32_t take_memory(const tn_device_scope *scope, int32_t id,
                           uint64_t bytes, void **out, tn_device_error *error) {
  *out = NULL;
  return cuda_alloc(scope->data, id, TN_MEMORY_DEVICE, bytes, out, error);
}

static void give_memory(const tn_device_scope *scope, int32_t id,
                        void *memory) {
  cuda_free(scope->data, id, TN_MEMORY_DEVICE, memory);
}

/* -------------------------------------------------------------------- time */

static uint64_t get_time(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Runs the work `n` times and waits for its end. */
static int32_t run_work(cuda_device *device, cuda_stream stream,
                        tn_device_work *work, void *arg, int n) {
  int32_t code = TN_OK;
  for (int i = 0; i < n && code == TN_OK; ++i) code = work(arg, stream);
  const int result = device->instance->driver.stream_synchronize(stream);
  return code == TN_OK && result != CUDA_OK ? TN_DEVICE : code;
}

/* The first run is not timed: it loads code and fills caches. */
static int32_t time_on(cuda_device *device, cuda_stream stream,
                       tn_device_work *work, void *arg, uint64_t *ns) {
  int32_t code = run_work(device, stream, work, arg, 1);
  *ns = UINT64_MAX;
  for (int round = 0; round < ROUNDS && code == TN_OK; ++round) {
    const uint64_t begin = get_time();
    code = run_work(device, stream, work, arg, RUNS);
    const uint64_t each = (get_time() - begin) / RUNS;
    if (each < *ns) *ns = each;
  }
  return code;
}

static int32_t time_work(const tn_device_scope *scope, int32_t id,
                         tn_device_work *work, void *arg, uint64_t *ns,
                         tn_device_error *error) {
  void *queue = NULL;
  int32_t code =
      cuda_queue_open(scope->data, id, TN_QUEUE_COMPUTE, 0, &queue, error);
  if (code != TN_OK) return code;
  code = time_on(cuda_device_of(scope->data, id),
                 cuda_queue_stream(scope->data, queue), work, arg, ns);
  cuda_queue_close(scope->data, queue);
  return code;
}

void cuda_scope_fill(cuda_instance *instance) {
  instance->scope = (tn_device_scope){.struct_size = sizeof(tn_device_scope),
                                      .device_type = TN_DEVICE_CUDA,
                                      .n_devices = instance->n_devices,
                                      .data = instance,
                                      .enter = enter_device,
                                      .leave = leave_device,
                                      .check = check_device,
                                      .sum = cuda_sum ? enqueue_sum : NULL,
                                      .info = get_info,
                                      .alloc = take_memory,
                                      .free = give_memory,
                                      .time = time_work};
}
