/* SPDX-License-Identifier: Apache-2.0
 * tiles.c: a run of elementwise calls is computed tile by tile: for each tile,
 * all calls one after the other on the part of their operands that it covers.
 * The result does not depend on who computes which tile. Folds behind them
 * make records of each tile, and their results of all records.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "fused.h"

enum {
  NEAR_BYTES = 32 << 10, /* of the first cache, if nobody knows */
  NEAR_SHARE = 8, /* operands of a tile that fit it: a few, and what comes next
                   */
  /* Buffers that begin at the same place of a page make stores look like they
   * met the loads behind them. */
  STAGGER_BYTES = 1088,
  FETCH_BYTES = 16 << 20 /* what is larger together lies in no cache */
};

/* ---------------------------------------------------------------- operands */

static uint32_t n_operands(const tn__step *step) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    n += step->parts[k]->info.frame->n_in + step->parts[k]->info.frame->n_out;
  return n;
}

static void list_part(const tn__step *step, tn__fused *f, uint32_t k) {
  const tn__step *part = step->parts[k];
  const tn_frame *frame = part->info.frame;
  const uint32_t n = frame->n_in + (tn__step_folds(part) ? 0 : frame->n_out);
  for (uint32_t i = 0; i < n; ++i) {
    if (!tn__operand_used(frame, i)) continue;
    const bool output = i >= frame->n_in;
    const uint32_t entry = tn__part_entry(part, i);
    f->operands[f->n_operands++] = (tn__tile_operand){
        .part = k,
        .position = i,
        .entry = entry,
        .buffer = tn__entry_listed(step->in, step->n_in, entry) ||
                          tn__entry_listed(step->out, step->n_out, entry)
                      ? TN_NONE
                      : 0,
        .is_output = output,
        .element = (uint32_t)tn_dtype_bytes(
            step->program->values[entry].array->tensor.dtype)};
  }
}

/* -------------------------------------------------------------------- loop */

/* The strides of an operand along the dimensions of the loop; 0 where it is
 * repeated. */
static void strides_of(const tn_tensor *t, int32_t ndim, int64_t *strides) {
  for (int32_t i = 0; i < ndim; ++i) {
    const int32_t k = i - (ndim - t->ndim);
    strides[i] = k < 0 || t->shape[k] == 1 ? 0 : t->strides[k];
  }
}

/* Dimensions i and i + 1 are one for all operands. */
static bool joined(const int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
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

static void squeeze(int64_t (*strides)[TN_MAX_NDIM], uint32_t n, int64_t *shape,
                    int32_t *ndim) {
  for (int32_t i = *ndim - 1; i >= 0; --i)
    if (shape[i] == 1 && *ndim > 1) remove_dim(strides, n, shape, ndim, i);
}

static void collapse(int64_t (*strides)[TN_MAX_NDIM], uint32_t n,
                     int64_t *shape, int32_t *ndim) {
  for (int32_t i = *ndim - 2; i >= 0; --i) {
    if (!joined((const int64_t(*)[TN_MAX_NDIM])strides, n, shape, i)) continue;
    shape[i + 1] *= shape[i];
    remove_dim(strides, n, shape, ndim, i);
  }
}

static bool loop_make(const tn__step *step, tn__fused *f,
                      int64_t (*strides)[TN_MAX_NDIM]) {
  int64_t shape[TN_MAX_NDIM];
  const tn_tensor *loop = tn__fused_loop(step->parts[0]->info.frame);
  int32_t ndim = loop->ndim;
  memcpy(shape, loop->shape, (size_t)ndim * sizeof *shape);
  for (uint32_t i = 0; i < f->n_operands; ++i)
    strides_of(&step->program->values[f->operands[i].entry].array->tensor, ndim,
               strides[i]);
  squeeze(strides, f->n_operands, shape, &ndim);
  if (f->n_folds == 0) collapse(strides, f->n_operands, shape, &ndim);
  if (ndim > TN__LOOP_NDIM || ndim < 1) return false;
  f->ndim = (uint32_t)ndim;
  memcpy(f->shape, shape, (size_t)ndim * sizeof *shape);
  for (uint32_t i = 0; i < f->n_operands; ++i)
    memcpy(f->operands[i].strides, strides[i], (size_t)ndim * sizeof *shape);
  return true;
}

/* Elements of one tile along a dimension of `n` that may have `most`: so many
 * that the last is not much shorter. */
static int64_t tile_length(int64_t n, int64_t most) {
  enum { LINE = 128 }; /* no less than the blocks of chains */
  if (n <= most) return n;
  const int64_t count = (n + most - 1) / most;
  const int64_t even = ((n + count - 1) / count + LINE - 1) / LINE * LINE;
  return even < most ? even : most;
}

static void counts_set(tn__fused *f) {
  f->n_tiles = 1;
  for (uint32_t i = 0; i < f->ndim; ++i) {
    f->count[i] = (f->shape[i] + f->tile[i] - 1) / f->tile[i];
    f->n_tiles *= f->count[i];
  }
}

/* Bytes of one operand of a tile: whole kilobytes. */
static int64_t tile_bytes(void) {
  long near = 0;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  near = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
  if (near < NEAR_BYTES) near = NEAR_BYTES;
  return near / NEAR_SHARE / 1024 * 1024;
}

void tn__fused_lines(tn__fused *f, int64_t most) {
  for (uint32_t i = 0; i < f->ndim; ++i) f->tile[i] = 1;
  f->tile[f->ndim - 1] = tile_length(f->shape[f->ndim - 1], most);
  f->n_fetched = 0;
  counts_set(f);
}

static void tile_make(tn__fused *f) {
  const int64_t bytes = tile_bytes();
  uint32_t widest = 1;
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].element > widest) widest = f->operands[i].element;
  int64_t left = bytes / widest;
  f->buffer_bytes = (size_t)bytes + STAGGER_BYTES;
  for (uint32_t i = f->ndim; i-- > 0;) {
    f->tile[i] = tile_length(f->shape[i], left);
    left = f->shape[i] <= left ? left / f->tile[i] : 1;
  }
  counts_set(f);
}

/* The boxes of a fold, whose dimensions of length 1 the loop has not. */
static void tile_fold(const tn__step *part, tn__fused *f, tn__folding *fold) {
  const tn_frame *frame = part->info.frame;
  tn_fold cut;
  int64_t elements = 1;
  uint32_t n = 0;
  (void)tn_fold_cut(&frame->in[0], &frame->out[0], &cut);
  for (int32_t i = 0; i < cut.ndim; ++i) {
    if (cut.shape[i] == 1) continue;
    if (i < cut.kept) ++fold->kept;
    elements *= cut.box[i];
    f->tile[n++] = cut.box[i];
  }
  counts_set(f);
  f->buffer_bytes = (size_t)elements * sizeof(int64_t) + STAGGER_BYTES;
  fold->parts = cut.parts;
  fold->all = (size_t)part->info.records;
  fold->bytes = fold->all / (size_t)(cut.lines * cut.parts);
}

/* ----------------------------------------------------------------- buffers */

static uint32_t last_part(const tn__fused *f, uint32_t entry) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].entry == entry) last = f->operands[i].part;
  return last;
}

/* A buffer for each entry that has no memory, from the part that writes it to
 * the last that reads it; then another entry gets it. Laid out densely. */
static void buffers_assign(tn__fused *f, uint32_t *free_from) {
  f->n_buffers = 0;
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE || !o->is_output) continue;
    uint32_t b = 0;
    while (b < f->n_buffers && free_from[b] >= o->part) ++b;
    if (b == f->n_buffers) ++f->n_buffers;
    free_from[b] = last_part(f, o->entry);
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

static uint32_t n_folds(const tn__step *step) {
  uint32_t n = 0;
  while (n < step->n_parts &&
         tn__step_folds(step->parts[step->n_parts - 1 - n]))
    ++n;
  return n;
}

static void folds_make(const tn__step *step, tn__fused *f) {
  for (uint32_t i = 0; i < f->n_folds; ++i) {
    f->folds[i].part = step->n_parts - f->n_folds + i;
    tile_fold(step->parts[f->folds[i].part], f, &f->folds[i]);
  }
}

tn_code tn__fused_make(tn__step *step, bool *fits) {
  tn_program *p = step->program;
  const uint32_t n = n_operands(step), folds = n_folds(step);
  tn__fused *f = tn__arena_alloc(&p->arena, sizeof *f);
  const size_t bytes = n * (TN_MAX_NDIM * sizeof(int64_t) + sizeof(uint32_t));
  void *room = tn__alloc(p->env, bytes);
  *fits = false;
  if (f) f->operands = tn__arena_alloc(&p->arena, n * sizeof *f->operands);
  if (f && folds > 0)
    f->folds = tn__arena_alloc(&p->arena, folds * sizeof *f->folds);
  if (!room || p->arena.failed) {
    tn__free(p->env, room);
    return tn__fail_memory(bytes, "a fused step");
  }
  int64_t(*strides)[TN_MAX_NDIM] = room;
  f->n_folds = folds;
  for (uint32_t k = 0; k < step->n_parts; ++k) list_part(step, f, k);
  *fits = loop_make(step, f, strides);
  if (*fits) {
    if (folds > 0)
      folds_make(step, f);
    else
      tile_make(f);
    buffers_assign(f, (uint32_t *)(void *)(strides + n));
    step->fused = f;
  }
  tn__free(p->env, room);
  return TN_OK;
}

/* ------------------------------------------------------------------- pairs */

static uint32_t declared_inplace(const tn__step *part, uint32_t out) {
  const tn__node *node = part->node;
  if (node->kind == TN__NODE_CALL) return node->desc->outputs[out]->inplace;
  return node->desc->gradient->inputs[out]->inplace;
}

static bool is_expanded(const tn__step *part) {
  const tn__node *node = part->node;
  const uint32_t n = node->kind == TN__NODE_CALL ? node->desc->n_outputs
                                                 : node->desc->n_inputs;
  return node->n_out != n;
}

/* Whether a part may make an output where its input lies. Links make one output
 * of an element behind the other, each from the input. */
static bool works_in_place(const tn__step *part) {
  const tn_kernel *kernel = part->info.kernel->desc;
  if ((kernel->flags & TN_KERNEL_CHAIN) && part->n_out > 1) return false;
  return !is_expanded(part) && (kernel->writes & TN_WRITES_INPLACE);
}

/* Nobody reads the input behind the part that writes the output, and that part
 * itself only if it may work in place. */
bool tn__fused_pair(const tn__step *step, uint32_t in, uint32_t out) {
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
    if (!works_in_place(part) ||
        declared_inplace(part, position) != o->position)
      return false;
  }
  return true;
}

/* ------------------------------------------------------------------- place */

static void request_set(const tn__step *step, const tn__tile_operand *out,
                        tn__tile *tile) {
  const tn__fused *f = step->fused;
  const tn_req req = step->program->values[out->entry].request;
  const uint32_t n_in = step->parts[out->part]->info.frame->n_in;
  tn_req made = out->buffer == TN_NONE ? req : TN_REQ_WRITE;
  int32_t alias = -1;
  for (uint32_t i = 0; i < f->n_operands && made == TN_REQ_WRITE; ++i) {
    const tn__tile_operand *in = &f->operands[i];
    if (in->is_output || in->part != out->part || out->buffer != TN_NONE ||
        in->buffer != TN_NONE || in->data != out->data)
      continue;
    made = TN_REQ_INPLACE;
    alias = (int32_t)in->position;
  }
  tn__tile_set_request(tile, out->position - n_in, made, alias);
}

static void tensor_set(const tn__fused *f, const tn__tile_operand *o,
                       tn__scratch *scratch) {
  tn__tile *tile = scratch->tiles[o->part];
  tn_tensor *t = tn__tile_tensor(tile, o->position);
  t->ndim = (int32_t)f->ndim;
  t->shape = scratch->shape;
  t->strides = (int64_t *)(uintptr_t)o->strides;
  if (!o->is_output)
    tn__tile_set_dense(tile, o->position, tn_tensor_is_contiguous(t));
}

/* What a fold gets besides: its output says how many lines a tile has. */
static void tile_folds(const tn__fused *f, tn__scratch *scratch, uint32_t i) {
  static const int64_t strides[TN__LOOP_NDIM];
  tn__tile *tile = scratch->tiles[f->folds[i].part];
  tn_tensor *out = tn__tile_tensor(tile, 1);
  for (uint32_t d = 0; d < f->ndim; ++d) scratch->lines[i][d] = 1;
  out->ndim = (int32_t)f->ndim;
  out->shape = scratch->lines[i];
  out->strides = (int64_t *)(uintptr_t)strides;
  tn__tile_set_request(tile, 0, TN_REQ_WRITE, -1);
  tn__tile_set_reduction(tile, TN_CALL_FOLD);
}

/* Frames of the size of a whole tile; then each kernel prepares for it. */
static tn_code tiles_prepare(const tn__step *step, tn__scratch *scratch) {
  const tn__fused *f = step->fused;
  memcpy(scratch->shape, f->tile, sizeof scratch->shape);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    tensor_set(f, o, scratch);
    if (o->is_output) request_set(step, o, scratch->tiles[o->part]);
  }
  for (uint32_t k = 0; k < step->n_parts - f->n_folds; ++k)
    TN__TRY(tn__tile_prepare(scratch->tiles[k]));
  for (uint32_t i = 0; i < f->n_folds; ++i) tile_folds(f, scratch, i);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE) continue;
    tn__tile_tensor(scratch->tiles[o->part], o->position)->data =
        scratch->buffers + o->buffer * f->buffer_bytes;
  }
  return TN_OK;
}

/* Bytes of the buffers, and of a block for each operand of a chain. */
static size_t scratch_bytes(const tn__fused *f) {
  return f->n_buffers * f->buffer_bytes +
         (size_t)f->n_operands * TN_CHAIN_BYTES;
}

static tn_code scratch_make(const tn__step *step, tn__scratch *scratch) {
  const tn_program *p = step->program;
  tn__fused *f = step->fused;
  const size_t bytes = scratch_bytes(f);
  void *buffers = NULL;
  scratch->tiles = tn__zalloc(p->env, step->n_parts * sizeof(tn__tile *));
  scratch->lines =
      tn__zalloc(p->env, (f->n_folds + 1u) * sizeof *scratch->lines);
  if (!scratch->tiles || !scratch->lines)
    return tn__fail_memory(step->n_parts * sizeof(tn__tile *), "a fused step");
  TN__TRY(tn__heap_alloc(step->device, bytes, "tiles", &buffers));
  scratch->buffers = buffers;
  scratch->train = step->parts[0]->call[1] != NULL;
  for (uint32_t k = 0; k < step->n_parts; ++k) {
    const tn__step *part = step->parts[k];
    TN__TRY(
        tn__tile_create(part->call[part->call[1] != NULL], &scratch->tiles[k]));
  }
  return tiles_prepare(step, scratch);
}

/* The call that is made of all records, which lie at `records`. */
static tn_code merge_make(tn__step *step, tn__folding *fold, char *records) {
  tn_program *p = step->program;
  const tn__step *part = step->parts[fold->part];
  const tn__value *out = &p->values[part->out[0]];
  fold->records = records;
  TN__TRY(tn__array_materialise_zeros(out->array));
  TN__TRY(tn__tile_create(part->call[part->call[1] != NULL], &fold->merge));
  tn__tile_set_reduction(fold->merge, TN_CALL_MERGE);
  tn__tile_set_records(fold->merge, fold->records, fold->all);
  tn__tile_set_request(fold->merge, 0, out->request, -1);
  tn_tensor *tensor = tn__tile_tensor(fold->merge, 1);
  *tensor = tn__array_metadata(out->array);
  tensor->data = tn__array_data(out->array);
  return TN_OK;
}

static tn_code merges_make(tn__step *step) {
  const tn__fused *f = step->fused;
  void *room = NULL;
  if (f->n_folds > 0)
    TN__TRY(tn__step_workspace(step, step->info.workspace, &room));
  char *records = room;
  for (uint32_t i = 0; i < f->n_folds; ++i) {
    TN__TRY(merge_make(step, &f->folds[i], records));
    records += tn__fold_room(step->parts[f->folds[i].part]);
  }
  return TN_OK;
}

/* Whether a tile of the operand is one piece of memory. */
static bool is_dense(const tn__fused *f, const tn__tile_operand *o) {
  int64_t stride = 1;
  for (uint32_t d = f->ndim; d-- > 0;) {
    if (o->strides[d] != stride) return false;
    stride *= f->shape[d];
  }
  return true;
}

/* Which operands are asked for in advance: each entry once, the first few, if
 * all of them are large together. */
static void fetched_set(tn__fused *f) {
  int64_t n = 1, bytes = 0;
  for (uint32_t d = 0; d < f->ndim; ++d) n *= f->shape[d];
  for (uint32_t i = 0; i < f->n_operands && f->n_fetched < TN__FETCHED; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    bool again = false;
    for (uint32_t k = 0; k < i; ++k)
      again = again || f->operands[k].entry == o->entry;
    if (again || o->buffer != TN_NONE || !is_dense(f, o)) continue;
    f->fetched[f->n_fetched++] = i;
    bytes += n * o->element;
  }
  if (bytes < FETCH_BYTES) f->n_fetched = 0;
}

tn_code tn__fused_place(tn__step *step) {
  tn_program *p = step->program;
  tn__fused *f = step->fused;
  TN__TRY(merges_make(step));
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    tn__tile_operand *o = &f->operands[i];
    if (o->buffer != TN_NONE) continue;
    tn_array *array = p->values[o->entry].array;
    TN__TRY(tn__array_materialise_zeros(array));
    o->data = tn__array_data(array);
  }
  fetched_set(f);
  const uint32_t n = tn__engine_workers(p->env->engine) + 2;
  f->scratch = tn__zalloc(p->env, n * sizeof *f->scratch);
  if (!f->scratch)
    return tn__fail_memory(n * sizeof *f->scratch, "a fused step");
  for (; f->n_scratch < n; ++f->n_scratch)
    TN__TRY(scratch_make(step, &f->scratch[f->n_scratch]));
  return tn__chain_make(step);
}

void tn__fused_free(tn__step *step) {
  const tn_program *p = step->program;
  tn__fused *f = step->fused;
  for (uint32_t i = 0; f && i < f->n_folds; ++i)
    tn__tile_free(f->folds[i].merge);
  if (!f || !f->scratch) return;
  const uint32_t n = tn__engine_workers(p->env->engine) + 2;
  for (uint32_t i = 0; i < n; ++i) {
    tn__scratch *scratch = &f->scratch[i];
    for (uint32_t k = 0; scratch->tiles && k < step->n_parts; ++k)
      tn__tile_free(scratch->tiles[k]);
    tn__free(p->env, scratch->tiles);
    tn__free(p->env, scratch->lines);
    if (scratch->buffers)
      tn__heap_free(step->device, scratch->buffers, scratch_bytes(f));
  }
  tn__free(p->env, f->scratch);
}

/* -------------------------------------------------------------------- tiles */

/* One that nobody else uses. There are as many as workers, and two for threads
 * of the host; where more of those help, they wait for a moment. */
static tn__scratch *scratch_take(tn__fused *f) {
  for (;;) {
    for (uint32_t i = 0; i < f->n_scratch; ++i) {
      uint32_t nobody = 0;
      if (atomic_compare_exchange_strong_explicit(&f->scratch[i].busy, &nobody,
                                                  1, memory_order_acquire,
                                                  memory_order_relaxed))
        return &f->scratch[i];
    }
    (void)sched_yield();
  }
}

/* The records of a fold: those of the tile's lines follow one another. */
static void records_set(const tn__fused *f, tn__scratch *scratch, uint32_t i,
                        const int64_t *at) {
  const tn__folding *fold = &f->folds[i];
  int64_t line = 0, of_line = 0, lines = 1;
  for (uint32_t d = 0; d < f->ndim; ++d) {
    if (d >= fold->kept) {
      of_line = of_line * f->count[d] + at[d] / f->tile[d];
      continue;
    }
    line = line * f->shape[d] + at[d];
    scratch->lines[i][d] = scratch->shape[d];
    lines *= scratch->shape[d];
  }
  const size_t first = (size_t)(line * fold->parts + of_line);
  tn__tile_set_records(scratch->tiles[fold->part],
                       fold->records + first * fold->bytes,
                       (size_t)lines * fold->bytes);
}

void tn__tile_box(const tn__fused *f, int64_t index, int64_t *at,
                  int64_t *shape) {
  for (uint32_t d = f->ndim; d-- > 0;) {
    at[d] = index % f->count[d] * f->tile[d];
    index /= f->count[d];
    const int64_t left = f->shape[d] - at[d];
    shape[d] = left < f->tile[d] ? left : f->tile[d];
  }
}

char *tn__operand_at(const tn__fused *f, const tn__tile_operand *o,
                     const int64_t *at) {
  int64_t offset = 0;
  for (uint32_t d = 0; d < f->ndim; ++d) offset += at[d] * o->strides[d];
  return o->data + offset * o->element;
}

/* Moves the operands in memory to tile number `index`. */
static void tile_set(const tn__step *step, tn__scratch *scratch,
                     int64_t index) {
  const tn__fused *f = step->fused;
  int64_t at[TN__LOOP_NDIM];
  tn__tile_box(f, index, at, scratch->shape);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE)
      tn__tile_tensor(scratch->tiles[o->part], o->position)->data =
          tn__operand_at(f, o, at);
  }
  for (uint32_t i = 0; i < f->n_folds; ++i) records_set(f, scratch, i, at);
}

/* What the next tile reads and writes, as far as it is asked for in advance. */
typedef struct ahead {
  const char *at[TN__FETCHED];
  int64_t bytes[TN__FETCHED];
} ahead;

static void ahead_set(const tn__fused *f, int64_t index, ahead *next) {
  int64_t at[TN__LOOP_NDIM], shape[TN__LOOP_NDIM], elements = 1;
  if (f->n_fetched == 0) return;
  tn__tile_box(f, index, at, shape);
  for (uint32_t d = 0; d < f->ndim; ++d) elements *= shape[d];
  for (uint32_t i = 0; i < f->n_fetched; ++i) {
    const tn__tile_operand *o = &f->operands[f->fetched[i]];
    next->at[i] = tn__operand_at(f, o, at);
    next->bytes[i] = elements * o->element;
  }
}

/* Asks for share number `k` of `n` of it: the processor reads ahead while a
 * part goes through its operands, but not from one tile to the next, whose
 * first part would wait for all of it. */
static void ahead_fetch(const tn__fused *f, const ahead *next, uint32_t k,
                        uint32_t n) {
  enum { LINE = 64 };
  for (uint32_t i = 0; i < f->n_fetched; ++i) {
    const int64_t share = (next->bytes[i] / n + LINE) / LINE * LINE;
    const int64_t end = share * (k + 1);
    const int64_t last = end < next->bytes[i] ? end : next->bytes[i];
    for (int64_t b = share * k; b < last; b += LINE)
      __builtin_prefetch(next->at[i] + b);
  }
}

/* One run of a step. */
typedef struct pass {
  const tn__step *step;
  uint32_t train;
} pass;

static void train_set(const tn__step *step, tn__scratch *scratch,
                      uint32_t train) {
  if (scratch->train == train) return;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    tn__tile_set_train(scratch->tiles[k], train != 0);
  scratch->train = train;
}

static tn_code tiles_run(const tn__step *step, tn__scratch *scratch,
                         int64_t begin, int64_t end) {
  const tn__fused *f = step->fused;
  tn_code rc = TN_OK;
  ahead next;
  for (int64_t i = begin; rc == TN_OK && i < end; ++i) {
    tile_set(step, scratch, i);
    const bool more = f->n_fetched > 0 && i + 1 < f->n_tiles;
    if (more) ahead_set(f, i + 1, &next);
    for (uint32_t k = 0; rc == TN_OK && k < step->n_parts; ++k) {
      if (more) ahead_fetch(f, &next, k, step->n_parts);
      rc = tn__tile_run(scratch->tiles[k]);
      if (rc != TN_OK) rc = tn__node_fail(step->parts[k]->node, rc);
    }
  }
  return rc;
}

static int32_t slice(void *arg, int64_t begin, int64_t end) {
  const pass *run = arg;
  tn__fused *f = run->step->fused;
  tn__scratch *scratch = scratch_take(f);
  tn_code rc = TN_OK;
  train_set(run->step, scratch, run->train);
  if (f->chain)
    for (int64_t i = begin; i < end; ++i) tn__chain_run(f, scratch, i);
  else
    rc = tiles_run(run->step, scratch, begin, end);
  atomic_store_explicit(&scratch->busy, 0, memory_order_release);
  return rc;
}

/* Tiles of one slice: few enough that threads end at the same time, and as many
 * as that allows, since each slice looks for a scratch. */
static int64_t tiles_at_once(const tn__fused *f) {
  enum { LEAST = 4, MOST = 64, SLICES = 64 };
  const int64_t n = f->n_tiles / SLICES, least = f->chain ? 1 : LEAST;
  return n < least ? least : n < MOST ? n : MOST;
}

tn_code tn__fused_run(const tn__step *step, uint32_t train, tn__token *token) {
  const tn__fused *f = step->fused;
  pass run = {step, train};
  (void)token;
  TN__TRY(tn__parallel_for(step->program->env->engine, f->n_tiles,
                           tiles_at_once(f), slice, &run));
  for (uint32_t i = 0; i < f->n_folds; ++i) {
    tn__tile_set_train(f->folds[i].merge, train != 0);
    const tn_code rc = tn__tile_run(f->folds[i].merge);
    if (rc != TN_OK)
      return tn__node_fail(step->parts[f->folds[i].part]->node, rc);
  }
  return TN_OK;
}
