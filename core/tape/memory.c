/* SPDX-License-Identifier: Apache-2.0
 * memory.c: where the records of a tape lie. Memory is reserved before a
 * call is made, so that a call that was made can be recorded.
 */
#include <string.h>

#include "tape.h"

struct tn__tape_chunk {
  struct tn__tape_chunk *behind;
  size_t used;
  size_t capacity;
  size_t reserved; /* keeps what follows at multiples of 16 */
  unsigned char bytes[];
};

enum { CHUNK = 16384, ALIGN = 16 };

size_t tn__tape_room(size_t bytes) {
  return (bytes + (ALIGN - 1)) & ~(size_t)(ALIGN - 1);
}

static void push(struct tn__tape_chunk **list, struct tn__tape_chunk *chunk) {
  chunk->used = 0;
  chunk->behind = *list;
  *list = chunk;
}

static struct tn__tape_chunk *pop(struct tn__tape_chunk **list) {
  struct tn__tape_chunk *chunk = *list;
  *list = chunk->behind;
  return chunk;
}

tn_code tn__tape_reserve(const tn__env *env, tn__tape_memory *memory,
                         size_t bytes) {
  struct tn__tape_chunk *chunk = memory->chunk;
  if (chunk && chunk->capacity - chunk->used >= bytes) return TN_OK;
  if (memory->spare && memory->spare->capacity >= bytes) {
    push(&memory->chunk, pop(&memory->spare));
    return TN_OK;
  }
  const size_t least = CHUNK - sizeof *chunk;
  const size_t capacity = bytes > least ? tn__tape_room(bytes) : least;
  chunk = tn__alloc(env, sizeof *chunk + capacity);
  if (!chunk) return tn__fail_memory(capacity, "the records of a tape");
  chunk->capacity = capacity;
  push(&memory->chunk, chunk);
  return TN_OK;
}

void *tn__tape_take(tn__tape_memory *memory, size_t bytes) {
  struct tn__tape_chunk *chunk = memory->chunk;
  void *taken = chunk->bytes + chunk->used;
  chunk->used += tn__tape_room(bytes);
  return taken;
}

tn__tape_mark tn__tape_mark_get(const tn__tape_memory *memory) {
  return (tn__tape_mark){memory->chunk,
                         memory->chunk ? memory->chunk->used : 0};
}

void tn__tape_rewind(tn__tape_memory *memory, tn__tape_mark mark) {
  if (!memory->chunk) return;
  memory->chunk->used = memory->chunk == mark.chunk ? mark.used : 0;
}

void tn__tape_memory_reset(tn__tape_memory *memory) {
  while (memory->chunk) push(&memory->spare, pop(&memory->chunk));
}

void tn__tape_memory_deinit(const tn__env *env, tn__tape_memory *memory) {
  tn__tape_memory_reset(memory);
  while (memory->spare) tn__free(env, pop(&memory->spare));
}

/* ----------------------------------------------------------------- layouts */

size_t tn__layout_bytes(int32_t ndim) {
  return tn__tape_room(sizeof(tn__layout)) +
         tn__tape_room(2 * (size_t)ndim * sizeof(int64_t));
}

void tn__layout_copy(tn__tape_memory *memory, const tn__layout *from,
                     tn__layout *to) {
  const size_t bytes = (size_t)from->ndim * sizeof(int64_t);
  int64_t *shape = tn__tape_take(memory, 2 * bytes);
  int64_t *strides = shape + from->ndim;
  if (bytes > 0) {
    memcpy(shape, from->shape, bytes);
    memcpy(strides, from->strides, bytes);
  }
  *to = *from;
  to->shape = shape;
  to->strides = strides;
}
