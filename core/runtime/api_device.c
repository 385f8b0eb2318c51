/* SPDX-License-Identifier: Apache-2.0
 * api_device.c: the functions of tenon.h about devices and their memory. Each
 * checks its arguments and calls core/storage.
 */
#include <string.h>

#include "runtime.h"

tn_code tn_place_parse(tn_runtime *rt, const char *text, tn_place *out) {
  tn__device *device = NULL;
  TN__REQUIRE(out);
  *out = (tn_place){0, 0};
  TN__REQUIRE(rt);
  TN__REQUIRE(text);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__device_parse(rt->devices, text, &device));
  *out = (tn_place){device->type, device->id};
  return TN_OK;
}

/* A program may know fewer fields than this library, or more. */
tn_code tn_memory_get(tn_runtime *rt, tn_place place, tn_memory *out) {
  tn__device *device = NULL;
  tn__heap_stats stats;
  TN__REQUIRE(rt);
  TN__REQUIRE(out);
  if (out->struct_size < offsetof(tn_memory, limit))
    return tn__fail(TN_INVALID,
                    "tn_memory.struct_size is %u; set it to sizeof(tn_memory)",
                    (unsigned)out->struct_size);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__device_find(rt->devices, place.device_type, place.device_id,
                          &device));
  tn__heap_stats_get(device, &stats);
  const tn_memory all = {.struct_size = out->struct_size,
                         .limit = stats.limit,
                         .live = stats.live,
                         .held = stats.held,
                         .peak_live = stats.peak_live,
                         .peak_held = stats.peak_held};
  size_t known = all.struct_size;
  memcpy(out, &all, known < sizeof all ? known : sizeof all);
  return TN_OK;
}

tn_code tn_memory_trim(tn_runtime *rt, tn_place place) {
  tn__device *device = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__device_find(rt->devices, place.device_type, place.device_id,
                          &device));
  (void)tn__heap_trim(device);
  return TN_OK;
}

tn_code tn_device_at(tn_runtime *rt, size_t index, tn_device_entry *out) {
  TN__REQUIRE(out);
  *out = (tn_device_entry){NULL, 0, 0, NULL};
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  TN__TRY(tn__devices_at(rt->devices, index, out));
  if (out->device_type == TN_DEVICE_CPU) out->detail = rt->device_detail;
  return TN_OK;
}
