/* SPDX-License-Identifier: Apache-2.0
 * prepared.c: a planned call that users make again and again: it keeps its
 * arrays and takes its turn.
 */
#include "call.h"

struct tn_prepared {
  const tn__env *env;
  _Atomic int32_t n_holds; /* who prepared it, and the engine's operation */
  uint8_t idle;            /* no output is wanted: there is nothing to do */
  uint8_t small;           /* to be made inside of the gate */
  uint8_t shared;          /* outside, where workers can take part */
  tn__planned *planned;
  void *workspace; /* or NULL */
  size_t workspace_bytes;
  tn__block *room; /* of a device: where it lies, used by each run, so that it
                      is given back behind the last; or NULL */
  tn__operation *operation;
  tn__access *access; /* the work's, and `turn` */
  uint32_t n_access;
  uint32_t n_arrays;
  tn_array **arrays; /* owned: what the call keeps for its user; those that it
                        writes come last */
  uint32_t n_written;
  uint32_t reserved2;
  tn__var turn; /* written by each run */
};

/* ------------------------------------------------------------------ owners */

static void unhold(tn_prepared *call) {
  if (atomic_fetch_sub_explicit(&call->n_holds, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = call->env;
  if (call->room)
    tn__block_release(call->room);
  else if (call->workspace)
    tn__heap_free(tn__planned_work(call->planned)->device, call->workspace,
                  call->workspace_bytes);
  tn__planned_release(call->planned);
  tn__var_deinit(&call->turn);
  tn__free(env, call->access);
  tn__free(env, call->arrays);
  tn__free(env, call);
}

static void operation_drop(void *arg) {
  unhold(arg);
}

/* The user's part ends at once; what is on its way holds the rest. */
void tn__prepared_release(tn_prepared *call) {
  if (!call) return;
  const tn__env *env = call->env;
  tn_array **arrays = call->arrays;
  uint32_t n = call->n_arrays;
  call->arrays = NULL;
  if (call->operation) tn__operation_delete(call->operation);
  unhold(call);
  for (uint32_t i = 0; i < n; ++i) tn__array_release(arrays[i]);
  tn__free(env, arrays);
  tn__env_release(env); /* last: it may be the end of the runtime */
}

const tn__env *tn__prepared_env(const tn_prepared *call) {
  return call->env;
}

static tn_code run(void *arg, tn__token *token) {
  const tn_prepared *call = arg;
  return tn__planned_run(call->planned, token);
}

/* ------------------------------------------------------------------ create */

static void array_keep(tn_prepared *call, tn_array *array) {
  if (!array) return;
  atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  call->arrays[call->n_arrays++] = array;
}

static tn_code arrays_keep(tn_prepared *call) {
  const tn__work *w = tn__planned_work(call->planned);
  const tn_frame *f = &w->launch.frame;
  uint32_t n = f->n_in + f->n_out + f->n_aux;
  call->arrays = tn__alloc(call->env, n * sizeof *call->arrays);
  if (!call->arrays)
    return tn__fail_memory(n * sizeof *call->arrays, "a prepared call");
  for (uint32_t i = 0; i < f->n_in; ++i) array_keep(call, w->in_info[i].array);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    if (!tn__state_changes(w->aux_info[i].arg, w->flags))
      array_keep(call, w->aux_info[i].array);
  uint32_t n_read = call->n_arrays;
  for (uint32_t i = 0; i < f->n_out; ++i)
    if (w->req[i] != TN_REQ_NULL) array_keep(call, w->out_info[i].array);
  for (uint32_t i = 0; i < f->n_aux; ++i)
    if (tn__state_changes(w->aux_info[i].arg, w->flags))
      array_keep(call, w->aux_info[i].array);
  call->n_written = call->n_arrays - n_read;
  return TN_OK;
}

static tn_code workspace_take(tn_prepared *call, const tn__planned_info *info) {
  if (info->workspace == 0) return TN_OK;
  tn__device *device = tn__planned_work(call->planned)->device;
  call->workspace_bytes = info->workspace;
  if (!device->compute)
    return tn__heap_alloc(device, info->workspace,
                          "the workspaces of a prepared call",
                          &call->workspace);
  TN__TRY(tn__block_create(device, info->workspace, &call->room));
  TN__TRY(tn__block_materialise(call->room));
  call->workspace = call->room->data;
  return TN_OK;
}

static tn_code access_take(tn_prepared *call) {
  const tn__access *uses = NULL;
  const uint32_t n = tn__planned_uses(call->planned, &uses);
  call->n_access = n + 1 + (call->room != NULL);
  size_t bytes = call->n_access * sizeof *call->access;
  call->access = tn__alloc(call->env, bytes);
  if (!call->access) return tn__fail_memory(bytes, "a prepared call");
  for (uint32_t i = 0; i < n; ++i) call->access[i] = uses[i];
  call->access[n] = (tn__access){.var = &call->turn, .mode = TN__OVERWRITE};
  if (call->room)
    call->access[n + 1] =
        (tn__access){.var = &call->room->var, .mode = TN__OVERWRITE};
  return TN_OK;
}

static tn_code operation_create(tn_prepared *call) {
  const tn__work *w = tn__planned_work(call->planned);
  const tn__job job = {.name = w->op->name,
                       .run = run,
                       .arg = call,
                       .drop = operation_drop,
                       .access = call->access,
                       .n_access = call->n_access,
                       .flags = w->recipe->small ? TN__JOB_SMALL : 0,
                       .queue = w->device->compute};
  TN__TRY(tn__operation_create(call->env->engine, &job, &call->operation));
  atomic_fetch_add_explicit(&call->n_holds, 1, memory_order_relaxed);
  return TN_OK;
}

static tn_code fill(tn_prepared *call) {
  const tn__work *w = tn__planned_work(call->planned);
  tn__planned_info info;
  tn__planned_look(call->planned, &info);
  TN__TRY(arrays_keep(call));
  call->idle = info.kernel == NULL;
  if (call->idle) return TN_OK;
  const bool here = w->recipe->small && !w->device->compute;
  call->small = here && !w->recipe->shared;
  call->shared = here && w->recipe->shared;
  for (uint32_t i = 0; i < call->n_arrays; ++i)
    TN__TRY(tn__array_materialise_zeros(call->arrays[i]));
  TN__TRY(workspace_take(call, &info));
  TN__TRY(tn__planned_place(call->planned, call->workspace));
  TN__TRY(access_take(call));
  return operation_create(call);
}

static tn_code begin(const tn__env *env, tn_prepared **out) {
  tn_prepared *call = tn__zalloc(env, sizeof *call);
  *out = call;
  if (!call) return tn__fail_memory(sizeof *call, "a prepared call");
  call->env = env;
  atomic_init(&call->n_holds, 1);
  tn__env_retain(env);
  return TN_OK;
}

tn_code tn__prepared_create(const tn__target_op *target, const tn_inputs *in,
                            const tn_outputs *out, tn_prepared **result) {
  tn_prepared *call = NULL;
  *result = NULL;
  tn_code rc = begin(target->caller->env, &call);
  if (rc == TN_OK) rc = tn__planned_create(target, in, out, &call->planned);
  if (rc == TN_OK) rc = fill(call);
  if (rc != TN_OK) {
    tn__prepared_release(call);
    return rc;
  }
  tn__planned_deliver(call->planned, out);
  *result = call;
  return TN_OK;
}

/* --------------------------------------------------------------------- run */

static bool is_quiet(const tn_prepared *call) {
  for (uint32_t i = 0; i < call->n_access; ++i) {
    const tn__access *a = &call->access[i];
    if (a->mode == TN__READ ? !tn__var_is_readable(a->var)
                            : !tn__var_is_writable(a->var))
      return false;
  }
  return true;
}

static tn_array *const *written(const tn_prepared *call) {
  return call->arrays + call->n_arrays - call->n_written;
}

static void spoil(tn_prepared *call, tn_code code) {
  for (uint32_t i = 0; i < call->n_written; ++i)
    tn__var_fail(call->env->engine, &written(call)[i]->block->var, code);
}

static uint32_t visit_choose(void *arg, tn__access *access) {
  const tn_prepared *call = arg;
  if (call->n_access > TN__INLINE_ACCESS || !is_quiet(call))
    return TN__INLINE_REFUSED;
  for (uint32_t i = 0; i < call->n_access; ++i) access[i] = call->access[i];
  return call->n_access;
}

static tn_code visit_run(void *arg) {
  return run(arg, NULL);
}

static tn_code run_elsewhere(tn_prepared *call) {
  const tn__inline_job visitor = {
      .name = tn__planned_work(call->planned)->op->name,
      .choose = visit_choose,
      .run = visit_run,
      .arg = call};
  tn_code rc = TN_OK;
  if (call->shared && tn__run_inline(call->env->engine, &visitor, &rc))
    return rc;
  return tn__operation_push(call->operation);
}

tn_code tn__prepared_run(tn_prepared *call) {
  if (call->idle) return TN_OK;
  tn__engine *engine = call->env->engine;
  for (uint32_t i = 0; i < call->n_written; ++i)
    tn__array_written(written(call)[i]);
  if (!call->small || !tn__gate_enter(engine)) return run_elsewhere(call);
  if (!is_quiet(call)) {
    tn__gate_leave(engine);
    return tn__operation_push(call->operation);
  }
  tn_code rc = run(call, NULL);
  if (rc != TN_OK) spoil(call, rc);
  tn__gate_leave(engine);
  return rc;
}

typedef struct setting {
  tn_prepared *call;
  const tn_value *value;
  tn_code rc; /* not the engine's: nothing carries it */
} setting;

static tn_code set_run(void *arg, tn__token *token) {
  setting *s = arg;
  (void)token;
  s->rc = tn__planned_set(s->call->planned, s->value);
  return TN_OK;
}

/* Runs read the params, so it takes a turn among them. */
tn_code tn__prepared_set(tn_prepared *call, const tn_value *value) {
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
