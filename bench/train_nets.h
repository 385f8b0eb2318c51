/* SPDX-License-Identifier: Apache-2.0
 * The nets of train.h as graphs, for the programs that measure their steps.
 */
#ifndef TENON_BENCH_TRAIN_NETS_H_
#define TENON_BENCH_TRAIN_NETS_H_

#include <tenon/graph.h>

enum { NETS_WEIGHTS = 256 }; /* at most */

/* The arrays that a net trains, in forward order. The caller releases them. */
typedef struct nets_weights {
  tn_argument given[NETS_WEIGHTS + 1]; /* followed by room for the data */
  tn_entry entry[NETS_WEIGHTS];
  size_t n;
} nets_weights;

/* A node with one output, which it returns. */
tn_entry nets_add_call(tn_graph *g, const char *op, const char *params,
                       uint32_t n, const tn_entry *in);

/* Builds a net, mlp, lenet, resnet or resnet50, on the variables `data` and
 * `label`, and returns its loss, the only head of the graph. */
tn_entry nets_build(tn_graph *g, const char *net, const tn_sig *data);

/* An array of small numbers; the caller releases it. */
tn_array *nets_create_array(tn_runtime *rt, const tn_sig *sig, tn_place place);

/* Finds and creates the weights of a graph: everything that its head depends on
 * except the data and the labels. */
void nets_create_weights(tn_runtime *rt, tn_graph *g, tn_place place,
                         nets_weights *w);

/* Releases the arrays of the weights. */
void nets_release_weights(nets_weights *w);

#endif /* TENON_BENCH_TRAIN_NETS_H_ */
