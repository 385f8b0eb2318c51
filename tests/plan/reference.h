/* SPDX-License-Identifier: Apache-2.0
 * reference.h: a second planner of NNVM. It is written from the description of
 * the rules alone, as plainly as possible. It examines everything again at each
 * step and keeps no counts.
 */
#ifndef TESTS_PLAN_REFERENCE_H_
#define TESTS_PLAN_REFERENCE_H_

#include "compat/compat.h"

enum { REFERENCE_MAX = 512 };

typedef struct reference_plan {
  int32_t storage[REFERENCE_MAX]; /* by entry */
  int32_t alias[REFERENCE_MAX];   /* by entry */
  size_t bytes[REFERENCE_MAX];    /* by storage */
  int32_t n_storages;
  size_t total;
} reference_plan;

/* Plans nets of fewer than REFERENCE_MAX entries; without accumulation. */
void reference_run(reference_plan *out, const tn__plan_net *net,
                   const compat_options *options);

#endif /* TESTS_PLAN_REFERENCE_H_ */
