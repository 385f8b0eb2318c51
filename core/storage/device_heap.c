/* SPDX-License-Identifier: Apache-2.0
 * device_heap.c: the memory of one device, in pieces that are kept for later
 * requests of their class.
 *
 * Each piece has a record. While the piece is kept, its record is in the free
 * list of its class. While the piece is in use, the record is a spare one, so
 * that freeing never needs memory. The heap never touches the content of kept
 * pieces, because the host may be unable to reach it.
 */
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "device_type.h"

/* AddressSanitizer finds uses of a released array, although the heap keeps its
 * memory. */
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

/* True until the process starts its second thread. Then there is no thread to
 * exclude, and the lock is most of the cost of reusing a piece. */
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define SINGLE_THREADED __libc_single_threaded
#else
#define SINGLE_THREADED false
#endif

enum {
  UNIT = 64,       /* smallest piece, and alignment of all */
  FLOOR = 1 << 20, /* bytes that may always be held */
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
  _Atomic uint32_t lock; /* held for a few instructions; no call inside */
  uint32_t kind;         /* TN_MEMORY_* */
  tn__device *device;
  uint64_t kept; /* bytes in free lists */
  record *spare;
  tn__heap_stats stats;
  uint64_t non_empty[N_WORDS]; /* bit: the free list is not empty */
  record *free_list[N_CLASSES];
};

/* ------------------------------------------------------------------ classes */

/* Eight classes per doubling. Let u be the number of units minus one. Below 8
 * the class is u; otherwise it consists of the highest four bits of u and their
 * position. */
static uint32_t get_class(size_t bytes) {
  const uint64_t u = ((uint64_t)bytes - 1) / UNIT;
  if (u < 8) return (uint32_t)u;
  const uint32_t shift = 60 - (uint32_t)__builtin_clzll(u);
  return 8 * shift + (uint32_t)(u >> shift);
}

static uint64_t get_class_bytes(uint32_t class) {
  if (class < 16) return (class + 1ull) * UNIT;
  return ((class % 8 + 9ull) << (class / 8 - 1)) * UNIT;
}

/* ---------------------------------------------------- under the heap's lock */

static void lock_heap(tn__heap *heap) {
  uint32_t n = 0;
  if (SINGLE_THREADED) return;
  while (atomic_exchange_explicit(&heap->lock, 1, memory_order_acquire))
    while (atomic_load_explicit(&heap->lock, memory_order_relaxed))
      if (++n % SPINS == 0) (void)sched_yield();
}

static void unlock_heap(tn__heap *heap) {
  atomic_store_explicit(&heap->lock, 0, memory_order_release);
}

static void put_free(tn__heap *heap, uint32_t class, record *r) {
  r->next = heap->free_list[class];
  heap->free_list[class] = r;
  heap->non_empty[class / 64] |= 1ull << class % 64;
  heap->kept += r->bytes;
}

static record *take_free(tn__heap *heap, uint32_t class) {
  record *r = heap->free_list[class];
  heap->free_list[class] = r->next;
  if (r->next == NULL) heap->non_empty[class / 64] &= ~(1ull << class % 64);
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

/* Returns the class of the largest kept piece. At least one piece is kept. */
static uint32_t find_largest(const tn__heap *heap) {
  uint32_t word = N_WORDS - 1;
  while (heap->non_empty[word] == 0) --word;
  return 64 * word + 63 - (uint32_t)__builtin_clzll(heap->non_empty[word]);
}

/* Removes kept pieces from the free lists, the largest first, until at most
 * `most` bytes are held. The caller returns the list to the device. */
static record *shrink_kept(tn__heap *heap, uint64_t most) {
  record *list = NULL;
  while (heap->kept > 0 && heap->stats.held > most) {
    record *r = take_free(heap, find_largest(heap));
    heap->stats.held -= r->bytes;
    r->next = list;
    list = r;
  }
  return list;
}

static uint64_t get_most_held(const tn__heap *heap) {
  const uint64_t most = heap->stats.peak_live + heap->stats.peak_live / 2;
  return most > FLOOR ? most : FLOOR;
}

/* --------------------------------------------------------------- the device */

static tn_code take_from_device(const tn__heap *heap, uint64_t bytes,
                                void **out) {
  const tn__device *device = heap->device;
  const tn_device *table = device->table;
  tn_device_error error = {.struct_size = sizeof error};
  *out = NULL;
  if (table == NULL) return tn__host_alloc(device->devices, bytes, out);
  if (tn__device_is_recording(device))
    return tn__fail(TN_UNSUPPORTED,
                    "%" PRIu64 " bytes of memory are allocated during the run",
                    bytes);
  const int32_t rc =
      table->alloc(table->ctx, device->id, heap->kind, bytes, out, &error);
  if (rc == TN_OUT_OF_MEMORY) return rc;
  if (rc != TN_OK) return tn__device_fail(device, rc, "an allocation", &error);
  if (*out != NULL && (uintptr_t)*out % UNIT == 0) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the device table \"%s\" answered an allocation of %" PRIu64
                  " bytes with the address %p; it must be a multiple of 256",
                  device->name, bytes, *out);
}

static void return_to_device(const tn__heap *heap, const record *r) {
  const tn__device *device = heap->device;
  const tn_device *table = device->table;
  if (table != NULL) {
    table->free(table->ctx, device->id, heap->kind, r->memory);
    return;
  }
  SHOW(r->memory, r->bytes);
  tn__host_free(device->devices, r->memory, r->bytes);
}

static uint64_t return_list(const tn__heap *heap, record *list) {
  uint64_t bytes = 0;
  while (list != NULL) {
    record *next = list->next;
    bytes += list->bytes;
    return_to_device(heap, list);
    tn__free(heap->device->env, list);
    list = next;
  }
  return bytes;
}

static uint64_t trim_heap(tn__heap *heap) {
  lock_heap(heap);
  record *list = shrink_kept(heap, 0);
  unlock_heap(heap);
  return return_list(heap, list);
}

/* ----------------------------------------------------------------- messages */

static tn_code fail_size(const tn__heap *heap, size_t bytes,
                         const char *purpose) {
  char name[TN__DEVICE_TEXT];
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: %zu bytes for %s are more than %s can ever "
                  "have; check the shapes",
                  bytes, purpose, tn__device_text(heap->device, name));
}

static tn_code fail_limit(const tn__heap *heap, size_t bytes,
                          const char *purpose, uint64_t held) {
  char name[TN__DEVICE_TEXT];
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: %zu bytes for %s would exceed the limit of "
                  "%" PRIu64 " bytes on %s, of which %" PRIu64
                  " are in use; release arrays, or raise the limit in "
                  "tn_options.memory_limits",
                  bytes, purpose, heap->stats.limit,
                  tn__device_text(heap->device, name), held);
}

static tn_code fail_device(tn__heap *heap, size_t bytes, const char *purpose) {
  char name[TN__DEVICE_TEXT];
  lock_heap(heap);
  const uint64_t held = heap->stats.held;
  unlock_heap(heap);
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the allocator refused %zu bytes for %s on "
                  "%s, where %" PRIu64 " bytes are in use; release arrays",
                  bytes, purpose, tn__device_text(heap->device, name), held);
}

/* --------------------------------------------------------------- allocation */

/* Logs each doubling of the memory from 1 MiB up. */
static void log_growth(const tn__heap *heap, uint64_t before, uint64_t now) {
  char name[TN__DEVICE_TEXT];
  if ((now ^ before) <= before || now < FLOOR) return; /* as many bits */
  tn__log(heap->device->env, TN__LOG_STORAGE, TN_LOG_DEBUG,
          "%s holds %" PRIu64 " bytes", tn__device_text(heap->device, name),
          now);
}

/* Counts `size` bytes as held. Fails if the limit does not allow it even
 * without the kept pieces. */
static tn_code reserve_bytes(tn__heap *heap, uint64_t size, size_t bytes,
                             const char *purpose) {
  tn__heap_stats *s = &heap->stats;
  lock_heap(heap);
  record *list =
      shrink_kept(heap, size > s->limit ? UINT64_MAX : s->limit - size);
  const uint64_t held = s->held;
  const bool fits = held <= s->limit && size <= s->limit - held;
  const uint64_t before = s->peak_held;
  if (fits) s->held += size;
  if (s->held > s->peak_held) s->peak_held = s->held;
  const uint64_t now = s->peak_held;
  unlock_heap(heap);
  (void)return_list(heap, list);
  log_growth(heap, before, now);
  return fits ? TN_OK : fail_limit(heap, bytes, purpose, held);
}

/* Blocks are deleted by a push, which cannot happen inside of the gate, and
 * waiting may take a while. */
static bool can_wait(const tn__heap *heap) {
  const tn__engine *engine = heap->device->env->engine;
  return engine == NULL || !tn__gate_is_entered(engine);
}

/* Creates a record with memory. Trims if there is no memory otherwise. */
static tn_code create_record(tn__heap *heap, uint64_t size, record **out) {
  tn_code rc = TN_OUT_OF_MEMORY;
  record *r = NULL;
  do {
    if (r == NULL) r = tn__alloc(heap->device->env, sizeof *r);
    if (r != NULL) rc = take_from_device(heap, size, &r->memory);
  } while (rc == TN_OUT_OF_MEMORY && can_wait(heap) &&
           tn__heap_trim(heap->device) > 0);
  if (rc != TN_OK) {
    tn__free(heap->device->env, r);
    return rc;
  }
  r->bytes = size;
  *out = r;
  return TN_OK;
}

static void unreserve_bytes(tn__heap *heap, uint64_t size) {
  lock_heap(heap);
  heap->stats.held -= size;
  unlock_heap(heap);
}

/* Creates a record with memory, counted as held. */
static tn_code try_piece(tn__heap *heap, size_t bytes, const char *purpose,
                         record **out) {
  const uint64_t size = get_class_bytes(get_class(bytes));
  TN__TRY(reserve_bytes(heap, size, bytes, purpose));
  const tn_code rc = create_record(heap, size, out);
  if (rc == TN_OK) return TN_OK;
  unreserve_bytes(heap, size);
  return rc == TN_OUT_OF_MEMORY ? fail_device(heap, bytes, purpose) : rc;
}

static tn_code take_piece(tn__heap *heap, size_t bytes, const char *purpose,
                          void **out) {
  record *r = NULL;
  uint64_t seen;
  tn_code rc;
  if (bytes > (size_t)PTRDIFF_MAX / 2) return fail_size(heap, bytes, purpose);
  do {
    seen = tn__device_count_ended(heap->device);
    rc = try_piece(heap, bytes, purpose, &r);
  } while (rc == TN_OUT_OF_MEMORY && can_wait(heap) &&
           tn__device_wait_ended(heap->device, seen));
  if (rc != TN_OK) return rc;
  *out = r->memory;
  lock_heap(heap);
  put_spare(heap, r);
  count_live(heap, bytes);
  ++heap->stats.n_allocated;
  record *list = shrink_kept(heap, get_most_held(heap));
  unlock_heap(heap);
  (void)return_list(heap, list);
  return TN_OK;
}

/* -------------------------------------------------------------------- users */

/* The caller that raises the count from 0 owns the runtime in another way until
 * it returns. So the retain may follow the unlock. */
static void begin_use(tn__heap *heap) {
  lock_heap(heap);
  const bool first = heap->stats.n_users++ == 0;
  unlock_heap(heap);
  if (first) tn__env_retain(heap->device->env);
}

void tn__piece_end_use(tn__heap *heap) {
  lock_heap(heap);
  const bool last = --heap->stats.n_users == 0;
  unlock_heap(heap);
  if (last) tn__env_release(heap->device->env);
}

/* ----------------------------------------------------------- alloc and free */

static inline tn_code alloc_piece(tn__heap *heap, size_t bytes,
                                  const char *purpose, bool used, void **out) {
  const uint32_t class = get_class(bytes);
  *out = NULL;
  if (class >= N_CLASSES) return fail_size(heap, bytes, purpose);
  lock_heap(heap);
  if (heap->free_list[class] == NULL) {
    unlock_heap(heap);
    TN__TRY(take_piece(heap, bytes, purpose, out));
    if (used) begin_use(heap);
    return TN_OK;
  }
  record *r = take_free(heap, class);
  void *memory = r->memory;
  put_spare(heap, r);
  count_live(heap, bytes);
  ++heap->stats.n_reused;
  const bool first = used && heap->stats.n_users++ == 0;
  unlock_heap(heap);
  if (first) tn__env_retain(heap->device->env);
  if (heap->device->table == NULL) SHOW(memory, bytes);
  *out = memory;
  return TN_OK;
}

static inline void free_piece(tn__heap *heap, void *memory, size_t bytes,
                              bool used) {
  const uint32_t class = get_class(bytes);
  const uint64_t size = get_class_bytes(class);
  if (heap->device->table == NULL) HIDE(memory, size);
  lock_heap(heap);
  record *r = heap->spare;
  heap->spare = r->next;
  r->memory = memory;
  r->bytes = size;
  heap->stats.live -= bytes;
  ++heap->stats.n_freed;
  put_free(heap, class, r);
  record *list = shrink_kept(heap, get_most_held(heap));
  const bool last = used && --heap->stats.n_users == 0;
  unlock_heap(heap);
  if (list != NULL) (void)return_list(heap, list);
  if (last) tn__env_release(heap->device->env);
}

tn_code tn__piece_alloc(tn__heap *heap, size_t bytes, const char *purpose,
                        void **out) {
  return alloc_piece(heap, bytes, purpose, false, out);
}

tn_code tn__piece_alloc_used(tn__heap *heap, size_t bytes, const char *purpose,
                             void **out) {
  return alloc_piece(heap, bytes, purpose, true, out);
}

void tn__piece_free(tn__heap *heap, void *memory, size_t bytes) {
  if (memory != NULL) free_piece(heap, memory, bytes, false);
}

void tn__piece_free_used(tn__heap *heap, void *memory, size_t bytes) {
  free_piece(heap, memory, bytes, true);
}

/* Returns the memory that the device itself has kept. */
static uint64_t trim_table(const tn__device *device) {
  const tn_device *table = device->table;
  const size_t least = offsetof(tn_device, trim) + sizeof table->trim;
  if (table->struct_size < least || table->trim == NULL) return 0;
  return table->trim(table->ctx, device->id);
}

uint64_t tn__heap_trim(tn__device *device) {
  tn__deferred_retry(device->devices, false);
  uint64_t bytes = trim_heap(device->heap);
  if (device->table == NULL)
    return bytes + trim_heap(device->devices->descriptors);
  bytes += trim_heap(device->staging);
  (void)trim_table(device);
  return bytes;
}

void tn__heap_get_stats(tn__heap *heap, tn__heap_stats *out) {
  lock_heap(heap);
  *out = heap->stats;
  unlock_heap(heap);
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
  if (heap != NULL) (void)trim_heap(heap);
}
