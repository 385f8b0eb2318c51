/* SPDX-License-Identifier: Apache-2.0
 * memory.c: allocation through an environment, sizes without overflow, and the
 * arena.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

enum { SMALL_ALIGN = 16, LARGE_ALIGN = 64, LARGE = 4096 };

static void *libc_alloc(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  void *memory = NULL;
  if (align <= _Alignof(max_align_t)) return malloc(bytes);
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}

static void libc_free(void *ctx, void *memory) {
  (void)ctx;
  free(memory);
}

const tn__env *tn__env_default(void) {
  static const tn__env env = {
      .allocator = {NULL, libc_alloc, libc_free},
      .log = tn__log_stderr,
      .os = &tn__os_real,
  };
  return &env;
}

void tn__env_retain(const tn__env *env) {
  if (env->retain != NULL) env->retain(env->owner);
}

void tn__env_release(const tn__env *env) {
  if (env->release != NULL) env->release(env->owner);
}

void *tn__alloc_aligned(const tn__env *env, size_t bytes, size_t align) {
  return env->allocator.alloc(env->allocator.ctx, bytes == 0 ? 1 : bytes,
                              align);
}

void *tn__alloc(const tn__env *env, size_t bytes) {
  return tn__alloc_aligned(env, bytes,
                           bytes >= LARGE ? LARGE_ALIGN : SMALL_ALIGN);
}

void *tn__zalloc(const tn__env *env, size_t bytes) {
  void *memory = tn__alloc(env, bytes);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

void tn__free(const tn__env *env, void *memory) {
  if (memory != NULL) env->allocator.free(env->allocator.ctx, memory);
}

char *tn__strdup(const tn__env *env, const char *text) {
  const size_t n = strlen(text) + 1;
  char *copy = tn__alloc(env, n);
  if (copy != NULL) memcpy(copy, text, n);
  return copy;
}

bool tn__mul(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

size_t tn__dense_bytes(const tn_tensor *t) {
  return (size_t)tn_tensor_bytes(t);
}

bool tn__tensor_bytes(tn_dtype dtype, int32_t ndim, const int64_t *shape,
                      size_t *out) {
  /* Packed elements are counted first, so few that their bits have a number. */
  const bool packed = tn_dtype_is_packed(dtype);
  const size_t most = packed ? PTRDIFF_MAX / 8 : PTRDIFF_MAX;
  size_t bytes = packed ? 1 : (size_t)tn_dtype_bytes(dtype);
  bool empty = false;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) return false;
    if (shape[i] == 0) empty = true;
    /* A zero must not hide an overflow of the other dimensions: strides are
     * their products too. */
    if (shape[i] > 1 && !tn__mul(bytes, (size_t)shape[i], &bytes)) return false;
  }
  if (bytes > most) return false;
  if (packed) bytes = (size_t)tn_dtype_bytes_of(dtype, (int64_t)bytes);
  *out = empty ? 0 : bytes;
  return true;
}

/* ------------------------------------------------------------------- arena */

struct tn__arena_block {
  struct tn__arena_block *next;
  size_t used;
  size_t capacity;
  size_t reserved; /* keeps `memory` 16-byte aligned */
  unsigned char memory[];
};

enum { ARENA_BLOCK = 8192 };

void tn__arena_init(tn__arena *arena, const tn__env *env) {
  *arena = (tn__arena){.env = env};
}

void tn__arena_deinit(tn__arena *arena) {
  while (arena->blocks != NULL) {
    struct tn__arena_block *next = arena->blocks->next;
    tn__free(arena->env, arena->blocks);
    arena->blocks = next;
  }
}

static struct tn__arena_block *add_block(tn__arena *arena, size_t bytes) {
  const size_t least = ARENA_BLOCK - sizeof(struct tn__arena_block);
  const size_t capacity = bytes > least ? bytes : least;
  struct tn__arena_block *block =
      tn__zalloc(arena->env, sizeof *block + capacity);
  if (block == NULL) return NULL;
  block->capacity = capacity;
  block->next = arena->blocks;
  arena->blocks = block;
  return block;
}

void *tn__arena_alloc(tn__arena *arena, size_t bytes) {
  struct tn__arena_block *block = arena->blocks;
  if (bytes > (size_t)PTRDIFF_MAX / 2) {
    arena->failed = true;
    return NULL;
  }
  bytes = (bytes + 15) & ~(size_t)15;
  if (block == NULL || block->capacity - block->used < bytes)
    block = add_block(arena, bytes);
  if (block == NULL) {
    arena->failed = true;
    return NULL;
  }
  void *memory = block->memory + block->used;
  block->used += bytes;
  return memory;
}

char *tn__arena_text(tn__arena *arena, const char *text, size_t n) {
  char *copy = tn__arena_alloc(arena, n + 1);
  if (copy != NULL) memcpy(copy, text, n);
  return copy;
}
