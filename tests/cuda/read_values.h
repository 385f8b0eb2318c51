/* SPDX-License-Identifier: Apache-2.0
 * read_values.h: the elements of an array of any type as doubles.
 */
#ifndef TENON_TESTS_CUDA_READ_VALUES_H_
#define TENON_TESTS_CUDA_READ_VALUES_H_

#include <stdlib.h>

#include "fixture.h"

/* The elements as doubles; the caller frees them. */
static inline double *read_values(tn_array *array, int64_t *n) {
  tn_array *near = NULL, *wide = NULL;
  *n = tn_array_size(array);
  double *v = malloc((size_t)(*n + 1) * sizeof *v);
  cr_assert_not_null(v);
  OK(tn_array_to(array, fixture_place("cpu"), &near));
  OK(tn_array_cast(near, TN_F64, &wide));
  OK(tn_array_get(wide, v, (size_t)*n * sizeof *v));
  tn_array_release(near);
  tn_array_release(wide);
  return v;
}

#endif /* TENON_TESTS_CUDA_READ_VALUES_H_ */
