/* SPDX-License-Identifier: Apache-2.0
 * dtype.c: names and sets of element types; f16 and bf16 as numbers.
 */
#include <string.h>

#include "base.h"

/* In the order of TN_BIT_*. */
static const tn_dtype dtypes[TN__N_DTYPES] = {
    TN_F16,    TN_BF16,     TN_F32,        TN_F64,    TN_I8,         TN_I16,
    TN_I32,    TN_I64,      TN_U8,         TN_U16,    TN_U32,        TN_U64,
    TN_BOOL,   TN_F8E4M3FN, TN_F8E4M3FNUZ, TN_F8E5M2, TN_F8E5M2FNUZ, TN_F8E8M0,
    TN_F4E2M1, TN_I4,       TN_U4,         TN_I2,     TN_U2};

const char tn__dtype_names[TN__N_DTYPES][11] = {
    "f16",    "bf16",     "f32",        "f64",    "i8",         "i16",
    "i32",    "i64",      "u8",         "u16",    "u32",        "u64",
    "bool",   "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0",
    "f4e2m1", "i4",       "u4",         "i2",     "u2"};

void tn__dtype_list_names(const char *names[TN__N_DTYPES]) {
  for (size_t i = 0; i < TN__N_DTYPES; ++i) names[i] = tn__dtype_names[i];
}

tn_dtype tn__dtype_at(size_t bit) {
  return bit < TN__N_DTYPES ? dtypes[bit] : TN_DTYPE_UNKNOWN;
}

const char *tn__dtype_name(tn_dtype dtype) {
  for (size_t i = 0; i < TN__N_DTYPES; ++i)
    if (dtypes[i] == dtype) return tn__dtype_names[i];
  return "?";
}

bool tn__dtype_parse(const char *name, tn_dtype *out) {
  for (size_t i = 0; i < TN__N_DTYPES; ++i) {
    if (strcmp(tn__dtype_names[i], name) != 0) continue;
    *out = dtypes[i];
    return true;
  }
  return false;
}

uint64_t tn__dtype_bit(tn_dtype dtype) {
  for (size_t i = 0; i < TN__N_DTYPES; ++i)
    if (dtypes[i] == dtype) return 1ull << i;
  return 0;
}

void tn__buf_dtypes(tn__buf *buf, uint64_t set) {
  const char *separator = "";
  for (size_t i = 0; i < TN__N_DTYPES; ++i) {
    if ((set >> i & 1) == 0) continue;
    tn__buf_add(buf, "%s%s", separator, tn__dtype_names[i]);
    separator = " ";
  }
}

static float float_of(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float tn__bf16_to_f32(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

uint16_t tn__f32_to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it quiet, keep it one */
    return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float tn__f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f)
    return float_of(sign | 0x7f800000u | fraction << 13 |
                    (fraction != 0 ? 0x400000u : 0u));
  if (exponent != 0)
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  /* Subnormal: a multiple of 2^-24, exact in f32. */
  const float magnitude = (float)fraction * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t tn__f32_to_f16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    /* Adding 0.5 puts the result's unit at 2^-24: the hardware rounds. */
    const uint32_t sum = bits_of(float_of(magnitude) + 0.5f);
    return (uint16_t)(sign | (sum - 0x3f000000u));
  }
  const uint32_t rounded =
      magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | rounded >> 13);
}
