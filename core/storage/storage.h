/* SPDX-License-Identifier: Apache-2.0
 * storage.h: devices, their memory, the blocks that arrays share, and what
 * operations take turns at: temporary space and random streams. Uses base and
 * engine. Knows no shapes.
 *
 * Any thread may call any function here, unless its comment says who.
 *
 * files: storage.h  this page
 *        family.h   what the devices of one type share (inside the folder only)
 *        device.c   the devices of a runtime: cpu, adding others, finding one
 *        place.c    devices as text: "cpu(0)"
 *        table.c    whether a table of tenon/device.h can be used
 *        queue.c    its queues and fences, as the engine wants them; copies;
 *                   recordings
 *        feed.c     memory of a device that follows memory of the host
 *        host.c     memory of the host, on huge pages
 *        heap.c     a device's memory: size classes, limit, trim, statistics
 *        block.c    counted pieces of memory with an engine variable
 *        space.c    temporary space, one operation at a time
 *        random.c   streams of random numbers and their state
 */
#ifndef TENON_STORAGE_H_
#define TENON_STORAGE_H_

#include <stdatomic.h>

#include "engine.h"
#include "tenon/device.h"

/* ------------------------------------------------------------------ devices */

typedef struct tn__devices tn__devices; /* all of a runtime */
typedef struct tn__heap tn__heap;

/* One device. Lives as long as its runtime's devices. Whoever got it from
 * tn__device_find finds its queues open. */
typedef struct tn__device {
  const tn__env *env;
  tn__devices *devices;
  const char *name;       /* "cpu" */
  const tn_device *table; /* NULL: the built-in cpu */
  int32_t type;           /* TN_DEVICE_* */
  int32_t id;
  tn__heap *heap;
  tn__heap *staging;  /* host memory that the device reads fast; the cpu's heap
                         on the cpu */
  tn__queue *compute; /* of the engine; NULL on the cpu, whose queue are the */
  tn__queue *copy_in; /* workers */
  tn__queue *copy_out;
  struct tn__lanes *lanes; /* what stands behind the queues; NULL: not open */
  struct tn__space *spaces;
  uint32_t n_spaces;
  _Atomic uint32_t n_turns; /* spaces handed out */
  _Atomic uint32_t is_open;
  _Atomic uint32_t n_ending; /* blocks without an owner that a device uses */
  uint64_t n_ended;          /* those that it is done with; devices' lock */
} tn__device;

/* The devices of a runtime: `n_cpus` of the cpu; 0: one. All of them are the
 * host's memory, each with a heap of its own, and share its workers. `env` has
 * the engine. Afterwards env->cpu is the caller's to set. Limits of devices
 * that there are not (yet) are kept for when they come; TN_INVALID for two of
 * one device. */
tn_code tn__devices_create(const tn__env *env, uint32_t n_cpus,
                           const tn_memory_limit *limits, size_t n_limits,
                           tn__devices **out);
/* NULL is allowed. No block lives, and the engine is stopped but still there,
 * as are the plugins that tables came from. */
void tn__devices_destroy(tn__devices *devices);

/* Adds the devices of a table, which must stay valid until the end. What the
 * table answers is checked (TN_PLUGIN). TN_EXISTS if the type or the name is
 * taken. No queue is opened before a device is first asked for. */
tn_code tn__devices_add(tn__devices *devices, const tn_device *table);

/* A device, ready for use; TN_NOT_FOUND names those that there are, or why
 * there is none. */
tn_code tn__device_find(tn__devices *devices, int32_t type, int32_t id,
                        tn__device **out);
/* "cuda(1)", for messages; returns `to`, which has TN__DEVICE_TEXT bytes. */
enum { TN__DEVICE_TEXT = 48 };
const char *tn__device_text(const tn__device *device, char *to);
/* Reads "cuda(1)", or "cuda", which is cuda(0). TN_INVALID says what is wrong;
 * TN_NOT_FOUND as tn__device_find. */
tn_code tn__device_parse(tn__devices *devices, const char *text,
                         tn__device **out);
/* Entry `index` of tn_device_at, cpu first; the cpu's detail is the caller's to
 * replace. TN_NOT_FOUND beyond the last. */
tn_code tn__devices_at(tn__devices *devices, size_t index,
                       tn_device_entry *out);

/* Copies bytes, on the queue of `token`: between two devices, or on one. On the
 * cpu it is complete on return, otherwise it is enqueued. TN_UNSUPPORTED
 * between two devices of different types, neither of them the cpu. The memory
 * may not overlap; copy->struct_size is not looked at. */
tn_code tn__device_copy(tn__token *token, const tn_copy *copy);

/* Sets `bytes` bytes of the device to `byte`, in the same way. */
tn_code tn__device_fill(tn__token *token, const tn__device *device,
                        void *memory, uint8_t byte, size_t bytes);

/* Waits until everything enqueued so far on one of its queues (TN_QUEUE_*) has
 * been executed. Nobody else enqueues there meanwhile. */
tn_code tn__device_drain(const tn__device *device, uint32_t purpose);

/* Whether its table has `sum`. */
bool tn__device_sums(const tn__device *device);
/* Whether that adds elements of a dtype. */
bool tn__device_adds(const tn__device *device, tn_dtype dtype);
/* Enqueues a sum on the queue of `token`, which is one of the device's;
 * sum->struct_size is not looked at. TN_UNSUPPORTED where the table has none,
 * or none of the dtype unless it is a copy. */
tn_code tn__device_sum(tn__token *token, const tn__device *device,
                       const tn_device_sum *sum);

/* The queue on which to copy from one device to the other; NULL: the host. On
 * one device it is the compute queue, so that such a copy needs no fence. */
tn__queue *tn__device_copy_queue(const tn__device *to, const tn__device *from);

/* What kernels find in tn_run.stream on the queue of `token`; NULL on the cpu.
 */
void *tn__token_stream(const tn__token *token);

/* --------------------------------------------------------------- recordings */

/* Whether the device's table can record what is enqueued, to launch it again.
 */
bool tn__device_records(const tn__device *device);
/* From here on, what this thread enqueues on the queue of `token` is recorded
 * instead of executed, until tn__record_end. Until then it takes no memory of
 * the device, which fails, and does not wait for it. */
tn_code tn__record_begin(tn__token *token);
/* With `rc` TN_OK *out is the recording, which the caller closes; otherwise it
 * is thrown away, and `rc` comes back with the thread's error text. */
tn_code tn__record_end(tn__token *token, tn_code rc, void **out);
/* Enqueues all of it, on the queue of `token`. */
tn_code tn__record_launch(tn__token *token, void *recording);
/* No launch is on its way; NULL is allowed. */
void tn__record_close(const tn__device *device, void *recording);
/* Whether this thread records on the device. */
bool tn__device_is_recorded(const tn__device *device);

/* Memory of a device that follows memory of the host: what is written down for
 * a recording before it is launched. Used by one thread at a time. */
typedef struct tn__feed tn__feed;
tn_code tn__feed_create(tn__device *device, size_t bytes, tn__feed **out);
/* Zeros at first; the caller writes there. */
void *tn__feed_host(const tn__feed *feed);
/* Where it is read on the device; the same as long as the feed lives. */
void *tn__feed_device(const tn__feed *feed);
/* Enqueues the copy, unless nothing has changed; the host's part may be written
 * again at once. Waits only if 64 copies are on their way, or as many as there
 * is memory for, which is one at least. */
tn_code tn__feed_push(tn__feed *feed, tn__token *token);
/* Nothing that is enqueued reads it any more; NULL is allowed. */
void tn__feed_free(tn__feed *feed);

/* --------------------------------------------------------------------- heap */

/* Memory is taken from the device in pieces whose sizes are classes (less than
 * an eighth above what was asked for, or a multiple of 64 bytes), and kept for
 * the next of the same class: fresh pages cost several times what computing
 * their content does. The piece freed last is given first, as it is the
 * warmest. Pieces are aligned to 64 bytes; from 2 MiB up, on the cpu, to huge
 * pages, which smaller ones from 64 KiB up share.
 *
 * `held` stays below 1.5 times the largest `live` there has been, or 1 MiB if
 * that is more: beyond it the largest kept pieces are given back. So do trim,
 * and an allocation that the device or the limit would otherwise refuse. */

typedef struct tn__heap_stats {
  uint64_t limit; /* of held; UINT64_MAX: none */
  uint64_t live;  /* bytes asked for and not freed */
  uint64_t held;  /* bytes taken from the device */
  uint64_t peak_live;
  uint64_t peak_held;
  uint64_t n_taken; /* times that the device was asked */
  uint64_t n_given; /* times that a kept piece served */
} tn__heap_stats;

/* `what` is for messages: "the elements of an array". `bytes` > 0.
 * TN_OUT_OF_MEMORY, with the numbers, after trimming, after waiting a while for
 * blocks that have no owner but are still used by a device, and trying again;
 * inside of the engine's gate (tn__gate_is_entered) without that.
 */
tn_code tn__piece_alloc(tn__heap *heap, size_t bytes, const char *what,
                        void **out);
/* With the number of bytes that was asked for; NULL is allowed. Nothing uses
 * the memory any more, not even the device. */
void tn__piece_free(tn__heap *heap, void *memory, size_t bytes);

/* The same in the device's own memory. */
static inline tn_code tn__heap_alloc(tn__device *device, size_t bytes,
                                     const char *what, void **out) {
  return tn__piece_alloc(device->heap, bytes, what, out);
}
static inline void tn__heap_free(tn__device *device, void *memory,
                                 size_t bytes) {
  tn__piece_free(device->heap, memory, bytes);
}

/* Gives back all that is kept; returns how many bytes. */
uint64_t tn__heap_trim(tn__device *device);
void tn__heap_stats_get(tn__device *device, tn__heap_stats *out);

/* ------------------------------------------------------------------- blocks */

/* Memory on one device with a count of owners and the variable that orders its
 * use. `data` is NULL until the block is materialised, and for ever if it has
 * no bytes. Operations on their way are owners, so that without an owner only
 * devices can still use the memory; they are waited for in the background.
 *
 * On the cpu, the bytes of a small block (TN__BLOCK_ROOM) lie in the piece of
 * its description: one allocation, which no limit counts. */
typedef struct tn__block {
  tn__device *device;
  _Atomic int64_t n_owners;
  size_t bytes;
  _Atomic(void *) data; /* 64-byte aligned, unless `drop` is set */
  tn__var var;
  _Atomic uint64_t version; /* 0: nobody watches; else counts writes */
  _Atomic uint64_t serial;  /* which block it is, for tapes; 0: none asked */
  void (*drop)(void *ctx);  /* for somebody else's memory; NULL: the heap's */
  void *ctx;
  struct tn__block *next; /* of those that could not be freed yet */
  size_t piece;           /* bytes of this description and what is with it */
  const void *last;       /* its owners': which of them used it last */
} tn__block;

enum { TN__BLOCK_ROOM = 256 };

/* A block without memory. The caller releases it. */
tn_code tn__block_create(tn__device *device, size_t bytes, tn__block **out);
/* The same with `more` bytes in the piece of its description, aligned to 16,
 * which live as long as the block: for a user who would need a piece of their
 * own otherwise, and who keeps the runtime alive, as tn__env_retain does, until
 * tn__block_leave. */
tn_code tn__block_create_with(tn__device *device, size_t bytes, size_t more,
                              tn__block **out, void **out_more);
/* Releases the block, and then the runtime. */
void tn__block_leave(tn__block *block);
/* The same for a user whose part of the block somebody else is to release. */
void tn__device_leave(tn__device *device);

/* Memory that is not ours. */
typedef struct tn__foreign {
  void *data;
  size_t bytes;
  void (*drop)(void *ctx); /* called once, on any thread, when nobody owns the
                              block any more and devices are done with it */
  void *ctx;
} tn__foreign;

/* A block of it. The caller releases it. On failure drop was not called. */
tn_code tn__block_wrap(tn__device *device, const tn__foreign *memory,
                       tn__block **out);

static inline tn__block *tn__block_retain(tn__block *block) {
  atomic_fetch_add_explicit(&block->n_owners, 1, memory_order_relaxed);
  return block;
}
void tn__block_release(tn__block *block); /* NULL is allowed */

/* Takes the memory if the block has none yet. From several threads at once,
 * one allocation wins. */
tn_code tn__block_materialise(tn__block *block);

/* Gives a block that has no memory yet a part of another's, which it keeps: at
 * `data`. By who knows that nobody else uses the block yet. */
void tn__block_place(tn__block *block, void *data, tn__block *home);

/* ---------------------------------------------------------------- resources */

/* Temporary space: memory that operations use one after the other. Its content
 * is garbage at entry. An operation that wants it updates `var`; two that share
 * one space never overlap. It only grows. On a device it is used on the compute
 * queue. */
typedef struct tn__space {
  tn__var var;
  tn__device *device;
  void *data;
  size_t bytes;
} tn__space;

enum { TN__SPACES_CPU = 4, TN__SPACES_DEVICE = 1 };

/* The next of the device's spaces in turn. */
tn__space *tn__space_next(tn__device *device);
/* Memory of at least `bytes` bytes; by who holds the variable (or
 * tn__gate_enter, with the variable writable). Valid until the next reserve of
 * the space. Where a device's space has to grow, its queue is waited for. */
tn_code tn__space_reserve(tn__space *space, size_t bytes, void **out);

/* A stream of random numbers: blocks of Philox 4x32-10 (tenon/kernel.h),
 * counted. Calls claim their blocks in the order in which they are pushed, so
 * what they draw depends on the seed and on that order only. To restore a
 * state, seed with the key and claim as many blocks as there were. */
typedef struct tn__random {
  tn__var var;             /* updated by operations that draw */
  _Atomic uint64_t key;    /* the seed, as it was given */
  _Atomic uint64_t offset; /* blocks claimed so far */
} tn__random;

void tn__random_init(tn__random *random, uint64_t seed);
/* A new seed, from the next claim on, and the first block again. */
void tn__random_seed(tn__random *random, uint64_t seed);
/* The first of `blocks` blocks that are the caller's. */
uint64_t tn__random_claim(tn__random *random, uint64_t blocks);

#endif /* TENON_STORAGE_H_ */
