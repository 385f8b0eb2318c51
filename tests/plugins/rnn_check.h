/* SPDX-License-Identifier: Apache-2.0
 * rnn_check.h: nn.rnn against values and gradients of torch, on any device.
 */
#ifndef TENON_TESTS_PLUGINS_RNN_CHECK_H_
#define TENON_TESTS_PLUGINS_RNN_CHECK_H_

#include "host.h"

/* Makes every case of rnn_cases.inc in a type, with its gradients, on a device,
 * and fails the test at the first number that is not torch's. Results may
 * differ by `tolerance`, relative to magnitudes above 1. */
void rnn_check(tn_runtime *rt, tn_place place, tn_dtype dtype,
               double tolerance);

/* Fails the test unless the array holds these values, with such a tolerance. */
void rnn_expect(tn_array *array, const double *want, double tolerance,
                const char *name);

#endif /* TENON_TESTS_PLUGINS_RNN_CHECK_H_ */
