/* SPDX-License-Identifier: Apache-2.0
 * gradient_params.c: finds the operators that compute a gradient, and creates
 * their parameters from those of the call. The names are in a table of the
 * operator. Tape and graph share these functions.
 */
#include <stdio.h>
#include <string.h>

#include "registry.h"

/* --------------------------------------------------------------- templates */

/* Adds the value of a parameter, without its name. */
static void add_value(const tn_params *params, const char *name, size_t n,
                      tn__buf *out) {
  tn__buf text;
  tn__buf_init(&text, out->env);
  for (uint32_t i = 0; params && i < params->n_fields; ++i) {
    const tn_field *const *field = &params->fields[i];
    const tn__fields one = {field, 1, 0, params->op->name};
    if (strncmp((*field)->name, name, n) != 0 || (*field)->name[n]) continue;
    tn__fields_text(&one, params->data, &text);
  }
  const char *value = text.s ? strchr(text.s, '=') : NULL;
  if (value) tn__buf_add(out, "%s", value + 1);
  if (text.failed) out->failed = true;
  tn__buf_deinit(&text);
}

/* "scalar=$alpha axis=1" with the value of alpha. */
static void add_params(const tn_params *params, const char *template,
                       tn__buf *out) {
  static const char letters[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  bool quoted = false;
  for (const char *at = template; *at;) {
    if (*at == '"') quoted = !quoted;
    if (*at != '$' || quoted) {
      tn__buf_bytes(out, at++, 1);
      continue;
    }
    const size_t n = strspn(at + 1, letters);
    add_value(params, at + 1, n, out);
    at += 1 + n;
  }
}

tn_code tn__params_expand_template(const tn_params *from, const char *template,
                                   tn_operator *to, tn_params **out) {
  tn__buf text;
  *out = NULL;
  if (!template) return TN_OK;
  tn__buf_init(&text, to->registry->env);
  add_params(from, template, &text);
  const tn_code rc = text.failed
                         ? tn__fail_memory(text.n, "parameters of a gradient")
                         : tn__params_parse(to, text.s ? text.s : "", out);
  tn__buf_deinit(&text);
  return rc;
}

/* Uses the text form, which reads back as equal values. */
tn_code tn__params_convert(const tn_params *from, tn_operator *to,
                           tn_params **out) {
  tn__buf text;
  *out = NULL;
  if (!from || from->n_fields == 0) return TN_OK;
  const tn__fields fields = {from->fields, from->n_fields, 0, from->op->name};
  tn__buf_init(&text, to->registry->env);
  tn__fields_text(&fields, from->data, &text);
  const tn_code rc = text.failed
                         ? tn__fail_memory(text.n, "a copy of parameters")
                         : tn__params_parse(to, text.s ? text.s : "", out);
  tn__buf_deinit(&text);
  return rc;
}

/* ------------------------------------------------------------ second order */

static tn_code fail_no_operator(const char *name, const char *why) {
  return tn__fail(TN_UNSUPPORTED,
                  "there %s operator %s%s; its inputs are to be [gradient of "
                  "every output, every input, every output] and its outputs "
                  "[gradient of every input]",
                  why[0] ? "is an" : "is no", name, why);
}

/* "nn.pool@2" to "nn.pool_grad@2", with `numbers` after `grad`. */
static tn_code find_operator(const tn_operator *op, const char *numbers,
                             tn_operator **out) {
  tn__buf name;
  tn__buf_init(&name, op->registry->env);
  const char *at = strchr(op->name, '@');
  tn__buf_add(&name, "%.*s_grad%s%s", (int)(at - op->name), op->name, numbers,
              at);
  tn_code rc = name.failed ? tn__fail_memory(name.n, "an operator's name")
                           : tn__operator_get(op->registry, name.s, out);
  if (rc == TN_NOT_FOUND) rc = fail_no_operator(name.s, "");
  if (rc == TN_OK) rc = tn__operator_hold(*out);
  tn__buf_deinit(&name);
  return rc;
}

static tn_code find_fitting(const tn_operator *of, const char *numbers,
                            const tn__gradient_counts *counts,
                            tn_operator **out) {
  tn_operator *op = NULL;
  TN__TRY(find_operator(of, numbers, &op));
  const tn_op *desc = op->desc;
  if (desc->n_inputs == counts->n_in + 2 * counts->n_out &&
      desc->n_outputs == counts->n_in && desc->n_aux == 0) {
    *out = op;
    return TN_OK;
  }
  tn__operator_unhold(op);
  return fail_no_operator(op->name, ", but it does not fit this call");
}

/* Calls with fewer operands than the table has (some are optional or counted)
 * have an operator of their own. For two inputs and one output it is
 * "nn.pool_grad_2_1@2". States do not count. */
tn_code tn__operator_gradient(const tn_operator *of,
                              const tn__gradient_counts *counts,
                              tn_operator **out) {
  char numbers[32];
  *out = NULL;
  (void)snprintf(numbers, sizeof numbers, "_%u_%u", (unsigned)counts->n_in,
                 (unsigned)counts->n_out);
  tn_code rc = find_fitting(of, "", counts, out);
  if (rc != TN_UNSUPPORTED) return rc;
  rc = find_fitting(of, numbers, counts, out);
  if (rc != TN_UNSUPPORTED) return rc;
  return find_fitting(of, "", counts, out); /* its message states the reason */
}

bool tn__gradient_is_nonzero(const tn_input_gradient *rule) {
  return !rule->stop && (!rule->formula || strcmp(rule->formula, "0") != 0);
}

/* ---------------------------------------------------------- linear operators
 */

uint32_t tn__operator_linear_groups(const tn_op *op, uint32_t i) {
  const tn_input_gradient *g = op->gradient->inputs[i];
  return TN_HAS(g, linear) ? g->linear : 0;
}

bool tn__operator_is_linear(const tn_op *op) {
  const tn_gradient *g = op->gradient;
  if (!g || g->kind != TN_GRADIENT_KERNEL || op->n_aux > 0) return false;
  for (uint32_t i = 0; i < g->n_inputs; ++i)
    if (!g->inputs[i]->stop && tn__operator_linear_groups(op, i) == 0)
      return false;
  return g->n_inputs > 0;
}

/* --------------------------------------------------- whether there is a second
 */

static bool is_differentiable(const tn_op *op) {
  return op->gradient && op->gradient->kind != TN_GRADIENT_NONE;
}

/* Whether an operator of this name is loaded and has a gradient. */
static bool has_gradient(tn__registry *registry, const char *name) {
  tn_operator *op = NULL;
  if (tn__operator_get(registry, name, &op) || tn__operator_hold(op))
    return false;
  const bool has = is_differentiable(op->desc);
  tn__operator_unhold(op);
  return has;
}

static bool has_call_gradients(const tn_operator *op) {
  const tn_gradient *g = op->desc->gradient;
  for (uint32_t i = 0; i < g->n_inputs; ++i) {
    const tn_input_gradient *rule = g->inputs[i];
    for (uint32_t k = 0; TN_HAS(rule, steps) && k < rule->n_steps; ++k)
      if (rule->steps[k].what == TN_STEP_CALL &&
          !has_gradient(op->registry, rule->steps[k].op))
        return false;
  }
  return true;
}

static bool is_twin_differentiable(const tn_operator *op, const char *numbers) {
  tn_operator *twin = NULL;
  if (find_operator(op, numbers, &twin)) return false;
  const bool is = is_differentiable(twin->desc);
  tn__operator_unhold(twin);
  return is;
}

/* For calls with any number of operands. */
static bool has_differentiable_twin(const tn_operator *op) {
  if (is_twin_differentiable(op, "")) return true;
  for (uint32_t in = op->desc->n_inputs; in > 0; --in)
    for (uint32_t out = op->desc->n_outputs; out > 0; --out) {
      char numbers[32];
      (void)snprintf(numbers, sizeof numbers, "_%u_%u", (unsigned)in,
                     (unsigned)out);
      if (is_twin_differentiable(op, numbers)) return true;
    }
  return false;
}

bool tn__operator_has_second(const tn_operator *op) {
  if (!is_differentiable(op->desc)) return false;
  if (op->desc->gradient->kind == TN_GRADIENT_GRAPH)
    return has_call_gradients(op);
  return tn__operator_is_linear(op->desc) || has_differentiable_twin(op);
}
