/* SPDX-License-Identifier: Apache-2.0
 * memory.c: device memory, and pinned memory of the host.
 *
 * Device memory comes from a pool that this plugin creates. A stream with no
 * other work orders its allocations and releases, so neither waits for
 * computation. Freed memory has no users, as device.h demands; new memory is
 * valid when the stream is idle, which it almost always is. The host's device
 * heap keeps pieces for later requests of their size. Pieces that the heap
 * returns stay in the pool, which divides the same pages again, until memory is
 * short or the host trims.
 */
#include <string.h>

#include "devices.h"

static void *to_pointer(cuda_address address) {
  return (void *)(uintptr_t)address;
}

static cuda_address to_address(const void *memory) {
  return (cuda_address)(uintptr_t)memory;
}

/* -------------------------------------------------------------------- pool */

/* Lets other GPUs copy from and to the pool if the hardware can; otherwise the
 * driver copies through the host. */
static void give_access(const cuda_device *device) {
  const cuda_instance *instance = device->instance;
  for (int32_t id = 0; id < instance->n_devices; ++id) {
    const int peer = instance->devices[id].handle;
    const cuda_access access = {{CUDA_LOCATION_DEVICE, peer}, CUDA_READ_WRITE};
    int reaches = 0;
    if (id == device->id) continue;
    (void)instance->driver.device_reaches(&reaches, peer, device->handle);
    if (reaches) (void)instance->driver.pool_access(device->pool, &access, 1);
  }
}

static int open_pool(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  const cuda_pool_props props = {
      .alloc_type = CUDA_PINNED,
      .location = {CUDA_LOCATION_DEVICE, device->handle}};
  uint64_t threshold = UINT64_MAX;
  int has_pools = 0;
  int result =
      driver->device_attribute(&has_pools, CUDA_MEMORY_POOLS, device->handle);
  if (result != CUDA_OK || !has_pools) return result;
  result = driver->pool_create(&device->pool, &props);
  if (result != CUDA_OK) return result;
  give_access(device);
  return driver->pool_set(device->pool, CUDA_POOL_RELEASE_THRESHOLD,
                          &threshold);
}

int cuda_memory_open(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  int result =
      driver->stream_create(&device->memory, CUDA_STREAM_NON_BLOCKING, 0);
  if (result != CUDA_OK) return result;
  result = open_pool(device);
  if (result != CUDA_OK) cuda_memory_close(device);
  return result;
}

void cuda_memory_close(cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  if (device->memory) (void)driver->stream_synchronize(device->memory);
  if (device->pool) (void)driver->pool_destroy(device->pool);
  if (device->memory) (void)driver->stream_destroy(device->memory);
  device->pool = NULL;
  device->memory = NULL;
}

/* Bytes that the pool returned to the driver. */
static uint64_t shrink_pool(const cuda_device *device) {
  const cuda_driver *driver = &device->instance->driver;
  uint64_t before = 0, after = 0;
  if (!device->pool) return 0;
  (void)driver->stream_synchronize(device->memory);
  (void)driver->pool_get(device->pool, CUDA_POOL_RESERVED, &before);
  (void)driver->pool_trim(device->pool, 0);
  (void)driver->pool_get(device->pool, CUDA_POOL_RESERVED, &after);
  return before > after ? before - after : 0;
}

uint64_t cuda_trim(void *ctx, int32_t id) {
  cuda_device *device = cuda_device_of(ctx, id);
  tn_device_error error = {.struct_size = sizeof error};
  if (!atomic_load(&device->context) || cuda_enter(device, &error) != TN_OK)
    return 0;
  const uint64_t bytes = shrink_pool(device);
  cuda_leave(device);
  return bytes;
}

/* ---------------------------------------------------------- alloc and free */

static int allocate_pooled(const cuda_device *device, uint64_t bytes,
                           cuda_address *out) {
  const cuda_driver *driver = &device->instance->driver;
  int result = driver->pool_alloc(out, bytes, device->pool, device->memory);
  if (result != CUDA_OK) return result;
  result = driver->stream_synchronize(device->memory);
  if (result != CUDA_OK) (void)driver->pool_free(*out, device->memory);
  return result;
}

static int allocate_once(const cuda_device *device, uint64_t bytes,
                         cuda_address *out) {
  return device->pool ? allocate_pooled(device, bytes, out)
                      : device->instance->driver.memory_alloc(out, bytes);
}

/* Retries after a trim: the pieces that the pool keeps may be enough
 * together. */
static int allocate_device(const cuda_device *device, uint64_t bytes,
                           cuda_address *out) {
  const int result = allocate_once(device, bytes, out);
  if (result != CUDA_OUT_OF_MEMORY || shrink_pool(device) == 0) return result;
  return allocate_once(device, bytes, out);
}

static int allocate_shared(const cuda_device *device, uint64_t bytes,
                           cuda_address *out) {
  const cuda_driver *driver = &device->instance->driver;
  int managed = 0;
  (void)driver->device_attribute(&managed, CUDA_MANAGED_MEMORY, device->handle);
  return managed ? driver->managed_alloc(out, bytes, CUDA_ATTACH_GLOBAL)
                 : CUDA_NOT_SUPPORTED;
}

static int allocate_memory(const cuda_device *device, uint32_t kind,
                           uint64_t bytes, void **out) {
  cuda_address address = 0;
  int result;
  if (kind == TN_MEMORY_HOST)
    return device->instance->driver.host_alloc(out, bytes, CUDA_HOST_PORTABLE);
  result = kind == TN_MEMORY_SHARED ? allocate_shared(device, bytes, &address)
                                    : allocate_device(device, bytes, &address);
  if (result == CUDA_OK) *out = to_pointer(address);
  return result;
}

int32_t cuda_alloc(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                   void **out, tn_device_error *error) {
  cuda_device *device = cuda_device_of(ctx, id);
  int32_t code = cuda_enter(device, error);
  if (code != TN_OK) return code;
  const int result = allocate_memory(device, kind, bytes, out);
  cuda_leave(device);
  return result == CUDA_OK ? TN_OK : cuda_fail(device, result, error);
}

/* Nothing of a lost device can be freed. */
void cuda_free(void *ctx, int32_t id, uint32_t kind, void *memory) {
  cuda_device *device = cuda_device_of(ctx, id);
  const cuda_driver *driver = &device->instance->driver;
  tn_device_error error = {.struct_size = sizeof error};
  if (cuda_enter(device, &error) != TN_OK) return;
  if (kind == TN_MEMORY_HOST)
    (void)driver->host_free(memory);
  else if (kind == TN_MEMORY_DEVICE && device->pool)
    (void)driver->pool_free(to_address(memory), device->memory);
  else
    (void)driver->memory_free(to_address(memory));
  cuda_leave(device);
}
