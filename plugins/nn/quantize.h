/* SPDX-License-Identifier: Apache-2.0
 * quantize.h: types, geometry and single numbers of quantize.yaml, for the CPU
 * and for devices.
 */
#ifndef NN_QUANTIZE_H_
#define NN_QUANTIZE_H_

#include "tenon/kernel/storage.h"
#include "tenon/plugin/op.h"

/* Returns whether a type is an integer: its bounds cut numbers. */
TN_STORAGE_ONE int nn_quantize_is_integer(tn_dtype dtype) {
  return (dtype & 0xffu) <= 1;
}

/* The bounds of an integer type of at most 16 bits. */
TN_STORAGE_ONE int32_t nn_quantize_least(tn_dtype dtype) {
  const int32_t bits = (int32_t)(dtype >> 8 & 0xffu);
  return (dtype & 0xffu) == 0 ? -(1 << (bits - 1)) : 0;
}

TN_STORAGE_ONE int32_t nn_quantize_most(tn_dtype dtype) {
  const int32_t bits = (int32_t)(dtype >> 8 & 0xffu);
  return (1 << (bits - ((dtype & 0xffu) == 0))) - 1;
}

/* A rounded number (or NaN, or an infinity) plus the zero point, within the
 * bounds. */
TN_STORAGE_ONE double nn_quantize_cut(double rounded, double zero, double least,
                                      double most) {
  const double x = rounded != rounded ? zero : rounded + zero;
  return x < least ? least : x > most ? most : x;
}

/* The numbers of scales of a call: element (o*length + l)*inner + s has scale
 * l, or, in blocks along the axis, (o*blocks + l/block)*inner + s. Without an
 * axis, `length` is 1. */
typedef struct nn_quantize_view {
  int64_t length, inner;
  int64_t block;  /* elements of a block; 0: no blocks */
  int64_t blocks; /* blocks of a line */
} nn_quantize_view;

TN_STORAGE_ONE int64_t nn_quantize_scale_at(const nn_quantize_view *v,
                                            int64_t i) {
  const int64_t row = i / v->inner, l = row % v->length;
  if (v->block == 0) return l;
  return (row / v->length * v->blocks + l / v->block) * v->inner + i % v->inner;
}

/* The view of a call; inference has checked the axis. */
static inline nn_quantize_view nn_quantize_find_view(const tn_tensor *data,
                                                     int has_axis, int64_t axis,
                                                     int64_t block) {
  const int32_t dim = (int32_t)(axis < 0 ? axis + data->ndim : axis);
  nn_quantize_view v = {1, 1, 0, 0};
  for (int32_t d = has_axis ? dim + 1 : 0; d < data->ndim; ++d)
    v.inner *= data->shape[d];
  if (!has_axis) return v;
  v.length = data->shape[dim];
  v.block = block;
  if (block > 0) v.blocks = (v.length + block - 1) / block;
  return v;
}

#endif /* NN_QUANTIZE_H_ */
