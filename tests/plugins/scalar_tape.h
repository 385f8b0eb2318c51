/* SPDX-License-Identifier: Apache-2.0
 * scalar_tape.h: numbers that record how they were computed. Their derivatives
 * are such numbers again. It does not use the library that it is compared with.
 */
#ifndef TENON_TESTS_PLUGINS_SCALAR_TAPE_H_
#define TENON_TESTS_PLUGINS_SCALAR_TAPE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t number; /* how many were made before it */

/* Forgets all of them. */
void numbers_reset(void);
number numbers_made(void);

number number_constant(double value);
number number_variable(double value);
number number_sum(number a, number b);
number number_product(number a, number b);
number number_difference(number a, number b);
number number_negative(number a);
number number_square(number a);
number number_sine(number a);
/* Another number of the same value: not the same one to differentiate by. */
number number_same(number a);

double number_value(number a);
/* Whether it depends on a variable. */
bool number_depends(number a);

/* A constant of the same value. */
number number_fixed(number a);

/* The derivatives of sum(weights[i] * heads[i], i < n), until the end of the
 * trial; for number_slope. */
const number *number_slopes(const number *heads, const number *weights,
                            size_t n);
number number_slope(const number *slopes, number by);

#endif /* TENON_TESTS_PLUGINS_SCALAR_TAPE_H_ */
