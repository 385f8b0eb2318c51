/* SPDX-License-Identifier: Apache-2.0
 * schedule_plan.h: the dependencies of jobs that are pushed together, and the
 * execution of their steps. This folder only.
 */
#ifndef TENON_ENGINE_SCHEDULE_PLAN_H_
#define TENON_ENGINE_SCHEDULE_PLAN_H_

#include "engine.h"

/* A step of a schedule: a job, or a group. A group is a run of neighbouring
 * small jobs, executed one after the other. A small job joins the group before
 * it if both wait, at any distance, for the same jobs that are not small. So a
 * job that is not small never waits for another one because of a group; a small
 * job may.
 *
 * Its jobs are `first` up to the next step's `first`. Its successors are in
 * `order` from `next` up to the next step's `next`: first n_free groups that
 * wait for no other step and can be passed on as one range, then the others. A
 * step that also waits for one of these successors is left out, as far as the
 * planner found that out. */
typedef struct tn__schedule_step {
  uint32_t next;
  uint32_t n_free;
  uint32_t first;
  uint32_t n_before; /* predecessors */
  _Atomic uint32_t
      left; /* predecessors left in this run; a single one is not counted */
  uint32_t spilled; /* next step in a list of steps to run */
} tn__schedule_step;

/* A variable of a job and how the job uses it. */
typedef struct tn__job_use {
  tn__var *var;
  uint32_t mode;
  uint32_t reserved;
} tn__job_use;

typedef struct tn__schedule_plan {
  /* n steps, then the end of all, then the beginning, then one that only marks
   * the end of the beginning's successors. */
  tn__schedule_step *steps;
  uint32_t n;
  uint32_t n_jobs;
  uint32_t *order;
  uint32_t *first_use; /* of each job, in `uses`; n_jobs + 1 */
  tn__job_use *uses;   /* each variable of a job once */
  tn__access *access;  /* of all jobs together, each variable once */
  uint32_t n_uses;
  uint32_t n_access;
} tn__schedule_plan;

/* Works out the dependencies of the jobs, with at most `group` jobs in a group.
 * With 0 it records only the uses and creates no steps. The arena owns the
 * memory of the plan. */
tn_code tn__schedule_plan_create(tn__arena *arena, const tn__job *jobs,
                                 size_t n, uint32_t group,
                                 tn__schedule_plan *out);

/* Runs the steps of a range of `order`, and the steps that become ready by
 * that. */
void tn__schedule_run_range(struct tn__schedule *schedule, uint64_t range);

#endif /* TENON_ENGINE_SCHEDULE_PLAN_H_ */
