/* SPDX-License-Identifier: Apache-2.0
 * capture.h: what a kernel promises with TN_KERNEL_CAPTURABLE.
 *
 * A host may record what the calls of a program enqueue on a device, and launch
 * that as one again and again (device.h: capture_begin): then no compute
 * function is called any more. With the flag, such a launch does what the call
 * would have done:
 *
 *   - All that compute does to the device stands on call->run->stream. It waits
 *     for nothing, asks nothing of the device, and takes no memory but
 * call->ws.
 *   - What it decides on the host, also whether it refuses, depends on what
 *     `prepare` may depend on, and on addresses, which stay what they are. What
 *     a dynamic parameter may not be is for its `min` and `max` to say.
 *   - What changes between runs is read by the device, each time, where the
 *     host says so: parameters that are `dynamic` from
 *     tn_call_device_params(call), and the position in a stream of random
 *     numbers from call->run->random[i]->device_offset. Each of the two is NULL
 *     in a call that is not recorded: then what call->params and `offset` say
 *     counts. The key of random numbers does not change; a host that has a new
 *     one records again.
 *
 * A kernel that cannot read its dynamic parameters there does not declare the
 * flag; programs that use it are run call by call, and say why.
 *
 *   __global__ void step(view v) {          // const acme_step_params *live
 *     const double rate = v.live != NULL ? v.live->lr : v.rate;
 *     ...
 */
#ifndef TENON_CAPTURE_H_
#define TENON_CAPTURE_H_

#include "tenon/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tn_frame.flags: the call is being recorded. Then call->ws has one more entry
 * behind its n_ws. */
#define TN_CALL_RECORDED (1u << 4)

/* In a call that is recorded, the address on its device where the params struct
 * of each run will stand, if the operator has dynamic parameters; otherwise
 * NULL. Its members are those of the generated struct; what they point to
 * (strings, lists) is not there. [worker] */
static inline const void *tn_call_device_params(const tn_frame *call) {
  return (call->flags & TN_CALL_RECORDED) ? call->ws[call->n_ws] : NULL;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_CAPTURE_H_ */
