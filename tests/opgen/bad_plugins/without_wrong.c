/* SPDX-License-Identifier: Apache-2.0
 * A backward kernel that computes intermediate results in the first gradient.
 * says:
 *   op.yaml:14:5: error[E0204]: example `three` of `diff`, gradient without
 * that of `a`: element 0 of `grad.b` is 0, with the others -1
 */
#define BACKWARD                                          \
  for (int64_t i = 0; i < n; ++i) {                       \
    if (call->req[0] != 0) da[i] = g[i];                  \
    if (call->req[1] != 0) db[i] = da || !dc ? -g[i] : 0; \
    if (call->req[2] != 0) dc[i] = -g[i];                 \
  }
#include "bad.h"
