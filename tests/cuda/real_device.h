/* SPDX-License-Identifier: Apache-2.0
 * real_device.h: a GPU that is described to the cuDNN of this machine.
 */
#ifndef TENON_TESTS_REAL_DEVICE_H_
#define TENON_TESTS_REAL_DEVICE_H_

#include "kit.h"

/* The properties of an H200; the caller destroys them. 0 where this cuDNN is
 * too old for that. */
int real_device_open(const dnn_library *library, dnn_descriptor *out);

/* The notes of the engine of a plan as bits; the configuration is the plan's
 * last part. -1 if cuDNN reports nothing. */
int real_notes_of(const dnn_library *library, const cudnn_made *made);

/* Whether a task has no plan, or one by an engine that breaks a promise: sums
 * in halves, rounded operands where they may not be, bits that differ where
 * they must not. Says so by `name`. */
int real_fails(const dnn_library *library, dnn_descriptor device,
               const cudnn_task *task, int may_round, const char *name);

#endif /* TENON_TESTS_REAL_DEVICE_H_ */
