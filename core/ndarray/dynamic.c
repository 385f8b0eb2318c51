/* SPDX-License-Identifier: Apache-2.0
 * dynamic.c: outputs whose shape a kernel states while it computes. They get
 * their array then; a given one is filled from it afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

static int32_t refuse(tn__slot *slot, tn_code code, const char *why) {
  snprintf(slot->text, sizeof slot->text, "set_shape: %s", why);
  return code;
}

static bool shape_fits(const tn_sig *known, const tn_sig *shape) {
  if (known->ndim < 0) return true;
  if (known->ndim != shape->ndim) return false;
  for (int32_t i = 0; i < known->ndim; ++i)
    if (known->shape[i] >= 0 && known->shape[i] != shape->shape[i])
      return false;
  return true;
}

/* The array that a kernel gets for an output whose shape it states. */
static int32_t dynamic_place(tn__work *w, uint32_t i, const tn_sig *shape) {
  tn__operand *operand = &w->out_info[i];
  const tn_spec spec = {w->io.out[i].dtype, shape->ndim, shape->shape};
  tn_array *made = NULL;
  tn_code rc = tn__array_create_on(w->device, &spec, &made);
  if (!rc) rc = tn__block_materialise(made->block);
  if (!rc && operand->array) rc = tn__block_materialise(operand->array->block);
  if (rc) {
    tn__array_release(made);
    return refuse(&w->launch.slot, rc, tn_error_text());
  }
  w->out[i] = tn__array_placed(made);
  if (operand->array) {
    operand->temp = made;
  } else {
    operand->array = made;
    operand->owned = 1;
  }
  return TN_OK;
}

int32_t tn__work_set_shape(tn__slot *slot, const tn_frame *frame,
                           const tn_sig *shape, uint32_t list, uint32_t index) {
  tn__work *w = slot->ctx;
  (void)frame;
  if (list != TN_OPERAND_OUT || index >= w->launch.frame.n_out ||
      !w->out_info[index].dynamic)
    return refuse(slot, TN_INVALID,
                  "compute may state the shape of dynamic outputs only");
  if (w->req[index] == TN_REQ_NULL) return TN_OK;
  if (w->out[index].ndim >= 0)
    return refuse(slot, TN_INVALID, "the shape was stated before");
  if (!shape_fits(&w->io.out[index], shape))
    return refuse(slot, TN_SHAPE, "the shape contradicts the operator's rule");
  const tn_array *given = w->out_info[index].array;
  if (given && (given->tensor.ndim != shape->ndim ||
                memcmp(given->tensor.shape, shape->shape,
                       (size_t)shape->ndim * sizeof *shape->shape) != 0))
    return refuse(slot, TN_SHAPE, "the given output has another shape");
  return dynamic_place(w, index, shape);
}

bool tn__work_is_dynamic(const tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i)
    if (w->out_info[i].dynamic && w->req[i] != TN_REQ_NULL) return true;
  return false;
}

tn_code tn__work_stated(tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i) {
    if (!w->out_info[i].dynamic || w->req[i] == TN_REQ_NULL) continue;
    if (w->out[i].ndim >= 0) continue;
    snprintf(w->launch.slot.text, sizeof w->launch.slot.text,
             "compute did not state the shape of dynamic output `%s`",
             w->out_info[i].arg->name);
    return tn__kernel_fail(&w->launch, TN_PLUGIN, "compute");
  }
  return TN_OK;
}
