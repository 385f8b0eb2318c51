/* SPDX-License-Identifier: Apache-2.0
 * segments.c: makes the steps of a sequence jobs of one schedule of the engine.
 * Steps that follow one another in any case form one job, a segment. Segments
 * that do not depend on one another may run at the same time. If a device has
 * queues, segments become operations of a few steps: the fence after each costs
 * the device about as much as a short kernel.
 *
 * The accesses of the jobs keep two orders. The order of data follows from the
 * variables of the blocks that steps read and write. The order of memory: a
 * step may overwrite a part of a pool after the last steps that used it. For
 * that, the writer also overwrites the variables of those steps.
 */
#include <stdio.h>
#include <string.h>

#include "iteration.h"

typedef struct tn__segment_run {
  tn__step_range range;
  uint32_t n_access;
  size_t access; /* index of the segment's first access */
  char name[104];
} tn__segment_run;

/* A range of a pool, with the variable of its last user. */
typedef struct part {
  size_t begin;
  size_t end;
  tn__var *var;
} part;

typedef struct building {
  tn_program *p;
  tn__sequence *sequence;
  uint32_t train;
  uint32_t n_segments;
  tn__access *access;
  size_t n_access;
  size_t capacity;
  bool quiet; /* do not record accesses */
  size_t job; /* index of the current job's first access */
  part *parts;
  size_t n_parts;
  size_t parts_capacity;
  uint8_t *edges; /* for each step ENDS, BEGINS; NULL: all are edges */
} building;

/* ENDS: another queue waits for the step. BEGINS: the step waits for one. */
enum { ENDS = 1, BEGINS = 2 };

/* --------------------------------------------------------------------- uses */

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
static tn_code add_access(building *b, tn__var *var, uint32_t mode) {
  void *list = b->access;
  if (b->quiet) return TN_OK;
  for (size_t i = b->job; i < b->n_access; ++i)
    if (b->access[i].var == var && b->access[i].mode == TN__OVERWRITE)
      return TN_OK;
  TN__TRY(grow_list(b->p->env, &list, sizeof *b->access, b->n_access,
                    &b->capacity));
  b->access = list;
  b->access[b->n_access++] = (tn__access){var, mode, 0};
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
static tn_code add_operand_accesses(building *b, const tn__step *step) {
  const tn_program *p = step->program;
  for (uint32_t i = 0; i < step->n_in; ++i)
    if (!step->shape_only || !step->shape_only[i])
      TN__TRY(add_access(b, get_entry_var(p, step->in[i]), TN__READ));
  for (uint32_t i = 0; i < step->n_out; ++i)
    TN__TRY(add_access(b, get_entry_var(p, step->out[i]),
                       get_access_mode(p, step->out[i])));
  return TN_OK;
}

static tn_code add_call_accesses(building *b, const tn__step *step) {
  const tn__access *uses = NULL;
  const uint32_t n = tn__planned_list_uses(step->call[b->train], &uses);
  for (uint32_t i = 0; i < n; ++i)
    TN__TRY(add_access(b, uses[i].var, uses[i].mode));
  return TN_OK;
}

/* Adds the accesses of a loop: to its operands, and those of its steps. */
static tn_code add_loop_accesses(building *b, const tn__step *step) {
  const tn_program *inner = tn__iteration_program(step);
  TN__TRY(add_operand_accesses(b, step));
  for (uint32_t i = 0; i < inner->n_steps; ++i)
    if (inner->steps[i]->kind == TN__STEP_CALL)
      TN__TRY(add_call_accesses(b, inner->steps[i]));
    else if (inner->steps[i]->kind == TN__STEP_LOOP)
      TN__TRY(add_loop_accesses(b, inner->steps[i]));
    else if (inner->steps[i]->kind != TN__STEP_NOTHING)
      TN__TRY(add_operand_accesses(b, inner->steps[i]));
  return TN_OK;
}

/* ------------------------------------------------------------------- memory */

static tn_code insert_part(building *b, size_t at, part what) {
  void *list = b->parts;
  TN__TRY(grow_list(b->p->env, &list, sizeof *b->parts, b->n_parts,
                    &b->parts_capacity));
  b->parts = list;
  memmove(b->parts + at + 1, b->parts + at,
          (b->n_parts - at) * sizeof *b->parts);
  b->parts[at] = what;
  ++b->n_parts;
  return TN_OK;
}

static size_t find_first_overlap(const building *b, size_t begin) {
  size_t low = 0, high = b->n_parts;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (b->parts[middle].end <= begin)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Makes `var` the last user of the bytes [begin, end). The job waits for the
 * previous users; each of them keeps the rest of its range. */
static tn_code acquire_range(building *b, size_t begin, size_t end,
                             tn__var *var, uint32_t mode) {
  const size_t at = find_first_overlap(b, begin);
  size_t last = at;
  part left = {0}, right = {0};
  for (; last < b->n_parts && b->parts[last].begin < end; ++last) {
    const part old = b->parts[last];
    if (old.var != var) TN__TRY(add_access(b, old.var, TN__OVERWRITE));
    if (old.begin < begin) left = (part){old.begin, begin, old.var};
    if (old.end > end) right = (part){end, old.end, old.var};
  }
  if (last < b->n_parts)
    memmove(b->parts + at, b->parts + last,
            (b->n_parts - last) * sizeof *b->parts);
  b->n_parts -= last - at;
  /* also if nothing is written: the next user waits for `var` */
  TN__TRY(add_access(b, var, mode));
  if (right.var) TN__TRY(insert_part(b, at, right));
  TN__TRY(insert_part(b, at, (part){begin, end, var}));
  return left.var ? insert_part(b, at, left) : TN_OK;
}

/* Number of bytes of all pools before the pool of a device. */
static size_t get_pool_offset(const tn_program *p, int32_t device) {
  size_t at = 0;
  for (size_t i = 0; p->plan.pools[i].device != device; ++i)
    at += p->plan.pools[i].bytes;
  return at;
}

/* Makes the job the user of the memory of a step's outputs and workspace. An
 * entry in the memory of an older entry has the variable of that entry. */
static tn_code acquire_output_memory(building *b, const tn__step *step) {
  const tn_program *p = b->p;
  tn__var *mine = NULL;
  for (uint32_t i = 0; i < step->n_out; ++i) {
    const tn__plan_place *place = tn__plan_place_of(p, step->out[i]);
    if (!place || place->storage < 0) continue;
    const tn__plan_storage *storage = &p->plan.storages[place->storage];
    const bool adds = p->values[step->out[i]].request == TN_REQ_ADD;
    mine = get_entry_var(p, step->out[i]);
    const size_t at = get_pool_offset(p, storage->device) + storage->offset;
    TN__TRY(acquire_range(b, at, at + storage->bytes, mine,
                          adds ? TN__UPDATE : TN__OVERWRITE));
  }
  if (step->reserved == 0) return TN_OK;
  uint32_t mode = TN__UPDATE;
  if (!mine && step->n_out > 0) {
    mine = get_entry_var(p, step->out[0]);
    mode = get_access_mode(p, step->out[0]);
  }
  const size_t at = get_pool_offset(p, tn__device_number(p, step->device)) +
                    p->plan.workspaces[step->id];
  return mine ? acquire_range(b, at, at + step->reserved, mine, mode) : TN_OK;
}

/* Adds read accesses to the signals of the steps for which this step waits. */
static tn_code add_signal_accesses(building *b, const tn__step *step) {
  for (uint32_t i = 0; i < step->n_after; ++i)
    TN__TRY(add_access(b, step->after[i], TN__READ));
  return step->signal ? add_access(b, step->signal, TN__OVERWRITE) : TN_OK;
}

static tn_code add_step_accesses(building *b, const tn__step *step) {
  if (step->kind == TN__STEP_NOTHING) return TN_OK;
  TN__TRY(add_signal_accesses(b, step));
  if (step->kind == TN__STEP_CALL)
    TN__TRY(add_call_accesses(b, step));
  else if (step->kind == TN__STEP_LOOP)
    TN__TRY(add_loop_accesses(b, step));
  else
    TN__TRY(add_operand_accesses(b, step));
  return acquire_output_memory(b, step);
}

/* Adds a read access to a device's pool. Operations may run with those of the
 * next run, of the other part, or of a program that shares the pool. The first
 * ones of each run acquire the pools after all operations that use them. */
static tn_code add_pool_access(building *b, const tn__device *device) {
  tn__block *pool = tn__pool_of(b->p, tn__device_number(b->p, device));
  return pool ? add_access(b, &pool->var, TN__READ) : TN_OK;
}

static tn_code add_queued_accesses(building *b, const tn__step *step) {
  TN__TRY(add_access(b, &b->p->turn, TN__READ));
  TN__TRY(add_pool_access(b, step->device));
  if (step->kind != TN__STEP_COPY) return TN_OK;
  return add_pool_access(b, b->p->values[step->in[0]].device);
}

/* ------------------------------------------------------------------- segments
 */

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
static bool segment_waits_for(const building *b, const tn__segment_run *segment,
                              uint32_t writer) {
  const tn__segment_run *segments = b->sequence->segments;
  const tn__step *first = b->p->steps[segment->range.first];
  const uint32_t at = find_segment(segments, segment, writer);
  for (uint32_t i = 0; i < first->n_in; ++i) {
    const uint32_t entry = first->in[i];
    const uint32_t step = entry == TN_NONE ? TN_NONE : b->p->values[entry].step;
    if (step != TN_NONE && step >= segments->range.first &&
        find_segment(segments, segment, step) == at)
      return true;
  }
  return false;
}

/* Tests whether a long step waits for another branch than its segment does. */
static bool joins_branches(const building *b, const tn__segment_run *segment,
                           const tn__step *step) {
  if (tn__step_is_small(step) || tn__engine_workers(b->p->env->engine) < 2)
    return false;
  if (step->n_after > 0) return true;
  for (uint32_t i = 0; i < step->n_in; ++i) {
    const uint32_t entry = step->in[i];
    const uint32_t writer =
        entry == TN_NONE ? TN_NONE : b->p->values[entry].step;
    if (writer != TN_NONE && writer >= b->sequence->segments->range.first &&
        writer < segment->range.first && !segment_waits_for(b, segment, writer))
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
static tn_code find_edges(building *b) {
  const tn_program *p = b->p;
  if (p->how.flags & TN_BIND_NO_FUSE) return TN_OK;
  b->edges = tn__zalloc(p->env, p->n_steps + 1u);
  if (!b->edges) return tn__fail_memory(p->n_steps, "the jobs of a program");
  for (uint32_t id = 0; id < p->n_steps; ++id) {
    const tn__step *step = p->steps[id];
    if (step->kind == TN__STEP_NOTHING) continue;
    if (step->signal) b->edges[id] |= ENDS;
    if (step->n_after > 0) b->edges[id] |= BEGINS;
    for (uint32_t i = 0; i < step->n_in; ++i) {
      if (step->shape_only && step->shape_only[i]) continue;
      const tn__step *maker = find_source_step(p, step->in[i]);
      if (!maker || tn__step_queue(maker) == tn__step_queue(step)) continue;
      b->edges[maker->id] |= ENDS;
      b->edges[id] |= BEGINS;
    }
  }
  return TN_OK;
}

/* The last step of a segment that has work. */
static const tn__step *find_last_working_step(const building *b,
                                              const tn__segment_run *segment) {
  uint32_t id = segment->range.first + segment->range.n - 1;
  while (b->p->steps[id]->kind == TN__STEP_NOTHING) --id;
  return b->p->steps[id];
}

/* Tests whether a step is enqueued together with the steps before it. A step
 * without work joins any segment: alone it would be a job of the host that
 * waits for the device. */
static bool joins_queued(const building *b, const tn__segment_run *segment,
                         const tn__step *step) {
  enum { MOST = 16 };
  const tn__queue *queue = tn__step_queue(b->p->steps[segment->range.first]);
  if (b->sequence->single) return false;
  if (step->kind == TN__STEP_NOTHING) return true;
  if (!b->edges || !queue || segment->range.n >= MOST ||
      (b->edges[find_last_working_step(b, segment)->id] & ENDS))
    return false;
  return queue == tn__step_queue(step) && !(b->edges[step->id] & BEGINS);
}

/* Whether a step without work begins no segment: no run stops after it. */
static bool begins_no_segment(const building *b, const tn__segment_run *segment,
                              const tn__step *step) {
  return segment->range.n == 0 && step->kind == TN__STEP_NOTHING &&
         b->p->queued && !b->sequence->single;
}

/* Whether a step joins the segment of the step before it. */
static bool can_join_segment(const building *b, const tn__segment_run *segment,
                             const tn__step *step) {
  enum { MOST = 64 };
  if (segment->range.n == 0) return true;
  if (b->p->queued) return joins_queued(b, segment, step);
  const tn__step *before = b->p->steps[step->id - 1];
  if (segment->range.n >= MOST ||
      tn__step_is_small(before) != tn__step_is_small(step))
    return false;
  if (step->kind == TN__STEP_NOTHING) return true;
  return reads_result_of(step, before) && !joins_branches(b, segment, step);
}

/* Replays the memory use of the steps before step `first` without adding
 * accesses. The backward part then finds the forward part's results in the
 * pool, and uses their memory only after their last readers. */
static tn_code replay_memory_use(building *b, uint32_t first) {
  b->quiet = true;
  for (uint32_t i = 0; i < first; ++i)
    if (b->p->steps[i]->kind != TN__STEP_NOTHING)
      TN__TRY(acquire_output_memory(b, b->p->steps[i]));
  b->quiet = false;
  return TN_OK;
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

static tn_code make_segments(building *b, uint32_t first, uint32_t n) {
  const tn_program *p = b->p;
  tn__segment_run *segments = tn__zalloc(p->env, (n + 1u) * sizeof *segments);
  if (!segments)
    return tn__fail_memory(n * sizeof *segments, "the jobs of a program");
  b->sequence->segments = segments;
  tn__segment_run *segment = segments;
  for (uint32_t i = first; i < first + n; ++i) {
    const tn__step *step = p->steps[i];
    if (begins_no_segment(b, segment, step)) continue;
    if (!can_join_segment(b, segment, step)) ++segment;
    if (segment->range.n == 0) {
      b->job = b->n_access;
      *segment = (tn__segment_run){{b->p, i, 0, b->train}, 0, b->n_access, ""};
    }
    TN__TRY(add_step_accesses(b, step));
    if (p->queued && segment->range.n == 0)
      TN__TRY(add_queued_accesses(b, step));
    ++segment->range.n;
    segment->n_access = (uint32_t)(b->n_access - segment->access);
    name_segment(segment);
  }
  b->n_segments = (uint32_t)(segment - segments) + (segment->range.n > 0);
  return TN_OK;
}

/* --------------------------------------------------------------------- jobs */

static tn_code run_segment(void *arg, tn__token *token) {
  const tn__segment_run *segment = arg;
  return tn__range_run(&segment->range, token);
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

static tn_code make_schedule(building *b) {
  tn__segment_run *segments = b->sequence->segments;
  const size_t bytes = (b->n_segments + 1u) * sizeof(tn__job);
  tn__job *jobs = tn__zalloc(b->p->env, bytes);
  if (!jobs) return tn__fail_memory(bytes, "the jobs of a program");
  for (uint32_t i = 0; i < b->n_segments; ++i) {
    jobs[i] =
        (tn__job){.name = segments[i].name,
                  .run = run_segment,
                  .arg = &segments[i],
                  .drop = drop_segment,
                  .access = b->access + segments[i].access,
                  .n_access = segments[i].n_access,
                  .flags = is_small_segment(&segments[i]) ? TN__JOB_SMALL : 0};
    tn__program_hold(b->p);
  }
  const tn_code rc = tn__schedule_create(b->p->env->engine, jobs, b->n_segments,
                                         &b->sequence->schedule);
  if (rc != TN_OK)
    for (uint32_t i = 0; i < b->n_segments; ++i) tn__program_unhold(b->p);
  tn__free(b->p->env, jobs);
  return rc;
}

/* Orders the job after all users of the pools and after the previous run. */
static tn_code add_pool_accesses(building *b, uint32_t turn) {
  TN__TRY(add_access(b, &b->p->turn, turn));
  for (size_t i = 0; i < b->p->plan.n_pools; ++i)
    if (b->p->pools[i])
      TN__TRY(add_access(b, &b->p->pools[i]->var, TN__OVERWRITE));
  return TN_OK;
}

tn_code tn__part_list_uses(const tn__step_range *range, tn__access **access,
                           uint32_t *n_access) {
  tn_program *p = range->program;
  building b = {.p = p, .train = range->train};
  /* runs of single steps only read the turn: an error on it would make all
   * later runs fail */
  tn_code rc = add_pool_accesses(&b, TN__READ);
  for (uint32_t i = 0; rc == TN_OK && i < range->n; ++i)
    rc = add_step_accesses(&b, p->steps[range->first + i]);
  tn__free(p->env, b.parts);
  if (rc != TN_OK) {
    tn__free(p->env, b.access);
    return rc;
  }
  *access = b.access;
  *n_access = (uint32_t)b.n_access;
  return TN_OK;
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

static tn_code add_operation(building *b, const tn__job *job) {
  tn__sequence *to = b->sequence;
  TN__TRY(tn__operation_create(b->p->env->engine, job,
                               &to->operations[to->n_operations]));
  ++to->n_operations;
  tn__program_hold(b->p); /* until its drop */
  return TN_OK;
}

static tn_code make_begin_operations(building *b) {
  tn_program *p = b->p;
  for (size_t i = 0; i < p->plan.n_pools; ++i) {
    if (!p->pools[i]) continue;
    const tn__access access[] = {{&p->turn, TN__READ, 0},
                                 {&p->pools[i]->var, TN__OVERWRITE, 0}};
    const tn__job job = {.name = "a program takes its memory",
                         .run = begin_run,
                         .arg = p,
                         .drop = drop_begin,
                         .access = access,
                         .n_access = 2,
                         .flags = TN__JOB_SMALL,
                         .queue = p->pools[i]->device->compute};
    TN__TRY(add_operation(b, &job));
  }
  b->sequence->n_begins = b->sequence->n_operations;
  return TN_OK;
}

static tn_code make_operations(building *b) {
  tn_program *p = b->p;
  tn__segment_run *segments = b->sequence->segments;
  const size_t bytes =
      (p->plan.n_pools + b->n_segments + 1) * sizeof(tn__operation *);
  b->sequence->operations = tn__zalloc(p->env, bytes);
  if (!b->sequence->operations)
    return tn__fail_memory(bytes, "the operations of a program");
  TN__TRY(make_begin_operations(b));
  for (uint32_t i = 0; i < b->n_segments; ++i) {
    const tn__step *step = p->steps[segments[i].range.first];
    const tn__job job = {.name = segments[i].name,
                         .run = run_segment,
                         .arg = &segments[i],
                         .drop = drop_segment,
                         .access = b->access + segments[i].access,
                         .n_access = segments[i].n_access,
                         .queue = tn__step_queue(step)};
    TN__TRY(add_operation(b, &job));
  }
  return TN_OK;
}

/* --------------------------------------------------------------------- make */

/* Makes the jobs; the last one overwrites the variables that separate runs. */
static tn_code make_jobs(building *b) {
  if (b->p->queued) return make_operations(b);
  if (b->n_segments > 0) {
    TN__TRY(add_pool_accesses(b, TN__OVERWRITE));
    tn__segment_run *last = &b->sequence->segments[b->n_segments - 1];
    last->n_access = (uint32_t)(b->n_access - last->access);
  }
  return make_schedule(b);
}

tn_code tn__sequence_make(tn__sequence *sequence, const tn__step_range *range) {
  tn_program *p = range->program;
  building b = {.p = p, .sequence = sequence, .train = range->train};
  tn_code rc = replay_memory_use(&b, range->first);
  if (rc == TN_OK && p->queued && !sequence->single) rc = find_edges(&b);
  if (rc == TN_OK) rc = make_segments(&b, range->first, range->n);
  if (rc == TN_OK) rc = make_jobs(&b);
  tn__free(p->env, b.edges);
  tn__free(p->env, b.access);
  tn__free(p->env, b.parts);
  if (rc != TN_OK) {
    tn__sequence_end(p, sequence);
    tn__free(p->env, sequence->segments);
    sequence->segments = NULL;
  }
  return rc;
}
