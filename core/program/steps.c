/* SPDX-License-Identifier: Apache-2.0
 * steps.c: the nodes of a program as steps, in order of execution. A sum of
 * many entries becomes sums of two, so that writers can add their terms.
 */
#include <string.h>

#include "program.h"

/* --------------------------------------------------------------- one step */

static tn__step *make_step(tn_program *p, const tn__node *node, uint32_t kind,
                           uint32_t n_in, uint32_t n_out) {
  tn__step *step = tn__arena_alloc(&p->arena, sizeof *step);
  if (!step) return NULL;
  step->program = p;
  step->node = node;
  step->device = tn__node_device(p, node->id);
  step->kind = kind;
  step->repeats = tn__node_is_repeatable(node);
  step->n_in = n_in;
  step->n_out = n_out;
  step->in = tn__arena_alloc(&p->arena, (n_in + 1u) * sizeof *step->in);
  step->out = tn__arena_alloc(&p->arena, (n_out + 1u) * sizeof *step->out);
  return p->arena.failed ? NULL : step;
}

static void enter_step(tn_program *p, tn__step *step) {
  step->id = p->n_steps;
  p->steps[p->n_steps++] = step;
  for (uint32_t i = 0; i < step->n_out; ++i)
    p->values[step->out[i]].step = step->id;
  for (uint32_t i = 0; i < step->n_in; ++i) {
    if (step->in[i] == TN_NONE) continue;
    if (!step->shape_only || !step->shape_only[i])
      ++p->values[step->in[i]].n_uses;
  }
}

static uint32_t get_entry(const tn_program *p, tn_entry entry) {
  return tn__entry_is_none(entry) ? TN_NONE : tn__entry_id(p->graph, entry);
}

static bool has_shape_inputs(const tn__node *node) {
  if (node->kind == TN__NODE_ZERO || node->kind == TN__NODE_ONE) return true;
  for (uint32_t i = 0; node->in_flags && i < node->n_in; ++i)
    if (node->in_flags[i] & TN_IN_METADATA) return true;
  return false;
}

static tn_code fail_memory(const tn_program *p) {
  return tn__fail_memory(p->n_values * sizeof(tn__value),
                         "the steps of a program");
}

static tn_code mark_shape_inputs(tn_program *p, tn__step *step) {
  const tn__node *node = step->node;
  const bool is_loop = node->kind == TN__NODE_LOOP;
  bool *inside = NULL;
  if (!is_loop && !has_shape_inputs(node)) return TN_OK;
  step->shape_only =
      tn__arena_alloc(&p->arena, (step->n_in + 1u) * sizeof *step->shape_only);
  if (!step->shape_only) return fail_memory(p);
  if (is_loop) TN__TRY(tn__inner_list_reads(node, &inside));
  for (uint32_t i = 0; i < node->n_in; ++i)
    step->shape_only[i] = !tn__node_reads_input(node, inside, i);
  if (inside) tn__free(node->inner->env, inside);
  return TN_OK;
}

static uint32_t get_step_kind(const tn__node *node) {
  switch (node->kind) {
    case TN__NODE_CALL:
    case TN__NODE_BACKWARD:
      return TN__STEP_CALL;
    case TN__NODE_LOOP:
      return TN__STEP_LOOP;
    case TN__NODE_COPY:
      return TN__STEP_COPY;
    default:
      return TN__STEP_FILL;
  }
}

static tn_code add_plain_step(tn_program *p, const tn__node *node) {
  const uint32_t n_in = node->n_in + node->n_aux;
  tn__step *step = make_step(p, node, get_step_kind(node), n_in, node->n_out);
  if (!step) return fail_memory(p);
  for (uint32_t i = 0; i < n_in; ++i) step->in[i] = get_entry(p, node->in[i]);
  for (uint32_t i = 0; i < node->n_out; ++i) step->out[i] = node->first + i;
  TN__TRY(mark_shape_inputs(p, step));
  enter_step(p, step);
  return TN_OK;
}

/* ------------------------------------------------------------------- sums */

/* A sum with terms that become ready one by one. Each term is added as soon as
 * it is ready: its writer can add it in the memory of the sum, and no term must
 * wait for another. */
typedef struct open_sum {
  const tn__node *node;
  uint32_t next;  /* index of the next term */
  uint32_t sum;   /* entry of the partial sum so far */
  uint32_t other; /* index of the next sum that waits for the same node;
                     TN_NONE: none */
} open_sum;

typedef struct sums {
  open_sum *v;
  uint32_t n;
  uint32_t *waiting; /* for each node: index of the newest sum in `v` that waits
                        for it */
  uint8_t *done;     /* for each node: 1 if its steps exist */
} sums;

static tn_code add_term(tn_program *p, open_sum *a) {
  const tn__node *node = a->node;
  tn__step *step = make_step(p, node, TN__STEP_ADD, 2, 1);
  if (!step) return fail_memory(p);
  step->in[0] = a->sum;
  step->in[1] = get_entry(p, node->in[a->next]);
  a->sum = ++a->next == node->n_in ? node->first : p->n_values++;
  p->values[a->sum].device = step->device;
  step->out[0] = a->sum;
  enter_step(p, step);
  return TN_OK;
}

/* Adds all ready terms of a sum, and registers the sum with the node of the
 * next term. */
static tn_code add_ready_terms(tn_program *p, sums *all, uint32_t number) {
  open_sum *a = &all->v[number];
  const tn_entry *terms = a->node->in;
  while (a->next < a->node->n_in && all->done[terms[a->next].node]) {
    if (a->next > 0) {
      TN__TRY(add_term(p, a));
      continue;
    }
    a->sum = get_entry(p, terms[0]);
    a->next = 1;
  }
  if (a->next == a->node->n_in) return TN_OK;
  uint32_t *first = &all->waiting[terms[a->next].node];
  a->other = *first;
  *first = number;
  return TN_OK;
}

/* Adds terms to the sums that wait for a node, after its steps were made. */
static tn_code continue_sums(tn_program *p, sums *all, uint32_t node) {
  all->done[node] = 1;
  uint32_t number = all->waiting[node];
  all->waiting[node] = TN_NONE;
  while (number != TN_NONE) {
    const uint32_t other = all->v[number].other;
    TN__TRY(add_ready_terms(p, all, number));
    number = other;
  }
  return TN_OK;
}

static void free_sums(const tn_program *p, sums *all) {
  tn__free(p->env, all->v);
  tn__free(p->env, all->waiting);
  tn__free(p->env, all->done);
}

static tn_code make_sums(tn_program *p, const tn__order *order, sums *all) {
  const size_t n_nodes = p->graph->nodes.n + 1;
  all->v = tn__alloc(p->env, (order->n + 1u) * sizeof *all->v);
  all->waiting = tn__alloc(p->env, n_nodes * sizeof *all->waiting);
  all->done = tn__zalloc(p->env, n_nodes);
  if (!all->v || !all->waiting || !all->done) return fail_memory(p);
  for (size_t i = 0; i < n_nodes; ++i) all->waiting[i] = TN_NONE;
  for (uint32_t i = 0; i < order->n; ++i) {
    const tn__node *node = tn__node_at(p->graph, order->ids[i]);
    if (node->kind != TN__NODE_SUM) continue;
    all->v[all->n] = (open_sum){.node = node};
    TN__TRY(add_ready_terms(p, all, all->n++));
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- all */

/* Number of partial sums of all sums: each sum has one less than terms. A
 * partial sum is an entry after those of the graph, and a step. */
static uint32_t count_partial_sums(const tn_graph *graph,
                                   const tn__order *order) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < order->n; ++i) {
    const tn__node *node = tn__node_at(graph, order->ids[i]);
    if (node->kind == TN__NODE_SUM && node->n_in > 2) n += node->n_in - 2;
  }
  return n;
}

static tn_code alloc_steps(tn_program *p, const tn__order *order) {
  const uint32_t more = count_partial_sums(p->graph, order);
  const size_t n_values = (size_t)p->graph->n_entries + more + 1;
  p->values = tn__arena_alloc(&p->arena, n_values * sizeof *p->values);
  p->steps = tn__arena_alloc(
      &p->arena, ((size_t)order->n + more + 1) * sizeof(tn__step *));
  if (p->arena.failed) return fail_memory(p);
  p->n_values = p->graph->n_entries;
  for (size_t i = 0; i < n_values; ++i)
    p->values[i] =
        (tn__value){.step = TN_NONE, .request = TN_REQ_WRITE, .place = TN_NONE};
  for (uint32_t id = 0; id < tn__n_nodes(p->graph); ++id)
    for (uint32_t k = 0; k < tn__node_at(p->graph, id)->n_out; ++k)
      p->values[tn__node_at(p->graph, id)->first + k].device =
          tn__node_device(p, id);
  return TN_OK;
}

static tn_code add_steps(tn_program *p, const tn__order *order,
                         uint32_t n_forward, sums *all) {
  for (uint32_t i = 0; i < order->n; ++i) {
    const tn__node *node = tn__node_at(p->graph, order->ids[i]);
    if (i == n_forward) p->n_forward = p->n_steps;
    if (node->kind == TN__NODE_VARIABLE)
      p->values[node->first].flags |= TN__ENTRY_EXTERNAL;
    else if (node->kind != TN__NODE_SUM)
      TN__TRY(add_plain_step(p, node));
    TN__TRY(continue_sums(p, all, node->id));
  }
  if (order->n <= n_forward) p->n_forward = p->n_steps;
  return TN_OK;
}

/* ---------------------------------------------------------------- waiting */

/* Tests whether the user has set the control dependencies of a node. Those that
 * the gradient pass sets are only for the order of a memory plan. */
static bool has_user_order(const tn__node *node) {
  return node->n_after > 0 && !(node->flags & TN__NODE_GRADIENT);
}

/* Finds the last step of a node; NULL for a variable. */
static tn__step *find_last_step(const tn_program *p, const tn__node *node) {
  const uint32_t step = node->n_out ? p->values[node->first].step : TN_NONE;
  return step == TN_NONE ? NULL : p->steps[step];
}

static tn_code add_waits(tn_program *p, const tn__node *node) {
  tn__step *step = find_last_step(p, node);
  if (!step) return TN_OK;
  step->after = tn__arena_alloc(&p->arena, node->n_after * sizeof *step->after);
  if (!step->after) return fail_memory(p);
  for (uint32_t i = 0; i < node->n_after; ++i) {
    tn__step *other = find_last_step(p, tn__node_at(p->graph, node->after[i]));
    if (!other) continue;
    if (!other->signal) other->signal = &p->signals[p->n_signals++];
    step->after[step->n_after++] = other->signal;
  }
  return TN_OK;
}

static tn_code add_all_waits(tn_program *p, const tn__order *order) {
  size_t n = 0;
  for (uint32_t i = 0; i < order->n; ++i) {
    const tn__node *node = tn__node_at(p->graph, order->ids[i]);
    if (has_user_order(node)) n += node->n_after;
  }
  if (n == 0) return TN_OK;
  p->signals = tn__zalloc(p->env, n * sizeof *p->signals);
  if (!p->signals) return fail_memory(p);
  for (uint32_t i = 0; i < order->n; ++i) {
    const tn__node *node = tn__node_at(p->graph, order->ids[i]);
    if (has_user_order(node)) TN__TRY(add_waits(p, node));
  }
  return TN_OK;
}

/* -------------------------------------------------------------------- lists */

/* Lists the entries that determine the order of the forward part: the heads,
 * then the inputs of the heads that overwrite arguments, then these heads. */
static uint32_t list_forward_entries(const tn_program *p, tn_entry *list) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (!p->heads.late[i]) list[n++] = p->heads.v[i];
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    const tn__node *node = tn__node_at(p->graph, p->heads.v[i].node);
    for (uint32_t k = 0; p->heads.late[i] && k < node->n_in; ++k)
      if (!tn__entry_is_none(node->in[k])) list[n++] = node->in[k];
  }
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (p->heads.late[i]) list[n++] = p->heads.v[i];
  return n;
}

static size_t count_most_entries(const tn_program *p, uint32_t n_backward) {
  size_t n = (size_t)p->heads.n + n_backward + 1;
  for (uint32_t i = 0; i < p->heads.n; ++i)
    if (p->heads.late[i]) n += tn__node_at(p->graph, p->heads.v[i].node)->n_in;
  return n;
}

/* Lists the results of the forward part, then those of the backward part. The
 * caller frees the list. */
static tn_entry *list_heads(const tn_program *p, const tn_entry *backward,
                            uint32_t n_backward, uint32_t *n_forward,
                            uint32_t *n) {
  tn_entry *list =
      tn__alloc(p->env, count_most_entries(p, n_backward) * sizeof *list);
  if (!list) return NULL;
  *n = *n_forward = list_forward_entries(p, list);
  for (uint32_t i = 0; i < n_backward; ++i)
    if (!tn__entry_is_none(backward[i])) list[(*n)++] = backward[i];
  return list;
}

tn_code tn__steps_make(tn_program *p, const tn_entry *backward,
                       uint32_t n_backward) {
  tn__order order = {0};
  sums all = {0};
  uint32_t n = 0, n_forward = 0;
  tn_entry *list = list_heads(p, backward, n_backward, &n_forward, &n);
  if (!list) return fail_memory(p);
  tn_code rc = tn__order_steps(p->graph, list, &n_forward, n, &order);
  if (rc == TN_OK) rc = alloc_steps(p, &order);
  if (rc == TN_OK) rc = make_sums(p, &order, &all);
  if (rc == TN_OK) rc = add_steps(p, &order, n_forward, &all);
  if (rc == TN_OK) rc = add_all_waits(p, &order);
  free_sums(p, &all);
  tn__free(p->env, order.ids);
  tn__free(p->env, list);
  return rc;
}
