/* SPDX-License-Identifier: Apache-2.0
 * norm.c: a batch norm as a cuDNN graph. cuDNN has an operation for statistics
 * of the batch and one for the gradients. Pointwise operations compute a batch
 * norm with known statistics, and the moving averages: the heuristics of cuDNN
 * 9.19 offer no engine for its own inference operation.
 */
#include "kit.h"

/* An array with one number per channel, or one number of the host. */
static dnn_descriptor small_array(cudnn_builder *b, int64_t id) {
  const int is_number = id >= CUDNN_ID_EPS && id < CUDNN_ID_BETWEEN;
  const int64_t dims[CUDNN_MOST_DIMS] = {1, is_number ? 1 : b->task->data[1], 1,
                                         1, 1};
  return cudnn_tensor(b, id, dims);
}

static dnn_descriptor large_array(cudnn_builder *b, int64_t id) {
  return cudnn_tensor(b, id, b->task->data);
}

/* An attribute of an operation, and its array. */
typedef struct place {
  int attribute;
  int64_t id;
} place;

static void set_all(cudnn_builder *b, dnn_descriptor op, const place *all,
                    int n) {
  for (int i = 0; i < n; ++i)
    cudnn_set_part(b, op, all[i].attribute, small_array(b, all[i].id));
}

static dnn_descriptor add_training(cudnn_builder *b, dnn_descriptor out) {
  static const place places[] = {
      {DNN_NORM_MEAN, CUDNN_ID_MEAN},
      {DNN_NORM_INVERSE, CUDNN_ID_INVERSE},
      {DNN_NORM_SCALE, CUDNN_ID_SCALE},
      {DNN_NORM_BIAS, CUDNN_ID_BIAS},
      {DNN_NORM_EPS, CUDNN_ID_EPS},
      {DNN_NORM_SHARE, CUDNN_ID_SHARE},
      {DNN_NORM_OLD_MEAN, CUDNN_ID_OLD_MEAN},
      {DNN_NORM_OLD_VAR, CUDNN_ID_OLD_VAR},
      {DNN_NORM_NEW_MEAN, CUDNN_ID_NEW_MEAN},
      {DNN_NORM_NEW_VAR, CUDNN_ID_NEW_VAR},
  };
  const int mode = DNN_NORM_BATCH, phase = DNN_NORM_TRAINING;
  const dnn_descriptor data = large_array(b, CUDNN_ID_DATA);
  const dnn_descriptor op = cudnn_begin(b, DNN_OP_NORM);
  cudnn_set(b, op, DNN_NORM_MODE_OF, DNN_NORM_MODE, &mode);
  cudnn_set(b, op, DNN_NORM_PHASE_OF, DNN_NORM_PHASE, &phase);
  cudnn_set_part(b, op, DNN_NORM_X, data);
  cudnn_set_part(b, op, DNN_NORM_Y, out);
  set_all(b, op, places, sizeof places / sizeof *places);
  return cudnn_end(b, op);
}

static dnn_descriptor add_gradients(cudnn_builder *b) {
  static const place places[] = {
      {DNN_NORM_DATA_MEAN, CUDNN_ID_MEAN},
      {DNN_NORM_DATA_INVERSE, CUDNN_ID_INVERSE},
      {DNN_NORM_DATA_SCALE, CUDNN_ID_SCALE},
      {DNN_NORM_DATA_DSCALE, CUDNN_ID_TO_SCALE},
      {DNN_NORM_DATA_DBIAS, CUDNN_ID_TO_BIAS},
  };
  const int mode = DNN_NORM_BATCH;
  const dnn_descriptor data = large_array(b, CUDNN_ID_DATA);
  const dnn_descriptor head = large_array(b, CUDNN_ID_OUT);
  const dnn_descriptor to = large_array(b, CUDNN_ID_TO_DATA);
  const dnn_descriptor op = cudnn_begin(b, DNN_OP_NORM_DATA);
  cudnn_set(b, op, DNN_NORM_DATA_MODE, DNN_NORM_MODE, &mode);
  cudnn_set_part(b, op, DNN_NORM_DATA_X, data);
  cudnn_set_part(b, op, DNN_NORM_DATA_DY, head);
  cudnn_set_part(b, op, DNN_NORM_DATA_DX, to);
  set_all(b, op, places, sizeof places / sizeof *places);
  return cudnn_end(b, op);
}

/* Computes (data - mean)*inverse*scale + bias; returns the number of
 * operations. */
static int add_known(cudnn_builder *b, dnn_descriptor out,
                     dnn_descriptor *ops) {
  const dnn_descriptor near = large_array(b, CUDNN_ID_BETWEEN);
  const dnn_descriptor normal = large_array(b, CUDNN_ID_BIASED);
  const dnn_descriptor scaled = large_array(b, CUDNN_ID_SCALED);
  ops[0] = cudnn_pointwise(b, DNN_POINTWISE_SUB, large_array(b, CUDNN_ID_DATA),
                           small_array(b, CUDNN_ID_MEAN), near);
  ops[1] = cudnn_pointwise(b, DNN_POINTWISE_MUL, near,
                           small_array(b, CUDNN_ID_INVERSE), normal);
  ops[2] = cudnn_pointwise(b, DNN_POINTWISE_MUL, normal,
                           small_array(b, CUDNN_ID_SCALE), scaled);
  ops[3] = cudnn_pointwise(b, DNN_POINTWISE_ADD, scaled,
                           small_array(b, CUDNN_ID_BIAS), out);
  return 4;
}

static int add_inverse(cudnn_builder *b, dnn_descriptor *ops) {
  const dnn_descriptor sum = small_array(b, CUDNN_ID_BETWEEN);
  ops[0] =
      cudnn_pointwise(b, DNN_POINTWISE_ADD, small_array(b, CUDNN_ID_OLD_VAR),
                      small_array(b, CUDNN_ID_EPS), sum);
  ops[1] = cudnn_pointwise(b, DNN_POINTWISE_RSQRT, sum, NULL,
                           small_array(b, CUDNN_ID_INVERSE));
  return 2;
}

static int add_move(cudnn_builder *b, dnn_descriptor *ops) {
  const dnn_descriptor old = small_array(b, CUDNN_ID_BETWEEN);
  const dnn_descriptor fresh = small_array(b, CUDNN_ID_BIASED);
  ops[0] =
      cudnn_pointwise(b, DNN_POINTWISE_MUL, small_array(b, CUDNN_ID_OLD_MEAN),
                      small_array(b, CUDNN_ID_KEEP), old);
  ops[1] = cudnn_pointwise(b, DNN_POINTWISE_MUL, small_array(b, CUDNN_ID_MEAN),
                           small_array(b, CUDNN_ID_SHARE), fresh);
  ops[2] = cudnn_pointwise(b, DNN_POINTWISE_ADD, old, fresh,
                           small_array(b, CUDNN_ID_NEW_MEAN));
  return 3;
}

/* The operations of a batch norm, followed by a relu if requested. */
static int add_forward(cudnn_builder *b, dnn_descriptor *ops) {
  const int has_relu = (b->task->flags & CUDNN_RELU) != 0;
  const dnn_descriptor out = large_array(b, CUDNN_ID_OUT);
  const dnn_descriptor sum = has_relu ? large_array(b, CUDNN_ID_ADDED) : out;
  int n = 1;
  if (b->task->what == CUDNN_NORM)
    ops[0] = add_training(b, sum);
  else
    n = add_known(b, sum, ops);
  if (has_relu)
    ops[n++] = cudnn_pointwise(b, DNN_POINTWISE_RELU, sum, NULL, out);
  return n;
}

int cudnn_norm_operations(cudnn_builder *b,
                          dnn_descriptor ops[CUDNN_MOST_OPS]) {
  switch (b->task->what) {
    case CUDNN_NORM_DATA:
      ops[0] = add_gradients(b);
      return 1;
    case CUDNN_INVERSE:
      return add_inverse(b, ops);
    case CUDNN_MOVE:
      return add_move(b, ops);
    default:
      return add_forward(b, ops);
  }
}
