/* SPDX-License-Identifier: Apache-2.0
 * nets.h: nets of MXNet 0.12 as numbers. It has operators with the dependency
 * tables and in-place options of that release, its gradient pass and its order
 * of nodes. It has no kernels, and shape inference only for the operators of
 * these nets. The code follows the published rules and not the planner, so that
 * published memory figures can be compared with the planner's.
 *
 * These functions end the test if an allocation fails.
 */
#ifndef TESTS_PLAN_NETS_H_
#define TESTS_PLAN_NETS_H_

#include "plan.h"

/* Bytes of a plan if each entry had memory of its own. */
static inline size_t sum_separate(const tn__memory_plan *plan) {
  size_t total = 0;
  for (size_t k = 0; k < plan->n_pools; ++k) total += plan->pools[k].separate;
  return total;
}

typedef struct net_shape {
  int64_t dim[4]; /* unused ones are 1 */
} net_shape;

/* Output `out` of node `node` of a net. */
typedef struct net_ref {
  uint32_t node;
  uint32_t out;
} net_ref;

typedef enum net_op {
  NET_VAR, /* an argument, or an aux state */
  NET_CONV,
  NET_BN,
  NET_ACT,
  NET_LEAKY,
  NET_POOL,
  NET_LRN,
  NET_DROPOUT,
  NET_FLATTEN,
  NET_FC,
  NET_CONCAT,
  NET_SLICE,
  NET_ADD,
  NET_MUL,
  NET_SOFTMAX_OUTPUT,
  NET_SOFTMAX_LOSS, /* a loss per batch: softmax_cross_entropy */
  NET_BLOCK_GRAD,
  NET_COPY,
  NET_SUM,      /* n-ary */
  NET_GRAD_ADD, /* of two terms of a gradient */
  NET_BACKWARD, /* of node `forward` */
  NET_HEAD_GRAD
} net_op;

typedef struct net_node {
  net_op op;
  bool aux;
  net_ref *in;
  uint32_t n_in;
  uint32_t n_args;  /* inputs without the aux states */
  net_shape *shape; /* of its outputs */
  uint32_t n_out;
  uint32_t n_visible;
  uint32_t *after;
  uint32_t n_after;
  uint32_t forward; /* of BACKWARD: the node with this gradient */
  double cost;      /* number of multiplications, about */
  int32_t stage;    /* of memonger: > 0 where the net may be cut */
} net_node;

/* The in-place choices of operators: those of MXNet, or those of our plugins
 * with one choice per output and with all choices. */
typedef enum net_choices {
  NET_CHOICES_MXNET,
  NET_CHOICES_FIRST,
  NET_CHOICES_ALL
} net_choices;

typedef struct net_graph {
  net_node *nodes;
  uint32_t n_nodes;
  bool cudnn; /* use the tables of a build with cuDNN */
  net_choices choices;
  net_ref *heads;
  uint32_t n_heads;
  net_ref
      *grads; /* gradients of the arguments, in order; node UINT32_MAX: none */
  uint32_t *args;
  uint32_t n_args;
  uint32_t *mirror; /* by node: its replacement in the backward part */
} net_graph;

net_graph *net_new(void);
void net_free(net_graph *n);

/* Adds a node with room for its inputs and outputs, which the caller fills
 * in. */
net_node *net_add_node(net_graph *n, net_op op, uint32_t n_in, uint32_t n_out);
void net_add_after(net_graph *n, uint32_t node, uint32_t after);

/* ---------------------------------------------------------------- operators */

net_ref net_var(net_graph *n, net_shape shape);
net_ref net_conv(net_graph *n, net_ref x, int64_t filters,
                 const int64_t window[3] /* kernel, stride, pad */);
net_ref net_bn(net_graph *n, net_ref x);
net_ref net_pool(net_graph *n, net_ref x, int64_t kernel, int64_t stride,
                 int64_t pad);
net_ref net_fc(net_graph *n, net_ref x, net_ref weight, net_ref bias);
net_ref net_concat(net_graph *n, const net_ref *x, uint32_t count);
/* Makes `count` outputs along the second dimension. */
net_ref net_slice(net_graph *n, net_ref x, uint32_t count);
/* ACT, LEAKY, LRN, DROPOUT, FLATTEN, BLOCK_GRAD, COPY. */
net_ref net_unary(net_graph *n, net_op op, net_ref x);
/* ADD, MUL. */
net_ref net_binary(net_graph *n, net_op op, net_ref a, net_ref b);
net_ref net_loss(net_graph *n, net_op op, net_ref x, int64_t batch);
const net_shape *net_shape_of(const net_graph *n, net_ref x);

/* ----------------------------------------------------------------- gradient */

/* Returns whether a forward node is computed again for the backward part. */
typedef bool net_mirror(const net_graph *n, uint32_t node, void *ctx);

/* Sets the outputs of the net, and adds the gradients of all arguments. mirror
 * may be NULL. */
void net_set_heads(net_graph *n, const net_ref *heads, uint32_t count);
void net_gradient(net_graph *n, net_mirror *mirror, void *ctx);

/* --------------------------------------------------------------------- plan */

/* The input of the planner: nodes in depth-first order from the heads and then
 * the gradients. Entries of arguments and their gradients are external. */
typedef struct net_plan {
  tn__plan_net net;
  uint32_t *node_of;  /* by position: the node in `net` */
  uint32_t *position; /* by node; UINT32_MAX if it is not reached */
  uint32_t n_forward; /* number of nodes before the first backward node */
} net_plan;

net_plan *net_lower(const net_graph *n);
void net_plan_free(net_plan *plan);

/* ------------------------------------------------------------------- models */

net_graph *net_inception_bn(int64_t batch, bool cudnn);
net_graph *net_resnet(int64_t batch, const int layers[4]);
net_graph *net_alexnet(int64_t batch);
/* repeats: number of convolutions in each stage. The one with 16 layers is
 * usual. */
net_graph *net_vgg(int64_t batch, const int repeats[5]);
net_graph *net_vgg16(int64_t batch);
net_graph *net_googlenet(int64_t batch);
net_graph *net_lstm(uint32_t steps, uint32_t layers);

#endif /* TESTS_PLAN_NETS_H_ */
