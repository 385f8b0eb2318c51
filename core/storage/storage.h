/* SPDX-License-Identifier: Apache-2.0
 * storage.h: devices, their memory, the blocks that arrays share, and the
 * resources that operations use in turn: scratch space and random streams. Uses
 * base and engine. Knows no shapes. Terms: docs/glossary.md.
 *
 * Any thread may call any function here, unless its comment names the thread.
 *
 *   storage.h         this page
 *   device_type.h     the devices of one type (for this folder only)
 *   device.c          the devices of a runtime: create, add, destroy
 *   device_text.c     devices as text: "cpu(0)"; finds devices
 *   device_json.c     devices and their memory as JSON
 *   device_table.c    checks a table of tenon/plugin/device.h
 *   device_streams.c  queues and fences of a table for the engine; copies;
 *                     recordings
 *   mirror.c          memory of a device that follows memory of the host
 *   host_memory.c     memory of the host, on huge pages
 *   device_heap.c     memory of a device: size classes, limit, trim, statistics
 *   block.c           counted memory with an engine variable
 *   scratch.c         scratch space, one operation at a time
 *   random.c          random streams and their state
 */
#ifndef TENON_STORAGE_H_
#define TENON_STORAGE_H_

#include <stdatomic.h>

#include "engine.h"
#include "tenon/plugin/device.h"

/* ------------------------------------------------------------------ devices */

typedef struct tn__devices tn__devices; /* all devices of a runtime */
typedef struct tn__heap tn__heap;

/* One device. It lives as long as the devices of its runtime. A device from
 * tn__device_find has open queues. */
typedef struct tn__device {
  const tn__env *env;
  tn__devices *devices;
  const char *name;       /* "cpu" */
  const tn_device *table; /* NULL: the built-in cpu */
  int32_t type;           /* TN_DEVICE_* */
  int32_t id;
  tn__heap *heap;
  tn__heap *staging; /* host memory that the device reads fast; cpu: `heap` */
  /* Queues of the engine. NULL on the cpu, which uses the workers. */
  tn__queue *compute;
  tn__queue *copy_in;
  tn__queue *copy_out;
  struct tn__device_streams *streams; /* of the queues; NULL: not open */
  struct tn__scratch_space *spaces;
  uint32_t n_spaces;
  _Atomic uint32_t n_turns; /* number of scratch spaces handed out */
  _Atomic uint32_t is_open;
  /* Blocks without an owner: n_ending that the device still uses, and n_ended
   * that it has finished since the start (under end_lock). */
  _Atomic uint32_t n_ending;
  uint64_t n_ended;
} tn__device;

/* Creates the devices of a runtime with `n_cpus` devices of the cpu; 0: one.
 * All of these share the memory of the host, each with its own heap, and the
 * workers. `env` has the engine. The caller sets env->cpu afterwards. Limits of
 * devices that do not exist yet are kept until they are added. TN_INVALID for
 * two limits of one device. */
tn_code tn__devices_create(const tn__env *env, uint32_t n_cpus,
                           const tn_memory_limit *limits, size_t n_limits,
                           tn__devices **out);
/* NULL is allowed. No block may be alive. The engine must be stopped but not
 * destroyed, and the plugins of the tables must still be loaded. */
void tn__devices_destroy(tn__devices *devices);

/* Adds the devices of a table, which must stay valid until the end. The answers
 * of the table are checked (TN_PLUGIN). TN_EXISTS if the type or the name
 * exists already. Queues are opened when a device is first requested. */
tn_code tn__devices_add(tn__devices *devices, const tn_device *table);

/* Finds a device and opens its queues. TN_NOT_FOUND names the existing devices,
 * or the reason why there is none. */
tn_code tn__device_find(tn__devices *devices, int32_t type, int32_t id,
                        tn__device **out);
/* Writes "cuda(1)", for messages. Returns `to`, which has TN__DEVICE_TEXT
 * bytes. */
enum { TN__DEVICE_TEXT = 48 };
const char *tn__device_text(const tn__device *device, char *to);
/* Reads "cuda(1)", or "cuda", which is cuda(0). TN_INVALID names the mistake;
 * TN_NOT_FOUND as tn__device_find. */
tn_code tn__device_parse(tn__devices *devices, const char *text,
                         tn__device **out);
/* Writes entry `index` of tn_device_at, cpu first. The caller may replace the
 * detail of the cpu. TN_NOT_FOUND beyond the last. */
tn_code tn__devices_at(tn__devices *devices, size_t index,
                       tn_device_entry *out);

/* Adds all devices and their memory as a JSON list. */
void tn__devices_json(tn__devices *devices, tn__buf *out);
/* Number of arrays with memory of this library: no views, no foreign memory. */
uint64_t tn__devices_count_arrays(tn__devices *devices);

/* Copies bytes on the queue of `token`: between two devices, or on one. On the
 * cpu the copy is complete on return, otherwise it is enqueued. TN_UNSUPPORTED
 * between two devices of different types, neither of them the cpu. The memory
 * must not overlap. copy->struct_size is ignored. */
tn_code tn__device_copy(tn__token *token, const tn_copy *copy);

/* Sets `bytes` bytes of the device to `byte`, in the same way. */
tn_code tn__device_fill(tn__token *token, const tn__device *device,
                        void *memory, uint8_t byte, size_t bytes);

/* Waits until the device has executed everything enqueued so far on one of its
 * queues (TN_QUEUE_*). No other thread may enqueue there meanwhile. */
tn_code tn__device_drain(const tn__device *device, uint32_t purpose);

/* Returns whether its table has `sum`. */
bool tn__device_can_sum(const tn__device *device);
/* Returns whether that function adds elements of a dtype. */
bool tn__device_can_add(const tn__device *device, tn_dtype dtype);
/* Returns whether that function adds f32 to f16 and bf16 (TN_SUM_WIDE). */
bool tn__device_can_sum_wide(const tn__device *device);
/* Enqueues a sum on the queue of `token`, a queue of the device.
 * sum->struct_size is ignored. TN_UNSUPPORTED if the table has no sums, no sums
 * of the dtype unless the sum is a copy, or no wide sums. */
tn_code tn__device_sum(tn__token *token, const tn__device *device,
                       const tn_device_sum *sum);

/* Returns the queue for copies from one device to the other; NULL: the host. On
 * one device it is the compute queue, so that such a copy needs no fence. */
tn__queue *tn__device_copy_queue(const tn__device *to, const tn__device *from);

/* Returns tn_run.stream of kernels on the queue of `token`; NULL on the cpu. */
void *tn__token_stream(const tn__token *token);

/* --------------------------------------------------------------- recordings */

/* Returns whether the table of the device can record enqueued work, to launch
 * it again. */
bool tn__device_can_record(const tn__device *device);
/* Begins to record the work that this thread enqueues on the queue of `token`,
 * instead of executing it, until tn__recording_end. Until then the thread must
 * not wait for the device, and allocating memory of the device fails. */
tn_code tn__recording_begin(tn__token *token);
/* If `rc` is TN_OK, *out is the recording, which the caller closes. Otherwise
 * the recording is dropped, and `rc` is returned with the error text of the
 * thread. */
tn_code tn__recording_end(tn__token *token, tn_code rc, void **out);
/* Enqueues the whole recording on the queue of `token`. */
tn_code tn__recording_launch(tn__token *token, void *recording);
/* No launch may be pending. NULL is allowed. */
void tn__recording_close(const tn__device *device, void *recording);
/* Returns whether this thread records on the device. */
bool tn__device_is_recording(const tn__device *device);

/* Memory of a device that follows memory of the host: values that a recording
 * reads and that change before each launch. Used by one thread at a time. */
typedef struct tn__mirror tn__mirror;
tn_code tn__mirror_create(tn__device *device, size_t bytes, tn__mirror **out);
/* Returns the memory of the host, zeros at first. The caller writes there. */
void *tn__mirror_host(const tn__mirror *mirror);
/* Returns the memory on the device. The address stays the same as long as the
 * mirror lives. */
void *tn__mirror_device(const tn__mirror *mirror);
/* Enqueues the copy, unless nothing has changed. Afterwards the caller may
 * write the host's memory again at once. Waits only if 64 copies are pending,
 * or as many as there is memory for (at least one). */
tn_code tn__mirror_push(tn__mirror *mirror, tn__token *token);
/* No enqueued work may read the memory. NULL is allowed. */
void tn__mirror_free(tn__mirror *mirror);

/* --------------------------------------------------------------------- heap */

/* A heap allocates memory from the device in pieces. The size of a piece is a
 * class: less than an eighth above the request, or a multiple of 64 bytes. The
 * heap keeps freed pieces for later requests of the same class, because fresh
 * pages cost several times as much as computing their content. The piece freed
 * last is used first, because it is most likely in the cache. Pieces are
 * aligned to 64 bytes. On the cpu, pieces from 2 MiB are aligned to huge pages;
 * smaller ones from 64 KiB share huge pages.
 *
 * `held` stays below 1.5 times the largest `live` so far, or 1 MiB if that is
 * more. Beyond it the heap returns the largest kept pieces. It also returns
 * kept pieces in trim, and when the device or the limit would otherwise refuse
 * an allocation. */

typedef struct tn__heap_stats {
  uint64_t limit; /* of held; UINT64_MAX: none */
  uint64_t live;  /* bytes requested and not freed */
  uint64_t held;  /* bytes allocated from the device */
  uint64_t peak_live;
  uint64_t peak_held;
  uint64_t n_allocated; /* number of allocations from the device */
  uint64_t n_reused;    /* number of requests served by a kept piece */
  uint64_t n_freed;     /* number of pieces that were freed */
  uint64_t n_users;     /* pieces that together are one owner of the runtime */
} tn__heap_stats;

/* Allocates a piece. `purpose` is for messages: "the elements of an array".
 * `bytes` > 0. Before it fails, it trims, waits a while for blocks without an
 * owner that a device still uses, and tries again. Inside of the engine's gate
 * (tn__gate_is_entered) it does not. TN_OUT_OF_MEMORY names the numbers. */
tn_code tn__piece_alloc(tn__heap *heap, size_t bytes, const char *purpose,
                        void **out);
/* Frees a piece; `bytes` is the requested size. NULL is allowed. Nothing may
 * use the memory any more, not even the device. */
void tn__piece_free(tn__heap *heap, void *memory, size_t bytes);

/* The same in the memory of the device itself. */
static inline tn_code tn__heap_alloc(tn__device *device, size_t bytes,
                                     const char *purpose, void **out) {
  return tn__piece_alloc(device->heap, bytes, purpose, out);
}
static inline void tn__heap_free(tn__device *device, void *memory,
                                 size_t bytes) {
  tn__piece_free(device->heap, memory, bytes);
}

/* Returns all kept memory to the device. Returns the number of bytes. */
uint64_t tn__heap_trim(tn__device *device);
void tn__heap_get_stats(tn__heap *heap, tn__heap_stats *out);
static inline void tn__heap_stats_get(tn__device *device, tn__heap_stats *out) {
  tn__heap_get_stats(device->heap, out);
}

/* ------------------------------------------------------------------- blocks */

/* Memory on one device, with a count of owners and the variable that orders its
 * use. `data` is NULL until the block is materialised, and always if it has no
 * bytes. Pending operations are owners. So without an owner only devices can
 * still use the memory; the engine waits for them in the background.
 *
 * On the cpu, the bytes of a small block (TN__BLOCK_ROOM) are in the piece of
 * its description: one allocation, which no limit counts. */
typedef struct tn__block {
  tn__device *device;
  _Atomic int64_t n_owners;
  size_t bytes;
  _Atomic(void *) data; /* 64-byte aligned, unless `drop` is set */
  tn__var var;
  _Atomic uint64_t version; /* 0: not watched; else counts writes */
  _Atomic uint64_t serial;  /* identifies the block for tapes; 0: none yet */
  void (*drop)(void *ctx);  /* frees foreign memory; NULL: memory of a heap */
  void *ctx; /* of drop; without drop the heap of pinned memory, or NULL */
  struct tn__block *next; /* next deferred block (see block.c) */
  size_t piece;           /* bytes of this description and of the data in its
                           * piece */
  const void *last;       /* for the owners: the owner that used it last */
} tn__block;

enum { TN__BLOCK_ROOM = 256 };

/* Creates a block without memory. The caller releases it. */
tn_code tn__block_create(tn__device *device, size_t bytes, tn__block **out);
/* The same with `more` bytes in the piece of its description, aligned to 16,
 * which live as long as the block. It saves the caller a piece of its own. The
 * caller keeps the runtime alive, as with tn__env_retain, until
 * tn__block_release_with_runtime. */
tn_code tn__block_create_with(tn__device *device, size_t bytes, size_t more,
                              tn__block **out, void **out_more);
/* Releases the block, and then the runtime. */
void tn__block_release_with_runtime(tn__block *block);
/* Releases only the runtime, for a caller that has passed its share of the
 * block to another owner. */
void tn__device_release_runtime(tn__device *device);

/* Foreign memory. */
typedef struct tn__foreign {
  void *data;
  size_t bytes;
  void (*drop)(void *ctx); /* called once, on any thread, when the block has no
                            * owner and devices have finished with it */
  void *ctx;
} tn__foreign;

/* Creates a block of foreign memory. The caller releases it. On failure drop is
 * not called. */
tn_code tn__block_wrap(tn__device *device, const tn__foreign *memory,
                       tn__block **out);

static inline tn__block *tn__block_retain(tn__block *block) {
  atomic_fetch_add_explicit(&block->n_owners, 1, memory_order_relaxed);
  return block;
}
void tn__block_release(tn__block *block); /* NULL is allowed */

/* Allocates the memory if the block has none yet. If several threads do so at
 * once, one allocation wins. */
tn_code tn__block_materialise(tn__block *block);

/* Gives a block of the cpu without memory a piece of the host memory that
 * `device` reads fast, unless that is ordinary memory. Nothing else may use the
 * block yet. */
tn_code tn__block_pin(tn__block *block, tn__device *device);

/* Gives a block without memory a part of the memory of `owner`, at `data`; the
 * block keeps `owner` alive. Nothing else may use the block yet. */
void tn__block_borrow(tn__block *block, void *data, tn__block *owner);

/* ---------------------------------------------------------------- resources */

/* Scratch space: temporary memory that operations use one after the other. Its
 * content is undefined at entry. An operation that uses it updates `var`; two
 * operations of one space never overlap. It only grows. On a device it is used
 * on the compute queue. */
typedef struct tn__scratch_space {
  tn__var var;
  tn__device *device;
  void *data;
  size_t bytes;
} tn__scratch_space;

enum { TN__SCRATCH_CPU = 4, TN__SCRATCH_DEVICE = 1 };

/* Returns the next scratch space of the device in turn. */
tn__scratch_space *tn__scratch_next(tn__device *device);
/* Returns memory of at least `bytes` bytes. The caller holds the variable (or
 * has entered the gate, with the variable writable). Valid until the next
 * reserve of the space. If the space of a device must grow, this waits for its
 * queue. */
tn_code tn__scratch_reserve(tn__scratch_space *space, size_t bytes, void **out);

/* A stream of random numbers: counted blocks of Philox 4x32-10
 * (tenon/kernel/kernel.h). Calls claim their blocks in the order in which they
 * are pushed, so their numbers depend only on the seed and on that order. To
 * restore a state, seed with the key and claim as many blocks as before. */
typedef struct tn__random {
  tn__var var;             /* updated by operations that draw */
  _Atomic uint64_t key;    /* the seed, unchanged */
  _Atomic uint64_t offset; /* blocks claimed so far */
} tn__random;

void tn__random_init(tn__random *random, uint64_t seed);
/* Sets a new seed, from the next claim on, and starts at the first block. */
void tn__random_seed(tn__random *random, uint64_t seed);
/* Claims `blocks` blocks for the caller. Returns the number of the first. */
uint64_t tn__random_claim(tn__random *random, uint64_t blocks);

#endif /* TENON_STORAGE_H_ */
