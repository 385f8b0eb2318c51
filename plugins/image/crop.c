/* SPDX-License-Identifier: Apache-2.0
 * crop.c: image.crop with its gradient, image.random_crop, image.flip and
 * image.random_flip. They move pixels, of elements of any type.
 */
#include <string.h>

#include "crop.gen.h"
#include "dice.h"
#include "view.h"

enum { GRAIN = 16384 /* elements of a slice */ };

/* One call. */
typedef struct moving {
  const tn_frame *call;
  image_view from, to;
} moving;

static moving make_moving(const tn_frame *call) {
  return (moving){call, image_view_of(&call->in[0]),
                  image_view_of(&call->out[0])};
}

static int32_t move_images(moving *m, tn_loop_body *body) {
  if (m->to.n * m->to.size == 0) return TN_OK;
  return m->call->host->parallel_for(m->call, m->to.n,
                                     image_grain(&m->to, GRAIN), body, m);
}

/* -------------------------------------------------------------------- crop */

/* Copies the part of image i that begins at a place; pixels outside of the
 * image are 0. */
static void copy_part(const moving *m, int64_t i, int64_t top, int64_t left) {
  const int64_t pixel = m->to.channels * m->to.item;
  const int64_t before = left < 0 ? -left : 0;
  int64_t end = m->from.width - left;
  if (end > m->to.width) end = m->to.width;
  for (int64_t y = 0; y < m->to.height; ++y) {
    char *to = image_row(&m->to, i, y);
    const int64_t row = top + y;
    if (row < 0 || row >= m->from.height || end <= before) {
      memset(to, 0, (size_t)(m->to.width * pixel));
      continue;
    }
    const char *from = image_row(&m->from, i, row) + (left + before) * pixel;
    memset(to, 0, (size_t)(before * pixel));
    memcpy(to + before * pixel, from, (size_t)((end - before) * pixel));
    memset(to + end * pixel, 0, (size_t)((m->to.width - end) * pixel));
  }
}

static int32_t crop_slice(void *arg, int64_t begin, int64_t end) {
  const moving *m = (const moving *)arg;
  const image_crop_params *p = image_crop_params_of(m->call);
  for (int64_t i = begin; i < end; ++i) copy_part(m, i, p->top, p->left);
  return TN_OK;
}

int32_t image_crop(const tn_frame *call) {
  moving m = make_moving(call);
  return move_images(&m, crop_slice);
}

/* The gradient is the part at the place, and 0 around it: that is a part of it
 * that begins before its own first pixel. */
static int32_t uncrop_slice(void *arg, int64_t begin, int64_t end) {
  const moving *m = (const moving *)arg;
  const image_crop_params *p = image_crop_params_of(m->call);
  for (int64_t i = begin; i < end; ++i) copy_part(m, i, -p->top, -p->left);
  return TN_OK;
}

int32_t image_crop_backward(const tn_frame *call) {
  moving m = {call, image_view_of(&call->in[IMAGE_CROP_BACKWARD_GRAD_OUT]),
              image_view_of(&call->out[0])};
  return call->req[0] == TN_REQ_NULL ? TN_OK : move_images(&m, uncrop_slice);
}

static int32_t random_crop_slice(void *arg, int64_t begin, int64_t end) {
  const moving *m = (const moving *)arg;
  const int64_t padding = image_random_crop_params_of(m->call)->padding;
  const int64_t rows = m->from.height + 2 * padding - m->to.height + 1;
  const int64_t columns = m->from.width + 2 * padding - m->to.width + 1;
  for (int64_t i = begin; i < end; ++i) {
    const image_dice dice = image_call_dice(m->call, i);
    const tn_kernel_bits bits = image_roll(&dice, 0);
    copy_part(m, i, image_below(bits.word[0], rows) - padding,
              image_below(bits.word[1], columns) - padding);
  }
  return TN_OK;
}

int32_t image_random_crop(const tn_frame *call) {
  moving m = make_moving(call);
  return move_images(&m, random_crop_slice);
}

/* -------------------------------------------------------------------- flip */

/* Writes the pixels of a row in reverse order. */
static void reverse_row(const char *from, char *to, int64_t n, int64_t bytes) {
  if (bytes == 3) {
    for (int64_t x = 0; x < n; ++x)
      memcpy(to + 3 * x, from + 3 * (n - 1 - x), 3);
    return;
  }
  for (int64_t x = 0; x < n; ++x)
    memcpy(to + x * bytes, from + (n - 1 - x) * bytes, (size_t)bytes);
}

static void flip_image(const moving *m, int64_t i, bool across, bool down) {
  const int64_t pixel = m->to.channels * m->to.item;
  for (int64_t y = 0; y < m->to.height; ++y) {
    const char *from = image_row(&m->from, i, down ? m->to.height - 1 - y : y);
    char *to = image_row(&m->to, i, y);
    if (across)
      reverse_row(from, to, m->to.width, pixel);
    else
      memcpy(to, from, (size_t)(m->to.width * pixel));
  }
}

static int32_t flip_slice(void *arg, int64_t begin, int64_t end) {
  const moving *m = (const moving *)arg;
  const image_flip_params *p = image_flip_params_of(m->call);
  for (int64_t i = begin; i < end; ++i)
    flip_image(m, i, p->horizontal != 0, p->vertical != 0);
  return TN_OK;
}

int32_t image_flip(const tn_frame *call) {
  moving m = make_moving(call);
  return move_images(&m, flip_slice);
}

static int32_t random_flip_slice(void *arg, int64_t begin, int64_t end) {
  const moving *m = (const moving *)arg;
  const image_random_flip_params *p = image_random_flip_params_of(m->call);
  for (int64_t i = begin; i < end; ++i) {
    const image_dice dice = image_call_dice(m->call, i);
    const tn_kernel_bits bits = image_roll(&dice, 0);
    flip_image(m, i, image_happens(bits.word[0], p->horizontal),
               image_happens(bits.word[1], p->vertical));
  }
  return TN_OK;
}

int32_t image_random_flip(const tn_frame *call) {
  moving m = make_moving(call);
  return move_images(&m, random_flip_slice);
}
