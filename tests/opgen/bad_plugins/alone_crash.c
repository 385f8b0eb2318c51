/* SPDX-License-Identifier: Apache-2.0
 * A backward kernel that ignores requests: with one gradient it writes to NULL.
 * says:
 *   op.yaml:14:5: error[E0082]: example `three`: it ended the process:
 * Segmentation fault (gradient of `a` alone)
 */
#define BACKWARD                    \
  for (int64_t i = 0; i < n; ++i) { \
    da[i] = g[i];                   \
    db[i] = dc[i] = -g[i];          \
  }
#include "bad.h"
