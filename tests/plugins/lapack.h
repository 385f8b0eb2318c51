/* SPDX-License-Identifier: Apache-2.0
 * lapack.h: whether a runtime can run all operators of plugins/linalg.
 */
#ifndef TENON_TESTS_PLUGINS_LAPACK_H_
#define TENON_TESTS_PLUGINS_LAPACK_H_

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#include "host.h"

/* Whether a plugin provides lapack/1, which a machine without OpenBLAS lacks.
 */
static inline bool has_lapack(tn_runtime *some) {
  tn_text *text = NULL;
  OK(tn_operator_explain(host_operator(some, "linalg.svd"), NULL, NULL, &text));
  const bool has =
      strstr(tn_text_get(text), "no plugin provides lapack/1") == NULL;
  tn_text_release(text);
  return has;
}

#endif /* TENON_TESTS_PLUGINS_LAPACK_H_ */
