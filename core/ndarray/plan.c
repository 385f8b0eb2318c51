/* SPDX-License-Identifier: Apache-2.0
 * plan.c: a settled call gets its kernel, its requests and layouts, and its
 * recipe. No memory is touched.
 */
#include "call.h"

static const tn_tensor no_tensor = {.device_type = TN_DEVICE_CPU, .ndim = -1};

static void show(tn_tensor *to, const tn__operand *operand) {
  *to = operand->array ? tn__array_metadata(operand->array) : no_tensor;
}

static void show_input(tn__work *w, uint32_t i) {
  if (w->pass == TN_PASS_FORWARD)
    w->in_flags[i] = w->absent[i] ? TN_IN_ABSENT : 0;
  if (w->in_flags[i] & TN_IN_ABSENT) {
    w->in[i] = no_tensor;
    return;
  }
  show(&w->in[i], &w->in_info[i]);
  if (tn_tensor_is_contiguous(&w->in[i])) w->in_flags[i] |= TN_IN_CONTIGUOUS;
}

/* An output whose shape is not known yet has a dtype only. */
static void show_output(tn__work *w, uint32_t i) {
  show(&w->out[i], &w->out_info[i]);
  if (!w->out_info[i].dynamic) return;
  w->out[i] = no_tensor;
  w->out[i].dtype = w->io.out[i].dtype;
}

void tn__work_frame(tn__work *w) {
  tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in; ++i) show_input(w, i);
  for (uint32_t i = 0; i < f->n_out; ++i) show_output(w, i);
  for (uint32_t i = 0; i < f->n_aux; ++i) show(&w->aux[i], &w->aux_info[i]);
  f->flags = w->flags;
  if (w->pass == TN_PASS_BACKWARD) f->flags |= TN_CALL_BACKWARD;
  f->in = w->in;
  f->out = w->out;
  f->aux = w->aux;
  f->in_flags = w->in_flags;
  f->req = w->req;
  f->alias = w->alias;
  w->launch.run.device_type = w->device->type;
  w->launch.run.device_id = w->device->id;
}

static tn_code choose(tn__work *w) {
  tn__launch *l = &w->launch;
  const tn__query query = {.pass = w->pass,
                           .device_type = w->device->type,
                           .vars = w->vars,
                           .frame = &l->frame,
                           .io = &w->io,
                           .absent = w->absent};
  tn__find_dtype_vars(w->desc, &w->io, w->vars);
  TN__TRY(tn__kernel_choose(w->op, &query, &w->choice));
  l->kernel = w->choice.kernel;
  l->frame.host = &l->kernel->plugin->host;
  l->frame.instance = l->kernel->plugin->instance;
  l->frame.options = l->kernel->options;
  l->slot.text[0] = '\0'; /* of candidates that did not apply */
  return TN_OK;
}

static bool is_lowered(const tn__operand *operand) {
  return operand->temp || operand->before || operand->after;
}

/* Whether temporaries are filled and handed back where they lie. */
static bool is_met(const tn__work *w, const tn__operand *operand) {
  if (!is_lowered(operand)) return true; /* it may be absent */
  const tn_tensor *t = &operand->array->tensor;
  const bool zeros = !operand->temp && operand->before == TN__BEFORE_ZERO;
  if (zeros && !operand->after && tn_tensor_is_contiguous(t)) return true;
  if (!zeros && operand->after <= TN__AFTER_COPY)
    return tn__device_sums(w->device);
  return tn__elements_adds(w->device, t->dtype);
}

static tn_code lowered_check(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  char text[TN__OPERAND_TEXT], place[TN__DEVICE_TEXT];
  if (!w->device->table) return TN_OK;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (!is_met(w, &w->in_info[i]))
      return tn__fail(TN_UNSUPPORTED,
                      "%s: kernel %s does not take the request or the layout "
                      "of %s, and on %s nothing can stand in for it; give a "
                      "dense array of its own, to be overwritten",
                      w->op->name, w->choice.kernel->desc->id,
                      tn__operand_text(&w->in_info[i], text),
                      tn__device_text(w->device, place));
  return TN_OK;
}

tn_code tn__work_plan(tn__work *w) {
  tn__work_frame(w);
  TN__TRY(tn__work_lower_inputs(w));
  TN__TRY(tn__work_lower_states(w));
  TN__TRY(choose(w));
  TN__TRY(tn__work_lower_outputs(w, w->choice.kernel->desc));
  TN__TRY(lowered_check(w));
  return tn__recipe_get(w);
}
