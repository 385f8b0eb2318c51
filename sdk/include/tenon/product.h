/* SPDX-License-Identifier: Apache-2.0
 * product.h: matrix products in C, for machines without a BLAS and for products
 * that are too small for one. They are vectorised at every level and use the
 * host's workers, but pack less than a BLAS does, so that large products get a
 * part of its speed only (docs/performance.md).
 *
 *   int32_t code = blas ? blas->gemm(blas, call, &product)
 *                       : tn_product(call, &product);
 *
 * Header only, some 60 kB of code: one file of a plugin includes it, for all.
 * gcc and clang, C11 or C++17; not for CUDA.
 *
 * c is cut into blocks of fixed size, which are the slices of a parallel loop.
 * In each, columns of op(b) are packed into strips of two vectors, and rows of
 * op(a) are multiplied with them as they lie, as many rows at a time as there
 * are registers for the sums.
 */
#ifndef TENON_PRODUCT_H_
#define TENON_PRODUCT_H_

#include "tenon/blas.h"
#include "tenon/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TN_PRODUCT_DEPTH = 256,    /* rows of op(b) that are packed at a time */
  TN_PRODUCT_ROOM = 65536,   /* bytes for them: 64 columns of f32, 32 of f64 */
  TN_PRODUCT_HEIGHT = 480,   /* rows of a block: whole tiles at every level */
  TN_PRODUCT_SMALL = 1 << 18 /* m * n * k below which a product is computed on
                                the calling thread */
};

/* A matrix of which element (i, j) lies at at[i * row + j * column]. */
typedef struct tn_product_matrix {
  const void *at;
  int64_t row;
  int64_t column;
} tn_product_matrix;

/* Where sums go: c = alpha * sum + beta * c. */
typedef struct tn_product_target {
  void *at;
  int64_t row;
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
} tn_product_block;

#if defined(__clang__)
#define TN_PRODUCT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TN_PRODUCT_UNROLL _Pragma("GCC unroll 16")
#endif

/* Registers: 16 of 16 or 32 bytes, or 32 of 64. */
#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32
#define TN_TILE_TARGET
#define TN_TILE_BYTES 16
#define TN_TILE_ROWS 6
#include "tenon/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64
#define TN_TILE_TARGET
#define TN_TILE_BYTES 16
#define TN_TILE_ROWS 6
#include "tenon/product_tile.h"

#if defined(TN_KERNEL_AVX2)
#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32_avx2
#define TN_TILE_TARGET TN_KERNEL_AVX2
#define TN_TILE_BYTES 32
#define TN_TILE_ROWS 6
#include "tenon/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64_avx2
#define TN_TILE_TARGET TN_KERNEL_AVX2
#define TN_TILE_BYTES 32
#define TN_TILE_ROWS 6
#include "tenon/product_tile.h"

#define TN_TILE_T float
#define TN_TILE_NAME(x) tn_product_##x##_f32_avx512
#define TN_TILE_TARGET TN_KERNEL_AVX512
#define TN_TILE_BYTES 64
#define TN_TILE_ROWS 12
#include "tenon/product_tile.h"

#define TN_TILE_T double
#define TN_TILE_NAME(x) tn_product_##x##_f64_avx512
#define TN_TILE_TARGET TN_KERNEL_AVX512
#define TN_TILE_BYTES 64
#define TN_TILE_ROWS 12
#include "tenon/product_tile.h"
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
  int64_t width; /* columns of a block */
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
    char bytes[TN_PRODUCT_ROOM];
    uint64_t line[8] __attribute__((aligned(64)));
  } room;
  for (int64_t s = begin; s < end; ++s) {
    const int64_t i = s / p->across * TN_PRODUCT_HEIGHT,
                  j = s % p->across * p->width;
    tn_product_block x = p->whole;
    x.m = x.m - i < TN_PRODUCT_HEIGHT ? x.m - i : (int64_t)TN_PRODUCT_HEIGHT;
    x.n = x.n - j < p->width ? x.n - j : p->width;
    x.a.at = tn_product_skip(x.a.at, i * x.a.row, p->bytes);
    x.b.at = tn_product_skip(x.b.at, j * x.b.column, p->bytes);
    x.c.at = (char *)x.c.at + (i * x.c.row + j) * p->bytes;
    p->tile(&x, room.bytes);
  }
  return TN_OK;
}

/* c = beta * c, when there is nothing to add. */
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

/* As tn_blas.gemm, and as tn_blas_gemm says; the product of the same numbers is
 * the same for every number of workers, not at every level of instructions.
 * [worker] */
static inline int32_t tn_product(const tn_frame *call, const tn_blas_gemm *g) {
  tn_product_plan p;
  const tn_product_matrix a = {g->a, g->transpose_a ? 1 : g->lda,
                               g->transpose_a ? g->lda : 1};
  const tn_product_matrix b = {g->b, g->transpose_b ? 1 : g->ldb,
                               g->transpose_b ? g->ldb : 1};
  const tn_product_target c = {g->c, g->ldc, g->alpha, g->beta};
  const tn_product_block whole = {a, b, c, g->m, g->n, g->k};
  if (g->m == 0 || g->n == 0) return TN_OK;
  if (g->k == 0) {
    tn_product_scale(g);
    return TN_OK;
  }
  p.whole = whole;
  p.tile = tn_product_tile_of(g->dtype, tn_kernel_level(call));
  p.bytes = tn_dtype_bytes(g->dtype);
  p.width = TN_PRODUCT_ROOM / TN_PRODUCT_DEPTH / p.bytes;
  p.across = (g->n + p.width - 1) / p.width;
  const int64_t n =
      (g->m + TN_PRODUCT_HEIGHT - 1) / TN_PRODUCT_HEIGHT * p.across;
  if ((double)g->m * (double)g->n * (double)g->k < (double)TN_PRODUCT_SMALL)
    return tn_product_slice(&p, 0, n);
  return call->host->parallel_for(call, n, 1, tn_product_slice, &p);
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_PRODUCT_H_ */
