/* SPDX-License-Identifier: Apache-2.0
 * evaluate.h: graphs computed node by node with eager calls, in f64: slow and
 * obvious, so that what programs compute can be compared with it. What a
 * BACKWARD node does not read is NaN here.
 */
#ifndef TESTS_GRAPH_EVALUATE_H_
#define TESTS_GRAPH_EVALUATE_H_

#include "net.h"

/* The array of a variable; a state is changed in it. */
typedef struct feed {
  const char *name;
  tn_array *array;
} feed;

/* Computes `heads`, after an inference from the arrays' shapes; the caller
 * releases out[i]. */
void evaluate(tn_graph *graph, const feed *feeds, size_t n_feeds,
              const tn_entry *heads, size_t n_heads, tn_array **out);

/* Elements of a dense f64 array, to be freed. */
double *elements(tn_array *array);
size_t n_elements(const tn_array *array);
/* A new array. */
tn_array *doubles(size_t ndim, const int64_t *shape, const double *values);
/* A new one of f64, f32, f16 or i32, whose element i is number(i); of i32, 64
 * times as much. */
tn_array *numbers_of(tn_dtype dtype, size_t ndim, const int64_t *shape,
                     double (*number)(int64_t i));
/* All that an array holds, to be freed; *n is how much that is. */
void *bytes_of(tn_array *array, size_t *n);

#endif /* TESTS_GRAPH_EVALUATE_H_ */
