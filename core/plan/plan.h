/* SPDX-License-Identifier: Apache-2.0
 * plan.h: the memory plan, a place in memory for each entry of a graph.
 *
 * The planner works on numbers: nodes in execution order, the entries that they
 * read and write, and bytes. It knows no tensor, no operator and no runtime.
 * The caller describes its graph as a tn__plan_net; the plan uses the same
 * numbers.
 *
 * An entry has one writer, or none if it is EXTERNAL. It is live from its
 * writer to its last reader. Entries that share memory by right form one
 * storage. Examples are an output in the memory of an input, and a term that is
 * added to a running sum. Storages and the workspaces of nodes get offsets in
 * the pool of their device.
 *
 * A plan chooses the in-place pairs that save the most bytes, and accumulates
 * sums where that saves a term. The pool is as near to the peak of live bytes
 * as a bounded search comes: blocks may be split and merged at will.
 *
 * All functions work on memory of the caller and of `env`, keep no state, and
 * may be called from any thread.
 */
#ifndef TENON_PLAN_PLAN_H_
#define TENON_PLAN_PLAN_H_

#include "base.h"

/* ------------------------------------------------------------------ the net */

enum {
  /* Memory of the caller: arguments, their gradients, outputs with memory of
   * the caller. It gets no storage, and no output borrows its memory. */
  TN__ENTRY_EXTERNAL = 1u << 0,
  /* Read after the last node: its memory is kept to the end. */
  TN__ENTRY_HEAD = 1u << 1,
  /* Its size is unknown before it is written. It gets no storage. */
  TN__ENTRY_DYNAMIC = 1u << 2
};

typedef struct tn__plan_entry {
  size_t bytes;
  int64_t n_elements;
  tn_dtype dtype;
  int32_t device; /* entries of different devices share nothing */
  uint32_t flags; /* TN__ENTRY_* */
} tn__plan_entry;

/* Output `out` of a node may use the memory of its input `in`. */
typedef struct tn__plan_pair {
  uint32_t in;
  uint32_t out;
  /* The output has the bytes of the input. Nothing is overwritten, so other
   * nodes may still read the input. */
  bool identity;
} tn__plan_pair;

/* Pointers are borrowed while the net is used. Node numbers are positions in
 * the net, entry numbers are positions in its entries. A node comes after all
 * nodes that it waits for. */
typedef struct tn__plan_node {
  uint32_t first_out; /* its outputs are the entries first_out ... */
  uint32_t n_out;
  const uint32_t *in; /* n_in entries; the same one may occur twice */
  uint32_t n_in;
  /* n_in flags, or NULL for none. Of input i the node reads only the shape, so
   * that it keeps nothing alive. */
  const bool *ignored;
  const tn__plan_pair *pairs;
  uint32_t n_pairs;
  const uint32_t *after; /* nodes that it waits for without reading them */
  uint32_t n_after;
  size_t workspace; /* bytes, while it runs */
  int32_t device;   /* the device of its workspace */
  /* A sum of exactly two inputs that runs `out = in[0] + in[1]`. If the second
   * is added to the memory of the first as it is computed, the node has nothing
   * to do. The writer of the second must honour TN_REQ_ADD. */
  bool sum;
  const char *name; /* for messages; may be NULL */
} tn__plan_node;

typedef struct tn__plan_net {
  const tn__plan_node *nodes;
  size_t n_nodes;
  const tn__plan_entry *entries;
  size_t n_entries;
} tn__plan_net;

/* Checks the tables of a net. Entry and node numbers are in range. Every entry
 * has at most one writer, and an entry without a writer is EXTERNAL. Each entry
 * is written before it is read. Pairs name inputs and outputs of their node.
 * Otherwise TN_INVALID, with a message that names the node. */
tn_code tn__plan_net_check(const tn__env *env,
                           const tn__plan_net *net) TN_MUST_USE;

/* Sets *out to whether two of the nodes in `which`, a flag for each node, could
 * run at the same time: neither waits for the other. In nets of very many
 * branches it may be true where false would be right. */
tn_code tn__plan_net_has_branches(const tn__env *env, const tn__plan_net *net,
                                  const bool *which, bool *out) TN_MUST_USE;

/* ------------------------------------------------------------------ options */

typedef struct tn__plan_options {
  bool no_inplace;    /* no output in the memory of an input */
  bool no_share;      /* no storage in the memory of another */
  bool no_accumulate; /* sums are computed as written */
  /* Nodes that do not wait for each other's data do not wait for each
   * other's memory either. Only nodes that come after all users of a storage
   * may use it again, whatever the order of execution. Costs memory. */
  bool parallel;
  size_t align; /* of storages and workspaces: a power of two; 0 is 64 */
} tn__plan_options;

/* ------------------------------------------------------------------- answer */

enum {
  TN__STORAGE_NONE = -1,     /* no node reads it: nothing is written */
  TN__STORAGE_EXTERNAL = -2, /* memory of the caller */
  TN__STORAGE_DYNAMIC = -3   /* allocated when its size is known */
};

typedef struct tn__plan_place {
  int32_t storage; /* number, or TN__STORAGE_* */
  /* Under TN_REQ_INPLACE the input of its writer that shares its memory,
   * otherwise -1. If that pair is an identity, the output needs no
   * computation. */
  int32_t alias;
  tn_req request; /* for its writer; WRITE for EXTERNAL entries, whose request
                   * only the caller knows */
} tn__plan_place;

/* Memory of one entry at a time, or of several that share it by right. */
typedef struct tn__plan_storage {
  size_t bytes;
  size_t offset; /* in the pool of its device */
  int32_t device;
  uint32_t first; /* the node that writes it first */
  uint32_t last;  /* the last node that uses it; n_nodes if it is kept */
} tn__plan_storage;

/* The memory of one device. */
typedef struct tn__plan_pool {
  int32_t device;
  size_t bytes; /* bytes to allocate for the offsets of all storages */
  /* Total size if each storage were an allocation of its own. */
  size_t separate;
  size_t workspace; /* the largest of one node */
  /* The most bytes that are live at one node, after in-place, in this order. No
   * plan for the same storages needs fewer. */
  size_t lower_bound;
} tn__plan_pool;

typedef struct tn__memory_plan {
  tn__plan_place *places; /* by entry */
  size_t *workspaces;     /* by node: offset in the pool of its device */
  bool *skipped;          /* by node: a sum that its terms have computed */
  tn__plan_storage *storages;
  size_t n_storages;
  tn__plan_pool *pools;
  size_t n_pools;
  tn__arena arena; /* all of the above */
} tn__memory_plan;

/* Makes a plan. On failure (TN_INVALID as tn__plan_net_check, TN_OUT_OF_MEMORY)
 * *plan needs no deinit. Deterministic: equal nets get equal plans. */
tn_code tn__memory_plan_init(tn__memory_plan *plan, const tn__env *env,
                             const tn__plan_net *net,
                             const tn__plan_options *options) TN_MUST_USE;
void tn__memory_plan_deinit(tn__memory_plan *plan);

/* Sums over the pools. */
size_t tn__memory_plan_bytes(const tn__memory_plan *plan);
size_t tn__memory_plan_lower_bound(const tn__memory_plan *plan);

#endif /* TENON_PLAN_PLAN_H_ */
