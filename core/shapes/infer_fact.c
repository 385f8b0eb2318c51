/* SPDX-License-Identifier: Apache-2.0
 * infer_fact.c: adds facts to the signature. If a fact contradicts a known one,
 * all new facts are removed, and the message names both sources.
 */
#include <stdio.h>
#include <string.h>

#include "infer.h"

/* ---------------------------------------------------------------- operands */

static tn_sig *sig_of(const tn__unifier *u, uint32_t id) {
  const tn_signature *io = u->io;
  if (id < io->n_in) return &io->in[id];
  if (id < io->n_in + io->n_out) return &io->out[id - io->n_in];
  return &io->aux[id - io->n_in - io->n_out];
}

const tn_sig *tn__operand_sig(const tn__unifier *u, uint32_t id) {
  return sig_of(u, id);
}

const tn_arg *tn__arg_at(const tn_arg *const *args, uint32_t n,
                         uint32_t index) {
  return args[index < n ? index : n - 1];
}

const tn_arg *tn__operand_arg(const tn__unifier *u, uint32_t id) {
  const tn_signature *io = u->io;
  const tn_op *op = u->op;
  if (id < io->n_in) return tn__arg_at(op->inputs, op->n_inputs, id);
  id -= io->n_in;
  if (id < io->n_out) return tn__arg_at(op->outputs, op->n_outputs, id);
  return tn__arg_at(op->aux, op->n_aux, id - io->n_out);
}

bool tn__operand_is_absent(const tn__unifier *u, uint32_t id) {
  return u->args->absent != NULL && id < u->io->n_in &&
         u->args->absent[id] != 0;
}

uint32_t tn__operand_id(const tn__unifier *u, uint32_t list, uint32_t index) {
  const tn_signature *io = u->io;
  const uint32_t begin[] = {0, io->n_in, io->n_in + io->n_out};
  const uint32_t count[] = {io->n_in, io->n_out, io->n_aux};
  if (list > TN_OPERAND_AUX || index >= count[list]) return TN_NONE;
  return begin[list] + index;
}

/* ---------------------------------------------------------------- snapshot */

void tn__facts_save(tn__unifier *u) {
  for (uint32_t id = 0; id < u->n; ++id) {
    const tn_sig *sig = sig_of(u, id);
    tn__known_facts *given = &u->given[id];
    *given = (tn__known_facts){.ndim = -1, .dtype = sig->dtype};
    if (sig->ndim >= 0) given->ndim = (int16_t)sig->ndim;
    for (int32_t i = 0; i < sig->ndim; ++i)
      if (sig->shape[i] >= 0) given->dims |= (uint16_t)(1u << i);
  }
}

void tn__facts_restore(tn__unifier *u) {
  for (uint32_t id = 0; id < u->n; ++id) {
    tn_sig *sig = sig_of(u, id);
    const tn__known_facts *given = &u->given[id];
    for (int32_t i = 0; i < sig->ndim; ++i)
      if ((given->dims >> i & 1) == 0) sig->shape[i] = -1;
    sig->ndim = given->ndim;
    sig->dtype = given->dtype;
  }
}

/* ---------------------------------------------------------------- messages */

static const char *list_name(const tn__unifier *u, uint32_t id) {
  if (id < u->io->n_in) return "input";
  return id < u->io->n_in + u->io->n_out ? "output" : "state";
}

/* Adds the index of an operand among those with the same description. */
static void append_position(const tn__unifier *u, uint32_t id) {
  uint32_t index = id, n = u->op->n_inputs;
  const uint32_t n_in = u->io->n_in, n_out = u->io->n_out;
  if (id >= n_in) index = id - n_in, n = u->op->n_outputs;
  if (id >= n_in + n_out) return;
  const tn_arg *arg = tn__operand_arg(u, id);
  if ((arg->flags & TN_ARG_VARIADIC) != 0 || arg->count != TN_NONE)
    (void)tn__fail_more(TN_SHAPE, " number %u", index - (n - 1));
}

void tn__append_operand(const tn__unifier *u, uint32_t id, bool shape) {
  const tn_sig *sig = sig_of(u, id);
  (void)tn__fail_more(TN_SHAPE, "%s `%s`", list_name(u, id),
                      tn__operand_arg(u, id)->name);
  append_position(u, id);
  if (!shape) return;
  if (sig->ndim < 0) {
    (void)tn__fail_more(TN_SHAPE, " of unknown shape");
    return;
  }
  (void)tn__fail_more(TN_SHAPE, " (");
  for (int32_t i = 0; i < sig->ndim; ++i)
    (void)tn__fail_more(TN_SHAPE, sig->shape[i] < 0 ? "%s?" : "%s%lld",
                        i == 0 ? "" : ",", (long long)sig->shape[i]);
  (void)tn__fail_more(TN_SHAPE, ")");
}

static void append_source(const tn__unifier *u, uint32_t from) {
  if (from == TN__FROM_RULE)
    (void)tn__fail_more(TN_SHAPE, "the operator's rule");
  else if (from == TN__FROM_HOOK)
    (void)tn__fail_more(TN_SHAPE, "the operator's own infer function");
  else
    tn__append_operand(u, from, true);
}

static void append_rule(const tn_arg *rule) {
  if (rule != NULL && rule->shape_text != NULL)
    (void)tn__fail_more(TN_SHAPE, "; the rule of `%s` is %s", rule->name,
                        rule->shape_text);
}

/* Begins a message. It restores the shapes of the user, which the message
 * shows. */
static void begin_conflict(tn__unifier *u) {
  tn__facts_restore(u);
  (void)tn__fail(TN_SHAPE, "shapes contradict in operator %s: ", u->args->name);
}

/* The text "X is 2 by <source> but 3 by <source>", lower operand first. */
typedef struct claims {
  int64_t values[2];
  uint32_t from[2];
} claims;

static void append_claims(const tn__unifier *u, claims c) {
  const int first = c.from[0] <= c.from[1] ? 0 : 1;
  (void)tn__fail_more(TN_SHAPE, " is %lld by ", (long long)c.values[first]);
  append_source(u, c.from[first]);
  (void)tn__fail_more(TN_SHAPE, " but %lld by ",
                      (long long)c.values[1 - first]);
  append_source(u, c.from[1 - first]);
}

static tn_code fail_dim_conflict(tn__unifier *u, const tn__fact_target *target,
                                 claims c) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "dimension %d", target->dim);
  if (target->rule != NULL) {
    (void)tn__fail_more(TN_SHAPE, " of ");
    tn__append_operand(u, target->id, false);
  }
  append_claims(u, c);
  append_rule(target->rule);
  return TN_SHAPE;
}

static tn_code fail_rank_conflict(tn__unifier *u, const tn__fact_target *target,
                                  claims c) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "the number of dimensions");
  if (target->rule != NULL) {
    (void)tn__fail_more(TN_SHAPE, " of ");
    tn__append_operand(u, target->id, false);
  }
  append_claims(u, c);
  append_rule(target->rule);
  return TN_SHAPE;
}

tn_code tn__fail_no_solution(tn__unifier *u, const tn__fact_target *target) {
  const int64_t value = sig_of(u, target->id)->shape[target->dim];
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "no sizes give dimension %d of ", target->dim);
  tn__append_operand(u, target->id, true);
  (void)tn__fail_more(TN_SHAPE, " the value %lld", (long long)value);
  append_rule(target->rule);
  return TN_SHAPE;
}

tn_code tn__fail_rule(tn__unifier *u, const char *rule, tn_code code) {
  char why[256];
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  tn__facts_restore(u);
  (void)tn__fail(code, "operator %s, rule %s: %s", u->args->name,
                 rule == NULL ? "of a shape" : rule, why);
  for (uint32_t i = 0; i < u->io->n_in && i < 4; ++i) {
    if (tn__operand_is_absent(u, i)) continue;
    (void)tn__fail_more(code, "; ");
    tn__append_operand(u, i, true);
  }
  return code;
}

/* -------------------------------------------------------------------- facts */

uint32_t tn__dim_source(const tn__unifier *u, uint32_t id, int32_t dim) {
  const bool own = (u->given[id].dims >> dim & 1) != 0;
  return own || id >= TN__TRACKED ? id : u->from[id][dim];
}

uint32_t tn__rank_source(const tn__unifier *u, uint32_t id) {
  const bool own = u->given[id].ndim >= 0;
  return own || id >= TN__TRACKED ? id : u->rank_from[id];
}

/* The first source of a rank, if `from` only passed it on. */
static uint32_t rank_origin(const tn__unifier *u, uint32_t from) {
  return from < u->n ? tn__rank_source(u, from) : from;
}

tn_code tn__fact_rank(tn__unifier *u, const tn__fact_target *target,
                      int64_t rank) {
  tn_sig *sig = sig_of(u, target->id);
  const uint32_t from = rank_origin(u, target->from);
  if (sig->ndim == rank) return TN_OK;
  if (sig->ndim >= 0)
    return fail_rank_conflict(
        u, target,
        (claims){{sig->ndim, rank}, {tn__rank_source(u, target->id), from}});
  if (rank > TN_MAX_NDIM) {
    tn__facts_restore(u);
    return tn__fail(TN_SHAPE,
                    "operator %s: `%s` would have %lld dimensions, the most "
                    "are %d",
                    u->args->name, tn__operand_arg(u, target->id)->name,
                    (long long)rank, TN_MAX_NDIM);
  }
  sig->ndim = (int32_t)rank;
  for (int64_t i = 0; i < rank; ++i) sig->shape[i] = -1;
  if (target->id < TN__TRACKED) u->rank_from[target->id] = (uint16_t)from;
  u->changed = true;
  return TN_OK;
}

static tn_code fail_negative_dim(tn__unifier *u, const tn__fact_target *target,
                                 int64_t value) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "dimension %d of ", target->dim);
  tn__append_operand(u, target->id, false);
  (void)tn__fail_more(TN_SHAPE, " would be %lld by ", (long long)value);
  append_source(u, target->from);
  append_rule(target->rule);
  return TN_SHAPE;
}

tn_code tn__fact_dim(tn__unifier *u, const tn__fact_target *target,
                     int64_t value) {
  int64_t *dim = &sig_of(u, target->id)->shape[target->dim];
  if (*dim == value && value >= 0) return TN_OK;
  if (*dim >= 0)
    return fail_dim_conflict(
        u, target,
        (claims){{*dim, value},
                 {tn__dim_source(u, target->id, target->dim), target->from}});
  if (value < 0) return fail_negative_dim(u, target, value);
  *dim = value;
  if (target->id < TN__TRACKED)
    u->from[target->id][target->dim] = (uint16_t)target->from;
  u->changed = true;
  return TN_OK;
}

void tn__fact_dtype(tn__unifier *u, uint32_t id, tn_dtype dtype) {
  sig_of(u, id)->dtype = dtype;
}
