/* SPDX-License-Identifier: Apache-2.0
 * json.h: what those who write and who read a graph as JSON share. The format
 * is described in docs/graph.md.
 *
 * files: json_write.c  a graph becomes text, and a file
 *        json_read.c   text becomes drafts of nodes, lists and heads
 *        json_node.c   a draft becomes a node, if it is one that the library
 *                      could have made
 *        json_check.c  gradients have what their kernels read
 */
#ifndef TENON_GRAPH_JSON_H_
#define TENON_GRAPH_JSON_H_

#include "files.h"
#include "graph.h"

enum {
  TN__JSON_VERSION = 1,
  TN__JSON_DEPTH = 32 /* graphs in graphs, the outermost included */
};

enum { TN__N_KINDS = TN__NODE_LOOP + 1 };
extern const char *const tn__node_kinds[TN__N_KINDS]; /* by TN__NODE_* */

enum { /* keys of a node: bits of tn__draft.seen, in order of tn__draft_keys */
       TN__KEY_NAME = 1u << 0,
       TN__KEY_KIND = 1u << 1,
       TN__KEY_DTYPE = 1u << 2,
       TN__KEY_SHAPE = 1u << 3,
       TN__KEY_OP = 1u << 4,
       TN__KEY_PARAMS = 1u << 5,
       TN__KEY_OF = 1u << 6,
       TN__KEY_INPUTS = 1u << 7,
       TN__KEY_STATES = 1u << 8,
       TN__KEY_SEQUENCES = 1u << 9,
       TN__KEY_CARRIED = 1u << 10,
       TN__KEY_REVERSE = 1u << 11,
       TN__KEY_GRAPH = 1u << 12,
       TN__KEY_AFTER = 1u << 13,
       TN__KEY_GRADIENT = 1u << 14,
       TN__KEY_ATTRIBUTES = 1u << 15
};
enum { TN__N_KEYS = 16 };
extern const char *const tn__draft_keys[TN__N_KEYS];

/* A list of plain values in a growing string, which keeps its memory when it is
 * emptied. */
#define TN__LIST(type, buf) ((type *)(void *)(buf).s)
#define TN__LENGTH(type, buf) ((uint32_t)((buf).n / sizeof(type)))

/* What a file says of one node. Texts are borrowed from the text that is read;
 * lists are used for one node after the other. */
typedef struct tn__draft {
  const char *at; /* where the node begins */
  uint64_t line;
  uint32_t seen; /* TN__KEY_* */
  uint32_t kind;
  const char *name;
  const char *op;
  const char *params;
  uint32_t of;
  bool reverse;
  tn_sig known;
  tn__buf in;         /* tn_entry */
  tn__buf flags;      /* uint32_t, for each of `in` */
  tn__buf states;     /* tn_entry */
  tn__buf sequences;  /* uint32_t */
  tn__buf carried;    /* uint32_t */
  tn__buf after;      /* uint32_t */
  tn__buf attributes; /* tn_attribute */
  tn_graph *inner;    /* owned until it is a node's */
} tn__draft;

/* Adds the node to the graph. Every entry of the draft is one of the graph's.
 * TN_NOT_FOUND only if the operator is not loaded; other failures say what is
 * wrong with the node, not where it is. */
tn_code tn__draft_enter(tn__draft *draft, tn_graph *graph);

/* TN_INVALID unless every BACKWARD node reads what its call has, and all that
 * those of its outputs need which somebody uses: its kernel would read what is
 * not there. */
tn_code tn__gradients_check(const tn_graph *graph);

#endif /* TENON_GRAPH_JSON_H_ */
