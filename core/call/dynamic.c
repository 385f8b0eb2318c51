/* SPDX-License-Identifier: Apache-2.0
 * dynamic.c: outputs with a shape that the kernel sets while it computes. Each
 * gets its array at that moment. If the caller passed an array, the result is
 * copied into it afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

static int32_t refuse_shape(tn__slot *slot, tn_code code, const char *why) {
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

/* Creates the array of an output when the kernel sets its shape. */
static int32_t place_dynamic(tn__call_state *s, uint32_t i,
                             const tn_sig *shape) {
  tn__operand *operand = &s->out_info[i];
  const tn_spec spec = {s->io.out[i].dtype, shape->ndim, shape->shape};
  tn_array *created = NULL;
  tn_code rc = tn__array_create_on(s->device, &spec, &created);
  if (!rc) rc = tn__block_materialise(created->block);
  if (!rc && operand->array) rc = tn__block_materialise(operand->array->block);
  if (rc) {
    tn__array_release(created);
    return refuse_shape(&s->launch.slot, rc, tn_error_text());
  }
  s->out[i] = tn__array_tensor_with_data(created);
  if (operand->array) {
    operand->temp = created;
  } else {
    operand->array = created;
    operand->owned = 1;
  }
  return TN_OK;
}

int32_t tn__call_set_shape(tn__slot *slot, const tn_frame *frame,
                           const tn_sig *shape, uint32_t list, uint32_t index) {
  tn__call_state *s = slot->ctx;
  (void)frame;
  if (list != TN_OPERAND_OUT || index >= s->launch.frame.n_out ||
      !s->out_info[index].dynamic)
    return refuse_shape(slot, TN_INVALID,
                        "compute may state the shape of dynamic outputs only");
  if (s->req[index] == TN_REQ_NULL) return TN_OK;
  if (s->out[index].ndim >= 0)
    return refuse_shape(slot, TN_INVALID, "the shape was stated before");
  if (!shape_fits(&s->io.out[index], shape))
    return refuse_shape(slot, TN_SHAPE,
                        "the shape contradicts the operator's rule");
  const tn_array *passed = s->out_info[index].array;
  if (passed && (passed->tensor.ndim != shape->ndim ||
                 memcmp(passed->tensor.shape, shape->shape,
                        (size_t)shape->ndim * sizeof *shape->shape) != 0))
    return refuse_shape(slot, TN_SHAPE, "the given output has another shape");
  return place_dynamic(s, index, shape);
}

bool tn__call_is_dynamic(const tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i)
    if (s->out_info[i].dynamic && s->req[i] != TN_REQ_NULL) return true;
  return false;
}

tn_code tn__call_check_shapes_set(tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i) {
    if (!s->out_info[i].dynamic || s->req[i] == TN_REQ_NULL) continue;
    if (s->out[i].ndim >= 0) continue;
    snprintf(s->launch.slot.text, sizeof s->launch.slot.text,
             "compute did not state the shape of dynamic output `%s`",
             s->out_info[i].arg->name);
    return tn__kernel_fail(&s->launch, TN_PLUGIN, "compute");
  }
  return TN_OK;
}
