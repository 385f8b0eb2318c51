/* SPDX-License-Identifier: Apache-2.0
 * value_gradient.c: the gradients of values during a sweep. The contributions
 * to the gradient of each value are summed.
 */
#include "tape.h"

static bool is_wanted(const tn__sweep *sweep, const tn__tape_value *value) {
  return value && value->id < sweep->n_gradients &&
         sweep->gradients[value->id].wanted;
}

/* True if the operator's gradient for this input is zero. A zero is not passed
 * on: the next gradients may be infinite, and their product must not become
 * NaN. */
static bool is_zero(const tn__tape_entry *e, uint32_t i) {
  const tn_gradient *g = e->desc ? e->desc->gradient : NULL;
  return i >= e->n_out_grads && g && g->kind != TN_GRADIENT_NONE &&
         !tn__gradient_is_nonzero(g->inputs[e->in[i].declared]);
}

bool tn__sweep_is_live_input(const tn__sweep *sweep,
                             const tn__tape_entry *entry, uint32_t i) {
  return is_wanted(sweep, entry->in[i].value) && !is_zero(entry, i);
}

tn_code tn__sweep_allocate(tn__sweep *sweep, const tn__tape_value *value) {
  tn__value_gradient *s = &sweep->gradients[value->id];
  tn_array *array = NULL;
  if (s->grows) return TN_OK;
  TN__TRY(tn__layout_create_array(&value->layout, &array));
  tn_code rc = TN_OK;
  if (s->array && sweep->record)
    rc = tn__tape_accumulate(sweep->tape, array, array, s->array, true);
  else if (s->array)
    rc = tn__array_copy(array, s->array);
  if (rc) {
    tn__array_release(array);
    return rc;
  }
  s->blank = !s->array;
  s->is_new = s->grows = true;
  tn__array_release(s->array);
  s->array = array;
  return TN_OK;
}

static tn_code fail_position(void) {
  return tn__fail(TN_INTERNAL, "a tape: an operand is outside of its value");
}

/* Allocates memory first, because then the call that writes it can use the fast
 * path. */
static tn_code target_whole(tn__sweep *sweep, const tn__tape_value *value,
                            tn__sweep_target *out) {
  tn__value_gradient *s = &sweep->gradients[value->id];
  TN__TRY(tn__sweep_allocate(sweep, value));
  TN__TRY(tn__array_materialise(s->array));
  out->base = out->part = s->array;
  out->overwrite = s->blank;
  s->blank = false;
  return TN_OK;
}

tn_code tn__sweep_find_target(tn__sweep *sweep, const tn__tape_value *value,
                              const tn__layout *layout, tn__sweep_target *out) {
  tn__value_gradient *s = &sweep->gradients[value->id];
  tn__part_place place;
  *out = (tn__sweep_target){0};
  if (tn__layout_is_same(&value->layout, layout))
    return target_whole(sweep, value, out);
  if (tn__layout_find_part(&value->layout, layout, &place) != TN__PART_INSIDE)
    return fail_position();
  TN__TRY(tn__sweep_allocate(sweep, value));
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
                      const tn__layout *layout, tn_array *array, bool is_new) {
  tn__value_gradient *s = &sweep->gradients[value->id];
  tn__sweep_target target;
  tn_code rc = TN_OK;
  if (!s->array && tn__layout_is_same(&value->layout, layout)) {
    s->array = tn__array_retain(array);
    s->is_new = is_new;
    return TN_OK;
  }
  TN__TRY(tn__sweep_find_target(sweep, value, layout, &target));
  if (sweep->record)
    rc = tn__tape_accumulate(sweep->tape, target.base, target.part, array,
                             target.overwrite);
  else if (target.overwrite)
    rc = tn__array_copy(target.part, array);
  else
    rc = tn__array_accumulate(target.part, array);
  if (target.part != target.base) tn__array_release(target.part);
  return rc;
}

/* A part needs a dense array; the whole may be any view. */
tn_code tn__sweep_view_part(tn__sweep *sweep, const tn__tape_value *value,
                            const tn__layout *layout, tn_array **out) {
  const tn__value_gradient *s = &sweep->gradients[value->id];
  tn__part_place place;
  *out = NULL;
  if (tn__layout_is_same(&value->layout, layout)) {
    *out = tn__array_retain(s->array);
    return TN_OK;
  }
  if (tn__layout_find_part(&value->layout, layout, &place) != TN__PART_INSIDE)
    return fail_position();
  if (!tn_tensor_is_contiguous(&s->array->tensor))
    TN__TRY(tn__sweep_allocate(sweep, value));
  return tn__array_view(s->array, &place.view, out);
}
