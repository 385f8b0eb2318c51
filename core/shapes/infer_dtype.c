/* SPDX-License-Identifier: Apache-2.0
 * infer_dtype.c: infers element types. An operand's type is a constant, a
 * parameter, or a variable that it shares with other operands. Nothing is
 * promoted.
 */
#include <stdio.h>
#include <string.h>

#include "infer.h"

enum { MAX_VARS = 32 };

/* The types of an operator's variables, and their sources. */
typedef struct types {
  tn_dtype dtype[MAX_VARS];
  uint32_t from[MAX_VARS];
} types;

tn_dtype tn__arg_dtype(const tn__infer_args *args, const tn_arg *arg) {
  if (arg->dtype_param < args->op->n_params && args->params != NULL) {
    const tn_field *field = args->op->params[arg->dtype_param];
    const unsigned char *params = args->params;
    int32_t given = 1;
    if (field->has_offset != TN_NONE)
      memcpy(&given, params + field->has_offset, sizeof given);
    if (given != 0) return *(const tn_dtype *)(params + field->offset);
  }
  return arg->dtype_var == TN_NONE && arg->dtype_param == TN_NONE
             ? arg->dtype
             : TN_DTYPE_UNKNOWN;
}

static tn_code fail_constant(tn__unifier *u, uint32_t id, tn_dtype want) {
  const char *have = tn__dtype_name(tn__operand_sig(u, id)->dtype);
  tn__facts_restore(u);
  (void)tn__fail(TN_DTYPE,
                 "element types contradict in operator %s: ", u->args->name);
  tn__append_operand(u, id, false);
  return tn__fail_more(TN_DTYPE, " is %s, but the operator wants %s there",
                       have, tn__dtype_name(want));
}

static tn_code fail_mixed_types(tn__unifier *u, uint32_t id, const types *t) {
  const uint32_t var = tn__operand_arg(u, id)->dtype_var;
  const char *have = tn__dtype_name(tn__operand_sig(u, id)->dtype);
  tn__facts_restore(u);
  (void)tn__fail(TN_DTYPE,
                 "element types contradict in operator %s: %s is %s "
                 "by ",
                 u->args->name, u->op->dtype_vars[var]->name,
                 tn__dtype_name(t->dtype[var]));
  tn__append_operand(u, t->from[var], false);
  (void)tn__fail_more(TN_DTYPE, " but %s by ", have);
  tn__append_operand(u, id, false);
  return tn__fail_more(TN_DTYPE,
                       "; convert one of them first, types are never converted "
                       "silently");
}

static tn_code fail_not_allowed(tn__unifier *u, uint32_t id,
                                const tn_dtype_var *var) {
  const char *have = tn__dtype_name(tn__operand_sig(u, id)->dtype);
  tn__facts_restore(u);
  (void)tn__fail(TN_DTYPE, "operator %s: ", u->args->name);
  tn__append_operand(u, id, false);
  (void)tn__fail_more(TN_DTYPE, " is %s, but %s is one of", have, var->name);
  for (size_t bit = 0; bit < TN__N_DTYPES; ++bit)
    if ((var->allowed >> bit & 1) != 0)
      (void)tn__fail_more(TN_DTYPE, " %s", tn__dtype_names[bit]);
  return tn__fail_more(TN_DTYPE, "; convert it first");
}

/* Adds the type of one operand to the variables. */
static tn_code read_type(tn__unifier *u, uint32_t id, types *t) {
  const tn_arg *arg = tn__operand_arg(u, id);
  const tn_dtype fixed = tn__arg_dtype(u->args, arg);
  tn_dtype have = tn__operand_sig(u, id)->dtype;
  if (fixed != TN_DTYPE_UNKNOWN) {
    if (have != TN_DTYPE_UNKNOWN && have != fixed)
      return fail_constant(u, id, fixed);
    tn__fact_dtype(u, id, fixed);
    have = fixed;
  }
  if (arg->dtype_var >= u->op->n_dtype_vars || have == TN_DTYPE_UNKNOWN)
    return TN_OK;
  const tn_dtype_var *var = u->op->dtype_vars[arg->dtype_var];
  if ((var->allowed & tn__dtype_bit(have)) == 0)
    return fail_not_allowed(u, id, var);
  if (t->dtype[arg->dtype_var] == TN_DTYPE_UNKNOWN) {
    t->dtype[arg->dtype_var] = have;
    t->from[arg->dtype_var] = id;
  }
  return t->dtype[arg->dtype_var] == have ? TN_OK : fail_mixed_types(u, id, t);
}

/* Sets a variable that allows a single type to this type. */
static void set_single_types(const tn_op *op, types *t) {
  for (uint32_t v = 0; v < op->n_dtype_vars; ++v) {
    const uint64_t allowed = op->dtype_vars[v]->allowed;
    if (t->dtype[v] == TN_DTYPE_UNKNOWN && allowed != 0 &&
        (allowed & (allowed - 1)) == 0)
      t->dtype[v] = tn__dtype_at((size_t)__builtin_ctzll(allowed));
  }
}

tn_code tn__infer_dtypes(tn__unifier *u) {
  types t;
  if (u->op->n_dtype_vars > MAX_VARS)
    return tn__fail(TN_UNSUPPORTED, "operator %s has more than %d types",
                    u->args->name, MAX_VARS);
  memset(&t, 0, sizeof t);
  for (uint32_t id = 0; id < u->n; ++id)
    if (!tn__operand_is_absent(u, id)) TN__TRY(read_type(u, id, &t));
  set_single_types(u->op, &t);
  for (uint32_t id = 0; id < u->n; ++id) {
    const uint32_t var = tn__operand_arg(u, id)->dtype_var;
    if (var < u->op->n_dtype_vars && !tn__operand_is_absent(u, id) &&
        tn__operand_sig(u, id)->dtype == TN_DTYPE_UNKNOWN)
      tn__fact_dtype(u, id, t.dtype[var]);
  }
  return TN_OK;
}

static void read_vars(const tn_arg *const *args, uint32_t n_args,
                      const tn_sig *sigs, uint32_t n, tn_dtype *vars) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t var = tn__arg_at(args, n_args, i)->dtype_var;
    if (var != TN_NONE && vars[var] == TN_DTYPE_UNKNOWN)
      vars[var] = sigs[i].dtype;
  }
}

void tn__find_dtype_vars(const tn_op *op, const tn_signature *io,
                         tn_dtype *vars) {
  for (uint32_t v = 0; v < op->n_dtype_vars; ++v) vars[v] = TN_DTYPE_UNKNOWN;
  read_vars(op->inputs, op->n_inputs, io->in, io->n_in, vars);
  read_vars(op->outputs, op->n_outputs, io->out, io->n_out, vars);
  read_vars(op->aux, op->n_aux, io->aux, io->n_aux, vars);
}
