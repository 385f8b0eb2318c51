/* SPDX-License-Identifier: Apache-2.0
 * gradient_rule.h: the gradient of one node. Shared by the gradient pass only.
 *
 * files:
 *   gradient_pass.c         the sweep: nodes in reverse order, sums
 *   gradient_rule.c         calls, and gradients of calls
 *   gradient_rule_linear.c  gradients of gradients of linear operators
 *   gradient_rule_inner.c   graphs and loops used as operators
 *   gradient_rule_copy.c    the copy of an inner graph for its gradient
 */
#ifndef TENON_RULE_H_
#define TENON_RULE_H_

#include "gradient.h"

/* The request for the gradients of one node's inputs. A list "per output" or
 * "per input" has one item for each output or input of the node. */
typedef struct tn__gradient_rule {
  tn_graph *graph;
  const tn__node *node;
  const tn_entry *grads; /* per output: its gradient; TN_ENTRY_NONE: it is zero,
                            or the rule does not read it */
  const uint8_t *wanted; /* per input: its gradient is requested */
  tn_entry *out;         /* per input: its gradient, TN_ENTRY_NONE if zero */
  uint8_t *room;         /* per input: scratch memory */
  const uint32_t *after; /* nodes that must precede all added calls */
  uint32_t n_after;
} tn__gradient_rule;

/* Adds the nodes that compute the requested gradients. The message of a failure
 * names the differentiated node. Nodes that were added before a failure stay in
 * the graph. */
tn_code tn__rule_apply(const tn__gradient_rule *rule);
/* Tests whether the node may pass a gradient to its input `i`: neither its
 * operator nor its kind stops gradients. The answer is true for an operator
 * without a gradient; its rule fails later. */
bool tn__rule_can_pass(const tn__node *node, uint32_t i);
/* Tests whether the gradients of the inputs in `wanted` read the gradient of
 * output `out`. */
bool tn__rule_reads_gradient(const tn__node *node, const uint8_t *wanted,
                             uint32_t out);
/* Adds a node of zeros or ones with the shape of `like`. */
tn_code tn__rule_add_constant(const tn__gradient_rule *rule, uint32_t kind,
                              tn_entry like, tn_entry *out);

/* Adds a node with the content of `like` and the attributes of the
 * differentiated node. Its name is NAME_WHAT, where NAME is the name of the
 * differentiated node, or WHAT and a number if that name exists. */
tn_code tn__rule_add_node(const tn__gradient_rule *rule,
                          const tn__node_spec *like, const char *what,
                          tn__node **out);

/* gradient_rule_linear.c: differentiates a BACKWARD node of an operator that is
 * linear in groups of its inputs (tn__operator_is_linear). */
tn_code tn__rule_apply_linear(const tn__gradient_rule *rule);

/* gradient_rule_inner.c */
tn_code tn__rule_apply_graph(const tn__gradient_rule *rule);
tn_code tn__rule_apply_loop(const tn__gradient_rule *rule);

#endif /* TENON_RULE_H_ */
