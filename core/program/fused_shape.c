/* SPDX-License-Identifier: Apache-2.0
 * fused_shape.c: the shape of a fused step: its operands, the dimensions of the
 * loop, tiles and buffers. Also decides which outputs may overwrite inputs.
 */
#include <string.h>
#include <unistd.h>

#include "fused.h"

enum {
  NEAR_BYTES =
      32 << 10,   /* first-level cache, if the system does not report it */
  NEAR_SHARE = 8, /* number of operands of a tile that fit this cache together
                   */
  /* Distance that keeps buffers at different offsets in a page. With equal
   * offsets the processor assumes that a load depends on an earlier store. */
  STAGGER_BYTES = 1088
};

/* ---------------------------------------------------------------- operands */

static uint32_t count_operands(const tn__step *step) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    n += step->parts[k]->info.frame->n_in + step->parts[k]->info.frame->n_out;
  return n;
}

static void list_part_operands(const tn__step *step, tn__fused *f, uint32_t k) {
  const tn__step *part = step->parts[k];
  const tn_frame *frame = part->info.frame;
  const uint32_t n =
      frame->n_in + (tn__step_is_reduction(part) ? 0 : frame->n_out);
  for (uint32_t i = 0; i < n; ++i) {
    if (!tn__operand_is_used(frame, i)) continue;
    const bool output = i >= frame->n_in;
    const uint32_t entry = tn__part_entry(part, i);
    f->operands[f->n_operands++] = (tn__tile_operand){
        .part = k,
        .position = i,
        .entry = entry,
        .buffer = tn__entry_is_listed(step->in, step->n_in, entry) ||
                          tn__entry_is_listed(step->out, step->n_out, entry)
                      ? TN_NONE
                      : 0,
        .is_output = output,
        .element = (uint32_t)tn_dtype_bytes(
            step->program->values[entry].array->tensor.dtype)};
  }
}

/* -------------------------------------------------------------------- loop */

/* Writes the strides of an operand along the dimensions of the loop; 0 in a
 * dimension in which the operand is repeated. */
static void get_strides(const tn_tensor *t, int32_t ndim, int64_t *strides) {
  for (int32_t i = 0; i < ndim; ++i) {
    const int32_t k = i - (ndim - t->ndim);
    strides[i] = k < 0 || t->shape[k] == 1 ? 0 : t->strides[k];
  }
}

/* Tests whether dimensions i and i + 1 of the loop can become one dimension for
 * all operands. */
static bool can_join_axes(const int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
                          const int64_t *shape, int32_t i) {
  for (uint32_t k = 0; k < n; ++k)
    if (strides[k][i] != strides[k][i + 1] * shape[i + 1]) return false;
  return true;
}

static void remove_dim(int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
                       int64_t *shape, int32_t *ndim, int32_t i) {
  for (int32_t d = i; d + 1 < *ndim; ++d) {
    shape[d] = shape[d + 1];
    for (uint32_t k = 0; k < n; ++k) strides[k][d] = strides[k][d + 1];
  }
  --*ndim;
}

static void drop_unit_axes(int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
                           int64_t *shape, int32_t *ndim) {
  for (int32_t i = *ndim - 1; i >= 0; --i)
    if (shape[i] == 1 && *ndim > 1) remove_dim(strides, n, shape, ndim, i);
}

static void join_axes(int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
                      int64_t *shape, int32_t *ndim) {
  for (int32_t i = *ndim - 2; i >= 0; --i) {
    if (!can_join_axes((const int64_t(*)[TN_MAX_NDIM])strides, n, shape, i))
      continue;
    shape[i + 1] *= shape[i];
    remove_dim(strides, n, shape, ndim, i);
  }
}

static bool make_loop(const tn__step *step, tn__fused *f,
                      int64_t (*strides)[TN_MAX_NDIM]) {
  int64_t shape[TN_MAX_NDIM];
  const tn_tensor *loop = tn__fused_loop_shape(step->parts[0]->info.frame);
  int32_t ndim = loop->ndim;
  memcpy(shape, loop->shape, (size_t)ndim * sizeof *shape);
  for (uint32_t i = 0; i < f->n_operands; ++i)
    get_strides(&step->program->values[f->operands[i].entry].array->tensor,
                ndim, strides[i]);
  drop_unit_axes(strides, f->n_operands, shape, &ndim);
  if (f->n_reductions == 0) join_axes(strides, f->n_operands, shape, &ndim);
  if (ndim > TN__LOOP_NDIM || ndim < 1) return false;
  f->ndim = (uint32_t)ndim;
  memcpy(f->shape, shape, (size_t)ndim * sizeof *shape);
  for (uint32_t i = 0; i < f->n_operands; ++i)
    memcpy(f->operands[i].strides, strides[i], (size_t)ndim * sizeof *shape);
  return true;
}

/* Returns the length of a tile along a dimension of `n` elements: at most
 * `most`, and such that the last tile is not much shorter. */
static int64_t choose_tile_length(int64_t n, int64_t most) {
  enum { LINE = 128 }; /* at least the blocks of register runs */
  if (n <= most) return n;
  const int64_t count = (n + most - 1) / most;
  const int64_t even = ((n + count - 1) / count + LINE - 1) / LINE * LINE;
  return even < most ? even : most;
}

static void set_tile_counts(tn__fused *f) {
  f->n_tiles = 1;
  for (uint32_t i = 0; i < f->ndim; ++i) {
    f->count[i] = (f->shape[i] + f->tile[i] - 1) / f->tile[i];
    f->n_tiles *= f->count[i];
  }
}

/* Number of bytes of one operand of a tile, in whole kilobytes. */
static int64_t count_tile_bytes(void) {
  long near = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  near = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
  if (near < NEAR_BYTES) near = NEAR_BYTES;
  return near / NEAR_SHARE / 1024 * 1024;
}

void tn__fused_make_lines(tn__fused *f, int64_t most) {
  for (uint32_t i = 0; i < f->ndim; ++i) f->tile[i] = 1;
  f->tile[f->ndim - 1] = choose_tile_length(f->shape[f->ndim - 1], most);
  f->n_fetched = 0;
  set_tile_counts(f);
}

static void make_tile(tn__fused *f) {
  const int64_t bytes = count_tile_bytes();
  uint32_t widest = 1;
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].element > widest) widest = f->operands[i].element;
  int64_t left = bytes / widest;
  f->buffer_bytes = (size_t)bytes + STAGGER_BYTES;
  for (uint32_t i = f->ndim; i-- > 0;) {
    f->tile[i] = choose_tile_length(f->shape[i], left);
    left = f->shape[i] <= left ? left / f->tile[i] : 1;
  }
  set_tile_counts(f);
}

/* Sets the shape of the tile to the extent of a reduction. The loop does not
 * have dimensions of length 1, unlike the extent. */
static void set_reduction_tile(const tn__step *part, tn__fused *f,
                               tn__tile_reduction *reduction) {
  const tn_frame *frame = part->info.frame;
  tn_reduction cut;
  int64_t elements = 1;
  uint32_t n = 0;
  (void)tn_reduction_cut(&frame->in[0], &frame->out[0], &cut);
  for (int32_t i = 0; i < cut.ndim; ++i) {
    if (cut.shape[i] == 1) continue;
    if (i < cut.kept) ++reduction->kept;
    elements *= cut.extent[i];
    f->tile[n++] = cut.extent[i];
  }
  set_tile_counts(f);
  f->buffer_bytes = (size_t)elements * sizeof(int64_t) + STAGGER_BYTES;
  reduction->parts = cut.parts;
  reduction->all = (size_t)part->info.records;
  reduction->bytes = reduction->all / (size_t)(cut.lines * cut.parts);
}

/* ----------------------------------------------------------------- buffers */

static uint32_t find_last_part(const tn__fused *f, uint32_t entry) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].entry == entry) last = f->operands[i].part;
  return last;
}

/* Assigns a buffer to each entry without memory. The entry has the buffer from
 * the part that writes it to its last reader; then another entry uses the
 * buffer. Buffers are dense. */
static void assign_buffers(tn__fused *f, uint32_t *free_from) {
  f->n_buffers = 0;
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE || !o->is_output) continue;
    uint32_t b = 0;
    while (b < f->n_buffers && free_from[b] >= o->part) ++b;
    if (b == f->n_buffers) ++f->n_buffers;
    free_from[b] = find_last_part(f, o->entry);
    for (uint32_t k = 0; k < f->n_operands; ++k)
      if (f->operands[k].entry == o->entry) f->operands[k].buffer = b;
  }
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    int64_t step = 1;
    if (f->operands[i].buffer == TN_NONE) continue;
    for (uint32_t d = f->ndim; d-- > 0;) {
      f->operands[i].strides[d] = step;
      step *= f->tile[d];
    }
  }
}

static uint32_t count_reductions(const tn__step *step) {
  uint32_t n = 0;
  while (n < step->n_parts &&
         tn__step_is_reduction(step->parts[step->n_parts - 1 - n]))
    ++n;
  return n;
}

static void make_reductions(const tn__step *step, tn__fused *f) {
  for (uint32_t i = 0; i < f->n_reductions; ++i) {
    f->reductions[i].part = step->n_parts - f->n_reductions + i;
    set_reduction_tile(step->parts[f->reductions[i].part], f,
                       &f->reductions[i]);
  }
}

tn_code tn__fused_make(tn__step *step, bool *fits) {
  tn_program *p = step->program;
  const uint32_t n = count_operands(step), reductions = count_reductions(step);
  tn__fused *f = tn__arena_alloc(&p->arena, sizeof *f);
  const size_t bytes = n * (TN_MAX_NDIM * sizeof(int64_t) + sizeof(uint32_t));
  void *room = tn__alloc(p->env, bytes);
  *fits = false;
  if (f) f->operands = tn__arena_alloc(&p->arena, n * sizeof *f->operands);
  if (f && reductions > 0)
    f->reductions =
        tn__arena_alloc(&p->arena, reductions * sizeof *f->reductions);
  if (!room || p->arena.failed) {
    tn__free(p->env, room);
    return tn__fail_memory(bytes, "a fused step");
  }
  int64_t(*strides)[TN_MAX_NDIM] = room;
  f->n_reductions = reductions;
  for (uint32_t k = 0; k < step->n_parts; ++k) list_part_operands(step, f, k);
  *fits = make_loop(step, f, strides);
  if (*fits) {
    if (reductions > 0)
      make_reductions(step, f);
    else
      make_tile(f);
    assign_buffers(f, (uint32_t *)(void *)(strides + n));
    step->fused = f;
  }
  tn__free(p->env, room);
  return TN_OK;
}

/* ------------------------------------------------------------------- pairs */

/* Tests whether the kernel of a part supports this in-place pair. Positions are
 * those of its frame. */
static bool supports_pair(const tn__step *part, tn_inplace pair) {
  const tn_frame *frame = part->info.frame;
  const bool backward = part->node->kind != TN__NODE_CALL;
  const tn__pairs pairs = {
      part->info.kernel->desc, part->node->desc,
      backward ? frame->n_out : frame->n_in,
      backward ? (frame->n_in - frame->n_out) / 2 : frame->n_out};
  return tn__pairs_has(&pairs, pair);
}

static bool has_variadic_results(const tn__step *part) {
  const tn__node *node = part->node;
  const uint32_t n = node->kind == TN__NODE_CALL ? node->desc->n_outputs
                                                 : node->desc->n_inputs;
  return node->n_out != n;
}

/* Tests whether a part may write an output into the memory of its input.
 * Register kernels compute the outputs of one element one after the other, and
 * each reads the input, so a part with several outputs may not. */
static bool can_work_in_place(const tn__step *part) {
  const tn_kernel *kernel = part->info.kernel->desc;
  if ((kernel->flags & TN_KERNEL_REGISTERS) && part->n_out > 1) return false;
  return !has_variadic_results(part);
}

/* Tests whether output `out` may overwrite input `in`: no part after the writer
 * of the output reads the input, and if the writer reads it, the writer may
 * work in place. */
bool tn__fused_can_overwrite(const tn__step *step, uint32_t in, uint32_t out) {
  const tn__fused *f = step->fused;
  const tn__tile_operand *writer = NULL;
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].is_output && f->operands[i].entry == step->out[out])
      writer = &f->operands[i];
  if (!writer) return false;
  const tn__step *part = step->parts[writer->part];
  const uint32_t position = writer->position - part->info.frame->n_in;
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->is_output || o->entry != step->in[in]) continue;
    if (o->part > writer->part) return false;
    if (memcmp(o->strides, writer->strides, sizeof o->strides) != 0)
      return false;
    if (o->part < writer->part) continue;
    if (!can_work_in_place(part) ||
        !supports_pair(part, (tn_inplace){o->position, position}))
      return false;
  }
  return true;
}
