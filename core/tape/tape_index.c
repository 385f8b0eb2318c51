/* SPDX-License-Identifier: Apache-2.0
 * tape_index.c: finds the value of an array, and decides whether its elements
 * are still the recorded ones. A hash table leads from the serial number of a
 * block to its values, newest first.
 */
#include <string.h>

#include "tape.h"

bool tn__layout_is_same(const tn__layout *a, const tn__layout *b) {
  if (a->offset != b->offset || a->dtype != b->dtype || a->ndim != b->ndim)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i) {
    if (a->shape[i] != b->shape[i]) return false;
    if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return false;
  }
  return true;
}

bool tn__layout_is_like(const tn__layout *a, const tn__layout *b) {
  if (a->device != b->device || a->dtype != b->dtype || a->ndim != b->ndim)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* ------------------------------------------------------------------- slots */

static tn__tape_slot *find_slot(const tn_tape *tape, uint64_t serial) {
  size_t i = (size_t)(serial * 0x9e3779b97f4a7c15ull >> 20);
  tn__tape_slot *slot = &tape->slots[i & (tape->capacity - 1)];
  while (slot->serial && slot->serial != serial)
    slot = &tape->slots[++i & (tape->capacity - 1)];
  return slot;
}

/* 0: no tape has requested a number yet. Other runtimes have numbers of their
 * own. */
static uint64_t serial_of_block(const tn_tape *tape, const tn_array *array) {
  if (array->env != tape->caller->env) return 0;
  return atomic_load_explicit(&array->block->serial, memory_order_relaxed);
}

static tn__tape_value *newest_value_of(const tn_tape *tape,
                                       const tn_array *array) {
  const uint64_t serial = serial_of_block(tape, array);
  if (serial == 0 || tape->n_slots == 0) return NULL;
  return find_slot(tape, serial)->newest;
}

bool tn__tape_has_block(const tn_tape *tape, const tn_array *array) {
  const uint64_t serial = serial_of_block(tape, array);
  return serial && tape->n_slots > 0 && find_slot(tape, serial)->serial;
}

/* Reserves many numbers of the runtime at a time. */
static uint64_t next_serial(tn_tape *tape) {
  enum { BATCH = 1024 };
  if (tape->next_serial == tape->last_serial) {
    tape->next_serial =
        atomic_fetch_add(&tape->caller->n_serials, (uint64_t)BATCH);
    tape->last_serial = tape->next_serial + BATCH;
  }
  return ++tape->next_serial;
}

/* Several tapes may set the number at the same time; the first one stays. */
uint64_t tn__tape_get_serial(tn_tape *tape, const tn_array *array, bool fresh) {
  _Atomic uint64_t *place = &array->block->serial;
  uint64_t serial = serial_of_block(tape, array);
  if (serial) return serial;
  const uint64_t next = next_serial(tape);
  if (fresh) {
    atomic_store_explicit(place, next, memory_order_relaxed);
    return next;
  }
  return atomic_compare_exchange_strong(place, &serial, next) ? next : serial;
}

tn_code tn__tape_index_reserve(tn_tape *tape, size_t more) {
  const tn__env *env = tape->caller->env;
  const size_t needed = 2 * (tape->n_slots + more);
  if (needed <= tape->capacity) return TN_OK;
  tn_tape next = {.capacity = tape->capacity ? tape->capacity : 64};
  while (next.capacity < needed) next.capacity *= 2;
  const size_t bytes = next.capacity * sizeof *next.slots;
  next.slots = tn__zalloc(env, bytes);
  if (!next.slots) return tn__fail_memory(bytes, "the index of a tape");
  for (size_t i = 0; i < tape->capacity; ++i)
    if (tape->slots[i].serial)
      *find_slot(&next, tape->slots[i].serial) = tape->slots[i];
  tn__free(env, tape->slots);
  tape->slots = next.slots;
  tape->capacity = next.capacity;
  return TN_OK;
}

static tn__tape_slot *take_slot(tn_tape *tape, uint64_t serial) {
  tn__tape_slot *slot = find_slot(tape, serial);
  if (!slot->serial) {
    slot->serial = serial;
    ++tape->n_slots;
  }
  return slot;
}

void tn__tape_add_block(tn_tape *tape, const tn_array *array) {
  take_slot(tape, tn__tape_get_serial(tape, array, false));
}

/* A call that writes several parts of one block has increased its version once
 * for each. The parts share the versions before and after the call. */
void tn__tape_add_value(tn_tape *tape, tn__tape_value *value) {
  tn__tape_slot *slot = take_slot(tape, value->serial);
  value->older = slot->newest;
  value->earlier = tape->latest;
  value->id = tape->n_values++;
  if (value->older && value->entry && value->older->entry == value->entry)
    value->before = value->after;
  slot->newest = value;
  tape->latest = value;
}

void tn__tape_remove_newest(tn_tape *tape) {
  tn__tape_value *value = tape->latest;
  find_slot(tape, value->serial)->newest = value->older;
  tape->latest = value->earlier;
  --tape->n_values;
}

void tn__tape_index_reset(tn_tape *tape) {
  if (tape->slots) memset(tape->slots, 0, tape->capacity * sizeof *tape->slots);
  tape->n_slots = 0;
}

/* ------------------------------------------------------------------- finds */

static int compare_places(const tn__tape_value *value,
                          const tn__layout *layout) {
  tn__part_place place;
  if (tn__layout_is_same(&value->layout, layout)) return TN__PART_INSIDE;
  return tn__layout_find_part(&value->layout, layout, &place);
}

/* Follows the tape's writes back from the block's current version. Returns
 * false at a foreign write and at a write that overlaps the array. */
bool tn__tape_is_unchanged(const tn_tape *tape, const tn_array *array,
                           uint64_t version) {
  uint64_t now = tn__array_version(array);
  if (now == version) return true;
  const tn__layout layout = tn__layout_of(array);
  const tn__tape_value *value = newest_value_of(tape, array);
  for (; value && now != version; value = value->older) {
    if (value->watched) continue;
    if (value->after != now ||
        compare_places(value, &layout) != TN__PART_DISJOINT)
      return false;
    now = value->before;
  }
  return now == version;
}

/* A watched array may be written between recordings. Its first use decides its
 * content. */
static bool is_fresh(const tn_tape *tape, const tn_array *array,
                     tn__tape_value *value) {
  if (tn__tape_is_unchanged(tape, array, value->after)) return true;
  if (!value->watched || value->n_uses > 0) return false;
  value->before = value->after = tn__array_version(array);
  return true;
}

/* A value that is not watched and has no entry is a constant. It hides older
 * values of the same memory. */
int tn__tape_find(tn_tape *tape, const tn_array *array, tn__tape_value **out) {
  const tn__layout layout = tn__layout_of(array);
  *out = NULL;
  for (tn__tape_value *v = newest_value_of(tape, array); v; v = v->older) {
    const int how = compare_places(v, &layout);
    if (how == TN__PART_DISJOINT) continue;
    if (how == TN__PART_ACROSS) return TN__KNOWN_PARTLY;
    if (!v->entry && !v->watched) return TN__KNOWN_NOT;
    if (!is_fresh(tape, array, v)) return TN__KNOWN_STALE;
    *out = v;
    return TN__KNOWN_VALUE;
  }
  return TN__KNOWN_NOT;
}

bool tn__tape_is_known(const tn_tape *tape, const tn_array *array) {
  const tn__layout layout = tn__layout_of(array);
  const tn__tape_value *v = newest_value_of(tape, array);
  while (v && compare_places(v, &layout) == TN__PART_DISJOINT) v = v->older;
  return v != NULL;
}

int tn__tape_find_source(tn_tape *tape, const tn_array *array,
                         tn__tape_value **out) {
  const tn__layout layout = tn__layout_of(array);
  tn__tape_value *newest = NULL;
  *out = NULL;
  for (tn__tape_value *v = newest_value_of(tape, array); v; v = v->older) {
    const int how = compare_places(v, &layout);
    if (how == TN__PART_DISJOINT) continue;
    if (!newest) {
      if (how == TN__PART_ACROSS) return TN__KNOWN_PARTLY;
      newest = v;
    }
    if (!v->watched || how != TN__PART_INSIDE) continue;
    *out = v;
    return TN__KNOWN_VALUE;
  }
  if (!newest || !newest->entry) return TN__KNOWN_NOT;
  *out = newest;
  return TN__KNOWN_VALUE;
}

tn_code tn__tape_find_fail(int known) {
  if (known == TN__KNOWN_PARTLY)
    return tn__fail_more(TN_INVALID,
                         " reaches beyond the array that was recorded or"
                         " watched in its memory, or overlaps several; use"
                         " views of one recorded array, or tn_tape_detach");
  return tn__fail_more(TN_INVALID,
                       " was written after it was recorded, by something that"
                       " the tape did not see; make that call on the tape, or"
                       " ask for the gradient first");
}
