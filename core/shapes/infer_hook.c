/* SPDX-License-Identifier: Apache-2.0
 * infer_hook.c: calls the operator's own infer function and adds the shapes
 * that it states as facts.
 */
#include <stdio.h>
#include <string.h>

#include "floating.h"
#include "infer.h"

/* Data for the function's set_shape. After a conflict it ignores further
 * shapes, even if the function continues. */
typedef struct hook {
  tn__unifier *u;
  tn_code code;
} hook;

static tn_code add_shape(tn__unifier *u, uint32_t id, const tn_sig *sig) {
  tn__fact_target target = {
      .id = id, .from = TN__FROM_HOOK, .rule = tn__operand_arg(u, id)};
  if (sig->ndim < 0 || tn__operand_is_absent(u, id)) return TN_OK;
  TN__TRY(tn__fact_rank(u, &target, sig->ndim));
  for (; target.dim < sig->ndim; ++target.dim)
    if (sig->shape[target.dim] >= 0)
      TN__TRY(tn__fact_dim(u, &target, sig->shape[target.dim]));
  return TN_OK;
}

static int32_t set_shape(tn__slot *slot, const tn_frame *frame,
                         const tn_sig *shape, uint32_t list, uint32_t index) {
  hook *h = slot->ctx;
  (void)frame;
  if (h->code != TN_OK) return h->code;
  const uint32_t id = tn__operand_id(h->u, list, index);
  if (id == TN_NONE)
    h->code = tn__fail(TN_PLUGIN,
                       "operator %s: its infer function states the shape of "
                       "operand %u of list %u, which the call does not have",
                       h->u->args->name, index, list);
  else
    h->code = add_shape(h->u, id, shape);
  return h->code;
}

/* Describes n operands without memory. Strides are zeros, because they have no
 * meaning yet. */
static void describe_operands(tn_tensor *to, tn_sig *sigs, uint32_t n) {
  static int64_t no_strides[TN_MAX_NDIM];
  for (uint32_t i = 0; i < n; ++i)
    to[i] = (tn_tensor){.device_type = TN_DEVICE_CPU,
                        .ndim = sigs[i].ndim,
                        .dtype = sigs[i].dtype,
                        .shape = sigs[i].shape,
                        .strides = no_strides};
}

static tn_code check_result(const tn__unifier *u, const hook *h,
                            const tn__slot *slot, int32_t code) {
  if (h->code != TN_OK) return h->code;
  if (code == TN_OK || code == TN_INCOMPLETE) return TN_OK;
  if (code > 0 || code < TN_INTERNAL)
    return tn__fail(TN_PLUGIN,
                    "operator %s: its infer function returned %d, which is no "
                    "code",
                    u->args->name, code);
  return tn__fail(code, "operator %s refuses this call: %s", u->args->name,
                  slot->text[0] != '\0' ? slot->text : tn_code_name(code));
}

tn_code tn__infer_hook(tn__unifier *u) {
  const tn_signature *io = u->io;
  tn_tensor tensors[TN__MAX_OPERANDS];
  uint32_t in_flags[TN__MAX_OPERANDS];
  hook h = {u, TN_OK};
  tn__slot slot = {.set_shape = set_shape, .ctx = &h};
  if (u->args->base == NULL)
    return tn__fail(TN_INTERNAL,
                    "operator %s has an infer function, but no host to call it",
                    u->args->name);
  tn_frame frame = *u->args->base;
  if (u->defaults) frame.flags |= TN_CALL_DEFAULTS;
  tn_run run = {.struct_size = sizeof run};
  if (frame.run != NULL) run = *frame.run;
  run.host_data = &slot;
  describe_operands(tensors, io->in, io->n_in);
  describe_operands(tensors + io->n_in, io->out, io->n_out);
  describe_operands(tensors + io->n_in + io->n_out, io->aux, io->n_aux);
  for (uint32_t i = 0; i < io->n_in; ++i)
    in_flags[i] = tn__operand_is_absent(u, i) ? TN_IN_ABSENT : TN_IN_METADATA;
  frame.n_in = io->n_in, frame.n_out = io->n_out, frame.n_aux = io->n_aux;
  frame.in = tensors, frame.out = tensors + io->n_in;
  frame.aux = tensors + io->n_in + io->n_out;
  frame.in_flags = in_flags;
  frame.params = u->args->params;
  frame.options = u->op; /* for operators of a manifest (module.h) */
  frame.run = &run;
  const tn__floating floating = tn__floating_get();
  const int32_t code = u->op->infer(&frame);
  tn__floating_keep(&floating);
  return check_result(u, &h, &slot, code);
}
