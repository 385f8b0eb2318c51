/* SPDX-License-Identifier: Apache-2.0
 * conv_depthwise.c: convolutions with groups of one channel. An image is copied
 * with its padding, so that adjacent windows are a vector. Each line of out is
 * then a few multiplications of lines. Matrix products of such groups would
 * have one row.
 *
 * The gradient of data is a convolution of the output gradient with reversed
 * windows; the copy of the output gradient has gaps for the stride.
 *
 * If lines of out are as long as those of data and windows are adjacent, an
 * image is copied unchanged, with zeros before and after it. An element of a
 * window is then at a fixed distance from the window's first element, also
 * across the ends of lines; elements of another line are masked. So all vectors
 * are full, even for short lines.
 *
 * Windows of 3 x 3 elements around each element of data read lines without a
 * copy, each line once, if lines fill vectors. Registers hold the weights, and
 * the contributions of a line to the windows around it.
 */
#include <string.h>

#include "axis.h"
#include "conv.h"
#include "operands.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"

enum {
  REGISTER_SUMS = 4, /* lines, or vectors, with sums in registers at a time */
  REGISTER_TAPS = 9, /* taps with sums in registers at a time */
  SLACK = 256        /* bytes after an image that vectors may read */
};

/* Layout of a padded copy of an image: element (i, j) goes to line i*spacing[0]
 * + pad[0], and to column j*spacing[1] + pad[1]. Each line has its columns in
 * `step` phases, one after the other. */
typedef struct padded_layout {
  int64_t from_rows;
  int64_t from_columns;
  nn_range inside; /* columns of the image that are copied */
  int64_t spacing[2];
  int64_t pad[2];
  int64_t rows;
  int64_t step;
  int64_t phase; /* columns of a phase */
  int64_t pitch; /* elements of a line with all phases */
} padded_layout;

/* Arguments of the loops in conv_depthwise_rows.h, which visit the lines of one
 * image of out. */
typedef struct line_loop {
  const void *from; /* input image, as a padded copy or in place */
  void *to; /* out; in the gradient of weight the output gradient, which is read
             */
  const void *weight;
  double bias;
  void *sums; /* a vector of partial sums for each element of the window */
  const int64_t *offset;
  int64_t taps;
  int64_t rows;
  int64_t columns;
  /* Distance between the first lines of windows in adjacent lines. */
  int64_t down;
  int three;    /* windows have 3 x 3 adjacent elements */
  int64_t wide; /* elements in a line of a window, if windows are counted across
                   the ends of lines; otherwise 0 */
  const void *inside; /* masks: for each element of a window's line, the columns
                         in which the element is not padding */
  int64_t mask_distance; /* distance between the masks of two elements */
  /* Gradient of weight: the first tap of this run over the image. Each run sums
   * REGISTER_TAPS taps, or one. */
  int64_t first;
  int in_place; /* lines are read without a copy */
  int reversed; /* the pass is the gradient of data, so windows are reversed */
  int add;
} line_loop;

#define NN_EACH "conv_depthwise_rows.h"
#include "each.h"

/* ------------------------------------------------------------------- plans */

typedef struct plan {
  const nn_conv *conv;
  const nn_conv_arrays *arrays;
  int add;
  int flat;      /* images are copied without padding between lines */
  int64_t front; /* zeros before and after the copy of an image */
  padded_layout padded_layout;
  line_loop line_loop; /* arguments of the loops, without arrays */
  int64_t *offset;
  nn_workspaces workspaces;
} plan;

/* Returns the number of elements in the copy of an image. */
static int64_t count_layout_elements(const plan *p) {
  const padded_layout *s = &p->padded_layout;
  if (p->flat) return s->from_rows * s->from_columns + 2 * p->front;
  return s->rows * s->pitch;
}

/* Returns the layout of the copy of data; for the gradient of data, of the
 * output gradient. */
static padded_layout find_layout(const nn_conv *c, int pass) {
  const nn_window *w = &c->window;
  const int back = pass == NN_CONV_DATA;
  const int64_t *from = back ? w->out : w->in, *to = back ? w->in : w->out;
  padded_layout s = {.from_rows = from[1],
                     .from_columns = from[2],
                     .step = back ? 1 : w->stride[2]};
  int64_t size[2];
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = w->dilate[d + 1] * (w->kernel[d + 1] - 1);
    const int64_t step = back ? 1 : w->stride[d + 1];
    s.spacing[d] = back ? w->stride[d + 1] : 1;
    s.pad[d] = back ? reach - w->pad[d + 1] : w->pad[d + 1];
    size[d] = (to[d + 1] - 1) * step + reach + 1;
  }
  s.rows = size[0];
  s.phase = (size[1] + s.step - 1) / s.step;
  s.pitch = s.step * s.phase;
  s.inside.begin =
      nn_min(nn_max(nn_ceil_div(-s.pad[1], s.spacing[1]), 0), s.from_columns);
  s.inside.end =
      nn_min(nn_ceil_div(size[1] - s.pad[1], s.spacing[1]), s.from_columns);
  s.inside.end = nn_max(s.inside.end, s.inside.begin);
  return s;
}

/* Returns the bytes of a vector at the call's level. */
static int64_t count_vector_bytes(const nn_conv *c) {
  return 16 << c->level;
}

/* Tests whether windows may be counted across the ends of lines: an element of
 * a window has the same distance from the first one in all windows. */
static int is_flat(const nn_conv *c) {
  const nn_window *w = &c->window;
  for (int d = 1; d < 3; ++d)
    if (w->stride[d] != 1 || w->pad[d] > w->dilate[d] * (w->kernel[d] - 1))
      return 0;
  return w->in[2] == w->out[2];
}

/* Sets offset[t] to the position of tap t of the first window in the copy. */
static void set_offsets(const plan *p, int reversed) {
  const nn_window *w = &p->conv->window;
  const padded_layout *s = &p->padded_layout;
  for (int64_t t = 0; t < p->conv->taps; ++t) {
    const int64_t i = reversed ? p->conv->taps - 1 - t : t;
    const int64_t y = i / w->kernel[2] * w->dilate[1];
    const int64_t x = i % w->kernel[2] * w->dilate[2];
    if (p->flat)
      p->offset[t] = p->front + (y - s->pad[0]) * w->in[2] + (x - s->pad[1]);
    else
      p->offset[t] = y * s->pitch + x % s->step * s->phase + x / s->step;
  }
}

/* Sets masks of columns `x`: all bits are 1 if element k of a window's line is
 * no padding. */
static void mask_columns(const plan *p, char *masks, int64_t k, nn_range x) {
  const nn_window *w = &p->conv->window;
  const int64_t bytes = p->conv->bytes;
  for (int64_t i = x.begin; i < x.end; ++i, masks += bytes) {
    const int64_t at = i % w->in[2] + k * w->dilate[2] - w->pad[2];
    memset(masks, at >= 0 && at < w->in[2] ? 0xff : 0, (size_t)bytes);
  }
}

/* Sets four masks for each vector of a line that is read in place: of the three
 * elements of a window's line, and of the columns that the vector before does
 * not contain. Sums of products must use each column once. */
static void mask_vectors(const plan *p, char *masks, int pass) {
  const int64_t bytes = count_vector_bytes(p->conv),
                columns = p->line_loop.columns;
  const int64_t lanes = bytes / p->conv->bytes;
  for (int64_t x = 0; x < columns; x += lanes, masks += 4 * bytes) {
    const int64_t at = nn_min(x, columns - lanes);
    const size_t old = (size_t)((x - at) * p->conv->bytes);
    memset(masks + 3 * bytes, 0xff, (size_t)bytes);
    memset(masks + 3 * bytes, 0, old);
    for (int64_t k = 0; k < 3; ++k) {
      mask_columns(p, masks + k * bytes, k, (nn_range){at, at + lanes});
      if (pass == NN_CONV_WEIGHT) memset(masks + k * bytes, 0, old);
    }
  }
}

/* Sets the masks that exclude padding from windows. */
static void set_masks(const plan *p, char *masks, int pass) {
  if (p->line_loop.in_place)
    mask_vectors(p, masks, pass);
  else
    for (int64_t k = 0; k < p->line_loop.wide; ++k)
      mask_columns(p, masks + k * p->line_loop.mask_distance * p->conv->bytes,
                   k, (nn_range){0, p->line_loop.mask_distance});
}

/* Returns the plan of a pass (NN_CONV_*), without arrays and workspace. */
static plan make_plan(const nn_conv *c, int pass) {
  const nn_window *w = &c->window;
  const int back = pass == NN_CONV_DATA;
  plan p = {
      .conv = c, .flat = is_flat(c), .padded_layout = find_layout(c, pass)};
  p.line_loop =
      (line_loop){.taps = c->taps,
                  .rows = back ? w->in[1] : w->out[1],
                  .columns = back ? w->in[2] : w->out[2],
                  .down = p.padded_layout.pitch * (back ? 1 : w->stride[1]),
                  .reversed = back};
  p.line_loop.three = w->kernel[1] == 3 && w->kernel[2] == 3 &&
                      w->dilate[1] == 1 && w->dilate[2] == 1 &&
                      (back || (w->stride[1] == 1 && w->stride[2] == 1));
  if (p.flat) {
    p.front = nn_round_up(
        p.padded_layout.pad[0] * w->in[2] + p.padded_layout.pad[1], 16);
    p.line_loop.wide = w->kernel[2];
    p.line_loop.mask_distance = w->in[2] + REGISTER_SUMS * 64 / c->bytes;
    p.line_loop.in_place = p.line_loop.three && w->pad[1] == 1 &&
                           w->in[1] == w->out[1] &&
                           w->in[2] >= count_vector_bytes(c) / c->bytes;
  }
  p.workspaces.bytes = (uint64_t)(count_layout_elements(&p) * c->bytes) + SLACK;
  if (pass == NN_CONV_WEIGHT)
    p.workspaces.bytes += (uint64_t)(c->filters * c->taps) * 64;
  p.workspaces.bytes = (p.workspaces.bytes + 63) / 64 * 64;
  p.workspaces.n = nn_choose_workspace_count(
      pass == NN_CONV_WEIGHT ? c->groups : c->images * c->groups);
  return p;
}

/* Returns the bytes of workspace for the offsets of all taps. */
static uint64_t count_offset_bytes(const nn_conv *c) {
  return ((uint64_t)c->taps * sizeof(int64_t) + 63) / 64 * 64;
}

/* Returns the bytes of workspace for the masks of one line. */
static uint64_t count_mask_bytes(const plan *p) {
  const nn_conv *c = p->conv;
  const int64_t line = c->window.in[2] * c->bytes;
  if (p->line_loop.in_place) return (uint64_t)(4 * nn_round_up(line, 64));
  return (uint64_t)nn_round_up(
      p->line_loop.wide * p->line_loop.mask_distance * c->bytes, 64);
}

/* Returns the bytes of workspace for a pass (NN_CONV_*). */
static uint64_t count_workspace_bytes(const nn_conv *c, int pass) {
  const plan p = make_plan(c, pass);
  return count_offset_bytes(c) + count_mask_bytes(&p) +
         p.workspaces.n * p.workspaces.bytes;
}

/* ------------------------------------------------------------------ slices */

/* Returns the address of element i of an array. */
static char *locate_element(const nn_conv *c, char *array, int64_t i) {
  return array + i * c->bytes;
}

static const nn_loops pad_loops = NN_LOOPS(pad_image);
static const nn_loops image_loops = NN_LOOPS(compute_image);
static const nn_loops product_loops = NN_LOOPS(sum_all_products);
static const nn_loops sum_loops = NN_LOOPS(sum_lanes);

/* Runs a loop in the type and at the level of the call. */
static void run_loop(const nn_conv *c, const nn_loops *loops,
                     const void *params, void *out, const void *in) {
  const tn_kernel_block block = {.out = out, .in = {in}};
  nn_run_loop(&(tn_kernel_mode){.compute = c->dtype, .level = c->level}, loops,
              &block, params);
}

/* Returns the number of images: of one channel each, or of one filter each if
 * `back`. */
static int64_t count_images(const plan *p, int back) {
  const nn_conv *c = p->conv;
  return c->images * c->groups * (back ? c->filters : 1);
}

/* Returns image `i` of an array for the loops: as a padded copy in the
 * workspace, or in place. The first and last image are copied, because vectors
 * read beyond their ends. */
static const char *prepare_image(const plan *p, const char *array, int64_t i,
                                 char *workspace) {
  const padded_layout *s = &p->padded_layout;
  const int64_t bytes = p->conv->bytes, size = s->from_rows * s->from_columns;
  const char *from = array + i * size * bytes;
  if (p->line_loop.in_place && i > 0 &&
      i + 1 < count_images(p, p->line_loop.reversed))
    return from;
  if (p->flat)
    memcpy(workspace + p->front * bytes, from, (size_t)(size * bytes));
  else
    run_loop(p->conv, &pad_loops, s, workspace, from);
  return p->line_loop.in_place ? workspace + p->front * bytes : workspace;
}

/* Sets the margins before and after images to zero; they stay zero. */
static void clear_margins(const plan *p, char *workspace) {
  const int64_t bytes = p->conv->bytes;
  const int64_t front = p->flat ? p->front * bytes : 0;
  memset(workspace, 0, (size_t)front);
  memset(workspace + count_layout_elements(p) * bytes - front, 0,
         (size_t)front + SLACK);
}

/* Returns the bias of filter k; 0 if there is no bias. */
static double read_bias(const nn_conv *c, const char *bias, int64_t k) {
  return bias ? nn_operands_get(c->dtype, bias, k) : 0;
}

/* Computes the output images of a channel's filters from the channel's image.
 */
static void compute_forward_image(const plan *p, int64_t image,
                                  char *workspace) {
  const nn_conv *c = p->conv;
  const int64_t first = image % c->groups * c->filters;
  line_loop l = p->line_loop;
  l.from = prepare_image(p, p->arrays->data, image, workspace);
  l.add = p->add;
  for (int64_t k = 0; k < c->filters; ++k) {
    l.weight = locate_element(c, p->arrays->weight, (first + k) * c->taps);
    l.bias = read_bias(c, p->arrays->bias, first + k);
    l.to = locate_element(c, p->arrays->out,
                          (image * c->filters + k) * c->out_size);
    run_loop(c, &image_loops, &l, NULL, NULL);
    nn_conv_run_after(c, l.to, c->out_size);
  }
}

/* Computes the gradient of a channel from the gradients of its filters. */
static void compute_data_image(const plan *p, int64_t image, char *workspace) {
  const nn_conv *c = p->conv;
  const int64_t first = image % c->groups * c->filters;
  line_loop l = p->line_loop;
  l.add = p->add;
  l.to = locate_element(c, p->arrays->data, image * c->in_size);
  for (int64_t k = 0; k < c->filters; ++k, l.add = 1) {
    l.from =
        prepare_image(p, p->arrays->out, image * c->filters + k, workspace);
    l.weight = locate_element(c, p->arrays->weight, (first + k) * c->taps);
    run_loop(c, &image_loops, &l, NULL, NULL);
  }
}

/* Computes the gradients of the weights of a channel's filters from all images.
 */
static void compute_weight_group(const plan *p, int64_t group,
                                 char *workspace) {
  const nn_conv *c = p->conv;
  const uint64_t layout_bytes =
      p->workspaces.bytes - (uint64_t)(c->filters * c->taps) * 64;
  line_loop l = p->line_loop;
  char *sums = workspace + layout_bytes / 64 * 64;
  l.add = p->add;
  memset(sums, 0, (size_t)(c->filters * c->taps) * 64);
  for (int64_t i = 0; i < c->images; ++i) {
    const int64_t image = i * c->groups + group;
    l.from = prepare_image(p, p->arrays->data, image, workspace);
    for (int64_t k = 0; k < c->filters; ++k) {
      l.to = locate_element(c, p->arrays->out,
                            (image * c->filters + k) * c->out_size);
      l.sums = sums + k * c->taps * 64;
      run_loop(c, &product_loops, &l, NULL, NULL);
    }
  }
  for (int64_t k = 0; k < c->filters; ++k) {
    char *to = locate_element(c, p->arrays->weight,
                              (group * c->filters + k) * c->taps);
    l.sums = sums + k * c->taps * 64;
    run_loop(c, &sum_loops, &l, to, NULL);
  }
}

typedef void image_fn(const plan *p, int64_t i, char *workspace);

/* Calls `one` for each image or group in the range, with a workspace that it
 * shares. */
static int32_t run_slice(plan *p, image_fn *one, nn_range range) {
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  char *memory = nn_locate_workspace(&p->workspaces, slot);
  clear_margins(p, memory);
  for (int64_t i = range.begin; i < range.end; ++i) one(p, i, memory);
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Computes images [begin, end) of a forward pass. */
static int32_t forward_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, compute_forward_image, (nn_range){begin, end});
}

/* Computes images [begin, end) of the gradient of data. */
static int32_t data_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, compute_data_image, (nn_range){begin, end});
}

/* Computes groups [begin, end) of the gradient of weight. */
static int32_t weight_slice(void *arg, int64_t begin, int64_t end) {
  return run_slice(arg, compute_weight_group, (nn_range){begin, end});
}

/* ------------------------------------------------------------------ passes */

/* A parallel loop over n indices, each with `each` elements to compute. */
typedef struct slice_range {
  tn_loop_body *body;
  int64_t n;
  int64_t each;
} slice_range;

/* Prepares offsets and masks for a pass (NN_CONV_*), and runs the parallel
 * loop. */
static int32_t run_plan(plan *p, int pass, slice_range range) {
  const nn_conv *c = p->conv;
  p->offset = (int64_t *)(void *)c->memory;
  p->line_loop.offset = p->offset;
  char *masks = c->memory + count_offset_bytes(c);
  p->line_loop.inside = masks;
  p->workspaces.memory = masks + count_mask_bytes(p);
  set_offsets(p, p->line_loop.reversed && !p->flat);
  set_masks(p, masks, pass);
  return c->call->host->parallel_for(
      c->call, range.n, nn_max(TN_KERNEL_GRAIN / nn_max(range.each, 1), 1),
      range.body, p);
}

/* Computes out; adds it to the old elements if `add`. */
static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *arrays,
                           int add) {
  plan p = make_plan(c, NN_CONV_FORWARD);
  p.arrays = arrays;
  p.add = add;
  return run_plan(&p, NN_CONV_FORWARD,
                  (slice_range){forward_slice, c->images * c->groups,
                                c->out_size * c->filters});
}

/* Computes the gradient of data; adds it to the old elements if `add`. */
static int32_t compute_data_gradient(const nn_conv *c,
                                     const nn_conv_arrays *arrays, int add) {
  plan p = make_plan(c, NN_CONV_DATA);
  p.arrays = arrays;
  p.add = add;
  return run_plan(&p, NN_CONV_DATA,
                  (slice_range){data_slice, c->images * c->groups,
                                c->in_size * c->filters});
}

/* Computes the gradient of weight; adds it to the old elements if `add`. */
static int32_t compute_weight_gradient(const nn_conv *c,
                                       const nn_conv_arrays *arrays, int add) {
  plan p = make_plan(c, NN_CONV_WEIGHT);
  p.arrays = arrays;
  p.add = add;
  return run_plan(&p, NN_CONV_WEIGHT,
                  (slice_range){weight_slice, c->groups,
                                c->images * c->out_size * c->filters});
}

const nn_conv_algorithm nn_conv_depthwise = {
    count_workspace_bytes,
    {run_forward, compute_data_gradient, compute_weight_gradient}};
