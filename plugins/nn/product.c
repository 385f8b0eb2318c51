/* SPDX-License-Identifier: Apache-2.0
 * product.c: see product.h. c is cut into blocks of fixed size, which are the
 * slices of a parallel loop. In each, columns of op(b) are packed into strips
 * of two vectors, and rows of op(a) are multiplied with them as they lie, as
 * many rows at a time as there are registers for the sums.
 */
#include "product.h"

#include <string.h>

#include "tenon/kernel.h"

enum {
  DEPTH = 256,    /* rows of op(b) that are packed at a time */
  ROOM = 65536,   /* bytes for them: 64 columns of f32, 32 of f64 */
  HEIGHT = 480,   /* rows of a block of c: whole tiles at every level */
  SMALL = 1 << 18 /* products below which nothing is handed to workers */
};

/* A matrix of which element (i, j) lies at at[i * row + j * column]. */
typedef struct matrix {
  const void *at;
  int64_t row;
  int64_t column;
} matrix;

/* Where sums go: c = alpha * sum + beta * c. */
typedef struct target {
  void *at;
  int64_t row;
  double alpha;
  double beta;
} target;

/* A part of c, m x n, with the rows of op(a) and columns of op(b) for it. */
typedef struct block {
  matrix a;
  matrix b;
  target c;
  int64_t m;
  int64_t n;
  int64_t k;
} block;

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Registers: 16 of 16 or 32 bytes, or 32 of 64. */
#define TILE_T float
#define TILE_NAME(x) x##_f32
#define TILE_TARGET
#define TILE_BYTES 16
#define TILE_ROWS 6
#include "product_tile.h"

#define TILE_T double
#define TILE_NAME(x) x##_f64
#define TILE_TARGET
#define TILE_BYTES 16
#define TILE_ROWS 6
#include "product_tile.h"

#if defined(TN_KERNEL_AVX2)
#define TILE_T float
#define TILE_NAME(x) x##_f32_avx2
#define TILE_TARGET TN_KERNEL_AVX2
#define TILE_BYTES 32
#define TILE_ROWS 6
#include "product_tile.h"

#define TILE_T double
#define TILE_NAME(x) x##_f64_avx2
#define TILE_TARGET TN_KERNEL_AVX2
#define TILE_BYTES 32
#define TILE_ROWS 6
#include "product_tile.h"

#define TILE_T float
#define TILE_NAME(x) x##_f32_avx512
#define TILE_TARGET TN_KERNEL_AVX512
#define TILE_BYTES 64
#define TILE_ROWS 12
#include "product_tile.h"

#define TILE_T double
#define TILE_NAME(x) x##_f64_avx512
#define TILE_TARGET TN_KERNEL_AVX512
#define TILE_BYTES 64
#define TILE_ROWS 12
#include "product_tile.h"
#endif

typedef void tile_function(const block *whole, void *room);

static tile_function *tile_of(tn_dtype dtype, uint32_t level) {
#if defined(TN_KERNEL_AVX2)
  static tile_function *const single[] = {tile_f32, tile_f32_avx2,
                                          tile_f32_avx512};
  static tile_function *const twice[] = {tile_f64, tile_f64_avx2,
                                         tile_f64_avx512};
  return dtype == TN_F32 ? single[level] : twice[level];
#else
  (void)level;
  return dtype == TN_F32 ? tile_f32 : tile_f64;
#endif
}

/* A product and how its c is cut. */
typedef struct plan {
  block whole;
  tile_function *tile;
  int64_t bytes; /* of an element */
  int64_t width; /* columns of a block */
  int64_t across;
} plan;

static const void *skip(const void *at, int64_t elements, int64_t bytes) {
  return (const char *)at + elements * bytes;
}

/* Blocks [begin, end), row by row. */
static int32_t slice(void *arg, int64_t begin, int64_t end) {
  const plan *p = arg;
  union {
    char bytes[ROOM];
    uint64_t line[8] __attribute__((aligned(64)));
  } room;
  for (int64_t s = begin; s < end; ++s) {
    const int64_t i = s / p->across * HEIGHT, j = s % p->across * p->width;
    block x = p->whole;
    x.m = x.m - i < HEIGHT ? x.m - i : HEIGHT;
    x.n = x.n - j < p->width ? x.n - j : p->width;
    x.a.at = skip(x.a.at, i * x.a.row, p->bytes);
    x.b.at = skip(x.b.at, j * x.b.column, p->bytes);
    x.c.at = (char *)x.c.at + (i * x.c.row + j) * p->bytes;
    p->tile(&x, room.bytes);
  }
  return TN_OK;
}

/* c = beta * c, when there is nothing to add. */
static void scale(const tn_blas_gemm *g) {
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      const int64_t at = i * g->ldc + j;
      if (g->dtype == TN_F32) {
        float *c = g->c;
        c[at] = g->beta == 0 ? 0 : (float)g->beta * c[at];
      } else {
        double *c = g->c;
        c[at] = g->beta == 0 ? 0 : g->beta * c[at];
      }
    }
}

int32_t nn_product(const tn_frame *call, const tn_blas_gemm *g) {
  plan p = {.whole = {.a = {g->a, g->transpose_a ? 1 : g->lda,
                            g->transpose_a ? g->lda : 1},
                      .b = {g->b, g->transpose_b ? 1 : g->ldb,
                            g->transpose_b ? g->ldb : 1},
                      .c = {g->c, g->ldc, g->alpha, g->beta},
                      .m = g->m,
                      .n = g->n,
                      .k = g->k},
            .tile = tile_of(g->dtype, tn_kernel_level(call)),
            .bytes = tn_dtype_bytes(g->dtype)};
  if (g->m == 0 || g->n == 0) return TN_OK;
  if (g->k == 0) {
    scale(g);
    return TN_OK;
  }
  p.width = ROOM / DEPTH / p.bytes;
  p.across = (g->n + p.width - 1) / p.width;
  const int64_t n = (g->m + HEIGHT - 1) / HEIGHT * p.across;
  if ((double)g->m * (double)g->n * (double)g->k < SMALL)
    return slice(&p, 0, n);
  return call->host->parallel_for(call, n, 1, slice, &p);
}
