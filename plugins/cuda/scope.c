/* SPDX-License-Identifier: Apache-2.0
 * scope.c: "device.cuda/1": this plugin's devices for plugins that call another
 * library of CUDA.
 */
#include "devices.h"

static int32_t enter(const tn_device_scope *scope, int32_t id,
                     tn_device_error *error) {
  return cuda_enter(cuda_device_of(scope->data, id), error);
}

static void leave(const tn_device_scope *scope, int32_t id) {
  cuda_leave(cuda_device_of(scope->data, id));
}

/* Any question will do: a context that is broken answers it with the reason. */
static int32_t check(const tn_device_scope *scope, int32_t id,
                     tn_device_error *error) {
  cuda_device *device = cuda_device_of(scope->data, id);
  size_t left = 0, total = 0;
  const int result = device->instance->driver.memory_info(&left, &total);
  return result == CUDA_OK ? TN_OK : cuda_fail(device, result, error);
}

static int32_t sum(const tn_device_scope *scope, const tn_frame *call,
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

void cuda_scope_fill(cuda_instance *instance) {
  instance->scope = (tn_device_scope){.struct_size = sizeof(tn_device_scope),
                                      .device_type = TN_DEVICE_CUDA,
                                      .n_devices = instance->n_devices,
                                      .data = instance,
                                      .enter = enter,
                                      .leave = leave,
                                      .check = check,
                                      .sum = cuda_sum ? sum : NULL};
}
