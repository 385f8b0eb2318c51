/* SPDX-License-Identifier: Apache-2.0
 * recomputing.h: the types and functions that the files of the recompute search
 * share.
 *
 *   repeated_net.c   writes a net with repeated nodes
 *   recompute_cut.c  cuts the forward part into segments
 *   recompute.c      searches the nodes to drop
 */
#ifndef TENON_PLAN_RECOMPUTING_H_
#define TENON_PLAN_RECOMPUTING_H_

#include "recompute.h"

/* Facts about the forward part, by node. Bytes count only outputs with memory
 * of the plan. */
typedef struct tn__forward {
  const tn__recompute_net *net;
  uint32_t *writer;    /* by entry, UINT32_MAX if it has none */
  uint32_t *last_read; /* by entry: the last forward node that reads it */
  bool *fixed;         /* is never repeated */
  size_t *bytes;       /* of all outputs that some node reads */
  size_t *wanted;      /* of the outputs that the backward part reads */
  double work;         /* of all nodes */
} tn__forward;

/* Drops (true) the nodes of all segments but the last, except entries that
 * later segments read. The segments keep as few bytes of such entries as
 * possible while the backward part needs at most about `bytes` at a time. If
 * there are no such segments, *found is false and nothing is written. */
tn_code tn__recompute_cut(const tn__forward *forward, tn__arena *arena,
                          size_t bytes, bool *dropped, bool *found) TN_MUST_USE;

#endif /* TENON_PLAN_RECOMPUTING_H_ */
