/* SPDX-License-Identifier: Apache-2.0
 * resize.c: image.resize with its gradient, and image.random_resized_crop. A
 * slice is a part of the rows of one image.
 */
#include <string.h>

#include "crop.gen.h"
#include "dice.h"
#include "resample.h"
#include "resize.gen.h"
#include "view.h"

enum { ROWS = 64 /* of a slice */ };

/* One call. */
typedef struct resizing {
  const tn_frame *call;
  image_view from, to;
  image_taps across, down;
  int64_t parts; /* slices of an image */
  uint32_t level;
  /* of random_resized_crop */
  const image_random_resized_crop_params *random;
} resizing;

static image_instance *find_instance(const tn_frame *call) {
  return (image_instance *)call->instance;
}

static int32_t fail_memory(const tn_frame *call) {
  return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for rows and weights");
}

/* Resamples rows [begin, end) of image i. `one` has the weights and the first
 * pixel of the part. */
static bool resample_rows(const resizing *r, image_resampling *one, int64_t i,
                          const int64_t rows[2], image_scratch *s) {
  one->channels = r->from.channels;
  one->from_stride = r->from.width * r->from.channels;
  one->to = r->to.data + i * r->to.size * r->to.item;
  one->to_stride = r->to.width * r->to.channels;
  one->level = r->level;
  return r->from.item == 1
             ? image_resample_u8(one, rows[0], rows[1], &s->middle)
             : image_resample_f32(one, rows[0], rows[1], &s->middle);
}

static int32_t resize_parts(void *arg, int64_t begin, int64_t end) {
  const resizing *r = (const resizing *)arg;
  image_scratch *s = image_borrow_scratch(find_instance(r->call));
  if (!s) return fail_memory(r->call);
  int32_t code = TN_OK;
  for (int64_t k = begin; k < end && code == TN_OK; ++k) {
    const int64_t i = k / r->parts, first = k % r->parts * ROWS;
    image_resampling one = {.across = r->across,
                            .down = r->down,
                            .from = image_row(&r->from, i, 0)};
    const int64_t rows[] = {
        first, first + ROWS < r->to.height ? first + ROWS : r->to.height};
    if (!resample_rows(r, &one, i, rows, s)) code = fail_memory(r->call);
  }
  image_return_scratch(find_instance(r->call), s);
  return code;
}

/* Fails if pixels are wanted and there are none to compute them from. */
static int32_t check_pixels(const tn_frame *call, const image_view *from) {
  if (from->height > 0 && from->width > 0) return TN_OK;
  return TN_FAIL(call, TN_SHAPE,
                 "images of %lld x %lld pixels cannot be resized; pass at "
                 "least one pixel",
                 (long long)from->height, (long long)from->width);
}

/* The weights of a call, in rooms of a scratch. */
static bool make_tables(resizing *r, const image_view *from,
                        const image_view *to, bool is_fixed, image_scratch *s) {
  const image_resize_params *p = image_resize_params_of(r->call);
  const bool smooth = p->antialias != 0;
  const image_axis across =
      image_whole_axis(from->width, to->width, p->filter, smooth);
  const image_axis down =
      image_whole_axis(from->height, to->height, p->filter, smooth);
  return image_make_taps(&across, is_fixed, &s->taps[0], &r->across) &&
         image_make_taps(&down, is_fixed, &s->taps[1], &r->down);
}

int32_t image_resize_takes(const tn_frame *call) {
  return image_take_floats_back(call);
}

int32_t image_resize(const tn_frame *call) {
  resizing r = {.call = call,
                .from = image_view_of(&call->in[0]),
                .to = image_view_of(&call->out[0]),
                .level = tn_kernel_level(call)};
  if (r.to.n * r.to.size == 0) return TN_OK;
  int32_t code = check_pixels(call, &r.from);
  if (code != TN_OK) return code;
  image_scratch *s = image_borrow_scratch(find_instance(call));
  if (!s) return fail_memory(call);
  r.parts = (r.to.height + ROWS - 1) / ROWS;
  if (make_tables(&r, &r.from, &r.to, r.from.item == 1, s))
    code =
        call->host->parallel_for(call, r.to.n * r.parts, 1, resize_parts, &r);
  else
    code = fail_memory(call);
  image_return_scratch(find_instance(call), s);
  return code;
}

/* ---------------------------------------------------------------- gradient */

/* Adds each row of the gradient of the result to the rows it was made of. */
static void spread_rows(const image_taps *t, const float *from, float *to,
                        int64_t n) {
  for (int64_t i = 0; i < t->n; ++i)
    for (int64_t k = 0; k < t->count[i]; ++k) {
      const float w = t->weight[i * t->most + k];
      float *row = to + (t->first[i] + k) * n;
      for (int64_t x = 0; x < n; ++x) row[x] += w * from[i * n + x];
    }
}

/* The same of the pixels of one row. */
static void spread_pixels(const image_taps *t, const float *from, float *to,
                          int64_t channels) {
  for (int64_t i = 0; i < t->n; ++i)
    for (int64_t k = 0; k < t->count[i]; ++k) {
      const float w = t->weight[i * t->most + k];
      float *pixel = to + (t->first[i] + k) * channels;
      for (int64_t c = 0; c < channels; ++c)
        pixel[c] += w * from[i * channels + c];
    }
}

/* `from` is the gradient of the result, `to` that of the images. */
static int32_t spread_images(void *arg, int64_t begin, int64_t end) {
  const resizing *r = (const resizing *)arg;
  const int64_t n = r->from.width * r->from.channels;
  image_scratch *s = image_borrow_scratch(find_instance(r->call));
  if (!s) return fail_memory(r->call);
  float *between = image_reserve(&s->middle, r->to.height * n, sizeof(float));
  for (int64_t i = begin; i < end && between; ++i) {
    float *to = (float *)(void *)r->to.data + i * r->to.size;
    memset(between, 0, (size_t)(r->to.height * n) * sizeof(float));
    memset(to, 0, (size_t)r->to.size * sizeof(float));
    spread_rows(&r->down,
                (const float *)(const void *)r->from.data + i * r->from.size,
                between, n);
    for (int64_t y = 0; y < r->to.height; ++y)
      spread_pixels(&r->across, between + y * n,
                    to + y * r->to.width * r->to.channels, r->to.channels);
  }
  image_return_scratch(find_instance(r->call), s);
  return between ? TN_OK : fail_memory(r->call);
}

int32_t image_resize_backward(const tn_frame *call) {
  const tn_tensor *grad = &call->in[IMAGE_RESIZE_BACKWARD_GRAD_OUT];
  resizing r = {.call = call,
                .from = image_view_of(grad),
                .to = image_view_of(&call->out[0])};
  if (call->req[0] == TN_REQ_NULL || r.to.n * r.to.size == 0) return TN_OK;
  image_scratch *s = image_borrow_scratch(find_instance(call));
  if (!s) return fail_memory(call);
  const int32_t code =
      make_tables(&r, &r.to, &r.from, false, s)
          ? call->host->parallel_for(call, r.to.n, 1, spread_images, &r)
          : fail_memory(call);
  image_return_scratch(find_instance(call), s);
  return code;
}

/* ----------------------------------------------------- random_resized_crop */

static int32_t resize_boxes(void *arg, int64_t begin, int64_t end) {
  const resizing *r = (const resizing *)arg;
  const image_random_resized_crop_params *p = r->random;
  const bool is_fixed = r->from.item == 1, smooth = p->antialias != 0;
  image_scratch *s = image_borrow_scratch(find_instance(r->call));
  if (!s) return fail_memory(r->call);
  bool is_done = true;
  for (int64_t i = begin; i < end && is_done; ++i) {
    const image_dice dice = image_call_dice(r->call, i);
    const image_box box =
        image_draw_box(&dice, &(image_box_rule){p->area.v, p->ratio.v, 0},
                       r->from.height, r->from.width);
    const image_axis across =
        image_whole_axis(box.width, r->to.width, p->filter, smooth);
    const image_axis down =
        image_whole_axis(box.height, r->to.height, p->filter, smooth);
    const int64_t rows[] = {0, r->to.height};
    image_resampling one = {.from = image_row(&r->from, i, box.top) +
                                    box.left * r->from.channels * r->from.item};
    is_done = image_make_taps(&across, is_fixed, &s->taps[0], &one.across) &&
              image_make_taps(&down, is_fixed, &s->taps[1], &one.down) &&
              resample_rows(r, &one, i, rows, s);
  }
  image_return_scratch(find_instance(r->call), s);
  return is_done ? TN_OK : fail_memory(r->call);
}

int32_t image_random_resized_crop(const tn_frame *call) {
  const image_random_resized_crop_params *p =
      image_random_resized_crop_params_of(call);
  resizing r = {.call = call,
                .from = image_view_of(&call->in[0]),
                .to = image_view_of(&call->out[0]),
                .level = tn_kernel_level(call),
                .random = p};
  int32_t code = image_check_range(call, "area", &p->area);
  if (code == TN_OK) code = image_check_range(call, "ratio", &p->ratio);
  if (code != TN_OK || r.to.n * r.to.size == 0) return code;
  code = check_pixels(call, &r.from);
  return code == TN_OK
             ? call->host->parallel_for(call, r.to.n, 1, resize_boxes, &r)
             : code;
}
