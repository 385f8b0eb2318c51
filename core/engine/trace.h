/* SPDX-License-Identifier: Apache-2.0
 * trace.h: records spans. This folder only.
 */
#ifndef TENON_ENGINE_TRACE_H_
#define TENON_ENGINE_TRACE_H_

#include "engine.h"

/* Nanoseconds of the monotonic clock. */
uint64_t tn__now(void);
/* Records one span on this thread. */
void tn__trace_span(tn__engine *engine, const char *name,
                    const tn__queue *queue, uint64_t begin);

/* Frees all recorded spans; the engine ends. */
void tn__trace_drop(tn__engine *engine);

#endif /* TENON_ENGINE_TRACE_H_ */
