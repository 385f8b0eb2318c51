/* SPDX-License-Identifier: Apache-2.0
 * calls.h: calls of operators on arrays, forward and backward: a call runs a
 * kernel on arrays. Terms are in docs/glossary.md.
 *
 * files: fast_call.c     fast path: a call like an earlier one
 *        forward_call.c  slow path of a forward call (call.h)
 *        backward_call.c slow path of a gradient's call
 *        call_state.c    the state of a call: creation, room, release
 *        call_error.c    messages: operands, shapes, failures of kernels
 *        operands.c      assigns arrays to operands
 *        outputs.c       infers shapes, checks or creates outputs
 *        overlap.c       refuses operands that share memory
 *        call_plan.c     kernel, requests, layouts
 *        lower.c         requests and layouts that a kernel does not support
 *        recipe.c        keeps the results of preparing a call
 *        launch.c        turns a planned call into a job of the engine
 *        call_run.c      computes: memory of operands, kernel, write-back
 *        later.c         calls that their plugin completes later
 *        dynamic.c       outputs with a shape that the kernel sets
 *        planned.c       calls that are planned once, for programs
 *        recorded.c      the same where a device records them
 *        tile.c          their kernels on parts of the operands
 *        prepared.c      the same for users: the engine orders the call
 *        call_query.c    infer and explain: the effect of a call, without it
 */
#ifndef TENON_CALLS_H_
#define TENON_CALLS_H_

#include "choose.h"
#include "ndarray.h"
#include "tenon/draft/registers.h"

/* The parts of a runtime that calls need. */
typedef struct tn__caller {
  const tn__env *env;
  tn__registry *registry;
  tn__random random;          /* the runtime's stream */
  tn__var serial;             /* updated by kernels that are not reentrant */
  tn__var order;              /* overwritten by calls with TN_RESOURCE_ORDER */
  _Atomic uint64_t n_serials; /* serials that tapes requested */
} tn__caller;

tn_code tn__caller_init(tn__caller *caller, const tn__env *env,
                        tn__registry *registry, uint64_t seed);
void tn__caller_deinit(tn__caller *caller);
/* Drops all recipes, and with them the holds on plugins. No other thread makes
 * a call meanwhile (tn__engine_pause). */
void tn__caller_forget(tn__caller *caller);

/* The operator of a call, with parameters and pass. */
typedef struct tn__target_op {
  tn__caller *caller;
  tn_operator *op;
  const tn_params *params; /* NULL: all defaults */
  uint32_t pass;           /* TN_PASS_* */
  uint32_t flags;          /* TN_CALL_TRAIN or 0 */
} tn__target_op;

/* A forward call of `target`. */
tn_code tn__call(const tn__target_op *target, const tn_inputs *in,
                 const tn_outputs *out);
tn_code tn__call_backward(tn__caller *caller, tn_operator *op,
                          const tn_backward *call);
/* Prepared calls: prepared once and run many times. */
tn_code tn__prepared_create(const tn__target_op *target, const tn_inputs *in,
                            const tn_outputs *out, tn_prepared **result);
tn_code tn__prepared_run(tn_prepared *call);
tn_code tn__prepared_set_param(tn_prepared *call, const tn_value *value);
const tn__env *tn__prepared_env(const tn_prepared *call);
void tn__prepared_release(tn_prepared *call);

/* A planned call: planned once, with arrays that do not move. Its user orders
 * the runs: the call has no variables of its own. It holds its arrays; its user
 * owns them. Used by one thread at a time. */
typedef struct tn__planned tn__planned;
/* A forward call of `target`. */
tn_code tn__planned_create(const tn__target_op *target, const tn_inputs *in,
                           const tn_outputs *out, tn__planned **result);
/* A gradient's call. */
tn_code tn__planned_create_backward(tn__caller *caller, tn_operator *op,
                                    const tn_backward *call,
                                    tn__planned **result);
void tn__planned_release(tn__planned *call); /* NULL is allowed */
/* Moves new outputs to the caller, and ends the ownership of all arrays that
 * the call created. A pending operation may release the call only after that.
 */
void tn__planned_deliver(tn__planned *call, const tn_outputs *outputs);
/* Properties of a planned call before it has memory. */
typedef struct tn__planned_info {
  tn__kernel *kernel; /* NULL: no output is requested, there is nothing to do */
  const tn_frame *frame; /* without data */
  size_t workspace;      /* bytes that it needs while it computes */
  bool small;            /* short enough for the thread that pushes it */
  bool direct;      /* the kernel gets the operands as they are, and no other
                       resources */
  uint64_t records; /* their bytes: it is a reduction that tiles can feed
                       (reduction.h) */
} tn__planned_info;
void tn__planned_describe(const tn__planned *call, tn__planned_info *out);
/* Allocates memory for its arrays that have none, and keeps `workspace`, which
 * is borrowed until the release and must not move; NULL if none is needed. */
tn_code tn__planned_materialise(tn__planned *call, void *workspace);
/* Lists the variables that it reads and writes, without those of the workspace;
 * borrowed. */
uint32_t tn__planned_list_uses(tn__planned *call, const tn__access **out);
/* Runs it. TN_LATER: it completes later. Then, and also otherwise, the job's
 * function ends with tn__planned_return. */
tn_code tn__planned_run(tn__planned *call, tn__token *token);
/* Flags of a job for it alone: TN__JOB_ASYNC if it may complete later (in jobs
 * that are not asynchronous the thread waits), TN__JOB_TOLD if its kernel has
 * TN_RESOURCE_ORDER. */
uint32_t tn__planned_job_flags(const tn__planned *call);
/* From now on all jobs of the call are asynchronous (TN__JOB_ASYNC). Failures
 * after the job's function pass through `name`, which adds to the text, with
 * the constant `node`. */
void tn__planned_set_async(tn__planned *call,
                           tn_code (*name)(const void *node, tn_code code),
                           const void *node);
/* Returns the code of the job's function for the result of tn__planned_run. The
 * job may be over when this returns. Without effect on other jobs. */
tn_code tn__planned_return(tn__planned *call, tn__token *token, tn_code rc);

/* The functions of tn_host for calls that complete later. */
tn_later *tn__later_defer(const tn_frame *call);
void tn__later_complete(tn_later *later, int32_t code, const char *text);
int32_t tn__later_is_cancelled(const tn_later *later);
/* A direct call: after the first run of a call with operands that the kernel
 * uses in place, later runs need only this. Clear *text, call compute(frame),
 * and pass any result except TN_OK to tn__planned_fail, which returns the code
 * to use. False: the call is not direct, or not yet. */
typedef struct tn__direct_call {
  int32_t (*compute)(const tn_frame *frame);
  const tn_frame *frame;
  char *text;
} tn__direct_call;
bool tn__planned_get_direct(const tn__planned *call, tn__direct_call *out);
tn_code tn__planned_fail(const tn__planned *call, int32_t code);
/* Changes a parameter that its operator declares dynamic. */
tn_code tn__planned_set_param(tn__planned *call, const tn_value *value);
/* Copies the dynamic parameters of another call of the same operator. */
void tn__planned_copy_params(tn__planned *call, const tn__planned *from);
/* A planned call on a device that records it (tn__recording_begin). Values that
 * change between runs are in memory of the device: dynamic parameters and
 * positions of random streams. Returns their bytes, a multiple of 16; 0:
 * nothing changes. */
size_t tn__planned_change_bytes(const tn__planned *call);
/* True if random numbers are among these values. */
bool tn__planned_has_random(const tn__planned *call);
/* Writes these values for one run, and claims its random numbers now. */
void tn__planned_write_changes(const tn__planned *call, void *to);
/* Enqueues it to be recorded; `there` is the address of the values on the
 * device, not NULL. Random numbers use the present key. */
tn_code tn__planned_record(const tn__planned *call, tn__token *token,
                           const void *there);

/* A tile: the kernel of a planned call, which is direct and outlives the tile,
 * on parts of its operands. The user sets its tensors (inputs, then outputs):
 * data, rank, shape and strides, in lists of the user. Used by one thread at a
 * time; several tiles of one call may run at the same time. */
typedef struct tn__tile tn__tile;
tn_code tn__tile_create(const tn__planned *call, tn__tile **out);
void tn__tile_free(tn__tile *tile); /* NULL is allowed */
/* Calls the kernel's `prepare` for the present layout of the tensors. The
 * result is valid for smaller shapes with the same strides. Clears their data.
 */
tn_code tn__tile_prepare(tn__tile *tile);
/* The same for a call of a reduction, without `prepare`: `stage` is
 * TN_CALL_EXTENT or MERGE. Clears the data, too. */
void tn__tile_set_reduction(tn__tile *tile, uint32_t stage);
/* Sets its workspace, which the caller owns. */
void tn__tile_set_records(tn__tile *tile, void *records, uint64_t bytes);
tn_tensor *tn__tile_tensor(tn__tile *tile, uint32_t operand);
/* States whether the input is dense now. */
void tn__tile_set_dense(tn__tile *tile, uint32_t in, bool dense);
void tn__tile_set_request(tn__tile *tile, uint32_t out, tn_req req,
                          int32_t alias);
void tn__tile_set_train(tn__tile *tile, bool train); /* TN_CALL_TRAIN */
tn_code tn__tile_run(tn__tile *tile);
/* The register kernels that its kernel offers (tenon/draft/registers.h);
 * offer->interface is NULL if it has none for this call. Only for kernels with
 * TN_KERNEL_REGISTERS. */
tn_code tn__tile_get_offer(tn__tile *tile, tn_register_offer *offer);
const void *tn__tile_params(
    const tn__tile *tile); /* the argument of register kernels */

/* tn_operator_infer: checks `io` and completes it. */
tn_code tn__call_infer(tn__caller *caller, tn_operator *op,
                       const tn_params *params, tn_signature *io);
/* tn_operator_outputs: counts all outputs, and those that are not hidden. */
typedef struct tn__output_counts {
  uint32_t n;
  uint32_t n_visible;
} tn__output_counts;
tn_code tn__call_outputs(tn__caller *caller, tn_operator *op,
                         const tn_params *params, uint32_t n_in,
                         tn__output_counts *out);
/* tn_operator_explain: the text of every candidate. */
tn_code tn__call_explain(tn__caller *caller, tn_operator *op,
                         const tn_inputs *in, const tn_params *params,
                         tn_text **out);

#endif /* TENON_CALLS_H_ */
