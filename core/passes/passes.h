/* SPDX-License-Identifier: Apache-2.0
 * passes.h: passes by name, and the graphs that they rewrite. Used inside of
 * core/passes and core/bind, except the table of tenon/draft/pass.h.
 *
 * files:
 *   passes.c      finds, checks and runs the passes of a list of names
 *   rewrite.c     the functions of tenon/draft/pass.h; one run of a plugin's
 * pass reorder.c     makes a valid graph of the result, or a message
 *   pass_inner.c  the same for the graphs of nodes
 *
 * A pass works in place on a private copy of a graph. It adds nodes at the end,
 * which may read any node. Between the first change and tn__rewrite_finish the
 * order of the nodes is therefore not valid. Nodes keep their address and name,
 * but not their number.
 */
#ifndef TENON_GRAPH_PASSES_H_
#define TENON_GRAPH_PASSES_H_

#include "graph.h"

/* -------------------------------------------------------------------- lists */

/* One pass of a list: a built-in one, or one of a plugin. */
typedef struct tn__pass_use {
  const struct tn__builtin_pass *own;
  tn__pass *pass; /* held */
} tn__pass_use;

typedef struct tn__pass_list {
  tn__caller *caller;
  tn__pass_use *v;
  size_t n;
  size_t gradient; /* number of the first "gradient", or n */
} tn__pass_list;

/* Finds and holds all passes; the message of TN_NOT_FOUND lists the existing
 * ones. The caller closes the list, also on failure. */
tn_code tn__pass_list_open(tn__pass_list *list, tn__caller *caller,
                           const char *const *names, size_t n);
void tn__pass_list_close(tn__pass_list *list);
/* TN_INVALID if a pass needs a fact that the graph does not have and no earlier
 * pass provides. */
tn_code tn__pass_list_check(const tn__pass_list *list, const tn_graph *graph);
/* Runs the passes [first, end), which do not include "gradient". After a
 * failure *graph can only be released. */
tn_code tn__pass_list_run(const tn__pass_list *list, size_t first, size_t end,
                          tn_graph **graph);

/* ----------------------------------------------------------------- rewriting
 */

/* A reader of an entry: a node, or the list of heads (node TN_NONE). */
typedef struct tn__entry_use {
  uint32_t node;
  uint32_t slot;
  uint32_t next; /* of the same entry; TN_NONE */
} tn__entry_use;

/* One run of a pass. */
struct tn_rewrite {
  tn_graph *graph;
  uint32_t n_old;  /* number of nodes at the begin */
  uint8_t *needed; /* n_old: the nodes that the heads needed at the begin */
  bool complete;   /* all facts that they needed were known */
  tn_sig *heads;   /* facts about the heads at the begin */
  tn_known *known; /* facts about the variables at the begin */
  size_t n_known;
  tn__entry_use *uses;
  size_t n_uses;
  size_t room;     /* capacity of uses */
  uint32_t *first; /* by entry: its uses; the list keeps former uses */
  size_t n_first;
  bool changed;
  char text[1024]; /* the reason of a failure, or "" */
};

/* Runs a plugin's pass. */
tn_code tn__rewrite_run(tn_graph *graph, const tn__pass *pass);
/* Runs it on the graphs of the graph's nodes, the innermost first, if the pass
 * declares that it looks into nodes. */
tn_code tn__pass_run_inner(tn_graph *graph, const tn__pass *pass);
/* Orders the nodes, removes those that are not needed any more, infers, and
 * checks the result. */
tn_code tn__rewrite_finish(tn_rewrite *rewrite);

/* The known facts about the variables of a graph, in memory that the caller
 * frees. */
tn_code tn__graph_list_known(const tn_graph *graph, tn_known **out, size_t *n);
/* Whether an inference has found all facts that the heads need. */
tn_code tn__graph_check_complete(const tn_graph *graph, bool *out);

#endif /* TENON_GRAPH_PASSES_H_ */
