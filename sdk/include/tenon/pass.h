/* SPDX-License-Identifier: Apache-2.0
 * pass.h: passes that a plugin offers: functions that read a graph and may
 * rewrite it. Standalone: op.h only.
 *
 * The host provides a table as the extension "tn.pass/1". A plugin asks for it
 * in its init and registers its passes with it:
 *
 *   static const tn_passes *passes;
 *
 *   static int32_t square(void *ctx, tn_rewrite *net) {
 *     const uint32_t n = passes->n_nodes(net);
 *     for (uint32_t i = 0; i < n; ++i) {
 *       tn_rewrite_node node = {.struct_size = sizeof node};
 *       tn_rewrite_call call = {.struct_size = sizeof call,
 *                               .op = "acme.square", .n_in = 1};
 *       tn_entry out;
 *       int32_t rc = passes->node(net, i, &node);
 *       if (rc) return rc;
 *       if (node.kind != TN_REWRITE_CALL || strcmp(node.op, "acme.mul@1") ||
 *           node.in[0].node != node.in[1].node ||
 *           node.in[0].index != node.in[1].index)
 *         continue;
 *       call.in = node.in;
 *       rc = passes->call(net, &call, &out);
 *       if (!rc) rc = passes->redirect(net, (tn_entry){i, 0}, out);
 *       if (rc) return rc;
 *     }
 *     return TN_OK;
 *   }
 *
 *   int32_t acme_init(const tn_host *host, tn_registrar *registrar, void **i) {
 *     static const tn_pass pass = {.struct_size = sizeof pass,
 *                                  .name = "square", .run = square};
 *     passes = host->extension(host, TN_PASS_EXTENSION);
 *     return passes ? passes->add(registrar, &pass) : TN_OK;
 *   }
 *
 * Users name it "acme.square", in tn_graph_apply or tn_bind (graph.h).
 *
 * WHAT A PASS WORKS ON is a copy of the user's graph: a list of nodes, of which
 * each reads entries, that is outputs, of others. When the pass begins, a node
 * comes behind all that it reads. Nodes that the pass makes get the numbers
 * behind; a number means the same node until the pass returns. Nothing is taken
 * out by hand: what no head needs any more, because its uses were redirected,
 * is left out at the end, as are new nodes that no head needs. Variables stay.
 * In a program, behind "gradient" the gradients are heads too.
 *
 * GRAPHS INSIDE OF NODES (steps of loops, graphs used as operators; in a
 * program there are none but the steps of loops) are not looked into, unless
 * the pass has TN_PASS_INNER. Then `run` is called once for each of them, the
 * innermost first, and then for the graph around them. Each is a graph like any
 * other: with the inputs of its node as variables, of which is known what is
 * known of the inputs, and heads that keep their shapes and types.
 *
 * ALL OR NOTHING. When the pass has returned TN_OK, the host puts the nodes in
 * order again and checks: there is no cycle, gradients still belong to the
 * calls that they were made for, shapes and element types agree everywhere, and
 * no head has another shape or type than before. Otherwise, and if the pass
 * returns another code, the user's graph is what it was, and the failure names
 * the pass, the plugin and the node. So a pass need not undo anything.
 *
 * FACTS are words for what holds of a graph: a pass *needs* some of them and
 * *provides* others. The host asks for each list of passes whether all that is
 * needed was provided before it runs the first of them. Its own facts are
 *
 * - `shapes` and `dtypes`: all of them are known that the heads depend on. The
 *   pass "infer" finds them out, and so does the host behind every pass.
 * - `gradient`: the nodes of the gradient are there. Provided by "gradient".
 * - `flat`: no node is a graph, but for steps of loops. Provided by "flatten".
 *
 * A plugin's begin with its name ("acme.marked"). Such a one holds for the
 * passes that follow in the same list.
 *
 * JOINTS. Of two operators of which one works on what the other has made, a
 * third may compute both in one go: a convolution and what is done to each of
 * its elements. A plugin that has such an operator says so with `join`, and
 * needs no pass: every program takes the one for the two where it can, unless
 * TN_BIND_NO_FUSE stands in its flags (tn_joint, below). The graph stays what
 * it was, and so do its gradients, its names and what a monitor sees.
 *
 * THREADS. A pass runs on the thread that asked for it, several passes, or one
 * several times, at the same time on others: what they share is constant. A
 * tn_rewrite is for that thread until `run` returns. A plugin is not unloaded
 * while a pass of it runs; its passes are gone when it is.
 *
 * Versions: struct_size is the sizeof that its author compiled with. Fields are
 * only ever added at the end.
 */
#ifndef TENON_PASS_H_
#define TENON_PASS_H_

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_PASS_EXTENSION "tn.pass/1"

/* Output `index` of node number `node`, in one graph. Frozen. */
typedef struct tn_entry {
  uint32_t node;
  uint32_t index;
} tn_entry;

/* An optional input that is not given. */
#ifdef __cplusplus
#define TN_ENTRY_NONE (tn_entry{TN_NONE, 0})
#else
#define TN_ENTRY_NONE ((tn_entry){TN_NONE, 0})
#endif

/* A graph that a pass works on. */
typedef struct tn_rewrite tn_rewrite;

enum { TN_PASS_INNER = 1 }; /* tn_pass.flags: it looks into nodes */

/* A pass. Borrowed, with all that it leads to, until fini. */
typedef struct tn_pass {
  uint32_t struct_size;
  uint32_t n_needs;
  uint32_t n_provides;
  uint32_t flags;   /* TN_PASS_* */
  const char *name; /* a letter, then letters, digits, _; without the plugin's:
                       what is `square` here is "acme.square" for users */
  const char *doc;  /* one sentence for people, or NULL */
  const char *const *needs;    /* facts */
  const char *const *provides; /* those of the plugin itself: "acme.marked" */
  void *ctx;                   /* handed to `run` */

  /* TN_OK, or a code, best after tn_passes.fail. [host-thread] */
  int32_t (*run)(void *ctx, tn_rewrite *graph);
} tn_pass;

enum {                          /* tn_rewrite_node.kind */
       TN_REWRITE_VARIABLE = 0, /* an argument or a state */
       TN_REWRITE_CALL = 1,     /* of an operator */
       TN_REWRITE_BACKWARD =
           2,               /* the gradient of the call `of`, by its backward
                               kernel. In: gradients of the outputs, the
                               inputs, the outputs, where they are read */
       TN_REWRITE_SUM = 3,  /* of two or more */
       TN_REWRITE_ZERO = 4, /* zeros, ones: of the shape of in[0] */
       TN_REWRITE_ONE = 5,
       TN_REWRITE_COPY = 6,
       TN_REWRITE_GRAPH = 7, /* a graph used as an operator */
       TN_REWRITE_LOOP = 8
};

/* One node. The caller sets struct_size. What it leads to is borrowed until the
 * pass changes the graph. */
typedef struct tn_rewrite_node {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t n_in;  /* inputs; behind them in `in`: */
  uint32_t n_aux; /* states */
  uint32_t n_out;
  uint32_t of;       /* BACKWARD: the call; else TN_NONE */
  uint32_t gradient; /* 1: made by the gradient pass */
  uint32_t reserved;
  const char *name;
  const char *op;     /* CALL, BACKWARD: "elemwise.mul@1"; else NULL */
  const void *params; /* the struct that the operator's kernels get, or NULL */
  const tn_entry *in; /* TN_ENTRY_NONE where an optional input is absent */
} tn_rewrite_node;

/* What is known of an entry. The caller sets struct_size. */
typedef struct tn_rewrite_sig {
  uint32_t struct_size;
  tn_dtype dtype; /* TN_DTYPE_UNKNOWN */
  int32_t ndim;   /* -1: not known */
  uint32_t reserved;
  const int64_t *shape; /* ndim; -1: not known. Borrowed as above */
} tn_rewrite_sig;

/* A call to be made. Everything is borrowed for the call. */
typedef struct tn_rewrite_call {
  uint32_t struct_size;
  uint32_t n_in;
  const char *op;     /* "acme.square", "acme.square@1" */
  const char *params; /* "axis=1"; NULL: all defaults */
  const char *name;   /* NULL: one is made. A name that a node has is refused,
                         also that of a node which is going to be left out */
  const tn_entry *in; /* all inputs that are not optional, then all states */
} tn_rewrite_call;

/* `both` computes what `second` makes of the first output of `first`. Borrowed,
 * with its texts, until fini. Names are full: "acme.convolve@1".
 *
 * `second` has one input and one output. `both` has the inputs, the states and
 * the outputs of `first`, in that order, but that its first output is what
 * `second` makes of it; and every parameter of the two, which have no name in
 * common. Its results are those of the two calls. No parameter of the two is
 * dynamic: who changes one would not reach it.
 *
 * A program makes one step of two calls when nobody else reads what goes from
 * the one to the other, which then needs no memory. They must run on one
 * device, in the same part of the program, and nobody may wait for one of them
 * by name. The kernel of `first` is not elementwise, as runs of such are fused.
 * The host must not have pinned a kernel of `first` or `second`. The kernel of
 * `both` must be of the plugin that the one of `first` is of, so that whoever
 * brings a faster `first` is not passed over, and have the same options, set to
 * the same values. Where something of this does not hold there are two steps,
 * and tn_program_text says why.
 *
 * Likewise the gradients of two such calls become one step, by the backward
 * kernel of `both`, if that reads no more than they do: the gradient of what
 * comes out, that itself, and what the gradient of `first` reads. On devices
 * that have queues the one of `second` may be elementwise there. */
typedef struct tn_joint {
  uint32_t struct_size;
  uint32_t reserved;
  const char *first;
  const char *second;
  const char *both;
} tn_joint;

/* The host's functions for passes: constant, there as long as the plugin. Each
 * of those that may fail leaves the graph as it was if it does, and tells why
 * in the failure of the pass, unless that goes on and returns TN_OK.
 * [host-thread], but for `add` and `join`, and only for a graph that `run` was
 * given. */
typedef struct tn_passes {
  uint32_t struct_size;
  uint32_t reserved;

  /* Registers a pass of the plugin whose init has this registrar. TN_EXISTS if
   * it has a pass of that name, TN_INVALID: then init fails. [load] */
  int32_t (*add)(tn_registrar *registrar, const tn_pass *pass);

  /* Explains why the pass fails, and returns `code`. `node` may be TN_NONE. */
  int32_t (*fail)(tn_rewrite *graph, uint32_t node, int32_t code,
                  const char *format, ...) TN_PRINTF(4, 5);

  uint32_t (*n_nodes)(const tn_rewrite *graph);
  int32_t (*node)(tn_rewrite *graph, uint32_t node, tn_rewrite_node *out);
  /* Its parameters as text, "axis=1 keepdims=0", as a call takes them. Borrowed
   * until the pass returns. */
  int32_t (*params)(tn_rewrite *graph, uint32_t node, const char **out);
  /* TN_NOT_FOUND if no node has the name. */
  int32_t (*find)(tn_rewrite *graph, const char *name, uint32_t *out);
  uint32_t (*n_heads)(const tn_rewrite *graph);
  int32_t (*head)(tn_rewrite *graph, uint32_t index, tn_entry *out);
  /* What is known of an entry. Nothing is known of one that the pass made. */
  int32_t (*sig)(tn_rewrite *graph, tn_entry entry, tn_rewrite_sig *out);
  /* NULL if the node does not have it. Borrowed until it is changed. */
  const char *(*attribute)(const tn_rewrite *graph, uint32_t node,
                           const char *key);

  /* Sets an attribute; NULL removes it. */
  int32_t (*attribute_set)(tn_rewrite *graph, uint32_t node, const char *key,
                           const char *value);
  /* Makes a call; *out is its first output. */
  int32_t (*call)(tn_rewrite *graph, const tn_rewrite_call *call,
                  tn_entry *out);
  /* Whoever reads `from` reads `to` instead: nodes and heads, but for the node
   * of `to` itself, so that a call can be put behind what it reads. */
  int32_t (*redirect)(tn_rewrite *graph, tn_entry from, tn_entry to);
  /* Input number `input` of one node becomes `to`. A state cannot. */
  int32_t (*rewire)(tn_rewrite *graph, uint32_t node, uint32_t input,
                    tn_entry to);

  /* Tells of an operator for two; the plugins of the three need not be there.
   * Behind struct_size for hosts that know of none. TN_EXISTS if the plugin has
   * told of one for these two, TN_INVALID: then init fails. [load] */
  int32_t (*join)(tn_registrar *registrar, const tn_joint *joint);
} tn_passes;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PASS_H_ */
