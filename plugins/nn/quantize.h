/* SPDX-License-Identifier: Apache-2.0
 * quantize.h: one number of quantize.yaml, for the CPU and for devices. Define
 * NN_QUANTIZE_ONE before the include: the begin of a function.
 */
#ifndef NN_QUANTIZE_H_
#define NN_QUANTIZE_H_

#include <math.h>

#include "tenon/plugin/op.h"

/* The bounds of an integer type of at most 16 bits. */
NN_QUANTIZE_ONE double nn_quantize_least(tn_dtype dtype) {
  return dtype == TN_I8 ? -128 : dtype == TN_I16 ? -32768 : 0;
}

NN_QUANTIZE_ONE double nn_quantize_most(tn_dtype dtype) {
  return dtype == TN_I8    ? 127
         : dtype == TN_U8  ? 255
         : dtype == TN_I16 ? 32767
                           : 65535;
}

/* A rounded number (or NaN, or an infinity) plus the zero point, within the
 * bounds. */
NN_QUANTIZE_ONE double nn_quantize_cut(double rounded, double zero,
                                       double least, double most) {
  const double x = rounded != rounded ? zero : rounded + zero;
  return x < least ? least : x > most ? most : x;
}

#endif /* NN_QUANTIZE_H_ */
