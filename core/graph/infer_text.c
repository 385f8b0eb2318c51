/* SPDX-License-Identifier: Apache-2.0
 * infer_text.c: messages of a failing inference: contradicting shapes with
 * their sources, or missing facts.
 */
#include "facts.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- shapes */

static void print_shape(tn_code code, const tn_sig *sig) {
  if (sig->ndim < 0) {
    (void)tn__fail_more(code, "of unknown shape");
    return;
  }
  (void)tn__fail_more(code, "(");
  for (int32_t i = 0; i < sig->ndim; ++i)
    if (sig->shape[i] < 0)
      (void)tn__fail_more(code, "%s?", i == 0 ? "" : ",");
    else
      (void)tn__fail_more(code, "%s%lld", i == 0 ? "" : ",",
                          (long long)sig->shape[i]);
  (void)tn__fail_more(code, ")");
}

/* Prints the property of a signature that caused the conflict `code`: the shape
 * or the type. */
static void print_conflict(tn_code code, const tn_sig *sig) {
  if (code == TN_DTYPE)
    (void)tn__fail_more(code, "%s", tn__dtype_name(sig->dtype));
  else
    print_shape(code, sig);
}

static void print_source(const tn_graph *graph, tn_code code, tn_entry entry) {
  const size_t id = tn__entry_id(graph, entry);
  const uint32_t from = graph->from[2 * id + (code == TN_DTYPE)];
  if (from == TN_NONE) return;
  if (from == TN__FROM_OUTSIDE) {
    (void)tn__fail_more(code, ", as the graph around it says");
    return;
  }
  const tn__node *node = tn__node_at(graph, from);
  if (from == entry.node && node->kind == TN__NODE_VARIABLE)
    (void)tn__fail_more(code, ", as was given");
  else if (node->kind == TN__NODE_VARIABLE)
    (void)tn__fail_more(code, ", as was given for `%s`", node->name);
  else
    (void)tn__fail_more(code, ", %s node `%s`%s%s%s",
                        from == entry.node ? "as made by" : "by", node->name,
                        node->op ? " (" : "", node->op ? node->op->name : "",
                        node->op ? ")" : "");
}

/* Prints "`fc1_output` (5,21), as made by node `fc1` (nn.fully_connected@1)".
 */
static void print_entry(const tn_graph *graph, tn_code code, tn_entry entry) {
  char name[TN__ENTRY_TEXT];
  (void)tn__fail_more(code, "`%s` ", tn__entry_text(graph, entry, name));
  print_conflict(code, tn__entry_sig(graph, entry));
  print_source(graph, code, entry);
}

/* ----------------------------------------------------------- contradictions */

bool tn__sig_has_conflict(const tn_sig *a, const tn_sig *b, tn_code *code) {
  *code = TN_DTYPE;
  if (a->dtype != b->dtype && a->dtype != TN_DTYPE_UNKNOWN &&
      b->dtype != TN_DTYPE_UNKNOWN)
    return true;
  *code = TN_SHAPE;
  if (a->ndim < 0 || b->ndim < 0) return false;
  if (a->ndim != b->ndim) return true;
  for (int32_t i = 0; i < a->ndim; ++i)
    if (a->shape[i] != b->shape[i] && a->shape[i] >= 0 && b->shape[i] >= 0)
      return true;
  return false;
}

tn_code tn__facts_fail_conflict(const tn_graph *graph, tn_entry entry,
                                tn_entry other, const tn_sig *sig) {
  tn_code code = TN_SHAPE;
  (void)tn__sig_has_conflict(tn__entry_sig(graph, entry), sig, &code);
  (void)tn__fail(
      code, "%s contradict: ", code == TN_DTYPE ? "element types" : "shapes");
  print_entry(graph, code, entry);
  if (tn__entry_is_none(other)) {
    (void)tn__fail_more(code, ", cannot be ");
    print_conflict(code, sig);
    return tn__fail_more(code, " as well");
  }
  (void)tn__fail_more(code, ", and ");
  print_entry(graph, code, other);
  return tn__fail_more(code, ", must be the same");
}

enum { MOST_OPERANDS = 6 }; /* maximal number of operands in one message */

static bool is_fact_known(const tn_graph *graph, tn_code code, tn_entry entry) {
  if (tn__entry_is_none(entry)) return false;
  const tn_sig *sig = tn__entry_sig(graph, entry);
  return code == TN_DTYPE ? sig->dtype != TN_DTYPE_UNKNOWN : sig->ndim >= 0;
}

tn_code tn__facts_fail_call(const tn_graph *graph, const tn__node *node,
                            tn_code code) {
  const uint32_t n_read = node->n_in + node->n_aux;
  int said = 0;
  (void)tn__node_fail(node, code);
  if (code != TN_SHAPE && code != TN_DTYPE) return code;
  for (uint32_t i = 0; i < n_read + node->n_out; ++i) {
    const bool read = i < n_read;
    const tn_entry entry =
        read ? node->in[i] : (tn_entry){node->id, i - n_read};
    const tn_arg *arg =
        read ? tn__node_input(node, i) : tn__node_output(node, i - n_read);
    if (!is_fact_known(graph, code, entry) || said == MOST_OPERANDS) continue;
    (void)tn__fail_more(code, "%s`%s` is ", said++ == 0 ? "; here " : "; ",
                        arg->name);
    print_entry(graph, code, entry);
  }
  return code;
}

/* ----------------------------------------------------------------- missing */

/* Largest number of entries in a message about missing facts. */
enum { MOST_NAMES = 10 };

/* A list of entries with missing facts. */
typedef struct missing {
  tn__buf text;
  uint32_t n;
  char around[TN__ENTRY_TEXT]; /* "block/": the names of the outer nodes */
} missing;

static bool is_dynamic(const tn_graph *graph, tn_entry entry) {
  const tn_arg *arg =
      tn__node_output(tn__node_at(graph, entry.node), entry.index);
  return arg && (arg->flags & TN_ARG_DYNAMIC) != 0;
}

static void add_missing_entry(missing *m, const tn_graph *graph,
                              tn_entry entry) {
  char name[TN__ENTRY_TEXT];
  const tn_sig *sig = tn__entry_sig(graph, entry);
  if (m->n++ >= MOST_NAMES) return;
  tn__buf_add(&m->text, "%s`%s%s` ", m->n == 1 ? "" : ", ", m->around,
              tn__entry_text(graph, entry, name));
  if (sig->ndim < 0)
    tn__buf_add(&m->text, "of unknown shape");
  else
    tn__buf_shape(&m->text, sig->ndim, sig->shape);
  if (sig->dtype == TN_DTYPE_UNKNOWN)
    tn__buf_add(&m->text, "%s type", sig->ndim < 0 ? " and" : " of unknown");
  if (is_dynamic(graph, entry)) tn__buf_add(&m->text, " until it is computed");
}

/* Tests whether an output has a shape at all: the gradient of an absent input
 * has none. */
static bool is_present(const tn_graph *graph, const tn__node *node,
                       uint32_t i) {
  if (node->kind != TN__NODE_BACKWARD) return true;
  return !tn__entry_is_none(tn__node_at(graph, node->of)->in[i]);
}

static void add_missing_outputs(missing *m, const tn_graph *graph,
                                const tn__node *node) {
  for (uint32_t i = 0; i < node->n_out; ++i) {
    const tn_entry entry = {node->id, i};
    if (!tn__sig_is_complete(tn__entry_sig(graph, entry)) &&
        is_present(graph, node, i))
      add_missing_entry(m, graph, entry);
  }
}

enum { /* modes of the nodes that the heads need */
       ONLY_VARIABLES = 0,
       ALL_OTHERS = 1,
       WHOLE_VARIABLES = 2 /* variables that the heads need, and also those of
                              the calls that their gradients belong to */
};

static tn_code add_all_missing(missing *m, const tn_graph *graph, int what);

/* Adds the entries with unknown facts in the inner graph of a node, except its
 * variables, which get their facts from outside. */
static tn_code add_missing_inner(missing *m, const tn__node *node) {
  const size_t n = strlen(m->around), room = sizeof m->around - n;
  (void)snprintf(m->around + n, room, "%s/", node->name);
  const tn_code rc = add_all_missing(m, node->inner, ALL_OTHERS);
  m->around[n] = '\0';
  return rc;
}

static tn_code add_all_missing(missing *m, const tn_graph *graph, int what) {
  tn__order order;
  tn_code rc = TN_OK;
  TN__TRY((what == WHOLE_VARIABLES ? tn__order_all : tn__order_make)(
      graph, graph->heads, graph->n_heads, &order));
  for (uint32_t i = 0; rc == TN_OK && i < order.n; ++i) {
    const tn__node *node = tn__node_at(graph, order.ids[i]);
    const bool variable = node->kind == TN__NODE_VARIABLE;
    if (variable != (what != ALL_OTHERS)) continue;
    add_missing_outputs(m, graph, node);
    if (node->inner) rc = add_missing_inner(m, node);
  }
  tn__free(graph->env, order.ids);
  return rc;
}

static tn_code fail_missing(const missing *m) {
  if (m->text.failed) return tn__fail_memory(m->text.n, "a message");
  if (m->n == 0) return TN_OK;
  (void)tn__fail(TN_INCOMPLETE, "not enough is known of %s", m->text.s);
  if (m->n > MOST_NAMES)
    (void)tn__fail_more(TN_INCOMPLETE, " and %u more", m->n - MOST_NAMES);
  return tn__fail_more(TN_INCOMPLETE,
                       "; state more shapes or types of variables (tn_known, "
                       "or tn_argument.known of a program)");
}

/* Chooses the list of missing facts for the message: the first of several that
 * is not empty. If nodes are unknown although all their variables are known,
 * the calls that gradients belong to have unknown variables. */
static tn_code choose_missing(missing *m, missing *nodes,
                              const tn_graph *graph) {
  TN__TRY(add_all_missing(m, graph, ONLY_VARIABLES));
  if (m->n > 0) return fail_missing(m);
  TN__TRY(add_all_missing(nodes, graph, ALL_OTHERS));
  if (nodes->n == 0) return TN_OK;
  TN__TRY(add_all_missing(m, graph, WHOLE_VARIABLES));
  return fail_missing(m->n > 0 ? m : nodes);
}

tn_code tn__facts_check_complete(const tn_graph *graph) {
  missing variables = {.n = 0}, nodes = {.n = 0};
  tn__buf_init(&variables.text, graph->env);
  tn__buf_init(&nodes.text, graph->env);
  const tn_code rc = choose_missing(&variables, &nodes, graph);
  tn__buf_deinit(&variables.text);
  tn__buf_deinit(&nodes.text);
  return rc;
}
