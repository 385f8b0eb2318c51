/* SPDX-License-Identifier: Apache-2.0
 * forward_call.c: the slow path of one forward call. This file contains only
 * the order of the steps; call.h lists the file of each step.
 */
#include "call.h"

static tn_code check_outputs_count(const tn__call_state *s,
                                   const tn_outputs *outputs) {
  const tn__operand_counts *c = &s->counts;
  if (outputs->n >= c->n_visible && outputs->n <= c->n_out) return TN_OK;
  tn__fail(TN_INVALID, "%s has %u output%s", s->op->name, c->n_visible,
           c->n_visible == 1 ? "" : "s");
  for (uint32_t i = 0; i < s->desc->n_outputs; ++i) {
    const tn_arg *arg = s->desc->outputs[i];
    if (arg->count != TN_NONE && c->n_out < s->desc->n_outputs) continue;
    tn__fail_more(TN_INVALID, "%s%s", i ? ", " : " (", arg->name);
  }
  if (c->n_out > c->n_visible)
    tn__fail_more(TN_INVALID, "; %u of them hidden and optional",
                  c->n_out - c->n_visible);
  return tn__fail_more(TN_INVALID, "), but %zu %s given", outputs->n,
                       outputs->n == 1 ? "place was" : "places were");
}

static void declare_outputs(tn__call_state *s) {
  for (uint32_t i = 0; i < s->counts.n_out; ++i) {
    tn__operand *operand = &s->out_info[i];
    operand->arg =
        s->desc->outputs[tn__call_find_output_arg(s, i, &operand->member)];
    operand->role = "output";
    operand->source =
        operand->arg->init == TN_NONE ? -1 : (int32_t)operand->arg->init;
  }
}

static tn_code resolve_operands(tn__call_state *s, const tn_inputs *in,
                                const tn_outputs *out) {
  TN__TRY(tn__call_count_operands(s, in));
  TN__TRY(check_outputs_count(s, out));
  TN__TRY(tn__call_reserve_operands(s));
  declare_outputs(s);
  TN__TRY(tn__call_bind_inputs(s, in));
  TN__TRY(tn__call_bind_outputs(s, out));
  TN__TRY(tn__call_find_device(s));
  TN__TRY(tn__call_infer_operands(s));
  for (uint32_t i = 0; i < s->counts.n_out; ++i)
    TN__TRY(tn__call_resolve_output(s, i, &s->io.out[i]));
  return tn__call_check_overlap(s);
}

tn_code tn__call_plan_forward(tn__call_state *s, const tn_inputs *in,
                              const tn_outputs *out) {
  TN__TRY(resolve_operands(s, in, out));
  return tn__call_is_idle(s) ? TN_OK : tn__call_plan_kernel(s);
}

tn_code tn__call(const tn__target_op *target, const tn_inputs *in,
                 const tn_outputs *out) {
  tn__call_state *s = NULL;
  tn_code rc = TN_OK;
  if (tn__call_try_fast(target, in, out, &rc)) return rc;
  TN__TRY(tn__call_state_create(target, &s));
  rc = tn__call_plan_forward(s, in, out);
  if (rc || tn__call_is_idle(s)) return tn__call_state_release(s, rc);
  return tn__call_launch(s, out);
}
