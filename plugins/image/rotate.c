/* SPDX-License-Identifier: Apache-2.0
 * rotate.c: image.rotate. For each pixel of the result it computes the place in
 * the image that it comes from.
 */
#include <math.h>

#include "crop.gen.h"
#include "tenon/kernel/kernel.h"
#include "view.h"

enum { ROWS = 16 /* of a slice */ };

/* One call. */
typedef struct rotation {
  const tn_frame *call;
  const image_rotate_params *p;
  image_view from, to;
  double cosine, sine; /* of the turn back */
} rotation;

static float read_element(const image_view *v, int64_t i) {
  if (v->item == 1) return (float)((const uint8_t *)v->data)[i];
  return ((const float *)(const void *)v->data)[i];
}

static void write_element(const image_view *v, int64_t i, float x) {
  if (v->item == 1) {
    const float whole = nearbyintf(x > 255 ? 255 : x > 0 ? x : 0);
    ((uint8_t *)v->data)[i] = (uint8_t)whole;
  } else {
    ((float *)(void *)v->data)[i] = x;
  }
}

static bool is_inside(const image_view *v, double x, double y) {
  return x >= 0 && y >= 0 && x < (double)v->width && y < (double)v->height;
}

static void write_nearest(const rotation *r, int64_t image, int64_t to,
                          double x, double y) {
  const int64_t channels = r->from.channels;
  const double column = nearbyint(x), row = nearbyint(y);
  const bool has = is_inside(&r->from, column, row);
  const int64_t at =
      has ? image * r->from.size +
                ((int64_t)row * r->from.width + (int64_t)column) * channels
          : 0;
  for (int64_t c = 0; c < channels; ++c)
    write_element(&r->to, to + c,
                  has ? read_element(&r->from, at + c)
                      : (float)image_list_value(&r->p->fill, c, 0));
}

/* Four pixels with weights; those outside are the filling. */
static void write_bilinear(const rotation *r, int64_t image, int64_t to,
                           double x, double y) {
  const int64_t channels = r->from.channels;
  const double left = floor(x), top = floor(y);
  const float u = (float)(x - left), v = (float)(y - top);
  const float weights[] = {(1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v};
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = (float)image_list_value(&r->p->fill, c, 0);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      const double column = left + (k & 1), row = top + (k >> 1);
      float pixel = fill;
      if (is_inside(&r->from, column, row))
        pixel = read_element(
            &r->from,
            image * r->from.size +
                ((int64_t)row * r->from.width + (int64_t)column) * channels +
                c);
      sum += weights[k] * pixel;
    }
    write_element(&r->to, to + c, sum);
  }
}

/* Rows of all images, numbered through. */
static int32_t rotate_rows(void *arg, int64_t begin, int64_t end) {
  const rotation *r = (const rotation *)arg;
  const double middle_x = (double)r->to.width / 2 - 0.5;
  const double middle_y = (double)r->to.height / 2 - 0.5;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / r->to.height;
    const double v = (double)(row % r->to.height) - middle_y;
    for (int64_t column = 0; column < r->to.width; ++column) {
      const double u = (double)column - middle_x;
      const double x = r->cosine * u + r->sine * v + middle_x;
      const double y = r->cosine * v - r->sine * u + middle_y;
      const int64_t to = (row * r->to.width + column) * r->to.channels;
      if (r->p->filter == IMAGE_ROTATE_FILTER_NEAREST)
        write_nearest(r, image, to, x, y);
      else
        write_bilinear(r, image, to, x, y);
    }
  }
  return TN_OK;
}

int32_t image_rotate(const tn_frame *call) {
  const image_rotate_params *p = image_rotate_params_of(call);
  const double turn = -p->angle * (3.14159265358979323846 / 180);
  rotation r = {.call = call,
                .p = p,
                .from = image_view_of(&call->in[0]),
                .to = image_view_of(&call->out[0]),
                .cosine = cos(turn),
                .sine = sin(turn)};
  const int32_t code =
      image_check_list(call, "fill", p->fill.n, r.from.channels);
  if (code != TN_OK || r.to.n * r.to.size == 0) return code;
  return call->host->parallel_for(call, r.to.n * r.to.height, ROWS, rotate_rows,
                                  &r);
}
