/* SPDX-License-Identifier: Apache-2.0
 * family.h: the devices of one type, and what a device of a table has beyond
 * memory: its queues and fences. Inside core/storage only.
 */
#ifndef TENON_FAMILY_H_
#define TENON_FAMILY_H_

#include <pthread.h>

#include "storage.h"

/* All devices of one type. Never changes once it can be found. */
typedef struct tn__family {
  const tn_device *table; /* NULL: the built-in cpu */
  const char *name;
  int32_t type;
  int32_t count;
  tn__device *devices; /* `count` of them */
  char detail[256];    /* what they are, or why there is none */
  _Atomic(struct tn__family *) next;
} tn__family;

struct tn__devices {
  const tn__env *env;
  tn__arena arena;       /* families, devices, heaps: all that lives as long */
  tn__heap *descriptors; /* host memory of blocks, not counted anywhere */
  tn_memory_limit *limits;
  size_t n_limits;
  pthread_mutex_t lock;     /* taken by add, and by the first use of a device */
  pthread_mutex_t end_lock; /* of n_ended of all devices */
  pthread_cond_t ended;     /* it rose */
  tn__family cpu;           /* the first of the list, to which add appends */
  _Atomic(tn__block *) late; /* see block.c */
  pthread_mutex_t chunk_lock;
  struct tn__chunk *chunks; /* see host.c */
};

/* Stands for all devices of a type in messages. */
#define TN__NO_ID (-1)

/* ---------------------------------------------------------------- device.c */

/* Opens its queues unless that is done. */
tn_code tn__device_ready(tn__device *device);

/* ----------------------------------------------------------------- table.c */

/* Refuses a table whose functions or answers cannot be; otherwise fills in
 * everything of the family but `devices`. */
tn_code tn__table_read(const tn_device *table, tn__family *family);

/* Sets the error text of a failure that a table's function answered with `code`
 * while `doing` ("a copy of 40 bytes"); returns a code that is one. */
tn_code tn__table_fail(const tn__device *device, int32_t code,
                       const char *doing, const tn_device_error *error);

/* ------------------------------------------------------------------ host.c */

/* Memory of the host, aligned to 64 bytes, from 2 MiB up to huge pages. From
 * 64 KiB up pieces share huge pages, which go back to the allocator as soon as
 * no piece lies on them. Without an error text. From any thread. */
tn_code tn__host_take(tn__devices *devices, uint64_t bytes, void **out);
/* With the number of bytes that was taken. */
void tn__host_give(tn__devices *devices, void *memory, uint64_t bytes);

/* ------------------------------------------------------------------ heap.c */

/* A heap without a piece. `kind` is TN_MEMORY_*. */
tn__heap *tn__heap_create(tn__device *device, uint32_t kind, uint64_t limit);
/* The same as tn__piece_alloc and tn__piece_free, for a piece whose user keeps
 * the runtime alive as an owner does. Counting users under the lock that is
 * taken anyway costs nothing; the heap owns the runtime for all of them. */
tn_code tn__piece_alloc_used(tn__heap *heap, size_t bytes, const char *what,
                             void **out);
void tn__piece_free_used(tn__heap *heap, void *memory, size_t bytes);
/* The user is gone, the piece stays: tn__piece_free is to follow. May be the
 * end of the runtime. */
void tn__piece_unuse(tn__heap *heap);
/* Gives everything back that is kept; nothing else is living. */
void tn__heap_deinit(tn__heap *heap);

/* ----------------------------------------------------------------- block.c */

/* Blocks whose end could not be pushed for want of memory: tries again, or,
 * with `devices_done`, frees them. */
void tn__late_retry(tn__devices *devices, bool devices_done);

/* How many blocks devices were done with so far, and a wait for one more: false
 * if none is to come, or none has come in a second. */
uint64_t tn__ended(tn__device *device);
bool tn__ended_wait(tn__device *device, uint64_t seen);

/* ----------------------------------------------------------------- queue.c */

/* Opens the queues of a device of a table. The devices' lock is held. */
tn_code tn__device_open(tn__device *device);
/* Points in a queue, which is what tn__token_queue gives: those of
 * tn__queue_ops. */
tn_code tn__point_record(void *queue, void **out);
tn_code tn__point_query(void *point, bool *done);
tn_code tn__point_wait(void *point);
void tn__point_drop(void *point);
/* Closes what open opened. No variable carries one of its fences any more. */
void tn__device_close(tn__device *device);

#endif /* TENON_FAMILY_H_ */
