/* SPDX-License-Identifier: Apache-2.0
 * infer_fact.c: facts enter the signature, or contradict what is known; then
 * everything that was added is taken back and the message names both sources.
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

const tn_sig *tn__operand(const tn__unifier *u, uint32_t id) {
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

bool tn__operand_absent(const tn__unifier *u, uint32_t id) {
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

void tn__snapshot(tn__unifier *u) {
  for (uint32_t id = 0; id < u->n; ++id) {
    const tn_sig *sig = sig_of(u, id);
    tn__given *given = &u->given[id];
    *given = (tn__given){.ndim = -1, .dtype = sig->dtype};
    if (sig->ndim >= 0) given->ndim = (int16_t)sig->ndim;
    for (int32_t i = 0; i < sig->ndim; ++i)
      if (sig->shape[i] >= 0) given->dims |= (uint16_t)(1u << i);
  }
}

void tn__restore(tn__unifier *u) {
  for (uint32_t id = 0; id < u->n; ++id) {
    tn_sig *sig = sig_of(u, id);
    const tn__given *given = &u->given[id];
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

/* The place of an operand among those that share its description, as text. */
static void say_position(const tn__unifier *u, uint32_t id) {
  uint32_t index = id, n = u->op->n_inputs;
  const uint32_t n_in = u->io->n_in, n_out = u->io->n_out;
  if (id >= n_in) index = id - n_in, n = u->op->n_outputs;
  if (id >= n_in + n_out) return;
  const tn_arg *arg = tn__operand_arg(u, id);
  if ((arg->flags & TN_ARG_VARIADIC) != 0 || arg->count != TN_NONE)
    (void)tn__fail_more(TN_SHAPE, " number %u", index - (n - 1));
}

void tn__say_operand(const tn__unifier *u, uint32_t id, bool shape) {
  const tn_sig *sig = sig_of(u, id);
  (void)tn__fail_more(TN_SHAPE, "%s `%s`", list_name(u, id),
                      tn__operand_arg(u, id)->name);
  say_position(u, id);
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

static void say_source(const tn__unifier *u, uint32_t from) {
  if (from == TN__FROM_RULE)
    (void)tn__fail_more(TN_SHAPE, "the operator's rule");
  else if (from == TN__FROM_HOOK)
    (void)tn__fail_more(TN_SHAPE, "the operator's own infer function");
  else
    tn__say_operand(u, from, true);
}

static void say_rule(const tn_arg *rule) {
  if (rule != NULL && rule->shape_text != NULL)
    (void)tn__fail_more(TN_SHAPE, "; the rule of `%s` is %s", rule->name,
                        rule->shape_text);
}

/* Begins a message; from here on the shapes are those that the user gave. */
static void begin_conflict(tn__unifier *u) {
  tn__restore(u);
  (void)tn__fail(TN_SHAPE, "shapes contradict in operator %s: ", u->args->name);
}

/* "X is 2 by <source> but 3 by <source>", lower operand first. */
typedef struct claims {
  int64_t values[2];
  uint32_t from[2];
} claims;

static void say_claims(const tn__unifier *u, claims c) {
  const int first = c.from[0] <= c.from[1] ? 0 : 1;
  (void)tn__fail_more(TN_SHAPE, " is %lld by ", (long long)c.values[first]);
  say_source(u, c.from[first]);
  (void)tn__fail_more(TN_SHAPE, " but %lld by ",
                      (long long)c.values[1 - first]);
  say_source(u, c.from[1 - first]);
}

static tn_code dim_conflict(tn__unifier *u, const tn__spot *spot, claims c) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "dimension %d", spot->dim);
  if (spot->rule != NULL) {
    (void)tn__fail_more(TN_SHAPE, " of ");
    tn__say_operand(u, spot->id, false);
  }
  say_claims(u, c);
  say_rule(spot->rule);
  return TN_SHAPE;
}

static tn_code rank_conflict(tn__unifier *u, const tn__spot *spot, claims c) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "the number of dimensions");
  if (spot->rule != NULL) {
    (void)tn__fail_more(TN_SHAPE, " of ");
    tn__say_operand(u, spot->id, false);
  }
  say_claims(u, c);
  say_rule(spot->rule);
  return TN_SHAPE;
}

tn_code tn__no_solution(tn__unifier *u, const tn__spot *spot) {
  const int64_t value = sig_of(u, spot->id)->shape[spot->dim];
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "no sizes give dimension %d of ", spot->dim);
  tn__say_operand(u, spot->id, true);
  (void)tn__fail_more(TN_SHAPE, " the value %lld", (long long)value);
  say_rule(spot->rule);
  return TN_SHAPE;
}

tn_code tn__rule_failed(tn__unifier *u, const char *rule, tn_code code) {
  char why[256];
  (void)snprintf(why, sizeof why, "%s", tn_error_text());
  tn__restore(u);
  (void)tn__fail(code, "operator %s, rule %s: %s", u->args->name,
                 rule == NULL ? "of a shape" : rule, why);
  for (uint32_t i = 0; i < u->io->n_in && i < 4; ++i) {
    if (tn__operand_absent(u, i)) continue;
    (void)tn__fail_more(code, "; ");
    tn__say_operand(u, i, true);
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

/* Whoever stated the fact first, if `from` only passed it on. */
static uint32_t origin_of_rank(const tn__unifier *u, uint32_t from) {
  return from < u->n ? tn__rank_source(u, from) : from;
}

tn_code tn__fact_rank(tn__unifier *u, const tn__spot *spot, int64_t rank) {
  tn_sig *sig = sig_of(u, spot->id);
  const uint32_t from = origin_of_rank(u, spot->from);
  if (sig->ndim == rank) return TN_OK;
  if (sig->ndim >= 0)
    return rank_conflict(
        u, spot,
        (claims){{sig->ndim, rank}, {tn__rank_source(u, spot->id), from}});
  if (rank > TN_MAX_NDIM) {
    tn__restore(u);
    return tn__fail(TN_SHAPE,
                    "operator %s: `%s` would have %lld dimensions, the most "
                    "are %d",
                    u->args->name, tn__operand_arg(u, spot->id)->name,
                    (long long)rank, TN_MAX_NDIM);
  }
  sig->ndim = (int32_t)rank;
  for (int64_t i = 0; i < rank; ++i) sig->shape[i] = -1;
  if (spot->id < TN__TRACKED) u->rank_from[spot->id] = (uint16_t)from;
  u->changed = true;
  return TN_OK;
}

static tn_code negative_dim(tn__unifier *u, const tn__spot *spot,
                            int64_t value) {
  begin_conflict(u);
  (void)tn__fail_more(TN_SHAPE, "dimension %d of ", spot->dim);
  tn__say_operand(u, spot->id, false);
  (void)tn__fail_more(TN_SHAPE, " would be %lld by ", (long long)value);
  say_source(u, spot->from);
  say_rule(spot->rule);
  return TN_SHAPE;
}

tn_code tn__fact_dim(tn__unifier *u, const tn__spot *spot, int64_t value) {
  int64_t *dim = &sig_of(u, spot->id)->shape[spot->dim];
  if (*dim == value && value >= 0) return TN_OK;
  if (*dim >= 0)
    return dim_conflict(
        u, spot,
        (claims){{*dim, value},
                 {tn__dim_source(u, spot->id, spot->dim), spot->from}});
  if (value < 0) return negative_dim(u, spot, value);
  *dim = value;
  if (spot->id < TN__TRACKED)
    u->from[spot->id][spot->dim] = (uint16_t)spot->from;
  u->changed = true;
  return TN_OK;
}

void tn__fact_dtype(tn__unifier *u, uint32_t id, tn_dtype dtype) {
  sig_of(u, id)->dtype = dtype;
}
