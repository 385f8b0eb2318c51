/* SPDX-License-Identifier: Apache-2.0
 * params.c: the object tn_params: a counted params struct that keeps the
 * runtime alive and its operator's plugin loaded.
 */
#include "registry.h"

/* Counts one more holder of the operator's plugin. */
static tn_code hold_plugin(tn_operator *op, const tn_op **desc) {
  tn__registry *registry = op->registry;
  (void)pthread_rwlock_rdlock(&registry->lock);
  *desc = op->desc;
  if (op->desc != NULL) atomic_fetch_add(&op->params, 1);
  (void)pthread_rwlock_unlock(&registry->lock);
  if (*desc != NULL) return TN_OK;
  return tn__fail(
      TN_NOT_FOUND,
      "operator %s has no definition: its plugin is not loaded (any "
      "more); load it first",
      op->name);
}

static void unhold_plugin(tn_operator *op) {
  atomic_fetch_sub(&op->params, 1);
}

static tn__fields fields_of(const tn_operator *op, const tn_op *desc) {
  return (tn__fields){desc->params, desc->n_params, desc->params_size,
                      op->name};
}

/* Source of the values: a text, or n values. */
typedef struct source {
  const char *text; /* NULL: `values` */
  const tn_value *values;
  size_t n;
  bool copy; /* copied from params: no user passes the values now */
} source;

static void log_nothing(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

/* Creates the struct. A copy logs no deprecated parameters again. */
static tn_code fill_struct(const tn__env *env, const tn__fields *fields,
                           const source *from, void **out) {
  tn__env quiet = *env;
  if (from->text == NULL)
    return tn__fields_build(env, fields, from->values, from->n, out);
  quiet.log = log_nothing;
  return tn__fields_parse(from->copy ? &quiet : env, fields, from->text, out);
}

static tn_code create_params(tn_operator *op, const tn_op *desc,
                             const source *from, tn_params **out) {
  const tn__env *env = op->registry->env;
  const tn__fields fields = fields_of(op, desc);
  void *data = NULL;
  TN__TRY(fill_struct(env, &fields, from, &data));
  tn_params *params = tn__zalloc(env, sizeof *params);
  if (params == NULL) {
    tn__free(env, data);
    return tn__fail_memory(sizeof *params, "parameters");
  }
  atomic_init(&params->n_owners, 1);
  params->op = op;
  params->fields = desc->params;
  params->n_fields = desc->n_params;
  params->hash = tn__fields_hash(&fields, data);
  params->serial = 1 + atomic_fetch_add(&op->registry->n_params, 1);
  params->data = data;
  *out = params;
  return TN_OK;
}

static tn_code create_held(tn_operator *op, const source *from,
                           tn_params **out) {
  const tn_op *desc = NULL;
  *out = NULL;
  TN__TRY(hold_plugin(op, &desc));
  const tn_code rc = create_params(op, desc, from, out);
  if (rc != TN_OK)
    unhold_plugin(op);
  else
    tn__env_retain(op->registry->env);
  return rc;
}

tn_code tn__params_create(tn_operator *op, const tn_value *values, size_t n,
                          tn_params **out) {
  return create_held(op, &(source){.values = values, .n = n}, out);
}

tn_code tn__params_find_unknown(tn_operator *op, const tn_value *values,
                                size_t n, uint8_t *unknown) {
  const tn_op *desc = NULL;
  TN__TRY(hold_plugin(op, &desc));
  const tn__fields fields = fields_of(op, desc);
  for (size_t i = 0; i < n; ++i)
    unknown[i] = !tn__fields_has_key(&fields, values[i].key);
  unhold_plugin(op);
  return TN_OK;
}

tn_code tn__params_parse(tn_operator *op, const char *text, tn_params **out) {
  return create_held(op, &(source){.text = text}, out);
}

tn_params *tn__params_retain(tn_params *params) {
  atomic_fetch_add_explicit(&params->n_owners, 1, memory_order_relaxed);
  return params;
}

static void destroy_params(const tn__env *env, tn_params *params) {
  tn__free(env, params->data);
  tn__free(env, params);
}

void tn__params_release(tn_params *params) {
  if (params == NULL || atomic_fetch_sub(&params->n_owners, 1) > 1) return;
  tn_operator *op = params->op;
  const tn__env *env = op->registry->env;
  destroy_params(env, params);
  unhold_plugin(op);
  tn__env_release(env); /* may free the registry */
}

/* ------------------------------------------------------------------ values */

static tn__fields fields_in(const tn_params *params) {
  return fields_of(params->op, params->op->desc);
}

bool tn__params_equal(const tn_params *a, const tn_params *b) {
  const tn__fields fields = fields_in(a);
  return a->hash == b->hash && tn__fields_equal(&fields, a->data, b->data);
}

/* Uses the text form, which reads back as equal values. */
tn_code tn__params_copy(const tn_params *params, tn_params **out) {
  const tn__fields fields = fields_in(params);
  tn__buf text;
  *out = NULL;
  tn__buf_init(&text, params->op->registry->env);
  tn__fields_text(&fields, params->data, &text);
  tn_code rc =
      text.failed ? tn__fail_memory(text.n, "a copy of parameters") : TN_OK;
  if (rc == TN_OK)
    rc = create_params(
        params->op, params->op->desc,
        &(source){.text = text.s != NULL ? text.s : "", .copy = true}, out);
  tn__buf_deinit(&text);
  return rc;
}

tn_code tn__params_set(tn_params *params, const tn_value *value) {
  const tn__fields fields = fields_in(params);
  TN__TRY(tn__fields_set(&fields, value, params->data));
  params->hash = tn__fields_hash(&fields, params->data);
  return TN_OK;
}

void tn__params_copy_dynamic(tn_params *params, const tn_params *from) {
  const tn__fields fields = fields_in(params);
  tn__fields_copy_dynamic(&fields, params->data, from->data);
  params->hash = tn__fields_hash(&fields, params->data);
}

/* ---------------------------------------------------------------- defaults */

static bool has_required(const tn_op *desc) {
  for (uint32_t i = 0; i < desc->n_params; ++i)
    if (desc->params[i]->flags & TN_FIELD_REQUIRED) return true;
  return false;
}

tn_code tn__defaults_create(tn_operator *op, const tn_op *desc,
                            tn_params **out) {
  *out = NULL;
  if (has_required(desc)) return TN_OK;
  return create_params(op, desc, &(source){0}, out);
}

void tn__defaults_free(const tn__env *env, tn_params *defaults) {
  if (defaults != NULL) destroy_params(env, defaults);
}

tn_code tn__operator_count_outputs(const tn_operator *op,
                                   const tn_params *params, uint32_t n_in,
                                   uint32_t *out) {
  const tn_params *all = params ? params : op->defaults;
  const tn__infer_args args = {
      .op = op->desc, .name = op->name, .params = all ? all->data : NULL};
  return tn__infer_n_outputs(&args, n_in, out);
}
