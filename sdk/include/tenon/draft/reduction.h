/* SPDX-License-Identifier: Apache-2.0
 * reduction.h: reductions, such as sums, that a host may feed part by part, so
 * that their input need never be in memory as a whole.
 *
 * Draft: this header may change in any release.
 *
 * A reduction computes each element of its output from a line of its input:
 * from all elements along the last axes. Its kernel is a forward one with one
 * input, one output and no states. It has the flag TN_KERNEL_REDUCTION, and
 * computes a call in two stages:
 *
 *   records   The input is cut into extents of at most TN_REDUCTION_EXTENT
 *             elements, as tn_reduction_cut() does it. Each extent gives one
 *             record for each line that it has a part of. A record has any
 *             fixed number of bytes and depends on those elements and their
 *             order alone.
 *   merge     Each element of the output is computed from the records of its
 *             line.
 *
 * A call that can be fed sets one workspace in `prepare`, for all records; a
 * call with none, or others, always runs as a whole. Otherwise the host may
 * replace the whole call by others, each with the params, the flags and the
 * `prepared` of the whole one,
 *
 *   for each extent, in any order and at the same time, a call with
 *   TN_CALL_EXTENT:
 *             in[0] is the extent, of any strides; out[0] has 1 for every axis
 *             that is reduced and no data; its shape has the number of lines;
 *             ws[0] is the place of their records, one after the other
 *   then one with TN_CALL_MERGE: ws[0] are all records, in[0] has no data,
 *             out[0] and its request are those of the whole call
 *
 * with the same bits as the whole call for any number of threads, because
 * extents depend on shapes alone. Records are ordered by line, those of a line
 * in the order of its extents. Axes of length 1 may be missing in the tensors
 * of an extent.
 */
#ifndef TENON_DRAFT_REDUCTION_H_
#define TENON_DRAFT_REDUCTION_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#if TN_TARGET_MINOR < 1
#error "reduction.h is newer than TN_TARGET_MINOR 0"
#endif

#define TN_KERNEL_REDUCTION (1u << 5) /* tn_kernel.flags */
#define TN_CALL_EXTENT (1u << 2)      /* tn_frame.flags */
#define TN_CALL_MERGE (1u << 3)
#define TN_REDUCTION_EXTENT 1024 /* elements */

/* The extents of a call. */
typedef struct tn_reduction {
  int32_t ndim;  /* of the input */
  int32_t kept;  /* its first axes, those of the output */
  int64_t lines; /* elements of the output */
  int64_t
      parts; /* extents that a line is cut into; records are lines * parts */
  int64_t shape[TN_MAX_NDIM];  /* of the input */
  int64_t extent[TN_MAX_NDIM]; /* of each but the last along each axis */
  int64_t count[TN_MAX_NDIM];  /* extents along each axis */
} tn_reduction;

/* From the last axis on, extents are as long as the axis while they have at
 * most TN_REDUCTION_EXTENT elements; the next axis is cut, and all axes before
 * have length
 * 1. So an extent has a part of one line, or several consecutive lines. Returns
 * 0 if the output is not the input without its last axes, or with 1 in their
 * place, or if it is empty. [any] */
static inline int tn_reduction_cut(const tn_tensor *in, const tn_tensor *out,
                                   tn_reduction *reduction) {
  int64_t left = TN_REDUCTION_EXTENT;
  reduction->ndim = in->ndim;
  reduction->kept = 0;
  reduction->lines = reduction->parts = 1;
  while (reduction->kept < out->ndim && reduction->kept < in->ndim &&
         out->shape[reduction->kept] == in->shape[reduction->kept])
    ++reduction->kept;
  for (int32_t i = reduction->kept; i < out->ndim; ++i)
    if (out->shape[i] != 1) return 0;
  if (out->ndim > reduction->kept && out->ndim != in->ndim) return 0;
  for (int32_t i = in->ndim - 1; i >= 0; --i) {
    const int64_t n = in->shape[i];
    if (n == 0) return 0;
    reduction->shape[i] = n;
    reduction->extent[i] = n < left ? n : left;
    reduction->count[i] =
        n / reduction->extent[i] + (n % reduction->extent[i] != 0);
    left = n <= left ? left / n : 1;
    *(i < reduction->kept ? &reduction->lines : &reduction->parts) *=
        i < reduction->kept ? n : reduction->count[i];
  }
  return 1;
}

/* One extent: its begin, its lengths, and its first record. */
typedef struct tn_reduction_extent {
  int64_t at[TN_MAX_NDIM];
  int64_t shape[TN_MAX_NDIM];
  int64_t lines;
  int64_t record; /* number */
} tn_reduction_extent;

/* Number of extents. [any] */
static inline int64_t tn_reduction_extents(const tn_reduction *reduction) {
  int64_t n = 1;
  for (int32_t i = 0; i < reduction->ndim; ++i) n *= reduction->count[i];
  return n;
}

/* Extent number `index`, in row-major order. [any] */
static inline void tn_reduction_at(const tn_reduction *reduction, int64_t index,
                                   tn_reduction_extent *part) {
  int64_t line = 0, of_line = 0;
  for (int32_t i = reduction->ndim - 1; i >= 0; --i) {
    part->at[i] = index % reduction->count[i] * reduction->extent[i];
    index /= reduction->count[i];
  }
  part->lines = 1;
  for (int32_t i = 0; i < reduction->ndim; ++i) {
    const int64_t left = reduction->shape[i] - part->at[i];
    part->shape[i] = left < reduction->extent[i] ? left : reduction->extent[i];
    if (i < reduction->kept) {
      line = line * reduction->shape[i] + part->at[i];
      part->lines *= part->shape[i];
    } else {
      of_line =
          of_line * reduction->count[i] + part->at[i] / reduction->extent[i];
    }
  }
  part->record = line * reduction->parts + of_line;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_DRAFT_REDUCTION_H_ */
