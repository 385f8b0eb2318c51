/* SPDX-License-Identifier: Apache-2.0
 * call.c: one forward call. Each step stands in the file that it is named
 * after (call.h); here is only their order.
 */
#include "call.h"

static tn_code outputs_count_check(const tn__work *w,
                                   const tn_outputs *outputs) {
  const tn__counts *c = &w->counts;
  if (outputs->n >= c->n_visible && outputs->n <= c->n_out) return TN_OK;
  tn__fail(TN_INVALID, "%s has %u output%s", w->op->name, c->n_visible,
           c->n_visible == 1 ? "" : "s");
  for (uint32_t i = 0; i < w->desc->n_outputs; ++i) {
    const tn_arg *arg = w->desc->outputs[i];
    if (arg->count != TN_NONE && c->n_out < w->desc->n_outputs) continue;
    tn__fail_more(TN_INVALID, "%s%s", i ? ", " : " (", arg->name);
  }
  if (c->n_out > c->n_visible)
    tn__fail_more(TN_INVALID, "; %u of them hidden and optional",
                  c->n_out - c->n_visible);
  return tn__fail_more(TN_INVALID, "), but %zu %s given", outputs->n,
                       outputs->n == 1 ? "place was" : "places were");
}

static void declare_outputs(tn__work *w) {
  for (uint32_t i = 0; i < w->counts.n_out; ++i) {
    tn__operand *operand = &w->out_info[i];
    operand->arg = w->desc->outputs[tn__work_arg_out(w, i, &operand->member)];
    operand->what = "output";
    operand->inplace = operand->arg->inplace;
    operand->source =
        operand->arg->init == TN_NONE ? -1 : (int32_t)operand->arg->init;
  }
}

static tn_code settle(tn__work *w, const tn_inputs *in, const tn_outputs *out) {
  TN__TRY(tn__work_count(w, in));
  TN__TRY(outputs_count_check(w, out));
  TN__TRY(tn__work_room(w));
  declare_outputs(w);
  TN__TRY(tn__work_bind_inputs(w, in));
  TN__TRY(tn__work_bind_outputs(w, out));
  TN__TRY(tn__work_place(w));
  TN__TRY(tn__work_infer(w));
  for (uint32_t i = 0; i < w->counts.n_out; ++i)
    TN__TRY(tn__work_settle(w, i, &w->io.out[i]));
  return tn__work_overlap(w);
}

tn_code tn__call_plan(tn__work *w, const tn_inputs *in, const tn_outputs *out) {
  TN__TRY(settle(w, in, out));
  return tn__work_idle(w) ? TN_OK : tn__work_plan(w);
}

tn_code tn__call(const tn__target_op *target, const tn_inputs *in,
                 const tn_outputs *out) {
  tn__work *w = NULL;
  tn_code rc = TN_OK;
  if (tn__call_short(target, in, out, &rc)) return rc;
  TN__TRY(tn__work_open(target, &w));
  rc = tn__call_plan(w, in, out);
  if (rc || tn__work_idle(w)) return tn__work_close(w, rc);
  return tn__work_launch(w, out);
}
