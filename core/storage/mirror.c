/* SPDX-License-Identifier: Apache-2.0
 * mirror.c: memory of a device that follows memory of the host. Each copy reads
 * a slot of its own, in memory that the device reads fast. So the host may
 * write the next values while copies are pending. There are as many slots as
 * the largest number of copies that were pending at one time.
 */
#include <string.h>

#include "device_type.h"

enum { MOST_SLOTS = 64 };

/* The source of one copy. */
typedef struct slot {
  void *memory;
  void *fence; /* recorded after its last copy; NULL: no copy to wait for */
} slot;

struct tn__mirror {
  tn__device *device;
  size_t bytes;
  char *current; /* the values that the caller writes */
  char *sent;    /* the values of the last copy */
  bool is_sent;
  void *on_device; /* on the device */
  uint32_t n_slots;
  uint32_t next; /* the slot with the oldest copy */
  slot slots[MOST_SLOTS];
};

static const char purpose[] = "the values that change between runs";

void tn__mirror_free(tn__mirror *mirror) {
  if (mirror == NULL) return;
  for (uint32_t i = 0; i < mirror->n_slots; ++i) {
    if (mirror->slots[i].fence != NULL)
      tn__device_fence_drop(mirror->slots[i].fence);
    tn__piece_free(mirror->device->staging, mirror->slots[i].memory,
                   mirror->bytes);
  }
  tn__heap_free(mirror->device, mirror->on_device, mirror->bytes);
  tn__free(mirror->device->env, mirror->current);
  tn__free(mirror->device->env, mirror);
}

static tn_code add_slot(tn__mirror *mirror) {
  slot *s = &mirror->slots[mirror->n_slots];
  TN__TRY(tn__piece_alloc(mirror->device->staging, mirror->bytes, purpose,
                          &s->memory));
  s->fence = NULL;
  mirror->next = mirror->n_slots++;
  return TN_OK;
}

tn_code tn__mirror_create(tn__device *device, size_t bytes, tn__mirror **out) {
  tn__mirror *mirror = tn__zalloc(device->env, sizeof *mirror);
  *out = NULL;
  if (mirror == NULL) return tn__fail_memory(sizeof *mirror, purpose);
  mirror->device = device;
  mirror->bytes = bytes;
  mirror->current = tn__zalloc(device->env, 2 * bytes);
  tn_code rc =
      mirror->current != NULL ? TN_OK : tn__fail_memory(2 * bytes, purpose);
  if (rc == TN_OK)
    rc = tn__heap_alloc(device, bytes, purpose, &mirror->on_device);
  if (rc == TN_OK) rc = add_slot(mirror);
  if (rc != TN_OK) {
    tn__mirror_free(mirror);
    return rc;
  }
  mirror->sent = mirror->current + bytes;
  *out = mirror;
  return TN_OK;
}

void *tn__mirror_host(const tn__mirror *mirror) {
  return mirror->current;
}

void *tn__mirror_device(const tn__mirror *mirror) {
  return mirror->on_device;
}

/* A failure on the queue is reported by the thread that waits for the queue. */
static bool is_over(const slot *s) {
  bool done = true;
  return s->fence == NULL || tn__device_fence_query(s->fence, &done) != TN_OK ||
         done;
}

/* Returns the oldest slot if its copy is complete, otherwise a new slot. If
 * there is no memory for a new slot, or there are enough, waits for the oldest
 * copy. */
static slot *get_slot(tn__mirror *mirror) {
  if (!is_over(&mirror->slots[mirror->next]) &&
      (mirror->n_slots == MOST_SLOTS || add_slot(mirror) != TN_OK))
    (void)tn__device_fence_wait(mirror->slots[mirror->next].fence);
  slot *s = &mirror->slots[mirror->next];
  if (s->fence != NULL) tn__device_fence_drop(s->fence);
  s->fence = NULL;
  return s;
}

static tn_code send_copy(tn__mirror *mirror, slot *from, tn__token *token) {
  const tn__device *device = mirror->device;
  const tn_copy copy = {.struct_size = sizeof copy,
                        .to = mirror->on_device,
                        .from = from->memory,
                        .bytes = mirror->bytes,
                        .to_type = device->type,
                        .to_id = device->id,
                        .from_type = TN_DEVICE_CPU};
  memcpy(from->memory, mirror->current, mirror->bytes);
  TN__TRY(tn__device_copy(token, &copy));
  TN__TRY(tn__device_fence_record(tn__token_queue(token), &from->fence));
  mirror->next = (mirror->next + 1) % mirror->n_slots;
  return TN_OK;
}

tn_code tn__mirror_push(tn__mirror *mirror, tn__token *token) {
  if (mirror->is_sent &&
      memcmp(mirror->current, mirror->sent, mirror->bytes) == 0)
    return TN_OK;
  mirror->is_sent = false;
  TN__TRY(send_copy(mirror, get_slot(mirror), token));
  memcpy(mirror->sent, mirror->current, mirror->bytes);
  mirror->is_sent = true;
  return TN_OK;
}
