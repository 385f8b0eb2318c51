/* SPDX-License-Identifier: Apache-2.0
 * gradient_pass.c: pass "gradient", reverse accumulation. It goes three times
 * over the nodes that the heads need, in depth-first order. Forwards: finds the
 * entries that depend on the arguments of the query. Backwards: counts the
 * gradients that each of these entries will get. Backwards again: applies the
 * rules. The last gradient of an entry makes the sum, so the sum directly
 * follows its summands.
 */
#include <string.h>

#include "gradient_rule.h"

/* Bits of the state of an entry in a sweep. */
enum {
  WANTED = 1u << 0,  /* a requested gradient depends on its gradient */
  STOPPED = 1u << 1, /* the user has stopped gradients here: the entry's
                        gradient is not passed to its node */
  ASKED = 1u << 2,   /* the caller requests the gradient of this entry */
  REACHED = 1u << 3  /* a head depends on it, so it has a gradient */
};

/* One summand of the gradient of an entry: a reader of the entry adds one, or a
 * head. A head without an output gradient gets ones; the pass adds a node of
 * ones only if a node reads them. */
typedef struct part {
  tn_entry entry;
  uint32_t head; /* number of the head that this summand is the output gradient
                    of; TN_NONE: the summand is `entry` */
  uint32_t next; /* index of the next summand; TN_NONE: none */
} part;

/* All summands of the gradient of one entry, in the order of their creation. */
typedef struct gradient_parts {
  uint32_t first; /* index of the first part */
  uint32_t last;
  uint32_t n;
  uint32_t expected; /* number of missing parts */
  uint32_t all;      /* number of all parts that the entry will get */
  bool settled;      /* the sum is complete: `sum` is the gradient */
  tn_entry sum;
} gradient_parts;

/* The state of one run of the pass. */
typedef struct sweep {
  tn_graph *graph;
  const tn__gradient_spec *spec;
  uint32_t n_nodes;         /* number of nodes before the pass */
  uint32_t n_entries;       /* number of entries before the pass */
  tn__order order;          /* of the nodes that the heads need */
  uint8_t *live;            /* per node: in `order` */
  uint8_t *state;           /* per entry: WANTED ... REACHED */
  gradient_parts *meetings; /* per entry: the summands of its gradient */
  part *parts;
  uint32_t n_parts;
  uint8_t *wanted; /* space for any node's inputs, twice */
  tn_entry *grads; /* space for any node's outputs */
  tn_entry *out;
  uint32_t *after;
} sweep;

static uint32_t get_entry_id(const sweep *s, tn_entry entry) {
  return tn__entry_id(s->graph, entry);
}

static bool is_compat_mode(const sweep *s) {
  return (s->spec->flags & TN__GRADIENT_COMPAT) != 0;
}

/* -------------------------------------------------------------------- marks */

/* Tests whether the node can pass a gradient to its input `i`, and a requested
 * gradient depends on that. */
static bool can_pass(const sweep *s, const tn__node *node, uint32_t i) {
  return !tn__entry_is_none(node->in[i]) &&
         (s->state[get_entry_id(s, node->in[i])] & WANTED) != 0 &&
         tn__rule_can_pass(node, i);
}

static bool passes_gradient(const sweep *s, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (can_pass(s, node, i)) return true;
  return false;
}

static bool has_no_gradient(const tn__node *node) {
  const char *value = tn__attribute_get(node, "no_gradient");
  return value && strcmp(value, "0") != 0;
}

/* Returns the type of an output. Without inference it is the type that the
 * operator declares for any inputs, or unknown. */
static tn_dtype get_output_dtype(const sweep *s, const tn__node *node,
                                 uint32_t i) {
  if ((s->spec->flags & TN__GRADIENT_INFERRED) != 0)
    return tn__entry_sig(s->graph, (tn_entry){node->id, i})->dtype;
  if (node->kind != TN__NODE_CALL) return TN_DTYPE_UNKNOWN;
  const tn_params *params = node->params ? node->params : node->op->defaults;
  const tn__infer_args args = {.op = node->desc,
                               .params = params ? params->data : NULL};
  return tn__arg_dtype(&args, tn__node_output(node, i));
}

/* Tests whether an output has an integer or bool type, so that it has no
 * gradient, as on a tape. */
static bool has_integer_type(const sweep *s, const tn__node *node, uint32_t i) {
  const tn_dtype dtype = get_output_dtype(s, node, i);
  return dtype != TN_DTYPE_UNKNOWN && !tn__dtype_is_float(dtype);
}

/* Marks the entries on which a requested gradient depends (WANTED). */
static void mark_wanted(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_stop; ++i)
    s->state[get_entry_id(s, q->stop[i])] |= STOPPED;
  for (size_t i = 0; i < q->n_of; ++i)
    s->state[get_entry_id(s, q->of[i])] |= ASKED | WANTED;
  for (uint32_t k = 0; k < s->order.n; ++k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k]);
    const bool stopped = has_no_gradient(node), any = passes_gradient(s, node);
    for (uint32_t i = 0; i < node->n_out; ++i) {
      uint8_t *state = &s->state[node->first + i];
      if (stopped || (any && has_integer_type(s, node, i))) *state |= STOPPED;
      if (any && !(*state & STOPPED)) *state |= WANTED;
    }
  }
}

/* Tests whether an output of the node has a gradient, which the node's rule
 * passes to its inputs. */
static bool has_output_gradient(const sweep *s, const tn__node *node) {
  if (!s->live[node->id]) return false;
  for (uint32_t i = 0; i < node->n_out; ++i)
    if ((s->state[node->first + i] & (REACHED | STOPPED)) == REACHED)
      return true;
  return false;
}

static void count_expected_part(sweep *s, tn_entry entry) {
  const uint32_t id = get_entry_id(s, entry);
  if (!(s->state[id] & WANTED)) return;
  s->state[id] |= REACHED;
  ++s->meetings[id].expected;
  ++s->meetings[id].all;
  ++s->n_parts;
}

/* Marks the entries that get a gradient (REACHED), and counts their
 * summands. */
static void mark_reached(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_heads; ++i) count_expected_part(s, q->heads[i]);
  for (uint32_t k = s->order.n; k > 0; --k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k - 1]);
    if (!has_output_gradient(s, node)) continue;
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (can_pass(s, node, i)) count_expected_part(s, node->in[i]);
  }
}

/* ----------------------------------------------------------------- meetings */

static tn_code add_plain_node(sweep *s, tn__node_spec *spec, const char *stem,
                              tn_entry *out) {
  tn__node *node = NULL;
  spec->n_out = 1;
  spec->of = TN_NONE;
  spec->stem = stem;
  spec->flags = TN__NODE_GRADIENT;
  TN__TRY(tn__node_add(s->graph, spec, &node));
  *out = (tn_entry){node->id, 0};
  return TN_OK;
}

static tn_code add_copy(sweep *s, tn_entry of, tn_entry *out) {
  tn__node_spec spec = {.kind = TN__NODE_COPY, .n_in = 1, .in = &of};
  return add_plain_node(s, &spec, "copy", out);
}

/* Returns the output gradient of a head, or ones if it has none. With
 * TN__GRADIENT_COMPAT a copy is between the head's gradient and its readers, as
 * in MXNet. */
static tn_code get_head_gradient(sweep *s, uint32_t head, tn_entry *out) {
  const tn_gradient_query *q = &s->spec->query;
  if (q->weights && !tn__entry_is_none(q->weights[head])) {
    *out = q->weights[head];
    return is_compat_mode(s) ? add_copy(s, *out, out) : TN_OK;
  }
  tn__node_spec spec = {.kind = TN__NODE_ONE, .n_in = 1, .in = &q->heads[head]};
  return add_plain_node(s, &spec, "one", out);
}

static tn_code get_part_entry(sweep *s, part *p) {
  if (p->head == TN_NONE) return TN_OK;
  TN__TRY(get_head_gradient(s, p->head, &p->entry));
  p->head = TN_NONE;
  return TN_OK;
}

static tn_code add_sum_node(sweep *s, const gradient_parts *m, tn_entry *out) {
  tn_entry *in = tn__alloc(s->graph->env, m->n * sizeof *in);
  if (!in) return tn__fail_memory(m->n * sizeof *in, "a sum of gradients");
  tn_code rc = TN_OK;
  uint32_t n = 0;
  for (uint32_t p = m->first; rc == TN_OK && p != TN_NONE;
       p = s->parts[p].next) {
    rc = get_part_entry(s, &s->parts[p]);
    in[n++] = s->parts[p].entry;
  }
  tn__node_spec spec = {.kind = TN__NODE_SUM, .n_in = n, .in = in};
  if (rc == TN_OK) rc = add_plain_node(s, &spec, "sum", out);
  tn__free(s->graph->env, in);
  return rc;
}

static tn_code finish_sum(sweep *s, gradient_parts *m) {
  if (m->settled) return TN_OK;
  m->settled = true;
  if (m->n > 1) return add_sum_node(s, m, &m->sum);
  if (m->n == 0) return TN_OK;
  TN__TRY(get_part_entry(s, &s->parts[m->first]));
  m->sum = s->parts[m->first].entry;
  return TN_OK;
}

/* MXNet adds gradients one by one if there are at least this many. */
enum { LONGEST_SUM = 7 };

static bool is_summed_one_by_one(const sweep *s, const gradient_parts *m) {
  return is_compat_mode(s) && m->all > LONGEST_SUM;
}

/* Replaces the partial sum of a gradient by its sum with the next summand. */
static tn_code add_to_partial_sum(sweep *s, gradient_parts *m, part *next) {
  part *sum = &s->parts[m->first];
  TN__TRY(get_part_entry(s, sum));
  TN__TRY(get_part_entry(s, next));
  tn__node_spec spec = {.kind = TN__NODE_SUM,
                        .n_in = 2,
                        .in = (tn_entry[]){sum->entry, next->entry}};
  TN__TRY(add_plain_node(s, &spec, "grad_add", &sum->entry));
  return m->expected > 0 ? TN_OK : add_copy(s, sum->entry, &sum->entry);
}

static void append_part(sweep *s, gradient_parts *m, part what) {
  const uint32_t at = s->n_parts++;
  what.next = TN_NONE;
  s->parts[at] = what;
  if (m->n == 0)
    m->first = at;
  else
    s->parts[m->last].next = at;
  m->last = at;
  ++m->n;
}

/* Tests whether the gradient of an entry is used: the gradient rule of the node
 * that makes the entry reads it, or the caller requests it. */
static bool is_gradient_read(sweep *s, tn_entry entry) {
  const tn__node *node = tn__node_at(s->graph, entry.node);
  const uint8_t state = s->state[get_entry_id(s, entry)];
  if (state & ASKED) return true;
  if ((state & STOPPED) || !has_output_gradient(s, node)) return false;
  for (uint32_t i = 0; i < node->n_in; ++i) s->wanted[i] = can_pass(s, node, i);
  return tn__rule_reads_gradient(node, s->wanted, entry.index);
}

static bool is_zero_part(const sweep *s, const part *p) {
  return p->head == TN_NONE &&
         (tn__entry_is_none(p->entry) ||
          tn__node_at(s->graph, p->entry.node)->kind == TN__NODE_ZERO);
}

/* Adds one summand to the gradient of an entry. */
static tn_code add_part(sweep *s, tn_entry to, part what) {
  gradient_parts *m = &s->meetings[get_entry_id(s, to)];
  const bool zero = is_zero_part(s, &what);
  --m->expected;
  if (!zero && m->n == 1 && is_summed_one_by_one(s, m))
    TN__TRY(add_to_partial_sum(s, m, &what));
  else if (!zero)
    append_part(s, m, what);
  return m->expected == 0 && is_gradient_read(s, to) ? finish_sum(s, m) : TN_OK;
}

/* --------------------------------------------------------------------- rules
 */

/* Lists in s->after the nodes that must precede the added nodes, for the order
 * of MXNet: backward nodes follow their forward nodes, and the next summand
 * follows the partial sum. Returns their number. */
static uint32_t list_compat_order(sweep *s, const tn__node *node) {
  uint32_t n = 0;
  if (!is_compat_mode(s)) return 0;
  s->after[n++] = node->id;
  for (uint32_t i = 0; i < node->n_in; ++i) {
    if (!can_pass(s, node, i)) continue;
    const gradient_parts *m = &s->meetings[get_entry_id(s, node->in[i])];
    if (!is_summed_one_by_one(s, m) || m->n == 0) continue;
    const part *p = &s->parts[m->first];
    if (p->head == TN_NONE) s->after[n++] = p->entry.node;
  }
  return n;
}

/* Writes to s->grads the gradients of the node's outputs that the node's
 * gradient rule reads. */
static tn_code load_grads(sweep *s, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_out; ++i) {
    const tn_entry entry = {node->id, i};
    const uint32_t id = node->first + i;
    s->grads[i] = TN_ENTRY_NONE;
    if ((s->state[id] & (REACHED | STOPPED)) != REACHED) continue;
    if (is_gradient_read(s, entry)) TN__TRY(finish_sum(s, &s->meetings[id]));
    if (s->meetings[id].settled) s->grads[i] = s->meetings[id].sum;
  }
  return TN_OK;
}

/* Whether all gradients of the node's outputs are zero. */
static bool has_zero_gradients(const sweep *s, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_out; ++i)
    if (s->meetings[node->first + i].n > 0 &&
        !(s->state[node->first + i] & STOPPED))
      return false;
  return true;
}

static tn_code run_rule(sweep *s, const tn__node *node) {
  TN__TRY(load_grads(s, node));
  for (uint32_t i = 0; i < node->n_in; ++i) {
    s->wanted[i] = can_pass(s, node, i);
    s->out[i] = TN_ENTRY_NONE;
  }
  if (has_zero_gradients(s, node)) return TN_OK;
  const tn__gradient_rule rule = {.graph = s->graph,
                                  .node = node,
                                  .grads = s->grads,
                                  .wanted = s->wanted,
                                  .out = s->out,
                                  .room = s->wanted + node->n_in,
                                  .after = s->after,
                                  .n_after = list_compat_order(s, node)};
  return tn__rule_apply(&rule);
}

static tn_code differentiate_node(sweep *s, const tn__node *node) {
  TN__TRY(run_rule(s, node));
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (can_pass(s, node, i))
      TN__TRY(add_part(s, node->in[i], (part){s->out[i], TN_NONE, TN_NONE}));
  return TN_OK;
}

static tn_code differentiate_nodes(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  s->n_parts = 0;
  for (uint32_t i = 0; i < q->n_heads; ++i)
    if (s->state[get_entry_id(s, q->heads[i])] & WANTED)
      TN__TRY(add_part(s, q->heads[i], (part){TN_ENTRY_NONE, i, TN_NONE}));
  for (uint32_t k = s->order.n; k > 0; --k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k - 1]);
    if (has_output_gradient(s, node)) TN__TRY(differentiate_node(s, node));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- results
 */

static tn_code fail_unreached(const sweep *s, size_t i) {
  char name[TN__ENTRY_TEXT];
  return tn__fail(TN_INVALID,
                  "a gradient with respect to `%s` is requested "
                  "(entry %zu), but no head depends on it",
                  tn__entry_text(s->graph, s->spec->query.of[i], name), i);
}

/* Answers a request with zeros: no gradient has reached the entry, although a
 * head may depend on it. */
static tn_code answer_with_zeros(sweep *s, size_t i, tn_entry *out) {
  const tn_entry of = s->spec->query.of[i];
  *out = TN_ENTRY_NONE;
  if (s->spec->optional) return TN_OK;
  if (!s->live[of.node]) return fail_unreached(s, i);
  tn__node_spec spec = {.kind = TN__NODE_ZERO, .n_in = 1, .in = &of};
  return add_plain_node(s, &spec, "zero", out);
}

static bool is_earlier_answer(const tn_entry *out, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (tn__entry_is_same(out[k], out[i]) && !tn__entry_is_none(out[i]))
      return true;
  return false;
}

static tn_code write_answers(sweep *s, tn_entry *out) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_of; ++i) {
    gradient_parts *m = &s->meetings[get_entry_id(s, q->of[i])];
    TN__TRY(finish_sum(s, m));
    out[i] = m->sum;
    if (m->n == 0) TN__TRY(answer_with_zeros(s, i, &out[i]));
  }
  for (size_t i = 1; is_compat_mode(s) && i < q->n_of; ++i)
    if (is_earlier_answer(out, i)) TN__TRY(add_copy(s, out[i], &out[i]));
  return TN_OK;
}

/* --------------------------------------------------------------------- begin
 */

static tn_code check_entries(const tn_graph *graph, const tn_entry *list,
                             size_t n, const char *what) {
  for (size_t i = 0; i < n; ++i) TN__TRY(tn__entry_check(graph, list[i], what));
  return TN_OK;
}

static tn_code check_query(const tn_graph *graph, const tn_gradient_query *q) {
  TN__TRY(check_entries(graph, q->heads, q->n_heads, "a head"));
  TN__TRY(check_entries(graph, q->of, q->n_of,
                        "an entry with a requested gradient"));
  TN__TRY(check_entries(graph, q->stop, q->n_stop,
                        "an entry where gradients stop"));
  for (size_t i = 0; q->weights && i < q->n_heads; ++i)
    if (!tn__entry_is_none(q->weights[i]))
      TN__TRY(tn__entry_check(graph, q->weights[i], "the weight of a head"));
  return TN_OK;
}

static tn_code mark_needed_nodes(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  TN__TRY(tn__order_make(s->graph, q->heads, q->n_heads, &s->order));
  for (uint32_t i = 0; i < s->order.n; ++i) s->live[s->order.ids[i]] = 1;
  return TN_OK;
}

static tn_code alloc_lists(sweep *s) {
  const tn__env *env = s->graph->env;
  size_t most = 1;
  for (uint32_t id = 0; id < s->n_nodes; ++id) {
    const tn__node *node = tn__node_at(s->graph, id);
    if (node->n_in >= most) most = (size_t)node->n_in + 1;
    if (node->n_out > most) most = node->n_out;
  }
  const size_t n = (size_t)s->n_entries + 1;
  s->live = tn__zalloc(env, s->n_nodes + (size_t)1);
  s->state = tn__zalloc(env, n);
  s->meetings = tn__zalloc(env, n * sizeof *s->meetings);
  s->wanted = tn__alloc(env, 2 * most);
  s->grads = tn__alloc(env, most * sizeof *s->grads);
  s->out = tn__alloc(env, most * sizeof *s->out);
  s->after = tn__alloc(env, most * sizeof *s->after);
  if (!s->live || !s->state || !s->meetings || !s->wanted || !s->grads ||
      !s->out || !s->after)
    return tn__fail_memory(n * sizeof *s->meetings, "the gradient of a graph");
  for (size_t i = 0; i < n; ++i) s->meetings[i].sum = TN_ENTRY_NONE;
  return TN_OK;
}

static tn_code alloc_parts(sweep *s) {
  const size_t bytes = ((size_t)s->n_parts + 1) * sizeof *s->parts;
  s->parts = tn__alloc(s->graph->env, bytes);
  return s->parts ? TN_OK : tn__fail_memory(bytes, "the gradient of a graph");
}

static void free_sweep(sweep *s) {
  const tn__env *env = s->graph->env;
  tn__free(env, s->order.ids);
  tn__free(env, s->live);
  tn__free(env, s->state);
  tn__free(env, s->meetings);
  tn__free(env, s->parts);
  tn__free(env, s->wanted);
  tn__free(env, s->grads);
  tn__free(env, s->out);
  tn__free(env, s->after);
}

static tn_code run_sweep(sweep *s, tn_entry *out) {
  TN__TRY(alloc_lists(s));
  TN__TRY(mark_needed_nodes(s));
  mark_wanted(s);
  mark_reached(s);
  TN__TRY(alloc_parts(s));
  TN__TRY(differentiate_nodes(s));
  return write_answers(s, out);
}

tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out) {
  sweep s = {.graph = graph,
             .spec = spec,
             .n_nodes = tn__n_nodes(graph),
             .n_entries = graph->n_entries};
  for (size_t i = 0; i < spec->query.n_of; ++i) out[i] = TN_ENTRY_NONE;
  TN__TRY(check_query(graph, &spec->query));
  const tn_code rc = run_sweep(&s, out);
  free_sweep(&s);
  if (rc == TN_OK) return TN_OK;
  tn__graph_truncate(graph, s.n_nodes);
  for (size_t i = 0; i < spec->query.n_of; ++i) out[i] = TN_ENTRY_NONE;
  return rc;
}
