/* SPDX-License-Identifier: Apache-2.0
 * dice.h: tests that draw their steps. A test is many trials; each has a seed
 * and steps, which failures print. SEED=7 in the environment repeats the trial
 * of one seed, SEED=1000-9000 makes those of others.
 */
#ifndef TENON_TESTS_PLUGINS_DICE_H_
#define TENON_TESTS_PLUGINS_DICE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the trials of the seeds 1 ... n, or of those that SEED names. */
void dice_trials(uint64_t n, void (*trial)(void));
/* Whether SEED is not set: only then do counts over all trials have a meaning.
 */
bool dice_are_usual(void);

/* 0 ... n-1; n > 0. */
uint32_t dice_below(uint32_t n);
/* True once in n times. */
bool dice_once_in(uint32_t n);
/* -2, -1.75, ... 2: sums and products of few of them are exact. */
double dice_value(void);

/* Zeroed memory until the end of the trial. */
void *dice_take(size_t bytes);

/* Begins the next step. */
void dice_step(void);
/* Adds a step to the list. */
void dice_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails the test: seed, step, and the text. */
_Noreturn void dice_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Fails the test with the library's own text unless `call` returns TN_OK. */
#define GOES(call)                                                    \
  do {                                                                \
    if ((call) != TN_OK) dice_fail("%s: %s", #call, tn_error_text()); \
  } while (0)

#endif /* TENON_TESTS_PLUGINS_DICE_H_ */
