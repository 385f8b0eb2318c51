/* SPDX-License-Identifier: Apache-2.0
 * host_failure.h: for calls that a test makes without a runtime. The host's
 * function `fail` keeps the last message:
 *
 *   static const tn_host host = {.struct_size = sizeof host,
 *                                .fail = store_failure};
 */
#ifndef TENON_TESTS_HOST_FAILURE_H_
#define TENON_TESTS_HOST_FAILURE_H_

#include <stdarg.h>
#include <stdio.h>

#include "tenon/plugin/op.h"

static char failure[256]; /* the last message */

static int32_t store_failure(const tn_frame *call, int32_t code,
                             const char *file, int32_t line, const char *format,
                             ...) {
  va_list args;
  (void)call, (void)file, (void)line;
  va_start(args, format);
  (void)vsnprintf(failure, sizeof failure, format, args);
  va_end(args);
  return code;
}

#endif /* TENON_TESTS_HOST_FAILURE_H_ */
