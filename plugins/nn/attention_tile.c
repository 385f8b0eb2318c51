/* SPDX-License-Identifier: Apache-2.0
 * attention_tile.c: tiles of scores (attention.h): products of rows of q and k,
 * masks, and dropped weights.
 */
#include "attention.h"

#include "attention.gen.h"
#include "nn.h"
#include "tenon/kernel/transpose.h"

#define NN_EACH "attention_loops.h"
#include "each.h"

const nn_loops nn_attention_take = NN_LOOPS(take_scores);
const nn_loops nn_attention_weigh = NN_LOOPS(weigh_scores);
const nn_loops nn_attention_slope = NN_LOOPS(slope_scores);
const nn_loops nn_attention_scale = NN_LOOPS(scale_lines);
const nn_loops nn_attention_dot = NN_LOOPS(dot_lines);

/* ------------------------------------------------------------------ shapes */

const tn_tensor *nn_attention_input(const tn_frame *call, uint32_t i) {
  const uint32_t skip = call->flags & TN_CALL_BACKWARD
                            ? NN_ATTENTION_BACKWARD_IN_Q - NN_ATTENTION_IN_Q
                            : 0;
  return &call->in[skip + i];
}

/* Returns an optional input; NULL if it is absent. */
static const tn_tensor *find_optional(const tn_frame *call, uint32_t i) {
  const uint32_t skip = call->flags & TN_CALL_BACKWARD
                            ? NN_ATTENTION_BACKWARD_IN_Q - NN_ATTENTION_IN_Q
                            : 0;
  if (skip + i >= call->n_in || call->in_flags[skip + i] & TN_IN_ABSENT)
    return NULL;
  return &call->in[skip + i];
}

nn_attention_call nn_attention_describe(const tn_frame *call) {
  const nn_attention_params *p = nn_attention_params_of(call);
  const tn_tensor *q = nn_attention_input(call, NN_ATTENTION_IN_Q);
  const tn_tensor *v = nn_attention_input(call, NN_ATTENTION_IN_V);
  nn_attention_call a = {
      .call = call, .causal = p->causal, .offset = p->causal_offset};
  a.mode = (tn_kernel_mode){tn_kernel_compute(q->dtype), tn_kernel_level(call)};
  a.bytes = tn_dtype_bytes(a.mode.compute);
  a.batch = q->shape[0];
  a.heads = q->shape[1];
  a.rows = q->shape[2];
  a.depth = q->shape[3];
  a.key_heads = v->shape[1];
  a.columns = v->shape[2];
  a.width = v->shape[3];
  a.scale = p->has_scale  ? p->scale
            : a.depth > 0 ? 1 / sqrt((double)a.depth)
                          : 1;
  a.softcap = p->softcap;
  a.window = p->window;
  a.p = p->p;
  a.mask = find_optional(call, NN_ATTENTION_IN_MASK);
  a.lengths = find_optional(call, NN_ATTENTION_IN_KEY_LENGTHS);
  return a;
}

nn_attention_tile nn_attention_locate_rows(const nn_attention_call *a,
                                           int64_t i) {
  const int64_t tiles = nn_attention_count_row_tiles(a);
  nn_attention_tile tile = {.batch = i / tiles / a->heads,
                            .head = i / tiles % a->heads,
                            .row = i % tiles * NN_ATTENTION_ROWS};
  const int64_t left = a->rows - tile.row;
  tile.n_rows = left < NN_ATTENTION_ROWS ? left : NN_ATTENTION_ROWS;
  tile.lanes = (tile.n_rows + NN_ATTENTION_LANES - 1) / NN_ATTENTION_LANES *
               NN_ATTENTION_LANES;
  return tile;
}

/* Returns the number of columns of a batch, by `key_lengths`. */
static int64_t count_columns(const nn_attention_call *a, int64_t batch) {
  int64_t n = a->columns;
  if (!a->lengths) return n;
  if (a->lengths->dtype == TN_I32)
    n = ((const int32_t *)a->lengths->data)[batch];
  else
    n = ((const int64_t *)a->lengths->data)[batch];
  if (n < 0) return 0;
  return n < a->columns ? n : a->columns;
}

/* Returns a + b, or the nearest number of 64 bits. */
static int64_t add_within(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

void nn_attention_find_columns(const nn_attention_call *a,
                               const nn_attention_tile *tile, int64_t *first,
                               int64_t *end) {
  *first = 0;
  *end = count_columns(a, tile->batch);
  if (!a->causal) return;
  const int64_t low = add_within(tile->row, a->offset);
  const int64_t high = add_within(low, tile->n_rows);
  if (high < *end) *end = high < 0 ? 0 : high;
  const int64_t from = a->window > 0 ? add_within(low, 1 - a->window) : 0;
  if (from > 0) *first = from / NN_ATTENTION_COLUMNS * NN_ATTENTION_COLUMNS;
}

const char *nn_attention_locate_q(const nn_attention_call *a,
                                  const nn_attention_tile *tile) {
  return a->q + nn_attention_number_row(a, tile) * a->depth * a->bytes;
}

/* Returns the number of row `tile->column` of k and v among those of all heads.
 */
static int64_t number_column(const nn_attention_call *a,
                             const nn_attention_tile *tile) {
  const int64_t head = tile->head / (a->heads / a->key_heads);
  return (tile->batch * a->key_heads + head) * a->columns + tile->column;
}

const char *nn_attention_locate_k(const nn_attention_call *a,
                                  const nn_attention_tile *tile) {
  return a->k + number_column(a, tile) * a->depth * a->bytes;
}

const char *nn_attention_locate_v(const nn_attention_call *a,
                                  const nn_attention_tile *tile) {
  return a->v + number_column(a, tile) * a->width * a->bytes;
}

void nn_attention_turn_rows(const nn_attention_call *a,
                            const nn_attention_tile *tile, const char *from,
                            int64_t length, char *to) {
  const int64_t distance = NN_ATTENTION_ROWS * a->bytes;
  const int64_t padding = (tile->lanes - tile->n_rows) * a->bytes;
  tn_transpose_of(a->bytes, a->mode.level)(&(tn_transpose){
      to, from, NN_ATTENTION_ROWS, length, length, tile->n_rows});
  for (int64_t i = 0; padding > 0 && i < length; ++i)
    memset(to + i * distance + tile->n_rows * a->bytes, 0, (size_t)padding);
}

/* Returns the bytes of a tile, in whole cache lines. */
static uint64_t count_tile_bytes(const nn_attention_call *a) {
  return (uint64_t)(NN_ATTENTION_ROWS * NN_ATTENTION_COLUMNS * a->bytes);
}

/* Returns the bytes of rows of `length` elements as columns. */
static uint64_t count_turned_bytes(const nn_attention_call *a, int64_t length) {
  return (uint64_t)(NN_ATTENTION_ROWS * length * a->bytes);
}

uint64_t nn_attention_count_room_bytes(const nn_attention_call *a,
                                       int is_backward) {
  const int forward_tiles = a->mask ? 2 : 1;
  const int backward_tiles = a->softcap > 0 ? 2 : 1;
  uint64_t bytes = count_turned_bytes(a, a->depth) +
                   (uint64_t)forward_tiles * count_tile_bytes(a);
  if (is_backward)
    bytes += count_turned_bytes(a, a->width) +
             (uint64_t)backward_tiles * count_tile_bytes(a);
  return bytes;
}

/* Returns the next `bytes` bytes of *memory. */
static char *take_part(char **memory, uint64_t bytes) {
  char *part = *memory;
  *memory += bytes;
  return part;
}

nn_attention_room nn_attention_divide_room(const nn_attention_call *a,
                                           int is_backward, char *memory) {
  nn_attention_room room = {
      .q = take_part(&memory, count_turned_bytes(a, a->depth)),
      .scores = take_part(&memory, count_tile_bytes(a))};
  if (a->mask) room.mask = take_part(&memory, count_tile_bytes(a));
  if (!is_backward) return room;
  room.h = take_part(&memory, count_turned_bytes(a, a->width));
  room.slopes = take_part(&memory, count_tile_bytes(a));
  if (a->softcap > 0) room.bend = take_part(&memory, count_tile_bytes(a));
  return room;
}

/* ------------------------------------------------------------------- masks */

/* The elements of the mask that belong to a tile. */
typedef struct mask_part {
  const char *at; /* the first row and column */
  int64_t row;    /* distances in elements; 0 where the mask broadcasts */
  int64_t column;
} mask_part;

/* Finds the elements of the mask for a tile. */
static mask_part locate_mask(const nn_attention_call *a,
                             const nn_attention_tile *tile) {
  const tn_tensor *mask = a->mask;
  const int64_t index[4] = {tile->batch, tile->head, tile->row, tile->column};
  int64_t step[4] = {0, 0, 0, 0}, at = 0;
  for (int32_t d = 0; d < mask->ndim; ++d)
    if (mask->shape[d] != 1) step[4 - mask->ndim + d] = mask->strides[d];
  for (int d = 0; d < 4; ++d) at += index[d] * step[d];
  return (mask_part){
      (const char *)mask->data + at * tn_dtype_bytes(mask->dtype), step[2],
      step[3]};
}

/* Reads n elements of a row of the mask as f64; those of a bool become 0 or
 * minus infinity. */
static void read_mask(const nn_attention_call *a, const mask_part *part,
                      int64_t row, int64_t n, double *to) {
  const tn_kernel_mode mode = {TN_F64, a->mode.level};
  const tn_dtype dtype = a->mask->dtype;
  const char *at = part->at + row * part->row * tn_dtype_bytes(dtype);
  const int64_t step = part->column * tn_dtype_bytes(dtype);
  if (part->column == 1)
    tn_kernel_load_dense(to, &mode, at, dtype, n);
  else
    for (int64_t c = 0; c < n; ++c)
      tn_kernel_load_dense(to + c, &mode, at + c * step, dtype, 1);
  for (int64_t c = 0; dtype == TN_BOOL && c < n; ++c)
    to[c] = to[c] != 0 ? 0 : -INFINITY;
}

/* Returns the loop over a tile's rows without padding. */
static nn_attention_loop make_row_loop(const nn_attention_tile *tile) {
  return (nn_attention_loop){.lanes = tile->n_rows,
                             .n_columns = tile->n_columns};
}

/* Adds a mask that is the same for all rows of a tile. */
static void add_mask_of_columns(const nn_attention_call *a,
                                const nn_attention_tile *tile,
                                const mask_part *part, char *scores) {
  static const nn_loops loops = NN_LOOPS(mask_columns);
  const nn_attention_loop l = make_row_loop(tile);
  TN_KERNEL_LINED char mask[NN_ATTENTION_COLUMNS * sizeof(double)];
  double line[NN_ATTENTION_COLUMNS];
  read_mask(a, part, 0, tile->n_columns, line);
  for (int64_t c = 0; c < tile->n_columns; ++c)
    nn_attention_put(a, mask, c, line[c]);
  nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.out = scores, .in = {mask}},
              &l);
}

/* Applies a mask of bool with adjacent columns. */
static void hide_by_bytes(const nn_attention_call *a,
                          const nn_attention_tile *tile, const mask_part *part,
                          char *scores) {
  static const nn_loops loops = NN_LOOPS(mask_bytes);
  const nn_attention_loop l = make_row_loop(tile);
  TN_KERNEL_LINED char mask[NN_ATTENTION_COLUMNS * NN_ATTENTION_ROWS];
  tn_transpose_of(1, a->mode.level)(
      &(tn_transpose){mask, part->at, NN_ATTENTION_ROWS, part->row,
                      tile->n_columns, tile->n_rows});
  nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.out = scores, .in = {mask}},
              &l);
}

/* Writes the mask of a tile, in the order of its scores, to `to`. */
static void spread_mask(const nn_attention_call *a,
                        const nn_attention_tile *tile, const mask_part *part,
                        char *to) {
  double line[NN_ATTENTION_COLUMNS];
  if (a->mask->dtype == a->mode.compute && part->column == 1) {
    tn_transpose_of(a->bytes, a->mode.level)(
        &(tn_transpose){to, part->at, NN_ATTENTION_ROWS, part->row,
                        tile->n_columns, tile->n_rows});
    return;
  }
  for (int64_t r = 0; r < tile->n_rows; ++r) {
    read_mask(a, part, r, tile->n_columns, line);
    for (int64_t c = 0; c < tile->n_columns; ++c)
      nn_attention_put(a, to, c * NN_ATTENTION_ROWS + r, line[c]);
  }
}

/* Applies the mask to the scores of a tile. */
static void apply_mask(const nn_attention_call *a,
                       const nn_attention_tile *tile,
                       const nn_attention_room *room) {
  static const nn_loops loops = NN_LOOPS(mask_scores);
  const mask_part part = locate_mask(a, tile);
  const nn_attention_loop l = make_row_loop(tile);
  if (part.row == 0) {
    add_mask_of_columns(a, tile, &part, room->scores);
  } else if (a->mask->dtype == TN_BOOL && part.column == 1) {
    hide_by_bytes(a, tile, &part, room->scores);
  } else {
    spread_mask(a, tile, &part, room->mask);
    nn_run_loop(&a->mode, &loops,
                &(tn_kernel_block){.out = room->scores, .in = {room->mask}},
                &l);
  }
}

/* Returns a distance, or the nearest one that is beyond a tile. */
static int64_t limit_distance(int64_t x) {
  enum { FAR = 4 * NN_ATTENTION_COLUMNS };
  return x < -FAR ? -FAR : x > FAR ? FAR : x;
}

/* Sets scores of columns after, or too far before, the own column of a row to
 * minus infinity. */
static void hide_by_distance(const nn_attention_call *a,
                             const nn_attention_tile *tile, char *scores) {
  static const nn_loops loops = NN_LOOPS(hide_columns);
  nn_attention_loop l = make_row_loop(tile);
  const int64_t own = add_within(tile->row, a->offset);
  const int64_t after =
      add_within(tile->column, own == INT64_MIN ? INT64_MAX : -own);
  l.after = limit_distance(after);
  l.before =
      limit_distance(a->window > 0 ? add_within(after, a->window) : INT64_MAX);
  nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.out = scores}, &l);
}

void nn_attention_score(const nn_attention_call *a,
                        const nn_attention_tile *tile,
                        const nn_attention_room *room) {
  static const nn_loops bend = NN_LOOPS(bend_scores);
  const nn_attention_loop l = {
      .lanes = tile->lanes, .n_columns = tile->n_columns, .cap = a->softcap};
  nn_multiply_block(
      &a->mode,
      &(nn_block_product){.m = tile->n_columns,
                          .n = tile->lanes,
                          .k = a->depth,
                          .a = {nn_attention_locate_k(a, tile), a->depth, 1},
                          .b = {room->q, NN_ATTENTION_ROWS, 1},
                          .c = room->scores,
                          .c_row = NN_ATTENTION_ROWS,
                          .alpha = a->scale});
  if (a->softcap > 0)
    nn_run_loop(&a->mode, &bend,
                &(tn_kernel_block){.out = room->scores, .in = {room->bend}},
                &l);
  if (a->mask) apply_mask(a, tile, room);
  if (a->causal) hide_by_distance(a, tile, room->scores);
}

/* ----------------------------------------------------------------- dropout */

void nn_attention_drop(const nn_attention_call *a,
                       const nn_attention_tile *tile, char *scores) {
  static const nn_loops loops = NN_LOOPS(drop_weights);
  if (!a->drops) return;
  const nn_attention_loop l = {
      .lanes = tile->lanes,
      .n_columns = tile->n_columns,
      .column = tile->column,
      .key = a->random.key,
      .counter = a->random.offset + (uint64_t)nn_attention_number_row(a, tile),
      .limit = a->p < 1 ? (uint32_t)(a->p * 0x1p32) : 0,
      .kept = a->p < 1 ? 1 / (1 - a->p) : 0};
  nn_run_loop(&a->mode, &loops, &(tn_kernel_block){.out = scores}, &l);
}
