/* SPDX-License-Identifier: Apache-2.0
 * checks.h: rules for the parameters of several operators, and shapes of their
 * outputs. The functions end a call with TN_FAIL.
 */
#ifndef RANDOM_CHECKS_H_
#define RANDOM_CHECKS_H_

#include <float.h>

#include "tenon/kernel/kernel.h"

static inline int is_float(tn_dtype dtype) {
  const tn_dtype own = tn_kernel_compute(dtype);
  return own == TN_F32 || own == TN_F64;
}

static inline int32_t state_shape(const tn_frame *call, const tn_ints *shape) {
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, (int32_t)shape->n,
                               shape->v);
}

/* States that every output has the first `n` dimensions of `first`, then
 * `shape`. Nothing if `first` is unknown. */
static inline int32_t state_shape_after(const tn_frame *call, int32_t n,
                                        const tn_tensor *first,
                                        const tn_ints *shape) {
  int64_t all[TN_MAX_NDIM];
  if (first->ndim < 0) return TN_OK;
  if (n + shape->n > TN_MAX_NDIM)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "the output would have %lld dimensions, and an array has at "
                   "most %d; shorten `shape`",
                   (long long)(n + shape->n), TN_MAX_NDIM);
  for (int32_t i = 0; i < n; ++i) all[i] = first->shape[i];
  for (int64_t i = 0; i < shape->n; ++i) all[n + i] = shape->v[i];
  for (uint32_t i = 0; i < call->n_out; ++i) {
    const int32_t code = call->host->set_shape(call, TN_OPERAND_OUT, i,
                                               n + (int32_t)shape->n, all);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

static inline int32_t check_float(const tn_frame *call, tn_dtype dtype) {
  if (is_float(dtype)) return TN_OK;
  return TN_FAIL(call, TN_DTYPE,
                 "these numbers are f16, bf16, f32 or f64; say so by dtype");
}

/* The greatest number of a float type. */
static inline double greatest_float(tn_dtype dtype) {
  if (dtype == TN_F16) return 65504;
  if (dtype == TN_BF16) return 0x1.fep127;
  return dtype == TN_F32 ? FLT_MAX : DBL_MAX;
}

/* Checks a parameter that must be a finite number of a float type. */
static inline int32_t check_number(const tn_frame *call, tn_dtype dtype,
                                   const char *name, double x) {
  const double most = greatest_float(dtype);
  if (x >= -most && x <= most) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "`%s` is %g, but the type has %g to %g only; choose another "
                 "number or dtype",
                 name, x, -most, most);
}

#endif /* RANDOM_CHECKS_H_ */
