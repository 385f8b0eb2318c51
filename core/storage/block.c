/* SPDX-License-Identifier: Apache-2.0
 * block.c: the life of a block of memory. What lies in it is not known here.
 */
#include "storage.h"

enum { BLOCK_ALIGN = 64 };

tn_code tn__block_create(const tn__env *env, size_t bytes, tn__block **out) {
  *out = NULL;
  tn__block *block = tn__alloc(env, sizeof *block);
  if (!block) return tn__fail_memory(sizeof *block, "a block's description");
  block->env = env;
  block->bytes = bytes;
  block->device_type = TN_DEVICE_CPU;
  block->device_id = 0;
  atomic_init(&block->n_owners, 1);
  atomic_init(&block->data, NULL);
  *out = block;
  return TN_OK;
}

tn__block *tn__block_retain(tn__block *block) {
  atomic_fetch_add_explicit(&block->n_owners, 1, memory_order_relaxed);
  return block;
}

void tn__block_release(tn__block *block) {
  if (!block) return;
  if (atomic_fetch_sub_explicit(&block->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  const tn__env *env = block->env;
  void *data = atomic_load_explicit(&block->data, memory_order_relaxed);
  tn__storage_free(env, data, block->bytes);
  tn__free(env, block);
}

tn_code tn__block_materialise(tn__block *block) {
  if (block->bytes == 0) return TN_OK;
  if (atomic_load_explicit(&block->data, memory_order_acquire)) return TN_OK;
  void *mine = NULL;
  TN__TRY(tn__storage_alloc(block->env, block->bytes, BLOCK_ALIGN,
                            "the elements of an array", &mine));
  void *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&block->data, &none, mine,
                                               memory_order_acq_rel,
                                               memory_order_acquire))
    tn__storage_free(block->env, mine, block->bytes); /* was not the first */
  return TN_OK;
}
