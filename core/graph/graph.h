/* SPDX-License-Identifier: Apache-2.0
 * graph.h: graphs of operators. First come the functions that implement
 * tenon/graph.h; the files of this folder and of those above it share the rest.
 *
 * files:
 *   graph.c          nodes, their lifetime, their names
 *   graph_call.c     adds calls: inputs by position or name, variables
 *   compose.c        graphs in graphs: embed, loop, compose
 *   copy_nodes.c     copies nodes of one graph into another, flat or not
 *   graph_copy.c     copies whole graphs; pass "flatten"
 *   attr.c           attributes and scopes
 *   graph_query.c    finds nodes, lists variables and children
 *   order.c          the nodes that some entries need, depth first
 *   element_reads.c  variables of which heads read elements
 *   graph_infer.c    pass "infer": shapes and types; infer_*.c (facts.h)
 */
#ifndef TENON_CORE_GRAPH_H_
#define TENON_CORE_GRAPH_H_

#include "calls.h"
#include "tenon/graph.h"

/* ------------------------------------------------------------------- nodes */

enum {                        /* tn__node.kind */
       TN__NODE_VARIABLE = 0, /* no inputs, one output */
       TN__NODE_CALL = 1,     /* a call of `op` */
       /* one call of the backward kernel of the node with number `of`. Inputs:
        * the gradients of that node's outputs, then its inputs, then its
        * outputs; inputs that the kernel does not need are TN_ENTRY_NONE.
        * Outputs: one gradient per input of that node */
       TN__NODE_BACKWARD = 2,
       TN__NODE_SUM = 3,   /* sum of two or more entries of one shape */
       TN__NODE_ZERO = 4,  /* zeros with the shape of its input */
       TN__NODE_ONE = 5,   /* ones with the shape of its input */
       TN__NODE_COPY = 6,  /* copy of in[0], possibly on another device */
       TN__NODE_GRAPH = 7, /* `inner` used as an operator */
       TN__NODE_LOOP = 8   /* one run of `inner` per step (tn__loop) */
};
enum { TN__N_KINDS = TN__NODE_LOOP + 1 };
extern const char *const tn__node_kinds[TN__N_KINDS]; /* their names */

enum {                           /* tn__node.flags */
       TN__NODE_STATE = 1u << 0, /* the node is a variable that a call
                                    changes */
       /* the node computes something a second time: it is a copy of the node
        * with number `of`, with an apostrophe after the name */
       TN__NODE_REPEATED = 1u << 1,
       TN__NODE_GRADIENT = 1u << 2 /* added by the gradient pass */
};

/* The loop of a LOOP node. The node has the variables of the step graph as
 * inputs, in the same order. Its outputs are: the last states; for each other
 * head of the step graph, one element per step; and hidden outputs that only
 * the loop's gradient reads. The hidden ones are the state before each step,
 * and the outputs of nodes of the step that must not be computed twice. */
typedef struct tn__loop {
  uint32_t n_sequences;
  uint32_t n_states;
  uint32_t n_kept;
  uint32_t reverse; /* 1: the loop runs from the last element to the first */
  const uint32_t *sequences; /* positions of the sequences among the node's
                                inputs */
  const uint32_t *states;    /* positions of the initial states, likewise */
  const tn_entry *kept; /* entries of the step graph that the loop keeps for its
                           gradient: all outputs, if heads need them, of nodes
                           that must not be computed twice */
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
  uint32_t of; /* number of the node that this one is the gradient or a copy of;
                  TN_NONE: none */
  const char *name;
  tn_entry *in;        /* n_in inputs, then n_aux states: entries of earlier
                          nodes, or TN_ENTRY_NONE */
  uint32_t *in_flags;  /* for each input 0, or TN_IN_METADATA if the node reads
                          only its shape; NULL: all 0 */
  tn_operator *op;     /* CALL, BACKWARD: held by the graph */
  const tn_op *desc;   /* the tables of `op` */
  tn_params *params;   /* retained; NULL: all defaults */
  tn_attribute *attrs; /* sorted by key; from the environment's allocator */
  uint32_t n_attrs;
  uint32_t n_after;      /* number of control dependencies: nodes that must be
                            computed before this one */
  const uint32_t *after; /* numbers of those nodes */
  tn_graph *inner;       /* GRAPH, LOOP: owned */
  const tn__loop *loop;  /* LOOP */
  tn_sig known;          /* VARIABLE: type and shape at its creation */
  const tn_operator *gradient_of; /* of a CALL that the gradient of an operator
                                     added: that operator, for messages; or NULL
                                     */
} tn__node;

enum { /* bits of tn_graph.facts: cached results that are valid; a new node or
          new heads make LISTS invalid */
       TN__FACT_SHAPES = 1u << 0,
       TN__FACT_LISTS = 1u << 1
};

struct tn_graph {
  tn__caller *caller;
  const tn__env *env; /* of caller; kept alive */
  tn__arena arena;
  tn__vec nodes; /* of tn__node * */
  tn__map names; /* name -> tn__node * */
  tn__map stems; /* stem of a name -> uint64_t *, in the arena: the number of
                    the next name */
  uint32_t n_entries;
  uint32_t facts;
  tn_entry *heads; /* in the arena */
  size_t n_heads;
  const tn_entry *arguments; /* variables that the heads need: arguments, then
                                states; in the arena */
  uint32_t n_arguments;
  uint32_t n_states;
  tn_sig *sigs;    /* n_sigs, from the environment's allocator; or NULL */
  uint32_t *from;  /* two numbers per entry: the node that inferred its shape,
                      and the node that inferred its type; TN_NONE: no node */
  uint32_t n_sigs; /* number of entries that the last inference covered */
  tn__vec scopes;  /* of tn__scope_attrs *, innermost last (attr.c) */
  char *prefix;    /* of the names of new nodes; NULL: none */
  uint64_t n_inherited; /* number of attributes that nodes have inherited from
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
/* Number of an entry among all entries of the graph, in the order of nodes. */
static inline uint32_t tn__entry_id(const tn_graph *graph, tn_entry entry) {
  return tn__node_at(graph, entry.node)->first + entry.index;
}
/* Declaration of actual input or output `i` of a CALL; a variadic declaration
 * represents several of them. NULL for nodes of other kinds. */
const tn_arg *tn__node_input(const tn__node *node, uint32_t i);
const tn_arg *tn__node_output(const tn__node *node, uint32_t i);
/* Number of outputs that a user sees: of a CALL or LOOP without the hidden
 * ones, of other nodes all. */
uint32_t tn__node_count_visible(const tn__node *node);
/* Tests whether the node may be computed a second time: the result is the same
 * and nothing else changes. So the node has no states, and no kernel of its
 * operators draws random numbers. */
bool tn__node_is_repeatable(const tn__node *node);
/* Tests whether the node is the gradient of a variable, with its name and the
 * suffix, like "x@GRAD". */
#define TN__GRADIENT_SUFFIX "@GRAD"
bool tn__node_is_variable_gradient(const tn__node *node);
/* The params struct that kernels and rules read, or NULL. */
const void *tn__node_struct(const tn__node *node);

/* ----------------------------------------------------------------- graph.c */

tn_code tn__graph_create(tn__caller *caller, tn_graph **out);
void tn__graph_release(tn_graph *graph); /* NULL is allowed */

/* The content of a new node. tn__node_add copies the lists into the arena,
 * holds the operator and retains the parameters. If it succeeds, the node owns
 * `inner`. */
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

/* Appends a node; the entries that it reads must exist. A failure leaves the
 * graph unchanged: TN_EXISTS, TN_INVALID (a bad name), TN_OUT_OF_MEMORY. It
 * does not add the attributes of scopes. */
tn_code tn__node_add(tn_graph *graph, const tn__node_spec *spec,
                     tn__node **out);
enum { TN__NAME_MAX = 200 }; /* bytes of a node's name */
/* Makes the name of a new node, in the arena: `name` if it is valid and unused;
 * if it is NULL, `stem` with the first number that makes it unique. */
tn_code tn__graph_name_make(tn_graph *graph, const char *name, const char *stem,
                            const char **out);
/* Adds one to the number of the next name with `stem`, whether or not a node
 * uses the skipped name. */
tn_code tn__graph_name_skip(tn_graph *graph, const char *stem);
/* Releases the resources of a node that has left the graph. */
void tn__node_drop(const tn_graph *graph, tn__node *node);
/* Removes the nodes with number `n` and higher. A function that adds several
 * nodes calls it to undo them when it fails. */
void tn__graph_truncate(tn_graph *graph, uint32_t n);
/* Fails with TN_INVALID if the graph does not have the entry; `what` describes
 * the entry for the message. */
tn_code tn__entry_check(const tn_graph *graph, tn_entry entry,
                        const char *what);
/* Puts the name of the node before the current error text, as in "node `fc1`
 * (nn.fully_connected@1): ...". Returns `code`. */
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
/* Sets the prefix of the names of new nodes; NULL or "" is no prefix. Fails
 * with TN_INVALID if no name may begin with it. */
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

/* Copies nodes of `from`, in their order, to the end of `to`. `map` has one
 * item for each entry of `from`. If an item is not TN_ENTRY_NONE, readers of
 * that entry (of a variable) read the item instead; the function sets the other
 * items to the copied entries. Copies only nodes with wanted[id], or all if
 * `wanted` is NULL. If `prefix` is not NULL, the names of copies begin with it
 * and '/'. */
tn_code tn__graph_paste(tn_graph *to, const tn_graph *from,
                        const uint8_t *wanted, const char *prefix,
                        tn_entry *map);
/* Copies all nodes of `from`, and replaces each GRAPH node by the inner nodes
 * that its heads need. A copy of an inner node is named "<node>/<name>" and
 * inherits the attributes of the GRAPH node. Step graphs of loops are copied
 * unchanged. The map is that of tn__graph_paste. */
tn_code tn__graph_paste_flat(tn_graph *to, const tn_graph *from, tn_entry *map);
/* Creates a map for tn__graph_paste in which every item is TN_ENTRY_NONE; NULL
 * without memory. The caller frees it with the environment's allocator. */
tn_entry *tn__graph_create_map(const tn_graph *from);

/* attr.c */
tn_code tn__attribute_set(tn_graph *graph, uint32_t node, const char *key,
                          const char *value);
const char *tn__attribute_get(const tn__node *node, const char *key);
tn_code tn__attributes_json(const tn_graph *graph, tn_text **out);
/* Sets the attributes of a node that has none. `sorted` is in order of keys;
 * its texts are copied. */
tn_code tn__attributes_set_sorted(const tn_graph *graph, tn__node *node,
                                  const tn_attribute *sorted, uint32_t n);
/* Adds to `node` the attributes of `from` with keys that `node` does not have.
 * Fails with TN_OUT_OF_RANGE if all nodes would have inherited more than
 * TN__MOST_INHERITED. */
tn_code tn__attributes_inherit(tn_graph *graph, tn__node *node,
                               const tn__node *from);
tn_code tn__scope_push(tn_graph *graph, const tn_attribute *attributes,
                       size_t n);
tn_code tn__scope_pop(tn_graph *graph);
/* Sets on a new node the attributes of all scopes, then its own attributes
 * `own`, which replace those with the same keys. */
tn_code tn__scopes_apply(tn_graph *graph, tn__node *node,
                         const tn_attribute *own, size_t n);

/* graph_query.c */
tn_code tn__graph_find(const tn_graph *graph, const char *name, tn_entry *out);
tn_code tn__graph_name(tn_graph *graph, uint32_t list, size_t index,
                       const char **name, tn_entry *entry);
/* Lists the variables that the heads depend on: the arguments in depth-first
 * order, then the states. The list is borrowed until the graph changes. */
tn_code tn__graph_variables(tn_graph *graph, const tn_entry **out,
                            uint32_t *n_arguments, uint32_t *n_states);

/* element_reads.c: tells for each variable inside of a GRAPH or LOOP node, in
 * order, whether the node reads its elements; of other variables it reads only
 * the shape. The caller frees *out. */
tn_code tn__inner_list_reads(const tn__node *node, bool **out);
/* Tests whether the node reads the elements of input `i`, or only its shape.
 * The states of an operator follow its inputs, and are always read. For a GRAPH
 * or LOOP, `inside` is the list of tn__inner_list_reads. */
bool tn__node_reads_input(const tn__node *node, const bool *inside, uint32_t i);

/* ------------------------------------------------------------------ order.c */

/* A list of the nodes that heads need, each after the nodes that it reads.
 * tn__order_make makes it in depth-first post-order from the first head on:
 * inputs from left to right, then control dependencies. Inputs of which only
 * the shape is read count as well. `ids` is from the environment's allocator,
 * and the caller frees it. The algorithm is iterative: only memory bounds the
 * depth. */
typedef struct tn__order {
  uint32_t *ids;
  uint32_t n;
} tn__order;
tn_code tn__order_make(const tn_graph *graph, const tn_entry *heads,
                       size_t n_heads, tn__order *out);
/* Makes the order in which a program computes the nodes: that of
 * tn__order_make, but if a node changes a state, the other nodes that use the
 * state stay before or after it, as in the graph. The first *n_first heads are
 * needed first; *n_first becomes the number of nodes that they need. */
tn_code tn__order_steps(const tn_graph *graph, const tn_entry *heads,
                        uint32_t *n_first, size_t n_heads, tn__order *out);
/* Makes the order of tn__order_make, but a gradient follows the call that it
 * belongs to, and that call counts as needed. If the graph has a cycle, the
 * order contains all nodes, and some of them precede nodes that they read. */
tn_code tn__order_all(const tn_graph *graph, const tn_entry *heads,
                      size_t n_heads, tn__order *out);

/* ------------------------------------------------------------ graph_infer.c */

/* Pass "infer": infers shapes and types and stores them in graph->sigs, their
 * sources in graph->from. `known` has the facts that the caller of
 * tn_graph_infer states. */
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

/* ------------------------------------------------------------- graph_copy.c */

/* Pass "flatten": makes a new graph in which the inner nodes replace each GRAPH
 * node, except within the steps of loops. Nodes and variables keep their names,
 * also unused variables. */
tn_code tn__graph_flatten(const tn_graph *graph, tn_graph **out);

#endif /* TENON_CORE_GRAPH_H_ */
