/* SPDX-License-Identifier: Apache-2.0
 * planned.c: a call that is planned once. Once it has been computed where all
 * operands are the arrays' own memory, computing it again is the kernel and
 * nothing else.
 */
#include "call.h"
#include "tenon/fold.h"

enum { RECORDS_ALIGN = 64 }; /* what all memory has */

struct tn__planned {
  const tn__env *env;
  tn__work *work;
  uint8_t ready; /* the frame is complete: only the kernel is due */
  uint8_t idle;  /* no output is wanted */
};

/* ------------------------------------------------------------------- life */

void tn__planned_release(tn__planned *call) {
  if (!call) return;
  if (call->work) (void)tn__work_close(call->work, TN_OK);
  tn__free(call->env, call);
}

static tn_code begin(const tn__target_op *target, tn__planned **out) {
  const tn__env *env = target->caller->env;
  tn__planned *call = tn__zalloc(env, sizeof *call);
  *out = NULL;
  if (!call) return tn__fail_memory(sizeof *call, "a planned call");
  call->env = env;
  const tn_code rc = tn__work_open(target, &call->work);
  if (rc)
    tn__free(env, call);
  else
    *out = call;
  return rc;
}

/* Params that may change between runs are the call's own. */
static tn_code params_take(tn__work *w) {
  if (!w->recipe->params) return TN_OK;
  TN__TRY(tn__params_copy(w->recipe->params, &w->own));
  w->launch.frame.params = w->own->data;
  return TN_OK;
}

static tn_code fill(tn__planned *call) {
  tn__work *w = call->work;
  if (tn__work_is_dynamic(w))
    return tn__fail(TN_UNSUPPORTED,
                    "%s: the kernel decides the shape of an output while it "
                    "computes, so the call cannot be prepared; use tn_call",
                    w->op->name);
  call->idle = tn__work_idle(w);
  return call->idle ? TN_OK : params_take(w);
}

/* Holds the arrays of a call that was planned, or gives it up. */
static tn_code end(tn__planned *call, tn_code rc, tn__planned **out) {
  if (rc == TN_OK) rc = fill(call);
  if (rc != TN_OK) {
    tn__planned_release(call);
    return rc;
  }
  tn__work_hold(call->work);
  *out = call;
  return TN_OK;
}

void tn__planned_deliver(tn__planned *call, const tn_outputs *outputs) {
  tn__work_deliver(call->work, outputs);
  tn__work_disown(call->work);
}

tn_code tn__planned_create(const tn__target_op *target, const tn_inputs *in,
                           const tn_outputs *out, tn__planned **result) {
  tn__planned *call = NULL;
  *result = NULL;
  TN__TRY(begin(target, &call));
  return end(call, tn__call_plan(call->work, in, out), result);
}

tn_code tn__planned_create_backward(tn__caller *caller, tn_operator *op,
                                    const tn_backward *call,
                                    tn__planned **result) {
  tn__planned *made = NULL;
  const tn__target_op target = {caller, op, call->params, TN_PASS_BACKWARD,
                                call->flags};
  *result = NULL;
  TN__TRY(begin(&target, &made));
  return end(made, tn__backward_plan(made->work, call), result);
}

tn__work *tn__planned_work(const tn__planned *call) {
  return call->work;
}

/* ------------------------------------------------------------------- looks */

static bool is_direct(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const tn__operand *o = &w->in_info[i];
    if (o->temp || o->before || o->after) return false;
  }
  return true;
}

void tn__planned_look(const tn__planned *call, tn__planned_info *out) {
  const tn__work *w = call->work;
  *out = (tn__planned_info){.frame = &w->launch.frame};
  if (call->idle) return;
  out->kernel = w->recipe->kernel;
  out->workspace = w->recipe->ws_total;
  out->small = w->recipe->small;
  const tn_plan *plan = &w->recipe->plan;
  const bool plain = is_direct(w) && !w->recipe->n_random;
  out->direct = plain && plan->n_ws == 0;
  if (plain && plan->n_ws == 1 && plan->ws[0].align <= RECORDS_ALIGN &&
      (out->kernel->desc->flags & TN_KERNEL_FOLD))
    out->records = plan->ws[0].bytes;
}

uint32_t tn__planned_uses(tn__planned *call, const tn__access **out) {
  tn__work *w = call->work;
  *out = w->access;
  if (call->idle) return 0;
  tn__work_uses(w);
  return w->n_access;
}

void tn__planned_written(const tn__planned *call) {
  if (!call->idle) tn__work_written(call->work);
}

/* ----------------------------------------------------------------- compute */

tn_code tn__planned_place(tn__planned *call, void *workspace) {
  tn__work *w = call->work;
  if (call->idle) return TN_OK;
  TN__TRY(tn__work_memory(w));
  w->ws_memory = w->recipe->ws_total > 0 ? workspace : NULL;
  w->ws_lent = 1;
  return TN_OK;
}

tn_code tn__planned_run(tn__planned *call, tn__token *token) {
  tn__work *w = call->work;
  if (call->ready) return tn__launch_compute(&w->launch);
  if (call->idle) return TN_OK;
  const tn_code rc = tn__work_compute(w, token);
  if (rc == TN_OK)
    call->ready = !w->device->table && !w->recipe->n_random && is_direct(w);
  return rc;
}

bool tn__planned_direct(const tn__planned *call, tn__direct *out) {
  tn__launch *l = &call->work->launch;
  if (!call->ready) return false;
  *out = (tn__direct){l->kernel->desc->compute, &l->frame, l->slot.text};
  return true;
}

tn_code tn__planned_failed(const tn__planned *call, int32_t code) {
  return tn__kernel_fail(&call->work->launch, code, "compute");
}

tn_code tn__planned_set(tn__planned *call, const tn_value *value) {
  if (!call->work->own)
    return tn__fail(TN_NOT_FOUND, "%s has no parameter that this call uses",
                    call->work->op->name);
  return tn__params_set(call->work->own, value);
}

void tn__planned_take(tn__planned *call, const tn__planned *from) {
  tn_params *own = call->work->own;
  const tn_params *other = from->work->own;
  if (own && other && own->op == other->op) tn__params_copy_dynamic(own, other);
}
