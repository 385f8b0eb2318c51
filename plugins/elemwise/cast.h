/* SPDX-License-Identifier: Apache-2.0
 * cast.h: the numbers between the two types of a call of cast that has a
 * storage type, on all devices.
 */
#ifndef ELEMWISE_CAST_H_
#define ELEMWISE_CAST_H_

#include "other.gen.h"
#include "tenon/kernel/storage.h"

/* Declines calls without a storage type: generated kernels have them. */
static inline int32_t cast_check_storage(const tn_frame *call) {
  if (tn_storage_has(call->in[0].dtype) || tn_storage_has(call->out[0].dtype))
    return TN_OK;
  return TN_FAIL(call, TN_UNSUPPORTED, "neither type is a storage type");
}

/* Returns whether a type is an integer or bool. */
static inline int cast_is_integer(tn_dtype dtype) {
  return (dtype & 0xffu) <= 1 || dtype == TN_BOOL;
}

/* Returns whether f32 has all numbers of a type. */
static inline int cast_fits_f32(tn_dtype dtype) {
  return tn_storage_has(dtype) || dtype == TN_F32 ||
         (tn_dtype_bits(dtype) <= 16 && dtype != TN_F64);
}

/* Returns the type of the numbers between two types: integers wrap in i64. */
static inline tn_dtype cast_numbers(tn_dtype from, tn_dtype to) {
  if (cast_is_integer(from) && cast_is_integer(to)) return TN_I64;
  return cast_fits_f32(from) && cast_fits_f32(to) ? TN_F32 : TN_F64;
}

/* Returns an i64 or u64 as a double with a lowest bit of 1, unless it is exact:
 * rounding that to a storage type gives the same as rounding the integer. */
TN_STORAGE_ONE double cast_widen(const void *integer, tn_dtype dtype) {
  const uint64_t dropped = 0x7ff;
  uint64_t bits;
  memcpy(&bits, integer, sizeof bits);
  const int negative = dtype == TN_I64 && bits >> 63 != 0;
  uint64_t magnitude = negative ? 0 - bits : bits;
  if (magnitude >> 53 != 0 && (magnitude & dropped) != 0)
    magnitude = (magnitude | (dropped + 1)) & ~dropped;
  return negative ? -(double)magnitude : (double)magnitude;
}

/* Returns a float as u64, by the rules of convert.h. */
TN_STORAGE_ONE uint64_t cast_narrow_u64(double x) {
  if (!(x > 0)) return 0; /* NaN as well */
  return x < 18446744073709551616.0 ? (uint64_t)x : UINT64_MAX;
}

/* Returns the rule for elements of the output, if that is of a storage type.
 * The values of round_mode have the order of TN_STORAGE_*. */
static inline tn_storage_rule cast_rule(const tn_frame *call) {
  const elemwise_cast_params *p = elemwise_cast_params_of(call);
  const tn_storage_rule rule = {call->out[0].dtype, p->saturate, p->round_mode};
  return rule;
}

#endif /* ELEMWISE_CAST_H_ */
