/* SPDX-License-Identifier: Apache-2.0
 * step_accesses.c: lists the variables that the jobs of steps read and write.
 * Their accesses keep two orders. The order of data follows from the variables
 * of the blocks that steps read and write. The order of memory: a step may
 * overwrite a part of a pool after the last steps that used it. For that, the
 * writer also overwrites the variables of those steps.
 */
#include <string.h>

#include "iteration.h"
#include "segments.h"

/* ----------------------------------------------------------------- operands */

static tn_code grow_list(const tn__env *env, void **list, size_t each, size_t n,
                         size_t *capacity) {
  if (n < *capacity) return TN_OK;
  const size_t more = *capacity < 64 ? 64 : 2 * *capacity;
  void *longer = tn__alloc(env, more * each);
  if (!longer) return tn__fail_memory(more * each, "the jobs of a program");
  if (n > 0) memcpy(longer, *list, n * each);
  tn__free(env, *list);
  *list = longer;
  *capacity = more;
  return TN_OK;
}

/* Adds an access of the current job to a variable. A job that overwrites a
 * variable gets no read access to it: with one, an old error would stay on the
 * variable for ever. */
static tn_code add_access(tn__access_list *a, tn__var *var, uint32_t mode) {
  void *list = a->access;
  if (a->quiet) return TN_OK;
  for (size_t i = a->job; i < a->n_access; ++i)
    if (a->access[i].var == var && a->access[i].mode == TN__OVERWRITE)
      return TN_OK;
  TN__TRY(grow_list(a->p->env, &list, sizeof *a->access, a->n_access,
                    &a->capacity));
  a->access = list;
  a->access[a->n_access++] = (tn__access){var, mode, 0};
  return TN_OK;
}

static tn__var *get_entry_var(const tn_program *p, uint32_t entry) {
  return &p->values[entry].array->block->var;
}

/* Returns the access mode of an output. An output without a request counts as
 * overwritten, because the step may have it only to reserve memory. */
static uint32_t get_access_mode(const tn_program *p, uint32_t entry) {
  const tn__value *value = &p->values[entry];
  if (value->request == TN_REQ_NULL) return TN__OVERWRITE;
  return value->request == TN_REQ_ADD ? TN__UPDATE
                                      : tn__array_write_mode(value->array);
}

/* Adds the accesses to the operands of a step, possibly of a loop's step. */
static tn_code add_operand_accesses(tn__access_list *a, const tn__step *step) {
  const tn_program *p = step->program;
  for (uint32_t i = 0; i < step->n_in; ++i)
    if (!step->shape_only || !step->shape_only[i])
      TN__TRY(add_access(a, get_entry_var(p, step->in[i]), TN__READ));
  for (uint32_t i = 0; i < step->n_out; ++i)
    TN__TRY(add_access(a, get_entry_var(p, step->out[i]),
                       get_access_mode(p, step->out[i])));
  return TN_OK;
}

static tn_code add_call_accesses(tn__access_list *a, const tn__step *step) {
  const tn__access *uses = NULL;
  const uint32_t n = tn__planned_list_uses(step->call[a->train], &uses);
  for (uint32_t i = 0; i < n; ++i)
    TN__TRY(add_access(a, uses[i].var, uses[i].mode));
  return TN_OK;
}

/* Adds the accesses of a loop: to its operands, and those of its steps. */
static tn_code add_loop_accesses(tn__access_list *a, const tn__step *step) {
  const tn_program *inner = tn__iteration_program(step);
  TN__TRY(add_operand_accesses(a, step));
  for (uint32_t i = 0; i < inner->n_steps; ++i)
    if (inner->steps[i]->kind == TN__STEP_CALL)
      TN__TRY(add_call_accesses(a, inner->steps[i]));
    else if (inner->steps[i]->kind == TN__STEP_LOOP)
      TN__TRY(add_loop_accesses(a, inner->steps[i]));
    else if (inner->steps[i]->kind != TN__STEP_NOTHING)
      TN__TRY(add_operand_accesses(a, inner->steps[i]));
  return TN_OK;
}

/* ------------------------------------------------------------------- memory */

static tn_code insert_range(tn__access_list *a, size_t at,
                            tn__used_range what) {
  void *list = a->ranges;
  TN__TRY(grow_list(a->p->env, &list, sizeof *a->ranges, a->n_ranges,
                    &a->ranges_capacity));
  a->ranges = list;
  memmove(a->ranges + at + 1, a->ranges + at,
          (a->n_ranges - at) * sizeof *a->ranges);
  a->ranges[at] = what;
  ++a->n_ranges;
  return TN_OK;
}

static size_t find_first_overlap(const tn__access_list *a, size_t begin) {
  size_t low = 0, high = a->n_ranges;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (a->ranges[middle].end <= begin)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Makes `var` the last user of the bytes [begin, end). The job waits for the
 * previous users; each of them keeps the rest of its range. */
static tn_code acquire_range(tn__access_list *a, size_t begin, size_t end,
                             tn__var *var, uint32_t mode) {
  const size_t at = find_first_overlap(a, begin);
  size_t last = at;
  tn__used_range left = {0}, right = {0};
  for (; last < a->n_ranges && a->ranges[last].begin < end; ++last) {
    const tn__used_range old = a->ranges[last];
    if (old.var != var) TN__TRY(add_access(a, old.var, TN__OVERWRITE));
    if (old.begin < begin) left = (tn__used_range){old.begin, begin, old.var};
    if (old.end > end) right = (tn__used_range){end, old.end, old.var};
  }
  if (last < a->n_ranges)
    memmove(a->ranges + at, a->ranges + last,
            (a->n_ranges - last) * sizeof *a->ranges);
  a->n_ranges -= last - at;
  /* also if nothing is written: the next user waits for `var` */
  TN__TRY(add_access(a, var, mode));
  if (right.var) TN__TRY(insert_range(a, at, right));
  TN__TRY(insert_range(a, at, (tn__used_range){begin, end, var}));
  return left.var ? insert_range(a, at, left) : TN_OK;
}

/* Number of bytes of all pools before the pool of a device. */
static size_t get_pool_offset(const tn_program *p, int32_t device) {
  size_t at = 0;
  for (size_t i = 0; p->memory.plan.pools[i].device != device; ++i)
    at += p->memory.plan.pools[i].bytes;
  return at;
}

/* Makes the job the user of the memory of a step's outputs and workspace. An
 * entry in the memory of an older entry has the variable of that entry. */
static tn_code acquire_output_memory(tn__access_list *a, const tn__step *step) {
  const tn_program *p = a->p;
  tn__var *mine = NULL;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn__plan_place *place = tn__plan_place_of(p, step->out[i]);
    if (!place || place->storage < 0) continue;
    const tn__plan_storage *storage = &p->memory.plan.storages[place->storage];
    const bool adds = p->values[step->out[i]].request == TN_REQ_ADD;
    mine = get_entry_var(p, step->out[i]);
    const size_t at = get_pool_offset(p, storage->device) + storage->offset;
    TN__TRY(acquire_range(a, at, at + storage->bytes, mine,
                          adds ? TN__UPDATE : TN__OVERWRITE));
  }
  if (step->reserved == 0) return TN_OK;
  uint32_t mode = TN__UPDATE;
  if (!mine && step->n_out > 0) {
    mine = get_entry_var(p, step->out[0]);
    mode = get_access_mode(p, step->out[0]);
  }
  const size_t at = get_pool_offset(p, tn__device_number(p, step->device)) +
                    p->memory.plan.workspaces[step->id];
  return mine ? acquire_range(a, at, at + step->reserved, mine, mode) : TN_OK;
}

/* Adds read accesses to the signals of the steps for which this step waits. */
static tn_code add_signal_accesses(tn__access_list *a, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_after; ++i)
    TN__TRY(add_access(a, step->after[i], TN__READ));
  return step->signal ? add_access(a, step->signal, TN__OVERWRITE) : TN_OK;
}

tn_code tn__accesses_add_step(tn__access_list *a, const tn__step *step) {
  if (step->kind == TN__STEP_NOTHING) return TN_OK;
  TN__TRY(add_signal_accesses(a, step));
  if (step->kind == TN__STEP_CALL)
    TN__TRY(add_call_accesses(a, step));
  else if (step->kind == TN__STEP_LOOP)
    TN__TRY(add_loop_accesses(a, step));
  else
    TN__TRY(add_operand_accesses(a, step));
  return acquire_output_memory(a, step);
}

tn_code tn__accesses_replay(tn__access_list *a, uint32_t first) {
  a->quiet = true;
  for (uint32_t i = 0; i < first; ++i)
    if (a->p->steps[i]->kind != TN__STEP_NOTHING)
      TN__TRY(acquire_output_memory(a, a->p->steps[i]));
  a->quiet = false;
  return TN_OK;
}

/* -------------------------------------------------------------------- pools */

/* Adds a read access to a device's pool. Operations may run with those of the
 * next run, of the other part, or of a program that shares the pool. The first
 * ones of each run acquire the pools after all operations that use them. */
static tn_code add_pool_access(tn__access_list *a, const tn__device *device) {
  tn__block *pool = tn__pool_of(a->p, tn__device_number(a->p, device));
  return pool ? add_access(a, &pool->var, TN__READ) : TN_OK;
}

tn_code tn__accesses_add_queued(tn__access_list *a, const tn__step *step) {
  TN__TRY(add_access(a, &a->p->turn, TN__READ));
  TN__TRY(add_pool_access(a, step->device));
  if (step->kind != TN__STEP_COPY) return TN_OK;
  return add_pool_access(a, a->p->values[step->in[0]].device);
}

tn_code tn__accesses_add_pools(tn__access_list *a, uint32_t turn) {
  TN__TRY(add_access(a, &a->p->turn, turn));
  for (size_t i = 0; i < a->p->memory.plan.n_pools; ++i)
    if (a->p->memory.pools[i])
      TN__TRY(add_access(a, &a->p->memory.pools[i]->var, TN__OVERWRITE));
  return TN_OK;
}

/* -------------------------------------------------------------------- lists */

void tn__accesses_free(tn__access_list *a) {
  tn__free(a->p->env, a->access);
  tn__free(a->p->env, a->ranges);
}

tn_code tn__part_list_uses(const tn__step_range *range, tn__access **access,
                           uint32_t *n_access) {
  tn_program *p = range->program;
  tn__access_list a = {.p = p, .train = range->train};
  /* runs of single steps only read the turn: an error on it would make all
   * later runs fail */
  tn_code rc = tn__accesses_add_pools(&a, TN__READ);
  for (uint32_t i = 0; rc == TN_OK && i < range->n; ++i)
    rc = tn__accesses_add_step(&a, p->steps[range->first + i]);
  if (rc == TN_OK) {
    *access = a.access;
    *n_access = (uint32_t)a.n_access;
    a.access = NULL;
  }
  tn__accesses_free(&a);
  return rc;
}
