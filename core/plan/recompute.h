/* SPDX-License-Identifier: Apache-2.0
 * recompute.h: which results of the forward part are thrown away and computed
 * again for the backward part, so that a net fits into a number of bytes.
 *
 * On numbers, like plan.h. A net whose nodes are divided into a forward part
 * and a backward part goes in; out comes a list of forward nodes to repeat, and
 * before which backward node. A repeated node writes entries of its own: the
 * backward nodes from there on, and the nodes repeated after it, read these
 * instead of the original's, which then lives only as long as the forward part
 * reads it.
 *
 * No node is repeated more than once, so that the extra work is at most one
 * forward pass; no more is repeated than the number of bytes asks for, as far
 * as a bounded search finds out.
 *
 * Any thread; no state is kept.
 */
#ifndef TENON_PLAN_RECOMPUTE_H_
#define TENON_PLAN_RECOMPUTE_H_

#include "plan.h"

/* Of each forward node. */
typedef struct tn__recompute_cost {
  double work; /* of running it, in any unit; not negative */
  /* Draws random numbers, changes state, or does what the outside sees: it is
   * never repeated. */
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
  tn__plan_options plan; /* how the result will be planned */
} tn__recompute_options;

/* Node `node` is run again right before node `before`. */
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
  bool met;             /* bytes <= budget; true if none was given */
  bool least;           /* for fewer bytes no other answer would be found */
  tn__arena arena;      /* of `repeats` */
} tn__recompute;

/* Chooses. A budget that cannot be met is no failure: the answer is then the
 * smallest that was found. TN_INVALID as tn__plan_net_check, or if the forward
 * part is longer than the net; TN_OUT_OF_MEMORY. On failure *out needs no
 * deinit. Deterministic. */
tn_code tn__recompute_init(tn__recompute *out, const tn__env *env,
                           const tn__recompute_net *net,
                           const tn__recompute_options *options) TN_MUST_USE;
void tn__recompute_deinit(tn__recompute *recompute);

/* A net with its repeats in place. */
typedef struct tn__repeated_net {
  tn__plan_net net;
  uint32_t *node_of;  /* by node: the number it has without repeats */
  uint32_t *entry_of; /* by entry: likewise */
} tn__repeated_net;

/* Writes the net with repeats, in memory of `arena` and of `net`, which must
 * outlive it. `repeats` is ordered by `before`; what a repeated node reads of
 * other repeated nodes was repeated earlier. The net is taken to be in order
 * (tn__plan_net_check). */
tn_code tn__repeated_net_make(tn__repeated_net *out, tn__arena *arena,
                              const tn__recompute_net *net,
                              const tn__repeat *repeats,
                              size_t n_repeats) TN_MUST_USE;

#endif /* TENON_PLAN_RECOMPUTE_H_ */
