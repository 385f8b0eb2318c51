/* SPDX-License-Identifier: Apache-2.0
 * scatter_lines.h: slices as lines of numbers in f64, for the gradients of
 * scatter.h on the CPU.
 */
#ifndef TENSOR_SCATTER_LINES_H_
#define TENSOR_SCATTER_LINES_H_

#include "places_walk.h"
#include "tenon/kernel/kernel.h"

/* Adjacent elements of the slices, at most TENSOR_GROUP. Element k is at
 * position at[k] of whole, and belongs to slice number + k * next: `next` is 0
 * if all belong to one slice. */
typedef struct tensor_line {
  const int64_t *at;
  int64_t first;
  int64_t n;
  int64_t number;
  int64_t next;
} tensor_line;

typedef void tensor_line_fn(const void *task, const tensor_line *line);

/* Calls `use` for all lines of a group. */
static inline void tensor_visit_lines(const tensor_group *g,
                                      tensor_line_fn *use, const void *task) {
  if (g->step == 1) {
    const tensor_line whole = {g->at, g->first, g->n, g->number, 1};
    use(task, &whole);
    return;
  }
  for (int64_t k = 0; k < g->n; ++k)
    for (int64_t j = 0; j < g->width; j += TENSOR_GROUP) {
      int64_t at[TENSOR_GROUP];
      const int64_t left = g->width - j;
      const tensor_line part = {at, g->first + k * g->step + j,
                                left < TENSOR_GROUP ? left : TENSOR_GROUP,
                                g->number + k, 0};
      for (int64_t i = 0; i < part.n; ++i) at[i] = g->at[k] + j + i;
      use(task, &part);
    }
}

/* Reads n adjacent elements from element `first` on. */
static inline void tensor_load_line(const tn_tensor *from, int64_t first,
                                    int64_t n, double *to) {
  const tn_kernel_mode mode = {TN_F64, 0};
  tn_kernel_load_dense(
      to, &mode, (const char *)from->data + first * tn_dtype_bytes(from->dtype),
      from->dtype, n);
}

/* Reads elements at n positions, at most TENSOR_GROUP. */
static inline void tensor_load_places(const tn_tensor *from, const int64_t *at,
                                      int64_t n, double *to) {
  const tn_kernel_mode mode = {TN_F64, 0};
  const int64_t bytes = tn_dtype_bytes(from->dtype);
  char some[TENSOR_GROUP * 8];
  for (int64_t k = 0; k < n; ++k)
    memcpy(some + k * bytes, (const char *)from->data + at[k] * bytes,
           (size_t)bytes);
  tn_kernel_load_dense(to, &mode, some, from->dtype, n);
}

/* Writes n adjacent elements from element `first` on. */
static inline void tensor_store_line(const tn_tensor *to, int64_t first,
                                     int64_t n, const double *from) {
  const tn_kernel_mode mode = {TN_F64, 0};
  tn_kernel_store_dense((char *)to->data + first * tn_dtype_bytes(to->dtype),
                        to->dtype, from, &mode, n);
}

static inline int tensor_is_zero(double x) {
  return x >= 0 && x <= 0;
}

/* Whether an operand is the result of a maximum or minimum. */
static inline int tensor_is_same(double a, double b) {
  return (a != a && b != b) || (a >= b && a <= b);
}

#endif /* TENSOR_SCATTER_LINES_H_ */
