/* SPDX-License-Identifier: Apache-2.0
 * choose.h: what choose.c, which decides, asks of candidate.c, which knows why
 * one kernel does or does not take a call.
 */
#ifndef TENON_CHOOSE_H_
#define TENON_CHOOSE_H_

#include "registry.h"

/* Why a kernel does not apply; "" if it does. */
typedef struct tn__reason {
  char text[1024];
} tn__reason;

/* Whether the kernel takes the call, its priority aside. `reason` is NULL for
 * who does not ask: texts take longer than the rest. Registry locked. */
bool tn__kernel_applies(const tn_operator *op, const tn__kernel *kernel,
                        const tn__query *query, tn__reason *reason);

/* The types that the kernel takes for a type variable of its operator. */
uint64_t tn__kernel_types(const tn_operator *op, const tn_kernel *kernel,
                          uint32_t var);

/* Sets what a frame holds of the kernel that is called with it. */
void tn__frame_for(tn_frame *frame, const tn__kernel *kernel);

/* "cpu", "cuda", or "device". */
const char *tn__device_name(int32_t device_type);

#endif /* TENON_CHOOSE_H_ */
