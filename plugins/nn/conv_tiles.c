/* SPDX-License-Identifier: Apache-2.0
 * conv_tiles.c: any convolution in f32, as matrix products. Only one factor is
 * packed: the weights, or for the gradient of weight the output gradient.
 * Registers read it as vectors in the packed order. The other factor is read
 * element by element, so it may have any layout: that of the arrays, or a copy
 * with padding.
 *
 * The results of a pass are points, image after image. Each is a sum over rows:
 * the planes that are read, and the taps of the window in each of them. Lanes
 * of vectors are computed planes. In a forward pass, points are windows. In the
 * gradient of data, points are elements of data; each sums over the windows
 * that contain it. With a stride, elements are divided into phases, each with
 * its own taps, and the points of a phase read `out` contiguously.
 *
 * A slice computes a block of points and transposes its sums into planes. The
 * gradient of weight exchanges points and rows: it sums over points. The same
 * loop computes it with exchanged addresses.
 */
#include <string.h>

#include "conv_tiles_plan.h"

/* ----------------------------------------------------------------- weights */

/* Packs the weights of a strip for the gradient of data. In the array, the
 * weights of a filter are one row: for each computed plane, the weights of all
 * taps. `memory` gets them as vectors, before they are copied to the phases;
 * `taps_memory` gets the taps of a phase. */
static void pack_backward_strip(const plan *p, int64_t group, const strip *s,
                                char *taps_memory, float *memory) {
  const nn_conv *c = p->conv;
  const int64_t depth = c->channels * c->taps;
  const int64_t phases = nn_window_multiply_lengths(p->phases);
  const float *from = p->weight + group * c->filters * depth;
  tap *taps = (tap *)(void *)taps_memory;
  int64_t before = 0;
  for (int64_t i = 0; i < phases; ++i) {
    const phase f = find_phase(p, i, taps);
    float *to = locate_packed(p, group, &f, before, s);
    before += f.n_taps;
    for (int64_t k = 0; k < c->filters && f.n_taps > 0; ++k) {
      const float *rows = from + k * depth + s->first * c->taps;
      const int whole = f.n_taps == c->taps;
      if (k + 1 < c->filters)
        for (int64_t x = 0; x < s->n * c->taps; x += 16)
          __builtin_prefetch(rows + depth + x);
      p->loops->transpose(&(transposition){.from = rows,
                                           .line_distance = c->taps,
                                           .n = s->n,
                                           .depth = c->taps,
                                           .to = whole ? to : memory,
                                           .row = s->width,
                                           .open = 1});
      for (int64_t t = 0; t < f.n_taps && !whole; ++t)
        memcpy(to + t * s->width, memory + f.taps[t].index * s->width,
               (size_t)s->width * sizeof *to);
      to += f.n_taps * s->width;
    }
  }
}

/* Packs the weights of strip `index % strips` of a group. */
static void pack_strip(const plan *p, int64_t index, char *memory,
                       float *transposed) {
  const nn_conv *c = p->conv;
  const int64_t group = index / p->strips, depth = c->channels * c->taps;
  const strip s = find_strip(p, index % p->strips);
  if (p->back) {
    pack_backward_strip(p, group, &s, memory, transposed);
    return;
  }
  const phase f = find_phase(p, 0, (tap *)(void *)memory);
  p->loops->transpose(&(transposition){
      .from = p->weight + (group * c->filters + s.first) * depth,
      .line_distance = depth,
      .n = s.n,
      .depth = depth,
      .to = locate_packed(p, group, &f, 0, &s),
      .row = s.width,
      .open = 1});
}

/* --------------------------------------------------------------- workspaces */

/* The arrays of one slice in its workspace. */
typedef struct workspace {
  tap *taps;
  int64_t *points;      /* positions of the points in the input */
  int64_t *steps;       /* distance of each row from a point */
  float *copy;          /* input with padding: (image, plane, element) */
  float *out_gradients; /* output gradients: (strip, point, filter); only for
                   the gradient of weight */
  float *sums; /* sums: (point, computed plane) of a strip; for the gradient of
                  weight (strip, row, filter) */
  float *transposed; /* the sums of a strip, transposed */
} workspace;

/* Bytes of each of these arrays. */
typedef struct workspace_sizes {
  int64_t taps, points, steps, copy, out_gradients, sums, transposed;
} workspace_sizes;

/* Returns the bytes of n elements of `each` bytes, rounded up to whole cache
 * lines. */
static int64_t round_up_bytes(int64_t n, size_t each) {
  return nn_round_up(n * (int64_t)each, 64);
}

/* Returns the number of lanes of the widest strip. */
static int64_t find_widest_strip(const plan *p) {
  return nn_min(WIDE, count_vectors(p)) * p->loops->lanes;
}

/* Returns the sizes of a workspace for a forward pass or the gradient of data.
 */
static workspace_sizes find_point_sizes(const plan *p) {
  const int64_t taps = p->conv->taps, points = nn_round_up(p->points, 16);
  return (workspace_sizes){
      .taps = round_up_bytes(taps, sizeof(tap)),
      .points = round_up_bytes(points, sizeof(int64_t)),
      .steps = round_up_bytes(nn_max(DEPTH, taps), sizeof(int64_t)),
      .copy = round_up_bytes(count_copied(p, p->planes), sizeof(float)),
      .sums = round_up_bytes(points * find_widest_strip(p), sizeof(float)),
      .transposed = round_up_bytes(nn_max(points, taps) * find_widest_strip(p),
                                   sizeof(float))};
}

/* Returns the sizes of a workspace for the gradient of weight. */
static workspace_sizes find_gradient_sizes(const plan *p) {
  const int64_t rows = nn_round_up(p->height * p->conv->taps, 16);
  return (workspace_sizes){
      .taps = round_up_bytes(p->conv->taps, sizeof(tap)),
      .points = round_up_bytes(p->points, sizeof(int64_t)),
      .steps = round_up_bytes(rows, sizeof(int64_t)),
      .copy = round_up_bytes(count_copied(p, p->height), sizeof(float)),
      .out_gradients =
          round_up_bytes(p->points * count_strip_elements(p), sizeof(float)),
      .sums = round_up_bytes(rows * count_strip_elements(p), sizeof(float)),
  };
}

/* Returns the bytes of a workspace with these sizes. */
static uint64_t count_workspace(const workspace_sizes *s) {
  return (uint64_t)(s->taps + s->points + s->steps + s->copy +
                    s->out_gradients + s->sums + s->transposed);
}

/* Divides `memory` into the arrays of a workspace. */
static workspace place_workspace(const workspace_sizes *s, char *memory) {
  workspace d = {.taps = (tap *)(void *)memory};
  d.points = (int64_t *)(void *)(memory += s->taps);
  d.steps = (int64_t *)(void *)(memory += s->points);
  d.copy = (float *)(void *)(memory += s->steps);
  d.out_gradients = (float *)(void *)(memory += s->copy);
  d.sums = (float *)(void *)(memory += s->out_gradients);
  d.transposed = (float *)(void *)(memory + s->sums);
  return d;
}

/* ------------------------------------------------------- forward, backward */

/* The state of a slice: some strips of a group at a block of points. */
typedef struct point_block {
  const plan *plan;
  workspace workspace;
  phase phase;
  point_range point_range;
  block_input block_input;
  int64_t group;
  int64_t before; /* number of taps of the phases before */
} point_block;

/* Computes the sums of a strip for all points of a block. */
static void sum_strip(const point_block *b, const strip *s) {
  const plan *p = b->plan;
  const workspace *d = &b->workspace;
  const int64_t n_taps = b->phase.n_taps,
                points = count_points(&b->point_range);
  const int64_t depth = DEPTH / 16 * p->loops->lanes;
  const int64_t together =
      nn_divide_evenly(p->planes, nn_max(depth / nn_max(n_taps, 1), 1));
  const float *right = locate_packed(p, b->group, &b->phase, b->before, s);
  locate_taps(&b->phase, &b->block_input, together, d->steps);
  for (int64_t k = 0; k < p->planes; k += together) {
    const float *from = b->block_input.from + k * b->block_input.plane;
    tile t = {.steps = d->steps,
              .right = right + k * n_taps * s->width,
              .depth = nn_min(together, p->planes - k) * n_taps,
              .wide = s->wide,
              .add = k > 0};
    for (int64_t i = 0; i < points; i += p->loops->rows) {
      for (int r = 0; r < p->loops->rows; ++r)
        t.left[r] = from + d->points[nn_min(i + r, points - 1)];
      t.next = from + d->points[nn_min(i + p->loops->rows, points - 1)];
      t.to = d->sums + i * s->width;
      t.rows = points - i;
      p->loops->multiply(&t);
    }
  }
}

/* Returns the position in a computed plane of the first point of line (z, y).
 */
static int64_t locate_line(const plan *p, const point_block *b, int64_t z,
                           int64_t y) {
  const int64_t at[] = {z, y, b->point_range.at[2].begin};
  int64_t place = 0;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    place = place * p->out[d] + b->phase.first[d] + at[d] * p->phases[d];
  return place;
}

/* Stores the sums of one plane of an image; neighbouring points may have gaps
 * between them. */
static void store_plane(const point_block *b, const float *from, float *plane) {
  const plan *p = b->plan;
  const nn_range *at = b->point_range.at;
  line_store s = {.from = from,
                  .to_row = p->phases[1] * p->out[2],
                  .n = at[1].end - at[1].begin,
                  .length = at[2].end - at[2].begin,
                  .step = p->phases[2],
                  .add = p->add};
  for (int64_t z = at[0].begin; z < at[0].end; ++z) {
    s.to = plane + locate_line(p, b, z, at[1].begin);
    p->loops->store_lines(&s);
    s.from += s.n * s.length;
  }
}

/* Stores the sums of a strip for one image; through a transposed copy if there
 * are several phases. */
static void store_image(const point_block *b, const strip *s, int64_t image) {
  const plan *p = b->plan;
  const workspace *d = &b->workspace;
  const int64_t size = nn_window_multiply_lengths(p->out),
                points = b->point_range.points;
  const int64_t plane = b->group * p->computed + s->first;
  float *to = p->to + (image * p->conv->groups * p->computed + plane) * size;
  transposition t = {.from = d->sums + (image - b->point_range.images.begin) *
                                           points * s->width,
                     .line_distance = s->width,
                     .n = points,
                     .depth = s->n,
                     .to = d->transposed,
                     .row = nn_round_up(points, 16),
                     .open = 1};
  if (nn_window_multiply_lengths(p->phases) > 1) {
    if (b->phase.n_taps > 0) p->loops->transpose(&t);
    for (int64_t k = 0; k < s->n; ++k)
      store_plane(b, d->transposed + k * t.row, to + k * size);
    return;
  }
  to +=
      locate_line(p, b, b->point_range.at[0].begin, b->point_range.at[1].begin);
  t.to = to;
  t.row = size;
  t.bias = p->bias ? p->bias + plane : NULL;
  t.open = 0;
  t.add = p->add;
  p->loops->transpose(&t);
  for (int64_t k = 0; !p->back && p->conv->after && k < s->n; ++k)
    nn_conv_run_after(p->conv, to + k * size, points);
}

/* Stores the sums of a strip for all images of a block. */
static void store_strip(const point_block *b, const strip *s) {
  for (int64_t i = b->point_range.images.begin; i < b->point_range.images.end;
       ++i)
    store_image(b, s, i);
}

/* Computes slice number `slice` of a forward pass, or of the gradient of data:
 * one phase, strips and block of points of a group. The plan decides between
 * the passes. */
static void run_slice(const plan *p, int64_t slice, char *memory) {
  const workspace_sizes sizes = find_point_sizes(p);
  point_block b = {.plan = p, .workspace = place_workspace(&sizes, memory)};
  const int64_t phases = nn_window_multiply_lengths(p->phases);
  const int64_t number =
      slice % phases; /* slices of neighbouring numbers write the same lines */
  slice /= phases;
  const int64_t share = slice % p->shares;
  slice /= p->shares;
  const int64_t index = slice % p->blocks;
  b.group = slice / p->blocks;
  b.before = count_taps_before(p, number);
  b.phase = find_phase(p, number, b.workspace.taps);
  b.point_range = find_point_range(p, &b.phase, index);
  if (count_points(&b.point_range) == 0 || (b.phase.n_taps == 0 && p->add))
    return;
  b.block_input =
      read_block_input(p, &b.phase, &b.point_range, (nn_range){0, p->planes},
                       b.group, b.workspace.copy);
  locate_points(p, &b.point_range, &b.block_input, b.workspace.points);
  if (b.phase.n_taps == 0) { /* elements without a window are 0 */
    memset(b.workspace.sums, 0, (size_t)sizes.sums);
    memset(b.workspace.transposed, 0, (size_t)sizes.transposed);
  }
  for (int64_t i = p->strips * share / p->shares;
       i < p->strips * (share + 1) / p->shares; ++i) {
    const strip s = find_strip(p, i);
    if (b.phase.n_taps > 0) sum_strip(&b, &s);
    store_strip(&b, &s);
  }
}

/* Packs the weights of strips [begin, end), counted over all groups. */
static int32_t pack_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const workspace_sizes sizes = find_point_sizes(p);
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  char *memory = nn_locate_workspace(&p->workspaces, slot);
  for (int64_t i = begin; i < end; ++i)
    pack_strip(p, i, memory, place_workspace(&sizes, memory).transposed);
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Computes slices [begin, end) of a forward pass or of the gradient of data. */
static int32_t run_point_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  for (int64_t i = begin; i < end; ++i)
    run_slice(p, i, nn_locate_workspace(&p->workspaces, slot));
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Returns the geometry of a forward pass, or of the gradient of data if
 * `back`. */
static plan make_plan(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  plan p = {.conv = c,
            .loops = NN_CONV_LOOPS(c->level),
            .back = back,
            .planes = back ? c->filters : c->channels,
            .computed = back ? c->channels : c->filters};
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    p.in[d] = back ? w->out[d] : w->in[d];
    p.out[d] = back ? w->in[d] : w->out[d];
    p.step[d] = back ? 1 : w->stride[d];
    p.phases[d] = back ? nn_min(w->stride[d], w->in[d]) : 1;
    p.grid[d] = nn_ceil_div(p.out[d], p.phases[d]);
  }
  p.strips = nn_ceil_div(count_vectors(&p), WIDE);
  return p;
}

/* Returns the number of slices of a forward pass or of the gradient of data. */
static int64_t count_point_slices(const plan *p) {
  return nn_window_multiply_lengths(p->phases) * p->conv->groups * p->blocks *
         p->shares;
}

/* Returns the plan of a forward pass, or of the gradient of data if `back`,
 * without arrays. */
static plan plan_points(const nn_conv *c, int back) {
  plan p = make_plan(c, back);
  divide_blocks(&p, p.planes);
  p.shares = 1;
  p.shares = nn_min(nn_ceil_div(FEW_SLICES, count_point_slices(&p)), p.strips);
  const workspace_sizes sizes = find_point_sizes(&p);
  p.workspaces.bytes = count_workspace(&sizes);
  p.workspaces.n = nn_choose_workspace_count(count_point_slices(&p));
  return p;
}

/* Packs the weights, and then computes all points of a planned pass. */
static int32_t run_point_plan(plan *p) {
  const nn_conv *c = p->conv;
  const tn_host *host = c->call->host;
  p->packed = (float *)(void *)c->memory;
  p->workspaces.memory = c->memory + count_packed_bytes(p);
  const int32_t code =
      host->parallel_for(c->call, c->groups * p->strips, 1, pack_slices, p);
  if (code != TN_OK) return code;
  return host->parallel_for(c->call, count_point_slices(p), 1, run_point_slices,
                            p);
}

/* Computes out; adds it to the old elements if `add`. */
static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *a, int add) {
  plan p = plan_points(c, 0);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.weight = (const float *)(const void *)a->weight;
  p.bias = (const float *)(const void *)a->bias;
  p.to = (float *)(void *)a->out;
  return run_point_plan(&p);
}

/* Computes the gradient of data; adds it to the old elements if `add`. */
static int32_t compute_data_gradient(const nn_conv *c, const nn_conv_arrays *a,
                                     int add) {
  plan p = plan_points(c, 1);
  p.add = add;
  p.from = (const float *)(const void *)a->out;
  p.weight = (const float *)(const void *)a->weight;
  p.to = (float *)(void *)a->data;
  return run_point_plan(&p);
}

/* ------------------------------------------------------ gradient of weight */

/* The state of a slice of the gradient of weight: rows of some planes of a
 * group, over a part of the images. */
typedef struct gradient_slice {
  const plan *plan;
  workspace workspace;
  phase phase;
  int64_t group;
  nn_range planes;
  int64_t rows;
} gradient_slice;

/* Transposes the output gradient at a block's points into strips. */
static void transpose_gradients(const gradient_slice *s, const point_range *b) {
  const plan *p = s->plan;
  const int64_t size = nn_window_multiply_lengths(p->out),
                points = count_points(b);
  int64_t first = 0;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    first = first * p->out[d] + b->at[d].begin;
  for (int64_t i = 0; i < p->strips; ++i) {
    const strip x = find_strip(p, i);
    float *to = s->workspace.out_gradients + x.first * points;
    for (int64_t k = b->images.begin; k < b->images.end; ++k) {
      const int64_t plane = (k * p->conv->groups + s->group) * p->computed;
      p->loops->transpose(&(transposition){
          .from = p->out_gradients + (plane + x.first) * size + first,
          .line_distance = size,
          .n = x.n,
          .depth = b->points,
          .to = to,
          .row = x.width,
          .open = 1});
      to += b->points * x.width;
    }
  }
}

/* Adds the products of a block of points to the sums. */
static void add_block(const gradient_slice *s, const point_range *b, int add) {
  const plan *p = s->plan;
  const workspace *d = &s->workspace;
  const block_input r =
      read_block_input(p, &s->phase, b, s->planes, s->group, d->copy);
  const int64_t points = count_points(b), rows = p->loops->rows;
  locate_points(p, b, &r, d->points);
  locate_taps(&s->phase, &r, s->planes.end - s->planes.begin, d->steps);
  transpose_gradients(s, b);
  for (int64_t i = 0; i < p->strips; ++i) {
    const strip x = find_strip(p, i);
    tile t = {.steps = d->points,
              .right = d->out_gradients + x.first * points,
              .to = d->sums + x.first * nn_round_up(s->rows, 16),
              .depth = points,
              .wide = x.wide,
              .add = add};
    for (int64_t k = 0; k < s->rows; k += rows, t.to += rows * x.width) {
      for (int64_t l = 0; l < rows; ++l)
        t.left[l] = r.from + d->steps[nn_min(k + l, s->rows - 1)];
      t.next = r.from + d->steps[nn_min(k + rows, s->rows - 1)];
      t.rows = s->rows - k;
      p->loops->multiply(&t);
    }
  }
}

/* Stores the sums in the gradient of weight, or adds them. */
static void store_sums(const gradient_slice *s, float *to, int add) {
  const plan *p = s->plan;
  const workspace *d = &s->workspace;
  const int64_t depth = p->planes * p->conv->taps,
                row = nn_round_up(s->rows, 16);
  for (int64_t i = 0; i < p->strips; ++i) {
    const strip x = find_strip(p, i);
    p->loops->transpose(&(transposition){
        .from = d->sums + x.first * row,
        .line_distance = x.width,
        .n = s->rows,
        .depth = x.n,
        .to = to + x.first * depth + s->planes.begin * p->conv->taps,
        .row = depth,
        .add = add});
  }
}

/* Computes one slice of the gradient of weight. */
static void compute_weight_slice(const plan *p, int64_t slice, char *memory) {
  const nn_conv *c = p->conv;
  const workspace_sizes sizes = find_gradient_sizes(p);
  gradient_slice s = {.plan = p, .workspace = place_workspace(&sizes, memory)};
  s.phase = find_phase(p, 0, s.workspace.taps);
  s.planes.begin = slice % p->down * p->height;
  s.planes.end = nn_min(s.planes.begin + p->height, p->planes);
  s.rows = (s.planes.end - s.planes.begin) * c->taps;
  s.group = slice / p->down % c->groups;
  const int64_t part = slice / p->down / c->groups;
  const int64_t first = p->blocks * part / p->sums.parts;
  const int64_t last = p->blocks * (part + 1) / p->sums.parts;
  for (int64_t i = first; i < last; ++i) {
    const point_range b = find_point_range(p, &s.phase, i);
    add_block(&s, &b, i > first);
  }
  float *to =
      (float *)(void *)nn_conv_locate_sum(&p->sums, (char *)p->to, part);
  store_sums(&s, to + s.group * c->filters * c->channels * c->taps,
             part == 0 && p->add);
}

/* Computes slices [begin, end) of the gradient of weight. */
static int32_t run_weight_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t slot = nn_take_workspace(&p->workspaces);
  for (int64_t i = begin; i < end; ++i)
    compute_weight_slice(p, i, nn_locate_workspace(&p->workspaces, slot));
  nn_release_workspace(&p->workspaces, slot);
  return TN_OK;
}

/* Returns the number of slices of the gradient of weight. */
static int64_t count_weight_slices(const plan *p) {
  return p->sums.parts * p->conv->groups * p->down;
}

/* Returns the plan of the gradient of weight, without arrays. */
static plan plan_weight_gradient(const nn_conv *c) {
  plan p = make_plan(c, 0);
  p.height = nn_divide_evenly(c->channels, nn_max(HEIGHT / c->taps, 1));
  p.down = nn_ceil_div(c->channels, p.height);
  divide_blocks(&p, p.height);
  p.sums = nn_conv_plan_sums(c);
  const int64_t few = nn_ceil_div(SUMS, c->groups * p.down);
  p.sums.parts = nn_min(nn_min(p.sums.parts, few), p.blocks);
  const workspace_sizes sizes = find_gradient_sizes(&p);
  p.workspaces.bytes = count_workspace(&sizes);
  p.workspaces.n = nn_choose_workspace_count(count_weight_slices(&p));
  return p;
}

/* Computes the gradient of weight; adds it to the old elements if `add`. */
static int32_t compute_weight_gradient(const nn_conv *c,
                                       const nn_conv_arrays *a, int add) {
  plan p = plan_weight_gradient(c);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.out_gradients = (const float *)(const void *)a->out;
  p.to = (float *)(void *)a->weight;
  p.workspaces.memory = c->memory + nn_conv_count_sum_bytes(&p.sums);
  const int32_t code = c->call->host->parallel_for(
      c->call, count_weight_slices(&p), 1, run_weight_slices, &p);
  if (code != TN_OK) return code;
  return nn_conv_add_sums(&p.sums, a->weight);
}

/* --------------------------------------------------------------- algorithm */

/* Returns the bytes of workspace for a pass (NN_CONV_*). */
static uint64_t count_workspace_bytes(const nn_conv *c, int pass) {
  if (pass == NN_CONV_WEIGHT) {
    const plan p = plan_weight_gradient(c);
    return p.workspaces.n * p.workspaces.bytes +
           nn_conv_count_sum_bytes(&p.sums);
  }
  const plan p = plan_points(c, pass == NN_CONV_DATA);
  return p.workspaces.n * p.workspaces.bytes + count_packed_bytes(&p);
}

const nn_conv_algorithm nn_conv_tiles = {
    count_workspace_bytes,
    {run_forward, compute_data_gradient, compute_weight_gradient}};
