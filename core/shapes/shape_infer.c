/* SPDX-License-Identifier: Apache-2.0
 * shape_infer.c: completes shapes and element types of a call. Most calls have
 * equal and known shapes and take the fast path. For the others all rules run
 * until none of them adds a fact.
 */
#include "infer.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ counts */

static bool is_repeated(const tn_arg *const *args, uint32_t n) {
  return n > 0 && ((args[n - 1]->flags & TN_ARG_VARIADIC) != 0 ||
                   args[n - 1]->count != TN_NONE);
}

static uint32_t required_inputs(const tn_op *op) {
  const uint32_t skip = TN_ARG_OPTIONAL | TN_ARG_VARIADIC;
  uint32_t n = 0;
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    if ((op->inputs[i]->flags & skip) == 0) n = i + 1;
  return n;
}

static tn_code fail_count(const tn__infer_args *args, const char *what,
                          const tn_arg *const *list, uint32_t n_list,
                          uint32_t given) {
  (void)tn__fail(TN_INVALID, "operator %s has %u %s%s", args->name, n_list,
                 what, n_list == 1 ? "" : "s");
  for (uint32_t i = 0; i < n_list; ++i)
    (void)tn__fail_more(TN_INVALID, "%s%s%s", i == 0 ? " (" : ", ",
                        list[i]->name, i + 1 == n_list ? ")" : "");
  return tn__fail_more(TN_INVALID, ", but %u %s given", given,
                       given == 1 ? "was" : "were");
}

static tn_code check_counts(const tn__infer_args *args,
                            const tn_signature *io) {
  const tn_op *op = args->op;
  uint32_t n_out = 0;
  const bool many = is_repeated(op->inputs, op->n_inputs);
  if (io->n_in < required_inputs(op) || (!many && io->n_in > op->n_inputs))
    return fail_count(args, "input", op->inputs, op->n_inputs, io->n_in);
  TN__TRY(tn__infer_n_outputs(args, io->n_in, &n_out));
  if (io->n_out > n_out || io->n_out < tn__infer_n_visible(op, n_out))
    return is_repeated(op->outputs, op->n_outputs)
               ? tn__fail(TN_INVALID,
                          "operator %s has %u outputs with these parameters, "
                          "but %u were given",
                          args->name, n_out, io->n_out)
               : fail_count(args, "output", op->outputs, op->n_outputs,
                            io->n_out);
  if (io->n_aux != op->n_aux)
    return fail_count(args, "state", op->aux, op->n_aux, io->n_aux);
  return TN_OK;
}

static tn_code check_ranks(const tn__infer_args *args, const tn_sig *sigs,
                           uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (sigs[i].ndim > TN_MAX_NDIM)
      return tn__fail(TN_INVALID,
                      "operator %s: an operand has %d dimensions, the most are "
                      "%d",
                      args->name, sigs[i].ndim, TN_MAX_NDIM);
  return TN_OK;
}

static tn_code check_limits(const tn__infer_args *args,
                            const tn_signature *io) {
  const uint64_t n = (uint64_t)io->n_in + io->n_out + io->n_aux;
  if (n > TN__MAX_OPERANDS)
    return tn__fail(TN_UNSUPPORTED,
                    "operator %s: %llu operands in one call, the most are %d; "
                    "split the call",
                    args->name, (unsigned long long)n, TN__MAX_OPERANDS);
  if (args->op->n_dims > TN__MAX_DIMS || args->op->n_packs > TN__MAX_PACKS)
    return tn__fail(TN_UNSUPPORTED,
                    "operator %s has %u dimension and %u pack variables, the "
                    "most are %d and %d",
                    args->name, args->op->n_dims, args->op->n_packs,
                    TN__MAX_DIMS, TN__MAX_PACKS);
  TN__TRY(check_ranks(args, io->in, io->n_in));
  TN__TRY(check_ranks(args, io->out, io->n_out));
  return check_ranks(args, io->aux, io->n_aux);
}

static tn__scope scope_of(const tn__infer_args *args) {
  const tn_op *op = args->op;
  return (tn__scope){.nodes = op->nodes,
                     .n_nodes = op->n_nodes,
                     .fields = op->params,
                     .n_fields = op->n_params,
                     .params = args->params,
                     .absent = args->absent};
}

tn_code tn__infer_n_outputs(const tn__infer_args *args, uint32_t n_in,
                            uint32_t *out) {
  const tn_op *op = args->op;
  const tn_signature inputs = {
      .n_in = n_in}; /* the number of inputs, without shapes */
  tn__scope scope = scope_of(args);
  tn__ivalue n = {0};
  scope.io = &inputs;
  *out = op->n_outputs;
  if (!is_repeated(op->outputs, op->n_outputs)) return TN_OK;
  const tn_arg *last = op->outputs[op->n_outputs - 1];
  const tn_code rc = tn__expr_eval(&scope, last->count, &n);
  if (rc != TN_OK)
    return tn__fail(rc, "operator %s, number of outputs `%s`: %s", args->name,
                    last->name, tn_error_text());
  if (!n.known)
    return tn__fail(TN_INCOMPLETE,
                    "operator %s: the number of outputs `%s` is not known "
                    "without parameters",
                    args->name, last->name);
  if (n.v[0] < 0 || n.v[0] > TN__MAX_OPERANDS)
    return tn__fail(TN_OUT_OF_RANGE,
                    "operator %s: %lld outputs `%s` cannot be, the most are %d",
                    args->name, (long long)n.v[0], last->name,
                    TN__MAX_OPERANDS);
  *out = op->n_outputs - 1 + (uint32_t)n.v[0];
  return TN_OK;
}

uint32_t tn__infer_n_visible(const tn_op *op, uint32_t n_out) {
  uint32_t n = n_out;
  for (uint32_t i = op->n_outputs; i > 0; --i) {
    const tn_arg *arg = op->outputs[i - 1];
    if ((arg->flags & TN_ARG_HIDDEN) == 0) break;
    n -= arg->count == TN_NONE ? 1 : n_out - (op->n_outputs - 1);
  }
  return n;
}

/* --------------------------------------------------------------- fast path */

static bool is_known(const tn_sig *sig) {
  if (sig->ndim < 0 || sig->ndim > TN_MAX_NDIM) return false;
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0) return false;
  return true;
}

static bool is_equal(const tn_sig *a, const tn_sig *b) {
  if (a->ndim != b->ndim || a->dtype != b->dtype) return false;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* `arg` has the shape of an input, and its type by variable 0. */
static bool is_like_input(const tn_op *op, const tn_arg *arg) {
  return arg->shape_kind == TN_SHAPE_SAME && arg->shape_list == TN_OPERAND_IN &&
         arg->shape_index < op->n_inputs && arg->dtype_var == 0 &&
         arg->dtype_param == TN_NONE && arg->count == TN_NONE &&
         (arg->flags & TN_ARG_VARIADIC) == 0;
}

/* The operator requires equality of all operands and has no other rule. */
static bool is_simple(const tn_op *op) {
  const tn_arg *first = op->n_inputs > 0 ? op->inputs[0] : NULL;
  if (first == NULL || op->n_aux != 0 || op->n_requires != 0 ||
      op->infer != NULL || op->n_dtype_vars != 1)
    return false;
  if (first->shape_kind != TN_SHAPE_ANY || first->dtype_var != 0 ||
      first->dtype_param != TN_NONE || (first->flags & TN_ARG_VARIADIC) != 0)
    return false;
  for (uint32_t i = 1; i < op->n_inputs; ++i)
    if (!is_like_input(op, op->inputs[i]) || op->inputs[i]->shape_index >= i)
      return false;
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (!is_like_input(op, op->outputs[i])) return false;
  return true;
}

/* An output that is unknown, or already equal to the result. */
static bool can_become(const tn_sig *out, const tn_sig *like) {
  return (out->ndim < 0 &&
          (out->dtype == TN_DTYPE_UNKNOWN || out->dtype == like->dtype)) ||
         is_equal(out, like);
}

/* Infers a simple call completely; otherwise changes nothing. */
static bool infer_simple(const tn__infer_args *args, tn_signature *io) {
  const tn_op *op = args->op;
  if (io->n_in != op->n_inputs || io->n_out != op->n_outputs ||
      io->n_aux != 0 || !is_simple(op))
    return false;
  for (uint32_t i = 0; args->absent != NULL && i < io->n_in; ++i)
    if (args->absent[i] != 0) return false;
  const tn_sig *first = &io->in[0];
  if (!is_known(first) ||
      (op->dtype_vars[0]->allowed & tn__dtype_bit(first->dtype)) == 0)
    return false;
  for (uint32_t i = 1; i < io->n_in; ++i)
    if (!is_equal(&io->in[i], first)) return false;
  for (uint32_t i = 0; i < io->n_out; ++i)
    if (!can_become(&io->out[i], first)) return false;
  for (uint32_t i = 0; i < io->n_out; ++i) {
    tn_sig *out = &io->out[i];
    out->dtype = first->dtype;
    out->ndim = first->ndim;
    memcpy(out->shape, first->shape, (size_t)first->ndim * sizeof(int64_t));
  }
  return true;
}

/* ------------------------------------------------------------ requirements */

/* Adds "C = 10, num_group = 3": the values of the names in a condition. */
static void append_names(const tn__unifier *u, uint32_t index,
                         const char **separator) {
  const tn_node *node = &u->op->nodes[index];
  const int32_t children[] = {node->a, node->b, node->c};
  const char *name = NULL;
  tn__ivalue value;
  for (uint32_t i = 0; i < tnm_node_arity(node->op); ++i)
    append_names(u, (uint32_t)children[i], separator);
  if (node->op == TN_NODE_DIM) name = u->op->dims[node->a];
  if (node->op == TN_NODE_PACK) name = u->op->packs[node->a];
  if (node->op == TN_NODE_PARAM) name = u->op->params[node->a]->name;
  if (name == NULL || tn__expr_eval(&u->scope, index, &value) != TN_OK ||
      value.n == 0)
    return;
  (void)tn__fail_more(TN_SHAPE, "%s%s = ", *separator, name);
  *separator = ", ";
  const bool list = value.n > 0;
  for (int32_t i = 0; i < (list ? value.n : 1); ++i)
    (void)tn__fail_more(TN_SHAPE, "%s%lld",
                        i > 0  ? ","
                        : list ? "("
                               : "",
                        (long long)value.v[i]);
  if (list) (void)tn__fail_more(TN_SHAPE, ")");
}

static tn_code fail_requirement(tn__unifier *u, const tn_require *require) {
  const char *separator = "; here ";
  (void)tn__fail(
      TN_SHAPE, "operator %s: %s (it requires %s", u->args->name,
      require->say != NULL ? require->say : "these shapes do not fit",
      require->that);
  append_names(u, require->node, &separator);
  (void)tn__fail_more(TN_SHAPE, ")");
  tn__facts_restore(u);
  return TN_SHAPE;
}

/* An unknown element does not count as 0. */
static bool is_broken(const tn__ivalue *value) {
  const int32_t n = value->n == TN__SCALAR ? 1 : value->n;
  for (int32_t i = 0; i < n; ++i)
    if (value->v[i] == 0 && (value->known || value->n > 0)) return true;
  return false;
}

static tn_code check_requirement(tn__unifier *u, const tn_require *require) {
  tn__ivalue value;
  const tn_code rc = tn__expr_eval(&u->scope, require->node, &value);
  if (rc != TN_OK) return tn__fail_rule(u, require->that, rc);
  return is_broken(&value) ? fail_requirement(u, require) : TN_OK;
}

static tn_code check_requirements(tn__unifier *u) {
  for (uint32_t i = 0; i < u->op->n_requires; ++i)
    TN__TRY(check_requirement(u, u->op->requirements[i]));
  return TN_OK;
}

/* A conflict of shapes may follow from a broken requirement, such as 1/7, which
 * gives 0 channels. Then the message of the operator replaces that of the
 * conflict. Requirements that cannot be evaluated are ignored. */
static tn_code explain_conflict(tn__unifier *u, tn_code rc) {
  char text[TN__ERROR_MAX];
  tn__ivalue value;
  if (rc != TN_SHAPE) return rc;
  (void)snprintf(text, sizeof text, "%s", tn_error_text());
  for (uint32_t i = 0; i < u->op->n_requires; ++i) {
    const tn_require *require = u->op->requirements[i];
    if (tn__expr_eval(&u->scope, require->node, &value) == TN_OK &&
        is_broken(&value))
      return fail_requirement(u, require);
  }
  return tn__fail(rc, "%s", text);
}

/* ------------------------------------------------------------ completeness */

static bool is_complete(const tn__unifier *u, uint32_t id) {
  const tn_sig *sig = tn__operand_sig(u, id);
  const bool dynamic = (tn__operand_arg(u, id)->flags & TN_ARG_DYNAMIC) != 0;
  if (tn__operand_is_absent(u, id)) return true;
  return sig->dtype != TN_DTYPE_UNKNOWN && (dynamic || is_known(sig));
}

/* Fails with the first ten operands that are not completely known. */
static tn_code check_complete(const tn__unifier *u) {
  uint32_t n = 0;
  for (uint32_t id = 0; id < u->n; ++id) {
    if (is_complete(u, id)) continue;
    if (n == 0)
      (void)tn__fail(TN_INCOMPLETE, "operator %s: not enough is known of ",
                     u->args->name);
    if (n > 0 && n < 10) (void)tn__fail_more(TN_INCOMPLETE, ", ");
    if (n < 10) tn__append_operand(u, id, true);
    if (n < 10 && tn__operand_sig(u, id)->dtype == TN_DTYPE_UNKNOWN)
      (void)tn__fail_more(TN_INCOMPLETE, " of unknown type");
    ++n;
  }
  if (n == 0) return TN_OK;
  if (n > 10) (void)tn__fail_more(TN_INCOMPLETE, " and %u more", n - 10);
  return tn__fail_more(TN_INCOMPLETE,
                       " (`?` is an unknown dimension); state more shapes or "
                       "types");
}

/* --------------------------------------------------------------- slow path */

static void begin_inference(tn__unifier *u, const tn__infer_args *args,
                            tn_signature *io) {
  u->args = args;
  u->op = args->op;
  u->io = io;
  u->n = io->n_in + io->n_out + io->n_aux;
  u->changed = false;
  u->defaults = false;
  u->scope = scope_of(args);
  u->scope.io = io;
  u->scope.dims = u->dims;
  u->scope.packs = u->packs;
  for (uint32_t i = 0; i < u->op->n_dims; ++i)
    u->dims[i].n = TN__SCALAR, u->dims[i].known = 0;
  for (uint32_t i = 0; i < u->op->n_packs; ++i)
    u->packs[i].n = TN__UNKNOWN_LENGTH, u->packs[i].known = 0;
  tn__facts_save(u);
}

static tn_code run_rules(tn__unifier *u) {
  TN__TRY(tn__infer_dtypes(u));
  TN__TRY(explain_conflict(u, tn__infer_shapes(u)));
  TN__TRY(check_requirements(u));
  return check_complete(u);
}

/* A separate function, so that the fast path does not pay for the unifier's
 * stack frame. */
__attribute__((noinline)) static tn_code infer_by_rules(
    const tn__infer_args *args, tn_signature *io) {
  tn__unifier u;
  TN__TRY(check_limits(args, io));
  TN__TRY(check_counts(args, io));
  begin_inference(&u, args, io);
  tn_code rc = run_rules(&u);
  if (rc == TN_INCOMPLETE && args->defaults && args->op->infer) {
    u.defaults = true;
    rc = run_rules(&u);
  }
  if (rc != TN_OK && rc != TN_INCOMPLETE) tn__facts_restore(&u);
  return rc;
}

tn_code tn__infer_signature(const tn__infer_args *args, tn_signature *io) {
  return infer_simple(args, io) ? TN_OK : infer_by_rules(args, io);
}
