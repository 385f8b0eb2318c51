/* SPDX-License-Identifier: Apache-2.0
 * heap.c: the memory of one device, in pieces that are kept for the next of
 * their class.
 *
 * A record stands for each piece that was taken from the device. While the
 * piece is kept, its record lies on the shelf of its class; while it is in use,
 * the record is a spare one, so that freeing never needs memory. What is kept
 * is never touched: it may be memory that only the device can reach.
 */
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "family.h"

/* An array that is used after it was released is found by AddressSanitizer,
 * though its memory is only kept. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEAP_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HEAP_SANITIZED)
#include <sanitizer/asan_interface.h>
#define HIDE(memory, bytes) ASAN_POISON_MEMORY_REGION(memory, bytes)
#define SHOW(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#define HIDE(memory, bytes) ((void)(memory), (void)(bytes))
#define SHOW(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* True until the process has its second thread: there is nobody to lock out,
 * and the lock is most of what a kept piece costs. */
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define ALONE __libc_single_threaded
#else
#define ALONE false
#endif

enum {
  UNIT = 64,       /* smallest piece, and alignment of all */
  FLOOR = 1 << 20, /* held without asking how much was in use */
  N_CLASSES = 440, /* up to 2^62 bytes */
  N_WORDS = (N_CLASSES + 63) / 64,
  SPINS = 64
};

typedef struct record {
  struct record *next;
  void *memory;
  uint64_t bytes; /* of its class */
} record;

struct tn__heap {
  _Atomic uint32_t lock; /* held for some instructions; no call inside */
  uint32_t kind;         /* TN_MEMORY_* */
  tn__device *device;
  uint64_t kept;    /* bytes on shelves */
  uint64_t n_users; /* all together are one owner of the runtime */
  record *spare;
  tn__heap_stats stats;
  uint64_t stocked[N_WORDS]; /* bit: the shelf is not empty */
  record *shelf[N_CLASSES];
};

/* ------------------------------------------------------------------ classes */

/* Eight steps for each doubling. With u units less one: below 8 it is the class
 * itself, otherwise its highest four bits, with their place, are. */
static uint32_t class_of(size_t bytes) {
  const uint64_t u = ((uint64_t)bytes - 1) / UNIT;
  if (u < 8) return (uint32_t)u;
  const uint32_t shift = 60 - (uint32_t)__builtin_clzll(u);
  return 8 * shift + (uint32_t)(u >> shift);
}

static uint64_t class_bytes(uint32_t class) {
  if (class < 16) return (class + 1ull) * UNIT;
  return ((class % 8 + 9ull) << (class / 8 - 1)) * UNIT;
}

/* ---------------------------------------------------- under the heap's lock */

static void lock(tn__heap *heap) {
  uint32_t n = 0;
  if (ALONE) return;
  while (atomic_exchange_explicit(&heap->lock, 1, memory_order_acquire))
    while (atomic_load_explicit(&heap->lock, memory_order_relaxed))
      if (++n % SPINS == 0) (void)sched_yield();
}

static void unlock(tn__heap *heap) {
  atomic_store_explicit(&heap->lock, 0, memory_order_release);
}

static void shelve(tn__heap *heap, uint32_t class, record *r) {
  r->next = heap->shelf[class];
  heap->shelf[class] = r;
  heap->stocked[class / 64] |= 1ull << class % 64;
  heap->kept += r->bytes;
}

static record *unshelve(tn__heap *heap, uint32_t class) {
  record *r = heap->shelf[class];
  heap->shelf[class] = r->next;
  if (r->next == NULL) heap->stocked[class / 64] &= ~(1ull << class % 64);
  heap->kept -= r->bytes;
  return r;
}

static void put_spare(tn__heap *heap, record *r) {
  r->next = heap->spare;
  heap->spare = r;
}

static void count_live(tn__heap *heap, size_t bytes) {
  tn__heap_stats *s = &heap->stats;
  s->live += bytes;
  if (s->live > s->peak_live) s->peak_live = s->live;
}

/* The class of the largest piece that is kept; something is. */
static uint32_t largest(const tn__heap *heap) {
  uint32_t word = N_WORDS - 1;
  while (heap->stocked[word] == 0) --word;
  return 64 * word + 63 - (uint32_t)__builtin_clzll(heap->stocked[word]);
}

/* Takes kept pieces off their shelves, the largest first, until no more than
 * `most` bytes are held; the list of them is to be given back. */
static record *shrink(tn__heap *heap, uint64_t most) {
  record *list = NULL;
  while (heap->kept > 0 && heap->stats.held > most) {
    record *r = unshelve(heap, largest(heap));
    heap->stats.held -= r->bytes;
    r->next = list;
    list = r;
  }
  return list;
}

static uint64_t most_held(const tn__heap *heap) {
  const uint64_t most = heap->stats.peak_live + heap->stats.peak_live / 2;
  return most > FLOOR ? most : FLOOR;
}

/* --------------------------------------------------------------- the device */

static tn_code device_take(const tn__heap *heap, uint64_t bytes, void **out) {
  const tn__device *device = heap->device;
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  *out = NULL;
  if (table == NULL) return tn__host_take(device->devices, bytes, out);
  if (tn__device_is_recorded(device))
    return tn__fail(TN_UNSUPPORTED,
                    "%" PRIu64 " bytes of memory are taken during the run",
                    bytes);
  const int32_t rc =
      table->alloc(table->ctx, device->id, heap->kind, bytes, out, &error);
  if (rc == TN_OUT_OF_MEMORY) return rc;
  if (rc != TN_OK) return tn__table_fail(device, rc, "an allocation", &error);
  if (*out != NULL && (uintptr_t)*out % UNIT == 0) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the device table \"%s\" answered an allocation of %" PRIu64
                  " bytes with the address %p; it must be a multiple of 256",
                  device->name, bytes, *out);
}

static void device_give(const tn__heap *heap, const record *r) {
  const tn__device *device = heap->device;
  const tn_device *table = device->table;
  if (table != NULL) {
    table->free(table->ctx, device->id, heap->kind, r->memory);
    return;
  }
  SHOW(r->memory, r->bytes);
  tn__host_give(device->devices, r->memory, r->bytes);
}

static uint64_t give_back(const tn__heap *heap, record *list) {
  uint64_t bytes = 0;
  while (list != NULL) {
    record *next = list->next;
    bytes += list->bytes;
    device_give(heap, list);
    tn__free(heap->device->env, list);
    list = next;
  }
  return bytes;
}

static uint64_t trim(tn__heap *heap) {
  lock(heap);
  record *list = shrink(heap, 0);
  unlock(heap);
  return give_back(heap, list);
}

/* ----------------------------------------------------------------- messages */

static tn_code fail_size(const tn__heap *heap, size_t bytes, const char *what) {
  char name[TN__DEVICE_TEXT];
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: %zu bytes for %s are more than %s can ever "
                  "have; check the shapes",
                  bytes, what, tn__device_text(heap->device, name));
}

static tn_code fail_limit(const tn__heap *heap, size_t bytes, const char *what,
                          uint64_t held) {
  char name[TN__DEVICE_TEXT];
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: %zu bytes for %s would exceed the limit of "
                  "%" PRIu64 " bytes on %s, of which %" PRIu64
                  " are in use; release arrays, or raise the limit in "
                  "tn_options.memory_limits",
                  bytes, what, heap->stats.limit,
                  tn__device_text(heap->device, name), held);
}

static tn_code fail_device(tn__heap *heap, size_t bytes, const char *what) {
  char name[TN__DEVICE_TEXT];
  lock(heap);
  const uint64_t held = heap->stats.held;
  unlock(heap);
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the allocator refused %zu bytes for %s on "
                  "%s, where %" PRIu64 " bytes are in use; release arrays",
                  bytes, what, tn__device_text(heap->device, name), held);
}

/* ------------------------------------------------------------------- taking */

/* Counts `size` bytes as held, if the limit allows it without what is kept. */
static tn_code reserve(tn__heap *heap, uint64_t size, size_t bytes,
                       const char *what) {
  tn__heap_stats *s = &heap->stats;
  lock(heap);
  record *list = shrink(heap, size > s->limit ? UINT64_MAX : s->limit - size);
  const uint64_t held = s->held;
  const bool fits = held <= s->limit && size <= s->limit - held;
  if (fits) s->held += size;
  if (s->held > s->peak_held) s->peak_held = s->held;
  unlock(heap);
  (void)give_back(heap, list);
  return fits ? TN_OK : fail_limit(heap, bytes, what, held);
}

/* What ends later is begun to be deleted by a push, and may take a while. */
static bool may_wait(const tn__heap *heap) {
  const tn__engine *engine = heap->device->env->engine;
  return engine == NULL || !tn__gate_is_entered(engine);
}

/* A record with memory, after trimming if it cannot be had otherwise. */
static tn_code record_create(tn__heap *heap, uint64_t size, record **out) {
  tn_code rc = TN_OUT_OF_MEMORY;
  record *r = NULL;
  do {
    if (r == NULL) r = tn__alloc(heap->device->env, sizeof *r);
    if (r != NULL) rc = device_take(heap, size, &r->memory);
  } while (rc == TN_OUT_OF_MEMORY && may_wait(heap) &&
           tn__heap_trim(heap->device) > 0);
  if (rc != TN_OK) {
    tn__free(heap->device->env, r);
    return rc;
  }
  r->bytes = size;
  *out = r;
  return TN_OK;
}

static void unreserve(tn__heap *heap, uint64_t size) {
  lock(heap);
  heap->stats.held -= size;
  unlock(heap);
}

/* A record with memory that is counted. */
static tn_code try_take(tn__heap *heap, size_t bytes, const char *what,
                        record **out) {
  const uint64_t size = class_bytes(class_of(bytes));
  TN__TRY(reserve(heap, size, bytes, what));
  const tn_code rc = record_create(heap, size, out);
  if (rc == TN_OK) return TN_OK;
  unreserve(heap, size);
  return rc == TN_OUT_OF_MEMORY ? fail_device(heap, bytes, what) : rc;
}

static tn_code take(tn__heap *heap, size_t bytes, const char *what,
                    void **out) {
  record *r = NULL;
  uint64_t seen;
  tn_code rc;
  if (bytes > (size_t)PTRDIFF_MAX / 2) return fail_size(heap, bytes, what);
  do {
    seen = tn__ended(heap->device);
    rc = try_take(heap, bytes, what, &r);
  } while (rc == TN_OUT_OF_MEMORY && may_wait(heap) &&
           tn__ended_wait(heap->device, seen));
  if (rc != TN_OK) return rc;
  *out = r->memory;
  lock(heap);
  put_spare(heap, r);
  count_live(heap, bytes);
  ++heap->stats.n_taken;
  record *list = shrink(heap, most_held(heap));
  unlock(heap);
  (void)give_back(heap, list);
  return TN_OK;
}

/* -------------------------------------------------------------------- users */

/* Who turns the count away from 0 owns the runtime in some other way until it
 * returns, so that the retain may come behind the lock. */
static void use(tn__heap *heap) {
  lock(heap);
  const bool first = heap->n_users++ == 0;
  unlock(heap);
  if (first) tn__env_retain(heap->device->env);
}

void tn__piece_unuse(tn__heap *heap) {
  lock(heap);
  const bool last = --heap->n_users == 0;
  unlock(heap);
  if (last) tn__env_release(heap->device->env);
}

/* ----------------------------------------------------------- alloc and free */

static inline tn_code piece_alloc(tn__heap *heap, size_t bytes,
                                  const char *what, bool used, void **out) {
  const uint32_t class = class_of(bytes);
  *out = NULL;
  if (class >= N_CLASSES) return fail_size(heap, bytes, what);
  lock(heap);
  if (heap->shelf[class] == NULL) {
    unlock(heap);
    TN__TRY(take(heap, bytes, what, out));
    if (used) use(heap);
    return TN_OK;
  }
  record *r = unshelve(heap, class);
  void *memory = r->memory;
  put_spare(heap, r);
  count_live(heap, bytes);
  ++heap->stats.n_given;
  const bool first = used && heap->n_users++ == 0;
  unlock(heap);
  if (first) tn__env_retain(heap->device->env);
  if (heap->device->table == NULL) SHOW(memory, bytes);
  *out = memory;
  return TN_OK;
}

static inline void piece_free(tn__heap *heap, void *memory, size_t bytes,
                              bool used) {
  const uint32_t class = class_of(bytes);
  const uint64_t size = class_bytes(class);
  if (heap->device->table == NULL) HIDE(memory, size);
  lock(heap);
  record *r = heap->spare;
  heap->spare = r->next;
  r->memory = memory;
  r->bytes = size;
  heap->stats.live -= bytes;
  shelve(heap, class, r);
  record *list = shrink(heap, most_held(heap));
  const bool last = used && --heap->n_users == 0;
  unlock(heap);
  if (list != NULL) (void)give_back(heap, list);
  if (last) tn__env_release(heap->device->env);
}

tn_code tn__piece_alloc(tn__heap *heap, size_t bytes, const char *what,
                        void **out) {
  return piece_alloc(heap, bytes, what, false, out);
}

tn_code tn__piece_alloc_used(tn__heap *heap, size_t bytes, const char *what,
                             void **out) {
  return piece_alloc(heap, bytes, what, true, out);
}

void tn__piece_free(tn__heap *heap, void *memory, size_t bytes) {
  if (memory != NULL) piece_free(heap, memory, bytes, false);
}

void tn__piece_free_used(tn__heap *heap, void *memory, size_t bytes) {
  piece_free(heap, memory, bytes, true);
}

/* What the device itself keeps of what was given back to it. */
static uint64_t trim_table(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least = offsetof(tn_device, trim) + sizeof table->trim;
  if (table->struct_size < least || table->trim == NULL) return 0;
  return table->trim(table->ctx, device->id);
}

uint64_t tn__heap_trim(tn__device *device) {
  tn__late_retry(device->devices, false);
  uint64_t bytes = trim(device->heap);
  if (device->table == NULL) return bytes + trim(device->devices->descriptors);
  bytes += trim(device->staging);
  (void)trim_table(device);
  return bytes;
}

void tn__heap_stats_get(tn__device *device, tn__heap_stats *out) {
  lock(device->heap);
  *out = device->heap->stats;
  unlock(device->heap);
}

/* -------------------------------------------------------- create and deinit */

tn__heap *tn__heap_create(tn__device *device, uint32_t kind, uint64_t limit) {
  tn__heap *heap = tn__arena_alloc(&device->devices->arena, sizeof *heap);
  if (heap == NULL) return NULL;
  heap->kind = kind;
  heap->device = device;
  heap->stats.limit = limit;
  return heap;
}

void tn__heap_deinit(tn__heap *heap) {
  if (heap != NULL) (void)trim(heap);
}
