/* SPDX-License-Identifier: Apache-2.0
 * colour.c: colours nodes for the old planner. The nodes of one long path run
 * one after the other in any case. If blocks are reused only among them, no
 * node waits for memory.
 */
#include "compat.h"

/* worth: by node, 1 until it has a colour. best: by node, the worth of the best
 * path that begins at it. next: by node, the second node of that path. */
typedef struct paths {
  const tn__plan_net *net;
  const uint32_t *writer;
  uint32_t *worth;
  uint32_t *best;
  uint32_t *next;
} paths;

/* Returns the first node of the path with the greatest worth, TN__NO_NODE if
 * that is 0. A path may contain nodes that have a colour already. */
static uint32_t find_best_path(paths *p) {
  const uint32_t n_nodes = (uint32_t)p->net->n_nodes;
  uint32_t most = 0, start = TN__NO_NODE;
  for (uint32_t n = 0; n < n_nodes; ++n) {
    p->best[n] = 0;
    p->next[n] = TN__NO_NODE;
  }
  for (uint32_t n = n_nodes; n-- > 0;) {
    const tn__plan_node *node = &p->net->nodes[n];
    p->best[n] += p->worth[n];
    if (p->best[n] > most) {
      most = p->best[n];
      start = n;
    }
    for (uint32_t i = 0; i < node->n_in; ++i) {
      const uint32_t before = p->writer[node->in[i]];
      if (before == TN__NO_NODE || p->best[n] <= p->best[before]) continue;
      p->best[before] = p->best[n];
      p->next[before] = n;
    }
  }
  return start;
}

static void colour_nodes(paths *p, uint32_t n_colours, uint32_t *colour) {
  uint32_t c = 0;
  for (size_t n = 0; n < p->net->n_nodes; ++n) {
    colour[n] = n_colours;
    p->worth[n] = 1;
  }
  for (; c + 1 < n_colours; ++c) {
    uint32_t n = find_best_path(p);
    if (n == TN__NO_NODE) break;
    for (; n != TN__NO_NODE; n = p->next[n]) {
      if (p->worth[n] != 0) colour[n] = c;
      p->worth[n] = 0;
    }
  }
  for (size_t n = 0; n < p->net->n_nodes; ++n)
    if (colour[n] == n_colours) colour[n] = c;
}

tn_code compat_colour_nodes(const tn__plan_net *net, tn__arena *arena,
                            uint32_t n, uint32_t **out) {
  const size_t nodes = net->n_nodes;
  uint32_t *writer = tn__arena_alloc(arena, net->n_entries * sizeof *writer);
  uint32_t *four = tn__arena_alloc(arena, 4 * nodes * sizeof *four);
  *out = NULL;
  if (arena->failed)
    return tn__fail_memory(4 * nodes * sizeof *four, "the colours of a plan");
  for (size_t e = 0; e < net->n_entries; ++e) writer[e] = TN__NO_NODE;
  for (uint32_t m = 0; m < nodes; ++m)
    for (uint32_t o = 0; o < net->nodes[m].n_out; ++o)
      writer[net->nodes[m].first_out + o] = m;
  paths p = {net, writer, four, four + nodes, four + 2 * nodes};
  colour_nodes(&p, n, four + 3 * nodes);
  *out = four + 3 * nodes;
  return TN_OK;
}
