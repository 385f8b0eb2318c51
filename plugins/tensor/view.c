/* SPDX-License-Identifier: Apache-2.0
 * view.c: the device-independent part of move.h: views, axes, and elements that
 * represent numbers.
 */
#include <stdio.h>
#include <string.h>

#include "move.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"

/* ------------------------------------------------------------------- views */

void tensor_view_init(tensor_view *view, const tn_tensor *tensor) {
  view->tensor = *tensor;
  view->tensor.shape = view->shape;
  view->tensor.strides = view->strides;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    view->shape[d] = tensor->shape[d];
    view->strides[d] = tensor->strides[d];
  }
}

void tensor_view_shaped(tensor_view *view, const tn_tensor *dense, int32_t ndim,
                        const int64_t *shape) {
  int64_t stride = 1;
  view->tensor = *dense;
  view->tensor.ndim = ndim;
  view->tensor.shape = view->shape;
  view->tensor.strides = view->strides;
  for (int32_t d = ndim; d-- > 0;) {
    view->shape[d] = shape[d];
    view->strides[d] = stride;
    stride *= shape[d];
  }
}

static char *offset_data(const tn_tensor *t, int64_t elements) {
  return (char *)t->data + elements * tn_dtype_bytes(t->dtype);
}

void tensor_view_cut(tensor_view *view, int32_t axis, int64_t begin, int64_t n,
                     int64_t step) {
  /* Arrays without elements may have no memory; a null pointer stays null. */
  if (n > 0 && view->tensor.data != NULL)
    view->tensor.data = offset_data(&view->tensor, begin * view->strides[axis]);
  view->shape[axis] = n;
  view->strides[axis] *= step;
}

void tensor_view_insert(tensor_view *view, int32_t axis, int64_t n,
                        int64_t stride) {
  for (int32_t d = view->tensor.ndim++; d > axis; --d) {
    view->shape[d] = view->shape[d - 1];
    view->strides[d] = view->strides[d - 1];
  }
  view->shape[axis] = n;
  view->strides[axis] = stride;
}

int64_t tensor_elements(int32_t ndim, const int64_t *shape) {
  int64_t n = 1, unknown = ndim < 0;
  for (int32_t d = 0; d < ndim; ++d) {
    if (shape[d] == 0) return 0;
    if (shape[d] < 0)
      unknown = 1;
    else if (n >= 0)
      n = tn_size_times(n, shape[d]);
  }
  if (unknown) return TENSOR_UNKNOWN;
  return n < 0 ? TENSOR_TOO_MANY : n;
}

int32_t tensor_axis(const tn_frame *call, const char *param, int64_t axis,
                    int32_t ndim, int32_t *out) {
  const int64_t from_front = axis < 0 ? axis + ndim : axis;
  *out = 0;
  if (ndim == 0)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "%s=%lld: an array of 0 dimensions has no axes", param,
                   (long long)axis);
  if (from_front < 0 || from_front >= ndim)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "%s=%lld: there is no such axis of %d dimensions; %d to %d "
                   "are",
                   param, (long long)axis, (int)ndim, (int)-ndim,
                   (int)ndim - 1);
  *out = (int32_t)from_front;
  return TN_OK;
}

tensor_text tensor_shape_text(int32_t ndim, const int64_t *shape) {
  tensor_text out = {"("};
  size_t n = 1;
  for (int32_t d = 0; d < ndim; ++d)
    n += (size_t)(shape[d] < 0 ? snprintf(out.text + n, sizeof out.text - n,
                                          d > 0 ? ",?" : "?")
                               : snprintf(out.text + n, sizeof out.text - n,
                                          d > 0 ? ",%lld" : "%lld",
                                          (long long)shape[d]));
  (void)snprintf(out.text + n, sizeof out.text - n, ")");
  return out;
}

/* ---------------------------------------------------------------- elements */

tensor_element tensor_element_of(double value, tn_dtype dtype) {
  const tn_kernel_mode mode = {TN_F64, 0};
  tensor_element e = {0};
  tn_kernel_store_dense(&e, dtype, &value, &mode, 1);
  return e;
}

int32_t tensor_fill_zeros(const tn_frame *call, const tn_tensor *to) {
  static const uint64_t zero;
  return tensor_fill(call, to, &zero);
}

tn_dtype tensor_wide_dtype(tn_dtype dtype) {
  const tn_dtype own = tn_kernel_compute(tensor_sum_dtype(dtype));
  return own == TN_I32 || own == TN_I64 ? TN_I64 : TN_F64;
}
