/* SPDX-License-Identifier: Apache-2.0
 * given.h: programs of `g` (net.h) whose arguments are given, and what stands
 * in them.
 *
 *   give("x", filled(TN_F64, SHAPE(64, 128)));
 *   HEADS(g, OP(g, "square", NULL, NULL, var(g, "x")));
 *   tn_program *p = BIND(.request = TN_REQ_WRITE);
 *   ...
 *   drop_given();
 */
#ifndef TENON_TESTS_GIVEN_H_
#define TENON_TESTS_GIVEN_H_

#include "net.h"

enum { MOST_GIVEN = 8 };
extern tn_argument given[MOST_GIVEN];
extern size_t n_given;

/* An array of the variable of this name, whose owner the list becomes. */
void give(const char *name, tn_array *array);
void drop_given(void);
tn_program *bind_given(tn_bind how);
#define BIND(...) bind_given((tn_bind){__VA_ARGS__})

/* Numbers that nothing rounds away: small, of both signs, all different. */
double number_at(int64_t i);
tn_array *filled(tn_dtype dtype, size_t ndim, const int64_t *shape);
void same_bits(tn_array *a, tn_array *b, const char *what);

tn_array *head_of(const tn_program *p, size_t i);
tn_array *slope_of(const tn_program *p, const char *name);
tn_program_stats stats_of(const tn_program *p);
/* Its table has this part. */
void has_text(const tn_program *p, const char *part);
/* A forward and a backward run. */
void train(tn_program *p, tn_array *weight);

#endif /* TENON_TESTS_GIVEN_H_ */
