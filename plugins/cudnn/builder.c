/* SPDX-License-Identifier: Apache-2.0
 * builder.c: descriptors of cuDNN. All are objects with attributes that are
 * finalized.
 */
#include <stdbool.h>

#include "kit.h"

enum { ALIGNED = 16 }; /* loads of the fast engines; run.c guarantees it */

dnn_descriptor cudnn_begin(cudnn_builder *b, int type) {
  dnn_descriptor out = NULL;
  if (b->status != DNN_OK) return NULL;
  b->status = b->library->descriptor_create(type, &out);
  if (b->status != DNN_OK) return NULL;
  b->made->parts[b->made->n_parts++] = out;
  return out;
}

void cudnn_set(cudnn_builder *b, dnn_descriptor to, int attribute, int type,
               const void *value) {
  if (b->status == DNN_OK)
    b->status = b->library->set(to, attribute, type, 1, value);
}

void cudnn_set_list(cudnn_builder *b, dnn_descriptor to, int attribute,
                    int64_t n, const int64_t *values) {
  if (b->status == DNN_OK)
    b->status = b->library->set(to, attribute, DNN_INT64, n, values);
}

void cudnn_set_part(cudnn_builder *b, dnn_descriptor to, int attribute,
                    dnn_descriptor part) {
  cudnn_set(b, to, attribute, DNN_DESCRIPTOR, &part);
}

dnn_descriptor cudnn_end(cudnn_builder *b, dnn_descriptor descriptor) {
  if (b->status == DNN_OK) b->status = b->library->finalize(descriptor);
  return descriptor;
}

static int type_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return DNN_F64;
    case TN_F16:
      return DNN_F16;
    case TN_BF16:
      return DNN_BF16;
    default:
      return DNN_F32;
  }
}

int cudnn_wide_type(const cudnn_task *task) {
  return task->dtype == TN_F64 ? DNN_F64 : DNN_F32;
}

int64_t cudnn_bytes(const cudnn_task *task, const int64_t *dims) {
  int64_t bytes = tn_dtype_bytes(task->dtype);
  for (int64_t d = 0; d < task->rank + 2; ++d) bytes *= dims[d];
  return (bytes + 255) / 256 * 256;
}

int64_t cudnn_room(const cudnn_task *task, int64_t beside) {
  const int64_t copies = cudnn_bytes(task, task->data) +
                         cudnn_bytes(task, task->weight) +
                         cudnn_bytes(task, task->out);
  return beside > INT64_MAX - copies ? INT64_MAX : beside + copies;
}

dnn_descriptor cudnn_tensor(cudnn_builder *b, int64_t id, const int64_t *dims) {
  const cudnn_task *t = b->task;
  const int64_t n = t->rank + 2;
  const bool is_between = id >= CUDNN_ID_BETWEEN;
  const bool is_value = id >= CUDNN_ID_EPS && !is_between;
  const int type = is_between ? cudnn_wide_type(t) : type_of(t->dtype);
  const int64_t align = is_value || (t->flags & CUDNN_ANYWHERE && !is_between)
                            ? tn_dtype_bytes(t->dtype)
                            : ALIGNED;
  int64_t steps[CUDNN_MOST_DIMS], step = 1;
  for (int64_t d = n - 1; d >= 0; --d) {
    steps[d] = step;
    step *= dims[d];
  }
  const dnn_descriptor out = cudnn_begin(b, DNN_TENSOR);
  cudnn_set(b, out, DNN_TENSOR_TYPE, DNN_DATA_TYPE, &type);
  cudnn_set_list(b, out, DNN_TENSOR_DIMS, n, dims);
  cudnn_set_list(b, out, DNN_TENSOR_STEPS, n, steps);
  cudnn_set(b, out, DNN_TENSOR_ID, DNN_INT64, &id);
  cudnn_set(b, out, DNN_TENSOR_ALIGNMENT, DNN_INT64, &align);
  cudnn_set(b, out, DNN_TENSOR_VIRTUAL, DNN_BOOLEAN, &is_between);
  if (is_value) cudnn_set(b, out, DNN_TENSOR_VALUE, DNN_BOOLEAN, &is_value);
  return cudnn_end(b, out);
}

dnn_descriptor cudnn_pointwise(cudnn_builder *b, int mode, dnn_descriptor x,
                               dnn_descriptor other, dnn_descriptor y) {
  const int type = cudnn_wide_type(b->task), passes_nan = 1;
  const dnn_descriptor how = cudnn_begin(b, DNN_POINTWISE);
  cudnn_set(b, how, DNN_POINTWISE_MODE_OF, DNN_POINTWISE_MODE, &mode);
  cudnn_set(b, how, DNN_POINTWISE_PRECISION, DNN_DATA_TYPE, &type);
  if (mode == DNN_POINTWISE_RELU)
    cudnn_set(b, how, DNN_POINTWISE_NAN, DNN_NAN, &passes_nan);
  (void)cudnn_end(b, how);
  const dnn_descriptor op = cudnn_begin(b, DNN_OP_POINTWISE);
  cudnn_set_part(b, op, DNN_POINTWISE_OF, how);
  cudnn_set_part(b, op, DNN_POINTWISE_X, x);
  if (other) cudnn_set_part(b, op, DNN_POINTWISE_B, other);
  cudnn_set_part(b, op, DNN_POINTWISE_Y, y);
  return cudnn_end(b, op);
}
