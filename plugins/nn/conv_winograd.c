/* SPDX-License-Identifier: Apache-2.0
 * conv_winograd.c: convolutions with adjacent windows of 3 x 3 elements, by the
 * algorithm F(4x4, 3x3) of Lavin and Gray ("Fast algorithms for convolutional
 * neural networks", 2015). 36 multiplications give 16 elements of out, for
 * which windows need 144.
 *
 *   out = A^T [(G w G^T) * (B^T d B)] A
 *
 * for each patch d of 6 x 6 elements; neighbouring patches share two lines. The
 * product in the middle is summed over channels, so it becomes 36 products of
 * matrices. Rounding makes results about ten times less exact than sums of
 * products: errors are up to 1e-5 of the largest product's magnitude times the
 * root of the number of products.
 *
 * The gradient of data is the same convolution with reversed windows. The
 * gradient of weight applies the transforms in reverse: with g the gradients of
 * a patch's result,
 *
 *   G^T [sum over patches of (A g A^T) * (B^T d B)] G
 *
 * where the sums are 36 products of matrices again.
 */
#include <string.h>

#include "conv.h"
#include "lanes.h"
#include "tenon/kernel/kernel.h"

enum {
  PATCH = 36,           /* elements of a patch */
  TILE = 4,             /* lines of out that it gives */
  WIDE = 48,            /* patches of a block */
  NARROW = 32,          /* the same for many channels */
  MANY = 192,           /* channels */
  VECTOR = 16,          /* numbers of patches are multiples of it */
  FEW_TILES = 64,       /* patches; weights are not transformed for fewer, */
  FEW_PLANES = 1 << 12, /* if channels times filters are at most so many */
  AHEAD = 8,            /* windows that are prefetched, backward */
  FEW_BLOCKS = 4,       /* with fewer, filters are divided as well */
  SHARES = 2,           /* into this number of shares */
  MOST_ROWS = 8,        /* of a bundle at any level */
  ODD = 16,             /* elements that prevent cache conflicts of lines */
  MANY_BYTES = 2 << 20, /* of patches with products in one sum, at least
                           LEAST_WIDE blocks of WIDE */
  LEAST_WIDE = 3
};
#define WINO_BACK 64 /* weights in one transform, at most */

/* The loops of one level; see conv_winograd_tile.h. */
typedef struct loops {
  int rows;
  void (*gather)(const float *line, float *d, int64_t n, int64_t apart);
  void (*scatter)(float *line, const float *y, int64_t n, int64_t apart,
                  float bias);
  void (*turn_windows)(const float *w, float *to, int64_t apart);
  void (*turn_in)(float *d, float *v, int64_t n, int64_t apart);
  void (*turn_out)(float *m, float *y, int64_t n, int64_t apart);
  void (*turn_heads)(float *y, float *u, int64_t n, int64_t apart);
  void (*turn_back)(const float *m, float *w, int64_t n, int64_t apart);
  void (*multiply)(const float *u, const float *v, float *m, int64_t depth,
                   int64_t n);
} loops;

#define WINO_NAME(x) x##_base
#define WINO_TARGET
#define WINO_BYTES 16
#define WINO_ROWS 4
#include "conv_winograd_tile.h"

#if defined(TN_KERNEL_AVX2)
#define WINO_NAME(x) x##_avx2
#define WINO_TARGET TN_KERNEL_AVX2
#define WINO_BYTES 32
#define WINO_ROWS 4
#include "conv_winograd_tile.h"

#define WINO_NAME(x) x##_avx512
#define WINO_TARGET TN_KERNEL_AVX512
#define WINO_BYTES 64
#define WINO_ROWS 8
#include "conv_winograd_tile.h"
#endif

/* ------------------------------------------------------------------- plans */

/* A pass: forward, or backward with data and out exchanged. */
typedef struct plan {
  const nn_conv *conv;
  const loops *loops;
  int back;
  int add;
  const float *from;
  const float *weight;
  const float *bias; /* NULL: none */
  float *to;
  int64_t channels; /* of a group of the input */
  int64_t filters;  /* of the result */
  int64_t in[2];
  int64_t out[2];
  int64_t pad[2];
  int lines;        /* of a patch that are gathered */
  int64_t tiles[2]; /* of an image */
  int64_t n_tiles;  /* of all images */
  int64_t width;    /* patches of a block */
  int64_t blocks;
  int64_t bundles;      /* of `rows` filters */
  int64_t shares;       /* that these are divided into */
  int once;             /* each weight is used in one block only */
  float *turned;        /* otherwise G w G^T: (group,bundle,36,channel,row) */
  int64_t turned_apart; /* elements from one of the 36 to the next */
  int64_t apart;        /* the same of transformed patches */
  nn_lanes lanes;
} plan;

static void set_image(plan *p, int d) {
  const nn_window *w = &p->conv->window;
  p->in[d] = p->back ? w->out[d + 1] : w->in[d + 1];
  p->out[d] = p->back ? w->in[d + 1] : w->out[d + 1];
  p->pad[d] = p->back ? 2 - w->pad[d + 1] : w->pad[d + 1];
  p->tiles[d] = (p->out[d] + TILE - 1) / TILE;
}

static uint64_t turned_bytes(const plan *p, int64_t bundles) {
  return (uint64_t)(bundles * PATCH * p->turned_apart) * sizeof(float);
}

/* Bytes of all transformed bundles, if they are kept. */
static uint64_t kept_bytes(const plan *p) {
  return p->once ? 0 : turned_bytes(p, p->conv->groups * p->bundles);
}

static plan plan_of(const nn_conv *c, int back) {
  plan p = {
      .conv = c, .loops = NN_CONV_LOOPS(c->level), .back = back, .lines = 6};
  p.channels = back ? c->filters : c->channels;
  p.filters = back ? c->channels : c->filters;
  set_image(&p, 0);
  set_image(&p, 1);
  p.n_tiles = c->images * p.tiles[0] * p.tiles[1];
  p.width = p.channels < MANY ? WIDE : NARROW;
  p.width = nn_least(p.width, (p.n_tiles + VECTOR - 1) / VECTOR * VECTOR);
  p.blocks = (p.n_tiles + p.width - 1) / p.width;
  p.bundles = (p.filters + p.loops->rows - 1) / p.loops->rows;
  p.shares = p.blocks < FEW_BLOCKS ? nn_least(SHARES, p.bundles) : 1;
  /* Patches, and then their transforms; sums; and elements of out. */
  p.turned_apart = p.channels * p.loops->rows + ODD;
  p.apart = p.channels * p.width + ODD;
  p.lanes.bytes =
      (uint64_t)(PATCH * (p.apart + p.width) + p.width * PATCH * p.loops->rows +
                 p.width * TILE * TILE) *
      sizeof(float);
  p.once = p.blocks == 1;
  if (p.once) p.lanes.bytes += turned_bytes(&p, 1);
  p.lanes.n = nn_lanes_for(c->groups * p.blocks * p.shares);
  return p;
}

/* ----------------------------------------------------------------- weights */

/* Copies the windows w[9][rows] of a bundle of filters on one channel. */
static void copy_windows(const plan *p, int64_t group, int64_t bundle,
                         int64_t c, float *w) {
  const int64_t filters = p->conv->filters, channels = p->conv->channels;
  const int64_t rows = p->loops->rows;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t k = bundle * rows + r;
    const int64_t filter = p->back ? c : k, channel = p->back ? k : c;
    const float *from =
        p->weight + ((group * filters + filter) * channels + channel) * 9;
    for (int i = 0; i < 9; ++i)
      w[i * rows + r] = k >= p->filters ? 0 : from[p->back ? 8 - i : i];
  }
}

/* Prefetches windows. Backward, those of a bundle are adjacent, and far from
 * the next ones. */
static void ask_windows(const plan *p, int64_t group, int64_t bundle,
                        int64_t c) {
  const nn_conv *v = p->conv;
  const int64_t rows = p->loops->rows;
  const float *from =
      p->weight + ((group * v->filters + c) * v->channels + bundle * rows) * 9;
  for (int64_t i = 0; i < 9 * rows; i += 16) __builtin_prefetch(from + i);
}

/* Transforms a bundle of filters of a group. */
static void turn_bundle(const plan *p, int64_t group, int64_t bundle,
                        float *to) {
  float w[9 * MOST_ROWS];
  for (int64_t c = 0; c < p->channels; ++c) {
    if (p->back) ask_windows(p, group, bundle, c + AHEAD);
    copy_windows(p, group, bundle, c, w);
    p->loops->turn_windows(w, to + c * p->loops->rows, p->turned_apart);
  }
}

/* Bundles of all groups. */
static int32_t weight_slice(void *arg, int64_t begin, int64_t end) {
  const plan *p = arg;
  for (int64_t i = begin; i < end; ++i)
    turn_bundle(p, i / p->bundles, i % p->bundles,
                p->turned + i * PATCH * p->turned_apart);
  return TN_OK;
}

/* ----------------------------------------------------------------- patches */

/* Tiles [x, x + n) of line y of an image's tiles, which are patches from number
 * `first` on. Patches in `inside` are completely in the image's columns; the
 * first `full` patches have all their results in it. */
typedef struct run {
  int64_t image;
  int64_t y;
  int64_t x;
  int64_t n;
  int64_t first;
  int64_t full;
  nn_range inside;
} run;

/* A block of patches, line by line. */
typedef struct patches {
  int64_t n;
  int64_t n_runs;
  run runs[WIDE];
} patches;

static run run_at(const plan *p, int64_t tile, int64_t first, int64_t n) {
  const int64_t each = p->tiles[0] * p->tiles[1];
  run r = {.image = tile / each,
           .y = tile % each / p->tiles[1],
           .x = tile % p->tiles[1],
           .first = first};
  r.n = nn_least(p->tiles[1] - r.x, n);
  r.full = nn_most(nn_least(p->out[1] / TILE - r.x, r.n), 0);
  const int64_t x = r.x * TILE - p->pad[1];
  r.inside.begin = nn_least(nn_most(nn_ceil_div(-x, TILE), 0), r.n);
  r.inside.end = nn_ceil_div(p->in[1] - 5 - x, TILE);
  r.inside.end = nn_most(nn_least(r.inside.end, r.n), r.inside.begin);
  return r;
}

static void find_patches(const plan *p, int64_t block, patches *all) {
  const int64_t begin = block * p->width;
  all->n = nn_least(p->width, p->n_tiles - begin);
  all->n_runs = 0;
  for (int64_t first = 0; first < all->n;) {
    const run r = run_at(p, begin + first, first, all->n - first);
    all->runs[all->n_runs++] = r;
    first += r.n;
  }
}

/* Gathers one line of a patch that is partly outside of the image. */
static void gather_edge(const plan *p, const float *line, int64_t x, float *d) {
  for (int64_t j = 0; j < 6; ++j)
    d[j * p->width] = x + j >= 0 && x + j < p->in[1] ? line[x + j] : 0;
}

/* Gathers one line of the patches of a run. */
static void gather_line(const plan *p, const run *r, const float *line,
                        float *d) {
  const int64_t x = r->x * TILE - p->pad[1], at = r->inside.begin;
  for (int64_t t = 0; t < r->inside.begin; ++t)
    gather_edge(p, line, x + t * TILE, d + t);
  p->loops->gather(line + x + at * TILE, d + at, r->inside.end - at, p->width);
  for (int64_t t = r->inside.end; t < r->n; ++t)
    gather_edge(p, line, x + t * TILE, d + t);
}

/* Gathers the patches of a block in one channel, d[36][width]. */
static void gather_patches(const plan *p, const patches *all, int64_t plane,
                           float *d) {
  const int64_t planes = p->conv->groups * p->channels;
  for (int64_t k = 0; k < all->n_runs; ++k) {
    const run *r = &all->runs[k];
    const float *image =
        p->from + (r->image * planes + plane) * p->in[0] * p->in[1];
    for (int i = 0; i < p->lines; ++i) {
      const int64_t y = r->y * TILE + i - p->pad[0];
      float *to = d + i * 6 * p->width + r->first;
      if (y >= 0 && y < p->in[0])
        gather_line(p, r, image + y * p->in[1], to);
      else
        for (int j = 0; j < 6; ++j)
          memset(to + j * p->width, 0, (size_t)r->n * sizeof *to);
    }
  }
  for (int x = 0; all->n < p->width && x < PATCH; ++x)
    memset(d + x * p->width + all->n, 0,
           (size_t)(p->width - all->n) * sizeof *d);
}

/* Stores one line of the results of a run. */
static void scatter_line(const plan *p, const run *r, float *line,
                         const float *y, float bias) {
  const int64_t full = p->add ? 0 : r->full;
  float *to = line + r->x * TILE;
  p->loops->scatter(to, y, full, p->width, bias);
  for (int64_t t = full; t < r->n; ++t) {
    const int64_t some = nn_least(TILE, p->out[1] - (r->x + t) * TILE);
    for (int64_t j = 0; j < some; ++j) {
      float *at = to + t * TILE + j;
      *at = y[j * p->width + t] + bias + (p->add ? *at : 0);
    }
  }
  nn_conv_finish(p->conv, to, nn_least(r->n * TILE, p->out[1] - r->x * TILE));
}

/* Stores the elements of out that the patches of a block give, y[16][width]. */
static void scatter_patches(const plan *p, const patches *all, int64_t plane,
                            const float *y) {
  const int64_t planes = p->conv->groups * p->filters;
  const float bias = p->bias ? p->bias[plane] : 0;
  for (int64_t k = 0; k < all->n_runs; ++k) {
    const run *r = &all->runs[k];
    float *image = p->to + (r->image * planes + plane) * p->out[0] * p->out[1];
    for (int i = 0; i < TILE && r->y * TILE + i < p->out[0]; ++i)
      scatter_line(p, r, image + (r->y * TILE + i) * p->out[1],
                   y + i * TILE * p->width + r->first, bias);
  }
}

/* ------------------------------------------------------------------ blocks */

/* Computes some filters of a group on a block of patches. */
static void compute_block(const plan *p, int64_t slice, float *lane) {
  const int64_t share = slice % p->shares, rows = p->loops->rows;
  const int64_t at = slice / p->shares % p->blocks;
  const int64_t group = slice / p->shares / p->blocks;
  patches all;
  float *v = lane, *d = v + PATCH * p->apart;
  float *m = d + PATCH * p->width, *y = m + PATCH * rows * p->width;
  float *own = y + TILE * TILE * p->width;
  find_patches(p, at, &all);
  for (int64_t c = 0; c < p->channels; ++c) {
    gather_patches(p, &all, group * p->channels + c, d);
    p->loops->turn_in(d, v + c * p->width, p->width, p->apart);
  }
  for (int64_t b = p->bundles * share / p->shares;
       b < p->bundles * (share + 1) / p->shares; ++b) {
    const float *u = own;
    if (p->once)
      turn_bundle(p, group, b, own);
    else
      u = p->turned + (group * p->bundles + b) * PATCH * p->turned_apart;
    for (int x = 0; x < PATCH; ++x)
      p->loops->multiply(u + x * p->turned_apart, v + x * p->apart,
                         m + x * rows * p->width, p->channels, p->width);
    for (int64_t r = 0; r < rows && b * rows + r < p->filters; ++r) {
      p->loops->turn_out(m + r * p->width, y, p->width, rows * p->width);
      scatter_patches(p, &all, group * p->filters + b * rows + r, y);
    }
  }
}

static int32_t block_slice(void *arg, int64_t begin, int64_t end) {
  plan *p = arg;
  const uint32_t lane = nn_lanes_take(&p->lanes);
  for (int64_t i = begin; i < end; ++i)
    compute_block(p, i, (float *)(void *)nn_lanes_at(&p->lanes, lane));
  nn_lanes_give(&p->lanes, lane);
  return TN_OK;
}

static int32_t run_plan(plan *p) {
  const nn_conv *c = p->conv;
  int32_t code = TN_OK;
  p->turned = (float *)(void *)c->room;
  p->lanes.room = c->room + kept_bytes(p);
  if (!p->once)
    code = c->call->host->parallel_for(c->call, c->groups * p->bundles, 1,
                                       weight_slice, p);
  if (code != TN_OK) return code;
  return c->call->host->parallel_for(c->call, c->groups * p->blocks * p->shares,
                                     1, block_slice, p);
}

/* Whether there are so few patches, of so few planes, that the transforms take
 * longer than all products of untransformed weights. */
static int is_small(const nn_conv *c) {
  const plan p = plan_of(c, 0);
  return p.n_tiles < FEW_TILES && c->channels * c->filters <= FEW_PLANES;
}

static int32_t run_forward(const nn_conv *c, const nn_conv_arrays *a, int add) {
  if (is_small(c)) return nn_conv_tiles.passes[NN_CONV_FORWARD](c, a, add);
  plan p = plan_of(c, 0);
  p.add = add;
  p.from = (const float *)(const void *)a->data;
  p.weight = (const float *)(const void *)a->weight;
  p.bias = (const float *)(const void *)a->bias;
  p.to = (float *)(void *)a->out;
  return run_plan(&p);
}

static int32_t to_data(const nn_conv *c, const nn_conv_arrays *a, int add) {
  if (is_small(c)) return nn_conv_tiles.passes[NN_CONV_DATA](c, a, add);
  plan p = plan_of(c, 1);
  p.add = add;
  p.from = (const float *)(const void *)a->out;
  p.weight = (const float *)(const void *)a->weight;
  p.to = (float *)(void *)a->data;
  return run_plan(&p);
}

/* ------------------------------------------------------ gradient of weight */

/* Patches of data, and of the gradient of out, in blocks; several blocks are
 * multiplied together. For one group at a time. */
typedef struct slopes {
  plan data;
  plan heads;
  int64_t blocks; /* that are multiplied together */
  int64_t width;  /* patches in them */
  float *u;       /* transforms of heads: (36, filter, width) */
  float *v;       /* of data: (36, channel, width) */
  float *sums;    /* (36, filter, channel) */
  float *weight;
  int64_t group;
  int64_t first; /* block */
  int64_t n;     /* blocks */
  nn_lanes lanes;
} slopes;

static int64_t u_size(const slopes *s) {
  return PATCH * s->data.conv->filters * s->width;
}

static int64_t v_size(const slopes *s) {
  return PATCH * s->data.conv->channels * s->width;
}

static slopes slopes_of(const nn_conv *c) {
  slopes s = {.data = plan_of(c, 0)};
  plan *p = &s.data;
  p->width = nn_least(WIDE, (p->n_tiles + VECTOR - 1) / VECTOR * VECTOR);
  p->blocks = (p->n_tiles + p->width - 1) / p->width;
  s.heads = *p;
  s.heads.channels = c->filters;
  s.heads.lines = TILE;
  for (int d = 0; d < 2; ++d) {
    s.heads.in[d] = p->out[d];
    s.heads.pad[d] = 0;
  }
  const int64_t bytes = PATCH * p->width * (int64_t)sizeof(float);
  s.blocks = MANY_BYTES / (bytes * (c->channels + c->filters));
  s.blocks = nn_least(nn_most(s.blocks, LEAST_WIDE), p->blocks);
  s.width = s.blocks * p->width;
  s.lanes.bytes = (uint64_t)bytes;
  s.lanes.n = nn_lanes_for(c->channels + c->filters);
  return s;
}

static uint64_t slopes_bytes(const slopes *s) {
  const nn_conv *c = s->data.conv;
  return (uint64_t)(u_size(s) + v_size(s) + PATCH * c->filters * c->channels) *
             sizeof(float) +
         s->lanes.n * s->lanes.bytes;
}

/* Transforms the patches of a channel; numbers after the channels are
 * filters. */
static void turn_plane(const slopes *s, int64_t plane, float *d) {
  const int64_t channels = s->data.channels, width = s->data.width;
  const int is_head = plane >= channels;
  const plan *p = is_head ? &s->heads : &s->data;
  const int64_t at = is_head ? plane - channels : plane;
  const int64_t apart = p->channels * s->width;
  float *to = (is_head ? s->u : s->v) + at * s->width;
  for (int64_t b = 0; b < s->n; ++b, to += width) {
    patches all;
    find_patches(p, s->first + b, &all);
    gather_patches(p, &all, s->group * p->channels + at, d);
    (is_head ? p->loops->turn_heads : p->loops->turn_in)(d, to, width, apart);
  }
}

static int32_t turn_slice(void *arg, int64_t begin, int64_t end) {
  slopes *s = arg;
  const uint32_t lane = nn_lanes_take(&s->lanes);
  for (int64_t i = begin; i < end; ++i)
    turn_plane(s, i, (float *)(void *)nn_lanes_at(&s->lanes, lane));
  nn_lanes_give(&s->lanes, lane);
  return TN_OK;
}

/* Computes some of the 36 products of the existing patches. */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  const slopes *s = arg;
  const nn_conv *c = s->data.conv;
  int32_t code = TN_OK;
  for (int64_t x = begin; x < end && code == TN_OK; ++x)
    code = nn_multiply(
        c->call, &(tn_blas_gemm){.struct_size = sizeof(tn_blas_gemm),
                                 .dtype = TN_F32,
                                 .transpose_b = 1,
                                 .m = c->filters,
                                 .n = c->channels,
                                 .k = s->n * s->data.width,
                                 .a = s->u + x * c->filters * s->width,
                                 .b = s->v + x * c->channels * s->width,
                                 .c = s->sums + x * c->filters * c->channels,
                                 .lda = s->width,
                                 .ldb = s->width,
                                 .ldc = c->channels,
                                 .alpha = 1,
                                 .beta = s->first > 0 ? 1 : 0});
  return code;
}

/* Transforms the sums of a filter back to weights, for some channels. */
static void turn_filter(const slopes *s, int64_t filter) {
  const nn_conv *c = s->data.conv;
  const int64_t apart = c->filters * c->channels;
  const float *m = s->sums + filter * c->channels;
  float w[9 * WINO_BACK];
  float *to = s->weight + (s->group * c->filters + filter) * c->channels * 9;
  for (int64_t k = 0; k < c->channels; k += WINO_BACK) {
    const int64_t n = nn_least(WINO_BACK, c->channels - k);
    s->data.loops->turn_back(m + k, w, n, apart);
    for (int64_t t = 0; t < n; ++t)
      for (int i = 0; i < 9; ++i, ++to)
        *to = w[i * WINO_BACK + t] + (s->data.add ? *to : 0);
  }
}

static int32_t back_slice(void *arg, int64_t begin, int64_t end) {
  for (int64_t f = begin; f < end; ++f) turn_filter(arg, f);
  return TN_OK;
}

static int32_t group_to_weight(slopes *s) {
  const nn_conv *c = s->data.conv;
  const tn_host *host = c->call->host;
  int32_t code = TN_OK;
  for (s->first = 0; s->first < s->data.blocks && code == TN_OK;
       s->first += s->blocks) {
    s->n = nn_least(s->blocks, s->data.blocks - s->first);
    code =
        host->parallel_for(c->call, c->channels + c->filters, 1, turn_slice, s);
    if (code == TN_OK)
      code = host->parallel_for(c->call, PATCH, 1, sum_slice, s);
  }
  if (code != TN_OK) return code;
  return host->parallel_for(c->call, c->filters, 1, back_slice, s);
}

static int32_t to_weight(const nn_conv *c, const nn_conv_arrays *a, int add) {
  slopes s = slopes_of(c);
  int32_t code = TN_OK;
  s.data.from = (const float *)(const void *)a->data;
  s.heads.from = (const float *)(const void *)a->out;
  s.data.add = add;
  s.weight = (float *)(void *)a->weight;
  s.lanes.room = c->room;
  s.u = (float *)(void *)(c->room + s.lanes.n * s.lanes.bytes);
  s.v = s.u + u_size(&s);
  s.sums = s.v + v_size(&s);
  for (s.group = 0; s.group < c->groups && code == TN_OK; ++s.group)
    code = group_to_weight(&s);
  return code;
}

/* --------------------------------------------------------------- algorithm */

static uint64_t room_of(const nn_conv *c, int pass) {
  if (pass == NN_CONV_WEIGHT) {
    const slopes s = slopes_of(c);
    return slopes_bytes(&s);
  }
  if (is_small(c)) return nn_conv_tiles.room(c, pass);
  const plan p = plan_of(c, pass == NN_CONV_DATA);
  return kept_bytes(&p) + p.lanes.n * p.lanes.bytes;
}

const nn_conv_way nn_conv_winograd = {room_of,
                                      {run_forward, to_data, to_weight}};
