/* SPDX-License-Identifier: Apache-2.0
 * roll.c: the operators of roll.yaml. A roll is a copy of at most two pieces
 * for each axis; a crop is a view.
 */
#include "roll.gen.h"

#include "move.h"

/* -------------------------------------------------------------------- roll */

/* An array as the roll sees it: its dimensions, or one line. For each of them
 * the first place that the first element moves to. */
typedef struct roll_plan {
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  int64_t shift[TN_MAX_NDIM]; /* from 0 to the length, excluded */
} roll_plan;

/* Adds a shift of any size to that of dimension d. */
static void add_shift(roll_plan *p, int32_t d, int64_t shift) {
  const int64_t n = p->shape[d];
  if (n == 0) return;
  const int64_t rest = shift % n;
  /* Both are below n, so their sum may only wrap once. */
  const int64_t positive = rest < 0 ? rest + n : rest;
  const int64_t room = n - p->shift[d];
  p->shift[d] = positive < room ? p->shift[d] + positive : positive - room;
}

static int32_t add_axis_shifts(const tn_frame *call, roll_plan *p) {
  const tensor_roll_params *params = tensor_roll_params_of(call);
  const int64_t n_shifts = params->shift.n, n_axes = params->axes.n;
  const int64_t n = n_axes > n_shifts ? n_axes : n_shifts;
  if (n_shifts != n_axes && n_shifts != 1 && n_axes != 1)
    return TN_FAIL(call, TN_INVALID,
                   "`shift` has %lld numbers and `axes` %lld: pass as many "
                   "of both, or one of either",
                   (long long)n_shifts, (long long)n_axes);
  for (int64_t i = 0; i < n; ++i) {
    int32_t axis;
    const int32_t code = tensor_axis(
        call, "axes", params->axes.v[n_axes == 1 ? 0 : i], p->ndim, &axis);
    if (code != TN_OK) return code;
    add_shift(p, axis, params->shift.v[n_shifts == 1 ? 0 : i]);
  }
  return TN_OK;
}

static int32_t plan_roll(const tn_frame *call, const tn_tensor *data,
                         roll_plan *p) {
  const tensor_roll_params *params = tensor_roll_params_of(call);
  *p = (roll_plan){.ndim = data->ndim};
  for (int32_t d = 0; d < data->ndim; ++d) p->shape[d] = data->shape[d];
  if (params->axes.n > 0) return add_axis_shifts(call, p);
  p->ndim = 1;
  p->shape[0] = tn_tensor_size(data);
  for (int64_t i = 0; i < params->shift.n; ++i)
    add_shift(p, 0, params->shift.v[i]);
  return TN_OK;
}

/* Whether piece number `piece` exists: bit d selects the elements that move
 * around the end of dimension d. */
static int has_piece(const roll_plan *p, uint32_t piece) {
  for (int32_t d = 0; d < p->ndim; ++d)
    if ((piece >> d & 1) != 0 && p->shift[d] == 0) return 0;
  return 1;
}

/* The two views of a piece. */
static void cut_piece(const roll_plan *p, uint32_t piece, tensor_view *to,
                      tensor_view *from) {
  for (int32_t d = 0; d < p->ndim; ++d) {
    const int64_t shift = p->shift[d], rest = p->shape[d] - shift;
    const int wraps = (piece >> d & 1) != 0;
    tensor_view_cut(from, d, wraps ? rest : 0, wraps ? shift : rest, 1);
    tensor_view_cut(to, d, wraps ? 0 : shift, wraps ? shift : rest, 1);
  }
}

/* Copies all pieces, some at a time. */
static int32_t copy_rolled(const tn_frame *call, const roll_plan *p,
                           const tn_tensor *to, const tn_tensor *from) {
  enum { TOGETHER = 4 };
  tensor_view view[TOGETHER][2];
  tensor_piece pieces[TOGETHER];
  uint32_t n = 0;
  int32_t code = TN_OK;
  if (tn_tensor_size(to) == 0) return TN_OK;
  for (uint32_t k = 0; k < 1u << p->ndim && code == TN_OK; ++k) {
    if (!has_piece(p, k)) continue;
    tensor_view_shaped(&view[n][0], to, p->ndim, p->shape);
    tensor_view_shaped(&view[n][1], from, p->ndim, p->shape);
    cut_piece(p, k, &view[n][0], &view[n][1]);
    pieces[n] = (tensor_piece){&view[n][0].tensor, &view[n][1].tensor};
    if (++n < TOGETHER) continue;
    code = tensor_copy_pieces(call, n, pieces);
    n = 0;
  }
  return code == TN_OK ? tensor_copy_pieces(call, n, pieces) : code;
}

int32_t tensor_roll(const tn_frame *call) {
  roll_plan p;
  const int32_t code = plan_roll(call, &call->in[0], &p);
  return code == TN_OK ? copy_rolled(call, &p, &call->out[0], &call->in[0])
                       : code;
}

/* Rolls back: by the length less the shift. */
int32_t tensor_roll_backward(const tn_frame *call) {
  roll_plan p;
  const int32_t code = plan_roll(call, &call->out[0], &p);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < p.ndim; ++d)
    if (p.shift[d] > 0) p.shift[d] = p.shape[d] - p.shift[d];
  return copy_rolled(call, &p, &call->out[0], &call->in[0]);
}

/* -------------------------------------------------------------------- crop */

enum { IMAGE_NDIM = 4, FIRST_SIDE = 2 }; /* (n,c,h,w) */

static int32_t check_rank(const tn_frame *call, const char *name,
                          const tn_tensor *t) {
  if (t->ndim < 0 || t->ndim == IMAGE_NDIM) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "`%s` has %d dimensions; images have four: (n,c,h,w)", name,
                 (int)t->ndim);
}

static int has_like(const tn_frame *call) {
  return !(call->in_flags[TENSOR_CROP_IN_LIKE] & TN_IN_ABSENT);
}

/* Finds the first place of the window in dimension d. */
static int32_t find_begin(const tn_frame *call, int32_t d, int64_t length,
                          int64_t window, int64_t *begin) {
  const tensor_crop_params *p = tensor_crop_params_of(call);
  *begin = p->offset.v[d - FIRST_SIDE];
  if (p->center_crop) *begin = (length - window) / 2;
  if (window <= length && *begin >= 0 && *begin <= length - window)
    return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "the window has %lld places along axis %d from place %lld on, "
                 "but `data` has only %lld there",
                 (long long)window, (int)d,
                 p->center_crop ? 0LL : (long long)*begin, (long long)length);
}

/* The sides of the window, -1 if unknown. */
static int32_t find_window(const tn_frame *call, int64_t *window) {
  const tensor_crop_params *p = tensor_crop_params_of(call);
  const tn_tensor *like = &call->in[TENSOR_CROP_IN_LIKE];
  for (int32_t d = 0; d < 2; ++d) {
    window[d] = p->h_w.v[d];
    if (has_like(call))
      window[d] = like->ndim < 0 ? -1 : like->shape[FIRST_SIDE + d];
    else if (window[d] == 0)
      return TN_FAIL(call, TN_INVALID,
                     "there is no `like`, and `h_w` is (%lld,%lld): pass the "
                     "height and the width of the window",
                     (long long)p->h_w.v[0], (long long)p->h_w.v[1]);
  }
  return TN_OK;
}

int32_t tensor_crop_infer(const tn_frame *call) {
  const tn_tensor *data = &call->in[TENSOR_CROP_IN_DATA];
  const tn_tensor *out = &call->out[0];
  int64_t whole[IMAGE_NDIM] = {-1, -1, -1, -1};
  int64_t shape[IMAGE_NDIM] = {-1, -1, -1, -1};
  int32_t code = check_rank(call, "data", data);
  if (code == TN_OK && has_like(call))
    code = check_rank(call, "like", &call->in[TENSOR_CROP_IN_LIKE]);
  if (code == TN_OK) code = find_window(call, shape + FIRST_SIDE);
  if (code != TN_OK) return code;
  for (int32_t d = 0; d < IMAGE_NDIM; ++d) {
    int64_t begin;
    if (data->ndim == IMAGE_NDIM) whole[d] = data->shape[d];
    if (d < FIRST_SIDE && whole[d] < 0 && out->ndim == IMAGE_NDIM)
      whole[d] = out->shape[d];
    if (d < FIRST_SIDE)
      shape[d] = whole[d];
    else if (whole[d] >= 0 && shape[d] >= 0)
      code = find_begin(call, d, whole[d], shape[d], &begin);
    if (code != TN_OK) return code;
  }
  code = call->host->set_shape(call, TN_OPERAND_OUT, 0, IMAGE_NDIM, shape);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_IN, TENSOR_CROP_IN_DATA,
                               IMAGE_NDIM, whole);
}

/* The window of `whole`, which has the sides of `part`. */
static int32_t cut_window(const tn_frame *call, tensor_view *view,
                          const tn_tensor *whole, const tn_tensor *part) {
  int32_t code = TN_OK;
  tensor_view_init(view, whole);
  for (int32_t d = FIRST_SIDE; d < IMAGE_NDIM && code == TN_OK; ++d) {
    int64_t begin;
    code = find_begin(call, d, whole->shape[d], part->shape[d], &begin);
    if (code == TN_OK) tensor_view_cut(view, d, begin, part->shape[d], 1);
  }
  return code;
}

int32_t tensor_crop(const tn_frame *call) {
  tensor_view view;
  const int32_t code =
      cut_window(call, &view, &call->in[TENSOR_CROP_IN_DATA], &call->out[0]);
  return code == TN_OK ? tensor_copy(call, &call->out[0], &view.tensor) : code;
}

/* in = [gradient of out, data, like, out] */
int32_t tensor_crop_backward(const tn_frame *call) {
  const uint32_t like = TENSOR_CROP_IN_LIKE;
  const tn_tensor *data = &call->out[TENSOR_CROP_IN_DATA];
  tensor_view view;
  int32_t code = TN_OK;
  if (call->n_out > like && call->req[like] != TN_REQ_NULL)
    code = tensor_fill_zeros(call, &call->out[like]);
  if (code != TN_OK || call->req[TENSOR_CROP_IN_DATA] == TN_REQ_NULL)
    return code;
  code = tensor_fill_zeros(call, data);
  if (code == TN_OK) code = cut_window(call, &view, data, &call->in[0]);
  return code == TN_OK ? tensor_copy(call, &view.tensor, &call->in[0]) : code;
}
