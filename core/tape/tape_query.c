/* SPDX-License-Identifier: Apache-2.0
 * tape_query.c: checks a request for gradients, finds the values of its arrays,
 * and writes the results.
 */
#include <string.h>

#include "tape.h"

/* ------------------------------------------------------------------- check */

static tn_req request_of(const tn_tape_query *q, size_t k) {
  return q->gradients.req ? q->gradients.req[k] : TN_REQ_WRITE;
}

static bool is_like(const tn_array *a, const tn_array *b) {
  const tn_tensor *s = &a->tensor, *t = &b->tensor;
  return s->dtype == t->dtype && s->ndim == t->ndim &&
         memcmp(s->shape, t->shape, (size_t)s->ndim * sizeof *s->shape) == 0;
}

static tn_code check_array(const tn__sweep *sweep, const tn_array *array,
                           const char *list, size_t k) {
  if (!array)
    return tn__fail(TN_INVALID, "tn_tape_gradient: %s[%zu] is NULL", list, k);
  if (array->env == sweep->tape->caller->env) return TN_OK;
  return tn__fail(TN_INVALID,
                  "tn_tape_gradient: %s[%zu] belongs to another runtime", list,
                  k);
}

/* A gradient has the shape and dtype of its array. */
static tn_code check_like(const tn_array *array, const tn_array *of,
                          const char *list, size_t k) {
  if (is_like(array, of)) return TN_OK;
  return tn__fail(
      array->tensor.dtype != of->tensor.dtype ? TN_DTYPE : TN_SHAPE,
      "tn_tape_gradient: %s[%zu] differs in %s from the array that it belongs"
      " to",
      list, k, array->tensor.dtype != of->tensor.dtype ? "dtype" : "shape");
}

static tn_code check_request(const tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  const tn_req req = request_of(q, k);
  const tn_array *to_array = q->gradients.arrays[k];
  if (req == TN_REQ_NULL) return TN_OK;
  if (req != TN_REQ_WRITE && req != TN_REQ_ADD)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: gradients.req[%zu] is %u; it may be"
                    " TN_REQ_NULL, TN_REQ_WRITE or TN_REQ_ADD",
                    k, (unsigned)req);
  if (!to_array && req == TN_REQ_WRITE) return TN_OK;
  if (!to_array)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: TN_REQ_ADD wants an array to add to,"
                    " but gradients.arrays[%zu] is NULL",
                    k);
  TN__TRY(check_array(sweep, to_array, "gradients.arrays", k));
  if (tn__tensor_has_repeats(&to_array->tensor))
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: gradients.arrays[%zu] is a broadcast"
                    " view that repeats elements; give an array of its own",
                    k);
  return check_like(to_array, q->of.arrays[k], "gradients.arrays", k);
}

tn_code tn__sweep_check(const tn__sweep *sweep) {
  const tn_tape_query *q = sweep->query;
  if (q->head_gradients.n > 0 && q->head_gradients.n != q->heads.n)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: there are %zu heads, but"
                    " head_gradients has %zu entries; give as many, or none",
                    q->heads.n, q->head_gradients.n);
  if (q->gradients.n != q->of.n)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: `of` has %zu entries, but gradients"
                    " has %zu; they must be as many",
                    q->of.n, q->gradients.n);
  for (size_t k = 0; k < q->heads.n; ++k)
    TN__TRY(check_array(sweep, q->heads.arrays[k], "heads", k));
  for (size_t k = 0; k < q->head_gradients.n; ++k) {
    const tn_array *to_array = q->head_gradients.arrays[k];
    if (!to_array) continue;
    TN__TRY(check_array(sweep, to_array, "head_gradients", k));
    TN__TRY(check_like(to_array, q->heads.arrays[k], "head_gradients", k));
  }
  for (size_t k = 0; k < q->of.n; ++k) {
    TN__TRY(check_array(sweep, q->of.arrays[k], "of", k));
    TN__TRY(check_request(sweep, k));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- sources */

static tn_code fail_unknown(const char *list, size_t k) {
  return tn__fail(TN_INVALID,
                  "tn_tape_gradient: %s[%zu] is not on the tape: it is neither"
                  " watched nor computed from a watched array by"
                  " tn_tape_call, or the tape has forgotten it (TN_TAPE_KEEP"
                  " keeps its calls)",
                  list, k);
}

static tn_code find_source(tn__sweep *sweep, size_t k) {
  tn_array *array = sweep->query->of.arrays[k];
  const int known =
      tn__tape_find_source(sweep->tape, array, &sweep->sources[k]);
  if (known == TN__KNOWN_NOT) return fail_unknown("of", k);
  if (known != TN__KNOWN_VALUE) {
    tn__fail(TN_INVALID, "tn_tape_gradient: of[%zu]", k);
    return tn__tape_find_fail(known);
  }
  if (!tn__tensor_has_repeats(&array->tensor)) return TN_OK;
  return tn__fail(TN_INVALID,
                  "tn_tape_gradient: of[%zu] is a broadcast view that repeats"
                  " elements; ask for the array it was made from",
                  k);
}

/* True if the sweep uses the block of the caller's array for another purpose
 * too. */
static bool is_shared(const tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  const tn_array *to_array = q->gradients.arrays[k];
  if (tn__tape_has_block(sweep->tape, to_array)) return true;
  for (size_t i = 0; i < q->head_gradients.n; ++i) {
    const tn_array *out_grad = q->head_gradients.arrays[i];
    if (out_grad && out_grad->block == to_array->block) return true;
  }
  for (size_t i = 0; i < q->of.n; ++i) {
    const tn_array *other = q->gradients.arrays[i];
    if (i != k && other && other->block == to_array->block) return true;
  }
  return false;
}

/* Lets the sweep sum the gradient of a watched array directly in the caller's
 * array. */
static void place_source(tn__sweep *sweep, size_t k) {
  const tn__tape_value *value = sweep->sources[k];
  tn__value_gradient *s = &sweep->gradients[value->id];
  tn_array *to_array = sweep->query->gradients.arrays[k];
  const tn__layout layout = tn__layout_of(sweep->query->of.arrays[k]);
  if (sweep->record || value->entry || s->n_requests != 1 || !to_array) return;
  if (!tn__layout_is_same(&value->layout, &layout)) return;
  if (!tn_tensor_is_contiguous(&to_array->tensor) || is_shared(sweep, k))
    return;
  s->array = tn__array_retain(to_array);
  s->grows = true;
  s->blank = request_of(sweep->query, k) == TN_REQ_WRITE;
}

tn_code tn__sweep_find_sources(tn__sweep *sweep) {
  const tn_tape_query *q = sweep->query;
  for (size_t k = 0; k < q->of.n; ++k) {
    if (request_of(q, k) == TN_REQ_NULL) continue;
    TN__TRY(find_source(sweep, k));
    tn__value_gradient *s = &sweep->gradients[sweep->sources[k]->id];
    s->wanted = true;
    ++s->n_requests;
  }
  for (size_t k = 0; k < q->of.n; ++k)
    if (sweep->sources[k]) place_source(sweep, k);
  return TN_OK;
}

/* ------------------------------------------------------------------- heads */

/* True if a result is written to the memory of this output gradient, perhaps
 * before another result that depends on it. */
static bool is_written(const tn_tape_query *q, const tn_array *out_grad) {
  for (size_t i = 0; i < q->of.n; ++i) {
    const tn_array *to_array = q->gradients.arrays[i];
    if (to_array && request_of(q, i) != TN_REQ_NULL &&
        to_array->block == out_grad->block)
      return true;
  }
  return false;
}

static tn_code add_head(tn__sweep *sweep, size_t k,
                        const tn__tape_value *value) {
  const tn_tape_query *q = sweep->query;
  const tn__layout layout = tn__layout_of(q->heads.arrays[k]);
  tn_array *out_grad =
      k < q->head_gradients.n ? q->head_gradients.arrays[k] : NULL;
  if (!sweep->gradients[value->id].wanted) return TN_OK;
  if (out_grad) {
    TN__TRY(tn__sweep_add(sweep, value, &layout, out_grad, false));
    return is_written(q, out_grad) ? tn__sweep_allocate(sweep, value) : TN_OK;
  }
  TN__TRY(tn__tape_get_constant(sweep->tape, 1, &layout, &out_grad));
  const tn_code rc = tn__sweep_add(sweep, value, &layout, out_grad, false);
  tn__array_release(out_grad);
  return rc;
}

tn_code tn__sweep_add_heads(tn__sweep *sweep) {
  const tn_tape_query *q = sweep->query;
  for (size_t k = 0; k < q->heads.n; ++k) {
    tn__tape_value *value = NULL;
    tn_array *head = q->heads.arrays[k];
    const int known = tn__tape_find(sweep->tape, head, &value);
    if (known == TN__KNOWN_NOT && tn__tape_is_known(sweep->tape, head))
      continue;
    if (known == TN__KNOWN_NOT) return fail_unknown("heads", k);
    if (known != TN__KNOWN_VALUE) {
      tn__fail(TN_INVALID, "tn_tape_gradient: heads[%zu]", k);
      return tn__tape_find_fail(known);
    }
    TN__TRY(add_head(sweep, k, value));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- results */

/* A recorded gradient without a watched source is a constant of the tape, with
 * zero gradients. */
static tn_code write_recorded(tn_tape *tape, tn_array *to, tn_array *gradient,
                              bool add) {
  if (gradient) TN__TRY(tn__tape_accumulate(tape, to, to, gradient, !add));
  if (!gradient && !add) TN__TRY(tn__tape_clear(tape, to));
  return tn__tape_add_constant(tape, to);
}

/* Writes the gradient to `to`, or adds it. */
static tn_code write_result(tn__sweep *sweep, tn_array *to, tn_array *gradient,
                            bool add) {
  if (sweep->record) return write_recorded(sweep->tape, to, gradient, add);
  if (!gradient) return add ? TN_OK : tn__array_clear(sweep->tape, to);
  return add ? tn__array_accumulate(to, gradient)
             : tn__array_copy(to, gradient);
}

static tn_code create_result(tn__sweep *sweep, const tn_array *of,
                             tn_array *gradient, tn_array **out) {
  const tn__layout layout = tn__layout_of(of);
  TN__TRY(tn__layout_create_array(&layout, out));
  return write_result(sweep, *out, gradient, false);
}

static tn_code write_source(tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  tn__value_gradient *s = &sweep->gradients[sweep->sources[k]->id];
  const tn__layout layout = tn__layout_of(q->of.arrays[k]);
  tn_array *to_array = q->gradients.arrays[k], *part = NULL;
  if (s->grows && !s->is_new) /* the sweep summed there */
    return s->blank ? tn__array_clear(sweep->tape, to_array) : TN_OK;
  if (!to_array && s->is_new && s->n_requests == 1 &&
      tn__layout_is_same(&sweep->sources[k]->layout, &layout)) {
    sweep->results[k] = s->array;
    s->array = NULL;
    return sweep->record ? tn__tape_add_constant(sweep->tape, sweep->results[k])
                         : TN_OK;
  }
  if (s->array)
    TN__TRY(tn__sweep_view_part(sweep, sweep->sources[k], &layout, &part));
  const tn_code rc =
      to_array
          ? write_result(sweep, to_array, part, request_of(q, k) == TN_REQ_ADD)
          : create_result(sweep, q->of.arrays[k], part, &sweep->results[k]);
  tn__array_release(part);
  return rc;
}

tn_code tn__sweep_write_results(tn__sweep *sweep) {
  for (size_t k = 0; k < sweep->query->of.n; ++k)
    if (sweep->sources[k]) TN__TRY(write_source(sweep, k));
  return TN_OK;
}
