/* SPDX-License-Identifier: Apache-2.0
 * facts.h: the state of one inference over one graph, shared by infer*.c only.
 *
 * files:
 *   graph_infer.c  the worklist; the rule of one node
 *   infer_inner.c  nodes with graphs, and loops
 *   infer_text.c   messages: contradictions and missing facts
 *
 * An inference only adds facts to an entry, so it may visit nodes in any order.
 * It visits a node again when another node has added a fact to one of its
 * entries. It ends when no node adds a fact. An entry can get at most rank + 2
 * facts, so the work is linear in the number of edges.
 */
#ifndef TENON_FACTS_H_
#define TENON_FACTS_H_

#include "graph.h"

/* Value in graph->from of a fact that came from the outer graph. */
#define TN__FROM_OUTSIDE (TN_NONE - 1)

typedef struct tn__facts {
  tn_graph *graph;
  uint32_t *first; /* n_entries + 1: for each entry, the index of the first node
                      in `users` that has a rule about the entry */
  uint32_t *users; /* nodes with a rule about the entry */
  uint32_t *queue; /* a ring with space for every node */
  uint32_t head;   /* position in `queue` of the first queued node */
  uint32_t n_queued; /* number of queued nodes */
  uint32_t current;  /* the node that is visited now, if its own facts must not
                        make it visited again; or TN_NONE */
  uint32_t usual;    /* the node that may infer default shapes now
                        (TN_CALL_DEFAULTS); or TN_NONE */
  uint8_t *queued;   /* for each node: 1 if it is in `queue` */
  tn_sig *io;        /* space for the operands of any node */
  uint32_t *absent;  /* space to mark the absent operands of any node */
} tn__facts;

/* Begins an inference with the facts that the graph has. Queues all new nodes.
 * A new variable gets the facts of its creation and those of `known`. The
 * caller must call tn__facts_close, also after a failure. */
tn_code tn__facts_begin(tn__facts *facts, tn_graph *graph,
                        const tn_known *known, size_t n);
void tn__facts_close(tn__facts *facts);
/* Visits the queued nodes, and nodes with new facts, until no node adds a fact.
 */
tn_code tn__facts_run(tn__facts *facts);
/* Call it after tn__facts_run. Lets the nodes with unknown shapes infer default
 * shapes (TN_CALL_DEFAULTS), and visits nodes until no node adds a fact. */
tn_code tn__facts_defaults(tn__facts *facts);

/* Adds a fact about an entry. `from` is the node that states it, or
 * TN__FROM_OUTSIDE. TN_SHAPE or TN_DTYPE if it contradicts a known fact. */
tn_code tn__facts_add(tn__facts *facts, tn_entry entry, const tn_sig *sig,
                      uint32_t from);
/* Gives two entries the same signature: each gets the facts of the other. */
tn_code tn__facts_unify(tn__facts *facts, tn_entry a, tn_entry b);

/* infer_inner.c: infers shapes and types of a GRAPH or LOOP node from its inner
 * graph, and of the inner graph from the node. */
tn_code tn__facts_infer_inner(tn__facts *facts, const tn__node *node);

/* infer_text.c */
/* Tests whether two signatures contradict each other. *code becomes TN_SHAPE or
 * TN_DTYPE, after the property in which they differ. */
bool tn__sig_has_conflict(const tn_sig *a, const tn_sig *b, tn_code *code);
/* Sets the message that `entry` cannot have the signature `sig`, because the
 * entry `other` has a conflicting one; `other` may be TN_ENTRY_NONE. Returns
 * the error. */
tn_code tn__facts_fail_conflict(const tn_graph *graph, tn_entry entry,
                                tn_entry other, const tn_sig *sig);
/* Completes the message of a failed inference rule: adds the node at the begin,
 * and at the end the sources of its operands' shapes and types. Returns `code`.
 */
tn_code tn__facts_fail_call(const tn_graph *graph, const tn__node *node,
                            tn_code code);
/* Checks that all shapes and types that the heads need are known. Returns
 * TN_INCOMPLETE otherwise; the message lists the missing ones. */
tn_code tn__facts_check_complete(const tn_graph *graph);

#endif /* TENON_FACTS_H_ */
