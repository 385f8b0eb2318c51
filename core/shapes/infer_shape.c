/* SPDX-License-Identifier: Apache-2.0
 * infer_shape.c: the shape rules other than patterns: equality of operands,
 * broadcasting, and the operator's own infer function.
 */
#include "infer.h"

/* -------------------------------------------------------------------- same */

/* Operands a and b have the same shape; copies facts in both directions. */
static tn_code unify_shapes(tn__unifier *u, uint32_t a, uint32_t b) {
  const tn_sig *x = tn__operand_sig(u, a), *y = tn__operand_sig(u, b);
  if (y->ndim >= 0)
    TN__TRY(tn__fact_rank(u, &(tn__fact_target){.id = a, .from = b}, y->ndim));
  else if (x->ndim >= 0)
    TN__TRY(tn__fact_rank(u, &(tn__fact_target){.id = b, .from = a}, x->ndim));
  for (int32_t i = 0; i < x->ndim; ++i) {
    if (y->shape[i] >= 0)
      TN__TRY(
          tn__fact_dim(u,
                       &(tn__fact_target){
                           .id = a, .dim = i, .from = tn__dim_source(u, b, i)},
                       y->shape[i]));
    else if (x->shape[i] >= 0)
      TN__TRY(
          tn__fact_dim(u,
                       &(tn__fact_target){
                           .id = b, .dim = i, .from = tn__dim_source(u, a, i)},
                       x->shape[i]));
  }
  return TN_OK;
}

static tn_code apply_same(tn__unifier *u, uint32_t id, const tn_arg *arg) {
  const uint32_t other = tn__operand_id(u, arg->shape_list, arg->shape_index);
  if (other == TN_NONE || other == id || tn__operand_is_absent(u, other))
    return TN_OK;
  return unify_shapes(u, id, other);
}

/* --------------------------------------------------------------- broadcast */

/* Whether an input takes part in broadcasting: it is present and its own shape
 * is not the result. */
static bool is_broadcast_input(const tn__unifier *u, uint32_t i) {
  return !tn__operand_is_absent(u, i) &&
         tn__operand_arg(u, i)->shape_kind != TN_SHAPE_BROADCAST;
}

/* Facts of the inputs about the result's rank. */
typedef struct ranks {
  int32_t most;    /* largest known; -1 if none is */
  uint32_t from;   /* the input with this rank */
  uint32_t n_open; /* inputs of unknown rank */
  uint32_t open;   /* one of them */
} ranks;

static ranks input_ranks(const tn__unifier *u) {
  ranks r = {.most = -1, .from = TN__FROM_RULE};
  for (uint32_t i = 0; i < u->io->n_in; ++i) {
    if (!is_broadcast_input(u, i)) continue;
    const int32_t ndim = u->io->in[i].ndim;
    if (ndim < 0)
      r.n_open++, r.open = i;
    else if (ndim > r.most)
      r.most = ndim, r.from = i;
  }
  return r;
}

static tn_code broadcast_rank(tn__unifier *u, uint32_t id, const tn_arg *arg) {
  const ranks r = input_ranks(u);
  const tn_sig *out = tn__operand_sig(u, id);
  const tn__fact_target to_out = {.id = id, .from = r.from, .rule = arg};
  if (r.most >= 0 && (r.n_open == 0 || (out->ndim >= 0 && r.most > out->ndim)))
    return tn__fact_rank(u, &to_out, r.most);
  if (out->ndim < 0 || r.n_open != 1 || r.most == out->ndim) return TN_OK;
  return tn__fact_rank(
      u, &(tn__fact_target){.id = r.open, .from = id, .rule = arg}, out->ndim);
}

/* Index of input i's dimension that is the p-th from the right. It is -1 if the
 * input takes no part, has unknown rank, or is too short. */
static int32_t dim_from_right(const tn__unifier *u, uint32_t i, int32_t p) {
  const int32_t ndim = u->io->in[i].ndim;
  return !is_broadcast_input(u, i) || p >= ndim ? -1 : ndim - 1 - p;
}

/* Facts of the inputs about one dimension. */
typedef struct column {
  bool wide;        /* one of them is known and not 1 */
  uint32_t n_open;  /* inputs with an unknown size */
  uint32_t open;    /* the last of them ... */
  int32_t open_dim; /* ... and its dimension, -1 if its rank is unknown */
  uint32_t any;     /* an input that takes part */
} column;

static tn_code read_column(tn__unifier *u, tn__fact_target target, int32_t p,
                           column *out) {
  *out = (column){.any = TN__FROM_RULE};
  for (uint32_t i = 0; i < u->io->n_in; ++i) {
    const tn_sig *in = &u->io->in[i];
    const int32_t dim = dim_from_right(u, i, p);
    if (!is_broadcast_input(u, i) || (in->ndim >= 0 && dim < 0)) continue;
    if (out->any == TN__FROM_RULE) out->any = i;
    if (dim < 0 || in->shape[dim] < 0) {
      out->n_open++, out->open = i, out->open_dim = dim;
    } else if (in->shape[dim] != 1) {
      out->wide = true;
      target.from = tn__dim_source(u, i, dim);
      TN__TRY(tn__fact_dim(u, &target, in->shape[dim]));
    }
  }
  return TN_OK;
}

/* If an output dimension is 1, so is that of every input. */
static tn_code narrow_inputs(tn__unifier *u, const tn__fact_target *out,
                             int32_t p) {
  for (uint32_t i = 0; i < u->io->n_in; ++i) {
    const int32_t dim = dim_from_right(u, i, p);
    if (dim < 0 || u->io->in[i].shape[dim] >= 0) continue;
    TN__TRY(tn__fact_dim(
        u,
        &(tn__fact_target){.id = i,
                           .dim = dim,
                           .from = tn__dim_source(u, out->id, out->dim),
                           .rule = out->rule},
        1));
  }
  return TN_OK;
}

static tn_code broadcast_dim(tn__unifier *u, tn__fact_target target,
                             int32_t p) {
  const int64_t *dim = &tn__operand_sig(u, target.id)->shape[target.dim];
  column c;
  TN__TRY(read_column(u, target, p, &c));
  if (*dim == 1) return narrow_inputs(u, &target, p);
  if (!c.wide && c.n_open == 0) {
    target.from = c.any;
    return tn__fact_dim(u, &target, 1);
  }
  if (c.wide || c.n_open != 1 || c.open_dim < 0 || *dim < 0) return TN_OK;
  const tn__fact_target to_input = {
      .id = c.open,
      .dim = c.open_dim,
      .from = tn__dim_source(u, target.id, target.dim),
      .rule = target.rule};
  return tn__fact_dim(u, &to_input, *dim);
}

/* The operand, an output or an input, has the broadcast shape (as in numpy) of
 * all inputs with a shape of their own. An input gets a fact from the output if
 * only one solution remains. */
static tn_code broadcast_shape(tn__unifier *u, uint32_t id, const tn_arg *arg) {
  const tn_sig *out = tn__operand_sig(u, id);
  if (u->io->n_in == 0) return TN_OK;
  TN__TRY(broadcast_rank(u, id, arg));
  for (int32_t i = 0; i < out->ndim; ++i)
    TN__TRY(broadcast_dim(u, (tn__fact_target){.id = id, .dim = i, .rule = arg},
                          out->ndim - 1 - i));
  return TN_OK;
}

/* --------------------------------------------------------------------- all */

static tn_code apply_rule(tn__unifier *u, uint32_t id) {
  const tn_arg *arg = tn__operand_arg(u, id);
  if (tn__operand_is_absent(u, id)) return TN_OK;
  switch (arg->shape_kind) {
    case TN_SHAPE_SAME:
      return apply_same(u, id, arg);
    case TN_SHAPE_BROADCAST:
      return broadcast_shape(u, id, arg);
    case TN_SHAPE_PATTERN:
      return tn__infer_pattern(u, id, arg);
    default:
      return TN_OK;
  }
}

tn_code tn__infer_shapes(tn__unifier *u) {
  do {
    u->changed = false;
    for (uint32_t id = 0; id < u->n; ++id) TN__TRY(apply_rule(u, id));
    if (u->op->infer != NULL) TN__TRY(tn__infer_hook(u));
  } while (u->changed);
  return TN_OK;
}
