/* SPDX-License-Identifier: Apache-2.0
 * bit_cast.c: bit_cast.yaml: a copy of bytes to an array of another type.
 */
#include "bit_cast.gen.h"

#include "move.h"

/* Declines types of different sizes. */
int32_t tensor_bit_cast_fits(const tn_frame *call) {
  const int64_t from = tn_dtype_bits(call->in[TENSOR_BIT_CAST_IN_DATA].dtype);
  const int64_t to = tn_dtype_bits(call->out[TENSOR_BIT_CAST_OUT_OUT].dtype);
  if (from == to) return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED,
                 "an element of `data` has %lld bits, but one of `dtype` has "
                 "%lld; choose a type of the same size, or convert the numbers "
                 "with elemwise.cast",
                 (long long)from, (long long)to);
}

/* Sets *view to the bytes of a dense tensor. */
static void view_bytes(tensor_view *view, const tn_tensor *dense) {
  const int64_t bytes = tn_dtype_bytes_of(dense->dtype, tn_tensor_size(dense));
  tensor_view_shaped(view, dense, 1, &bytes);
  view->tensor.dtype = TN_U8;
}

int32_t tensor_bit_cast(const tn_frame *call) {
  tensor_view to, from;
  view_bytes(&to, &call->out[TENSOR_BIT_CAST_OUT_OUT]);
  view_bytes(&from, &call->in[TENSOR_BIT_CAST_IN_DATA]);
  return tensor_copy(call, &to.tensor, &from.tensor);
}
