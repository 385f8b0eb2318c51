/* SPDX-License-Identifier: Apache-2.0
 * recomputing.h: what the files of the recompute pass share.
 *
 *   repeat.c         a net with repeated nodes, as a net
 *   recompute_cut.c  where the forward part is cut into segments
 *   recompute.c      which nodes are dropped: the search
 */
#ifndef TENON_PLAN_RECOMPUTING_H_
#define TENON_PLAN_RECOMPUTING_H_

#include "recompute.h"

/* What is known of the forward part, by node. Bytes are of outputs that have
 * memory of the plan. */
typedef struct tn__forward {
  const tn__recompute_net *net;
  uint32_t *writer;    /* by entry, UINT32_MAX if it has none */
  uint32_t *last_read; /* by entry: the last forward node that reads it */
  bool *fixed;         /* is never repeated */
  size_t *bytes;       /* of all outputs that anybody reads */
  size_t *wanted;      /* of the outputs that the backward part reads */
  double work;         /* of all */
} tn__forward;

/* Drops (true) the nodes of all segments but the last, except what later
 * segments read: segments such that those entries are as few bytes as possible
 * while no more than about `bytes` are needed at a time, in the backward part.
 * *found is false, and nothing is written, where there are no such segments. */
tn_code tn__recompute_cut(const tn__forward *forward, tn__arena *arena,
                          size_t bytes, bool *dropped, bool *found) TN_MUST_USE;

#endif /* TENON_PLAN_RECOMPUTING_H_ */
