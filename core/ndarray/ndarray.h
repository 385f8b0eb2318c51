/* SPDX-License-Identifier: Apache-2.0
 * ndarray.h: arrays, views and eager calls. Uses base, engine, storage and
 * registry.
 *
 * files: array.c    life of an array, where its elements lie
 *        access.c   elements in and out, in their turn; waits
 *        transfer.c copies between arrays, across dtypes and devices
 *        view.c     slice, index, transpose, broadcast
 *        reshape.c  the same elements under another shape
 *        walk.c     the loop over two tensors that the next three share
 *        copy.c     strided copy and fill between tensors
 *        cast.c     the same across dtypes
 *        add.c      strided accumulation
 *        call.c     one forward call, the long way (call.h)
 *        backward.c the same for a gradient
 *        short.c    the short way: a call like one before
 *        work.c     the state of a call: begin, room, end
 *        bind.c     arrays take the places of operands
 *        settle.c   shapes are inferred, outputs checked or made
 *        overlap.c  which operands share memory
 *        plan.c     kernel, requests, layouts
 *        lower.c    requests and layouts that a kernel does not take itself
 *        recipe.c   what is found out about a kind of call is kept
 *        launch.c   a planned call becomes a job of the engine
 *        run.c      its turn: place, compute, hand back
 *        dynamic.c  outputs whose shape compute states
 *        planned.c  calls that are planned once, for who orders them
 *        recorded.c the same where a device records them
 *        tile.c     their kernels on parts of the operands
 *        prepared.c the same for users: a planned call that takes its turn
 *        query.c    what a call would do: infer, explain
 */
#ifndef TENON_NDARRAY_H_
#define TENON_NDARRAY_H_

#include "registry.h"
#include "storage.h"
#include "tenon/chain.h"

/* ------------------------------------------------------------------ arrays */

/* An array: a block and a view of it. `tensor.data` is NULL until the block has
 * memory. Immutable but for that, and the elements.
 *
 * An owner of an array keeps its runtime alive, and whoever releases the last
 * one ends the runtime and its workers. So operations on their way must not be
 * owners: they own blocks, or *hold* arrays, which keeps the description and
 * the block, but not the runtime, whose end waits for operations anyway.
 * Whoever pushes an operation that writes a block takes its memory
 * first (tn__array_materialise) and counts it (tn__array_written). */
struct tn_array {
  const tn__env *env;
  _Atomic int32_t n_owners;
  _Atomic int32_t n_holds; /* all owners together count as one */
  tn__block *block;
  tn__block *home;  /* owned; whose piece this stands in, mostly `block`; or
                       NULL: memory of its own */
  int64_t offset;   /* bytes from the block's begin to the first element */
  tn_tensor tensor; /* shape and strides point behind this struct */
};

/* A dense array on the cpu, or on any device. */
tn_code tn__array_create(const tn__env *env, const tn_spec *spec,
                         tn_array **out);
tn_code tn__array_create_on(tn__device *device, const tn_spec *spec,
                            tn_array **out);
/* A dense array whose memory is somebody else's; see tn__block_wrap. */
tn_code tn__array_wrap(tn__device *device, const tn_spec *spec,
                       const tn__foreign *memory, tn_array **out);
/* Makes a new array a view of another block, which it retains. */
void tn__array_move(tn_array *array, tn__block *block);
static inline tn_array *tn__array_retain(tn_array *array) {
  atomic_fetch_add_explicit(&array->n_owners, 1, memory_order_relaxed);
  return array;
}
void tn__array_release(tn_array *array); /* NULL is allowed */
static inline void tn__array_hold(tn_array *array) {
  atomic_fetch_add_explicit(&array->n_holds, 1, memory_order_relaxed);
}
void tn__array_unhold(tn_array *array);
/* Takes memory if there is none yet, and sets tensor.data. */
tn_code tn__array_materialise(tn_array *array);
/* The same for an operation that reads the array or writes a part of its block:
 * on the cpu, what was never written reads as zeros. */
tn_code tn__array_materialise_zeros(tn_array *array);
tn_code tn__array_materialise_for_write(tn_array *array);
/* The array's tensor; its `data` is set if the block has memory by now. */
const tn_tensor *tn__array_tensor(const tn_array *array);
/* Where the first element lies; NULL while the block has no memory. Calls use
 * this, not tensor.data, which is set for users only. */
static inline void *tn__array_data(const tn_array *array) {
  char *base =
      (char *)atomic_load_explicit(&array->block->data, memory_order_acquire);
  return base ? base + array->offset : NULL;
}
/* All of its tensor but `data`, which another thread may be about to set. */
tn_tensor tn__array_metadata(const tn_array *array);
/* How an operation that writes all of the array writes its block's variable:
 * TN__OVERWRITE, or TN__UPDATE if it is a part of the block. */
uint32_t tn__array_write_mode(const tn_array *array);

/* Counts an operation that writes the array, when it is pushed; only once
 * somebody watches its block. */
static inline void tn__array_written(tn_array *array) {
  _Atomic uint64_t *version = &array->block->version;
  if (atomic_load_explicit(version, memory_order_relaxed) != 0)
    atomic_fetch_add_explicit(version, 1, memory_order_relaxed);
}
/* Watches the block: the number changes with each write that follows. */
static inline uint64_t tn__array_watch(tn_array *array) {
  _Atomic uint64_t *version = &array->block->version;
  uint64_t now = atomic_load_explicit(version, memory_order_relaxed);
  if (now != 0 || atomic_compare_exchange_strong(version, &now, 1))
    return now != 0 ? now : 1;
  return now;
}

/* Elements in and out, dense and row-major, in the array's turn; complete on
 * return. They report the error that the array carries; a set of a whole block
 * ends it. */
tn_code tn__array_set(tn_array *array, const void *data, size_t bytes);
tn_code tn__array_get(tn_array *array, void *data, size_t bytes);
/* Waits as tn__wait does: TN__WAIT_WRITERS, TN__WAIT_ALL. */
tn_code tn__array_wait(tn_array *array, uint32_t what, uint64_t ns);

/* to = from, scheduled: any strides, dtypes and devices of one runtime. */
tn_code tn__array_copy(tn_array *to, tn_array *from);
/* The same into a new dense array. */
tn_code tn__array_cast(tn_array *array, tn_dtype dtype, tn_array **out);
tn_code tn__array_to(tn_array *array, tn__device *device, tn_array **out);

/* A view of `from` with these dimensions; strides in elements, `offset` in
 * elements from the first of `from`. */
typedef struct tn__view {
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
  int64_t offset;
} tn__view;
tn_code tn__array_view(tn_array *from, const tn__view *view, tn_array **out);
tn_code tn__array_slice(tn_array *array, const tn_range *range, tn_array **out);
tn_code tn__array_index(tn_array *array, int32_t axis, int64_t index,
                        tn_array **out);
tn_code tn__array_reshape(tn_array *array, int32_t ndim, const int64_t *shape,
                          tn_array **out);
tn_code tn__array_transpose(tn_array *array, const int32_t *axes,
                            tn_array **out);
tn_code tn__array_broadcast(tn_array *array, int32_t ndim, const int64_t *shape,
                            tn_array **out);

/* Strides of a dense tensor, in elements. */
void tn__strides_dense(int32_t ndim, const int64_t *shape, int64_t *strides);
/* Whether two positions of the tensor are one element (a broadcast view). */
bool tn__tensor_repeats(const tn_tensor *t);

/* to = from, and to += from; equal shapes and dtypes, any strides; `to` must
 * not repeat elements and must not overlap `from` unless they are identical. */
void tn__tensor_copy(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_add(const tn_tensor *to, const tn_tensor *from);
void tn__tensor_zero(const tn_tensor *to);
/* Sums `from` into `to`, which could be broadcast to its shape: what `to`
 * repeats is added up, in f64. With `add` the sum is added to the present
 * values. Floats, of one dtype or of two. Long sums use all workers; `engine`
 * may be NULL. */
void tn__tensor_sum(tn__engine *engine, const tn_tensor *to,
                    const tn_tensor *from, bool add);
/* tn__tensor_copy on all workers, if it is worth while; `engine` may be NULL.
 */
void tn__tensor_copy_shared(tn__engine *engine, const tn_tensor *to,
                            const tn_tensor *from);
/* The same across dtypes, by the rules of tn_array_copy. */
void tn__tensor_cast(tn__engine *engine, const tn_tensor *to,
                     const tn_tensor *from);

/* Where elements are worked on: `device` holds all that is read and written,
 * and a queue of it is the token's. */
typedef struct tn__site {
  tn__device *device;
  tn__token *token;
  tn__engine *engine; /* whose workers may take a part; NULL: none */
} tn__site;

/* What tn__tensor_copy, add, sum and zero do, and ones, at a site: done on
 * return on the host, enqueued on a device with queues. There, copies and zeros
 * of dense tensors always work, copies of strided ones where tn__device_can_sum,
 * and the rest where tn__elements_adds; what does not is TN_UNSUPPORTED. */
tn_code tn__elements_copy(const tn__site *site, const tn_tensor *to,
                          const tn_tensor *from);
tn_code tn__elements_add(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from);
tn_code tn__elements_sum(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from, bool add);
tn_code tn__elements_zero(const tn__site *site, const tn_tensor *to);
tn_code tn__elements_one(const tn__site *site, const tn_tensor *to, bool add);
bool tn__elements_adds(const tn__device *device, tn_dtype dtype);

enum { TN__APART = 0, TN__OVERLAP = 1, TN__SAME = 2 };

/* How the memory of two arrays meets; TN__SAME if they have the same elements
 * in the same order: pointer and dtype are equal, and so are shape and strides,
 * or both are dense and of one size. */
int tn__arrays_meet(const tn_array *a, const tn_array *b);

/* ------------------------------------------------------------------- calls */

/* What calls need of the runtime. */
typedef struct tn__caller {
  const tn__env *env;
  tn__registry *registry;
  tn__random random;          /* the runtime's stream */
  tn__var serial;             /* updated by kernels that are not reentrant */
  _Atomic uint64_t n_serials; /* of blocks that tapes have asked */
} tn__caller;

tn_code tn__caller_init(tn__caller *caller, const tn__env *env,
                        tn__registry *registry, uint64_t seed);
void tn__caller_deinit(tn__caller *caller);
/* Drops all that was found out about calls, and with it the holds on plugins.
 * No other thread makes a call meanwhile (tn__engine_pause). */
void tn__caller_forget(tn__caller *caller);

/* What a call is of. */
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
/* A call that is made again and again. */
tn_code tn__prepared_create(const tn__target_op *target, const tn_inputs *in,
                            const tn_outputs *out, tn_prepared **result);
tn_code tn__prepared_run(tn_prepared *call);
tn_code tn__prepared_set(tn_prepared *call, const tn_value *value);
const tn__env *tn__prepared_env(const tn_prepared *call);
void tn__prepared_release(tn_prepared *call);

/* A call that is planned once, with arrays that do not move, and computed by
 * who has put it in order: it takes no turn of its own. It holds its arrays,
 * which whoever makes it owns. Used by one thread at a time. */
typedef struct tn__planned tn__planned;
/* A forward call of `target`. */
tn_code tn__planned_create(const tn__target_op *target, const tn_inputs *in,
                           const tn_outputs *out, tn__planned **result);
/* A gradient's. */
tn_code tn__planned_create_backward(tn__caller *caller, tn_operator *op,
                                    const tn_backward *call,
                                    tn__planned **result);
void tn__planned_release(tn__planned *call); /* NULL is allowed */
/* Hands new outputs to the caller, and ends its ownership of all arrays that it
 * has made: only then may an operation on its way be the last to release it. */
void tn__planned_deliver(tn__planned *call, const tn_outputs *outputs);
/* What is known of it before it has memory. */
typedef struct tn__planned_info {
  tn__kernel *kernel;    /* NULL: no output is wanted, there is nothing to do */
  const tn_frame *frame; /* without data */
  size_t workspace;      /* bytes that it wants while it computes */
  bool small;            /* short enough for the thread that pushes it */
  bool direct; /* the kernel gets the operands as they are, and nothing else */
  uint64_t records; /* bytes of them: it is a fold that can be fed (fold.h) */
} tn__planned_info;
void tn__planned_look(const tn__planned *call, tn__planned_info *out);
/* Takes the memory of its arrays that have none, and `workspace`, which is the
 * caller's and stays where it is; NULL where none is wanted. */
tn_code tn__planned_place(tn__planned *call, void *workspace);
/* What it reads and writes; borrowed. Workspace not included. */
uint32_t tn__planned_uses(tn__planned *call, const tn__access **out);
tn_code tn__planned_run(tn__planned *call, tn__token *token);
/* Once it has been computed, and nothing stands between its arrays and the
 * kernel, all there is to do: clear *text, call compute(frame), and hand what
 * is not TN_OK to tn__planned_failed, whose code counts. False: not yet, or
 * never. */
typedef struct tn__direct {
  int32_t (*compute)(const tn_frame *frame);
  const tn_frame *frame;
  char *text;
} tn__direct;
bool tn__planned_direct(const tn__planned *call, tn__direct *out);
tn_code tn__planned_failed(const tn__planned *call, int32_t code);
/* Changes a parameter that its operator declares dynamic. */
tn_code tn__planned_set(tn__planned *call, const tn_value *value);
/* Takes what was set of another call of the same operator. */
void tn__planned_take(tn__planned *call, const tn__planned *from);
/* A planned call whose device records what it enqueues (tn__recording_begin) leads
 * the kernel to memory of the device for what changes between runs, dynamic
 * parameters and positions among random numbers. So many bytes, a multiple of
 * 16; 0: nothing changes. */
size_t tn__planned_changes(const tn__planned *call);
/* Whether random numbers are among it. */
bool tn__planned_draws(const tn__planned *call);
/* Writes them down for one run, which draws its random numbers now. */
void tn__planned_change(const tn__planned *call, void *to);
/* Enqueues it to be recorded; `there` is where the device will find them, not
 * NULL. Random numbers have the key of now. */
tn_code tn__planned_record(const tn__planned *call, tn__token *token,
                           const void *there);
/* Counts what it writes, once for each push. */
void tn__planned_written(const tn__planned *call);

/* The kernel of a planned call, which is direct and stays planned, on parts of
 * its operands. Its tensors (inputs, then outputs) are the user's to set: data,
 * rank, shape and strides, whose lists are the user's too. Used by one thread
 * at a time; several of one call at the same time. */
typedef struct tn__tile tn__tile;
tn_code tn__tile_create(const tn__planned *call, tn__tile **out);
void tn__tile_free(tn__tile *tile); /* NULL is allowed */
/* Asks the kernel's `prepare` about the layout that the tensors have now; it
 * holds for smaller shapes with the same strides. Clears their data. */
tn_code tn__tile_prepare(tn__tile *tile);
/* In place of that, for a call of a fold: `stage` is TN_CALL_FOLD or MERGE.
 * Clears the data, too. */
void tn__tile_fold(tn__tile *tile, uint32_t stage);
/* Its workspace from now on: the caller's. */
void tn__tile_records(tn__tile *tile, void *records, uint64_t bytes);
tn_tensor *tn__tile_tensor(tn__tile *tile, uint32_t operand);
/* Whether the input lies densely now. */
void tn__tile_dense(tn__tile *tile, uint32_t in, bool dense);
void tn__tile_request(tn__tile *tile, uint32_t out, tn_req req, int32_t alias);
void tn__tile_train(tn__tile *tile, bool train); /* TN_CALL_TRAIN */
tn_code tn__tile_run(tn__tile *tile);
/* The links that its kernel offers (tenon/chain.h); offer->kit is NULL if it
 * has none for this call. Only for kernels with TN_KERNEL_CHAIN. */
tn_code tn__tile_offer(tn__tile *tile, tn_chain_offer *offer);
const void *tn__tile_params(const tn__tile *tile); /* what links get */

/* tn_operator_infer: checks `io` and completes it. */
tn_code tn__call_infer(tn__caller *caller, tn_operator *op,
                       const tn_params *params, tn_signature *io);
/* tn_operator_outputs: all outputs, and those that are not hidden. */
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

#endif /* TENON_NDARRAY_H_ */
