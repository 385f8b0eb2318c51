/* SPDX-License-Identifier: Apache-2.0
 * real_device.h: a GPU that is described to the cuDNN of this machine.
 */
#ifndef TENON_TESTS_REAL_DEVICE_H_
#define TENON_TESTS_REAL_DEVICE_H_

#include "kit.h"

/* The properties of an H200; the caller destroys them. 0 where this cuDNN is
 * too old for that. */
int real_device_open(const dnn_library *library, dnn_descriptor *out);

/* The notes of the engine of a plan, whose configuration is its last part, as
 * bits; -1 if it tells nothing. */
int real_notes_of(const dnn_library *library, const cudnn_made *made);

#endif /* TENON_TESTS_REAL_DEVICE_H_ */
