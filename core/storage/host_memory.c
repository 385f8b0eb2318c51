/* SPDX-License-Identifier: Apache-2.0
 * host_memory.c: memory of the host for heaps. Large pieces are on huge pages
 * of their own. Pieces of medium size share huge pages. On small pages, which
 * the system places anywhere, data that should fit a cache evicts itself (an
 * add of 128 K floats in the second level was a fifth slower). Small pieces
 * come from the allocator.
 */
#include <sys/mman.h>

#include "device_type.h"

enum {
  PAGE = 4096,
  CHUNK = 2 << 20, /* a huge page */
  SHARING = 64 << 10,
  N_PAGES = CHUNK / PAGE,
  N_WORDS = N_PAGES / 64
};

/* A huge page that pieces share, page by page. */
typedef struct tn__chunk {
  struct tn__chunk *next;
  char *memory;
  uint32_t n_used;
  uint32_t reserved;
  uint64_t used[N_WORDS]; /* bit: the page belongs to a piece */
} chunk;

static bool can_share(uint64_t bytes) {
  return bytes >= SHARING && bytes < CHUNK;
}

static uint32_t count_pages(uint64_t bytes) {
  return (uint32_t)((bytes + PAGE - 1) / PAGE);
}

static bool is_used(const chunk *c, uint32_t page) {
  return (c->used[page / 64] >> page % 64 & 1) != 0;
}

/* Returns the first page of n consecutive free ones; N_PAGES: there are
 * none. */
static uint32_t find_pages(const chunk *c, uint32_t n) {
  uint32_t length = 0;
  if (N_PAGES - c->n_used < n) return N_PAGES;
  for (uint32_t page = 0; page < N_PAGES; ++page) {
    length = is_used(c, page) ? 0 : length + 1;
    if (length == n) return page + 1 - n;
  }
  return N_PAGES;
}

/* Flips the state of n pages. */
static void flip_pages(chunk *c, uint32_t first, uint32_t n) {
  for (uint32_t page = first; page < first + n; ++page)
    c->used[page / 64] ^= 1ull << page % 64;
}

static void *alloc_huge(const tn__env *env, uint64_t bytes) {
  void *memory = tn__alloc_aligned(env, bytes, CHUNK);
  /* This is advice only. An allocator may have ignored the alignment. */
  if (memory != NULL && (uintptr_t)memory % PAGE == 0)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

static chunk *create_chunk(tn__devices *devices) {
  chunk *c = tn__alloc(devices->env, sizeof *c);
  if (c == NULL) return NULL;
  *c = (chunk){.memory = alloc_huge(devices->env, CHUNK)};
  if (c->memory == NULL) {
    tn__free(devices->env, c);
    return NULL;
  }
  c->next = devices->chunks;
  devices->chunks = c;
  return c;
}

/* Returns NULL if there is no memory for a whole chunk. The lock is held. */
static void *alloc_pages(tn__devices *devices, uint32_t n) {
  chunk *c = devices->chunks;
  uint32_t first = N_PAGES;
  for (; c != NULL; c = c->next)
    if ((first = find_pages(c, n)) < N_PAGES) break;
  if (c == NULL) {
    c = create_chunk(devices);
    if (c == NULL) return NULL;
    first = 0;
  }
  flip_pages(c, first, n);
  c->n_used += n;
  return c->memory + (size_t)first * PAGE;
}

/* Returns false if the memory is in no chunk. The lock is held. */
static bool free_pages(tn__devices *devices, char *memory, uint32_t n) {
  chunk **at = &devices->chunks;
  while (*at != NULL &&
         (memory < (*at)->memory || memory >= (*at)->memory + CHUNK))
    at = &(*at)->next;
  chunk *c = *at;
  if (c == NULL) return false;
  flip_pages(c, (uint32_t)((size_t)(memory - c->memory) / PAGE), n);
  c->n_used -= n;
  if (c->n_used > 0) return true;
  *at = c->next;
  tn__free(devices->env, c->memory);
  tn__free(devices->env, c);
  return true;
}

tn_code tn__host_alloc(tn__devices *devices, uint64_t bytes, void **out) {
  *out = NULL;
  if (can_share(bytes)) {
    pthread_mutex_lock(&devices->chunk_lock);
    *out = alloc_pages(devices, count_pages(bytes));
    pthread_mutex_unlock(&devices->chunk_lock);
  }
  if (*out == NULL)
    *out = bytes >= CHUNK ? alloc_huge(devices->env, bytes)
                          : tn__alloc_aligned(devices->env, bytes, 64);
  return *out != NULL ? TN_OK : TN_OUT_OF_MEMORY;
}

void tn__host_free(tn__devices *devices, void *memory, uint64_t bytes) {
  bool freed = false;
  if (can_share(bytes)) {
    pthread_mutex_lock(&devices->chunk_lock);
    freed = free_pages(devices, memory, count_pages(bytes));
    pthread_mutex_unlock(&devices->chunk_lock);
  }
  if (!freed) tn__free(devices->env, memory);
}
