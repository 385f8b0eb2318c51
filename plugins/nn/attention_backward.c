/* SPDX-License-Identifier: Apache-2.0
 * attention_backward.c: the backward pass of attention.yaml, which computes the
 * weights again from lse. The gradients of k and v belong to columns, that of q
 * to rows. If there are many heads, a slice has all rows and columns of some
 * heads; otherwise there are two loops, over rows and over columns, and both
 * compute the weights. No slice adds to a result of another.
 *
 * With weights w and output gradients h, the gradient of v is w*h, that of the
 * weights h*v, and that of a score w*(h*v - sum), where `sum` is the product of
 * the rows of h and out.
 */
#include "attention.gen.h"

#include "attention.h"
#include "nn.h"
#include "workspaces.h"

enum { MANY_HEADS = 8 }; /* heads of k that give enough slices */

/* A backward pass. Addresses are in the type of the computation. */
typedef struct backward_work {
  nn_attention_call a;
  const char *h;   /* output gradient */
  const char *out; /* NULL if only the gradient of v is requested */
  const double *lse;
  char *to[3]; /* gradients of q, k and v; NULL: not requested */
  int64_t column_tiles;
  int is_joined; /* the loop over columns also computes the gradient of q */
  nn_workspaces workspaces;
} backward_work;

/* Returns the number of row tiles of all heads. */
static int64_t count_row_slices(const nn_attention_call *a) {
  return a->batch * a->heads * nn_attention_count_row_tiles(a);
}

/* Returns the number of column tiles of all heads of k. */
static int64_t count_column_slices(const backward_work *w) {
  return w->a.batch * w->a.key_heads * w->column_tiles;
}

/* Plans a backward pass, without memory. */
static backward_work plan_backward(const tn_frame *call) {
  backward_work w = {.a = nn_attention_describe(call)};
  w.column_tiles =
      (w.a.columns + NN_ATTENTION_COLUMNS - 1) / NN_ATTENTION_COLUMNS;
  const int64_t rows = count_row_slices(&w.a),
                columns = count_column_slices(&w);
  w.workspaces.bytes = nn_attention_count_room_bytes(&w.a, 1);
  w.workspaces.n = nn_choose_workspace_count(rows > columns ? rows : columns);
  return w;
}

int32_t nn_attention_backward_bytes(const tn_frame *call, uint64_t *bytes) {
  const backward_work w = plan_backward(call);
  *bytes = w.workspaces.n * w.workspaces.bytes +
           nn_count_wide_bytes(&call->in[NN_ATTENTION_BACKWARD_GRAD_OUT]) +
           nn_count_wide_bytes(&call->in[NN_ATTENTION_BACKWARD_OUT_OUT]);
  for (uint32_t i = 0; i < 3; ++i)
    *bytes += nn_count_wide_bytes(nn_attention_input(call, i)) +
              nn_count_wide_bytes(&call->out[i]);
  return TN_OK;
}

/* ------------------------------------------------------------------- tiles */

/* Returns the address of a tile's rows in an array with the rows of out. */
static const char *locate_rows(const backward_work *w, const char *array,
                               const nn_attention_tile *tile) {
  return array + nn_attention_number_row(&w->a, tile) * w->a.width * w->a.bytes;
}

/* Copies lse of a tile's rows to `top`. */
static void read_lse(const backward_work *w, const nn_attention_tile *tile,
                     void *top) {
  const int64_t first = nn_attention_number_row(&w->a, tile);
  for (int64_t r = 0; r < tile->lanes; ++r)
    nn_attention_put(&w->a, top, r, r < tile->n_rows ? w->lse[first + r] : 0);
}

/* Sets room->slopes to the gradients of the scores of a tile, from the weights
 * in room->scores. */
static void find_slopes(const backward_work *w, const nn_attention_tile *tile,
                        const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  TN_KERNEL_LINED char sum[NN_ATTENTION_ROWS * sizeof(double)] = {0};
  const nn_attention_loop l = {.lanes = tile->lanes,
                               .n_columns = tile->n_columns,
                               .width = a->width,
                               .sum = sum};
  nn_multiply_block(
      &a->mode,
      &(nn_block_product){.m = tile->n_columns,
                          .n = tile->lanes,
                          .k = a->width,
                          .a = {nn_attention_locate_v(a, tile), a->width, 1},
                          .b = {room->h, NN_ATTENTION_ROWS, 1},
                          .c = room->slopes,
                          .c_row = NN_ATTENTION_ROWS,
                          .alpha = 1});
  nn_attention_drop(a, tile, room->slopes);
  nn_run_loop(&a->mode, &nn_attention_dot,
              &(tn_kernel_block){.n = tile->n_rows,
                                 .in = {locate_rows(w, w->h, tile),
                                        locate_rows(w, w->out, tile)}},
              &l);
  nn_run_loop(
      &a->mode, &nn_attention_slope,
      &(tn_kernel_block){.out = room->slopes, .in = {room->scores, room->bend}},
      &l);
}

/* Computes the weights of a tile, and the gradients of its scores if `out` is
 * known, from rows of q and h as columns. */
static void compute_tile(const backward_work *w, const nn_attention_tile *tile,
                         const nn_attention_room *room) {
  TN_KERNEL_LINED char top[NN_ATTENTION_ROWS * sizeof(double)];
  const nn_attention_loop l = {
      .lanes = tile->lanes, .n_columns = tile->n_columns, .top = top};
  nn_attention_score(&w->a, tile, room);
  read_lse(w, tile, top);
  nn_run_loop(&w->a.mode, &nn_attention_weigh,
              &(tn_kernel_block){.out = room->scores}, &l);
  if (w->out) find_slopes(w, tile, room);
}

/* Writes the rows of q and of the output gradient as columns to the memory of
 * the slice. */
static void turn_rows(const backward_work *w, const nn_attention_tile *tile,
                      const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  nn_attention_turn_rows(a, tile, nn_attention_locate_q(a, tile), a->depth,
                         room->q);
  if (w->out)
    nn_attention_turn_rows(a, tile, locate_rows(w, w->h, tile), a->width,
                           room->h);
}

/* Limits the columns of a tile to those that its rows use. Returns 0 if there
 * are none. */
static int limit_columns(const nn_attention_call *a, nn_attention_tile *tile) {
  int64_t first, end;
  nn_attention_find_columns(a, tile, &first, &end);
  if (tile->column < first || tile->column >= end) return 0;
  tile->n_columns = end - tile->column < NN_ATTENTION_COLUMNS
                        ? end - tile->column
                        : NN_ATTENTION_COLUMNS;
  return 1;
}

/* -------------------------------------------------------- gradient of q */

/* Returns the address of a tile's rows in the gradient of q. */
static char *locate_q_rows(const backward_work *w,
                           const nn_attention_tile *tile) {
  return w->to[0] +
         nn_attention_number_row(&w->a, tile) * w->a.depth * w->a.bytes;
}

/* Adds the part of a tile to the gradient of its rows of q. */
static void add_q_part(const backward_work *w, const nn_attention_tile *tile,
                       const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  nn_multiply_block(
      &a->mode,
      &(nn_block_product){.m = tile->n_rows,
                          .n = a->depth,
                          .k = tile->n_columns,
                          .a = {room->slopes, 1, NN_ATTENTION_ROWS},
                          .b = {nn_attention_locate_k(a, tile), a->depth, 1},
                          .c = locate_q_rows(w, tile),
                          .c_row = a->depth,
                          .alpha = a->scale,
                          .beta = 1});
}

/* Computes the gradient of the rows of a tile. */
static void compute_q_rows(const backward_work *w, nn_attention_tile *tile,
                           const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  memset(locate_q_rows(w, tile), 0,
         (size_t)(tile->n_rows * a->depth * a->bytes));
  turn_rows(w, tile, room);
  for (int64_t c = 0; c < w->column_tiles; ++c) {
    tile->column = c * NN_ATTENTION_COLUMNS;
    if (!limit_columns(a, tile)) continue;
    compute_tile(w, tile, room);
    add_q_part(w, tile, room);
  }
}

/* Computes the gradient of q in the row tiles [begin, end) of all heads. */
static int32_t q_slice(void *arg, int64_t begin, int64_t end) {
  backward_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  const nn_attention_room room = nn_attention_divide_room(
      &w->a, 1, nn_locate_workspace(&w->workspaces, slot));
  for (int64_t i = begin; i < end; ++i) {
    nn_attention_tile tile = nn_attention_locate_rows(&w->a, i);
    compute_q_rows(w, &tile, &room);
  }
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* -------------------------------------------------- gradients of k and v */

/* Adds the part of a tile to a gradient with rows of `length` elements: the
 * product of `factors`, column by column, and the rows `from`. */
static void add_part(const backward_work *w, const nn_attention_tile *tile,
                     const nn_block_product *part) {
  nn_block_product x = *part;
  x.m = tile->n_columns;
  x.k = tile->n_rows;
  x.b.row = x.c_row = x.n;
  x.b.column = 1;
  x.a.row = NN_ATTENTION_ROWS;
  x.a.column = 1;
  x.beta = 1;
  nn_multiply_block(&w->a.mode, &x);
}

/* Adds the parts of one head of q and all its rows to the gradients k and v of
 * the columns of `tile`. */
static void add_head(const backward_work *w, nn_attention_tile tile,
                     const nn_attention_room *room, char *k, char *v) {
  const nn_attention_call *a = &w->a;
  const int64_t tiles = nn_attention_count_row_tiles(a);
  const int64_t head = (tile.batch * a->heads + tile.head) * tiles;
  const int64_t column = tile.column;
  for (int64_t i = 0; i < tiles; ++i) {
    tile = nn_attention_locate_rows(a, head + i);
    tile.column = column;
    if (!limit_columns(a, &tile)) continue;
    turn_rows(w, &tile, room);
    compute_tile(w, &tile, room);
    if (k)
      add_part(w, &tile,
               &(nn_block_product){.n = a->depth,
                                   .a = {.at = room->slopes},
                                   .b = {.at = nn_attention_locate_q(a, &tile)},
                                   .c = k,
                                   .alpha = a->scale});
    if (w->is_joined) add_q_part(w, &tile, room);
    nn_attention_drop(a, &tile, room->scores);
    if (v)
      add_part(w, &tile,
               &(nn_block_product){.n = a->width,
                                   .a = {.at = room->scores},
                                   .b = {.at = locate_rows(w, w->h, &tile)},
                                   .c = v,
                                   .alpha = 1});
  }
}

/* Clears n rows of a gradient from row `first` on; returns their address, NULL
 * if it is not requested. */
static char *clear_rows(const backward_work *w, char *to, int64_t first,
                        int64_t n, int64_t length) {
  if (!to) return NULL;
  char *at = to + first * length * w->a.bytes;
  memset(at, 0, (size_t)(n * length * w->a.bytes));
  return at;
}

/* Computes the gradients of column tile `i` of all heads of k. */
static void compute_columns(const backward_work *w, int64_t i,
                            const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  const int64_t group = a->heads / a->key_heads;
  const int64_t head = i / w->column_tiles, key_head = head % a->key_heads;
  nn_attention_tile tile = {
      .batch = head / a->key_heads,
      .column = i % w->column_tiles * NN_ATTENTION_COLUMNS};
  const int64_t left = a->columns - tile.column;
  const int64_t n = left < NN_ATTENTION_COLUMNS ? left : NN_ATTENTION_COLUMNS;
  const int64_t first = head * a->columns + tile.column;
  char *k = clear_rows(w, w->to[1], first, n, a->depth);
  char *v = clear_rows(w, w->to[2], first, n, a->width);
  for (int64_t g = 0; g < group; ++g) {
    tile.head = key_head * group + g;
    add_head(w, tile, room, k, v);
  }
}

/* Clears the gradient of all heads of q that use a head of k. */
static void clear_q_heads(const backward_work *w, int64_t key_head) {
  const nn_attention_call *a = &w->a;
  const int64_t n = a->heads / a->key_heads * a->rows;
  (void)clear_rows(w, w->to[0], key_head * n, n, a->depth);
}

/* Computes the gradients of k and v in the column tiles [begin, end), or all
 * gradients of the heads [begin, end) of k. */
static int32_t column_slice(void *arg, int64_t begin, int64_t end) {
  backward_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  const nn_attention_room room = nn_attention_divide_room(
      &w->a, 1, nn_locate_workspace(&w->workspaces, slot));
  const int64_t each = w->is_joined ? w->column_tiles : 1;
  for (int64_t i = begin; w->is_joined && i < end; ++i) clear_q_heads(w, i);
  for (int64_t i = begin * each; i < end * each; ++i)
    compute_columns(w, i, &room);
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* ------------------------------------------------------------------- calls */

/* Opens the operands of a call. */
static nn_wide_operands open_operands(backward_work *w) {
  const tn_frame *call = w->a.call;
  const int needs_out =
      call->req[0] != TN_REQ_NULL || call->req[1] != TN_REQ_NULL;
  const int64_t *drawn = call->in[NN_ATTENTION_BACKWARD_OUT_DRAWN].data;
  nn_wide_operands wide =
      nn_open_wide_operands(call, nn_attention_input(call, 0)->dtype,
                            w->workspaces.n * w->workspaces.bytes);
  w->workspaces.memory = call->ws[0];
  w->h = nn_widen_input(&wide, &call->in[NN_ATTENTION_BACKWARD_GRAD_OUT]);
  w->a.q = nn_widen_input(&wide, nn_attention_input(call, NN_ATTENTION_IN_Q));
  w->a.k = nn_widen_input(&wide, nn_attention_input(call, NN_ATTENTION_IN_K));
  w->a.v = nn_widen_input(&wide, nn_attention_input(call, NN_ATTENTION_IN_V));
  if (needs_out)
    w->out = nn_widen_input(&wide, &call->in[NN_ATTENTION_BACKWARD_OUT_OUT]);
  for (uint32_t i = 0; i < 3; ++i)
    w->to[i] = nn_locate_wide_output(&wide, &call->out[i], call->req[i]);
  w->lse = call->in[NN_ATTENTION_BACKWARD_OUT_LSE].data;
  w->a.drops = drawn[0] != 0;
  w->a.random.key = (uint64_t)drawn[1];
  w->a.random.offset = (uint64_t)drawn[2];
  return wide;
}

/* Computes the requested gradients. */
static int32_t run_backward(backward_work *w) {
  const nn_attention_call *a = &w->a;
  const int64_t cost = (1 + a->columns) * NN_ATTENTION_ROWS;
  const int64_t heads = a->batch * a->key_heads;
  const int has_columns = w->to[1] || w->to[2];
  w->is_joined = w->to[0] && has_columns && heads >= MANY_HEADS;
  if (w->is_joined)
    return nn_run_parallel(a->call, heads, (1 + a->rows) * (1 + a->columns),
                           column_slice, w);
  int32_t code = TN_OK;
  if (w->to[0])
    code = nn_run_parallel(a->call, count_row_slices(a), cost, q_slice, w);
  if (code == TN_OK && has_columns)
    code =
        nn_run_parallel(a->call, count_column_slices(w), cost, column_slice, w);
  return code;
}

int32_t nn_attention_backward(const tn_frame *call) {
  backward_work w = plan_backward(call);
  const nn_wide_operands wide = open_operands(&w);
  const int32_t code = run_backward(&w);
  for (uint32_t i = 0; i < 3 && code == TN_OK; ++i)
    nn_store_wide_output(&wide, &call->out[i], w.to[i]);
  return code;
}
