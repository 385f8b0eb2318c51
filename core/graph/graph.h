/* SPDX-License-Identifier: Apache-2.0
 * graph.h: graphs of operators, what passes find out about them, and programs.
 * Uses everything but core/runtime. The functions behind tenon/graph.h come
 * first; what follows is shared by the folder's own files.
 *
 * files: graph.c     nodes and their lifetime; names
 *        call.c      a call is added: inputs by position or name, variables
 *        compose.c   graphs into graphs: embed, loop, compose
 *        paste.c     nodes of one graph into another, flat or not
 *        copy.c      whole graphs; pass "flatten"
 *        attr.c      attributes and scopes
 *        query.c     find, lists, children
 *        order.c     which nodes some entries need, depth first
 *        reads.c     of which variables heads read elements
 *        json_*.c    to and from JSON: write, read, nodes (json.h)
 *        picture.c   text, Graphviz; picture_svg.c drawn here (picture.h)
 *        timeline.c  a program's memory over time, drawn
 *        infer*.c    pass: shapes and dtypes to a fixed point (facts.h)
 *        gradient.c  pass: reverse accumulation (rule.h)
 *        by_name.c   its question and its answer by names
 *        place.c     where nodes run, copies between devices
 *        bind.c      a graph becomes a program (program.h lists its stations)
 *        program.c   its life and runs; part.c runs step by step
 *        settings.c  parameters that change between its runs
 *        inspect.c   what it takes, its steps as a table
 *        reshape.c   the same for other shapes
 *        passes.c    lists of passes, the library's and plugins' (passes.h)
 *        rewrite.c   what a plugin's pass sees and does
 *        reorder.c   nodes in order again, and checked
 */
#ifndef TENON_CORE_GRAPH_H_
#define TENON_CORE_GRAPH_H_

#include "ndarray.h"
#include "tenon/graph.h"

/* ------------------------------------------------------------------- nodes */

enum {                        /* tn__node.kind */
       TN__NODE_VARIABLE = 0, /* no inputs, one output */
       TN__NODE_CALL = 1,     /* of `op` */
       TN__NODE_BACKWARD = 2, /* the gradient of node `of`, by its operator's
                                 backward kernel. in: the gradients of its
                                 outputs, its inputs, its outputs; those that
                                 are not needed are TN_ENTRY_NONE. out: one
                                 gradient per input */
       TN__NODE_SUM = 3,      /* of two or more entries of one shape */
       TN__NODE_ZERO = 4,     /* zeros, ones: of the shape of in[0], which */
       TN__NODE_ONE = 5,      /* is not read */
       TN__NODE_COPY = 6,     /* of in[0], perhaps on another device */
       TN__NODE_GRAPH = 7,    /* `inner` used as an operator */
       TN__NODE_LOOP = 8      /* `inner` again and again (tn__loop) */
};

enum {                              /* tn__node.flags */
       TN__NODE_STATE = 1u << 0,    /* variable: some call changes it */
       TN__NODE_REPEATED = 1u << 1, /* computed a second time: a copy of node
                                       `of`, whose name it bears with a ' */
       TN__NODE_GRADIENT = 1u << 2  /* made by the gradient pass */
};

/* What a loop knows beside its step graph, whose variables are the node's
 * inputs, in their order. Outputs of the node: the last states, what the step's
 * other heads were at each step, and, hidden, what the loop's gradient reads:
 * what each state was before each step, and then what came of each step's nodes
 * that must not be computed a second time. */
typedef struct tn__loop {
  uint32_t n_sequences;
  uint32_t n_states;
  uint32_t n_kept;
  uint32_t reverse;
  const uint32_t *sequences; /* positions among the inputs */
  const uint32_t *states;
  const tn_entry *kept; /* of the step graph: all outputs of these nodes, which
                           its heads need */
} tn__loop;

/* One node. Lies in the graph's arena, as do its lists. */
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
  tn_entry *in;        /* n_in, then n_aux; earlier nodes, or TN_ENTRY_NONE */
  uint32_t *in_flags;  /* n_in: 0, or TN_IN_METADATA: only its shape is read;
                          NULL: all 0 */
  tn_operator *op;     /* CALL, BACKWARD: held by the graph */
  const tn_op *desc;   /* of op */
  tn_params *params;   /* retained; NULL: all defaults */
  tn_attribute *attrs; /* by key; from the environment's allocator */
  uint32_t n_attrs;
  uint32_t n_after; /* control dependencies: nodes that come before it */
  const uint32_t *after;
  tn_graph *inner;                /* GRAPH, LOOP: owned */
  const tn__loop *loop;           /* LOOP */
  tn_sig known;                   /* VARIABLE: what it was made with */
  const tn_operator *gradient_of; /* CALL that the gradient of a call of this
                                     operator makes; for messages, or NULL */
} tn__node;

enum { /* tn_graph.facts: what is up to date; adding a node, and other heads,
          drop LISTS */
       TN__FACT_SHAPES = 1u << 0,
       TN__FACT_LISTS = 1u << 1
};

struct tn_graph {
  tn__caller *caller;
  const tn__env *env; /* of caller; kept alive */
  tn__arena arena;
  tn__vec nodes; /* tn__node * */
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
  uint32_t *from;  /* two for each: the node that was the last to tell something
                      of the entry's shape, and of its dtype; TN_NONE: nobody */
  uint32_t n_sigs; /* entries that the last inference has seen */
  tn__vec scopes;  /* tn__scope_attrs *, innermost last (attr.c) */
  char *prefix;    /* or NULL */
  uint64_t n_inherited; /* attributes that nodes got from graphs around them */
};

enum { TN__MOST_INHERITED = 1 << 22 }; /* some 400 MB */

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
/* Number of an entry among all of the graph. */
static inline uint32_t tn__entry_id(const tn_graph *graph, tn_entry entry) {
  return tn__node_at(graph, entry.node)->first + entry.index;
}
/* Declaration of actual input or output `i` of a CALL, where a variadic one
 * stands for many; NULL where a node of another kind has none. */
const tn_arg *tn__node_input(const tn__node *node, uint32_t i);
const tn_arg *tn__node_output(const tn__node *node, uint32_t i);
/* Outputs of a CALL that users see; all of any other node. */
uint32_t tn__node_count_visible(const tn__node *node);
/* Whether to compute the node again gives the same, and changes nothing: it has
 * no states, and no kernel of its operators draws random numbers. */
bool tn__node_is_repeatable(const tn__node *node);
/* The params struct that kernels and rules read; NULL if there is none. */
const void *tn__node_struct(const tn__node *node);

/* ----------------------------------------------------------------- graph.c */

tn_code tn__graph_create(tn__caller *caller, tn_graph **out);
void tn__graph_release(tn_graph *graph); /* NULL is allowed */

/* What a new node is made of. Lists are copied into the arena, the operator is
 * held, the params are retained, `inner` is taken over on success. */
typedef struct tn__node_spec {
  uint32_t kind;
  uint32_t flags;
  uint32_t n_in;
  uint32_t n_aux;
  uint32_t n_out;
  uint32_t of;      /* TN_NONE */
  const char *name; /* NULL: made of `stem` and a number */
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

/* Appends a node; its entries must exist. TN_EXISTS, TN_INVALID (a name that is
 * none), TN_OUT_OF_MEMORY leave the graph as it was. Attributes of scopes are
 * not added here. */
tn_code tn__node_add(tn_graph *graph, const tn__node_spec *spec,
                     tn__node **out);
enum { TN__NAME_MAX = 200 }; /* bytes of a node's name */
/* The name of a node to come: `name`, checked, or made of `stem` and the first
 * number that makes it new. In the arena. */
tn_code tn__graph_name_make(tn_graph *graph, const char *name, const char *stem,
                            const char **out);
/* What was made of `stem` is not made again, whether or not a node has it. */
tn_code tn__graph_name_skip(tn_graph *graph, const char *stem);
/* Gives up what the node holds; it has left the graph. */
void tn__node_drop(const tn_graph *graph, tn__node *node);
/* Takes back the nodes from number `n` on: for a function that adds several and
 * fails. */
void tn__graph_truncate(tn_graph *graph, uint32_t n);
/* TN_INVALID if the entry is none of the graph's; `what` is for the message. */
tn_code tn__entry_check(const tn_graph *graph, tn_entry entry,
                        const char *what);
/* Fails with the node before the text of the failure at hand:
 * "node `fc1` (nn.fully_connected@1): ...". */
tn_code tn__node_fail(const tn__node *node, tn_code code);
/* "fc1_output"; in `to`, which has TN__ENTRY_TEXT bytes. */
enum { TN__ENTRY_TEXT = 256 };
const char *tn__entry_text(const tn_graph *graph, tn_entry entry, char *to);

tn_code tn__graph_variable(tn_graph *graph, const char *name,
                           const tn_sig *known, tn_entry *out);
/* NULL and "": none. TN_INVALID if names could not begin with it. */
tn_code tn__graph_prefix(tn_graph *graph, const char *prefix);
tn_code tn__graph_heads_set(tn_graph *graph, const tn_entry *heads, size_t n);
tn_code tn__graph_depends(tn_graph *graph, uint32_t node, uint32_t on);

/* ---------------------------------------------------- call.c, compose.c ... */

tn_code tn__graph_call(tn_graph *graph, const tn_graph_node *what,
                       tn_entry *out);
tn_code tn__graph_copy(const tn_graph *graph, tn_graph **out);
tn_code tn__graph_embed(tn_graph *graph, const tn_embedding *what,
                        tn_entry *out);
tn_code tn__graph_loop(tn_graph *graph, const tn_loop *what, tn_entry *out);
tn_code tn__graph_compose(tn_graph *graph, const tn_graph *other,
                          const char *const *names, const tn_entry *entries,
                          size_t n, tn_entry *heads);

/* Copies nodes of `from`, in their order, behind those of `to`. `map` has an
 * entry for each entry of `from`: where it is not TN_ENTRY_NONE already, the
 * entry stands for it (a replaced variable); the others are filled in. Only
 * nodes with wanted[id] are copied; `wanted` NULL: all. Names get `prefix` and
 * '/' before them if it is not NULL. */
tn_code tn__graph_paste(tn_graph *to, const tn_graph *from,
                        const uint8_t *wanted, const char *prefix,
                        tn_entry *map);
/* The same with all nodes, where each GRAPH node becomes the nodes of its graph
 * that its heads need, "<node>/<name>". They inherit its attributes. Steps of
 * loops stay as they are. */
tn_code tn__graph_paste_flat(tn_graph *to, const tn_graph *from, tn_entry *map);
/* A map in which nothing is replaced; NULL without memory. The caller frees it
 * with the environment's allocator. */
tn_entry *tn__graph_create_map(const tn_graph *from);

/* attr.c */
tn_code tn__attribute_set(tn_graph *graph, uint32_t node, const char *key,
                          const char *value);
const char *tn__attribute_get(const tn__node *node, const char *key);
tn_code tn__attributes_json(const tn_graph *graph, tn_text **out);
/* Gives a node without attributes these, which are in order of keys. The texts
 * are copied. */
tn_code tn__attributes_set_sorted(const tn_graph *graph, tn__node *node,
                                  const tn_attribute *sorted, uint32_t n);
/* Gives a node those attributes of another whose keys it does not have.
 * TN_OUT_OF_RANGE: there are more than TN__MOST_INHERITED in the graph. */
tn_code tn__attributes_inherit(tn_graph *graph, tn__node *node,
                               const tn__node *from);
tn_code tn__scope_push(tn_graph *graph, const tn_attribute *attributes,
                       size_t n);
tn_code tn__scope_pop(tn_graph *graph);
/* Gives a new node the attributes of all scopes, then `own`. */
tn_code tn__scopes_apply(tn_graph *graph, tn__node *node,
                         const tn_attribute *own, size_t n);

/* query.c */
tn_code tn__graph_find(const tn_graph *graph, const char *name, tn_entry *out);
tn_code tn__graph_name(tn_graph *graph, uint32_t list, size_t index,
                       const char **name, tn_entry *entry);
/* The variables that the heads depend on: arguments, depth first, then states.
 * Borrowed until the graph is changed. */
tn_code tn__graph_variables(tn_graph *graph, const tn_entry **out,
                            uint32_t *n_arguments, uint32_t *n_states);

/* reads.c: of each of the variables inside a GRAPH or LOOP node, in this order,
 * whether the node reads its elements; otherwise only its shape counts. The
 * caller frees *out. */
tn_code tn__inner_list_reads(const tn__node *node, bool **out);
/* The same of input `i` of any node, the states of operators included, which
 * are always read; `inside` is that list, where a node is such a one. */
bool tn__node_reads_input(const tn__node *node, const bool *inside, uint32_t i);

/* json_*.c, picture*.c, timeline.c */
tn_code tn__graph_json(const tn_graph *graph, tn_text **out);
tn_code tn__graph_parse(tn__caller *caller, const char *json, size_t bytes,
                        tn_graph **out);
tn_code tn__graph_save(const tn_graph *graph, const char *path);
tn_code tn__graph_load(tn__caller *caller, const char *path, tn_graph **out);
tn_code tn__graph_picture(const tn_graph *graph, uint32_t format,
                          tn_text **out);

/* ----------------------------------------------------------------- order.c */

/* The nodes that `heads` need, each behind those it reads, in depth-first
 * post-order from the first head on: inputs from left to right, then control
 * dependencies. Inputs of which only the shape is read count as well. `ids` is
 * from the environment's allocator, the caller frees it. Iterative: depth is
 * bounded by memory only. */
typedef struct tn__order {
  uint32_t *ids;
  uint32_t n;
} tn__order;
tn_code tn__order_make(const tn_graph *graph, const tn_entry *heads,
                       size_t n_heads, tn__order *out);
/* The same for nodes that are to be computed: where one of them changes a
 * state, those that use the state before and behind it in the graph come before
 * and behind it, too. *n_first is the number of heads that are needed first,
 * and becomes the number of nodes that they need. */
tn_code tn__order_steps(const tn_graph *graph, const tn_entry *heads,
                        uint32_t *n_first, size_t n_heads, tn__order *out);
/* tn__order_make where gradients come behind the calls that they are of, and
 * bring them along. Of a graph with a cycle it is an order of all nodes, in
 * which some come before what they read. */
tn_code tn__order_all(const tn_graph *graph, const tn_entry *heads,
                      size_t n_heads, tn__order *out);

/* ----------------------------------------------------------------- infer.c */

/* Pass "infer": fills graph->sigs and graph->from. `known` as tn_graph_infer.
 */
tn_code tn__graph_infer(tn_graph *graph, const tn_known *known, size_t n);
/* Goes on from what the last inference found out, after nodes were added; the
 * others are not asked again, unless something new is told of what they touch.
 */
tn_code tn__graph_infer_more(tn_graph *graph);
tn_code tn__graph_sig(const tn_graph *graph, tn_entry entry, tn_sig *out);
/* Gives up what inferences found out. */
void tn__graph_drop_facts(tn_graph *graph);
/* Of an entry that the last inference has seen. */
static inline const tn_sig *tn__entry_sig(const tn_graph *graph,
                                          tn_entry entry) {
  return &graph->sigs[tn__entry_id(graph, entry)];
}
bool tn__sig_is_complete(const tn_sig *sig);
/* What a variable may be said to be; errors name it. */
tn_code tn__sig_check(const char *name, const tn_sig *sig);
tn_sig tn__sig_unknown(void);

/* -------------------------------------------------------------- gradient.c */

enum {
  TN__GRADIENT_COMPAT = 1u << 0,  /* as MXNet 0.12: GRD-05 to GRD-08 */
  TN__GRADIENT_INFERRED = 1u << 1 /* of all that heads need */
};

/* Pass "gradient": tn_graph_gradient. With `optional`, what no gradient reaches
 * gets TN_ENTRY_NONE instead of zeros or a failure. Two results may be one
 * entry, and a result may be one of `weights`: who wants them apart copies.
 * With TN__GRADIENT_COMPAT the second one is a COPY. */
typedef struct tn__gradient_spec {
  tn_gradient_query query;
  uint32_t flags; /* TN__GRADIENT_* */
  uint32_t optional;
} tn__gradient_spec;
tn_code tn__graph_gradient(tn_graph *graph, const tn__gradient_spec *spec,
                           tn_entry *out);

/* by_name.c */
tn_code tn__graph_backward(tn_graph *graph, const tn_gradient_names *what);
/* Whether the node is the name of a gradient, "x@GRAD". */
bool tn__node_is_named_gradient(const tn__node *node);

/* ------------------------------------------------------------------ copy.c */

/* Pass "flatten": a new graph in which no node is a GRAPH, but for those in the
 * steps of loops. Variables, also those that nothing needs any more, and nodes
 * keep their names. */
tn_code tn__graph_flatten(const tn_graph *graph, tn_graph **out);

/* ---------------------------------------------------------------- passes.c */

tn_code tn__graph_apply(const tn_graph *graph, const char *const *passes,
                        size_t n, tn_graph **out);
tn_code tn__pass_at(tn__registry *registry, size_t index, tn_pass_info *out);
/* What plugins get as the extension TN_PASS_EXTENSION (rewrite.c). */
extern const tn_passes tn__passes_table;

/* ---------------------------------------------------- bind.c, program.c */

tn_code tn__program_bind(const tn_graph *graph, const tn_bind *how,
                         tn_program **out);
void tn__program_release(tn_program *p); /* NULL is allowed */
const tn__env *tn__program_env(const tn_program *p);
/* Whether a monitor of it is running. */
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
tn_code tn__program_picture(const tn_program *p, tn_text **out);
/* captured.c */
tn_code tn__program_captured(tn_program *p, uint32_t part, tn_text **why);
/* Adds a line per part to a table of steps, if recordings are asked for. */
void tn__capture_print(const tn_program *p, tn__buf *out);

#endif /* TENON_CORE_GRAPH_H_ */
