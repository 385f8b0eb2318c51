/* SPDX-License-Identifier: Apache-2.0
 * wait.h: waits for everything that was pushed. This folder only.
 */
#ifndef TENON_ENGINE_WAIT_H_
#define TENON_ENGINE_WAIT_H_

#include "engine.h"

/* Waits until all tokens of both epochs are complete, but not for devices. */
void tn__drain(tn__engine *engine);
/* Waits until all earlier pushes are complete, on devices too. Ignores later
 * pushes. */
void tn__wait_for_pushed(tn__engine *engine);

#endif /* TENON_ENGINE_WAIT_H_ */
