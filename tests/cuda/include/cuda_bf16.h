/* SPDX-License-Identifier: Apache-2.0
 * cuda_bf16.h: bfloat16 for device code on the host: the upper half of an f32,
 * rounded to the nearest, ties to even; any NaN is a quiet one.
 */
#ifndef FAKE_CUDA_BF16_H_
#define FAKE_CUDA_BF16_H_

#include "cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

static inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = (uint32_t)x.bits << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  __nv_bfloat16 half;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    bits = (bits | 0x00400000u) & 0xffff0000u;
  else
    bits += 0x7fffu + (bits >> 16 & 1);
  half.bits = (uint16_t)(bits >> 16);
  return half;
}

static inline __nv_bfloat16 __double2bfloat16(double x) {
  return __float2bfloat16_rn(fake_cuda_odd(x));
}

#endif /* FAKE_CUDA_BF16_H_ */
