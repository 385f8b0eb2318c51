/* SPDX-License-Identifier: Apache-2.0
 * device.h: the table of a device plugin. Standalone; needs op.h only.
 *
 * A device is memory, queues and fences, used through one table. A plugin
 * provides it in its `init`, and has kernels for its `device_type` as for any
 * other:
 *
 *   registrar->provide(registrar, TN_DEVICE_EXTENSION, &my_device);
 *
 * Several plugins may provide this extension, each for another type of device.
 * From then on the table and the object at `ctx` must not change until `fini`.
 * A plugin with devices in the runtime is not unloaded before the runtime ends;
 * by then all memory is freed, and all queues and fences are closed. If the
 * machine has no such device, provide the table nevertheless, and let `count`
 * report 0 with the reason for users.
 *
 * Order of work. A *queue* executes what is enqueued on it in order (a CUDA
 * stream, a thread). A *fence* marks a point in a queue (a CUDA event). It is
 * *issued* when everything before it has been enqueued, and *done* when
 * everything before it has been executed. An operation on the same queue may
 * follow as soon as its predecessor is issued; one on another queue of the
 * table waits on the device (queue_wait); the host waits until the fence is
 * done. So a device operator never costs a round trip to the host. The host
 * does all of this; a table only executes single requests.
 *
 * A call on a device runs like this:
 *
 *   queue_wait(queue, fence)    for each operand that another queue last used
 *   kernel->compute             enqueues on tn_run.stream, the queue_stream of
 *                               the queue
 *   fence_record(fence, queue)  the call is issued; its outputs carry the fence
 *   fence_query, fence_wait     when the host needs the state
 *
 * Consecutive small calls share a fence, recorded after the last of them, or
 * when the host needs it.
 *
 * Threads. Tags are those of op.h. [any] functions are called from any thread
 * at the same time. [worker] ones too, but from one thread at a time for each
 * queue. That thread changes, so a device with a current device or context per
 * thread sets it in every function. Functions must not block unless their
 * comment allows it.
 *
 * Failures. Every fallible function returns TN_OK or a TN_ code, after writing
 * a sentence into error->text; the host adds the device and the operation. Work
 * that fails on the device after its function returned is reported by
 * fence_query and fence_wait for every later fence, each time; it also means
 * that no work before the fence uses memory any more.
 *
 * Versions. struct_size is the sizeof that its author compiled with. Fields are
 * only ever added at the end, and the host uses only those that the struct has.
 */
#ifndef TENON_PLUGIN_DEVICE_H_
#define TENON_PLUGIN_DEVICE_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_EXTENSION "tn.device/1"

/* A type for devices without an own number (DLPack's kDLExtDev). */
enum { TN_DEVICE_EXT = 12 };

enum {                       /* kinds of memory for alloc */
       TN_MEMORY_DEVICE = 0, /* the device's own */
       /* Host memory for transfers: pinned if the device supports it, otherwise
        * any. */
       TN_MEMORY_HOST = 1,
       /* Accessible from both sides; TN_UNSUPPORTED if there is none. */
       TN_MEMORY_SHARED = 2
};

enum { /* purpose of a queue; a device may map several to one */
       TN_QUEUE_COMPUTE = 0,
       TN_QUEUE_COPY_IN = 1, /* host to device */
       TN_QUEUE_COPY_OUT = 2 /* device to host */
};

/* Facts about one device of a type. The host sets struct_size and passes the
 * rest as zeros. */
typedef struct tn_device_info {
  uint32_t struct_size;
  int32_t device_id;
  uint64_t memory_total; /* bytes */
  uint64_t memory_free;
  uint64_t features; /* the device's own bits */
  char name[64];     /* "NVIDIA H200" */
  char detail[192];  /* driver, version, bus; for people */
} tn_device_info;

/* The reason of a failure: one sentence without a full stop, NUL-terminated.
 * The host sets struct_size and passes it empty. Borrowed for the call. */
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

enum {                 /* tn_device_sum.flags */
       TN_SUM_ADD = 1, /* add to `to` */
       /* The dtype is f16 or bf16, and `from` is f32. The host sets it only if
        * the table's sum_flags have it. */
       TN_SUM_WIDE = 2
};

/* tn_kernel.flags: an elementwise kernel that writes its outputs of f16 or bf16
 * also as f32, if the frame has such a tensor. The host uses this for terms of
 * a sum: so they are not rounded before the sum. On the cpu, kernels with
 * TN_KERNEL_REGISTERS do this without the flag. */
#define TN_KERNEL_WIDE_OUT (1u << 7)

/* Steps in elements. Either may be negative, `from` also 0. */
typedef struct tn_sum_axis {
  int64_t n;    /* > 0 */
  int64_t to;   /* 0 for summed axes */
  int64_t from; /* 0: the same elements again */
} tn_sum_axis;

/* For each index of the first `n_kept` axes, with TN_SUM_ADD:
 *
 *   to[index] += the sum of from[index, all] over the other `n_summed` axes
 *
 * and without it `to` is overwritten. It adds gradients, reduces the gradient
 * of a broadcast, and does copies and fills that are not dense. There are 0 to
 * TN_MAX_NDIM axes; the kept ones, and the summed ones, are in order from the
 * largest steps of `from` to the smallest. No two indices have the same address
 * in `to`. `from` is `to` with the same steps, or the memory does not overlap.
 * `axes` is borrowed for the call.
 *
 * Without summed axes and flags it is a copy of elements of 1, 2, 4 or 8
 * bytes, bit for bit, of any dtype; otherwise the dtype is one of the table's
 * sum_dtypes. Two floats are added in their dtype, f16 and bf16 in f32. A sum
 * over axes is computed at least in f32 for f16 and bf16, and in f64 for f32
 * and f64 (on the cpu always in f64), in an order that depends on the axes
 * alone. Every result, with the old value of `to`, is rounded to the dtype once
 * (f16 and bf16 may be rounded to f32 before). Integers wrap: a sum has the
 * lowest bits of the true one. A sum of bools is true (1) if any term is; bytes
 * other than 0 are true.
 */
typedef struct tn_device_sum {
  uint32_t struct_size;
  uint32_t flags; /* TN_SUM_* */
  tn_dtype dtype; /* of both sides, but see TN_SUM_WIDE */
  uint32_t n_kept;
  uint32_t n_summed;
  uint32_t reserved;
  const tn_sum_axis *axes; /* n_kept, then n_summed */
  void *to;
  const void *from; /* NULL: every element is `value` */
  double value;     /* a number that the dtype holds exactly */
} tn_device_sum;

/* Every field is required, unless its comment says otherwise. `ctx` is the
 * table's own pointer, the first argument of each function. Handles (queues,
 * fences, graphs) are opaque to the host and not NULL. */
typedef struct tn_device {
  uint32_t struct_size;
  int32_t device_type; /* TN_DEVICE_*, not one that another plugin provides */
  const char *name;    /* "cuda": at most 24 of a-z, 0-9 and _, a letter first.
                          Users write it with the id: "cuda(1)" */
  void *ctx;

  /* Number of devices, possibly 0; then error->text has the reason, and the
   * result is TN_OK nevertheless. Their ids count from 0. Called once. [any] */
  int32_t (*count)(void *ctx, int32_t *out, tn_device_error *error);

  /* Describes device `id`. [any] */
  int32_t (*info)(void *ctx, int32_t id, tn_device_info *out,
                  tn_device_error *error);

  /* Allocates memory of a kind (TN_MEMORY_*), aligned to at least 256 bytes.
   * The caller frees it. After TN_OUT_OF_MEMORY the host frees its cached
   * memory and calls once more. May block. [any] */
  int32_t (*alloc)(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                   void **out, tn_device_error *error);

  /* Frees memory from alloc; no enqueued work uses it any more. May block.
   * [any] */
  void (*free)(void *ctx, int32_t id, uint32_t kind, void *memory);

  /* Opens a queue (TN_QUEUE_*); the caller closes it. `priority` > 0 is more
   * urgent. May block. [any] */
  int32_t (*queue_open)(void *ctx, int32_t id, uint32_t purpose,
                        int32_t priority, void **out, tn_device_error *error);

  /* Waits for enqueued work, then closes the queue. Blocks. [any] */
  void (*queue_close)(void *ctx, void *queue);

  /* The value of tn_run.stream for kernels (a cudaStream_t); constant while the
   * queue is open. [any] */
  void *(*queue_stream)(void *ctx, void *queue);

  /* Enqueues a copy. Host memory stays valid until a fence after the copy is
   * done. It may be any; if it is not TN_MEMORY_HOST, this may block.
   * TN_UNSUPPORTED if two devices of the type cannot reach each other. [worker]
   */
  int32_t (*copy)(void *ctx, void *queue, const tn_copy *copy,
                  tn_device_error *error);

  /* Enqueues filling `bytes` > 0 bytes with `byte` (0 to 255). [worker] */
  int32_t (*fill)(void *ctx, void *queue, void *memory, int32_t byte,
                  uint64_t bytes, tn_device_error *error);

  /* Opens a fence for the queues of device `id`; it is done until it is first
   * recorded. The caller closes it. The host records it many times. [any] */
  int32_t (*fence_open)(void *ctx, int32_t id, void **out,
                        tn_device_error *error);

  /* Closes a fence. Queues that wait for it still do. [any] */
  void (*fence_close)(void *ctx, void *fence);

  /* Moves the fence to the point after everything enqueued on the queue so far:
   * it is now issued. [worker] */
  int32_t (*fence_record)(void *ctx, void *fence, void *queue,
                          tn_device_error *error);

  /* Makes later work of the queue wait, on the device, for the present point of
   * the fence; recording it again later changes nothing. The fence may belong
   * to another device of the table: after TN_UNSUPPORTED the host waits
   * instead. [worker] */
  int32_t (*queue_wait)(void *ctx, void *queue, void *fence,
                        tn_device_error *error);

  /* *out is 1 if the fence is done, 0 if not; never blocks. A failure of work
   * before the fence is returned here. [any] */
  int32_t (*fence_query)(void *ctx, void *fence, int32_t *out,
                         tn_device_error *error);

  /* Waits until the fence is done, and returns like fence_query. Blocks.
   * [any] */
  int32_t (*fence_wait)(void *ctx, void *fence, tn_device_error *error);

  /* Enqueues a sum. May be NULL, or beyond struct_size: then the host refuses,
   * before anything runs, all that needs it on this device (a node with several
   * gradients, loops, ones, requests and layouts that a kernel does not
   * declare). [worker] */
  int32_t (*sum)(void *ctx, void *queue, const tn_device_sum *sum,
                 tn_device_error *error);

  /* Returns freed memory in the device's own allocator to the system; returns
   * the number of bytes. May be NULL, or beyond struct_size. Called when users
   * trim. May block. [any] */
  uint64_t (*trim)(void *ctx, int32_t id);

  /* The next four functions launch repeated work as one (capture.h). All are
   * present, or none: NULL, or beyond struct_size. A device that detects late
   * that it cannot record returns TN_UNSUPPORTED, with the reason.
   *
   * Begins to record, and not execute, the work that this thread enqueues on
   * the queue, until the same thread calls capture_end. Until then it enqueues
   * copies, fills, sums and kernels on this queue, and uses nothing else of the
   * device. Other threads are not affected. [worker] */
  int32_t (*capture_begin)(void *ctx, void *queue, tn_device_error *error);

  /* Ends the recording: from here on the queue executes again, also after a
   * failure. The caller closes the recording *out; `out` is NULL if the host
   * met a failure, and the recording is dropped. May block. [worker] */
  int32_t (*capture_end)(void *ctx, void *queue, void **out,
                         tn_device_error *error);

  /* Enqueues the recorded work, in its order, on a queue of the same device.
   * Addresses and arguments of kernels are those of the recording. After
   * TN_OUT_OF_MEMORY nothing is enqueued: then the host enqueues the work
   * itself. [worker] */
  int32_t (*graph_launch)(void *ctx, void *graph, void *queue,
                          tn_device_error *error);

  /* Closes a recording without pending launches. [any] */
  void (*graph_close)(void *ctx, void *graph);

  /* TN_BIT_* of the dtypes of `sum`, in addition to f16, bf16, f32 and f64. 0,
   * or beyond struct_size: no others. For a missing dtype the host refuses,
   * before anything runs, all that needs a sum on this device. */
  uint64_t sum_dtypes;

  /* TN_SUM_* that `sum` supports besides TN_SUM_ADD. 0, or beyond struct_size:
   * no others. Without TN_SUM_WIDE, gradients of f16 and bf16 that a broadcast
   * repeats are rounded before they are summed. */
  uint64_t sum_flags;
} tn_device;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_DEVICE_H_ */
