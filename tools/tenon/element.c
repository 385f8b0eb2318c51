/* SPDX-License-Identifier: Apache-2.0
 * element.c: one element of an array: the names of types, and values in and
 * out. Conversions are written for exactness, not for speed.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

static const struct {
  const char *name;
  tn_dtype dtype;
  uint64_t bit;
} types[] = {{"f16", TN_F16, TN_BIT_F16},
             {"bf16", TN_BF16, TN_BIT_BF16},
             {"f32", TN_F32, TN_BIT_F32},
             {"f64", TN_F64, TN_BIT_F64},
             {"i8", TN_I8, TN_BIT_I8},
             {"i16", TN_I16, TN_BIT_I16},
             {"i32", TN_I32, TN_BIT_I32},
             {"i64", TN_I64, TN_BIT_I64},
             {"u8", TN_U8, TN_BIT_U8},
             {"u16", TN_U16, TN_BIT_U16},
             {"u32", TN_U32, TN_BIT_U32},
             {"u64", TN_U64, TN_BIT_U64},
             {"bool", TN_BOOL, TN_BIT_BOOL},
             {"f8e4m3fn", TN_F8E4M3FN, TN_BIT_F8E4M3FN},
             {"f8e4m3fnuz", TN_F8E4M3FNUZ, TN_BIT_F8E4M3FNUZ},
             {"f8e5m2", TN_F8E5M2, TN_BIT_F8E5M2},
             {"f8e5m2fnuz", TN_F8E5M2FNUZ, TN_BIT_F8E5M2FNUZ},
             {"f8e8m0", TN_F8E8M0, TN_BIT_F8E8M0},
             {"f4e2m1", TN_F4E2M1, TN_BIT_F4E2M1},
             {"i4", TN_I4, TN_BIT_I4},
             {"u4", TN_U4, TN_BIT_U4},
             {"i2", TN_I2, TN_BIT_I2},
             {"u2", TN_U2, TN_BIT_U2}};

enum { N_TYPES = sizeof types / sizeof types[0] };

const char *dtype_name(tn_dtype dtype) {
  for (size_t i = 0; i < N_TYPES; ++i)
    if (types[i].dtype == dtype) return types[i].name;
  return "?";
}

tn_dtype dtype_from_name(const char *name) {
  for (size_t i = 0; i < N_TYPES; ++i)
    if (!strcmp(types[i].name, name)) return types[i].dtype;
  return TN_DTYPE_UNKNOWN;
}

/* Names of the same types in other libraries and in C. */
static const char *const foreign[][2] = {{"half", "f16"},
                                         {"float16", "f16"},
                                         {"bfloat16", "bf16"},
                                         {"float", "f32"},
                                         {"float32", "f32"},
                                         {"single", "f32"},
                                         {"double", "f64"},
                                         {"float64", "f64"},
                                         {"int8", "i8"},
                                         {"int16", "i16"},
                                         {"short", "i16"},
                                         {"int32", "i32"},
                                         {"int", "i32"},
                                         {"int64", "i64"},
                                         {"long", "i64"},
                                         {"uint8", "u8"},
                                         {"byte", "u8"},
                                         {"uint16", "u16"},
                                         {"uint32", "u32"},
                                         {"uint", "u32"},
                                         {"uint64", "u64"},
                                         {"boolean", "bool"},
                                         {"int4", "i4"},
                                         {"uint4", "u4"},
                                         {"int2", "i2"},
                                         {"uint2", "u2"},
                                         {"float8_e4m3fn", "f8e4m3fn"},
                                         {"float8_e4m3fnuz", "f8e4m3fnuz"},
                                         {"float8_e5m2", "f8e5m2"},
                                         {"float8_e5m2fnuz", "f8e5m2fnuz"},
                                         {"float8_e8m0fnu", "f8e8m0"},
                                         {"float4_e2m1fn", "f4e2m1"}};

const char *dtype_nearest(const char *name) {
  const char *names[N_TYPES];
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; ++i)
    if (!strcmp(foreign[i][0], name)) return foreign[i][1];
  for (size_t i = 0; i < N_TYPES; ++i) names[i] = types[i].name;
  return did_you_mean(name, names, N_TYPES);
}

bool dtype_fail(const char *name, text *why) {
  const char *meant = dtype_nearest(name);
  text names = {0};
  if (meant)
    return report_failure(why, "unknown element type `%s`; did you mean `%s`?",
                          name, meant);
  dtype_set_add(&names, UINT64_MAX);
  report_failure(why, "unknown element type `%s`; there are %s", name,
                 text_get(&names));
  text_deinit(&names);
  return false;
}

void dtype_set_add(text *t, uint64_t set) {
  const char *separator = "";
  for (size_t i = 0; i < N_TYPES; ++i) {
    if (!(set & types[i].bit)) continue;
    text_add(t, "%s%s", separator, types[i].name);
    separator = " ";
  }
}

bool dtype_is_float(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
         dtype == TN_F64;
}

static bool is_storage_float(tn_dtype dtype) {
  return tn_storage_has(dtype) && !tn_storage_is_integer(dtype);
}

bool dtype_has_fractions(tn_dtype dtype) {
  return dtype_is_float(dtype) || is_storage_float(dtype);
}

const char *device_name(int32_t device_type) {
  switch (device_type) {
    case TN_DEVICE_CPU:
      return "cpu";
    case TN_DEVICE_CUDA:
      return "cuda";
    case TN_DEVICE_CUDA_HOST:
      return "cuda-host";
    default:
      return "another device";
  }
}

/* ------------------------------------------------------------ 16-bit floats */

/* A binary float of 16 bits: `digits` of significand including the implied one,
 * and the exponent of its least normal number. */
typedef struct format16 {
  int digits;
  int min_exponent;
} format16;

static const format16 format_f16 = {11, -14};
static const format16 format_bf16 = {8, -126};

static uint16_t encode_float16(format16 f, double value) {
  const int stored = f.digits - 1;
  const uint16_t sign = signbit(value) ? 0x8000u : 0u;
  const unsigned infinity = 0x7fffu & ~((1u << stored) - 1u);
  if (isnan(value)) return (uint16_t)(infinity | 1u << (stored - 1));
  int exponent = 0;
  double magnitude = fabs(value);
  if (magnitude == 0) return sign;
  if (isinf(value)) return (uint16_t)(sign | infinity);
  frexp(magnitude, &exponent); /* magnitude in [2^(e-1), 2^e) */
  int scale = exponent - 1 < f.min_exponent ? f.min_exponent : exponent - 1;
  /* rint rounds to even; a carry runs on into the exponent by itself. */
  double significand = rint(ldexp(magnitude, stored - scale));
  double bits = ldexp((double)(scale - f.min_exponent), stored) + significand;
  if (bits > infinity) bits = infinity;
  return (uint16_t)(sign | (uint16_t)bits);
}

static double decode_float16(format16 f, uint16_t bits) {
  const int stored = f.digits - 1;
  const unsigned magnitude = bits & 0x7fffu;
  const unsigned mask = (1u << stored) - 1u;
  const unsigned infinity = 0x7fffu & ~mask;
  int exponent = (int)(magnitude >> stored);
  double value = magnitude & mask;
  if (magnitude >= infinity) {
    value = magnitude > infinity ? (double)NAN : (double)INFINITY;
  } else if (exponent == 0) {
    value = ldexp(value, f.min_exponent - stored);
  } else {
    value =
        ldexp(value + (1u << stored), exponent - 1 + f.min_exponent - stored);
  }
  return bits & 0x8000u ? -value : value;
}

uint16_t f16_from_double(double value) {
  return encode_float16(format_f16, value);
}

uint16_t bf16_from_double(double value) {
  return encode_float16(format_bf16, value);
}

double double_from_f16(uint16_t bits) {
  return decode_float16(format_f16, bits);
}

double double_from_bf16(uint16_t bits) {
  return decode_float16(format_bf16, bits);
}

/* ------------------------------------------------------------------ values */

double element_get(tn_dtype dtype, const void *element) {
  double f64 = 0;
  float f32 = 0;
  uint16_t bits = 0;
  if (tn_storage_has(dtype)) return (double)tn_storage_read(element, dtype, 0);
  switch (dtype) {
    case TN_F16:
      memcpy(&bits, element, 2);
      return double_from_f16(bits);
    case TN_BF16:
      memcpy(&bits, element, 2);
      return double_from_bf16(bits);
    case TN_F32:
      memcpy(&f32, element, 4);
      return (double)f32;
    default:
      memcpy(&f64, element, 8);
      return f64;
  }
}

void element_set(tn_dtype dtype, double value, void *element) {
  uint16_t bits = 0;
  float f32 = (float)value;
  if (tn_storage_has(dtype)) {
    const tn_storage_rule rule = {dtype, 0, TN_STORAGE_NEAREST};
    tn_storage_write(element, &rule, 0, value);
    return;
  }
  switch (dtype) {
    case TN_F16:
      bits = f16_from_double(value);
      memcpy(element, &bits, 2);
      break;
    case TN_BF16:
      bits = bf16_from_double(value);
      memcpy(element, &bits, 2);
      break;
    case TN_F32:
      memcpy(element, &f32, 4);
      break;
    default:
      memcpy(element, &value, 8);
      break;
  }
}

/* Only decimal numbers: strtod would also take hexadecimal ones and words. */
static bool is_decimal(const char *token) {
  return token[strspn(token, "0123456789.eE+-")] == '\0' &&
         strpbrk(token, "0123456789");
}

static bool is_word(const char *token, const char *word) {
  if (*token == '+' || *token == '-') ++token;
  return !strcmp(token, word);
}

/* Whether a float of a storage type represents a number. f4e2m1 has neither
 * infinities nor NaN, and numbers from -6 to 6. */
static bool is_near(tn_dtype dtype, double value, double stored) {
  if (dtype == TN_F4E2M1 && !(fabs(value) <= 7)) return false;
  return isnan(stored) == isnan(value) && isinf(stored) == isinf(value);
}

static bool parse_float(tn_dtype dtype, const char *token, void *element,
                        text *why) {
  char *end = NULL;
  bool special = is_word(token, "inf") || is_word(token, "nan");
  if (!special && !is_decimal(token))
    return report_failure(why, "`%s` is not a number", token);
  double value = strtod(token, &end);
  if (*end) return report_failure(why, "`%s` is not a number", token);
  element_set(dtype, value, element);
  if (dtype == TN_F32) { /* through double it would be rounded twice */
    float f32 = strtof(token, NULL);
    memcpy(element, &f32, sizeof f32);
  }
  if (is_storage_float(dtype) &&
      !is_near(dtype, value, element_get(dtype, element)))
    return report_failure(why, "`%s` does not fit %s", token,
                          dtype_name(dtype));
  if (!special && isinf(element_get(dtype, element)))
    return report_failure(why,
                          "`%s` is too large for %s; write inf for infinity",
                          token, dtype_name(dtype));
  return true;
}

static bool parse_unsigned(tn_dtype dtype, const char *token, void *element,
                           text *why) {
  const int bits = (int)tn_dtype_bits(dtype);
  uint64_t max = UINT64_MAX >> (64 - bits);
  errno = 0;
  uint64_t value = strtoull(token, NULL, 10);
  bool negative = *token == '-' && value != 0;
  if (errno || negative || value > max)
    return report_failure(why, "`%s` does not fit %s (0 to %" PRIu64 ")", token,
                          dtype_name(dtype), max);
  memcpy(element, &value, (size_t)tn_dtype_bytes_of(dtype, 1));
  return true;
}

static bool parse_signed(tn_dtype dtype, const char *token, void *element,
                         text *why) {
  const int bits = (int)tn_dtype_bits(dtype);
  int64_t max = INT64_MAX >> (64 - bits);
  errno = 0;
  int64_t value = strtoll(token, NULL, 10);
  if (errno || value > max || value < -max - 1)
    return report_failure(why,
                          "`%s` does not fit %s (%" PRId64 " to %" PRId64 ")",
                          token, dtype_name(dtype), -max - 1, max);
  if (bits < 8) value &= (1 << bits) - 1;
  memcpy(element, &value, (size_t)tn_dtype_bytes_of(dtype, 1));
  return true;
}

static bool parse_integer(tn_dtype dtype, const char *token, void *element,
                          text *why) {
  size_t sign = *token == '+' || *token == '-';
  size_t digits = strspn(token + sign, "0123456789");
  if (!digits || token[sign + digits])
    return report_failure(why,
                          "`%s` is not an integer, and the elements are %s",
                          token, dtype_name(dtype));
  bool is_signed = (dtype & 0xffu) == (TN_I8 & 0xffu);
  return is_signed ? parse_signed(dtype, token, element, why)
                   : parse_unsigned(dtype, token, element, why);
}

bool element_parse(tn_dtype dtype, const char *token, void *element,
                   text *why) {
  bool is_true = !strcmp(token, "true");
  bool is_false = !strcmp(token, "false");
  if (dtype == TN_BOOL) {
    is_true = is_true || !strcmp(token, "1");
    if (!is_true && !is_false && strcmp(token, "0") != 0)
      return report_failure(why, "`%s` is not true, false, 1 or 0", token);
    *(uint8_t *)element = is_true;
    return true;
  }
  if (is_true || is_false)
    return report_failure(
        why, "`%s` is not a number; for booleans add --dtype bool", token);
  return dtype_has_fractions(dtype) ? parse_float(dtype, token, element, why)
                                    : parse_integer(dtype, token, element, why);
}
