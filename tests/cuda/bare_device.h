/* SPDX-License-Identifier: Apache-2.0
 * bare_device.h: device 0 of the simulated driver without a runtime, for tests
 * that call functions of plugins/cuda: a queue, memory, and copies.
 */
#ifndef TENON_TESTS_CUDA_BARE_DEVICE_H_
#define TENON_TESTS_CUDA_BARE_DEVICE_H_

#include <criterion/criterion.h>

#include "../must.h"
#include "devices.h"
#include "fake_cuda.h"

/* Fails the test with the device's own text unless `call` returns TN_OK. */
#define DEVICE_OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, error.text)

typedef struct bare_device {
  cuda_instance cuda;
  void *queue;
  char *memory; /* of the device */
} bare_device;

/* Starts the driver with one device, and allocates `bytes` of its memory. */
static inline void open_bare(bare_device *d, uint64_t seed, uint64_t bytes) {
  tn_device_error error = {.struct_size = sizeof error};
  char why[256];
  fake_cuda_begin(&(fake_cuda_options){.devices = 1, .seed = seed});
  cr_assert(cuda_driver_open(&d->cuda.driver, cuda_driver_names, why), "%s",
            why);
  DEVICE_OK(cuda_devices_open(&d->cuda));
  DEVICE_OK(
      cuda_queue_open(&d->cuda, 0, TN_QUEUE_COMPUTE, 0, &d->queue, &error));
  DEVICE_OK(cuda_alloc(&d->cuda, 0, TN_MEMORY_DEVICE, bytes,
                       (void **)&d->memory, &error));
}

/* Frees the queue and the memory. */
static inline void free_bare(bare_device *d) {
  cuda_queue_close(&d->cuda, d->queue);
  cuda_free(&d->cuda, 0, TN_MEMORY_DEVICE, d->memory);
}

/* Ends the driver, after free_bare; a broken rule ends the process. */
static inline void close_bare(bare_device *d) {
  cuda_devices_close(&d->cuda);
  must_be_silent(fake_cuda_end());
}

/* Enqueues a copy and waits for it. */
static inline void copy_bytes(bare_device *d, const tn_copy *copy) {
  tn_device_error error = {.struct_size = sizeof error};
  void *fence = NULL;
  DEVICE_OK(cuda_copy(&d->cuda, d->queue, copy, &error));
  DEVICE_OK(cuda_fence_open(&d->cuda, 0, &fence, &error));
  DEVICE_OK(cuda_fence_record(&d->cuda, fence, d->queue, &error));
  DEVICE_OK(cuda_fence_wait(&d->cuda, fence, &error));
  cuda_fence_close(&d->cuda, fence);
}

/* From the host to the device. */
static inline void put_bytes(bare_device *d, void *to, const void *from,
                             uint64_t bytes) {
  copy_bytes(d, &(tn_copy){.struct_size = sizeof(tn_copy),
                           .to = to,
                           .from = from,
                           .bytes = bytes,
                           .to_type = TN_DEVICE_CUDA,
                           .from_type = TN_DEVICE_CPU});
}

/* From the device to the host. */
static inline void get_bytes(bare_device *d, void *to, const void *from,
                             uint64_t bytes) {
  copy_bytes(d, &(tn_copy){.struct_size = sizeof(tn_copy),
                           .to = to,
                           .from = from,
                           .bytes = bytes,
                           .to_type = TN_DEVICE_CPU,
                           .from_type = TN_DEVICE_CUDA});
}

#endif /* TENON_TESTS_CUDA_BARE_DEVICE_H_ */
