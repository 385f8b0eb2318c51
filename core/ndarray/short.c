/* SPDX-License-Identifier: Apache-2.0
 * short.c: the short way of a call. A call like one that was made before, on
 * arrays that nothing else uses, needs a comparison with its recipe and the
 * kernel; it passes the engine's gate, so that nobody else can push meanwhile,
 * and leaves no trace in the engine. Whatever is unusual here goes the long
 * way: this file refuses, it never fails for a reason of its own.
 */
#include <string.h>

#include "call.h"

/* A call while it is compared. */
typedef struct attempt {
  const tn__target_op *target;
  const tn_inputs *in;
  const tn_outputs *out;
  tn__recipe *recipe;
} attempt;

/* ------------------------------------------------------------------ match */

static bool params_match(tn__recipe *r, const tn__target_op *target) {
  const tn_params *given =
      target->params ? target->params : target->op->defaults;
  if (!r->params) return !target->params;
  return given && given->serial ==
                      atomic_load_explicit(&r->serial, memory_order_relaxed);
}

static inline bool has_memory(const tn_array *array) {
  return atomic_load_explicit(&array->block->data, memory_order_acquire) !=
         NULL;
}

static inline bool array_fits(const attempt *a, const tn_array *array,
                              const tn_tensor *like) {
  return array->env == a->recipe->env &&
         tn__layout_equal(&array->tensor, like) && has_memory(array);
}

static bool is_used(const tn__recipe *r, uint32_t i) {
  return !(r->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA));
}

/* Inputs that the kernel does not see must be as they were, too: whether they
 * fit was checked then. */
static bool inputs_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn_array *array = a->in->arrays[i];
    if (!array || r->given[i].ndim < 0) {
      if (array || r->given[i].ndim >= 0) return false;
      continue;
    }
    if (array->env != r->env || !tn__layout_equal(&array->tensor, &r->given[i]))
      return false;
    if (is_used(r, i) &&
        (!has_memory(array) || !tn__var_readable(&array->block->var)))
      return false;
  }
  return true;
}

static bool aux_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_aux; ++i) {
    const tn_array *array = a->in->arrays[r->n_in + i];
    if (!array || !array_fits(a, array, &r->aux[i]) ||
        !tn__var_writable(&array->block->var))
      return false;
    for (uint32_t k = 0; k < a->in->n; ++k)
      if (k != r->n_in + i && a->in->arrays[k] &&
          a->in->arrays[k]->block == array->block)
        return false;
  }
  return true;
}

/* The output is the very view that input `alias` is, and touches no other; or,
 * with alias -1, touches none at all. */
static bool apart(const attempt *a, const tn_array *array, int32_t alias) {
  for (size_t i = 0; i < a->in->n; ++i) {
    const tn_array *in = a->in->arrays[i];
    bool same = in && in->block == array->block;
    if ((int32_t)i == alias ? !same || in->offset != array->offset : same)
      return false;
  }
  return true;
}

static bool made_match(const tn__recipe *r, uint32_t i) {
  return r->closed && r->req[i] == TN_REQ_WRITE &&
         tn_tensor_is_contiguous(&r->out[i]);
}

static bool given_match(const attempt *a, const tn_array *array, uint32_t i) {
  const tn__recipe *r = a->recipe;
  if (!array_fits(a, array, &r->out[i]) ||
      !tn__var_writable(&array->block->var) || !apart(a, array, r->alias[i]))
    return false;
  for (uint32_t k = 0; k < i; ++k)
    if (a->out->arrays[k] && a->out->arrays[k]->block == array->block)
      return false;
  return true;
}

/* What a caller asks for; a kernel may have been asked to work in place. */
static bool request_matches(tn_req asked, tn_req lowered) {
  return asked == lowered ||
         (asked == TN_REQ_WRITE && lowered == TN_REQ_INPLACE);
}

static bool outputs_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn_outputs *out = a->out;
  for (uint32_t i = 0; i < r->n_out; ++i) {
    tn_req asked = i >= out->n ? TN_REQ_NULL
                   : out->req  ? out->req[i]
                               : TN_REQ_WRITE;
    if (!request_matches(asked, r->req[i])) return false;
    if (asked == TN_REQ_NULL) continue;
    if (out->arrays[i] ? !given_match(a, out->arrays[i], i) : !made_match(r, i))
      return false;
  }
  return true;
}

static bool resources_ready(const tn__recipe *r) {
  const tn__caller *caller = r->launch.caller;
  if (r->n_random && !tn__var_writable(&caller->random.var)) return false;
  return (r->kernel->desc->flags & TN_KERNEL_REENTRANT) ||
         tn__var_writable(&caller->serial);
}

static bool matches(const attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn__target_op *t = a->target;
  return r->direct && r->small && r->pass == t->pass && r->flags == t->flags &&
         r->epoch == atomic_load_explicit(&t->caller->registry->epoch,
                                          memory_order_relaxed) &&
         a->in->n == (size_t)r->n_in + r->n_aux && a->out->n <= r->n_out &&
         a->out->n >= r->n_visible && params_match(a->recipe, t) &&
         inputs_match(a) && outputs_match(a) && aux_match(a) &&
         resources_ready(r);
}

/* The first operand tells where to look; a recipe that fits comes first. */
static bool find(attempt *a) {
  tn__cache *cache = a->target->op->cache;
  const tn_array *first = a->in->n    ? a->in->arrays[0]
                          : a->out->n ? a->out->arrays[0]
                                      : NULL;
  if (!cache || !first ||
      a->target->op->registry != a->target->caller->registry)
    return false;
  tn__recipe **ways = cache->sets[tn__cache_set(&first->tensor)];
  for (uint32_t i = 0; i < TN__CACHE_WAYS && ways[i]; ++i) {
    a->recipe = ways[i];
    if (matches(a)) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- outputs */

static void unmake(const attempt *a, const uint8_t *made, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (!made[i]) continue;
    tn__array_release(a->out->arrays[i]);
    a->out->arrays[i] = NULL;
  }
}

static tn_code make_one(const attempt *a, uint32_t i) {
  const tn_tensor *like = &a->recipe->out[i];
  const tn_spec spec = {like->dtype, like->ndim, like->shape};
  tn_array *array = NULL;
  TN__TRY(tn__array_create(a->recipe->env, &spec, &array));
  tn_code rc = tn__block_materialise(array->block);
  if (rc)
    tn__array_release(array);
  else
    a->out->arrays[i] = array;
  return rc;
}

/* New arrays, each marked in `made`. */
static tn_code make(const attempt *a, uint8_t *made) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < a->out->n; ++i) {
    made[i] = r->req[i] != TN_REQ_NULL && !a->out->arrays[i];
    tn_code rc = made[i] ? make_one(a, i) : TN_OK;
    if (rc == TN_OK) continue;
    unmake(a, made, i);
    return rc;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- compute */

static void place(const attempt *a) {
  tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (is_used(r, i)) r->in[i].data = tn__array_data(a->in->arrays[i]);
  for (uint32_t i = 0; i < r->n_aux; ++i) {
    r->aux[i].data = tn__array_data(a->in->arrays[r->n_in + i]);
    tn__array_written(a->in->arrays[r->n_in + i]);
  }
  for (uint32_t i = 0; i < a->out->n; ++i) {
    if (r->req[i] == TN_REQ_NULL) continue;
    r->out[i].data = tn__array_data(a->out->arrays[i]);
    tn__array_written(a->out->arrays[i]);
  }
}

static tn_code resources_take(tn__recipe *r) {
  void *memory = NULL;
  tn__launch_random(&r->launch, r);
  if (r->plan.n_ws == 0) return TN_OK;
  if (r->ws_total > 0) {
    tn__space *space = tn__space_next(r->env->cpu);
    if (!tn__var_writable(&space->var)) return TN_BUSY;
    TN__TRY(tn__space_reserve(space, r->ws_total, &memory));
  }
  tn__launch_workspaces(&r->launch, r, memory);
  return TN_OK;
}

/* Given outputs and states carry the error of a kernel that failed. */
static void spoil(const attempt *a, const uint8_t *made, tn_code code) {
  const tn__recipe *r = a->recipe;
  tn__engine *engine = r->env->engine;
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (r->req[i] != TN_REQ_NULL && !made[i])
      tn__var_fail(engine, &a->out->arrays[i]->block->var, code);
  for (uint32_t i = 0; i < r->n_aux; ++i)
    tn__var_fail(engine, &a->in->arrays[r->n_in + i]->block->var, code);
}

static tn_code compute(const attempt *a) {
  tn__recipe *r = a->recipe;
  const tn_params *given =
      a->target->params ? a->target->params : a->target->op->defaults;
  r->launch.frame.params = given ? given->data : NULL;
  place(a);
  return tn__launch_compute(&r->launch);
}

enum { MOST_OUTPUTS = 16 };

static bool call_inside(attempt *a, tn_code *rc) {
  uint8_t made[MOST_OUTPUTS];
  if (!find(a) || a->out->n > MOST_OUTPUTS) return false;
  *rc = resources_take(a->recipe);
  if (*rc == TN_BUSY) return false;
  if (*rc == TN_OK) *rc = make(a, made);
  if (*rc != TN_OK) return true;
  *rc = compute(a);
  if (*rc == TN_OK) return true;
  spoil(a, made, *rc);
  unmake(a, made, (uint32_t)a->out->n);
  return true;
}

bool tn__call_short(const tn__target_op *target, const tn_inputs *in,
                    const tn_outputs *out, tn_code *rc) {
  attempt a = {target, in, out, NULL};
  tn__engine *engine = target->caller->env->engine;
  if (!tn__enter(engine)) return false;
  bool done = call_inside(&a, rc);
  tn__leave(engine);
  return done;
}

/* --------------------------------------------------------------- backward */

/* The inputs of a backward call in the order in which a kernel sees them; false
 * if they are more than `most`, or their number needs more than the tables. */
static bool flatten(const tn_op *op, const tn_backward *call, tn_inputs *to,
                    tn_array **arrays, size_t most) {
  const tn_inputs *lists[] = {&call->out_grads, &call->inputs, &call->outputs};
  const size_t n[] = {op->n_outputs, op->n_inputs, op->n_outputs};
  size_t k = 0;
  if (n[0] + n[1] + n[2] > most || call->inputs.n != op->n_inputs ||
      call->out_grads.n > op->n_outputs || call->outputs.n > op->n_outputs)
    return false;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->count != TN_NONE) return false;
  for (int l = 0; l < 3; ++l)
    for (size_t i = 0; i < n[l]; ++i)
      arrays[k++] = i < lists[l]->n ? lists[l]->arrays[i] : NULL;
  *to = (tn_inputs){k, arrays};
  return true;
}

bool tn__backward_short(const tn__target_op *target, const tn_backward *call,
                        tn_code *rc) {
  tn_array *arrays[TN__INLINE_OPERANDS];
  tn_inputs in;
  attempt a = {target, &in, &call->in_grads, NULL};
  tn__engine *engine = target->caller->env->engine;
  if (!tn__enter(engine)) return false;
  /* Where something is cached, the operator is defined. */
  bool done =
      target->op->cache &&
      flatten(target->op->desc, call, &in, arrays, TN__INLINE_OPERANDS) &&
      call_inside(&a, rc);
  tn__leave(engine);
  return done;
}
