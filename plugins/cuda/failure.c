/* SPDX-License-Identifier: Apache-2.0
 * failure.c: results of the driver as a code and a sentence. The host adds the
 * device and the operation.
 */
#include <stdio.h>

#include "devices.h"

/* Results after which the context, and with it all memory of the device, is
 * gone until the process ends: faults of kernels and of the hardware. */
static int is_final(int result) {
  static const int results[] = {
      214, /* ECC_UNCORRECTABLE */
      220, /* NVLINK_UNCORRECTABLE */
      226, /* CONTAINED */
      700, /* ILLEGAL_ADDRESS */
      702, /* LAUNCH_TIMEOUT */
      709, /* CONTEXT_IS_DESTROYED */
      710, /* ASSERT */
      714, /* HARDWARE_STACK_ERROR */
      715, /* ILLEGAL_INSTRUCTION */
      716, /* MISALIGNED_ADDRESS */
      717, /* INVALID_ADDRESS_SPACE */
      718, /* INVALID_PC */
      719, /* LAUNCH_FAILED */
      721, /* TENSOR_MEMORY_LEAK */
      810, /* MPS_CLIENT_TERMINATED */
      911, /* EXTERNAL_DEVICE */
      999, /* UNKNOWN: a GPU that fell off its bus, among others */
  };
  for (size_t i = 0; i < sizeof results / sizeof *results; ++i)
    if (results[i] == result) return 1;
  return 0;
}

int cuda_is_capture(int result) {
  return result >= CUDA_CAPTURE_FIRST && result <= CUDA_CAPTURE_LAST;
}

static int32_t convert_code(int result) {
  if (result == CUDA_OUT_OF_MEMORY) return TN_OUT_OF_MEMORY;
  if (cuda_is_capture(result)) return TN_BUSY; /* a later attempt may succeed */
  return result == CUDA_NOT_SUPPORTED ? TN_UNSUPPORTED : TN_DEVICE;
}

static int32_t report_lost(const cuda_device *device, int result,
                           tn_device_error *error) {
  char text[160];
  cuda_driver_describe(&device->instance->driver, result, text);
  (void)snprintf(error->text, sizeof error->text,
                 "%.150s; the GPU is lost to this process, and what it held is "
                 "gone: start the process again",
                 text);
  return TN_DEVICE;
}

int32_t cuda_fail(cuda_device *device, int result, tn_device_error *error) {
  int none = CUDA_OK;
  if (is_final(result)) {
    /* Keeps the first failure, which is the cause; later ones follow from
     * it. */
    if (!atomic_compare_exchange_strong(&device->lost, &none, result))
      result = none;
    return report_lost(device, result, error);
  }
  if (atomic_load(&device->lost) != CUDA_OK)
    return cuda_check_lost(device, error);
  cuda_driver_describe(&device->instance->driver, result, error->text);
  return convert_code(result);
}

/* Any query is enough: a broken context answers it with the reason. */
int32_t cuda_check_status(cuda_device *device, tn_device_error *error) {
  size_t left = 0, total = 0;
  int32_t code = cuda_enter(device, error);
  if (code != TN_OK) return code;
  const int result = device->instance->driver.memory_info(&left, &total);
  if (result != CUDA_OK) code = cuda_fail(device, result, error);
  cuda_leave(device);
  return code;
}

int32_t cuda_fail_between(cuda_device *device, cuda_device *other, int result,
                          tn_device_error *error) {
  if (other == device || !is_final(result) ||
      cuda_check_status(device, error) != TN_OK)
    return cuda_fail(device, result, error);
  return cuda_fail(other, result, error);
}

int32_t cuda_check_lost(cuda_device *device, tn_device_error *error) {
  const int result = atomic_load(&device->lost);
  return result == CUDA_OK ? TN_OK : report_lost(device, result, error);
}
