/* SPDX-License-Identifier: Apache-2.0
 * api_operator.c: the functions of tenon.h about operators and parameters. Each
 * checks its arguments and calls core/registry, core/choice or core/call.
 */
#include <string.h>

#include "manifest.h"
#include "runtime.h"
#include "tenon/kernel_options.h"

static tn_runtime *runtime_of(const tn_operator *op) {
  return op->registry->env->owner;
}

static tn_code check_operator(const tn_operator *op) {
  return tn__runtime_check(op->registry->env);
}

/* -------------------------------------------------------------- operators */

tn_code tn_operator_get(tn_runtime *rt, const char *name, tn_operator **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(name);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__operator_get(rt->registry, name, out);
}

tn_code tn_operator_at(tn_runtime *rt, size_t index, tn_operator **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__operator_at(rt->registry, index, out);
}

const char *tn_operator_name(const tn_operator *op) {
  return op ? op->name : NULL;
}

const tn_op *tn_operator_desc(const tn_operator *op) {
  if (!op || check_operator(op) != TN_OK) return NULL;
  pthread_rwlock_rdlock(&op->registry->lock);
  const tn_op *desc = op->desc;
  pthread_rwlock_unlock(&op->registry->lock);
  return desc;
}

tn_code tn_operator_json(tn_operator *op, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(op);
  TN__TRY(check_operator(op));
  TN__TRY(tn__operator_hold(op));
  tn__buf buf;
  tn__buf_init(&buf, op->registry->env);
  tn__op_json(op->desc, &buf);
  if (!buf.failed) --buf.n; /* the closing brace */
  tn__buf_add(&buf, ", \"second_gradient\": %s}",
              tn__operator_has_second(op) ? "true" : "false");
  tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  tn__operator_unhold(op);
  return rc;
}

tn_code tn_operator_explain(tn_operator *op, const tn_inputs *in,
                            const tn_params *params, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(op);
  if (in && in->n > 0) TN__REQUIRE(in->arrays);
  TN__TRY(check_operator(op));
  return tn__call_explain(&runtime_of(op)->caller, op, in, params, out);
}

tn_code tn_operator_pin(tn_operator *op, const char *id) {
  TN__REQUIRE(op);
  TN__TRY(check_operator(op));
  return tn__operator_pin(op, id);
}

tn_code tn_operator_tune(tn_operator *op, const char *id, const char *text) {
  TN__REQUIRE(op);
  TN__REQUIRE(id);
  TN__TRY(check_operator(op));
  return tn__operator_set_options(op, id, text);
}

tn_code tn_operator_infer(tn_operator *op, const tn_params *params,
                          tn_signature *io) {
  TN__REQUIRE(op);
  TN__REQUIRE(io);
  TN__TRY(check_operator(op));
  return tn__call_infer(&runtime_of(op)->caller, op, params, io);
}

tn_code tn_operator_outputs(tn_operator *op, const tn_params *params,
                            uint32_t n_in, uint32_t *n, uint32_t *n_visible) {
  tn__output_counts counts;
  TN__REQUIRE(op);
  TN__TRY(check_operator(op));
  TN__TRY(tn__call_outputs(&runtime_of(op)->caller, op, params, n_in, &counts));
  if (n) *n = counts.n;
  if (n_visible) *n_visible = counts.n_visible;
  return TN_OK;
}

/* ------------------------------------------------------------- parameters */

static tn_code check_values(const char *function, const tn_value *values,
                            size_t n) {
  if (n > 0) TN__TRY(tn__argument_check(values, function, "values"));
  for (size_t i = 0; i < n; ++i)
    if (!values[i].key)
      return tn__fail(TN_INVALID, "%s: the key of value %zu is NULL", function,
                      i);
  return TN_OK;
}

tn_code tn_params_create(tn_operator *op, const tn_value *values, size_t n,
                         tn_params **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(op);
  TN__TRY(check_values(__func__, values, n));
  TN__TRY(check_operator(op));
  return tn__params_create(op, values, n, out);
}

tn_code tn_params_find_unknown(tn_operator *op, const tn_value *values,
                               size_t n, uint8_t *unknown) {
  TN__REQUIRE(op);
  if (n > 0) TN__REQUIRE(unknown);
  TN__TRY(check_values(__func__, values, n));
  TN__TRY(check_operator(op));
  return tn__params_find_unknown(op, values, n, unknown);
}

tn_code tn_params_parse(tn_operator *op, const char *text, tn_params **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(op);
  TN__REQUIRE(text);
  TN__TRY(check_operator(op));
  return tn__params_parse(op, text, out);
}

typedef void print_fn(const tn__fields *fields, const void *data, tn__buf *out);

static tn_code print_params(const tn_params *params, print_fn *fn,
                            tn_text **out) {
  const tn__fields fields = {.fields = params->fields,
                             .n = params->n_fields,
                             .where = params->op->name};
  tn__buf buf;
  tn__buf_init(&buf, params->op->registry->env);
  fn(&fields, params->data, &buf);
  tn_code rc = tn__buf_text(&buf, out);
  tn__buf_deinit(&buf);
  return rc;
}

tn_code tn_params_text(const tn_params *params, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(params);
  return print_params(params, tn__fields_text, out);
}

tn_code tn_params_json(const tn_params *params, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(params);
  return print_params(params, tn__fields_json, out);
}

const void *tn_params_struct(const tn_params *params) {
  return params ? params->data : NULL;
}

void tn_params_release(tn_params *params) {
  if (params) tn__params_release(params);
}
