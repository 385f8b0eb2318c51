/* SPDX-License-Identifier: Apache-2.0
 * conv_tiles_plan.h: a part of conv_tiles.c only: the division of a pass into
 * phases, taps and blocks of points, the input addresses of a block's points,
 * and loops of three levels.
 */
#ifndef NN_CONV_TILES_PLAN_H_
#define NN_CONV_TILES_PLAN_H_

#include <string.h>

#include "conv.h"
#include "tenon/kernel/kernel.h"
#include "workspaces.h"

enum {
  DEPTH = 576,  /* rows of weights that are multiplied in one loop, about, for
                   vectors of 16 lanes; shorter vectors have smaller caches */
  POINTS = 512, /* largest number of points of a block */
  COPIED = 1 << 20, /* largest number of elements that a block of several images
                       reads */
  PREFETCH_DISTANCE = 48, /* elements by which lines are prefetched */
  FEW_SLICES = 4, /* with fewer slices, computed planes are divided as well */
  HEIGHT = 576,   /* rows of a slice of the gradient of weight, about */
  SUMS = 8,       /* from as many slices on, sums are not divided over images */
  MOST_ROWS = 8,
  WIDE = 3 /* largest number of vectors of a strip */
};

/* Arguments of multiply: a tile of sums, `rows` rows of `wide` vectors. Row r
 * is the sum over k < depth of left[r][steps[k]] times row k of `right`; it is
 * added to the old sums if `add`. The function always writes as many rows as
 * there are registers, and reads left[] for them. */
typedef struct tile {
  const float *left[MOST_ROWS];
  const float *next; /* left[0] of the next tile, for prefetching */
  const int64_t *steps;
  const float *right;
  float *to;
  int64_t depth;
  int64_t wide;
  int64_t rows;
  int add;
} tile;

/* Arguments of transpose: `n` lines of `depth` elements, with the
 * distance `line_distance`, become columns of a matrix. Its rows have the
 * distance `row`. If `open`,
 * rows are written up to the end of a vector. Otherwise they get a bias each,
 * and are added to the old elements if `add`. */
typedef struct transposition {
  const float *from;
  int64_t line_distance;
  int64_t n;
  int64_t depth;
  float *to;
  int64_t row;
  const float *bias; /* NULL: none */
  int open;
  int add;
} transposition;

/* Arguments of copy_lines: n lines of a plane. Elements at
 * `prefetch_distance` after them are prefetched. */
typedef struct line_copy {
  const float *from;
  int64_t from_row;
  float *to;
  int64_t to_row;
  int64_t n;
  int64_t length;
  int64_t prefetch_distance;
} line_copy;

/* Arguments of store_lines: n consecutive lines of sums. Their elements are
 * stored with the distance `step`, or added if `add`. */
typedef struct line_store {
  const float *from;
  float *to;
  int64_t to_row;
  int64_t n;
  int64_t length;
  int64_t step;
  int add;
} line_store;

/* The functions of one level; conv_tiles_loop.h explains each. `rows` and
 * `lanes` are the size of a tile of one vector. */
typedef struct loops {
  int rows;
  int lanes;
  void (*multiply)(const tile *t);
  void (*transpose)(const transposition *t);
  void (*copy_lines)(const line_copy *x);
  void (*store_lines)(const line_store *s);
} loops;

#if defined(__clang__)
#define TILES_SHUFFLE(places, a, b, ...) \
  __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TILES_SHUFFLE(places, a, b, ...) \
  __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif

#define LANES_4(x, h) x(0, h), x(1, h), x(2, h), x(3, h)
#define LANES_8(x, h) LANES_4(x, h), x(4, h), x(5, h), x(6, h), x(7, h)
#define LANES_16(x, h)                                                     \
  LANES_8(x, h), x(8, h), x(9, h), x(10, h), x(11, h), x(12, h), x(13, h), \
      x(14, h), x(15, h)

typedef float four __attribute__((vector_size(16), may_alias));

/* Loads n elements, at most three, and zeros. */
static inline four load_four(const float *from, int64_t n) {
  return (four){from[0], n > 1 ? from[1] : 0, n > 2 ? from[2] : 0, 0};
}

#define PUT_FOUR(to, v, n)               \
  do {                                   \
    const four all_ = (v);               \
    for (int l_ = 0; l_ < 4; ++l_)       \
      if (l_ < (n)) (to)[l_] = all_[l_]; \
  } while (0)
#define SECOND_FOUR(to, v, n)                \
  do {                                       \
    const four all_ = (v);                   \
    for (int l_ = 0; l_ < 4; ++l_)           \
      if (l_ < (n)) (to)[2 * l_] = all_[l_]; \
  } while (0)

#define TILES_NAME(x) x##_base
#define TILES_TARGET
#define TILES_BYTES 16
#define TILES_ROWS 4
#define TILES_REPEAT NN_CONV_FOUR
#define TILES_LANES LANES_4
#define TILES_TAKE(from, n) ((vector_base)load_four(from, n))
#define TILES_PUT PUT_FOUR
#define TILES_SECOND SECOND_FOUR
#include "conv_tiles_loop.h"

#if defined(TN_KERNEL_AVX2)
#include <immintrin.h>

#define FIRST_8(n)                                \
  _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), \
                     _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define SECOND_8(to, v, n)                   \
  do {                                       \
    const vector_avx2 all_ = (v);            \
    for (int l_ = 0; l_ < 8; ++l_)           \
      if (l_ < (n)) (to)[2 * l_] = all_[l_]; \
  } while (0)

#define TILES_NAME(x) x##_avx2
#define TILES_TARGET TN_KERNEL_AVX2
#define TILES_BYTES 32
#define TILES_ROWS 4
#define TILES_REPEAT NN_CONV_FOUR
#define TILES_LANES LANES_8
#define TILES_TAKE(from, n) ((vector_avx2)_mm256_maskload_ps(from, FIRST_8(n)))
#define TILES_PUT(to, v, n) _mm256_maskstore_ps(to, FIRST_8(n), (__m256)(v))
#define TILES_SECOND SECOND_8
#include "conv_tiles_loop.h"

#define FIRST_16(n) ((__mmask16)((1u << (n)) - 1u))

/* Spreads one half of a vector to a whole vector, with a gap after each
 * element. */
#define HALF_16(v, half) \
  _mm512_castsi512_ps(   \
      _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64((__m512i)(v), half)))
#define SECOND_16(to, v, n)                                                    \
  do {                                                                         \
    const vector_avx512 all_ = (v);                                            \
    const uint64_t first_ = ((uint64_t)1 << 2 * (n)) - 1;                      \
    const uint32_t keep_ = (uint32_t)first_ & 0x55555555u;                     \
    _mm512_mask_storeu_ps(to, (__mmask16)(keep_ & 0xffffu), HALF_16(all_, 0)); \
    _mm512_mask_storeu_ps((to) + 16, (__mmask16)(keep_ >> 16),                 \
                          HALF_16(all_, 1));                                   \
  } while (0)

#define TILES_NAME(x) x##_avx512
#define TILES_TARGET TN_KERNEL_AVX512
#define TILES_BYTES 64
#define TILES_ROWS 8
#define TILES_REPEAT
#define TILES_LANES LANES_16
#define TILES_TAKE(from, n) \
  ((vector_avx512)_mm512_maskz_loadu_ps(FIRST_16(n), from))
#define TILES_PUT(to, v, n) _mm512_mask_storeu_ps(to, FIRST_16(n), (__m512)(v))
#define TILES_SECOND SECOND_16
#include "conv_tiles_loop.h"
#endif

/* ------------------------------------------------------------------ passes */

/* The plan of a pass. The gradient of data is a forward pass with data and out
 * exchanged; the gradient of weight reads like a forward pass. */
typedef struct plan {
  const nn_conv *conv;
  const loops *loops;
  const float *from;
  const float *weight;
  const float *bias; /* NULL: none */
  const float *out_gradients;
  float *to;
  /* Packed weights: (group, phase, strip, row, computed plane). */
  float *packed;
  int back;
  int add;
  int64_t planes;   /* planes of a group that are read */
  int64_t computed; /* planes of a group that are computed */
  int64_t strips;   /* strips of computed planes */
  int64_t in[NN_WINDOW_RANK];
  int64_t out[NN_WINDOW_RANK];
  int64_t step[NN_WINDOW_RANK]; /* distance in the input from point to point */
  int64_t phases[NN_WINDOW_RANK]; /* phases of the result */
  int64_t grid[NN_WINDOW_RANK];   /* points of the largest phase */
  int cut;        /* the dimension that blocks divide; -1: images */
  int64_t length; /* length of a block in that dimension, or its images */
  int64_t points; /* points of a block */
  int64_t blocks;
  int64_t shares; /* parts of the strips, which slices compute separately */
  int64_t height; /* planes of a slice of the gradient of weight */
  int64_t down;   /* number of slices of the gradient of weight in a group */
  nn_conv_sums sums;
  nn_workspaces workspaces;
} plan;

/* A tap: an element of the window, with its distance from a point at 0. */
typedef struct tap {
  int64_t at[NN_WINDOW_RANK];
  int64_t index; /* number of the element in the window */
} tap;

/* One phase: the points with equal remainders modulo the stride, and the taps
 * that reach them. */
typedef struct phase {
  int64_t index;
  int64_t first[NN_WINDOW_RANK]; /* first element of the result */
  int64_t grid[NN_WINDOW_RANK];
  /* Least and greatest distance of the phase's taps from a point. */
  int64_t low[NN_WINDOW_RANK];
  int64_t high[NN_WINDOW_RANK];
  int64_t n_taps;
  tap *taps;
} phase;

/* Sets *at to the distance of a tap along dimension d; returns 0 if no point of
 * the phase has the tap. */
static int find_tap_position(const plan *p, const phase *f, int d, int64_t t,
                             int64_t *at) {
  const nn_window *w = &p->conv->window;
  const int64_t shift = t * w->dilate[d] - w->pad[d];
  *at = shift;
  if (!p->back) return 1;
  *at = (f->first[d] - shift) / w->stride[d];
  return (f->first[d] - shift) % w->stride[d] == 0;
}

/* Finds the taps of a phase, in their order. */
static void find_taps(const plan *p, phase *f) {
  const nn_window *w = &p->conv->window;
  f->n_taps = 0;
  for (int64_t i = 0; i < p->conv->taps; ++i) {
    tap *t = &f->taps[f->n_taps];
    int64_t rest = i;
    int meets = 1;
    for (int d = NN_WINDOW_RANK; d-- > 0; rest /= w->kernel[d])
      meets &= find_tap_position(p, f, d, rest % w->kernel[d], &t->at[d]);
    if (!meets) continue;
    for (int d = 0; d < NN_WINDOW_RANK; ++d) {
      f->low[d] = f->n_taps ? nn_min(f->low[d], t->at[d]) : t->at[d];
      f->high[d] = f->n_taps ? nn_max(f->high[d], t->at[d]) : t->at[d];
    }
    t->index = i;
    ++f->n_taps;
  }
}

/* Returns phase number `index`; `taps` must have room for all elements of a
 * window. */
static phase find_phase(const plan *p, int64_t index, tap *taps) {
  phase f = {.index = index, .taps = taps};
  for (int d = NN_WINDOW_RANK; d-- > 0; index /= p->phases[d]) {
    f.first[d] = index % p->phases[d];
    f.grid[d] = nn_ceil_div(p->out[d] - f.first[d], p->phases[d]);
  }
  find_taps(p, &f);
  return f;
}

/* ------------------------------------------------------------------ blocks */

/* A range of points of a phase: the points in a box of each of some images,
 * image after image. */
typedef struct point_range {
  nn_range images;
  nn_range at[NN_WINDOW_RANK];
  int64_t points; /* points of one image */
} point_range;

/* Returns the largest number of elements of a plane that the points of a block
 * read. */
static int64_t count_read_elements(const plan *p) {
  const nn_window *w = &p->conv->window;
  int64_t n = 1;
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    const int64_t reach = (w->kernel[d] - 1) * w->dilate[d];
    int64_t points = d < p->cut ? 1 : p->grid[d];
    if (d == p->cut) points = p->length;
    n *= p->back ? points + reach / w->stride[d] + 1
                 : (points - 1) * p->step[d] + reach + 1;
  }
  return n;
}

/* Divides a pass into blocks: of images, or of one image's points along the
 * first dimension in which a single step fits a block. A block reads `planes`
 * planes. */
static void divide_blocks(plan *p, int64_t planes) {
  const int64_t all = nn_window_multiply_lengths(p->grid);
  int64_t each = all;
  p->cut = -1;
  p->length = nn_min(POINTS / all, COPIED / (planes * count_read_elements(p)));
  p->length = nn_divide_evenly(p->conv->images, nn_max(p->length, 1));
  p->blocks = nn_ceil_div(p->conv->images, p->length);
  p->points = all * p->length;
  if (all <= POINTS) return;
  do each /= p->grid[++p->cut];
  while (each > POINTS && p->cut + 1 < NN_WINDOW_RANK);
  p->length = nn_divide_evenly(p->grid[p->cut], nn_max(POINTS / each, 1));
  p->points = each * p->length;
  p->blocks = p->conv->images * nn_ceil_div(p->grid[p->cut], p->length);
  for (int d = 0; d < p->cut; ++d) p->blocks *= p->grid[d];
}

/* Returns the points of block number `index` in a phase; there are none if the
 * phase is smaller than others. */
static point_range find_point_range(const plan *p, const phase *f,
                                    int64_t index) {
  const int64_t images = p->conv->images;
  point_range b = {.points = 1};
  for (int d = NN_WINDOW_RANK; d-- > 0;) {
    b.at[d] = (nn_range){0, f->grid[d]};
    if (d > p->cut) continue;
    const int64_t length = d == p->cut ? p->length : 1;
    const int64_t parts = nn_ceil_div(p->grid[d], length);
    b.at[d].begin = nn_min(index % parts * length, f->grid[d]);
    b.at[d].end = nn_min(b.at[d].begin + length, f->grid[d]);
    index /= parts;
  }
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    b.points *= b.at[d].end - b.at[d].begin;
  const int64_t step = p->cut < 0 ? p->length : 1;
  b.images.begin = index * step;
  b.images.end = nn_min(b.images.begin + step, images);
  return b;
}

/* Returns the number of points of a block, in all its images. */
static int64_t count_points(const point_range *b) {
  return b->points * (b->images.end - b->images.begin);
}

/* ------------------------------------------------------------------- reads */

/* The input that a block's points read in some planes: a copy with padding, or
 * the array itself if there is no padding. */
typedef struct block_input {
  const float *from;
  int64_t begin[NN_WINDOW_RANK];  /* first element that is read; below 0 in
                                     padding */
  int64_t extent[NN_WINDOW_RANK]; /* number of elements that are read */
  int64_t pitch[NN_WINDOW_RANK];  /* distance from one index to the next */
  int64_t plane;                  /* distance between planes */
  int64_t image;                  /* distance between images */
} block_input;

/* Returns the number of elements in a block's copy of `planes` planes. */
static int64_t count_copied(const plan *p, int64_t planes) {
  return nn_round_up(
      (p->cut < 0 ? p->length : 1) * planes * count_read_elements(p), 16);
}

/* Whether a block reads no padding. */
static int is_without_padding(const plan *p, const block_input *r) {
  for (int d = 0; d < NN_WINDOW_RANK; ++d)
    if (r->begin[d] < 0 || r->begin[d] + r->extent[d] > p->in[d]) return 0;
  return 1;
}

/* Copies the part of a plane that exists; padding in `to` is already zero. */
static void copy_plane(const plan *p, const block_input *r, const float *from,
                       float *to) {
  nn_range x[NN_WINDOW_RANK];
  for (int d = 0; d < NN_WINDOW_RANK; ++d) {
    x[d].begin = nn_max(r->begin[d], 0);
    x[d].end = nn_min(r->begin[d] + r->extent[d], p->in[d]);
    if (x[d].begin >= x[d].end) return;
    to += (x[d].begin - r->begin[d]) * r->pitch[d];
  }
  from += x[1].begin * p->in[2] + x[2].begin;
  for (int64_t z = x[0].begin; z < x[0].end; ++z)
    p->loops->copy_lines(
        &(line_copy){.from = from + z * p->in[1] * p->in[2],
                     .from_row = p->in[2],
                     .to = to + (z - x[0].begin) * r->pitch[0],
                     .to_row = r->pitch[1],
                     .n = x[1].end - x[1].begin,
                     .length = x[2].end - x[2].begin,
                     .prefetch_distance = nn_window_multiply_lengths(p->in)});
}

/* Returns the input of a block in planes [planes.begin, planes.end) of a group.
 * It is copied to `memory` if there is padding. */
static block_input read_block_input(const plan *p, const phase *f,
                                    const point_range *b, nn_range planes,
                                    int64_t group, float *memory) {
  const int64_t size = nn_window_multiply_lengths(p->in);
  const int64_t image = p->conv->groups * p->planes * size;
  const float *from = p->from + b->images.begin * image +
                      (group * p->planes + planes.begin) * size;
  block_input r = {.from = from, .plane = size, .image = image};
  for (int d = NN_WINDOW_RANK; d-- > 0;) {
    r.begin[d] = b->at[d].begin * p->step[d] + f->low[d];
    r.extent[d] = (b->at[d].end - 1 - b->at[d].begin) * p->step[d] +
                  f->high[d] - f->low[d] + 1;
    r.pitch[d] = d == 2 ? 1 : r.pitch[d + 1] * p->in[d + 1];
  }
  if (f->n_taps == 0) return r;
  if (is_without_padding(p, &r)) {
    for (int d = 0; d < NN_WINDOW_RANK; ++d) r.from += r.begin[d] * r.pitch[d];
    return r;
  }
  r.pitch[1] = r.extent[2];
  r.pitch[0] = r.pitch[1] * r.extent[1];
  r.plane = r.pitch[0] * r.extent[0];
  r.image = r.plane * (planes.end - planes.begin);
  const int64_t images = b->images.end - b->images.begin;
  memset(memory, 0, (size_t)(images * r.image) * sizeof *memory);
  for (int64_t i = 0; i < images; ++i)
    for (int64_t k = 0; k < planes.end - planes.begin; ++k)
      copy_plane(p, &r, from + i * image + k * size,
                 memory + i * r.image + k * r.plane);
  r.from = memory;
  return r;
}

/* Sets at[] to the position in the input of the first tap of each point of a
 * block. */
static void locate_points(const plan *p, const point_range *b,
                          const block_input *r, int64_t *at) {
  for (int64_t i = 0; i < b->images.end - b->images.begin; ++i)
    for (int64_t z = 0; z < b->at[0].end - b->at[0].begin; ++z)
      for (int64_t y = 0; y < b->at[1].end - b->at[1].begin; ++y)
        for (int64_t x = 0; x < b->at[2].end - b->at[2].begin; ++x)
          *at++ = i * r->image + z * p->step[0] * r->pitch[0] +
                  y * p->step[1] * r->pitch[1] + x * p->step[2];
}

/* Sets at[] to the distances of all taps from the first tap, in each of
 * `planes` planes. */
static void locate_taps(const phase *f, const block_input *r, int64_t planes,
                        int64_t *at) {
  for (int64_t k = 0; k < planes; ++k)
    for (int64_t t = 0; t < f->n_taps; ++t) {
      int64_t place = k * r->plane;
      for (int d = 0; d < NN_WINDOW_RANK; ++d)
        place += (f->taps[t].at[d] - f->low[d]) * r->pitch[d];
      *at++ = place;
    }
}

/* ------------------------------------------------------------------ strips */

/* A strip: a few vectors of computed planes, which are lanes of the vectors. */
typedef struct strip {
  int64_t wide;  /* number of vectors */
  int64_t first; /* first plane */
  int64_t width; /* lanes of all vectors of the strip */
  int64_t n;     /* number of planes; the other lanes are unused */
} strip;

/* Returns the number of vectors that all computed planes of a group fill. */
static int64_t count_vectors(const plan *p) {
  return nn_ceil_div(p->computed, p->loops->lanes);
}

/* Returns the number of lanes of all strips of a group. */
static int64_t count_strip_elements(const plan *p) {
  return count_vectors(p) * p->loops->lanes;
}

/* Returns strip number `index` of a group's computed planes. */
static strip find_strip(const plan *p, int64_t index) {
  const int64_t all = count_vectors(p), lanes = p->loops->lanes;
  const int64_t first = index * all / p->strips;
  const int64_t wide = (index + 1) * all / p->strips - first;
  return (strip){wide, first * lanes, wide * lanes,
                 nn_min(wide * lanes, p->computed - first * lanes)};
}

/* Returns the number of packed weights of a group. */
static int64_t count_packed(const plan *p) {
  return count_strip_elements(p) * p->planes * p->conv->taps;
}

/* Returns the bytes of workspace for the packed weights. */
static uint64_t count_packed_bytes(const plan *p) {
  return (uint64_t)nn_round_up(p->conv->groups * count_packed(p), 16) *
         sizeof(float);
}

/* Returns the number of taps along dimension d that belong to the first n
 * phases there; each belongs to one. */
static int64_t count_taps_along(const plan *p, int d, int64_t n) {
  const nn_window *w = &p->conv->window;
  int64_t count = 0;
  for (int64_t t = 0; t < w->kernel[d]; ++t) {
    const int64_t first = (t * w->dilate[d] - w->pad[d]) % w->stride[d];
    count += (first < 0 ? first + w->stride[d] : first) < n;
  }
  return count;
}

/* Returns the number of taps of all phases before phase `index`, without a loop
 * over phases: with a large stride there are as many as elements. */
static int64_t count_taps_before(const plan *p, int64_t index) {
  int64_t before = 0, inner = 1;
  for (int d = NN_WINDOW_RANK; d-- > 0; index /= p->phases[d]) {
    const int64_t at = index % p->phases[d];
    const int64_t lower = count_taps_along(p, d, at);
    const int64_t own = count_taps_along(p, d, at + 1) - lower;
    before = lower * inner + own * before;
    inner *= count_taps_along(p, d, p->phases[d]);
  }
  return before;
}

/* Returns the packed weights of a strip in phase f; the phases before have
 * `before` taps. */
static float *locate_packed(const plan *p, int64_t group, const phase *f,
                            int64_t before, const strip *s) {
  return p->packed + group * count_packed(p) +
         count_strip_elements(p) * p->planes * before +
         s->first * p->planes * f->n_taps;
}

#endif /* NN_CONV_TILES_PLAN_H_ */
