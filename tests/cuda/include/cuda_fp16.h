/* SPDX-License-Identifier: Apache-2.0
 * cuda_fp16.h: halves for device code on the host, of which not every compiler
 * has a type.
 */
#ifndef FAKE_CUDA_FP16_H_
#define FAKE_CUDA_FP16_H_

#include "cuda_runtime.h"

struct __half {
  uint16_t bits;
};

static inline float __half2float(__half x) {
  const uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
  const uint32_t exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
  if (exponent == 0) {
    const float value = (float)fraction * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t biased = exponent == 31 ? 255 : exponent + 127 - 15;
  const uint32_t bits = sign | biased << 23 | fraction << 13;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Subnormal numbers are multiples of 2^-24; the sum with a half rounds to such
 * a multiple. */
static inline __half __float2half_rn(float x) {
  uint32_t bits;
  __half half;
  memcpy(&bits, &x, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) {
    bits = 0x7e00 | (bits >> 13 & 0x3ff);
  } else if (bits >= 0x477ff000) {
    bits = 0x7c00;
  } else if (bits < 0x38800000) {
    const float sum = (x < 0 ? -x : x) + 0.5f;
    memcpy(&bits, &sum, sizeof bits);
    bits -= 0x3f000000;
  } else {
    bits = (bits - ((127 - 15) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  }
  half.bits = (uint16_t)(sign | bits);
  return half;
}

static inline __half __double2half(double x) {
  return __float2half_rn(fake_cuda_odd(x));
}

#endif /* FAKE_CUDA_FP16_H_ */
