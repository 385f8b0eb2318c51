/* SPDX-License-Identifier: Apache-2.0
 * device.c: the devices of a runtime, from the first to the last. They are
 * found without a lock: families are only ever added, each complete.
 */
#include <stdio.h>
#include <string.h>

#include "family.h"

/* ------------------------------------------------------------------- limits */

/* Its type may have no name yet. */
static tn_code fail_limit(const tn_memory_limit *limit, size_t index,
                          const char *why) {
  const bool cpu = limit->device_type == TN_DEVICE_CPU;
  char type[16];
  (void)snprintf(type, sizeof type, "%d", limit->device_type);
  return tn__fail(TN_INVALID, "tn_options.memory_limits[%zu]: %s%s(%d) %s",
                  index, cpu ? "" : "device type ", cpu ? "cpu" : type,
                  limit->device_id, why);
}

static bool same_device(const tn_memory_limit *a, const tn_memory_limit *b) {
  return a->device_type == b->device_type && a->device_id == b->device_id;
}

/* Other devices than the cpu may come later. */
static tn_code check_limits(const tn_memory_limit *limits, size_t n,
                            int32_t n_cpus) {
  for (size_t i = 0; i < n; ++i) {
    if (limits[i].device_type == TN_DEVICE_CPU && limits[i].device_id >= n_cpus)
      return fail_limit(&limits[i], i,
                        "is not there; tn_options.n_cpus says how many are");
    if (limits[i].device_type <= 0 || limits[i].device_id < 0)
      return fail_limit(&limits[i], i, "cannot be");
    for (size_t j = 0; j < i; ++j)
      if (same_device(&limits[i], &limits[j]))
        return fail_limit(&limits[i], i,
                          "is limited twice; give one entry for each device");
  }
  return TN_OK;
}

static uint64_t limit_of(const tn__device *device) {
  const tn__devices *devices = device->devices;
  for (size_t i = 0; i < devices->n_limits; ++i) {
    const tn_memory_limit *limit = &devices->limits[i];
    if (limit->device_type == device->type && limit->device_id == device->id)
      return limit->bytes;
  }
  return UINT64_MAX;
}

/* ----------------------------------------------------------------- families */

static tn_code fail_memory(void) {
  return tn__fail_memory(sizeof(tn__device), "a device");
}

static tn_code make_spaces(tn__device *device) {
  const uint32_t n = device->table == NULL ? TN__SPACES_CPU : TN__SPACES_DEVICE;
  device->spaces =
      tn__arena_alloc(&device->devices->arena, n * sizeof *device->spaces);
  if (device->spaces == NULL) return fail_memory();
  for (uint32_t i = 0; i < n; ++i) device->spaces[i].device = device;
  device->n_spaces = n;
  return TN_OK;
}

static tn_code make_device(tn__devices *devices, const tn__family *family,
                           int32_t id) {
  tn__device *device = &family->devices[id];
  device->env = devices->env;
  device->devices = devices;
  device->name = family->name;
  device->table = family->table;
  device->type = family->type;
  device->id = id;
  device->heap = tn__heap_create(device, TN_MEMORY_DEVICE, limit_of(device));
  device->staging = device->table == NULL
                        ? device->heap
                        : tn__heap_create(device, TN_MEMORY_HOST, UINT64_MAX);
  if (device->heap == NULL || device->staging == NULL) return fail_memory();
  return make_spaces(device);
}

static tn_code make_devices(tn__devices *devices, tn__family *family) {
  const size_t n = (size_t)family->count;
  family->devices =
      tn__arena_alloc(&devices->arena, n * sizeof *family->devices);
  if (family->devices == NULL) return fail_memory();
  for (int32_t id = 0; id < family->count; ++id)
    TN__TRY(make_device(devices, family, id));
  return TN_OK;
}

/* The last of the list, unless the type or the name is there already. */
static tn_code find_end(tn__devices *devices, const tn_device *table,
                        tn__family **out) {
  tn__family *family = &devices->cpu;
  for (;;) {
    if (family->type == table->device_type ||
        !strcmp(family->name, table->name))
      return tn__fail(TN_EXISTS,
                      "there are devices named \"%s\" of type %d already, so "
                      "\"%s\" of type %d cannot be added",
                      family->name, family->type, table->name,
                      table->device_type);
    tn__family *next =
        atomic_load_explicit(&family->next, memory_order_relaxed);
    if (next == NULL) break;
    family = next;
  }
  *out = family;
  return TN_OK;
}

static tn_code add(tn__devices *devices, const tn_device *table) {
  tn__family read = {0};
  tn__family *last = NULL;
  TN__TRY(tn__table_read(table, &read));
  TN__TRY(find_end(devices, table, &last));
  tn__family *family = tn__arena_alloc(&devices->arena, sizeof *family);
  if (family == NULL) return fail_memory();
  *family = read;
  TN__TRY(make_devices(devices, family));
  atomic_store_explicit(&last->next, family, memory_order_release);
  return TN_OK;
}

tn_code tn__devices_add(tn__devices *devices, const tn_device *table) {
  pthread_mutex_lock(&devices->lock);
  const tn_code rc = add(devices, table);
  pthread_mutex_unlock(&devices->lock);
  return rc;
}

tn_code tn__device_ready(tn__device *device) {
  if (atomic_load_explicit(&device->is_open, memory_order_acquire))
    return TN_OK;
  pthread_mutex_lock(&device->devices->lock);
  tn_code rc = TN_OK;
  if (!atomic_load_explicit(&device->is_open, memory_order_relaxed)) {
    rc = tn__device_open(device);
    if (rc == TN_OK)
      atomic_store_explicit(&device->is_open, 1, memory_order_release);
  }
  pthread_mutex_unlock(&device->devices->lock);
  return rc;
}

/* ------------------------------------------------------- create and destroy */

static tn_code make_parts(tn__devices *devices, const tn_memory_limit *limits) {
  const size_t bytes = devices->n_limits * sizeof *limits;
  TN__TRY(check_limits(limits, devices->n_limits, devices->cpu.count));
  devices->limits = tn__arena_alloc(&devices->arena, bytes);
  if (devices->limits == NULL)
    return tn__fail_memory(bytes, "the memory limits");
  if (bytes > 0) memcpy(devices->limits, limits, bytes);
  TN__TRY(make_devices(devices, &devices->cpu));
  tn__device *cpus = devices->cpu.devices;
  for (int32_t id = 0; id < devices->cpu.count; ++id)
    atomic_init(&cpus[id].is_open, 1);
  devices->descriptors = tn__heap_create(cpus, TN_MEMORY_DEVICE, UINT64_MAX);
  return devices->descriptors == NULL ? fail_memory() : TN_OK;
}

tn_code tn__devices_create(const tn__env *env, uint32_t n_cpus,
                           const tn_memory_limit *limits, size_t n_limits,
                           tn__devices **out) {
  tn__devices *devices = tn__zalloc(env, sizeof *devices);
  *out = NULL;
  if (devices == NULL)
    return tn__fail_memory(sizeof *devices, "the devices of a runtime");
  devices->env = env;
  devices->n_limits = n_limits;
  devices->cpu = (tn__family){.name = "cpu",
                              .type = TN_DEVICE_CPU,
                              .count = n_cpus ? (int32_t)n_cpus : 1};
  tn__arena_init(&devices->arena, env);
  (void)pthread_mutex_init(&devices->lock, NULL);
  (void)pthread_mutex_init(&devices->end_lock, NULL);
  (void)pthread_mutex_init(&devices->chunk_lock, NULL);
  (void)pthread_cond_init(&devices->ended, NULL);
  const tn_code rc = make_parts(devices, limits);
  if (rc != TN_OK) {
    tn__devices_destroy(devices);
    return rc;
  }
  *out = devices;
  return TN_OK;
}

/* Devices are done: nothing uses the spaces any more. */
static void free_spaces(tn__device *device) {
  for (uint32_t i = 0; i < device->n_spaces; ++i) {
    tn__space *space = &device->spaces[i];
    tn__var_deinit(&space->var);
    tn__heap_free(device, space->data, space->bytes);
  }
}

static void free_heaps(tn__device *device) {
  tn__device_close(device);
  tn__heap_deinit(device->heap);
  if (device->table != NULL) tn__heap_deinit(device->staging);
}

/* A device that fails to drain has stopped for good. */
static void drain(tn__device *device) {
  (void)!tn__device_drain(device, TN_QUEUE_COMPUTE);
  (void)!tn__device_drain(device, TN_QUEUE_COPY_IN);
  (void)!tn__device_drain(device, TN_QUEUE_COPY_OUT);
}

static void for_each(tn__devices *devices, void (*fn)(tn__device *device)) {
  for (tn__family *f = &devices->cpu; f != NULL; f = f->next)
    for (int32_t id = 0; f->devices != NULL && id < f->count; ++id)
      fn(&f->devices[id]);
}

/* All devices stop before any memory goes, and fences go before queues. */
void tn__devices_destroy(tn__devices *devices) {
  if (devices == NULL) return;
  for_each(devices, drain);
  tn__late_retry(devices, true);
  for_each(devices, free_spaces);
  for_each(devices, free_heaps);
  tn__heap_deinit(devices->descriptors);
  tn__arena_deinit(&devices->arena);
  (void)pthread_cond_destroy(&devices->ended);
  (void)pthread_mutex_destroy(&devices->chunk_lock);
  (void)pthread_mutex_destroy(&devices->end_lock);
  (void)pthread_mutex_destroy(&devices->lock);
  tn__free(devices->env, devices);
}
