/* SPDX-License-Identifier: Apache-2.0
 * trace.h: records spans. Part of the contract of engine.h, but for the last
 * section.
 */
#ifndef TENON_TOKENS_TRACE_H_
#define TENON_TOKENS_TRACE_H_

#include "job.h"

/* Starts to record spans: name, queue, thread, begin and end of every function.
 * While no trace is recorded a span costs one test. */
tn_code tn__trace_start(tn__engine *engine);
/* Stops recording. */
void tn__trace_stop(tn__engine *engine);
/* Records a part of a function as a span within the span of the function. The
 * function's thread calls both. `begin` is 0 when no trace is recorded, which
 * costs one load; otherwise pass it to tn__trace_part when the part is done.
 * The name is copied. */
uint64_t tn__trace_begin(tn__engine *engine);
void tn__trace_part(tn__engine *engine, const char *name, uint64_t begin);
/* Records the time from `begin` until now as an asynchronous span: spans of the
 * same thread may begin or end meanwhile. It has the name of the token. */
void tn__trace_later(const tn__token *token, uint64_t begin);
/* Writes the recorded spans as Chrome trace JSON; waits for no thread. */
tn_code tn__trace_write(tn__engine *engine, const char *path);
/* Frees the spans of a recording that has ended and was settled since: no
 * operation of that time is running. */
void tn__trace_forget(tn__engine *engine);

/* ------------------------------------------------------- inside of the engine
 */

/* Records one span on this thread. */
void tn__trace_span(tn__engine *engine, const char *name,
                    const tn__queue *queue, uint64_t begin);

/* Frees all recorded spans; the engine ends. */
void tn__trace_drop(tn__engine *engine);

#endif /* TENON_TOKENS_TRACE_H_ */
