/* SPDX-License-Identifier: Apache-2.0
 * lrn.c: kernels of lrn.yaml. A piece has up to CHUNK adjacent elements of each
 * channel of one image, and is the unit of work. Sums over the window are
 * computed anew for each channel, because a running sum would lose digits.
 */
#include "lrn_view.h"

#include <string.h>

#include "axis.h"
#include "second.h"
#include "workspaces.h"

enum { CHUNK = NN_CHUNK };

/* Arguments of the loops. */
typedef struct lrn_args {
  nn_lrn_rule rule;
  void *ring; /* backward: 2*(2*half + 1)*CHUNK numbers */
} lrn_args;

#define NN_EACH "lrn_rows.h"
#include "each.h"

typedef struct lrn_work {
  nn_axis_shape e;
  tn_kernel_mode mode;
  lrn_args args;
  int64_t bytes;     /* bytes of an element */
  int64_t pieces;    /* number of pieces */
  const char *in[3]; /* as the loops read them; forward in[1] is written */
  char *to;
  nn_workspaces rings;
} lrn_work;

/* Creates the state of a call; `like` has the shape of data. */
static lrn_work make_work(const tn_frame *call, const tn_tensor *like) {
  lrn_work w = {.e = nn_axis_find_shape(like, 1, 1)};
  w.args.rule = nn_lrn_make_rule(call, like);
  w.mode =
      (tn_kernel_mode){tn_kernel_compute(like->dtype), tn_kernel_level(call)};
  w.bytes = tn_dtype_bytes(w.mode.compute);
  if (nn_axis_count_elements(&w.e) > 0) w.pieces = nn_count_column_pieces(&w.e);
  w.rings.bytes =
      (uint64_t)(2 * (2 * w.args.rule.half + 1) * CHUNK * (int64_t)w.bytes);
  w.rings.n = nn_choose_workspace_count(w.pieces);
  return w;
}

/* Sets *bytes to the size of the workspace: backward the rings, and converted
 * operands. */
int32_t nn_lrn_bytes(const tn_frame *call, uint64_t *bytes) {
  const int back = (call->flags & TN_CALL_BACKWARD) != 0;
  const lrn_work w = make_work(call, &call->in[0]);
  *bytes = (back ? w.rings.n * w.rings.bytes : 0) +
           (back ? 4 : 3) * nn_count_wide_bytes(&call->in[0]);
  return TN_OK;
}

/* Returns the arguments of a loop over piece i. */
static tn_kernel_block make_block(const lrn_work *w, int64_t i) {
  tn_kernel_block block = {0};
  const int64_t skip = nn_locate_column_piece(&w->e, i, &block.n) * w->bytes;
  for (int k = 0; k < 3; ++k) block.in[k] = w->in[k] ? w->in[k] + skip : NULL;
  block.out = w->to ? w->to + skip : NULL;
  return block;
}

/* Computes pieces [begin, end) of a forward call. */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(normalize_piece);
  const lrn_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    const tn_kernel_block block = make_block(w, i);
    nn_run_loop(&w->mode, &loops, &block, &w->args);
  }
  return TN_OK;
}

/* Computes pieces [begin, end) of a backward call. */
static int32_t backward_slice(void *arg, int64_t begin, int64_t end) {
  static const nn_loops loops = NN_LOOPS(write_piece_gradient);
  lrn_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->rings);
  lrn_args own = w->args;
  own.ring = nn_locate_workspace(&w->rings, slot);
  for (int64_t i = begin; i < end; ++i) {
    const tn_kernel_block block = make_block(w, i);
    nn_run_loop(&w->mode, &loops, &block, &own);
  }
  nn_release_workspace(&w->rings, slot);
  return TN_OK;
}

/* Runs a slice over all pieces in parallel. */
static int32_t run_pieces(const tn_frame *call, tn_loop_body *slice,
                          lrn_work *w) {
  if (w->pieces == 0) return TN_OK;
  const int64_t cost = nn_axis_count_elements(&w->e) / w->pieces;
  return nn_run_parallel(call, w->pieces, cost * (2 * w->args.rule.half + 1),
                         slice, w);
}

int32_t nn_lrn(const tn_frame *call) {
  const tn_tensor *out = &call->out[NN_LRN_OUT_OUT];
  const tn_tensor *base = &call->out[NN_LRN_OUT_TMP_NORM];
  nn_wide_operands wide = nn_open_wide_operands(call, out->dtype, 0);
  lrn_work w = make_work(call, out);
  w.in[0] = nn_widen_input(&wide, &call->in[NN_LRN_IN_DATA]);
  w.in[1] = nn_locate_wide_output(&wide, base, call->req[NN_LRN_OUT_TMP_NORM]);
  w.to = nn_locate_wide_output(&wide, out, call->req[NN_LRN_OUT_OUT]);
  const int32_t code = run_pieces(call, forward_slice, &w);
  if (code != TN_OK) return code;
  nn_store_wide_output(&wide, base, w.in[1]);
  nn_store_wide_output(&wide, out, w.to);
  return TN_OK;
}

int32_t nn_lrn_backward(const tn_frame *call) {
  const tn_tensor *to = &call->out[NN_LRN_IN_DATA];
  if (call->req[NN_LRN_IN_DATA] == TN_REQ_NULL) return TN_OK;
  lrn_work w = make_work(call, to);
  nn_wide_operands wide =
      nn_open_wide_operands(call, to->dtype, w.rings.n * w.rings.bytes);
  w.rings.memory = call->ws[0];
  w.in[0] = nn_widen_input(&wide, &call->in[NN_LRN_BACKWARD_GRAD_OUT]);
  w.in[1] = nn_widen_input(&wide, &call->in[NN_LRN_BACKWARD_IN_DATA]);
  w.in[2] = nn_widen_input(&wide, &call->in[NN_LRN_BACKWARD_OUT_TMP_NORM]);
  w.to = nn_locate_wide_output(&wide, to, TN_REQ_WRITE);
  const int32_t code = run_pieces(call, backward_slice, &w);
  if (code == TN_OK) nn_store_wide_output(&wide, to, w.to);
  return code;
}

/* ----------------------------------------------------- gradient as operator */

/* Sets *bytes to the size of the workspace. */
int32_t nn_lrn_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_lrn_bytes(&own, bytes);
}

int32_t nn_lrn_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_lrn_backward(&own);
}
