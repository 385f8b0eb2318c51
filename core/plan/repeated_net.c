/* SPDX-License-Identifier: Apache-2.0
 * repeated_net.c: writes a net with repeated nodes. It copies the nodes in
 * order and inserts each repeat before the backward node that needs it. From
 * there on, readers of the original entry read the repeated one.
 */
#include <string.h>

#include "recompute.h"

static const uint32_t NONE = UINT32_MAX;

/* now: by entry of the original net, its replacement at this point. */
typedef struct writer {
  const tn__recompute_net *from;
  tn__arena *arena;
  tn__plan_node *nodes;
  tn__plan_entry *entries;
  tn__repeated_net *out;
  uint32_t *now;
  uint32_t *position; /* by node of the original */
} writer;

static tn_code allocate_nodes(writer *w, size_t n_repeats) {
  const tn__plan_net *net = w->from->net;
  const size_t n_nodes = net->n_nodes + n_repeats;
  tn__arena *a = w->arena;
  w->nodes = tn__arena_alloc(a, n_nodes * sizeof *w->nodes);
  w->now = tn__arena_alloc(a, net->n_entries * sizeof *w->now);
  w->position = tn__arena_alloc(a, net->n_nodes * sizeof *w->position);
  w->out->node_of = tn__arena_alloc(a, n_nodes * sizeof *w->out->node_of);
  return a->failed ? tn__fail_memory(n_nodes * sizeof *w->nodes,
                                     "a net with repeated nodes")
                   : TN_OK;
}

static tn_code copy_entries(writer *w, const tn__repeat *repeats, size_t n) {
  const tn__plan_net *net = w->from->net;
  size_t most = net->n_entries;
  for (size_t k = 0; k < n; ++k) most += net->nodes[repeats[k].node].n_out;
  w->entries = tn__arena_alloc(w->arena, most * sizeof *w->entries);
  w->out->entry_of = tn__arena_alloc(w->arena, most * sizeof(uint32_t));
  if (w->arena->failed)
    return tn__fail_memory(most * sizeof *w->entries,
                           "a net with repeated nodes");
  for (uint32_t e = 0; e < net->n_entries; ++e) {
    w->entries[e] = net->entries[e];
    w->now[e] = w->out->entry_of[e] = e;
  }
  w->out->net.n_entries = net->n_entries;
  return TN_OK;
}

/* Returns the current inputs of a node. */
static const uint32_t *read_now(writer *w, const tn__plan_node *node) {
  uint32_t *in = tn__arena_alloc(w->arena, node->n_in * sizeof *in);
  for (uint32_t i = 0; in != NULL && i < node->n_in; ++i)
    in[i] = w->now[node->in[i]];
  return in;
}

/* Returns the nodes that a node waits for, and node `more` unless it is
 * NONE. */
static const uint32_t *wait_now(writer *w, tn__plan_node *node, uint32_t more) {
  uint32_t *after =
      tn__arena_alloc(w->arena, ((size_t)node->n_after + 1) * sizeof *after);
  for (uint32_t i = 0; after != NULL && i < node->n_after; ++i)
    after[i] = w->position[node->after[i]];
  if (after != NULL && more != NONE) after[node->n_after++] = more;
  return after;
}

static void write_node(writer *w, uint32_t n) {
  const uint32_t at = (uint32_t)w->out->net.n_nodes++;
  tn__plan_node *node = &w->nodes[at];
  *node = w->from->net->nodes[n];
  w->position[n] = at;
  w->out->node_of[at] = n;
  if (n < w->from->n_forward) return;
  node->in = read_now(w, node);
  node->after = wait_now(w, node, NONE);
}

/* Writes a repeat with new outputs. It waits for the backward node before the
 * one that needs it, so that it does not run too early. */
static void write_repeat(writer *w, const tn__repeat *repeat) {
  const uint32_t at = (uint32_t)w->out->net.n_nodes++;
  const uint32_t first = (uint32_t)w->out->net.n_entries;
  const bool waits = repeat->before > w->from->n_forward;
  tn__plan_node *node = &w->nodes[at];
  *node = w->from->net->nodes[repeat->node];
  w->out->node_of[at] = repeat->node;
  node->in = read_now(w, node);
  node->after =
      wait_now(w, node, waits ? w->position[repeat->before - 1] : NONE);
  for (uint32_t o = 0; o < node->n_out; ++o) {
    const uint32_t e = node->first_out + o;
    w->entries[first + o] = w->from->net->entries[e];
    w->entries[first + o].flags &= ~(uint32_t)TN__ENTRY_HEAD;
    w->out->entry_of[first + o] = e;
    w->now[e] = first + o;
  }
  node->first_out = first;
  w->out->net.n_entries += node->n_out;
}

tn_code tn__repeated_net_make(tn__repeated_net *out, tn__arena *arena,
                              const tn__recompute_net *net,
                              const tn__repeat *repeats, size_t n_repeats) {
  writer w = {.from = net, .arena = arena, .out = out};
  size_t k = 0;
  *out = (tn__repeated_net){0};
  TN__TRY(allocate_nodes(&w, n_repeats));
  TN__TRY(copy_entries(&w, repeats, n_repeats));
  for (uint32_t n = 0; n < net->net->n_nodes; ++n) {
    for (; k < n_repeats && repeats[k].before == n; ++k)
      write_repeat(&w, &repeats[k]);
    write_node(&w, n);
  }
  out->net.nodes = w.nodes;
  out->net.entries = w.entries;
  return arena->failed ? tn__fail_memory(0, "a net with repeated nodes")
                       : TN_OK;
}
