/* SPDX-License-Identifier: Apache-2.0
 * run_frame.c: the functions of engines that a thread is inside of.
 */
#include "run_frame.h"

#include "gate.h"

_Thread_local tn__run_frame *tn__run_frame_top
    __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t tn__drop_depth
    __attribute__((tls_model("initial-exec")));

tn_code tn__check_outside(const tn__engine *engine, const char *action) {
  if (!tn__is_inside(engine) && !tn__gate_is_entered(engine)) return TN_OK;
  return tn__fail(TN_INVALID,
                  "%s from inside of a function that the engine runs: it might "
                  "wait for itself; push a function that uses the result",
                  action);
}
