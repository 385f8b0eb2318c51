/* SPDX-License-Identifier: Apache-2.0
 * facts.h: the state of one inference over one graph, shared by infer*.c only.
 *
 * files: infer.c        the worklist; one node's rule
 *        infer_inner.c  nodes that are graphs, and loops
 *        infer_text.c   contradictions, and what is still missing
 *
 * Facts are only ever added to an entry, so the nodes may be visited in any
 * order: a node is visited again when somebody else has told something of an
 * entry that it touches, and it ends when nobody has anything to add. An entry
 * can be told something rank + 2 times at most, so the work is linear in the
 * number of edges.
 */
#ifndef TENON_FACTS_H_
#define TENON_FACTS_H_

#include "graph.h"

/* graph->from of a fact that came from the graph around this one. */
#define TN__FROM_OUTSIDE (TN_NONE - 1)

typedef struct tn__facts {
  tn_graph *graph;
  uint32_t *first; /* n_entries + 1: where the entry's nodes begin in `users` */
  uint32_t *users; /* nodes whose rule speaks of the entry */
  uint32_t *queue; /* a ring with room for every node */
  uint32_t head;
  uint32_t n_queued;
  uint32_t current; /* the node that is visited, if it learns nothing of what
                       it tells itself; or TN_NONE */
  uint32_t usual;   /* the node that may state usual shapes, or TN_NONE */
  uint8_t *queued;
  tn_sig *io; /* room for the operands of any node */
  uint32_t *absent;
} tn__facts;

/* Begins, or goes on from what the graph knows already: nodes that are new are
 * queued, and variables among them know what they were made with, or what
 * `known` says. To be closed, also on failure. */
tn_code tn__facts_begin(tn__facts *facts, tn_graph *graph,
                        const tn_known *known, size_t n);
void tn__facts_close(tn__facts *facts);
/* To the fixed point. */
tn_code tn__facts_run(tn__facts *facts);
/* Then, where shapes are unknown: to the one with usual shapes
 * (TN_CALL_DEFAULTS). */
tn_code tn__facts_defaults(tn__facts *facts);

/* What somebody says about an entry. `from`: the node that says it, or
 * TN__FROM_OUTSIDE. TN_SHAPE or TN_DTYPE if it contradicts what is known. */
tn_code tn__facts_add(tn__facts *facts, tn_entry entry, const tn_sig *sig,
                      uint32_t from);
/* Two entries have one signature. */
tn_code tn__facts_unify(tn__facts *facts, tn_entry a, tn_entry b);

/* infer_inner.c: the rule of a GRAPH or LOOP node. */
tn_code tn__facts_infer_inner(tn__facts *facts, const tn__node *node);

/* infer_text.c */
bool tn__sig_has_conflict(const tn_sig *a, const tn_sig *b, tn_code *code);
/* `entry` cannot be `sig`; `other`, which is, or TN_ENTRY_NONE. */
tn_code tn__facts_fail_conflict(const tn_graph *graph, tn_entry entry,
                                tn_entry other, const tn_sig *sig);
/* Puts the node before the failure of its operator's rule, and behind it where
 * its operands' shapes and types came from. */
tn_code tn__facts_fail_call(const tn_graph *graph, const tn__node *node,
                            tn_code code);
/* TN_INCOMPLETE, and what is missing, unless all is known that heads need. */
tn_code tn__facts_check_complete(const tn_graph *graph);

#endif /* TENON_FACTS_H_ */
