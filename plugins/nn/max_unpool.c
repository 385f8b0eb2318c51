/* SPDX-License-Identifier: Apache-2.0
 * max_unpool.c: shapes and kernels of max_unpool.yaml.
 */
#include "max_unpool.gen.h"

#include <string.h>

#include "axis.h"
#include "max_unpool_view.h"
#include "nn.h"
#include "operands.h"
#include "pool_largest.h"
#include "second.h"
#include "workspaces.h"

/* ------------------------------------------------------------------ shapes */

int32_t nn_max_pool_indices_infer(const tn_frame *call) {
  nn_pool_call own;
  nn_max_pool_make_call(call, &own);
  return nn_pooling_infer(&own.frame);
}

int32_t nn_max_pool_indices_grad_infer(const tn_frame *call) {
  static const uint32_t in[] = {2}, out[] = {0};
  nn_pool_call own;
  nn_max_pool_make_call(call, &own);
  return nn_infer_like_forward(
      &own.frame, &(nn_forward_inference){nn_pooling_infer, in, out, 1, 1});
}

int32_t nn_max_unpool_infer(const tn_frame *call) {
  const nn_max_unpool_params *p = nn_max_unpool_params_of(call);
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int32_t ndim = (int32_t)p->output_size.n + 2;
  int64_t in[TN_MAX_NDIM], to[TN_MAX_NDIM];
  if (data->ndim >= 0 && data->ndim != ndim)
    return TN_FAIL(call, TN_SHAPE,
                   "output_size has %lld numbers, so `data` must have %d "
                   "dimensions, but %s has %d",
                   (long long)p->output_size.n, (int)ndim,
                   nn_print_shape(data).text, (int)data->ndim);
  for (int32_t d = 0; d < ndim; ++d) {
    in[d] = data->ndim == ndim ? data->shape[d] : -1;
    if (d < 2 && in[d] < 0 && out->ndim == ndim) in[d] = out->shape[d];
    to[d] = d < 2 ? in[d] : p->output_size.v[d - 2];
  }
  const int32_t code = call->host->set_shape(call, TN_OPERAND_IN, 0, ndim, in);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, ndim, to);
}

/* ----------------------------------------------------------------- pooling */

/* A call of max_pool_indices, as the argument of a parallel loop over images.
 */
typedef struct indices_work {
  nn_pool pool;
  tn_dtype dtype;
  uint32_t level;   /* level of vector instructions */
  const char *from; /* data, or the output gradient */
  char *to;         /* out, or the gradient of data; NULL: not requested */
  int64_t *indices; /* NULL: not requested */
} indices_work;

/* Stores n results from window `to` of all images on. */
static void store_chunk(const indices_work *w, const nn_pool_largest *chunk,
                        int64_t to, int64_t n) {
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  if (w->to) memcpy(w->to + to * bytes, chunk->values, (size_t)(n * bytes));
  for (int64_t i = 0; i < n && w->indices; ++i)
    w->indices[to + i] = nn_pool_get_index(chunk, w->dtype, i);
}

/* Finds the largest elements of images [begin, end), line by line. */
static int32_t find_slice(void *arg, int64_t begin, int64_t end) {
  const indices_work *w = arg;
  const nn_window *v = &w->pool.window;
  const int64_t lines = v->out[0] * v->out[1];
  nn_pool_largest chunk;
  for (int64_t i = begin * lines; i < end * lines; ++i)
    for (int64_t o = 0; o < v->out[2]; o += NN_POOL_CHUNK) {
      const nn_pool_line line = {
          .pool = &w->pool,
          .mode = {w->dtype, w->level},
          .image =
              w->from + i / lines * w->pool.in_size * tn_dtype_bytes(w->dtype),
          .number = i % lines,
          .windows = {o, nn_min(o + NN_POOL_CHUNK, v->out[2])}};
      nn_pool_find_line(&line, &chunk);
      store_chunk(w, &chunk, i * v->out[2] + o, line.windows.end - o);
    }
  return TN_OK;
}

/* Adds the output gradients of images [begin, end) at their indices. */
static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const indices_work *w = arg;
  const int64_t n = w->pool.out_size, bytes = tn_dtype_bytes(w->dtype);
  for (int64_t i = begin; i < end; ++i) {
    char *to = w->to + i * w->pool.in_size * bytes;
    memset(to, 0, (size_t)(w->pool.in_size * bytes));
    for (int64_t o = i * n; o < (i + 1) * n; ++o) {
      const int64_t at = w->indices[o];
      if (at < 0 || at >= w->pool.in_size) continue;
      if (w->dtype == TN_F32)
        ((float *)(void *)to)[at] += ((const float *)(const void *)w->from)[o];
      else
        ((double *)(void *)to)[at] +=
            ((const double *)(const void *)w->from)[o];
    }
  }
  return TN_OK;
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_max_pool_indices_bytes(const tn_frame *call, uint64_t *bytes) {
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

int32_t nn_max_pool_indices(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  int64_t images;
  indices_work w = {.pool = nn_max_pool_make_pool(call, &images),
                    .dtype = x.dtype,
                    .level = x.level,
                    .from = nn_operands_open_input(&x, 0)};
  const int64_t taps = nn_window_multiply_lengths(w.pool.window.kernel);
  if (w.pool.in_size > INT32_MAX)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "an image of one channel has %lld elements, but at most "
                   "%ld are supported; divide it",
                   (long long)w.pool.in_size, (long)INT32_MAX);
  if (call->req[0] != TN_REQ_NULL) w.to = nn_operands_open_output(&x, 0);
  if (call->req[1] != TN_REQ_NULL) w.indices = call->out[1].data;
  const int32_t code =
      nn_run_parallel(call, images, w.pool.out_size * taps, find_slice, &w);
  if (code == TN_OK && w.to) nn_operands_close_output(&x, 0, w.to);
  return code;
}

int32_t nn_max_pool_indices_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  int64_t images;
  if (call->req[0] == TN_REQ_NULL || tn_tensor_size(&call->out[0]) == 0)
    return TN_OK;
  indices_work w = {
      .pool = nn_max_pool_make_pool(call, &images),
      .dtype = x.dtype,
      .from = nn_operands_open_input(&x, NN_MAX_POOL_INDICES_BACKWARD_GRAD_OUT),
      .to = nn_operands_open_output(&x, NN_MAX_POOL_INDICES_IN_DATA),
      .indices = call->in[NN_MAX_POOL_INDICES_BACKWARD_OUT_INDICES].data};
  const int32_t code = nn_run_parallel(
      call, images, w.pool.in_size + w.pool.out_size, add_slice, &w);
  if (code == TN_OK) nn_operands_close_output(&x, 0, w.to);
  return code;
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_max_pool_indices_grad_bytes(const tn_frame *call, uint64_t *bytes) {
  return nn_max_pool_indices_bytes(call, bytes);
}

int32_t nn_max_pool_indices_grad(const tn_frame *call) {
  const tn_frame own = nn_make_backward_call(call);
  return nn_max_pool_indices_backward(&own);
}

/* --------------------------------------------------------------- unpooling */

/* A call of max_unpool, as the argument of a parallel loop over images. */
typedef struct unpool_work {
  nn_unpool_view view;
  int64_t bytes; /* bytes of an element */
  const tn_tensor *indices;
  const char *from;
  char *to;
  nn_workspaces workspaces; /* backward: the last element with each index */
} unpool_work;

/* Returns index i of the call. */
static int64_t read_index(const tn_tensor *indices, int64_t i) {
  return indices->dtype == TN_I32 ? ((const int32_t *)indices->data)[i]
                                  : ((const int64_t *)indices->data)[i];
}

/* Reports the first index that is out of range. */
static int32_t check_indices(const tn_frame *call, const tn_tensor *indices,
                             const nn_unpool_view *v) {
  for (int64_t i = 0; i < v->images * v->n_in; ++i) {
    const int64_t at = read_index(indices, i);
    if (at >= -1 && at < v->n_out) continue;
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "index %lld (number %lld of `indices`) is out of range: an "
                   "image of `out` has %lld elements",
                   (long long)at, (long long)i, (long long)v->n_out);
  }
  return TN_OK;
}

/* Computes images [begin, end) of out. */
static int32_t unpool_slice(void *arg, int64_t begin, int64_t end) {
  const unpool_work *w = arg;
  const nn_unpool_view *v = &w->view;
  for (int64_t image = begin; image < end; ++image) {
    char *to = w->to + image * v->n_out * w->bytes;
    if (v->n_out > 0) memset(to, 0, (size_t)(v->n_out * w->bytes));
    for (int64_t i = image * v->n_in; i < (image + 1) * v->n_in; ++i) {
      const int64_t at = read_index(w->indices, i);
      if (at >= 0)
        memcpy(to + at * w->bytes, w->from + i * w->bytes, (size_t)w->bytes);
    }
  }
  return TN_OK;
}

/* Computes images [begin, end) of the gradient of data. */
static int32_t gather_slice(void *arg, int64_t begin, int64_t end) {
  unpool_work *w = arg;
  const nn_unpool_view *v = &w->view;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  int64_t *last = (int64_t *)(void *)nn_locate_workspace(&w->workspaces, slot);
  for (int64_t image = begin; image < end; ++image) {
    const int64_t first = image * v->n_in;
    const char *from = w->from + image * v->n_out * w->bytes;
    for (int64_t i = first; i < first + v->n_in; ++i) {
      const int64_t at = read_index(w->indices, i);
      if (at >= 0) last[at] = i;
    }
    for (int64_t i = first; i < first + v->n_in; ++i) {
      const int64_t at = read_index(w->indices, i);
      char *to = w->to + i * w->bytes;
      if (at >= 0 && last[at] == i)
        memcpy(to, from + at * w->bytes, (size_t)w->bytes);
      else
        memset(to, 0, (size_t)w->bytes);
    }
  }
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Returns the workspaces that images of a backward call share. */
static nn_workspaces plan_workspaces(const nn_unpool_view *v) {
  return (nn_workspaces){
      .bytes = ((uint64_t)v->n_out * sizeof(int64_t) + 63) / 64 * 64,
      .n = nn_choose_workspace_count(v->images)};
}

/* Sets *bytes to the workspace of a call. */
int32_t nn_max_unpool_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_unpool_view v = nn_max_unpool_view_call(call);
  const nn_workspaces workspaces = plan_workspaces(&v);
  *bytes =
      (call->flags & TN_CALL_BACKWARD) ? workspaces.n * workspaces.bytes : 0;
  return TN_OK;
}

int32_t nn_max_unpool(const tn_frame *call) {
  unpool_work w = {.view = nn_max_unpool_view_call(call),
                   .bytes = tn_dtype_bytes(call->in[0].dtype),
                   .indices = &call->in[1],
                   .from = call->in[0].data,
                   .to = call->out[0].data};
  const int32_t code = check_indices(call, w.indices, &w.view);
  if (code != TN_OK || call->req[0] == TN_REQ_NULL) return code;
  return nn_run_parallel(call, w.view.images, w.view.n_in + w.view.n_out,
                         unpool_slice, &w);
}

int32_t nn_max_unpool_backward(const tn_frame *call) {
  unpool_work w = {.view = nn_max_unpool_view_call(call),
                   .bytes = tn_dtype_bytes(call->in[0].dtype),
                   .indices = &call->in[NN_MAX_UNPOOL_BACKWARD_IN_INDICES],
                   .from = call->in[NN_MAX_UNPOOL_BACKWARD_GRAD_OUT].data,
                   .to = call->out[NN_MAX_UNPOOL_IN_DATA].data};
  const int32_t code = check_indices(call, w.indices, &w.view);
  if (code != TN_OK || call->req[NN_MAX_UNPOOL_IN_DATA] == TN_REQ_NULL)
    return code;
  w.workspaces = plan_workspaces(&w.view);
  w.workspaces.memory = call->ws[0];
  return nn_run_parallel(call, w.view.images, w.view.n_in + w.view.n_out,
                         gather_slice, &w);
}
