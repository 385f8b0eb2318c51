/* SPDX-License-Identifier: Apache-2.0
 * device.h: what a device plugin provides. Standalone beside op.h.
 *
 * A device is memory, queues and fences behind one table. A plugin offers it
 * from its `init`, and writes kernels for its `device_type` as for any other:
 *
 *   registrar->provide(registrar, TN_DEVICE_EXTENSION, &my_device);
 *
 * Several plugins may provide this extension, each for another type of device.
 * From then on the table and what `ctx` points to must stay as they are until
 * `fini`. A plugin whose devices are in the runtime is not unloaded before the
 * runtime ends; by then all memory is given back, and all queues and fences are
 * closed. Where there is no such device on the machine, provide the table all
 * the same and let `count` answer 0 with the reason: people will ask.
 *
 * How work is ordered. A *queue* executes what is enqueued on it in order (a
 * CUDA stream, a thread). A *fence* marks a point in a queue (a CUDA event). It
 * is *issued* when everything before it has been enqueued, and *done* when
 * everything before it has been executed. An operation on the same queue may
 * follow as soon as its predecessor is issued; an operation on another queue of
 * the table is made to wait on the device (queue_wait); the host is released
 * when the fence is done. So a device operator never costs a round trip to the
 * host. The host sees to all of it: a table only does what it is told.
 *
 * A call on a device runs like this:
 *
 *   queue_wait(queue, fence)    for each operand that another queue last used
 *   kernel->compute             enqueues on tn_run.stream, the queue_stream of
 *                               the queue
 *   fence_record(fence, queue)  the call is issued; its outputs carry the fence
 *   fence_query, fence_wait     when somebody wants to know
 *
 * Small calls that follow one another share a fence, recorded behind the last
 * of them, or when somebody wants to know.
 *
 * Threads. Tags are those of op.h. [any] functions are called from any thread
 * at the same time. [worker] ones too, but for one queue from one thread at a
 * time; which thread that is changes, so a device that has a current device or
 * context per thread sets it in every function. No function blocks, but those
 * that say so.
 *
 * Failures. Every fallible function returns TN_OK or a TN_ code, after writing
 * a sentence into error->text; the host adds which device and what it was
 * doing. What fails on the device after its function returned is reported by
 * fence_query and fence_wait for every fence behind it, also again; that answer
 * says as well that nothing before the fence touches memory any more.
 *
 * Versions. struct_size is the sizeof that its author compiled with. Fields are
 * only ever added at the end, and the host uses those that the struct has.
 */
#ifndef TENON_DEVICE_H_
#define TENON_DEVICE_H_

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_EXTENSION "tn.device/1"

/* Beside those of op.h: a type for devices that have no number of their own
 * (DLPack's kDLExtDev). Numbers are DLPack's. */
enum { TN_DEVICE_EXT = 12 };

enum {                       /* kinds of memory that alloc knows */
       TN_MEMORY_DEVICE = 0, /* the device's own */
       /* Host memory, for transfers: pinned, where the device has such a thing,
        * otherwise any. */
       TN_MEMORY_HOST = 1,
       /* Reachable from both sides; TN_UNSUPPORTED where there is none. */
       TN_MEMORY_SHARED = 2
};

enum { /* what a queue is for; a device may map several to one */
       TN_QUEUE_COMPUTE = 0,
       TN_QUEUE_COPY_IN = 1, /* host to device */
       TN_QUEUE_COPY_OUT = 2 /* device to host */
};

/* What is known of one device of a type. The host sets struct_size and hands it
 * over zeroed. */
typedef struct tn_device_info {
  uint32_t struct_size;
  int32_t device_id;
  uint64_t memory_total; /* bytes */
  uint64_t memory_free;
  uint64_t features; /* the device's own bits */
  char name[64];     /* "NVIDIA H200" */
  char detail[192];  /* driver, version, bus; for people */
} tn_device_info;

/* Where a function says why it failed: one sentence without a full stop,
 * NUL-terminated. The host sets struct_size and hands it over empty. Borrowed
 * for the call. */
typedef struct tn_device_error {
  uint32_t struct_size;
  uint32_t reserved;
  char text[240];
} tn_device_error;

/* A copy between the host and a device, or between devices of one table. The
 * memory does not overlap. */
typedef struct tn_copy {
  uint32_t struct_size;
  uint32_t reserved;
  void *to;
  const void *from;
  uint64_t bytes;  /* > 0 */
  int32_t to_type; /* TN_DEVICE_*, and the id */
  int32_t to_id;
  int32_t from_type;
  int32_t from_id;
} tn_copy;

enum { TN_SUM_ADD = 1 }; /* tn_device_sum.flags: onto what is there */

/* Steps in elements. Either may be negative, `from` also 0. */
typedef struct tn_sum_axis {
  int64_t n;    /* > 0 */
  int64_t to;   /* 0 for axes that are summed over */
  int64_t from; /* 0: the same elements again */
} tn_sum_axis;

/* For each index of the first `n_kept` axes, with TN_SUM_ADD:
 *
 *   to[index] += the sum of from[index, all] over the other `n_summed` axes
 *
 * and without it `to` is overwritten. It is what gradients are added with, what
 * undoes a broadcast, and what copies and fills that are not dense are made of.
 * There are at most TN_MAX_NDIM axes, from the largest steps of `from` to the
 * smallest among those that stay, and among those that are summed over; there
 * may be none. No two indices have the same place in `to`. `from` either is
 * `to` with the same steps, or the memory does not overlap. `axes` is borrowed
 * for the call.
 *
 * Without summed axes and TN_SUM_ADD it is a copy of elements of 1, 2, 4 or 8
 * bytes, bit for bit, of any dtype; otherwise the dtype is one of the table's
 * sum_dtypes. Two floats are added as the dtype is, f16 and bf16 in f32; a sum
 * over axes is kept in f32 at least for f16 and bf16 and in f64 for f32 and f64
 * (the cpu's own always in f64), in an order that depends on the axes alone.
 * Every result is rounded to the dtype once, what was there included (f16 and
 * bf16 may go by way of f32). Integers wrap: a sum is the lowest bits of the
 * true one. Of bool, whose bytes other than 0 are true, a sum is true (1) if
 * any term is.
 */
typedef struct tn_device_sum {
  uint32_t struct_size;
  uint32_t flags; /* TN_SUM_* */
  tn_dtype dtype; /* of both sides */
  uint32_t n_kept;
  uint32_t n_summed;
  uint32_t reserved;
  const tn_sum_axis *axes; /* n_kept, then n_summed */
  void *to;
  const void *from; /* NULL: `value` is what stands everywhere */
  double value;     /* a number that the dtype holds exactly */
} tn_device_sum;

/* Every field but those that say so is given. `ctx` is the table's own pointer,
 * handed back first. Handles (queues, fences, graphs) are opaque to the host
 * and not NULL. */
typedef struct tn_device {
  uint32_t struct_size;
  int32_t device_type; /* TN_DEVICE_*, not one that another plugin provides */
  const char *name;    /* "cuda": at most 24 of a-z, 0-9 and _, a letter first.
                          With the id it is what people write: "cuda(1)" */
  void *ctx;

  /* Number of devices, possibly 0; then error->text says why, and the answer is
   * TN_OK nevertheless. Their ids count from 0. Asked once. [any] */
  int32_t (*count)(void *ctx, int32_t *out, tn_device_error *error);

  /* Describes device `id`. [any] */
  int32_t (*info)(void *ctx, int32_t id, tn_device_info *out,
                  tn_device_error *error);

  /* Memory of a kind (TN_MEMORY_*), aligned to at least 256 bytes. The caller
   * frees it. TN_OUT_OF_MEMORY lets the host give back what it keeps and ask
   * once more. May block. [any] */
  int32_t (*alloc)(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                   void **out, tn_device_error *error);

  /* Takes back memory from alloc; nothing enqueued uses it any more. May block.
   * [any] */
  void (*free)(void *ctx, int32_t id, uint32_t kind, void *memory);

  /* A queue (TN_QUEUE_*); the caller closes it. `priority` > 0 is more urgent.
   * May block. [any] */
  int32_t (*queue_open)(void *ctx, int32_t id, uint32_t purpose,
                        int32_t priority, void **out, tn_device_error *error);

  /* Waits for what is enqueued, then closes. Blocks. [any] */
  void (*queue_close)(void *ctx, void *queue);

  /* What kernels find in tn_run.stream (a cudaStream_t); the same as long as
   * the queue is open. [any] */
  void *(*queue_stream)(void *ctx, void *queue);

  /* Enqueues a copy. Host memory stays valid until a fence behind the copy is
   * done; it may be any, not only TN_MEMORY_HOST, in which case this may block.
   * TN_UNSUPPORTED if two devices of the type cannot reach each other. [worker]
   */
  int32_t (*copy)(void *ctx, void *queue, const tn_copy *copy,
                  tn_device_error *error);

  /* Enqueues filling `bytes` > 0 bytes with `byte` (0 to 255). [worker] */
  int32_t (*fill)(void *ctx, void *queue, void *memory, int32_t byte,
                  uint64_t bytes, tn_device_error *error);

  /* A fence for the queues of device `id`, done until it is first recorded; the
   * caller closes it. The host records it again and again. [any] */
  int32_t (*fence_open)(void *ctx, int32_t id, void **out,
                        tn_device_error *error);

  /* Closes a fence. Queues that were made to wait for it still do. [any] */
  void (*fence_close)(void *ctx, void *fence);

  /* Puts the fence behind everything enqueued on the queue so far: it is now
   * issued. Forgets where it was before. [worker] */
  int32_t (*fence_record)(void *ctx, void *fence, void *queue,
                          tn_device_error *error);

  /* Makes what is enqueued on the queue from here on wait, on the device, for
   * the point where the fence is now; recording it again later changes nothing.
   * The fence may be of another device of the table: TN_UNSUPPORTED makes the
   * host wait instead. [worker] */
  int32_t (*queue_wait)(void *ctx, void *queue, void *fence,
                        tn_device_error *error);

  /* *out is 1 if the fence is done, 0 if not; never blocks. A failure of work
   * before the fence is returned here. [any] */
  int32_t (*fence_query)(void *ctx, void *fence, int32_t *out,
                         tn_device_error *error);

  /* Waits until the fence is done, and returns as fence_query. Blocks. [any] */
  int32_t (*fence_wait)(void *ctx, void *fence, tn_device_error *error);

  /* Enqueues a sum. May be NULL, or behind struct_size: then what needs it (a
   * node that several gradients come to, loops, ones, requests and layouts that
   * a kernel does not take) is refused on this device before anything runs.
   * [worker] */
  int32_t (*sum)(void *ctx, void *queue, const tn_device_sum *sum,
                 tn_device_error *error);

  /* Gives back to the system what the device's own allocator keeps of freed
   * memory; returns how many bytes. May be NULL, or behind struct_size. Called
   * when users trim. May block. [any] */
  uint64_t (*trim)(void *ctx, int32_t id);

  /* The four that follow let the host launch as one what it would enqueue again
   * and again (tenon/capture.h says what kernels promise for that). All are
   * there, or none: NULL, or behind struct_size. A device that finds out late
   * that it cannot answers TN_UNSUPPORTED, with the reason.
   *
   * From here on, what this thread enqueues on the queue is recorded and not
   * executed, until the same thread calls capture_end. Meanwhile it enqueues
   * copies, fills, sums and kernels on this queue, and asks nothing else of the
   * device. What other threads do is none of its business. [worker] */
  int32_t (*capture_begin)(void *ctx, void *queue, tn_device_error *error);

  /* Ends that: from here on the queue executes again, also after a failure.
   * *out is the recording, which the caller closes; `out` is NULL if something
   * went wrong meanwhile, and nothing is to be kept. May block. [worker] */
  int32_t (*capture_end)(void *ctx, void *queue, void **out,
                         tn_device_error *error);

  /* Enqueues all that was recorded, in its order, on a queue of the same
   * device. Addresses and all that kernels were given are those of then.
   * TN_OUT_OF_MEMORY says that nothing was enqueued: then the host enqueues the
   * work itself. [worker] */
  int32_t (*graph_launch)(void *ctx, void *graph, void *queue,
                          tn_device_error *error);

  /* Closes a recording of which no launch is on its way. [any] */
  void (*graph_close)(void *ctx, void *graph);

  /* TN_BIT_* of what `sum` adds; f16, bf16, f32 and f64 are among them where
   * there is a `sum`. 0, or behind struct_size: no others. Of a dtype that is
   * not, what needs a sum is refused on this device before anything runs. */
  uint64_t sum_dtypes;
} tn_device;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DEVICE_H_ */
