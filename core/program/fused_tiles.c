/* SPDX-License-Identifier: Apache-2.0
 * fused_tiles.c: computes a fused step tile by tile. For each tile, all calls
 * run one after the other on the part of their operands that the tile covers.
 * The result does not depend on the thread that computes a tile. Reductions at
 * the end make records of each tile, and their results from all records.
 */
#include <sched.h>
#include <string.h>

#include "fused.h"

enum {
  FETCH_BYTES = 16 << 20
}; /* least number of bytes of all operands for
      which prefetching is useful: they exceed all
      caches */

/* ------------------------------------------------------------------- place */

static void set_request(const tn__step *step, const tn__tile_operand *out,
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

static void set_tensor(const tn__fused *f, const tn__tile_operand *o,
                       tn__scratch *scratch) {
  tn__tile *tile = scratch->tiles[o->part];
  tn_tensor *t = tn__tile_tensor(tile, o->position);
  t->ndim = (int32_t)f->ndim;
  t->shape = scratch->shape;
  t->strides = (int64_t *)(uintptr_t)o->strides;
  if (!o->is_output)
    tn__tile_set_dense(tile, o->position, tn_tensor_is_contiguous(t));
}

/* Sets the output of a reduction for a tile: one record for each line of the
 * tile. */
static void set_tile_reductions(const tn__fused *f, tn__scratch *scratch,
                                uint32_t i) {
  static const int64_t strides[TN__LOOP_NDIM];
  tn__tile *tile = scratch->tiles[f->reductions[i].part];
  tn_tensor *out = tn__tile_tensor(tile, 1);
  for (uint32_t d = 0; d < f->ndim; ++d) scratch->lines[i][d] = 1;
  out->ndim = (int32_t)f->ndim;
  out->shape = scratch->lines[i];
  out->strides = (int64_t *)(uintptr_t)strides;
  tn__tile_set_request(tile, 0, TN_REQ_WRITE, -1);
  tn__tile_set_reduction(tile, TN_CALL_EXTENT);
}

/* Creates a frame for each part with the size of a whole tile, and prepares the
 * kernel for it. */
static tn_code prepare_tiles(const tn__step *step, tn__scratch *scratch) {
  const tn__fused *f = step->fused;
  memcpy(scratch->shape, f->tile, sizeof scratch->shape);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    set_tensor(f, o, scratch);
    if (o->is_output) set_request(step, o, scratch->tiles[o->part]);
  }
  for (uint32_t k = 0; k < step->n_parts - f->n_reductions; ++k)
    TN__TRY(tn__tile_prepare(scratch->tiles[k]));
  for (uint32_t i = 0; i < f->n_reductions; ++i)
    set_tile_reductions(f, scratch, i);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE) continue;
    tn__tile_tensor(scratch->tiles[o->part], o->position)->data =
        scratch->buffers + o->buffer * f->buffer_bytes;
  }
  return TN_OK;
}

/* Number of bytes of a scratch: of the buffers, and of a block for each operand
 * of a register run. */
static size_t count_scratch_bytes(const tn__fused *f) {
  return f->n_buffers * f->buffer_bytes +
         (size_t)f->n_operands * TN_REGISTER_BYTES;
}

static tn_code make_scratch(const tn__step *step, tn__scratch *scratch) {
  const tn_program *p = step->program;
  tn__fused *f = step->fused;
  const size_t bytes = count_scratch_bytes(f);
  void *buffers = NULL;
  scratch->tiles = tn__zalloc(p->env, step->n_parts * sizeof(tn__tile *));
  scratch->lines =
      tn__zalloc(p->env, (f->n_reductions + 1u) * sizeof *scratch->lines);
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
  return prepare_tiles(step, scratch);
}

/* Prepares the call that computes the result of a reduction from all its
 * records at `records`. */
static tn_code make_merge(tn__step *step, tn__tile_reduction *reduction,
                          char *records) {
  tn_program *p = step->program;
  const tn__step *part = step->parts[reduction->part];
  const tn__value *out = &p->values[part->out[0]];
  reduction->records = records;
  TN__TRY(tn__array_materialise_zeros(out->array));
  TN__TRY(
      tn__tile_create(part->call[part->call[1] != NULL], &reduction->merge));
  tn__tile_set_reduction(reduction->merge, TN_CALL_MERGE);
  tn__tile_set_records(reduction->merge, reduction->records, reduction->all);
  tn__tile_set_request(reduction->merge, 0, out->request, -1);
  tn_tensor *tensor = tn__tile_tensor(reduction->merge, 1);
  *tensor = tn__array_metadata(out->array);
  tensor->data = tn__array_data(out->array);
  return TN_OK;
}

static tn_code make_merges(tn__step *step) {
  const tn__fused *f = step->fused;
  void *room = NULL;
  if (f->n_reductions > 0)
    TN__TRY(tn__step_workspace(step, step->info.workspace, &room));
  char *records = room;
  for (uint32_t i = 0; i < f->n_reductions; ++i) {
    TN__TRY(make_merge(step, &f->reductions[i], records));
    records += tn__reduction_bytes(step->parts[f->reductions[i].part]);
  }
  return TN_OK;
}

/* Tests whether a tile of the operand is one dense piece of memory. */
static bool is_tile_dense(const tn__fused *f, const tn__tile_operand *o) {
  int64_t stride = 1;
  for (uint32_t d = f->ndim; d-- > 0;) {
    if (o->strides[d] != stride) return false;
    stride *= f->shape[d];
  }
  return true;
}

/* Chooses the first few dense operands in memory to be prefetched, each entry
 * once. Chooses none if all of them fit in the cache together. */
static void choose_prefetched_operands(tn__fused *f) {
  int64_t n = 1, bytes = 0;
  for (uint32_t d = 0; d < f->ndim; ++d) n *= f->shape[d];
  for (uint32_t i = 0; i < f->n_operands && f->n_fetched < TN__PREFETCHED;
       ++i) {
    const tn__tile_operand *o = &f->operands[i];
    bool again = false;
    for (uint32_t k = 0; k < i; ++k)
      again = again || f->operands[k].entry == o->entry;
    if (again || o->buffer != TN_NONE || !is_tile_dense(f, o)) continue;
    f->fetched[f->n_fetched++] = i;
    bytes += n * o->element;
  }
  if (bytes < FETCH_BYTES) f->n_fetched = 0;
}

tn_code tn__fused_set_memory(tn__step *step) {
  tn_program *p = step->program;
  tn__fused *f = step->fused;
  TN__TRY(make_merges(step));
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    tn__tile_operand *o = &f->operands[i];
    if (o->buffer != TN_NONE) continue;
    tn_array *array = p->values[o->entry].array;
    TN__TRY(tn__array_materialise_zeros(array));
    o->data = tn__array_data(array);
  }
  choose_prefetched_operands(f);
  const uint32_t n = tn__engine_workers(p->env->engine) + 2;
  f->scratch = tn__zalloc(p->env, n * sizeof *f->scratch);
  if (!f->scratch)
    return tn__fail_memory(n * sizeof *f->scratch, "a fused step");
  for (; f->n_scratch < n; ++f->n_scratch)
    TN__TRY(make_scratch(step, &f->scratch[f->n_scratch]));
  return tn__register_run_make(step);
}

void tn__fused_free(tn__step *step) {
  const tn_program *p = step->program;
  tn__fused *f = step->fused;
  for (uint32_t i = 0; f && i < f->n_reductions; ++i)
    tn__tile_free(f->reductions[i].merge);
  if (!f || !f->scratch) return;
  const uint32_t n = tn__engine_workers(p->env->engine) + 2;
  for (uint32_t i = 0; i < n; ++i) {
    tn__scratch *scratch = &f->scratch[i];
    for (uint32_t k = 0; scratch->tiles && k < step->n_parts; ++k)
      tn__tile_free(scratch->tiles[k]);
    tn__free(p->env, scratch->tiles);
    tn__free(p->env, scratch->lines);
    if (scratch->buffers)
      tn__heap_free(step->device, scratch->buffers, count_scratch_bytes(f));
  }
  tn__free(p->env, f->scratch);
}

/* -------------------------------------------------------------------- tiles */

/* Acquires a free scratch. There is one for each worker and two for helping
 * threads; a thread that finds none free waits for a moment. */
static tn__scratch *acquire_scratch(tn__fused *f) {
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

/* Sets the records that the current tile writes for a reduction; the records of
 * the tile's lines are consecutive. */
static void set_records(const tn__fused *f, tn__scratch *scratch, uint32_t i,
                        const int64_t *at) {
  const tn__tile_reduction *reduction = &f->reductions[i];
  int64_t line = 0, of_line = 0, lines = 1;
  for (uint32_t d = 0; d < f->ndim; ++d) {
    if (d >= reduction->kept) {
      of_line = of_line * f->count[d] + at[d] / f->tile[d];
      continue;
    }
    line = line * f->shape[d] + at[d];
    scratch->lines[i][d] = scratch->shape[d];
    lines *= scratch->shape[d];
  }
  const size_t first = (size_t)(line * reduction->parts + of_line);
  tn__tile_set_records(scratch->tiles[reduction->part],
                       reduction->records + first * reduction->bytes,
                       (size_t)lines * reduction->bytes);
}

void tn__tile_extent(const tn__fused *f, int64_t index, int64_t *at,
                     int64_t *shape) {
  for (uint32_t d = f->ndim; d-- > 0;) {
    at[d] = index % f->count[d] * f->tile[d];
    index /= f->count[d];
    const int64_t left = f->shape[d] - at[d];
    shape[d] = left < f->tile[d] ? left : f->tile[d];
  }
}

char *tn__operand_address(const tn__fused *f, const tn__tile_operand *o,
                          const int64_t *at) {
  int64_t offset = 0;
  for (uint32_t d = 0; d < f->ndim; ++d) offset += at[d] * o->strides[d];
  return o->data + offset * o->element;
}

/* Moves the operands in memory to tile number `index`. */
static void set_tile(const tn__step *step, tn__scratch *scratch,
                     int64_t index) {
  const tn__fused *f = step->fused;
  int64_t at[TN__LOOP_NDIM];
  tn__tile_extent(f, index, at, scratch->shape);
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->buffer == TN_NONE)
      tn__tile_tensor(scratch->tiles[o->part], o->position)->data =
          tn__operand_address(f, o, at);
  }
  for (uint32_t i = 0; i < f->n_reductions; ++i) set_records(f, scratch, i, at);
}

/* The memory of the next tile's operands that is prefetched: an address and a
 * number of bytes for each of f->fetched. */
typedef struct next_tile {
  const char *at[TN__PREFETCHED];
  int64_t bytes[TN__PREFETCHED];
} next_tile;

static void find_next_tile(const tn__fused *f, int64_t index, next_tile *next) {
  int64_t at[TN__LOOP_NDIM], shape[TN__LOOP_NDIM], elements = 1;
  if (f->n_fetched == 0) return;
  tn__tile_extent(f, index, at, shape);
  for (uint32_t d = 0; d < f->ndim; ++d) elements *= shape[d];
  for (uint32_t i = 0; i < f->n_fetched; ++i) {
    const tn__tile_operand *o = &f->operands[f->fetched[i]];
    next->at[i] = tn__operand_address(f, o, at);
    next->bytes[i] = elements * o->element;
  }
}

/* Prefetches one of `n` shares of the operands of the next tile. The processor
 * itself prefetches within the operands of a part, but not from one tile to the
 * next; without this, the first part would wait for all of its operands. */
static void prefetch_part_of_tile(const tn__fused *f, const next_tile *next,
                                  uint32_t k, uint32_t n) {
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

static void set_train_flag(const tn__step *step, tn__scratch *scratch,
                           uint32_t train) {
  if (scratch->train == train) return;
  for (uint32_t k = 0; k < step->n_parts; ++k)
    tn__tile_set_train(scratch->tiles[k], train != 0);
  scratch->train = train;
}

static tn_code run_tiles(const tn__step *step, tn__scratch *scratch,
                         int64_t begin, int64_t end) {
  const tn__fused *f = step->fused;
  tn_code rc = TN_OK;
  next_tile next;
  for (int64_t i = begin; rc == TN_OK && i < end; ++i) {
    set_tile(step, scratch, i);
    const bool more = f->n_fetched > 0 && i + 1 < f->n_tiles;
    if (more) find_next_tile(f, i + 1, &next);
    for (uint32_t k = 0; rc == TN_OK && k < step->n_parts; ++k) {
      if (more) prefetch_part_of_tile(f, &next, k, step->n_parts);
      rc = tn__tile_run(scratch->tiles[k]);
      if (rc != TN_OK) rc = tn__node_fail(step->parts[k]->node, rc);
    }
  }
  return rc;
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const pass *run = arg;
  tn__fused *f = run->step->fused;
  tn__scratch *scratch = acquire_scratch(f);
  tn_code rc = TN_OK;
  set_train_flag(run->step, scratch, run->train);
  if (f->registers)
    for (int64_t i = begin; i < end; ++i) tn__register_run_tile(f, scratch, i);
  else
    rc = run_tiles(run->step, scratch, begin, end);
  atomic_store_explicit(&scratch->busy, 0, memory_order_release);
  return rc;
}

/* Number of tiles of one slice: few, so that threads end at about the same
 * time, but not too few, because each slice searches for a scratch. */
static int64_t count_tiles_per_slice(const tn__fused *f) {
  enum { LEAST = 4, MOST = 64, SLICES = 64 };
  const int64_t n = f->n_tiles / SLICES, least = f->registers ? 1 : LEAST;
  return n < least ? least : n < MOST ? n : MOST;
}

tn_code tn__fused_run(const tn__step *step, uint32_t train, tn__token *token) {
  const tn__fused *f = step->fused;
  pass run = {step, train};
  (void)token;
  TN__TRY(tn__parallel_for(step->program->env->engine, f->n_tiles,
                           count_tiles_per_slice(f), run_slice, &run));
  for (uint32_t i = 0; i < f->n_reductions; ++i) {
    tn__tile_set_train(f->reductions[i].merge, train != 0);
    const tn_code rc = tn__tile_run(f->reductions[i].merge);
    if (rc != TN_OK)
      return tn__node_fail(step->parts[f->reductions[i].part]->node, rc);
  }
  return TN_OK;
}
