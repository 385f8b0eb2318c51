/* SPDX-License-Identifier: Apache-2.0
 * launch.c: a planned call becomes a job of the engine: what it uses, how short
 * it is, who owns what meanwhile.
 */
#include "call.h"

enum { /* bytes that a call on the calling thread may touch */
       SMALL_ELEMENTWISE = 4 << 20, /* a tenth of a millisecond or so */
       SMALL_OTHER = 128 << 10,     /* a matrix product of 100 by 100 */
       /* and from which on others are let in: marks on the variables cost a
        * twentieth of it */
       SHARED_ELEMENTWISE = 256 << 10
};

/* ------------------------------------------------------------------- size */

/* Of all operands but unwanted outputs. */
static uint64_t operand_bytes(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    const bool output = i >= f->n_in && i < f->n_in + f->n_out;
    if (w->in[i].ndim < 0 || (output && w->req[i - f->n_in] == TN_REQ_NULL))
      continue;
    bytes +=
        (uint64_t)(tn_tensor_size(&w->in[i]) * tn_dtype_bytes(w->in[i].dtype));
  }
  return bytes;
}

bool tn__work_is_small(const tn__work *w) {
  uint32_t flags = w->choice.kernel->desc->flags;
  uint64_t most =
      flags & TN_KERNEL_ELEMENTWISE ? SMALL_ELEMENTWISE : SMALL_OTHER;
  return operand_bytes(w) <= most;
}

bool tn__work_is_shared(const tn__work *w) {
  return (w->choice.kernel->desc->flags & TN_KERNEL_ELEMENTWISE) != 0 &&
         tn__engine_workers(w->caller->env->engine) > 1 &&
         operand_bytes(w) >= SHARED_ELEMENTWISE;
}

/* ------------------------------------------------------------------- uses */

static void use(tn__work *w, tn__var *var, uint32_t mode) {
  w->access[w->n_access++] = (tn__access){.var = var, .mode = mode};
}

/* What is added to, or starts as it was, is not overwritten. */
static uint32_t output_mode(const tn__work *w, uint32_t i) {
  const tn__operand *out = &w->out_info[i];
  /* Zeros for a kernel that only adds go into the temporary, if there is one,
   * and otherwise overwrite the output. */
  if (out->after == TN__AFTER_ADD || out->after == TN__AFTER_SUM_ADD)
    return TN__UPDATE;
  if (w->req[i] == TN_REQ_ADD && out->before != TN__BEFORE_ZERO)
    return TN__UPDATE;
  return tn__array_write_mode(out->array);
}

static void use_outputs(tn__work *w) {
  for (uint32_t i = 0; i < w->launch.frame.n_out; ++i) {
    const tn__operand *out = &w->out_info[i];
    if (w->req[i] == TN_REQ_NULL || !out->array) continue;
    use(w, &out->array->block->var, output_mode(w, i));
  }
}

uint32_t tn__recipe_uses(const tn__recipe *r, tn__caller *caller,
                         tn__scratch_space *space, tn__access *to) {
  uint32_t n = 0;
  if (r->n_random > 0)
    to[n++] = (tn__access){&caller->random.var, TN__OVERWRITE, 0};
  if (!(r->kernel->desc->flags & TN_KERNEL_REENTRANT))
    to[n++] = (tn__access){&caller->serial, TN__OVERWRITE, 0};
  if (space) to[n++] = (tn__access){&space->var, TN__OVERWRITE, 0};
  return n;
}

static void use_resources(tn__work *w) {
  const tn__recipe *r = w->recipe;
  const bool wants_space = r->ws_total > 0 && !w->ws_memory;
  if (wants_space) w->space = tn__scratch_next(w->device);
  w->n_access += tn__recipe_uses(r, w->caller, wants_space ? w->space : NULL,
                                 w->access + w->n_access);
}

/* On a device they are in use when the job is over. */
static void use_temporaries(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (w->in_info[i].temp)
      use(w, &w->in_info[i].temp->block->var, TN__OVERWRITE);
}

void tn__work_uses(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  w->n_access = 0;
  for (uint32_t i = 0; i < f->n_in; ++i)
    if (tn__input_is_read(w->in_flags[i]))
      use(w, &w->in_info[i].array->block->var, TN__READ);
  use_outputs(w);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    use(w, &w->aux_info[i].array->block->var,
        tn__state_changes(w->aux_info[i].arg, w->flags) ? TN__UPDATE
                                                        : TN__READ);
  if (w->device->table) use_temporaries(w);
  use_resources(w);
}

/* ----------------------------------------------------------------- memory */

static bool is_used(const tn__work *w, uint32_t i) {
  const tn_frame *f = &w->launch.frame;
  if (!w->in_info[i].array) return false;
  if (i < f->n_in) return tn__input_is_read(w->in_flags[i]);
  return i - f->n_in >= f->n_out || w->req[i - f->n_in] != TN_REQ_NULL;
}

/* What is overwritten as a whole need not be zeros before. */
static tn_code take_memory(const tn__work *w, uint32_t i) {
  const tn_frame *f = &w->launch.frame;
  tn_array *array = w->in_info[i].array;
  bool is_output = i >= f->n_in && i - f->n_in < f->n_out;
  if (is_output && output_mode(w, i - f->n_in) == TN__OVERWRITE)
    return tn__block_materialise(array->block);
  return tn__array_materialise_zeros(array);
}

/* Memory is taken by who pushes: whoever waits for the array finds it there,
 * and there being none is this call's error. */
tn_code tn__work_memory(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i)
    if (is_used(w, i)) TN__TRY(tn__work_short(w, take_memory(w, i)));
  return TN_OK;
}

void tn__work_hold(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out + f->n_aux; ++i) {
    tn__operand *operand = &w->in_info[i];
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

void tn__work_written(const tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_out + f->n_aux; ++i)
    if (is_used(w, f->n_in + i) &&
        (i < f->n_out || tn__state_changes(w->out_info[i].arg, w->flags)))
      tn__array_written(w->out_info[i].array);
}

/* ----------------------------------------------------------------- launch */

static tn_code job_run(void *arg, tn__token *token) {
  return tn__work_compute(arg, token);
}

static void job_drop(void *arg) {
  (void)tn__work_close(arg, TN_OK);
}

void tn__work_disown(tn__work *w) {
  const tn_frame *f = &w->launch.frame;
  for (uint32_t i = 0; i < f->n_in + f->n_out; ++i) {
    tn__operand *operand = &w->in_info[i];
    if (operand->owned) tn__array_release(operand->array);
    operand->owned = 0;
  }
}

tn_code tn__work_launch(tn__work *w, const tn_outputs *outputs) {
  tn_code rc = tn__work_memory(w);
  if (rc) return tn__work_close(w, rc);
  tn__work_uses(w);
  tn__work_written(w);
  tn__work_hold(w);
  atomic_store_explicit(&w->n_owners, 2, memory_order_relaxed);
  const tn__job job = {.name = w->op->name,
                       .run = job_run,
                       .arg = w,
                       .drop = job_drop,
                       .access = w->access,
                       .n_access = w->n_access,
                       .flags = w->recipe->small ? TN__JOB_SMALL : 0,
                       .queue = w->device->compute};
  tn__engine *engine = w->caller->env->engine;
  rc = tn__work_is_dynamic(w) ? tn__run_here(engine, &job)
                              : tn__push(engine, &job);
  if (rc == TN_OK) tn__work_deliver(w, outputs);
  tn__work_disown(w);
  return tn__work_close(w, rc);
}
