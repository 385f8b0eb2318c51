/* SPDX-License-Identifier: Apache-2.0
 * tape.c: the life of a tape, what it watches, and how it forgets.
 */
#include "tape.h"

/* ------------------------------------------------------------------ create */

tn_code tn__tape_create(tn__caller *caller, tn_tape **out) {
  *out = NULL;
  tn_tape *tape = tn__zalloc(caller->env, sizeof *tape);
  if (!tape) return tn__fail_memory(sizeof *tape, "a tape");
  tape->caller = caller;
  tn__env_retain(caller->env);
  *out = tape;
  return TN_OK;
}

/* ----------------------------------------------------------------- entries */

void tn__tape_append(tn_tape *tape, tn__tape_entry *entry) {
  entry->previous = tape->last;
  entry->next = NULL;
  if (tape->last)
    tape->last->next = entry;
  else
    tape->first = entry;
  tape->last = entry;
}

void tn__tape_entry_drop(tn__tape_entry *entry) {
  for (uint32_t i = 0; i < entry->n_in + entry->n_aux; ++i)
    tn__array_release(entry->in[i].saved);
  for (uint32_t i = 0; i < entry->n_out; ++i)
    tn__array_release(entry->out[i].saved);
  tn__params_release(entry->params);
}

tn__tape_point tn__tape_point_get(const tn_tape *tape) {
  return (tn__tape_point){tape->last, tape->latest};
}

/* Their memory stays taken until the tape forgets. */
void tn__tape_return(tn_tape *tape, tn__tape_point point) {
  while (tape->latest != point.latest) tn__tape_pop(tape);
  while (tape->last != point.last) {
    tn__tape_entry *entry = tape->last;
    for (uint32_t i = 0; i < entry->n_in; ++i)
      if (entry->in[i].value) --entry->in[i].value->n_uses;
    tape->last = entry->previous;
    tn__tape_entry_drop(entry);
  }
  if (tape->last)
    tape->last->next = NULL;
  else
    tape->first = NULL;
}

/* ------------------------------------------------------------------ forget */

static void value_free(const tn__env *env, tn__tape_value *value) {
  tn__array_release(value->watched);
  tn__free(env, value);
}

/* Nobody but the tape can name the array's elements any more. */
static bool is_lost(const tn_array *array) {
  return atomic_load(&array->n_owners) == 1 &&
         atomic_load(&array->block->n_owners) == 1;
}

/* The index has room: all of these were in it before. */
static void watched_enter(tn_tape *tape) {
  tn__vec *list = &tape->watched;
  size_t n = 0;
  for (size_t i = 0; i < list->n; ++i) {
    tn__tape_value *value = list->v[i];
    if (value->outdated || is_lost(value->watched)) {
      value_free(tape->caller->env, value);
      continue;
    }
    value->n_uses = 0;
    list->v[n++] = value;
    tn__tape_enter(tape, value);
  }
  list->n = n;
}

static void entries_drop(tn_tape *tape) {
  for (tn__tape_entry *e = tape->first; e; e = e->next) tn__tape_entry_drop(e);
  for (size_t i = 0; i < tape->held.n; ++i)
    tn__operator_unhold(tape->held.v[i]);
  tape->held.n = 0;
  tape->first = tape->last = NULL;
  tape->latest = NULL;
  tape->n_values = 0;
}

void tn__tape_forget(tn_tape *tape) {
  entries_drop(tape);
  tn__tape_memory_reset(&tape->memory);
  tn__tape_index_reset(tape);
  watched_enter(tape);
}

static void constants_release(tn_tape *tape) {
  for (size_t i = 0; i < 2; ++i) tn__array_release(tape->views[i]);
  for (size_t i = 0; i < TN__TAPE_BLANKS; ++i)
    tn__array_release(tape->blanks[i]);
  for (size_t i = 0; i < TN__N_DTYPES; ++i) {
    tn__array_release(tape->constants[0][i]);
    tn__array_release(tape->constants[1][i]);
  }
}

void tn__tape_release(tn_tape *tape) {
  if (!tape) return;
  const tn__env *env = tape->caller->env;
  entries_drop(tape);
  for (size_t i = 0; i < tape->watched.n; ++i)
    value_free(env, tape->watched.v[i]);
  constants_release(tape);
  tn__vec_deinit(env, &tape->watched);
  tn__vec_deinit(env, &tape->held);
  tn__tape_memory_deinit(env, &tape->memory);
  tn__tape_memory_deinit(env, &tape->scratch);
  tn__free(env, tape->slots);
  tn__free(env, tape);
  tn__env_release(env); /* last: it may be the end of the runtime */
}

/* ------------------------------------------------------------------- watch */

static tn_code watch_check(const tn_tape *tape, const tn_array *array) {
  if (array->env != tape->caller->env)
    return tn__fail(TN_INVALID,
                    "tn_tape_watch: the array belongs to another runtime; copy"
                    " it with tn_array_get and tn_array_set");
  if (!tn__dtype_is_float(array->tensor.dtype))
    return tn__fail(TN_DTYPE,
                    "tn_tape_watch: an array of %s has no gradient; only"
                    " floating-point types do",
                    tn__dtype_name(array->tensor.dtype));
  if (tn__tensor_has_repeats(&array->tensor))
    return tn__fail(TN_INVALID,
                    "tn_tape_watch: the array is a broadcast view that repeats"
                    " elements; watch the array it was made from");
  return TN_OK;
}

static tn_code watched_create(tn_tape *tape, tn_array *array) {
  const tn__env *env = tape->caller->env;
  TN__TRY(tn__tape_index_reserve(tape, 1));
  TN__TRY(tn__vec_reserve(env, &tape->watched, 1));
  tn__tape_value *value = tn__zalloc(env, sizeof *value);
  if (!value) return tn__fail_memory(sizeof *value, "a watched array");
  value->watched = tn__array_retain(array);
  value->layout = tn__layout_of(array);
  value->serial = tn__tape_serial(tape, array, false);
  value->before = value->after = tn__array_watch(array);
  tape->watched.v[tape->watched.n++] = value;
  tn__tape_enter(tape, value);
  return TN_OK;
}

tn_code tn__tape_watch(tn_tape *tape, tn_array *array) {
  TN__TRY(watch_check(tape, array));
  tn__tape_value *value = NULL, *old = NULL;
  const int known = tn__tape_find(tape, array, &value);
  if (known == TN__KNOWN_VALUE) return TN_OK;
  if (known == TN__KNOWN_PARTLY) {
    tn__fail(TN_INVALID, "tn_tape_watch: the array");
    return tn__tape_find_fail(known);
  }
  (void)tn__tape_find_source(tape, array, &old);
  TN__TRY(watched_create(tape, array));
  const tn__layout layout = tn__layout_of(array);
  if (old && old->watched && tn__layout_same(&old->layout, &layout))
    old->outdated = true;
  return TN_OK;
}

/* ------------------------------------------------------- detach, constants */

tn_code tn__tape_detach(tn_tape *tape, tn_array *array, tn_array **out) {
  const tn__layout layout = tn__layout_of(array);
  *out = NULL;
  if (array->env != tape->caller->env)
    return tn__fail(TN_INVALID,
                    "tn_tape_detach: the array belongs to another runtime");
  tn_array *copy = NULL;
  TN__TRY(tn__layout_array(&layout, &copy));
  const tn_code rc = tn__array_copy(copy, array);
  if (rc)
    tn__array_release(copy);
  else
    *out = copy;
  return rc;
}

tn_code tn__layout_array(const tn__layout *like, tn_array **out) {
  const tn_spec spec = {like->dtype, like->ndim, like->shape};
  return tn__array_create_on(like->device, &spec, out);
}

static tn_code scalar_create(tn__device *device, tn_dtype dtype,
                             uint32_t number, tn_array **out) {
  const float one = 1;
  const double wide = 1;
  const uint16_t half = tn__f32_to_f16(1), brain = tn__f32_to_bf16(1);
  const uint64_t zero = 0;
  const void *bits = &zero;
  tn_array *array = NULL;
  if (number)
    bits = dtype == TN_F64   ? (const void *)&wide
           : dtype == TN_F32 ? (const void *)&one
           : dtype == TN_F16 ? (const void *)&half
                             : (const void *)&brain;
  TN__TRY(tn__array_create_on(device, &(tn_spec){dtype, 0, NULL}, &array));
  const tn_code rc = tn__array_set(array, bits, (size_t)tn_dtype_bytes(dtype));
  if (rc)
    tn__array_release(array);
  else
    *out = array;
  return rc;
}

static bool is_alike(const tn_array *array, const tn__layout *like) {
  if (!array) return false;
  const tn__layout layout = tn__layout_of(array);
  return tn__layout_alike(&layout, like);
}

/* Puts an array in the place of another, and hands it out too. */
static tn_code keep(tn_array **place, tn_array *array, tn_array **out) {
  tn__array_release(*place);
  *place = array;
  *out = tn__array_retain(array);
  return TN_OK;
}

/* One element lies as densely as kernels like it. */
static tn_code constant_view(tn_array *scalar, const tn__layout *like,
                             tn_array **out) {
  static const int64_t repeated[TN_MAX_NDIM];
  int64_t dense[TN_MAX_NDIM], size = 1;
  for (int32_t i = 0; i < like->ndim; ++i) size *= like->shape[i];
  tn__strides_dense(like->ndim, like->shape, dense);
  const tn__view view = {like->ndim, like->shape, size == 1 ? dense : repeated,
                         0};
  return tn__array_view(scalar, &view, out);
}

/* Those of the cpu are made once, and the last views of them are kept: a loss
 * has the same shape each time. */
tn_code tn__tape_constant(tn_tape *tape, uint32_t number,
                          const tn__layout *like, tn_array **out) {
  const int bit = __builtin_ctzll(tn__dtype_bit(like->dtype));
  const bool cached = like->device == tape->caller->env->cpu;
  tn_array *mine = NULL, *view = NULL;
  tn_array **scalar = cached ? &tape->constants[number][bit] : &mine;
  *out = NULL;
  if (cached && is_alike(tape->views[number], like)) {
    *out = tn__array_retain(tape->views[number]);
    return TN_OK;
  }
  if (!*scalar)
    TN__TRY(scalar_create(like->device, like->dtype, number, scalar));
  const tn_code rc = constant_view(*scalar, like, &view);
  tn__array_release(mine);
  if (rc == TN_OK && cached) return keep(&tape->views[number], view, out);
  *out = view;
  return rc;
}

/* Larger ones are not kept: a kernel may have wanted memory for them, and
 * making them is no part of what it takes to compute on them. */
tn_code tn__tape_blank(tn_tape *tape, const tn__layout *like, tn_array **out) {
  tn_array *array = NULL;
  *out = NULL;
  for (uint32_t i = 0; i < TN__TAPE_BLANKS; ++i) {
    if (!is_alike(tape->blanks[i], like)) continue;
    *out = tn__array_retain(tape->blanks[i]);
    return TN_OK;
  }
  TN__TRY(tn__layout_array(like, &array));
  if (array->block->bytes <= TN__BLOCK_ROOM)
    return keep(&tape->blanks[tape->next_blank++ % TN__TAPE_BLANKS], array,
                out);
  *out = array;
  return TN_OK;
}
