/* SPDX-License-Identifier: Apache-2.0
 * planning.h: what the files of the memory planner share.
 *
 *   check.c        is the net what it claims to be
 *   walk.c         lifetimes: which entries share memory by right, and when it
 *                  is taken and given back
 *   lend.c         which outputs take the memory of an input
 *   block.c        compat: blocks that go whole from one tenancy to the next
 *   colour.c       compat: nodes on common paths
 *   branch.c       which nodes come after which
 *   fit.c          default: offsets, by several methods
 *   skyline.c      one of them, for nets of any length
 *   greedy.c       another, for shorter ones
 *   apart.c        offsets where branches stay parallel
 *   plan.c         puts the answer together
 */
#ifndef TENON_PLAN_PLANNING_H_
#define TENON_PLAN_PLANNING_H_

#include "plan.h"

#define TN__NO_NODE UINT32_MAX
enum { TN__PLAN_ALIGN = 64 }; /* what tn__plan_options.align 0 stands for */

/* ---------------------------------------------------------------- lifetimes */

/* Entries that share memory by right, from the first's writer to the last use
 * of any: what a storage is in the default mode, and what has a storage for a
 * while in compat. */
typedef struct tn__tenancy {
  size_t bytes;
  int32_t device;
  uint32_t first;
  uint32_t last;    /* n_nodes if it is kept */
  uint32_t storage; /* found by the pool of compat */
} tn__tenancy;

/* A tenancy begins or ends at a node. In the order in which it happens: at each
 * node begins before ends. */
typedef struct tn__plan_event {
  uint32_t node;
  uint32_t tenancy;
  bool ends;
} tn__plan_event;

typedef struct tn__walk {
  const tn__plan_net *net;
  const tn__plan_options *options;
  tn__arena *arena;
  tn__plan_place *places; /* by entry; `storage` is a tenancy's number here */
  uint32_t *refs;         /* by entry: how often it is read, heads once more */
  uint32_t *writer;       /* by entry, or TN__NO_NODE */
  uint32_t *sum;          /* by entry: the sum whose second term it is */
  bool *skipped;          /* by node */
  tn__tenancy *tenancies;
  uint32_t n_tenancies;
  uint32_t *held;  /* by tenancy: reads that are still to come */
  uint32_t *quiet; /* by tenancy: the node that left one read */
  tn__plan_event *events;
  size_t n_events;
  uint32_t *scratch; /* as many as the widest node has inputs and outputs */
  /* Only where branches stay parallel, else NULL. users: by tenancy, those that
   * no other user comes after, as a list (tn__users_add). */
  struct tn__branches *branches;
  struct tn__user **users;
} tn__walk;

/* Fills in everything from the net, the options and the arena. */
tn_code tn__walk_run(tn__walk *walk) TN_MUST_USE;

/* Gives outputs of node `n` the memory of inputs: in the order of its pairs
 * (compat), or such that the most bytes are saved. */
void tn__walk_lend(tn__walk *walk, uint32_t n);

/* Entry `e` becomes part of tenancy `t`, which its readers hold from now on. */
void tn__walk_join(tn__walk *walk, uint32_t e, uint32_t t);

/* Whether node `n` comes after all users of tenancy `t`; where branches need
 * not stay parallel, the order of execution answers that. */
bool tn__walk_is_after(const tn__walk *walk, uint32_t n, uint32_t t);

static inline bool tn__is_ignored(const tn__plan_node *node, uint32_t i) {
  return node->ignored != NULL && node->ignored[i];
}

/* The most bytes of a device that are live at one node, its workspace included;
 * sizes are rounded up to `align`. */
size_t tn__walk_peak(const tn__walk *walk, int32_t device, size_t align);

static inline size_t tn__round_up(size_t bytes, size_t align) {
  return (bytes + align - 1) / align * align;
}

/* ------------------------------------------------------------------- compat */

typedef struct tn__block_pool tn__block_pool;

/* Storages, found by one rule: of the free blocks of the device and colour, the
 * smallest that is not smaller and at most `range` times the size; otherwise
 * the largest that is smaller and at least a `range`th, which grows; otherwise
 * a new one. Of equals, the first given back among the larger and the last
 * among the smaller. `range` 0 shares nothing. */
tn_code tn__block_pool_create(tn__arena *arena, size_t capacity, uint32_t range,
                              tn__block_pool **out) TN_MUST_USE;
uint32_t tn__block_request(tn__block_pool *pool, int32_t device, size_t bytes,
                           uint32_t colour);
void tn__block_free(tn__block_pool *pool, uint32_t block, uint32_t colour);
size_t tn__block_count(const tn__block_pool *pool);
size_t tn__block_bytes(const tn__block_pool *pool, uint32_t block);
int32_t tn__block_device(const tn__block_pool *pool, uint32_t block);

/* colour[node] < n: the longest path is of the first colour, the longest over
 * what is left of the second ..., and what then is left of the last. */
tn_code tn__plan_colour(const tn__plan_net *net, tn__arena *arena, uint32_t n,
                        uint32_t **out) TN_MUST_USE;

/* ----------------------------------------------------------------- branches */

/* Which nodes come after which by their dependencies alone. */
typedef struct tn__branches tn__branches;
typedef struct tn__user {
  uint32_t node;
  struct tn__user *next;
} tn__user;

tn_code tn__branches_create(const tn__plan_net *net, const uint32_t *writer,
                            tn__arena *arena, tn__branches **out) TN_MUST_USE;
/* Whether `late` waits for `early`, in any number of steps; a node does for
 * itself. May say no where the truth is yes in nets of very many branches. */
bool tn__branches_after(const tn__branches *branches, uint32_t late,
                        uint32_t early);
bool tn__branches_after_all(const tn__branches *branches, uint32_t late,
                            const tn__user *users);

/* Adds node `n`, the latest so far, and drops whom it comes after. Of very many
 * that no other comes after only some node is left that comes after them, or
 * one that is no node, which nobody comes after. */
tn_code tn__users_add(const tn__branches *branches, tn__arena *arena,
                      tn__user **users, uint32_t n) TN_MUST_USE;

/* ------------------------------------------------------------------ offsets */

/* Memory that is taken from node `first` to node `last`, both included. */
typedef struct tn__span {
  size_t bytes; /* more than 0 */
  uint32_t first;
  uint32_t last;
  size_t offset; /* the answer */
} tn__span;

/* Gives n spans offsets such that no two that meet in time overlap, and *height
 * is as low as a bounded search comes: near linear in n. `floor` is a height
 * that cannot be beaten, at which the search ends; `horizon` is beyond every
 * `last`. */
typedef struct tn__fit {
  tn__arena *arena;
  tn__span *spans;
  uint32_t n;
  uint32_t horizon;
  size_t floor;
  size_t height;
} tn__fit;

tn_code tn__fit_run(tn__fit *fit) TN_MUST_USE;

/* Its parts, each into `offsets`; *height is what came of it. */
typedef enum tn__fit_key {
  TN__FIT_LONGEST,
  TN__FIT_LARGEST,
  TN__FIT_AREA,
  TN__FIT_N_KEYS
} tn__fit_key;
size_t tn__span_worth(const tn__span *span, tn__fit_key key);

tn_code tn__fit_skyline(const tn__fit *fit, tn__fit_key key, size_t *offsets,
                        size_t *height) TN_MUST_USE;

/* Puts spans one by one where there is room beside those before, and starts
 * again with the one that came to lie too high at the front, until the floor is
 * reached or its work is done: quadratic in n, and therefore nothing for long
 * nets. *height is SIZE_MAX if it found nothing below fit->height. */
tn_code tn__fit_greedy(const tn__fit *fit, size_t *offsets,
                       size_t *height) TN_MUST_USE;

/* ---------------------------------------------------------- apart from time */

/* Offsets for the tenancies and workspaces of one device such that memory is
 * used again only by nodes that come after all its users before. offsets: by
 * tenancy; workspaces: by node. */
typedef struct tn__apart {
  const tn__walk *walk;
  tn__arena *arena;
  int32_t device;
  size_t align;
  size_t *offsets;
  size_t *workspaces;
  size_t height;
} tn__apart;
tn_code tn__apart_run(tn__apart *apart) TN_MUST_USE;

#endif /* TENON_PLAN_PLANNING_H_ */
