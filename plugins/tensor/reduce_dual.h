/* SPDX-License-Identifier: Apache-2.0
 * reduce_dual.h: products of dual numbers, for the second gradient of products:
 * the dual part of the product of x_j + u_j*e over some j is the sum over j of
 * u_j times the product of all others. On the CPU and on CUDA devices.
 */
#ifndef TENSOR_REDUCE_DUAL_H_
#define TENSOR_REDUCE_DUAL_H_

#include "reduce_big.h"

/* (real + dual*e) * 2^power */
typedef struct reduce_dual {
  double real;
  double dual;
  int64_t power;
} reduce_dual;

REDUCE_INLINE reduce_dual reduce_dual_make_one(void) {
  reduce_dual one;
  one.real = 1;
  one.dual = 0;
  one.power = 0;
  return one;
}

/* Multiplies by x + u*e. A number too large or too small for the next product
 * moves a part of its exponent to the power. */
REDUCE_INLINE void reduce_dual_multiply(reduce_dual *d, double x, double u) {
  const double dual = d->dual * x + d->real * u;
  double most;
  int power;
  d->real *= x;
  d->dual = dual;
  most = fabs(d->real) > fabs(dual) ? fabs(d->real) : fabs(dual);
  if (!(most > 0) || most - most != 0) return;
  if (most < 0x1p200 && most > 0x1p-200) return;
  (void)frexp(most, &power);
  d->real = ldexp(d->real, -power);
  d->dual = ldexp(d->dual, -power);
  d->power += power;
}

/* Returns the dual part of the product of both. */
REDUCE_INLINE double reduce_dual_get_product_part(reduce_dual a,
                                                  reduce_dual b) {
  const int64_t most = 4000; /* ldexp takes an int */
  const int64_t sum = a.power + b.power;
  const int64_t power = sum > most ? most : sum < -most ? -most : sum;
  return ldexp(a.real * b.dual + a.dual * b.real, (int)power);
}

#endif /* TENSOR_REDUCE_DUAL_H_ */
