/* SPDX-License-Identifier: Apache-2.0
 * segment_jobs.c: makes the segments of a sequence the jobs of one schedule of
 * the engine. If a device has queues, or a call may complete later, they become
 * operations, because schedules support neither queues nor asynchronous jobs.
 */
#include "segments.h"

typedef struct making {
  tn_program *p;
  tn__sequence *sequence;
  tn__access_list *accesses; /* of all segments */
  uint32_t n_segments;
} making;

/* ----------------------------------------------------------------- schedule */

static tn_code run_segment(void *arg, tn__token *token) {
  const tn__segment_run *segment = arg;
  return tn__range_run(&segment->range, token);
}

static tn__planned *get_call(const tn__segment_run *segment) {
  const tn__step *step = segment->range.program->steps[segment->range.first];
  return step->call[segment->range.train];
}

/* Runs a segment that may complete later: one call. Steps after it in the
 * segment have no work. */
static tn_code run_later(void *arg, tn__token *token) {
  const tn__segment_run *segment = arg;
  tn__planned *call = get_call(segment);
  tn__step_range range = segment->range;
  range.n = 1;
  return tn__planned_return(call, token, tn__range_run(&range, token));
}

static tn_code name_node(const void *node, tn_code code) {
  return tn__node_fail(node, code);
}

static void drop_segment(void *arg) {
  const tn__segment_run *segment = arg;
  tn__program_unhold(segment->range.program);
}

static bool is_small_segment(const tn__segment_run *segment) {
  for (uint32_t i = 0; i < segment->range.n; ++i)
    if (!tn__step_is_small(
            segment->range.program->steps[segment->range.first + i]))
      return false;
  return true;
}

static tn_code make_schedule(making *m) {
  tn__segment_run *segments = m->sequence->segments;
  const size_t bytes = (m->n_segments + 1u) * sizeof(tn__job);
  tn__job *jobs = tn__zalloc(m->p->env, bytes);
  if (!jobs) return tn__fail_memory(bytes, "the jobs of a program");
  for (uint32_t i = 0; i < m->n_segments; ++i) {
    jobs[i] =
        (tn__job){.name = segments[i].name,
                  .run = run_segment,
                  .arg = &segments[i],
                  .drop = drop_segment,
                  .access = m->accesses->access + segments[i].access,
                  .n_access = segments[i].n_access,
                  .flags = is_small_segment(&segments[i]) ? TN__JOB_SMALL : 0};
    tn__program_hold(m->p);
  }
  const tn_code rc = tn__schedule_create(m->p->env->engine, jobs, m->n_segments,
                                         &m->sequence->schedule);
  if (rc != TN_OK)
    for (uint32_t i = 0; i < m->n_segments; ++i) tn__program_unhold(m->p);
  tn__free(m->p->env, jobs);
  return rc;
}

/* --------------------------------------------------------------- operations */

static tn_code begin_run(void *arg, tn__token *token) {
  (void)arg;
  (void)token;
  return TN_OK;
}

static void drop_begin(void *arg) {
  tn__program_unhold(arg);
}

static tn_code add_operation(making *m, const tn__job *job) {
  tn__sequence *to = m->sequence;
  TN__TRY(tn__operation_create(m->p->env->engine, job,
                               &to->operations[to->n_operations]));
  ++to->n_operations;
  tn__program_hold(m->p); /* until its drop */
  return TN_OK;
}

static tn_code make_begin_operations(making *m) {
  tn_program *p = m->p;
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i) {
    if (!p->memory.pools[i]) continue;
    const tn__access access[] = {{&p->turn, TN__READ, 0},
                                 {&p->memory.pools[i]->var, TN__OVERWRITE, 0}};
    const tn__job job = {.name = "a program takes its memory",
                         .run = begin_run,
                         .arg = p,
                         .drop = drop_begin,
                         .access = access,
                         .n_access = 2,
                         .flags = TN__JOB_SMALL,
                         .queue = p->memory.pools[i]->device->compute};
    TN__TRY(add_operation(m, &job));
  }
  m->sequence->n_begins = m->sequence->n_operations;
  return TN_OK;
}

static tn_code make_operations(making *m) {
  tn_program *p = m->p;
  tn__segment_run *segments = m->sequence->segments;
  const size_t bytes =
      (p->memory.plan.n_pools + m->n_segments + 1) * sizeof(tn__operation *);
  m->sequence->operations = tn__zalloc(p->env, bytes);
  if (!m->sequence->operations)
    return tn__fail_memory(bytes, "the operations of a program");
  TN__TRY(make_begin_operations(m));
  for (uint32_t i = 0; i < m->n_segments; ++i) {
    const tn__step *step = p->steps[segments[i].range.first];
    const uint32_t flags = tn__step_job_flags(step, segments[i].range.train);
    const bool later = (flags & TN__JOB_ASYNC) != 0;
    const tn__job job = {.name = segments[i].name,
                         .run = later ? run_later : run_segment,
                         .arg = &segments[i],
                         .drop = drop_segment,
                         .access = m->accesses->access + segments[i].access,
                         .n_access = segments[i].n_access,
                         .flags = flags,
                         .queue = tn__step_queue(step)};
    if (later)
      tn__planned_set_async(get_call(&segments[i]), name_node, step->node);
    TN__TRY(add_operation(m, &job));
  }
  return TN_OK;
}

/* --------------------------------------------------------------------- make */

/* Makes the jobs; the last one overwrites the variables that separate runs. */
static tn_code make_jobs(making *m) {
  if (m->p->queued) return make_operations(m);
  if (m->n_segments > 0) {
    TN__TRY(tn__accesses_add_pools(m->accesses, TN__OVERWRITE));
    tn__segment_run *last = &m->sequence->segments[m->n_segments - 1];
    last->n_access = (uint32_t)(m->accesses->n_access - last->access);
  }
  return make_schedule(m);
}

tn_code tn__sequence_make(tn__sequence *sequence, const tn__step_range *range) {
  tn_program *p = range->program;
  tn__access_list accesses = {.p = p, .train = range->train};
  making m = {.p = p, .sequence = sequence, .accesses = &accesses};
  tn_code rc = tn__accesses_replay(&accesses, range->first);
  if (rc == TN_OK)
    rc = tn__segments_make(sequence, range, &accesses, &m.n_segments);
  if (rc == TN_OK) rc = make_jobs(&m);
  tn__accesses_free(&accesses);
  if (rc != TN_OK) {
    tn__sequence_end(p, sequence);
    tn__free(p->env, sequence->segments);
    sequence->segments = NULL;
  }
  return rc;
}
