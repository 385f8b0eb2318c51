/* SPDX-License-Identifier: Apache-2.0
 * reduce_axes.c: the axes that a call names, and the shapes and views that
 * follow from them alone.
 */
#include "reduce.h"

/* Axis `from` as a number of [0, ndim); or a code with TN_FAIL. */
static int32_t read_axis(const tn_frame *call, int64_t from, int32_t ndim,
                         int64_t *axis) {
  *axis = from < 0 ? from + ndim : from;
  if (*axis >= 0 && *axis < ndim) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "there is no axis %lld of an array of %d dimensions",
                 (long long)from, (int)ndim);
}

int32_t reduce_read_axes(const tn_frame *call, int32_t ndim, uint32_t *axes) {
  const reduce_params *p = (const reduce_params *)call->params;
  const uint32_t all = (1u << ndim) - 1;
  *axes = all;
  if (!p->has_axis && p->exclude)
    return TN_FAIL(call, TN_INVALID,
                   "`exclude` takes the axes that `axis` does not name, and "
                   "`axis` is None: name some, or leave `exclude` out");
  if (!p->has_axis) return TN_OK;
  *axes = 0;
  for (int64_t i = 0; i < p->axis.n; ++i) {
    int64_t axis;
    const int32_t code = read_axis(call, p->axis.v[i], ndim, &axis);
    if (code != TN_OK) return code;
    if (*axes >> axis & 1)
      return TN_FAIL(call, TN_INVALID, "axis %lld is named twice",
                     (long long)axis);
    *axes |= 1u << axis;
  }
  if (p->exclude) *axes = all & ~*axes;
  return TN_OK;
}

int32_t reduce_read_axis(const tn_frame *call, const int64_t *axis,
                         int32_t ndim, uint32_t *axes) {
  const reduce_params named = {.axis = {axis, 1}, .has_axis = axis != NULL};
  tn_frame own = *call;
  own.params = &named;
  return reduce_read_axes(&own, ndim, axes);
}

int32_t reduce_infer_shape(const tn_frame *call, uint32_t axes, int keepdims) {
  const tn_tensor *data = &call->in[0];
  int64_t shape[TN_MAX_NDIM];
  int32_t ndim = 0;
  for (int32_t i = 0; i < data->ndim; ++i)
    if (!(axes >> i & 1))
      shape[ndim++] = data->shape[i];
    else if (keepdims)
      shape[ndim++] = 1;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, shape);
}

int32_t reduce_check_not_empty(const tn_frame *call, uint32_t axes,
                               const char *what) {
  const tn_tensor *data = &call->in[0];
  int32_t empty = -1;
  for (int32_t i = 0; i < data->ndim; ++i) {
    if (data->shape[i] < 0) return TN_OK;
    if (data->shape[i] > 0) continue;
    if (!(axes >> i & 1)) return TN_OK;
    empty = i;
  }
  if (empty < 0) return TN_OK;
  return TN_FAIL(call, TN_INVALID,
                 "there is no %s of no elements: axis %d of `data` has length "
                 "0",
                 what, (int)empty);
}

void reduce_repeat_along(reduce_repeated *to, const tn_tensor *from,
                         const tn_tensor *like, uint32_t axes) {
  const int kept = from->ndim == like->ndim;
  for (int32_t i = 0, k = 0; i < like->ndim; ++i) {
    const int gone = (int)(axes >> i & 1);
    to->shape[i] = gone ? 1 : like->shape[i];
    to->strides[i] = gone ? 0 : from->strides[k];
    if (!gone || kept) ++k;
  }
  to->tensor = *from;
  to->tensor.ndim = like->ndim;
  to->tensor.shape = to->shape;
  to->tensor.strides = to->strides;
}

/* ------------------------------------------------------------------- views */

void reduce_view_init(reduce_view *v, const tn_tensor *in, uint32_t axes) {
  int32_t n = 0;
  v->tensor = *in;
  v->tensor.shape = v->shape;
  v->tensor.strides = v->strides;
  for (uint32_t gone = 0; gone < 2; ++gone) {
    for (int32_t i = 0; i < in->ndim; ++i) {
      if ((axes >> i & 1) != gone) continue;
      v->shape[n] = in->shape[i];
      v->strides[n++] = in->strides[i];
    }
    if (gone == 0) v->kept = n;
  }
}

int32_t reduce_join_axes(int32_t ndim, int64_t *shape, int64_t *strides) {
  int32_t last = -1;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] == 1) continue;
    if (last >= 0 && strides[last] == strides[i] * shape[i]) {
      shape[last] *= shape[i];
      strides[last] = strides[i];
      continue;
    }
    shape[++last] = shape[i];
    strides[last] = strides[i];
  }
  if (last >= 0) return last + 1;
  shape[0] = 1;
  strides[0] = 1;
  return 1;
}
