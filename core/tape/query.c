/* SPDX-License-Identifier: Apache-2.0
 * query.c: what is asked of a tape: its lists are checked, the arrays in
 * them found, and the gradients handed out.
 */
#include <string.h>

#include "tape.h"

/* ------------------------------------------------------------------- check */

static tn_req asked(const tn_tape_query *q, size_t k) {
  return q->gradients.req ? q->gradients.req[k] : TN_REQ_WRITE;
}

static bool is_like(const tn_array *a, const tn_array *b) {
  const tn_tensor *s = &a->tensor, *t = &b->tensor;
  return s->dtype == t->dtype && s->ndim == t->ndim &&
         memcmp(s->shape, t->shape, (size_t)s->ndim * sizeof *s->shape) == 0;
}

static tn_code array_check(const tn__sweep *sweep, const tn_array *array,
                           const char *list, size_t k) {
  if (!array)
    return tn__fail(TN_INVALID, "tn_tape_gradient: %s[%zu] is NULL", list, k);
  if (array->env == sweep->tape->caller->env) return TN_OK;
  return tn__fail(TN_INVALID,
                  "tn_tape_gradient: %s[%zu] belongs to another runtime", list,
                  k);
}

/* A gradient looks like the array that it belongs to. */
static tn_code like_check(const tn_array *array, const tn_array *of,
                          const char *list, size_t k) {
  if (is_like(array, of)) return TN_OK;
  return tn__fail(
      array->tensor.dtype != of->tensor.dtype ? TN_DTYPE : TN_SHAPE,
      "tn_tape_gradient: %s[%zu] differs in %s from the array that it belongs"
      " to",
      list, k, array->tensor.dtype != of->tensor.dtype ? "dtype" : "shape");
}

static tn_code request_check(const tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  const tn_req req = asked(q, k);
  const tn_array *given = q->gradients.arrays[k];
  if (req == TN_REQ_NULL) return TN_OK;
  if (req != TN_REQ_WRITE && req != TN_REQ_ADD)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: gradients.req[%zu] is %u; it may be"
                    " TN_REQ_NULL, TN_REQ_WRITE or TN_REQ_ADD",
                    k, (unsigned)req);
  if (!given && req == TN_REQ_WRITE) return TN_OK;
  if (!given)
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: TN_REQ_ADD wants an array to add to,"
                    " but gradients.arrays[%zu] is NULL",
                    k);
  TN__TRY(array_check(sweep, given, "gradients.arrays", k));
  if (tn__tensor_has_repeats(&given->tensor))
    return tn__fail(TN_INVALID,
                    "tn_tape_gradient: gradients.arrays[%zu] is a broadcast"
                    " view that repeats elements; give an array of its own",
                    k);
  return like_check(given, q->of.arrays[k], "gradients.arrays", k);
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
    TN__TRY(array_check(sweep, q->heads.arrays[k], "heads", k));
  for (size_t k = 0; k < q->head_gradients.n; ++k) {
    const tn_array *given = q->head_gradients.arrays[k];
    if (!given) continue;
    TN__TRY(array_check(sweep, given, "head_gradients", k));
    TN__TRY(like_check(given, q->heads.arrays[k], "head_gradients", k));
  }
  for (size_t k = 0; k < q->of.n; ++k) {
    TN__TRY(array_check(sweep, q->of.arrays[k], "of", k));
    TN__TRY(request_check(sweep, k));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- sources */

static tn_code unknown_fail(const char *list, size_t k) {
  return tn__fail(TN_INVALID,
                  "tn_tape_gradient: %s[%zu] is not on the tape: it is neither"
                  " watched nor computed from a watched array by"
                  " tn_tape_call, or the tape has forgotten it (TN_TAPE_KEEP"
                  " keeps its calls)",
                  list, k);
}

static tn_code source_find(tn__sweep *sweep, size_t k) {
  tn_array *array = sweep->query->of.arrays[k];
  const int known =
      tn__tape_find_source(sweep->tape, array, &sweep->sources[k]);
  if (known == TN__KNOWN_NOT) return unknown_fail("of", k);
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

/* A block that others have to do with while gradients are computed. */
static bool is_shared(const tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  const tn_array *given = q->gradients.arrays[k];
  if (tn__tape_touches(sweep->tape, given)) return true;
  for (size_t i = 0; i < q->head_gradients.n; ++i) {
    const tn_array *weight = q->head_gradients.arrays[i];
    if (weight && weight->block == given->block) return true;
  }
  for (size_t i = 0; i < q->of.n; ++i) {
    const tn_array *other = q->gradients.arrays[i];
    if (i != k && other && other->block == given->block) return true;
  }
  return false;
}

/* The gradient of a watched array can be summed where it is wanted. */
static void source_place(tn__sweep *sweep, size_t k) {
  const tn__tape_value *value = sweep->sources[k];
  tn__slope *s = &sweep->slopes[value->id];
  tn_array *given = sweep->query->gradients.arrays[k];
  const tn__layout layout = tn__layout_of(sweep->query->of.arrays[k]);
  if (sweep->record || value->entry || s->asked != 1 || !given) return;
  if (!tn__layout_same(&value->layout, &layout)) return;
  if (!tn_tensor_is_contiguous(&given->tensor) || is_shared(sweep, k)) return;
  s->array = tn__array_retain(given);
  s->grows = true;
  s->blank = asked(sweep->query, k) == TN_REQ_WRITE;
}

tn_code tn__sweep_sources(tn__sweep *sweep) {
  const tn_tape_query *q = sweep->query;
  for (size_t k = 0; k < q->of.n; ++k) {
    if (asked(q, k) == TN_REQ_NULL) continue;
    TN__TRY(source_find(sweep, k));
    tn__slope *s = &sweep->slopes[sweep->sources[k]->id];
    s->wanted = true;
    ++s->asked;
  }
  for (size_t k = 0; k < q->of.n; ++k)
    if (sweep->sources[k]) source_place(sweep, k);
  return TN_OK;
}

/* ------------------------------------------------------------------- heads */

/* A gradient is written to memory of the weight's, perhaps before another one
 * that is made of it. */
static bool is_written(const tn_tape_query *q, const tn_array *weight) {
  for (size_t i = 0; i < q->of.n; ++i) {
    const tn_array *given = q->gradients.arrays[i];
    if (given && asked(q, i) != TN_REQ_NULL && given->block == weight->block)
      return true;
  }
  return false;
}

static tn_code head_add(tn__sweep *sweep, size_t k,
                        const tn__tape_value *value) {
  const tn_tape_query *q = sweep->query;
  const tn__layout layout = tn__layout_of(q->heads.arrays[k]);
  tn_array *weight =
      k < q->head_gradients.n ? q->head_gradients.arrays[k] : NULL;
  if (!sweep->slopes[value->id].wanted) return TN_OK;
  if (weight) {
    TN__TRY(tn__sweep_add(sweep, value, &layout, weight, false));
    return is_written(q, weight) ? tn__sweep_own(sweep, value) : TN_OK;
  }
  TN__TRY(tn__tape_constant(sweep->tape, 1, &layout, &weight));
  const tn_code rc = tn__sweep_add(sweep, value, &layout, weight, false);
  tn__array_release(weight);
  return rc;
}

tn_code tn__sweep_heads(tn__sweep *sweep) {
  const tn_tape_query *q = sweep->query;
  for (size_t k = 0; k < q->heads.n; ++k) {
    tn__tape_value *value = NULL;
    tn_array *head = q->heads.arrays[k];
    const int known = tn__tape_find(sweep->tape, head, &value);
    if (known == TN__KNOWN_NOT && tn__tape_knows(sweep->tape, head)) continue;
    if (known == TN__KNOWN_NOT) return unknown_fail("heads", k);
    if (known != TN__KNOWN_VALUE) {
      tn__fail(TN_INVALID, "tn_tape_gradient: heads[%zu]", k);
      return tn__tape_find_fail(known);
    }
    TN__TRY(head_add(sweep, k, value));
  }
  return TN_OK;
}

/* ----------------------------------------------------------------- answers */

/* What a recorded gradient that depends on nothing watched is written to is a
 * constant of the tape: a head whose gradients are zeros. */
static tn_code answer_recorded(tn_tape *tape, tn_array *to, tn_array *slope,
                               bool add) {
  if (slope) TN__TRY(tn__tape_sum(tape, to, to, slope, !add));
  if (!slope && !add) TN__TRY(tn__tape_zero(tape, to));
  return tn__tape_know(tape, to);
}

/* `to` gets the gradient, or has it added. */
static tn_code answer_given(tn__sweep *sweep, tn_array *to, tn_array *slope,
                            bool add) {
  if (sweep->record) return answer_recorded(sweep->tape, to, slope, add);
  if (!slope) return add ? TN_OK : tn__array_clear(sweep->tape, to);
  return add ? tn__array_sum(to, slope) : tn__array_copy(to, slope);
}

static tn_code answer_new(tn__sweep *sweep, const tn_array *of, tn_array *slope,
                          tn_array **out) {
  const tn__layout layout = tn__layout_of(of);
  TN__TRY(tn__layout_array(&layout, out));
  return answer_given(sweep, *out, slope, false);
}

static tn_code answer(tn__sweep *sweep, size_t k) {
  const tn_tape_query *q = sweep->query;
  tn__slope *s = &sweep->slopes[sweep->sources[k]->id];
  const tn__layout layout = tn__layout_of(q->of.arrays[k]);
  tn_array *given = q->gradients.arrays[k], *part = NULL;
  if (s->grows && !s->made) /* it was summed there */
    return s->blank ? tn__array_clear(sweep->tape, given) : TN_OK;
  if (!given && s->made && s->asked == 1 &&
      tn__layout_same(&sweep->sources[k]->layout, &layout)) {
    sweep->results[k] = s->array;
    s->array = NULL;
    return sweep->record ? tn__tape_know(sweep->tape, sweep->results[k])
                         : TN_OK;
  }
  if (s->array)
    TN__TRY(tn__sweep_part(sweep, sweep->sources[k], &layout, &part));
  const tn_code rc =
      given ? answer_given(sweep, given, part, asked(q, k) == TN_REQ_ADD)
            : answer_new(sweep, q->of.arrays[k], part, &sweep->results[k]);
  tn__array_release(part);
  return rc;
}

tn_code tn__sweep_answer(tn__sweep *sweep) {
  for (size_t k = 0; k < sweep->query->of.n; ++k)
    if (sweep->sources[k]) TN__TRY(answer(sweep, k));
  return TN_OK;
}
