/* SPDX-License-Identifier: Apache-2.0
 * pass.h: passes of a plugin: functions that read a graph and may rewrite it.
 * Standalone: op.h only.
 *
 * Draft: this header may change in any release.
 *
 * The host provides a table as the extension "tn.pass/1". A plugin gets it in
 * its init and registers its passes with it:
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
 * THE GRAPH OF A PASS is a copy of the user's graph: a list of nodes that read
 * entries, that is outputs, of others. At the start, a node follows all nodes
 * that it reads. New nodes get the next numbers; a number means the same node
 * until the pass returns. A pass removes no nodes: at its end the host drops
 * all nodes that no head needs, old and new, except variables. In a program,
 * gradients are heads too after "gradient".
 *
 * GRAPHS INSIDE OF NODES (steps of loops, graphs used as operators; in a
 * program there are none but the steps of loops) are skipped, unless the pass
 * has TN_PASS_INNER. Then `run` is called once for each of them, the innermost
 * first, and then for the outer graph. Each is a graph like any other: the
 * inputs of its node are variables with the known facts of the inputs, and
 * heads keep their shapes and types.
 *
 * ALL OR NOTHING. When the pass has returned TN_OK, the host puts the nodes in
 * order again and checks: there is no cycle, gradients still belong to their
 * calls, shapes and element types agree everywhere, and no head has another
 * shape or type than before. Otherwise, and if the pass returns another code,
 * the user's graph is unchanged, and the failure names the pass, the plugin and
 * the node. So a pass need not undo anything.
 *
 * FACTS are names of properties of a graph: a pass *needs* some of them and
 * *provides* others. Before it runs a list of passes, the host checks that each
 * needed fact is provided before. Its own facts are
 *
 * - `shapes` and `dtypes`: all that the heads depend on are known. The pass
 *   "infer" infers them, and so does the host after every pass.
 * - `gradient`: the nodes of the gradient exist. Provided by "gradient".
 * - `flat`: no node is a graph, except steps of loops. Provided by "flatten".
 *
 * A plugin's begin with its name ("acme.marked"). Such a fact is valid for
 * later passes of the same list.
 *
 * FUSED PAIRS. If one operator reads the output of another, a third may compute
 * both in one kernel: a convolution and a relu. A plugin with such an operator
 * declares it with `join`, and needs no pass: every program uses it if
 * possible, unless it is bound with TN_BIND_NO_FUSE (tn_fused_pair, below). The
 * graph, its gradients, its names and the outputs for a monitor stay the same.
 *
 * THREADS. A pass runs on the thread of its caller. Other passes, or the same
 * one, may run on other threads: their shared data must be constant. Only that
 * thread uses the tn_rewrite, until `run` returns. A plugin is not unloaded
 * while a pass of it runs; its passes are removed with it.
 *
 * Versions: struct_size is the sizeof that its author compiled with. Fields are
 * only ever added at the end.
 */
#ifndef TENON_DRAFT_PASS_H_
#define TENON_DRAFT_PASS_H_

#include "tenon/plugin/entry.h"
#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_PASS_EXTENSION "tn.pass/1"

/* The graph of a pass. */
typedef struct tn_rewrite tn_rewrite;

enum { TN_PASS_INNER = 1 }; /* tn_pass.flags: it visits graphs in nodes */

/* A pass. Borrowed, with everything that it points to, until fini. */
typedef struct tn_pass {
  uint32_t struct_size;
  uint32_t n_needs;
  uint32_t n_provides;
  uint32_t flags;   /* TN_PASS_* */
  const char *name; /* a letter, then letters, digits, _; without the plugin's:
                       `square` is "acme.square" for users */
  const char *doc;  /* one sentence for people, or NULL */
  const char *const *needs;    /* facts */
  const char *const *provides; /* those of the plugin itself: "acme.marked" */
  void *ctx;                   /* passed to `run` */

  /* TN_OK, or a code, preferably after tn_passes.fail. [host-thread] */
  int32_t (*run)(void *ctx, tn_rewrite *graph);
} tn_pass;

enum {                          /* tn_rewrite_node.kind */
       TN_REWRITE_VARIABLE = 0, /* an argument or a state */
       TN_REWRITE_CALL = 1,     /* of an operator */
       TN_REWRITE_BACKWARD =
           2,               /* the gradient of the call `of`, by its backward
                               kernel. In: gradients of the outputs, the inputs,
                               the outputs, if they are read */
       TN_REWRITE_SUM = 3,  /* of two or more */
       TN_REWRITE_ZERO = 4, /* zeros, ones: of the shape of in[0] */
       TN_REWRITE_ONE = 5,
       TN_REWRITE_COPY = 6,
       TN_REWRITE_GRAPH = 7, /* a graph used as an operator */
       TN_REWRITE_LOOP = 8
};

/* One node. The caller sets struct_size. Its pointers are borrowed until the
 * pass changes the graph. */
typedef struct tn_rewrite_node {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t n_in;  /* inputs; after them in `in`: */
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

/* Known facts of an entry. The caller sets struct_size. */
typedef struct tn_rewrite_sig {
  uint32_t struct_size;
  tn_dtype dtype; /* TN_DTYPE_UNKNOWN */
  int32_t ndim;   /* -1: not known */
  uint32_t reserved;
  const int64_t *shape; /* ndim; -1: not known. Borrowed as above */
} tn_rewrite_sig;

/* A call to add. Everything is borrowed for the call. */
typedef struct tn_rewrite_call {
  uint32_t struct_size;
  uint32_t n_in;
  const char *op;     /* "acme.square", "acme.square@1" */
  const char *params; /* "axis=1"; NULL: all defaults */
  const char *name;   /* NULL: the host makes one. A name that is in use is
                         refused, also that of a node that will be dropped */
  const tn_entry *in; /* all inputs that are not optional, then all states */
} tn_rewrite_call;

/* A fused pair: `both` applies `first`, then `second` to its first output.
 * Borrowed, with its texts, until fini. Names are full: "acme.convolve@1".
 *
 * `second` has one input and one output. `both` has the inputs, the states and
 * the outputs of `first`, in that order, but its first output is that of
 * `second`. It has every parameter of the two, which have no name in common.
 * Its results are those of the two calls. No parameter of the two is dynamic,
 * because a change would not reach it.
 *
 * A program makes one step of two calls if nothing else reads the value between
 * them, which then needs no memory. They must run on one device, in the same
 * part of the program, and no tn_graph_depends may name one of them. The kernel
 * of `first` is not elementwise, because runs of such are fused. The host must
 * not have pinned a kernel of `first` or `second`. The kernel of `both` must be
 * from the plugin of the kernel of `first`, so that a faster `first` of another
 * plugin is preferred, and have the same options, set to the same values. If a
 * condition is false there are two steps, and tn_program_text shows the reason.
 *
 * Likewise the gradients of two such calls become one step, by the backward
 * kernel of `both`, if it reads no more than they do: the gradient of the
 * output, the output, and the operands that the gradient of `first` reads. On
 * devices that have queues the gradient of `second` may be elementwise. */
typedef struct tn_fused_pair {
  uint32_t struct_size;
  uint32_t reserved;
  const char *first;
  const char *second;
  const char *both;
} tn_fused_pair;

/* The host's functions for passes: constant, valid as long as the plugin. A
 * function that fails leaves the graph unchanged, and its reason becomes part
 * of the failure of the pass, unless the pass returns TN_OK. [host-thread],
 * except `add` and `add_pair`, and only for the graph of the present `run`. */
typedef struct tn_passes {
  uint32_t struct_size;
  uint32_t reserved;

  /* Registers a pass of the plugin that init is called for. TN_EXISTS if it has
   * a pass of that name, TN_INVALID: then init fails. [load] */
  int32_t (*add)(tn_registrar *registrar, const tn_pass *pass);

  /* Explains why the pass fails, and returns `code`. `node` may be TN_NONE. */
  int32_t (*fail)(tn_rewrite *graph, uint32_t node, int32_t code,
                  const char *format, ...) TN_PRINTF(4, 5);

  uint32_t (*n_nodes)(const tn_rewrite *graph);
  int32_t (*node)(tn_rewrite *graph, uint32_t node, tn_rewrite_node *out);
  /* Its parameters as text, "axis=1 keepdims=0", as for a call. Borrowed until
   * the pass returns. */
  int32_t (*params)(tn_rewrite *graph, uint32_t node, const char **out);
  /* TN_NOT_FOUND if no node has the name. */
  int32_t (*find)(tn_rewrite *graph, const char *name, uint32_t *out);
  uint32_t (*n_heads)(const tn_rewrite *graph);
  int32_t (*head)(tn_rewrite *graph, uint32_t index, tn_entry *out);
  /* Known facts of an entry. None are known of one that the pass made. */
  int32_t (*sig)(tn_rewrite *graph, tn_entry entry, tn_rewrite_sig *out);
  /* NULL if the node does not have it. Borrowed until it is changed. */
  const char *(*attribute)(const tn_rewrite *graph, uint32_t node,
                           const char *key);

  /* Sets an attribute; NULL removes it. */
  int32_t (*attribute_set)(tn_rewrite *graph, uint32_t node, const char *key,
                           const char *value);
  /* Adds a call; *out is its first output. */
  int32_t (*call)(tn_rewrite *graph, const tn_rewrite_call *call,
                  tn_entry *out);
  /* Replaces `from` by `to` in nodes and heads, except in the node of `to`
   * itself, so that a call can be inserted after `from`. */
  int32_t (*redirect)(tn_rewrite *graph, tn_entry from, tn_entry to);
  /* Input number `input` of one node becomes `to`. A state cannot. */
  int32_t (*rewire)(tn_rewrite *graph, uint32_t node, uint32_t input,
                    tn_entry to);

  /* Declares a fused pair; the plugins of its operators need not be loaded.
   * Beyond struct_size in hosts without fused pairs. TN_EXISTS if the plugin
   * has declared one for these two, TN_INVALID: then init fails. [load] */
  int32_t (*add_pair)(tn_registrar *registrar, const tn_fused_pair *pair);
} tn_passes;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DRAFT_PASS_H_ */
