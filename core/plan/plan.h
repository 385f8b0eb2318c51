/* SPDX-License-Identifier: Apache-2.0
 * plan.h: where the entries of a graph lie in memory.
 *
 * A planner on numbers. It knows nodes in execution order, the entries that
 * they read and write, and bytes; it knows no tensor, no operator, no runtime.
 * Who has a graph fills in a tn__plan_net and reads the answer by the same
 * numbers.
 *
 * An entry has one writer, or none when it is EXTERNAL, and is live from its
 * writer to its last reader. Entries that share memory by right (an output in
 * the memory of an input, a term added to a running sum) form one storage;
 * storages, and the workspaces of nodes, get offsets in the pool of their
 * device.
 *
 *   default  In-place pairs are chosen for the most bytes, sums are accumulated
 *            where that saves a term, and storages are given offsets such that
 *            the pool is as near to the peak of live bytes as a bounded search
 *            comes. A block may be split and joined at will.
 *   compat   The planner of NNVM as MXNet 0.12 ran it, decision by decision: a
 *            storage is a block that goes whole from one entry to the next,
 *            when sizes are within a factor of `match_range`. For comparison
 *            with published figures.
 *
 * Everything here works on memory of the caller and of `env`, keeps no state,
 * and may be called from any thread.
 */
#ifndef TENON_PLAN_PLAN_H_
#define TENON_PLAN_PLAN_H_

#include "base.h"

/* ------------------------------------------------------------------ the net */

enum {
  /* Its memory is somebody else's (arguments, their gradients, outputs given by
   * the caller). It gets no storage, and never lends its memory. */
  TN__ENTRY_EXTERNAL = 1u << 0,
  /* Read after the last node: its memory is kept to the end. */
  TN__ENTRY_HEAD = 1u << 1,
  /* Its size is not known before it is written. It gets no storage. */
  TN__ENTRY_DYNAMIC = 1u << 2
};

typedef struct tn__plan_entry {
  size_t bytes;
  int64_t n_elements;
  tn_dtype dtype;
  int32_t device; /* entries of different devices share nothing */
  uint32_t flags; /* TN__ENTRY_* */
} tn__plan_entry;

/* Output `out` of a node may lie in the memory of its input `in`. */
typedef struct tn__plan_pair {
  uint32_t in;
  uint32_t out;
  /* The bytes of the output are those of the input: nothing is overwritten, so
   * that others may read the input still. */
  bool identity;
} tn__plan_pair;

/* Pointers are borrowed while the net is used. Node numbers are positions in
 * the net, entry numbers positions in its entries; what a node waits for comes
 * before it. */
typedef struct tn__plan_node {
  uint32_t first_out; /* its outputs are the entries first_out ... */
  uint32_t n_out;
  const uint32_t *in; /* n_in entries; one may stand here twice */
  uint32_t n_in;
  /* n_in flags, or NULL for none: input i is looked at for its shape only, and
   * keeps nothing alive. */
  const bool *ignored;
  const tn__plan_pair *pairs;
  uint32_t n_pairs;
  const uint32_t *after; /* nodes that it waits for without reading them */
  uint32_t n_after;
  size_t workspace; /* bytes, while it runs */
  int32_t device;   /* where its workspace lies */
  /* A sum of exactly two inputs that runs `out = in[0] + in[1]`. When the
   * second can be added to the memory of the first as it is computed, the node
   * has nothing left to do. The writer of the second must honour TN_REQ_ADD. */
  bool sum;
  const char *name; /* for messages; may be NULL */
} tn__plan_node;

typedef struct tn__plan_net {
  const tn__plan_node *nodes;
  size_t n_nodes;
  const tn__plan_entry *entries;
  size_t n_entries;
} tn__plan_net;

/* TN_INVALID, naming the node, unless: entry and node numbers are in range,
 * every entry has at most one writer, an entry without writer is EXTERNAL, what
 * is read was written before, pairs name inputs and outputs of their node. */
tn_code tn__plan_net_check(const tn__env *env,
                           const tn__plan_net *net) TN_MUST_USE;

/* Whether two of the nodes of `which`, a flag for each, could run at the same
 * time: neither waits for the other. May say so of nets of very many branches
 * where it is not true. */
tn_code tn__plan_net_branches(const tn__env *env, const tn__plan_net *net,
                              const bool *which, bool *out) TN_MUST_USE;

/* ------------------------------------------------------------------ options */

typedef struct tn__plan_options {
  bool compat;
  bool no_inplace;    /* no output in the memory of an input */
  bool no_share;      /* no storage in the memory of another */
  bool no_accumulate; /* sums are computed as written */
  /* compat: a block serves a request of at most `match_range` times fewer or
   * more bytes. 0 is the usual 16. */
  uint32_t match_range;
  /* compat: tries 1, 2, 4, ... match_range and keeps the smallest. */
  bool sweep;
  /* compat: so many colours; a block that a node of one colour gave back is not
   * used by a node of another. 0 and 1: no colours. */
  uint32_t n_colours;
  /* default: nodes that do not wait for one another for their data do not
   * wait for one another's memory either: a storage is used again only by nodes
   * that come after all users of the one before, whatever the order of
   * execution. Costs memory. */
  bool parallel;
  size_t align; /* of storages and workspaces: a power of two; 0 is 64 */
} tn__plan_options;

/* ------------------------------------------------------------------- answer */

enum {
  TN__STORAGE_NONE = -1,     /* nobody reads it: nothing is written */
  TN__STORAGE_EXTERNAL = -2, /* somebody else's memory */
  TN__STORAGE_DYNAMIC = -3   /* allocated when its size is known */
};

typedef struct tn__plan_place {
  int32_t storage; /* number, or TN__STORAGE_* */
  /* Under TN_REQ_INPLACE the input of its writer whose memory it has, otherwise
   * -1. Where that pair is an identity the output is there already. */
  int32_t alias;
  tn_req request; /* for its writer; of EXTERNAL entries, WRITE: the caller
                     knows what was asked for */
} tn__plan_place;

/* Memory that one entry has at a time, or several by right. */
typedef struct tn__plan_storage {
  size_t bytes;
  size_t offset; /* in the pool of its device */
  int32_t device;
  uint32_t first; /* the node that writes it first */
  uint32_t last;  /* the last that uses it; n_nodes if it is kept */
} tn__plan_storage;

/* The memory of one device. */
typedef struct tn__plan_pool {
  int32_t device;
  size_t bytes; /* what to allocate for everything at its offset */
  /* The storages as allocations of their own. What compat's figures are about;
   * in the default mode, what no sharing would cost. */
  size_t separate;
  size_t workspace; /* the largest of one node */
  /* The most bytes that are live at one node after in-place, in this order: no
   * plan for the same storages needs fewer. */
  size_t lower_bound;
} tn__plan_pool;

typedef struct tn__memory_plan {
  tn__plan_place *places; /* by entry */
  size_t *workspaces;     /* by node: offset in the pool of its device */
  bool *skipped;          /* by node: a sum that is done by its terms */
  tn__plan_storage *storages;
  size_t n_storages;
  tn__plan_pool *pools;
  size_t n_pools;
  uint32_t match_range; /* compat: the one that was kept */
  tn__arena arena;      /* all of the above */
} tn__memory_plan;

/* Plans. On failure (TN_INVALID as tn__plan_net_check, TN_OUT_OF_MEMORY) *plan
 * needs no deinit. Deterministic: equal nets get equal plans. */
tn_code tn__memory_plan_init(tn__memory_plan *plan, const tn__env *env,
                             const tn__plan_net *net,
                             const tn__plan_options *options) TN_MUST_USE;
void tn__memory_plan_deinit(tn__memory_plan *plan);

/* Sums over the pools. */
size_t tn__memory_plan_bytes(const tn__memory_plan *plan);
size_t tn__memory_plan_separate(const tn__memory_plan *plan);
size_t tn__memory_plan_lower_bound(const tn__memory_plan *plan);

#endif /* TENON_PLAN_PLAN_H_ */
