/* SPDX-License-Identifier: Apache-2.0
 * line_shapes.h: the shapes of operators with formulas over lines (lines.h):
 * the `infer` that opgen writes for them.
 */
#ifndef TENON_KERNEL_LINE_SHAPES_H_
#define TENON_KERNEL_LINE_SHAPES_H_

#include <string.h>

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { /* elements of an operand */
       TN_LINES_LINE = 1,
       TN_LINES_PLACE = 2,
       TN_LINES_FULL = 3
};

/* The axes of a call, from its parameters. */
typedef struct tn_lines_axes {
  int64_t n;
  const int64_t *axes; /* from the end where negative */
} tn_lines_axes;

/* An operand of an operator, for the shapes. */
typedef struct tn_lines_operand_rule {
  uint32_t list; /* TN_OPERAND_* */
  uint32_t index;
  uint32_t level; /* TN_LINES_*; the first rule is that of the loop: FULL */
} tn_lines_operand_rule;

/* The axes as dimensions of a loop with `ndim` dimensions, in ascending order.
 * A scalar is a line of one element, and has no dimension. TN_OK, or a code
 * with TN_FAIL. [any] */
static inline int32_t tn_lines_find_dims(const tn_frame *call,
                                         const tn_lines_axes *axes,
                                         int32_t ndim, uint8_t *is_reduced) {
  memset(is_reduced, 0, TN_MAX_NDIM);
  for (int64_t i = 0; i < axes->n; ++i) {
    const int64_t axis = axes->axes[i];
    const int64_t most = ndim == 0 ? 1 : ndim;
    if (axis < -most || axis >= most)
      return TN_FAIL(call, TN_OUT_OF_RANGE,
                     "no axis %lld of %d dimensions: write %lld to %lld",
                     (long long)axis, (int)ndim, (long long)-most,
                     (long long)most - 1);
    const int64_t dim = axis < 0 ? axis + most : axis;
    if (is_reduced[dim] && ndim > 0)
      return TN_FAIL(call, TN_INVALID, "axis %lld is given twice",
                     (long long)axis);
    is_reduced[dim] = ndim > 0;
  }
  return TN_OK;
}

static inline const tn_tensor *tn_lines_tensor(
    const tn_frame *call, const tn_lines_operand_rule *rule) {
  return rule->list == TN_OPERAND_IN ? &call->in[rule->index]
                                     : &call->out[rule->index];
}

/* Adds the known lengths of an operand to those of the loop. */
static inline void tn_lines_learn(const tn_tensor *t, uint32_t level,
                                  int32_t ndim, const uint8_t *is_reduced,
                                  int64_t *shape) {
  int32_t at = 0;
  if (t->ndim < 0) return;
  for (int32_t d = 0; d < ndim && at < t->ndim; ++d) {
    const uint32_t part = is_reduced[d] ? TN_LINES_PLACE : TN_LINES_LINE;
    if (level & part) {
      if (shape[d] < 0) shape[d] = t->shape[at];
      ++at;
    } else if (level == TN_LINES_LINE) {
      ++at;
    }
  }
}

/* States the shape of one operand. */
static inline int32_t tn_lines_state_shape(const tn_frame *call,
                                           const tn_lines_operand_rule *rule,
                                           int32_t ndim,
                                           const uint8_t *is_reduced,
                                           const int64_t *shape) {
  int64_t own[TN_MAX_NDIM];
  int32_t n = 0;
  for (int32_t d = 0; d < ndim; ++d) {
    const uint32_t part = is_reduced[d] ? TN_LINES_PLACE : TN_LINES_LINE;
    if (rule->level & part)
      own[n++] = shape[d];
    else if (rule->level == TN_LINES_LINE)
      own[n++] = 1;
  }
  return call->host->set_shape(call, rule->list, rule->index, n, own);
}

/* The `infer` of an operator over lines. The rank of the loop is that of an
 * operand with one element for each line, if the rank of the loop itself is
 * unknown. [any] */
static inline int32_t tn_lines_infer(const tn_frame *call,
                                     const tn_lines_operand_rule *rules,
                                     uint32_t n_rules,
                                     const tn_lines_axes *axes) {
  uint8_t is_reduced[TN_MAX_NDIM];
  int64_t shape[TN_MAX_NDIM];
  int32_t ndim = -1;
  for (uint32_t i = 0; i < n_rules && ndim < 0; ++i)
    if (rules[i].level & TN_LINES_LINE)
      ndim = tn_lines_tensor(call, &rules[i])->ndim;
  if (ndim < 0) return TN_OK;
  const int32_t code = tn_lines_find_dims(call, axes, ndim, is_reduced);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < ndim; ++d) shape[d] = -1;
  for (uint32_t i = 0; i < n_rules; ++i)
    tn_lines_learn(tn_lines_tensor(call, &rules[i]), rules[i].level, ndim,
                   is_reduced, shape);
  for (uint32_t i = 0; i < n_rules; ++i) {
    const int32_t done =
        tn_lines_state_shape(call, &rules[i], ndim, is_reduced, shape);
    if (done != TN_OK) return done;
  }
  return TN_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_LINE_SHAPES_H_ */
