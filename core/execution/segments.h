/* SPDX-License-Identifier: Apache-2.0
 * segments.h: the ways from a range of steps to jobs of the engine.
 *
 *   step_accesses.c   the variables that the jobs read and write
 *   segments.c        groups the steps into segments, one job each
 *   segment_jobs.c    a schedule of the segments, or operations on queues
 */
#ifndef TENON_SEGMENTS_H_
#define TENON_SEGMENTS_H_

#include "program.h"

/* ------------------------------------------------------------ step_accesses.c
 */

/* A range of a pool, with the variable of its last user. */
typedef struct tn__used_range {
  size_t begin;
  size_t end;
  tn__var *var;
} tn__used_range;

/* The accesses of jobs that are listed one after the other. A list begins as
 * zeros with `p` and `train`; tn__accesses_free ends it. */
typedef struct tn__access_list {
  tn_program *p;
  uint32_t train;
  tn__access *access;
  size_t n_access;
  size_t capacity;
  size_t job; /* index of the current job's first access */
  bool quiet; /* do not record accesses */
  tn__used_range *ranges;
  size_t n_ranges;
  size_t ranges_capacity;
} tn__access_list;

/* Adds the accesses of a step to those of the current job. */
tn_code tn__accesses_add_step(tn__access_list *a, const tn__step *step);
/* Adds the accesses that the first step of an operation on a queue needs in
 * addition: to the program's turn, and to the pools of its devices. */
tn_code tn__accesses_add_queued(tn__access_list *a, const tn__step *step);
/* Orders the job after all users of the pools and after the previous run.
 * `turn` is the mode of the access to the program's turn. */
tn_code tn__accesses_add_pools(tn__access_list *a, uint32_t turn);
/* Replays the memory use of the steps before step `first` without adding
 * accesses. The backward part then finds the forward part's results in the
 * pool, and uses their memory only after their last readers. */
tn_code tn__accesses_replay(tn__access_list *a, uint32_t first);
void tn__accesses_free(tn__access_list *a);

/* ----------------------------------------------------------------- segments.c
 */

/* The argument of a segment's job. */
typedef struct tn__segment_run {
  tn__step_range range;
  uint32_t n_access;
  size_t access; /* index of the segment's first access */
  char name[104];
} tn__segment_run;

/* Sets sequence->segments to the segments of a range, *n to their number, and
 * adds their accesses to the list. The sequence owns the segments, also after a
 * failure. */
tn_code tn__segments_make(tn__sequence *sequence, const tn__step_range *range,
                          tn__access_list *accesses, uint32_t *n);

#endif /* TENON_SEGMENTS_H_ */
