/* SPDX-License-Identifier: Apache-2.0
 * execution.h: lifetime, runs and queries of programs: the functions that
 * implement tenon/graph.h. program.h has the rest.
 *
 * files:
 *   program.c          lifetime and runs
 *   segments.c         ranges of steps as jobs (segments.h)
 *   sequence.c         pushes the jobs
 *   step_run.c         the loop over steps; iteration.c runs a loop's steps
 *   capture.c          runs that a device records and launches again
 *   partial_run.c      runs that stop on the way, and monitors
 *   dynamic_params.c   parameters that change between runs
 *   program_inspect.c  memory of a program; its steps as a table and as JSON
 */
#ifndef TENON_EXECUTION_H_
#define TENON_EXECUTION_H_

#include "program.h"

void tn__program_release(tn_program *p); /* NULL is allowed */
const tn__env *tn__program_env(const tn_program *p);
/* Tests whether a function that monitors the program is running now. */
bool tn__program_is_watched(const tn_program *p);
tn_code tn__program_forward(tn_program *p, uint32_t flags);
tn_code tn__program_backward(tn_program *p, tn_array *const *weights, size_t n);
tn_code tn__program_array(const tn_program *p, uint32_t what, const char *name,
                          tn_array **out);
tn_code tn__program_output(const tn_program *p, size_t index, tn_array **out);
tn_code tn__program_forward_part(tn_program *p, uint32_t flags, size_t steps,
                                 size_t *left);
tn_code tn__program_set(tn_program *p, const char *node, const tn_value *value);
tn_code tn__program_monitor(tn_program *p, tn_monitor_fn *fn, void *ctx);
void tn__program_stats(const tn_program *p, tn_program_stats *out);
tn_code tn__program_text(const tn_program *p, uint32_t why, tn_text **out);
tn_code tn__program_json(const tn_program *p, tn_text **out);
/* capture.c */
tn_code tn__program_captured(tn_program *p, uint32_t part, tn_text **why);
/* Adds a line for the forward and the backward part to a table of steps, if the
 * program records runs on a device. */
void tn__capture_print(const tn_program *p, tn__buf *out);

#endif /* TENON_EXECUTION_H_ */
