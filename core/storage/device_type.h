/* SPDX-License-Identifier: Apache-2.0
 * device_type.h: the devices of one type, and the functions that the files of
 * core/storage share: tables, queues, fences, heaps. Other folders include
 * storage.h instead.
 */
#ifndef TENON_STORAGE_DEVICE_TYPE_H_
#define TENON_STORAGE_DEVICE_TYPE_H_

#include <pthread.h>

#include "storage.h"

/* All devices of one type. Never changes once it can be found. */
typedef struct tn__device_type {
  const tn_device *table; /* NULL: the built-in cpu */
  const char *name;
  int32_t number; /* TN_DEVICE_* */
  int32_t count;
  tn__device *devices; /* `count` of them */
  char detail[256];    /* a description of the devices, or the reason why there
                        * is none */
  _Atomic(struct tn__device_type *) next;
} tn__device_type;

struct tn__devices {
  const tn__env *env;
  tn__arena arena;       /* types, devices, heaps: all objects with the lifetime
                          * of the runtime */
  tn__heap *descriptors; /* host memory of blocks, not counted anywhere */
  tn_memory_limit *limits;
  size_t n_limits;
  pthread_mutex_t lock;     /* held by add, and by the first use of a device */
  pthread_mutex_t end_lock; /* of n_ended of all devices */
  pthread_cond_t ended;     /* n_ended has risen */
  tn__device_type cpu;      /* the first of the list; add appends to it */
  _Atomic(tn__block *) deferred; /* see block.c */
  pthread_mutex_t chunk_lock;
  struct tn__chunk *chunks; /* see host_memory.c */
};

/* Represents all devices of a type in messages. */
#define TN__NO_ID (-1)

/* ----------------------------------------------------------- device_table.c */

/* Refuses a table with invalid functions or answers. Otherwise fills in
 * everything of the type but `devices`. */
tn_code tn__device_table_read(const tn_device *table, tn__device_type *type);

/* Sets the error text for a table function that returned `code` while `doing`
 * ("a copy of 40 bytes"). Returns a valid error code. */
tn_code tn__device_fail(const tn__device *device, int32_t code,
                        const char *doing, const tn_device_error *error);

/* ------------------------------------------------------------ host_memory.c */

/* Allocates memory of the host, aligned to 64 bytes, from 2 MiB up to huge
 * pages. Pieces from 64 KiB share huge pages. A shared huge page returns to the
 * allocator as soon as no piece uses it. Sets no error text. From any
 * thread. */
tn_code tn__host_alloc(tn__devices *devices, uint64_t bytes, void **out);
/* `bytes` is the size of the allocation. */
void tn__host_free(tn__devices *devices, void *memory, uint64_t bytes);

/* ------------------------------------------------------------ device_heap.c */

/* Creates an empty heap. `kind` is TN_MEMORY_*. */
tn__heap *tn__heap_create(tn__device *device, uint32_t kind, uint64_t limit);
/* The same as tn__piece_alloc and tn__piece_free, for a user that keeps the
 * runtime alive like an owner. Counting users costs nothing, because the lock
 * is held in any case; the heap owns the runtime for all of them. */
tn_code tn__piece_alloc_used(tn__heap *heap, size_t bytes, const char *purpose,
                             void **out);
void tn__piece_free_used(tn__heap *heap, void *memory, size_t bytes);
/* Ends the use of a piece that stays allocated until tn__piece_free. This may
 * end the runtime. */
void tn__piece_end_use(tn__heap *heap);
/* Returns all kept memory. Nothing else may be allocated. */
void tn__heap_deinit(tn__heap *heap);

/* ------------------------------------------------------------------ block.c */

/* Retries to delete blocks that were deferred for lack of memory. With
 * `devices_done`, frees them. */
void tn__deferred_retry(tn__devices *devices, bool devices_done);

/* Returns the number of blocks that the device has finished so far.
 * tn__device_wait_ended waits for one more; it returns false if none is
 * expected, or after a second. */
uint64_t tn__device_count_ended(tn__device *device);
bool tn__device_wait_ended(tn__device *device, uint64_t seen);

/* --------------------------------------------------------- device_streams.c */

/* Opens the queues of the device unless they are open. */
tn_code tn__device_ensure_open(tn__device *device);
/* Fences in a queue (the queue is the result of tn__token_queue): the functions
 * of tn__queue_ops. */
tn_code tn__device_fence_record(void *queue, void **out);
tn_code tn__device_fence_query(void *point, bool *done);
tn_code tn__device_fence_wait(void *point);
void tn__device_fence_drop(void *point);
/* Closes the queues. No variable may carry a fence of them any more. */
void tn__device_close(tn__device *device);

#endif /* TENON_STORAGE_DEVICE_TYPE_H_ */
