/* SPDX-License-Identifier: Apache-2.0
 * json.h: the state that reading and writing a graph as JSON share.
 * docs/how-to/graph.md describes the format.
 *
 * files:
 *   json_write.c    writes a graph as text, and to a file
 *   json_read.c     reads text into graphs: plugins, drafts of nodes, heads
 *   json_keys.c     reads a node, key by key
 *   json_node.c     adds the node of a draft, if the library could have made it
 *   json_missing.c  collects names that the registry does not have
 */
#ifndef TENON_GRAPH_JSON_H_
#define TENON_GRAPH_JSON_H_

#include "files.h"
#include "graph.h"

/* Writes the graph as JSON; if `inferred` is true, with the shapes and types,
 * as tn_graph_inferred_json. */
tn_code tn__graph_json(const tn_graph *graph, bool inferred, tn_text **out);
tn_code tn__graph_parse(tn__caller *caller, const char *json, size_t bytes,
                        tn_graph **out);
tn_code tn__graph_save(const tn_graph *graph, const char *path);
tn_code tn__graph_load(tn__caller *caller, const char *path, tn_graph **out);

enum {
  TN__JSON_VERSION = 1,
  TN__JSON_DEPTH = 32 /* maximal depth of nested graphs; the outermost graph
                         counts */
};

enum { /* The keys that a node may have in a file. Each is a bit of
          tn__node_draft.seen, in the order of the names in tn__draft_keys. */
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

/* Access to a tn__buf that is used as a list of numbers or structs. A list
 * keeps its memory when it is emptied. */
#define TN__LIST(type, buf) ((type *)(void *)(buf).s)
#define TN__LENGTH(type, buf) ((uint32_t)((buf).n / sizeof(type)))

/* The content of one node in a file, before the node exists. Texts are borrowed
 * from the text of the file. The lists are reused for each node. */
typedef struct tn__node_draft {
  const char *at; /* begin of the node */
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
  tn_graph *inner;    /* owned until a node owns it */
} tn__node_draft;

/* ----------------------------------------------------------------- reading */

/* A text and the progress of reading it. */
typedef struct tn__graph_reader {
  tn__json json; /* first member, so that its function `fail` can find the other
                    members */
  tn__caller *caller;
  const tn__env *env;
  tn__map missing_names; /* names of the operators that `missing` or `unknown`
                            contains already */
  tn__buf missing;       /* missing plugins, for the message */
  tn__buf unknown;       /* text for the message: operators that their loaded
                            plugins do not have */
  uint32_t n_missing;
  uint32_t n_unnamed; /* number of missing plugins and operators for which the
                         message has no space */
} tn__graph_reader;

/* One of the graphs in the text. */
typedef struct tn__graph_level {
  tn_graph *graph;
  uint32_t depth;
  uint32_t n_nodes; /* number of nodes read so far; graph->nodes has as many,
                       unless names are missing */
  tn__node_draft draft;
} tn__graph_level;

/* Fails with TN_INVALID; the message is `what` after the place in the file. */
tn_code tn__json_fail_at(const tn__graph_reader *r, const char *at,
                         uint64_t line, const char *what);
tn_code tn__json_number32(tn__graph_reader *r, uint32_t *out);
/* Reads one item of a list. */
typedef tn_code tn__item_fn(tn__graph_reader *r, tn__graph_level *l, void *to);
tn_code tn__json_list(tn__graph_reader *r, tn__graph_level *l,
                      tn__item_fn *item, void *to);
/* Reads the key of a member, and the colon after it. */
tn_code tn__json_key(tn__graph_reader *r, const char **out);
/* Reads the index of a key among `n` names into *out. Fails if its bit in *seen
 * is set already, because a key may occur once. */
tn_code tn__json_key_of(tn__graph_reader *r, const char *const *names,
                        uint32_t n, uint32_t *seen, uint32_t *out);
/* Appends an entry to a tn__buf. */
tn_code tn__json_entry_item(tn__graph_reader *r, tn__graph_level *l, void *to);
/* Reads a key of a node and its value into the draft. */
tn_code tn__json_node_key(tn__graph_reader *r, tn__graph_level *l);
/* Reads an inner graph into the draft. */
tn_code tn__json_inner(tn__graph_reader *r, tn__graph_level *l);

/* Notes, for the message of tn__json_check_found, a plugin or an operator that
 * the registry does not have. */
void tn__json_note_missing(tn__graph_reader *r, const char *what,
                           const char *name, const char *detail);
tn_code tn__json_note_missing_operator(tn__graph_reader *r,
                                       const tn__node_draft *draft);
/* Fails with TN_NOT_FOUND if plugins or operators were noted as missing; the
 * message names all of them. */
tn_code tn__json_check_found(const tn__graph_reader *r);

/* ---------------------------------------------------------------- new nodes */

/* Adds the node of a draft to the graph, which has every entry that the draft
 * reads. Fails with TN_NOT_FOUND only if the operator is not loaded. The
 * message of another failure describes the mistake in the node, not its place
 * in the file. */
tn_code tn__draft_add_node(tn__node_draft *draft, tn_graph *graph);

#endif /* TENON_GRAPH_JSON_H_ */
