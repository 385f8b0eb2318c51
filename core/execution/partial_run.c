/* SPDX-License-Identifier: Apache-2.0
 * partial_run.c: runs that stop on the way, and monitored runs. Each step is a
 * run of its own.
 */
#include <string.h>

#include "execution.h"
#include "fused.h"

/* A run of some steps on the calling thread, ordered by the program's turn. */
typedef struct part_run {
  tn__step_range range;
  const tn__step *part; /* if not NULL: run only this part of the fused step
                           number `range.first` */
} part_run;

static tn_code run_job_steps(void *arg, tn__token *token) {
  const part_run *run = arg;
  if (!run->part) return tn__range_run(&run->range, token);
  const tn_code rc = tn__planned_run(run->part->watch[run->range.train], token);
  return rc == TN_OK ? rc : tn__node_fail(run->part->node, rc);
}

/* Enqueues one part of a fused step on a device. The part follows all previous
 * steps, and pending work of other programs in shared memory. */
static tn_code enqueue_part(part_run *run) {
  tn_program *p = run->range.program;
  const tn__step *part = run->part;
  const tn__access *uses = NULL;
  const uint32_t n =
      tn__planned_list_uses(part->watch[run->range.train], &uses);
  tn__block *pool = tn__pool_of(p, tn__device_number(p, part->device));
  tn__access *access = tn__alloc(p->env, (n + 2u) * sizeof *access);
  if (!access) return tn__fail_memory(n * sizeof *access, "a watched run");
  if (n > 0) memcpy(access, uses, n * sizeof *access);
  access[n] = (tn__access){&p->turn, TN__READ, 0};
  if (pool) access[n + 1] = (tn__access){&pool->var, TN__OVERWRITE, 0};
  const tn__job job = {.name = part->node->name,
                       .run = run_job_steps,
                       .arg = run,
                       .access = access,
                       .n_access = n + 1 + (pool != NULL),
                       .queue = tn__step_queue(part)};
  tn_code rc = tn__push(p->env->engine, &job);
  tn__free(p->env, access);
  tn__program_wait_runs(p);
  for (uint32_t i = 0; rc == TN_OK && i < part->n_out; ++i)
    rc = tn__var_check(&tn__value_array(p, part->out[i])->block->var);
  return rc;
}

/* Returns the first failure that the steps have left on the arrays of their
 * results. */
static tn_code find_failure(const tn_program *p, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_out; ++k) {
      const tn_array *array = tn__value_array(p, p->steps[i]->out[k]);
      if (array) TN__TRY(tn__var_check(&array->block->var));
    }
  return TN_OK;
}

/* Runs steps of devices with queues and returns when they are done. */
static tn_code run_queued(const tn__step_range *range) {
  tn_program *p = range->program;
  const bool back = range->first >= p->n_forward;
  const tn__step_range all =
      back ? tn__range_backward(p) : tn__range_forward(p, range->train);
  tn__sequence *sequence = &p->single[back ? 2 : range->train];
  sequence->single = true;
  if (!sequence->segments) TN__TRY(tn__sequence_make(sequence, &all));
  TN__TRY(
      tn__sequence_push_part(p, sequence, range->first - all.first, range->n));
  tn__program_wait_runs(p);
  return find_failure(p, range->first, range->n);
}

static tn_code run_on_this_thread(part_run *run) {
  tn__access *access = NULL;
  uint32_t n_access = 0;
  if (run->part && tn__step_queue(run->part)) return enqueue_part(run);
  const tn_program *p = run->range.program;
  if (p->queued && !run->part) return run_queued(&run->range);
  TN__TRY(tn__part_list_uses(&run->range, &access, &n_access));
  const tn__job job = {.name = run->range.n == 1
                                   ? p->steps[run->range.first]->node->name
                                   : "a part of a program",
                       .run = run_job_steps,
                       .arg = run,
                       .access = access,
                       .n_access = n_access};
  const tn_code rc = tn__run_here(p->env->engine, &job);
  tn__free(p->env, access);
  return rc;
}

/* ---------------------------------------------------------------- monitors */

static void show_entry_to_monitor(tn_program *p, uint32_t entry, tn_entry of) {
  char name[TN__ENTRY_TEXT];
  tn_array *array = p->values[entry].array;
  const tn__plan_place *at = tn__plan_place_of(p, entry);
  const bool is_there = at && at->alias >= 0; /* any step may have written it */
  if (p->values[entry].request == TN_REQ_NULL && !is_there) return;
  if (!tn__array_data(array)) return;
  (void)tn__array_tensor(array);
  p->watched = true;
  p->monitor(p->monitor_ctx, tn__entry_text(p->graph, of, name), array);
  p->watched = false;
}

static void show_node_to_monitor(tn_program *p, const tn__node *node) {
  const uint32_t n = tn__node_count_visible(node);
  for (uint32_t i = 0; i < n; ++i)
    show_entry_to_monitor(p, node->first + i, (tn_entry){node->id, i});
}

/* Runs one step and shows its results to the monitor. The parts of a fused step
 * run one after the other, each on all elements. */
static tn_code watch_step(tn_program *p, uint32_t i, uint32_t train) {
  const tn__step *step = p->steps[i];
  part_run run = {{p, i, 1, train}, NULL};
  if (step->n_parts == 0) {
    TN__TRY(run_on_this_thread(&run));
    show_node_to_monitor(p, step->node);
  }
  for (uint32_t k = 0; k < step->n_parts; ++k) {
    run.part = step->parts[k];
    TN__TRY(run_on_this_thread(&run));
    show_node_to_monitor(p, run.part->node);
  }
  return TN_OK;
}

/* Runs steps for the monitor. After a failing step, the steps that do not
 * depend on it still run. */
static tn_code watch_steps(const tn__step_range *range) {
  tn_code failed = TN_OK;
  for (uint32_t i = 0; i < range->n; ++i) {
    const tn_code rc =
        watch_step(range->program, range->first + i, range->train);
    if (failed == TN_OK) failed = rc;
  }
  return failed;
}

/* Prepares a part of a fused step for a monitor: allocates memory for results
 * that otherwise stay in the cache, and plans a call of its own. */
static tn_code prepare_watched_part(tn__step *part, uint32_t train) {
  const tn_outputs none = {0};
  const tn_program *p = part->program;
  const tn__step *fused = p->steps[p->values[part->out[0]].step];
  tn__planned_info info;
  void *room = NULL;
  if (part->watch[train]) return TN_OK;
  TN__TRY(tn__step_plan(part, train, &part->watch[train]));
  if (tn__step_call(part))
    tn__planned_copy_params(part->watch[train], tn__step_call(part));
  tn__planned_deliver(part->watch[train], &none);
  tn__planned_describe(part->watch[train], &info);
  TN__TRY(tn__step_workspace(fused, info.workspace, &room));
  return tn__planned_materialise(part->watch[train], room);
}

tn_code tn__program_monitor(tn_program *p, tn_monitor_fn *fn, void *ctx) {
  for (uint32_t i = 0; fn && i < p->n_steps; ++i)
    for (uint32_t k = 0; k < p->steps[i]->n_parts; ++k)
      for (uint32_t train = 0; train < 2; ++train)
        TN__TRY(prepare_watched_part(p->steps[i]->parts[k], train));
  p->monitor = fn;
  p->monitor_ctx = ctx;
  return TN_OK;
}

/* --------------------------------------------------------------------- runs */

tn_code tn__part_run(const tn__step_range *range) {
  part_run run = {*range, NULL};
  return range->program->monitor ? watch_steps(range)
                                 : run_on_this_thread(&run);
}

tn_code tn__program_forward_part(tn_program *p, uint32_t flags, size_t steps,
                                 size_t *left) {
  const uint32_t train = (flags & TN_CALL_TRAIN) != 0;
  const uint32_t n = steps < p->n_forward ? (uint32_t)steps : p->n_forward;
  TN__TRY(tn__calls_complete(p, train));
  p->trained = 0;
  tn__program_begin_run(p);
  for (uint32_t i = 0; i < p->seen[0].n; ++i)
    tn__array_count_write(p->seen[0].arrays[i]);
  const tn__step_range part = {p, 0, n, train};
  TN__TRY(tn__part_run(&part));
  if (n == p->n_forward) p->trained = train;
  if (left) *left = p->n_forward - n;
  return TN_OK;
}
