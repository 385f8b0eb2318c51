/* SPDX-License-Identifier: Apache-2.0
 * work.c: how the state of a call begins and ends. Between the two it owns
 * temporaries, new arrays, the operator's hold and the kernel's.
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
}

/* ----------------------------------------------------------------- begin */

static tn_code owners_check(const tn__target_op *t) {
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

/* All defaults. Where there are none, making them says which is missing. */
static tn_code defaults_get(tn_operator *op, const tn_params **out) {
  *out = op->defaults;
  if (op->defaults) return TN_OK;
  tn_params *made = NULL;
  TN__TRY(tn__params_create(op, NULL, 0, &made));
  tn__params_release(made);
  return tn__fail(TN_INVALID, "%s: no params were given", op->name);
}

static void launch_clear(tn__work *w) {
  tn__launch *l = &w->launch;
  l->caller = w->caller;
  l->op = w->op;
  l->kernel = NULL;
  l->slot.busy = 0;
  l->slot.code = TN_OK;
  l->slot.text[0] = '\0';
  l->slot.set_shape = NULL;
  l->slot.ctx = w;
  l->run = (tn_run){.struct_size = sizeof(tn_run),
                    .device_type = TN_DEVICE_CPU,
                    .host_data = &l->slot};
  l->frame = (tn_frame){.struct_size = sizeof(tn_frame),
                        .host = &w->op->plugin->host,
                        .instance = w->op->plugin->instance,
                        .run = &l->run};
}

static void work_clear(tn__work *w, const tn__target_op *t) {
  atomic_init(&w->n_owners, 1);
  w->caller = t->caller;
  w->op = t->op;
  w->desc = t->op->desc;
  w->given = t->params;
  w->params = NULL;
  w->pass = t->pass;
  w->flags = t->flags;
  w->fed = 0;
  w->counts = (tn__counts){0};
  w->device = NULL;
  w->choice = (tn__choice){0};
  w->recipe = NULL;
  w->space = NULL;
  w->ws_memory = NULL;
  w->ws_lent = 0;
  w->own = NULL;
  w->changes = NULL;
  w->n_access = 0;
  launch_clear(w);
  tn__arena_init(&w->arena, t->caller->env);
}

tn_code tn__work_begin(tn__work *w, const tn__target_op *target) {
  TN__TRY(owners_check(target));
  TN__TRY(tn__operator_hold(target->op));
  work_clear(w, target);
  tn_code rc = TN_OK;
  if (!w->given && w->desc->params_size > 0)
    rc = defaults_get(w->op, &w->given);
  if (w->given) w->params = w->given->data;
  w->launch.frame.params = w->params;
  if (rc) tn__operator_unhold(target->op);
  return rc;
}

tn_code tn__work_open(const tn__target_op *target, tn__work **out) {
  const tn__env *env = target->caller->env;
  *out = NULL;
  tn__work *w = tn__alloc(env, sizeof *w);
  if (!w) return tn__fail_memory(sizeof *w, "the state of a call");
  tn_code rc = tn__work_begin(w, target);
  if (rc)
    tn__free(env, w);
  else
    *out = w;
  return rc;
}

tn_code tn__work_close(tn__work *w, tn_code rc) {
  if (atomic_load_explicit(&w->n_owners, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&w->n_owners, 1, memory_order_acq_rel) > 1)
    return rc;
  const tn__env *env = w->caller->env;
  tn__work_end(w, rc);
  tn__free(env, w);
  return rc;
}

/* ------------------------------------------------------------------ room */

static void room_local(tn__work *w) {
  w->io.in = w->local.sigs;
  w->in = w->local.tensors;
  w->in_info = w->local.operands;
  w->absent = w->local.absent;
  w->in_flags = w->local.in_flags;
  w->req = w->local.req;
  w->alias = w->local.alias;
  w->vars = w->local.vars;
  w->access = w->local.access;
}

static tn_code room_arena(tn__work *w, uint32_t n) {
  w->io.in = tn__arena_alloc(&w->arena, n * sizeof *w->io.in);
  w->in = tn__arena_alloc(&w->arena, n * sizeof *w->in);
  w->in_info = tn__arena_alloc(&w->arena, n * sizeof *w->in_info);
  w->absent = tn__arena_alloc(&w->arena, n * sizeof *w->absent);
  w->in_flags = tn__arena_alloc(&w->arena, n * sizeof *w->in_flags);
  w->req = tn__arena_alloc(&w->arena, n * sizeof *w->req);
  w->alias = tn__arena_alloc(&w->arena, n * sizeof *w->alias);
  w->vars = tn__arena_alloc(&w->arena, n * sizeof *w->vars);
  w->access =
      tn__arena_alloc(&w->arena, (2 * n + TN__MORE_ACCESS) * sizeof *w->access);
  if (!w->arena.failed) return TN_OK;
  return tn__fail_memory(n * sizeof *w->io.in, "the operands of a call");
}

static void sigs_clear(tn_sig *sigs, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    sigs[i].dtype = TN_DTYPE_UNKNOWN;
    sigs[i].ndim = -1;
  }
}

tn_code tn__work_room(tn__work *w) {
  const tn__counts *c = &w->counts;
  bool forward = w->pass == TN_PASS_FORWARD;
  uint32_t n_in = forward ? c->n_in : c->n_in + 2 * c->n_out;
  uint32_t n_out = forward ? c->n_out : c->n_in;
  uint32_t n = n_in + n_out + c->n_aux;
  uint32_t room = n > w->desc->n_dtype_vars ? n : w->desc->n_dtype_vars;
  if (room <= TN__INLINE_OPERANDS)
    room_local(w);
  else
    TN__TRY(room_arena(w, room));
  w->io.n_in = c->n_in;
  w->io.n_out = c->n_out;
  w->io.n_aux = c->n_aux;
  w->io.reserved = 0;
  w->io.out = w->io.in + c->n_in;
  w->io.aux = w->io.out + c->n_out;
  sigs_clear(w->io.in, c->n_in + c->n_out + c->n_aux);
  w->out = w->in + n_in;
  w->aux = w->out + n_out;
  w->out_info = w->in_info + n_in;
  w->aux_info = w->out_info + n_out;
  w->fwd_in = forward ? w->in_info : w->in_info + c->n_out;
  w->fwd_out = forward ? w->out_info : w->fwd_in + c->n_in;
  memset(w->in_info, 0, n * sizeof *w->in_info);
  w->launch.operands = w->in_info;
  w->launch.frame.n_in = n_in;
  w->launch.frame.n_out = n_out;
  w->launch.frame.n_aux = c->n_aux;
  return TN_OK;
}

/* ------------------------------------------------------------------- end */

bool tn__work_idle(const tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i)
    if (w->req[i] != TN_REQ_NULL) return false;
  return true;
}

void tn__work_deliver(tn__work *w, const tn_outputs *outputs) {
  for (uint32_t i = 0; i < w->launch.frame.n_out && i < outputs->n; ++i) {
    tn__operand *operand = &w->out_info[i];
    bool wanted = !outputs->req || outputs->req[i] != TN_REQ_NULL;
    if (!operand->owned || !wanted) continue;
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

tn_code tn__work_end(tn__work *w, tn_code rc) {
  uint32_t n =
      w->launch.frame.n_in + w->launch.frame.n_out + w->launch.frame.n_aux;
  for (uint32_t i = 0; i < n; ++i) operand_end(&w->in_info[i]);
  if (w->ws_memory && !w->ws_lent)
    tn__heap_free(w->device, w->ws_memory, w->recipe->ws_total);
  tn__defaults_free(w->caller->env, w->own);
  tn__recipe_release(w->recipe);
  if (w->choice.kernel) tn__kernel_release(&w->choice);
  tn__arena_deinit(&w->arena);
  tn__operator_unhold(w->op);
  return rc;
}

/* -------------------------------------------------------------- messages */

const char *tn__operand_text(const tn__operand *operand, char *to) {
  if (operand->member < 0)
    snprintf(to, TN__OPERAND_TEXT, "%s `%s`", operand->what,
             operand->arg->name);
  else
    snprintf(to, TN__OPERAND_TEXT, "%s `%s[%d]`", operand->what,
             operand->arg->name, (int)operand->member);
  return to;
}

void tn__fail_tensor(tn_code code, tn_dtype dtype, int32_t ndim,
                     const int64_t *shape) {
  tn__fail_more(code, " %s (",
                dtype == TN_DTYPE_UNKNOWN ? "?" : tn__dtype_name(dtype));
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0)
      tn__fail_more(code, i ? ",?" : "?");
    else
      tn__fail_more(code, i ? ",%lld" : "%lld", (long long)shape[i]);
  }
  tn__fail_more(code, ndim < 0 ? "unknown rank)" : ")");
}
