/* SPDX-License-Identifier: Apache-2.0
 * color_jitter.c: image.color_jitter. An image has the same changes at all of
 * its pixels; only its mean grey needs all of them first. Numbers are computed
 * as torchvision computes them for tensors.
 */
#include <math.h>
#include <string.h>

#include "color.gen.h"
#include "dice.h"
#include "view.h"

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, CHANGES };

/* One call. */
typedef struct jitter {
  const tn_frame *call;
  const tn_floats *ranges[CHANGES];
  image_view from, to;
} jitter;

static int32_t is_used(const jitter *j, int change) {
  const double neutral = change == HUE ? 0 : 1;
  const tn_floats *range = j->ranges[change];
  return range->v[0] != neutral || range->v[1] != neutral;
}

/* Draws the factor of each change, and their order, one of 24. */
static void draw_changes(const jitter *j, int64_t i, float factors[CHANGES],
                         int order[CHANGES]) {
  const image_dice dice = image_call_dice(j->call, i);
  const tn_kernel_bits bits = image_roll(&dice, 0);
  uint32_t number = image_roll(&dice, 1).word[0] % 24;
  for (int k = 0; k < CHANGES; ++k) {
    const tn_floats *range = j->ranges[k];
    factors[k] = (float)image_between(bits.word[k], range->v[0], range->v[1]);
    order[k] = k;
  }
  for (int k = CHANGES - 1; k > 0; --k) {
    const uint32_t choices = (uint32_t)k + 1, other = number % choices;
    const int last = order[k];
    order[k] = order[other];
    order[other] = last;
    number /= choices;
  }
}

/* ------------------------------------------------------------------- pixels */

static float clip_number(float x, float most) {
  return x < 0 ? 0 : x > most ? most : x;
}

/* Bytes are numbers from 0 to 255, rounded down. */
typedef struct sample_form {
  float most;
  bool is_byte;
} sample_form;

static float round_sample(float x, const sample_form *form) {
  const float bounded = clip_number(x, form->most);
  if (!form->is_byte) return bounded;
  return bounded > 0 ? truncf(bounded) : 0; /* NaN is no byte */
}

static float find_grey(const float *p, int64_t channels,
                       const sample_form *form) {
  if (channels == 1) return p[0];
  const float grey = 0.2989f * p[0] + 0.587f * p[1] + 0.114f * p[2];
  return form->is_byte ? truncf(grey) : grey;
}

static void to_hsv(const float rgb[3], float hsv[3]) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b));
  const float range = most - least;
  const float divisor = most == least ? 1 : range;
  const float x = (most - r) / divisor, y = (most - g) / divisor,
              z = (most - b) / divisor;
  const float h = most == r ? z - y : most == g ? 2 + x - z : 4 + y - x;
  hsv[0] = fmodf(h / 6 + 1, 1);
  hsv[1] = range / (most == least ? 1 : most);
  hsv[2] = most;
}

static void to_rgb(const float hsv[3], float rgb[3]) {
  const float whole = floorf(hsv[0] * 6), f = hsv[0] * 6 - whole;
  const float s = hsv[1], v = hsv[2];
  const float p = clip_number(v * (1 - s), 1),
              q = clip_number(v * (1 - s * f), 1),
              t = clip_number(v * (1 - s * (1 - f)), 1);
  const float all[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                           {p, q, v}, {t, p, v}, {v, p, q}};
  const int sector = whole >= 0 && whole < 6 ? (int)whole : 0; /* NaN: 0 */
  memcpy(rgb, all[sector], sizeof all[0]);
}

static void turn_hue(float *p, float turns, const sample_form *form) {
  float rgb[3], hsv[3];
  for (int c = 0; c < 3; ++c) rgb[c] = form->is_byte ? p[c] / 255 : p[c];
  to_hsv(rgb, hsv);
  hsv[0] += turns;
  hsv[0] -= floorf(hsv[0]);
  to_rgb(hsv, rgb);
  for (int c = 0; c < 3; ++c)
    p[c] = form->is_byte ? truncf(rgb[c] * 255) : rgb[c];
}

/* f*x + (1 - f)*other for the channels of a pixel. */
static void blend_pixel(float *p, int64_t channels, float f, float other,
                        const sample_form *form) {
  for (int64_t c = 0; c < channels; ++c)
    p[c] = round_sample(f * p[c] + (1 - f) * other, form);
}

/* ------------------------------------------------------------------- images */

/* The pixels of an image as numbers. */
typedef struct pixel_run {
  float *pixels;
  int64_t n, channels;
  sample_form form;
} pixel_run;

static double find_mean_grey(const pixel_run *run) {
  double sum = 0;
  for (int64_t k = 0; k < run->n; ++k)
    sum += (double)find_grey(run->pixels + k * run->channels, run->channels,
                             &run->form);
  return sum / (double)run->n;
}

static void change_image(const pixel_run *run, int change, float factor) {
  const int64_t channels = run->channels;
  float other = 0;
  if (channels == 1 && (change == SATURATION || change == HUE)) return;
  if (change == CONTRAST) other = (float)find_mean_grey(run);
  for (int64_t k = 0; k < run->n; ++k) {
    float *p = run->pixels + k * channels;
    if (change == HUE) {
      turn_hue(p, factor, &run->form);
      continue;
    }
    if (change == SATURATION) other = find_grey(p, channels, &run->form);
    blend_pixel(p, channels, factor, other, &run->form);
  }
}

static void load_pixels(const image_view *from, int64_t i, float *pixels) {
  const char *data = from->data + i * from->size * from->item;
  if (from->item != 1) {
    memcpy(pixels, data, (size_t)from->size * sizeof(float));
    return;
  }
  for (int64_t k = 0; k < from->size; ++k)
    pixels[k] = ((const uint8_t *)data)[k];
}

static void store_bytes(const image_view *to, int64_t i, const float *pixels) {
  uint8_t *data = (uint8_t *)to->data + i * to->size;
  for (int64_t k = 0; k < to->size; ++k) data[k] = (uint8_t)pixels[k];
}

static int32_t jitter_images(void *arg, int64_t begin, int64_t end) {
  const jitter *j = (const jitter *)arg;
  const bool is_byte = j->from.item == 1;
  image_instance *self = (image_instance *)j->call->instance;
  image_scratch *s = image_borrow_scratch(self);
  float *room = s && is_byte
                    ? image_reserve(&s->sums, j->from.size, sizeof(float))
                    : NULL;
  const bool has_memory = s && (room || !is_byte);
  for (int64_t i = begin; i < end && has_memory; ++i) {
    float factors[CHANGES];
    int order[CHANGES];
    const pixel_run run = {
        .pixels = is_byte ? room : (float *)(void *)image_row(&j->to, i, 0),
        .n = j->from.height * j->from.width,
        .channels = j->from.channels,
        .form = {is_byte ? 255 : 1, is_byte}};
    draw_changes(j, i, factors, order);
    load_pixels(&j->from, i, run.pixels);
    for (int k = 0; k < CHANGES; ++k)
      if (is_used(j, order[k])) change_image(&run, order[k], factors[order[k]]);
    if (is_byte) store_bytes(&j->to, i, run.pixels);
  }
  if (s) image_return_scratch(self, s);
  return has_memory
             ? TN_OK
             : TN_FAIL(j->call, TN_OUT_OF_MEMORY, "no memory for an image");
}

int32_t image_color_jitter(const tn_frame *call) {
  static const char *const names[] = {"brightness", "contrast", "saturation",
                                      "hue"};
  const image_color_jitter_params *p = image_color_jitter_params_of(call);
  jitter j = {.call = call,
              .ranges = {&p->brightness, &p->contrast, &p->saturation, &p->hue},
              .from = image_view_of(&call->in[0]),
              .to = image_view_of(&call->out[0])};
  for (int k = 0; k < CHANGES; ++k) {
    const int32_t code = image_check_range(call, names[k], j.ranges[k]);
    if (code != TN_OK) return code;
  }
  if (j.to.n * j.to.size == 0) return TN_OK;
  return call->host->parallel_for(call, j.to.n, 1, jitter_images, &j);
}
