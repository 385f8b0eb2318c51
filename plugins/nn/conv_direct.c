/* SPDX-License-Identifier: Apache-2.0
 * conv_direct.c: convolutions of few channels, in f32, in one or two
 * dimensions. Lines of an image are multiplied directly, without a gathered
 * matrix.
 *
 * Images are copied once, with their padding. Lines and columns are sorted by
 * their remainder modulo the step of windows: each remainder is an image of its
 * own, a phase, with adjacent windows. An element of a window is then at a
 * fixed distance from the window's first, also across the ends of lines. So
 * vectors of windows may cross the ends of lines; windows across an end are
 * computed and dropped.
 *
 * The gradient of data is the same convolution with reversed windows, if their
 * step is 1. The gradient of weight has a vector of sums over lines of images
 * for each filter and element of a window, if these sums and the filters are
 * few; conv_tiles.c has the other cases. If there are as many images as a
 * vector has lanes, and their lines are short, conv_images.c computes them.
 * conv_tiles.c computes the remaining images if each element has many products.
 */
#include <string.h>

#include "conv_direct.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"

enum {
  MOST_SUMS = 1 << 13, /* the gradient of a weight with more elements is left to
                          conv_tiles.c */
  FEW = 16,   /* number of filters from which vectors of filters are faster */
  WIDE = 32,  /* has_many_products: least number of computed planes */
  DEEP = 150, /* has_many_products: least number of products of an element */
  PIECE = 1 << 17, /* bytes of a slice's copy of an image, about */
  LARGE = 3 << 18, /* PIECE in the gradient of weight, where each slice adds its
                      sums once */
  SLACK = 128      /* elements after the last one that vectors may read */
};

/* ---------------------------------------------------------------- geometry */

/* The layout of planes with zeros around them. A copy has some of their lines,
 * sorted by phases. */
typedef struct padded_planes {
  int64_t n;
  int64_t in[2];    /* lines and columns without zeros */
  int64_t shift[2]; /* zeros before the first line or column; below 0: number of
                       lines or columns that are dropped */
  int64_t step[2];  /* number of phases along both dimensions */
  int64_t pitch;    /* columns of a phase in the copy */
  int64_t rows;     /* lines of a phase in the copy */
} padded_planes;

/* Returns the number of elements in the copy of a plane. */
static int64_t count_plane_elements(const padded_planes *p) {
  return p->step[0] * p->step[1] * p->rows * p->pitch;
}

/* Copies n elements, length <= n <= 2 * length, as two parts that may overlap.
 */
static inline __attribute__((always_inline)) void copy_ends(float *to,
                                                            const float *from,
                                                            int64_t n,
                                                            const int length) {
  memcpy(to, from, (size_t)length * sizeof *to);
  memcpy(to + n - length, from + n - length, (size_t)length * sizeof *to);
}

/* Copies a line inline: lines are too short for a call of the library. */
static inline void copy_line(float *to, const float *from, int64_t n) {
  enum { MOST = 16 };
  for (; n >= 2 * MOST; n -= MOST, to += MOST, from += MOST)
    memcpy(to, from, MOST * sizeof *to);
  if (n >= MOST)
    copy_ends(to, from, n, MOST);
  else if (n >= MOST / 2)
    copy_ends(to, from, n, MOST / 2);
  else if (n >= MOST / 4)
    copy_ends(to, from, n, MOST / 4);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

/* Sets n floats to 0. */
static inline void clear_line(float *to, int64_t n) {
  static const float zeros[16];
  for (; n > 16; n -= 16, to += 16) memcpy(to, zeros, sizeof zeros);
  copy_line(to, zeros, n);
}

/* The columns of a phase: the first one, which may be before the start of a
 * line, and the range of those inside the line. */
typedef struct phase_columns {
  int64_t at;
  nn_range inside;
} phase_columns;

/* Returns the columns of a phase. */
static phase_columns find_phase_columns(const padded_planes *p, int64_t phase) {
  const int64_t step = p->step[1], at = phase % step - p->shift[1];
  const int64_t last = nn_ceil_div(p->in[1] - at, step);
  phase_columns c = {.at = at};
  c.inside.begin = nn_min(nn_max(nn_ceil_div(-at, step), 0), p->pitch);
  c.inside.end = nn_max(nn_min(last, p->pitch), c.inside.begin);
  return c;
}

/* Copies the columns of one phase of a line, with zeros in padding. */
static void copy_columns(const padded_planes *p, const phase_columns *c,
                         const float *line, float *to) {
  const int64_t step = p->step[1], begin = c->inside.begin, end = c->inside.end;
  clear_line(to, begin);
  if (step == 1)
    copy_line(to + begin, line + c->at + begin, end - begin);
  else if (step == 2)
    for (int64_t i = begin; i < end; ++i) to[i] = line[c->at + 2 * i];
  else
    for (int64_t i = begin; i < end; ++i) to[i] = line[c->at + step * i];
  clear_line(to + end, p->pitch - end);
}

/* Copies `lines` lines of all phases of a plane from number `line` on, with
 * zeros around them. */
static void copy_plane(const padded_planes *p, const float *from, float *to,
                       int64_t line, int64_t lines) {
  for (int64_t phase = 0; phase < p->step[0] * p->step[1]; ++phase) {
    const phase_columns c = find_phase_columns(p, phase);
    float *row = to + phase * p->rows * p->pitch;
    int64_t i = line * p->step[0] + phase / p->step[1] - p->shift[0];
    for (int64_t y = 0; y < lines; ++y, i += p->step[0], row += p->pitch) {
      if (i < 0 || i >= p->in[0])
        clear_line(row, p->pitch);
      else
        copy_columns(p, &c, from + i * p->in[1], row);
    }
  }
}

/* Copies `lines` lines from `line` on of all planes, with padding. */
static void copy_lines(const padded_planes *p, const float *from, float *to,
                       int64_t line, int64_t lines) {
  for (int64_t k = 0; k < p->n; ++k)
    copy_plane(p, from + k * p->in[0] * p->in[1],
               to + k * count_plane_elements(p), line, lines);
}

/* The plan of a forward pass, or of the gradient of data, which is the same
 * with data and out exchanged. */
typedef struct plan {
  const nn_conv *conv;
  const nn_conv_arrays *arrays;
  const nn_direct_loops *loops;
  padded_planes read; /* layout of the planes that are read */
  int64_t computed;   /* planes of an image that are computed */
  int64_t out[2];     /* lines and columns of the computed planes */
  int64_t below; /* lines of a phase that a window has after its first one */
  int64_t lines; /* lines of a slice */
  int64_t down;  /* slices of an image */
  /* Planes that one call of loops->convolve computes; the last call may have
   * fewer. */
  int64_t tile_planes;
  int add;
  int back;
  int64_t offset[NN_DIRECT_TAPS];
  float *packed; /* packed weights: (group, planes / tile_planes, plane that is
                    read, tap, tile_planes) */
  nn_workspaces workspaces;
} plan;

/* Sets offset[t] to the position of tap t of the first window in the copy. */
static void set_offsets(plan *p) {
  const nn_window *w = &p->conv->window;
  const padded_planes *r = &p->read;
  for (int64_t t = 0; t < p->conv->taps; ++t) {
    const int64_t y = t / w->kernel[2] * w->dilate[1];
    const int64_t x = t % w->kernel[2] * w->dilate[2];
    const int64_t phase = y % r->step[0] * r->step[1] + x % r->step[1];
    p->offset[t] =
        (phase * r->rows + y / r->step[0]) * r->pitch + x / r->step[1];
  }
}

/* Divides lines into slices of at most `most` lines. */
static void set_lines(plan *p, int64_t most) {
  p->lines = nn_divide_evenly(p->out[0], nn_max(most, 1));
  p->down = (p->out[0] + p->lines - 1) / p->lines;
  p->read.rows = p->lines + p->below;
  set_offsets(p);
}

/* Returns the number of windows in lines of the copy, with the unused ones at
 * the ends of lines. */
static int64_t count_windows(const plan *p, int64_t lines) {
  return (lines - 1) * p->read.pitch + p->out[1];
}

/* count_copied returns the size of the copy of a slice's image, count_computed
 * the size of its results, in elements. */
static int64_t count_copied(const plan *p) {
  return nn_round_up(p->read.n * count_plane_elements(&p->read) + SLACK, 16);
}

/* Returns the number of results of one tile in a slice, in elements. */
static int64_t count_computed(const plan *p) {
  return p->tile_planes * nn_round_up(count_windows(p, p->lines), 16);
}

uint64_t nn_direct_count_packed_bytes(const nn_conv *c) {
  return (uint64_t)nn_round_up(c->groups * c->filters * c->channels * c->taps,
                               16) *
         sizeof(float);
}

/* Returns the plan of a forward pass, or of the gradient of data if `back`,
 * without arrays. */
static plan make_plan(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  plan p = {.conv = c,
            .loops = nn_direct_find_loops(c->level),
            .back = back,
            .computed = back ? c->channels : c->filters,
            .below = nn_direct_find_reach(w, 1) / w->stride[1]};
  p.read.n = back ? c->filters : c->channels;
  for (int d = 0; d < 2; ++d) {
    p.read.in[d] = back ? w->out[d + 1] : w->in[d + 1];
    p.out[d] = back ? w->in[d + 1] : w->out[d + 1];
    p.read.shift[d] =
        back ? nn_direct_find_reach(w, d + 1) - w->pad[d + 1] : w->pad[d + 1];
    p.read.step[d] = w->stride[d + 1];
  }
  p.read.pitch = p.out[1] + nn_direct_find_reach(w, 2) / w->stride[2];
  p.tile_planes = nn_divide_evenly(p.computed, p.loops->tile_planes);
  const int64_t phases = p.read.step[0] * p.read.step[1];
  const int64_t line = (p.read.n * phases + p.tile_planes) * p.read.pitch;
  set_lines(&p, PIECE / (int64_t)sizeof(float) / line - p.below);
  p.workspaces.bytes =
      (uint64_t)(count_copied(&p) + count_computed(&p)) * sizeof(float);
  p.workspaces.n = nn_choose_workspace_count(c->images * c->groups * p.down);
  return p;
}

/* Packs weights. In the gradient of data the windows are reversed, and the
 * planes that are read are filters. */
void nn_direct_pack_weights(const nn_conv *c, int back, int64_t tile_planes,
                            const char *weight, char *packed) {
  const int64_t computed = back ? c->channels : c->filters;
  const int64_t read = back ? c->filters : c->channels;
  const int64_t depth = c->channels * c->taps;
  const float *from = (const float *)(const void *)weight;
  float *to = (float *)(void *)packed;
  for (int64_t g = 0; g < c->groups; ++g, from += c->filters * depth)
    for (int64_t f = 0; f < computed; f += tile_planes)
      for (int64_t k = 0; k < read; ++k)
        for (int64_t t = 0; t < c->taps; ++t)
          for (int64_t i = f; i < nn_min(f + tile_planes, computed); ++i)
            *to++ = back ? from[k * depth + i * c->taps + c->taps - 1 - t]
                         : from[i * depth + k * c->taps + t];
}

/* ---------------------------------------------------- forward and backward */

/* Stores `lines` lines of `tile_planes` computed planes, with their bias. */
static void store_lines(const plan *p, const float *from, float *to,
                        const nn_direct_windows *w, int64_t tile_planes,
                        int64_t lines, const float *bias) {
  for (int64_t f = 0; f < tile_planes; ++f)
    for (int64_t y = 0; y < lines; ++y)
      p->loops->store_line(from + f * w->row + y * p->read.pitch,
                           to + (f * p->out[0] + y) * p->out[1], p->out[1],
                           bias ? bias[f] : 0, p->add);
  for (int64_t f = 0; p->conv->after && f < tile_planes; ++f)
    nn_conv_run_after(p->conv, to + f * p->out[0] * p->out[1],
                      lines * p->out[1]);
}

/* Computes a slice: `lines` lines of an image from `line` on. */
static void compute_lines(const plan *p, int64_t image, int64_t line,
                          float *memory) {
  const nn_conv *c = p->conv;
  const nn_conv_arrays *a = p->arrays;
  const int64_t group = image % c->groups;
  const int64_t lines = nn_min(p->lines, p->out[0] - line);
  const nn_direct_windows w = {.planes = p->read.n,
                               .plane = count_plane_elements(&p->read),
                               .taps = c->taps,
                               .offset = p->offset,
                               .n = count_windows(p, lines),
                               .row = nn_round_up(count_windows(p, lines), 16)};
  const float *from = (const float *)(const void *)(p->back ? a->out : a->data);
  float *to = (float *)(void *)(p->back ? a->data : a->out);
  const float *bias = p->back ? NULL : (const float *)(const void *)a->bias;
  const float *weight = p->packed + group * p->computed * p->read.n * c->taps;
  float *sums = memory + count_copied(p);
  copy_lines(&p->read, from + image * p->read.n * p->read.in[0] * p->read.in[1],
             memory, line, lines + p->below);
  to += image * p->computed * p->out[0] * p->out[1] + line * p->out[1];
  for (int64_t f = 0; f < p->computed; f += p->tile_planes) {
    const int64_t tile_planes = nn_min(p->tile_planes, p->computed - f);
    p->loops->convolve(&w, memory, weight, sums, (int)tile_planes);
    store_lines(p, sums, to + f * p->out[0] * p->out[1], &w, tile_planes, lines,
                bias ? bias + group * p->computed + f : NULL);
    weight += tile_planes * p->read.n * c->taps;
  }
}

/* Computes slices [begin, end) of a forward pass or of the gradient of data. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  float *memory = (float *)(void *)nn_locate_workspace(&p->workspaces, slot);
  memset(memory + count_copied(p) - SLACK, 0, SLACK * sizeof *memory);
  for (int64_t s = begin; s < end; ++s)
    compute_lines(p, s / p->down, s % p->down * p->lines, memory);
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Computes all images in vectors of windows. */
static int32_t run_windows(const nn_conv *c, const nn_conv_arrays *arrays,
                           int add, int back) {
  plan p = make_plan(c, back);
  p.arrays = arrays;
  p.add = add;
  p.packed = (float *)(void *)c->memory;
  p.workspaces.memory = c->memory + nn_direct_count_packed_bytes(c);
  nn_direct_pack_weights(c, back, p.tile_planes, arrays->weight, c->memory);
  return c->call->host->parallel_for(c->call, c->images * c->groups * p.down, 1,
                                     run_slice, &p);
}

/* Returns the bytes of workspace for computing all images in vectors of
 * windows. */
static uint64_t count_windows_bytes(const nn_conv *c, int back) {
  const plan p = make_plan(c, back);
  return p.workspaces.n * p.workspaces.bytes + nn_direct_count_packed_bytes(c);
}

/* Whether vectors of planes are faster: an element has many products, and there
 * are many planes. Vectors of windows would compute unused windows across the
 * ends of lines. */
static int has_many_products(const nn_conv *c, int back) {
  const int64_t computed = back ? c->channels : c->filters;
  const int64_t read = back ? c->filters : c->channels;
  return computed >= WIDE && read * c->taps >= DEEP;
}

/* Returns the same convolution without the first images. */
static nn_conv skip_images(const nn_conv *c, int64_t first) {
  nn_conv rest = *c;
  rest.images -= first;
  return rest;
}

/* Runs a forward pass or the gradient of data: first in vectors of images, then
 * the remaining images. */
static int32_t run_pass(const nn_conv *c, const nn_conv_arrays *arrays, int add,
                        int back) {
  const int64_t n = nn_direct_count_images(c, back);
  const nn_conv rest = skip_images(c, n);
  const int pass = back ? NN_CONV_DATA : NN_CONV_FORWARD;
  nn_conv_arrays a = *arrays;
  if (n > 0) {
    const int32_t code = nn_direct_run_images(c, &a, add, back);
    if (code != TN_OK || rest.images == 0) return code;
    a.data += n * c->groups * c->channels * c->in_size * c->bytes;
    a.out += n * c->groups * c->filters * c->out_size * c->bytes;
  }
  return has_many_products(c, back) ? nn_conv_tiles.passes[pass](&rest, &a, add)
                                    : run_windows(&rest, &a, add, back);
}

/* Returns the bytes of workspace for a forward pass, or for the gradient of
 * data if `back`. */
static uint64_t count_pass_bytes(const nn_conv *c, int back) {
  const int64_t n = nn_direct_count_images(c, back);
  const nn_conv rest = skip_images(c, n);
  const int pass = back ? NN_CONV_DATA : NN_CONV_FORWARD;
  const uint64_t memory = n > 0 ? nn_direct_count_images_bytes(c, back) : 0;
  if (rest.images == 0) return memory;
  const uint64_t more = has_many_products(c, back)
                            ? nn_conv_tiles.count_bytes(&rest, pass)
                            : count_windows_bytes(&rest, back);
  return memory > more ? memory : more;
}

/* Computes out; adds it to the old elements if `add`. */
static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *a, int add) {
  return run_pass(c, a, add, 0);
}

/* Tests whether windows are more than one element apart. */
static int has_strides(const nn_conv *c) {
  return c->window.stride[1] != 1 || c->window.stride[2] != 1;
}

/* Computes the gradient of data; adds it to the old elements if `add`. */
static int32_t compute_data_gradient(const nn_conv *c, const nn_conv_arrays *a,
                                     int add) {
  if (has_strides(c)) return nn_conv_panels.passes[NN_CONV_DATA](c, a, add);
  return run_pass(c, a, add, 1);
}

/* ------------------------------------------------------ gradient of weight */

/* The plan of the gradient of weight. */
typedef struct gradient_plan {
  plan plan;
  padded_planes out_gradients;
  int64_t group; /* images that are copied together */
  nn_conv_sums sums;
  /* Filters, and taps, of one call of loops->products, at most. */
  int64_t filters;
  int64_t taps;
  nn_workspaces workspaces;
} gradient_plan;

/* Returns the number of elements in a slice's copy of output gradients. */
static int64_t count_gradient_elements(const gradient_plan *s) {
  return nn_round_up(
      s->out_gradients.n * s->plan.lines * s->out_gradients.pitch, 16);
}

/* Returns the plan of the gradient of weight, without arrays. */
static gradient_plan plan_weight_gradient(const nn_conv *c) {
  gradient_plan s = {.plan = make_plan(c, 0),
                     .out_gradients = {.n = c->filters, .step = {1, 1}}};
  plan *p = &s.plan;
  s.out_gradients.in[0] = p->out[0];
  s.out_gradients.in[1] = p->out[1];
  s.out_gradients.pitch = nn_round_up(p->out[1], p->loops->lanes);
  const int64_t memory = LARGE / (int64_t)sizeof(float);
  const int64_t phases = p->read.step[0] * p->read.step[1];
  const int64_t line = p->read.n * phases * p->read.pitch +
                       s.out_gradients.n * s.out_gradients.pitch;
  set_lines(p, memory / line - p->below);
  s.out_gradients.rows = p->lines;
  s.group = nn_max(memory / (line * (p->lines + p->below)), 1);
  if (p->down > 1) s.group = 1;
  s.sums = nn_conv_plan_sums(c);
  s.filters = nn_divide_evenly(c->filters, p->loops->filters);
  s.taps = nn_divide_evenly(c->taps, p->loops->taps);
  s.workspaces.bytes =
      (uint64_t)(s.group * (count_copied(p) + count_gradient_elements(&s))) *
      sizeof(float);
  s.workspaces.n = nn_choose_workspace_count(s.sums.parts * c->groups);
  return s;
}

/* Adds the products of copied images to the gradient of a group's weight. */
static void add_products(const gradient_plan *s,
                         const nn_direct_gradient_images *all,
                         const float *from, const float *out_gradients,
                         float *to) {
  const nn_conv *c = s->plan.conv;
  const nn_direct_loops *l = s->plan.loops;
  for (int64_t f = 0; f < c->filters; f += s->filters)
    for (int64_t k = 0; k < c->channels; ++k)
      for (int64_t t = 0; t < c->taps; t += s->taps) {
        const int64_t filters = nn_min(s->filters, c->filters - f);
        const int64_t taps = nn_min(s->taps, c->taps - t);
        l->products[(filters - 1) * l->taps + taps - 1](
            all,
            (nn_direct_gradient_tile){
                out_gradients + f * all->gradient_plane,
                from + k * count_plane_elements(&s->plan.read),
                s->plan.offset + t, to + f * all->depth + k * c->taps + t});
      }
}

/* Copies some lines of images of a group from `line` on, and adds their
 * products to the gradient. */
static void add_image_products(const gradient_plan *s, nn_range images,
                               int64_t group, int64_t line, float *to,
                               float *memory) {
  const plan *p = &s->plan;
  const nn_conv *c = p->conv;
  const int64_t lines = nn_min(p->lines, p->out[0] - line);
  float *out_gradients = memory + s->group * count_copied(p);
  const nn_direct_gradient_images all = {
      .images = images.end - images.begin,
      .image = count_copied(p),
      .gradient_image = count_gradient_elements(s),
      .gradient_plane = count_plane_elements(&s->out_gradients),
      .lines = lines,
      .pitch = p->read.pitch,
      .across = s->out_gradients.pitch,
      .n = p->out[1],
      .depth = c->channels * c->taps};
  for (int64_t i = images.begin; i < images.end; ++i) {
    const int64_t image = i * c->groups + group, at = i - images.begin;
    copy_lines(&p->read,
               (const float *)(const void *)p->arrays->data +
                   image * c->channels * c->in_size,
               memory + at * all.image, line, lines + p->below);
    copy_lines(&s->out_gradients,
               (const float *)(const void *)p->arrays->out +
                   image * c->filters * c->out_size,
               out_gradients + at * all.gradient_image, line, lines);
  }
  add_products(s, &all, memory, out_gradients, to);
}

/* Computes one slice of the gradient of weight: a group, over a part of the
 * images. */
static void compute_weight_slice(const gradient_plan *s, int64_t slice,
                                 float *memory) {
  const nn_conv *c = s->plan.conv;
  const int64_t part = slice / c->groups, group = slice % c->groups;
  const int64_t first = c->images * part / s->sums.parts;
  const int64_t last = c->images * (part + 1) / s->sums.parts;
  const int64_t n = c->filters * c->channels * c->taps;
  float *to = (float *)(void *)nn_conv_locate_sum(
                  &s->sums, s->plan.arrays->weight, part) +
              group * n;
  if (part > 0 || !s->plan.add) memset(to, 0, (size_t)n * sizeof *to);
  for (int64_t i = first; i < last; i += s->group)
    for (int64_t y = 0; y < s->plan.out[0]; y += s->plan.lines)
      add_image_products(s, (nn_range){i, nn_min(i + s->group, last)}, group, y,
                         to, memory);
}

/* Computes slices [begin, end) of the gradient of weight. */
static int32_t run_weight_slices(void *arg, int64_t begin, int64_t end) {
  gradient_plan *s = arg;
  const uint32_t slot = nn_take_workspace(&s->workspaces);
  float *memory = (float *)(void *)nn_locate_workspace(&s->workspaces, slot);
  for (int64_t i = begin; i < end; ++i) compute_weight_slice(s, i, memory);
  nn_release_workspace(&s->workspaces, slot);
  return TN_OK;
}

/* Whether the gradient of weight has few sums, and too few filters for full
 * vectors of filters. */
static int has_few_sums(const nn_conv *c) {
  return c->filters < FEW && c->filters * c->channels * c->taps <= MOST_SUMS;
}

/* Computes the gradient of weight; adds it to the old elements if `add`. */
static int32_t compute_weight_gradient(const nn_conv *c,
                                       const nn_conv_arrays *arrays, int add) {
  if (!has_few_sums(c))
    return nn_conv_tiles.passes[NN_CONV_WEIGHT](c, arrays, add);
  gradient_plan s = plan_weight_gradient(c);
  s.plan.arrays = arrays;
  s.plan.add = add;
  s.workspaces.memory = c->memory + nn_conv_count_sum_bytes(&s.sums);
  const int32_t code = c->call->host->parallel_for(
      c->call, s.sums.parts * c->groups, 1, run_weight_slices, &s);
  if (code != TN_OK) return code;
  return nn_conv_add_sums(&s.sums, arrays->weight);
}

/* --------------------------------------------------------------- algorithm */

/* Returns the bytes of workspace for a pass (NN_CONV_*). */
static uint64_t count_workspace_bytes(const nn_conv *c, int pass) {
  const int back = pass == NN_CONV_DATA;
  if (back && has_strides(c)) return nn_conv_panels.count_bytes(c, pass);
  if (pass == NN_CONV_WEIGHT && !has_few_sums(c))
    return nn_conv_tiles.count_bytes(c, pass);
  if (pass == NN_CONV_WEIGHT) {
    const gradient_plan s = plan_weight_gradient(c);
    return s.workspaces.n * s.workspaces.bytes +
           nn_conv_count_sum_bytes(&s.sums);
  }
  return count_pass_bytes(c, back);
}

const nn_conv_algorithm nn_conv_direct = {
    count_workspace_bytes,
    {run_forward, compute_data_gradient, compute_weight_gradient}};
