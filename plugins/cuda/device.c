/* SPDX-License-Identifier: Apache-2.0
 * device.c: the GPUs of this machine, and their contexts. A context costs
 * hundreds of megabytes and of milliseconds, so it is opened when a device is
 * first used, not when it is counted. It is the primary context, which the CUDA
 * runtime inside of companions and other libraries of the process use too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"

cuda_device *cuda_device_of(void *ctx, int32_t id) {
  const cuda_instance *instance = ctx;
  return &instance->devices[id];
}

/* ------------------------------------------------------- opening a context */

/* The device is current. */
static int open_current(cuda_device *device, cuda_context context) {
  const cuda_driver *driver = &device->instance->driver;
  cuda_context before = NULL;
  int result = driver->context_push(context);
  if (result != CUDA_OK) return result;
  result = cuda_memory_open(device);
  (void)driver->context_pop(&before);
  return result;
}

static int open_context(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  cuda_context context = NULL;
  int result = driver->context_retain(&context, device->handle);
  if (result != CUDA_OK) return result;
  result = open_current(device, context);
  if (result == CUDA_OK)
    atomic_store_explicit(&device->context, context, memory_order_release);
  else
    (void)driver->context_release(device->handle);
  return result;
}

static int ensure_context(cuda_device *device) {
  int result = CUDA_OK;
  if (atomic_load_explicit(&device->context, memory_order_acquire))
    return CUDA_OK;
  (void)pthread_mutex_lock(&device->lock);
  if (!atomic_load_explicit(&device->context, memory_order_relaxed))
    result = open_context(device);
  (void)pthread_mutex_unlock(&device->lock);
  return result;
}

/* Count of a thread's nested entries, in steps of ENTERED, plus its mode before
 * the first. */
enum { ENTERED = 4 };

static void ignore_others(const cuda_instance *instance) {
  uintptr_t state = (uintptr_t)pthread_getspecific(instance->entered);
  if (state == 0) {
    int mode = CUDA_CAPTURE_THREAD_LOCAL;
    if (instance->driver.capture_mode(&mode) == CUDA_OK)
      state = (uintptr_t)mode;
  }
  (void)pthread_setspecific(instance->entered, (void *)(state + ENTERED));
}

static void restore_foreign_context(const cuda_instance *instance) {
  uintptr_t state = (uintptr_t)pthread_getspecific(instance->entered) - ENTERED;
  if (state < ENTERED) {
    int mode = (int)state;
    (void)instance->driver.capture_mode(&mode);
    state = 0;
  }
  (void)pthread_setspecific(instance->entered, (void *)state);
}

static int push_context(cuda_device *device) {
  int result = ensure_context(device);
  if (result == CUDA_OK)
    result = device->instance->driver.context_push(
        atomic_load_explicit(&device->context, memory_order_relaxed));
  return result;
}

int32_t cuda_enter(cuda_device *device, tn_device_error *error) {
  const int32_t code = cuda_check_lost(device, error);
  if (code != TN_OK) return code;
  ignore_others(device->instance);
  const int result = push_context(device);
  if (result == CUDA_OK) return TN_OK;
  restore_foreign_context(device->instance);
  return cuda_fail(device, result, error);
}

void cuda_leave(const cuda_device *device) {
  cuda_context before = NULL;
  (void)device->instance->driver.context_pop(&before);
  restore_foreign_context(device->instance);
}

/* --------------------------------------------------------------- the table */

int32_t cuda_count(void *ctx, int32_t *out, tn_device_error *error) {
  const cuda_instance *instance = ctx;
  *out = instance->n_devices;
  (void)snprintf(error->text, sizeof error->text, "%s", instance->why);
  return TN_OK;
}

static int get_attribute(const cuda_device *device, int which) {
  int value = 0;
  (void)device->instance->driver.device_attribute(&value, which,
                                                  device->handle);
  return value;
}

/* Returns free memory only of devices that are in use: the query needs a
 * context. */
static uint64_t free_bytes(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  tn_device_error error = {.struct_size = sizeof error};
  size_t left = 0, total = 0;
  if (!atomic_load(&device->context) || cuda_enter(device, &error) != TN_OK)
    return 0;
  (void)driver->memory_info(&left, &total);
  cuda_leave(device);
  return left;
}

int32_t cuda_info(void *ctx, int32_t id, tn_device_info *out,
                  tn_device_error *error) {
  cuda_device *device = cuda_device_of(ctx, id);
  const cuda_driver *driver = &device->instance->driver;
  char bus[32] = "?";
  size_t total = 0;
  int result =
      driver->device_name(out->name, (int)sizeof out->name, device->handle);
  if (result == CUDA_OK) result = driver->device_memory(&total, device->handle);
  if (result != CUDA_OK) return cuda_fail(device, result, error);
  (void)driver->device_bus(bus, (int)sizeof bus, device->handle);
  out->device_id = id;
  out->memory_total = total;
  out->memory_free = free_bytes(device);
  (void)snprintf(out->detail, sizeof out->detail,
                 "sm_%d%d, driver for CUDA %d.%d, bus %s",
                 get_attribute(device, CUDA_COMPUTE_MAJOR),
                 get_attribute(device, CUDA_COMPUTE_MINOR),
                 driver->version / 1000, driver->version % 1000 / 10, bus);
  return TN_OK;
}

/* ---------------------------------------------------------- open and close */

static int fill_devices(cuda_instance *instance, int n) {
  int result = CUDA_OK;
  for (int32_t id = 0; id < n && result == CUDA_OK; ++id) {
    cuda_device *device = &instance->devices[id];
    device->instance = instance;
    device->id = id;
    (void)pthread_mutex_init(&device->lock, NULL);
    result = instance->driver.device_get(&device->handle, id);
    instance->n_devices = id + 1;
  }
  return result;
}

/* A machine without a working device is an answer, not a failure. */
static void report_none(cuda_instance *instance, int result) {
  char text[160];
  cuda_devices_close(instance);
  cuda_driver_describe(&instance->driver, result, text);
  (void)snprintf(instance->why, sizeof instance->why,
                 "the NVIDIA driver finds no GPU: %s", text);
}

int32_t cuda_devices_open(cuda_instance *instance) {
  int n = 0;
  instance->counts = pthread_key_create(&instance->entered, NULL) == 0;
  if (!instance->counts) return TN_OUT_OF_MEMORY;
  int result = instance->driver.device_count(&n);
  if (result == CUDA_OK && n == 0) result = CUDA_NO_DEVICE;
  if (result == CUDA_OK) {
    instance->devices = calloc((size_t)n, sizeof *instance->devices);
    if (!instance->devices) return TN_OUT_OF_MEMORY;
    result = fill_devices(instance, n);
  }
  if (result != CUDA_OK) report_none(instance, result);
  return TN_OK;
}

static void close_context(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  cuda_context context = atomic_load(&device->context);
  if (!context) return;
  if (driver->context_push(context) == CUDA_OK) {
    cuda_memory_close(device);
    (void)driver->context_pop(&context);
  }
  (void)driver->context_release(device->handle);
}

void cuda_devices_close(cuda_instance *instance) {
  for (int32_t id = 0; id < instance->n_devices; ++id) {
    close_context(&instance->devices[id]);
    (void)pthread_mutex_destroy(&instance->devices[id].lock);
  }
  free(instance->devices);
  instance->devices = NULL;
  instance->n_devices = 0;
  if (instance->counts) (void)pthread_key_delete(instance->entered);
  instance->counts = 0;
}
