/* SPDX-License-Identifier: Apache-2.0
 * normalize.c: image.normalize, and image.to_chw with its gradient.
 */
#include "color.gen.h"
#include "tenon/kernel/kernel.h"
#include "view.h"

enum { GRAIN = 16384 /* elements of a slice */ };

/* --------------------------------------------------------------- normalize */

/* One call. `outer` runs of `channels` times `inner` elements: an element has
 * the channel i / inner % channels. */
typedef struct normalizing {
  const tn_tensor *from, *to;
  const image_normalize_params *p;
  int64_t channels, inner;
} normalizing;

/* out = x*factor + offset. */
static void find_line(const image_normalize_params *p, int64_t c,
                      double *factor, double *offset) {
  const double std = image_list_value(&p->std, c, 1);
  *factor = p->scale / std;
  *offset = -image_list_value(&p->mean, c, 0) / std;
}

static void map_run(const normalizing *n, int64_t first, int64_t count,
                    const double line[2]) {
  float *to = (float *)n->to->data + first;
  if (n->from->dtype == TN_U8) {
    const uint8_t *from = (const uint8_t *)n->from->data + first;
    for (int64_t i = 0; i < count; ++i)
      to[i] = (float)(from[i] * line[0] + line[1]);
  } else {
    const float *from = (const float *)n->from->data + first;
    for (int64_t i = 0; i < count; ++i)
      to[i] = (float)((double)from[i] * line[0] + line[1]);
  }
}

/* Runs of elements of one channel: a plane, or one element. */
static int32_t normalize_runs(void *arg, int64_t begin, int64_t end) {
  const normalizing *n = (const normalizing *)arg;
  for (int64_t i = begin; i < end; ++i) {
    double line[2];
    find_line(n->p, i % n->channels, &line[0], &line[1]);
    map_run(n, i * n->inner, n->inner, line);
  }
  return TN_OK;
}

int32_t image_normalize(const tn_frame *call) {
  const image_normalize_params *p = image_normalize_params_of(call);
  const tn_tensor *data = &call->in[0];
  const bool is_chw = p->layout == IMAGE_NORMALIZE_LAYOUT_CHW;
  normalizing n = {.from = data, .to = &call->out[0], .p = p, .inner = 1};
  n.channels = data->shape[data->ndim - (is_chw ? 3 : 1)];
  if (is_chw)
    n.inner = data->shape[data->ndim - 2] * data->shape[data->ndim - 1];
  int32_t code = image_check_list(call, "mean", p->mean.n, n.channels);
  if (code == TN_OK) code = image_check_list(call, "std", p->std.n, n.channels);
  const int64_t size = tn_tensor_size(data);
  if (code != TN_OK || size == 0) return code;
  return call->host->parallel_for(call, size / n.inner, 1 + GRAIN / n.inner,
                                  normalize_runs, &n);
}

/* ------------------------------------------------------------------ to_chw */

/* One call. */
typedef struct turning {
  image_view pixels; /* the images (height, width, channels) */
  const float *grad; /* backward: of the planes */
  float *planes;
  double scale;
} turning;

static double find_scale(const tn_frame *call, tn_dtype dtype) {
  const image_to_chw_params *p = image_to_chw_params_of(call);
  if (p->has_scale) return p->scale;
  return dtype == TN_U8 ? 1.0 / 255 : 1;
}

static int32_t turn_images(void *arg, int64_t begin, int64_t end) {
  const turning *t = (const turning *)arg;
  const int64_t channels = t->pixels.channels;
  const int64_t n = t->pixels.height * t->pixels.width;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t first = k / channels * t->pixels.size, c = k % channels;
    float *to = t->planes + k * n;
    if (t->pixels.item == 1) {
      const uint8_t *from = (const uint8_t *)t->pixels.data + first + c;
      for (int64_t i = 0; i < n; ++i)
        to[i] = (float)(from[i * channels] * t->scale);
    } else {
      const float *from =
          (const float *)(const void *)t->pixels.data + first + c;
      for (int64_t i = 0; i < n; ++i)
        to[i] = (float)((double)from[i * channels] * t->scale);
    }
  }
  return TN_OK;
}

static int32_t turn_back(void *arg, int64_t begin, int64_t end) {
  const turning *t = (const turning *)arg;
  const int64_t channels = t->pixels.channels;
  const int64_t n = t->pixels.height * t->pixels.width;
  for (int64_t k = begin; k < end; ++k) {
    float *to = (float *)(void *)t->pixels.data +
                k / channels * t->pixels.size + k % channels;
    for (int64_t i = 0; i < n; ++i)
      to[i * channels] = (float)((double)t->grad[k * n + i] * t->scale);
  }
  return TN_OK;
}

/* A slice has planes. */
static int32_t turn_planes(const tn_frame *call, turning *t,
                           tn_loop_body *body) {
  const int64_t n = t->pixels.height * t->pixels.width;
  if (t->pixels.n * t->pixels.size == 0) return TN_OK;
  return call->host->parallel_for(call, t->pixels.n * t->pixels.channels,
                                  1 + GRAIN / n, body, t);
}

int32_t image_to_chw_takes(const tn_frame *call) {
  return image_take_floats_back(call);
}

int32_t image_to_chw(const tn_frame *call) {
  turning t = {.pixels = image_view_of(&call->in[0]),
               .planes = (float *)call->out[0].data,
               .scale = find_scale(call, call->in[0].dtype)};
  return turn_planes(call, &t, turn_images);
}

int32_t image_to_chw_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[IMAGE_TO_CHW_BACKWARD_GRAD_OUT];
  turning t = {.pixels = image_view_of(&call->out[0]),
               .grad = (const float *)grad->data,
               .scale = find_scale(call, TN_F32)};
  return call->req[0] == TN_REQ_NULL ? TN_OK : turn_planes(call, &t, turn_back);
}
