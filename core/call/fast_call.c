/* SPDX-License-Identifier: Apache-2.0
 * fast_call.c: the fast path of a call. A call like an earlier one, on arrays
 * that no operation uses, compares itself with its recipe and calls the kernel.
 * It runs inside of the engine's gate, so that no other thread can push
 * meanwhile, and creates no job. Inside of the gate a thread is alone. So a
 * call that workers can share runs outside of it, as an inline job. Any unusual
 * call takes the slow path: this file refuses it, but reports no error of its
 * own.
 */
#include <string.h>

#include "call.h"

enum { MAX_OUTPUTS = 16 };

/* A call during comparison and execution. */
typedef struct attempt {
  const tn__target_op *target;
  const tn_backward *backward; /* NULL: a forward call */
  const tn_inputs *in;         /* in the order of the kernel */
  const tn_outputs *out;
  tn__recipe *recipe;
  tn__scratch_space *space;    /* for workspaces, or NULL */
  void *memory;                /* of the workspaces, after the reservation */
  tn__launch *launch;          /* the recipe's, or that of the inline job */
  tn_tensor *tensors;          /* in, out and aux of the launch */
  uint8_t is_new[MAX_OUTPUTS]; /* outputs that are new */
  tn_inputs flat;              /* of a backward call */
  tn_array *arrays[TN__INLINE_OPERANDS];
} attempt;

/* -------------------------------------------------------------------- match */

static bool params_match(tn__recipe *r, const tn__target_op *target) {
  const tn_params *params =
      target->params ? target->params : target->op->defaults;
  if (!r->params) return !target->params;
  return params && params->op == target->op &&
         params->serial ==
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

/* Compares all inputs. Those that the kernel does not read must match too:
 * their shapes were checked when the recipe was created. */
static bool inputs_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_in; ++i) {
    const tn_array *array = a->in->arrays[i];
    if (!array || r->caller_in[i].ndim < 0) {
      if (array || r->caller_in[i].ndim >= 0) return false;
      continue;
    }
    if (array->env != r->env ||
        !tn__layout_equal(&array->tensor, &r->caller_in[i]))
      return false;
    if (tn__input_is_read(r->in_flags[i]) &&
        (!has_memory(array) || !tn__var_is_readable(&array->block->var)))
      return false;
  }
  return true;
}

static bool state_changes(const tn__recipe *r, uint32_t i) {
  return tn__call_changes_state(r->operands[r->n_in + r->n_out + i].arg,
                                r->flags);
}

static bool states_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  for (uint32_t i = 0; i < r->n_aux; ++i) {
    const tn_array *array = a->in->arrays[r->n_in + i];
    if (!array || !array_fits(a, array, &r->aux[i]) ||
        !(state_changes(r, i) ? tn__var_is_writable(&array->block->var)
                              : tn__var_is_readable(&array->block->var)))
      return false;
    for (uint32_t k = 0; k < a->in->n; ++k)
      if (k != r->n_in + i && a->in->arrays[k] &&
          a->in->arrays[k]->block == array->block)
        return false;
  }
  return true;
}

/* True if the output is the same view as input `alias` and overlaps no other;
 * or, with alias -1, overlaps none at all. */
static bool is_disjoint(const attempt *a, const tn_array *array,
                        int32_t alias) {
  for (size_t i = 0; i < a->in->n; ++i) {
    const tn_array *in = a->in->arrays[i];
    bool same = in && in->block == array->block;
    if ((int32_t)i == alias ? !same || in->offset != array->offset : same)
      return false;
  }
  return true;
}

static bool new_output_matches(const tn__recipe *r, uint32_t i) {
  return r->closed && r->req[i] == TN_REQ_WRITE &&
         tn_tensor_is_contiguous(&r->out[i]);
}

static bool output_matches(const attempt *a, const tn_array *array,
                           uint32_t i) {
  const tn__recipe *r = a->recipe;
  if (!array_fits(a, array, &r->out[i]) ||
      !tn__var_is_writable(&array->block->var) ||
      !is_disjoint(a, array, r->alias[i]))
    return false;
  for (uint32_t k = 0; k < i; ++k)
    if (r->req[k] != TN_REQ_NULL && a->out->arrays[k] &&
        a->out->arrays[k]->block == array->block)
      return false;
  return true;
}

/* Compares the caller's request with the lowered one: the kernel may work in
 * place instead of a write. */
static bool request_matches(tn_req requested, tn_req lowered) {
  return requested == lowered ||
         (requested == TN_REQ_WRITE && lowered == TN_REQ_INPLACE);
}

static bool outputs_match(const attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn_outputs *out = a->out;
  for (uint32_t i = 0; i < r->n_out; ++i) {
    tn_req requested = i >= out->n ? TN_REQ_NULL
                       : out->req  ? out->req[i]
                                   : TN_REQ_WRITE;
    if (!request_matches(requested, r->req[i])) return false;
    if (requested == TN_REQ_NULL) continue;
    if (out->arrays[i] ? !output_matches(a, out->arrays[i], i)
                       : !new_output_matches(r, i))
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

static bool recipe_matches(attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn__target_op *t = a->target;
  return r->direct && r->small && r->pass == t->pass && r->flags == t->flags &&
         r->epoch == atomic_load_explicit(&t->caller->registry->epoch,
                                          memory_order_relaxed) &&
         a->in->n == (size_t)r->n_in + r->n_aux && a->out->n <= r->n_out &&
         a->out->n >= r->n_visible && params_match(a->recipe, t) &&
         inputs_match(a) && outputs_match(a) && states_match(a) &&
         resources_ready(a);
}

/* Lists the inputs of a backward call in the order of the kernel. False if
 * there are too many, or if their number depends on more than the tables. */
static bool flatten_inputs(attempt *a) {
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

/* Finds the recipe in the set of the first operand. An operator with a cached
 * recipe is defined. */
static bool find_recipe(attempt *a) {
  const tn_operator *op = a->target->op;
  if (op->registry != a->target->caller->registry) return false;
  tn__recipe_cache *cache = op->cache;
  if (!cache || (a->backward && !flatten_inputs(a))) return false;
  const tn_array *first = a->in->n    ? a->in->arrays[0]
                          : a->out->n ? a->out->arrays[0]
                                      : NULL;
  if (!first || a->out->n > MAX_OUTPUTS) return false;
  tn__recipe **ways = cache->sets[tn__recipe_cache_set(&first->tensor)];
  for (uint32_t i = 0; i < TN__CACHE_WAYS && ways[i]; ++i) {
    a->recipe = ways[i];
    if (recipe_matches(a)) return true;
  }
  return false;
}

/* ------------------------------------------------------------------ outputs */

static void release_new_outputs(attempt *a) {
  for (size_t i = 0; i < a->out->n; ++i) {
    if (!a->is_new[i]) continue;
    tn__array_release(a->out->arrays[i]);
    a->out->arrays[i] = NULL;
  }
}

static tn_code create_output(const attempt *a, uint32_t i) {
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

static bool is_requested(const attempt *a, uint32_t i) {
  return a->recipe->req[i] != TN_REQ_NULL;
}

/* Creates and marks new arrays. It does not wait for memory inside of the gate:
 * the slow path does. */
static tn_code create_outputs(attempt *a) {
  memset(a->is_new, 0, sizeof a->is_new);
  for (uint32_t i = 0; i < a->out->n; ++i) {
    if (!is_requested(a, i) || a->out->arrays[i]) continue;
    tn_code rc = create_output(a, i);
    if (rc) {
      release_new_outputs(a);
      return rc;
    }
    a->is_new[i] = 1;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ compute */

static tn_array *state_array(const attempt *a, uint32_t i) {
  return a->in->arrays[a->recipe->n_in + i];
}

static void count_writes(const attempt *a) {
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_requested(a, i) && a->out->arrays[i] && !a->is_new[i])
      tn__array_count_write(a->out->arrays[i]);
  for (uint32_t i = 0; i < a->recipe->n_aux; ++i)
    if (state_changes(a->recipe, i)) tn__array_count_write(state_array(a, i));
}

static void place_operands(const attempt *a) {
  const tn__recipe *r = a->recipe;
  tn_tensor *out = a->tensors + r->n_in, *aux = out + r->n_out;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (tn__input_is_read(r->in_flags[i]))
      a->tensors[i].data = tn__array_data(a->in->arrays[i]);
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_requested(a, i)) out[i].data = tn__array_data(a->out->arrays[i]);
  for (uint32_t i = 0; i < r->n_aux; ++i)
    aux[i].data = tn__array_data(state_array(a, i));
}

/* Reserves memory for workspaces, if there are any. */
static tn_code reserve_workspace(attempt *a) {
  a->memory = NULL;
  if (!a->space) return TN_OK;
  return tn__scratch_reserve(a->space, a->recipe->ws_total, &a->memory);
}

/* Computes. The caller's outputs and states are free and stay free, new outputs
 * exist, and memory is reserved. */
static tn_code compute_attempt(attempt *a) {
  const tn__recipe *r = a->recipe;
  const tn_params *params =
      a->target->params ? a->target->params : a->target->op->defaults;
  a->launch->frame.params = params ? params->data : NULL;
  if (r->plan.n_ws > 0) tn__launch_set_workspaces(a->launch, r, a->memory);
  tn__launch_claim_random(a->launch, r);
  place_operands(a);
  tn_code rc = tn__launch_compute(a->launch);
  if (rc) release_new_outputs(a);
  return rc;
}

/* ------------------------------------------------------- inside of the gate */

/* Sets the error of a failed call on the caller's outputs, and on states that
 * it should have changed. */
static void fail_written(const attempt *a, tn_code code) {
  tn__engine *engine = a->recipe->env->engine;
  for (uint32_t i = 0; i < a->out->n; ++i)
    if (is_requested(a, i) && a->out->arrays[i])
      tn__var_fail(engine, &a->out->arrays[i]->block->var, code);
  for (uint32_t i = 0; i < a->recipe->n_aux; ++i)
    if (state_changes(a->recipe, i))
      tn__var_fail(engine, &state_array(a, i)->block->var, code);
}

enum {
  REFUSED = 0,
  DONE = 1,
  RUN_INLINE = 2 /* the call needs an inline job */
};

static int call_in_gate(attempt *a, tn_code *rc) {
  if (!find_recipe(a)) return REFUSED;
  if (a->recipe->shared) return RUN_INLINE;
  if (create_outputs(a) != TN_OK) return REFUSED;
  if (reserve_workspace(a) != TN_OK) {
    release_new_outputs(a);
    return REFUSED;
  }
  a->launch = &a->recipe->launch;
  a->tensors = a->recipe->in;
  *rc = compute_attempt(a);
  count_writes(a);
  if (*rc) fail_written(a, *rc);
  return DONE;
}

/* ------------------------------------------------------ outside of the gate */

/* An attempt with a launch and tensors of its own: those of the recipe belong
 * to the thread inside of the gate. */
typedef struct inline_call {
  attempt a;
  tn__launch launch;
  tn_tensor tensors[TN__INLINE_OPERANDS];
} inline_call;

static void launch_copy(inline_call *c) {
  const tn__recipe *r = c->a.recipe;
  tn__launch *l = &c->launch;
  l->caller = r->launch.caller;
  l->op = r->launch.op;
  l->kernel = r->launch.kernel;
  l->operands = r->launch.operands;
  l->frame = r->launch.frame;
  l->run = r->launch.run;
  l->slot.busy = 0;
  l->slot.text[0] = '\0';
  l->slot.set_shape = NULL;
  l->slot.later = NULL;
  l->run.host_data = &l->slot;
  l->frame.run = &l->run;
  memcpy(c->tensors, r->in,
         (r->n_in + r->n_out + r->n_aux) * sizeof *c->tensors);
  l->frame.in = c->tensors;
  l->frame.out = c->tensors + r->n_in;
  l->frame.aux = c->tensors + r->n_in + r->n_out;
  c->a.launch = l;
  c->a.tensors = c->tensors;
}

/* Lists the arrays except for new outputs, which no other thread knows yet. */
static uint32_t list_arrays(const inline_call *c, tn__access *to) {
  const attempt *a = &c->a;
  const tn__recipe *r = a->recipe;
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n_in; ++i)
    if (tn__input_is_read(r->in_flags[i]))
      to[n++] = (tn__access){&a->in->arrays[i]->block->var, TN__READ, 0};
  for (uint32_t i = 0; i < a->out->n; ++i) {
    tn_array *array = a->out->arrays[i];
    if (!is_requested(a, i) || !array) continue;
    uint32_t mode =
        r->req[i] == TN_REQ_ADD ? TN__UPDATE : tn__array_write_mode(array);
    to[n++] = (tn__access){&array->block->var, mode, 0};
  }
  for (uint32_t i = 0; i < r->n_aux; ++i)
    to[n++] = (tn__access){&state_array(a, i)->block->var,
                           state_changes(r, i) ? TN__UPDATE : TN__READ, 0};
  return n;
}

static uint32_t inline_choose(void *arg, tn__access *access) {
  inline_call *c = arg;
  if (!find_recipe(&c->a)) return TN__INLINE_REFUSED;
  const tn__recipe *r = c->a.recipe;
  if (r->n_in + r->n_out + r->n_aux > TN__INLINE_ACCESS - TN__MORE_ACCESS)
    return TN__INLINE_REFUSED;
  uint32_t n = list_arrays(c, access);
  n += tn__recipe_list_uses(r, c->a.target->caller, c->a.space, access + n);
  if (create_outputs(&c->a) != TN_OK) return TN__INLINE_REFUSED;
  count_writes(&c->a);
  (void)tn__recipe_retain(c->a.recipe);
  launch_copy(c);
  return n;
}

static tn_code inline_run(void *arg) {
  inline_call *c = arg;
  tn_code rc = reserve_workspace(&c->a);
  if (rc == TN_OK) return compute_attempt(&c->a);
  release_new_outputs(&c->a);
  return rc;
}

static bool call_inline(tn__engine *engine, inline_call *c, tn_code *rc) {
  const tn__inline_job job = {.name = c->a.target->op->name,
                              .choose = inline_choose,
                              .run = inline_run,
                              .arg = c};
  if (!tn__run_inline(engine, &job, rc)) return false;
  tn__recipe_release(c->a.recipe);
  return true;
}

/* -------------------------------------------------------------------- calls */

static void begin_attempt(attempt *a, const tn__target_op *target) {
  a->target = target;
  a->backward = NULL;
  a->space = NULL;
}

bool tn__call_try_fast(const tn__target_op *target, const tn_inputs *in,
                       const tn_outputs *out, tn_code *rc) {
  tn__engine *engine = target->caller->env->engine;
  inline_call c;
  begin_attempt(&c.a, target);
  c.a.in = in;
  c.a.out = out;
  int how = RUN_INLINE;
  if (tn__gate_enter(engine)) {
    how = call_in_gate(&c.a, rc);
    tn__gate_leave(engine);
  }
  return how == RUN_INLINE ? call_inline(engine, &c, rc) : how == DONE;
}

bool tn__backward_try_fast(const tn__target_op *target, const tn_backward *call,
                           tn_code *rc) {
  tn__engine *engine = target->caller->env->engine;
  inline_call c;
  begin_attempt(&c.a, target);
  c.a.backward = call;
  c.a.out = &call->in_grads;
  int how = RUN_INLINE;
  if (tn__gate_enter(engine)) {
    how = call_in_gate(&c.a, rc);
    tn__gate_leave(engine);
  }
  return how == RUN_INLINE ? call_inline(engine, &c, rc) : how == DONE;
}
