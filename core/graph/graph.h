/* SPDX-License-Identifier: Apache-2.0
 * graph.h: graphs of operators, the passes over them, and programs. The folder
 * uses everything but core/runtime, core/tape and core/exchange. First come the
 * functions that implement tenon/graph.h; the files of this folder share the
 * rest.
 *
 * files:
 *   graph.c            nodes, their lifetime, their names
 *   graph_call.c       adds calls: inputs by position or name, variables
 *   compose.c          graphs in graphs: embed, loop, compose
 *   copy_nodes.c       copies nodes of one graph into another, flat or not
 *   graph_copy.c       copies whole graphs; pass "flatten"
 *   attr.c             attributes and scopes
 *   graph_query.c      finds nodes, lists variables and children
 *   order.c            the nodes that some entries need, depth first
 *   element_reads.c    variables of which heads read elements
 *   json_*.c           to and from JSON (json.h)
 *   graph_infer.c      pass "infer": shapes and types; infer_*.c (facts.h)
 *   gradient_pass.c    pass "gradient"; gradient_rule*.c (gradient_rule.h)
 *   gradient_names.c   the same with names of entries
 *   placement.c        devices of nodes, copies between devices
 *   program_bind.c     makes a program of a graph (program.h has its stations)
 *   program.c          lifetime and runs; partial_run.c runs step by step
 *   dynamic_params.c   parameters that change between runs
 *   program_inspect.c  bytes of a program; its steps as a table and as JSON
 *   program_reshape.c  the same program for other shapes
 *   passes.c           lists of passes, built-in and of plugins (passes.h)
 *   rewrite.c          the functions that a plugin's pass calls
 *   reorder.c          orders and checks the nodes after a pass
 */
#ifndef TENON_CORE_GRAPH_H_
#define TENON_CORE_GRAPH_H_

#include "ndarray.h"
#include "tenon/graph.h"

/* ------------------------------------------------------------------- nodes */

enum {                        /* tn__node.kind */
       TN__NODE_VARIABLE = 0, /* no inputs, one output */
       TN__NODE_CALL = 1,     /* a call of `op` */
       TN__NODE_BACKWARD = 2, /* the gradient of node `of`, computed by its
                                 operator's backward kernel. Inputs: the
                                 gradients of its outputs, its inputs, its
                                 outputs; those that are not needed are
                                 TN_ENTRY_NONE. Outputs: one gradient per
                                 input */
       TN__NODE_SUM = 3,      /* sum of two or more entries of one shape */
       TN__NODE_ZERO = 4,     /* zeros or ones of the shape of in[0]; */
       TN__NODE_ONE = 5,      /* its elements are not read */
       TN__NODE_COPY = 6,     /* copy of in[0], possibly on another device */
       TN__NODE_GRAPH = 7,    /* `inner` used as an operator */
       TN__NODE_LOOP = 8      /* one run of `inner` per step (tn__loop) */
};
enum { TN__N_KINDS = TN__NODE_LOOP + 1 };
extern const char *const tn__node_kinds[TN__N_KINDS]; /* their names */

enum {                              /* tn__node.flags */
       TN__NODE_STATE = 1u << 0,    /* variable that a call changes */
       TN__NODE_REPEATED = 1u << 1, /* computed a second time: a copy of node
                                       `of`, with its name and a ' */
       TN__NODE_GRADIENT = 1u << 2  /* added by the gradient pass */
};

/* The loop of a LOOP node. The variables of the step graph are the node's
 * inputs, in their order. Outputs of the node: the last states; the other heads
 * of the step, one element per step; and hidden ones that only the loop's
 * gradient reads: each state before each step, then the outputs of the step's
 * nodes that must not be computed twice. */
typedef struct tn__loop {
  uint32_t n_sequences;
  uint32_t n_states;
  uint32_t n_kept;
  uint32_t reverse;
  const uint32_t *sequences; /* positions among the inputs */
  const uint32_t *states;
  const tn_entry *kept; /* entries of the step graph: all outputs of these
                           nodes that its heads need */
} tn__loop;

/* One node. The graph's arena contains it and its lists. */
typedef struct tn__node {
  uint32_t kind;
  uint32_t flags;
  uint32_t id;    /* position in graph->nodes */
  uint32_t first; /* number of its first output among all entries */
  uint32_t n_in;  /* states not included */
  uint32_t n_aux;
  uint32_t n_out;
  uint32_t of; /* TN_NONE, or see kind and flags */
  const char *name;
  tn_entry *in;        /* n_in, then n_aux; entries of earlier nodes, or
                          TN_ENTRY_NONE */
  uint32_t *in_flags;  /* n_in: 0, or TN_IN_METADATA if only the shape is
                          read; NULL: all 0 */
  tn_operator *op;     /* CALL, BACKWARD: held by the graph */
  const tn_op *desc;   /* of op */
  tn_params *params;   /* retained; NULL: all defaults */
  tn_attribute *attrs; /* sorted by key; from the environment's allocator */
  uint32_t n_attrs;
  uint32_t n_after; /* control dependencies: nodes that come before it */
  const uint32_t *after;
  tn_graph *inner;                /* GRAPH, LOOP: owned */
  const tn__loop *loop;           /* LOOP */
  tn_sig known;                   /* VARIABLE: type and shape at its creation */
  const tn_operator *gradient_of; /* CALL that a gradient added: the
                                     differentiated operator; for messages,
                                     or NULL */
} tn__node;

enum { /* tn_graph.facts: results that are valid; a new node and new heads
          invalidate LISTS */
       TN__FACT_SHAPES = 1u << 0,
       TN__FACT_LISTS = 1u << 1
};

struct tn_graph {
  tn__caller *caller;
  const tn__env *env; /* of caller; kept alive */
  tn__arena arena;
  tn__vec nodes; /* of tn__node * */
  tn__map names; /* name -> tn__node * */
  tn__map stems; /* stem -> uint64_t *, in the arena: the next number */
  uint32_t n_entries;
  uint32_t facts;
  tn_entry *heads; /* in the arena */
  size_t n_heads;
  const tn_entry *arguments; /* then states; in the arena */
  uint32_t n_arguments;
  uint32_t n_states;
  tn_sig *sigs;    /* n_sigs, from the environment's allocator; or NULL */
  uint32_t *from;  /* two per entry: the node that added the last fact about
                      its shape, and about its dtype; TN_NONE: no node */
  uint32_t n_sigs; /* number of entries that the last inference covered */
  tn__vec scopes;  /* of tn__scope_attrs *, innermost last (attr.c) */
  char *prefix;    /* or NULL */
  uint64_t n_inherited; /* number of attributes that nodes inherited from the
                           nodes of outer graphs */
};

enum { TN__MOST_INHERITED = 1 << 22 }; /* about 400 MB */

static inline tn__node *tn__node_at(const tn_graph *graph, uint32_t id) {
  return graph->nodes.v[id];
}
static inline uint32_t tn__n_nodes(const tn_graph *graph) {
  return (uint32_t)graph->nodes.n;
}
static inline bool tn__entry_is_none(tn_entry entry) {
  return entry.node == TN_NONE;
}
static inline bool tn__entry_is_same(tn_entry a, tn_entry b) {
  return a.node == b.node && a.index == b.index;
}
/* Number of an entry among all entries of the graph. */
static inline uint32_t tn__entry_id(const tn_graph *graph, tn_entry entry) {
  return tn__node_at(graph, entry.node)->first + entry.index;
}
/* Declaration of actual input or output `i` of a CALL; a variadic one declares
 * many. NULL for nodes of other kinds. */
const tn_arg *tn__node_input(const tn__node *node, uint32_t i);
const tn_arg *tn__node_output(const tn__node *node, uint32_t i);
/* Number of visible outputs of a CALL; of other nodes, all outputs. */
uint32_t tn__node_count_visible(const tn__node *node);
/* Whether a second computation of the node gives the same result and changes
 * nothing: it has no states, and no kernel of its operators draws random
 * numbers. */
bool tn__node_is_repeatable(const tn__node *node);
/* Whether the node is a gradient with the name of its variable, "x@GRAD". */
#define TN__GRADIENT_SUFFIX "@GRAD"
bool tn__node_is_named_gradient(const tn__node *node);
/* The params struct that kernels and rules read, or NULL. */
const void *tn__node_struct(const tn__node *node);

/* ----------------------------------------------------------------- graph.c */

tn_code tn__graph_create(tn__caller *caller, tn_graph **out);
void tn__graph_release(tn_graph *graph); /* NULL is allowed */

/* Contents of a new node. tn__node_add copies the lists into the arena, holds
 * the operator and retains the params. On success the node owns `inner`. */
typedef struct tn__node_spec {
  uint32_t kind;
  uint32_t flags;
  uint32_t n_in;
  uint32_t n_aux;
  uint32_t n_out;
  uint32_t of;      /* TN_NONE */
  const char *name; /* NULL: `stem` and a number */
  const char *stem;
  const tn_entry *in;
  const uint32_t *in_flags; /* or NULL */
  tn_operator *op;
  tn_params *params;
  tn_graph *inner;
  const tn__loop *loop; /* copied */
  const tn_sig *known;  /* or NULL */
  const tn_operator *gradient_of;
  const uint32_t *after;
  uint32_t n_after;
} tn__node_spec;

/* Appends a node; its entries must exist. A failure leaves the graph unchanged:
 * TN_EXISTS, TN_INVALID (a bad name), TN_OUT_OF_MEMORY. Does not add attributes
 * of scopes. */
tn_code tn__node_add(tn_graph *graph, const tn__node_spec *spec,
                     tn__node **out);
enum { TN__NAME_MAX = 200 }; /* bytes of a node's name */
/* The name of a new node, in the arena: `name` after a check, or `stem` with
 * the first number that makes it unique. */
tn_code tn__graph_name_make(tn_graph *graph, const char *name, const char *stem,
                            const char **out);
/* Makes the next name with `stem` skip one number, whether or not a node has
 * it. */
tn_code tn__graph_name_skip(tn_graph *graph, const char *stem);
/* Releases the resources of a node that has left the graph. */
void tn__node_drop(const tn_graph *graph, tn__node *node);
/* Removes the nodes from number `n` on. A function that adds several nodes
 * calls this when it fails. */
void tn__graph_truncate(tn_graph *graph, uint32_t n);
/* TN_INVALID if the graph does not have the entry; `what` names it in the
 * message. */
tn_code tn__entry_check(const tn_graph *graph, tn_entry entry,
                        const char *what);
/* Puts the node before the text of the current failure and returns `code`:
 * "node `fc1` (nn.fully_connected@1): ...". */
tn_code tn__node_fail(const tn__node *node, tn_code code);
/* Writes a name like "fc1_output" into `to`, which has TN__ENTRY_TEXT bytes. */
enum { TN__ENTRY_TEXT = 256 };
const char *tn__entry_text(const tn_graph *graph, tn_entry entry, char *to);

tn_sig tn__sig_unknown(void);
bool tn__sig_is_complete(const tn_sig *sig);
/* Checks a signature that a variable may get; errors name the variable. */
tn_code tn__sig_check(const char *name, const tn_sig *sig);

tn_code tn__graph_variable(tn_graph *graph, const char *name,
                           const tn_sig *known, tn_entry *out);
/* NULL and "": no prefix. TN_INVALID if no name may begin with it. */
tn_code tn__graph_prefix(tn_graph *graph, const char *prefix);
tn_code tn__graph_heads_set(tn_graph *graph, const tn_entry *heads, size_t n);
tn_code tn__graph_depends(tn_graph *graph, uint32_t node, uint32_t on);

/* ---------------------------------------------- graph_call.c, compose.c ... */

tn_code tn__graph_call(tn_graph *graph, const tn_graph_node *what,
                       tn_entry *out);
tn_code tn__graph_copy(const tn_graph *graph, tn_graph **out);
tn_code tn__graph_embed(tn_graph *graph, const tn_embedding *what,
                        tn_entry *out);
tn_code tn__graph_loop(tn_graph *graph, const tn_loop *what, tn_entry *out);
tn_code tn__graph_compose(tn_graph *graph, const tn_graph *other,
                          const char *const *names, const tn_entry *entries,
                          size_t n, tn_entry *heads);

/* Copies nodes of `from`, in their order, to the end of `to`. `map` has an
 * entry for each entry of `from`. An entry that is not TN_ENTRY_NONE replaces
 * the original (for variables); the function fills in the others. Copies only
 * nodes with wanted[id]; `wanted` NULL: all. If `prefix` is not NULL, names
 * begin with it and '/'. */
tn_code tn__graph_paste(tn_graph *to, const tn_graph *from,
                        const uint8_t *wanted, const char *prefix,
                        tn_entry *map);
/* Copies all nodes, and replaces each GRAPH node by the nodes of its graph that
 * its heads need, "<node>/<name>". They inherit its attributes. Steps of loops
 * stay as they are. */
tn_code tn__graph_paste_flat(tn_graph *to, const tn_graph *from, tn_entry *map);
/* A map without replacements; NULL without memory. The caller frees it with the
 * environment's allocator. */
tn_entry *tn__graph_create_map(const tn_graph *from);

/* attr.c */
tn_code tn__attribute_set(tn_graph *graph, uint32_t node, const char *key,
                          const char *value);
const char *tn__attribute_get(const tn__node *node, const char *key);
tn_code tn__attributes_json(const tn_graph *graph, tn_text **out);
/* Sets the attributes of a node that has none; `sorted` is in order of keys.
 * Copies the texts. */
tn_code tn__attributes_set_sorted(const tn_graph *graph, tn__node *node,
                                  const tn_attribute *sorted, uint32_t n);
/* Adds those attributes of `from` that `node` does not have. TN_OUT_OF_RANGE if
 * the graph would have more than TN__MOST_INHERITED. */
tn_code tn__attributes_inherit(tn_graph *graph, tn__node *node,
                               const tn__node *from);
tn_code tn__scope_push(tn_graph *graph, const tn_attribute *attributes,
                       size_t n);
tn_code tn__scope_pop(tn_graph *graph);
/* Sets the attributes of all scopes, then `own`, on a new node. */
tn_code tn__scopes_apply(tn_graph *graph, tn__node *node,
                         const tn_attribute *own, size_t n);

/* graph_query.c */
tn_code tn__graph_find(const tn_graph *graph, const char *name, tn_entry *out);
tn_code tn__graph_name(tn_graph *graph, uint32_t list, size_t index,
                       const char **name, tn_entry *entry);
/* The variables that the heads depend on: arguments in depth-first order, then
 * states. Borrowed until the graph changes. */
tn_code tn__graph_variables(tn_graph *graph, const tn_entry **out,
                            uint32_t *n_arguments, uint32_t *n_states);

/* element_reads.c: for each variable inside of a GRAPH or LOOP node, in this
 * order, whether the node reads its elements; of the others it reads only the
 * shape. The caller frees *out. */
tn_code tn__inner_list_reads(const tn__node *node, bool **out);
/* Whether any node reads the elements of input `i`. States of operators count
 * as inputs, and nodes always read them. `inside` is the list above if the node
 * is a GRAPH or LOOP. */
bool tn__node_reads_input(const tn__node *node, const bool *inside, uint32_t i);

/* json_*.c; with `inferred`, tn_graph_inferred_json. */
tn_code tn__graph_json(const tn_graph *graph, bool inferred, tn_text **out);
tn_code tn__graph_parse(tn__caller *caller, const char *json, size_t bytes,
                        tn_graph **out);
tn_code tn__graph_save(const tn_graph *graph, const char *path);
tn_code tn__graph_load(tn__caller *caller, const char *path, tn_graph **out);

/* ------------------------------------------------------------------ order.c */

/* The nodes that `heads` need, each after the nodes that it reads. The order is
 * depth-first post-order from the first head on: inputs from left to right,
 * then control dependencies. Inputs of which only the shape is read count as
 * well. `ids` is from the environment's allocator; the caller frees it. The
 * algorithm is iterative: only memory bounds the depth. */
typedef struct tn__order {
  uint32_t *ids;
  uint32_t n;
} tn__order;
tn_code tn__order_make(const tn_graph *graph, const tn_entry *heads,
                       size_t n_heads, tn__order *out);
/* The same order for nodes to be computed. If one of them changes a state, the
 * order keeps the other uses of this state before and after it, as in the
 * graph. The heads before *n_first are needed first; *n_first becomes the
 * number of nodes that they need. */
tn_code tn__order_steps(const tn_graph *graph, const tn_entry *heads,
                        uint32_t *n_first, size_t n_heads, tn__order *out);
/* The same as tn__order_make, but gradients follow the calls that they belong
 * to, and bring them along. For a graph with a cycle it is an order of all
 * nodes, in which some precede nodes that they read. */
tn_code tn__order_all(const tn_graph *graph, const tn_entry *heads,
                      size_t n_heads, tn__order *out);

/* ------------------------------------------------------------ graph_infer.c */

/* Pass "infer": fills graph->sigs and graph->from. `known` is that of
 * tn_graph_infer. */
tn_code tn__graph_infer(tn_graph *graph, const tn_known *known, size_t n);
/* Continues the last inference after nodes were added. It visits an old node
 * only if an entry of this node gets a new fact. */
tn_code tn__graph_infer_more(tn_graph *graph);
tn_code tn__graph_sig(const tn_graph *graph, tn_entry entry, tn_sig *out);
/* Drops the facts of all inferences. */
void tn__graph_drop_facts(tn_graph *graph);
/* The signature of an entry that the last inference covered. */
static inline const tn_sig *tn__entry_sig(const tn_graph *graph,
                                          tn_entry entry) {
  return &graph->sigs[tn__entry_id(graph, entry)];
}

/* ---------------------------------------------------------- gradient_pass.c */

enum {
  TN__GRADIENT_COMPAT = 1u << 0,  /* as in MXNet 0.12: GRD-05 to GRD-08 */
  TN__GRADIENT_INFERRED = 1u << 1 /* all facts that heads need are inferred */
};

/* Pass "gradient": tn_graph_gradient. With `optional`, results that no gradient
 * reaches are TN_ENTRY_NONE, not zeros or a failure. Two results may be one
 * entry, and a result may be one of `weights`; a caller that needs separate
 * ones copies them. With TN__GRADIENT_COMPAT the second one is a COPY. */
typedef struct tn__gradient_spec {
  tn_gradient_query query;
  uint32_t flags; /* TN__GRADIENT_* */
  uint32_t optional;
} tn__gradient_spec;
tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out);

/* gradient_names.c */
tn_code tn__graph_backward(tn_graph *graph, const tn_gradient_names *what);

/* gradient_check.c: TN_INVALID if an operand of a backward node is no operand
 * of its forward call, or if a used gradient needs an operand that is missing:
 * its kernel would read it. */
tn_code tn__gradients_check(const tn_graph *graph);

/* ------------------------------------------------------------- graph_copy.c */

/* Pass "flatten": a new graph without GRAPH nodes, but for those in the steps
 * of loops. Nodes and variables keep their names, unused variables included. */
tn_code tn__graph_flatten(const tn_graph *graph, tn_graph **out);

/* ---------------------------------------------------------------- passes.c */

tn_code tn__graph_apply(const tn_graph *graph, const char *const *passes,
                        size_t n, tn_graph **out);
tn_code tn__pass_at(tn__registry *registry, size_t index, tn_pass_info *out);
/* The table of the extension TN_PASS_EXTENSION for plugins (rewrite.c). */
extern const tn_passes tn__passes_table;

/* ------------------------------------------------ program_bind.c, program.c */

tn_code tn__program_bind(const tn_graph *graph, const tn_bind *how,
                         tn_program **out);
void tn__program_release(tn_program *p); /* NULL is allowed */
const tn__env *tn__program_env(const tn_program *p);
/* Whether a monitor of the program is running. */
bool tn__program_is_watched(const tn_program *p);
tn_code tn__program_forward(tn_program *p, uint32_t flags);
tn_code tn__program_backward(tn_program *p, tn_array *const *weights, size_t n);
tn_code tn__program_array(const tn_program *p, uint32_t what, const char *name,
                          tn_array **out);
tn_code tn__program_output(const tn_program *p, size_t index, tn_array **out);
tn_code tn__program_forward_part(tn_program *p, uint32_t flags, size_t steps,
                                 size_t *left);
tn_code tn__program_set(tn_program *p, const char *node, const tn_value *value);
tn_code tn__program_monitor(tn_program *p, tn_monitor_fn *fn, void *ctx);
tn_code tn__program_reshape(tn_program *p, const tn_known *known, size_t n,
                            tn_program **out);
void tn__program_stats(const tn_program *p, tn_program_stats *out);
tn_code tn__program_text(const tn_program *p, uint32_t why, tn_text **out);
tn_code tn__program_json(const tn_program *p, tn_text **out);
/* capture.c */
tn_code tn__program_captured(tn_program *p, uint32_t part, tn_text **why);
/* Adds a line per part to a table of steps if the program records runs. */
void tn__capture_print(const tn_program *p, tn__buf *out);

#endif /* TENON_CORE_GRAPH_H_ */
