/* SPDX-License-Identifier: Apache-2.0
 * class.c: decides the class (type of computation) of a formula, and converts
 * numbers to a class.
 */
#include <math.h>

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
    case TN_U64:
      return TNM_CLASS_U64;
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
  const int both = a | b;
  const bool is_wide = (both & (TNM_CLASS_I64 | TNM_CLASS_U64)) != 0;
  if (both & TNM_CLASS_F64) return TNM_CLASS_F64;
  if (both & TNM_CLASS_F32) return is_wide ? TNM_CLASS_F64 : TNM_CLASS_F32;
  if (both & TNM_CLASS_U64) return TNM_CLASS_U64;
  return both & TNM_CLASS_I64 ? TNM_CLASS_I64 : both;
}

int tnm_class_join_sets(int a, int b) {
  int joined = 0;
  for (int i = TNM_CLASS_F32; i <= TNM_CLASS_U64; i <<= 1)
    for (int k = TNM_CLASS_F32; k <= TNM_CLASS_U64; k <<= 1)
      if (a & i && b & k) joined |= tnm_class_join(i, k);
  return joined;
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
    case TNM_CLASS_U64:
      return "u64";
    default:
      return "?";
  }
}

/* Reads digits as a 64-bit number. */
static bool read_digits(const char *text, uint64_t *out) {
  if (text == NULL || *text == '\0') return false;
  for (*out = 0; *text >= '0' && *text <= '9'; ++text) {
    const uint64_t digit = (uint64_t)(*text - '0');
    if (*out > (UINT64_MAX - digit) / 10) return false;
    *out = 10 * *out + digit;
  }
  return *text == '\0';
}

bool tnm_number_read_whole(const tnm_expr *number, uint64_t *out) {
  if (read_digits(number->text, out)) return true;
  if (number->number >= 0x1p53 || number->number != floor(number->number))
    return false;
  *out = (uint64_t)number->number;
  return true;
}

bool tnm_number_equal(const tnm_expr *a, const tnm_expr *b) {
  uint64_t one, other;
  return a->number == b->number &&
         (!tnm_number_read_whole(a, &one) ||
          !tnm_number_read_whole(b, &other) || one == other);
}

bool tnm_class_has(int class_bit, const tnm_expr *number, bool negative) {
  const uint64_t most = class_bit == TNM_CLASS_I32 ? INT32_MAX : INT64_MAX;
  uint64_t value;
  if (!tnm_number_read_whole(number, &value)) return false;
  if (class_bit == TNM_CLASS_U64) return !negative || value == 0;
  return value <= most + (negative ? 1 : 0);
}

/* ---------------------------------------------------- classes of a formula */

/* Whether it is an exponent for a power of integers. */
static bool is_whole(const tnm_expr *expr) {
  return expr->kind == TNM_NUMBER && expr->number == floor(expr->number);
}

/* The classes that contain a number or, after a minus, its negative. In u64
 * that wraps: manifests have no such number, but a constant part of a formula
 * may have this value. */
static int classes_of_number(const tnm_expr *number, bool negative) {
  int classes = TNM_CLASS_FLOATS;
  for (int i = TNM_CLASS_I32; i <= TNM_CLASS_I64; i <<= 1)
    if (tnm_class_has(i, number, negative)) classes |= i;
  if (tnm_class_has(TNM_CLASS_U64, number, false)) classes |= TNM_CLASS_U64;
  return classes;
}

/* The classes in which the outermost operation is defined. */
static int classes_of_node(const tnm_expr *expr) {
  int classes = TNM_CLASS_ALL;
  if (expr->kind == TNM_CALL)
    classes = (int)tnm_function_at(expr->index)->classes;
  if (expr->kind == TNM_REDUCE &&
      (expr->index == TNM_R_MEAN || expr->index == TNM_R_LOGSUMEXP))
    classes = TNM_CLASS_FLOATS;
  if (tnm_expr_is_power(expr) && !is_whole(expr->args[1]))
    classes = TNM_CLASS_FLOATS;
  return classes;
}

int tnm_expr_classes(const tnm_expr *expr) {
  if (expr->kind == TNM_NUMBER) return classes_of_number(expr, false);
  if (expr->kind == TNM_NEG && expr->args[0]->kind == TNM_NUMBER)
    return classes_of_number(expr->args[0], true);
  int classes = classes_of_node(expr);
  for (uint32_t i = 0; i < expr->n_args; ++i)
    classes &= tnm_expr_classes(expr->args[i]);
  return classes;
}
