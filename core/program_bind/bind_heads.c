/* SPDX-License-Identifier: Apache-2.0
 * bind_heads.c: heads that are written into arrays of the user. These may be
 * the arrays of arguments.
 */
#include <string.h>

#include "stations.h"

static tn_code fail_memory(size_t bytes) {
  return tn__fail_memory(bytes, "a program");
}

/* Tests whether the array of a head is the array of an argument, or a part of
 * it. */
static bool is_argument_array(const tn_bind *how, const tn_array *array) {
  for (size_t i = 0; array && i < how->n_arguments; ++i)
    if (how->arguments[i].array &&
        how->arguments[i].array->block == array->block)
      return true;
  return false;
}

tn_code tn__bind_list_heads(const tn_graph *flat, const tn_bind *how,
                            tn__arena *arena, tn__heads *out) {
  const uint32_t n = (uint32_t)flat->n_heads;
  *out = (tn__heads){.n = n};
  out->v = tn__arena_alloc(arena, (n + 1u) * sizeof *out->v);
  out->late = tn__arena_alloc(arena, n + 1u);
  out->lent = tn__arena_alloc(arena, n + 1u);
  if (arena->failed) return fail_memory(n * sizeof *out->v);
  memcpy(out->v, flat->heads, n * sizeof *out->v);
  for (uint32_t i = 0; i < n && i < how->n_outputs; ++i) {
    out->lent[i] = how->outputs[i] != NULL;
    out->late[i] = is_argument_array(how, how->outputs[i]);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------- copies */

/* The state of copying heads. */
typedef struct copying {
  tn_graph *graph;
  const tn__arguments *arguments;
  const tn__user_options *options;
  tn__heads *heads;
} copying;

/* The user's array of a head, or NULL. */
static const tn_array *get_head_array(const copying *c, uint32_t head) {
  return c->heads->lent[head] ? c->options->how->outputs[head] : NULL;
}

/* The user's array of an argument, or NULL. */
static const tn_array *get_argument_array(const copying *c, uint32_t i) {
  const tn_argument *given = c->options->arguments[i];
  return given ? given->array : NULL;
}

static bool is_reader_of(const tn__node *reader, uint32_t node) {
  for (uint32_t i = 0; i < reader->n_in + reader->n_aux; ++i)
    if (!tn__entry_is_none(reader->in[i]) && reader->in[i].node == node)
      return true;
  return false;
}

/* Tests whether a node reads an argument with the memory of `array`. */
static bool reads_array_memory(const copying *c, const tn__node *node,
                               const tn_array *array) {
  for (uint32_t i = 0; i < c->arguments->n + c->arguments->n_states; ++i) {
    const tn_array *argument = get_argument_array(c, i);
    if (argument && argument->block == array->block &&
        is_reader_of(node, c->arguments->v[i].node))
      return true;
  }
  return false;
}

/* Tests whether a late head can be computed in the array of its argument. Its
 * step must be able to run after all others: nothing reads the head, and the
 * other heads of its node are late too. Late heads must not read arguments that
 * other late heads overwrite. The step must be a call of a kernel, which checks
 * that outputs do not overwrite inputs; sums, copies and loops write while they
 * read. */
static bool can_be_late(const copying *c, uint32_t head) {
  const tn__heads *heads = c->heads;
  const uint32_t node = heads->v[head].node;
  const uint32_t kind = tn__node_at(c->graph, node)->kind;
  if (kind != TN__NODE_CALL && kind != TN__NODE_BACKWARD) return false;
  for (uint32_t i = 0; i < heads->n; ++i) {
    const uint32_t other = heads->v[i].node;
    if (other == node && !heads->late[i]) return false;
    if (other != node && heads->late[i] &&
        (reads_array_memory(c, tn__node_at(c->graph, other),
                            get_head_array(c, head)) ||
         reads_array_memory(c, tn__node_at(c->graph, node),
                            get_head_array(c, i))))
      return false;
  }
  for (uint32_t i = 0; i < c->graph->nodes.n; ++i)
    if (is_reader_of(tn__node_at(c->graph, i), node)) return false;
  return true;
}

static tn_code copy_head(const copying *c, uint32_t i) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_COPY,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "copy@",
                              .in = &c->heads->v[i]};
  TN__TRY(tn__node_add(c->graph, &spec, &node));
  c->heads->v[i] = (tn_entry){node->id, 0};
  return TN_OK;
}

/* Tests whether a head is an argument, and the user's array of some head
 * overwrites the array of that argument. */
static bool is_overwritten_by_head(const copying *c, uint32_t head) {
  const tn_entry entry = c->heads->v[head];
  if (tn__node_at(c->graph, entry.node)->kind != TN__NODE_VARIABLE)
    return false;
  for (uint32_t i = 0; i < c->arguments->n + c->arguments->n_states; ++i) {
    const tn_array *argument = get_argument_array(c, i);
    if (!argument || !tn__entry_is_same(c->arguments->v[i], entry)) continue;
    for (uint32_t k = 0; k < c->heads->n; ++k) {
      const tn_array *array = get_head_array(c, k);
      if (array && array->block == argument->block) return true;
    }
  }
  return false;
}

/* Adds a copy to each head that cannot be computed in the user's array: the
 * head is an argument, it is a second head of the same entry, or it would
 * overwrite an argument too early. If the head is an argument that another head
 * overwrites, two copies follow each other: the first one is made before the
 * argument changes. */
tn_code tn__bind_copy_heads(const tn__arguments *arguments,
                            const tn__user_options *options, tn_graph *graph,
                            tn__heads *heads) {
  const copying c = {graph, arguments, options, heads};
  for (uint32_t i = 0; i < heads->n; ++i)
    if (!heads->lent[i] && is_overwritten_by_head(&c, i))
      TN__TRY(copy_head(&c, i));
  for (uint32_t i = 0; i < heads->n; ++i) {
    if (!heads->lent[i]) continue;
    const bool variable =
        tn__node_at(graph, heads->v[i].node)->kind == TN__NODE_VARIABLE;
    bool own = !variable && (!heads->late[i] || can_be_late(&c, i));
    for (uint32_t k = 0; own && k < i; ++k)
      own = !tn__entry_is_same(heads->v[i], heads->v[k]);
    if (own) continue;
    TN__TRY(copy_head(&c, i));
    if (heads->late[i] && variable) TN__TRY(copy_head(&c, i));
  }
  return TN_OK;
}
