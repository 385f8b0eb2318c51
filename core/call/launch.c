/* SPDX-License-Identifier: Apache-2.0
 * launch.c: turns a planned call into a job of the engine: the variables that
 * it uses, its size, and the owners of its arrays until it ends.
 */
#include "call.h"

/* --------------------------------------------------------------------- uses */

static void add_use(tn__call_state *s, tn__var *var, uint32_t mode) {
  s->access[s->n_access++] = (tn__access){.var = var, .mode = mode};
}

/* An output that keeps a part of its content is updated, not overwritten. */
static uint32_t output_mode(const tn__call_state *s, uint32_t i) {
  const tn__operand *out = &s->out_info[i];
  /* Zeros for a kernel that only adds go into the temporary, if there is one.
   * Otherwise they overwrite the output. */
  if (out->after == TN__AFTER_ADD || out->after == TN__AFTER_SUM_ADD)
    return TN__UPDATE;
  if (s->req[i] == TN_REQ_ADD && out->before != TN__BEFORE_ZERO)
    return TN__UPDATE;
  return tn__array_write_mode(out->array);
}

static void use_outputs(tn__call_state *s) {
  for (uint32_t i = 0; i < s->launch.frame.n_out; ++i) {
    const tn__operand *out = &s->out_info[i];
    if (s->req[i] == TN_REQ_NULL || !out->array) continue;
    add_use(s, &out->array->block->var, output_mode(s, i));
  }
}

uint32_t tn__recipe_list_uses(const tn__recipe *r, tn__caller *caller,
                              tn__scratch_space *space, tn__access *to) {
  uint32_t n = 0;
  if (r->n_random > 0)
    to[n++] = (tn__access){&caller->random.var, TN__OVERWRITE, 0};
  if (r->ordered) to[n++] = (tn__access){&caller->order, TN__OVERWRITE, 0};
  if (!(r->kernel->desc->flags & TN_KERNEL_REENTRANT))
    to[n++] = (tn__access){&caller->serial, TN__OVERWRITE, 0};
  if (space) to[n++] = (tn__access){&space->var, TN__OVERWRITE, 0};
  return n;
}

static void use_resources(tn__call_state *s) {
  const tn__recipe *r = s->recipe;
  const bool wants_space = r->ws_total > 0 && !s->ws_memory;
  if (wants_space) s->space = tn__scratch_next(s->device);
  s->n_access += tn__recipe_list_uses(
      r, s->caller, wants_space ? s->space : NULL, s->access + s->n_access);
}

/* On a device, temporaries are still in use when the job is over. */
static void use_temporaries(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (s->in_info[i].temp)
      add_use(s, &s->in_info[i].temp->block->var, TN__OVERWRITE);
}

void tn__call_list_uses(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  s->n_access = 0;
  for (uint32_t i = 0; i < f->n_in; ++i)
    if (tn__input_is_read(s->in_flags[i]))
      add_use(s, &s->in_info[i].array->block->var, TN__READ);
  use_outputs(s);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    add_use(s, &s->aux_info[i].array->block->var,
            tn__call_changes_state(s->aux_info[i].arg, s->flags) ? TN__UPDATE
                                                                 : TN__READ);
  if (s->device->table) use_temporaries(s);
  use_resources(s);
}

/* ------------------------------------------------------------------- memory */

static bool is_used(const tn__call_state *s, uint32_t i) {
  const tn_frame *f = &s->launch.frame;
  if (!s->in_info[i].array) return false;
  if (i < f->n_in) return tn__input_is_read(s->in_flags[i]);
  return i - f->n_in >= f->n_out || s->req[i - f->n_in] != TN_REQ_NULL;
}

/* An operand that is overwritten as a whole does not need zeros. */
static tn_code materialise_operand(const tn__call_state *s, uint32_t i) {
  const tn_frame *f = &s->launch.frame;
  tn_array *array = s->in_info[i].array;
  bool is_output = i >= f->n_in && i - f->n_in < f->n_out;
  if (is_output && output_mode(s, i - f->n_in) == TN__OVERWRITE)
    return tn__block_materialise(array->block);
  return tn__array_materialise_zeros(array);
}

/* The pushing thread allocates: a thread that waits for the array finds the
 * memory, and a failure is an error of this call. */
tn_code tn__call_materialise(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (is_used(s, i))
      TN__TRY(tn__call_name_memory_failure(s, materialise_operand(s, i)));
  return TN_OK;
}

void tn__call_hold_arrays(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    tn__operand *operand = &s->in_info[i];
    if (operand->array) {
      tn__array_hold(operand->array);
      operand->held |= TN__HELD_ARRAY;
    }
    if (!operand->temp) continue;
    tn__array_hold(operand->temp);
    tn__array_release(operand->temp);
    operand->held |= TN__HELD_TEMP;
  }
}

/* Counts the writes of its outputs and states, once for each push. */
static void count_writes(const tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_out + f->n_aux; ++i)
    if (is_used(s, f->n_in + i) &&
        (i < f->n_out || tn__call_changes_state(s->out_info[i].arg, s->flags)))
      tn__array_count_write(s->out_info[i].array);
}

/* ------------------------------------------------------------------- launch */

static tn_code job_run(void *arg, tn__token *token) {
  return tn__later_return(arg, token, tn__call_compute(arg, token));
}

static void job_drop(void *arg) {
  (void)tn__call_state_release(arg, TN_OK);
}

void tn__call_disown_arrays(tn__call_state *s) {
  const tn_frame *f = &s->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out; ++i) {
    tn__operand *operand = &s->in_info[i];
    if (operand->owned) tn__array_release(operand->array);
    operand->owned = 0;
  }
}

/* A call that completes later may wait for another one. So it does not keep
 * that one waiting for scratch space. */
static tn_code own_workspaces(tn__call_state *s) {
  if (s->recipe->ws_total == 0 || !tn__call_is_later(s)) return TN_OK;
  return tn__call_name_memory_failure(
      s, tn__heap_alloc(s->device, s->recipe->ws_total, "workspaces",
                        &s->ws_memory));
}

tn_code tn__call_launch(tn__call_state *s, const tn_outputs *outputs) {
  tn_code rc = tn__call_materialise(s);
  if (rc == TN_OK) rc = own_workspaces(s);
  if (rc) return tn__call_state_release(s, rc);
  tn__call_list_uses(s);
  count_writes(s);
  tn__call_hold_arrays(s);
  atomic_store_explicit(&s->n_owners, 2, memory_order_relaxed);
  const tn__job job = {.name = s->op->name,
                       .run = job_run,
                       .arg = s,
                       .drop = job_drop,
                       .access = s->access,
                       .n_access = s->n_access,
                       .flags = tn__call_begin_job(s),
                       .queue = s->device->compute};
  tn__engine *engine = s->caller->env->engine;
  rc = tn__call_is_dynamic(s) ? tn__run_here(engine, &job)
                              : tn__push(engine, &job);
  if (rc == TN_OK) tn__call_deliver_outputs(s, outputs);
  tn__call_disown_arrays(s);
  return tn__call_state_release(s, rc);
}
