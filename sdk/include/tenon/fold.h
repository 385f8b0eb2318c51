/* SPDX-License-Identifier: Apache-2.0
 * fold.h: reductions, such as sums, that a host may feed part by part, so that
 * their input need never be in memory as a whole.
 *
 * A fold (a reduction of the glossary) computes each element of its output from
 * a line of its input: from all elements along the last axes. Its kernel is a
 * forward one with one input, one output and no states. It has the flag
 * TN_KERNEL_FOLD, and computes a call in two stages:
 *
 *   records   The input is cut into boxes of at most TN_FOLD_BOX elements, as
 *             tn_fold_cut() does it. Each box gives one record for each line
 *             that it has a part of. A record has any fixed number of bytes and
 *             depends on those elements and their order alone.
 *   merge     Each element of the output is computed from the records of its
 *             line.
 *
 * A call that can be fed sets one workspace in `prepare`, for all records; a
 * call with none, or others, always runs as a whole. Otherwise the host may
 * replace the whole call by others, each with the params, the flags and the
 * `prepared` of the whole one,
 *
 *   for each box, in any order and at the same time, a call with TN_CALL_FOLD:
 *             in[0] is the box, of any strides; out[0] has 1 for every axis
 *             that is folded and no data; its shape has the number of lines;
 *             ws[0] is the place of their records, one after the other
 *   then one with TN_CALL_MERGE: ws[0] are all records, in[0] has no data,
 *             out[0] and its request are those of the whole call
 *
 * with the same bits as the whole call for any number of threads, because boxes
 * depend on shapes alone. Records are ordered by line, those of a line in the
 * order of its boxes. Axes of length 1 may be missing in the tensors of a box.
 */
#ifndef TENON_FOLD_H_
#define TENON_FOLD_H_

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#if TN_TARGET_MINOR < 1
#error "fold.h is newer than TN_TARGET_MINOR 0"
#endif

#define TN_KERNEL_FOLD (1u << 5) /* tn_kernel.flags */
#define TN_CALL_FOLD (1u << 2)   /* tn_frame.flags */
#define TN_CALL_MERGE (1u << 3)
#define TN_FOLD_BOX 1024 /* elements */

/* The boxes of a call. */
typedef struct tn_fold {
  int32_t ndim;  /* of the input */
  int32_t kept;  /* its first axes, those of the output */
  int64_t lines; /* elements of the output */
  int64_t parts; /* boxes that a line is cut into; records are lines * parts */
  int64_t shape[TN_MAX_NDIM]; /* of the input */
  int64_t box[TN_MAX_NDIM];   /* of every box but the last along each axis */
  int64_t count[TN_MAX_NDIM]; /* boxes along each axis */
} tn_fold;

/* From the last axis on, boxes are as long as the axis while they have at most
 * TN_FOLD_BOX elements; the next axis is cut, and all axes before have length
 * 1. So a box has a part of one line, or several consecutive lines. Returns 0
 * if the output is not the input without its last axes, or with 1 in their
 * place, or if it is empty. [any] */
static inline int tn_fold_cut(const tn_tensor *in, const tn_tensor *out,
                              tn_fold *fold) {
  int64_t left = TN_FOLD_BOX;
  fold->ndim = in->ndim;
  fold->kept = 0;
  fold->lines = fold->parts = 1;
  while (fold->kept < out->ndim && fold->kept < in->ndim &&
         out->shape[fold->kept] == in->shape[fold->kept])
    ++fold->kept;
  for (int32_t i = fold->kept; i < out->ndim; ++i)
    if (out->shape[i] != 1) return 0;
  if (out->ndim > fold->kept && out->ndim != in->ndim) return 0;
  for (int32_t i = in->ndim - 1; i >= 0; --i) {
    const int64_t n = in->shape[i];
    if (n == 0) return 0;
    fold->shape[i] = n;
    fold->box[i] = n < left ? n : left;
    fold->count[i] = n / fold->box[i] + (n % fold->box[i] != 0);
    left = n <= left ? left / n : 1;
    *(i < fold->kept ? &fold->lines : &fold->parts) *=
        i < fold->kept ? n : fold->count[i];
  }
  return 1;
}

/* One box: its begin, its lengths, and its first record. */
typedef struct tn_fold_part {
  int64_t at[TN_MAX_NDIM];
  int64_t shape[TN_MAX_NDIM];
  int64_t lines;
  int64_t record; /* number */
} tn_fold_part;

/* Number of boxes. [any] */
static inline int64_t tn_fold_boxes(const tn_fold *fold) {
  int64_t n = 1;
  for (int32_t i = 0; i < fold->ndim; ++i) n *= fold->count[i];
  return n;
}

/* Box number `index`, in row-major order. [any] */
static inline void tn_fold_at(const tn_fold *fold, int64_t index,
                              tn_fold_part *part) {
  int64_t line = 0, of_line = 0;
  for (int32_t i = fold->ndim - 1; i >= 0; --i) {
    part->at[i] = index % fold->count[i] * fold->box[i];
    index /= fold->count[i];
  }
  part->lines = 1;
  for (int32_t i = 0; i < fold->ndim; ++i) {
    const int64_t left = fold->shape[i] - part->at[i];
    part->shape[i] = left < fold->box[i] ? left : fold->box[i];
    if (i < fold->kept) {
      line = line * fold->shape[i] + part->at[i];
      part->lines *= part->shape[i];
    } else {
      of_line = of_line * fold->count[i] + part->at[i] / fold->box[i];
    }
  }
  part->record = line * fold->parts + of_line;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_FOLD_H_ */
