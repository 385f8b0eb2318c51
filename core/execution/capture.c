/* SPDX-License-Identifier: Apache-2.0
 * capture.c: runs that a device records and then launches as one. All steps are
 * on one queue in order, as they are when each is an operation. The recording
 * therefore has no fences inside. A run is one operation of the engine with the
 * accesses of all steps together. Data that changes between runs is in a
 * mirror, which each run copies to the device first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"
#include "iteration.h"

enum {                /* tn__capture.state */
       STATE_NEW = 0, /* no recording yet: the first run that does not go step
                         by step records */
       STATE_RECORDED = 1,
       STATE_REFUSED = 2, /* `why` has the reason; permanent */
       STATE_LATER = 3,   /* an attempt has failed for the reason `why`; a later
                             run tries again */
       STATE_AGAIN = 4    /* a later attempt is due: the next run records, or
                             launches the recording if there is one */
};

enum { WHY = 512 };

/* PAUSE: number of runs step by step after the first failure that may be
 * temporary, before the next attempt to record. Each failure doubles the
 * number. An attempt costs the host about as much time as a run, so all
 * attempts cost less than an eighth of the runs. */
enum { PAUSE = 8, MOST_DOUBLED = 20 };

/* The recording of one part of a program. Only the pushing thread and the
 * operation that has the program's turn use it; `state` is atomic. The
 * operation owns the fields about failures until the state is LATER; while it
 * is LATER, the pushing thread owns them. */
typedef struct tn__capture {
  tn__step_range range;
  tn__device *device;
  tn__operation *operation; /* NULL: no run that may record was pushed */
  bool is_ready;            /* a run step by step was pushed */
  bool draws;
  uint64_t key;     /* random key of the recording */
  size_t changes;   /* bytes */
  tn__mirror *feed; /* of the changes; NULL: no changes, or no recording */
  void *recording;
  uint32_t n_failed; /* number of failed attempts since the last launch */
  uint64_t n_since;  /* runs step by step since the last failure */
  _Atomic uint32_t state;
  char why[WHY];
  char name[104];
} tn__capture;

/* ------------------------------------------------------------------ reasons */

/* Returns the kernel of a step. If this kind of run is new for the program, the
 * calls are planned at its first run, and the kernel is not known before. */
static const tn__kernel *get_step_kernel(const tn__step *step, uint32_t train) {
  tn__planned_info info = step->info;
  if (step->call[train]) tn__planned_describe(step->call[train], &info);
  return info.kernel;
}

static bool has_dynamic_param(const tn_op *desc) {
  for (uint32_t i = 0; i < desc->n_params; ++i)
    if (desc->params[i]->flags & TN_FIELD_DYNAMIC) return true;
  return false;
}

static bool explain_unrecordable_kernel(const tn__step *step,
                                        const tn__kernel *kernel,
                                        char why[WHY]) {
  (void)snprintf(why, WHY,
                 "node `%.100s`: the kernel %.100s does not declare that it is "
                 "capturable%s",
                 step->node->name, kernel->desc->id,
                 has_dynamic_param(step->node->desc)
                     ? ", with parameters that may change between runs"
                     : "");
  return true;
}

static bool explain_unrecordable_device(const tn__step *step,
                                        const tn__device *device,
                                        char why[WHY]) {
  char here[TN__DEVICE_TEXT], there[TN__DEVICE_TEXT];
  (void)snprintf(why, WHY, "node `%.100s` runs on %s, and others on %s",
                 step->node->name, tn__device_text(step->device, here),
                 tn__device_text(device, there));
  return true;
}

/* Writes the reason why a loop cannot be recorded, and returns true: a kernel
 * cannot be recorded, draws random numbers, or has parameters that change.
 * These would have to change within one launch. Returns false if the loop can
 * be recorded. */
static bool explain_unrecordable_loop(const tn__step *loop, uint32_t train,
                                      char why[WHY]) {
  const tn_program *inner = tn__iteration_program(loop);
  for (uint32_t i = 0; i < inner->n_steps; ++i) {
    const tn__step *step = inner->steps[i];
    const tn__kernel *kernel = get_step_kernel(step, train);
    const tn__planned *call = step->call[train];
    if (step->kind == TN__STEP_LOOP &&
        explain_unrecordable_loop(step, train, why))
      return true;
    if (step->kind != TN__STEP_CALL || !kernel) continue;
    if (!(kernel->desc->flags & TN_KERNEL_CAPTURABLE))
      return explain_unrecordable_kernel(step, kernel, why);
    if (!call || tn__planned_change_bytes(call) == 0) continue;
    (void)snprintf(why, WHY,
                   "node `%.100s` of the loop `%.100s` draws random numbers or "
                   "has parameters that may change between runs",
                   step->node->name, loop->node->name);
    return true;
  }
  return false;
}

static bool explain_unrecordable_step(const tn__step *step,
                                      const tn__device *device, uint32_t train,
                                      char why[WHY]) {
  if (step->kind == TN__STEP_COPY &&
      step->program->values[step->in[0]].device != device)
    return explain_unrecordable_device(
        step, step->program->values[step->in[0]].device, why);
  if (step->kind == TN__STEP_LOOP)
    return explain_unrecordable_loop(step, train, why);
  if (step->kind != TN__STEP_CALL) return false;
  const tn__kernel *kernel = get_step_kernel(step, train);
  return kernel && !(kernel->desc->flags & TN_KERNEL_CAPTURABLE) &&
         explain_unrecordable_kernel(step, kernel, why);
}

/* Finds the device of the first step that has one; NULL: none has. */
static tn__device *find_range_device(const tn__step_range *range) {
  for (uint32_t i = range->first; i < range->first + range->n; ++i)
    if (range->program->steps[i]->kind != TN__STEP_NOTHING)
      return range->program->steps[i]->device;
  return NULL;
}

/* Whether there is a permanent reason against recording. */
static bool is_recording_refused(const tn__step_range *range, char why[WHY]) {
  const tn__device *device = find_range_device(range);
  char place[TN__DEVICE_TEXT];
  if (!device) {
    (void)snprintf(why, WHY, "there is nothing to run");
    return true;
  }
  for (uint32_t i = range->first; i < range->first + range->n; ++i)
    if (range->program->steps[i]->kind != TN__STEP_NOTHING &&
        range->program->steps[i]->device != device)
      return explain_unrecordable_device(range->program->steps[i], device, why);
  if (!tn__device_can_record(device)) {
    (void)snprintf(why, WHY, "%s cannot record",
                   tn__device_text(device, place));
    return true;
  }
  for (uint32_t i = range->first; i < range->first + range->n; ++i)
    if (range->program->steps[i]->kind != TN__STEP_NOTHING &&
        explain_unrecordable_step(range->program->steps[i], device,
                                  range->train, why))
      return true;
  return false;
}

/* ---------------------------------------------------------------- recording */

static tn_code run_steps(const tn__capture *c, tn__token *token) {
  return tn__range_run(&c->range, token);
}

static const tn__planned *get_step_call(const tn__capture *c, uint32_t i) {
  const tn__step *step = c->range.program->steps[c->range.first + i];
  return step->kind == TN__STEP_CALL ? step->call[c->range.train] : NULL;
}

/* Writes the parameters and random numbers that change from run to run, for all
 * steps in order. Other runs claim random numbers in the same order. */
static void write_changes(const tn__capture *c) {
  char *to = tn__mirror_host(c->feed);
  for (uint32_t i = 0; i < c->range.n; ++i) {
    const tn__planned *call = get_step_call(c, i);
    if (!call) continue;
    tn__planned_write_changes(call, to);
    to += tn__planned_change_bytes(call);
  }
}

static uint64_t get_recording_key(const tn__capture *c) {
  return atomic_load(&c->range.program->caller->random.key);
}

/* Releases a recording, of which a launch may still be pending. */
static void drop_recording(tn__capture *c) {
  if (!c->recording) return;
  (void)tn__device_drain(c->device, TN_QUEUE_COMPUTE);
  tn__recording_close(c->device, c->recording);
  c->recording = NULL;
}

static tn_code record_run(tn__capture *c, tn__token *token) {
  drop_recording(c);
  if (c->changes > 0 && !c->feed)
    TN__TRY(tn__mirror_create(c->device, c->changes, &c->feed));
  c->key = get_recording_key(c);
  TN__TRY(tn__recording_begin(token));
  const char *changes = c->feed ? tn__mirror_device(c->feed) : NULL;
  return tn__recording_end(token, tn__range_record(&c->range, changes, token),
                           &c->recording);
}

static void set_state(tn__capture *c, uint32_t state) {
  atomic_store_explicit(&c->state, state, memory_order_release);
}

static uint32_t get_state(const tn__capture *c) {
  return atomic_load_explicit(&c->state, memory_order_acquire);
}

static bool is_recording_current(const tn__capture *c) {
  return c->recording && (!c->draws || c->key == get_recording_key(c));
}

/* Tests whether recording may succeed later, after it has failed with `rc`:
 * memory may become free. A missing feature of a device or kernel stays
 * missing. */
static bool can_succeed_later(tn_code rc) {
  return rc == TN_OUT_OF_MEMORY || rc == TN_BUSY;
}

static void store_failure(tn__capture *c, tn_code rc) {
  (void)snprintf(c->why, WHY, "%s", tn_error_text());
  ++c->n_failed;
  set_state(c, can_succeed_later(rc) ? STATE_LATER : STATE_REFUSED);
}

static bool is_step_by_step(const tn__capture *c) {
  const uint32_t state = get_state(c);
  return state == STATE_REFUSED || state == STATE_LATER;
}

/* Launches the recording. If it fails for lack of memory, it has enqueued
 * nothing, or only the copy of the mirror. */
static tn_code launch_recording(const tn__capture *c, tn__token *token) {
  if (c->feed) TN__TRY(tn__mirror_push(c->feed, token));
  return tn__recording_launch(token, c->recording);
}

static void count_launch(tn__capture *c) {
  if (get_state(c) == STATE_RECORDED) return;
  c->n_failed = 0;
  set_state(c, STATE_RECORDED);
}

/* Launches the recording, or runs the steps one by one if there is no memory
 * for a launch; the recording is kept. Outputs that the run updates in place
 * are still unchanged then. The steps claim the same random numbers, unless
 * another run has claimed some in the meantime. */
static tn_code launch_or_run_steps(tn__capture *c, tn__token *token) {
  tn__random *random = &c->range.program->caller->random;
  const uint64_t before = atomic_load(&random->offset);
  if (c->feed) write_changes(c);
  uint64_t after = atomic_load(&random->offset);
  const tn_code rc = launch_recording(c, token);
  if (rc != TN_OUT_OF_MEMORY) {
    count_launch(c);
    return rc;
  }
  store_failure(c, rc);
  if (c->draws)
    (void)atomic_compare_exchange_strong(&random->offset, &after, before);
  return run_steps(c, token);
}

/* Runs a part that may be recorded: records it, launches the recording, or runs
 * the steps one by one. A failure to record leaves no work enqueued, so this
 * run goes step by step, and so do runs that were pushed before the failure was
 * known. */
static tn_code run_captured(void *arg, tn__token *token) {
  tn__capture *c = arg;
  if (is_step_by_step(c)) return run_steps(c, token);
  if (!is_recording_current(c)) {
    const tn_code rc = record_run(c, token);
    if (rc != TN_OK) {
      store_failure(c, rc);
      return run_steps(c, token);
    }
  }
  return launch_or_run_steps(c, token);
}

/* --------------------------------------------------------------------- push */

static void drop_captured(void *arg) {
  const tn__capture *c = arg;
  tn__program_unhold(c->range.program);
}

/* Variables, sorted by address. */
typedef struct vars {
  const tn__var **v;
  size_t n;
} vars;

static int compare_vars(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t) * (const tn__var *const *)a;
  const uintptr_t y = (uintptr_t) * (const tn__var *const *)b;
  return (x > y) - (x < y);
}

static bool has_var(const vars *list, const tn__var *var) {
  return bsearch(&var, list->v, list->n, sizeof *list->v, compare_vars) != NULL;
}

static void add_entries(const tn_program *p, const uint32_t *entries,
                        uint32_t n, vars *to) {
  for (uint32_t i = 0; i < n; ++i) {
    const tn_array *array = tn__value_array(p, entries[i]);
    if (array) to->v[to->n++] = &array->block->var;
  }
}

static size_t count_listed_entries(const tn_program *p) {
  size_t n = p->n_values;
  for (uint32_t i = 0; i < p->n_steps; ++i)
    n += p->steps[i]->n_in + p->steps[i]->n_out;
  return n + 1;
}

/* Lists the variables of entries that are used outside of the part: by users,
 * or by the other part of the program. */
static tn_code find_outer_vars(const tn__capture *c, vars *out) {
  const tn_program *p = c->range.program;
  const size_t bytes = count_listed_entries(p) * sizeof *out->v;
  out->v = tn__alloc(p->env, bytes);
  if (!out->v) return tn__fail_memory(bytes, "a recording");
  for (uint32_t i = 0; i < p->n_steps; ++i) {
    const tn__step *step = p->steps[i];
    if (i >= c->range.first && i < c->range.first + c->range.n) continue;
    add_entries(p, step->in, step->n_in, out);
    add_entries(p, step->out, step->n_out, out);
  }
  for (uint32_t i = 0; i < p->n_values; ++i) {
    const tn__plan_place *place = tn__plan_place_of(p, i);
    if (!place || place->storage < 0 ||
        (p->values[i].flags & (TN__ENTRY_EXTERNAL | TN__ENTRY_HEAD)))
      add_entries(p, &i, 1, out);
  }
  qsort(out->v, out->n, sizeof *out->v, compare_vars);
  return TN_OK;
}

/* Lists the variables of all entries of the program. */
static tn_code find_all_vars(const tn_program *p, vars *out) {
  const size_t bytes = (p->n_values + 1u) * sizeof *out->v;
  out->v = tn__alloc(p->env, bytes);
  if (!out->v) return tn__fail_memory(bytes, "a recording");
  for (uint32_t i = 0; i < p->n_values; ++i) add_entries(p, &i, 1, out);
  qsort(out->v, out->n, sizeof *out->v, compare_vars);
  return TN_OK;
}

/* Removes accesses to entries in a pool that only this part uses: the access to
 * the pool suffices. Otherwise a launch would leave a fence on each of
 * thousands of variables. */
static tn_code trim_accesses(const tn__capture *c, tn__access *access,
                             uint32_t *n) {
  const tn_program *p = c->range.program;
  vars outer = {0}, all = {0};
  uint32_t left = 0;
  tn_code rc = find_outer_vars(c, &outer);
  if (rc == TN_OK) rc = find_all_vars(p, &all);
  for (uint32_t i = 0; rc == TN_OK && i < *n; ++i)
    if (has_var(&outer, access[i].var) || !has_var(&all, access[i].var))
      access[left++] = access[i];
  if (rc == TN_OK) *n = left;
  tn__free(p->env, outer.v);
  tn__free(p->env, all.v);
  return rc;
}

static tn_code find_accesses(const tn__capture *c, tn__access **access,
                             uint32_t *n) {
  const tn_program *p = c->range.program;
  TN__TRY(tn__part_list_uses(&c->range, access, n));
  const tn_code rc = trim_accesses(c, *access, n);
  if (rc != TN_OK) tn__free(p->env, *access);
  return rc;
}

static tn_code make_operation(tn__capture *c) {
  tn_program *p = c->range.program;
  tn__access *access = NULL;
  uint32_t n_access = 0;
  TN__TRY(find_accesses(c, &access, &n_access));
  const tn__job job = {.name = c->name,
                       .run = run_captured,
                       .arg = c,
                       .drop = drop_captured,
                       .access = access,
                       .n_access = n_access,
                       .queue = c->device->compute};
  const tn_code rc = tn__operation_create(p->env->engine, &job, &c->operation);
  tn__free(p->env, access);
  if (rc == TN_OK) tn__program_hold(p); /* until its drop */
  return rc;
}

/* Makes the name of a launch for error texts: the first and the last node of
 * the part. */
static void make_name(tn__capture *c) {
  const tn_program *p = c->range.program;
  (void)snprintf(c->name, sizeof c->name, "program `%.40s .. %.40s`",
                 p->steps[c->range.first]->node->name,
                 p->steps[c->range.first + c->range.n - 1]->node->name);
}

static tn_code make_capture(const tn__step_range *range, tn__capture **out) {
  tn_program *p = range->program;
  tn__capture *c = tn__arena_alloc(&p->arena, sizeof *c);
  if (!c) return tn__fail_memory(sizeof *c, "a recording");
  *c = (tn__capture){.range = *range, .device = find_range_device(range)};
  *out = c;
  if (is_recording_refused(range, c->why)) {
    set_state(c, STATE_REFUSED);
    return TN_OK;
  }
  make_name(c);
  for (uint32_t i = 0; i < range->n; ++i) {
    const tn__planned *call = get_step_call(c, i);
    if (!call) continue;
    c->changes += tn__planned_change_bytes(call);
    c->draws |= tn__planned_has_random(call);
  }
  return TN_OK;
}

/* Tests whether the run that is pushed now may record or launch. After a
 * failure that may be temporary, it counts the runs until the next attempt. */
static bool can_record_or_launch(tn__capture *c) {
  const uint32_t state = get_state(c);
  if (!c->is_ready || state == STATE_REFUSED) return false;
  if (state != STATE_LATER) return true;
  const uint32_t doubled =
      c->n_failed - 1 < MOST_DOUBLED ? c->n_failed - 1 : MOST_DOUBLED;
  if (c->n_since++ < (uint64_t)PAUSE << doubled) return false;
  c->n_since = 0;
  set_state(c, STATE_AGAIN);
  return true;
}

tn_code tn__capture_push(tn__sequence *sequence, const tn__step_range *range) {
  const tn_program *p = range->program;
  if (!(p->how.flags & TN_BIND_CAPTURE)) return tn__sequence_push(p, sequence);
  if (!sequence->captured) TN__TRY(make_capture(range, &sequence->captured));
  tn__capture *c = sequence->captured;
  if (!can_record_or_launch(c)) {
    TN__TRY(tn__sequence_push(p, sequence));
    c->is_ready = true;
    return TN_OK;
  }
  if (!c->operation) TN__TRY(make_operation(c));
  return tn__operations_push(&c->operation, 1);
}

void tn__capture_stop(const tn__sequence *sequence) {
  const tn__capture *c = sequence->captured;
  if (c && c->operation) tn__operation_delete(c->operation);
}

void tn__capture_free(tn__sequence *sequence) {
  tn__capture *c = sequence->captured;
  if (!c) return;
  tn__recording_close(c->device, c->recording);
  tn__mirror_free(c->feed);
  sequence->captured = NULL;
}

/* ------------------------------------------------------------------ queries */

static const tn__sequence *get_sequence(const tn_program *p, uint32_t part) {
  return part == TN_PART_BACKWARD ? &p->backward : &p->forward[part];
}

static const char later[] = "; it will be tried again";

/* Writes the reason why the next run of a part will not be a launch. Returns
 * false if it will be a launch. */
static bool explain_no_launch(const tn_program *p, uint32_t part,
                              char why[WHY]) {
  tn_program *program = (tn_program *)(uintptr_t)p; /* a range to read only */
  const tn__step_range all =
      part == TN_PART_BACKWARD
          ? tn__range_backward(program)
          : tn__range_forward(program, part != TN_PART_FORWARD);
  const tn__capture *c = get_sequence(p, part)->captured;
  why[0] = '\0';
  if (!(p->how.flags & TN_BIND_CAPTURE))
    (void)snprintf(why, WHY, "tn_bind.flags has no TN_BIND_CAPTURE");
  else if (c && get_state(c) == STATE_REFUSED)
    (void)snprintf(why, WHY, "%s", c->why);
  else if (c && get_state(c) == STATE_LATER)
    (void)snprintf(why, WHY, "%.*s%s", (int)(WHY - sizeof later), c->why,
                   later);
  else if (!c && is_recording_refused(&all, why))
    return true;
  else if (p->monitor)
    (void)snprintf(why, WHY, "a monitor looks at each step");
  else if (!c || get_state(c) == STATE_NEW)
    (void)snprintf(why, WHY, "the second run will be recorded");
  else if (get_state(c) == STATE_AGAIN)
    (void)snprintf(why, WHY, "the next run tries that again");
  return why[0] != '\0';
}

tn_code tn__program_captured(tn_program *p, uint32_t part, tn_text **why) {
  char text[WHY];
  tn__buf buf;
  *why = NULL;
  if (part > TN_PART_BACKWARD)
    return tn__fail(TN_INVALID, "a program has no part %u", part);
  tn__program_wait_runs(p);
  if (!explain_no_launch(p, part, text)) return TN_OK;
  tn__buf_init(&buf, p->env);
  tn__buf_add(&buf, "%s", text);
  const tn_code rc = tn__buf_text(&buf, why);
  tn__buf_deinit(&buf);
  return rc;
}

void tn__capture_print(const tn_program *p, tn__buf *out) {
  static const char *const parts[] = {"forward", "training", "backward"};
  char why[WHY];
  if (!(p->how.flags & TN_BIND_CAPTURE)) return;
  for (uint32_t part = 0; part <= TN_PART_BACKWARD; ++part) {
    if (part == TN_PART_BACKWARD && p->n_steps == p->n_forward) continue;
    if (explain_no_launch(p, part, why))
      tn__buf_add(out, "%s runs are made step by step: %s\n", parts[part], why);
    else
      tn__buf_add(out, "%s runs are launched as one\n", parts[part]);
  }
}
