/* SPDX-License-Identifier: Apache-2.0
 * compat.h: the planner of NNVM as MXNet 0.12 ran it, decision by decision. It
 * computes published figures, to compare with those of core/plan.
 *
 * A storage is a block that goes whole from one entry to the next if their
 * sizes are within a factor of `match_range`.
 *
 *   compat_plan.c       runs the parts and writes the plan
 *   compat_lifetimes.c  finds which entries share memory, and when it is in use
 *   plan_block.c        blocks that go whole from lifetime to lifetime
 *   colour.c            colours nodes by long paths
 */
#ifndef TESTS_PLAN_COMPAT_H_
#define TESTS_PLAN_COMPAT_H_

#include "planning.h"

typedef struct compat_options {
  bool no_inplace;    /* no output in the memory of an input */
  bool no_share;      /* no storage in the memory of another */
  bool no_accumulate; /* sums are computed as written */
  /* A block serves a request of at most `match_range` times fewer or more
   * bytes. 0 means the usual 16. */
  uint32_t match_range;
  /* Tries 1, 2, 4, ... match_range and keeps the smallest plan. */
  bool sweep;
  /* Number of colours. A block that a node of one colour has freed is not used
   * by a node of another. 0 and 1: no colours. */
  uint32_t n_colours;
  uint32_t *kept_range; /* becomes the range of the plan; may be NULL */
} compat_options;

/* Makes a plan, as tn__memory_plan_init. */
tn_code compat_plan_init(tn__memory_plan *plan, const tn__env *env,
                         const tn__plan_net *net,
                         const compat_options *options) TN_MUST_USE;

typedef struct compat_table {
  tn__lifetime_table lifetimes; /* with net and arena; without branches */
  uint32_t *block;              /* by lifetime */
  uint32_t *one_left; /* by lifetime: the node after which one read remains */
} compat_table;

/* Fills in everything but the blocks, from the net, the options and the arena.
 */
tn_code compat_lifetimes_find(compat_table *table,
                              const compat_options *options) TN_MUST_USE;

typedef struct compat_blocks compat_blocks;

/* The blocks, chosen by one rule. Candidates are the free blocks of
 * the same device and colour. The first choice is the smallest block that is
 * not smaller than the request and at most `range` times its size. The second
 * choice is the largest smaller block of at least a `range`th of the size; it
 * grows. Otherwise a new block is made. Of equal larger blocks the first freed
 * is used, of equal smaller ones the last freed. `range` 0 shares nothing. */
tn_code compat_blocks_create(tn__arena *arena, size_t capacity, uint32_t range,
                             compat_blocks **out) TN_MUST_USE;
uint32_t compat_blocks_request(compat_blocks *pool, int32_t device,
                               size_t bytes, uint32_t colour);
void compat_blocks_free(compat_blocks *pool, uint32_t block, uint32_t colour);
size_t compat_blocks_count(const compat_blocks *pool);
size_t compat_blocks_bytes(const compat_blocks *pool, uint32_t block);
int32_t compat_blocks_device(const compat_blocks *pool, uint32_t block);

/* Colours the nodes: colour[node] < n. The longest path gets the first colour,
 * the longest path over the remaining nodes the second, and so on. All nodes
 * that remain in the end get the last colour. */
tn_code compat_colour_nodes(const tn__plan_net *net, tn__arena *arena,
                            uint32_t n, uint32_t **out) TN_MUST_USE;

#endif /* TESTS_PLAN_COMPAT_H_ */
