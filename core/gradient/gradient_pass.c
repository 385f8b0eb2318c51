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

/* State of an entry. */
enum {
  WANTED = 1u << 0,  /* a requested gradient depends on its gradient */
  STOPPED = 1u << 1, /* its gradient does not pass on */
  ASKED = 1u << 2,
  REACHED = 1u << 3 /* it has a gradient */
};

/* One gradient of an entry. A head without an output gradient gets ones; the
 * pass adds a node for them only if a node reads them. */
typedef struct part {
  tn_entry entry;
  uint32_t head; /* TN_NONE: the gradient is `entry` */
  uint32_t next; /* TN_NONE: the last */
} part;

/* All gradients of an entry, in the order of their creation. */
typedef struct meeting {
  uint32_t first; /* index of the first part */
  uint32_t last;
  uint32_t n;
  uint32_t expected; /* number of missing parts */
  uint32_t all;
  bool settled; /* `sum` is the gradient */
  tn_entry sum;
} meeting;

typedef struct sweep {
  tn_graph *graph;
  const tn__gradient_spec *spec;
  uint32_t n_nodes;   /* number before the pass */
  uint32_t n_entries; /* the same */
  tn__order order;    /* of the nodes that the heads need */
  uint8_t *live;      /* per node: in `order` */
  uint8_t *state;     /* per entry */
  meeting *meetings;  /* per entry */
  part *parts;
  uint32_t n_parts;
  uint8_t *wanted; /* space for any node's inputs, twice */
  tn_entry *grads; /* space for any node's outputs */
  tn_entry *out;
  uint32_t *after;
} sweep;

static uint32_t id_of(const sweep *s, tn_entry entry) {
  return tn__entry_id(s->graph, entry);
}

static bool is_compat(const sweep *s) {
  return (s->spec->flags & TN__GRADIENT_COMPAT) != 0;
}

/* -------------------------------------------------------------------- marks */

/* Whether a gradient can pass from the node to its input `i`, and a requested
 * gradient depends on it. */
static bool can_pass(const sweep *s, const tn__node *node, uint32_t i) {
  return !tn__entry_is_none(node->in[i]) &&
         (s->state[id_of(s, node->in[i])] & WANTED) != 0 &&
         tn__rule_can_pass(node, i);
}

static bool passes_any(const sweep *s, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (can_pass(s, node, i)) return true;
  return false;
}

static bool has_no_gradient(const tn__node *node) {
  const char *value = tn__attribute_get(node, "no_gradient");
  return value && strcmp(value, "0") != 0;
}

/* The type of an output. Without inference: the type that it has for any
 * inputs, or unknown. */
static tn_dtype dtype_of(const sweep *s, const tn__node *node, uint32_t i) {
  if ((s->spec->flags & TN__GRADIENT_INFERRED) != 0)
    return tn__entry_sig(s->graph, (tn_entry){node->id, i})->dtype;
  if (node->kind != TN__NODE_CALL) return TN_DTYPE_UNKNOWN;
  const tn_params *params = node->params ? node->params : node->op->defaults;
  const tn__infer_args args = {.op = node->desc,
                               .params = params ? params->data : NULL};
  return tn__arg_dtype(&args, tn__node_output(node, i));
}

/* Whether the output has integers or bools, and so no gradient, as on a tape.
 */
static bool is_whole(const sweep *s, const tn__node *node, uint32_t i) {
  const tn_dtype dtype = dtype_of(s, node, i);
  return dtype != TN_DTYPE_UNKNOWN && !tn__dtype_is_float(dtype);
}

static void mark_forwards(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_stop; ++i)
    s->state[id_of(s, q->stop[i])] |= STOPPED;
  for (size_t i = 0; i < q->n_of; ++i)
    s->state[id_of(s, q->of[i])] |= ASKED | WANTED;
  for (uint32_t k = 0; k < s->order.n; ++k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k]);
    const bool stopped = has_no_gradient(node), any = passes_any(s, node);
    for (uint32_t i = 0; i < node->n_out; ++i) {
      uint8_t *state = &s->state[node->first + i];
      if (stopped || (any && is_whole(s, node, i))) *state |= STOPPED;
      if (any && !(*state & STOPPED)) *state |= WANTED;
    }
  }
}

/* Whether the node has a gradient to pass on. */
static bool is_reached(const sweep *s, const tn__node *node) {
  if (!s->live[node->id]) return false;
  for (uint32_t i = 0; i < node->n_out; ++i)
    if ((s->state[node->first + i] & (REACHED | STOPPED)) == REACHED)
      return true;
  return false;
}

static void expect_part(sweep *s, tn_entry entry) {
  const uint32_t id = id_of(s, entry);
  if (!(s->state[id] & WANTED)) return;
  s->state[id] |= REACHED;
  ++s->meetings[id].expected;
  ++s->meetings[id].all;
  ++s->n_parts;
}

static void mark_backwards(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_heads; ++i) expect_part(s, q->heads[i]);
  for (uint32_t k = s->order.n; k > 0; --k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k - 1]);
    if (!is_reached(s, node)) continue;
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (can_pass(s, node, i)) expect_part(s, node->in[i]);
  }
}

/* ----------------------------------------------------------------- meetings */

static tn_code add_plain(sweep *s, tn__node_spec *spec, const char *stem,
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
  return add_plain(s, &spec, "copy", out);
}

/* The output gradient of a head, or ones. MXNet has an identity between a
 * head's gradient and its readers. */
static tn_code head_gradient(sweep *s, uint32_t head, tn_entry *out) {
  const tn_gradient_query *q = &s->spec->query;
  if (q->weights && !tn__entry_is_none(q->weights[head])) {
    *out = q->weights[head];
    return is_compat(s) ? add_copy(s, *out, out) : TN_OK;
  }
  tn__node_spec spec = {.kind = TN__NODE_ONE, .n_in = 1, .in = &q->heads[head]};
  return add_plain(s, &spec, "one", out);
}

static tn_code part_entry(sweep *s, part *p) {
  if (p->head == TN_NONE) return TN_OK;
  TN__TRY(head_gradient(s, p->head, &p->entry));
  p->head = TN_NONE;
  return TN_OK;
}

static tn_code sum_all(sweep *s, const meeting *m, tn_entry *out) {
  tn_entry *in = tn__alloc(s->graph->env, m->n * sizeof *in);
  if (!in) return tn__fail_memory(m->n * sizeof *in, "a sum of gradients");
  tn_code rc = TN_OK;
  uint32_t n = 0;
  for (uint32_t p = m->first; rc == TN_OK && p != TN_NONE;
       p = s->parts[p].next) {
    rc = part_entry(s, &s->parts[p]);
    in[n++] = s->parts[p].entry;
  }
  tn__node_spec spec = {.kind = TN__NODE_SUM, .n_in = n, .in = in};
  if (rc == TN_OK) rc = add_plain(s, &spec, "sum", out);
  tn__free(s->graph->env, in);
  return rc;
}

static tn_code finish_sum(sweep *s, meeting *m) {
  if (m->settled) return TN_OK;
  m->settled = true;
  if (m->n > 1) return sum_all(s, m, &m->sum);
  if (m->n == 0) return TN_OK;
  TN__TRY(part_entry(s, &s->parts[m->first]));
  m->sum = s->parts[m->first].entry;
  return TN_OK;
}

/* MXNet adds this many gradients or more one by one. */
enum { LONGEST_SUM = 7 };

static bool is_chained(const sweep *s, const meeting *m) {
  return is_compat(s) && m->all > LONGEST_SUM;
}

/* Replaces the partial sum by its sum with the next part. */
static tn_code chain_part(sweep *s, meeting *m, part *next) {
  part *sum = &s->parts[m->first];
  TN__TRY(part_entry(s, sum));
  TN__TRY(part_entry(s, next));
  tn__node_spec spec = {.kind = TN__NODE_SUM,
                        .n_in = 2,
                        .in = (tn_entry[]){sum->entry, next->entry}};
  TN__TRY(add_plain(s, &spec, "grad_add", &sum->entry));
  return m->expected > 0 ? TN_OK : add_copy(s, sum->entry, &sum->entry);
}

static void place_part(sweep *s, meeting *m, part what) {
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

/* Whether the rule of an entry's node reads the entry's gradient, or a caller
 * requests it. */
static bool is_read(sweep *s, tn_entry entry) {
  const tn__node *node = tn__node_at(s->graph, entry.node);
  const uint8_t state = s->state[id_of(s, entry)];
  if (state & ASKED) return true;
  if ((state & STOPPED) || !is_reached(s, node)) return false;
  for (uint32_t i = 0; i < node->n_in; ++i) s->wanted[i] = can_pass(s, node, i);
  return tn__rule_reads_gradient(node, s->wanted, entry.index);
}

static bool is_zero(const sweep *s, const part *p) {
  return p->head == TN_NONE &&
         (tn__entry_is_none(p->entry) ||
          tn__node_at(s->graph, p->entry.node)->kind == TN__NODE_ZERO);
}

/* Adds a gradient to an entry. */
static tn_code add_part(sweep *s, tn_entry to, part what) {
  meeting *m = &s->meetings[id_of(s, to)];
  const bool zero = is_zero(s, &what);
  --m->expected;
  if (!zero && m->n == 1 && is_chained(s, m))
    TN__TRY(chain_part(s, m, &what));
  else if (!zero)
    place_part(s, m, what);
  return m->expected == 0 && is_read(s, to) ? finish_sum(s, m) : TN_OK;
}

/* --------------------------------------------------------------------- rules
 */

/* MXNet's backward nodes follow their forward nodes, and the next summand
 * follows the partial sum. */
static uint32_t compat_after(sweep *s, const tn__node *node) {
  uint32_t n = 0;
  if (!is_compat(s)) return 0;
  s->after[n++] = node->id;
  for (uint32_t i = 0; i < node->n_in; ++i) {
    if (!can_pass(s, node, i)) continue;
    const meeting *m = &s->meetings[id_of(s, node->in[i])];
    if (!is_chained(s, m) || m->n == 0) continue;
    const part *p = &s->parts[m->first];
    if (p->head == TN_NONE) s->after[n++] = p->entry.node;
  }
  return n;
}

/* Loads the gradients of the node's outputs that its rule reads. */
static tn_code load_grads(sweep *s, const tn__node *node) {
  for (uint32_t i = 0; i < node->n_out; ++i) {
    const tn_entry entry = {node->id, i};
    const uint32_t id = node->first + i;
    s->grads[i] = TN_ENTRY_NONE;
    if ((s->state[id] & (REACHED | STOPPED)) != REACHED) continue;
    if (is_read(s, entry)) TN__TRY(finish_sum(s, &s->meetings[id]));
    if (s->meetings[id].settled) s->grads[i] = s->meetings[id].sum;
  }
  return TN_OK;
}

/* Whether all gradients of the node's outputs are zero. */
static bool is_zero_node(const sweep *s, const tn__node *node) {
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
  if (is_zero_node(s, node)) return TN_OK;
  const tn__gradient_rule rule = {.graph = s->graph,
                                  .node = node,
                                  .grads = s->grads,
                                  .wanted = s->wanted,
                                  .out = s->out,
                                  .room = s->wanted + node->n_in,
                                  .after = s->after,
                                  .n_after = compat_after(s, node)};
  return tn__rule_apply(&rule);
}

static tn_code pass_node(sweep *s, const tn__node *node) {
  TN__TRY(run_rule(s, node));
  for (uint32_t i = 0; i < node->n_in; ++i)
    if (can_pass(s, node, i))
      TN__TRY(add_part(s, node->in[i], (part){s->out[i], TN_NONE, TN_NONE}));
  return TN_OK;
}

static tn_code pass_all(sweep *s) {
  const tn_gradient_query *q = &s->spec->query;
  s->n_parts = 0;
  for (uint32_t i = 0; i < q->n_heads; ++i)
    if (s->state[id_of(s, q->heads[i])] & WANTED)
      TN__TRY(add_part(s, q->heads[i], (part){TN_ENTRY_NONE, i, TN_NONE}));
  for (uint32_t k = s->order.n; k > 0; --k) {
    const tn__node *node = tn__node_at(s->graph, s->order.ids[k - 1]);
    if (is_reached(s, node)) TN__TRY(pass_node(s, node));
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- results
 */

static tn_code answer_unreached(const sweep *s, size_t i) {
  char name[TN__ENTRY_TEXT];
  return tn__fail(TN_INVALID,
                  "a gradient with respect to `%s` is requested "
                  "(entry %zu), but no head depends on it",
                  tn__entry_text(s->graph, s->spec->query.of[i], name), i);
}

/* Answers with zeros: no gradient reached the entry, though heads may depend on
 * it. */
static tn_code answer_zero(sweep *s, size_t i, tn_entry *out) {
  const tn_entry of = s->spec->query.of[i];
  *out = TN_ENTRY_NONE;
  if (s->spec->optional) return TN_OK;
  if (!s->live[of.node]) return answer_unreached(s, i);
  tn__node_spec spec = {.kind = TN__NODE_ZERO, .n_in = 1, .in = &of};
  return add_plain(s, &spec, "zero", out);
}

static bool is_taken(const tn_entry *out, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (tn__entry_is_same(out[k], out[i]) && !tn__entry_is_none(out[i]))
      return true;
  return false;
}

static tn_code write_answers(sweep *s, tn_entry *out) {
  const tn_gradient_query *q = &s->spec->query;
  for (size_t i = 0; i < q->n_of; ++i) {
    meeting *m = &s->meetings[id_of(s, q->of[i])];
    TN__TRY(finish_sum(s, m));
    out[i] = m->sum;
    if (m->n == 0) TN__TRY(answer_zero(s, i, &out[i]));
  }
  for (size_t i = 1; is_compat(s) && i < q->n_of; ++i)
    if (is_taken(out, i)) TN__TRY(add_copy(s, out[i], &out[i]));
  return TN_OK;
}

/* --------------------------------------------------------------------- begin
 */

static tn_code list_check(const tn_graph *graph, const tn_entry *list, size_t n,
                          const char *what) {
  for (size_t i = 0; i < n; ++i) TN__TRY(tn__entry_check(graph, list[i], what));
  return TN_OK;
}

static tn_code query_check(const tn_graph *graph, const tn_gradient_query *q) {
  TN__TRY(list_check(graph, q->heads, q->n_heads, "a head"));
  TN__TRY(
      list_check(graph, q->of, q->n_of, "an entry with a requested gradient"));
  TN__TRY(
      list_check(graph, q->stop, q->n_stop, "an entry where gradients stop"));
  for (size_t i = 0; q->weights && i < q->n_heads; ++i)
    if (!tn__entry_is_none(q->weights[i]))
      TN__TRY(tn__entry_check(graph, q->weights[i], "the weight of a head"));
  return TN_OK;
}

static tn_code mark_live(sweep *s) {
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

static tn_code parts_make(sweep *s) {
  const size_t bytes = ((size_t)s->n_parts + 1) * sizeof *s->parts;
  s->parts = tn__alloc(s->graph->env, bytes);
  return s->parts ? TN_OK : tn__fail_memory(bytes, "the gradient of a graph");
}

static void room_free(sweep *s) {
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

static tn_code sweep_run(sweep *s, tn_entry *out) {
  TN__TRY(alloc_lists(s));
  TN__TRY(mark_live(s));
  mark_forwards(s);
  mark_backwards(s);
  TN__TRY(parts_make(s));
  TN__TRY(pass_all(s));
  return write_answers(s, out);
}

tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out) {
  sweep s = {.graph = graph,
             .spec = spec,
             .n_nodes = tn__n_nodes(graph),
             .n_entries = graph->n_entries};
  for (size_t i = 0; i < spec->query.n_of; ++i) out[i] = TN_ENTRY_NONE;
  TN__TRY(query_check(graph, &spec->query));
  const tn_code rc = sweep_run(&s, out);
  room_free(&s);
  if (rc == TN_OK) return TN_OK;
  tn__graph_truncate(graph, s.n_nodes);
  for (size_t i = 0; i < spec->query.n_of; ++i) out[i] = TN_ENTRY_NONE;
  return rc;
}
