/* SPDX-License-Identifier: Apache-2.0
 * tape.c: creates a tape, watches arrays, forgets calls, and keeps constants.
 * A watched array stays on the tape after its calls are forgotten, unless only
 * the tape still has it.
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

void tn__tape_append_entry(tn_tape *tape, tn__tape_entry *entry) {
  entry->previous = tape->last;
  entry->next = NULL;
  if (tape->last)
    tape->last->next = entry;
  else
    tape->first = entry;
  tape->last = entry;
}

/* Releases the arrays and parameters of an entry. */
static void drop_entry(tn__tape_entry *entry) {
  for (uint32_t i = 0; i < entry->n_in + entry->n_aux; ++i)
    tn__array_release(entry->in[i].saved);
  for (uint32_t i = 0; i < entry->n_out; ++i)
    tn__array_release(entry->out[i].saved);
  tn__params_release(entry->params);
}

tn__tape_point tn__tape_point_get(const tn_tape *tape) {
  return (tn__tape_point){tape->last, tape->latest};
}

/* Their memory stays in use until the tape forgets. */
void tn__tape_return_to(tn_tape *tape, tn__tape_point point) {
  while (tape->latest != point.latest) tn__tape_remove_newest(tape);
  while (tape->last != point.last) {
    tn__tape_entry *entry = tape->last;
    for (uint32_t i = 0; i < entry->n_in; ++i)
      if (entry->in[i].value) --entry->in[i].value->n_uses;
    tape->last = entry->previous;
    drop_entry(entry);
  }
  if (tape->last)
    tape->last->next = NULL;
  else
    tape->first = NULL;
}

/* ------------------------------------------------------------------ forget */

static void free_value(const tn__env *env, tn__tape_value *value) {
  tn__array_release(value->watched);
  tn__free(env, value);
}

/* True if only the tape still has the array. */
static bool is_lost(const tn_array *array) {
  return atomic_load(&array->n_owners) == 1 &&
         atomic_load(&array->block->n_owners) == 1;
}

/* The index has space: it contained all of these before. */
static void enter_watched(tn_tape *tape) {
  tn__vec *list = &tape->watched;
  size_t n = 0;
  for (size_t i = 0; i < list->n; ++i) {
    tn__tape_value *value = list->v[i];
    if (value->outdated || is_lost(value->watched)) {
      free_value(tape->caller->env, value);
      continue;
    }
    value->n_uses = 0;
    list->v[n++] = value;
    tn__tape_add_value(tape, value);
  }
  list->n = n;
}

static void drop_entries(tn_tape *tape) {
  for (tn__tape_entry *e = tape->first; e; e = e->next) drop_entry(e);
  for (size_t i = 0; i < tape->held.n; ++i)
    tn__operator_unhold(tape->held.v[i]);
  tape->held.n = 0;
  tape->first = tape->last = NULL;
  tape->latest = NULL;
  tape->n_values = 0;
}

void tn__tape_forget(tn_tape *tape) {
  drop_entries(tape);
  tn__tape_memory_reset(&tape->memory);
  tn__tape_index_reset(tape);
  enter_watched(tape);
}

static void release_constants(tn_tape *tape) {
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
  drop_entries(tape);
  for (size_t i = 0; i < tape->watched.n; ++i)
    free_value(env, tape->watched.v[i]);
  release_constants(tape);
  tn__vec_deinit(env, &tape->watched);
  tn__vec_deinit(env, &tape->held);
  tn__tape_memory_deinit(env, &tape->memory);
  tn__tape_memory_deinit(env, &tape->scratch);
  tn__free(env, tape->slots);
  tn__free(env, tape);
  tn__env_release(env); /* last: it may destroy the runtime */
}

/* ------------------------------------------------------------------- watch */

static tn_code check_watch(const tn_tape *tape, const tn_array *array) {
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

static tn_code create_watched(tn_tape *tape, tn_array *array) {
  const tn__env *env = tape->caller->env;
  TN__TRY(tn__tape_index_reserve(tape, 1));
  TN__TRY(tn__vec_reserve(env, &tape->watched, 1));
  tn__tape_value *value = tn__zalloc(env, sizeof *value);
  if (!value) return tn__fail_memory(sizeof *value, "a watched array");
  value->watched = tn__array_retain(array);
  value->layout = tn__layout_of(array);
  value->serial = tn__tape_get_serial(tape, array, false);
  value->before = value->after = tn__array_watch(array);
  tape->watched.v[tape->watched.n++] = value;
  tn__tape_add_value(tape, value);
  return TN_OK;
}

tn_code tn__tape_watch(tn_tape *tape, tn_array *array) {
  TN__TRY(check_watch(tape, array));
  tn__tape_value *value = NULL, *old = NULL;
  const int known = tn__tape_find(tape, array, &value);
  if (known == TN__KNOWN_VALUE) return TN_OK;
  if (known == TN__KNOWN_PARTLY) {
    tn__fail(TN_INVALID, "tn_tape_watch: the array");
    return tn__tape_find_fail(known);
  }
  (void)tn__tape_find_source(tape, array, &old);
  TN__TRY(create_watched(tape, array));
  const tn__layout layout = tn__layout_of(array);
  if (old && old->watched && tn__layout_is_same(&old->layout, &layout))
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
  TN__TRY(tn__layout_create_array(&layout, &copy));
  const tn_code rc = tn__array_copy(copy, array);
  if (rc)
    tn__array_release(copy);
  else
    *out = copy;
  return rc;
}

tn_code tn__layout_create_array(const tn__layout *like, tn_array **out) {
  const tn_spec spec = {like->dtype, like->ndim, like->shape};
  return tn__array_create_on(like->device, &spec, out);
}

static tn_code create_scalar(tn__device *device, tn_dtype dtype,
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
  return tn__layout_is_like(&layout, like);
}

/* Replaces a kept array, and returns a second reference. */
static tn_code keep_array(tn_array **place, tn_array *array, tn_array **out) {
  tn__array_release(*place);
  *place = array;
  *out = tn__array_retain(array);
  return TN_OK;
}

/* A view of one element is dense, which kernels prefer. */
static tn_code view_constant(tn_array *scalar, const tn__layout *like,
                             tn_array **out) {
  static const int64_t repeated[TN_MAX_NDIM];
  int64_t dense[TN_MAX_NDIM], size = 1;
  for (int32_t i = 0; i < like->ndim; ++i) size *= like->shape[i];
  tn__strides_dense(like->ndim, like->shape, dense);
  const tn__view view = {like->ndim, like->shape, size == 1 ? dense : repeated,
                         0};
  return tn__array_view(scalar, &view, out);
}

/* Constants of the cpu are created once, and their last views are kept, because
 * a loss has the same shape each time. */
tn_code tn__tape_get_constant(tn_tape *tape, uint32_t number,
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
    TN__TRY(create_scalar(like->device, like->dtype, number, scalar));
  const tn_code rc = view_constant(*scalar, like, &view);
  tn__array_release(mine);
  if (rc == TN_OK && cached) return keep_array(&tape->views[number], view, out);
  *out = view;
  return rc;
}

/* Larger arrays are not kept: a kernel may have allocated memory for them.
 * Compared with a computation on so many elements, their creation is cheap. */
tn_code tn__tape_get_blank(tn_tape *tape, const tn__layout *like,
                           tn_array **out) {
  tn_array *array = NULL;
  *out = NULL;
  for (uint32_t i = 0; i < TN__TAPE_BLANKS; ++i) {
    if (!is_alike(tape->blanks[i], like)) continue;
    *out = tn__array_retain(tape->blanks[i]);
    return TN_OK;
  }
  TN__TRY(tn__layout_create_array(like, &array));
  if (array->block->bytes <= TN__BLOCK_ROOM)
    return keep_array(&tape->blanks[tape->next_blank++ % TN__TAPE_BLANKS],
                      array, out);
  *out = array;
  return TN_OK;
}
