/* SPDX-License-Identifier: Apache-2.0
 * feed.c: memory of a device that follows memory of the host. Each copy is made
 * from a slot of its own, in memory that the device reads fast, so that the
 * host may write the next values while copies are still on their way. There are
 * as many slots as copies have ever been on their way at one time.
 */
#include <string.h>

#include "family.h"

enum { MOST_SLOTS = 64 };

/* What one copy is made from. */
typedef struct slot {
  void *memory;
  void *point; /* behind its last copy; NULL: there is none to wait for */
} slot;

struct tn__feed {
  tn__device *device;
  size_t bytes;
  char *now;  /* what the caller writes */
  char *sent; /* what the device will have */
  bool is_sent;
  void *there; /* on the device */
  uint32_t n_slots;
  uint32_t next; /* the slot that was used longest ago */
  slot slots[MOST_SLOTS];
};

static const char what[] = "what changes between runs";

void tn__feed_free(tn__feed *feed) {
  if (feed == NULL) return;
  for (uint32_t i = 0; i < feed->n_slots; ++i) {
    if (feed->slots[i].point != NULL) tn__point_drop(feed->slots[i].point);
    tn__piece_free(feed->device->staging, feed->slots[i].memory, feed->bytes);
  }
  tn__heap_free(feed->device, feed->there, feed->bytes);
  tn__free(feed->device->env, feed->now);
  tn__free(feed->device->env, feed);
}

static tn_code slot_add(tn__feed *feed) {
  slot *s = &feed->slots[feed->n_slots];
  TN__TRY(
      tn__piece_alloc(feed->device->staging, feed->bytes, what, &s->memory));
  s->point = NULL;
  feed->next = feed->n_slots++;
  return TN_OK;
}

tn_code tn__feed_create(tn__device *device, size_t bytes, tn__feed **out) {
  tn__feed *feed = tn__zalloc(device->env, sizeof *feed);
  *out = NULL;
  if (feed == NULL) return tn__fail_memory(sizeof *feed, what);
  feed->device = device;
  feed->bytes = bytes;
  feed->now = tn__zalloc(device->env, 2 * bytes);
  tn_code rc = feed->now != NULL ? TN_OK : tn__fail_memory(2 * bytes, what);
  if (rc == TN_OK) rc = tn__heap_alloc(device, bytes, what, &feed->there);
  if (rc == TN_OK) rc = slot_add(feed);
  if (rc != TN_OK) {
    tn__feed_free(feed);
    return rc;
  }
  feed->sent = feed->now + bytes;
  *out = feed;
  return TN_OK;
}

void *tn__feed_host(const tn__feed *feed) {
  return feed->now;
}

void *tn__feed_device(const tn__feed *feed) {
  return feed->there;
}

/* What failed on the queue is told by who waits for it there. */
static bool is_over(const slot *s) {
  bool done = true;
  return s->point == NULL || tn__point_query(s->point, &done) != TN_OK || done;
}

/* The oldest slot, if its copy is over, or a new one. Where there is no memory
 * for that, or are enough, the oldest copy is waited for. */
static slot *slot_get(tn__feed *feed) {
  if (!is_over(&feed->slots[feed->next]) &&
      (feed->n_slots == MOST_SLOTS || slot_add(feed) != TN_OK))
    (void)tn__point_wait(feed->slots[feed->next].point);
  slot *s = &feed->slots[feed->next];
  if (s->point != NULL) tn__point_drop(s->point);
  s->point = NULL;
  return s;
}

static tn_code send(tn__feed *feed, slot *from, tn__token *token) {
  const tn__device *device = feed->device;
  const tn_copy copy = {.struct_size = sizeof copy,
                        .to = feed->there,
                        .from = from->memory,
                        .bytes = feed->bytes,
                        .to_type = device->type,
                        .to_id = device->id,
                        .from_type = TN_DEVICE_CPU};
  memcpy(from->memory, feed->now, feed->bytes);
  TN__TRY(tn__device_copy(token, &copy));
  TN__TRY(tn__point_record(tn__token_queue(token), &from->point));
  feed->next = (feed->next + 1) % feed->n_slots;
  return TN_OK;
}

tn_code tn__feed_push(tn__feed *feed, tn__token *token) {
  if (feed->is_sent && memcmp(feed->now, feed->sent, feed->bytes) == 0)
    return TN_OK;
  feed->is_sent = false;
  TN__TRY(send(feed, slot_get(feed), token));
  memcpy(feed->sent, feed->now, feed->bytes);
  feed->is_sent = true;
  return TN_OK;
}
