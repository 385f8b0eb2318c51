/* SPDX-License-Identifier: Apache-2.0
 * prepared.c: a planned call of users. It keeps its arrays, and each run is an
 * operation of the engine in push order. A small run on free arrays executes on
 * the calling thread.
 */
#include "call.h"

struct tn_prepared {
  const tn__env *env;
  _Atomic int32_t n_holds; /* the user, and the engine's operation */
  uint8_t idle;            /* no output is requested: there is nothing to do */
  uint8_t small;           /* runs inside of the gate */
  uint8_t shared;          /* runs outside of it, where workers can help */
  tn__planned *planned;
  void *workspace; /* or NULL */
  size_t workspace_bytes;
  tn__block *memory; /* on a device: the block of the workspace; each run uses
                        it, so it is released after the last; or NULL */
  tn__operation *operation;
  tn__access *access; /* those of the state, and `turn` */
  uint32_t n_access;
  uint32_t n_arrays;
  tn_array **arrays; /* owned: arrays that the call keeps for its user; those
                        that it writes are last */
  uint32_t n_written;
  uint32_t reserved2;
  tn__var turn; /* each run writes it */
};

/* ------------------------------------------------------------------- owners */

static void unhold_call(tn_prepared *call) {
  if (atomic_fetch_sub_explicit(&call->n_holds, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = call->env;
  if (call->memory)
    tn__block_release(call->memory);
  else if (call->workspace)
    tn__heap_free(tn__planned_state(call->planned)->device, call->workspace,
                  call->workspace_bytes);
  tn__planned_release(call->planned);
  tn__var_deinit(&call->turn);
  tn__free(env, call->access);
  tn__free(env, call->arrays);
  tn__free(env, call);
}

static void operation_drop(void *arg) {
  unhold_call(arg);
}

/* Ends the user's part at once; pending runs hold the rest. */
void tn__prepared_release(tn_prepared *call) {
  if (!call) return;
  const tn__env *env = call->env;
  tn_array **arrays = call->arrays;
  uint32_t n = call->n_arrays;
  call->arrays = NULL;
  if (call->operation) tn__operation_delete(call->operation);
  unhold_call(call);
  for (uint32_t i = 0; i < n; ++i) tn__array_release(arrays[i]);
  tn__free(env, arrays);
  tn__env_release(env); /* last: it may end the runtime */
}

const tn__env *tn__prepared_env(const tn_prepared *call) {
  return call->env;
}

static tn_code run_planned(void *arg, tn__token *token) {
  const tn_prepared *call = arg;
  return tn__planned_run(call->planned, token);
}

/* ------------------------------------------------------------------- create */

static void array_keep(tn_prepared *call, tn_array *array) {
  if (!array) return;
  atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  call->arrays[call->n_arrays++] = array;
}

static tn_code arrays_keep(tn_prepared *call) {
  const tn__call_state *s = tn__planned_state(call->planned);
  const tn_frame *f = &s->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  call->arrays = tn__alloc(call->env, n * sizeof *call->arrays);
  if (!call->arrays)
    return tn__fail_memory(n * sizeof *call->arrays, "a prepared call");
  for (uint32_t i = 0; i < f->n_in; ++i) array_keep(call, s->in_info[i].array);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    if (!tn__call_changes_state(s->aux_info[i].arg, s->flags))
      array_keep(call, s->aux_info[i].array);
  uint32_t n_read = call->n_arrays;
  for (uint32_t i = 0; i < f->n_out; ++i)
    if (s->req[i] != TN_REQ_NULL) array_keep(call, s->out_info[i].array);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    if (tn__call_changes_state(s->aux_info[i].arg, s->flags))
      array_keep(call, s->aux_info[i].array);
  call->n_written = call->n_arrays - n_read;
  return TN_OK;
}

static tn_code workspace_take(tn_prepared *call, const tn__planned_info *info) {
  if (info->workspace == 0) return TN_OK;
  tn__device *device = tn__planned_state(call->planned)->device;
  call->workspace_bytes = info->workspace;
  if (!device->compute)
    return tn__heap_alloc(device, info->workspace,
                          "the workspaces of a prepared call",
                          &call->workspace);
  TN__TRY(tn__block_create(device, info->workspace, &call->memory));
  TN__TRY(tn__block_materialise(call->memory));
  call->workspace = call->memory->data;
  return TN_OK;
}

static tn_code access_take(tn_prepared *call) {
  const tn__access *uses = NULL;
  const uint32_t n = tn__planned_list_uses(call->planned, &uses);
  call->n_access = n + 1 + (call->memory != NULL);
  size_t bytes = call->n_access * sizeof *call->access;
  call->access = tn__alloc(call->env, bytes);
  if (!call->access) return tn__fail_memory(bytes, "a prepared call");
  for (uint32_t i = 0; i < n; ++i) call->access[i] = uses[i];
  call->access[n] = (tn__access){.var = &call->turn, .mode = TN__OVERWRITE};
  if (call->memory)
    call->access[n + 1] =
        (tn__access){.var = &call->memory->var, .mode = TN__OVERWRITE};
  return TN_OK;
}

static tn_code operation_create(tn_prepared *call) {
  const tn__call_state *s = tn__planned_state(call->planned);
  const tn__job job = {.name = s->op->name,
                       .run = run_planned,
                       .arg = call,
                       .drop = operation_drop,
                       .access = call->access,
                       .n_access = call->n_access,
                       .flags = s->recipe->small ? TN__JOB_SMALL : 0,
                       .queue = s->device->compute};
  TN__TRY(tn__operation_create(call->env->engine, &job, &call->operation));
  atomic_fetch_add_explicit(&call->n_holds, 1, memory_order_relaxed);
  return TN_OK;
}

static tn_code fill_call(tn_prepared *call) {
  const tn__call_state *s = tn__planned_state(call->planned);
  tn__planned_info info;
  tn__planned_describe(call->planned, &info);
  TN__TRY(arrays_keep(call));
  call->idle = info.kernel == NULL;
  if (call->idle) return TN_OK;
  const bool here = s->recipe->small && !s->device->compute;
  call->small = here && !s->recipe->shared;
  call->shared = here && s->recipe->shared;
  for (uint32_t i = 0; i < call->n_arrays; ++i)
    TN__TRY(tn__array_materialise_zeros(call->arrays[i]));
  TN__TRY(workspace_take(call, &info));
  TN__TRY(tn__planned_materialise(call->planned, call->workspace));
  TN__TRY(access_take(call));
  return operation_create(call);
}

static tn_code begin_call(const tn__env *env, tn_prepared **out) {
  tn_prepared *call = tn__zalloc(env, sizeof *call);
  *out = call;
  if (!call) return tn__fail_memory(sizeof *call, "a prepared call");
  call->env = env;
  atomic_init(&call->n_holds, 1);
  tn__env_retain(env);
  return TN_OK;
}

TN__COLD tn_code tn__prepared_create(const tn__target_op *target,
                                     const tn_inputs *in, const tn_outputs *out,
                                     tn_prepared **result) {
  tn_prepared *call = NULL;
  *result = NULL;
  tn_code rc = begin_call(target->caller->env, &call);
  if (rc == TN_OK) rc = tn__planned_create(target, in, out, &call->planned);
  if (rc == TN_OK) rc = fill_call(call);
  if (rc != TN_OK) {
    tn__prepared_release(call);
    return rc;
  }
  tn__planned_deliver(call->planned, out);
  *result = call;
  return TN_OK;
}

/* ---------------------------------------------------------------------- run */

static bool has_free_variables(const tn_prepared *call) {
  for (uint32_t i = 0; i < call->n_access; ++i) {
    const tn__access *a = &call->access[i];
    if (a->mode == TN__READ ? !tn__var_is_readable(a->var)
                            : !tn__var_is_writable(a->var))
      return false;
  }
  return true;
}

static tn_array *const *written_arrays(const tn_prepared *call) {
  return call->arrays + call->n_arrays - call->n_written;
}

static void fail_outputs(tn_prepared *call, tn_code code) {
  for (uint32_t i = 0; i < call->n_written; ++i)
    tn__var_fail(call->env->engine, &written_arrays(call)[i]->block->var, code);
}

static uint32_t inline_choose(void *arg, tn__access *access) {
  const tn_prepared *call = arg;
  if (call->n_access > TN__INLINE_ACCESS || !has_free_variables(call))
    return TN__INLINE_REFUSED;
  for (uint32_t i = 0; i < call->n_access; ++i) access[i] = call->access[i];
  return call->n_access;
}

static tn_code inline_run(void *arg) {
  return run_planned(arg, NULL);
}

static tn_code run_by_engine(tn_prepared *call) {
  const tn__inline_job job = {
      .name = tn__planned_state(call->planned)->op->name,
      .choose = inline_choose,
      .run = inline_run,
      .arg = call};
  tn_code rc = TN_OK;
  if (call->shared && tn__run_inline(call->env->engine, &job, &rc)) return rc;
  return tn__operation_push(call->operation);
}

tn_code tn__prepared_run(tn_prepared *call) {
  if (call->idle) return TN_OK;
  tn__engine *engine = call->env->engine;
  for (uint32_t i = 0; i < call->n_written; ++i)
    tn__array_count_write(written_arrays(call)[i]);
  if (!call->small || !tn__gate_enter(engine)) return run_by_engine(call);
  if (!has_free_variables(call)) {
    tn__gate_leave(engine);
    return tn__operation_push(call->operation);
  }
  tn_code rc = run_planned(call, NULL);
  if (rc != TN_OK) fail_outputs(call, rc);
  tn__gate_leave(engine);
  return rc;
}

typedef struct setting {
  tn_prepared *call;
  const tn_value *value;
  tn_code rc; /* not the engine's: no variable carries it */
} setting;

static tn_code set_run(void *arg, tn__token *token) {
  setting *s = arg;
  (void)token;
  s->rc = tn__planned_set_param(s->call->planned, s->value);
  return TN_OK;
}

/* Pushes a job, because pending runs read the params. */
tn_code tn__prepared_set_param(tn_prepared *call, const tn_value *value) {
  const tn__access use = {&call->turn, TN__OVERWRITE, 0};
  setting s = {call, value, TN_OK};
  const tn__job job = {.name = "tn_call_set",
                       .run = set_run,
                       .arg = &s,
                       .access = &use,
                       .n_access = 1,
                       .flags = TN__JOB_SMALL};
  TN__TRY(tn__run_here(call->env->engine, &job));
  return s.rc;
}
