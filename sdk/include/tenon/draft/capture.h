/* SPDX-License-Identifier: Apache-2.0
 * capture.h: the promise of a kernel with TN_KERNEL_CAPTURABLE.
 *
 * Draft: this header may change in any release.
 *
 * A host may record the work that the calls of a program enqueue on a device,
 * and launch it as one many times (device.h: capture_begin). Then no compute
 * function is called any more. With the flag, such a launch has the effects of
 * the call:
 *
 * - All device work of compute is on call->run->stream. It waits for nothing,
 *   reads nothing back from the device, and uses no memory but call->ws.
 * - Its decisions on the host, also a refusal, depend only on the facts that
 *   `prepare` may use, and on addresses, which do not change. `min` and `max`
 *   restrict a dynamic parameter, not compute.
 * - The device reads values that change between runs in each run: parameters
 *   that are `dynamic` from tn_call_device_params(call), and the position in a
 *   stream of random numbers from call->run->random[i]->device_offset. Each of
 *   the two is NULL in a call that is not recorded: then use call->params and
 *   `offset`. The key of random numbers does not change; a host with a new key
 *   records again.
 *
 * A kernel that cannot read its dynamic parameters there does not declare the
 * flag; programs that use it run call by call, and report the reason.
 *
 *   __global__ void step(view v) {          // const acme_step_params *live
 *     const double rate = v.live != NULL ? v.live->lr : v.rate;
 *     ...
 */
#ifndef TENON_DRAFT_CAPTURE_H_
#define TENON_DRAFT_CAPTURE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tn_frame.flags: the call is being recorded. Then call->ws has one more entry
 * after its n_ws. */
#define TN_CALL_RECORDED (1u << 4)

/* In a call that is recorded, the address of the params struct of each run on
 * its device, if the operator has dynamic parameters; otherwise NULL. Its
 * members are those of the generated struct; the targets of its pointers
 * (strings, lists) are not on the device. [worker] */
static inline const void *tn_call_device_params(const tn_frame *call) {
  return (call->flags & TN_CALL_RECORDED) ? call->ws[call->n_ws] : NULL;
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_DRAFT_CAPTURE_H_ */
