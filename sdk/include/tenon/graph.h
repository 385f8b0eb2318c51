/* SPDX-License-Identifier: Apache-2.0
 * graph.h: graphs of operators, and the programs that run them. Part of the
 * host API: conventions are those of tenon.h.
 *
 *   tn_graph *net = NULL;
 *   tn_program *p = NULL;
 *   tn_entry x, h, y;
 *   rc = tn_graph_create(rt, &net);
 *   if (!rc) rc = tn_graph_variable(net, "data", NULL, &x);
 *   if (!rc) rc = tn_graph_call(net, &(tn_graph_node){
 *                .struct_size = sizeof(tn_graph_node),
 *                .op = "nn.fully_connected", .params = "num_hidden=64",
 *                .name = "fc1", .n_in = 1, .in = &x}, &h);
 *   if (!rc) rc = tn_graph_call(net, &(tn_graph_node){
 *                .struct_size = sizeof(tn_graph_node),
 *                .op = "nn.softmax_output", .name = "softmax", .n_in = 1,
 *                .in = &h}, &y);
 *   if (!rc) rc = tn_graph_heads_set(net, &y, 1);
 *   if (!rc) rc = tn_program_bind(net, &(tn_bind){
 *                .struct_size = sizeof(tn_bind), .n_arguments = 2,
 *                .arguments = (const tn_argument[]){
 *                    {.name = "data", .array = images},
 *                    {.name = "softmax_label", .array = labels}},
 *                .request = TN_REQ_WRITE}, &p);
 *   if (!rc) rc = tn_program_forward(p, TN_CALL_TRAIN);
 *   if (!rc) rc = tn_program_backward(p, NULL, 0);
 *
 * (The calls omit fc1's weight and bias, and softmax's label: they become the
 * variables `fc1_weight`, `fc1_bias` and `softmax_label`. The program creates
 * the weights, of zeros. The softmax is a loss, so its gradient may be omitted.
 * The tests compile and run these lines.)
 *
 * WORDS
 *
 * A graph is a list of *nodes*: variables, calls of operators, other graphs
 * used as operators, loops. A node has a name, which no other node of the graph
 * has, and one or more outputs; an *entry* is one output of one node. Nodes
 * read entries of earlier nodes, so a graph has no cycles and can be computed
 * in the order of its nodes. The *heads* are the outputs of the graph.
 *
 * A variable is an *argument*, or an *auxiliary state*: an operator with states
 * changes it. A graph changes nothing else.
 *
 * A *program* is a graph that is ready to run with arrays: shapes are inferred,
 * gradients added, kernels chosen, memory planned. Binding does not change the
 * graph, and the graph may be changed or released afterwards.
 *
 * THREADS. One thread at a time may use a graph or a program; different threads
 * may use different ones. Running a program schedules its work and returns,
 * like a call: its operations are ordered with all others on these arrays.
 */
#ifndef TENON_GRAPH_H_
#define TENON_GRAPH_H_

#include "tenon/plugin/entry.h"
#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;
typedef struct tn_program tn_program;

/* tn_entry, an output of a node, and TN_ENTRY_NONE, an omitted optional input,
 * are in plugin/entry.h, because plugins use them too. */

/* ------------------------------------------------------------ construction */

/* Creates an empty graph. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_create(tn_runtime *rt, tn_graph **out);

/* Copies the graph; the copy shares nothing with it. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_copy(const tn_graph *graph, tn_graph **out);

/* Releases the graph; NULL is allowed. [host-thread] */
TN_API void tn_graph_release(tn_graph *graph);

/* Adds a variable. `known` has the known parts of its shape and dtype; a
 * program's arguments override it. `known` may be NULL. TN_EXISTS if the name
 * is in use, TN_INVALID if it is malformed: names are 1 to 200 letters, digits
 * and `_ . /
 * - @ '`. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_variable(tn_graph *graph, const char *name,
                                             const tn_sig *known,
                                             tn_entry *out);

/* An attribute of a node. Keys that the library reads: `group` (where the node
 * runs, see tn_group), `keep` ("1": never recomputed, "0": always worth
 * recomputing), `no_gradient` ("1": gradients stop at its outputs). Others are
 * the user's, in UTF-8. Frozen. */
typedef struct tn_attribute {
  const char *key;
  const char *value;
} tn_attribute;

/* A call to add. Everything is borrowed for the call. */
typedef struct tn_graph_node {
  uint32_t struct_size; /* sizeof(tn_graph_node) */
  uint32_t n_in;
  const char *op;          /* "nn.convolution", "nn.convolution@1" */
  const char *params;      /* "kernel=[3,3] num_filter=8"; NULL: all defaults */
  const char *name;        /* NULL: the operator's name and a number */
  const tn_entry *in;      /* the inputs, then the states ... */
  const char *const *keys; /* ... in the operator's order, or, if this is not
                              NULL, each by its name here */
  const tn_attribute *attributes;
  size_t n_attributes;
} tn_graph_node;

/* Adds a call. Omitted inputs and states become variables `<name>_<input>`; an
 * optional input only if its role is a weight, the operator's conditions allow
 * it, and no TN_ENTRY_NONE says that it is absent. A variadic input takes all
 * remaining entries; pass states after it by name. A state must be a variable
 * (TN_INVALID). *out is its first output; the others have the same `node`.
 * `out` may be one of `in`. On failure the graph and *out are as they were.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_call(tn_graph *graph,
                                         const tn_graph_node *node,
                                         tn_entry *out);

/* A nested graph: another graph used as an operator. Its arguments and states
 * are, in the order of tn_graph_name(TN_GRAPH_ARGUMENTS), then AUXILIARIES, the
 * inputs; its heads the outputs. Borrowed for the call. */
typedef struct tn_embedding {
  uint32_t struct_size; /* sizeof(tn_embedding) */
  uint32_t n_in;
  const tn_graph *inner; /* of the same runtime; copied */
  const char *name;      /* NULL: `graph` and a number */
  const tn_entry *in;
  const char *const *keys; /* as in tn_graph_node: names of inner variables */
  const tn_attribute *attributes;
  size_t n_attributes;
} tn_embedding;

/* Adds a graph as one node. Omitted inputs become variables `<name>_<inner
 * name>`. In a program its nodes have the names `<name>/<inner name>`; a name
 * that is too long becomes `..`, its end and a number. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_embed(tn_graph *graph,
                                          const tn_embedding *what,
                                          tn_entry *out);

/* A loop over a step graph: for t = 0, 1, ... it computes
 *
 *   outputs[t], state = step(sequences[t], state, constants)
 *
 * Every argument of the step is a sequence (in step t, element t of the first
 * axis of the node's input), a state (at first the node's input, then its value
 * from the step before) or a constant. The first heads of the step are the new
 * states, in the order of `states`; the others are outputs, collected along a
 * new first axis. Borrowed for the call. */
typedef struct tn_loop {
  uint32_t struct_size; /* sizeof(tn_loop) */
  uint32_t n_in;
  const tn_graph *step;         /* of the same runtime; copied */
  const char *name;             /* NULL: `loop` and a number */
  const char *const *sequences; /* names of the step's arguments */
  const char *const *states;
  uint32_t n_sequences;
  uint32_t n_states;
  uint32_t reverse;        /* 1: from the last element to the first */
  uint32_t reserved;       /* 0 */
  const tn_entry *in;      /* for the step's arguments, in their order ... */
  const char *const *keys; /* ... or by name */
  const tn_attribute *attributes;
  size_t n_attributes;
} tn_loop;

/* Adds a loop. Its outputs are the last states, then the collected ones. Hidden
 * outputs for gradients follow: each state before each step, and the results of
 * nodes that change states or draw random numbers, because these are never
 * recomputed. Hidden outputs cost nothing until they are read. At least one
 * sequence is needed. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_loop(tn_graph *graph, const tn_loop *what,
                                         tn_entry *out);

/* Adds all nodes of `other`, with some of its variables replaced by entries of
 * `graph`: two graphs become one. Other variables keep their names; variables
 * with the same name in both graphs become one; a call with a name that is in
 * use is TN_EXISTS. `names` has n entries. `heads` receives the heads of
 * `other` as entries of `graph`; `heads` has as many entries as `other` has
 * heads. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_compose(tn_graph *graph,
                                            const tn_graph *other,
                                            const char *const *names,
                                            const tn_entry *entries, size_t n,
                                            tn_entry *heads);

/* Makes node number `node` wait for node number `on`, although it reads no
 * output of it: a program that needs the first runs both, `on` first. `on` must
 * be older than `node`, so that there is no cycle, and neither may be a
 * variable (TN_INVALID). States need no such edges: a program uses a state in
 * the order of the graph. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_depends(tn_graph *graph, uint32_t node,
                                            uint32_t on);

/* Sets the heads: one entry or several. Borrowed for the call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_heads_set(tn_graph *graph,
                                              const tn_entry *heads, size_t n);

/* Adds, for each of `of`, the gradient of the sum of `heads` with respect to
 * it, each weighted by its entry of `weights`; NULL, or TN_ENTRY_NONE there:
 * ones. `stop`: entries that gradients do not pass; neither do they pass
 * outputs that an operator declares as integers or bools. Nodes are added for
 * the requested gradients only. TN_UNSUPPORTED, with node and reason, if an
 * operator between has no gradient; TN_INVALID if `heads` do not depend on one
 * of `of`. The results may be used like any other entries, and differentiated
 * again. Two of them may be the same entry, and one may be a weight.
 *
 * Gradients of loops and nested graphs compute these a second time, so none of
 * their nodes may change a state or draw random numbers: TN_UNSUPPORTED
 * otherwise. Programs allow it in nested graphs, because they flatten them.
 * Frozen. */
typedef struct tn_gradient_query {
  const tn_entry *heads;
  const tn_entry *weights;
  const tn_entry *of;
  const tn_entry *stop;
  size_t n_heads;
  size_t n_of;
  size_t n_stop;
} tn_gradient_query;

/* Answers a query: out[i] is the gradient with respect to of[i]. `out` has
 * query->n_of entries. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_gradient(tn_graph *graph,
                                             const tn_gradient_query *query,
                                             tn_entry *out);

/* The same query by names. Frozen. */
typedef struct tn_gradient_names {
  const char *const *of;   /* names as for tn_graph_find. NULL: every argument
                              that has a gradient */
  const char *const *stop; /* entries that gradients do not pass */
  size_t n_of;
  size_t n_stop;
} tn_gradient_names;

/* Adds the gradients of the graph's heads by name: that of the entry "x" is the
 * entry "x@GRAD" from then on, for tn_graph_find, in files and in programs. A
 * head "y_output" is weighted with the variable "y_output@GRAD", if the graph
 * has one, otherwise with ones. TN_NOT_FOUND for an unknown entry, TN_EXISTS if
 * one has a gradient already; otherwise like tn_graph_gradient. On failure the
 * graph is as it was. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_backward(tn_graph *graph,
                                             const tn_gradient_names *what);

/* Sets attributes of every node that is added until the matching pop; its own
 * ones, and inner scopes, override them. Variables that a call makes get the
 * call's attributes. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_scope_push(tn_graph *graph,
                                               const tn_attribute *attributes,
                                               size_t n);
TN_API TN_MUST_USE tn_code tn_graph_scope_pop(tn_graph *graph);

/* Sets the text before every name that the library creates from now on; ""
 * for none, and `prefix` NULL as well. TN_INVALID if a name cannot begin with
 * it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_prefix(tn_graph *graph, const char *prefix);

/* --------------------------------------------------------------- questions */

/* Finds an entry by name: of a variable, "data"; of an output, "<node>_output",
 * or "<node>_<output>" if the operator names it so; of a gradient, see
 * tn_graph_backward. TN_NOT_FOUND with the nearest name. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_find(const tn_graph *graph,
                                         const char *name, tn_entry *out);

enum {                           /* lists of tn_graph_name */
       TN_GRAPH_ARGUMENTS = 0,   /* that the heads depend on, depth first */
       TN_GRAPH_AUXILIARIES = 1, /* the same of states */
       TN_GRAPH_HEADS = 2,
       TN_GRAPH_INTERNALS = 3, /* every visible entry, in order of nodes */
       TN_GRAPH_NODES = 4      /* names of nodes; the entry is its first */
};

/* Name and entry number `index` of a list; TN_NOT_FOUND beyond the last.
 * `entry` may be NULL. Borrowed until the graph is changed. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_name(tn_graph *graph, uint32_t list,
                                         size_t index, const char **name,
                                         tn_entry *entry);

/* Entry number `index` that a node reads; TN_NOT_FOUND beyond the last.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_child(const tn_graph *graph, uint32_t node,
                                          size_t index, tn_entry *out);

/* Full name of the operator, "nn.convolution@1", that a node calls or
 * differentiates; NULL for a variable, for any other node, and for a number
 * that no node has. Borrowed until the graph is released. [host-thread] */
TN_API const char *tn_graph_operator(const tn_graph *graph, uint32_t node);

/* Sets an attribute of a node; `value` NULL removes it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attribute_set(tn_graph *graph,
                                                  uint32_t node,
                                                  const char *key,
                                                  const char *value);

/* An attribute; NULL if the node does not have it. Borrowed until the attribute
 * is changed. [host-thread] */
TN_API const char *tn_graph_attribute(const tn_graph *graph, uint32_t node,
                                      const char *key);

/* Attribute number `index`; TN_NOT_FOUND beyond the last. Borrowed until the
 * attribute is changed. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attribute_at(const tn_graph *graph,
                                                 uint32_t node, size_t index,
                                                 tn_attribute *out);

/* All attributes of all nodes as one JSON object, {"<node>$<key>": "<value>"},
 * in order of nodes, then of keys; those of the nodes in a nested graph or loop
 * are "<node>/<inner node>$<key>", after those of the node. The caller releases
 * *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attributes(const tn_graph *graph,
                                               tn_text **out);

/* Known parts of a variable, for inference. Frozen. */
typedef struct tn_known {
  const char *name;
  tn_sig sig;
} tn_known;

/* Infers dtypes and shapes in both directions to a fixed point, from `known`
 * and from the facts that variables were created with; `known` overrides those.
 * TN_OK if everything that the heads depend on is known. TN_INCOMPLETE, naming
 * the unknown parts, if not; the inferred ones are kept. TN_SHAPE or TN_DTYPE
 * name the node, its input, both shapes and the source of each; nothing is
 * kept. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_infer(tn_graph *graph,
                                          const tn_known *known, size_t n);

/* Result of the last inference for an entry. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_sig(const tn_graph *graph, tn_entry entry,
                                        tn_sig *out);

/* ------------------------------------------------------------------ passes */

/* Applies passes to a copy of the graph, in this order: "infer", "flatten", and
 * those of plugins, "acme.fold" (pass.h). The graph is not changed; the copy
 * keeps names, but not entries. TN_NOT_FOUND lists the existing passes.
 * TN_INVALID, before any of them runs, names the missing fact and the pass that
 * provides it. A failure of a pass names it, its plugin and the node. The copy
 * knows the results of the last inference for variables. The caller releases
 * *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_apply(const tn_graph *graph,
                                          const char *const *passes, size_t n,
                                          tn_graph **out);

/* A pass, for people and lists. Borrowed until its plugin is unloaded. */
typedef struct tn_pass_info {
  uint32_t struct_size; /* sizeof(tn_pass_info) */
  uint32_t n_needs;
  uint32_t n_provides;
  uint32_t reserved;
  const char *name;
  const char *plugin; /* NULL: a pass of the library */
  const char *doc;    /* or NULL */
  const char *const *needs;
  const char *const *provides;
} tn_pass_info;

/* Pass number `index`: the library's, then those of plugins in order of
 * loading; TN_NOT_FOUND beyond the last. Borrowed until its plugin is unloaded.
 * [any] */
TN_API TN_MUST_USE tn_code tn_pass_at(tn_runtime *rt, size_t index,
                                      tn_pass_info *out);

/* ------------------------------------------------------------------- files */

/* The graph as JSON: nodes, attributes, heads, and the plugins that it needs
 * with name, release and content hash. Reading it and writing it again gives
 * the same bytes. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_json(const tn_graph *graph, tn_text **out);

/* Reads `bytes` bytes of JSON. TN_NOT_FOUND names all missing plugins and
 * operators, TN_INVALID the fault and its byte. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_parse(tn_runtime *rt, const char *json,
                                          size_t bytes, tn_graph **out);

/* The same with a file. An existing file is replaced as a whole, or not
 * changed. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_save(const tn_graph *graph,
                                         const char *path);
TN_API TN_MUST_USE tn_code tn_graph_load(tn_runtime *rt, const char *path,
                                         tn_graph **out);

/* The graph for programs that show it: the JSON of tn_graph_json, and more in
 * each node. "outputs" is a list of objects. "name" is the name that an input
 * has, such as "fc_output". "dtype" and "shape" are results of the last
 * inference; they are absent if unknown, an unknown dimension is null. "hidden"
 * is true for an output that only gradients read. "state" is true for a
 * variable that a call changes. tn_graph_parse does not read it. The caller
 * releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_inferred_json(const tn_graph *graph,
                                                  tn_text **out);

#ifdef __cplusplus
}
#endif

#include "tenon/program.h"

#endif /* TENON_GRAPH_H_ */
