/* SPDX-License-Identifier: Apache-2.0
 * plan_block.c: the pool of blocks of the old planner. A free block goes whole
 * to one later request. Free blocks are sorted by size, so that a request finds
 * its candidates by binary search.
 */
#include <string.h>

#include "compat.h"

typedef struct plan_block {
  size_t bytes;
  int32_t device;
  uint32_t colour; /* of the node that freed it */
} plan_block;

struct compat_blocks {
  plan_block *blocks;
  size_t n_blocks;
  uint32_t *free; /* by size; of equal ones, in the order in which they were
                   * freed */
  size_t n_free;
  uint32_t range;
};

tn_code compat_blocks_create(tn__arena *arena, size_t capacity, uint32_t range,
                             compat_blocks **out) {
  compat_blocks *pool = *out = tn__arena_alloc(arena, sizeof *pool);
  if (pool != NULL) {
    pool->blocks = tn__arena_alloc(arena, capacity * sizeof *pool->blocks);
    pool->free = tn__arena_alloc(arena, capacity * sizeof *pool->free);
    pool->range = range;
  }
  return arena->failed
             ? tn__fail_memory(capacity * sizeof(plan_block), "storages")
             : TN_OK;
}

/* Returns the position of the first free block of at least `bytes`; n_free if
 * there is none. */
static size_t find_size(const compat_blocks *pool, size_t bytes) {
  size_t low = 0, high = pool->n_free;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (pool->blocks[pool->free[middle]].bytes < bytes)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_match(const compat_blocks *pool, size_t at, int32_t device,
                     uint32_t colour) {
  const plan_block *candidate = &pool->blocks[pool->free[at]];
  return candidate->device == device && candidate->colour == colour;
}

/* Returns a position among the free blocks, or n_free. */
static size_t find_free(const compat_blocks *pool, int32_t device, size_t bytes,
                        uint32_t colour) {
  size_t most = 0;
  if (!tn__mul(bytes, pool->range, &most)) most = SIZE_MAX;
  const size_t middle = find_size(pool, bytes);
  for (size_t at = middle;
       at < pool->n_free && pool->blocks[pool->free[at]].bytes <= most; ++at)
    if (is_match(pool, at, device, colour)) return at;
  const size_t least = find_size(pool, bytes / pool->range);
  for (size_t at = middle; at-- > least;)
    if (is_match(pool, at, device, colour)) return at;
  return pool->n_free;
}

uint32_t compat_blocks_request(compat_blocks *pool, int32_t device,
                               size_t bytes, uint32_t colour) {
  const size_t at =
      pool->range == 0 ? pool->n_free : find_free(pool, device, bytes, colour);
  if (at == pool->n_free) {
    pool->blocks[pool->n_blocks] = (plan_block){bytes, device, colour};
    return (uint32_t)pool->n_blocks++;
  }
  const uint32_t found = pool->free[at];
  --pool->n_free;
  memmove(pool->free + at, pool->free + at + 1,
          (pool->n_free - at) * sizeof *pool->free);
  if (pool->blocks[found].bytes < bytes) pool->blocks[found].bytes = bytes;
  return found;
}

void compat_blocks_free(compat_blocks *pool, uint32_t b, uint32_t colour) {
  const size_t bytes = pool->blocks[b].bytes;
  const size_t at =
      bytes == SIZE_MAX ? pool->n_free : find_size(pool, bytes + 1);
  memmove(pool->free + at + 1, pool->free + at,
          (pool->n_free - at) * sizeof *pool->free);
  pool->free[at] = b;
  ++pool->n_free;
  pool->blocks[b].colour = colour;
}

size_t compat_blocks_count(const compat_blocks *pool) {
  return pool->n_blocks;
}

size_t compat_blocks_bytes(const compat_blocks *pool, uint32_t b) {
  return pool->blocks[b].bytes;
}

int32_t compat_blocks_device(const compat_blocks *pool, uint32_t b) {
  return pool->blocks[b].device;
}
