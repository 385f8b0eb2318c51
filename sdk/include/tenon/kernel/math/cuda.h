/* SPDX-License-Identifier: Apache-2.0
 * cuda.h: part of math.h: functions in CUDA C++, over those of CUDA.
 */
#ifndef TENON_KERNEL_MATH_CUDA_H_
#define TENON_KERNEL_MATH_CUDA_H_

#include "tenon/kernel/math/f64.h"

#define TN_MATH_CUDA(name, function)               \
  TN_MATH_FN float tn_math_##name##_f32(float x) { \
    return function(x);                            \
  }

TN_MATH_CUDA(exp, expf)
TN_MATH_CUDA(exp_down, expf)
TN_MATH_CUDA(expm1, expm1f)
TN_MATH_CUDA(log, logf)
TN_MATH_CUDA(log1p, log1pf)
TN_MATH_CUDA(log2, log2f)
TN_MATH_CUDA(log10, log10f)
TN_MATH_CUDA(sqrt, sqrtf)
TN_MATH_CUDA(cbrt, cbrtf)
TN_MATH_CUDA(sin, sinf)
TN_MATH_CUDA(cos, cosf)
TN_MATH_CUDA(tan, tanf)
TN_MATH_CUDA(asin, asinf)
TN_MATH_CUDA(acos, acosf)
TN_MATH_CUDA(atan, atanf)
TN_MATH_CUDA(sinh, sinhf)
TN_MATH_CUDA(cosh, coshf)
TN_MATH_CUDA(tanh, tanhf)
TN_MATH_CUDA(asinh, asinhf)
TN_MATH_CUDA(acosh, acoshf)
TN_MATH_CUDA(atanh, atanhf)
TN_MATH_CUDA(erf, erff)
TN_MATH_CUDA(erfc, erfcf)
TN_MATH_CUDA(gamma, tgammaf)
TN_MATH_CUDA(lgamma, lgammaf)
#undef TN_MATH_CUDA

#define TN_MATH_CUDA(name)                           \
  TN_MATH_FN double tn_math_##name##_f64(double x) { \
    return name(x);                                  \
  }

TN_MATH_CUDA(log10)
TN_MATH_CUDA(sin)
TN_MATH_CUDA(cos)
TN_MATH_CUDA(tan)
TN_MATH_CUDA(asin)
TN_MATH_CUDA(acos)
TN_MATH_CUDA(atan)
TN_MATH_CUDA(asinh)
TN_MATH_CUDA(acosh)
TN_MATH_CUDA(atanh)
TN_MATH_CUDA(erf)
TN_MATH_CUDA(erfc)
#undef TN_MATH_CUDA

TN_MATH_FN double tn_math_pow_f64(double x, double y) {
  return pow(x, y);
}

TN_MATH_FN double tn_math_hypot_f64(double x, double y) {
  return hypot(x, y);
}

/* x*erfc(-x/sqrt(2))/2. Where erfc is small it multiplies the error of its
 * argument, so that its slope times that error is added. */
TN_MATH_FN double tn_math_gelu_f64(double x) {
  const double a = tn_math_abs_f64(x);
  const double within = a > 40 ? 40 : a;
  const uint64_t upper = 0xfffffffff8000000u;
  const double high = tn_math_from_bits_f64(tn_math_bits_f64(within) & upper);
  const double low = within - high;
  const double t = within * 0x1.6a09e667f3bcdp-1;
  const double error =
      ((high * 0x1.6a09e6p-1 - t) + high * 0x1.9fcef32422cbfp-27) +
      low * 0x1.6a09e667f3bcdp-1;
  const double fix = 1 - error * (t + sqrt(t * t + 2));
  const double tail = 0.5 * within * erfc(t) * fix;
  const double positive = x - tail;
  return x < 0 ? -tail : positive;
}

TN_MATH_FN float tn_math_rsqrt_f32(float x) {
  return 1.0f / sqrtf(x);
}

TN_MATH_FN float tn_math_digamma_f32(float x) {
  return (float)tn_math_digamma_f64((double)x);
}

TN_MATH_FN float tn_math_pow_f32(float x, float y) {
  return powf(x, y);
}

TN_MATH_FN float tn_math_hypot_f32(float x, float y) {
  return hypotf(x, y);
}

TN_MATH_FN float tn_math_mod_f32(float a, float b) {
  return (float)tn_math_mod_f64((double)a, (double)b);
}

TN_MATH_FN float tn_math_sigmoid_f32(float x) {
  const float e = expf(-tn_math_abs_f32(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

TN_MATH_FN float tn_math_softplus_f32(float x) {
  return (x > 0 ? x : 0.0f) + log1pf(expf(-tn_math_abs_f32(x)));
}

TN_MATH_FN float tn_math_gelu_f32(float x) {
  return (float)tn_math_gelu_f64((double)x);
}

#endif /* TENON_KERNEL_MATH_CUDA_H_ */
