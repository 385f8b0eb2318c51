/* SPDX-License-Identifier: Apache-2.0
 * fake_rules.c: checks that commands of different queues use memory in order.
 * Each line of memory has its last writer and its readers. Each queue has the
 * commands that it comes after.
 */
#include <stdio.h>

#include "fake_parts.h"

void fake_report(fake *f, const char *text, const queue *q) {
  if (f->counts.violations++ == 0)
    (void)snprintf(f->violation, sizeof f->violation, "%s (queue %d of %s(%d))",
                   text, q ? (int)q->number : -1, f->table.name, q ? q->id : 0);
}

piece *fake_find_piece(const fake *f, const void *address) {
  for (piece *p = f->pieces; p; p = p->next)
    if ((const char *)address >= p->address &&
        (const char *)address < p->address + p->size)
      return p;
  return NULL;
}

static bool is_ordered(const fake *f, const queue *q, uint32_t number,
                       uint64_t until) {
  return number == q->number || q->known.over[number] >= until ||
         f->host.over[number] >= until;
}

static void check_read(fake *f, queue *q, line *l) {
  if (l->written && !is_ordered(f, q, l->writer, l->written))
    fake_report(f, "reads memory that another queue writes, without a fence",
                q);
  l->read.over[q->number] = q->enqueued + 1;
}

static void check_write(fake *f, queue *q, line *l) {
  if (l->written && !is_ordered(f, q, l->writer, l->written))
    fake_report(f, "writes memory that another queue writes, without a fence",
                q);
  for (uint32_t i = 0; i < f->n_queues; ++i)
    if (!is_ordered(f, q, i, l->read.over[i]))
      fake_report(f, "writes memory that another queue reads, without a fence",
                  q);
  l->writer = q->number;
  l->written = q->enqueued + 1;
}

/* Returns the bytes of a device address, after checking the order of their
 * uses. */
char *fake_use_memory(fake *f, queue *q, range memory, bool writes) {
  piece *p = fake_find_piece(f, memory.address);
  if (!p) {
    fake_report(f, "uses memory that is not allocated", q);
    return NULL;
  }
  const uint64_t offset = (uint64_t)((const char *)memory.address - p->address);
  uint64_t at = memory.bytes ? offset / LINE : 0;
  const uint64_t end = memory.bytes ? offset + memory.bytes : p->size;
  if (end > p->size) fake_report(f, "uses memory beyond its piece", q);
  for (; at * LINE < end && at * LINE < p->size; ++at)
    if (writes)
      check_write(f, q, &p->lines[at]);
    else
      check_read(f, q, &p->lines[at]);
  return p->bytes + offset;
}

void fake_merge_clocks(clock_set *to, const clock_set *from) {
  for (int i = 0; i < MAX_QUEUES; ++i)
    if (from->over[i] > to->over[i]) to->over[i] = from->over[i];
}

static bool is_line_idle(const fake *f, const line *l) {
  if (l->written && f->host.over[l->writer] < l->written) return false;
  for (int i = 0; i < MAX_QUEUES; ++i)
    if (f->host.over[i] < l->read.over[i]) return false;
  return true;
}

bool fake_is_idle(const fake *f, const piece *p) {
  for (uint64_t at = 0; at * LINE < p->size; ++at)
    if (!is_line_idle(f, &p->lines[at])) return false;
  return true;
}

void *fake_reach(fake *f, const void *address) {
  pthread_mutex_lock(&f->lock);
  const piece *p = fake_find_piece(f, address);
  char *bytes = p ? p->bytes + ((const char *)address - p->address) : NULL;
  (void)fake_leave(f);
  return bytes;
}

int32_t fake_owner(fake *f, const void *address) {
  pthread_mutex_lock(&f->lock);
  const piece *p = fake_find_piece(f, address);
  const int32_t id = p && p->kind == TN_MEMORY_DEVICE ? p->id : -1;
  (void)fake_leave(f);
  return id;
}

void fake_violate(fake *f, const char *text) {
  pthread_mutex_lock(&f->lock);
  fake_report(f, text, NULL);
  (void)fake_leave(f);
}
