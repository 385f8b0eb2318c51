/* SPDX-License-Identifier: Apache-2.0
 * rotary.c: shapes and kernels of rotary.yaml. A row has the elements of one
 * head at one place; backward is the same with negative sines.
 */
#include "rotary.gen.h"

#include "axis.h"
#include "nn.h"

#define NN_EACH "rotary_loops.h"
#include "each.h"

/* ------------------------------------------------------------------ shapes */

/* Reports data of a wrong rank. Returns the failure. */
static int32_t refuse_rank(const tn_frame *call, int64_t heads) {
  const nn_shape_text shape = nn_print_shape(&call->in[NN_ROTARY_IN_DATA]);
  if (heads > 0)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` %s must be (B,S,H*D), since num_heads=%lld",
                   shape.text, (long long)heads);
  return TN_FAIL(call, TN_SHAPE,
                 "`data` %s must be (B,H,S,D); set num_heads for (B,S,H*D)",
                 shape.text);
}

/* Sets *depth to the length of a row; -1 if it is unknown. */
static int32_t find_depth(const tn_frame *call, int64_t *depth) {
  const tn_tensor *data = &call->in[NN_ROTARY_IN_DATA];
  const int64_t heads = nn_rotary_params_of(call)->num_heads;
  *depth = data->shape[data->ndim - 1];
  if (heads == 0 || *depth < 0) return TN_OK;
  if (*depth % heads != 0)
    return TN_FAIL(call, TN_SHAPE,
                   "the last dimension of `data` %s is not a multiple of "
                   "num_heads=%lld",
                   nn_print_shape(data).text, (long long)heads);
  *depth /= heads;
  return TN_OK;
}

/* Infers the number of pairs, the second dimension of cos. */
static int32_t infer_pairs(const tn_frame *call, int64_t depth) {
  const tn_tensor *cosines = &call->in[NN_ROTARY_IN_COS];
  const int64_t rotated = nn_rotary_params_of(call)->rotary_dim;
  const int64_t n = rotated > 0 ? rotated : depth;
  if (n < 0) return TN_OK;
  if (n % 2 != 0 || (depth >= 0 && n > depth))
    return TN_FAIL(call, TN_SHAPE,
                   "rotary_dim=%lld cannot rotate rows of %lld elements of "
                   "`data` %s: it must be even, and not above that",
                   (long long)rotated, (long long)depth,
                   nn_print_shape(&call->in[NN_ROTARY_IN_DATA]).text);
  const int64_t shape[2] = {cosines->ndim == 2 ? cosines->shape[0] : -1, n / 2};
  return call->host->set_shape(call, TN_OPERAND_IN, NN_ROTARY_IN_COS, 2, shape);
}

/* Reports a table that is too short for the places of data. */
static int32_t refuse_length(const tn_frame *call) {
  return TN_FAIL(call, TN_SHAPE,
                 "`cos` %s has fewer rows than `data` %s has places; give "
                 "`positions`, or more rows",
                 nn_print_shape(&call->in[NN_ROTARY_IN_COS]).text,
                 nn_print_shape(&call->in[NN_ROTARY_IN_DATA]).text);
}

int32_t nn_rotary_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[NN_ROTARY_IN_DATA];
  const tn_tensor *cosines = &call->in[NN_ROTARY_IN_COS];
  const int64_t heads = nn_rotary_params_of(call)->num_heads;
  const int has_positions =
      call->n_in > NN_ROTARY_IN_POSITIONS &&
      !(call->in_flags[NN_ROTARY_IN_POSITIONS] & TN_IN_ABSENT);
  int64_t depth;
  if (data->ndim < 0) return TN_OK;
  if (data->ndim != (heads > 0 ? 3 : 4)) return refuse_rank(call, heads);
  int32_t code = find_depth(call, &depth);
  if (code == TN_OK) code = infer_pairs(call, depth);
  if (code != TN_OK) return code;
  const int64_t places[2] = {data->shape[0], data->shape[data->ndim - 2]};
  if (has_positions)
    return call->host->set_shape(call, TN_OPERAND_IN, NN_ROTARY_IN_POSITIONS, 2,
                                 places);
  if (cosines->ndim == 2 && cosines->shape[0] >= 0 &&
      cosines->shape[0] < places[1])
    return refuse_length(call);
  return TN_OK;
}

/* -------------------------------------------------------------------- rows */

/* A call. `x` and `y` have the same shape. */
typedef struct rotation {
  const tn_frame *call;
  tn_kernel_mode mode;
  tn_dtype dtype;
  int64_t rows;
  int64_t places; /* S */
  int64_t heads;  /* heads of a place that are adjacent in memory, or 1 */
  int64_t above;  /* rows of a batch */
  int64_t depth;
  int64_t pairs;
  int interleaved;
  int is_backward;
  const char *x;
  char *y;
  const char *cosines;
  const char *sines;
  const tn_tensor *positions; /* NULL: absent */
  int64_t n_positions;        /* rows of cos */
} rotation;

enum { PART = 128 }; /* pairs that are converted at a time */

/* Returns the row of cos and sin for a row of data. */
static int64_t find_position(const rotation *w, int64_t row) {
  const int64_t place = row / w->heads % w->places;
  const int64_t at = row / w->above * w->places + place;
  if (!w->positions) return place;
  return w->positions->dtype == TN_I32
             ? ((const int32_t *)w->positions->data)[at]
             : ((const int64_t *)w->positions->data)[at];
}

/* Rotates n pairs with operands in the type of the computation. */
static void rotate_block(const rotation *w, const tn_kernel_block *block,
                         char *y) {
  static const nn_loops halves = NN_LOOPS(rotate_halves);
  static const nn_loops neighbours = NN_LOOPS(rotate_neighbours);
  static const nn_loops minus = NN_LOOPS(negate);
  TN_KERNEL_LINED char sines[PART * sizeof(double)];
  tn_kernel_block own = *block;
  if (w->is_backward) {
    nn_run_loop(&w->mode, &minus,
                &(tn_kernel_block){.n = own.n, .out = sines, .in = {own.in[3]}},
                NULL);
    own.in[3] = sines;
  }
  nn_run_loop(&w->mode, w->interleaved ? &neighbours : &halves, &own, &y);
}

/* Returns the address of n elements from `from` on in the type of the
 * computation: their own, or `room`. */
static const void *widen_part(const rotation *w, const char *from, int64_t n,
                              char *room) {
  if (w->dtype == w->mode.compute) return from;
  tn_kernel_load_dense(room, &w->mode, from, w->dtype, n);
  return room;
}

/* Rotates n pairs of a row from pair `at` on. */
static void rotate_part(const rotation *w, int64_t row, int64_t at, int64_t n) {
  TN_KERNEL_LINED char x[2][2 * PART * sizeof(double)];
  TN_KERNEL_LINED char angle[2][PART * sizeof(double)];
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  const int64_t wide = w->interleaved ? 2 : 1;
  const int64_t first = (row * w->depth + at * wide) * bytes;
  const int64_t second = w->interleaved ? first : first + w->pairs * bytes;
  const int64_t turn = (find_position(w, row) * w->pairs + at) * bytes;
  const int direct = w->dtype == w->mode.compute;
  tn_kernel_block block = {.n = n, .out = direct ? w->y + first : x[0]};
  block.in[0] = widen_part(w, w->x + first, wide * n, x[0]);
  block.in[1] =
      w->interleaved ? block.in[0] : widen_part(w, w->x + second, n, x[1]);
  block.in[2] = widen_part(w, w->cosines + turn, n, angle[0]);
  block.in[3] = widen_part(w, w->sines + turn, n, angle[1]);
  rotate_block(w, &block, direct ? w->y + second : x[1]);
  if (direct) return;
  tn_kernel_store_dense(w->y + first, w->dtype, x[0], &w->mode, wide * n);
  if (!w->interleaved)
    tn_kernel_store_dense(w->y + second, w->dtype, x[1], &w->mode, n);
}

/* Rotates the rows [begin, end), and copies their last elements. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const rotation *w = arg;
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  const int64_t rest = (w->depth - 2 * w->pairs) * bytes;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = (r * w->depth + 2 * w->pairs) * bytes;
    for (int64_t i = 0; i < w->pairs; i += PART)
      rotate_part(w, r, i, w->pairs - i < PART ? w->pairs - i : PART);
    if (rest > 0 && w->x != w->y) memcpy(w->y + at, w->x + at, (size_t)rest);
  }
  return TN_OK;
}

/* Reports the first position that is out of range. */
static int32_t check_positions(const rotation *w) {
  if (!w->positions) return TN_OK;
  const int64_t n = tn_tensor_size(w->positions);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t p = w->positions->dtype == TN_I32
                          ? ((const int32_t *)w->positions->data)[i]
                          : ((const int64_t *)w->positions->data)[i];
    if (p < 0 || p >= w->n_positions)
      return TN_FAIL(w->call, TN_OUT_OF_RANGE,
                     "position %lld (number %lld of `positions`) is out of "
                     "range: `cos` has %lld rows",
                     (long long)p, (long long)i, (long long)w->n_positions);
  }
  return TN_OK;
}

/* Rotates `from`; in[first] is the input cos. */
static int32_t run_rotation(const tn_frame *call, const tn_tensor *from,
                            uint32_t first) {
  const nn_rotary_params *p = nn_rotary_params_of(call);
  const uint32_t at = first + NN_ROTARY_IN_POSITIONS - NN_ROTARY_IN_COS;
  const int64_t last = from->shape[from->ndim - 1];
  rotation w = {
      .call = call, .dtype = from->dtype, .interleaved = p->interleaved};
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(from->dtype), tn_kernel_level(call)};
  w.heads = p->num_heads > 0 ? p->num_heads : 1;
  w.depth = last / w.heads;
  w.places = from->shape[from->ndim - 2];
  w.above = w.places * (p->num_heads > 0 ? p->num_heads : from->shape[1]);
  w.rows = from->shape[0] * w.above;
  w.n_positions = call->in[first].shape[0];
  w.pairs = call->in[first].shape[1];
  w.is_backward = (call->flags & TN_CALL_BACKWARD) != 0;
  w.x = from->data;
  w.y = call->out[0].data;
  w.cosines = call->in[first].data;
  w.sines = call->in[first + 1].data;
  if (at < call->n_in && !(call->in_flags[at] & TN_IN_ABSENT))
    w.positions = &call->in[at];
  const int32_t code = check_positions(&w);
  return code == TN_OK ? nn_run_parallel(call, w.rows, w.depth, run_slice, &w)
                       : code;
}

int32_t nn_rotary(const tn_frame *call) {
  return run_rotation(call, &call->in[NN_ROTARY_IN_DATA], NN_ROTARY_IN_COS);
}

int32_t nn_rotary_backward(const tn_frame *call) {
  return run_rotation(call, &call->in[NN_ROTARY_BACKWARD_GRAD_OUT],
                      NN_ROTARY_BACKWARD_IN_COS);
}
