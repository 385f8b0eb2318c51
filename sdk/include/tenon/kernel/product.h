/* SPDX-License-Identifier: Apache-2.0
 * product.h: matrix products in C, vectorised at every level of instructions
 * and divided over the host's workers. Up to edges of some hundred they are as
 * fast as a BLAS or faster, for larger ones nearly
 * (docs/benchmarks/performance.md). They need no BLAS.
 *
 *   int32_t code = tn_product_by(blas, call, &product);
 *
 * Header only, some 60 kB of code: one file of a plugin includes it, for all.
 * gcc and clang, C11 or C++17; not for CUDA. A slice needs 160 KiB of its
 * thread's stack.
 *
 * c is cut into blocks, which are the slices of a parallel loop. In each, some
 * columns of op(b), as deep as the buffer allows, are multiplied with bands of
 * rows of op(a), as many at a time as registers for the sums allow. Vectors are
 * along rows of c, or along its columns if that moves less data. Rows of op(a)
 * are read in place, or gathered before if they are not contiguous.
 */
#ifndef TENON_KERNEL_PRODUCT_H_
#define TENON_KERNEL_PRODUCT_H_

#include "tenon/kernel/kernel.h"
#include "tenon/kernel/transpose.h"
#include "tenon/plugin/blas.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TN_PRODUCT_DEPTH = 512,  /* rows of op(b) that are packed at a time */
  TN_PRODUCT_ROOM = 65536, /* bytes for them: 32 columns of f32, 16 of f64 */
  TN_PRODUCT_FLAT = 256,   /* the same two where rows of op(a) are gathered: */
  TN_PRODUCT_WIDER = 131072, /* 128 columns of f32, as each pays for that */
  TN_PRODUCT_GATHER = 24576, /* bytes for rows of op(a): 24 of f32, 12 of f64 */
  TN_PRODUCT_WIDTH = 512,    /* columns of a block, at most */
  TN_PRODUCT_HEIGHT = 480,   /* rows of a block, at most */
  TN_PRODUCT_STEP = 48,      /* that heights are multiples of: whole tiles at
                                every level */
  TN_PRODUCT_BLOCKS = 8,     /* that a product is cut into, if it can be */
  TN_PRODUCT_LANES = 16,     /* of the widest vectors */
  TN_PRODUCT_LEAST = 12,     /* rows that are worth gathering, */
  TN_PRODUCT_APART = 16384,  /* and elements of op(a) */
  TN_PRODUCT_BESIDE = 8,     /* vectors of the sums of one row */
  TN_PRODUCT_TERMS = 256,    /* products that one sum of a row adds up */
  TN_PRODUCT_LINE = 256,     /* columns of a block of one row */
  TN_PRODUCT_FAR = 64,       /* depth from which on c is prefetched */
  TN_PRODUCT_PREFETCH = 32,  /* rows of op(b) between prefetch and read */
  TN_PRODUCT_LONG = 512,     /* edges longer than that are a BLAS's */
  TN_PRODUCT_SMALL = 1 << 18 /* m * n * k below which a product is computed on
                                the calling thread */
};

/* A matrix with element (i, j) at at[i * row + j * column]. */
typedef struct tn_product_matrix {
  const void *at;
  int64_t row;
  int64_t column;
} tn_product_matrix;

/* The destination of sums: c = alpha * sum + beta * c; row or column is 1. */
typedef struct tn_product_target {
  void *at;
  int64_t row;
  int64_t column;
  double alpha;
  double beta;
} tn_product_target;

/* A part of c, m x n, with the rows of op(a) and columns of op(b) for it. */
typedef struct tn_product_block {
  tn_product_matrix a;
  tn_product_matrix b;
  tn_product_target c;
  int64_t m;
  int64_t n;
  int64_t k;
  int gathers; /* rows of op(a) */
} tn_product_block;

/* A whole product. Rows of op(a) are gathered if its columns are contiguous,
 * too far from each other to stay in a cache, and some strips of op(b) are
 * multiplied with each. */
static inline tn_product_block tn_product_block_of(tn_product_matrix a,
                                                   tn_product_matrix b,
                                                   tn_product_target c,
                                                   int64_t m, int64_t n,
                                                   int64_t k) {
  const int gathers = a.column != 1 && a.row == 1 && m >= TN_PRODUCT_LEAST &&
                      n > 2 * TN_PRODUCT_LANES &&
                      k * a.column >= TN_PRODUCT_APART;
  const tn_product_block x = {a, b, c, m, n, k, gathers};
  return x;
}

/* Rows of op(b) that are packed at a time. */
static inline int64_t tn_product_depth(const tn_product_block *x) {
  return x->gathers ? TN_PRODUCT_FLAT : TN_PRODUCT_DEPTH;
}

/* Whether a block of one row needs no packing: see product_tile.h. */
static inline int tn_product_is_line(const tn_product_block *x) {
  return x->m == 1 && (x->b.column == 1 || (x->a.column == 1 && x->b.row == 1));
}

#if defined(__clang__)
#define TN_PRODUCT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TN_PRODUCT_UNROLL _Pragma("GCC unroll 16")
#endif

/* Registers: 16 of 16 or 32 bytes, or 32 of 64. */
#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32
#define TN_TILE_TRANSPOSE tn_transpose_32_base
#define TN_TILE_TARGET
#define TN_TILE_BYTES 16
#define TN_TILE_ROWS 6
#include "tenon/kernel/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64
#define TN_TILE_TRANSPOSE tn_transpose_64_base
#define TN_TILE_TARGET
#define TN_TILE_BYTES 16
#define TN_TILE_ROWS 6
#include "tenon/kernel/product_tile.h"

#if defined(TN_KERNEL_AVX2)
#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32_avx2
#define TN_TILE_TRANSPOSE tn_transpose_32_avx2
#define TN_TILE_TARGET TN_KERNEL_AVX2
#define TN_TILE_BYTES 32
#define TN_TILE_ROWS 6
#include "tenon/kernel/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64_avx2
#define TN_TILE_TRANSPOSE tn_transpose_64_avx2
#define TN_TILE_TARGET TN_KERNEL_AVX2
#define TN_TILE_BYTES 32
#define TN_TILE_ROWS 6
#include "tenon/kernel/product_tile.h"

#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32_avx512
#define TN_TILE_TRANSPOSE tn_transpose_32_avx512
#define TN_TILE_TARGET TN_KERNEL_AVX512
#define TN_TILE_BYTES 64
#define TN_TILE_ROWS 12
#include "tenon/kernel/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64_avx512
#define TN_TILE_TRANSPOSE tn_transpose_64_avx512
#define TN_TILE_TARGET TN_KERNEL_AVX512
#define TN_TILE_BYTES 64
#define TN_TILE_ROWS 12
#include "tenon/kernel/product_tile.h"
#endif

typedef void tn_product_tile(const tn_product_block *whole, void *room);

static inline tn_product_tile *tn_product_tile_of(tn_dtype dtype,
                                                  uint32_t level) {
#if defined(TN_KERNEL_AVX2)
  static tn_product_tile *const single[] = {tn_product_tile_f32,
                                            tn_product_tile_f32_avx2,
                                            tn_product_tile_f32_avx512};
  static tn_product_tile *const twice[] = {tn_product_tile_f64,
                                           tn_product_tile_f64_avx2,
                                           tn_product_tile_f64_avx512};
  return dtype == TN_F32 ? single[level] : twice[level];
#else
  (void)level;
  return dtype == TN_F32 ? tn_product_tile_f32 : tn_product_tile_f64;
#endif
}

/* A product and how its c is cut. */
typedef struct tn_product_plan {
  tn_product_block whole;
  tn_product_tile *tile;
  int64_t bytes; /* of an element */
  int64_t height;
  int64_t width; /* of a block */
  int64_t across;
} tn_product_plan;

static inline const void *tn_product_skip(const void *at, int64_t elements,
                                          int64_t bytes) {
  return (const char *)at + elements * bytes;
}

/* Blocks [begin, end), row by row. */
static inline int32_t tn_product_slice(void *arg, int64_t begin, int64_t end) {
  const tn_product_plan *p = (const tn_product_plan *)arg;
  union {
    char bytes[TN_PRODUCT_WIDER + TN_PRODUCT_GATHER];
    uint64_t line[8] __attribute__((aligned(64)));
  } room;
  for (int64_t s = begin; s < end; ++s) {
    const int64_t i = s / p->across * p->height, j = s % p->across * p->width;
    tn_product_block x = p->whole;
    x.m = x.m - i < p->height ? x.m - i : p->height;
    x.n = x.n - j < p->width ? x.n - j : p->width;
    x.a.at = tn_product_skip(x.a.at, i * x.a.row, p->bytes);
    x.b.at = tn_product_skip(x.b.at, j * x.b.column, p->bytes);
    x.c.at = (char *)x.c.at + (i * x.c.row + j * x.c.column) * p->bytes;
    p->tile(&x, room.bytes);
  }
  return TN_OK;
}

/* c = beta * c, if no product is added. */
static inline void tn_product_scale(const tn_blas_gemm *g) {
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      const int64_t at = i * g->ldc + j;
      if (g->dtype == TN_F32) {
        float *c = (float *)g->c;
        c[at] = g->beta == 0 ? 0.0f : (float)g->beta * c[at];
      } else {
        double *c = (double *)g->c;
        c[at] = g->beta == 0 ? 0.0 : g->beta * c[at];
      }
    }
}

/* The transposed product, with c in column-major order. */
static inline tn_product_block tn_product_transposed(
    const tn_product_block *x) {
  const tn_product_matrix a = {x->a.at, x->a.column, x->a.row};
  const tn_product_matrix b = {x->b.at, x->b.column, x->b.row};
  const tn_product_target c = {x->c.at, x->c.column, x->c.row, x->c.alpha,
                               x->c.beta};
  return tn_product_block_of(b, a, c, x->n, x->m, x->k);
}

static inline double tn_product_parts(int64_t n, int64_t step) {
  const int64_t parts = (n + step - 1) / step;
  return (double)parts;
}

/* Columns of a block: as many as fit the buffer of packed columns. For c in
 * column-major order, as many as fit at any depth. */
static inline int64_t tn_product_width(const tn_product_block *x,
                                       int64_t bytes) {
  const int64_t least = TN_PRODUCT_ROOM / TN_PRODUCT_DEPTH / bytes;
  const int64_t depth = tn_product_depth(x);
  const int64_t room = x->gathers ? TN_PRODUCT_WIDER : TN_PRODUCT_ROOM;
  if (tn_product_is_line(x)) return TN_PRODUCT_LINE;
  if (x->c.column != 1) return least;
  if (x->k > depth / 2) return room / bytes / depth;
  const int64_t most = room / bytes / x->k / least * least;
  return most < TN_PRODUCT_WIDTH ? most : (int64_t)TN_PRODUCT_WIDTH;
}

/* Estimated time of a product, in multiplied vectors: products, transposed
 * columns of op(b), transposed sums, and gathered rows of op(a) of each
 * block. */
static inline double tn_product_cost(const tn_product_block *x) {
  const double m = (double)x->m, n = (double)x->n, k = (double)x->k;
  const double rounds = tn_product_parts(x->k, tn_product_depth(x));
  const double blocks = tn_product_parts(x->n, tn_product_width(x, 4));
  return 3 * tn_product_parts(x->m, 3) *
             tn_product_parts(x->n, TN_PRODUCT_LANES) * k +
         (x->b.column == 1 ? 0 : n * k / 2) +
         (x->c.column == 1 ? 0 : m * n * rounds / 2) +
         (x->a.column == 1 ? 0 : m * k * blocks / 2);
}

/* Returns 1 if vectors should be along columns of c. */
static inline int tn_product_should_transpose(const tn_product_block *x) {
  const tn_product_block transposed = tn_product_transposed(x);
  if (x->m == 1 || x->n == 1) return x->m > 1;
  return tn_product_cost(&transposed) < tn_product_cost(x);
}

/* Rows of a block: all about as many, and few enough for several blocks. */
static inline int64_t tn_product_height(int64_t m, int64_t across) {
  int64_t parts = (m + TN_PRODUCT_HEIGHT - 1) / TN_PRODUCT_HEIGHT;
  const int64_t wanted = (TN_PRODUCT_BLOCKS + across - 1) / across;
  const int64_t most = m / (2 * TN_PRODUCT_STEP);
  if (parts < wanted) parts = wanted < most ? wanted : most;
  if (parts < 1) parts = 1;
  const int64_t each = (m + parts - 1) / parts;
  return (each + TN_PRODUCT_STEP - 1) / TN_PRODUCT_STEP * TN_PRODUCT_STEP;
}

/* Like tn_blas.gemm with a tn_blas_gemm; equal numbers give an equal product
 * for every number of workers, not at every level of instructions. [worker] */
static inline int32_t tn_product(const tn_frame *call, const tn_blas_gemm *g) {
  tn_product_plan p;
  const tn_product_matrix a = {g->a, g->transpose_a ? 1 : g->lda,
                               g->transpose_a ? g->lda : 1};
  const tn_product_matrix b = {g->b, g->transpose_b ? 1 : g->ldb,
                               g->transpose_b ? g->ldb : 1};
  const tn_product_target c = {g->c, g->ldc, 1, g->alpha, g->beta};
  const tn_product_block whole = tn_product_block_of(a, b, c, g->m, g->n, g->k);
  if (g->m == 0 || g->n == 0) return TN_OK;
  if (g->k == 0) {
    tn_product_scale(g);
    return TN_OK;
  }
  p.whole = tn_product_should_transpose(&whole) ? tn_product_transposed(&whole)
                                                : whole;
  p.tile = tn_product_tile_of(g->dtype, tn_kernel_level(call));
  p.bytes = tn_dtype_bytes(g->dtype);
  p.width = tn_product_width(&p.whole, p.bytes);
  p.across = (p.whole.n + p.width - 1) / p.width;
  p.height = tn_product_height(p.whole.m, p.across);
  const int64_t n = (p.whole.m + p.height - 1) / p.height * p.across;
  if ((double)g->m * (double)g->n * (double)g->k < (double)TN_PRODUCT_SMALL)
    return tn_product_slice(&p, 0, n);
  return call->host->parallel_for(call, n, 1, tn_product_slice, &p);
}

/* The product by the probably faster implementation: a BLAS, if `blas` is not
 * NULL and all edges are long, or the loops here. Like tn_blas.gemm.
 * [worker] */
static inline int32_t tn_product_by(const tn_blas *blas, const tn_frame *call,
                                    const tn_blas_gemm *g) {
  const int large = g->m > TN_PRODUCT_LONG && g->n > TN_PRODUCT_LONG &&
                    g->k > TN_PRODUCT_LONG;
  return blas && large ? blas->gemm(blas, call, g) : tn_product(call, g);
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_PRODUCT_H_ */
