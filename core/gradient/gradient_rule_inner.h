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
  tn_graph *graph;  /* replacements of kept entries, a copy of the node's
                       graph, then more nodes */
  tn_entry *inputs; /* of the copy: arguments */
  tn_entry *bodies; /* of the copy: heads */
  uint32_t n_bodies;
  tn_entry *kept;         /* of the copy: entries that the loop has kept of its
                             steps */
  tn_entry *replacements; /* the variables that replace them */
  uint32_t n_kept;
  uint32_t n_copied; /* number of nodes of the copy, including replacements */
  tn__vec keys;      /* const char *: names of variables that get values ... */
  tn_entry *in;      /* ... of these entries outside */
  tn__vec sequences; /* const char *: keys that are sequences */
  tn__vec states;
  tn_entry *heads; /* of the gradient */
  uint32_t n_heads;
  tn_entry *weights;   /* inside: gradients of the bodies, then of the kept
                          entries */
  tn_entry *of;        /* inside: inputs with requested gradients */
  tn_entry *gradients; /* inside: these gradients */
  uint32_t *which;     /* positions of `of` among the node's inputs */
  uint32_t n_of;
  bool *needed; /* by node: a variable that the heads need; see heads_set */
} tn__inner_gradient;

/* Makes the lists, and the graph with the copy. The caller ends `x`, also on
 * failure. */
tn_code tn__inner_begin(tn__inner_gradient *x, const tn__gradient_rule *rule);
/* Frees both; returns `rc`. */
tn_code tn__inner_end(tn__inner_gradient *x, tn_code rc);

tn_code tn__inner_check_step(const tn__inner_gradient *x);

#endif /* TENON_GRADIENT_RULE_INNER_H_ */
