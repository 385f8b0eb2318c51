/* SPDX-License-Identifier: Apache-2.0
 * class.c: in which type a formula computes.
 */
#include "algebra.h"

int tnm_class_of(tn_dtype dtype) {
  switch (dtype) {
    case TN_F64:
      return TNM_CLASS_F64;
    case TN_F16:
    case TN_BF16:
    case TN_F32:
      return TNM_CLASS_F32;
    case TN_U32:
    case TN_I64:
      return TNM_CLASS_I64;
    case TN_BOOL:
    case TN_I8:
    case TN_U8:
    case TN_I16:
    case TN_U16:
    case TN_I32:
      return TNM_CLASS_I32;
    default:
      return 0;
  }
}

int tnm_class_join(int a, int b) {
  int both = a | b;
  if (both & TNM_CLASS_F64 || both == (TNM_CLASS_F32 | TNM_CLASS_I64))
    return TNM_CLASS_F64;
  if (both & TNM_CLASS_F32) return TNM_CLASS_F32;
  return both & TNM_CLASS_I64 ? TNM_CLASS_I64 : both;
}

const char *tnm_class_name(int class_bit) {
  switch (class_bit) {
    case TNM_CLASS_F32:
      return "f32";
    case TNM_CLASS_F64:
      return "f64";
    case TNM_CLASS_I32:
      return "i32";
    case TNM_CLASS_I64:
      return "i64";
    default:
      return "?";
  }
}
