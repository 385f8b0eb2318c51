/* SPDX-License-Identifier: Apache-2.0
 * gradient.h: pass "gradient".
 *
 * files:
 *   gradient_pass.c   gradients of entries; gradient_rule*.c (gradient_rule.h)
 *   gradient_names.c  the same with names of entries
 *   gradient_check.c  checks the gradients of a graph
 */
#ifndef TENON_GRADIENT_H_
#define TENON_GRADIENT_H_

#include "graph.h"

enum {
  TN__GRADIENT_COMPAT = 1u << 0,  /* as in MXNet 0.12: GRD-05 to GRD-08 */
  TN__GRADIENT_INFERRED = 1u << 1 /* all facts that heads need are inferred */
};

/* Pass "gradient": adds the nodes that compute gradients, as tn_graph_gradient.
 * If `optional` is true, a gradient that depends on no head becomes
 * TN_ENTRY_NONE; otherwise it is zeros or a failure. Two results may be the
 * same entry, and a result may be one of `weights`; a caller that needs
 * separate entries copies them. With TN__GRADIENT_COMPAT the second of two
 * equal results is a COPY. */
typedef struct tn__gradient_spec {
  tn_gradient_query query;
  uint32_t flags; /* TN__GRADIENT_* */
  uint32_t optional;
} tn__gradient_spec;
tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out);

/* gradient_names.c */
tn_code tn__graph_backward(tn_graph *graph, const tn_gradient_names *what);

/* gradient_check.c: checks all BACKWARD nodes of a graph. Fails with TN_INVALID
 * if an operand is not an operand of the forward call, or if a used gradient
 * needs an operand that is missing, which its kernel would read. */
tn_code tn__gradients_check(const tn_graph *graph);

#endif /* TENON_GRADIENT_H_ */
