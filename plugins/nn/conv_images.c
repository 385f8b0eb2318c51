/* SPDX-License-Identifier: Apache-2.0
 * conv_images.c: convolutions of few channels with adjacent windows, as in
 * conv_direct.c, but in vectors of images: the lanes of a vector are the same
 * element of different images. With short lines, vectors of windows compute
 * unused windows across line ends and multiply lines of zeros. This file avoids
 * both, at the price of transposing inputs and results.
 *
 * Both files add the terms of an element in the same order.
 */
#include <string.h>

#include "conv_direct.h"
#include "tenon/kernel/kernel.h"
#include "tenon/kernel/transpose.h"
#include "workspaces.h"

enum {
  /* Bytes of a slice's copies for each lane of a vector, about. */
  PIECE = 1 << 15,
  SLICES = 8, /* least number of slices, for as many threads, if that is
               * cheap */
  SHORT = 64  /* largest number of columns of a line: the unused windows at the
                 ends of longer lines cost less than transposing */
};

/* The plan of a pass. A slice has some lines of as many images as a vector has
 * lanes. */
typedef struct plan {
  const nn_conv *conv;
  const nn_conv_arrays *arrays;
  const nn_direct_loops *loops;
  tn_transpose_fn *transpose;
  int back;
  int add;
  int64_t read; /* planes of an image that are read */
  int64_t in[2];
  int64_t shift[2]; /* lines and columns of zeros before the planes */
  int64_t computed; /* planes of an image that are computed */
  int64_t out[2];
  /* Planes that one call of loops->convolve computes; the last call may have
   * fewer. */
  int64_t tile_planes;
  int64_t lines;    /* lines of a slice */
  int64_t down;     /* slices of an image */
  int64_t pitch;    /* columns of the copy of a line, with zeros */
  nn_range columns; /* columns of the copy that are not zeros */
  int64_t rows;     /* lines of the copy */
  int fits; /* slices fit the cache and share few lines: this algorithm is
               worthwhile */
  int64_t offset[NN_DIRECT_TAPS];
  const float *packed;
  nn_workspaces workspaces;
} plan;

/* Returns the lines of a window that are not zeros, for line `y` of the result.
 */
static nn_range find_rows(const plan *p, int64_t y) {
  const nn_window *w = &p->conv->window;
  const int64_t step = w->dilate[1], at = p->shift[0] - y;
  nn_range r;
  r.begin = nn_min(nn_max(nn_ceil_div(at, step), 0), w->kernel[1]);
  r.end = nn_min(nn_ceil_div(at + p->in[0], step), w->kernel[1]);
  r.end = nn_max(r.end, r.begin);
  return r;
}

/* count_copied returns the size of a slice's copies, count_computed the size of
 * one plane of its result, in elements. */
static int64_t count_copied(const plan *p) {
  return nn_round_up(p->read * p->rows * p->pitch * p->loops->lanes, 16);
}

/* Returns the number of results of one plane in a slice, in elements. */
static int64_t count_computed(const plan *p) {
  return nn_round_up(p->lines * p->out[1] * p->loops->lanes, 16);
}

/* Chooses the lines of a slice. Its inputs and results stay in the second cache
 * if possible, and at most half of its input lines belong to two slices. */
static void set_lines(plan *p) {
  const nn_conv *c = p->conv;
  const int64_t lanes = p->loops->lanes,
                more = nn_direct_find_reach(&c->window, 1);
  const int64_t line = p->read * p->pitch + p->tile_planes * p->out[1];
  const int64_t fits = PIECE / (int64_t)sizeof(float) / line - more;
  const int64_t parts = nn_max(c->images / lanes * c->groups, 1);
  const int64_t down = nn_ceil_div(SLICES, parts);
  const int64_t wanted = nn_max(nn_ceil_div(p->out[0], down), more);
  p->lines = nn_divide_evenly(p->out[0], nn_max(nn_min(fits, wanted), 1));
  p->down = nn_ceil_div(p->out[0], p->lines);
  p->rows = nn_min(p->lines + more, p->in[0]);
  p->fits = fits > 0 && (p->down == 1 || p->lines >= more);
}

/* Returns a plan without the fields that only a pass needs. */
static plan plan_shape(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  plan p = {.conv = c,
            .loops = nn_direct_find_loops(c->level),
            .transpose = tn_transpose_of(sizeof(float), c->level),
            .back = back,
            .read = back ? c->filters : c->channels,
            .computed = back ? c->channels : c->filters};
  for (int d = 0; d < 2; ++d) {
    p.in[d] = back ? w->out[d + 1] : w->in[d + 1];
    p.out[d] = back ? w->in[d + 1] : w->out[d + 1];
    p.shift[d] =
        back ? nn_direct_find_reach(w, d + 1) - w->pad[d + 1] : w->pad[d + 1];
  }
  p.pitch = p.out[1] + nn_direct_find_reach(w, 2);
  p.columns.begin = nn_min(nn_max(p.shift[1], 0), p.pitch);
  p.columns.end = nn_min(p.in[1] + p.shift[1], p.pitch);
  p.columns.end = nn_max(p.columns.end, p.columns.begin);
  p.tile_planes = nn_divide_evenly(p.computed, p.loops->tile_planes);
  set_lines(&p);
  return p;
}

/* Returns the plan of a forward pass, or of the gradient of data if `back`,
 * without arrays. */
static plan make_plan(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  plan p = plan_shape(c, back);
  const int64_t lanes = p.loops->lanes;
  for (int64_t t = 0; t < c->taps; ++t) {
    const int64_t y = t / w->kernel[2] * w->dilate[1];
    const int64_t x = t % w->kernel[2] * w->dilate[2];
    p.offset[t] = (y * p.pitch + x) * lanes;
  }
  const int64_t memory =
      count_copied(&p) + (p.tile_planes + 1) * count_computed(&p);
  p.workspaces.bytes = (uint64_t)memory * sizeof(float);
  p.workspaces.n =
      nn_choose_workspace_count(c->images / lanes * c->groups * p.down);
  return p;
}

/* ----------------------------------------------------------------- a slice */

/* A slice, which begins with line `line` of the result. The distances are those
 * between two images, in elements. */
typedef struct image_slice {
  int64_t line;
  int64_t lines;
  nn_range rows; /* lines of the image that the slice reads */
  const float *from;
  int64_t input_distance;
  const float *weight;
  const float *bias;
  float *to;
  int64_t result_distance;
} image_slice;

/* Copies the lines of a slice, interleaved: the elements of all its images at
 * one position are adjacent. */
static void copy_images(const plan *p, const image_slice *s, float *to) {
  const int64_t lanes = p->loops->lanes, n = p->columns.end - p->columns.begin;
  const size_t front = (size_t)(p->columns.begin * lanes) * sizeof *to;
  const size_t back =
      (size_t)((p->pitch - p->columns.end) * lanes) * sizeof *to;
  const int whole = n == p->pitch && n == p->in[1];
  tn_transpose part = {.to_stride = lanes,
                       .from_stride = s->input_distance,
                       .n_rows = whole ? (s->rows.end - s->rows.begin) * n : n,
                       .n_columns = lanes};
  for (int64_t k = 0; k < p->read; ++k) {
    const float *from = s->from + (k * p->in[0] + s->rows.begin) * p->in[1] +
                        p->columns.begin - p->shift[1];
    float *line = to + k * p->rows * p->pitch * lanes;
    for (int64_t y = s->rows.begin; y < s->rows.end; ++y) {
      memset(line, 0, front);
      part.to = (char *)(line + p->columns.begin * lanes);
      part.from = (const char *)from;
      if (n > 0) p->transpose(&part);
      memset(line + p->columns.end * lanes, 0, back);
      line += p->pitch * lanes, from += p->in[1];
      if (whole) break;
    }
  }
}

/* Computes all lines of `tile_planes` planes from `plane` on. */
static void compute_planes(const plan *p, const image_slice *s,
                           const float *from, int64_t plane,
                           int64_t tile_planes, float *to) {
  const nn_conv *c = p->conv;
  const nn_window *w = &c->window;
  const int64_t lanes = p->loops->lanes, width = w->kernel[2];
  const int64_t n = p->out[1] * lanes;
  for (int64_t i = 0; i < s->lines; ++i) {
    const int64_t y = s->line + i;
    const nn_range rows = find_rows(p, y);
    const nn_direct_windows all = {
        .planes = p->read,
        .plane = p->rows * p->pitch * lanes,
        .taps = (rows.end - rows.begin) * width,
        .skip = (w->kernel[1] - (rows.end - rows.begin)) * width * tile_planes,
        .offset = p->offset,
        .n = n,
        .row = count_computed(p)};
    const int64_t first =
        y + rows.begin * w->dilate[1] - p->shift[0] - s->rows.begin;
    const int64_t at = rows.begin < rows.end ? first : 0;
    p->loops->convolve(&all, from + at * p->pitch * lanes,
                       s->weight + plane * p->read * c->taps +
                           rows.begin * width * tile_planes,
                       to + i * n, (int)tile_planes);
  }
}

/* Stores a computed plane of all images of a slice. `memory` is scratch memory
 * of the same size. */
static void store_plane(const plan *p, const image_slice *s, float *from,
                        float *to, float bias, float *memory) {
  const int64_t lanes = p->loops->lanes, n = s->lines * p->out[1];
  if (bias != 0) p->loops->store_line(from, from, n * lanes, bias, 0);
  if (!p->add) nn_conv_run_after(p->conv, from, n * lanes);
  const tn_transpose part = {.to = (char *)(p->add ? memory : to),
                             .from = (const char *)from,
                             .to_stride = p->add ? n : s->result_distance,
                             .from_stride = lanes,
                             .n_rows = lanes,
                             .n_columns = n};
  p->transpose(&part);
  for (int64_t i = 0; p->add && i < lanes; ++i, to += s->result_distance) {
    p->loops->store_line(memory + i * n, to, n, 0, 1);
    nn_conv_run_after(p->conv, to, n);
  }
}

/* Computes one slice of a forward pass or of the gradient of data, in vectors
 * of images. */
static void run_slice(const plan *p, const image_slice *s, float *memory) {
  float *sums = memory + count_copied(p),
        *more = sums + p->tile_planes * count_computed(p);
  copy_images(p, s, memory);
  for (int64_t f = 0; f < p->computed; f += p->tile_planes) {
    const int64_t tile_planes = nn_min(p->tile_planes, p->computed - f);
    compute_planes(p, s, memory, f, tile_planes, sums);
    for (int64_t i = 0; i < tile_planes; ++i)
      store_plane(p, s, sums + i * count_computed(p),
                  s->to + ((f + i) * p->out[0] + s->line) * p->out[1],
                  s->bias ? s->bias[f + i] : 0, more);
  }
}

/* Returns slice number i: its images, lines, weights and arrays. */
static image_slice find_slice(const plan *p, int64_t i) {
  const nn_conv *c = p->conv;
  const nn_conv_arrays *a = p->arrays;
  const int64_t part = i / p->down, group = part % c->groups;
  const int64_t image = part / c->groups * p->loops->lanes;
  const int64_t from = p->read * p->in[0] * p->in[1];
  const int64_t to = p->computed * p->out[0] * p->out[1];
  image_slice s = {
      .line = i % p->down * p->lines,
      .input_distance = c->groups * from,
      .weight = p->packed + group * c->filters * c->channels * c->taps,
      .result_distance = c->groups * to};
  s.lines = nn_min(p->lines, p->out[0] - s.line);
  s.rows.begin = nn_min(nn_max(s.line - p->shift[0], 0), p->in[0]);
  s.rows.end = nn_min(
      s.line + s.lines + nn_direct_find_reach(&c->window, 1) - p->shift[0],
      p->in[0]);
  s.rows.end = nn_max(s.rows.end, s.rows.begin);
  s.from = (const float *)(const void *)(p->back ? a->out : a->data) +
           (image * c->groups + group) * from;
  s.to = (float *)(void *)(p->back ? a->data : a->out) +
         (image * c->groups + group) * to;
  if (!p->back && a->bias)
    s.bias = (const float *)(const void *)a->bias + group * c->filters;
  return s;
}

/* Computes slices [begin, end). */
static int32_t run_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  for (int64_t i = begin; i < end; ++i) {
    const image_slice s = find_slice(p, i);
    run_slice(p, &s,
              (float *)(void *)nn_locate_workspace(&p->workspaces, slot));
  }
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* -------------------------------------------------------------------- pass */

uint64_t nn_direct_count_images_bytes(const nn_conv *c, int back) {
  const plan p = make_plan(c, back);
  return p.workspaces.n * p.workspaces.bytes + nn_direct_count_packed_bytes(c);
}

int32_t nn_direct_run_images(const nn_conv *c, const nn_conv_arrays *arrays,
                             int add, int back) {
  plan p = make_plan(c, back);
  p.arrays = arrays;
  p.add = add;
  p.packed = (const float *)(const void *)c->memory;
  p.workspaces.memory = c->memory + nn_direct_count_packed_bytes(c);
  nn_direct_pack_weights(c, back, p.tile_planes, arrays->weight, c->memory);
  return c->call->host->parallel_for(
      c->call, c->images / p.loops->lanes * c->groups * p.down, 1, run_slices,
      &p);
}

int64_t nn_direct_count_images(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  const int64_t lanes = nn_direct_find_loops(c->level)->lanes;
  if (c->images < lanes || w->stride[1] != 1 || w->stride[2] != 1) return 0;
  if (w->in[2] > SHORT || w->out[2] > SHORT) return 0;
  return plan_shape(c, back).fits ? c->images / lanes * lanes : 0;
}
