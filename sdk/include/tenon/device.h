/* SPDX-License-Identifier: Apache-2.0
 * device.h: what a device plugin provides. Standalone beside op.h.
 *
 * A device is memory, queues and fences behind one table. A plugin offers it
 * from its `init`:
 *
 *   registrar->provide(registrar, TN_DEVICE_EXTENSION, &my_device);
 *
 * STATUS: a sketch that fixes the shape of streams and memory kinds for the
 * rest of the ABI. The runtime of this release has the built-in `cpu` only and
 * refuses a plugin that provides this extension; the engine consumes the table
 * from ABI 0.2 on, and it may change until then.
 *
 * How work is ordered. A *queue* executes what is enqueued on it in order (a
 * CUDA stream, a thread). A *fence* marks a point in a queue. It is *issued*
 * when everything before it has been enqueued, and *done* when everything
 * before it has been executed. An operation on the same queue may follow as
 * soon as its predecessor is issued; an operation on another queue is made to
 * wait on the device (queue_wait); the host is released when the fence is done.
 * So a device operator never costs a round trip to the host.
 *
 * Thread tags are those of op.h.
 */
#ifndef TENON_DEVICE_H_
#define TENON_DEVICE_H_

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_EXTENSION "tn.device/1"

enum {                       /* kinds of memory that alloc knows */
       TN_MEMORY_DEVICE = 0, /* the device's own */
       TN_MEMORY_HOST = 1, /* host memory that the device reads fast (pinned) */
       TN_MEMORY_SHARED = 2 /* reachable from both sides */
};

enum { /* what a queue is for; a device may map several to one */
       TN_QUEUE_COMPUTE = 0,
       TN_QUEUE_COPY_IN = 1, /* host to device */
       TN_QUEUE_COPY_OUT = 2 /* device to host */
};

/* What is known of one device of a type. */
typedef struct tn_device_info {
  uint32_t struct_size;
  int32_t device_id;
  uint64_t memory_total; /* bytes */
  uint64_t memory_free;
  uint64_t features; /* the device's own bits */
  char name[64];     /* "NVIDIA H200" */
  char detail[192];  /* driver, version, bus; for people */
} tn_device_info;

/* The slot of one device function's failure: text the host shows with the
 * name of the operator or array. Borrowed for the call. */
typedef struct tn_device_error {
  uint32_t struct_size;
  uint32_t reserved;
  char text[240];
} tn_device_error;

typedef struct tn_copy {
  uint32_t struct_size;
  uint32_t reserved;
  void *to;
  const void *from;
  uint64_t bytes;
  int32_t to_type; /* TN_DEVICE_*, and the id */
  int32_t to_id;
  int32_t from_type;
  int32_t from_id;
} tn_copy;

/* Every function returns TN_OK or a code with `error->text` filled. `ctx` is
 * the table's own pointer. Handles are opaque to the host. */
typedef struct tn_device {
  uint32_t struct_size;
  int32_t device_type; /* TN_DEVICE_* */
  const char *name;    /* "cuda" */
  void *ctx;

  /* Number of devices, possibly 0; then `error` says why. [any] */
  int32_t (*count)(void *ctx, int32_t *out, tn_device_error *error);

  /* Describes device `id`. [any] */
  int32_t (*info)(void *ctx, int32_t id, tn_device_info *out,
                  tn_device_error *error);

  /* Memory of a kind, aligned to at least 256 bytes; TN_OUT_OF_MEMORY lets the
   * host trim its pools and ask once more. The caller frees it. [any] */
  int32_t (*alloc)(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                   void **out);

  /* Returns memory from alloc; nothing enqueued uses it any more. [any] */
  void (*free)(void *ctx, int32_t id, uint32_t kind, void *memory);

  /* A queue; the caller closes it. `priority` > 0 is more urgent. [any] */
  int32_t (*queue_open)(void *ctx, int32_t id, uint32_t purpose,
                        int32_t priority, void **out);

  /* Waits for what is enqueued, then closes. [any] */
  void (*queue_close)(void *ctx, void *queue);

  /* What kernels find in tn_run.stream (a cudaStream_t). [any] */
  void *(*queue_stream)(void *ctx, void *queue);

  /* Enqueues a copy. [worker] */
  int32_t (*copy)(void *ctx, void *queue, const tn_copy *copy,
                  tn_device_error *error);

  /* Enqueues filling `bytes` bytes with `byte`. [worker] */
  int32_t (*fill)(void *ctx, void *queue, void *memory, int32_t byte,
                  uint64_t bytes);

  /* A reusable fence; the caller closes it. [any] */
  int32_t (*fence_open)(void *ctx, int32_t id, void **out);

  /* Closes a fence that nothing waits for. [any] */
  void (*fence_close)(void *ctx, void *fence);

  /* Puts the fence behind everything enqueued so far: it is now issued.
   * [worker] */
  int32_t (*fence_record)(void *ctx, void *fence, void *queue,
                          tn_device_error *error);

  /* Makes the queue wait on the device until the fence is done. [worker] */
  int32_t (*queue_wait)(void *ctx, void *queue, void *fence,
                        tn_device_error *error);

  /* *out is 1 if the fence is done, 0 if not; never blocks. A failure of work
   * before the fence is reported here. [any] */
  int32_t (*fence_query)(void *ctx, void *fence, int32_t *out,
                         tn_device_error *error);

  /* Blocks the calling thread until the fence is done. [any] */
  int32_t (*fence_wait)(void *ctx, void *fence, tn_device_error *error);
} tn_device;

#ifdef __cplusplus
}
#endif
#endif /* TENON_DEVICE_H_ */
