/* SPDX-License-Identifier: Apache-2.0
 * places_walk.h: iteration over the places of places.h on the CPU.
 */
#ifndef TENSOR_PLACES_WALK_H_
#define TENSOR_PLACES_WALK_H_

#include "places.h"

/* The largest number of slices in a group. */
enum { TENSOR_GROUP = 128 };

/* Some slices: slice k has `width` adjacent elements from element
 * first + k * step of the slices on, and from element at[k] of whole on. If
 * step is 1, width is 1 too. */
typedef struct tensor_group {
  int64_t n;      /* at most TENSOR_GROUP */
  int64_t number; /* of the first slice; the others follow */
  int64_t first;
  int64_t step;
  int64_t width;
  const int64_t *at;
} tensor_group;

typedef void tensor_visit_fn(void *arg, const tensor_group *group);

typedef struct tensor_walk {
  const tn_frame *call;
  const tensor_places *places;
  const tn_tensor *indices; /* dense */
  tensor_visit_fn *visit;
  void *arg;
} tensor_walk;

/* Checks every index: TN_OK, or TN_OUT_OF_RANGE with a text that names the
 * index; `name` is that of whole. [worker] */
int32_t tensor_check_places(const tensor_walk *walk, const char *name);

/* Visits all groups, on several threads. Groups that share elements of whole
 * are visited in the order of their slices, on one thread. [worker] */
int32_t tensor_walk_in_order(const tensor_walk *walk);

/* The same in any order, for operations that only read whole. [worker] */
int32_t tensor_walk_in_any_order(const tensor_walk *walk);

#endif /* TENSOR_PLACES_WALK_H_ */
