/* SPDX-License-Identifier: Apache-2.0
 * pooling.c: shapes and kernels of pooling.yaml. The loops are in pool_lines.c.
 */
#include "pooling.gen.h"

#include <string.h>

#include "nn.h"
#include "operands.h"
#include "pool_geometry.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"
#include "writer.h"

/* ------------------------------------------------------------------ shapes */

enum { VALID, FULL, SAME }; /* values of the parameter pooling_convention */

static int32_t set_shape(const tn_frame *call, uint32_t list, int32_t ndim,
                         const int64_t *shape) {
  return call->host->set_shape(call, list, 0, ndim, shape);
}

/* Returns the number of elements that windows reach over along dimension d of
 * the image. */
static int64_t get_window_length(const nn_pooling_params *p, int32_t d) {
  return p->dilate.v[d] * (p->kernel.v[d] - 1) + 1;
}

/* Returns the elements of a dimension of length n with its padding; -1 if 64
 * bits cannot count them. */
static int64_t padded_length(const nn_pooling_params *p, int32_t d, int64_t n) {
  return tn_size_plus(n, 2 * p->pad.v[d]);
}

/* Returns the number of windows along dimension d of n elements. The dimension
 * must contain at least one window. */
static int64_t count_windows(const nn_pooling_params *p, int32_t d, int64_t n) {
  const int64_t stride = p->stride.v[d];
  const int64_t buffer = padded_length(p, d, n) - get_window_length(p, d);
  if (p->pooling_convention == SAME) return nn_ceil_div(n, stride);
  return (p->pooling_convention == FULL ? nn_ceil_div(buffer, stride)
                                        : buffer / stride) +
         1;
}

/* Returns the number of elements of a dimension with n windows, or -1 if
 * several numbers are possible. */
static int64_t count_elements(const nn_pooling_params *p, int32_t d,
                              int64_t n) {
  if (p->stride.v[d] != 1) return -1;
  if (p->pooling_convention == SAME) return n;
  return nn_max(tn_size_plus(n, get_window_length(p, d) - 1) - 2 * p->pad.v[d],
                -1);
}

/* Reports a window that is larger than dimension d of the image with its
 * padding. Returns the failure. */
static int32_t refuse_window(const tn_frame *call, int32_t d) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  const tn_tensor *data = &call->in[NN_POOLING_IN_DATA];
  return TN_FAIL(call, TN_SHAPE,
                 "a window of %lld elements is larger than dimension %d of "
                 "`data` %s with %lld of padding on both sides; choose a "
                 "smaller `kernel` or more `pad`",
                 (long long)get_window_length(p, d), (int)d + 2,
                 nn_print_shape(data).text, (long long)p->pad.v[d]);
}

/* Reports a dimension d whose length with padding overflows. Returns the
 * failure. */
static int32_t refuse_length(const tn_frame *call, int32_t d) {
  const tn_tensor *data = &call->in[NN_POOLING_IN_DATA];
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "dimension %d of `data` %s and `pad` of %lld on both sides "
                 "are more elements than 64 bits count; choose a smaller `pad`",
                 (int)d + 2, nn_print_shape(data).text,
                 (long long)nn_pooling_params_of(call)->pad.v[d]);
}

/* Whether pooling_convention=same adds no more to a dimension of `in` elements
 * than `pad` may. */
static int32_t check_same_padding(const tn_frame *call, int32_t d, int64_t in,
                                  int64_t out) {
  enum { MOST = 1 << 16 }; /* the limit of `pad` */
  const nn_pooling_params *p = nn_pooling_params_of(call);
  if (p->pooling_convention != SAME) return TN_OK;
  const int64_t last = (nn_max(out, 1) - 1) * p->stride.v[d];
  const int64_t each = (last - in + get_window_length(p, d)) / 2;
  if (each <= MOST) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "a window of %lld elements needs %lld of padding on both "
                 "sides of dimension %d of `data` %s, but at most %d are "
                 "added; choose a smaller `kernel`",
                 (long long)get_window_length(p, d), (long long)each,
                 (int)d + 2, nn_print_shape(&call->in[NN_POOLING_IN_DATA]).text,
                 (int)MOST);
}

/* Infers one dimension of the image from data and out. */
static int32_t infer_dim(const tn_frame *call, int32_t d, int64_t *in,
                         int64_t *out) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  if (p->global_pool) {
    *out = 1;
    if (*in != 0) return TN_OK;
    return TN_FAIL(call, TN_SHAPE,
                   "dimension %d of `data` %s is empty: there is nothing to "
                   "pool",
                   (int)d + 2,
                   nn_print_shape(&call->in[NN_POOLING_IN_DATA]).text);
  }
  if (*in < 0 && *out >= 0) *in = count_elements(p, d, *out);
  if (*in < 0) return TN_OK;
  if (padded_length(p, d, *in) < 0) return refuse_length(call, d);
  if (p->pooling_convention != SAME &&
      padded_length(p, d, *in) < get_window_length(p, d))
    return refuse_window(call, d);
  *out = count_windows(p, d, *in);
  return check_same_padding(call, d, *in, *out);
}

/* Checks the parameters, and the rank of data if it is known. */
static int32_t check_params(const tn_frame *call, int32_t ndim) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  if (p->global_pool && ndim >= 0 && (ndim < 3 || ndim > 5))
    return TN_FAIL(call, TN_SHAPE,
                   "`data` has rank %d, but images of one to three dimensions "
                   "have 3 to 5: number, channel, and those of the image",
                   (int)ndim);
  if (p->global_pool) return TN_OK;
  if (p->kernel.n == 0)
    return TN_FAIL(call, TN_INVALID,
                   "there is no window: give `kernel` or set "
                   "global_pool=true");
  for (int64_t d = 0; p->pooling_convention == SAME && d < p->pad.n; ++d)
    if (p->pad.v[d] != 0)
      return TN_FAIL(call, TN_INVALID,
                     "pooling_convention=same finds the padding itself: `pad` "
                     "is %lld, but must be 0",
                     (long long)p->pad.v[d]);
  if (ndim >= 0 && ndim != p->kernel.n + 2)
    return TN_FAIL(call, TN_SHAPE,
                   "`kernel` has %lld dimensions, so `data` must have %lld, "
                   "but %s has %d",
                   (long long)p->kernel.n, (long long)p->kernel.n + 2,
                   nn_print_shape(&call->in[NN_POOLING_IN_DATA]).text,
                   (int)ndim);
  return TN_OK;
}

int32_t nn_pooling_infer(const tn_frame *call) {
  const nn_pooling_params *p = nn_pooling_params_of(call);
  const tn_tensor *data = &call->in[NN_POOLING_IN_DATA];
  const tn_tensor *out = &call->out[NN_POOLING_OUT_OUT];
  int64_t from[TN_MAX_NDIM], to[TN_MAX_NDIM];
  int32_t ndim = data->ndim, code = check_params(call, data->ndim);
  if (code != TN_OK) return code;
  if (ndim < 0 && !p->global_pool) ndim = (int32_t)p->kernel.n + 2;
  if (ndim < 0) ndim = out->ndim;
  if (ndim < 0) return TN_OK;
  for (int32_t d = 0; d < ndim; ++d) {
    from[d] = data->ndim == ndim ? data->shape[d] : -1;
    to[d] = out->ndim == ndim ? out->shape[d] : -1;
  }
  for (int32_t d = 0; d < 2 && d < ndim; ++d) {
    if (from[d] < 0) from[d] = to[d];
    to[d] = from[d];
  }
  for (int32_t d = 2; d < ndim && code == TN_OK; ++d)
    code = infer_dim(call, d - 2, &from[d], &to[d]);
  if (code == TN_OK) code = set_shape(call, TN_OPERAND_IN, ndim, from);
  return code == TN_OK ? set_shape(call, TN_OPERAND_OUT, ndim, to) : code;
}

/* ----------------------------------------------------------------- kernels */

/* A call in f32 or f64, as the argument of a parallel loop over images. */
typedef struct pool_work {
  nn_pool pool;
  nn_pool_image image; /* the first image, without scratch memory */
  int64_t bytes;       /* bytes of an element */
  nn_workspaces workspaces;
  /* Bytes of scratch memory before the writer's buffer in a workspace; 0 if the
   * gradient is not written past the caches. */
  uint64_t scratch;
  /* Bytes of a copy of an image of data at the end of a workspace; 0: none. */
  uint64_t copied;
} pool_work;

/* Address of an element of an array; NULL for an absent array. */
static void *skip_elements(const void *array, int64_t elements, int64_t bytes) {
  return array ? (char *)(uintptr_t)array + elements * bytes : NULL;
}

/* Copies an image of data to the end of a workspace, because its gradient
 * overwrites it before all windows have read it. */
static void copy_data(const pool_work *w, nn_pool_image *image) {
  char *copy = (char *)image->scratch + w->workspaces.bytes - w->copied;
  memcpy(copy, image->data, (size_t)(w->pool.in_size * w->bytes));
  image->data = copy;
}

/* Computes the images from `begin` to `end` - 1; arg is the pool_work. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  pool_work *w = arg;
  const uint32_t slot = nn_take_workspace(&w->workspaces);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t in = i * w->pool.in_size, out = i * w->pool.out_size;
    nn_pool_image image = w->image;
    image.pool = &w->pool;
    image.data = skip_elements(image.data, in, w->bytes);
    image.to = skip_elements(image.to, in, w->bytes);
    image.out = skip_elements(image.out, out, w->bytes);
    image.out_gradient = skip_elements(image.out_gradient, out, w->bytes);
    image.scratch = nn_locate_workspace(&w->workspaces, slot);
    if (w->scratch > 0) image.buffer = (char *)image.scratch + w->scratch;
    if (w->copied > 0) copy_data(w, &image);
    if (image.out_gradient)
      nn_pool_backward(&image);
    else
      nn_pool_forward(&image);
  }
  nn_release_workspace(&w->workspaces, slot);
  return TN_OK;
}

/* Whether this is a backward call with operands that are larger than the
 * caches. */
static int is_large(const tn_frame *call, const nn_pool *pool, int64_t bytes) {
  const int64_t all = 2 * (pool->in_size + pool->out_size) * bytes;
  return (call->flags & TN_CALL_BACKWARD) != 0 &&
         all * nn_pool_count_images(call) >= NN_WRITER_LARGE;
}

/* Bytes of a copy of an image of data, which a backward call of the largest
 * elements makes if the gradient is in the memory of data. Converted operands
 * have memory of their own. */
static uint64_t count_copied_bytes(const tn_frame *call, const nn_pool *pool,
                                   int64_t bytes) {
  const int in_place = (call->flags & TN_CALL_BACKWARD) != 0 &&
                       call->req[NN_POOLING_IN_DATA] == TN_REQ_INPLACE;
  if (!in_place || pool->kind != NN_POOL_MAX ||
      bytes != tn_dtype_bytes(call->in[0].dtype))
    return 0;
  return ((uint64_t)(pool->in_size * bytes) + 63) / 64 * 64;
}

/* Returns the number and size of the workspaces that images share. */
static nn_workspaces plan_workspaces(const tn_frame *call,
                                     const nn_pool *pool) {
  const int64_t bytes = tn_dtype_bytes(tn_kernel_compute(call->in[0].dtype));
  const int backward = (call->flags & TN_CALL_BACKWARD) != 0;
  nn_workspaces workspaces = {
      .bytes = nn_pool_count_scratch(pool, bytes, backward),
      .n = nn_choose_workspace_count(nn_pool_count_images(call))};
  if (is_large(call, pool, bytes))
    workspaces.bytes += nn_pool_count_buffer_bytes(pool, bytes);
  workspaces.bytes += count_copied_bytes(call, pool, bytes);
  return workspaces;
}

/* Returns the bytes of workspace for the taps of a window. */
static uint64_t count_tap_bytes(const nn_pool *pool) {
  const uint64_t n = (uint64_t)pool->window.kernel[2];
  return (n * sizeof(nn_pool_tap) + 63) / 64 * 64;
}

/* Sets *bytes to the size of the workspace. */
int32_t nn_pooling_cpu_bytes(const tn_frame *call, uint64_t *bytes) {
  const nn_pool pool = nn_pool_make(call);
  const nn_workspaces workspaces = plan_workspaces(call, &pool);
  *bytes = nn_operands_count_bytes(call) + count_tap_bytes(&pool) +
           workspaces.n * workspaces.bytes;
  return TN_OK;
}

/* Runs a pass over all images; `first` has the arrays of the first one. */
static int32_t run_images(const tn_frame *call, const nn_operands *x,
                          const nn_pool_image *first) {
  pool_work w = {.pool = nn_pool_make(call),
                 .image = *first,
                 .bytes = tn_dtype_bytes(x->dtype)};
  const int64_t size = w.pool.in_size + w.pool.out_size;
  const int64_t images = nn_pool_count_images(call);
  w.workspaces = plan_workspaces(call, &w.pool);
  char *buffer = (char *)call->ws[0] + nn_operands_count_bytes(call);
  w.workspaces.memory = buffer + count_tap_bytes(&w.pool);
  w.image.add = nn_operands_is_added(x, 0);
  w.image.dtype = x->dtype;
  w.image.level = x->level;
  if (is_large(call, &w.pool, w.bytes) && !w.image.add)
    w.scratch = nn_pool_count_scratch(&w.pool, w.bytes, 1);
  w.copied = count_copied_bytes(call, &w.pool, w.bytes);
  if (images == 0 || (first->out_gradient ? w.pool.in_size : size) == 0)
    return TN_OK;
  nn_pool_set_taps(&w.pool, (nn_pool_tap *)(void *)buffer);
  return call->host->parallel_for(
      call, images, nn_max(TN_KERNEL_GRAIN / size, 1), run_slice, &w);
}

int32_t nn_pooling_cpu(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_pool_image first = {
      .data = nn_operands_open_input(&x, NN_POOLING_IN_DATA),
      .out = nn_operands_open_output(&x, NN_POOLING_OUT_OUT)};
  const int32_t code = run_images(call, &x, &first);
  nn_operands_close_output(&x, NN_POOLING_OUT_OUT, first.out);
  return code;
}

int32_t nn_pooling_cpu_backward(const tn_frame *call) {
  nn_operands x = nn_operands_open(call, call->ws[0]);
  const nn_pool_image first = {
      .data = nn_operands_open_input(&x, NN_POOLING_BACKWARD_IN_DATA),
      .out = nn_operands_open_input(&x, NN_POOLING_BACKWARD_OUT_OUT),
      .out_gradient = nn_operands_open_input(&x, NN_POOLING_BACKWARD_GRAD_OUT),
      .to = nn_operands_open_output(&x, NN_POOLING_IN_DATA)};
  const int32_t code = run_images(call, &x, &first);
  nn_operands_close_output(&x, NN_POOLING_IN_DATA, first.to);
  return code;
}
