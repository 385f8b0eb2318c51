/* SPDX-License-Identifier: Apache-2.0
 * must.h: for the end of a suite (`fini`), where assertions count for nothing
 * with Criterion 2.4.1.
 */
#ifndef TENON_TESTS_CUDA_MUST_H_
#define TENON_TESTS_CUDA_MUST_H_

#include <criterion/logging.h>
#include <stdlib.h>

/* Logs what was found, which is seen without --tap, and ends the process, which
 * fails the program of tests; nothing, if `told` is NULL. */
static inline void must_be_silent(const char *told) {
  if (!told) return;
  cr_log_error("at the end of a test: %s", told);
  abort();
}

#endif /* TENON_TESTS_CUDA_MUST_H_ */
