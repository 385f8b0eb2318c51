/* SPDX-License-Identifier: Apache-2.0
 * conv_tiles.c: any convolution in f32, as products whose factors are brought
 * from the arrays into the order in which registers read them, at once: a
 * library of products would copy them to a matrix, and that into its own order.
 *
 * What a pass makes are points, of images one behind the other, of which each
 * is a sum over rows: planes that are read, and for each of them the taps of
 * the window. Forward, points are windows. Back, an element of data gets from
 * windows in which it is element t where it is on the windows' grid then: with
 * a step, elements fall into phases, each of which has its own taps, and the
 * points of a phase read `out` side by side.
 *
 * A slice has a block of points, for which pieces of rows are gathered as
 * strips and multiplied with weights. The gradient of weight is the product of
 * gathered rows, over points, with strips of `out` that are turned around.
 */
#include <stdlib.h>
#include <string.h>

#include "conv_gather.h"

/* ------------------------------------------------------------ forward, back */

/* What a slice of points has of the workspace. */
typedef struct desk {
  tap *taps;
  float *weights; /* (bundle, row, plane made) */
  float *strips;  /* (strip, row, point) */
  float *sums;    /* (strip, bundle, plane made, point) */
} desk;

static uint64_t taps_bytes(const nn_conv *c) {
  return ((uint64_t)c->taps * sizeof(tap) + 63) / 64 * 64;
}

static int64_t strips_of(const plan *p, int64_t columns) {
  return (columns + p->loops->strip - 1) / p->loops->strip;
}

static int64_t tile_size(const plan *p) {
  return p->loops->rows * p->loops->strip;
}

static uint64_t desk_bytes(const plan *p) {
  const int64_t strips = strips_of(p, p->columns);
  const int64_t planes = nn_up(p->share, p->loops->rows);
  const int64_t n = planes * DEPTH + strips * DEPTH * p->loops->strip +
                    planes * strips * p->loops->strip;
  return taps_bytes(p->conv) + (uint64_t)nn_up(n, 16) * sizeof(float);
}

static desk desk_of(const plan *p, char *room) {
  desk d = {.taps = (tap *)(void *)room};
  d.weights = (float *)(void *)(room + taps_bytes(p->conv));
  d.strips = d.weights + nn_up(p->share, p->loops->rows) * DEPTH;
  d.sums = d.strips + strips_of(p, p->columns) * DEPTH * p->loops->strip;
  return d;
}

/* A slice: planes [made.begin, made.end) of a group at a block of points. */
typedef struct block {
  const plan *plan;
  phase phase;
  runs runs;
  desk desk;
  int64_t group;
  int64_t columns;
  nn_range made;
} block;

/* Rows of the weights of a bundle of `width` planes, side by side. Those that
 * are no more repeat the last. What comes next is asked for: forward, the same
 * rows of the next bundle, and back, later planes of this. */
static inline __attribute__((always_inline)) void pack_bundle(
    const block *b, int64_t plane, nn_range rows, float *to, const int width) {
  const plan *p = b->plan;
  const nn_conv *c = p->conv;
  const phase *f = &b->phase;
  const int64_t depth = c->channels * c->taps;
  const int64_t across = p->back ? c->taps : depth;
  const int64_t along = p->back ? depth : c->taps;
  const float *from[MOST_ROWS];
  for (int r = 0; r < width; ++r)
    from[r] = p->weight + b->group * c->filters * depth +
              nn_least(plane + r, b->made.end - 1) * across;
  int64_t t = rows.begin % f->n_taps, at = rows.begin / f->n_taps * along;
  for (int64_t i = rows.begin; i < rows.end; ++i, to += width) {
    const int64_t skip = at + f->taps[t].index;
    NN_CONV_UNROLL
    for (int r = 0; r < width; ++r) to[r] = from[r][skip];
    if (!p->back && skip % 16 == 0)
      for (int r = 0; r < width; ++r)
        __builtin_prefetch(from[r] + skip + width * across);
    if (++t < f->n_taps) continue;
    t = 0;
    at += along;
    for (int64_t x = 0; p->back && x < width * across; x += 16)
      __builtin_prefetch(from[0] + at + AHEAD * along + x);
  }
}

static void pack(const block *b, nn_range rows) {
  const int64_t step = b->plan->loops->rows;
  float *to = b->desk.weights;
  if (rows.begin == rows.end) return;
  for (int64_t i = b->made.begin; i < b->made.end; i += step)
    if (step == MOST_ROWS)
      pack_bundle(b, i, rows, to + (i - b->made.begin) * DEPTH, MOST_ROWS);
    else
      pack_bundle(b, i, rows, to + (i - b->made.begin) * DEPTH, 4);
}

/* All tiles of a block: rows that are gathered, times their weights. */
static void multiply(const block *b, nn_range rows, int add) {
  const plan *p = b->plan;
  const loops *l = p->loops;
  const desk *d = &b->desk;
  const int64_t planes = b->made.end - b->made.begin;
  float *to = d->sums;
  for (int64_t x = 0; x < b->columns; x += l->strip)
    for (int64_t i = 0; i < planes; i += l->rows, to += tile_size(p))
      l->packed(&(product){.left = d->weights + i * DEPTH,
                           .right = d->strips + x * DEPTH,
                           .to = to,
                           .rows = planes - i,
                           .depth = rows.end - rows.begin,
                           .n = b->columns - x,
                           .add = add});
}

/* Points of a run to their places in a plane, where they are final. */
static void settle_run(const plan *p, const float *from, float *to, int64_t n,
                       float bias) {
  const int64_t step = p->phases[2];
  if (p->add)
    for (int64_t i = 0; i < n; ++i) to[i * step] += from[i] + bias;
  else
    p->loops->spread(to, from, n, step, bias);
  if (!p->back) nn_conv_finish(p->conv, to, n);
}

/* Where a run begins in a plane that is made. */
static int64_t place_run(const plan *p, const phase *f, const run *r) {
  int64_t at = 0;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    at = at * p->out[d] + f->first[d] + r->at[d] * p->phases[d];
  return at;
}

static void settle(const block *b) {
  const plan *p = b->plan;
  const int64_t strip = p->loops->strip, rows = p->loops->rows;
  const int64_t planes = b->made.end - b->made.begin;
  const int64_t size = nn_window_product(p->out);
  for (int64_t k = 0; k < b->runs.n; ++k) {
    const run *r = &b->runs.all[k];
    const float *from = b->desk.sums +
                        r->column / strip * nn_up(planes, rows) * strip +
                        r->column % strip;
    const int64_t first =
        (r->image * p->conv->groups + b->group) * p->made + b->made.begin;
    float *to = p->to + first * size + place_run(p, &b->phase, r);
    const float *bias =
        p->bias ? p->bias + b->group * p->made + b->made.begin : NULL;
    for (int64_t i = 0; i < planes; ++i)
      settle_run(p, from + i * strip, to + i * size, r->n, bias ? bias[i] : 0);
  }
}

static void run_block(block *b) {
  const plan *p = b->plan;
  const int64_t depth = p->planes * b->phase.n_taps, strip = p->loops->strip;
  const layout l = {b->desk.strips, strip, strip, strip * DEPTH};
  int64_t row = 0;
  do {
    const nn_range rows = {row, nn_least(row + DEPTH, depth)};
    gather(p, &b->phase, &b->runs, b->group, rows, l);
    pack(b, rows);
    multiply(b, rows, row > 0);
    row = rows.end;
  } while (row < depth);
  settle(b);
}

static void run_slice(const plan *p, int64_t slice, char *room) {
  block b = {.plan = p, .desk = desk_of(p, room)};
  const int64_t share = slice % p->shares;
  slice /= p->shares;
  const int64_t first = slice % p->blocks * p->columns;
  slice /= p->blocks;
  b.group = slice % p->conv->groups;
  b.phase = phase_of(p, slice / p->conv->groups, b.desk.taps);
  b.made.begin = share * p->share;
  b.made.end = nn_least(b.made.begin + p->share, p->made);
  const int64_t all = p->conv->images * b.phase.points;
  const nn_range points = {first, nn_least(first + p->columns, all)};
  if (points.begin >= points.end || b.made.begin >= b.made.end) return;
  b.columns = points.end - points.begin;
  find_runs(&b.phase, points, p->loops->strip, DEPTH * p->loops->strip,
            &b.runs);
  b.runs.picked = is_picked(p, &b.phase, &b.runs);
  if (b.runs.picked) find_places(p, &b.runs);
  run_block(&b);
}

static int32_t point_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t lane = nn_lanes_take(&p->lanes);
  for (int64_t i = begin; i < end; ++i)
    run_slice(p, i, nn_lanes_at(&p->lanes, lane));
  nn_lanes_give(&p->lanes, lane);
  return TN_OK;
}

static plan plan_of(const nn_conv *c, int back) {
  const nn_window *w = &c->window;
  plan p = {.conv = c,
            .loops = NN_CONV_LOOPS(c->level),
            .back = back,
            .planes = back ? c->filters : c->channels,
            .made = back ? c->channels : c->filters};
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    p.in[d] = back ? w->out[d] : w->in[d];
    p.out[d] = back ? w->in[d] : w->out[d];
    p.step[d] = back ? 1 : w->stride[d];
    p.phases[d] = back ? nn_most(nn_least(w->stride[d], w->in[d]), 1) : 1;
  }
  return p;
}

static int64_t point_slices_of(const plan *p) {
  return nn_window_product(p->phases) * p->conv->groups * p->blocks * p->shares;
}

static plan point_plan(const nn_conv *c, int back) {
  plan p = plan_of(c, back);
  int64_t points = c->images;
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    points *= nn_ceil_div(p.out[d], p.phases[d]);
  const int64_t most = SUMS / (p.made * (int64_t)sizeof(float));
  const int64_t strip = p.loops->strip;
  p.columns = nn_least(nn_most(most, LEAST), COLUMNS) / strip * strip;
  points = nn_most(points, 1);
  p.columns = even(points, p.columns, strip);
  p.blocks = (points + p.columns - 1) / p.columns;
  p.shares = 1;
  if (point_slices_of(&p) < FEW_SLICES && p.made > MOST_ROWS) p.shares = SHARES;
  p.share = nn_up((p.made + p.shares - 1) / p.shares, p.loops->rows);
  p.lanes.bytes = desk_bytes(&p);
  p.lanes.n = nn_lanes_for(point_slices_of(&p));
  return p;
}

static int32_t run_points(plan *p) {
  const nn_conv *c = p->conv;
  p->lanes.room = c->room;
  return c->call->host->parallel_for(c->call, point_slices_of(p), 1,
                                     point_slices, p);
}

static int32_t forward(const nn_conv *c, const nn_conv_arrays *a, int add) {
  plan p = point_plan(c, 0);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.weight = (const float *)(const void *)a->weight;
  p.bias = (const float *)(const void *)a->bias;
  p.to = (float *)(void *)a->out;
  return run_points(&p);
}

static int32_t to_data(const nn_conv *c, const nn_conv_arrays *a, int add) {
  plan p = point_plan(c, 1);
  p.add = add;
  p.from = (const float *)(const void *)a->out;
  p.weight = (const float *)(const void *)a->weight;
  p.to = (float *)(void *)a->data;
  return run_points(&p);
}

/* ------------------------------------------------------- gradient of weight */

/* What a slice of it has: some rows of a group, over the images of a part. */
typedef struct slope {
  const plan *plan;
  phase phase;
  runs runs;
  int64_t group;
  nn_range rows;
  int64_t width; /* filters of a strip */
  float *lines;  /* (row, point) */
  float *heads;  /* (point, filter) of a strip */
  float *sums;   /* (strip, row, filter) */
} slope;

static uint64_t slope_bytes(const plan *p) {
  const int64_t rows = nn_up(p->height, p->loops->rows);
  const int64_t strips = strips_of(p, p->conv->filters);
  const int64_t n =
      rows * DEPTH + p->loops->strip * DEPTH + strips * rows * p->loops->strip;
  return taps_bytes(p->conv) + (uint64_t)nn_up(n, 16) * sizeof(float);
}

/* Points [x, x + n) of an image: their rows times their heads. */
static void add_points(slope *s, int64_t image, nn_range x, int add) {
  const plan *p = s->plan;
  const nn_conv *c = p->conv;
  const loops *l = p->loops;
  const int64_t n = x.end - x.begin, size = s->phase.points;
  const int64_t rows = s->rows.end - s->rows.begin;
  const float *heads =
      p->heads + (image * c->groups + s->group) * c->filters * size + x.begin;
  float *to = s->sums;
  find_runs(&s->phase, (nn_range){image * size + x.begin, image * size + x.end},
            DEPTH, 0, &s->runs);
  s->runs.picked = is_picked(p, &s->phase, &s->runs);
  s->runs.columns = nn_up(n, l->lanes);
  if (s->runs.picked) find_places(p, &s->runs);
  gather(p, &s->phase, &s->runs, s->group, s->rows,
         (layout){s->lines, DEPTH, s->runs.columns, 0});
  for (int64_t f = 0; f < c->filters; f += s->width) {
    const int64_t filters = nn_least(s->width, c->filters - f);
    l->turn(s->heads, heads + f * size, size, filters, n);
    for (int64_t r = 0; r < rows; r += l->rows, to += tile_size(p))
      l->lines(&(product){.left = s->lines + r * DEPTH,
                          .right = s->heads,
                          .to = to,
                          .depth = n,
                          .n = filters,
                          .add = add});
  }
}

/* The sums to their places, or added to them. */
static void put_sums(const slope *s, float *to, int add) {
  const nn_conv *c = s->plan->conv;
  const int64_t strip = s->plan->loops->strip;
  const int64_t rows = s->rows.end - s->rows.begin;
  const int64_t depth = c->channels * c->taps;
  const float *from = s->sums;
  for (int64_t f = 0; f < c->filters; f += s->width) {
    for (int64_t k = f; k < nn_least(f + s->width, c->filters); ++k) {
      float *line = to + k * depth + s->rows.begin;
      for (int64_t r = 0; r < rows; ++r) {
        const float sum = from[r * strip + (k - f)];
        line[r] = add ? line[r] + sum : sum;
      }
    }
    from += nn_up(rows, s->plan->loops->rows) * strip;
  }
}

static void weight_slice(const plan *p, int64_t slice, char *room) {
  const nn_conv *c = p->conv;
  const int64_t depth = c->channels * c->taps;
  slope s = {.plan = p, .phase = phase_of(p, 0, (tap *)(void *)room)};
  s.rows.begin = slice % p->down * p->height;
  s.rows.end = nn_least(s.rows.begin + p->height, depth);
  s.group = slice / p->down % c->groups;
  const int64_t part = slice / p->down / c->groups;
  s.width = even(c->filters, p->loops->strip, p->loops->lanes);
  s.lines = (float *)(void *)(room + taps_bytes(c));
  s.heads = s.lines + nn_up(p->height, p->loops->rows) * DEPTH;
  s.sums = s.heads + p->loops->strip * DEPTH;
  const int64_t first = c->images * part / p->sums.parts;
  const int64_t last = c->images * (part + 1) / p->sums.parts;
  int add = 0;
  for (int64_t i = first; i < last; ++i)
    for (int64_t x = 0; x < c->out_size; x += DEPTH, add = 1)
      add_points(&s, i, (nn_range){x, nn_least(x + DEPTH, c->out_size)}, add);
  float *to = (float *)(void *)nn_conv_sums_at(&p->sums, (char *)p->to, part);
  put_sums(&s, to + s.group * c->filters * depth, part == 0 && p->add);
}

static int32_t weight_slices(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t lane = nn_lanes_take(&p->lanes);
  for (int64_t i = begin; i < end; ++i)
    weight_slice(p, i, nn_lanes_at(&p->lanes, lane));
  nn_lanes_give(&p->lanes, lane);
  return TN_OK;
}

static int64_t weight_slices_of(const plan *p) {
  return p->sums.parts * p->conv->groups * p->down;
}

static plan weight_plan(const nn_conv *c) {
  plan p = plan_of(c, 0);
  const int64_t depth = c->channels * c->taps;
  p.height = even(depth, HEIGHT, p.loops->rows);
  p.down = (depth + p.height - 1) / p.height;
  p.sums = nn_conv_sums_of(c);
  p.lanes.bytes = slope_bytes(&p);
  p.lanes.n = nn_lanes_for(weight_slices_of(&p));
  return p;
}

static int32_t to_weight(const nn_conv *c, const nn_conv_arrays *a, int add) {
  plan p = weight_plan(c);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.heads = (const float *)(const void *)a->out;
  p.to = (float *)(void *)a->weight;
  p.lanes.room = c->room + nn_conv_sums_bytes(&p.sums);
  const int32_t code = c->call->host->parallel_for(
      c->call, weight_slices_of(&p), 1, weight_slices, &p);
  if (code != TN_OK) return code;
  return nn_conv_sums_join(&p.sums, a->weight);
}

/* --------------------------------------------------------------------- way */

static uint64_t room(const nn_conv *c, int pass) {
  if (pass == NN_CONV_WEIGHT) {
    const plan p = weight_plan(c);
    return p.lanes.n * p.lanes.bytes + nn_conv_sums_bytes(&p.sums);
  }
  const plan p = point_plan(c, pass == NN_CONV_DATA);
  return p.lanes.n * p.lanes.bytes;
}

const nn_conv_way nn_conv_tiles = {room, {forward, to_data, to_weight}};
