/* SPDX-License-Identifier: Apache-2.0
 * planned.c: a call that is planned once and run many times by a program, which
 * orders it. If all operands are the arrays' own memory, every run after the
 * first is only a call of the kernel.
 */
#include "call.h"
#include "tenon/draft/reduction.h"

enum { RECORDS_ALIGN = 64 }; /* alignment of all memory */

struct tn__planned {
  const tn__env *env;
  tn__call_state *state;
  uint8_t ready; /* the frame is complete: call only the kernel */
  uint8_t idle;  /* no output is requested */
};

/* --------------------------------------------------------------------- life */

void tn__planned_release(tn__planned *call) {
  if (!call) return;
  if (call->state) (void)tn__call_state_release(call->state, TN_OK);
  tn__free(call->env, call);
}

static tn_code open_call(const tn__target_op *target, tn__planned **out) {
  const tn__env *env = target->caller->env;
  tn__planned *call = tn__zalloc(env, sizeof *call);
  *out = NULL;
  if (!call) return tn__fail_memory(sizeof *call, "a planned call");
  call->env = env;
  const tn_code rc = tn__call_state_create(target, &call->state);
  if (rc)
    tn__free(env, call);
  else
    *out = call;
  return rc;
}

/* Copies the params, because they may change between runs. */
static tn_code params_take(tn__call_state *s) {
  if (!s->recipe->params) return TN_OK;
  TN__TRY(tn__params_copy(s->recipe->params, &s->own_params));
  s->launch.frame.params = s->own_params->data;
  return TN_OK;
}

static tn_code complete_call(tn__planned *call) {
  tn__call_state *s = call->state;
  if (tn__call_is_dynamic(s))
    return tn__fail(TN_UNSUPPORTED,
                    "%s: the kernel decides the shape of an output while it "
                    "computes, so the call cannot be prepared; use tn_call",
                    s->op->name);
  call->idle = tn__call_is_idle(s);
  return call->idle ? TN_OK : params_take(s);
}

/* Holds the arrays of a call that was planned, or releases the call. */
static tn_code finish_call(tn__planned *call, tn_code rc, tn__planned **out) {
  if (rc == TN_OK) rc = complete_call(call);
  if (rc != TN_OK) {
    tn__planned_release(call);
    return rc;
  }
  tn__call_hold_arrays(call->state);
  *out = call;
  return TN_OK;
}

void tn__planned_deliver(tn__planned *call, const tn_outputs *outputs) {
  tn__call_deliver_outputs(call->state, outputs);
  tn__call_disown_arrays(call->state);
}

TN__COLD tn_code tn__planned_create(const tn__target_op *target,
                                    const tn_inputs *in, const tn_outputs *out,
                                    tn__planned **result) {
  tn__planned *call = NULL;
  *result = NULL;
  TN__TRY(open_call(target, &call));
  return finish_call(call, tn__call_plan_forward(call->state, in, out), result);
}

TN__COLD tn_code tn__planned_create_backward(tn__caller *caller,
                                             tn_operator *op,
                                             const tn_backward *call,
                                             tn__planned **result) {
  tn__planned *created = NULL;
  const tn__target_op target = {caller, op, call->params, TN_PASS_BACKWARD,
                                call->flags};
  *result = NULL;
  TN__TRY(open_call(&target, &created));
  return finish_call(created, tn__call_plan_backward(created->state, call),
                     result);
}

tn__call_state *tn__planned_state(const tn__planned *call) {
  return call->state;
}

/* --------------------------------------------------------------- properties */

static bool is_direct(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const tn__operand *o = &s->in_info[i];
    if (o->temp || o->before || o->after) return false;
  }
  return true;
}

void tn__planned_describe(const tn__planned *call, tn__planned_info *out) {
  const tn__call_state *s = call->state;
  *out = (tn__planned_info){.frame = &s->launch.frame};
  if (call->idle) return;
  out->kernel = s->recipe->kernel;
  out->workspace = s->recipe->ws_total;
  out->small = s->recipe->small;
  const tn_plan *plan = &s->recipe->plan;
  const bool plain = is_direct(s) && !s->recipe->n_random;
  out->direct = plain && plan->n_ws == 0;
  if (plain && plan->n_ws == 1 && plan->ws[0].align <= RECORDS_ALIGN &&
      (out->kernel->desc->flags & TN_KERNEL_REDUCTION))
    out->records = plan->ws[0].bytes;
}

uint32_t tn__planned_list_uses(tn__planned *call, const tn__access **out) {
  tn__call_state *s = call->state;
  *out = s->access;
  if (call->idle) return 0;
  tn__call_list_uses(s);
  return s->n_access;
}

/* ------------------------------------------------------------------ compute */

tn_code tn__planned_materialise(tn__planned *call, void *workspace) {
  tn__call_state *s = call->state;
  if (call->idle) return TN_OK;
  TN__TRY(tn__call_materialise(s));
  s->ws_memory = s->recipe->ws_total > 0 ? workspace : NULL;
  s->ws_borrowed = 1;
  return TN_OK;
}

tn_code tn__planned_run(tn__planned *call, tn__token *token) {
  tn__call_state *s = call->state;
  if (call->ready) return tn__launch_compute(&s->launch);
  if (call->idle) return TN_OK;
  const tn_code rc = tn__call_compute(s, token);
  if (rc == TN_OK)
    call->ready = !s->device->table && !s->recipe->n_random && is_direct(s);
  return rc;
}

bool tn__planned_get_direct(const tn__planned *call, tn__direct_call *out) {
  tn__launch *l = &call->state->launch;
  if (!call->ready) return false;
  *out = (tn__direct_call){l->kernel->desc->compute, &l->frame, l->slot.text};
  return true;
}

tn_code tn__planned_fail(const tn__planned *call, int32_t code) {
  return tn__kernel_fail(&call->state->launch, code, "compute");
}

tn_code tn__planned_set_param(tn__planned *call, const tn_value *value) {
  if (!call->state->own_params)
    return tn__fail(TN_NOT_FOUND, "%s has no parameter that this call uses",
                    call->state->op->name);
  return tn__params_set(call->state->own_params, value);
}

void tn__planned_copy_params(tn__planned *call, const tn__planned *from) {
  tn_params *own = call->state->own_params;
  const tn_params *other = from->state->own_params;
  if (own && other && own->op == other->op) tn__params_copy_dynamic(own, other);
}
