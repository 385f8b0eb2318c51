/* SPDX-License-Identifier: Apache-2.0
 * short.c: the short way of a call. A call like one that was made before, on
 * arrays that nothing else uses, needs a comparison with its recipe and the
 * kernel; it passes the engine's gate, so that nobody else can push meanwhile,
 * and leaves no trace in the engine. Inside of the gate a thread is alone, so a
 * call that workers could take a part of is made outside of it, with marks on
 * what it uses. Whatever is unusual here goes the long way: this file refuses,
 * it never fails for a reason of its own.
 */
#include <string.h>

#include "call.h"

enum { MOST_OUTPUTS = 16 };

/* A call while it is compared, and made. */
typedef struct attempt {
  const tn__target_op *target;
  const tn_backward *backward; /* NULL: a forward call */
  const tn_inputs *in;         /* as the kernel sees them */
  const tn_outputs *out;
  tn__recipe *recipe;
  tn__scratch_space *space;           /* for workspaces, or NULL */
  void *memory;               /* of the workspaces, when it was reserved */
  tn__launch *launch;         /* the recipe's, or a visit's own */
  tn_tensor *tensors;         /* in, out and aux of that */
  uint8_t made[MOST_OUTPUTS]; /* outputs that are new */
  tn_inputs flat;             /* of a backward call */
  tn_array *arrays[TN__INLINE_OPERANDS];
} attempt;

/* ------------------------------------------------------------------ match */

static bool params_match(tn__recipe *r, const tn__target_op *target) {
  const tn_params *given =
      target->params ? target->params : target->op->defaults;
  if (!r->params) return !target->params;
  return given && given->op == target->op &&
         given->serial ==
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
    if (tn__input_is_read(r->in_flags[i]) &&
        (!has_memory(array) || !tn__var_is_readable(&array->block->var)))
      return false;
  }
  return true;
}

static bool aux_changes(const tn__recipe *r, uint32_t i) {
  return tn__state_changes(r->operands[r->n_in + r->n_out + i].arg, r->flags);
}

static bool aux_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_aux; ++i) {
    const tn_array *array = a->in->arrays[r->n_in + i];
    if (!array || !array_fits(a, array, &r->aux[i]) ||
        !(aux_changes(r, i) ? tn__var_is_writable(&array->block->var)
                            : tn__var_is_readable(&array->block->var)))
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
      !tn__var_is_writable(&array->block->var) || !apart(a, array, r->alias[i]))
    return false;
  for (uint32_t k = 0; k < i; ++k)
    if (r->req[k] != TN_REQ_NULL && a->out->arrays[k] &&
        a->out->arrays[k]->block == array->block)
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

static bool resources_ready(attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn__caller *caller = a->target->caller;
  if (r->n_random && !tn__var_is_writable(&caller->random.var)) return false;
  if (!(r->kernel->desc->flags & TN_KERNEL_REENTRANT) &&
      !tn__var_is_writable(&caller->serial))
    return false;
  a->space = NULL;
  if (r->ws_total == 0) return true;
  a->space = tn__scratch_next(r->device);
  return tn__var_is_writable(&a->space->var);
}

static bool matches(attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn__target_op *t = a->target;
  return r->direct && r->small && r->pass == t->pass && r->flags == t->flags &&
         r->epoch == atomic_load_explicit(&t->caller->registry->epoch,
                                          memory_order_relaxed) &&
         a->in->n == (size_t)r->n_in + r->n_aux && a->out->n <= r->n_out &&
         a->out->n >= r->n_visible && params_match(a->recipe, t) &&
         inputs_match(a) && outputs_match(a) && aux_match(a) &&
         resources_ready(a);
}

/* The inputs of a backward call in the order in which a kernel sees them; false
 * if there are too many, or their number follows from more than the tables. */
static bool flatten(attempt *a) {
  const tn_backward *call = a->backward;
  const tn_op *op = a->target->op->desc;
  const tn_inputs *lists[] = {&call->out_grads, &call->inputs, &call->outputs};
  const size_t n[] = {op->n_outputs, op->n_inputs, op->n_outputs};
  size_t k = 0;
  if (n[0] + n[1] + n[2] > TN__INLINE_OPERANDS ||
      call->inputs.n != op->n_inputs || call->out_grads.n != op->n_outputs ||
      call->outputs.n > op->n_outputs)
    return false;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->count != TN_NONE) return false;
  for (int l = 0; l < 3; ++l)
    for (size_t i = 0; i < n[l]; ++i)
      a->arrays[k++] = i < lists[l]->n ? lists[l]->arrays[i] : NULL;
  a->flat = (tn_inputs){k, a->arrays};
  a->in = &a->flat;
  return true;
}

/* The first operand tells where to look; a recipe that fits comes first. Where
 * something is cached, the operator is defined. */
static bool find(attempt *a) {
  const tn_operator *op = a->target->op;
  if (op->registry != a->target->caller->registry) return false;
  tn__cache *cache = op->cache;
  if (!cache || (a->backward && !flatten(a))) return false;
  const tn_array *first = a->in->n    ? a->in->arrays[0]
                          : a->out->n ? a->out->arrays[0]
                                      : NULL;
  if (!first || a->out->n > MOST_OUTPUTS) return false;
  tn__recipe **ways = cache->sets[tn__cache_set(&first->tensor)];
  for (uint32_t i = 0; i < TN__CACHE_WAYS && ways[i]; ++i) {
    a->recipe = ways[i];
    if (matches(a)) return true;
  }
  return false;
}

/* ---------------------------------------------------------------- outputs */

static void unmake(attempt *a) {
  for (size_t i = 0; i < a->out->n; ++i) {
    if (!a->made[i]) continue;
    tn__array_release(a->out->arrays[i]);
    a->out->arrays[i] = NULL;
  }
}

static tn_code make_one(const attempt *a, uint32_t i) {
  const tn_tensor *like = &a->recipe->out[i];
  const tn_spec spec = {like->dtype, like->ndim, like->shape};
  tn_array *array = NULL;
  TN__TRY(tn__array_create_on(a->recipe->device, &spec, &array));
  tn_code rc = tn__block_materialise(array->block);
  if (rc)
    tn__array_release(array);
  else
    a->out->arrays[i] = array;
  return rc;
}

static bool is_wanted(const attempt *a, uint32_t i) {
  return a->recipe->req[i] != TN_REQ_NULL;
}

/* New arrays, each marked. Within the gate memory that is not there is not
 * waited for: the long way does that. */
static tn_code make(attempt *a) {
  memset(a->made, 0, sizeof a->made);
  for (uint32_t i = 0; i < a->out->n; ++i) {
    if (!is_wanted(a, i) || a->out->arrays[i]) continue;
    tn_code rc = make_one(a, i);
    if (rc) {
      unmake(a);
      return rc;
    }
    a->made[i] = 1;
  }
  return TN_OK;
}

/* ---------------------------------------------------------------- compute */

static tn_array *aux_array(const attempt *a, uint32_t i) {
  return a->in->arrays[a->recipe->n_in + i];
}

static void written(const attempt *a) {
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_wanted(a, i) && a->out->arrays[i] && !a->made[i])
      tn__array_written(a->out->arrays[i]);
  for (uint32_t i = 0; i < a->recipe->n_aux; ++i)
    if (aux_changes(a->recipe, i)) tn__array_written(aux_array(a, i));
}

static void place(const attempt *a) {
  const tn__recipe *r = a->recipe;
  tn_tensor *out = a->tensors + r->n_in, *aux = out + r->n_out;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (tn__input_is_read(r->in_flags[i]))
      a->tensors[i].data = tn__array_data(a->in->arrays[i]);
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_wanted(a, i)) out[i].data = tn__array_data(a->out->arrays[i]);
  for (uint32_t i = 0; i < r->n_aux; ++i)
    aux[i].data = tn__array_data(aux_array(a, i));
}

/* Memory for workspaces, if there are any. */
static tn_code reserve(attempt *a) {
  a->memory = NULL;
  if (!a->space) return TN_OK;
  return tn__scratch_reserve(a->space, a->recipe->ws_total, &a->memory);
}

/* Given outputs and states are free, and stay so; new ones are made, and memory
 * is reserved. */
static tn_code compute(attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn_params *given =
      a->target->params ? a->target->params : a->target->op->defaults;
  a->launch->frame.params = given ? given->data : NULL;
  if (r->plan.n_ws > 0) tn__launch_workspaces(a->launch, r, a->memory);
  tn__launch_random(a->launch, r);
  place(a);
  tn_code rc = tn__launch_compute(a->launch);
  if (rc) unmake(a);
  return rc;
}

/* ------------------------------------------------- inside of the own gate */

/* Given outputs carry the error of a call that failed, and states that it was
 * to change. */
static void spoil(const attempt *a, tn_code code) {
  tn__engine *engine = a->recipe->env->engine;
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_wanted(a, i) && a->out->arrays[i])
      tn__var_fail(engine, &a->out->arrays[i]->block->var, code);
  for (uint32_t i = 0; i < a->recipe->n_aux; ++i)
    if (aux_changes(a->recipe, i))
      tn__var_fail(engine, &aux_array(a, i)->block->var, code);
}

enum { REFUSED = 0, MADE = 1, ELSEWHERE = 2 /* it is to be made there */ };

static int call_inside(attempt *a, tn_code *rc) {
  if (!find(a)) return REFUSED;
  if (a->recipe->shared) return ELSEWHERE;
  if (make(a) != TN_OK) return REFUSED;
  if (reserve(a) != TN_OK) {
    unmake(a);
    return REFUSED;
  }
  a->launch = &a->recipe->launch;
  a->tensors = a->recipe->in;
  *rc = compute(a);
  written(a);
  if (*rc) spoil(a, *rc);
  return MADE;
}

/* --------------------------------------------------- beside other threads */

/* What a call needs that other threads must not write: the recipe's launch and
 * tensors are for who is inside of the gate. */
typedef struct visit {
  attempt a;
  tn__launch launch;
  tn_tensor tensors[TN__INLINE_OPERANDS];
} visit;

static void launch_copy(visit *v) {
  const tn__recipe *r = v->a.recipe;
  tn__launch *l = &v->launch;
  l->caller = r->launch.caller;
  l->op = r->launch.op;
  l->kernel = r->launch.kernel;
  l->operands = r->launch.operands;
  l->frame = r->launch.frame;
  l->run = r->launch.run;
  l->slot.busy = 0;
  l->slot.text[0] = '\0';
  l->slot.set_shape = NULL;
  l->run.host_data = &l->slot;
  l->frame.run = &l->run;
  memcpy(v->tensors, r->in,
         (r->n_in + r->n_out + r->n_aux) * sizeof *v->tensors);
  l->frame.in = v->tensors;
  l->frame.out = v->tensors + r->n_in;
  l->frame.aux = v->tensors + r->n_in + r->n_out;
  v->a.launch = l;
  v->a.tensors = v->tensors;
}

/* New outputs are not listed: nobody knows them yet. */
static uint32_t list_arrays(const visit *v, tn__access *to) {
  const attempt *a = &v->a;
  const tn__recipe *r = a->recipe;
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (tn__input_is_read(r->in_flags[i]))
      to[n++] = (tn__access){&a->in->arrays[i]->block->var, TN__READ, 0};
  for (uint32_t i = 0; i < a->out->n; ++i) {
    tn_array *array = a->out->arrays[i];
    if (!is_wanted(a, i) || !array) continue;
    uint32_t mode =
        r->req[i] == TN_REQ_ADD ? TN__UPDATE : tn__array_write_mode(array);
    to[n++] = (tn__access){&array->block->var, mode, 0};
  }
  for (uint32_t i = 0; i < r->n_aux; ++i)
    to[n++] = (tn__access){&aux_array(a, i)->block->var,
                           aux_changes(r, i) ? TN__UPDATE : TN__READ, 0};
  return n;
}

static uint32_t visit_choose(void *arg, tn__access *access) {
  visit *v = arg;
  if (!find(&v->a)) return TN__INLINE_REFUSED;
  const tn__recipe *r = v->a.recipe;
  if (r->n_in + r->n_out + r->n_aux > TN__INLINE_ACCESS - TN__MORE_ACCESS)
    return TN__INLINE_REFUSED;
  uint32_t n = list_arrays(v, access);
  n += tn__recipe_uses(r, v->a.target->caller, v->a.space, access + n);
  if (make(&v->a) != TN_OK) return TN__INLINE_REFUSED;
  written(&v->a);
  (void)tn__recipe_retain(v->a.recipe);
  launch_copy(v);
  return n;
}

static tn_code visit_run(void *arg) {
  visit *v = arg;
  tn_code rc = reserve(&v->a);
  if (rc == TN_OK) return compute(&v->a);
  unmake(&v->a);
  return rc;
}

static bool call_visiting(tn__engine *engine, visit *v, tn_code *rc) {
  const tn__inline_job visitor = {.name = v->a.target->op->name,
                                  .choose = visit_choose,
                                  .run = visit_run,
                                  .arg = v};
  if (!tn__run_inline(engine, &visitor, rc)) return false;
  tn__recipe_release(v->a.recipe);
  return true;
}

/* ------------------------------------------------------------------- calls */

static void begin(attempt *a, const tn__target_op *target) {
  a->target = target;
  a->backward = NULL;
  a->space = NULL;
}

bool tn__call_short(const tn__target_op *target, const tn_inputs *in,
                    const tn_outputs *out, tn_code *rc) {
  tn__engine *engine = target->caller->env->engine;
  visit v;
  begin(&v.a, target);
  v.a.in = in;
  v.a.out = out;
  int how = ELSEWHERE;
  if (tn__gate_enter(engine)) {
    how = call_inside(&v.a, rc);
    tn__gate_leave(engine);
  }
  return how == ELSEWHERE ? call_visiting(engine, &v, rc) : how == MADE;
}

bool tn__backward_short(const tn__target_op *target, const tn_backward *call,
                        tn_code *rc) {
  tn__engine *engine = target->caller->env->engine;
  visit v;
  begin(&v.a, target);
  v.a.backward = call;
  v.a.out = &call->in_grads;
  int how = ELSEWHERE;
  if (tn__gate_enter(engine)) {
    how = call_inside(&v.a, rc);
    tn__gate_leave(engine);
  }
  return how == ELSEWHERE ? call_visiting(engine, &v, rc) : how == MADE;
}
