/* SPDX-License-Identifier: Apache-2.0
 * host_variable.c: variables of the host, and handles of arrays' variables.
 */
#include "host_job.h"

static tn_code create_variable(tn_runtime *rt, tn_variable **out) {
  tn_variable *variable = tn__zalloc(&rt->env, sizeof *variable);
  *out = variable;
  if (!variable) return tn__fail_memory(sizeof *variable, "a variable");
  variable->rt = rt;
  variable->var = &variable->own;
  atomic_init(&variable->n_owners, 1);
  atomic_init(&variable->n_holds, 1);
  tn__env_retain(&rt->env);
  return TN_OK;
}

tn_code tn__variable_create(tn_runtime *rt, void *data,
                            void (*drop)(void *data), tn_variable **out) {
  TN__TRY(create_variable(rt, out));
  (*out)->data = data;
  (*out)->drop = drop;
  return TN_OK;
}

tn_code tn__variable_create_of(tn_array *array, tn_variable **out) {
  TN__TRY(create_variable(array->env->owner, out));
  tn__array_hold(array);
  (*out)->array = array;
  (*out)->var = &array->block->var;
  return TN_OK;
}

void tn__variable_hold(tn_variable *variable) {
  atomic_fetch_add_explicit(&variable->n_holds, 1, memory_order_relaxed);
}

/* No job uses the variable, so nothing need be ordered after one. */
void tn__variable_unhold(tn_variable *variable) {
  if (atomic_fetch_sub_explicit(&variable->n_holds, 1, memory_order_acq_rel) >
      1)
    return;
  const tn__env *env = &variable->rt->env;
  if (variable->array)
    tn__array_unhold(variable->array);
  else
    tn__var_deinit(&variable->own);
  if (variable->drop) variable->drop(variable->data);
  tn__free(env, variable);
}

void tn__variable_release(tn_variable *variable) {
  if (atomic_fetch_sub_explicit(&variable->n_owners, 1, memory_order_acq_rel) >
      1)
    return;
  const tn__env *env = &variable->rt->env;
  tn__variable_unhold(variable);
  tn__env_release(env); /* last: it may destroy the runtime */
}

uint32_t tn__variable_mode(const tn_variable *variable, uint32_t mode) {
  return mode == TN_OVERWRITE && variable->array
             ? tn__array_write_mode(variable->array)
             : mode;
}

tn_code tn__variable_prepare(const tn_variable *variable, uint32_t mode) {
  tn_array *array = variable->array;
  if (!array) return TN_OK;
  if (!tn__array_data(array))
    TN__TRY(mode == TN__OVERWRITE ? tn__array_materialise(array)
                                  : tn__array_materialise_zeros(array));
  if (mode != TN__READ) tn__array_count_write(array);
  return TN_OK;
}
