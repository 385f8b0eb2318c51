/* SPDX-License-Identifier: Apache-2.0
 * numbers.h: elements of dense f32 and f64 arrays on the CPU.
 */
#ifndef RANDOM_NUMBERS_H_
#define RANDOM_NUMBERS_H_

#include "tenon/plugin/op.h"

static inline double read_number(const tn_tensor *t, int64_t i) {
  return t->dtype == TN_F64 ? ((const double *)t->data)[i]
                            : (double)((const float *)t->data)[i];
}

static inline void write_number(const tn_tensor *t, int64_t i, double x) {
  if (t->dtype == TN_F64)
    ((double *)t->data)[i] = x;
  else
    ((float *)t->data)[i] = (float)x;
}

#endif /* RANDOM_NUMBERS_H_ */
