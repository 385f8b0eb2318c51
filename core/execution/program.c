/* SPDX-License-Identifier: Apache-2.0
 * program.c: the lifetime of a program, its runs, and queries.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "execution.h"
#include "fused.h"
#include "iteration.h"

/* ----------------------------------------------------------------- lifetime */

void tn__program_hold(tn_program *p) {
  atomic_fetch_add_explicit(&p->n_holds, 1, memory_order_relaxed);
}

static void free_step(tn__step *step) {
  for (uint32_t k = 0; k < step->n_parts; ++k) free_step(step->parts[k]);
  tn__fused_free(step);
  if (step->loop) tn__program_release(step->loop->program);
  tn__params_release(step->joint);
  tn__planned_release(step->call[0]);
  tn__planned_release(step->call[1]);
  tn__planned_release(step->watch[0]);
  tn__planned_release(step->watch[1]);
}

/* A sequence of the program by number; NULL after the last. */
static tn__sequence *get_sequence_at(tn_program *p, uint32_t i) {
  tn__sequence *all[] = {&p->forward[0], &p->forward[1], &p->backward,
                         &p->single[0],  &p->single[1],  &p->single[2]};
  return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static void free_steps(tn_program *p) {
  for (uint32_t i = 0; get_sequence_at(p, i); ++i)
    tn__capture_free(get_sequence_at(p, i));
  for (uint32_t i = 0; i < p->n_steps; ++i) free_step(p->steps[i]);
  tn__graph_release(p->graph);
  tn__graph_release(p->source);
}

static void release_arrays(tn_program *p) {
  for (uint32_t i = 0; i < p->n_values; ++i)
    tn__array_release(p->values[i].array);
  for (size_t i = 0; i < p->shapes.n; ++i) tn__array_release(p->shapes.v[i]);
  tn__vec_deinit(p->env, &p->shapes);
  for (size_t i = 0; p->memory.pools && i < p->memory.plan.n_pools; ++i)
    tn__block_release(p->memory.pools[i]);
  for (size_t i = 0; i < p->memory.rooms.n; ++i)
    tn__block_release(p->memory.rooms.v[i]);
  tn__vec_deinit(p->env, &p->memory.rooms);
}

/* Waits until the devices have finished all runs, which are enqueued. The
 * fences of arrays do not suffice: workspaces and recordings have none. */
static void wait_for_devices(const tn_program *p) {
  for (uint32_t i = 0; i < p->placement.n_devices; ++i)
    if (p->placement.devices[i]->compute)
      tn__queue_await(p->placement.devices[i]->compute);
}

/* Drops a hold on the program, and frees it with the last one. Jobs use the
 * data of a program until the last job is dropped. So do its arrays: when a
 * waiting thread sees the end of a run, the thread that ends the run may still
 * use the variables of some arrays. */
void tn__program_unhold(tn_program *p) {
  if (atomic_fetch_sub_explicit(&p->n_holds, 1, memory_order_acq_rel) > 1)
    return;
  if (!p->settled) wait_for_devices(p);
  free_steps(p);
  release_arrays(p);
  if (p->memory.planned) tn__memory_plan_deinit(&p->memory.plan);
  tn__arena_deinit(&p->arena);
  for (uint32_t i = 0; get_sequence_at(p, i); ++i)
    tn__free(p->env, get_sequence_at(p, i)->segments);
  tn__var_deinit(&p->turn);
  for (uint32_t i = 0; i < p->n_signals; ++i) tn__var_deinit(&p->signals[i]);
  tn__free(p->env, p->signals);
  tn__free(p->env, p);
}

static tn_code run_turn(void *arg, tn__token *token) {
  bool *settled = arg;
  (void)token;
  *settled = true;
  return TN_OK;
}

bool tn__program_wait_runs(tn_program *p) {
  bool settled = false;
  const tn__access use = {&p->turn, TN__OVERWRITE, 0};
  const tn__job job = {.name = "the end of a program",
                       .run = run_turn,
                       .arg = &settled,
                       .access = &use,
                       .n_access = 1,
                       .flags = TN__JOB_SMALL | TN__JOB_ALWAYS};
  const tn_code rc = tn__run_here(p->env->engine, &job);
  (void)rc; /* failed runs have left their errors on arrays */
  return settled;
}

/* Waits for threads that are about to drop the last operations. This thread,
 * and not one of them, must free the program and possibly its runtime: the
 * caller may next remove resources that a device needs. */
static void wait_for_holds(const tn_program *p) {
  while (atomic_load_explicit(&p->n_holds, memory_order_acquire) > 1)
    sched_yield();
}

/* Releases a program. Within a function of the engine it does not wait; the
 * last job then frees the program. */
void tn__program_release(tn_program *p) {
  if (!p) return;
  const tn__env *env = p->env;
  p->settled = tn__program_wait_runs(p);
  for (uint32_t i = 0; get_sequence_at(p, i); ++i) {
    tn__capture_stop(get_sequence_at(p, i));
    tn__sequence_end(p, get_sequence_at(p, i));
  }
  if (p->settled) wait_for_holds(p);
  tn__program_unhold(p);
  tn__env_release(env); /* last: it may destroy the runtime */
}

const tn__env *tn__program_env(const tn_program *p) {
  return p->env;
}

bool tn__program_is_watched(const tn_program *p) {
  return p->watched;
}

/* --------------------------------------------------------------------- runs */

/* Plans the calls of a range that is new for the program. */
static tn_code complete_calls(const tn__step_range *range) {
  tn__step **steps = range->program->steps + range->first;
  const uint32_t train = range->train;
  for (uint32_t i = 0; i < range->n; ++i) {
    tn__step *step = steps[i];
    if (step->kind == TN__STEP_LOOP)
      TN__TRY(tn__calls_complete(step->loop->program, train));
    if (step->kind != TN__STEP_CALL || step->call[train]) continue;
    TN__TRY(tn__step_plan(step, train, &step->call[train]));
    TN__TRY(tn__step_materialise(step, train));
  }
  return TN_OK;
}

tn_code tn__calls_complete(tn_program *p, uint32_t train) {
  const tn__step_range all = tn__range_forward(p, train);
  return complete_calls(&all);
}

/* Makes the jobs of a range before its first run. */
static tn_code prepare_jobs(tn__sequence *sequence,
                            const tn__step_range *range) {
  if (sequence->segments) return TN_OK;
  TN__TRY(complete_calls(range));
  return tn__sequence_make(sequence, range);
}

/* Pushes the steps of a run: one by one for a monitor, as a recording, or as
 * the jobs of the sequence. */
static tn_code push_steps(tn__sequence *sequence, const tn__step_range *range) {
  return range->program->monitor ? tn__part_run(range)
                                 : tn__capture_push(sequence, range);
}

/* Marks the pools as used by this program: results of a forward run are valid
 * until another program uses the pool. */
void tn__program_begin_run(tn_program *p) {
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i)
    if (p->memory.pools[i]) p->memory.pools[i]->last = p;
}

static tn_code check_pools(const tn_program *p) {
  for (size_t i = 0; i < p->memory.plan.n_pools; ++i)
    if (p->memory.pools[i] && p->memory.pools[i]->last != p)
      return tn__fail(TN_INVALID,
                      "another program that shares this one's memory "
                      "has run since its forward run and overwritten "
                      "the results; run forward and backward before the "
                      "other program runs");
  return TN_OK;
}

static void count_writes(const tn__visible_arrays *seen) {
  for (uint32_t i = 0; i < seen->n; ++i) tn__array_count_write(seen->arrays[i]);
}

tn_code tn__program_forward(tn_program *p, uint32_t flags) {
  const uint32_t train = (flags & TN_CALL_TRAIN) != 0;
  const tn__step_range range = tn__range_forward(p, train);
  tn__sequence *sequence = &p->forward[train];
  TN__TRY(prepare_jobs(sequence, &range));
  const tn_code rc = push_steps(sequence, &range);
  /* A push that fails has changed nothing: the old results are valid. */
  if (rc != TN_OK && !p->monitor) return rc;
  count_writes(&p->seen[0]);
  tn__program_begin_run(p);
  p->trained = rc == TN_OK ? train : 0;
  return rc;
}

/* Fills the output gradient of a loss with ones, unless the ones of the last
 * run are still in the array. */
static tn_code fill_output_gradient(tn_program *p, uint32_t i,
                                    tn_array *weight) {
  if (p->gradients.losses[i] == TN__LOSS_ONES) return TN_OK;
  TN__TRY(tn__array_fill(p, weight, 1));
  p->gradients.losses[i] = TN__LOSS_ONES;
  return TN_OK;
}

static tn_code set_output_gradient(tn_program *p, uint32_t i,
                                   tn_array *weight) {
  char name[TN__ENTRY_TEXT], what[TN__ENTRY_TEXT + 32];
  if (tn__entry_is_none(p->gradients.weights[i])) return TN_OK;
  const uint32_t entry = tn__entry_id(p->graph, p->gradients.weights[i]);
  if (!tn__value_is_like(p, entry, weight)) {
    (void)snprintf(what, sizeof what, "the gradient of head `%s`",
                   tn__entry_text(p->graph, p->heads.v[i], name));
    return tn__value_check(p, entry, weight, what);
  }
  if (p->values[entry].n_uses == 0) return TN_OK;
  if (weight && p->gradients.losses[i]) p->gradients.losses[i] = TN__LOSS;
  if (weight) return tn__array_copy(p->values[entry].array, weight);
  if (p->gradients.losses[i])
    return fill_output_gradient(p, i, p->values[entry].array);
  return tn__fail(TN_INVALID,
                  "head `%s` is no loss: its gradient has to be given to "
                  "tn_program_backward",
                  tn__entry_text(p->graph, p->heads.v[i], name));
}

tn_code tn__program_backward(tn_program *p, tn_array *const *weights,
                             size_t n) {
  const tn__step_range range = tn__range_backward(p);
  if (n > p->heads.n)
    return tn__fail(TN_INVALID, "%zu gradients were given for %u heads", n,
                    p->heads.n);
  if (!p->trained)
    return tn__fail(TN_INVALID,
                    "a backward run needs the results of a forward "
                    "run with TN_CALL_TRAIN; run forward first");
  TN__TRY(check_pools(p));
  for (uint32_t i = 0; i < p->heads.n; ++i)
    TN__TRY(set_output_gradient(p, i, i < n ? weights[i] : NULL));
  if (range.n == 0) return TN_OK;
  TN__TRY(prepare_jobs(&p->backward, &range));
  const tn_code rc = push_steps(&p->backward, &range);
  if (rc != TN_OK && !p->monitor) return rc; /* nothing was pushed */
  count_writes(&p->seen[1]);
  p->trained = 0; /* the backward part reuses its memory */
  return rc;
}

/* ------------------------------------------------------------------ queries */

static tn_code get_entry_array(const tn_program *p, tn_entry entry,
                               const char *name, tn_array **out) {
  *out = tn__entry_is_none(entry)
             ? NULL
             : p->values[tn__entry_id(p->graph, entry)].array;
  return *out ? TN_OK
              : tn__fail(TN_NOT_FOUND,
                         "the program has no such array for "
                         "`%s`",
                         name);
}

static const char *const kinds[] = {"argument", "argument", "auxiliary state",
                                    "output"}; /* by TN_PROGRAM_* */

tn_code tn__program_array(const tn_program *p, uint32_t what, const char *name,
                          tn_array **out) {
  *out = NULL;
  if (what >= sizeof kinds / sizeof kinds[0])
    return tn__fail(TN_INVALID,
                    "a program has no arrays of kind %u; use "
                    "TN_PROGRAM_ARGUMENT, _GRADIENT, _AUXILIARY or _OUTPUT",
                    what);
  for (uint32_t i = 0; what == TN_PROGRAM_OUTPUT && i < p->heads.n; ++i) {
    char text[TN__ENTRY_TEXT];
    if (strcmp(tn__entry_text(p->graph, p->heads.v[i], text), name) == 0)
      return tn__program_output(p, i, out);
  }
  const bool state = what == TN_PROGRAM_AUXILIARY;
  const uint32_t first = state ? p->arguments.n : 0;
  const uint32_t n = state ? p->arguments.n_states : p->arguments.n;
  for (uint32_t i = first; what != TN_PROGRAM_OUTPUT && i < first + n; ++i) {
    const tn_entry entry = p->arguments.v[i];
    if (strcmp(tn__node_at(p->graph, entry.node)->name, name) != 0) continue;
    return get_entry_array(
        p, what == TN_PROGRAM_GRADIENT ? p->gradients.v[i] : entry, name, out);
  }
  return tn__fail(TN_NOT_FOUND, "the program has no %s named `%s`", kinds[what],
                  name);
}

tn_code tn__program_output(const tn_program *p, size_t index, tn_array **out) {
  char text[TN__ENTRY_TEXT];
  *out = NULL;
  if (index >= p->heads.n)
    return tn__fail(TN_NOT_FOUND, "the program has %u outputs", p->heads.n);
  return get_entry_array(p, p->heads.v[index],
                         tn__entry_text(p->graph, p->heads.v[index], text),
                         out);
}
