/* SPDX-License-Identifier: Apache-2.0
 * tape_memory.c: memory for the records of a tape, in chunks that are reused.
 * It is reserved before a call, so that a call that succeeds can be recorded.
 */
#include "tape.h"

enum { CHUNK = 16384 };

static void push_chunk(struct tn__tape_chunk **list,
                       struct tn__tape_chunk *chunk) {
  chunk->used = 0;
  chunk->next = *list;
  *list = chunk;
}

static struct tn__tape_chunk *pop_chunk(struct tn__tape_chunk **list) {
  struct tn__tape_chunk *chunk = *list;
  *list = chunk->next;
  return chunk;
}

tn_code tn__tape_reserve(const tn__env *env, tn__tape_memory *memory,
                         size_t bytes) {
  struct tn__tape_chunk *chunk = memory->chunk;
  if (chunk && chunk->capacity - chunk->used >= bytes) return TN_OK;
  if (memory->spare && memory->spare->capacity >= bytes) {
    push_chunk(&memory->chunk, pop_chunk(&memory->spare));
    return TN_OK;
  }
  const size_t least = CHUNK - sizeof *chunk;
  const size_t capacity = bytes > least ? tn__tape_round_up(bytes) : least;
  chunk = tn__alloc(env, sizeof *chunk + capacity);
  if (!chunk) return tn__fail_memory(capacity, "the records of a tape");
  chunk->capacity = capacity;
  push_chunk(&memory->chunk, chunk);
  return TN_OK;
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
  while (memory->chunk) push_chunk(&memory->spare, pop_chunk(&memory->chunk));
}

void tn__tape_memory_deinit(const tn__env *env, tn__tape_memory *memory) {
  tn__tape_memory_reset(memory);
  while (memory->spare) tn__free(env, pop_chunk(&memory->spare));
}

/* ----------------------------------------------------------------- layouts */

void tn__layout_copy(tn__tape_memory *memory, const tn__layout *from,
                     tn__layout *to) {
  int64_t *shape =
      tn__tape_alloc(memory, 2 * (size_t)from->ndim * sizeof *shape);
  int64_t *strides = shape + from->ndim;
  for (int32_t i = 0; i < from->ndim; ++i) {
    shape[i] = from->shape[i];
    strides[i] = from->strides[i];
  }
  *to = *from;
  to->shape = shape;
  to->strides = strides;
}

void tn__layout_share(tn__tape_memory *memory, const tn__layout *from,
                      const tn__layout *like, tn__layout *to) {
  bool same = like && like->ndim == from->ndim;
  for (int32_t i = 0; same && i < from->ndim; ++i)
    same = like->shape[i] == from->shape[i] &&
           like->strides[i] == from->strides[i];
  if (!same) {
    tn__layout_copy(memory, from, to);
    return;
  }
  *to = *from;
  to->shape = like->shape;
  to->strides = like->strides;
}
