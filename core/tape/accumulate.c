/* SPDX-License-Identifier: Apache-2.0
 * accumulate.c: adds gradients to arrays and to parts of arrays, and records
 * these sums as entries of the tape, so that they can be differentiated.
 */
#include "tape.h"

tn_code tn__array_clear(tn_tape *tape, tn_array *to) {
  const tn__layout layout = tn__layout_of(to);
  tn_array *zeros = NULL;
  TN__TRY(tn__tape_get_constant(tape, 0, &layout, &zeros));
  const tn_code rc = tn__array_copy(to, zeros);
  tn__array_release(zeros);
  return rc;
}

/* ------------------------------------------------------------------ record */

typedef struct summands {
  tn__tape_value *old;
  tn__tape_value *more;
} summands;

static tn_code find_summand(tn_tape *tape, tn_array *array,
                            tn__tape_value **out) {
  const int known = tn__tape_find(tape, array, out);
  if (known < TN__KNOWN_PARTLY) return TN_OK;
  tn__fail(TN_INVALID, "an array that is added to");
  return tn__tape_find_fail(known);
}

static void set_operand(tn_tape *tape, tn__tape_operand *operand,
                        tn__tape_value *value, const tn_array *array) {
  const tn__layout layout = tn__layout_of(array);
  tn__layout *copy = tn__tape_alloc(&tape->memory, sizeof *copy);
  tn__layout_copy(&tape->memory, &layout, copy);
  *operand = (tn__tape_operand){
      .value = value, .layout = copy, .declared = TN_NONE, .member = -1};
  if (value) ++value->n_uses;
}

static tn__tape_entry *make_entry(tn_tape *tape) {
  tn__tape_entry *e = tn__tape_alloc(&tape->memory, sizeof *e);
  tn__tape_operand *operands =
      tn__tape_alloc(&tape->memory, 3 * sizeof *operands);
  *e = (tn__tape_entry){
      .n_in = 2, .n_out = 1, .in = operands, .out = operands + 2};
  tn__tape_append_entry(tape, e);
  return e;
}

static size_t count_record_bytes(const tn_array *to, const tn_array *part) {
  return tn__tape_round_up(sizeof(tn__tape_entry)) +
         tn__tape_round_up(3 * sizeof(tn__tape_operand)) +
         tn__tape_round_up(sizeof(tn__tape_value)) +
         2 * tn__layout_bytes(to->tensor.ndim) +
         2 * tn__layout_bytes(part->tensor.ndim);
}

/* The caller adds it to the index when it has set the entry. */
static tn__tape_value *make_value(tn_tape *tape, tn_array *array,
                                  uint64_t before) {
  tn__tape_value *value = tn__tape_alloc(&tape->memory, sizeof *value);
  const tn__layout layout = tn__layout_of(array);
  *value = (tn__tape_value){.serial = tn__tape_get_serial(tape, array, false),
                            .before = before,
                            .after = tn__array_watch(array)};
  tn__layout_copy(&tape->memory, &layout, &value->layout);
  return value;
}

/* If no gradient passes through a summand, the sum is a constant. It is
 * recorded only where it hides older values. */
static void record_sum(tn_tape *tape, const summands *s,
                       tn_array *const *arrays, uint64_t before) {
  tn_array *to = arrays[0], *part = arrays[1], *from = arrays[2];
  const bool passes = s->old || s->more;
  if (!passes && !tn__tape_has_block(tape, to)) return;
  tn__tape_value *value = make_value(tape, to, before);
  if (passes) {
    value->entry = make_entry(tape);
    set_operand(tape, &value->entry->in[0], s->old, to);
    set_operand(tape, &value->entry->in[1], s->more, from);
    set_operand(tape, &value->entry->out[0], value, part);
    value->n_uses = 0;
  }
  tn__tape_add_value(tape, value);
}

tn_code tn__tape_accumulate(tn_tape *tape, tn_array *to, tn_array *part,
                            tn_array *from, bool overwrite) {
  const uint64_t before = tn__array_version(to);
  summands s = {NULL, NULL};
  TN__TRY(find_summand(tape, from, &s.more));
  if (!overwrite) TN__TRY(find_summand(tape, to, &s.old));
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory,
                           count_record_bytes(to, part)));
  TN__TRY(tn__tape_index_reserve(tape, 1));
  TN__TRY(overwrite ? tn__array_copy(part, from)
                    : tn__array_accumulate(part, from));
  record_sum(tape, &s, (tn_array *[]){to, part, from}, before);
  return TN_OK;
}

tn_code tn__tape_clear(tn_tape *tape, tn_array *to) {
  const tn__layout layout = tn__layout_of(to);
  tn_array *zeros = NULL;
  TN__TRY(tn__tape_get_constant(tape, 0, &layout, &zeros));
  const tn_code rc = tn__tape_accumulate(tape, to, to, zeros, true);
  tn__array_release(zeros);
  return rc;
}

tn_code tn__tape_add_constant(tn_tape *tape, tn_array *array) {
  if (tn__tape_is_known(tape, array)) return TN_OK;
  TN__TRY(tn__tape_reserve(tape->caller->env, &tape->memory,
                           tn__tape_round_up(sizeof(tn__tape_value)) +
                               tn__layout_bytes(array->tensor.ndim)));
  TN__TRY(tn__tape_index_reserve(tape, 1));
  tn__tape_add_value(tape, make_value(tape, array, tn__array_version(array)));
  return TN_OK;
}
