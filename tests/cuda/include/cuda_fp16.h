/* SPDX-License-Identifier: Apache-2.0
 * cuda_fp16.h: halves for device code on the host, by the conversions of the
 * compiler.
 */
#ifndef FAKE_CUDA_FP16_H_
#define FAKE_CUDA_FP16_H_

#include "cuda_runtime.h"

struct __half {
  _Float16 value;
};

static inline float __half2float(__half x) {
  return (float)x.value;
}

static inline __half __float2half_rn(float x) {
  __half half;
  half.value = (_Float16)x;
  return half;
}

static inline __half __double2half(double x) {
  __half half;
  half.value = (_Float16)x;
  return half;
}

#endif /* FAKE_CUDA_FP16_H_ */
