/* SPDX-License-Identifier: Apache-2.0
 * device_table.c: checks the table of a device plugin. The fields and the
 * descriptions of the devices are checked once, here. Answers of other
 * functions are checked by their callers.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "device_type.h"

enum { NAME_MAX_BYTES = 24, COUNT_MAX = 1024 };

static tn_code check_name(const tn_device *table) {
  const char *name = table->name;
  size_t n = 0;
  if (name == NULL)
    return tn__fail(TN_PLUGIN, "the device table for type %d has no name",
                    table->device_type);
  while (n <= NAME_MAX_BYTES && name[n] != '\0' &&
         strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name[n]))
    ++n;
  if (n <= NAME_MAX_BYTES && name[n] == '\0' && *name >= 'a' && *name <= 'z')
    return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the device name \"%.32s\" is not 1 to %d of a-z, 0-9 and _ "
                  "with a letter first",
                  name, NAME_MAX_BYTES);
}

/* The required functions, in the order of the struct. */
static tn_code check_functions(const tn_device *t) {
  const struct {
    bool is_set;
    const char *name;
  } functions[] = {
      {t->count, "count"},
      {t->info, "info"},
      {t->alloc, "alloc"},
      {t->free, "free"},
      {t->queue_open, "queue_open"},
      {t->queue_close, "queue_close"},
      {t->queue_stream, "queue_stream"},
      {t->copy, "copy"},
      {t->fill, "fill"},
      {t->fence_open, "fence_open"},
      {t->fence_close, "fence_close"},
      {t->fence_record, "fence_record"},
      {t->queue_wait, "queue_wait"},
      {t->fence_query, "fence_query"},
      {t->fence_wait, "fence_wait"},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
    if (!functions[i].is_set)
      return tn__fail(TN_PLUGIN, "the device table \"%s\" has no function %s",
                      t->name, functions[i].name);
  return TN_OK;
}

/* The functions for recording are all present, or none is. */
static tn_code check_recording(const tn_device *t) {
  const size_t all = offsetof(tn_device, graph_close) + sizeof t->graph_close;
  if (t->struct_size < all) return TN_OK;
  const int n = !!t->capture_begin + !!t->capture_end + !!t->graph_launch +
                !!t->graph_close;
  if (n == 0 || n == 4) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the device table \"%s\" has %d of the functions "
                  "capture_begin, capture_end, graph_launch and graph_close; "
                  "give all of them, or none",
                  t->name, n);
}

static tn_code check_fields(const tn_device *table) {
  const size_t least = offsetof(tn_device, sum);
  if (table->struct_size < least)
    return tn__fail(TN_PLUGIN,
                    "a device table's struct_size is %u, but tn_device of "
                    "\"" TN_DEVICE_EXTENSION
                    "\" has at least %zu bytes; compile the "
                    "plugin with this release's device.h",
                    (unsigned)table->struct_size, least);
  TN__TRY(check_name(table));
  if (table->device_type <= 0)
    return tn__fail(TN_PLUGIN,
                    "the device table \"%s\" is for device type %d; types are "
                    "the numbers of DLPack, from 1",
                    table->name, table->device_type);
  TN__TRY(check_functions(table));
  return check_recording(table);
}

tn_code tn__device_fail(const tn__device *device, int32_t code,
                        const char *doing, const tn_device_error *error) {
  char name[TN__DEVICE_TEXT];
  const int n = (int)sizeof error->text - 1;
  if (code > 0 || code < TN_INTERNAL) code = TN_DEVICE;
  return tn__fail(code, "%s: %s failed: %.*s", tn__device_text(device, name),
                  doing, n, error->text[0] ? error->text : "no reason given");
}

/* ------------------------------------------------------------------ answers */

static tn_code read_count(const tn_device *table, tn__device_type *type) {
  tn_device_error error = {.struct_size = sizeof error};
  const tn__device none = {.name = table->name, .id = TN__NO_ID};
  int32_t n = -1;
  const int32_t rc = table->count(table->ctx, &n, &error);
  if (rc != TN_OK)
    return tn__device_fail(&none, rc, "counting the devices", &error);
  if (n < 0 || n > COUNT_MAX)
    return tn__fail(TN_PLUGIN,
                    "the device table \"%s\" reports %d devices; "
                    "the number must be between 0 and %d",
                    table->name, n, COUNT_MAX);
  error.text[sizeof error.text - 1] = '\0';
  type->count = n;
  (void)snprintf(type->detail, sizeof type->detail, "%s",
                 n == 0 && !error.text[0] ? "no reason given" : error.text);
  return TN_OK;
}

static tn_code read_info(const tn_device *table, int32_t id,
                         tn_device_info *out) {
  tn_device_error error = {.struct_size = sizeof error};
  const tn__device device = {.name = table->name, .id = id};
  *out = (tn_device_info){.struct_size = sizeof *out, .device_id = id};
  const int32_t rc = table->info(table->ctx, id, out, &error);
  if (rc != TN_OK)
    return tn__device_fail(&device, rc, "describing the device", &error);
  out->name[sizeof out->name - 1] = '\0';
  out->detail[sizeof out->detail - 1] = '\0';
  if (out->device_id == id) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the device table \"%s\" describes device %d as device %d",
                  table->name, id, out->device_id);
}

/* Checks all devices. The detail is that of the first. */
static tn_code read_infos(const tn_device *table, tn__device_type *type) {
  tn_device_info info;
  for (int32_t id = type->count; id-- > 0;)
    TN__TRY(read_info(table, id, &info));
  if (type->count == 0) return TN_OK;
  (void)snprintf(type->detail, sizeof type->detail,
                 "%s, %" PRIu64 " MiB%s%.100s", info.name,
                 info.memory_total >> 20, info.detail[0] ? ", " : "",
                 info.detail);
  return TN_OK;
}

tn_code tn__device_table_read(const tn_device *table, tn__device_type *type) {
  TN__TRY(check_fields(table));
  type->table = table;
  type->name = table->name;
  type->number = table->device_type;
  TN__TRY(read_count(table, type));
  return read_infos(table, type);
}
