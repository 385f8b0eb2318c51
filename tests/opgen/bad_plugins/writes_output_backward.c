/* SPDX-License-Identifier: Apache-2.0
 * A backward kernel that writes to the gradient that it got.
 * says:
 *   op.yaml:14:5: error[E0201]: example `three` of `diff`, gradient: it writes
 * to `grad.out`, which this call only reads
 */
#define BACKWARD                       \
  ((float *)call->in[0].data)[0] = 1;  \
  for (int64_t i = 0; i < n; ++i) {    \
    if (call->req[0] != 0) da[i] = 1;  \
    if (call->req[1] != 0) db[i] = -1; \
    if (call->req[2] != 0) dc[i] = -1; \
  }
#include "bad.h"
