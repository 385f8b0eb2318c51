/* SPDX-License-Identifier: Apache-2.0
 * rule.h: one node's part of a gradient, shared by the gradient pass only.
 *
 * files: gradient.c    the way back: which nodes, in which order, sums
 *        rule.c        calls, and gradients of calls
 *        rule_linear.c gradients of gradients of what is linear
 *        rule_inner.c  graphs and loops used as operators
 */
#ifndef TENON_RULE_H_
#define TENON_RULE_H_

#include "graph.h"

/* What is asked of a node. Its operands' number is that of the lists. */
typedef struct tn__gradient_rule {
  tn_graph *graph;
  const tn__node *node;
  const tn_entry *grads; /* per output; TN_ENTRY_NONE: zero, or not read */
  const uint8_t *wanted; /* per input; passes there */
  tn_entry *out;         /* per input: its gradient, TN_ENTRY_NONE if zero */
  uint8_t *room;         /* per input: to work with */
  const uint32_t *after; /* what all calls that are added come behind */
  uint32_t n_after;
} tn__gradient_rule;

/* Adds the nodes that compute the gradients of the wanted inputs. Failures name
 * the node; what was added until then stays. */
tn_code tn__rule_apply(const tn__gradient_rule *rule);
/* Whether a gradient can pass from the node to input `i`: neither operator nor
 * kind stops it. An operator without any gradient does not: it fails. */
bool tn__rule_can_pass(const tn__node *node, uint32_t i);
/* Whether the gradients of these inputs read that of output `out`. */
bool tn__rule_reads_gradient(const tn__node *node, const uint8_t *wanted,
                             uint32_t out);
/* A node of zeros or ones of the shape of `like`. */
tn_code tn__rule_add_constant(const tn__gradient_rule *rule, uint32_t kind,
                              tn_entry like, tn_entry *out);

/* A node like that, which is called NAME_WHAT after the one that is
 * differentiated, or WHAT and a number if there is one already; with its
 * attributes. */
tn_code tn__rule_add_node(const tn__gradient_rule *rule,
                          const tn__node_spec *like, const char *what,
                          tn__node **out);

/* rule_linear.c: the rule of a BACKWARD node whose operator is linear in groups
 * of its inputs (tn__operator_is_linear). */
tn_code tn__rule_apply_linear(const tn__gradient_rule *rule);

/* rule_inner.c */
tn_code tn__rule_apply_graph(const tn__gradient_rule *rule);
tn_code tn__rule_apply_loop(const tn__gradient_rule *rule);

#endif /* TENON_RULE_H_ */
