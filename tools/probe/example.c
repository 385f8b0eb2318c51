/* SPDX-License-Identifier: Apache-2.0
 * example.c: one example: its inputs become arrays, the operator is called, and
 * its outputs and gradients are compared with the values of the manifest.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"
#include "tenon/gradient.h"

/* Arrays of one call; every one is released at the end. */
typedef struct lists {
  tn_array **in; /* inputs, then auxiliary states */
  size_t n_in;
  tn_array **out;
  size_t n_out;
  tn_array **heads; /* n_out: gradients of the outputs */
  tn_array **grads; /* of the inputs, without states */
  tn_req *req;      /* of those */
} lists;

static tn_code no_memory(probe_case *c) {
  (void)snprintf(c->why, sizeof c->why, "out of memory");
  return TN_OUT_OF_MEMORY;
}

static const tnm_data *find_item(const tnm_example_item *items, size_t n,
                                 const char *name) {
  for (size_t i = 0; i < n; ++i)
    if (!strcmp(items[i].name, name)) return &items[i].data;
  return NULL;
}

static const tnm_data *find_value(const probe_case *c, const char *name) {
  return find_item(c->example->items, c->example->n_items, name);
}

static const tnm_data *find_grad(const probe_case *c, const char *name) {
  return find_item(c->example->grads, c->example->n_grads, name);
}

/* A bound operand is of one type in C; f16 and bool share theirs with others,
 * so a type variable may be left: its first type will do. */
static tn_dtype type_of(const tn_op *op, const tn_arg *arg) {
  if (arg->dtype_var == TN_NONE) return arg->dtype;
  const uint64_t allowed = op->dtype_vars[arg->dtype_var]->allowed;
  static const struct {
    uint64_t bit;
    tn_dtype dtype;
  } types[] = {
      {TN_BIT_F32, TN_F32}, {TN_BIT_F64, TN_F64}, {TN_BIT_I32, TN_I32},
      {TN_BIT_I64, TN_I64}, {TN_BIT_U8, TN_U8},   {TN_BIT_I8, TN_I8},
      {TN_BIT_I16, TN_I16}, {TN_BIT_U16, TN_U16}, {TN_BIT_U32, TN_U32},
      {TN_BIT_U64, TN_U64}, {TN_BIT_F16, TN_F16}, {TN_BIT_BF16, TN_BF16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (allowed & types[i].bit) return types[i].dtype;
  return TN_BOOL;
}

static tn_code make_array(probe_case *c, const tn_arg *arg,
                          const tnm_data *data, tn_array **out) {
  tn_array *wide = NULL;
  if (!data) return TN_OK; /* optional and not given */
  tn_code rc = tn_array_create(
      c->rt, &(tn_spec){TN_F64, data->ndim, data->shape}, &wide);
  if (!rc) rc = tn_array_set(wide, data->values, data->n * sizeof(double));
  if (!rc) rc = tn_array_cast(wide, type_of(c->desc, arg), out);
  tn_array_release(wide);
  return rc;
}

static tn_code make_inputs(probe_case *c, lists *l) {
  const tn_op *op = c->desc;
  l->in = calloc(op->n_inputs + op->n_aux + 1u, sizeof *l->in);
  if (!l->in) return no_memory(c);
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    const tn_code rc =
        make_array(c, op->inputs[i], find_value(c, op->inputs[i]->name),
                   &l->in[l->n_in++]);
    if (rc) return rc;
  }
  for (uint32_t i = 0; i < op->n_aux; ++i) {
    const tn_code rc = make_array(
        c, op->aux[i], find_value(c, op->aux[i]->name), &l->in[l->n_in++]);
    if (rc) return rc;
  }
  l->out = calloc(op->n_outputs + 1u, sizeof *l->out);
  l->heads = calloc(op->n_outputs + 1u, sizeof *l->heads);
  l->grads = calloc(op->n_inputs + 1u, sizeof *l->grads);
  l->req = calloc(op->n_inputs + 1u, sizeof *l->req);
  l->n_out = op->n_outputs;
  return l->out && l->heads && l->grads && l->req ? TN_OK : no_memory(c);
}

/* -------------------------------------------------------------- comparisons */

/* Relative to the expected value, and absolute near 0. */
static double find_tolerance(const probe_case *c, tn_dtype dtype) {
  if (c->example->tol > 0) return c->example->tol;
  switch (dtype) {
    case TN_F64:
      return 1e-12;
    case TN_F32:
      return 1e-5;
    case TN_F16:
    case TN_BF16:
      return 1e-2;
    default:
      return 0;
  }
}

static bool is_near(double have, double want, double tol) {
  if (isnan(want)) return isnan(have);
  if (isinf(want) || isinf(have)) return have == want;
  return fabs(have - want) <= tol * (1 + fabs(want));
}

/* Help for a stated value that has fewer digits than the tolerance asks for. */
static const char *help_digits(char text[64], double have, double want) {
  const double distance = fabs(have - want) / (1 + fabs(want));
  text[0] = '\0';
  if (distance > 0 && distance < 1e-3)
    (void)snprintf(text, 64, "; write more digits, or `tol: 1e%d`",
                   (int)ceil(log10(distance)));
  return text;
}

/* As few digits as show that they differ; of close numbers all of them, so that
 * the right one can be copied. */
static void write_both(char texts[2][40], double have, double want) {
  const double distance = fabs(have - want);
  const bool near = distance < 1e-3 * (1 + fabs(want));
  for (int digits = near ? 17 : 9; digits <= 17; digits += 8) {
    (void)snprintf(texts[0], sizeof texts[0], "%.*g", digits, have);
    (void)snprintf(texts[1], sizeof texts[1], "%.*g", digits, want);
    if (strcmp(texts[0], texts[1]) != 0) return;
  }
}

static tn_code compare_values(probe_case *c, const char *name,
                              const tnm_data *want, const double *have,
                              double tol) {
  for (size_t i = 0; i < want->n; ++i) {
    if (is_near(have[i], want->values[i], tol)) continue;
    char texts[2][40], help[64];
    write_both(texts, have[i], want->values[i]);
    /* Whole numbers have no tolerance, and so no missing digits. */
    (void)snprintf(c->why, sizeof c->why,
                   "element %zu of `%s` is %s, expected %s%s", i, name,
                   texts[0], texts[1],
                   tol > 0 ? help_digits(help, have[i], want->values[i]) : "");
    return TN_PLUGIN;
  }
  return TN_OK;
}

static bool same_shape(const tn_tensor *have, const tnm_data *want) {
  if (have->ndim != want->ndim) return false;
  for (int32_t i = 0; i < want->ndim; ++i)
    if (have->shape[i] != want->shape[i]) return false;
  return true;
}

static tn_code compare_output(probe_case *c, const char *name,
                              const tnm_data *want, tn_array *array) {
  tn_array *wide = NULL;
  if (!want || !array) return TN_OK;
  if (!same_shape(tn_array_tensor(array), want)) {
    (void)snprintf(c->why, sizeof c->why, "`%s` has another shape", name);
    return TN_PLUGIN;
  }
  double *have = calloc(want->n + 1, sizeof *have);
  tn_code rc = have ? tn_array_cast(array, TN_F64, &wide) : no_memory(c);
  if (!rc) rc = tn_array_get(wide, have, want->n * sizeof *have);
  if (!rc)
    rc = compare_values(c, name, want, have,
                        find_tolerance(c, tn_array_tensor(array)->dtype));
  tn_array_release(wide);
  free(have);
  return rc;
}

static tn_code compare_outputs(probe_case *c, const lists *l) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < l->n_out && !rc; ++i) {
    const char *name = c->desc->outputs[i]->name;
    rc = compare_output(c, name, find_value(c, name), l->out[i]);
  }
  return rc;
}

static tn_code compare_gradients(probe_case *c, const lists *l) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < c->desc->n_inputs && !rc; ++i) {
    char name[256];
    const char *of = c->desc->inputs[i]->name;
    (void)snprintf(name, sizeof name, "grad.%s", of);
    rc = compare_output(c, name, find_grad(c, of), l->grads[i]);
  }
  return rc;
}

/* -------------------------------------------------------------------- calls */

/* Whether the gradient can be computed here: it may call operators of plugins
 * that are not loaded. */
static bool has_gradient(const probe_case *c) {
  const tn_gradient *g = c->desc->gradient;
  if (!c->example->n_grads || !g) return false;
  for (uint32_t i = 0; i < g->n_inputs; ++i) {
    for (uint32_t k = 0; k < g->inputs[i]->n_steps; ++k) {
      const tn_step *step = &g->inputs[i]->steps[k];
      tn_operator *op = NULL;
      if (step->what == TN_STEP_CALL && tn_operator_get(c->rt, step->op, &op))
        return false;
    }
  }
  return g->kind != TN_GRADIENT_NONE;
}

static tn_code call_backward(probe_case *c, lists *l, const tn_params *params) {
  const tn_op *op = c->desc;
  tn_code rc = TN_OK;
  for (uint32_t i = 0; i < op->n_outputs && !rc; ++i)
    rc = make_array(c, op->outputs[i], find_grad(c, op->outputs[i]->name),
                    &l->heads[i]);
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    l->req[i] = find_grad(c, op->inputs[i]->name) ? TN_REQ_WRITE : TN_REQ_NULL;
  const tn_backward call = {.struct_size = sizeof call,
                            .params = params,
                            .inputs = {l->n_in, l->in},
                            .outputs = {l->n_out, l->out},
                            .out_grads = {l->n_out, l->heads},
                            .in_grads = {op->n_inputs, l->grads, l->req}};
  return rc ? rc : tn_gradient_call(c->rt, c->op, &call);
}

static tn_code call_operator(probe_case *c, lists *l) {
  tn_params *params = NULL;
  tn_code rc = tn_params_create(c->op, c->example->params, c->example->n_params,
                                &params);
  const tn_inputs in = {l->n_in, l->in};
  const tn_outputs out = {l->n_out, l->out, NULL};
  if (!rc) rc = tn_call(c->rt, c->op, &in, params, &out);
  if (!rc && has_gradient(c)) rc = call_backward(c, l, params);
  if (!rc) rc = tn_wait_all(c->rt);
  tn_params_release(params);
  return rc;
}

static void release_all(tn_array **arrays, size_t n) {
  for (size_t i = 0; arrays && i < n; ++i) tn_array_release(arrays[i]);
  free(arrays);
}

tn_code probe_example(probe_case *c) {
  lists l = {0};
  tn_code rc = make_inputs(c, &l);
  if (!rc) rc = call_operator(c, &l);
  if (!rc) rc = compare_outputs(c, &l);
  if (!rc) rc = compare_gradients(c, &l);
  release_all(l.in, l.n_in);
  release_all(l.out, l.n_out);
  release_all(l.heads, l.n_out);
  release_all(l.grads, c->desc->n_inputs);
  free(l.req);
  return rc;
}
