/* SPDX-License-Identifier: Apache-2.0
 * gamma.h: part of math.h: the gamma function and its kin in f32.
 */
#ifndef TENON_MATH_GAMMA_H_
#define TENON_MATH_GAMMA_H_

#include "tenon/math/f64.h"

TN_MATH_FN float tn_math_digamma_f32(float x) {
  return (float)tn_math_digamma_f64((double)x);
}

TN_MATH_FN float tn_math_gamma_f32(float x) {
  return (float)tgamma((double)x);
}

TN_MATH_FN float tn_math_lgamma_f32(float x) {
  return (float)lgamma((double)x);
}

#endif /* TENON_MATH_GAMMA_H_ */
