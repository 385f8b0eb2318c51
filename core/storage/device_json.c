/* SPDX-License-Identifier: Apache-2.0
 * device_json.c: describes devices and their memory as JSON. Takes no lock but
 * those of heaps, which are held for a few instructions.
 */
#include <inttypes.h>

#include "device_type.h"

static void add_number(tn__buf *out, const char *key, uint64_t value) {
  tn__buf_add(out, ", \"%s\": %" PRIu64, key, value);
}

static void add_device(tn__device *device, tn__buf *out) {
  char name[TN__DEVICE_TEXT];
  tn__heap_stats s, staging = {0};
  tn__heap_get_stats(device->heap, &s);
  if (device->staging != device->heap)
    tn__heap_get_stats(device->staging, &staging);
  const bool open = atomic_load(&device->is_open) != 0;
  tn__buf_add(out, "{\"name\": \"%s\", \"open\": %s",
              tn__device_text(device, name), open ? "true" : "false");
  if (s.limit == UINT64_MAX)
    tn__buf_add(out, ", \"limit\": null");
  else
    add_number(out, "limit", s.limit);
  add_number(out, "live", s.live);
  add_number(out, "held", s.held);
  add_number(out, "peak_live", s.peak_live);
  add_number(out, "peak_held", s.peak_held);
  add_number(out, "pieces", s.n_allocated + s.n_reused - s.n_freed);
  add_number(out, "staging", staging.held);
  tn__buf_add(out, "}");
}

void tn__devices_json(tn__devices *devices, tn__buf *out) {
  const char *separator = "";
  tn__buf_add(out, "[");
  for (tn__device_type *type = &devices->cpu; type != NULL;
       type = atomic_load_explicit(&type->next, memory_order_acquire))
    for (int32_t id = 0; id < type->count; ++id) {
      tn__buf_add(out, "%s", separator);
      add_device(&type->devices[id], out);
      separator = ", ";
    }
  tn__buf_add(out, "]");
}

uint64_t tn__devices_count_arrays(tn__devices *devices) {
  tn__heap_stats s;
  tn__heap_get_stats(devices->descriptors, &s);
  return s.n_users;
}
