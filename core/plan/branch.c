/* SPDX-License-Identifier: Apache-2.0
 * branch.c: which nodes come after which.
 *
 * Most nodes have a heir: a node that waits for them and that everybody else
 * who does so waits for too. Who comes after such a node comes after its heir,
 * or is it; so heirs make trees, and of two nodes of a tree the place in it
 * says who waits for whom. The others, where the net branches, are covered with
 * chains in each of which every node comes after the one before it. Any node
 * then comes after a beginning of each chain, and one number per chain says
 * after how much.
 */
#include "planning.h"

/* Nodes beyond so many chains belong to none, and nobody is known to come after
 * them: it bounds the memory per node. The others bound the time: that of a
 * wide node only some inputs are looked at, and how many users are told apart.
 */
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
  uint32_t *heir;   /* by node; itself if nobody waits for it, else TN__NO_NODE
                       if there is none */
  uint32_t *branch; /* by node: the last of its heirs, and of theirs */
  uint32_t *rank;   /* by node: its place in its tree, heirs first; at once
                       behind it are those whose heir it is, and theirs */
  uint32_t *line;   /* by node: how many these are, and itself */
  uint32_t *chain;  /* by node */
  uint32_t *place;  /* by node: in its chain */
  uint32_t (*after)[MAX_CHAINS]; /* by node: nodes of each chain before it */
  uint32_t length[MAX_CHAINS];
  uint32_t n_chains;
};

static uint32_t n_waits(const tn__plan_node *node) {
  return node->n_in + node->n_after;
}

/* The k-th node that a node waits for, or TN__NO_NODE. */
static uint32_t wait_of(const tn__branches *b, const tn__plan_node *node,
                        uint32_t k) {
  if (k >= node->n_in) return node->after[k - node->n_in];
  return tn__is_ignored(node, k) ? TN__NO_NODE : b->writer[node->in[k]];
}

/* -------------------------------------------------------------------- heirs */

/* In CSR form: who waits for each node, in order. */
typedef struct waiters {
  size_t *first; /* by node, and one more */
  uint32_t *v;
  uint32_t *seen; /* by node: the last for which it was looked at */
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
      for (uint32_t k = 0; k < n_waits(&b->net->nodes[n]); ++k) {
        const uint32_t early = wait_of(b, &b->net->nodes[n], k);
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

/* Nodes to look at, the earliest of which comes next. */
typedef struct frontier {
  uint32_t v[MAX_WAITS];
  uint32_t n;
} frontier;

static void widen(const tn__branches *b, frontier *f, uint32_t n,
                  uint32_t late) {
  const tn__plan_node *node = &b->net->nodes[late];
  const uint32_t some = n_waits(node) < MAX_LOOKS ? n_waits(node) : MAX_LOOKS;
  for (uint32_t k = 0; k < some && f->n < MAX_WAITS; ++k) {
    const uint32_t early = wait_of(b, node, k);
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

/* Whether node `late` waits for one that was seen for node `n`, in a few
 * steps. */
static bool waits_for_seen(const tn__branches *b, const waiters *w, uint32_t n,
                           uint32_t late) {
  frontier f = {.n = 0};
  widen(b, &f, n, late);
  for (int step = 0; step < MAX_STEPS && f.n > 0; ++step) {
    const uint32_t early = take_earliest(&f);
    if (w->seen[early] == n + 1) return true;
    widen(b, &f, n, early);
  }
  return false;
}

/* Node `n` itself if nobody waits for it; the first that does, if all others
 * wait for it or for others that do. */
static uint32_t find_heir(const tn__branches *b, const waiters *w, uint32_t n) {
  const size_t from = w->first[n], to = w->first[n + 1];
  if (from == to) return n;
  const uint32_t heir = w->v[from];
  w->seen[heir] = n + 1;
  for (size_t k = from + 1; k < to; ++k) {
    const uint32_t late = w->v[k];
    if (w->seen[late] == n + 1) continue;
    if (!waits_for_seen(b, w, n, late)) return TN__NO_NODE;
    w->seen[late] = n + 1;
  }
  return heir;
}

static bool has_heir(const tn__branches *b, uint32_t n) {
  return b->heir[n] != TN__NO_NODE && b->heir[n] != n;
}

/* A heir is a later node. `next`, by node: the rank of the next one whose heir
 * it is. */
static void rank_all(tn__branches *b, uint32_t *next) {
  const uint32_t n_nodes = (uint32_t)b->net->n_nodes;
  uint32_t free = 0;
  for (uint32_t n = 0; n < n_nodes; ++n) b->line[n] = 1;
  for (uint32_t n = 0; n < n_nodes; ++n)
    if (has_heir(b, n)) b->line[b->heir[n]] += b->line[n];
  for (uint32_t n = n_nodes; n-- > 0;) {
    uint32_t *from = has_heir(b, n) ? &next[b->heir[n]] : &free;
    b->rank[n] = *from;
    next[n] = *from + 1;
    *from += b->line[n];
  }
}

static tn_code find_heirs(tn__branches *b, tn__arena *arena) {
  waiters w = {0};
  TN__TRY(list_waiters(b, arena, &w));
  for (uint32_t n = (uint32_t)b->net->n_nodes; n-- > 0;) {
    b->heir[n] = find_heir(b, &w, n);
    b->branch[n] = has_heir(b, n) ? b->branch[b->heir[n]] : n;
  }
  rank_all(b, w.seen); /* which is of no use any more */
  return TN_OK;
}

/* ------------------------------------------------------------------- chains */

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
                      .heir = six,
                      .branch = six + n_nodes,
                      .rank = six + 2 * n_nodes,
                      .line = six + 3 * n_nodes,
                      .chain = six + 4 * n_nodes,
                      .place = six + 5 * n_nodes,
                      .after = after};
  TN__TRY(find_heirs(b, arena));
  for (uint32_t n = 0; n < n_nodes; ++n) {
    for (uint32_t k = 0; k < n_waits(&net->nodes[n]); ++k) {
      const uint32_t early = wait_of(b, &net->nodes[n], k);
      if (early != TN__NO_NODE) come_after(b, n, early);
    }
    b->chain[n] = NO_CHAIN;
    if (b->heir[n] == TN__NO_NODE) extend(b, n);
  }
  return TN_OK;
}

/* Before the end of its branch only heirs come after a node. Where users are
 * too many to be named, TN__NO_NODE stands for them: nobody comes after it, and
 * of it is known after whom. */
bool tn__branches_after(const tn__branches *b, uint32_t late, uint32_t early) {
  if (early == TN__NO_NODE || late == TN__NO_NODE) return false;
  const uint32_t branch = b->branch[early], c = b->chain[branch];
  if (late >= branch && c != NO_CHAIN)
    return b->after[late][c] > b->place[branch];
  return b->rank[early] - b->rank[late] < b->line[late];
}

bool tn__branches_after_all(const tn__branches *b, uint32_t late,
                            const tn__user *users) {
  for (; users != NULL; users = users->next)
    if (!tn__branches_after(b, late, users->node)) return false;
  return true;
}

/* -------------------------------------------------------------------- users
 */

static bool is_listed(const tn__user *users, uint32_t n) {
  while (users != NULL && users->node != n) users = users->next;
  return users != NULL;
}

/* Drops users that node `n` comes after; returns how many are left. */
static uint32_t users_drop(const tn__branches *b, tn__user **at, uint32_t n) {
  uint32_t left = 0;
  while (*at != NULL)
    if (tn__branches_after(b, n, (*at)->node)) {
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
      ++left;
    }
  return left;
}

/* Names the last heir of each in its place, once if several have the same:
 * who comes after that comes after them. Where these are as many, nobody is
 * known to come after all of them, for which one user that is no node stands.
 */
static void users_shorten(const tn__branches *b, tn__user *users) {
  uint32_t left = 0;
  tn__user **at = &users;
  for (tn__user *u = users; u != NULL; u = u->next)
    if (u->node != TN__NO_NODE) u->node = b->branch[u->node];
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
  if (users_drop(b, users, n) >= MAX_USERS) users_shorten(b, *users);
  if (is_listed(*users, b->branch[n]) || is_listed(*users, TN__NO_NODE))
    return TN_OK;
  tn__user *user = tn__arena_alloc(arena, sizeof *user);
  if (user == NULL) return tn__fail_memory(sizeof *user, "a plan's branches");
  *user = (tn__user){n, *users};
  *users = user;
  return TN_OK;
}

/* ---------------------------------------------------------------------- nets
 */

/* Those that all wait for one another do so in their order. */
static bool is_row(const tn__branches *b, const bool *which) {
  uint32_t before = TN__NO_NODE;
  for (uint32_t n = 0; n < b->net->n_nodes; ++n) {
    if (!which[n]) continue;
    if (before != TN__NO_NODE && !tn__branches_after(b, n, before))
      return false;
    before = n;
  }
  return true;
}

static tn_code writers_list(const tn__plan_net *net, tn__arena *arena,
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

tn_code tn__plan_net_branches(const tn__env *env, const tn__plan_net *net,
                              const bool *which, bool *out) {
  tn__arena arena;
  tn__branches *branches = NULL;
  uint32_t *writer = NULL;
  *out = false;
  tn__arena_init(&arena, env);
  tn_code rc = writers_list(net, &arena, &writer);
  if (rc == TN_OK) rc = tn__branches_create(net, writer, &arena, &branches);
  if (rc == TN_OK) *out = !is_row(branches, which);
  tn__arena_deinit(&arena);
  return rc;
}
