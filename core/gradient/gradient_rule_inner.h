/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule_inner.h: the gradient of a node with an inner graph, while the
 * rule makes it. Used by gradient_rule_copy.c and gradient_rule_inner.c only.
 */
#ifndef TENON_GRADIENT_RULE_INNER_H_
#define TENON_GRADIENT_RULE_INNER_H_

#include "gradient_rule.h"

/* The state of one rule. `graph` becomes the inner graph of the gradient. */
typedef struct tn__inner_gradient {
  const tn__gradient_rule *rule;
  const tn__node *node;
  tn_graph *graph;  /* inner graph of the gradient: variables that replace kept
                       entries, a copy of the node's graph, then further nodes
                       */
  tn_entry *inputs; /* the arguments of the copy */
  tn_entry *bodies; /* the heads of the copy */
  uint32_t n_bodies;
  tn_entry *kept;         /* entries of the copy that the loop has kept for each
                             of its steps */
  tn_entry *replacements; /* for each item of `kept`, the variable that replaces
                             it */
  uint32_t n_kept;
  uint32_t n_copied; /* number of nodes of the copy, including replacements */
  tn__vec keys;      /* const char *: names of the inner variables that get
                        values from the entries `in` */
  tn_entry *in;      /* entries of the outer graph, one for each name in `keys`
                      */
  tn__vec sequences; /* const char *: those names in `keys` that are sequences
                        of a loop */
  tn__vec states;    /* const char *: those names in `keys` that are states of a
                        loop */
  tn_entry *heads;   /* heads of the inner graph: the gradients that the node
                        computes */
  uint32_t n_heads;
  tn_entry *weights;   /* entries of the inner graph: output gradients of
                          `bodies`, then those of the kept entries */
  tn_entry *of;        /* entries of the inner graph: inputs with requested
                          gradients */
  tn_entry *gradients; /* entries of the inner graph: the gradients of the items
                          of `of` */
  uint32_t *which;     /* for each item of `of`, its position among the inputs
                          of the differentiated node */
  uint32_t n_of;
  bool *needed; /* for each node: true if it is a variable that the heads need
                 */
} tn__inner_gradient;

/* Allocates the lists, and makes the inner graph with a copy of the node's
 * graph. The caller must call tn__inner_end, also after a failure. */
tn_code tn__inner_begin(tn__inner_gradient *x, const tn__gradient_rule *rule);
/* Frees the lists and the inner graph; returns `rc`. */
tn_code tn__inner_end(tn__inner_gradient *x, tn_code rc);

/* Checks that the gradient of a loop can be made from its step graph:
 * TN_UNSUPPORTED if it would compute a node twice that must not be. */
tn_code tn__inner_check_step(const tn__inner_gradient *x);

#endif /* TENON_GRADIENT_RULE_INNER_H_ */
