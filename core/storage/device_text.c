/* SPDX-License-Identifier: Apache-2.0
 * device_text.c: writes and reads devices as text, "cpu" and "cuda(1)", and
 * finds devices. Messages of failed searches list the existing devices.
 */
#include <stdio.h>
#include <string.h>

#include "device_type.h"

const char *tn__device_text(const tn__device *device, char *to) {
  if (device->id == TN__NO_ID)
    (void)snprintf(to, TN__DEVICE_TEXT, "%.24s", device->name);
  else
    (void)snprintf(to, TN__DEVICE_TEXT, "%.24s(%d)", device->name, device->id);
  return to;
}

/* ------------------------------------------------------------------ finding */

static tn__device_type *get_next(const tn__device_type *type) {
  return atomic_load_explicit(&type->next, memory_order_acquire);
}

/* Appends the names of all types: "cpu, cuda". */
static void add_names(const tn__devices *devices) {
  for (const tn__device_type *t = &devices->cpu; t != NULL; t = get_next(t))
    (void)tn__fail_more(TN_NOT_FOUND, "%s%s", t == &devices->cpu ? "" : ", ",
                        t->name);
}

static tn_code fail_name(const tn__devices *devices, const char *name,
                         size_t n) {
  (void)tn__fail(TN_NOT_FOUND,
                 "there are no devices named \"%.*s\"; this runtime has ",
                 n > 40 ? 40 : (int)n, name);
  add_names(devices);
  return TN_NOT_FOUND;
}

static tn_code fail_type(const tn__devices *devices, int32_t type) {
  (void)tn__fail(TN_NOT_FOUND,
                 "there are no devices of type %d; this runtime has ", type);
  add_names(devices);
  return TN_NOT_FOUND;
}

static tn_code fail_id(const tn__device_type *type, int32_t id) {
  if (type->count == 0)
    return tn__fail(TN_NOT_FOUND, "there is no %s(%d): %s", type->name, id,
                    type->detail);
  if (type->count == 1)
    return tn__fail(TN_NOT_FOUND, "there is no %s(%d); %s(0) is the only one",
                    type->name, id, type->name);
  return tn__fail(TN_NOT_FOUND, "there is no %s(%d); there are %s(0) to %s(%d)",
                  type->name, id, type->name, type->name, type->count - 1);
}

static tn_code find_number(const tn__device_type *type, int32_t id,
                           tn__device **out) {
  if (id < 0 || id >= type->count) return fail_id(type, id);
  tn__device *device = &type->devices[id];
  TN__TRY(tn__device_ensure_open(device));
  *out = device;
  return TN_OK;
}

tn_code tn__device_find(tn__devices *devices, int32_t type, int32_t id,
                        tn__device **out) {
  *out = NULL;
  for (const tn__device_type *t = &devices->cpu; t != NULL; t = get_next(t))
    if (t->number == type) return find_number(t, id, out);
  return fail_type(devices, type);
}

tn_code tn__devices_at(tn__devices *devices, size_t index,
                       tn_device_entry *out) {
  const tn__device_type *type = &devices->cpu;
  for (size_t i = 0; i < index && type != NULL; ++i) type = get_next(type);
  *out = (tn_device_entry){0};
  if (type == NULL)
    return tn__fail(TN_NOT_FOUND, "there is no device type number %zu", index);
  *out = (tn_device_entry){type->name, type->number, type->count, type->detail};
  return TN_OK;
}

/* ------------------------------------------------------------------ reading */

static tn_code fail_text(const char *text, const char *why) {
  return tn__fail(TN_INVALID,
                  "\"%.80s\" is not a device: %s; write cpu or cuda(1)", text,
                  why);
}

/* Reads the number in "(12)", to the end of the text. */
static tn_code read_id(const char *text, const char *at, int32_t *out) {
  int32_t id = 0;
  const char *digit = at + 1;
  for (; *digit >= '0' && *digit <= '9'; ++digit) {
    if (id > 99999) return fail_text(text, "its number is too large");
    id = 10 * id + (*digit - '0');
  }
  if (digit == at + 1)
    return fail_text(text, "write a number from 0 between ( and )");
  if (digit[0] != ')') return fail_text(text, "a ) must follow its number");
  if (digit[1] != '\0') return fail_text(text, "nothing may follow the )");
  *out = id;
  return TN_OK;
}

tn_code tn__device_parse(tn__devices *devices, const char *text,
                         tn__device **out) {
  const size_t n = strcspn(text, "(");
  int32_t id = 0;
  *out = NULL;
  if (n == 0) return fail_text(text, "it has no name");
  if (text[n] == '(') TN__TRY(read_id(text, text + n, &id));
  for (const tn__device_type *t = &devices->cpu; t != NULL; t = get_next(t))
    if (strlen(t->name) == n && !memcmp(t->name, text, n))
      return find_number(t, id, out);
  return fail_name(devices, text, n);
}
