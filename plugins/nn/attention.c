/* SPDX-License-Identifier: Apache-2.0
 * attention.c: shapes and the forward pass of attention.yaml. A slice computes
 * some rows of one head. It takes tile after tile into the softmax of these
 * rows: when a maximum grows, earlier sums are multiplied by a factor.
 */
#include "attention.gen.h"

#include "attention.h"
#include "attention_draws.h"
#include "nn.h"
#include "workspaces.h"

/* ------------------------------------------------------------------ shapes */

/* Reports a mask that does not broadcast to the scores. Returns the failure. */
static int32_t refuse_mask(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`mask` %s must broadcast to the scores (B,Hq,Sq,Sk) of `q` "
                 "%s and `k` %s",
                 nn_print_shape(&call->in[NN_ATTENTION_IN_MASK]).text,
                 nn_print_shape(&call->in[NN_ATTENTION_IN_Q]).text,
                 nn_print_shape(&call->in[NN_ATTENTION_IN_K]).text);
}

int32_t nn_attention_infer(const tn_frame *call) {
  const tn_tensor *q = &call->in[NN_ATTENTION_IN_Q];
  const tn_tensor *k = &call->in[NN_ATTENTION_IN_K];
  const tn_tensor *mask = &call->in[NN_ATTENTION_IN_MASK];
  if (call->n_in <= NN_ATTENTION_IN_MASK || mask->ndim < 0) return TN_OK;
  if (mask->ndim > 4) return refuse_mask(call);
  if (q->ndim != 4 || k->ndim != 4) return TN_OK;
  const int64_t wanted[4] = {q->shape[0], q->shape[1], q->shape[2],
                             k->shape[2]};
  for (int32_t d = 0; d < mask->ndim; ++d) {
    const int64_t n = mask->shape[d], most = wanted[4 - mask->ndim + d];
    if (n >= 0 && most >= 0 && n != 1 && n != most) return refuse_mask(call);
  }
  return TN_OK;
}

int32_t nn_attention_drops(const tn_frame *call) {
  return nn_attention_check_draws(call);
}

/* ------------------------------------------------------------------- plans */

/* A forward pass. */
typedef struct forward_work {
  nn_attention_call a;
  int64_t tiles;
  char *out;   /* in the type of the computation; or NULL */
  double *lse; /* or NULL */
  nn_workspaces workspaces;
} forward_work;

/* Plans a forward pass, without memory. */
static forward_work plan_forward(const tn_frame *call) {
  forward_work w = {.a = nn_attention_describe(call)};
  w.tiles = w.a.batch * w.a.heads * nn_attention_count_row_tiles(&w.a);
  w.workspaces.bytes = nn_attention_count_room_bytes(&w.a, 0);
  w.workspaces.n = nn_choose_workspace_count(w.tiles);
  return w;
}

/* Sets *bytes to the size of the workspace of a forward or backward call. */
int32_t nn_attention_bytes(const tn_frame *call, uint64_t *bytes) {
  if (call->flags & TN_CALL_BACKWARD)
    return nn_attention_backward_bytes(call, bytes);
  const forward_work w = plan_forward(call);
  *bytes = w.workspaces.n * w.workspaces.bytes +
           nn_count_wide_bytes(&call->in[NN_ATTENTION_IN_Q]) +
           nn_count_wide_bytes(&call->in[NN_ATTENTION_IN_K]) +
           nn_count_wide_bytes(&call->in[NN_ATTENTION_IN_V]) +
           nn_count_wide_bytes(&call->out[NN_ATTENTION_OUT_OUT]);
  return TN_OK;
}

/* ----------------------------------------------------------------- forward */

/* The state of the softmax of some rows, as f32 or f64. */
typedef struct row_sums {
  TN_KERNEL_LINED char top[NN_ATTENTION_ROWS * sizeof(double)];
  TN_KERNEL_LINED char sum[NN_ATTENTION_ROWS * sizeof(double)];
  TN_KERNEL_LINED char factor[NN_ATTENTION_ROWS * sizeof(double)];
} row_sums;

/* Returns the address of a tile's rows in out. */
static char *locate_out(const forward_work *w, const nn_attention_tile *tile) {
  return w->out +
         nn_attention_number_row(&w->a, tile) * w->a.width * w->a.bytes;
}

/* Multiplies the rows of a tile in out by the factors. */
static void scale_out(const forward_work *w, const nn_attention_tile *tile,
                      row_sums *sums) {
  const nn_attention_loop l = {.width = w->a.width, .factor = sums->factor};
  nn_run_loop(&w->a.mode, &nn_attention_scale,
              &(tn_kernel_block){.n = tile->n_rows, .out = locate_out(w, tile)},
              &l);
}

/* Takes one tile into the rows of out; `is_first` if it is the first of them.
 */
static void take_tile(const forward_work *w, const nn_attention_tile *tile,
                      const nn_attention_room *room, row_sums *sums,
                      int is_first) {
  const nn_attention_call *a = &w->a;
  const nn_attention_loop l = {.lanes = tile->lanes,
                               .n_columns = tile->n_columns,
                               .top = sums->top,
                               .sum = sums->sum,
                               .factor = sums->factor};
  nn_attention_score(a, tile, room);
  nn_run_loop(&a->mode, &nn_attention_take,
              &(tn_kernel_block){.out = room->scores}, &l);
  if (!w->out) return;
  if (!is_first) scale_out(w, tile, sums);
  nn_attention_drop(a, tile, room->scores);
  nn_multiply_block(
      &a->mode,
      &(nn_block_product){.m = tile->n_rows,
                          .n = a->width,
                          .k = tile->n_columns,
                          .a = {room->scores, 1, NN_ATTENTION_ROWS},
                          .b = {nn_attention_locate_v(a, tile), a->width, 1},
                          .c = locate_out(w, tile),
                          .c_row = a->width,
                          .alpha = 1,
                          .beta = is_first ? 0 : 1});
}

/* Divides the rows of a tile by their sums, and writes lse. */
static void finish_rows(const forward_work *w, const nn_attention_tile *tile,
                        row_sums *sums) {
  const nn_attention_call *a = &w->a;
  const int64_t first = nn_attention_number_row(a, tile);
  for (int64_t r = 0; r < tile->n_rows; ++r) {
    const double sum = nn_attention_get(a, sums->sum, r);
    const double top = nn_attention_get(a, sums->top, r);
    if (w->lse) w->lse[first + r] = sum == 0 ? -INFINITY : top + log(sum);
    nn_attention_put(a, sums->factor, r, sum == 0 ? 0 : 1 / sum);
  }
  if (w->out) scale_out(w, tile, sums);
}

/* Computes the rows of a tile, from all columns that they use. */
static void compute_rows(const forward_work *w, nn_attention_tile *tile,
                         const nn_attention_room *room) {
  const nn_attention_call *a = &w->a;
  row_sums sums;
  int64_t first, end;
  nn_attention_find_columns(a, tile, &first, &end);
  for (int64_t r = 0; r < NN_ATTENTION_ROWS; ++r) {
    nn_attention_put(a, sums.top, r, -INFINITY);
    nn_attention_put(a, sums.sum, r, 0);
  }
  nn_attention_turn_rows(a, tile, nn_attention_locate_q(a, tile), a->depth,
                         room->q);
  for (int64_t c = first; c < end; c += NN_ATTENTION_COLUMNS) {
    tile->column = c;
    tile->n_columns =
        end - c < NN_ATTENTION_COLUMNS ? end - c : NN_ATTENTION_COLUMNS;
    take_tile(w, tile, room, &sums, c == first);
  }
  if (first >= end && w->out)
    memset(locate_out(w, tile), 0,
           (size_t)(tile->n_rows * a->width * a->bytes));
  finish_rows(w, tile, &sums);
}

/* Computes the row tiles [begin, end) of all heads. */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  forward_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  const nn_attention_room room = nn_attention_divide_room(
      &w->a, 0, nn_locate_workspace(&w->workspaces, slot));
  for (int64_t i = begin; i < end; ++i) {
    nn_attention_tile tile = nn_attention_locate_rows(&w->a, i);
    compute_rows(w, &tile, &room);
  }
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Writes the output `drawn`. */
static void write_drawn(const forward_work *w) {
  const tn_frame *call = w->a.call;
  if (call->req[NN_ATTENTION_OUT_DRAWN] == TN_REQ_NULL) return;
  int64_t *drawn = call->out[NN_ATTENTION_OUT_DRAWN].data;
  drawn[0] = w->a.drops;
  drawn[1] = w->a.drops ? (int64_t)w->a.random.key : 0;
  drawn[2] = w->a.drops ? (int64_t)w->a.random.offset : 0;
}

int32_t nn_attention(const tn_frame *call) {
  forward_work w = plan_forward(call);
  const tn_tensor *out = &call->out[NN_ATTENTION_OUT_OUT];
  nn_wide_operands wide = nn_open_wide_operands(
      call, out->dtype, w.workspaces.n * w.workspaces.bytes);
  w.workspaces.memory = call->ws[0];
  w.a.q = nn_widen_input(&wide, &call->in[NN_ATTENTION_IN_Q]);
  w.a.k = nn_widen_input(&wide, &call->in[NN_ATTENTION_IN_K]);
  w.a.v = nn_widen_input(&wide, &call->in[NN_ATTENTION_IN_V]);
  w.out = nn_locate_wide_output(&wide, out, call->req[NN_ATTENTION_OUT_OUT]);
  if (call->req[NN_ATTENTION_OUT_LSE] != TN_REQ_NULL)
    w.lse = call->out[NN_ATTENTION_OUT_LSE].data;
  w.a.drops = call->run->n_random > 0;
  if (w.a.drops) w.a.random = *call->run->random[0];
  write_drawn(&w);
  const int32_t code = nn_run_parallel(
      call, w.tiles, NN_ATTENTION_ROWS * (1 + w.a.columns), forward_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, out, w.out);
  return code;
}
