/* SPDX-License-Identifier: Apache-2.0
 * branch.c: decides which nodes come after which by dependencies alone.
 *
 * Node s is the *sole successor* of node n if s waits for n and every other
 * node that waits for n also waits for s. A node that comes after n then is s
 * or comes after s. Most nodes have a sole successor. So these nodes form
 * trees, with the last successor as the root. For two nodes of one tree, their
 * places in the tree decide.
 *
 * Nodes with several successors are covered with chains. In a chain every node
 * comes after the one before it. So each node comes after a first part of each
 * chain, and one number per chain is the length of that part.
 */
#include "planning.h"

/* Limits of memory and time. Roots beyond MAX_CHAINS chains belong to no chain,
 * and no node is known to come after them: this bounds the memory per node. The
 * others bound the time. They limit the inputs of a wide node that are examined
 * and the number of separate users. */
enum {
  MAX_CHAINS = 64,
  MAX_WAITS = 64,
  MAX_LOOKS = 256,
  MAX_STEPS = 24,
  MAX_USERS = 32
};
static const uint32_t NO_CHAIN = UINT32_MAX;

struct tn__branches {
  const tn__plan_net *net;
  const uint32_t *writer;
  uint32_t *successor; /* by node: its sole successor; itself if no node waits
                        * for it, TN__NO_NODE if there is no sole one */
  uint32_t *root;      /* by node: the root of its tree */
  uint32_t *rank;      /* by node: its place in its tree, successors first;
                        * directly followed by the places of its subtree */
  uint32_t *subtree;   /* by node: number of nodes in its subtree, itself
                        * included */
  uint32_t *chain;     /* by node */
  uint32_t *place;     /* by node: in its chain */
  uint32_t (*after)[MAX_CHAINS]; /* by node: number of nodes of each chain
                                  * before it */
  uint32_t length[MAX_CHAINS];
  uint32_t n_chains;
};

static uint32_t count_waits(const tn__plan_node *node) {
  return node->n_in + node->n_after;
}

/* The k-th node that a node waits for, or TN__NO_NODE. */
static uint32_t get_wait(const tn__branches *b, const tn__plan_node *node,
                         uint32_t k) {
  if (k >= node->n_in) return node->after[k - node->n_in];
  return tn__is_ignored(node, k) ? TN__NO_NODE : b->writer[node->in[k]];
}

/* --------------------------------------------------------------- successors */

/* The waiting nodes of each node, in order, in compressed form (CSR). */
typedef struct waiters {
  size_t *first; /* by node, and one more */
  uint32_t *v;
  uint32_t *seen; /* by node: the last node for which it was examined, plus 1 */
} waiters;

static tn_code list_waiters(const tn__branches *b, tn__arena *arena,
                            waiters *w) {
  const size_t n_nodes = b->net->n_nodes;
  size_t count = 0;
  w->first = tn__arena_alloc(arena, (n_nodes + 2) * sizeof *w->first);
  w->seen = tn__arena_alloc(arena, n_nodes * sizeof *w->seen);
  if (arena->failed) return tn__fail_memory(0, "a plan's branches");
  for (int pass = 0; pass < 2; ++pass) {
    for (uint32_t n = 0; n < n_nodes; ++n)
      for (uint32_t k = 0; k < count_waits(&b->net->nodes[n]); ++k) {
        const uint32_t early = get_wait(b, &b->net->nodes[n], k);
        if (early == TN__NO_NODE) continue;
        if (pass == 0)
          ++w->first[early + 2];
        else
          w->v[w->first[early + 1]++] = n;
      }
    for (size_t n = 0; pass == 0 && n <= n_nodes; ++n)
      w->first[n + 1] = count += w->first[n + 1];
    if (pass == 0) w->v = tn__arena_alloc(arena, count * sizeof *w->v);
    if (arena->failed) return tn__fail_memory(0, "a plan's branches");
  }
  return TN_OK;
}

/* Nodes to examine, the earliest first. */
typedef struct frontier {
  uint32_t v[MAX_WAITS];
  uint32_t n;
} frontier;

static void widen_frontier(const tn__branches *b, frontier *f, uint32_t n,
                           uint32_t late) {
  const tn__plan_node *node = &b->net->nodes[late];
  const uint32_t some =
      count_waits(node) < MAX_LOOKS ? count_waits(node) : MAX_LOOKS;
  for (uint32_t k = 0; k < some && f->n < MAX_WAITS; ++k) {
    const uint32_t early = get_wait(b, node, k);
    if (early != TN__NO_NODE && early > n) f->v[f->n++] = early;
  }
}

static uint32_t take_earliest(frontier *f) {
  uint32_t at = 0;
  for (uint32_t k = 1; k < f->n; ++k)
    if (f->v[k] < f->v[at]) at = k;
  const uint32_t earliest = f->v[at];
  f->v[at] = f->v[--f->n];
  return earliest;
}

/* Returns whether node `late` waits for a node that was seen for node `n`.
 * Gives up after a few steps. */
static bool waits_for_seen(const tn__branches *b, const waiters *w, uint32_t n,
                           uint32_t late) {
  frontier f = {.n = 0};
  widen_frontier(b, &f, n, late);
  for (int step = 0; step < MAX_STEPS && f.n > 0; ++step) {
    const uint32_t early = take_earliest(&f);
    if (w->seen[early] == n + 1) return true;
    widen_frontier(b, &f, n, early);
  }
  return false;
}

/* Returns node `n` itself if no node waits for it. Returns its first waiting
 * node if all others wait for that one or for others that do. */
static uint32_t find_successor(const tn__branches *b, const waiters *w,
                               uint32_t n) {
  const size_t from = w->first[n], to = w->first[n + 1];
  if (from == to) return n;
  const uint32_t successor = w->v[from];
  w->seen[successor] = n + 1;
  for (size_t k = from + 1; k < to; ++k) {
    const uint32_t late = w->v[k];
    if (w->seen[late] == n + 1) continue;
    if (!waits_for_seen(b, w, n, late)) return TN__NO_NODE;
    w->seen[late] = n + 1;
  }
  return successor;
}

static bool has_successor(const tn__branches *b, uint32_t n) {
  return b->successor[n] != TN__NO_NODE && b->successor[n] != n;
}

/* Numbers the nodes of all trees. A successor is a later node. `next`, by node:
 * the rank for the next node of its subtree. */
static void rank_nodes(tn__branches *b, uint32_t *next) {
  const uint32_t n_nodes = (uint32_t)b->net->n_nodes;
  uint32_t free = 0;
  for (uint32_t n = 0; n < n_nodes; ++n) b->subtree[n] = 1;
  for (uint32_t n = 0; n < n_nodes; ++n)
    if (has_successor(b, n)) b->subtree[b->successor[n]] += b->subtree[n];
  for (uint32_t n = n_nodes; n-- > 0;) {
    uint32_t *from = has_successor(b, n) ? &next[b->successor[n]] : &free;
    b->rank[n] = *from;
    next[n] = *from + 1;
    *from += b->subtree[n];
  }
}

static tn_code find_successors(tn__branches *b, tn__arena *arena) {
  waiters w = {0};
  TN__TRY(list_waiters(b, arena, &w));
  for (uint32_t n = (uint32_t)b->net->n_nodes; n-- > 0;) {
    b->successor[n] = find_successor(b, &w, n);
    b->root[n] = has_successor(b, n) ? b->root[b->successor[n]] : n;
  }
  rank_nodes(b, w.seen); /* no longer needed for the search */
  return TN_OK;
}

/* ------------------------------------------------------------------- chains */

static void merge_after(tn__branches *b, uint32_t n, uint32_t early) {
  for (uint32_t c = 0; c < b->n_chains; ++c)
    if (b->after[n][c] < b->after[early][c])
      b->after[n][c] = b->after[early][c];
}

/* Appends node `n` to a chain of which it comes after all nodes, or to a new
 * chain. */
static void extend_chain(tn__branches *b, uint32_t n) {
  uint32_t c = 0;
  while (c < b->n_chains && b->after[n][c] != b->length[c]) ++c;
  if (c == MAX_CHAINS) return;
  if (c == b->n_chains) ++b->n_chains;
  b->chain[n] = c;
  b->place[n] = b->length[c]++;
  b->after[n][c] = b->length[c];
}

tn_code tn__branches_create(const tn__plan_net *net, const uint32_t *writer,
                            tn__arena *arena, tn__branches **out) {
  const size_t n_nodes = net->n_nodes;
  tn__branches *b = *out = tn__arena_alloc(arena, sizeof *b);
  uint32_t *six = tn__arena_alloc(arena, 6 * n_nodes * sizeof *six);
  void *after = tn__arena_alloc(arena, n_nodes * sizeof *b->after);
  if (arena->failed)
    return tn__fail_memory(n_nodes * sizeof *b->after, "a plan's branches");
  *b = (tn__branches){.net = net,
                      .writer = writer,
                      .successor = six,
                      .root = six + n_nodes,
                      .rank = six + 2 * n_nodes,
                      .subtree = six + 3 * n_nodes,
                      .chain = six + 4 * n_nodes,
                      .place = six + 5 * n_nodes,
                      .after = after};
  TN__TRY(find_successors(b, arena));
  for (uint32_t n = 0; n < n_nodes; ++n) {
    for (uint32_t k = 0; k < count_waits(&net->nodes[n]); ++k) {
      const uint32_t early = get_wait(b, &net->nodes[n], k);
      if (early != TN__NO_NODE) merge_after(b, n, early);
    }
    b->chain[n] = NO_CHAIN;
    if (b->successor[n] == TN__NO_NODE) extend_chain(b, n);
  }
  return TN_OK;
}

/* Up to the root of its tree, only successors come after a node. TN__NO_NODE
 * replaces users that are too many to list. No node comes after it, and it
 * comes after no known node. */
bool tn__branches_is_after(const tn__branches *b, uint32_t late,
                           uint32_t early) {
  if (early == TN__NO_NODE || late == TN__NO_NODE) return false;
  const uint32_t root = b->root[early], c = b->chain[root];
  if (late >= root && c != NO_CHAIN) return b->after[late][c] > b->place[root];
  return b->rank[early] - b->rank[late] < b->subtree[late];
}

bool tn__branches_is_after_all(const tn__branches *b, uint32_t late,
                               const tn__user *users) {
  for (; users != NULL; users = users->next)
    if (!tn__branches_is_after(b, late, users->node)) return false;
  return true;
}

/* -------------------------------------------------------------------- users */

static bool is_listed(const tn__user *users, uint32_t n) {
  while (users != NULL && users->node != n) users = users->next;
  return users != NULL;
}

/* Drops users that node `n` comes after. Returns the number of the others. */
static uint32_t drop_users(const tn__branches *b, tn__user **at, uint32_t n) {
  uint32_t left = 0;
  while (*at != NULL)
    if (tn__branches_is_after(b, n, (*at)->node)) {
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
      ++left;
    }
  return left;
}

/* Replaces each user by the root of its tree, and drops repetitions: a node
 * that comes after the root comes after the user. If too many remain, no node
 * is known to come after all of them. Then TN__NO_NODE replaces them. */
static void shorten_users(const tn__branches *b, tn__user *users) {
  uint32_t left = 0;
  tn__user **at = &users;
  for (tn__user *u = users; u != NULL; u = u->next)
    if (u->node != TN__NO_NODE) u->node = b->root[u->node];
  while (*at != NULL) {
    const tn__user *before = users;
    while (before != *at && before->node != (*at)->node) before = before->next;
    if (before != *at) {
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
      ++left;
    }
  }
  if (left < MAX_USERS) return;
  users->node = TN__NO_NODE;
  users->next = NULL;
}

tn_code tn__users_add(const tn__branches *b, tn__arena *arena, tn__user **users,
                      uint32_t n) {
  if (drop_users(b, users, n) >= MAX_USERS) shorten_users(b, *users);
  if (is_listed(*users, b->root[n]) || is_listed(*users, TN__NO_NODE))
    return TN_OK;
  tn__user *user = tn__arena_alloc(arena, sizeof *user);
  if (user == NULL) return tn__fail_memory(sizeof *user, "a plan's branches");
  *user = (tn__user){n, *users};
  *users = user;
  return TN_OK;
}

/* --------------------------------------------------------------------- nets */

/* Nodes that all wait for one another are in that order in the net. */
static bool is_in_row(const tn__branches *b, const bool *which) {
  uint32_t before = TN__NO_NODE;
  for (uint32_t n = 0; n < b->net->n_nodes; ++n) {
    if (!which[n]) continue;
    if (before != TN__NO_NODE && !tn__branches_is_after(b, n, before))
      return false;
    before = n;
  }
  return true;
}

static tn_code list_writers(const tn__plan_net *net, tn__arena *arena,
                            uint32_t **out) {
  uint32_t *writer = tn__arena_alloc(arena, net->n_entries * sizeof *writer);
  *out = writer;
  if (writer == NULL)
    return tn__fail_memory(net->n_entries * sizeof *writer,
                           "a plan's branches");
  for (size_t e = 0; e < net->n_entries; ++e) writer[e] = TN__NO_NODE;
  for (uint32_t n = 0; n < net->n_nodes; ++n)
    for (uint32_t o = 0; o < net->nodes[n].n_out; ++o)
      writer[net->nodes[n].first_out + o] = n;
  return TN_OK;
}

tn_code tn__plan_net_has_branches(const tn__env *env, const tn__plan_net *net,
                                  const bool *which, bool *out) {
  tn__arena arena;
  tn__branches *branches = NULL;
  uint32_t *writer = NULL;
  *out = false;
  tn__arena_init(&arena, env);
  tn_code rc = list_writers(net, &arena, &writer);
  if (rc == TN_OK) rc = tn__branches_create(net, writer, &arena, &branches);
  if (rc == TN_OK) *out = !is_in_row(branches, which);
  tn__arena_deinit(&arena);
  return rc;
}
