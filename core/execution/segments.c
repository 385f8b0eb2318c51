/* SPDX-License-Identifier: Apache-2.0
 * segments.c: groups the steps of a sequence into segments, one job each. Steps
 * that follow one another in any case form one segment. Segments that do not
 * depend on one another may run at the same time. If a device has queues,
 * segments have a few steps: the fence after each segment costs the device
 * about as much as a short kernel. A call that may complete later, or whose
 * order is fixed, is a segment of its own.
 */
#include <stdio.h>

#include "segments.h"

typedef struct grouping {
  tn_program *p;
  tn__sequence *sequence;
  tn__segment_run *last; /* the segment that the next step may join */
  uint8_t *edges;        /* for each step ENDS, BEGINS; NULL: all are edges */
  bool on_host;          /* no device has queues */
} grouping;

/* ENDS: another queue waits for the step. BEGINS: the step waits for one. */
enum { ENDS = 1, BEGINS = 2 };

static bool reads_result_of(const tn__step *step, const tn__step *before) {
  for (uint32_t i = 0; i < step->n_in; ++i)
    for (uint32_t k = 0; k < before->n_out; ++k)
      if (step->in[i] == before->out[k]) return true;
  return false;
}

/* Returns the number of the segment that contains a step of the sequence. */
static uint32_t find_segment(const tn__segment_run *segments,
                             const tn__segment_run *last, uint32_t step) {
  uint32_t low = 0, high = (uint32_t)(last - segments);
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (segments[middle].range.first <= step)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Tests whether a segment waits for step `writer` before it begins. */
static bool segment_waits_for(const grouping *g, const tn__segment_run *segment,
                              uint32_t writer) {
  const tn__segment_run *segments = g->sequence->segments;
  const tn__step *first = g->p->steps[segment->range.first];
  const uint32_t at = find_segment(segments, segment, writer);
  for (uint32_t i = 0; i < first->n_in; ++i) {
    const uint32_t entry = first->in[i];
    const uint32_t step = entry == TN_NONE ? TN_NONE : g->p->values[entry].step;
    if (step != TN_NONE && step >= segments->range.first &&
        find_segment(segments, segment, step) == at)
      return true;
  }
  return false;
}

/* Tests whether a long step waits for another branch than its segment does. */
static bool joins_branches(const grouping *g, const tn__segment_run *segment,
                           const tn__step *step) {
  if (tn__step_is_small(step) || tn__engine_workers(g->p->env->engine) < 2)
    return false;
  if (step->n_after > 0) return true;
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const uint32_t entry = step->in[i];
    const uint32_t writer =
        entry == TN_NONE ? TN_NONE : g->p->values[entry].step;
    if (writer != TN_NONE && writer >= g->sequence->segments->range.first &&
        writer < segment->range.first && !segment_waits_for(g, segment, writer))
      return true;
  }
  return false;
}

/* Finds the step that computes an entry, not one that passes it on, or NULL. */
static const tn__step *find_source_step(const tn_program *p, uint32_t entry) {
  const tn__step *step = NULL;
  while (entry != TN_NONE && p->values[entry].step != TN_NONE) {
    step = p->steps[p->values[entry].step];
    if (step->kind != TN__STEP_NOTHING || step->n_in == 0) break;
    entry = step->in[0];
  }
  return step;
}

/* Finds steps at which a segment must end or begin, because a longer segment
 * would make queues wait longer. */
static tn_code find_edges(grouping *g) {
  const tn_program *p = g->p;
  if (!p->queued || g->sequence->single) return TN_OK;
  if (p->how.flags & TN_BIND_NO_FUSE) return TN_OK;
  g->edges = tn__zalloc(p->env, p->n_steps + 1u);
  if (!g->edges) return tn__fail_memory(p->n_steps, "the jobs of a program");
  for (uint32_t id = 0; id < p->n_steps; ++id) {
    const tn__step *step = p->steps[id];
    if (step->kind == TN__STEP_NOTHING) continue;
    if (step->signal) g->edges[id] |= ENDS;
    if (step->n_after > 0) g->edges[id] |= BEGINS;
    for (uint32_t i = 0; i < step->n_in; ++i) {
      if (step->shape_only && step->shape_only[i]) continue;
      const tn__step *maker = find_source_step(p, step->in[i]);
      if (!maker || tn__step_queue(maker) == tn__step_queue(step)) continue;
      g->edges[maker->id] |= ENDS;
      g->edges[id] |= BEGINS;
    }
  }
  return TN_OK;
}

/* The last step of a segment that has work. */
static const tn__step *find_last_working_step(const grouping *g,
                                              const tn__segment_run *segment) {
  uint32_t id = segment->range.first + segment->range.n - 1;
  while (g->p->steps[id]->kind == TN__STEP_NOTHING) --id;
  return g->p->steps[id];
}

/* Tests whether a step is enqueued together with the steps before it. A step
 * without work joins any segment: alone it would be a job of the host that
 * waits for the device. */
static bool joins_queued(const grouping *g, const tn__segment_run *segment,
                         const tn__step *step) {
  enum { MOST = 16 };
  const tn__queue *queue = tn__step_queue(g->p->steps[segment->range.first]);
  const uint32_t train = segment->range.train;
  if (g->sequence->single) return false;
  if (step->kind == TN__STEP_NOTHING) return true;
  if ((tn__step_job_flags(step, train) |
       tn__step_job_flags(g->p->steps[segment->range.first], train)) != 0)
    return false;
  if (!g->edges || !queue || segment->range.n >= MOST ||
      (g->edges[find_last_working_step(g, segment)->id] & ENDS))
    return false;
  return queue == tn__step_queue(step) && !(g->edges[step->id] & BEGINS);
}

/* Tests whether a step may join a segment of a program without queues, one of
 * whose calls may complete later. An operation lists the memory of one device.
 */
static bool joins_on_host(const grouping *g, const tn__segment_run *segment,
                          const tn__step *step) {
  const tn__step *first = g->p->steps[segment->range.first];
  const uint32_t train = segment->range.train;
  return g->on_host && !g->sequence->single && step->device == first->device &&
         step->kind != TN__STEP_COPY && step->kind != TN__STEP_NOTHING &&
         (tn__step_job_flags(first, train) | tn__step_job_flags(step, train)) ==
             0;
}

/* Whether a step without work begins no segment: no run stops after it. */
static bool begins_no_segment(const grouping *g, const tn__segment_run *segment,
                              const tn__step *step) {
  return segment->range.n == 0 && step->kind == TN__STEP_NOTHING &&
         g->p->queued && !g->sequence->single;
}

/* Whether a step joins the segment of the step before it. */
static bool can_join_segment(const grouping *g, const tn__segment_run *segment,
                             const tn__step *step) {
  enum { MOST = 64 };
  if (segment->range.n == 0) return true;
  if (g->p->queued && !joins_on_host(g, segment, step))
    return joins_queued(g, segment, step);
  const tn__step *before = g->p->steps[step->id - 1];
  if (segment->range.n >= MOST ||
      tn__step_is_small(before) != tn__step_is_small(step))
    return false;
  if (step->kind == TN__STEP_NOTHING) return true;
  return reads_result_of(step, before) && !joins_branches(g, segment, step);
}

/* Names a segment after its first and last step: names of fences are short. */
static void name_segment(tn__segment_run *segment) {
  const tn_program *p = segment->range.program;
  const int most = p->queued ? 28 : 46;
  const char *first = p->steps[segment->range.first]->node->name,
             *last = p->steps[segment->range.first + segment->range.n - 1]
                         ->node->name;
  if (segment->range.n == 1)
    (void)snprintf(segment->name, sizeof segment->name, "%s", first);
  else
    (void)snprintf(segment->name, sizeof segment->name, "%.*s .. %.*s", most,
                   first, most, last);
}

/* Adds a step to the last segment, or begins the next one with it. Returns the
 * last segment. */
static tn_code add_step(grouping *g, const tn__step *step,
                        tn__access_list *accesses) {
  tn__segment_run *segment = g->last;
  if (begins_no_segment(g, segment, step)) return TN_OK;
  if (!can_join_segment(g, segment, step)) g->last = ++segment;
  if (segment->range.n == 0) {
    accesses->job = accesses->n_access;
    *segment = (tn__segment_run){
        {g->p, step->id, 0, accesses->train}, 0, accesses->n_access, ""};
  }
  TN__TRY(tn__accesses_add_step(accesses, step));
  if (g->p->queued && segment->range.n == 0)
    TN__TRY(tn__accesses_add_queued(accesses, step));
  ++segment->range.n;
  segment->n_access = (uint32_t)(accesses->n_access - segment->access);
  name_segment(segment);
  return TN_OK;
}

static bool has_queues(const tn_program *p) {
  for (uint32_t i = 0; i < p->placement.n_devices; ++i)
    if (p->placement.devices[i]->compute) return true;
  return false;
}

tn_code tn__segments_make(tn__sequence *sequence, const tn__step_range *range,
                          tn__access_list *accesses, uint32_t *n) {
  tn_program *p = range->program;
  const size_t bytes = (range->n + 1u) * sizeof *sequence->segments;
  *n = 0;
  sequence->segments = tn__zalloc(p->env, bytes);
  if (!sequence->segments)
    return tn__fail_memory(bytes, "the jobs of a program");
  grouping g = {.p = p,
                .sequence = sequence,
                .last = sequence->segments,
                .on_host = !has_queues(p)};
  tn_code rc = find_edges(&g);
  for (uint32_t i = 0; rc == TN_OK && i < range->n; ++i)
    rc = add_step(&g, p->steps[range->first + i], accesses);
  tn__free(p->env, g.edges);
  *n = (uint32_t)(g.last - sequence->segments) + (g.last->range.n > 0);
  return rc;
}
