/* SPDX-License-Identifier: Apache-2.0
 * storage.h: blocks of memory that arrays share. Uses base. Knows no shapes.
 * Pools, other devices and resources arrive with the engine (issue 3).
 */
#ifndef TENON_STORAGE_H_
#define TENON_STORAGE_H_

#include <stdatomic.h>

#include "base.h"

/* How many bytes of elements and workspaces may be held at one time. */
struct tn__budget {
  uint64_t limit;
  _Atomic uint64_t used;
};

/* Element memory within the environment's budget, for `what` ("the elements of
 * an array"). The caller frees it with the same number of bytes. [any] */
tn_code tn__storage_alloc(const tn__env *env, size_t bytes, size_t align,
                          const char *what, void **out);
void tn__storage_free(const tn__env *env, void *memory, size_t bytes);

/* Memory on one device with a count of owners. `data` is NULL until the block
 * is materialised, and for ever if it has no bytes. */
typedef struct tn__block {
  const tn__env *env;
  _Atomic int64_t n_owners;
  size_t bytes;
  _Atomic(void *) data; /* 64-byte aligned */
  int32_t device_type;
  int32_t device_id;
} tn__block;

/* A block without memory. The caller releases it. [any] */
tn_code tn__block_create(const tn__env *env, size_t bytes, tn__block **out);
tn__block *tn__block_retain(tn__block *block);
void tn__block_release(tn__block *block); /* NULL is allowed */

/* Takes the memory if the block has none yet. From several threads at once,
 * one allocation wins. [any] */
tn_code tn__block_materialise(tn__block *block);

#endif /* TENON_STORAGE_H_ */
