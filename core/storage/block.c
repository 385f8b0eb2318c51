/* SPDX-License-Identifier: Apache-2.0
 * block.c: creates, materialises and releases blocks of memory. A block ends
 * when it has no owner and no device uses it. The content of a block is unknown
 * here.
 */
#include <time.h>

#include "device_type.h"

/* Descriptions are pieces of one heap of host memory. The description of a
 * small block of the cpu is followed by its bytes. */
enum { HEAD = 128 };
_Static_assert(sizeof(tn__block) <= HEAD, "a block's description fits");
_Static_assert(HEAD % 64 == 0, "the bytes that follow it are aligned");

static size_t room_for(const tn__device *device, size_t bytes) {
  return bytes <= TN__BLOCK_ROOM && device->table == NULL ? bytes : 0;
}

static size_t room_of(const tn__block *block) {
  return block->drop == NULL ? room_for(block->device, block->bytes) : 0;
}

/* Returns the offset of additional data in the piece of a block. */
static size_t head_with(size_t room) {
  return HEAD + ((room + 15) & ~(size_t)15);
}

/* ------------------------------------------------------------------- create */

/* Initialises a block in a piece of `bytes` bytes. It assigns each member,
 * because copying a whole struct takes twice as long. */
static tn__block *init_block(void *piece, size_t bytes, tn__device *device,
                             const tn__foreign *memory) {
  tn__block *block = piece;
  block->device = device;
  atomic_init(&block->n_owners, 1);
  block->bytes = memory->bytes;
  atomic_init(&block->data, memory->data);
  atomic_init(&block->var.word, 0);
  block->var.tail = NULL;
  block->var.error = NULL;
  block->var.fence = NULL;
  atomic_init(&block->version, 0);
  atomic_init(&block->serial, 0);
  block->drop = memory->drop;
  block->ctx = memory->ctx;
  block->piece = bytes;
  return block;
}

static const char description[] = "a block's description";

static tn_code create_block(tn__device *device, const tn__foreign *memory,
                            size_t room, tn__block **out) {
  void *piece = NULL;
  *out = NULL;
  TN__TRY(tn__piece_alloc(device->devices->descriptors, HEAD + room,
                          description, &piece));
  *out = init_block(piece, HEAD + room, device, memory);
  return TN_OK;
}

tn_code tn__block_create(tn__device *device, size_t bytes, tn__block **out) {
  const tn__foreign none = {.bytes = bytes};
  return create_block(device, &none, room_for(device, bytes), out);
}

tn_code tn__block_create_with(tn__device *device, size_t bytes, size_t more,
                              tn__block **out, void **out_more) {
  const tn__foreign none = {.bytes = bytes};
  const size_t head = head_with(room_for(device, bytes));
  void *piece = NULL;
  *out = NULL;
  TN__TRY(tn__piece_alloc_used(device->devices->descriptors, head + more,
                               description, &piece));
  *out = init_block(piece, head + more, device, &none);
  *out_more = (char *)piece + head;
  return TN_OK;
}

tn_code tn__block_wrap(tn__device *device, const tn__foreign *memory,
                       tn__block **out) {
  return create_block(device, memory, 0, out);
}

static void release_owner(void *owner) {
  tn__block_release(owner);
}

void tn__block_borrow(tn__block *block, void *data, tn__block *owner) {
  block->ctx = tn__block_retain(owner);
  block->drop = release_owner;
  atomic_store_explicit(&block->data, data, memory_order_release);
}

tn_code tn__block_pin(tn__block *block, tn__device *device) {
  void *data = NULL;
  if (block->bytes == 0 || device->staging == device->heap) return TN_OK;
  TN__TRY(tn__piece_alloc(device->staging, block->bytes,
                          "the elements of an array in pinned memory", &data));
  block->ctx = device->staging;
  atomic_store_explicit(&block->data, data, memory_order_release);
  return TN_OK;
}

tn_code tn__block_materialise(tn__block *block) {
  if (block->bytes == 0) return TN_OK;
  if (atomic_load_explicit(&block->data, memory_order_acquire)) return TN_OK;
  if (room_of(block) != 0) {
    atomic_store_explicit(&block->data, (char *)block + HEAD,
                          memory_order_release);
    return TN_OK;
  }
  void *mine = NULL;
  TN__TRY(tn__heap_alloc(block->device, block->bytes,
                         "the elements of an array", &mine));
  void *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&block->data, &none, mine,
                                               memory_order_acq_rel,
                                               memory_order_acquire))
    tn__heap_free(block->device, mine, block->bytes); /* another thread was
                                                       * first */
  return TN_OK;
}

/* ------------------------------------------------------------------ release */

static void free_memory(tn__block *block) {
  void *data = atomic_load_explicit(&block->data, memory_order_relaxed);
  if (block->drop != NULL)
    block->drop(block->ctx);
  else if (block->ctx != NULL) /* pinned */
    tn__piece_free(block->ctx, data, block->bytes);
  else if (room_of(block) == 0)
    tn__heap_free(block->device, data, block->bytes);
}

static void destroy_block(void *arg) {
  tn__block *block = arg;
  free_memory(block);
  tn__piece_free(block->device->devices->descriptors, block, block->piece);
}

/* Reports the end of the block to threads that wait for memory. */
static void destroy_ended(void *arg) {
  tn__block *block = arg;
  tn__device *device = block->device;
  tn__devices *devices = device->devices;
  destroy_block(block);
  pthread_mutex_lock(&devices->end_lock);
  ++device->n_ended;
  atomic_fetch_sub_explicit(&device->n_ending, 1, memory_order_relaxed);
  pthread_cond_broadcast(&devices->ended);
  pthread_mutex_unlock(&devices->end_lock);
}

static void defer_destroy(tn__block *block) {
  tn__devices *devices = block->device->devices;
  block->next = atomic_load_explicit(&devices->deferred, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(
      &devices->deferred, &block->next, block, memory_order_release,
      memory_order_relaxed)) {
  }
}

/* Ends a block with a variable that still carries an error or fences. An error
 * is dropped. The engine waits for devices that still use the memory. If there
 * is no memory for that, the block is deferred. */
static void destroy_later(tn__block *block) {
  tn__device *device = block->device;
  if (block->var.fence == NULL) {
    tn__var_deinit(&block->var);
    destroy_block(block);
    return;
  }
  atomic_fetch_add_explicit(&device->n_ending, 1, memory_order_relaxed);
  if (!tn__var_delete(device->env->engine, &block->var, destroy_ended, block))
    return;
  atomic_fetch_sub_explicit(&device->n_ending, 1, memory_order_relaxed);
  defer_destroy(block);
}

uint64_t tn__device_count_ended(tn__device *device) {
  tn__devices *devices = device->devices;
  pthread_mutex_lock(&devices->end_lock);
  const uint64_t n = device->n_ended;
  pthread_mutex_unlock(&devices->end_lock);
  return n;
}

bool tn__device_wait_ended(tn__device *device, uint64_t seen) {
  tn__devices *devices = device->devices;
  struct timespec until;
  tn__queues_record_pending();
  (void)clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  pthread_mutex_lock(&devices->end_lock);
  while (device->n_ended == seen &&
         atomic_load_explicit(&device->n_ending, memory_order_relaxed) > 0)
    if (pthread_cond_timedwait(&devices->ended, &devices->end_lock, &until))
      break;
  const bool more = device->n_ended != seen;
  pthread_mutex_unlock(&devices->end_lock);
  return more;
}

void tn__deferred_retry(tn__devices *devices, bool devices_done) {
  tn__block *block =
      atomic_exchange_explicit(&devices->deferred, NULL, memory_order_acquire);
  while (block != NULL) {
    tn__block *next = block->next;
    if (devices_done) {
      tn__var_deinit(&block->var);
      destroy_block(block);
    } else {
      destroy_later(block);
    }
    block = next;
  }
}

/* The last owner is alone: no other thread could add one now. */
static bool is_last(const tn__block *block) {
  return atomic_load_explicit(&block->n_owners, memory_order_acquire) == 1;
}

void tn__block_release(tn__block *block) {
  if (block == NULL) return;
  if (!is_last(block) &&
      atomic_fetch_sub_explicit(&block->n_owners, 1, memory_order_acq_rel) > 1)
    return;
  if (tn__var_is_writable(&block->var))
    destroy_block(block);
  else
    destroy_later(block);
}

void tn__block_release_with_runtime(tn__block *block) {
  tn__heap *descriptors = block->device->devices->descriptors;
  if (is_last(block) && tn__var_is_writable(&block->var)) {
    free_memory(block);
    tn__piece_free_used(descriptors, block, block->piece);
    return;
  }
  tn__block_release(block);
  tn__piece_end_use(descriptors);
}

void tn__device_release_runtime(tn__device *device) {
  tn__piece_end_use(device->devices->descriptors);
}
