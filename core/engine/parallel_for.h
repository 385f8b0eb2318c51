/* SPDX-License-Identifier: Apache-2.0
 * parallel_for.h: the part that workers take in loops. This folder only.
 */
#ifndef TENON_ENGINE_PARALLEL_FOR_H_
#define TENON_ENGINE_PARALLEL_FOR_H_

#include "pool.h"

/* Runs slices of a loop that wants participants and is nested deeper than
 * `depth`; false: there is none. */
bool tn__loop_help(tn__pool *pool, uint32_t depth);

#endif /* TENON_ENGINE_PARALLEL_FOR_H_ */
