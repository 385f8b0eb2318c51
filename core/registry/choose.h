/* SPDX-License-Identifier: Apache-2.0
 * choose.h: the functions of kernel_candidate.c for choose.c. choose.c compares
 * candidates; kernel_candidate.c decides whether one kernel applies to a call,
 * with a reason.
 */
#ifndef TENON_CHOOSE_H_
#define TENON_CHOOSE_H_

#include "registry.h"

/* Why a kernel does not apply; "" if it does. */
typedef struct tn__reason {
  char text[1024];
} tn__reason;

/* Whether the kernel applies to the call; ignores its priority. `reason` may be
 * NULL, which is faster: writing the text takes most of the time. The registry
 * is locked. */
bool tn__kernel_applies(const tn_operator *op, const tn__kernel *kernel,
                        const tn__query *query, tn__reason *reason);

/* The types that the kernel accepts for a type variable of its operator. */
uint64_t tn__kernel_types(const tn_operator *op, const tn_kernel *kernel,
                          uint32_t var);

/* Sets the members of a frame that belong to the kernel. */
void tn__frame_set_kernel(tn_frame *frame, const tn__kernel *kernel);

/* "cpu", "cuda", or "device". */
const char *tn__device_name(int32_t device_type);

#endif /* TENON_CHOOSE_H_ */
