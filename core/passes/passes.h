/* SPDX-License-Identifier: Apache-2.0
 * passes.h: passes by name, and the graphs that they rewrite. Used inside of
 * core/passes and core/program_bind, except the table of tenon/draft/pass.h.
 *
 * files:
 *   passes.c      finds, checks and runs the passes of a list of names
 *   rewrite.c     the functions of tenon/draft/pass.h; runs a plugin's pass
 *   reorder.c     makes a valid graph of the result, or a message
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

/* ------------------------------------------------------------------ public */

tn_code tn__graph_apply(const tn_graph *graph, const char *const *passes,
                        size_t n, tn_graph **out);
tn_code tn__pass_at(tn__registry *registry, size_t index, tn_pass_info *out);
/* The table of the extension TN_PASS_EXTENSION for plugins (rewrite.c). */
extern const tn_passes tn__passes_table;

/* -------------------------------------------------------------------- lists */

/* One pass of a list of passes: the built-in pass `own`, or, if that is NULL,
 * the plugin's pass `pass`. */
typedef struct tn__pass_use {
  const struct tn__builtin_pass *own;
  tn__pass *pass; /* held */
} tn__pass_use;

typedef struct tn__pass_list {
  tn__caller *caller;
  tn__pass_use *v;
  size_t n;
  size_t gradient; /* index of the first pass "gradient" in the list; n if there
                      is none */
} tn__pass_list;

/* Finds the passes with these names, and holds those of plugins. If a name is
 * unknown, the message of TN_NOT_FOUND lists the existing passes. The caller
 * must close the list, also after a failure. */
tn_code tn__pass_list_open(tn__pass_list *list, tn__caller *caller,
                           const char *const *names, size_t n);
void tn__pass_list_close(tn__pass_list *list);
/* Fails with TN_INVALID if a pass needs a fact that does not hold for the graph
 * and that no earlier pass provides. */
tn_code tn__pass_list_check(const tn__pass_list *list, const tn_graph *graph);
/* Runs the passes [first, end) of the list; "gradient" must not be among them.
 * After a failure the caller may only release *graph. */
tn_code tn__pass_list_run(const tn__pass_list *list, size_t first, size_t end,
                          tn_graph **graph);

/* ----------------------------------------------------------------- rewriting
 */

/* One use of an entry: an input of a node, or an item of the graph's heads
 * (`node` is TN_NONE). */
typedef struct tn__entry_use {
  uint32_t node;
  uint32_t slot;
  uint32_t next; /* index of the next use of the same entry; TN_NONE: none */
} tn__entry_use;

/* One run of a pass. */
struct tn_rewrite {
  tn_graph *graph;
  uint32_t n_old;  /* number of nodes at the begin */
  uint8_t *needed; /* for each of the n_old nodes: 1 if the heads needed it when
                      the pass began */
  bool complete;   /* all shapes and types that the heads needed were known when
                      the pass began */
  tn_sig *heads;   /* signatures of the heads when the pass began */
  tn_known *known; /* signatures of the variables when the pass began */
  size_t n_known;
  tn__entry_use *uses;
  size_t n_uses;
  size_t room;     /* number of items that `uses` has memory for */
  uint32_t *first; /* for each entry, the index of its first use; the list also
                      contains former uses */
  size_t n_first;
  bool changed;    /* the pass has changed the graph */
  char text[1024]; /* the reason of a failure, or "" */
};

/* Runs a plugin's pass. */
tn_code tn__rewrite_run(tn_graph *graph, const tn__pass *pass);
/* Runs the pass on the inner graphs of the graph's nodes, the innermost first,
 * if the pass declares that it rewrites inner graphs. */
tn_code tn__pass_run_inner(tn_graph *graph, const tn__pass *pass);
/* Ends the run of a pass: orders the nodes, removes those that are not needed
 * any more, infers shapes and types, and checks the result. */
tn_code tn__rewrite_finish(tn_rewrite *rewrite);

/* Lists the known shapes and types of a graph's variables. The caller frees
 * *out. */
tn_code tn__graph_list_known(const tn_graph *graph, tn_known **out, size_t *n);
/* Sets *out to whether an inference has found all shapes and types that the
 * heads need. */
tn_code tn__graph_check_complete(const tn_graph *graph, bool *out);

#endif /* TENON_GRAPH_PASSES_H_ */
