/* SPDX-License-Identifier: Apache-2.0
 * lenet_net.c: see lenet_net.h.
 */
#include "lenet_net.h"

#include <math.h>

typedef struct layer {
  const char *op, *params, *name;
} layer;

/* Images of 8 x 8 become 4 x 4, then 2 x 2. */
static const layer layers[] = {
    {"nn.convolution", "kernel=(3,3) pad=(1,1) num_filter=32", "conv1"},
    {"nn.activation", "act_type=relu", "relu1"},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", "pool1"},
    {"nn.convolution", "kernel=(3,3) pad=(1,1) num_filter=64", "conv2"},
    {"nn.activation", "act_type=relu", "relu2"},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", "pool2"},
    {"nn.fully_connected", "num_hidden=128", "fc1"},
    {"nn.activation", "act_type=relu", "relu3"},
    {"nn.fully_connected", "num_hidden=10", "fc2"},
    {"nn.softmax_output", "normalization=batch smooth_alpha=0.1", "softmax"}};

tn_code lenet_build_of(tn_graph *g, lenet_layer *add, tn_entry *head) {
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (size_t i = 0; i < sizeof layers / sizeof *layers && !rc; ++i)
    rc = add(g, layers[i].op, layers[i].params, layers[i].name, head);
  return rc;
}

tn_code lenet_build(tn_graph *g, tn_entry *head) {
  return lenet_build_of(g, learner_layer, head);
}

/* From 0.05 down to nothing, slowly at both ends. */
double lenet_rate(int epoch) {
  return 0.025 * (1 + cos(3.14159265358979 * (epoch - 1) / LENET_EPOCHS));
}
