/* SPDX-License-Identifier: Apache-2.0
 * conv_depthwise.c: convolutions with groups of one channel. An image is spread
 * out with its padding, so that adjacent windows are a vector. Each line of out
 * is then a few multiplications of lines. Matrix products of such groups would
 * have one row.
 *
 * The gradient of data is a convolution of the gradient of out, spread out by
 * the stride, with reversed windows.
 *
 * If lines of out are as long as those of data and windows are adjacent, an
 * image is copied unchanged, with zeros before and after it. An element of a
 * window is then at a fixed distance from the window's first, also across the
 * ends of lines; elements of another line are masked. So all vectors are full,
 * even for short lines.
 *
 * Windows of 3 x 3 elements around each of data read lines without a copy, each
 * line once, if lines fill vectors. Registers hold the weights, and the
 * contributions of a line to the windows around it.
 */
#include <string.h>

#include "axis.h"
#include "conv.h"
#include "lanes.h"
#include "tenon/kernel/kernel.h"

enum {
  HELD = 4,      /* lines with sums in registers */
  HELD_TAPS = 9, /* elements of a window with sums in registers */
  SLACK = 256    /* bytes after an image that may be read */
};

/* Layout of an image that is spread out: element (i, j) goes to line i*stuff +
 * pad, and to column j*stuff + pad. Each line contains its columns in `step`
 * phases, one after the other. */
typedef struct spread {
  int64_t from_rows;
  int64_t from_columns;
  nn_range inside; /* columns that are not omitted */
  int64_t stuff[2];
  int64_t pad[2];
  int64_t rows;
  int64_t step;
  int64_t phase; /* columns of one */
  int64_t pitch; /* elements of a line */
} spread;

/* A loop over the lines of an image of out, with its inputs and outputs. */
typedef struct lines {
  const void *from; /* spread out */
  void *to;         /* out; or the gradient of out, which is read */
  const void *weight;
  double bias;
  void *sums; /* for each element of the window, a vector */
  const int64_t *offset;
  int64_t taps;
  int64_t rows;
  int64_t columns;
  int64_t down; /* elements from the first line of a window to the next one's */
  int three;    /* windows of 3 x 3 elements side by side */
  int64_t wide; /* elements of a window's line, when counted across lines */
  const void *inside; /* for each of them, masks of the columns that contain
                       * it */
  int64_t apart;      /* elements from one's masks to the next one's */
  int64_t first;      /* of the taps, if they are not all */
  int around;         /* lines are read in place */
  int turned;         /* reversed */
  int add;
} lines;

#define NN_EACH "conv_depthwise_rows.h"
#include "each.h"

/* ------------------------------------------------------------------- plans */

typedef struct plan {
  const nn_conv *conv;
  const nn_conv_arrays *arrays;
  int add;
  int flat;      /* images are copied unchanged */
  int64_t front; /* zeros before an image, and the same number after it */
  spread spread;
  lines lines; /* without arrays */
  int64_t *offset;
  nn_lanes lanes;
} plan;

/* Elements of an image that is spread out, or copied. */
static int64_t spread_size(const plan *p) {
  const spread *s = &p->spread;
  if (p->flat) return s->from_rows * s->from_columns + 2 * p->front;
  return s->rows * s->pitch;
}

/* Of data, for windows of data; or of the gradient of out, for the gradient of
 * data. */
static spread spread_of(const nn_conv *c, int pass) {
  const nn_window *w = &c->window;
  const int back = pass == NN_CONV_DATA;
  const int64_t *from = back ? w->out : w->in, *to = back ? w->in : w->out;
  spread s = {.from_rows = from[1],
              .from_columns = from[2],
              .step = back ? 1 : w->stride[2]};
  int64_t size[2];
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = w->dilate[d + 1] * (w->kernel[d + 1] - 1);
    const int64_t step = back ? 1 : w->stride[d + 1];
    s.stuff[d] = back ? w->stride[d + 1] : 1;
    s.pad[d] = back ? reach - w->pad[d + 1] : w->pad[d + 1];
    size[d] = (to[d + 1] - 1) * step + reach + 1;
  }
  s.rows = size[0];
  s.phase = (size[1] + s.step - 1) / s.step;
  s.pitch = s.step * s.phase;
  s.inside.begin =
      nn_least(nn_most(nn_ceil_div(-s.pad[1], s.stuff[1]), 0), s.from_columns);
  s.inside.end =
      nn_least(nn_ceil_div(size[1] - s.pad[1], s.stuff[1]), s.from_columns);
  s.inside.end = nn_most(s.inside.end, s.inside.begin);
  return s;
}

/* Of a vector, at the call's level. */
static int64_t vector_bytes(const nn_conv *c) {
  return 16 << c->level;
}

/* Whether an element of a window has the same distance from its first in all
 * windows, when these are counted across the ends of lines. */
static int is_flat(const nn_conv *c) {
  const nn_window *w = &c->window;
  for (int d = 1; d < 3; ++d)
    if (w->stride[d] != 1 || w->pad[d] > w->dilate[d] * (w->kernel[d] - 1))
      return 0;
  return w->in[2] == w->out[2];
}

static void set_offsets(const plan *p, int turned) {
  const nn_window *w = &p->conv->window;
  const spread *s = &p->spread;
  for (int64_t t = 0; t < p->conv->taps; ++t) {
    const int64_t i = turned ? p->conv->taps - 1 - t : t;
    const int64_t y = i / w->kernel[2] * w->dilate[1];
    const int64_t x = i % w->kernel[2] * w->dilate[2];
    if (p->flat)
      p->offset[t] = p->front + (y - s->pad[0]) * w->in[2] + (x - s->pad[1]);
    else
      p->offset[t] = y * s->pitch + x % s->step * s->phase + x / s->step;
  }
}

/* Masks of columns from `x` on: whether element k of a window's line is no
 * padding. */
static void mask_columns(const plan *p, char *masks, int64_t k, nn_range x) {
  const nn_window *w = &p->conv->window;
  const int64_t bytes = p->conv->bytes;
  for (int64_t i = x.begin; i < x.end; ++i, masks += bytes) {
    const int64_t at = i % w->in[2] + k * w->dilate[2] - w->pad[2];
    memset(masks, at >= 0 && at < w->in[2] ? 0xff : 0, (size_t)bytes);
  }
}

/* For each vector of a line that is read in place: masks of the three elements
 * of a window's line, and of the columns that the vector before does not
 * contain. Sums of products must use each column once. */
static void mask_vectors(const plan *p, char *masks, int pass) {
  const int64_t bytes = vector_bytes(p->conv), columns = p->lines.columns;
  const int64_t lanes = bytes / p->conv->bytes;
  for (int64_t x = 0; x < columns; x += lanes, masks += 4 * bytes) {
    const int64_t at = nn_least(x, columns - lanes);
    const size_t old = (size_t)((x - at) * p->conv->bytes);
    memset(masks + 3 * bytes, 0xff, (size_t)bytes);
    memset(masks + 3 * bytes, 0, old);
    for (int64_t k = 0; k < 3; ++k) {
      mask_columns(p, masks + k * bytes, k, (nn_range){at, at + lanes});
      if (pass == NN_CONV_WEIGHT) memset(masks + k * bytes, 0, old);
    }
  }
}

static void set_masks(const plan *p, char *masks, int pass) {
  if (p->lines.around)
    mask_vectors(p, masks, pass);
  else
    for (int64_t k = 0; k < p->lines.wide; ++k)
      mask_columns(p, masks + k * p->lines.apart * p->conv->bytes, k,
                   (nn_range){0, p->lines.apart});
}

static plan plan_of(const nn_conv *c, int pass) {
  const nn_window *w = &c->window;
  const int back = pass == NN_CONV_DATA;
  plan p = {.conv = c, .flat = is_flat(c), .spread = spread_of(c, pass)};
  p.lines = (lines){.taps = c->taps,
                    .rows = back ? w->in[1] : w->out[1],
                    .columns = back ? w->in[2] : w->out[2],
                    .down = p.spread.pitch * (back ? 1 : w->stride[1]),
                    .turned = back};
  p.lines.three = w->kernel[1] == 3 && w->kernel[2] == 3 && w->dilate[1] == 1 &&
                  w->dilate[2] == 1 &&
                  (back || (w->stride[1] == 1 && w->stride[2] == 1));
  if (p.flat) {
    p.front = nn_up(p.spread.pad[0] * w->in[2] + p.spread.pad[1], 16);
    p.lines.wide = w->kernel[2];
    p.lines.apart = w->in[2] + HELD * 64 / c->bytes;
    p.lines.around = p.lines.three && w->pad[1] == 1 && w->in[1] == w->out[1] &&
                     w->in[2] >= vector_bytes(c) / c->bytes;
  }
  p.lanes.bytes = (uint64_t)(spread_size(&p) * c->bytes) + SLACK;
  if (pass == NN_CONV_WEIGHT)
    p.lanes.bytes += (uint64_t)(c->filters * c->taps) * 64;
  p.lanes.bytes = (p.lanes.bytes + 63) / 64 * 64;
  p.lanes.n =
      nn_lanes_for(pass == NN_CONV_WEIGHT ? c->groups : c->images * c->groups);
  return p;
}

static uint64_t offsets_bytes(const nn_conv *c) {
  return ((uint64_t)c->taps * sizeof(int64_t) + 63) / 64 * 64;
}

static uint64_t masks_bytes(const plan *p) {
  const nn_conv *c = p->conv;
  const int64_t line = c->window.in[2] * c->bytes;
  if (p->lines.around) return (uint64_t)(4 * nn_up(line, 64));
  return (uint64_t)nn_up(p->lines.wide * p->lines.apart * c->bytes, 64);
}

static uint64_t room_of(const nn_conv *c, int pass) {
  const plan p = plan_of(c, pass);
  return offsets_bytes(c) + masks_bytes(&p) + p.lanes.n * p.lanes.bytes;
}

/* ------------------------------------------------------------------ slices */

/* Element i of an array. */
static char *element_at(const nn_conv *c, char *array, int64_t i) {
  return array + i * c->bytes;
}

static const nn_loops spreads = NN_LOOPS(spread);
static const nn_loops all_lines = NN_LOOPS(all_lines);
static const nn_loops all_products = NN_LOOPS(all_products);
static const nn_loops gathers = NN_LOOPS(gather);

static void run_loop(const nn_conv *c, const nn_loops *loops,
                     const void *params, void *out, const void *in) {
  const tn_kernel_block block = {.out = out, .in = {in}};
  nn_loop_run(&(tn_kernel_mode){.compute = c->dtype, .level = c->level}, loops,
              &block, params);
}

/* Number of images, each of one channel or of one filter. */
static int64_t images_of(const plan *p, int back) {
  const nn_conv *c = p->conv;
  return c->images * c->groups * (back ? c->filters : 1);
}

/* Image `i` of an array for the loops: spread out in `lane`, or in place. At an
 * end of the array it is copied, because vectors read beyond it. */
static const char *image_of(const plan *p, const char *array, int64_t i,
                            char *lane) {
  const spread *s = &p->spread;
  const int64_t bytes = p->conv->bytes, size = s->from_rows * s->from_columns;
  const char *from = array + i * size * bytes;
  if (p->lines.around && i > 0 && i + 1 < images_of(p, p->lines.turned))
    return from;
  if (p->flat)
    memcpy(lane + p->front * bytes, from, (size_t)(size * bytes));
  else
    run_loop(p->conv, &spreads, s, lane, from);
  return p->lines.around ? lane + p->front * bytes : lane;
}

/* Sets the margins before and after images to zero; they stay zero. */
static void clear_margins(const plan *p, char *lane) {
  const int64_t bytes = p->conv->bytes;
  const int64_t front = p->flat ? p->front * bytes : 0;
  memset(lane, 0, (size_t)front);
  memset(lane + spread_size(p) * bytes - front, 0, (size_t)front + SLACK);
}

static double bias_at(const nn_conv *c, const char *bias, int64_t k) {
  if (!bias) return 0;
  return c->dtype == TN_F32 ? (double)((const float *)(const void *)bias)[k]
                            : ((const double *)(const void *)bias)[k];
}

/* Computes the images of a channel's filters from its image. */
static void forward_one(const plan *p, int64_t image, char *lane) {
  const nn_conv *c = p->conv;
  const int64_t first = image % c->groups * c->filters;
  lines l = p->lines;
  l.from = image_of(p, p->arrays->data, image, lane);
  l.add = p->add;
  for (int64_t k = 0; k < c->filters; ++k) {
    l.weight = element_at(c, p->arrays->weight, (first + k) * c->taps);
    l.bias = bias_at(c, p->arrays->bias, first + k);
    l.to =
        element_at(c, p->arrays->out, (image * c->filters + k) * c->out_size);
    run_loop(c, &all_lines, &l, NULL, NULL);
    nn_conv_finish(c, l.to, c->out_size);
  }
}

/* Computes the gradient of a channel from the gradients of its filters. */
static void data_one(const plan *p, int64_t image, char *lane) {
  const nn_conv *c = p->conv;
  const int64_t first = image % c->groups * c->filters;
  lines l = p->lines;
  l.add = p->add;
  l.to = element_at(c, p->arrays->data, image * c->in_size);
  for (int64_t k = 0; k < c->filters; ++k, l.add = 1) {
    l.from = image_of(p, p->arrays->out, image * c->filters + k, lane);
    l.weight = element_at(c, p->arrays->weight, (first + k) * c->taps);
    run_loop(c, &all_lines, &l, NULL, NULL);
  }
}

/* Computes the gradients of the weights of a channel's filters, from all
 * images. */
static void weight_one(const plan *p, int64_t group, char *lane) {
  const nn_conv *c = p->conv;
  const uint64_t spread_bytes =
      p->lanes.bytes - (uint64_t)(c->filters * c->taps) * 64;
  lines l = p->lines;
  char *sums = lane + spread_bytes / 64 * 64;
  l.add = p->add;
  memset(sums, 0, (size_t)(c->filters * c->taps) * 64);
  for (int64_t i = 0; i < c->images; ++i) {
    const int64_t image = i * c->groups + group;
    l.from = image_of(p, p->arrays->data, image, lane);
    for (int64_t k = 0; k < c->filters; ++k) {
      l.to =
          element_at(c, p->arrays->out, (image * c->filters + k) * c->out_size);
      l.sums = sums + k * c->taps * 64;
      run_loop(c, &all_products, &l, NULL, NULL);
    }
  }
  for (int64_t k = 0; k < c->filters; ++k) {
    char *to =
        element_at(c, p->arrays->weight, (group * c->filters + k) * c->taps);
    l.sums = sums + k * c->taps * 64;
    run_loop(c, &gathers, &l, to, NULL);
  }
}

typedef void one_fn(const plan *p, int64_t i, char *lane);

static int32_t run_slice(plan *p, one_fn *one, nn_range range) {
  const uint32_t lane = nn_lanes_take(&p->lanes);
  char *room = nn_lanes_at(&p->lanes, lane);
  clear_margins(p, room);
  for (int64_t i = range.begin; i < range.end; ++i) one(p, i, room);
  nn_lanes_give(&p->lanes, lane);
  return TN_OK;
}

static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, forward_one, (nn_range){begin, end});
}

static int32_t data_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, data_one, (nn_range){begin, end});
}

static int32_t weight_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, weight_one, (nn_range){begin, end});
}

/* ------------------------------------------------------------------ passes */

/* `n` slices, each with work for `each` elements. */
typedef struct slices {
  tn_loop_body *body;
  int64_t n;
  int64_t each;
} slices;

static int32_t run_plan(plan *p, int pass, slices some) {
  const nn_conv *c = p->conv;
  p->offset = (int64_t *)(void *)c->room;
  p->lines.offset = p->offset;
  char *masks = c->room + offsets_bytes(c);
  p->lines.inside = masks;
  p->lanes.room = masks + masks_bytes(p);
  set_offsets(p, p->lines.turned && !p->flat);
  set_masks(p, masks, pass);
  return c->call->host->parallel_for(
      c->call, some.n, nn_most(TN_KERNEL_GRAIN / nn_most(some.each, 1), 1),
      some.body, p);
}

static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *arrays,
                           int add) {
  plan p = plan_of(c, NN_CONV_FORWARD);
  p.arrays = arrays;
  p.add = add;
  return run_plan(
      &p, NN_CONV_FORWARD,
      (slices){forward_slice, c->images * c->groups, c->out_size * c->filters});
}

static int32_t to_data(const nn_conv *c, const nn_conv_arrays *arrays,
                       int add) {
  plan p = plan_of(c, NN_CONV_DATA);
  p.arrays = arrays;
  p.add = add;
  return run_plan(
      &p, NN_CONV_DATA,
      (slices){data_slice, c->images * c->groups, c->in_size * c->filters});
}

static int32_t to_weight(const nn_conv *c, const nn_conv_arrays *arrays,
                         int add) {
  plan p = plan_of(c, NN_CONV_WEIGHT);
  p.arrays = arrays;
  p.add = add;
  return run_plan(
      &p, NN_CONV_WEIGHT,
      (slices){weight_slice, c->groups, c->images * c->out_size * c->filters});
}

const nn_conv_way nn_conv_depthwise = {room_of,
                                       {run_forward, to_data, to_weight}};
