/* SPDX-License-Identifier: Apache-2.0
 * program_fixture.h: programs of `g` (net.h) with arrays for their arguments.
 *
 *   give_array("x", create_filled(TN_F64, SHAPE(64, 128)));
 *   HEADS(g, OP(g, "square", NULL, NULL, var_node(g, "x")));
 *   tn_program *p = BIND(.request = TN_REQ_WRITE);
 *   ...
 *   drop_arrays();
 */
#ifndef TENON_TESTS_GIVEN_H_
#define TENON_TESTS_GIVEN_H_

#include "net.h"

enum { MOST_GIVEN = 8 };
extern tn_argument given[MOST_GIVEN];
extern size_t n_given;

/* Sets the array of a variable; the list becomes its owner. */
void give_array(const char *name, tn_array *array);
void drop_arrays(void);
tn_program *bind_given(tn_bind how);
#define BIND(...) bind_given((tn_bind){__VA_ARGS__})

/* Numbers that rounding does not hide: small, of both signs, all different. */
double number_at(int64_t i);
tn_array *create_filled(tn_dtype dtype, size_t ndim, const int64_t *shape);
void same_bits(tn_array *a, tn_array *b, const char *what);

tn_array *head_of(const tn_program *p, size_t i);
tn_array *slope_of(const tn_program *p, const char *name);
tn_program_stats stats_of(const tn_program *p);
/* Asserts that the program's table contains this part. */
void has_text(const tn_program *p, const char *part);
/* A forward and a backward run. */
void run_training(tn_program *p, tn_array *weight);

#endif /* TENON_TESTS_GIVEN_H_ */
