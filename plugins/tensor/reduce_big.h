/* SPDX-License-Identifier: Apache-2.0
 * reduce_big.h: products with intermediate results that neither overflow nor
 * underflow, for the gradients of products. On the CPU and on CUDA devices.
 */
#ifndef TENSOR_REDUCE_BIG_H_
#define TENSOR_REDUCE_BIG_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__cplusplus)
#define REDUCE_INLINE __device__ __forceinline__
#else
#define REDUCE_INLINE static inline
#endif

/* f64 products up to this, and down to its reciprocal, need none of this
 * file. */
#define REDUCE_MOST 0x1p1000

/* factor * 2^power, where |factor| is from 1 to 2. Factors that are 0, infinite
 * or NaN are counted; `factor` has the sign of the first two kinds. */
typedef struct reduce_scaled {
  double factor;
  int64_t power;
  int64_t zeros;
  int64_t infinities;
  int64_t nans;
} reduce_scaled;

/* Returns x / 2^power, which is from 1 to 2; x is finite and not 0. */
REDUCE_INLINE double reduce_split_power(double x, int64_t *power) {
  const uint64_t exponent = UINT64_C(0x7ff) << 52;
  uint64_t bits;
  *power = -1023;
  if (x < 0x1p-1022 && x > -0x1p-1022) {
    x *= 0x1p54;
    *power -= 54;
  }
  memcpy(&bits, &x, sizeof bits);
  *power += (int64_t)((bits & exponent) >> 52);
  bits = (bits & ~exponent) | UINT64_C(1023) << 52;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

REDUCE_INLINE reduce_scaled reduce_scaled_make_one(void) {
  reduce_scaled one;
  one.factor = 1;
  one.power = one.zeros = one.infinities = one.nans = 0;
  return one;
}

REDUCE_INLINE void reduce_scaled_normalize(reduce_scaled *big) {
  if (big->factor < 2 && big->factor > -2) return;
  big->factor /= 2;
  ++big->power;
}

REDUCE_INLINE void reduce_scaled_multiply(reduce_scaled *big, double x) {
  int64_t power = 0;
  if (x != x) {
    ++big->nans;
    return;
  }
  if (x == 0 || x - x != 0) {
    if (x == 0)
      ++big->zeros;
    else
      ++big->infinities;
    big->factor *= copysign(1.0, x);
    return;
  }
  big->factor *= reduce_split_power(x, &power);
  big->power += power;
  reduce_scaled_normalize(big);
}

REDUCE_INLINE reduce_scaled reduce_scaled_multiply_both(reduce_scaled a,
                                                        reduce_scaled b) {
  a.factor *= b.factor;
  a.power += b.power;
  a.zeros += b.zeros;
  a.infinities += b.infinities;
  a.nans += b.nans;
  reduce_scaled_normalize(&a);
  return a;
}

/* Returns the value of a product, rounded once. */
REDUCE_INLINE double reduce_scaled_get_value(const reduce_scaled *big) {
  const int64_t most = 4000; /* ldexp takes an int */
  const int64_t power = big->power > most    ? most
                        : big->power < -most ? -most
                                             : big->power;
  if (big->nans > 0) return (double)NAN;
  if (big->zeros > 0 && big->infinities > 0) return (double)NAN;
  if (big->zeros > 0) return copysign(0.0, big->factor);
  if (big->infinities > 0) return copysign((double)INFINITY, big->factor);
  return ldexp(big->factor, (int)power);
}

/* Returns the product of all factors but x, which is one of them. */
REDUCE_INLINE double reduce_scaled_remove_factor(reduce_scaled all, double x) {
  int64_t power = 0;
  double factor = 1;
  if (x != x) {
    --all.nans;
  } else if (x == 0) {
    --all.zeros;
    factor = copysign(1.0, x);
  } else if (x - x != 0) {
    --all.infinities;
    factor = copysign(1.0, x);
  } else {
    factor = reduce_split_power(x, &power);
  }
  all.factor /= factor;
  all.power -= power;
  return reduce_scaled_get_value(&all);
}

#endif /* TENSOR_REDUCE_BIG_H_ */
