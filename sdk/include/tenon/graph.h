/* SPDX-License-Identifier: Apache-2.0
 * graph.h: graphs of operators and the programs made of them. Part of the host
 * API: conventions are those of tenon.h.
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
 * (fc1's weight and bias, and softmax's label, were not given to the calls:
 * they are the variables `fc1_weight`, `fc1_bias` and `softmax_label`. The
 * program makes the weights, of zeros. The softmax is a loss, so no gradient of
 * it is given. The tests compile and run these lines.)
 *
 * WORDS
 *
 * A graph is a list of *nodes*: variables, calls of operators, other graphs
 * used as operators, loops. A node has a name, which no other node of the graph
 * has, and one or more outputs; an *entry* is one output of one node. Nodes
 * read entries of nodes that are already there, so a graph has no cycles and
 * the order of its nodes is one in which it can be computed. The *heads* are
 * the entries that the graph is there for.
 *
 * A variable is an *argument*, or an *auxiliary state*: one that a call of an
 * operator with states changes. Nothing else is changed by a graph.
 *
 * A *program* is a graph that was made ready to run with arrays: shapes are
 * inferred, gradients added, kernels chosen, memory planned. Nothing of the
 * graph is changed by it, and the graph may be changed or released afterwards.
 *
 * THREADS. A graph, and a program, is used by one thread at a time; different
 * ones by different threads. Running a program schedules its work and returns,
 * as calls do: what it writes is ordered with all else that uses these arrays.
 */
#ifndef TENON_GRAPH_H_
#define TENON_GRAPH_H_

#include "pass.h"
#include "tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;
typedef struct tn_program tn_program;

/* tn_entry, an output of a node, and TN_ENTRY_NONE, an optional input that is
 * not given, are in pass.h, as plugins see them too. */

/* ------------------------------------------------------------ construction */

/* An empty graph. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_create(tn_runtime *rt, tn_graph **out);

/* A copy that shares nothing with the graph. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_copy(const tn_graph *graph, tn_graph **out);

/* Gives up the graph; NULL is allowed. [host-thread] */
TN_API void tn_graph_release(tn_graph *graph);

/* A variable. `known` is what is known of its shape and dtype, or NULL; a
 * program's arguments override it. TN_EXISTS if the name is taken,
 * TN_INVALID if it is none: names are 1 to 200 letters, digits and
 * `_ . / - @ '`. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_variable(tn_graph *graph, const char *name,
                                             const tn_sig *known,
                                             tn_entry *out);

/* An attribute of a node. Keys that the library reads: `group` (where the
 * node runs, see tn_group), `keep` ("1": never recomputed, "0": always
 * worth while), `no_gradient` ("1": gradients stop at its outputs). Others are
 * the user's, in UTF-8. Frozen. */
typedef struct tn_attribute {
  const char *key;
  const char *value;
} tn_attribute;

/* A call to be added. Everything is borrowed for the call. */
typedef struct tn_graph_node {
  uint32_t struct_size; /* sizeof(tn_graph_node) */
  uint32_t n_in;
  const char *op;          /* "nn.convolution", "nn.convolution@1" */
  const char *params;      /* "kernel=[3,3] num_filter=8"; NULL: all defaults */
  const char *name;        /* NULL: the operator's name and a number */
  const tn_entry *in;      /* the inputs, and behind them the states ... */
  const char *const *keys; /* ... in the operator's order, or, if this is not
                              NULL, each by the name that stands here */
  const tn_attribute *attributes;
  size_t n_attributes;
} tn_graph_node;

/* Adds a call. Inputs and states that are not given become variables
 * `<name>_<input>`; an optional input only if its role is a weight, the
 * operator's conditions allow it, and no TN_ENTRY_NONE says that it is absent.
 * A variadic input takes all entries that are left; states behind it are given
 * by name. A state must be a variable (TN_INVALID). *out is its first output;
 * the others have the same `node`. `out` may be one of `in`. On failure the
 * graph and *out are as they were. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_call(tn_graph *graph,
                                         const tn_graph_node *node,
                                         tn_entry *out);

/* Another graph to be used as an operator. Its arguments and states are, in
 * the order of tn_graph_name(TN_GRAPH_ARGUMENTS), then AUXILIARIES, the inputs;
 * its heads the outputs. Borrowed for the call. */
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

/* Adds a graph as one node. What is not given becomes a variable
 * `<name>_<inner name>`. A program has its nodes as `<name>/<inner name>`; of
 * names that become too long, `..`, their end and a number. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_embed(tn_graph *graph,
                                          const tn_embedding *what,
                                          tn_entry *out);

/* A loop over a step graph: for t = 0, 1, ... it computes
 *
 *   outputs[t], state = step(sequences[t], state, constants)
 *
 * Every argument of the step is a sequence (it gets element t of the first
 * axis of what the node is given), a state (at first what the node is given,
 * then what the step before has made of it) or a constant. The first heads of
 * the step are the new states, in the order of `states`; the others are
 * outputs, collected along a new first axis. Borrowed for the call. */
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

/* Adds a loop. Its outputs are the last states, then the collected ones; behind
 * them, hidden, what gradients read: what each state was before each step, and
 * what came of each step's nodes that change states or draw random numbers,
 * because these are never computed a second time. Hidden outputs cost nothing
 * until they are read. At least one sequence is needed. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_loop(tn_graph *graph, const tn_loop *what,
                                         tn_entry *out);

/* Adds all nodes of `other`, with some of its variables replaced by entries of
 * `graph`: two graphs become one. Other variables keep their names; a variable
 * whose name `graph` has too becomes the same one; a call whose name is taken
 * is TN_EXISTS. `heads` has room for the heads of `other`, which are stored as
 * entries of `graph`. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_compose(tn_graph *graph,
                                            const tn_graph *other,
                                            const char *const *names,
                                            const tn_entry *entries, size_t n,
                                            tn_entry *heads);

/* Node number `node` waits for node number `on`, though it reads nothing of it:
 * who needs the first needs both, and runs them one behind the other. The
 * second must be older than the first, so that there is no cycle, and neither
 * of them a variable (TN_INVALID). Where a call changes a state, nothing need
 * be said: a program uses a state in the order of the graph. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_depends(tn_graph *graph, uint32_t node,
                                            uint32_t on);

/* Names the heads: one entry, or a group of several. Borrowed for the call.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_heads_set(tn_graph *graph,
                                              const tn_entry *heads, size_t n);

/* Adds, for each of `of`, the gradient of the sum of `heads` with respect to
 * it, each weighted by its entry of `weights`; NULL, or TN_ENTRY_NONE there:
 * ones. `stop`: entries that gradients do not pass; neither do they pass
 * outputs that an operator says are of whole numbers or bools. Nothing is added
 * that nobody asked for. TN_UNSUPPORTED, with node and reason, where an
 * operator on the way has none; TN_INVALID where `heads` do not depend on one
 * of `of`. The results may be used like any other entries, and differentiated
 * again. Two of them may be the same entry, and one may be a weight.
 *
 * Gradients of loops, and of graphs used as operators, compute these a second
 * time, so none of their nodes may change a state or draw random numbers:
 * TN_UNSUPPORTED otherwise. Programs do not mind it in graphs, whose nodes they
 * take out. Frozen. */
typedef struct tn_gradient_query {
  const tn_entry *heads;
  const tn_entry *weights;
  const tn_entry *of;
  const tn_entry *stop;
  size_t n_heads;
  size_t n_of;
  size_t n_stop;
} tn_gradient_query;
TN_API TN_MUST_USE tn_code tn_graph_gradient(tn_graph *graph,
                                             const tn_gradient_query *query,
                                             tn_entry *out);

/* The same question by names. Frozen. */
typedef struct tn_gradient_names {
  const char *const *of;   /* entries, as tn_graph_find takes them. NULL: every
                              argument that a gradient comes to */
  const char *const *stop; /* entries that gradients do not pass */
  size_t n_of;
  size_t n_stop;
} tn_gradient_names;

/* Adds the gradients of the graph's heads by name: that of the entry "x" is the
 * entry "x@GRAD" from then on, for tn_graph_find, in files and in programs. A
 * head "y_output" is weighted with the variable "y_output@GRAD", if the graph
 * has one, otherwise with ones. TN_NOT_FOUND if an entry is none, TN_EXISTS if
 * there is a gradient of one already; otherwise as tn_graph_gradient. On
 * failure the graph is as it was. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_backward(tn_graph *graph,
                                             const tn_gradient_names *what);

/* Attributes that every node added from now on gets, until the matching pop;
 * its own ones, and inner scopes, override them. Variables that a call makes
 * get the call's attributes. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_scope_push(tn_graph *graph,
                                               const tn_attribute *attributes,
                                               size_t n);
TN_API TN_MUST_USE tn_code tn_graph_scope_pop(tn_graph *graph);

/* Text put before every name that the library makes from now on; "" or NULL
 * for none. TN_INVALID if a name cannot begin with it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_prefix(tn_graph *graph, const char *prefix);

/* --------------------------------------------------------------- questions */

/* Finds an entry by name: of a variable, "data"; of an output,
 * "<node>_output", or "<node>_<output>" where the operator names it otherwise;
 * of a gradient, see tn_graph_backward.
 * TN_NOT_FOUND with the nearest name. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_find(const tn_graph *graph,
                                         const char *name, tn_entry *out);

enum {                           /* what tn_graph_name lists */
       TN_GRAPH_ARGUMENTS = 0,   /* that the heads depend on, depth first */
       TN_GRAPH_AUXILIARIES = 1, /* the same of states */
       TN_GRAPH_HEADS = 2,
       TN_GRAPH_INTERNALS = 3, /* every visible entry, in order of nodes */
       TN_GRAPH_NODES = 4      /* names of nodes; the entry is its first */
};

/* Name and entry number `index` of a list; TN_NOT_FOUND beyond the last.
 * `entry` may be NULL. *name is borrowed until the graph is changed.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_name(tn_graph *graph, uint32_t list,
                                         size_t index, const char **name,
                                         tn_entry *entry);

/* Entry number `index` that a node reads; TN_NOT_FOUND beyond the last.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_child(const tn_graph *graph, uint32_t node,
                                          size_t index, tn_entry *out);

/* Full name of the operator that a node calls, "nn.convolution@1", or whose
 * gradient it computes; NULL for a variable, for any other node, and for a
 * number that no node has. Borrowed until the graph is released.
 * [host-thread] */
TN_API const char *tn_graph_operator(const tn_graph *graph, uint32_t node);

/* Sets an attribute of a node; `value` NULL removes it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attribute_set(tn_graph *graph,
                                                  uint32_t node,
                                                  const char *key,
                                                  const char *value);

/* An attribute; NULL if the node does not have it. Borrowed until it is
 * changed. [host-thread] */
TN_API const char *tn_graph_attribute(const tn_graph *graph, uint32_t node,
                                      const char *key);

/* Attribute number `index`; TN_NOT_FOUND beyond the last. Borrowed as above.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attribute_at(const tn_graph *graph,
                                                 uint32_t node, size_t index,
                                                 tn_attribute *out);

/* All attributes of all nodes as one JSON object, {"<node>$<key>": "<value>"},
 * in order of nodes, then of keys; those of a graph's or a loop's own nodes are
 * "<node>/<inner node>$<key>", behind the node's. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_attributes(const tn_graph *graph,
                                               tn_text **out);

/* What is known of a variable, for inference. Frozen. */
typedef struct tn_known {
  const char *name;
  tn_sig sig;
} tn_known;

/* Infers dtypes and shapes in both directions to a fixed point, from what
 * variables were made with and from `known`, which overrides it. TN_OK if all
 * that the heads depend on is known; TN_INCOMPLETE, naming what is not, if some
 * is not: what could be found out is kept all the same. TN_SHAPE or TN_DTYPE
 * name the node, its input, both shapes and where each came from, and nothing
 * is kept. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_infer(tn_graph *graph,
                                          const tn_known *known, size_t n);

/* What the last inference found out about an entry. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_sig(const tn_graph *graph, tn_entry entry,
                                        tn_sig *out);

/* ------------------------------------------------------------------ passes */

/* A copy of the graph to which passes were applied, in this order: "infer",
 * "flatten", and those of plugins, "acme.fold" (pass.h). The graph stays what
 * it is; names are kept, entries of the copy are others. TN_NOT_FOUND names the
 * passes that there are; TN_INVALID what a pass needs and which one provides
 * it, before any of them is run; a failure of a pass names it, its plugin and
 * the node. What the last inference found out of the variables is known in the
 * copy. The caller releases *out. [host-thread] */
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
  const char *plugin; /* NULL: it is the library's */
  const char *doc;    /* or NULL */
  const char *const *needs;
  const char *const *provides;
} tn_pass_info;

/* Pass number `index`: the library's, then those of plugins in order of
 * loading; TN_NOT_FOUND beyond the last. [any] */
TN_API TN_MUST_USE tn_code tn_pass_at(tn_runtime *rt, size_t index,
                                      tn_pass_info *out);

/* ------------------------------------------------------------------- files */

/* The graph as JSON: nodes, attributes, heads, and the plugins that it needs
 * with name, release and content hash. Reading it and writing it again gives
 * the same bytes. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_json(const tn_graph *graph, tn_text **out);

/* Reads `bytes` bytes of JSON. TN_NOT_FOUND names all plugins and operators
 * that are missing, TN_INVALID says at which byte what is wrong. The caller
 * releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_parse(tn_runtime *rt, const char *json,
                                          size_t bytes, tn_graph **out);

/* The same with a file. A file that is there is replaced as a whole, or left.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_save(const tn_graph *graph,
                                         const char *path);
TN_API TN_MUST_USE tn_code tn_graph_load(tn_runtime *rt, const char *path,
                                         tn_graph **out);

enum {                      /* tn_graph_picture */
       TN_PICTURE_TEXT = 0, /* a table of nodes, for a terminal */
       TN_PICTURE_DOT = 1,  /* for Graphviz */
       TN_PICTURE_SVG = 2   /* drawn here, with shapes */
};

/* A picture of the graph, with what the last inference found out.
 * TN_UNSUPPORTED if there are too many nodes to be drawn. The caller releases
 * *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_graph_picture(const tn_graph *graph,
                                            uint32_t format, tn_text **out);

/* ---------------------------------------------------------------- programs */

/* An array for one argument or state. */
typedef struct tn_argument {
  const char *name;
  tn_array *array;    /* NULL: the program makes one, of zeros, or of what the
                         operator says that a state begins as */
  tn_array *gradient; /* NULL: the program makes one if `request` wants it */
  tn_req request;     /* TN_REQ_NULL, WRITE or ADD; not read unless has_request
                         is 1: then it stands in place of tn_bind.request */
  uint32_t has_request;
  tn_sig known; /* for an array that the program makes; ndim -1 and dtype
                   TN_DTYPE_UNKNOWN where nothing is */
} tn_argument;

/* Where the nodes of a group run: those whose attribute `group` is `name`,
 * which tn_graph_scope_push gives to many. Others follow their neighbours:
 *
 * - A node of no group runs where its first input does that has a place; what
 *   has none by then, from the last node to the first, where its first reader
 *   does that has one; and so on as long as somebody finds a place. What is
 *   left, and nodes whose `group` is "", run at tn_bind.place.
 * - Gradients are computed where the node is whose gradient they are. Several
 *   of one entry are added where the entry is computed (in graphs that
 *   tn_graph_gradient made, where their sum is read); those of an argument lie
 *   where it does.
 * - What is read on another device is copied there by a step, once for all who
 *   read it: `<node>_<number of the output>_copy`. A shape needs no copy.
 * - Nodes of a graph that is used as an operator are placed one by one; they
 *   belong to that node's group unless they have one of their own. A loop runs
 *   as a whole where its node does; groups inside of its step mean nothing.
 * - Arguments, gradients and outputs lie where their node is, and so must the
 *   arrays that are given for them: TN_INVALID names both places, as it does
 *   with both nodes where a state is used on two devices. TN_NOT_FOUND names a
 *   group that there is not, or whose device there is not.
 *
 * Without any tn_group all nodes run at tn_bind.place, whatever their group. A
 * device that cannot add (tn_device.sum) has kernels, copies and zeros; sums of
 * gradients, loops, and requests to add to a copy are TN_UNSUPPORTED there. */
typedef struct tn_group {
  const char *name;
  tn_place place;
} tn_group;

enum { /* tn_bind.plan */
       /* Offsets in one pool. With several workers, long branches get memory
        * apart, if that takes at most half more; not if `memory` is given. */
       TN_PLAN_DEFAULT = 0,
       TN_PLAN_NONE = 1,           /* every entry has its own memory */
       TN_PLAN_COMPAT = 2,         /* as the planner of MXNet 0.12 */
       TN_PLAN_COMPAT_INPLACE = 3, /* only its in-place part */
       TN_PLAN_COMPAT_SHARE = 4    /* only its sharing part */
};

enum { /* tn_bind.flags */
       /* Every call on its own: no runs of elementwise calls, no joints
        * (pass.h); and on a device that has queues a fence behind each, so that
        * a failure that is noticed late names the call and not "from .. to". */
       TN_BIND_NO_FUSE = 1u << 0,
       /* Runs on a device are recorded there, and then launched as one
        * (tn_program_captured). Off by default: such a run is one operation, so
        * what it computes is there all at once, and failures, spans and what
        * was not run name the program and not the step. */
       TN_BIND_CAPTURE = 1u << 1
};

#define TN_MEMORY_MINIMAL 1ull /* tn_bind.memory: as little as possible */

/* How a program is made. Zero means the default in every field. Borrowed for
 * the call; arrays are kept. */
typedef struct tn_bind {
  uint32_t struct_size; /* sizeof(tn_bind) */
  uint32_t flags;       /* TN_BIND_* */
  uint32_t plan;        /* TN_PLAN_* */
  /* Of all arguments' gradients: TN_REQ_NULL, no gradients at all; WRITE or ADD
   * for arguments of floating-point type. */
  tn_req request;
  /* Those of which there is something to say; all others are made. A variable
   * that no head needs may be among them: its shape counts for the gradients of
   * calls that read it, and its own gradient is zeros. */
  const tn_argument *arguments;
  size_t n_arguments;
  /* For the heads; NULL, or an entry NULL: made, of zeros (but see `shared`, in
   * whose memory those of a TN_PLAN_COMPAT lie). One may be the array
   * of an argument, which is then overwritten behind all that reads it; there
   * are no gradients then but those that the graph has itself. No two results
   * may share memory, nor a gradient with an argument. */
  tn_array *const *outputs;
  size_t n_outputs;
  tn_place place; /* default device; {0, 0}: cpu(0) */
  const tn_group *groups;
  size_t n_groups;
  /* Bytes that intermediate results may take: what does not fit is computed
   * again. 0: as many as there are; TN_MEMORY_MINIMAL. */
  uint64_t memory;
  /* Whose memory this one may use: the two are never on their way at the same
   * time, and one thread at a time uses both. A run of one ends what a forward
   * run of the other has left for its backward part. Heads that the program
   * made lie in that memory too if its plan is a TN_PLAN_COMPAT: read them
   * before the other runs. NULL: none. */
  tn_program *shared;
  /* Names of passes that rewrite the program's graph, which is flat and
   * inferred, before gradients are added; those behind a "gradient" in the list
   * when they are there. Other than in tn_graph_apply they are done to the
   * program only. */
  const char *const *passes;
  size_t n_passes;
} tn_bind;

/* Makes a program of the graph's heads. TN_INVALID, TN_SHAPE, TN_DTYPE,
 * TN_INCOMPLETE and TN_UNSUPPORTED name the node; so does TN_OUT_OF_MEMORY,
 * with the bytes, or it says that what nodes share was missing. The caller
 * releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_bind(const tn_graph *graph,
                                           const tn_bind *how,
                                           tn_program **out);

/* Gives up the program, behind its last run; NULL is allowed. [host-thread] */
TN_API void tn_program_release(tn_program *program);

/* Schedules the forward part; `flags` is TN_CALL_TRAIN or 0. All of it, or,
 * when this fails, none: then no array has changed, and it may be tried again.
 * What steps fail at is told by the arrays that they write. Only of a program
 * that is watched (tn_program_monitor) steps may have run, and a failure of one
 * is returned here too. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_forward(tn_program *program,
                                              uint32_t flags);

/* Schedules the backward part, once after each forward run with TN_CALL_TRAIN.
 * `weights` are the gradients of the heads; NULL, or an entry NULL: ones, which
 * only heads accept that are losses (an output with the role TN_ROLE_LOSS), or
 * whose gradient does not read it. TN_INVALID says which head needs one, or
 * that another program has run in the same memory since. When it fails it may
 * be tried again, as tn_program_forward, without another forward run, unless
 * the program is watched. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_backward(tn_program *program,
                                               tn_array *const *weights,
                                               size_t n);

/* Schedules the first `steps` steps of the forward part, and says in *left, if
 * it is not NULL, how many there are behind them. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_forward_part(tn_program *program,
                                                   uint32_t flags, size_t steps,
                                                   size_t *left);

enum {                          /* tn_program_array */
       TN_PROGRAM_ARGUMENT = 0, /* by name */
       TN_PROGRAM_GRADIENT = 1, /* of the argument of that name */
       TN_PROGRAM_AUXILIARY = 2,
       TN_PROGRAM_OUTPUT = 3 /* by the head's name */
};

/* An array of the program. Borrowed until it is released. TN_NOT_FOUND;
 * TN_INVALID for another `what`. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_array(const tn_program *program,
                                            uint32_t what, const char *name,
                                            tn_array **out);

/* Array of head number `index`; TN_NOT_FOUND beyond the last. Borrowed.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_output(const tn_program *program,
                                             size_t index, tn_array **out);

/* Changes a parameter that an operator declares `dynamic`, of the node `node`,
 * for the runs that follow. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_set(tn_program *program, const char *node,
                                          const tn_value *value);

/* Called with each visible output, "<node>_<output>", when its step has been
 * computed; the array is borrowed for the call, and the program's runs wait for
 * it. It makes no call of this library but tn_array_get and tn_array_tensor. */
typedef void tn_monitor_fn(void *ctx, const char *name, tn_array *array);

/* Lets `fn` see what runs compute from now on; NULL ends it. While there is
 * one, steps run one by one, and nothing is fused. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_monitor(tn_program *program,
                                              tn_monitor_fn *fn, void *ctx);

/* A program like `program` for other shapes of some arguments, which shares its
 * memory as far as it reaches (tn_bind.shared), and the arrays whose shapes
 * stay the same, gradients and those given for heads included; TN_INVALID if a
 * head that overwrites an argument would have another shape. Where `known`
 * tells no type, an argument keeps its own; parameters are what tn_program_set
 * has made of them. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_reshape(tn_program *program,
                                              const tn_known *known, size_t n,
                                              tn_program **out);

/* What a program takes. */
typedef struct tn_program_stats {
  uint32_t struct_size; /* sizeof(tn_program_stats) */
  uint32_t reserved;
  uint64_t n_forward; /* steps */
  uint64_t n_backward;
  uint64_t n_fused;         /* calls that are parts of larger steps, joints
                               among them */
  uint64_t pool_bytes;      /* memory of intermediate results, as planned */
  uint64_t bound_bytes;     /* the peak of what is alive at one time: no plan
                               with these in-place pairs can do with less */
  uint64_t workspace_bytes; /* of them */
  uint64_t own_bytes;       /* arguments, gradients, states that it made */
  double repeated; /* forward work that is done twice, as a fraction of all */
  uint64_t n_chained; /* fused calls that hand on what they make in registers */
} tn_program_stats;
TN_API TN_MUST_USE tn_code tn_program_stats_get(const tn_program *program,
                                                tn_program_stats *out);

/* The steps as a table: node, kernel, the device if there are several, shapes,
 * requests, where in the device's memory, what is fused or joined and, with
 * `why` 1, why what is not is not. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_text(const tn_program *program,
                                           uint32_t why, tn_text **out);

enum { /* tn_program_captured: what is recorded on its own */
       TN_PART_FORWARD = 0, /* runs of tn_program_forward */
       TN_PART_TRAIN = 1,   /* with TN_CALL_TRAIN */
       TN_PART_BACKWARD = 2
};

/* Whether runs of this part are launched as one by now (TN_BIND_CAPTURE): *why
 * is NULL if so, and otherwise the reason, "node `fc1`: ...", which
 * tn_program_text shows too. Where nothing is against it, the first run is made
 * step by step, since kernels may then still have something to make ready; the
 * second is recorded, and what follows computes what step by step it would, as
 * parameters and random numbers go on changing. A run that was made step by
 * step because recording it failed is as good as any, and so are those behind
 * it; where memory was wanting, to record it or for a launch, that is tried
 * again, behind 8 runs and then each time behind twice as many, and *why says
 * so. What is against it: steps on several devices, or on the cpu; a device, or
 * its driver, that cannot record; a kernel that does not declare `capturable`
 * (tenon/capture.h). While a monitor looks, nothing is recorded or launched.
 * Waits for the runs that are on their way. The caller releases *why.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_captured(tn_program *program,
                                               uint32_t part, tn_text **why);

/* The program's memory over time as an SVG: steps from left to right, bytes of
 * each device's pool upwards, one rectangle for each piece of memory from its
 * first use to its last. TN_UNSUPPORTED if there are too many steps to be
 * looked at. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_picture(const tn_program *program,
                                              tn_text **out);

#ifdef __cplusplus
}
#endif
#endif /* TENON_GRAPH_H_ */
