/* SPDX-License-Identifier: Apache-2.0
 * op.h: the plugin ABI of Tenon. Standalone: libc headers only, C11 or C++17.
 * It has the tables of kernels and plugins, and includes the other parts:
 *
 *   plugin/tensor.h     versions, result codes, types, tensors, requests
 *   plugin/call.h       one call of a kernel, and functions of the host
 *   plugin/operator.h   parameters, operands, gradients, operators
 *
 * A plugin is one shared object that exports exactly one symbol, constant data:
 * `const tn_plugin tn_plugin_entry`. It leads to constant tables that describe
 * operators (their meaning) and kernels (how a device computes them). The tool
 * `opgen` writes every table from a YAML manifest; an author writes at most
 * functions of one type:
 *
 *   int32_t acme_cube(const tn_frame *call) {
 *     const float *x = (const float *)call->in[0].data;
 *     float *y = (float *)call->out[0].data;
 *     int64_t n = tn_tensor_size(&call->in[0]);
 *     if (n > 1000000000)
 *       return TN_FAIL(call, TN_OUT_OF_RANGE, "%lld elements", (long long)n);
 *     for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i] * x[i];
 *     return TN_OK;
 *   }
 *
 * The host reads a file's note, `.note.tenon`, before it opens it, and compares
 * versions before it calls anything. It owns all memory: the arguments of a
 * call are borrowed until it returns. The host never frees memory that a plugin
 * allocated.
 *
 * RULES FOR READERS OF THESE STRUCTS (docs/reference/abi.md numbers them)
 * - Every struct that may grow begins with `struct_size`, the size its writer
 *   knew. Fields are only ever added at the end. Use TN_HAS() before reading a
 *   field that is newer than your target.
 * - Arrays of growing structs are arrays of pointers; structs in arrays by
 * value (tn_tensor, tn_node, tn_term, tn_need, tn_ints ...) are frozen.
 * - Fixed-width integers only; no hidden padding; offsets are asserted against
 *   the numbers committed in sdk/abi/.
 * - Strings are NUL-terminated UTF-8 and constant for the life of the plugin.
 *   An absent optional string is NULL.
 *
 * THREAD TAGS. The last words of each function's comment name the threads that
 * run it:
 *   [load]        one thread at a time, while the plugin is loaded or unloaded
 *   [any]         any thread, at the same time as any other function; it must
 *                 not change anything that is shared
 *   [worker]      a thread that executes operations; at the same time as other
 *                 calls, unless the kernel lacks TN_KERNEL_REENTRANT
 *   [host-thread] a thread of the application, never from inside a plugin
 */
#ifndef TENON_PLUGIN_OP_H_
#define TENON_PLUGIN_OP_H_

#include "tenon/plugin/call.h"
#include "tenon/plugin/operator.h"
#include "tenon/plugin/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
/* ----------------------------------------------------------------- kernels */

enum { TN_PASS_FORWARD = 0, TN_PASS_BACKWARD = 1 }; /* tn_kernel.pass */

enum {                                    /* tn_kernel.flags */
       TN_KERNEL_REENTRANT = 1u << 0,     /* calls of a runtime may overlap */
       TN_KERNEL_DETERMINISTIC = 1u << 1, /* same input, same bits */
       TN_KERNEL_ASYNC = 1u << 2,      /* returns before the device is done */
       TN_KERNEL_CAPTURABLE = 1u << 3, /* may be recorded into a device graph */
       /* element i of an output depends on element i of the inputs only, or on
        * one that repeats to i; backward at the outputs' shape. It can be
        * called on any block of elements: operands have its shape, and strides
        * of 0 where they repeat; `prepared` stays valid */
       TN_KERNEL_ELEMENTWISE =
           1u << 4 /* bits 5 to 7: reduction.h, registers.h, device.h */
};
#if TN_TARGET_MINOR >= 2
/* tn_kernel.flags: compute may return TN_LATER, and the call completes when the
 * plugin calls host->complete (call.h). Not together with
 * TN_KERNEL_ELEMENTWISE, TN_KERNEL_REDUCTION, TN_KERNEL_ASYNC or
 * TN_KERNEL_CAPTURABLE. Without TN_KERNEL_REENTRANT, other calls without it
 * start only after the completion. */
enum { TN_KERNEL_LATER = 1u << 8 };
#endif

enum { TN_RESOURCE_RANDOM = 1 }; /* tn_kernel.resources */
#if TN_TARGET_MINOR >= 2
/* tn_kernel.resources: calls whose order is the same on every machine. Calls of
 * a runtime whose kernels list it run one after the other, in the order in
 * which they are pushed, each to its completion. A program runs them in the
 * order of its steps. If an operand carries an error, compute is called all the
 * same, with TN_CALL_TOLD in the flags of the call: others may have to hear
 * that it cannot take part. */
enum { TN_RESOURCE_ORDER = 2 };
#endif
#define TN_MAX_WORKSPACES 8

typedef struct tn_workspace { /* frozen */
  uint64_t bytes;
  uint64_t align; /* power of two; 0 means 64 */
} tn_workspace;

/* The result of prepare. The host passes it filled with zeros. */
typedef struct tn_plan {
  uint32_t struct_size;
  uint32_t n_ws;
  tn_workspace ws[TN_MAX_WORKSPACES];
  uint64_t random_blocks;          /* Philox blocks; 0: one per element out */
  void *prepared;                  /* becomes call->prepared */
  void (*destroy)(void *prepared); /* frees it; NULL if there is nothing to
                                      free. [any] */
} tn_plan;

#if TN_TARGET_MINOR >= 2
/* Output `out` of a call may have the memory of input `in`. */
typedef struct tn_inplace { /* frozen */
  uint32_t in;              /* index in call->in of a call with all operands */
  uint32_t out;             /* index in call->out */
} tn_inplace;
#endif

/* One implementation of an operator's forward or backward. Constant. */
typedef struct tn_kernel {
  uint32_t struct_size;
  uint32_t flags; /* TN_KERNEL_* */
  uint32_t pass;  /* TN_PASS_* */
  int32_t device_type;
  int32_t priority; /* of usable kernels the highest wins */
  uint32_t writes;  /* TN_WRITES_*; the host lowers others to these */
  uint32_t n_dtype_sets;
  uint32_t n_resources;
  uint32_t options_size; /* sizeof of the generated options struct; 0: none */
  uint32_t n_options;
  uint32_t n_nodes;
  uint32_t when;  /* node that must be true, or TN_NONE. It may use parameters
                     and ranks, sizes and shapes of operands */
  const char *op; /* full name with interface: "nn.convolution@1" */
  const char *id; /* unique: "cudnn.convolution.cuda" */
  const char *requirement;    /* further requirement ("cudnn >=8.0"), or NULL */
  const char *when_text;      /* the condition as written, or NULL */
  const uint64_t *dtype_sets; /* per dtype variable: TN_BIT_*; 0: the op's */
  const uint32_t *resources;  /* TN_RESOURCE_*, in the order of tn_run */
  const tn_field *const *options;
  const tn_node *nodes;

  /* Decides whether this kernel can compute the call: TN_OK, or TN_UNSUPPORTED
   * after TN_FAIL with the reason, which `tenon show --why` prints. NULL:
   * always. [any] */
  int32_t (*supports)(const tn_frame *call);

  /* For each new combination of params, dtypes, shapes, layout, requests, flags
   * and device, at the latest before the call, and again after the host has
   * dropped the result: sets workspaces and creates data that calls share.
   * [any] */
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan);

  /* Computes the call. Returns TN_OK or TN_FAIL(...); with TN_KERNEL_LATER
   * also TN_LATER (call.h). [worker] */
  int32_t (*compute)(const tn_frame *call);

#if TN_TARGET_MINOR >= 2
  /* The pairs that the kernel supports under TN_REQ_INPLACE, the preferred ones
   * of each output first. The host uses each output and each input in one pair
   * of a call at most, and only an input that nothing reads after the call. The
   * other inputs keep their elements until compute returns. None, or an older
   * file: the one input that the operator names (tn_arg.inplace,
   * tn_input_gradient.inplace). Since 0.2. */
  uint32_t n_inplace;
  uint32_t reserved;
  const tn_inplace *inplace;
#endif
} tn_kernel;

/* An operator of another plugin that kernels of this one compute, as it was at
 * their compilation. The loader accepts a params struct that has grown at its
 * end. */
typedef struct tn_target {
  uint32_t struct_size;
  uint32_t params_size;
  uint32_t n_params;
  uint32_t reserved;
  const char *op; /* "nn.convolution@1" */
  const tn_field *const *params;
} tn_target;

/* ------------------------------------------------------------------ plugin */

#if TN_TARGET_MINOR >= 2
/* A plugin that has to be loaded before this one. Constant. */
typedef struct tn_dependency {
  uint32_t struct_size;
  uint32_t release; /* the lowest usable one; 0: any */
  const char *plugin;
} tn_dependency;
#endif

/* The host's side of `init`. Valid until init returns. */
struct tn_registrar {
  uint32_t struct_size;
  uint32_t reserved;
  void *host_data; /* the host's own; do not touch */

  /* Explains why init will fail, and returns `code`. [load] */
  int32_t (*fail)(tn_registrar *registrar, int32_t code, const char *format,
                  ...) TN_PRINTF(3, 4);

  /* Withdraws a declared kernel (by id, both passes) because this machine lacks
   * something that it requires; `why` is shown by `tenon show --why`.
   * TN_NOT_FOUND if no kernel of the plugin has the id; TN_INVALID if it is
   * NULL, and then init fails. [load] */
  int32_t (*withdraw)(tn_registrar *registrar, const char *kernel_id,
                      const char *why);

  /* Offers a table to other plugins under an id ("blas/1"), or to the host
   * (device.h). It must stay valid until fini. TN_EXISTS if the id is in use;
   * ids for the host may be provided once per plugin. [load] */
  int32_t (*provide)(tn_registrar *registrar, const char *id,
                     const void *table);
};

/* "TENONPLG", first byte lowest. */
#define TN_PLUGIN_MAGIC 0x474c504e4f4e4554ull

/* tn_plugin.flags: dlclose is safe, no threads, atexit or pointers remain. */
enum { TN_PLUGIN_UNLOADABLE = 1u << 0 };

/* The one exported symbol. Constant data, so that the host can compare
 * versions before any function of the plugin runs. */
typedef struct tn_plugin {
  uint64_t magic; /* TN_PLUGIN_MAGIC */
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;      /* of the op.h it was compiled with */
  uint32_t min_host_minor; /* TN_TARGET_MINOR */
  uint32_t flags;          /* TN_PLUGIN_* */
  uint32_t release;        /* of the plugin, counted from 1 */
  uint32_t n_operators;
  uint32_t n_kernels;
  uint32_t n_targets;
  uint32_t reserved;
  uint64_t manifest_hash; /* of the note's manifest; binds the two together */
  const char *name;       /* namespace of its operators: "elemwise" */
  const char *summary;
  const char *license; /* SPDX expression */
  const char *opgen;   /* release of the generator that wrote the tables */
  const tn_op *const *operators;
  const tn_kernel *const *kernels;
  const tn_target *const *targets;

  /* Called once per runtime that loads the plugin, after every check and before
   * anything is registered. Keeps nothing of a runtime in globals: the host
   * passes the value of *instance back in call->instance. On failure it must
   * undo its work; fini is not called. NULL: nothing to do. [load] */
  int32_t (*init)(const tn_host *host, tn_registrar *registrar,
                  void **instance);

  /* Undoes init. No call is running or will run. NULL: nothing to do. [load] */
  void (*fini)(void *instance);

#if TN_TARGET_MINOR >= 2
  uint32_t n_dependencies;
  uint32_t reserved_2;
  /* Plugins that must be loaded before this one. They cannot be unloaded while
   * this one is loaded. In a folder they are loaded first, independent of file
   * names. Since 0.2. */
  const tn_dependency *const *dependencies;
#endif
} tn_plugin;

/* The symbol's name: TN_PLUGIN_ENTRY(acme) is `tn_plugin_entry`, or, when many
 * plugins are linked into one program with -DTN_STATIC_PLUGINS,
 * `tn_plugin_acme`, which the host passes to tn_plugin_add(). */
#ifdef TN_STATIC_PLUGINS
#define TN_PLUGIN_ENTRY(name) tn_plugin_##name
#else
#define TN_PLUGIN_ENTRY(name) tn_plugin_entry
#endif

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_OP_H_ */
