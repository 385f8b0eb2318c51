/* SPDX-License-Identifier: Apache-2.0
 * evaluate.h: computes graphs node by node with eager calls, in f64. It is slow
 * and simple, so that tests can compare programs with it. Operands that a
 * BACKWARD node does not read are NaN.
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
void evaluate_heads(tn_graph *graph, const feed *feeds, size_t n_feeds,
                    const tn_entry *heads, size_t n_heads, tn_array **out);

/* Elements of a dense f64 array, to be freed. */
double *elements_of(tn_array *array);
size_t n_elements(const tn_array *array);
/* A new array. */
tn_array *create_doubles(size_t ndim, const int64_t *shape,
                         const double *values);
/* A new array of f64, f32, f16 or i32 with number(i) as element i; for i32, 64
 * times number(i). */
tn_array *numbers_of(tn_dtype dtype, size_t ndim, const int64_t *shape,
                     double (*number)(int64_t i));
/* The bytes of an array, to be freed; *n is their number. */
void *bytes_of(tn_array *array, size_t *n);

#endif /* TESTS_GRAPH_EVALUATE_H_ */
