/* SPDX-License-Identifier: Apache-2.0
 * scan.h: running sums and products on the CPU: lines and their elements
 * (scan.c), for the gradients of products as well (scan_slopes.c).
 */
#ifndef TENSOR_SCAN_H_
#define TENSOR_SCAN_H_

#include "move.h"
#include "tenon/kernel/kernel.h"

enum { SCAN_CHUNK = 512 /* elements that are converted together */ };

typedef union scan_number {
  double f64;
  uint64_t i64;
} scan_number;

/* A piece of a line. */
typedef struct scan_piece_sum {
  scan_number sum; /* of its elements */
  scan_number all; /* of those before it, too */
  _Atomic uint32_t state;
} scan_piece_sum;

typedef struct scan_args {
  const tn_frame *call;
  const tn_tensor *from;
  const tn_tensor *to;
  int64_t outer, n, inner;
  int64_t pieces;       /* of a line */
  scan_piece_sum *sums; /* of each piece of each line, if there are several */
  tn_dtype dtype;
  tn_kernel_mode mode; /* f64 or i64 */
  int exclusive;
  int reverse;
  int is_product;
} scan_args;

/* Elements as they are computed with. */
typedef union scan_chunk {
  double f64[SCAN_CHUNK + 1];
  uint64_t i64[SCAN_CHUNK + 1];
} scan_chunk;

static inline int64_t scan_find_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Initialises the arguments of a call of any operator of scan.yaml, with the
 * parameters of cumsum; TN_OK, or a code with TN_FAIL. [any] */
int32_t scan_init_args(scan_args *a, const tn_frame *call,
                       const tn_tensor *from);

/* Elements [begin, begin + n) of line i, in the order of the scan. [any] */
tn_kernel_line scan_find_part(const scan_args *a, const tn_tensor *tensor,
                              int64_t i, int64_t begin, int64_t n);

/* The result of no elements: 0 or 1. [any] */
scan_number scan_find_none(const scan_args *a);

/* Sets out[i + 1] to the result of elements 0 to i, and out[0] to `before`.
 * Returns the last result. [worker] */
scan_number scan_elements(const scan_args *a, const scan_chunk *x, int64_t n,
                          scan_number before, scan_chunk *out);

#endif /* TENSOR_SCAN_H_ */
