/* SPDX-License-Identifier: Apache-2.0
 * softmax.c: kernels of softmax.yaml, and the softmax of other operators
 * (softmax.h).
 */
#include "softmax.h"

#include "softmax.gen.h"

enum {
  SUMMED = 256, /* elements of a line in a sum of its own type */
  FEW = 32,     /* elements of rows that are computed together */
  PAST = 16384  /* bytes of rows that are composed before they are
                   written past the caches */
};

#define NN_EACH "softmax_rows.h"
#include "each.h"

/* Whether rows can and should be written past the caches: they fill cache
 * lines, and no cache would hold all `operands`, of which `to` is none. */
static int goes_past(const nn_softmax *s, int operands, const void *to) {
  enum { LINE = 64 };
  const int64_t bytes = tn_dtype_bytes(s->mode.compute);
  return s->extent.inner == 1 && s->extent.length > FEW &&
         operands * nn_extent_size(&s->extent) * bytes >= TN_KERNEL_STREAM &&
         (uintptr_t)to % LINE == 0 && s->extent.length * bytes % LINE == 0;
}

/* ------------------------------------------------------------------ slices */

typedef struct work {
  const nn_softmax *softmax;
  const char *in[2]; /* one of them forward, two backward */
  char *to;
  const nn_loops *rows;
  const nn_loops *columns;
} work;

static tn_kernel_block block_at(const work *w, int64_t at, int64_t n) {
  const int64_t skip = at * tn_dtype_bytes(w->softmax->mode.compute);
  tn_kernel_block block = {.n = n, .out = w->to + skip};
  for (int i = 0; i < 2; ++i) block.in[i] = w->in[i] ? w->in[i] + skip : NULL;
  return block;
}

static int32_t do_rows(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const nn_softmax *s = w->softmax;
  const tn_kernel_block block =
      block_at(w, begin * s->extent.length, end - begin);
  nn_loop_run(&s->mode, w->rows, &block, s);
  return TN_OK;
}

static int32_t do_columns(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const nn_softmax *s = w->softmax;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = 0;
    const int64_t at = nn_piece(&s->extent, i, &n);
    const tn_kernel_block block = block_at(w, at, n);
    nn_loop_run(&s->mode, w->columns, &block, s);
  }
  return TN_OK;
}

static int32_t run_slices(work *w) {
  const nn_extent *e = &w->softmax->extent;
  const tn_frame *call = w->softmax->call;
  if (nn_extent_size(e) == 0) return TN_OK;
  if (e->inner == 1) return nn_share(call, e->outer, e->length, do_rows, w);
  const int64_t wide = e->inner < NN_CHUNK ? e->inner : NN_CHUNK;
  return nn_share(call, nn_pieces(e), e->length * wide, do_columns, w);
}

int32_t nn_softmax_forward(const nn_softmax *s, const void *from, void *to) {
  static const nn_loops loops[2] = {NN_LOOPS(rows), NN_LOOPS(columns)};
  static const nn_loops past = NN_LOOPS(past_rows);
  work w = {s, {from, NULL}, to, &loops[0], &loops[1]};
  const int fits =
      s->extent.length * tn_dtype_bytes(s->mode.compute) <= (int64_t)PAST;
  if (fits && to != from && goes_past(s, 2, to)) w.rows = &past;
  return run_slices(&w);
}

int32_t nn_softmax_back(const nn_softmax *s, const void *head, const void *out,
                        void *to) {
  static const nn_loops loops[2] = {NN_LOOPS(back_rows),
                                    NN_LOOPS(back_columns)};
  static const nn_loops past = NN_LOOPS(past_back_rows);
  work w = {s, {head, out}, to, &loops[0], &loops[1]};
  if (!s->is_log && to != head && to != out && goes_past(s, 3, to))
    w.rows = &past;
  return run_slices(&w);
}

/* ------------------------------------------------------------------ calls
 * nn.softmax and nn.log_softmax have the same operands and parameters. */

/* Parameters of both operators. */
typedef struct question {
  int64_t axis;
  double temperature;
  int is_log;
} question;

static question of_softmax(const tn_frame *call) {
  const nn_softmax_params *p = nn_softmax_params_of(call);
  return (question){p->axis, p->temperature, 0};
}

static question of_log(const tn_frame *call) {
  const nn_log_softmax_params *p = nn_log_softmax_params_of(call);
  return (question){p->axis, p->temperature, 1};
}

/* A scalar is a line of one element. */
static int32_t find_dim(const tn_frame *call, int64_t axis,
                        const tn_tensor *data, int32_t *dim) {
  *dim = 0;
  if (data->ndim == 0 && (axis == 0 || axis == -1)) return TN_OK;
  return nn_axis_find(call, axis, data, dim);
}

static int32_t infer_shapes(const tn_frame *call, question q) {
  const tn_tensor *data = &call->in[NN_SOFTMAX_IN_DATA];
  int32_t dim;
  if (data->ndim < 0) return TN_OK;
  return find_dim(call, q.axis, data, &dim);
}

int32_t nn_softmax_infer(const tn_frame *call) {
  return infer_shapes(call, of_softmax(call));
}

int32_t nn_log_softmax_infer(const tn_frame *call) {
  return infer_shapes(call, of_log(call));
}

/* Forward computes in place; backward has its result, out and a head. */
int32_t nn_softmax_bytes(const tn_frame *call, uint64_t *bytes) {
  const uint64_t n = (call->flags & TN_CALL_BACKWARD) ? 3 : 2;
  *bytes = n * nn_wide_bytes(&call->out[0]);
  return TN_OK;
}

static int32_t run_call(const tn_frame *call, question q) {
  const tn_tensor *out = &call->out[0];
  nn_wide w = nn_wide_begin(call, out->dtype, 0);
  nn_softmax s = {.call = call,
                  .mode = w.mode,
                  .factor = 1 / q.temperature,
                  .is_log = q.is_log};
  int32_t dim;
  int32_t code = find_dim(call, q.axis, out, &dim);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  s.extent = nn_extent_of(out, dim, dim);
  void *to = nn_wide_room(&w, out, call->req[0]);
  const void *in = nn_wide_read(&w, &call->in[0]);
  if (call->flags & TN_CALL_BACKWARD) {
    const void *result =
        nn_wide_read(&w, &call->in[NN_SOFTMAX_BACKWARD_OUT_OUT]);
    code = nn_softmax_back(&s, in, result, to);
  } else {
    code = nn_softmax_forward(&s, in, to);
  }
  if (code == TN_OK) nn_wide_write(&w, out, to);
  return code;
}

int32_t nn_softmax_compute(const tn_frame *call) {
  return run_call(call, of_softmax(call));
}

int32_t nn_log_softmax_compute(const tn_frame *call) {
  return run_call(call, of_log(call));
}
