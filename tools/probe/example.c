/* SPDX-License-Identifier: Apache-2.0
 * example.c: one example: its inputs become arrays, the operator is called, and
 * what it gives is compared with what is written.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

/* Arrays of one call; every one is released at the end. */
typedef struct lists {
  tn_array **in; /* inputs, then auxiliary states */
  size_t n_in;
  tn_array **out;
  size_t n_out;
} lists;

static tn_code no_memory(probe_case *c) {
  (void)snprintf(c->why, sizeof c->why, "out of memory");
  return TN_OUT_OF_MEMORY;
}

static const tnm_data *find(const tnm_example *example, const char *name) {
  for (size_t i = 0; i < example->n_items; ++i)
    if (!strcmp(example->items[i].name, name)) return &example->items[i].data;
  return NULL;
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

static tn_code make_array(probe_case *c, const tn_arg *arg, tn_array **out) {
  const tnm_data *data = find(c->example, arg->name);
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
    const tn_code rc = make_array(c, op->inputs[i], &l->in[l->n_in++]);
    if (rc) return rc;
  }
  for (uint32_t i = 0; i < op->n_aux; ++i) {
    const tn_code rc = make_array(c, op->aux[i], &l->in[l->n_in++]);
    if (rc) return rc;
  }
  l->out = calloc(op->n_outputs + 1u, sizeof *l->out);
  l->n_out = op->n_outputs;
  return l->out ? TN_OK : no_memory(c);
}

/* -------------------------------------------------------------- comparisons */

/* Relative to the expected value, and absolute near 0. */
static double tolerance(const probe_case *c, tn_dtype dtype) {
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

/* As few digits as show that they differ. */
static void write_both(char texts[2][40], double have, double want) {
  for (int digits = 9; digits <= 17; digits += 8) {
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
    char texts[2][40];
    write_both(texts, have[i], want->values[i]);
    (void)snprintf(c->why, sizeof c->why,
                   "element %zu of `%s` is %s, expected %s", i, name, texts[0],
                   texts[1]);
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

static tn_code compare(probe_case *c, const char *name, tn_array *array) {
  const tnm_data *want = find(c->example, name);
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
                        tolerance(c, tn_array_tensor(array)->dtype));
  tn_array_release(wide);
  free(have);
  return rc;
}

/* --------------------------------------------------------------------- call */

static tn_code call(probe_case *c, lists *l) {
  tn_params *params = NULL;
  tn_code rc = tn_params_create(c->op, c->example->params, c->example->n_params,
                                &params);
  const tn_inputs in = {l->n_in, l->in};
  const tn_outputs out = {l->n_out, l->out, NULL};
  if (!rc) rc = tn_call(c->rt, c->op, &in, params, &out);
  if (!rc) rc = tn_wait_all(c->rt);
  tn_params_release(params);
  return rc;
}

tn_code probe_example(probe_case *c) {
  lists l = {0};
  tn_code rc = make_inputs(c, &l);
  if (!rc) rc = call(c, &l);
  for (size_t i = 0; i < l.n_out && !rc; ++i)
    rc = compare(c, c->desc->outputs[i]->name, l.out[i]);
  for (size_t i = 0; i < l.n_in; ++i) tn_array_release(l.in[i]);
  for (size_t i = 0; i < l.n_out; ++i) tn_array_release(l.out[i]);
  free(l.in);
  free(l.out);
  return rc;
}
