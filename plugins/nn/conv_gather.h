/* SPDX-License-Identifier: Apache-2.0
 * conv_gather.h: a part of conv_tiles.c, and of nothing else: how a pass comes
 * apart into phases, taps and runs of points, and how rows of it are gathered,
 * by loops of three levels.
 */
#ifndef NN_CONV_GATHER_H_
#define NN_CONV_GATHER_H_

#include <string.h>

#include "conv.h"
#include "lanes.h"
#include "tenon/kernel.h"

enum {
  DEPTH = 256,    /* rows, or points, that are multiplied together, at most */
  COLUMNS = 480,  /* points of a block, at most, in strips of any level */
  SUMS = 3 << 18, /* bytes of a block's sums, if it is more than MIN_COLUMNS */
  AHEAD = 8,      /* planes whose weights are asked for in advance */
  LONG = 64,      /* points of a line from which on lines are copied */
  LEAST = 96,     /* points of a block, if there are so many */
  FEW_SLICES = 4, /* below which what is made is divided as well */
  SHARES = 2,     /* into so many */
  HEIGHT = 576,   /* rows of a slice of the gradient of weight */
  MOST_ROWS = 8
};

/* A tile of sums: to = left * right, or added to what is there. `to` and
 * `right` have rows of a whole strip, of which n elements are used. `left` has
 * `rows` rows, side by side or, in `lines`, DEPTH elements apart. */
typedef struct product {
  const float *left;
  const float *right;
  float *to;
  int64_t rows;
  int64_t depth;
  int64_t n;
  int add;
} product;

/* Points whose elements lie anywhere in a plane: `base` elements behind that of
 * the tap, which is padding unless a point's place, shifted, is in the plane.
 */
typedef struct picks {
  const int32_t *base;
  const int32_t *place[NN_WINDOW_RANK];
  int64_t n;
  int32_t skip; /* elements from the plane's first to the tap of point 0 */
  int32_t shift[NN_WINDOW_RANK];
  int32_t in[NN_WINDOW_RANK];
} picks;

/* Floats as they are kept or masked. */
typedef int32_t bits __attribute__((may_alias));

/* The loops of one level; see conv_tiles_loop.h. */
typedef struct loops {
  int rows;
  int lanes;
  int strip;
  void (*packed)(const product *p);
  void (*lines)(const product *p);
  void (*pick)(const picks *x, const float *plane, float *to);
  void (*spread)(float *to, const float *from, int64_t n, int64_t step,
                 float bias);
  void (*halve)(float *to, const float *from, int64_t n);
  void (*turn)(float *to, const float *from, int64_t apart, int64_t n,
               int64_t depth);
} loops;

/* Element by element, where there is no instruction for it. */
#define GATHER(to, from, at, keep)               \
  for (size_t l_ = 0; l_ < sizeof(at) / 4; ++l_) \
  ((bits *)(void *)(to))[l_] = (from)[(at)[l_]] & (keep)[l_]

#if defined(TN_KERNEL_AVX2)
#include <immintrin.h>

/* gcc makes no gathering instructions of loops for all processors. */
#define GATHER_AVX2(to, from, at, keep)                            \
  _mm256_storeu_si256(                                             \
      (__m256i *)(void *)(to),                                     \
      _mm256_mask_i32gather_epi32(_mm256_setzero_si256(),          \
                                  (const int *)(const void *)from, \
                                  (__m256i)(at), (__m256i)(keep), 4))
/* What gcc has for it is a macro where it does not optimise, and converts. */
#define GATHER_AVX512(to, from, at, keep)                                    \
  _Pragma("GCC diagnostic push")                                             \
      _Pragma("GCC diagnostic ignored \"-Wsign-conversion\"")                \
          _mm512_storeu_si512(to, _mm512_mask_i32gather_epi32(               \
                                      _mm512_setzero_si512(),                \
                                      _mm512_movepi32_mask((__m512i)(keep)), \
                                      (__m512i)(at), from, 4));              \
  _Pragma("GCC diagnostic pop")
#endif

#define TILES_NAME(x) x##_base
#define TILES_GATHER GATHER
#define TILES_TARGET
#define TILES_BYTES 16
#define TILES_ROWS 4
#include "conv_tiles_loop.h"

#if defined(TN_KERNEL_AVX2)
#define TILES_NAME(x) x##_avx2
#define TILES_GATHER GATHER_AVX2
#define TILES_TARGET TN_KERNEL_AVX2
#define TILES_BYTES 32
#define TILES_ROWS 4
#include "conv_tiles_loop.h"

#define TILES_NAME(x) x##_avx512
#define TILES_GATHER GATHER_AVX512
#define TILES_TARGET TN_KERNEL_AVX512
#define TILES_BYTES 64
#define TILES_ROWS 8
#include "conv_tiles_loop.h"
#endif

/* n in pieces of at most `most`, all about as long. */
static int64_t even(int64_t n, int64_t most, int64_t step) {
  return nn_least(nn_up(nn_even(n, most), step), nn_up(n, step));
}

/* ------------------------------------------------------------------- passes */

/* An element of windows: where it lies from that of point 0, and the points of
 * a line of which it is no padding. */
typedef struct tap {
  int64_t at[NN_WINDOW_RANK];
  nn_range inside;
  int64_t index; /* in the window */
} tap;

/* A pass: forward, or back with data and out changed over; the gradient of
 * weight reads as forward does. */
typedef struct plan {
  const nn_conv *conv;
  const loops *loops;
  const float *from;
  const float *weight;
  const float *bias; /* NULL: none */
  const float *heads;
  float *to;
  int back;
  int add;
  int64_t planes; /* of a group, that are read */
  int64_t made;   /* and that are made */
  int64_t in[NN_WINDOW_RANK];
  int64_t out[NN_WINDOW_RANK];
  int64_t step[NN_WINDOW_RANK];   /* of what is read, from point to point */
  int64_t phases[NN_WINDOW_RANK]; /* of what is made */
  int64_t columns;                /* of a block of points */
  int64_t blocks;                 /* of the largest phase */
  int64_t share;                  /* planes that a slice makes */
  int64_t shares;
  int64_t height; /* rows of a slice of the gradient of weight */
  int64_t down;   /* such slices */
  nn_conv_sums sums;
  nn_lanes lanes;
} plan;

/* The points of one phase, and their taps. */
typedef struct phase {
  int64_t first[NN_WINDOW_RANK]; /* element that is made */
  int64_t grid[NN_WINDOW_RANK];
  int64_t points; /* of an image */
  int64_t n_taps;
  tap *taps;
} phase;

/* Points side by side in a line. */
typedef struct run {
  int64_t image;
  int64_t at[NN_WINDOW_RANK]; /* of the first */
  int64_t n;
  int64_t to; /* where a row has them, in a strip or a line */
  int64_t column;
} run;

/* What a block's points read and where they go. Points of short lines are
 * picked one by one, of which the tables have the places; others are copied. */
typedef struct runs {
  int64_t n;
  int64_t columns; /* whole strips */
  int picked;
  int32_t base[COLUMNS];
  int32_t place[NN_WINDOW_RANK][COLUMNS];
  run all[COLUMNS];
} runs;

/* Where a tap lies along d, or 0 if no point of the phase has it. */
static int place_tap(const plan *p, const phase *f, int d, int64_t t,
                     int64_t *at) {
  const nn_window *w = &p->conv->window;
  const int64_t shift = t * w->dilate[d] - w->pad[d];
  *at = shift;
  if (!p->back) return 1;
  *at = (f->first[d] - shift) / w->stride[d];
  return (f->first[d] - shift) % w->stride[d] == 0;
}

/* The taps of a phase, in their order. */
static void find_taps(const plan *p, phase *f) {
  const nn_window *w = &p->conv->window;
  f->n_taps = 0;
  for (int64_t i = 0; i < p->conv->taps; ++i) {
    tap *t = &f->taps[f->n_taps];
    int64_t rest = i;
    int meets = 1;
    for (int d = NN_WINDOW_RANK; d-- > 0; rest /= w->kernel[d])
      meets &= place_tap(p, f, d, rest % w->kernel[d], &t->at[d]);
    if (!meets) continue;
    const int64_t begin = nn_ceil_div(-t->at[2], p->step[2]);
    const int64_t end = nn_ceil_div(p->in[2] - t->at[2], p->step[2]);
    t->inside.begin = nn_least(nn_most(begin, 0), f->grid[2]);
    t->inside.end = nn_most(nn_least(end, f->grid[2]), t->inside.begin);
    t->index = i;
    ++f->n_taps;
  }
}

/* Phase number `index`; `taps` has room for all of a window's. */
static phase phase_of(const plan *p, int64_t index, tap *taps) {
  phase f = {.points = 1, .taps = taps};
  for (int d = NN_WINDOW_RANK; d-- > 0; index /= p->phases[d]) {
    f.first[d] = index % p->phases[d];
    f.grid[d] = nn_ceil_div(p->out[d] - f.first[d], p->phases[d]);
    f.points *= f.grid[d];
  }
  if (f.points > 0) find_taps(p, &f);
  return f;
}

/* ------------------------------------------------------------------- gather */

/* The lines of some points, counted over images, cut where strips of `strip`
 * elements end, which lie `apart`. */
static void find_runs(const phase *f, nn_range points, int64_t strip,
                      int64_t apart, runs *all) {
  int64_t column = 0;
  all->n = 0;
  for (int64_t i = points.begin; i < points.end;) {
    run *r = &all->all[all->n++];
    int64_t rest = i % f->points;
    r->image = i / f->points;
    for (int d = NN_WINDOW_RANK; d-- > 0; rest /= f->grid[d])
      r->at[d] = rest % f->grid[d];
    r->n = nn_least(f->grid[2] - r->at[2], points.end - i);
    r->n = nn_least(r->n, strip - column % strip);
    r->column = column;
    r->to = column / strip * apart + column % strip;
    column += r->n;
    i += r->n;
  }
  all->columns = nn_up(column, strip);
}

/* Elements from one image's plane to the next image's. */
static int64_t image_size(const plan *p) {
  return p->conv->groups * p->planes * nn_window_product(p->in);
}

/* Whether the points of a block are picked: their lines are short, and numbers
 * of 32 bits tell where they are. */
static int is_picked(const plan *p, const phase *f, const runs *all) {
  const int64_t images = all->all[all->n - 1].image - all->all[0].image + 1;
  int64_t most = images * image_size(p);
  for (int64_t t = 0; t < f->n_taps; ++t)
    for (int d = 0; d < NN_WINDOW_RANK; ++d)
      most = nn_most(most, llabs(f->taps[t].at[d]));
  return f->grid[2] < LONG && most < INT32_MAX / 4;
}

/* The places of picked points; those that fill the last strip up are nowhere.
 */
static void find_places(const plan *p, runs *all) {
  int64_t column = 0;
  for (int64_t k = 0; k < all->n; ++k) {
    const run *r = &all->all[k];
    int64_t at[NN_WINDOW_RANK], base = (r->image - all->all[0].image);
    base *= image_size(p);
    for (int d = 0; d < NN_WINDOW_RANK; ++d) at[d] = r->at[d] * p->step[d];
    base += (at[0] * p->in[1] + at[1]) * p->in[2] + at[2];
    for (int64_t i = 0; i < r->n; ++i, ++column) {
      all->base[column] = (int32_t)(base + i * p->step[2]);
      all->place[0][column] = (int32_t)at[0];
      all->place[1][column] = (int32_t)at[1];
      all->place[2][column] = (int32_t)(at[2] + i * p->step[2]);
    }
  }
  for (; column < all->columns; ++column) {
    all->base[column] = 0;
    for (int d = 0; d < NN_WINDOW_RANK; ++d)
      all->place[d][column] = INT32_MIN / 2;
  }
}

static inline void copy_steps(const plan *p, float *to, const float *from,
                              int64_t n) {
  const int64_t step = p->step[2];
  if (step == 1)
    memcpy(to, from, (size_t)n * sizeof *to);
  else if (step == 2)
    p->loops->halve(to, from, n);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

/* One tap of the points of a run, in a plane. */
static inline void gather_run(const plan *p, const tap *t, const run *r,
                              const float *plane, float *to) {
  const int64_t z = r->at[0] * p->step[0] + t->at[0];
  const int64_t y = r->at[1] * p->step[1] + t->at[1];
  const int64_t first = r->at[2], last = first + r->n;
  if (z < 0 || z >= p->in[0] || y < 0 || y >= p->in[1]) {
    memset(to, 0, (size_t)(r->n) * sizeof *to);
    return;
  }
  const int64_t begin = nn_least(nn_most(t->inside.begin, first), last);
  const int64_t end = nn_most(nn_least(t->inside.end, last), begin);
  const float *line = plane + (z * p->in[1] + y) * p->in[2];
  if (begin > first) memset(to, 0, (size_t)(begin - first) * sizeof *to);
  if (end > begin)
    copy_steps(p, to + (begin - first), line + begin * p->step[2] + t->at[2],
               end - begin);
  if (last > end)
    memset(to + (end - first), 0, (size_t)(last - end) * sizeof *to);
}

static void gather_lines(const plan *p, const tap *t, const runs *all,
                         const float *plane, float *to) {
  const int64_t image = image_size(p);
  for (int64_t k = 0; k < all->n; ++k) {
    const run *r = &all->all[k];
    gather_run(p, t, r, plane + r->image * image, to + r->to);
  }
}

/* How rows lie: `apart` elements apart, in strips. */
typedef struct layout {
  float *to;
  int64_t apart;
  int64_t strip;
  int64_t strips; /* elements from one to the next */
} layout;

static void gather_picks(const plan *p, const tap *t, const runs *all,
                         const float *plane, const layout *l) {
  picks x = {.skip = (int32_t)((t->at[0] * p->in[1] + t->at[1]) * p->in[2] +
                               t->at[2])};
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    x.shift[d] = (int32_t)t->at[d];
    x.in[d] = (int32_t)p->in[d];
  }
  plane += all->all[0].image * image_size(p);
  float *to = l->to;
  for (int64_t i = 0; i < all->columns; i += l->strip, to += l->strips) {
    x.base = all->base + i;
    for (int d = 0; d < NN_WINDOW_RANK; ++d) x.place[d] = all->place[d] + i;
    x.n = l->strip;
    p->loops->pick(&x, plane, to);
  }
}

/* Some rows of a group. */
static void gather(const plan *p, const phase *f, const runs *all,
                   int64_t group, nn_range rows, layout l) {
  const int64_t size = nn_window_product(p->in);
  if (f->n_taps == 0) return;
  for (int64_t i = rows.begin; i < rows.end; ++i, l.to += l.apart) {
    const tap *t = &f->taps[i % f->n_taps];
    const float *plane = p->from + (group * p->planes + i / f->n_taps) * size;
    if (all->picked)
      gather_picks(p, t, all, plane, &l);
    else
      gather_lines(p, t, all, plane, l.to);
  }
}

#endif /* NN_CONV_GATHER_H_ */
