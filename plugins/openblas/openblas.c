/* SPDX-License-Identifier: Apache-2.0
 * openblas.c: provides blas/1 if there is an OpenBLAS, and lapack/1 if that has
 * LAPACK (lapack.c). It cuts a large product into blocks of c. Each block is a
 * call of OpenBLAS and a slice of the host's parallel loop. The cut depends
 * only on the shape.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lapack.h"
#include "library.h"
#include "plugin.gen.h"
#include "tenon/plugin/blas.h"

enum {
  ROW_MAJOR = 101, /* of cblas.h */
  NO_TRANSPOSE = 111,
  TRANSPOSE = 112,
  PARTS = 8,  /* at most, of each edge of c */
  STEP = 64,  /* edges of blocks are multiples of it */
  EDGE = 256, /* least rows and columns of a block: shorter ones are slow */
  SMALL = 2000000,  /* products with fewer operations are not cut */
  LARGE = 500000000 /* from here on blocks may be larger: there are enough of
                     * them */
};

/* State of the plugin for one runtime. */
typedef struct instance {
  openblas_library library;
  tn_blas table;
  tn_lapack lapack;
} instance;

/* -------------------------------------------------------------------- gemm */

/* A product and how its c is cut. */
typedef struct cut {
  const openblas_library *library;
  const tn_blas_gemm *g;
  int64_t rows; /* of a block */
  int64_t columns;
  int64_t across; /* blocks side by side */
} cut;

static int64_t smaller_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Elements between the first row of op(a) and row i; likewise for columns. */
static int64_t offset_of(int64_t i, int64_t ld, uint32_t transposed) {
  return transposed ? i : i * ld;
}

/* Computes one block; its sizes fit an int. */
static void multiply_block(const cut *c, int64_t row, int64_t column) {
  const tn_blas_gemm *g = c->g;
  const int m = (int)smaller_of(c->rows, g->m - row);
  const int n = (int)smaller_of(c->columns, g->n - column);
  const int k = (int)g->k;
  const int lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
  const int ta = g->transpose_a ? TRANSPOSE : NO_TRANSPOSE;
  const int tb = g->transpose_b ? TRANSPOSE : NO_TRANSPOSE;
  const int64_t a = offset_of(row, g->lda, g->transpose_a);
  const int64_t b = offset_of(column, g->ldb, !g->transpose_b);
  const int64_t at = row * g->ldc + column;
  if (g->dtype == TN_F32)
    c->library->sgemm(ROW_MAJOR, ta, tb, m, n, k, (float)g->alpha,
                      (const float *)g->a + a, lda, (const float *)g->b + b,
                      ldb, (float)g->beta, (float *)g->c + at, ldc);
  else
    c->library->dgemm(ROW_MAJOR, ta, tb, m, n, k, g->alpha,
                      (const double *)g->a + a, lda, (const double *)g->b + b,
                      ldb, g->beta, (double *)g->c + at, ldc);
}

static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const cut *c = arg;
  for (int64_t i = begin; i < end; ++i)
    multiply_block(c, i / c->across * c->rows, i % c->across * c->columns);
  return TN_OK;
}

/* The edge of blocks of n rows or columns in a product of `size` operations.
 * All blocks have about the same edge. */
static int64_t edge_of(int64_t n, double size) {
  const int64_t parts = smaller_of(n / (size < LARGE ? EDGE : 2 * EDGE), PARTS);
  if (size < SMALL || parts < 2) return n;
  const int64_t each = (n + parts - 1) / parts;
  return (each + STEP - 1) / STEP * STEP;
}

static int fits_int(int64_t n) {
  return n >= 0 && n <= INT32_MAX;
}

static int32_t multiply_matrices(const tn_blas *blas, const tn_frame *call,
                                 const tn_blas_gemm *g) {
  const instance *self = blas->data;
  cut c = {.library = &self->library, .g = g};
  if (g->dtype != TN_F32 && g->dtype != TN_F64)
    return TN_FAIL(call, TN_DTYPE, "a matrix product is in f32 or f64");
  if (!fits_int(g->m) || !fits_int(g->n) || !fits_int(g->k) ||
      !fits_int(g->lda) || !fits_int(g->ldb) || !fits_int(g->ldc))
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "a matrix product of %lld x %lld x %lld is more than %s "
                   "takes",
                   (long long)g->m, (long long)g->n, (long long)g->k,
                   blas->name);
  if (g->m == 0 || g->n == 0) return TN_OK;
  const double size = (double)g->m * (double)g->n * (double)g->k;
  c.rows = edge_of(g->m, size);
  c.columns = edge_of(g->n, size);
  c.across = (g->n + c.columns - 1) / c.columns;
  const int64_t blocks = (g->m + c.rows - 1) / c.rows * c.across;
  openblas_threads_begin(c.library);
  const int32_t code =
      blocks == 1 ? run_slice(&c, 0, 1)
                  : call->host->parallel_for(call, blocks, 1, run_slice, &c);
  openblas_threads_end(c.library);
  return code;
}

/* ------------------------------------------------------------------ plugin */

/* Offers both tables, or blas/1 alone if the library has no LAPACK. */
static int32_t provide_tables(const tn_host *host, tn_registrar *registrar,
                              instance *self) {
  const openblas_library *library = &self->library;
  const int32_t code =
      registrar->provide(registrar, TN_BLAS_EXTENSION, &self->table);
  if (code != TN_OK) return code;
  if (!library->lacks) {
    self->lapack = openblas_lapack_table(&self->library);
    return registrar->provide(registrar, TN_LAPACK_EXTENSION, &self->lapack);
  }
  host->log(host, TN_LOG_INFO,
            "%s has no LAPACK (%s is absent), so " TN_LAPACK_EXTENSION
            " is not provided",
            library->name, library->lacks);
  return TN_OK;
}

int32_t openblas_init(const tn_host *host, tn_registrar *registrar,
                      void **out) {
  instance *self = calloc(1, sizeof *self);
  char why[256];
  *out = self;
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  if (!openblas_library_open(&self->library, host->cpu_features, why)) {
    host->log(host, TN_LOG_INFO, "there is no OpenBLAS: %s", why);
    return TN_OK;
  }
  if (self->library.threads > 1)
    host->log(host, TN_LOG_INFO,
              "this process uses OpenBLAS with %d threads already; it has one "
              "while a product of Tenon runs, which divides products itself",
              self->library.threads);
  self->table = (tn_blas){.struct_size = sizeof(tn_blas),
                          .data = self,
                          .name = self->library.name,
                          .gemm = multiply_matrices};
  host->log(host, TN_LOG_INFO, "%s", self->library.name);
  const int32_t code = provide_tables(host, registrar, self);
  if (code != TN_OK) openblas_fini(self);
  return code;
}

void openblas_fini(void *out) {
  instance *self = out;
  openblas_library_close(&self->library);
  free(self);
}
