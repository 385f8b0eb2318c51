/* SPDX-License-Identifier: Apache-2.0
 * sum.c: gradients are summed into arrays and parts of arrays, and the
 * sums are recorded as calls are.
 */
#include "tape.h"

tn_code tn__array_clear(tn_tape *tape, tn_array *to) {
  const tn__layout layout = tn__layout_of(to);
  tn_array *zeros = NULL;
  TN__TRY(tn__tape_constant(tape, 0, &layout, &zeros));
  const tn_code rc = tn__array_copy(to, zeros);
  tn__array_release(zeros);
  return rc;
}

/* ------------------------------------------------------------------ record */

typedef struct summands {
  tn__tape_value *old;
  tn__tape_value *more;
} summands;

static tn_code find(tn_tape *tape, tn_array *array, tn__tape_value **out) {
  const int known = tn__tape_find(tape, array, out);
  if (known < TN__KNOWN_PARTLY) return TN_OK;
  tn__fail(TN_INVALID, "an array that is added to");
  return tn__tape_find_fail(known);
}

static void operand_set(tn_tape *tape, tn__tape_operand *operand,
                        tn__tape_value *value, const tn_array *array) {
  const tn__layout layout = tn__layout_of(array);
  tn__layout *copy = tn__tape_take(&tape->memory, sizeof *copy);
  tn__layout_copy(&tape->memory, &layout, copy);
  *operand = (tn__tape_operand){
      .value = value, .layout = copy, .declared = TN_NONE, .member = -1};
  if (value) ++value->n_uses;
}

static tn__tape_entry *entry_make(tn_tape *tape) {
  tn__tape_entry *e = tn__tape_take(&tape->memory, sizeof *e);
  tn__tape_operand *operands =
      tn__tape_take(&tape->memory, 3 * sizeof *operands);
  *e = (tn__tape_entry){
      .n_in = 2, .n_out = 1, .in = operands, .out = operands + 2};
  tn__tape_append(tape, e);
  return e;
}

static size_t record_bytes(const tn_array *to, const tn_array *part) {
  return tn__tape_room(sizeof(tn__tape_entry)) +
         tn__tape_room(3 * sizeof(tn__tape_operand)) +
         tn__tape_room(sizeof(tn__tape_value)) +
         2 * tn__layout_bytes(to->tensor.ndim) +
         2 * tn__layout_bytes(part->tensor.ndim);
}

/* The caller enters it, as soon as it knows which entry wrote it. */
static tn__tape_value *value_make(tn_tape *tape, tn_array *array,
                                  uint64_t before) {
  tn__tape_value *value = tn__tape_take(&tape->memory, sizeof *value);
  const tn__layout layout = tn__layout_of(array);
  *value = (tn__tape_value){.serial = tn__tape_serial(tape, array, false),
                            .before = before,
                            .after = tn__array_watch(array)};
  tn__layout_copy(&tape->memory, &layout, &value->layout);
  return value;
}

/* If neither summand is on a gradient's way, the sum is a constant, which has
 * to be known only where it hides something. */
static void record(tn_tape *tape, const summands *s, tn_array *const *arrays,
                   uint64_t before) {
  tn_array *to = arrays[0], *part = arrays[1], *from = arrays[2];
  const bool passes = s->old || s->more;
  if (!passes && !tn__tape_touches(tape, to)) return;
  tn__tape_value *value = value_make(tape, to, before);
  if (passes) {
    value->entry = entry_make(tape);
    operand_set(tape, &value->entry->in[0], s->old, to);
    operand_set(tape, &value->entry->in[1], s->more, from);
    operand_set(tape, &value->entry->out[0], value, part);
    value->n_uses = 0;
  }
  tn__tape_enter(tape, value);
}

tn_code tn__tape_sum(tn_tape *tape, tn_array *to, tn_array *part,
                     tn_array *from, bool overwrite) {
  const uint64_t before = tn__array_version(to);
  summands s = {NULL, NULL};
  TN__TRY(find(tape, from, &s.more));
  if (!overwrite) TN__TRY(find(tape, to, &s.old));
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory,
                           record_bytes(to, part)));
  TN__TRY(tn__tape_index_reserve(tape, 1));
  TN__TRY(overwrite ? tn__array_copy(part, from) : tn__array_sum(part, from));
  record(tape, &s, (tn_array *[]){to, part, from}, before);
  return TN_OK;
}

tn_code tn__tape_zero(tn_tape *tape, tn_array *to) {
  const tn__layout layout = tn__layout_of(to);
  tn_array *zeros = NULL;
  TN__TRY(tn__tape_constant(tape, 0, &layout, &zeros));
  const tn_code rc = tn__tape_sum(tape, to, to, zeros, true);
  tn__array_release(zeros);
  return rc;
}

tn_code tn__tape_know(tn_tape *tape, tn_array *array) {
  if (tn__tape_knows(tape, array)) return TN_OK;
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory,
                           tn__tape_room(sizeof(tn__tape_value)) +
                               tn__layout_bytes(array->tensor.ndim)));
  TN__TRY(tn__tape_index_reserve(tape, 1));
  tn__tape_enter(tape, value_make(tape, array, tn__array_version(array)));
  return TN_OK;
}
