/* SPDX-License-Identifier: Apache-2.0
 * passes.h: passes by name, and graphs that they rewrite. Inside core/graph
 * only, but for the table of tenon/pass.h.
 *
 * files: passes.c   a list of names becomes passes, is checked, is run
 *        rewrite.c  the functions of tenon/pass.h; one run of a plugin's pass
 *        reorder.c  what it leaves becomes a graph again, or a message
 *        pass_inner.c  the same for the graphs of nodes
 *
 * A pass works in place on a graph that nobody else has: nodes are added at the
 * end and read whatever they were told to, so that between the first change and
 * tn__rewrite_finish the order of nodes is none. Nodes keep their place in
 * memory, and their names; their numbers change.
 */
#ifndef TENON_GRAPH_PASSES_H_
#define TENON_GRAPH_PASSES_H_

#include "graph.h"

/* -------------------------------------------------------------------- lists */

/* One pass of a list: the library's own, or one of a plugin. */
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

/* Finds and holds all of them; TN_NOT_FOUND says which there are. To be closed,
 * also on failure. */
tn_code tn__pass_list_open(tn__pass_list *list, tn__caller *caller,
                           const char *const *names, size_t n);
void tn__pass_list_close(tn__pass_list *list);
/* TN_INVALID if one needs what neither holds of the graph nor is provided by
 * those before it. */
tn_code tn__pass_list_check(const tn__pass_list *list, const tn_graph *graph);
/* Runs those from `first` to before `end`, no "gradient" among them. On failure
 * *graph is good for nothing but its end. */
tn_code tn__pass_list_run(const tn__pass_list *list, size_t first, size_t end,
                          tn_graph **graph);

/* ----------------------------------------------------------------- rewriting
 */

/* Where an entry is read: by a node, or as a head (node TN_NONE). */
typedef struct tn__entry_use {
  uint32_t node;
  uint32_t slot;
  uint32_t next; /* of the same entry; TN_NONE */
} tn__entry_use;

/* One run of a pass. */
struct tn_rewrite {
  tn_graph *graph;
  uint32_t n_old;  /* nodes when it began */
  uint8_t *needed; /* n_old: what the heads needed then */
  bool complete;   /* all was known of what they needed */
  tn_sig *heads;   /* what was known of them */
  tn_known *known; /* and of variables */
  size_t n_known;
  tn__entry_use *uses;
  size_t n_uses;
  size_t room;     /* in uses */
  uint32_t *first; /* by entry: its uses; those that are none any more stay in
                      the list */
  size_t n_first;
  bool changed;
  char text[1024]; /* why it fails, or "" */
};

/* Runs a plugin's pass. */
tn_code tn__rewrite_run(tn_graph *graph, const tn__pass *pass);
/* Runs it on the graphs of the graph's nodes, the innermost first, if it looks
 * into nodes. */
tn_code tn__pass_run_inner(tn_graph *graph, const tn__pass *pass);
/* Puts the nodes in order, leaves out what is not needed any more, infers, and
 * checks that all is well. */
tn_code tn__rewrite_finish(tn_rewrite *rewrite);

/* What is known of the variables of a graph, in memory that the caller frees.
 */
tn_code tn__graph_list_known(const tn_graph *graph, tn_known **out, size_t *n);
/* Whether there was an inference that has left nothing open. */
tn_code tn__graph_check_complete(const tn_graph *graph, bool *out);

#endif /* TENON_GRAPH_PASSES_H_ */
