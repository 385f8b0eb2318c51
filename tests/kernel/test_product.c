/* SPDX-License-Identifier: Apache-2.0
 * Products and turned parts of tenon/kernel/product.h and
 * tenon/kernel/transpose.h, called as a plugin calls them: sizes around the
 * edges of vectors, bands, blocks and rooms, every order of the operands, at
 * every level of instructions. Elements are few quarters, so that every sum is
 * exact in f32, in any order. Operands have exactly the needed size, for tools
 * that check memory. The elements of c that must stay are compared.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "levels.h"
#include "tenon/kernel/product.h"

/* ---------------------------------------------------------------- the host */

static int64_t n_slices; /* of the last loop */

static int32_t run_slices(const tn_frame *call, int64_t n, int64_t grain,
                          tn_loop_body *body, void *arg) {
  (void)call, (void)grain;
  n_slices = n;
  for (int64_t i = n; i-- > 0;) {
    const int32_t code = body(arg, i, i + 1);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

/* Runs `check` with a call at each level. */
static void at_levels(void (*check)(const tn_frame *call)) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  for (size_t i = 0; i < n; ++i) {
    const tn_host host = {.struct_size = sizeof host,
                          .cpu_features = features[i],
                          .parallel_for = run_slices};
    const tn_frame call = {.struct_size = sizeof call, .host = &host};
    check(&call);
  }
}

/* ---------------------------------------------------------------- operands */

static const double KEPT = 77; /* between rows of c */

static double quarter(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)((int64_t)(*seed >> 40) % 9 - 4) / 4;
}

/* A matrix in memory: its lines, `ld` apart, and nothing after them. */
typedef struct matrix {
  double *v;
  void *bytes; /* the same in the type of a product */
  int64_t n;
} matrix;

static matrix make(tn_dtype dtype, int64_t lines, int64_t length, int64_t ld) {
  static uint64_t seed = 1;
  matrix m = {.n = (lines - 1) * ld + length};
  const size_t n = (size_t)m.n;
  m.v = malloc(n * sizeof *m.v);
  m.bytes = malloc(n * (dtype == TN_F32 ? sizeof(float) : sizeof(double)));
  cr_assert(m.v && m.bytes);
  for (size_t i = 0; i < n; ++i) {
    m.v[i] = (int64_t)i % ld < length ? quarter(&seed) : KEPT;
    if (dtype == TN_F32)
      ((float *)m.bytes)[i] = (float)m.v[i];
    else
      ((double *)m.bytes)[i] = m.v[i];
  }
  return m;
}

static double at(const matrix *m, tn_dtype dtype, int64_t i) {
  return dtype == TN_F32 ? ((const float *)m->bytes)[i]
                         : ((const double *)m->bytes)[i];
}

static void drop(matrix *m) {
  free(m->v), free(m->bytes);
}

/* Compares c with its expected numbers, from those before and the product. */
static void expect(const tn_blas_gemm *g, const matrix *a, const matrix *b,
                   const matrix *c) {
  for (int64_t i = 0; i < c->n; ++i) {
    const int64_t row = i / g->ldc, column = i % g->ldc;
    double sum = 0, wanted = KEPT;
    for (int64_t p = 0; column < g->n && p < g->k; ++p)
      sum += a->v[g->transpose_a ? p * g->lda + row : row * g->lda + p] *
             b->v[g->transpose_b ? column * g->ldb + p : p * g->ldb + column];
    if (column < g->n) wanted = g->alpha * sum + g->beta * c->v[i];
    cr_assert_eq(at(c, g->dtype, i), wanted,
                 "%lld x %lld x %lld, a %s, b %s, alpha %g, beta %g, %s: "
                 "element (%lld, %lld) is %g, not %g",
                 (long long)g->m, (long long)g->n, (long long)g->k,
                 g->transpose_a ? "turned" : "plain",
                 g->transpose_b ? "turned" : "plain", g->alpha, g->beta,
                 g->dtype == TN_F32 ? "f32" : "f64", (long long)row,
                 (long long)column, at(c, g->dtype, i), wanted);
  }
}

/* A product of some size; its bits say the rest. */
static void check_one(const tn_frame *call, int64_t m, int64_t n, int64_t k,
                      unsigned bits) {
  const int64_t wider = bits & 16 ? 3 : 0;
  tn_blas_gemm g = {.struct_size = sizeof g,
                    .dtype = bits & 1 ? TN_F64 : TN_F32,
                    .transpose_a = bits >> 1 & 1,
                    .transpose_b = bits >> 2 & 1,
                    .m = m,
                    .n = n,
                    .k = k,
                    .alpha = bits & 8 ? -2 : 1,
                    .beta = bits & 16 ? 0.5 : 0};
  g.lda = (g.transpose_a ? m : k) + wider;
  g.ldb = (g.transpose_b ? k : n) + wider;
  g.ldc = n + wider;
  matrix a = make(g.dtype, g.transpose_a ? k : m, g.transpose_a ? m : k, g.lda);
  matrix b = make(g.dtype, g.transpose_b ? n : k, g.transpose_b ? k : n, g.ldb);
  matrix c = make(g.dtype, m, n, g.ldc);
  g.a = a.bytes, g.b = b.bytes, g.c = c.bytes;
  cr_assert_eq(tn_product(call, &g), TN_OK);
  expect(&g, &a, &b, &c);
  drop(&a), drop(&b), drop(&c);
}

static const int64_t edges[] = {1, 2, 3, 4, 6, 7, 12, 13, 16, 17, 31, 33, 49};
enum { N_EDGES = sizeof edges / sizeof *edges, ORDERS = 32 };

/* Each pair of rows and columns, a few depths, each order and type in turns. */
static void check_edges(const tn_frame *call) {
  static const int64_t depths[] = {1, 5, 70};
  unsigned turn = 0;
  for (int i = 0; i < N_EDGES; ++i)
    for (int j = 0; j < N_EDGES; ++j)
      for (int d = 0; d < 3; ++d)
        for (int orders = 0; orders < 8; ++orders, turn = turn * 5 + 3)
          check_one(call, edges[i], edges[j], depths[d],
                    (unsigned)orders | (turn & 24));
}

Test(product, sizes_around_all_edges_are_exact) {
  at_levels(check_edges);
}

/* More than the room has rows, blocks of several heights and widths. */
static void check_large(const tn_frame *call) {
  static const int64_t sizes[][3] = {
      {5, 300, 513},  {300, 5, 1030}, {20, 40, 1100}, {500, 70, 66},
      {97, 1100, 11}, {1300, 33, 17}, {1, 700, 300},  {700, 1, 300},
      {1, 45, 600},   {600, 600, 1},  {40, 130, 520}, {290, 70, 300},
      {101, 450, 200}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (unsigned bits = 0; bits < ORDERS; ++bits)
      check_one(call, sizes[i][0], sizes[i][1], sizes[i][2], bits);
}

Test(product, large_ones_are_exact) {
  at_levels(check_large);
}

/* Absent operands, and a c with NaN as old numbers. */
static void check_nothing(const tn_frame *call) {
  float a[4] = {1, 2, 3, 4}, c[4] = {5, 6, 7, 8};
  tn_blas_gemm g = {.struct_size = sizeof g,
                    .dtype = TN_F32,
                    .m = 2,
                    .n = 2,
                    .a = a,
                    .b = a,
                    .c = c,
                    .lda = 2,
                    .ldb = 2,
                    .ldc = 2,
                    .alpha = 1,
                    .beta = 3};
  cr_assert_eq(tn_product(call, &g), TN_OK);
  cr_assert(c[0] == 15 && c[1] == 18 && c[2] == 21 && c[3] == 24);
  g.beta = 0;
  cr_assert_eq(tn_product(call, &g), TN_OK);
  cr_assert(c[0] == 0 && c[3] == 0);
  memset(c, 0xff, sizeof c);
  g.k = 2;
  cr_assert_eq(tn_product(call, &g), TN_OK);
  cr_assert(c[0] == 7 && c[1] == 10 && c[2] == 15 && c[3] == 22);
  g.m = 0;
  c[0] = 1;
  cr_assert_eq(tn_product(call, &g), TN_OK);
  cr_assert_eq(c[0], 1);
}

Test(product, empty_ones_scale_and_nan_is_not_read) {
  at_levels(check_nothing);
}

/* Large products are divided so that workers can share them, for every form. */
static void check_slices(const tn_frame *call) {
  static const int64_t sizes[][3] = {
      {64, 784, 512}, {784, 64, 512}, {1024, 32, 512}, {32, 1024, 512}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (unsigned bits = 0; bits < 8; bits += 2) {
      check_one(call, sizes[i][0], sizes[i][1], sizes[i][2], bits);
      cr_assert_geq(n_slices, 4, "%lld x %lld: %lld slices",
                    (long long)sizes[i][0], (long long)sizes[i][1],
                    (long long)n_slices);
    }
}

Test(product, large_ones_are_cut_into_slices) {
  at_levels(check_slices);
}

/* -------------------------------------------------------------------- turns */

/* Any part, from one place to another, without a change around it. */
static void check_turn(const tn_frame *call, int64_t bytes, int64_t rows,
                       int64_t columns) {
  const int64_t to_stride = columns + 2, from_stride = rows + 1;
  const size_t n_to = (size_t)(rows * to_stride * bytes);
  const size_t n_from = (size_t)(columns * from_stride * bytes);
  unsigned char *to = malloc(n_to), *from = malloc(n_from);
  cr_assert(to && from);
  memset(to, 0xee, n_to);
  for (size_t i = 0; i < n_from; ++i) from[i] = (unsigned char)(i * 37 % 229);
  const tn_transpose t = {
      (char *)to, (const char *)from, to_stride, from_stride, rows, columns};
  tn_transpose_of(bytes, tn_kernel_level(call))(&t);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < to_stride; ++j)
      for (int64_t x = 0; x < bytes; ++x) {
        const int got = to[(i * to_stride + j) * bytes + x];
        const int wanted =
            j < columns ? from[(j * from_stride + i) * bytes + x] : 0xee;
        cr_assert_eq(got, wanted, "%lld x %lld of %lld bytes, (%lld, %lld)",
                     (long long)rows, (long long)columns, (long long)bytes,
                     (long long)i, (long long)j);
      }
  free(to), free(from);
}

static void check_turns(const tn_frame *call) {
  for (int64_t bytes = 1; bytes <= 8; bytes *= 2)
    for (int i = 0; i < N_EDGES; ++i)
      for (int j = 0; j < N_EDGES; ++j)
        check_turn(call, bytes, edges[i], edges[j]);
}

Test(turn, parts_of_any_size_are_turned) {
  at_levels(check_turns);
}
