/* SPDX-License-Identifier: Apache-2.0
 * json.h: what those who write and who read a graph as JSON share. The format
 * is described in docs/graph.md.
 *
 * files: json_write.c  a graph becomes text, and a file
 *        json_read.c   text becomes graphs: plugins, drafts of nodes, heads
 *        json_keys.c   what is said of a node, key by key
 *        json_node.c   a draft becomes a node, if it is one that the library
 *                      could have made
 *        json_lost.c   names that the registry lacks
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

enum { /* keys of a node: bits of tn__node_draft.seen, in order of
          tn__draft_keys */
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
       TN__KEY_ATTRIBUTES = 1u << 15,
       TN__KEY_KEPT = 1u << 16
};
enum { TN__N_KEYS = 17 };
extern const char *const tn__draft_keys[TN__N_KEYS];

/* A list of plain values in a growing string, which keeps its memory when it is
 * emptied. */
#define TN__LIST(type, buf) ((type *)(void *)(buf).s)
#define TN__LENGTH(type, buf) ((uint32_t)((buf).n / sizeof(type)))

/* What a file says of one node. Texts are borrowed from the text that is read;
 * lists are used for one node after the other. */
typedef struct tn__node_draft {
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
  tn__buf kept;       /* tn_entry, of the inner graph */
  tn__buf after;      /* uint32_t */
  tn__buf attributes; /* tn_attribute */
  tn_graph *inner;    /* owned until it is a node's */
} tn__node_draft;

/* ----------------------------------------------------------------- reading */

/* A text that is being read. */
typedef struct tn__graph_reader {
  tn__json json; /* first, so that its `fail` finds the others */
  tn__caller *caller;
  const tn__env *env;
  tn__map lost_names; /* operators that are in `lost` or `unknown` */
  tn__buf lost;       /* what is not loaded, for the message */
  tn__buf unknown;    /* operators that a loaded plugin does not have */
  uint32_t n_lost;
  uint32_t n_unnamed; /* of them, those for which the message has no room */
} tn__graph_reader;

/* One of the graphs in it. */
typedef struct tn__graph_level {
  tn_graph *graph;
  uint32_t depth;
  uint32_t n_nodes; /* read so far; graph->nodes, unless something is lost */
  tn__node_draft draft;
} tn__graph_level;

/* TN_INVALID with the place before it. */
tn_code tn__json_fail_at(const tn__graph_reader *r, const char *at,
                         uint64_t line, const char *what);
tn_code tn__json_number32(tn__graph_reader *r, uint32_t *out);
/* Reads one item of a list. */
typedef tn_code tn__item_fn(tn__graph_reader *r, tn__graph_level *l, void *to);
tn_code tn__json_list(tn__graph_reader *r, tn__graph_level *l,
                      tn__item_fn *item, void *to);
/* A member's key, and the colon behind it. */
tn_code tn__json_key(tn__graph_reader *r, const char **out);
/* Its number among `n` names; it may come once: bits of *seen. */
tn_code tn__json_key_of(tn__graph_reader *r, const char *const *names,
                        uint32_t n, uint32_t *seen, uint32_t *out);
/* Appends an entry to a tn__buf. */
tn_code tn__json_entry_item(tn__graph_reader *r, tn__graph_level *l, void *to);
/* A key of a node with what follows it, into the draft. */
tn_code tn__json_node_key(tn__graph_reader *r, tn__graph_level *l);
/* An inner graph, into the draft. */
tn_code tn__json_inner(tn__graph_reader *r, tn__graph_level *l);

/* Notes a plugin, or the operator of a draft, that the registry lacks. */
void tn__json_note_missing(tn__graph_reader *r, const char *what,
                           const char *name, const char *detail);
tn_code tn__json_note_missing_operator(tn__graph_reader *r,
                                       const tn__node_draft *draft);
/* TN_NOT_FOUND with all that was noted. */
tn_code tn__json_check_found(const tn__graph_reader *r);

/* --------------------------------------------------------------- nodes made */

/* Adds the node to the graph. Every entry of the draft is one of the graph's.
 * TN_NOT_FOUND only if the operator is not loaded; other failures say what is
 * wrong with the node, not where it is. */
tn_code tn__draft_add_node(tn__node_draft *draft, tn_graph *graph);

/* TN_INVALID unless every BACKWARD node reads what its call has, and all that
 * those of its outputs need which somebody uses: its kernel would read what is
 * not there. */
tn_code tn__gradients_check(const tn_graph *graph);

#endif /* TENON_GRAPH_JSON_H_ */
