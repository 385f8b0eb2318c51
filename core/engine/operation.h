/* SPDX-License-Identifier: Apache-2.0
 * operation.h: the pushes of a prepared operation. This folder only.
 */
#ifndef TENON_ENGINE_OPERATION_H_
#define TENON_ENGINE_OPERATION_H_

#include "engine.h"

/* Counts one more push. The gate is held. */
void tn__operation_count(tn__operation *operation);
/* Counts a completed push. */
void tn__operation_release(tn__operation *operation);

#endif /* TENON_ENGINE_OPERATION_H_ */
