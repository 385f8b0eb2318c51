/* SPDX-License-Identifier: Apache-2.0
 * call_plan.c: finds kernel, requests, layouts and recipe of a call with
 * resolved outputs. It accesses no memory of arrays.
 */
#include "call.h"

static const tn_tensor no_tensor = {.device_type = TN_DEVICE_CPU, .ndim = -1};

static void show_operand(tn_tensor *to, const tn__operand *operand) {
  *to = operand->array ? tn__array_metadata(operand->array) : no_tensor;
}

static void show_input(tn__call_state *s, uint32_t i) {
  if (s->pass == TN_PASS_FORWARD)
    s->in_flags[i] = s->absent[i] ? TN_IN_ABSENT : 0;
  if (s->in_flags[i] & TN_IN_ABSENT) {
    s->in[i] = no_tensor;
    return;
  }
  show_operand(&s->in[i], &s->in_info[i]);
  if (tn_tensor_is_contiguous(&s->in[i])) s->in_flags[i] |= TN_IN_CONTIGUOUS;
}

/* A dynamic output has no shape yet, only a dtype. */
static void show_output(tn__call_state *s, uint32_t i) {
  show_operand(&s->out[i], &s->out_info[i]);
  if (!s->out_info[i].dynamic) return;
  s->out[i] = no_tensor;
  s->out[i].dtype = s->io.out[i].dtype;
}

void tn__call_fill_frame(tn__call_state *s) {
  tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in; ++i) show_input(s, i);
  for (uint32_t i = 0; i < f->n_out; ++i) show_output(s, i);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    show_operand(&s->aux[i], &s->aux_info[i]);
  f->flags = s->flags;
  if (s->pass == TN_PASS_BACKWARD) f->flags |= TN_CALL_BACKWARD;
  f->in = s->in;
  f->out = s->out;
  f->aux = s->aux;
  f->in_flags = s->in_flags;
  f->req = s->req;
  f->alias = s->alias;
  s->launch.run.device_type = s->device->type;
  s->launch.run.device_id = s->device->id;
}

static tn_code choose_kernel(tn__call_state *s) {
  tn__launch *l = &s->launch;
  const tn__query query = {.pass = s->pass,
                           .device_type = s->device->type,
                           .vars = s->vars,
                           .frame = &l->frame,
                           .io = &s->io,
                           .absent = s->absent};
  tn__find_dtype_vars(s->desc, &s->io, s->vars);
  TN__TRY(tn__kernel_choose(s->op, &query, &s->choice));
  l->kernel = s->choice.kernel;
  l->frame.host = &l->kernel->plugin->host;
  l->frame.instance = l->kernel->plugin->instance;
  l->frame.options = l->kernel->options;
  l->slot.text[0] = '\0'; /* drops the text of candidates that did not apply */
  return TN_OK;
}

static bool is_lowered(const tn__operand *operand) {
  return operand->temp || operand->before || operand->after;
}

/* True if the device can fill the temporary and write it back. */
static bool can_lower(const tn__call_state *s, const tn__operand *operand) {
  if (!is_lowered(operand)) return true; /* it may be absent */
  const tn_tensor *t = &operand->array->tensor;
  const bool zeros = !operand->temp && operand->before == TN__BEFORE_ZERO;
  if (zeros && !operand->after && tn_tensor_is_contiguous(t)) return true;
  if (!zeros && operand->after <= TN__AFTER_COPY)
    return tn__device_can_sum(s->device);
  return tn__elements_can_add(s->device, t->dtype);
}

static tn_code check_lowered(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  char text[TN__OPERAND_TEXT], place[TN__DEVICE_TEXT];
  if (!s->device->table) return TN_OK;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (!can_lower(s, &s->in_info[i]))
      return tn__fail(TN_UNSUPPORTED,
                      "%s: kernel %s does not take the request or the layout "
                      "of %s, and on %s no copy can replace it; give a "
                      "dense array of its own, to be overwritten",
                      s->op->name, s->choice.kernel->desc->id,
                      tn__operand_text(&s->in_info[i], text),
                      tn__device_text(s->device, place));
  return TN_OK;
}

tn_code tn__call_plan_kernel(tn__call_state *s) {
  tn__call_fill_frame(s);
  TN__TRY(tn__call_lower_inputs(s));
  TN__TRY(tn__call_lower_states(s));
  TN__TRY(choose_kernel(s));
  TN__TRY(tn__call_lower_outputs(s, s->choice.kernel->desc));
  TN__TRY(check_lowered(s));
  return tn__recipe_get(s);
}
