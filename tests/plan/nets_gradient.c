/* SPDX-License-Identifier: Apache-2.0
 * nets_gradient.c: the gradient pass of NNVM, and the list of nodes for the
 * planner.
 */
#include <stdlib.h>
#include <string.h>

#include "nets.h"

static const uint32_t NONE = UINT32_MAX;

static void *allocate_zeroed(size_t n, size_t bytes) {
  void *memory = calloc(n == 0 ? 1 : n, bytes);
  if (memory == NULL) abort();
  return memory;
}

/* --------------------------------------------------------------- the tables */

/* Entries that the gradient of an operator reads, as text: "o0" the gradient of
 * output 0, "x1" input 1, "y0" output 0; "o*" all. Then the gradients that may
 * overwrite some of these (by position). */
enum { MOST_PAIRS = 3 };

typedef struct gradient_rule {
  const char *reads;
  tn__plan_pair pairs[MOST_PAIRS];
  uint32_t n_pairs;
  bool legacy; /* an OperatorProperty: it also reads its aux states and waits */
} gradient_rule;

static gradient_rule rule_of(const net_graph *n, net_op op) {
  const bool cudnn = n->cudnn;
  switch (op) {
    case NET_CONV:
      return (gradient_rule){"o0x0x1", {{0}}, 0, true};
    case NET_FC:
      return (gradient_rule){"o0x0x1", {{1, 0, false}}, 1, true};
    case NET_BN:
      return (gradient_rule){"o0y1y2x0x1", {{0}}, 0, true};
    case NET_ACT:
      return (gradient_rule){cudnn ? "o0y0x0" : "o0y0", {{0}}, 1, true};
    case NET_LEAKY:
      return (gradient_rule){"o0y0", {{0}}, 1, true};
    case NET_POOL:
      return (gradient_rule){"o0x0y0", {{1, 0, false}}, cudnn ? 0 : 1, true};
    case NET_LRN:
      return (gradient_rule){"o0x0y1y0", {{0}}, 0, true};
    case NET_DROPOUT:
      return (gradient_rule){"o0y1", {{0}}, 1, true};
    case NET_FLATTEN:
      return (gradient_rule){"o0", {{0, 0, true}}, 1, false};
    case NET_CONCAT:
    case NET_SLICE:
      return (gradient_rule){"o*", {{0}}, 0, true};
    case NET_MUL:
      return (gradient_rule){"o0x0x1", {{0, 1, false}}, 1, false};
    case NET_SOFTMAX_OUTPUT:
      return (gradient_rule){"x1y0", {{1, 0, false}}, 1, true};
    case NET_SOFTMAX_LOSS:
      return (gradient_rule){"o0x0x1", {{0}}, 0, false};
    default:
      return (gradient_rule){"o0", {{0}}, 1, false};
  }
}

/* Sets the pairs of the gradient of an operator to the choices of our plugins,
 * which have the same operands: positions are those of `reads`. */
static void set_own_choices(gradient_rule *rule, net_op op, bool all) {
  static const struct own {
    net_op op;
    bool first; /* the first pair is the choice per output that there was */
    uint32_t n;
    tn__plan_pair pairs[MOST_PAIRS];
  } own[] = {{NET_CONV, false, 1, {{1, 0, false}}},
             {NET_FC, false, 1, {{1, 0, false}}},
             {NET_BN, false, 2, {{0, 0, false}, {3, 0, false}}},
             {NET_ACT, true, 2, {{0, 0, false}, {1, 0, false}}},
             {NET_LEAKY, true, 2, {{0, 0, false}, {1, 0, false}}},
             {NET_POOL, false, 1, {{1, 0, false}}},
             {NET_DROPOUT, true, 2, {{0, 0, false}, {1, 0, false}}},
             {NET_MUL, false, 3, {{2, 0, false}, {0, 1, false}, {1, 1, false}}},
             {NET_SOFTMAX_OUTPUT, false, 1, {{1, 0, false}}},
             {NET_SOFTMAX_LOSS, false, 1, {{1, 0, false}}}};
  for (size_t i = 0; i < sizeof own / sizeof *own; ++i) {
    if (own[i].op != op) continue;
    memcpy(rule->pairs, own[i].pairs, sizeof rule->pairs);
    rule->n_pairs = all ? own[i].n : own[i].first;
  }
}

static uint32_t forward_pairs(const net_node *node,
                              tn__plan_pair pairs[MOST_PAIRS]) {
  switch (node->op) {
    case NET_ADD:
    case NET_MUL:
    case NET_GRAD_ADD:
      pairs[0] = (tn__plan_pair){0, 0, false};
      pairs[1] = (tn__plan_pair){1, 0, false};
      return 2;
    case NET_ACT:
    case NET_LEAKY:
    case NET_DROPOUT:
    case NET_SOFTMAX_OUTPUT:
    case NET_SUM:
      pairs[0] = (tn__plan_pair){0, 0, false};
      return 1;
    case NET_FLATTEN:
    case NET_COPY:
    case NET_HEAD_GRAD:
    case NET_BLOCK_GRAD:
      pairs[0] = (tn__plan_pair){0, 0, true};
      return 1;
    default:
      return 0;
  }
}

/* -------------------------------------------------------------- depth first */

typedef struct visit {
  uint32_t *nodes; /* in order */
  uint32_t n;
  bool *seen;
  uint32_t (*stack)[2]; /* a node, and the next of its inputs and waits */
  uint32_t depth;
} visit;

static visit visit_new(const net_graph *n) {
  return (visit){allocate_zeroed(n->n_nodes, sizeof(uint32_t)), 0,
                 allocate_zeroed(n->n_nodes, sizeof(bool)),
                 allocate_zeroed(n->n_nodes, 2 * sizeof(uint32_t)), 0};
}

static void visit_free(visit *v) {
  free(v->nodes);
  free(v->seen);
  free(v->stack);
}

static void enter_node(visit *v, uint32_t node) {
  if (v->seen[node]) return;
  v->seen[node] = true;
  v->stack[v->depth][0] = node;
  v->stack[v->depth++][1] = 0;
}

/* Visits inputs first, then the nodes that it waits for, then the node. */
static void visit_from(visit *v, const net_graph *n, uint32_t root) {
  enter_node(v, root);
  while (v->depth > 0) {
    uint32_t *top = v->stack[v->depth - 1];
    const net_node *node = &n->nodes[top[0]];
    const uint32_t next = top[1]++;
    if (next < node->n_in)
      enter_node(v, node->in[next].node);
    else if (next < node->n_in + node->n_after)
      enter_node(v, node->after[next - node->n_in]);
    else
      v->nodes[v->n++] = v->stack[--v->depth][0];
  }
}

/* ---------------------------------------------------------------- gradients */

/* The gradients of an output so far. */
typedef struct terms {
  net_ref *v;
  uint32_t n;
  net_ref sum; /* the sum of all of them; before that, node NONE */
} terms;

typedef struct pass {
  net_graph *n;
  terms **of; /* by node, then output */
  uint32_t n_of;
} pass;

static void add_term(terms *t, net_ref term) {
  net_ref *more = realloc(t->v, (t->n + 1) * sizeof *more);
  if (more == NULL) abort();
  t->v = more;
  t->v[t->n++] = term;
}

static net_ref sum_node(net_graph *n, net_op op, const net_ref *v,
                        uint32_t count) {
  const net_shape shape = *net_shape_of(n, v[0]);
  net_node *node = net_add_node(n, op, count, 1);
  memcpy(node->in, v, count * sizeof *v);
  node->shape[0] = shape;
  return (net_ref){n->n_nodes - 1, 0};
}

/* Sums up to 7 terms with one node. Adds more terms one after the other, each
 * term waiting for the sum before it. */
static net_ref sum_up(net_graph *n, terms *t) {
  enum { CAP = 8 };
  if (t->sum.node != NONE || t->n == 0) return t->sum;
  t->sum = t->v[0];
  if (t->n > 1 && t->n < CAP) t->sum = sum_node(n, NET_SUM, t->v, t->n);
  if (t->n < CAP) return t->sum;
  for (uint32_t k = 1; k < t->n; ++k) {
    net_add_after(n, t->v[k].node, t->sum.node);
    t->sum = sum_node(n, NET_GRAD_ADD, (net_ref[]){t->sum, t->v[k]}, 2);
  }
  t->sum = sum_node(n, NET_COPY, &t->sum, 1);
  return t->sum;
}

/* Lists the inputs of the gradient of node `k`, with values computed by `m`. */
static uint32_t gather_inputs(const net_graph *n, uint32_t k, uint32_t m,
                              const terms *grads, net_ref *in) {
  const net_node *node = &n->nodes[k], *from = &n->nodes[m];
  const gradient_rule rule = rule_of(n, node->op);
  uint32_t count = 0;
  for (const char *c = rule.reads; *c != '\0'; c += 2) {
    const uint32_t i = (uint32_t)(c[1] - '0');
    if (c[1] == '*')
      for (uint32_t o = 0; o < node->n_visible; ++o) in[count++] = grads[o].sum;
    else if (c[0] == 'o')
      in[count++] = grads[i].sum;
    else if (c[0] == 'x')
      in[count++] = from->in[i];
    else
      in[count++] = (net_ref){m, i};
  }
  for (uint32_t a = node->n_args; rule.legacy && a < node->n_in; ++a)
    in[count++] = from->in[a];
  return count;
}

/* Both terms of a sum have the gradient of the sum, without a node. */
static void hand_on_gradients(pass *p, uint32_t k) {
  const net_node *node = &p->n->nodes[k];
  for (uint32_t i = 0; i < node->n_in; ++i)
    add_term(&p->of[node->in[i].node][node->in[i].out], p->of[k][0].sum);
}

static void differentiate_node(pass *p, uint32_t k) {
  net_graph *n = p->n;
  const uint32_t m = n->mirror[k];
  terms *grads = p->of[k];
  for (uint32_t o = 0; o < n->nodes[k].n_out; ++o) (void)sum_up(n, &grads[o]);
  if (n->nodes[k].op == NET_ADD) {
    hand_on_gradients(p, k);
    return;
  }
  net_ref *in =
      allocate_zeroed(n->nodes[k].n_out + n->nodes[k].n_in + 8, sizeof *in);
  const uint32_t n_in = gather_inputs(n, k, m, grads, in),
                 n_out = n->nodes[k].n_args;
  net_node *back = net_add_node(n, NET_BACKWARD, n_in, n_out);
  const net_node *node = &n->nodes[k];
  const uint32_t b = n->n_nodes - 1;
  memcpy(back->in, in, n_in * sizeof *in);
  back->forward = m;
  back->cost = 2 * node->cost;
  for (uint32_t i = 0; i < n_out; ++i) {
    back->shape[i] = *net_shape_of(n, node->in[i]);
    add_term(&p->of[node->in[i].node][node->in[i].out], (net_ref){b, i});
  }
  net_add_after(n, b, m);
  free(in);
}

/* Makes a copy of node `k` that reads copies if there are any. */
static uint32_t mirror_node(net_graph *n, uint32_t k) {
  const net_node was = n->nodes[k];
  net_node *copy = net_add_node(n, was.op, was.n_in, was.n_out);
  net_ref *in = copy->in;
  net_shape *shape = copy->shape;
  memcpy(shape, was.shape, was.n_out * sizeof *shape);
  *copy = was;
  copy->in = in;
  copy->shape = shape;
  copy->after = NULL;
  copy->n_after = 0;
  for (uint32_t i = 0; i < was.n_in; ++i)
    in[i] = (net_ref){n->mirror[was.in[i].node], was.in[i].out};
  return n->n_nodes - 1;
}

static void mirror_all(net_graph *n, const visit *order, net_mirror *mirror,
                       void *ctx) {
  n->mirror = allocate_zeroed(n->n_nodes, sizeof *n->mirror);
  for (uint32_t k = 0; k < n->n_nodes; ++k) n->mirror[k] = k;
  for (uint32_t at = 0; mirror != NULL && at < order->n; ++at) {
    const uint32_t k = order->nodes[at];
    if (n->nodes[k].op == NET_VAR || !mirror(n, k, ctx)) continue;
    const uint32_t copy = mirror_node(n, k);
    n->mirror[k] = copy;
  }
}

static void list_args(net_graph *n, const visit *order) {
  n->args = allocate_zeroed(order->n, sizeof *n->args);
  n->grads = allocate_zeroed(order->n, sizeof *n->grads);
  for (uint32_t at = 0; at < order->n; ++at) {
    const uint32_t k = order->nodes[at];
    if (n->nodes[k].op == NET_VAR && !n->nodes[k].aux) n->args[n->n_args++] = k;
  }
}

/* Gradients of heads come from outside, through a node each. */
static void give_head_grads(pass *p) {
  net_graph *n = p->n;
  for (uint32_t h = 0; h < n->n_heads; ++h) {
    const net_ref given = net_var(n, *net_shape_of(n, n->heads[h]));
    const net_ref head = net_unary(n, NET_HEAD_GRAD, given);
    add_term(&p->of[n->heads[h].node][n->heads[h].out], head);
  }
}

static void pass_free(pass *p) {
  for (uint32_t k = 0; k < p->n_of; ++k) {
    for (uint32_t o = 0; o < p->n->nodes[k].n_out; ++o) free(p->of[k][o].v);
    free(p->of[k]);
  }
  free(p->of);
}

void net_gradient(net_graph *n, net_mirror *mirror, void *ctx) {
  visit order = visit_new(n);
  for (uint32_t h = 0; h < n->n_heads; ++h)
    visit_from(&order, n, n->heads[h].node);
  pass p = {n, allocate_zeroed(n->n_nodes, sizeof *p.of), n->n_nodes};
  for (uint32_t k = 0; k < p.n_of; ++k) {
    p.of[k] = allocate_zeroed(n->nodes[k].n_out, sizeof **p.of);
    for (uint32_t o = 0; o < n->nodes[k].n_out; ++o) p.of[k][o].sum.node = NONE;
  }
  list_args(n, &order);
  mirror_all(n, &order, mirror, ctx);
  give_head_grads(&p);
  for (uint32_t at = order.n; at-- > 0;)
    if (n->nodes[order.nodes[at]].op != NET_VAR)
      differentiate_node(&p, order.nodes[at]);
  for (uint32_t a = 0; a < n->n_args; ++a)
    n->grads[a] = sum_up(n, &p.of[n->args[a]][0]);
  visit_free(&order);
  pass_free(&p);
}

/* ----------------------------------------------------------------- lowering */

typedef struct lowering {
  const net_graph *n;
  uint32_t *first; /* by node: its first entry */
  tn__plan_entry *entries;
  tn__plan_node *nodes;
} lowering;

static size_t bytes_of(const net_shape *s) {
  return (size_t)(s->dim[0] * s->dim[1] * s->dim[2] * s->dim[3]) * 4;
}

static void lower_entries(lowering *l, uint32_t k, uint32_t first) {
  const net_node *node = &l->n->nodes[k];
  l->first[k] = first;
  for (uint32_t o = 0; o < node->n_out; ++o)
    l->entries[first + o] =
        (tn__plan_entry){.bytes = bytes_of(&node->shape[o]),
                         .n_elements = (int64_t)bytes_of(&node->shape[o]) / 4,
                         .dtype = TN_F32,
                         .flags = node->op == NET_VAR ? TN__ENTRY_EXTERNAL : 0};
}

/* Lists the pairs of a forward node. Our norms overwrite their input, too; with
 * one choice per output, sums and products overwrite only the first term. */
static uint32_t lower_forward_pairs(const net_graph *n, const net_node *node,
                                    tn__plan_pair *pairs) {
  const uint32_t count = forward_pairs(node, pairs);
  if (n->choices == NET_CHOICES_MXNET) return count;
  if (node->op == NET_BN) {
    pairs[0] = (tn__plan_pair){0, 0, false};
    return 1;
  }
  const bool binary = node->op == NET_ADD || node->op == NET_MUL;
  return binary && n->choices == NET_CHOICES_FIRST ? 1 : count;
}

static uint32_t lower_pairs(const net_graph *n, const net_node *node,
                            tn__plan_pair *pairs) {
  if (node->op != NET_BACKWARD) return lower_forward_pairs(n, node, pairs);
  gradient_rule rule = rule_of(n, n->nodes[node->forward].op);
  if (n->choices != NET_CHOICES_MXNET)
    set_own_choices(&rule, n->nodes[node->forward].op,
                    n->choices == NET_CHOICES_ALL);
  memcpy(pairs, rule.pairs, sizeof rule.pairs);
  return rule.n_pairs;
}

static tn__plan_node lower_node(const lowering *l, uint32_t k,
                                const uint32_t *position) {
  const net_node *node = &l->n->nodes[k];
  uint32_t *in = allocate_zeroed(node->n_in, sizeof *in);
  uint32_t *after = allocate_zeroed(node->n_after, sizeof *after);
  tn__plan_pair *pairs = allocate_zeroed(MOST_PAIRS, sizeof *pairs);
  tn__plan_node out = {.first_out = l->first[k],
                       .n_out = node->n_out,
                       .in = in,
                       .n_in = node->n_in,
                       .pairs = pairs,
                       .n_pairs = lower_pairs(l->n, node, pairs),
                       .after = after,
                       .sum = node->op == NET_GRAD_ADD};
  for (uint32_t i = 0; i < node->n_in; ++i)
    in[i] = l->first[node->in[i].node] + node->in[i].out;
  for (uint32_t i = 0; i < node->n_after; ++i)
    if (l->n->nodes[node->after[i]].op != NET_VAR)
      after[out.n_after++] = position[node->after[i]];
  return out;
}

static void lower_all(lowering *l, const visit *order, net_plan *plan) {
  uint32_t first = 0;
  for (uint32_t at = 0; at < order->n; ++at) {
    const uint32_t k = order->nodes[at];
    lower_entries(l, k, first);
    first += l->n->nodes[k].n_out;
    if (l->n->nodes[k].op == NET_VAR) continue;
    const uint32_t position = (uint32_t)plan->net.n_nodes++;
    plan->node_of[position] = k;
    plan->position[k] = position;
    l->nodes[position] = lower_node(l, k, plan->position);
    if (l->n->nodes[k].op == NET_BACKWARD && plan->n_forward == NONE)
      plan->n_forward = position;
  }
  plan->net.n_entries = first;
}

net_plan *net_lower(const net_graph *n) {
  net_plan *plan = allocate_zeroed(1, sizeof *plan);
  visit order = visit_new(n);
  size_t n_entries = 0;
  for (uint32_t h = 0; h < n->n_heads; ++h)
    visit_from(&order, n, n->heads[h].node);
  for (uint32_t a = 0; a < n->n_args; ++a)
    if (n->grads[a].node != NONE) visit_from(&order, n, n->grads[a].node);
  for (uint32_t at = 0; at < order.n; ++at)
    n_entries += n->nodes[order.nodes[at]].n_out;
  lowering l = {n, allocate_zeroed(n->n_nodes, sizeof *l.first),
                allocate_zeroed(n_entries, sizeof *l.entries),
                allocate_zeroed(order.n, sizeof *l.nodes)};
  plan->node_of = allocate_zeroed(order.n, sizeof *plan->node_of);
  plan->position = allocate_zeroed(n->n_nodes, sizeof *plan->position);
  memset(plan->position, 0xff, n->n_nodes * sizeof *plan->position);
  plan->n_forward = NONE;
  lower_all(&l, &order, plan);
  if (plan->n_forward == NONE) plan->n_forward = (uint32_t)plan->net.n_nodes;
  for (uint32_t h = 0; h < n->n_heads; ++h)
    l.entries[l.first[n->heads[h].node] + n->heads[h].out].flags |=
        TN__ENTRY_HEAD;
  for (uint32_t a = 0; a < n->n_args; ++a)
    if (n->grads[a].node != NONE)
      l.entries[l.first[n->grads[a].node] + n->grads[a].out].flags |=
          TN__ENTRY_EXTERNAL;
  plan->net.nodes = l.nodes;
  plan->net.entries = l.entries;
  free(l.first);
  visit_free(&order);
  return plan;
}

void net_plan_free(net_plan *plan) {
  for (size_t k = 0; k < plan->net.n_nodes; ++k) {
    free((void *)(uintptr_t)plan->net.nodes[k].in);
    free((void *)(uintptr_t)plan->net.nodes[k].pairs);
    free((void *)(uintptr_t)plan->net.nodes[k].after);
  }
  free((void *)(uintptr_t)plan->net.nodes);
  free((void *)(uintptr_t)plan->net.entries);
  free(plan->node_of);
  free(plan->position);
  free(plan);
}
