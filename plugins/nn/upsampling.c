/* SPDX-License-Identifier: Apache-2.0
 * upsampling.c: shapes and kernels of upsampling.yaml. Bilinear images are
 * computed by nn.deconvolution; the loops here repeat elements, or add the
 * gradients of repeated elements.
 */
#include "upsampling.gen.h"

#include <string.h>

#include "axis.h"
#include "nn.h"
#include "operands.h"
#include "tenon/kernel/checked_size.h"
#include "upsampling_view.h"

/* ------------------------------------------------------------------ shapes */

/* Sets *out to the length of a dimension of n elements in out; -1 if n is
 * unknown. */
static int32_t enlarge_length(const tn_frame *call, int64_t n, int64_t *out) {
  const int64_t scale = nn_upsampling_params_of(call)->scale;
  *out = n < 0 ? -1 : tn_size_times(n, scale);
  if (n < 0 || *out >= 0) return TN_OK;
  return TN_FAIL(call, TN_OUT_OF_RANGE,
                 "%lld elements times `scale` %lld are more than 64 bits "
                 "count; choose a smaller `scale`",
                 (long long)n, (long long)scale);
}

/* Sets the shapes of a bilinear call: images, windows and out. */
static int32_t infer_bilinear(const tn_frame *call) {
  const nn_upsampling_params *p = nn_upsampling_params_of(call);
  const tn_tensor *data = &call->in[0];
  const int64_t side = 2 * p->scale - p->scale % 2;
  const int64_t window[] = {p->num_filter, 1, side, side};
  int64_t in[4] = {-1, p->num_filter, -1, -1}, out[4];
  if (call->n_in != 2 || p->num_filter == 0)
    return TN_FAIL(call, TN_INVALID,
                   "sample_type=bilinear needs num_filter above 0 and two "
                   "inputs, images and their windows; there are %u inputs and "
                   "num_filter is %lld",
                   (unsigned)call->n_in, (long long)p->num_filter);
  for (int d = 0; d < 4 && data->ndim == 4; ++d)
    if (data->shape[d] >= 0 || d != 1) in[d] = data->shape[d];
  out[0] = in[0];
  out[1] = in[1];
  if (in[1] != p->num_filter || in[2] == 0 || in[3] == 0)
    return TN_FAIL(call, TN_SHAPE,
                   "`data` %s must have num_filter=%lld channels and images "
                   "that are not empty",
                   nn_print_shape(data).text, (long long)p->num_filter);
  int32_t code = enlarge_length(call, in[2], &out[2]);
  if (code == TN_OK) code = enlarge_length(call, in[3], &out[3]);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, 0, 4, in);
  if (code == TN_OK)
    code = call->host->set_shape(call, TN_OPERAND_IN, 1, 4, window);
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 4, out);
}

/* Checks the size of input i, for images of out; unknown lengths are -1. */
static int32_t check_size(const tn_frame *call, uint32_t i,
                          const int64_t *out) {
  const tn_tensor *in = &call->in[i];
  for (int d = 2; d < 4; ++d) {
    const int64_t n = in->shape[d];
    if (n < 0 || out[d] < 0 || n == out[d]) continue;
    if (n > 0 && out[d] % n == 0) continue;
    return TN_FAIL(call, TN_SHAPE,
                   "images of input %u, %s, must have a size that divides %lld "
                   "in dimension %d, the size of the first times `scale`",
                   (unsigned)i, nn_print_shape(in).text, (long long)out[d], d);
  }
  return TN_OK;
}

/* Checks input i, and adds its dimensions to those of out. */
static int32_t join_input(const tn_frame *call, uint32_t i, int64_t *out) {
  const nn_upsampling_params *p = nn_upsampling_params_of(call);
  const tn_tensor *in = &call->in[i];
  const int joins =
      p->multi_input_mode == NN_UPSAMPLING_MULTI_INPUT_MODE_CONCAT;
  if (in->ndim >= 0 && in->ndim != 4)
    return TN_FAIL(call, TN_SHAPE,
                   "images have 4 dimensions, number, channel, height and "
                   "width, but input %u is %s",
                   (unsigned)i, nn_print_shape(in).text);
  if (in->ndim < 0) {
    out[1] = joins ? -1 : out[1];
    return TN_OK;
  }
  if (out[0] < 0) out[0] = in->shape[0];
  if (i == 0)
    out[1] = in->shape[1];
  else if (joins)
    out[1] = out[1] < 0 || in->shape[1] < 0 ? -1 : out[1] + in->shape[1];
  for (int d = 2; i == 0 && d < 4; ++d) {
    const int32_t code = enlarge_length(call, in->shape[d], &out[d]);
    if (code != TN_OK) return code;
  }
  return check_size(call, i, out);
}

int32_t nn_upsampling_infer(const tn_frame *call) {
  const int joins = nn_upsampling_params_of(call)->multi_input_mode ==
                    NN_UPSAMPLING_MULTI_INPUT_MODE_CONCAT;
  int64_t out[4] = {-1, -1, -1, -1};
  int32_t code = TN_OK;
  if (nn_upsampling_is_bilinear(call)) return infer_bilinear(call);
  if (call->n_in == 0)
    return TN_FAIL(call, TN_INVALID, "there are no images; pass at least one");
  for (uint32_t i = 0; i < call->n_in && code == TN_OK; ++i)
    code = join_input(call, i, out);
  for (uint32_t i = 0; i < call->n_in && code == TN_OK; ++i) {
    const int64_t in[4] = {out[0], joins ? -1 : out[1], -1, -1};
    code = call->host->set_shape(call, TN_OPERAND_IN, i, 4, in);
  }
  if (code != TN_OK) return code;
  return call->host->set_shape(call, TN_OPERAND_OUT, 0, 4, out);
}

/* ------------------------------------------------------------------- loops */

/* One input of a call in f32 or f64, as the argument of a parallel loop. */
typedef struct upsampling_work {
  nn_upsampling_part part;
  tn_dtype dtype;
  char *small; /* planes of the input */
  char *large; /* planes of out */
  int add;
} upsampling_work;

#define LOOPS(type, name)                                                      \
  /* Repeats the elements of a plane in out. */                                \
  static void enlarge_##name(const nn_upsampling_part *p, const type *x,       \
                             type *y, int add) {                               \
    const int64_t down = p->factor[0], across = p->factor[1];                  \
    const int64_t width = p->width * across;                                   \
    for (int64_t i = 0; i < p->height;                                         \
         ++i, x += p->width, y += down * width) {                              \
      if (add) {                                                               \
        for (int64_t r = 0; r < down; ++r)                                     \
          for (int64_t j = 0; j < p->width; ++j)                               \
            for (int64_t k = 0; k < across; ++k)                               \
              y[r * width + j * across + k] += x[j];                           \
        continue;                                                              \
      }                                                                        \
      if (across == 2)                                                         \
        for (int64_t j = 0; j < p->width; ++j) y[2 * j] = y[2 * j + 1] = x[j]; \
      else                                                                     \
        for (int64_t j = 0; j < p->width; ++j)                                 \
          for (int64_t k = 0; k < across; ++k) y[j * across + k] = x[j];       \
      for (int64_t r = 1; r < down; ++r)                                       \
        memcpy(y + r * width, y, (size_t)width * sizeof *y);                   \
    }                                                                          \
  }                                                                            \
  /* Adds the gradients of the repetitions of each element of a plane. */      \
  static void reduce_##name(const nn_upsampling_part *p, type *x,              \
                            const type *y, int add) {                          \
    const int64_t down = p->factor[0], across = p->factor[1];                  \
    const int64_t width = p->width * across;                                   \
    for (int64_t i = 0; i < p->height; ++i, x += p->width)                     \
      for (int64_t r = 0; r < down; ++r, y += width) {                         \
        const int starts = r == 0 && !add;                                     \
        if (across == 2 && starts)                                             \
          for (int64_t j = 0; j < p->width; ++j)                               \
            x[j] = y[2 * j] + y[2 * j + 1];                                    \
        else if (across == 2)                                                  \
          for (int64_t j = 0; j < p->width; ++j)                               \
            x[j] += y[2 * j] + y[2 * j + 1];                                   \
        else                                                                   \
          for (int64_t j = 0; j < p->width; ++j) {                             \
            type sum = starts ? 0 : x[j];                                      \
            for (int64_t k = 0; k < across; ++k) sum += y[j * across + k];     \
            x[j] = sum;                                                        \
          }                                                                    \
      }                                                                        \
  }
LOOPS(float, f32)
LOOPS(double, f64)

/* The two planes of an input and of out with number i. */
typedef struct plane_pair {
  char *small;
  char *large;
} plane_pair;

/* Returns the planes with number i of an input. */
static plane_pair find_planes(const upsampling_work *w, int64_t i) {
  const nn_upsampling_part *p = &w->part;
  const int64_t bytes = tn_dtype_bytes(w->dtype);
  const int64_t small = p->height * p->width;
  const int64_t large = small * p->factor[0] * p->factor[1];
  const int64_t plane = i / p->channels * p->all + p->first + i % p->channels;
  return (plane_pair){w->small + i * small * bytes,
                      w->large + plane * large * bytes};
}

/* Enlarges planes [begin, end) of an input. */
static int32_t enlarge_slice(void *arg, int64_t begin, int64_t end) {
  const upsampling_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    const plane_pair at = find_planes(w, i);
    if (w->dtype == TN_F32)
      enlarge_f32(&w->part, (const float *)(void *)at.small,
                  (float *)(void *)at.large, w->add);
    else
      enlarge_f64(&w->part, (const double *)(void *)at.small,
                  (double *)(void *)at.large, w->add);
  }
  return TN_OK;
}

/* Computes planes [begin, end) of the gradient of an input. */
static int32_t reduce_slice(void *arg, int64_t begin, int64_t end) {
  const upsampling_work *w = arg;
  for (int64_t i = begin; i < end; ++i) {
    const plane_pair at = find_planes(w, i);
    if (w->dtype == TN_F32)
      reduce_f32(&w->part, (float *)(void *)at.small,
                 (const float *)(void *)at.large, w->add);
    else
      reduce_f64(&w->part, (double *)(void *)at.small,
                 (const double *)(void *)at.large, w->add);
  }
  return TN_OK;
}

/* Runs a loop over the planes of an input. */
static int32_t run_planes(const tn_frame *call, upsampling_work *w,
                          tn_loop_body *body) {
  const nn_upsampling_part *p = &w->part;
  const int64_t size = p->height * p->width * p->factor[0] * p->factor[1];
  if (size == 0) return TN_OK;
  return nn_run_parallel(call, p->images * p->channels, size, body, w);
}

/* ----------------------------------------------------------------- kernels */

/* Sets *bytes to the workspace of a call. */
int32_t nn_upsampling_bytes(const tn_frame *call, uint64_t *bytes) {
  nn_upsampling_deconvolution own;
  if (nn_upsampling_is_bilinear(call)) {
    nn_upsampling_make_deconvolution(call, &own);
    return nn_deconvolution_bytes(&own.frame, bytes);
  }
  *bytes = nn_operands_count_bytes(call);
  return TN_OK;
}

int32_t nn_upsampling(const tn_frame *call) {
  nn_upsampling_deconvolution own;
  const int joins = nn_upsampling_params_of(call)->multi_input_mode ==
                    NN_UPSAMPLING_MULTI_INPUT_MODE_CONCAT;
  int32_t code = TN_OK;
  if (nn_upsampling_is_bilinear(call)) {
    nn_upsampling_make_deconvolution(call, &own);
    return nn_deconvolution(&own.frame);
  }
  nn_operands x = nn_operands_open(call, call->ws[0]);
  char *to = nn_operands_open_output(&x, 0);
  for (uint32_t i = 0; i < call->n_in && code == TN_OK; ++i) {
    upsampling_work w = {
        .part = nn_upsampling_find_part(call, &call->out[0], i),
        .dtype = x.dtype,
        .small = nn_operands_open_input(&x, i),
        .large = to,
        .add = nn_operands_is_added(&x, 0) || (i > 0 && !joins)};
    code = run_planes(call, &w, enlarge_slice);
  }
  if (code == TN_OK) nn_operands_close_output(&x, 0, to);
  return code;
}

int32_t nn_upsampling_backward(const tn_frame *call) {
  nn_upsampling_deconvolution own;
  int32_t code = TN_OK;
  if (nn_upsampling_is_bilinear(call)) {
    nn_upsampling_make_deconvolution(call, &own);
    return nn_deconvolution_backward(&own.frame);
  }
  nn_operands x = nn_operands_open(call, call->ws[0]);
  char *from = nn_operands_open_input(&x, 0);
  for (uint32_t i = 0; i < call->n_out && code == TN_OK; ++i) {
    if (call->req[i] == TN_REQ_NULL) continue;
    upsampling_work w = {.part = nn_upsampling_find_part(call, &call->in[0], i),
                         .dtype = x.dtype,
                         .small = nn_operands_open_output(&x, i),
                         .large = from,
                         .add = nn_operands_is_added(&x, i)};
    code = run_planes(call, &w, reduce_slice);
    if (code == TN_OK) nn_operands_close_output(&x, i, w.small);
  }
  return code;
}
