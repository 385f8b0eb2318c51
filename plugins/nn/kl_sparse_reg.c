/* SPDX-License-Identifier: Apache-2.0
 * kl_sparse_reg.c: kernels of kl_sparse_reg.yaml. The unit of work is a piece
 * of up to NN_CHUNK columns; sums and averages are in f64.
 */
#include "kl_sparse_reg.gen.h"

#include "axis.h"

typedef struct kl_work {
  const tn_frame *call;
  tn_kernel_mode mode; /* f64 */
  int64_t rows;
  int64_t columns;
  tn_dtype dtype;
  int64_t bytes; /* bytes of an element */
  const char *from;
  char *to;
  double *average; /* numbers of columns in f64: the averages, or backward the
                      summands of the gradient */
} kl_work;

/* Creates the state of a call; `like` has the shape of data. */
static kl_work make_work(const tn_frame *call, const tn_tensor *like) {
  return (kl_work){.call = call,
                   .mode = {TN_F64, tn_kernel_level(call)},
                   .rows = like->shape[0],
                   .columns = like->shape[1],
                   .dtype = like->dtype,
                   .bytes = tn_dtype_bytes(like->dtype),
                   .average = call->ws[0]};
}

/* Sets *bytes to the size of the workspace: a number of each column in f64. */
int32_t nn_kl_sparse_reg_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = (uint64_t)call->in[0].shape[1] * sizeof(double);
  return TN_OK;
}

/* Loads n numbers of row r from column `at` on. */
static void load_part(const kl_work *w, int64_t r, int64_t at, int64_t n,
                      double *to) {
  tn_kernel_load_dense(to, &w->mode, w->from + (r * w->columns + at) * w->bytes,
                       w->dtype, n);
}

/* Updates the averages of pieces [begin, end) of columns. */
static int32_t average_slice(void *arg, int64_t begin, int64_t end) {
  const kl_work *w = arg;
  const double keep = nn_kl_sparse_reg_params_of(w->call)->momentum;
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t at = piece * NN_CHUNK, left = w->columns - at;
    const int64_t n = left < NN_CHUNK ? left : NN_CHUNK;
    double sum[NN_CHUNK] = {0}, part[NN_CHUNK];
    for (int64_t r = 0; r < w->rows; ++r) {
      load_part(w, r, at, n, part);
      for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
    }
    for (int64_t i = 0; i < n; ++i)
      w->average[at + i] =
          keep * w->average[at + i] + (1 - keep) * (sum[i] / (double)w->rows);
  }
  return TN_OK;
}

int32_t nn_kl_sparse_reg(const tn_frame *call) {
  const tn_tensor *moving = &call->aux[NN_KL_SPARSE_REG_AUX_MOVING_AVG];
  const tn_tensor *average = &call->out[NN_KL_SPARSE_REG_OUT_AVERAGE];
  kl_work w = make_work(call, &call->in[NN_KL_SPARSE_REG_IN_DATA]);
  const int64_t pieces = (w.columns + NN_CHUNK - 1) / NN_CHUNK;
  const int moves = (call->flags & TN_CALL_TRAIN) && w.rows > 0 &&
                    nn_kl_sparse_reg_params_of(call)->momentum < 1;
  int32_t code = TN_OK;
  w.from = call->in[NN_KL_SPARSE_REG_IN_DATA].data;
  if (w.columns == 0) return TN_OK;
  tn_kernel_load_dense(w.average, &w.mode, moving->data, moving->dtype,
                       w.columns);
  if (moves)
    code = nn_run_parallel(call, pieces, w.rows * NN_CHUNK, average_slice, &w);
  if (code == TN_OK)
    code =
        nn_copy_input(call, NN_KL_SPARSE_REG_IN_DATA, NN_KL_SPARSE_REG_OUT_OUT);
  if (code != TN_OK) return code;
  if (moves)
    tn_kernel_store_dense(moving->data, moving->dtype, w.average, &w.mode,
                          w.columns);
  if (call->req[NN_KL_SPARSE_REG_OUT_AVERAGE] != TN_REQ_NULL)
    tn_kernel_store_dense(average->data, average->dtype, w.average, &w.mode,
                          w.columns);
  return TN_OK;
}

/* Computes the gradients of rows [begin, end). */
static int32_t gradient_slice(void *arg, int64_t begin, int64_t end) {
  const kl_work *w = arg;
  double part[NN_CHUNK];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t at = 0; at < w->columns; at += NN_CHUNK) {
      const int64_t left = w->columns - at;
      const int64_t n = left < NN_CHUNK ? left : NN_CHUNK;
      load_part(w, r, at, n, part);
      for (int64_t i = 0; i < n; ++i) part[i] += w->average[at + i];
      tn_kernel_store_dense(w->to + (r * w->columns + at) * w->bytes, w->dtype,
                            part, &w->mode, n);
    }
  return TN_OK;
}

int32_t nn_kl_sparse_reg_backward(const tn_frame *call) {
  const nn_kl_sparse_reg_params *p = nn_kl_sparse_reg_params_of(call);
  const tn_tensor *average = &call->in[NN_KL_SPARSE_REG_BACKWARD_OUT_AVERAGE];
  const tn_tensor *to = &call->out[NN_KL_SPARSE_REG_IN_DATA];
  const double target = p->sparseness_target;
  if (call->req[NN_KL_SPARSE_REG_IN_DATA] == TN_REQ_NULL ||
      tn_tensor_size(to) == 0)
    return TN_OK;
  kl_work w = make_work(call, to);
  w.from = call->in[NN_KL_SPARSE_REG_BACKWARD_GRAD_OUT].data;
  w.to = to->data;
  tn_kernel_load_dense(w.average, &w.mode, average->data, average->dtype,
                       w.columns);
  for (int64_t k = 0; k < w.columns; ++k)
    w.average[k] = p->penalty *
                   ((1 - target) / (1 - w.average[k]) - target / w.average[k]);
  return nn_run_parallel(call, w.rows, w.columns, gradient_slice, &w);
}
