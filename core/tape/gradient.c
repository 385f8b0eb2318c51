/* SPDX-License-Identifier: Apache-2.0
 * gradient.c: the way back over a tape: which entries lie between what is
 * asked for and the heads, and how gradients meet in the values between them.
 */
#include <string.h>

#include "tape.h"

/* -------------------------------------------------------------------- mark */

static bool is_wanted(const tn__sweep *sweep, const tn__tape_value *value) {
  return value && value->id < sweep->n_slopes &&
         sweep->slopes[value->id].wanted;
}

/* What is zero is not handed on: behind it stands what may be infinite. */
static bool is_zero(const tn__tape_entry *e, uint32_t i) {
  const tn_gradient *g = e->desc ? e->desc->gradient : NULL;
  return i >= e->n_heads && g && g->kind != TN_GRADIENT_NONE &&
         !tn__gradient_is_nonzero(g->inputs[e->in[i].declared]);
}

bool tn__sweep_passes(const tn__sweep *sweep, const tn__tape_entry *entry,
                      uint32_t i) {
  return is_wanted(sweep, entry->in[i].value) && !is_zero(entry, i);
}

/* Entries stand in the order in which they were made, so what an entry depends
 * on has been marked before it. */
void tn__sweep_mark(tn__sweep *sweep) {
  for (tn__tape_entry *e = sweep->tape->first; e; e = e->next) {
    e->live = 0;
    for (uint32_t i = 0; i < e->n_in; ++i)
      e->live |= tn__sweep_passes(sweep, e, i);
    if (!e->live) continue;
    for (uint32_t i = 0; i < e->n_out; ++i)
      if (e->out[i].value) sweep->slopes[e->out[i].value->id].wanted = true;
  }
}

/* ------------------------------------------------------------------ slopes */

tn_code tn__sweep_own(tn__sweep *sweep, const tn__tape_value *value) {
  tn__slope *s = &sweep->slopes[value->id];
  tn_array *array = NULL;
  if (s->grows) return TN_OK;
  TN__TRY(tn__layout_array(&value->layout, &array));
  tn_code rc = TN_OK;
  if (s->array && sweep->record)
    rc = tn__tape_sum(sweep->tape, array, array, s->array, true);
  else if (s->array)
    rc = tn__array_copy(array, s->array);
  if (rc) {
    tn__array_release(array);
    return rc;
  }
  s->blank = !s->array;
  s->made = s->grows = true;
  tn__array_release(s->array);
  s->array = array;
  return TN_OK;
}

static tn_code place_fail(void) {
  return tn__fail(TN_INTERNAL, "a tape: an operand lies outside of its value");
}

/* With memory at hand, the call that writes it can go the short way. */
static tn_code aim_whole(tn__sweep *sweep, const tn__tape_value *value,
                         tn__aim *out) {
  tn__slope *s = &sweep->slopes[value->id];
  TN__TRY(tn__sweep_own(sweep, value));
  TN__TRY(tn__array_materialise(s->array));
  out->base = out->part = s->array;
  out->overwrite = s->blank;
  s->blank = false;
  return TN_OK;
}

tn_code tn__sweep_aim(tn__sweep *sweep, const tn__tape_value *value,
                      const tn__layout *layout, tn__aim *out) {
  tn__slope *s = &sweep->slopes[value->id];
  tn__place place;
  *out = (tn__aim){0};
  if (tn__layout_same(&value->layout, layout))
    return aim_whole(sweep, value, out);
  if (tn__layout_place(&value->layout, layout, &place) != TN__PLACE_INSIDE)
    return place_fail();
  TN__TRY(tn__sweep_own(sweep, value));
  if (s->blank && !place.covers)
    TN__TRY(tn__array_clear(sweep->tape, s->array));
  TN__TRY(tn__array_view(s->array, &place.view, &out->part));
  out->base = s->array;
  out->overwrite = s->blank && place.covers;
  out->repeats = place.repeats;
  s->blank = false;
  return TN_OK;
}

tn_code tn__sweep_add(tn__sweep *sweep, const tn__tape_value *value,
                      const tn__layout *layout, tn_array *array, bool made) {
  tn__slope *s = &sweep->slopes[value->id];
  tn__aim aim;
  tn_code rc = TN_OK;
  if (!s->array && tn__layout_same(&value->layout, layout)) {
    s->array = tn__array_retain(array);
    s->made = made;
    return TN_OK;
  }
  TN__TRY(tn__sweep_aim(sweep, value, layout, &aim));
  if (sweep->record)
    rc = tn__tape_sum(sweep->tape, aim.base, aim.part, array, aim.overwrite);
  else if (aim.overwrite)
    rc = tn__array_copy(aim.part, array);
  else
    rc = tn__array_sum(aim.part, array);
  if (aim.part != aim.base) tn__array_release(aim.part);
  return rc;
}

/* Parts are found in dense memory; a whole may be any view. */
tn_code tn__sweep_part(tn__sweep *sweep, const tn__tape_value *value,
                       const tn__layout *layout, tn_array **out) {
  const tn__slope *s = &sweep->slopes[value->id];
  tn__place place;
  *out = NULL;
  if (tn__layout_same(&value->layout, layout)) {
    *out = tn__array_retain(s->array);
    return TN_OK;
  }
  if (tn__layout_place(&value->layout, layout, &place) != TN__PLACE_INSIDE)
    return place_fail();
  if (!tn_tensor_is_contiguous(&s->array->tensor))
    TN__TRY(tn__sweep_own(sweep, value));
  return tn__array_view(s->array, &place.view, out);
}

/* --------------------------------------------------------------------- run */

/* The gradient of a sum is that of both summands; the one that was added has
 * its part of it. */
static tn_code sum_back(tn__sweep *sweep, tn__tape_entry *e) {
  const tn__tape_operand *to = &e->out[0];
  for (uint32_t i = 0; i < 2; ++i) {
    tn_array *part = NULL;
    if (!tn__sweep_passes(sweep, e, i)) continue;
    TN__TRY(tn__sweep_part(sweep, to->value,
                           i == 0 ? &to->value->layout : to->layout, &part));
    const tn_code rc =
        tn__sweep_add(sweep, e->in[i].value, e->in[i].layout, part, false);
    tn__array_release(part);
    TN__TRY(rc);
  }
  return TN_OK;
}

static bool has_slope(const tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i)
    if (e->out[i].value && sweep->slopes[e->out[i].value->id].array)
      return true;
  return false;
}

/* Everything that used the outputs has been passed. */
static void slopes_drop(tn__sweep *sweep, const tn__tape_entry *e) {
  for (uint32_t i = 0; i < e->n_out; ++i) {
    if (!e->out[i].value) continue;
    tn__slope *s = &sweep->slopes[e->out[i].value->id];
    if (s->asked > 0) continue;
    tn__array_release(s->array);
    s->array = NULL;
  }
}

tn_code tn__sweep_run(tn__sweep *sweep) {
  for (tn__tape_entry *e = sweep->tape->last; e; e = e->previous) {
    if (!e->live || !has_slope(sweep, e)) continue;
    TN__TRY(e->op ? tn__sweep_call(sweep, e) : sum_back(sweep, e));
    slopes_drop(sweep, e);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ begin */

/* The most operands that one entry has in any of the lists. */
static size_t most_operands(const tn_tape *tape) {
  size_t most = 1;
  for (const tn__tape_entry *e = tape->first; e; e = e->next) {
    const size_t n = e->n_in + e->n_aux + 2 * (size_t)e->n_out;
    if (n > most) most = n;
  }
  return most;
}

static tn_code sweep_room(tn__sweep *sweep) {
  tn_tape *tape = sweep->tape;
  const size_t most = most_operands(tape), n_of = sweep->query->of.n;
  const size_t slopes = tape->n_values * sizeof *sweep->slopes;
  const size_t sources = n_of * sizeof *sweep->sources;
  const size_t results = n_of * sizeof *sweep->results;
  const size_t lists = 5 * most * sizeof *sweep->lists[0];
  const size_t bytes = slopes + sources + results + lists;
  tn__tape_memory *memory = &tape->scratch;
  TN__TRY(tn__tape_reserve(
      tape->caller->env, memory,
      tn__tape_room(bytes) + tn__tape_room(most * sizeof *sweep->req)));
  char *at = tn__tape_take(memory, bytes);
  memset(at, 0, bytes - lists);
  sweep->n_slopes = tape->n_values;
  sweep->slopes = (void *)at;
  sweep->sources = (void *)(at + slopes);
  sweep->results = (void *)(at + slopes + sources);
  at += slopes + sources + results;
  for (size_t i = 0; i < 5; ++i)
    sweep->lists[i] = (tn_array **)(void *)at + i * most;
  sweep->req = tn__tape_take(memory, most * sizeof *sweep->req);
  return TN_OK;
}

static tn_code sweep_all(tn__sweep *sweep) {
  TN__TRY(tn__sweep_check(sweep));
  TN__TRY(sweep_room(sweep));
  TN__TRY(tn__sweep_sources(sweep));
  tn__sweep_mark(sweep);
  TN__TRY(tn__sweep_heads(sweep));
  TN__TRY(tn__sweep_run(sweep));
  return tn__sweep_answer(sweep);
}

static void deliver(tn__sweep *sweep, bool good) {
  const tn_outputs *to = &sweep->query->gradients;
  for (size_t i = 0; sweep->results && i < to->n; ++i) {
    if (!sweep->results[i]) continue;
    if (good)
      to->arrays[i] = sweep->results[i];
    else
      tn__array_release(sweep->results[i]);
  }
  for (uint32_t i = 0; sweep->slopes && i < sweep->n_slopes; ++i)
    tn__array_release(sweep->slopes[i].array);
}

tn_code tn__tape_gradient(tn_tape *tape, const tn_tape_query *query) {
  tn__sweep s = {.tape = tape,
                 .query = query,
                 .record = (query->flags & TN_TAPE_RECORD) != 0};
  const tn__tape_point point = tn__tape_point_get(tape);
  const tn_code rc = sweep_all(&s);
  deliver(&s, rc == TN_OK);
  tn__tape_memory_reset(&tape->scratch);
  if (rc)
    tn__tape_return(tape, point);
  else if (!(query->flags & (TN_TAPE_KEEP | TN_TAPE_RECORD)))
    tn__tape_forget(tape);
  return rc;
}
