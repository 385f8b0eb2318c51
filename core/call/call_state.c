/* SPDX-License-Identifier: Apache-2.0
 * call_state.c: creation and release of the state of a call. In between, the
 * state owns temporaries, new arrays, and the holds on operator and kernel.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

tn_code tn__caller_init(tn__caller *caller, const tn__env *env,
                        tn__registry *registry, uint64_t seed) {
  *caller = (tn__caller){.env = env, .registry = registry};
  tn__random_init(&caller->random, seed);
  return TN_OK;
}

void tn__caller_deinit(tn__caller *caller) {
  tn__caller_forget(caller);
  tn__var_deinit(&caller->random.var);
  tn__var_deinit(&caller->serial);
  tn__var_deinit(&caller->order);
}

/* -------------------------------------------------------------------- begin */

static tn_code check_owners(const tn__target_op *t) {
  if (t->op->registry != t->caller->registry)
    return tn__fail(TN_INVALID,
                    "operator %s belongs to another runtime; get it"
                    " from the runtime that makes the call",
                    t->op->name);
  if (t->params && t->params->op->registry != t->op->registry)
    return tn__fail(TN_INVALID,
                    "%s: the params were made for an operator of another "
                    "runtime; make them with this one's",
                    t->op->name);
  if (t->params && t->params->op != t->op)
    return tn__fail(TN_INVALID, "%s: the params were made for operator %s",
                    t->op->name, t->params->op->name);
  return TN_OK;
}

/* Gets the default params. If a parameter has no default, creating them fails
 * and names it. */
static tn_code defaults_get(tn_operator *op, const tn_params **out) {
  *out = op->defaults;
  if (op->defaults) return TN_OK;
  tn_params *created = NULL;
  TN__TRY(tn__params_create(op, NULL, 0, &created));
  tn__params_release(created);
  return tn__fail(TN_INVALID, "%s: no params were given", op->name);
}

static void launch_clear(tn__call_state *s) {
  tn__launch *l = &s->launch;
  l->caller = s->caller;
  l->op = s->op;
  l->kernel = NULL;
  l->slot.busy = 0;
  l->slot.code = TN_OK;
  l->slot.text[0] = '\0';
  l->slot.set_shape = NULL;
  l->slot.ctx = s;
  l->slot.later = NULL;
  l->run = (tn_run){.struct_size = sizeof(tn_run),
                    .device_type = TN_DEVICE_CPU,
                    .host_data = &l->slot};
  l->frame = (tn_frame){.struct_size = sizeof(tn_frame),
                        .host = &s->op->plugin->host,
                        .instance = s->op->plugin->instance,
                        .run = &l->run};
}

static void work_clear(tn__call_state *s, const tn__target_op *t) {
  atomic_init(&s->n_owners, 1);
  s->caller = t->caller;
  s->op = t->op;
  s->desc = t->op->desc;
  s->call_params = t->params;
  s->params = NULL;
  s->pass = t->pass;
  s->flags = t->flags;
  s->from_outputs = 0;
  s->counts = (tn__operand_counts){0};
  s->device = NULL;
  s->choice = (tn__choice){0};
  s->recipe = NULL;
  s->space = NULL;
  s->ws_memory = NULL;
  s->ws_borrowed = 0;
  s->own_params = NULL;
  s->changes = NULL;
  s->n_access = 0;
  s->later.code = TN_OK;
  s->later.is_async = false;
  s->later.name_failure = NULL;
  launch_clear(s);
  tn__arena_init(&s->arena, t->caller->env);
}

tn_code tn__call_state_init(tn__call_state *s, const tn__target_op *target) {
  TN__TRY(check_owners(target));
  TN__TRY(tn__operator_hold(target->op));
  work_clear(s, target);
  tn_code rc = TN_OK;
  if (!s->call_params && s->desc->params_size > 0)
    rc = defaults_get(s->op, &s->call_params);
  if (s->call_params) s->params = s->call_params->data;
  s->launch.frame.params = s->params;
  if (rc) tn__operator_unhold(target->op);
  return rc;
}

tn_code tn__call_state_create(const tn__target_op *target,
                              tn__call_state **out) {
  const tn__env *env = target->caller->env;
  *out = NULL;
  tn__call_state *s = tn__alloc(env, sizeof *s);
  if (!s) return tn__fail_memory(sizeof *s, "the state of a call");
  tn_code rc = tn__call_state_init(s, target);
  if (rc)
    tn__free(env, s);
  else
    *out = s;
  return rc;
}

tn_code tn__call_state_release(tn__call_state *s, tn_code rc) {
  if (atomic_load_explicit(&s->n_owners, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&s->n_owners, 1, memory_order_acq_rel) > 1)
    return rc;
  const tn__env *env = s->caller->env;
  tn__call_state_deinit(s, rc);
  tn__free(env, s);
  return rc;
}

/* --------------------------------------------------------------------- room */

static void room_local(tn__call_state *s) {
  s->io.in = s->local.sigs;
  s->in = s->local.tensors;
  s->in_info = s->local.operands;
  s->absent = s->local.absent;
  s->in_flags = s->local.in_flags;
  s->req = s->local.req;
  s->alias = s->local.alias;
  s->vars = s->local.vars;
  s->access = s->local.access;
}

static tn_code room_arena(tn__call_state *s, uint32_t n) {
  s->io.in = tn__arena_alloc(&s->arena, n * sizeof *s->io.in);
  s->in = tn__arena_alloc(&s->arena, n * sizeof *s->in);
  s->in_info = tn__arena_alloc(&s->arena, n * sizeof *s->in_info);
  s->absent = tn__arena_alloc(&s->arena, n * sizeof *s->absent);
  s->in_flags = tn__arena_alloc(&s->arena, n * sizeof *s->in_flags);
  s->req = tn__arena_alloc(&s->arena, n * sizeof *s->req);
  s->alias = tn__arena_alloc(&s->arena, n * sizeof *s->alias);
  s->vars = tn__arena_alloc(&s->arena, n * sizeof *s->vars);
  s->access =
      tn__arena_alloc(&s->arena, (2 * n + TN__MORE_ACCESS) * sizeof *s->access);
  if (!s->arena.failed) return TN_OK;
  return tn__fail_memory(n * sizeof *s->io.in, "the operands of a call");
}

static void sigs_clear(tn_sig *sigs, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    sigs[i].dtype = TN_DTYPE_UNKNOWN;
    sigs[i].ndim = -1;
  }
}

tn_code tn__call_reserve_operands(tn__call_state *s) {
  const tn__operand_counts *c = &s->counts;
  bool forward = s->pass == TN_PASS_FORWARD;
  uint32_t n_in = forward ? c->n_in : c->n_in + 2 * c->n_out;
  uint32_t n_out = forward ? c->n_out : c->n_in;
  uint32_t n = n_in + n_out + c->n_aux;
  uint32_t room = n > s->desc->n_dtype_vars ? n : s->desc->n_dtype_vars;
  if (room <= TN__INLINE_OPERANDS)
    room_local(s);
  else
    TN__TRY(room_arena(s, room));
  s->io.n_in = c->n_in;
  s->io.n_out = c->n_out;
  s->io.n_aux = c->n_aux;
  s->io.reserved = 0;
  s->io.out = s->io.in + c->n_in;
  s->io.aux = s->io.out + c->n_out;
  sigs_clear(s->io.in, c->n_in + c->n_out + c->n_aux);
  s->out = s->in + n_in;
  s->aux = s->out + n_out;
  s->out_info = s->in_info + n_in;
  s->aux_info = s->out_info + n_out;
  s->fwd_in = forward ? s->in_info : s->in_info + c->n_out;
  s->fwd_out = forward ? s->out_info : s->fwd_in + c->n_in;
  memset(s->in_info, 0, n * sizeof *s->in_info);
  s->launch.operands = s->in_info;
  s->launch.frame.n_in = n_in;
  s->launch.frame.n_out = n_out;
  s->launch.frame.n_aux = c->n_aux;
  return TN_OK;
}

/* ---------------------------------------------------------------------- end */

bool tn__call_is_idle(const tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i)
    if (s->req[i] != TN_REQ_NULL) return false;
  return true;
}

void tn__call_deliver_outputs(tn__call_state *s, const tn_outputs *outputs) {
  for (uint32_t i = 0; i < s->launch.frame.n_out && i < outputs->n; ++i) {
    tn__operand *operand = &s->out_info[i];
    bool requested = !outputs->req || outputs->req[i] != TN_REQ_NULL;
    if (!operand->owned || !requested) continue;
    outputs->arrays[i] = operand->array;
    operand->owned = 0;
  }
}

static void operand_end(tn__operand *operand) {
  if (operand->owned) tn__array_release(operand->array);
  if (operand->held & TN__HELD_ARRAY) tn__array_unhold(operand->array);
  if (operand->held & TN__HELD_TEMP)
    tn__array_unhold(operand->temp);
  else
    tn__array_release(operand->temp);
}

tn_code tn__call_state_deinit(tn__call_state *s, tn_code rc) {
  uint32_t n =
      s->launch.frame.n_in + s->launch.frame.n_out + s->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) operand_end(&s->in_info[i]);
  if (s->ws_memory && !s->ws_borrowed)
    tn__heap_free(s->device, s->ws_memory, s->recipe->ws_total);
  tn__defaults_free(s->caller->env, s->own_params);
  tn__recipe_release(s->recipe);
  if (s->choice.kernel) tn__kernel_release(&s->choice);
  tn__arena_deinit(&s->arena);
  tn__operator_unhold(s->op);
  return rc;
}
