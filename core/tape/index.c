/* SPDX-License-Identifier: Apache-2.0
 * index.c: which value an array is, and whether its elements are still
 * those that were recorded. Values are found by the serial number of their
 * block, the newest first.
 */
#include <string.h>

#include "tape.h"

bool tn__layout_same(const tn__layout *a, const tn__layout *b) {
  if (a->offset != b->offset || a->dtype != b->dtype || a->ndim != b->ndim)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i) {
    if (a->shape[i] != b->shape[i]) return false;
    if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return false;
  }
  return true;
}

bool tn__layout_alike(const tn__layout *a, const tn__layout *b) {
  if (a->device != b->device || a->dtype != b->dtype || a->ndim != b->ndim)
    return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* ------------------------------------------------------------------- slots */

static tn__tape_slot *slot_at(const tn_tape *tape, uint64_t serial) {
  size_t i = (size_t)(serial * 0x9e3779b97f4a7c15ull >> 20);
  tn__tape_slot *slot = &tape->slots[i & (tape->capacity - 1)];
  while (slot->serial && slot->serial != serial)
    slot = &tape->slots[++i & (tape->capacity - 1)];
  return slot;
}

/* 0: no tape has asked for it yet. Other runtimes have numbers of their own. */
static uint64_t serial_of(const tn_tape *tape, const tn_array *array) {
  if (array->env != tape->caller->env) return 0;
  return atomic_load_explicit(&array->block->serial, memory_order_relaxed);
}

static tn__tape_value *newest_in(const tn_tape *tape, const tn_array *array) {
  const uint64_t serial = serial_of(tape, array);
  if (serial == 0 || tape->n_slots == 0) return NULL;
  return slot_at(tape, serial)->newest;
}

bool tn__tape_touches(const tn_tape *tape, const tn_array *array) {
  const uint64_t serial = serial_of(tape, array);
  return serial && tape->n_slots > 0 && slot_at(tape, serial)->serial;
}

/* Numbers are taken from the runtime many at a time. */
static uint64_t serial_next(tn_tape *tape) {
  enum { BATCH = 1024 };
  if (tape->next_serial == tape->last_serial) {
    tape->next_serial =
        atomic_fetch_add(&tape->caller->n_serials, (uint64_t)BATCH);
    tape->last_serial = tape->next_serial + BATCH;
  }
  return ++tape->next_serial;
}

/* Several tapes may ask at the same time; the first number stays. */
uint64_t tn__tape_serial(tn_tape *tape, const tn_array *array, bool fresh) {
  _Atomic uint64_t *place = &array->block->serial;
  uint64_t serial = serial_of(tape, array);
  if (serial) return serial;
  const uint64_t next = serial_next(tape);
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
      *slot_at(&next, tape->slots[i].serial) = tape->slots[i];
  tn__free(env, tape->slots);
  tape->slots = next.slots;
  tape->capacity = next.capacity;
  return TN_OK;
}

static tn__tape_slot *slot_take(tn_tape *tape, uint64_t serial) {
  tn__tape_slot *slot = slot_at(tape, serial);
  if (!slot->serial) {
    slot->serial = serial;
    ++tape->n_slots;
  }
  return slot;
}

void tn__tape_note(tn_tape *tape, const tn_array *array) {
  slot_take(tape, tn__tape_serial(tape, array, false));
}

/* A call that writes several parts of one block has changed its version once
 * for each; the parts share the versions before and after it. */
void tn__tape_enter(tn_tape *tape, tn__tape_value *value) {
  tn__tape_slot *slot = slot_take(tape, value->serial);
  value->older = slot->newest;
  value->earlier = tape->latest;
  value->id = tape->n_values++;
  if (value->older && value->entry && value->older->entry == value->entry)
    value->before = value->after;
  slot->newest = value;
  tape->latest = value;
}

void tn__tape_pop(tn_tape *tape) {
  tn__tape_value *value = tape->latest;
  slot_at(tape, value->serial)->newest = value->older;
  tape->latest = value->earlier;
  --tape->n_values;
}

void tn__tape_index_reset(tn_tape *tape) {
  if (tape->slots) memset(tape->slots, 0, tape->capacity * sizeof *tape->slots);
  tape->n_slots = 0;
}

/* ------------------------------------------------------------------- finds */

static int meet(const tn__tape_value *value, const tn__layout *layout) {
  tn__place place;
  if (tn__layout_same(&value->layout, layout)) return TN__PLACE_INSIDE;
  return tn__layout_place(&value->layout, layout, &place);
}

/* Goes back from the version that the block has now through the writes of the
 * tape, as long as they are all that changed it and none meets the array. */
bool tn__tape_holds(const tn_tape *tape, const tn_array *array,
                    uint64_t version) {
  uint64_t now = tn__array_version(array);
  if (now == version) return true;
  const tn__layout layout = tn__layout_of(array);
  const tn__tape_value *value = newest_in(tape, array);
  for (; value && now != version; value = value->older) {
    if (value->watched) continue;
    if (value->after != now || meet(value, &layout) != TN__PLACE_APART)
      return false;
    now = value->before;
  }
  return now == version;
}

/* A watched array may be written between recordings: it is as it is when it is
 * first used. */
static bool is_fresh(const tn_tape *tape, const tn_array *array,
                     tn__tape_value *value) {
  if (tn__tape_holds(tape, array, value->after)) return true;
  if (!value->watched || value->n_uses > 0) return false;
  value->before = value->after = tn__array_version(array);
  return true;
}

/* A value without entry that is not watched is a constant: it hides what lay
 * there before. */
int tn__tape_find(tn_tape *tape, const tn_array *array, tn__tape_value **out) {
  const tn__layout layout = tn__layout_of(array);
  *out = NULL;
  for (tn__tape_value *v = newest_in(tape, array); v; v = v->older) {
    const int how = meet(v, &layout);
    if (how == TN__PLACE_APART) continue;
    if (how == TN__PLACE_ACROSS) return TN__KNOWN_PARTLY;
    if (!v->entry && !v->watched) return TN__KNOWN_NOT;
    if (!is_fresh(tape, array, v)) return TN__KNOWN_STALE;
    *out = v;
    return TN__KNOWN_VALUE;
  }
  return TN__KNOWN_NOT;
}

bool tn__tape_knows(const tn_tape *tape, const tn_array *array) {
  const tn__layout layout = tn__layout_of(array);
  const tn__tape_value *v = newest_in(tape, array);
  while (v && meet(v, &layout) == TN__PLACE_APART) v = v->older;
  return v != NULL;
}

int tn__tape_find_source(tn_tape *tape, const tn_array *array,
                         tn__tape_value **out) {
  const tn__layout layout = tn__layout_of(array);
  tn__tape_value *newest = NULL;
  *out = NULL;
  for (tn__tape_value *v = newest_in(tape, array); v; v = v->older) {
    const int how = meet(v, &layout);
    if (how == TN__PLACE_APART) continue;
    if (!newest) {
      if (how == TN__PLACE_ACROSS) return TN__KNOWN_PARTLY;
      newest = v;
    }
    if (!v->watched || how != TN__PLACE_INSIDE) continue;
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
                         " watched in its memory, or lies across several; use"
                         " views of one recorded array, or tn_tape_detach");
  return tn__fail_more(TN_INVALID,
                       " was written after it was recorded, by something that"
                       " the tape did not see; make that call on the tape, or"
                       " ask for the gradient first");
}
