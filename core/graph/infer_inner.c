/* SPDX-License-Identifier: Apache-2.0
 * infer_inner.c: inference of nodes with a graph of their own. Outer facts are
 * added to the inner graph, which runs to its fixed point; its facts are then
 * added outside. In a loop, sequences and collected outputs have one more axis
 * outside, the first, with one length for all of them.
 */
#include "facts.h"

#include <string.h>

/* An entry of the outer graph and the entry of the inner graph that gets or
 * makes its elements. */
typedef struct pair {
  tn_entry outer;
  tn_entry inner;
  bool stacked; /* the outer entry has one more axis, along which the steps are
                   counted */
} pair;

/* The state of inferring one node and its inner graph from each other. */
typedef struct inner {
  tn__facts *outside;
  tn__facts inside;
  const tn__node *node;
  const tn_entry *inputs; /* variables of the inner graph */
  pair *pairs;
  uint32_t n;
  int64_t length; /* length of the axis along which the steps of a loop are
                     counted; -1: unknown */
} inner;

/* ------------------------------------------------------------------- pairs */

static void add_pair(inner *x, tn_entry outer, tn_entry in, bool stacked) {
  if (!tn__entry_is_none(outer)) x->pairs[x->n++] = (pair){outer, in, stacked};
}

static bool is_listed(const uint32_t *list, uint32_t n, uint32_t i) {
  while (n > 0)
    if (list[--n] == i) return true;
  return false;
}

static void add_input_pairs(inner *x) {
  const tn__node *node = x->node;
  const tn__loop *loop = node->loop;
  for (uint32_t i = 0; i < node->n_in + node->n_aux; ++i)
    add_pair(x, node->in[i], x->inputs[i],
             loop && is_listed(loop->sequences, loop->n_sequences, i));
}

/* Adds pairs for the outputs of a loop: last states, one element per step of
 * other heads, states before every step, and kept entries of every step. */
static void add_output_pairs(inner *x) {
  const tn__node *node = x->node;
  const tn_graph *graph = node->inner;
  const uint32_t n_heads = (uint32_t)graph->n_heads;
  for (uint32_t i = 0; i < node->n_out; ++i) {
    const tn_entry outer = {node->id, i};
    if (i < n_heads)
      add_pair(x, outer, graph->heads[i],
               node->loop && i >= node->loop->n_states);
    else if (i < n_heads + node->loop->n_states)
      add_pair(x, outer, x->inputs[node->loop->states[i - n_heads]], true);
    else
      add_pair(x, outer, node->loop->kept[i - n_heads - node->loop->n_states],
               true);
  }
}

/* ---------------------------------------------------------------- one axis */

static tn_code fail_no_axis(const inner *x, const pair *p) {
  char name[TN__ENTRY_TEXT];
  return tn__fail(TN_SHAPE,
                  "`%s` is a single number, but a loop goes along the first "
                  "axis of its sequences",
                  tn__entry_text(x->outside->graph, p->outer, name));
}

static tn_code fail_too_many_axes(const inner *x, const pair *p) {
  char name[TN__ENTRY_TEXT];
  return tn__fail(TN_SHAPE,
                  "`%s` of the loop's step has %d dimensions; with one for the "
                  "loop there would be more than %d",
                  tn__entry_text(x->inside.graph, p->inner, name), TN_MAX_NDIM,
                  TN_MAX_NDIM);
}

/* Steps read and write elements at addresses of their own. */
static tn_code check_stacked(const inner *x, const pair *p, const tn_sig *sig) {
  char name[TN__ENTRY_TEXT];
  if (!p->stacked || !tn_dtype_is_packed(sig->dtype)) return TN_OK;
  return tn__fail(TN_UNSUPPORTED,
                  "`%s` is %s, whose elements share bytes, and a loop cannot "
                  "go along it; convert it first (operator elemwise.cast)",
                  tn__entry_text(x->outside->graph, p->outer, name),
                  tn__dtype_name(sig->dtype));
}

/* Returns the signature of one element of a sequence: without the first
 * axis. */
static tn_sig get_element_sig(const tn_sig *sig) {
  tn_sig element = {.dtype = sig->dtype, .ndim = sig->ndim - 1};
  if (sig->ndim < 0) element.ndim = -1;
  for (int32_t i = 0; i < element.ndim; ++i)
    element.shape[i] = sig->shape[i + 1];
  return element;
}

/* Returns the signature of `length` elements along a new first axis. */
static tn_sig get_stacked_sig(const tn_sig *sig, int64_t length) {
  tn_sig stack = {.dtype = sig->dtype, .ndim = sig->ndim};
  if (sig->ndim < 0) return stack;
  ++stack.ndim;
  stack.shape[0] = length;
  for (int32_t i = 0; i < sig->ndim; ++i) stack.shape[i + 1] = sig->shape[i];
  return stack;
}

/* ------------------------------------------------------------------- rounds */

static tn_code pass_facts_inside(inner *x) {
  for (uint32_t i = 0; i < x->n; ++i) {
    const pair *p = &x->pairs[i];
    tn_sig sig = *tn__entry_sig(x->outside->graph, p->outer);
    if (p->stacked && sig.ndim == 0) return fail_no_axis(x, p);
    TN__TRY(check_stacked(x, p, &sig));
    if (p->stacked && sig.ndim > 0 && x->length < 0) x->length = sig.shape[0];
    if (p->stacked) sig = get_element_sig(&sig);
    TN__TRY(tn__facts_add(&x->inside, p->inner, &sig, TN__FROM_OUTSIDE));
  }
  return TN_OK;
}

static tn_code pass_facts_outside(inner *x) {
  for (uint32_t i = 0; i < x->n; ++i) {
    const pair *p = &x->pairs[i];
    tn_sig sig = *tn__entry_sig(x->inside.graph, p->inner);
    if (p->stacked && sig.ndim == TN_MAX_NDIM) return fail_too_many_axes(x, p);
    TN__TRY(check_stacked(x, p, &sig));
    if (p->stacked) sig = get_stacked_sig(&sig, x->length);
    TN__TRY(tn__facts_add(x->outside, p->outer, &sig, x->node->id));
  }
  return TN_OK;
}

/* Unifies the states before and after a step. */
static tn_code unify_states(inner *x) {
  const tn__loop *loop = x->node->loop;
  const tn_entry *heads = x->inside.graph->heads;
  for (uint32_t k = 0; loop && k < loop->n_states; ++k)
    TN__TRY(tn__facts_unify(&x->inside, x->inputs[loop->states[k]], heads[k]));
  return TN_OK;
}

static tn_code copy_inner_facts(inner *x) {
  TN__TRY(pass_facts_inside(x));
  do {
    TN__TRY(tn__facts_run(&x->inside));
    x->inside.current = TN_NONE;
    TN__TRY(unify_states(x));
  } while (x->inside.n_queued > 0);
  return pass_facts_outside(x);
}

tn_code tn__facts_infer_inner(tn__facts *f, const tn__node *node) {
  const tn__env *env = f->graph->env;
  const size_t most = (size_t)node->n_in + node->n_aux + node->n_out;
  uint32_t n_arguments = 0, n_states = 0;
  inner x = {.outside = f, .node = node, .length = -1};
  TN__TRY(tn__graph_variables(node->inner, &x.inputs, &n_arguments, &n_states));
  x.pairs = tn__alloc(env, most * sizeof *x.pairs);
  tn_code rc = x.pairs ? TN_OK
                       : tn__fail_memory(most * sizeof *x.pairs,
                                         "the shapes of a graph in a graph");
  if (rc == TN_OK) {
    add_input_pairs(&x);
    add_output_pairs(&x);
    rc = tn__facts_begin(&x.inside, node->inner, NULL, 0);
    if (rc == TN_OK) rc = copy_inner_facts(&x);
    if (rc == TN_OK && f->usual == node->id) {
      rc = tn__facts_defaults(&x.inside);
      if (rc == TN_OK) rc = copy_inner_facts(&x);
    }
    tn__facts_close(&x.inside);
  }
  tn__free(env, x.pairs);
  return rc;
}
