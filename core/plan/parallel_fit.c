/* SPDX-License-Identifier: Apache-2.0
 * parallel_fit.c: finds offsets that keep branches parallel. In order of
 * execution, each lifetime gets the lowest chunk of which all earlier users
 * come before its writer by their dependencies. Reuse of memory then makes no
 * node wait for another branch.
 */
#include "planning.h"

/* Bounds of the time. With more than MANY chunks, released neighbours are
 * merged, even if some node could then use neither of them. With more than ALL
 * chunks, or after WORK examined chunks, each search examines only LOOK chunks
 * and continues where the one before ended. */
enum { MANY = 1024, ALL = 8192, LOOK = 256, WORK = 200000000 };
static const uint32_t NONE = UINT32_MAX;

/* A range of addresses, and its last users; `in_use` while a lifetime has
 * it. */
typedef struct chunk {
  size_t begin;
  size_t end;
  const tn__user *users; /* of the last lifetime in it */
  uint32_t left;         /* its neighbours, NONE at the ends */
  uint32_t right;
  bool in_use;
} chunk;

/* The list of chunks has no gaps and ends at the height. */
typedef struct chunks {
  tn__parallel_fit *fit;
  chunk *v;
  uint32_t n;     /* number ever created */
  uint32_t spare; /* unused elements, linked by `right` */
  uint32_t n_listed;
  uint32_t head;
  uint32_t tail;
  uint32_t next; /* the chunk at which a restricted search begins */
  uint32_t work; /* chunks to examine before searches are restricted */
  uint32_t *of;  /* by lifetime: its chunk */
} chunks;

static void link_chunks(chunks *r, uint32_t left, uint32_t right) {
  *(left == NONE ? &r->head : &r->v[left].right) = right;
  *(right == NONE ? &r->tail : &r->v[right].left) = left;
}

static void remove_chunk(chunks *r, uint32_t k) {
  link_chunks(r, r->v[k].left, r->v[k].right);
  r->v[k].right = r->spare;
  r->spare = k;
  --r->n_listed;
}

/* Inserts a chunk in use before `right`. */
static uint32_t insert_chunk(chunks *r, uint32_t right, size_t begin,
                             size_t end) {
  const uint32_t left = right == NONE ? r->tail : r->v[right].left;
  uint32_t k = r->spare;
  if (k != NONE)
    r->spare = r->v[k].right;
  else
    k = r->n++;
  r->v[k] = (chunk){.begin = begin, .end = end, .in_use = true};
  link_chunks(r, left, k);
  link_chunks(r, k, right);
  ++r->n_listed;
  return k;
}

static bool is_reusable(const chunks *r, uint32_t k, uint32_t n) {
  return !r->v[k].in_use &&
         tn__branches_is_after_all(r->fit->table->branches, n, r->v[k].users);
}

/* Uses `bytes` from the beginning of chunk `from`: of it, the chunks after it,
 * and new memory at the end. The rest of the last chunk stays free. */
static uint32_t occupy_chunks(chunks *r, uint32_t from, size_t bytes) {
  const size_t begin = from == NONE ? r->fit->height : r->v[from].begin;
  const size_t end = begin + bytes;
  while (from != NONE && r->v[from].end <= end) {
    const uint32_t right = r->v[from].right;
    remove_chunk(r, from);
    from = right;
  }
  if (from != NONE) r->v[from].begin = end;
  if (end > r->fit->height) r->fit->height = end;
  r->next = from;
  return insert_chunk(r, from, begin, end);
}

static uint32_t allocate_chunk(chunks *r, uint32_t n, size_t bytes) {
  const bool all = r->n_listed <= ALL && r->work > r->n_listed;
  uint32_t k = all || r->next == NONE ? r->head : r->next, from = k;
  for (uint32_t looked = 0; k != NONE; k = r->v[k].right, ++looked) {
    if (all) --r->work;
    if (looked == LOOK && !all) {
      const uint32_t made = occupy_chunks(r, NONE, bytes);
      r->next = k;
      return made;
    }
    if (!is_reusable(r, k, n))
      from = r->v[k].right;
    else if (r->v[k].end - r->v[from].begin >= bytes)
      return occupy_chunks(r, from, bytes);
  }
  return occupy_chunks(r, from, bytes);
}

/* Returns whether each user in `old` comes before some user in `users`. */
static bool covers_users(const chunks *r, const tn__user *users,
                         const tn__user *old) {
  const tn__branches *branches = r->fit->table->branches;
  for (; old != NULL; old = old->next) {
    const tn__user *u = users;
    while (u != NULL && !tn__branches_is_after(branches, u->node, old->node))
      u = u->next;
    if (u == NULL) return false;
  }
  return true;
}

/* Merges the neighbour `other` into chunk k if the users of k cover its
 * users. */
static void merge_chunk(chunks *r, uint32_t k, uint32_t other) {
  if (other == NONE || r->v[other].in_use ||
      !covers_users(r, r->v[k].users, r->v[other].users))
    return;
  if (r->v[other].begin < r->v[k].begin) r->v[k].begin = r->v[other].begin;
  if (r->v[other].end > r->v[k].end) r->v[k].end = r->v[other].end;
  if (r->next == other) r->next = k;
  remove_chunk(r, other);
}

static void release_chunk(chunks *r, uint32_t k, const tn__user *users) {
  r->v[k].in_use = false;
  r->v[k].users = users;
  if (r->n_listed <= MANY) return;
  merge_chunk(r, k, r->v[k].left);
  merge_chunk(r, k, r->v[k].right);
}

/* A workspace is in use while its node runs, and the node is its only user. */
static tn_code place_workspace(chunks *r, uint32_t n) {
  tn__parallel_fit *fit = r->fit;
  const tn__plan_node *node = &fit->table->net->nodes[n];
  if (node->workspace == 0 || node->device != fit->device) return TN_OK;
  tn__user *user = tn__arena_alloc(fit->arena, sizeof *user);
  if (user == NULL) return tn__fail_memory(sizeof *user, "a plan's offsets");
  user->node = n;
  const uint32_t k =
      allocate_chunk(r, n, tn__round_up(node->workspace, fit->align));
  fit->workspaces[n] = r->v[k].begin;
  release_chunk(r, k, user);
  return TN_OK;
}

static void follow_event(chunks *r, const tn__plan_event *event) {
  const tn__parallel_fit *fit = r->fit;
  const uint32_t number = event->lifetime;
  const tn__lifetime *t = &fit->table->lifetimes[number];
  const size_t bytes = tn__round_up(t->bytes, fit->align);
  if (t->device != fit->device || bytes == 0) return;
  if (event->ends) {
    release_chunk(r, r->of[number], fit->table->users[number]);
    return;
  }
  r->of[number] = allocate_chunk(r, event->node, bytes);
  fit->offsets[number] = r->v[r->of[number]].begin;
}

tn_code tn__fit_parallel(tn__parallel_fit *fit) {
  const tn__lifetime_table *table = fit->table;
  const size_t most =
      2 * ((size_t)table->n_lifetimes + table->net->n_nodes) + 1;
  chunks r = {
      .fit = fit,
      .v = tn__arena_alloc(fit->arena, most * sizeof(chunk)),
      .of = tn__arena_alloc(fit->arena, table->n_lifetimes * sizeof(uint32_t)),
      .spare = NONE,
      .work = WORK,
      .head = NONE,
      .tail = NONE,
      .next = NONE};
  size_t k = 0;
  if (fit->arena->failed)
    return tn__fail_memory(most * sizeof(chunk), "a plan's offsets");
  fit->height = 0;
  for (uint32_t n = 0; n < table->net->n_nodes; ++n) {
    for (; k < table->n_events && table->events[k].node == n &&
           !table->events[k].ends;
         ++k)
      follow_event(&r, &table->events[k]);
    TN__TRY(place_workspace(&r, n));
    for (; k < table->n_events && table->events[k].node == n; ++k)
      follow_event(&r, &table->events[k]);
  }
  return TN_OK;
}
