/* SPDX-License-Identifier: Apache-2.0
 * apart.c: offsets where branches stay parallel. In order of execution,
 * each tenancy gets the lowest room whose users before it all come before its
 * writer by their dependencies.
 */
#include "planning.h"

/* With more than MANY rooms, neighbours that are given back become one, even if
 * that makes some node wait that could have had one of them; with more than
 * ALL, or when WORK of them have been looked at, not each is for each tenancy
 * but LOOK, and each search goes on where the one before ended. */
enum { MANY = 1024, ALL = 8192, LOOK = 256, WORK = 200000000 };
static const uint32_t NONE = UINT32_MAX;

/* A stretch of addresses, and who used it last; `taken` while it is in use. */
typedef struct room {
  size_t begin;
  size_t end;
  const tn__user *users; /* of whom it was */
  uint32_t left;         /* its neighbours, NONE at the ends */
  uint32_t right;
  bool taken;
} room;

/* The list of rooms is without holes and ends at the height. */
typedef struct rooms {
  tn__apart *apart;
  room *v;
  uint32_t n;     /* ever made */
  uint32_t spare; /* those no longer used, by `right` */
  uint32_t n_listed;
  uint32_t head;
  uint32_t tail;
  uint32_t next; /* where to look from */
  uint32_t work; /* rooms to look at until that is restricted */
  uint32_t *of;  /* by tenancy: its room */
} rooms;

static void link_up(rooms *r, uint32_t left, uint32_t right) {
  *(left == NONE ? &r->head : &r->v[left].right) = right;
  *(right == NONE ? &r->tail : &r->v[right].left) = left;
}

static void drop(rooms *r, uint32_t k) {
  link_up(r, r->v[k].left, r->v[k].right);
  r->v[k].right = r->spare;
  r->spare = k;
  --r->n_listed;
}

/* A taken room before `right`. */
static uint32_t insert(rooms *r, uint32_t right, size_t begin, size_t end) {
  const uint32_t left = right == NONE ? r->tail : r->v[right].left;
  uint32_t k = r->spare;
  if (k != NONE)
    r->spare = r->v[k].right;
  else
    k = r->n++;
  r->v[k] = (room){.begin = begin, .end = end, .taken = true};
  link_up(r, left, k);
  link_up(r, k, right);
  ++r->n_listed;
  return k;
}

static bool is_open(const rooms *r, uint32_t k, uint32_t n) {
  return !r->v[k].taken &&
         tn__branches_after_all(r->apart->walk->branches, n, r->v[k].users);
}

/* Takes `bytes` from the beginning of room `from`, of it and those after it,
 * and of new room at the end; what is left over stays as it was. */
static uint32_t occupy(rooms *r, uint32_t from, size_t bytes) {
  const size_t begin = from == NONE ? r->apart->height : r->v[from].begin;
  const size_t end = begin + bytes;
  while (from != NONE && r->v[from].end <= end) {
    const uint32_t right = r->v[from].right;
    drop(r, from);
    from = right;
  }
  if (from != NONE) r->v[from].begin = end;
  if (end > r->apart->height) r->apart->height = end;
  r->next = from;
  return insert(r, from, begin, end);
}

static uint32_t take(rooms *r, uint32_t n, size_t bytes) {
  const bool all = r->n_listed <= ALL && r->work > r->n_listed;
  uint32_t k = all || r->next == NONE ? r->head : r->next, from = k;
  for (uint32_t looked = 0; k != NONE; k = r->v[k].right, ++looked) {
    if (all) --r->work;
    if (looked == LOOK && !all) {
      const uint32_t made = occupy(r, NONE, bytes);
      r->next = k;
      return made;
    }
    if (!is_open(r, k, n))
      from = r->v[k].right;
    else if (r->v[k].end - r->v[from].begin >= bytes)
      return occupy(r, from, bytes);
  }
  return occupy(r, from, bytes);
}

/* Whether everybody in `old` comes before somebody in `users`. */
static bool covers(const rooms *r, const tn__user *users, const tn__user *old) {
  const tn__branches *branches = r->apart->walk->branches;
  for (; old != NULL; old = old->next) {
    const tn__user *u = users;
    while (u != NULL && !tn__branches_after(branches, u->node, old->node))
      u = u->next;
    if (u == NULL) return false;
  }
  return true;
}

/* Neighbour `other` becomes part of room k, if k's users say enough for it. */
static void merge(rooms *r, uint32_t k, uint32_t other) {
  if (other == NONE || r->v[other].taken ||
      !covers(r, r->v[k].users, r->v[other].users))
    return;
  if (r->v[other].begin < r->v[k].begin) r->v[k].begin = r->v[other].begin;
  if (r->v[other].end > r->v[k].end) r->v[k].end = r->v[other].end;
  if (r->next == other) r->next = k;
  drop(r, other);
}

static void give_back(rooms *r, uint32_t k, const tn__user *users) {
  r->v[k].taken = false;
  r->v[k].users = users;
  if (r->n_listed <= MANY) return;
  merge(r, k, r->v[k].left);
  merge(r, k, r->v[k].right);
}

/* A workspace is there while its node runs, and its node is its only user. */
static tn_code use_workspace(rooms *r, uint32_t n) {
  tn__apart *apart = r->apart;
  const tn__plan_node *node = &apart->walk->net->nodes[n];
  if (node->workspace == 0 || node->device != apart->device) return TN_OK;
  tn__user *user = tn__arena_alloc(apart->arena, sizeof *user);
  if (user == NULL) return tn__fail_memory(sizeof *user, "a plan's offsets");
  user->node = n;
  const uint32_t k = take(r, n, tn__round_up(node->workspace, apart->align));
  apart->workspaces[n] = r->v[k].begin;
  give_back(r, k, user);
  return TN_OK;
}

static void follow(rooms *r, const tn__plan_event *event) {
  const tn__apart *apart = r->apart;
  const uint32_t number = event->tenancy;
  const tn__tenancy *t = &apart->walk->tenancies[number];
  const size_t bytes = tn__round_up(t->bytes, apart->align);
  if (t->device != apart->device || bytes == 0) return;
  if (event->ends) {
    give_back(r, r->of[number], apart->walk->users[number]);
    return;
  }
  r->of[number] = take(r, event->node, bytes);
  apart->offsets[number] = r->v[r->of[number]].begin;
}

tn_code tn__apart_run(tn__apart *apart) {
  const tn__walk *w = apart->walk;
  const size_t most = 2 * ((size_t)w->n_tenancies + w->net->n_nodes) + 1;
  rooms r = {
      .apart = apart,
      .v = tn__arena_alloc(apart->arena, most * sizeof(room)),
      .of = tn__arena_alloc(apart->arena, w->n_tenancies * sizeof(uint32_t)),
      .spare = NONE,
      .work = WORK,
      .head = NONE,
      .tail = NONE,
      .next = NONE};
  size_t k = 0;
  if (apart->arena->failed)
    return tn__fail_memory(most * sizeof(room), "a plan's offsets");
  apart->height = 0;
  for (uint32_t n = 0; n < w->net->n_nodes; ++n) {
    for (; k < w->n_events && w->events[k].node == n && !w->events[k].ends; ++k)
      follow(&r, &w->events[k]);
    TN__TRY(use_workspace(&r, n));
    for (; k < w->n_events && w->events[k].node == n; ++k)
      follow(&r, &w->events[k]);
  }
  return TN_OK;
}
