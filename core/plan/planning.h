/* SPDX-License-Identifier: Apache-2.0
 * planning.h: the types and functions that the files of the memory planner
 * share. Each part is in a file of its own:
 *
 *   net_check.c       checks the tables of a net
 *   lifetimes.c       finds which entries share memory, and when it is in use
 *   borrow.c          chooses outputs that use the memory of an input
 *   branch.c          decides which nodes come after which
 *   fit.c             offsets, by several methods
 *   skyline.c         one method, for nets of any length
 *   greedy.c          another method, for short nets
 *   parallel_fit.c    offsets that keep branches parallel
 *   memory_planner.c  runs the parts and writes the plan
 */
#ifndef TENON_PLAN_PLANNING_H_
#define TENON_PLAN_PLANNING_H_

#include "plan.h"

#define TN__NO_NODE UINT32_MAX
enum { TN__PLAN_ALIGN = 64 }; /* replaces align 0 of tn__plan_options */

/* ---------------------------------------------------------------- lifetimes */

/* Entries that share memory by right, from the writer of the first to the last
 * use of any of them. Each lifetime is one storage. */
typedef struct tn__lifetime {
  size_t bytes;
  int32_t device;
  uint32_t first;
  uint32_t last; /* n_nodes if the memory is kept */
} tn__lifetime;

/* A lifetime begins or ends at a node. Events are in the order in which they
 * happen: at each node, begins come before ends. */
typedef struct tn__plan_event {
  uint32_t node;
  uint32_t lifetime;
  bool ends;
} tn__plan_event;

typedef struct tn__lifetime_table {
  const tn__plan_net *net;
  const tn__plan_options *options;
  tn__arena *arena;
  tn__plan_place *places; /* by entry; `storage` is the number of a lifetime
                           * here */
  uint32_t *refs;         /* by entry: number of reads, one more for heads */
  uint32_t *writer;       /* by entry, or TN__NO_NODE */
  uint32_t *sum;          /* by entry: the sum that has it as second term */
  bool *skipped;          /* by node */
  tn__lifetime *lifetimes;
  uint32_t n_lifetimes;
  uint32_t *reads_left; /* by lifetime: number of reads still to come */
  tn__plan_event *events;
  size_t n_events;
  uint32_t *scratch; /* room for the inputs and outputs of the widest node */
  /* Only where branches stay parallel, else NULL. users: by lifetime, the list
   * of users without a later user (tn__users_add). */
  struct tn__branches *branches;
  struct tn__user **users;
} tn__lifetime_table;

/* Fills in everything from the net, the options and the arena. */
tn_code tn__lifetimes_find(tn__lifetime_table *table) TN_MUST_USE;

/* The steps of it, which the reference planner of the tests also takes. */

/* Allocates the table, and counts the reads. No entry has memory yet. */
tn_code tn__lifetimes_prepare(tn__lifetime_table *table) TN_MUST_USE;

/* Lets outputs of node `n` borrow the memory of inputs, such that the most
 * bytes are saved. */
void tn__lifetimes_borrow(tn__lifetime_table *table, uint32_t n);
/* The same by the first pairs that fit, in the order of the node. */
void tn__lifetimes_borrow_in_order(tn__lifetime_table *table, uint32_t n);

/* Writes the outputs of node `n` that have no memory yet to table->scratch, the
 * largest first, and returns their number. Of equal ones the last is first. */
uint32_t tn__lifetimes_sort_outputs(tn__lifetime_table *table, uint32_t n);
/* Begins a lifetime with entry `e`, which node `n` writes. */
void tn__lifetimes_begin(tn__lifetime_table *table, uint32_t n, uint32_t e);
/* Counts the reads of node `n`, and ends the lifetimes that nobody will read,
 * those of its outputs included. */
void tn__lifetimes_release(tn__lifetime_table *table, uint32_t n);

/* Tests whether a sum may add one entry to the memory of the other. */
bool tn__entry_is_alike(const tn__plan_entry *a, const tn__plan_entry *b);

/* Adds entry `e` to lifetime `t`. From now on the readers of the entry keep the
 * lifetime. */
void tn__lifetimes_join(tn__lifetime_table *table, uint32_t e, uint32_t t);

/* Returns whether node `n` comes after all users of lifetime `t`. Where
 * branches need not stay parallel, the order of execution makes this true. */
bool tn__lifetimes_is_after(const tn__lifetime_table *table, uint32_t n,
                            uint32_t t);

static inline bool tn__is_ignored(const tn__plan_node *node, uint32_t i) {
  return node->ignored != NULL && node->ignored[i];
}

/* Returns the most bytes of a device that are live at one node, its workspace
 * included. Sizes are rounded up to `align`. */
size_t tn__lifetimes_peak(const tn__lifetime_table *table, int32_t device,
                          size_t align);

/* ------------------------------------------------------------------- result */

/* Allocates the answers for entries and nodes. */
tn_code tn__memory_plan_allocate(tn__memory_plan *plan,
                                 const tn__plan_net *net) TN_MUST_USE;
/* Makes the pools, with the workspace and the lower bound of each. */
tn_code tn__memory_plan_find_devices(
    tn__memory_plan *plan, const tn__lifetime_table *table) TN_MUST_USE;
/* Places the storages of a pool one after the other, then one workspace for all
 * nodes. */
void tn__memory_plan_place_in_row(tn__memory_plan *plan,
                                  const tn__plan_net *net, tn__plan_pool *pool,
                                  size_t align);
/* Copies the places and the skipped nodes of the table to the plan, and counts
 * the bytes of separate storages. */
void tn__memory_plan_write_answer(tn__memory_plan *plan,
                                  const tn__lifetime_table *table);

static inline size_t tn__round_up(size_t bytes, size_t align) {
  return (bytes + align - 1) / align * align;
}

/* ----------------------------------------------------------------- branches */

/* Decides which nodes come after which by their dependencies alone. */
typedef struct tn__branches tn__branches;
typedef struct tn__user {
  uint32_t node;
  struct tn__user *next;
} tn__user;

tn_code tn__branches_create(const tn__plan_net *net, const uint32_t *writer,
                            tn__arena *arena, tn__branches **out) TN_MUST_USE;
/* Returns whether `late` waits for `early`, in any number of steps; a node
 * waits for itself. In nets of very many branches it may return false where
 * true would be right. */
bool tn__branches_is_after(const tn__branches *branches, uint32_t late,
                           uint32_t early);
bool tn__branches_is_after_all(const tn__branches *branches, uint32_t late,
                               const tn__user *users);

/* Adds node `n`, the latest so far, and drops the users that `n` comes after. A
 * list that grows very long is shortened. Then a node after several users
 * replaces them, or TN__NO_NODE replaces all; no node comes after
 * TN__NO_NODE. */
tn_code tn__users_add(const tn__branches *branches, tn__arena *arena,
                      tn__user **users, uint32_t n) TN_MUST_USE;

/* ------------------------------------------------------------------ offsets */

/* Memory that is used from node `first` to node `last`, both included. */
typedef struct tn__interval {
  size_t bytes; /* more than 0 */
  uint32_t first;
  uint32_t last;
  size_t offset; /* the result */
} tn__interval;

/* Gives n intervals offsets such that no two intervals with a common node
 * overlap. *height is as low as a bounded search finds, in nearly linear time.
 * The search ends at `floor`, a height that no result can beat. `horizon` is
 * greater than every `last`. */
typedef struct tn__fit {
  tn__arena *arena;
  tn__interval *intervals;
  uint32_t n;
  uint32_t horizon;
  size_t floor;
  size_t height;
} tn__fit;

tn_code tn__fit_run(tn__fit *fit) TN_MUST_USE;

/* The methods of tn__fit_run. Each writes `offsets` and the height that it
 * reached. */
typedef enum tn__fit_key {
  TN__FIT_LONGEST,
  TN__FIT_LARGEST,
  TN__FIT_AREA,
  TN__FIT_N_KEYS
} tn__fit_key;
size_t tn__interval_worth(const tn__interval *interval, tn__fit_key key);

tn_code tn__fit_skyline(const tn__fit *fit, tn__fit_key key, size_t *offsets,
                        size_t *height) TN_MUST_USE;

/* Places intervals one by one in gaps beside the earlier ones. If one ends too
 * high, it moves to the front of the order and the search starts again. It ends
 * when the floor is reached or its bound of work is used up. The time is
 * quadratic in n, so that long nets are refused. *height is SIZE_MAX if it
 * found nothing below fit->height. */
tn_code tn__fit_greedy(const tn__fit *fit, size_t *offsets,
                       size_t *height) TN_MUST_USE;

/* -------------------------------------------------------- parallel branches */

/* Finds offsets for the lifetimes and workspaces of one device. Memory is used
 * again only by nodes that come after all its earlier users. offsets: by
 * lifetime; workspaces: by node. */
typedef struct tn__parallel_fit {
  const tn__lifetime_table *table;
  tn__arena *arena;
  int32_t device;
  size_t align;
  size_t *offsets;
  size_t *workspaces;
  size_t height;
} tn__parallel_fit;
tn_code tn__fit_parallel(tn__parallel_fit *fit) TN_MUST_USE;

#endif /* TENON_PLAN_PLANNING_H_ */
