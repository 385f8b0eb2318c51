/* SPDX-License-Identifier: Apache-2.0
 * nets.c: the operators of the nets: their shapes, and their nodes and entries.
 */
#include "nets.h"

#include <stdlib.h>
#include <string.h>

static void *grow_memory(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes == 0 ? 1 : bytes);
  if (more == NULL) abort();
  return more;
}

net_graph *net_new(void) {
  net_graph *n = calloc(1, sizeof *n);
  if (n == NULL) abort();
  return n;
}

void net_free(net_graph *n) {
  for (uint32_t k = 0; k < n->n_nodes; ++k) {
    free(n->nodes[k].in);
    free(n->nodes[k].shape);
    free(n->nodes[k].after);
  }
  free(n->nodes);
  free(n->heads);
  free(n->grads);
  free(n->args);
  free(n->mirror);
  free(n);
}

/* Adds a node with room for its inputs and outputs. */
net_node *net_add_node(net_graph *n, net_op op, uint32_t n_in, uint32_t n_out) {
  if ((n->n_nodes & (n->n_nodes - 1)) == 0)
    n->nodes =
        grow_memory(n->nodes, 2 * ((size_t)n->n_nodes + 1) * sizeof *n->nodes);
  net_node *node = &n->nodes[n->n_nodes++];
  *node = (net_node){.op = op,
                     .n_in = n_in,
                     .n_args = n_in,
                     .n_out = n_out,
                     .n_visible = n_out,
                     .forward = UINT32_MAX};
  node->in = grow_memory(NULL, n_in * sizeof *node->in);
  node->shape = grow_memory(NULL, n_out * sizeof *node->shape);
  return node;
}

void net_add_after(net_graph *n, uint32_t node, uint32_t after) {
  net_node *it = &n->nodes[node];
  it->after = grow_memory(it->after, (it->n_after + 1) * sizeof *it->after);
  it->after[it->n_after++] = after;
}

static net_ref get_last(const net_graph *n) {
  return (net_ref){n->n_nodes - 1, 0};
}

const net_shape *net_shape_of(const net_graph *n, net_ref x) {
  return &n->nodes[x.node].shape[x.out];
}

static double count_elements(const net_shape *s) {
  return (double)s->dim[0] * (double)s->dim[1] * (double)s->dim[2] *
         (double)s->dim[3];
}

net_ref net_var(net_graph *n, net_shape shape) {
  net_add_node(n, NET_VAR, 0, 1)->shape[0] = shape;
  return get_last(n);
}

static net_ref add_parameter(net_graph *n, int64_t a, int64_t b, int64_t c,
                             int64_t d) {
  return net_var(n, (net_shape){{a, b, c, d}});
}

static int64_t count_windows(int64_t size, int64_t kernel, int64_t stride,
                             int64_t pad) {
  return (size + 2 * pad - kernel) / stride + 1;
}

net_ref net_conv(net_graph *n, net_ref x, int64_t filters,
                 const int64_t window[3]) {
  const net_shape in = *net_shape_of(n, x);
  const int64_t k = window[0];
  const net_ref weight = add_parameter(n, filters, in.dim[1], k, k);
  const net_ref bias = add_parameter(n, filters, 1, 1, 1);
  net_node *node = net_add_node(n, NET_CONV, 3, 1);
  node->in[0] = x;
  node->in[1] = weight;
  node->in[2] = bias;
  node->shape[0] = (net_shape){
      {in.dim[0], filters, count_windows(in.dim[2], k, window[1], window[2]),
       count_windows(in.dim[3], k, window[1], window[2])}};
  node->cost = count_elements(&node->shape[0]) * (double)in.dim[1] * (double)k *
               (double)k;
  return get_last(n);
}

/* Outputs: the values, the mean and the variance; the last two are hidden. */
net_ref net_bn(net_graph *n, net_ref x) {
  const net_shape in = *net_shape_of(n, x);
  net_ref extra[4];
  for (int k = 0; k < 4; ++k) extra[k] = add_parameter(n, in.dim[1], 1, 1, 1);
  n->nodes[extra[2].node].aux = n->nodes[extra[3].node].aux = true;
  net_node *node = net_add_node(n, NET_BN, 5, 3);
  node->n_args = 3;
  node->n_visible = 1;
  node->in[0] = x;
  memcpy(node->in + 1, extra, sizeof extra);
  node->shape[0] = in;
  node->shape[1] = node->shape[2] = (net_shape){{in.dim[1], 1, 1, 1}};
  node->cost = 2 * count_elements(&in);
  return get_last(n);
}

net_ref net_pool(net_graph *n, net_ref x, int64_t kernel, int64_t stride,
                 int64_t pad) {
  const net_shape in = *net_shape_of(n, x);
  net_node *node = net_add_node(n, NET_POOL, 1, 1);
  node->in[0] = x;
  node->shape[0] = (net_shape){{in.dim[0], in.dim[1],
                                count_windows(in.dim[2], kernel, stride, pad),
                                count_windows(in.dim[3], kernel, stride, pad)}};
  node->cost =
      count_elements(&node->shape[0]) * (double)kernel * (double)kernel;
  return get_last(n);
}

net_ref net_fc(net_graph *n, net_ref x, net_ref weight, net_ref bias) {
  const net_shape in = *net_shape_of(n, x), w = *net_shape_of(n, weight);
  const uint32_t n_in = bias.node == UINT32_MAX ? 2 : 3;
  net_node *node = net_add_node(n, NET_FC, n_in, 1);
  node->in[0] = x;
  node->in[1] = weight;
  if (n_in == 3) node->in[2] = bias;
  node->shape[0] = (net_shape){{in.dim[0], w.dim[0], 1, 1}};
  node->cost = count_elements(&in) * (double)w.dim[0];
  return get_last(n);
}

net_ref net_concat(net_graph *n, const net_ref *x, uint32_t count) {
  net_shape shape = *net_shape_of(n, x[0]);
  for (uint32_t k = 1; k < count; ++k)
    shape.dim[1] += net_shape_of(n, x[k])->dim[1];
  net_node *node = net_add_node(n, NET_CONCAT, count, 1);
  memcpy(node->in, x, count * sizeof *x);
  node->shape[0] = shape;
  node->cost = count_elements(&shape);
  return get_last(n);
}

net_ref net_slice(net_graph *n, net_ref x, uint32_t count) {
  net_shape shape = *net_shape_of(n, x);
  shape.dim[1] /= count;
  net_node *node = net_add_node(n, NET_SLICE, 1, count);
  node->in[0] = x;
  for (uint32_t k = 0; k < count; ++k) node->shape[k] = shape;
  node->cost = count * count_elements(&shape);
  return get_last(n);
}

net_ref net_unary(net_graph *n, net_op op, net_ref x) {
  const net_shape in = *net_shape_of(n, x);
  const bool hides = op == NET_LRN || op == NET_DROPOUT;
  net_node *node = net_add_node(n, op, 1, hides ? 2 : 1);
  node->n_visible = 1;
  node->in[0] = x;
  for (uint32_t k = 0; k < node->n_out; ++k) node->shape[k] = in;
  if (op == NET_FLATTEN)
    node->shape[0] =
        (net_shape){{in.dim[0], in.dim[1] * in.dim[2] * in.dim[3], 1, 1}};
  node->cost = count_elements(&in);
  return get_last(n);
}

net_ref net_binary(net_graph *n, net_op op, net_ref a, net_ref b) {
  const net_shape shape = *net_shape_of(n, a);
  net_node *node = net_add_node(n, op, 2, 1);
  node->in[0] = a;
  node->in[1] = b;
  node->shape[0] = shape;
  node->cost = count_elements(&shape);
  return get_last(n);
}

net_ref net_loss(net_graph *n, net_op op, net_ref x, int64_t batch) {
  const net_shape shape = *net_shape_of(n, x);
  const net_ref label = add_parameter(n, batch, 1, 1, 1);
  net_node *node = net_add_node(n, op, 2, 1);
  node->in[0] = x;
  node->in[1] = label;
  node->shape[0] = op == NET_SOFTMAX_LOSS ? (net_shape){{1, 1, 1, 1}} : shape;
  node->cost = 4 * count_elements(&shape);
  return get_last(n);
}

void net_set_heads(net_graph *n, const net_ref *heads, uint32_t count) {
  n->heads = grow_memory(n->heads, count * sizeof *heads);
  memcpy(n->heads, heads, count * sizeof *heads);
  n->n_heads = count;
}
