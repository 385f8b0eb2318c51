/* SPDX-License-Identifier: Apache-2.0
 * recompute.h: chooses results of the forward part that are dropped and
 * computed again for the backward part, so that a net fits a number of bytes.
 *
 * The search works on numbers, like plan.h. The input is a net with a forward
 * part and a backward part. The output is a list of forward nodes to repeat,
 * each with the backward node before which it runs. A repeated node writes new
 * entries. Backward nodes from there on, and nodes repeated after it, read
 * these new entries. The original entries live only as long as the forward part
 * reads them.
 *
 * No node is repeated more than once, so the extra work is at most one forward
 * pass. No more nodes are repeated than the budget demands, as far as a bounded
 * search finds out.
 *
 * Any thread; no state is kept.
 */
#ifndef TENON_PLAN_RECOMPUTE_H_
#define TENON_PLAN_RECOMPUTE_H_

#include "plan.h"

/* The cost of one forward node. */
typedef struct tn__recompute_cost {
  double work; /* of running it, in any unit; not negative */
  /* Draws random numbers, changes state or has outside effects: it is never
   * repeated. */
  bool once;
} tn__recompute_cost;

/* Borrowed while it is used. */
typedef struct tn__recompute_net {
  const tn__plan_net *net;
  uint32_t n_forward; /* the nodes before this number are the forward part */
  const tn__recompute_cost *costs; /* n_forward */
} tn__recompute_net;

typedef struct tn__recompute_options {
  size_t budget; /* bytes of all pools together; 0: as few as possible */
  tn__plan_options plan; /* options for the plan of the result */
} tn__recompute_options;

/* Node `node` runs again directly before node `before`. */
typedef struct tn__repeat {
  uint32_t node;
  uint32_t before;
} tn__repeat;

typedef struct tn__recompute {
  tn__repeat *repeats; /* in the order in which they run */
  size_t n_repeats;
  double extra;         /* their work as a fraction of the forward part's */
  size_t bytes;         /* of the plan with them */
  size_t bytes_without; /* of the plan without any */
  bool met;             /* bytes <= budget; true without a budget */
  bool least;           /* no smaller budget would give another result */
  tn__arena arena;      /* of `repeats` */
} tn__recompute;

/* Chooses the repeats. A budget that cannot be met is no failure: the result is
 * then the smallest plan that was found. Fails with TN_INVALID as
 * tn__plan_net_check does, or if the forward part is longer than the net; or
 * with TN_OUT_OF_MEMORY. On failure *out needs no deinit. Deterministic. */
tn_code tn__recompute_init(tn__recompute *out, const tn__env *env,
                           const tn__recompute_net *net,
                           const tn__recompute_options *options) TN_MUST_USE;
void tn__recompute_deinit(tn__recompute *recompute);

/* A net that includes its repeats. */
typedef struct tn__repeated_net {
  tn__plan_net net;
  uint32_t *node_of;  /* by node: its number without repeats */
  uint32_t *entry_of; /* by entry: likewise */
} tn__repeated_net;

/* Writes the net with repeats, in memory of `arena` and of `net`; `net` must
 * outlive it. `repeats` is ordered by `before`. If a repeated node reads
 * another repeated node, that one is earlier in `repeats`. The net must have
 * passed tn__plan_net_check. */
tn_code tn__repeated_net_make(tn__repeated_net *out, tn__arena *arena,
                              const tn__recompute_net *net,
                              const tn__repeat *repeats,
                              size_t n_repeats) TN_MUST_USE;

#endif /* TENON_PLAN_RECOMPUTE_H_ */
