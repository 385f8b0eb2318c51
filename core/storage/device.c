/* SPDX-License-Identifier: Apache-2.0
 * device.c: creates the devices of a runtime, adds types and destroys them all.
 * Threads find devices without a lock, because types are only appended, each
 * complete.
 */
#include <stdio.h>
#include <string.h>

#include "device_type.h"

/* ------------------------------------------------------------------- limits */

/* Writes the number of the type, which may have no name yet. */
static tn_code fail_limit(const tn_memory_limit *limit, size_t index,
                          const char *why) {
  const bool cpu = limit->device_type == TN_DEVICE_CPU;
  char type[16];
  (void)snprintf(type, sizeof type, "%d", limit->device_type);
  return tn__fail(TN_INVALID, "tn_options.memory_limits[%zu]: %s%s(%d) %s",
                  index, cpu ? "" : "device type ", cpu ? "cpu" : type,
                  limit->device_id, why);
}

static bool is_same_device(const tn_memory_limit *a, const tn_memory_limit *b) {
  return a->device_type == b->device_type && a->device_id == b->device_id;
}

/* Devices other than the cpu may be added later. */
static tn_code check_limits(const tn_memory_limit *limits, size_t n,
                            int32_t n_cpus) {
  for (size_t i = 0; i < n; ++i) {
    if (limits[i].device_type == TN_DEVICE_CPU && limits[i].device_id >= n_cpus)
      return fail_limit(
          &limits[i], i,
          "does not exist; tn_options.n_cpus is the number of cpus");
    if (limits[i].device_type <= 0 || limits[i].device_id < 0)
      return fail_limit(&limits[i], i, "is not a valid device");
    for (size_t j = 0; j < i; ++j)
      if (is_same_device(&limits[i], &limits[j]))
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

/* -------------------------------------------------------------------- types */

static tn_code fail_no_memory(void) {
  return tn__fail_memory(sizeof(tn__device), "a device");
}

static tn_code make_scratch(tn__device *device) {
  const uint32_t n =
      device->table == NULL ? TN__SCRATCH_CPU : TN__SCRATCH_DEVICE;
  device->spaces =
      tn__arena_alloc(&device->devices->arena, n * sizeof *device->spaces);
  if (device->spaces == NULL) return fail_no_memory();
  for (uint32_t i = 0; i < n; ++i) device->spaces[i].device = device;
  device->n_spaces = n;
  return TN_OK;
}

static tn_code make_device(tn__devices *devices, const tn__device_type *type,
                           int32_t id) {
  tn__device *device = &type->devices[id];
  device->env = devices->env;
  device->devices = devices;
  device->name = type->name;
  device->table = type->table;
  device->type = type->number;
  device->id = id;
  device->heap = tn__heap_create(device, TN_MEMORY_DEVICE, limit_of(device));
  device->staging = device->table == NULL
                        ? device->heap
                        : tn__heap_create(device, TN_MEMORY_HOST, UINT64_MAX);
  if (device->heap == NULL || device->staging == NULL) return fail_no_memory();
  return make_scratch(device);
}

static tn_code make_devices(tn__devices *devices, tn__device_type *type) {
  const size_t n = (size_t)type->count;
  type->devices = tn__arena_alloc(&devices->arena, n * sizeof *type->devices);
  if (type->devices == NULL) return fail_no_memory();
  for (int32_t id = 0; id < type->count; ++id)
    TN__TRY(make_device(devices, type, id));
  return TN_OK;
}

/* Finds the last type of the list, unless the type number or the name
 * exists. */
static tn_code find_end(tn__devices *devices, const tn_device *table,
                        tn__device_type **out) {
  tn__device_type *type = &devices->cpu;
  for (;;) {
    if (type->number == table->device_type || !strcmp(type->name, table->name))
      return tn__fail(TN_EXISTS,
                      "there are devices named \"%s\" of type %d already, so "
                      "\"%s\" of type %d cannot be added",
                      type->name, type->number, table->name,
                      table->device_type);
    tn__device_type *next =
        atomic_load_explicit(&type->next, memory_order_relaxed);
    if (next == NULL) break;
    type = next;
  }
  *out = type;
  return TN_OK;
}

static tn_code add_table(tn__devices *devices, const tn_device *table) {
  tn__device_type read = {0};
  tn__device_type *last = NULL;
  TN__TRY(tn__device_table_read(table, &read));
  TN__TRY(find_end(devices, table, &last));
  tn__device_type *type = tn__arena_alloc(&devices->arena, sizeof *type);
  if (type == NULL) return fail_no_memory();
  *type = read;
  TN__TRY(make_devices(devices, type));
  atomic_store_explicit(&last->next, type, memory_order_release);
  return TN_OK;
}

tn_code tn__devices_add(tn__devices *devices, const tn_device *table) {
  pthread_mutex_lock(&devices->lock);
  const tn_code rc = add_table(devices, table);
  pthread_mutex_unlock(&devices->lock);
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
  return devices->descriptors == NULL ? fail_no_memory() : TN_OK;
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
  devices->cpu = (tn__device_type){.name = "cpu",
                                   .number = TN_DEVICE_CPU,
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

/* The devices have finished, so nothing uses the scratch spaces any more. */
static void free_spaces(tn__device *device) {
  for (uint32_t i = 0; i < device->n_spaces; ++i) {
    tn__scratch_space *space = &device->spaces[i];
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
static void drain_queues(tn__device *device) {
  (void)!tn__device_drain(device, TN_QUEUE_COMPUTE);
  (void)!tn__device_drain(device, TN_QUEUE_COPY_IN);
  (void)!tn__device_drain(device, TN_QUEUE_COPY_OUT);
}

static void call_each(tn__devices *devices, void (*fn)(tn__device *device)) {
  for (tn__device_type *t = &devices->cpu; t != NULL; t = t->next)
    for (int32_t id = 0; t->devices != NULL && id < t->count; ++id)
      fn(&t->devices[id]);
}

/* All devices stop before any memory is freed. Fences are freed before
 * queues. */
void tn__devices_destroy(tn__devices *devices) {
  if (devices == NULL) return;
  call_each(devices, drain_queues);
  tn__deferred_retry(devices, true);
  call_each(devices, free_spaces);
  call_each(devices, free_heaps);
  tn__heap_deinit(devices->descriptors);
  tn__arena_deinit(&devices->arena);
  (void)pthread_cond_destroy(&devices->ended);
  (void)pthread_mutex_destroy(&devices->chunk_lock);
  (void)pthread_mutex_destroy(&devices->end_lock);
  (void)pthread_mutex_destroy(&devices->lock);
  tn__free(devices->env, devices);
}
