/* SPDX-License-Identifier: Apache-2.0
 * program.h: programs, which run graphs on arrays that they bind. A part of
 * graph.h.
 */
#include "tenon/graph.h" /* includes this file: before the guard */

#ifndef TENON_HOST_PROGRAM_H_
#define TENON_HOST_PROGRAM_H_

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- programs */

/* An array for one argument or state. */
typedef struct tn_argument {
  const char *name;
  tn_array *array;    /* NULL: the program creates one, of zeros, or of a
                         state's initial value */
  tn_array *gradient; /* NULL: the program makes one if `request` wants it */
  tn_req request;     /* TN_REQ_NULL, WRITE or ADD; replaces tn_bind.request if
                         has_request is 1, otherwise ignored */
  uint32_t has_request;
  tn_sig known; /* for an array that the program creates; ndim -1 and dtype
                   TN_DTYPE_UNKNOWN: unknown */
} tn_argument;

/* The device of a group: of all nodes with the attribute `group` equal to
 * `name` (tn_graph_scope_push sets it for many). Others follow their
 * neighbours:
 *
 * - A node of no group goes to the device of its first input that has one.
 *   Then, from the last node to the first, a node without a device goes to that
 *   of its first reader that has one. Both are repeated until nothing changes.
 *   The remaining nodes, and those with the `group` "", run at tn_bind.place.
 * - The gradient of a node is computed on the device of the node. Several
 *   gradients of one entry are added on the device of the entry (in graphs of
 *   tn_graph_gradient: of the reader of the sum). That of an argument is on its
 *   device.
 * - An entry that is read on another device is copied there by one step for all
 *   readers: `<node>_<number of the output>_copy`. A shape needs no copy.
 * - Nodes of a nested graph are placed one by one; they belong to its node's
 *   group unless they have their own. A loop runs as a whole on its node's
 *   device; groups inside of its step are ignored.
 * - Arguments, gradients and outputs are on the device of their node, and so
 *   must be the arrays that are passed for them: TN_INVALID names both places.
 *   It names both nodes if they use a state on two devices. TN_NOT_FOUND names
 *   an unknown group, or one with an unknown device.
 *
 * Without any tn_group all nodes run at tn_bind.place, independent of their
 * group. A device that cannot add (tn_device.sum) has kernels, copies and
 * zeros; sums of gradients, loops, and requests to add to a copy are
 * TN_UNSUPPORTED there. */
typedef struct tn_group {
  const char *name;
  tn_place place;
} tn_group;

enum { /* tn_bind.plan */
       /* Offsets in one pool. With several workers, long branches get separate
        * memory, if that costs at most half more; not if `memory` is set. With
        * calls that complete later all branches do, for at most twice the
        * memory. */
       TN_PLAN_DEFAULT = 0,
       TN_PLAN_NONE = 1 /* every entry has its own memory */
};

enum { /* tn_bind.flags */
       /* Every call is a step: no fused runs of elementwise calls, no fused
        * pairs (tn_fused_pair of pass.h). A device with queues gets a fence
        * after each, so that a late failure names the call and not "from ..
        * to". */
       TN_BIND_NO_FUSE = 1u << 0,
       /* Runs on a device are recorded there, and then launched as one
        * (tn_program_captured). Off by default: such a run is one operation, so
        * all results are complete at once, and failures, spans and skipped work
        * name the program and not the step. */
       TN_BIND_CAPTURE = 1u << 1
};

#define TN_MEMORY_MINIMAL 1ull /* tn_bind.memory: as little as possible */

/* Settings of a new program. Zero means the default in every field. Borrowed
 * for the call; arrays are kept. */
typedef struct tn_bind {
  uint32_t struct_size; /* sizeof(tn_bind) */
  uint32_t flags;       /* TN_BIND_* */
  uint32_t plan;        /* TN_PLAN_* */
  /* Of all arguments' gradients: TN_REQ_NULL, no gradients at all; WRITE or ADD
   * for arguments of floating-point type. */
  tn_req request;
  /* Arguments with an array or settings; the program creates all others. A
   * variable that no head needs may be among them: its shape counts for the
   * gradients of calls that read it, and its own gradient is zeros. */
  const tn_argument *arguments;
  size_t n_arguments;
  /* For the heads; NULL, or an entry NULL: created, of zeros. One may be the
   * array of an argument: it is then overwritten after its last reader, and
   * there are no gradients but those in the graph itself. No two results may
   * share memory, nor a gradient with an argument. */
  tn_array *const *outputs;
  size_t n_outputs;
  tn_place place; /* default device; {0, 0}: cpu(0) */
  const tn_group *groups;
  size_t n_groups;
  /* Limit of the bytes of intermediate results: results beyond it are
   * recomputed. 0: no limit; TN_MEMORY_MINIMAL. */
  uint64_t memory;
  /* A program that lends its memory to this one: the two never run at the same
   * time, and one thread at a time uses both. A run of one overwrites the
   * results that a forward run of the other keeps for its backward part. NULL:
   * none. */
  tn_program *shared;
  /* Names of passes that rewrite the program's graph, which is flat and
   * inferred, before gradients are added; those after a "gradient" in the list
   * run after that. Unlike tn_graph_apply they change the program only. */
  const char *const *passes;
  size_t n_passes;
} tn_bind;

/* Creates a program that computes the graph's heads. TN_INVALID, TN_SHAPE,
 * TN_DTYPE, TN_INCOMPLETE and TN_UNSUPPORTED name the node; TN_OUT_OF_MEMORY
 * names the node and the bytes, or that memory for all nodes was missing. The
 * caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_bind(const tn_graph *graph,
                                           const tn_bind *how,
                                           tn_program **out);

/* Releases the program after its last run; NULL is allowed. [host-thread] */
TN_API void tn_program_release(tn_program *program);

/* Schedules the forward part; `flags` is TN_CALL_TRAIN or 0. All of it, or, on
 * failure, none: then no array has changed, and the caller may try again. A
 * failure of a step travels with the arrays that it writes. If the program has
 * a monitor (tn_program_monitor), steps may have run, and a failure of one is
 * returned here too. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_forward(tn_program *program,
                                              uint32_t flags);

/* Schedules the backward part, once after each forward run with TN_CALL_TRAIN.
 * `weights` are the gradients of the heads; `weights` NULL, or an entry NULL:
 * ones, allowed only for losses (outputs with the role TN_ROLE_LOSS) and for
 * heads with a gradient that does not read it. TN_INVALID names the head that
 * needs one, or reports that another program has run in the same memory since.
 * After a failure the caller may try again, as with tn_program_forward, without
 * another forward run, unless the program has a monitor. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_backward(tn_program *program,
                                               tn_array *const *weights,
                                               size_t n);

/* Schedules the first `steps` steps of the forward part, and stores the number
 * of remaining steps in *left. `left` may be NULL. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_forward_part(tn_program *program,
                                                   uint32_t flags, size_t steps,
                                                   size_t *left);

enum {                          /* tn_program_array */
       TN_PROGRAM_ARGUMENT = 0, /* by name */
       TN_PROGRAM_GRADIENT = 1, /* of the argument of that name */
       TN_PROGRAM_AUXILIARY = 2,
       TN_PROGRAM_OUTPUT = 3 /* by the head's name */
};

/* An array of the program. Borrowed until the program is released.
 * TN_NOT_FOUND; TN_INVALID for another `what`. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_array(const tn_program *program,
                                            uint32_t what, const char *name,
                                            tn_array **out);

/* Array of head number `index`; TN_NOT_FOUND beyond the last. Borrowed until
 * the program is released. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_output(const tn_program *program,
                                             size_t index, tn_array **out);

/* Changes a parameter that an operator declares `dynamic`, of the node `node`,
 * for later runs. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_set(tn_program *program, const char *node,
                                          const tn_value *value);

/* Called with each visible output, "<node>_<output>", when its step has been
 * computed; the array is borrowed for the call, and the program's runs wait for
 * it. Of this library it may call tn_array_get and tn_array_tensor only. */
typedef void tn_monitor_fn(void *ctx, const char *name, tn_array *array);

/* Lets `fn` see the results of later runs; `fn` NULL ends it. `ctx` may be
 * NULL. With a monitor, steps run one by one, and nothing is fused.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_monitor(tn_program *program,
                                              tn_monitor_fn *fn, void *ctx);

/* A program like `program` for other shapes of some arguments, which shares its
 * memory as far as it suffices (tn_bind.shared), and the arrays with unchanged
 * shapes, also of gradients and heads. TN_INVALID if a head that overwrites an
 * argument would get another shape. An argument keeps its type if `known` has
 * none; parameters keep the values of tn_program_set. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_reshape(tn_program *program,
                                              const tn_known *known, size_t n,
                                              tn_program **out);

/* Size of a program in steps and bytes. */
typedef struct tn_program_stats {
  uint32_t struct_size; /* sizeof(tn_program_stats) */
  uint32_t reserved;
  uint64_t n_forward; /* steps */
  uint64_t n_backward;
  uint64_t n_fused;         /* calls that are parts of larger steps, also of
                               fused pairs */
  uint64_t pool_bytes;      /* memory of intermediate results, as planned */
  uint64_t bound_bytes;     /* the most bytes that are live at one time: no plan
                               with these in-place pairs needs less */
  uint64_t workspace_bytes; /* of them */
  uint64_t own_bytes;       /* arguments, gradients, states that it created */
  double repeated; /* forward work that is done twice, as a fraction of all */
  uint64_t n_in_registers; /* fused calls that pass results on in registers */
} tn_program_stats;

/* Writes the sizes to *out, whose struct_size is set. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_stats_get(const tn_program *program,
                                                tn_program_stats *out);

/* The steps as a table: node, kernel, the device if there are several, shapes,
 * requests, places in the device's memory, fused calls and, with `why` 1, the
 * reasons why others are not fused. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_text(const tn_program *program,
                                           uint32_t why, tn_text **out);

enum { /* tn_program_captured: parts that are recorded separately */
       TN_PART_FORWARD = 0, /* runs of tn_program_forward */
       TN_PART_TRAIN = 1,   /* with TN_CALL_TRAIN */
       TN_PART_BACKWARD = 2
};

/* Reports whether runs of this part are launched as one now (TN_BIND_CAPTURE):
 * *why is NULL if so, and otherwise the reason, "node `fc1`: ...", which
 * tn_program_text shows too. The first run goes step by step, because kernels
 * may still have to prepare; the second is recorded. Later runs compute the
 * same as step by step, with the current parameters and random numbers. If
 * recording fails, runs go step by step, with the same results. If memory was
 * missing, to record or to launch, the library tries again after 8 runs, then
 * each time after twice as many, and *why reports it. Reasons against
 * recording: steps on several devices, or on the cpu; a device, or its driver,
 * that cannot record; a kernel that does not declare `capturable`
 * (tenon/draft/capture.h). With a monitor, nothing is recorded or launched.
 * Waits for pending runs. The caller releases *why. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_captured(tn_program *program,
                                               uint32_t part, tn_text **why);

/* The program as JSON, for programs that show it:
 *   "n_forward"  number of forward steps; the others are backward
 *   "devices"    names, such as "cpu(0)"; other members use their positions
 *   "steps"      "node", "does" (a kernel, or a word as in tn_program_text),
 *                "device"; "outputs" with "dtype", "shape", "request" and
 *                "storage" (its position, or null); if there are any,
 *                "workspace" ("offset", "bytes") and "parts" (names of nodes)
 *   "storages"   pieces of memory: "device", "offset" and "bytes" in the pool
 *                of the device, "first" and "last" step that use it
 *   "pools"      "device", "bytes", "at_least" (the most live bytes)
 * The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_program_json(const tn_program *program,
                                           tn_text **out);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_PROGRAM_H_ */
