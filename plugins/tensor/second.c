/* SPDX-License-Identifier: Apache-2.0
 * second.c: shapes and workspaces of second.yaml. Its kernels are those of
 * gradients (reduce_slopes.c), plus those of pairs.c.
 */
#include "second.gen.h"

#include "reduce.gen.h"
#include "reduce.h"
#include "reduce_dual.h"

/* ------------------------------------------------------------------ shapes */

enum { HEAD, DATA }; /* indices of the inputs of every gradient */

/* The shape of data decides that of the gradient of out. */
int32_t tensor_reduce_grad_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[DATA];
  int64_t shape[TN_MAX_NDIM];
  int32_t ndim = 0;
  uint32_t axes;
  if (data->ndim < 0) return TN_OK;
  const int32_t code = reduce_read_axes(call, data->ndim, &axes);
  if (code != TN_OK) return code;
  for (int32_t i = 0; i < data->ndim; ++i)
    if (!(axes >> i & 1))
      shape[ndim++] = data->shape[i];
    else if (((const reduce_params *)call->params)->keepdims)
      shape[ndim++] = 1;
  return call->host->set_shape(call, TN_OPERAND_IN, HEAD, ndim, shape);
}

/* The operands are those of a backward call. */
int32_t tensor_prod_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  tn_frame own = *call;
  own.flags |= TN_CALL_BACKWARD;
  return tensor_prod_bytes(&own, bytes);
}

int32_t tensor_prod_pairs_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (uint64_t)tn_tensor_size(&call->in[DATA]);
  *bytes = n * (sizeof(reduce_dual) + sizeof(int64_t));
  return TN_OK;
}
