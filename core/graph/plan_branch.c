/* SPDX-License-Identifier: Apache-2.0
 * plan_branch.c: which nodes come after which.
 *
 * The nodes are covered with chains in each of which every node comes after the
 * one before it. A node then comes after a beginning of each chain, and one
 * number per chain says after how much of it.
 */
#include "planning.h"

/* Nodes beyond so many chains belong to none. It bounds the memory per node.
 * Such a node is known by the first that waits for it: who comes after that
 * one comes after both. */
enum { MAX_CHAINS = 64, MAX_HOPS = 8 };
static const uint32_t NO_CHAIN = UINT32_MAX;

struct tn__branches {
  const tn__plan_net *net;
  const uint32_t *writer;
  uint32_t *chain;               /* by node */
  uint32_t *place;               /* by node: in its chain */
  uint32_t (*after)[MAX_CHAINS]; /* by node: nodes of each chain before it */
  uint32_t length[MAX_CHAINS];
  uint32_t n_chains;
};

static void come_after(tn__branches *b, uint32_t n, uint32_t early) {
  for (uint32_t c = 0; c < b->n_chains; ++c)
    if (b->after[n][c] < b->after[early][c])
      b->after[n][c] = b->after[early][c];
}

/* Puts node `n` at the end of a chain that it comes after as a whole, or into
 * one of its own. */
static void extend(tn__branches *b, uint32_t n) {
  uint32_t c = 0;
  while (c < b->n_chains && b->after[n][c] != b->length[c]) ++c;
  b->chain[n] = NO_CHAIN;
  b->place[n] = TN__NO_NODE;
  if (c == MAX_CHAINS) return;
  if (c == b->n_chains) ++b->n_chains;
  b->chain[n] = c;
  b->place[n] = b->length[c]++;
  b->after[n][c] = b->length[c];
}

/* Node `n` waits for node `early`. */
static void depend(tn__branches *b, uint32_t n, uint32_t early) {
  come_after(b, n, early);
  if (b->chain[early] == NO_CHAIN && b->place[early] == TN__NO_NODE)
    b->place[early] = n;
}

tn_code tn__branches_create(const tn__plan_net *net, const uint32_t *writer,
                            tn__arena *arena, tn__branches **out) {
  const size_t n_nodes = net->n_nodes;
  tn__branches *b = *out = tn__arena_alloc(arena, sizeof *b);
  uint32_t *chain = tn__arena_alloc(arena, n_nodes * sizeof *chain);
  uint32_t *place = tn__arena_alloc(arena, n_nodes * sizeof *place);
  void *after = tn__arena_alloc(arena, n_nodes * sizeof *b->after);
  if (arena->failed)
    return tn__fail_memory(n_nodes * sizeof *b->after, "a plan's branches");
  *b = (tn__branches){net, writer, chain, place, after, {0}, 0};
  for (uint32_t n = 0; n < n_nodes; ++n) {
    const tn__plan_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_in; ++i)
      if (!tn__is_ignored(node, i) && writer[node->in[i]] != TN__NO_NODE)
        depend(b, n, writer[node->in[i]]);
    for (uint32_t i = 0; i < node->n_after; ++i) depend(b, n, node->after[i]);
    extend(b, n);
  }
  return TN_OK;
}

bool tn__branches_after(const tn__branches *b, uint32_t late, uint32_t early) {
  for (int hop = 0; early < late && hop < MAX_HOPS; ++hop) {
    if (b->chain[early] != NO_CHAIN)
      return b->after[late][b->chain[early]] > b->place[early];
    early = b->place[early];
  }
  return late == early;
}

bool tn__branches_after_all(const tn__branches *b, uint32_t late,
                            const tn__user *users) {
  for (; users != NULL; users = users->next)
    if (!tn__branches_after(b, late, users->node)) return false;
  return true;
}

tn_code tn__users_add(const tn__branches *b, tn__arena *arena, tn__user **users,
                      uint32_t n) {
  tn__user **at = users;
  while (*at != NULL)
    if (tn__branches_after(b, n, (*at)->node))
      *at = (*at)->next;
    else
      at = &(*at)->next;
  *at = tn__arena_alloc(arena, sizeof **at);
  if (*at == NULL) return tn__fail_memory(sizeof **at, "a plan's branches");
  (*at)->node = n;
  return TN_OK;
}
