/* SPDX-License-Identifier: Apache-2.0
 * fake_blaslt.c: a cuBLASLt for the fake driver, with the soname of one: column
 * after column in doubles, on the fake's thread. It refuses forms that the real
 * one does not have, among others an epilogue with sums in f64.
 */
#include "blaslt.h"

#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "kernels.h"
#include "tenon/kernel/kernel.h"

#define DECLARE(field, symbol, arguments) int symbol arguments;
BLASLT_FUNCTIONS(DECLARE)
#undef DECLARE
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(int status);

enum { INVALID_VALUE = 7, WORKSPACE = 4096 };
enum {
  ALIGNED = 256
}; /* alignment of a workspace that the real one needs without documenting it */

typedef struct what {
  int compute;
  int scale;
  int32_t transpose_a;
  int32_t transpose_b;
  uint32_t epilogue;
  int32_t bias_type;
  const void *bias;
} what;

typedef struct layout {
  int type;
  int64_t rows;
  int64_t columns;
  int64_t ld;
  int32_t count; /* of matrices */
  int32_t reserved;
  int64_t step; /* from one to the next */
} layout;

size_t cublasLtGetVersion(void) {
  return 130002;
}

const char *cublasLtGetStatusString(int status) {
  return status == BLASLT_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                        : "CUBLAS_STATUS_INVALID_VALUE";
}

int cublasLtCreate(blaslt_handle *out) {
  *out = malloc(1);
  return BLASLT_OK;
}

int cublasLtDestroy(blaslt_handle handle) {
  free(handle);
  return BLASLT_OK;
}

int cublasLtMatmulDescCreate(blaslt_what *out, int compute, int scale) {
  what *w = calloc(1, sizeof *w);
  *w = (what){.compute = compute, .scale = scale, .epilogue = BLASLT_DEFAULT};
  *out = w;
  return BLASLT_OK;
}

int cublasLtMatmulDescDestroy(blaslt_what w) {
  free(w);
  return BLASLT_OK;
}

int cublasLtMatmulDescSetAttribute(blaslt_what given, int attribute,
                                   const void *value, size_t bytes) {
  what *w = given;
  void *to = attribute == BLASLT_TRANSA         ? (void *)&w->transpose_a
             : attribute == BLASLT_TRANSB       ? (void *)&w->transpose_b
             : attribute == BLASLT_EPILOGUE     ? (void *)&w->epilogue
             : attribute == BLASLT_BIAS_TYPE    ? (void *)&w->bias_type
             : attribute == BLASLT_BIAS_POINTER ? (void *)&w->bias
                                                : NULL;
  if (!to || bytes != (attribute == BLASLT_BIAS_POINTER ? 8 : 4))
    return INVALID_VALUE;
  memcpy(to, value, bytes);
  return BLASLT_OK;
}

int cublasLtMatrixLayoutCreate(blaslt_layout *out, int type, uint64_t rows,
                               uint64_t columns, int64_t ld) {
  if (rows == 0 || columns == 0 || ld < (int64_t)rows) return INVALID_VALUE;
  layout *l = calloc(1, sizeof *l);
  *l = (layout){type, (int64_t)rows, (int64_t)columns, ld, .count = 1};
  *out = l;
  return BLASLT_OK;
}

int cublasLtMatrixLayoutSetAttribute(blaslt_layout given, int attribute,
                                     const void *value, size_t bytes) {
  layout *l = given;
  const int is_count = attribute == BLASLT_BATCH_COUNT;
  if (!is_count && attribute != BLASLT_BATCH_STEP) return INVALID_VALUE;
  if (bytes != (is_count ? 4 : 8)) return INVALID_VALUE;
  memcpy(is_count ? (void *)&l->count : (void *)&l->step, value, bytes);
  return BLASLT_OK;
}

int cublasLtMatrixLayoutDestroy(blaslt_layout l) {
  free(l);
  return BLASLT_OK;
}

typedef struct preference {
  uint32_t sums;  /* types for partial sums */
  uint32_t align; /* of all operands */
} preference;

/* The content of an algorithm here: the alignments for which it was found. */
typedef struct engine {
  uint32_t align;
  uint32_t bias_align;
} engine;

int cublasLtMatmulPreferenceCreate(blaslt_wish *out) {
  preference *p = malloc(sizeof *p);
  if (!p) abort();
  *p = (preference){.sums = 7, .align = ALIGNED};
  *out = p;
  return BLASLT_OK;
}

int cublasLtMatmulPreferenceDestroy(blaslt_wish wish) {
  free(wish);
  return BLASLT_OK;
}

int cublasLtMatmulPreferenceSetAttribute(blaslt_wish wish, int attribute,
                                         const void *value, size_t bytes) {
  preference *p = wish;
  if (attribute == BLASLT_SUMS_OF_PARTS) memcpy(&p->sums, value, bytes);
  if (attribute >= BLASLT_ALIGN_A && attribute <= BLASLT_ALIGN_D)
    memcpy(&p->align, value, bytes);
  return bytes == (attribute == BLASLT_MOST_WORKSPACE ? 8 : 4) ? BLASLT_OK
                                                               : INVALID_VALUE;
}

/* Whether the shapes of a product go together. */
static int fits(const what *w, const layout *a, const layout *b,
                const layout *d) {
  const int64_t m = w->transpose_a ? a->columns : a->rows;
  const int64_t k = w->transpose_a ? a->rows : a->columns;
  const int64_t n = w->transpose_b ? b->rows : b->columns;
  return k == (w->transpose_b ? b->columns : b->rows) && m == d->rows &&
         n == d->columns && a->type == b->type && a->type == d->type &&
         a->count == b->count && a->count == d->count &&
         (d->count == 1 || !(w->epilogue & BLASLT_BIAS));
}

/* The alignment of an address; NULL has every alignment. */
static uint32_t align_of(const void *at) {
  const uint64_t address = (uint64_t)(uintptr_t)at | ALIGNED;
  return (uint32_t)(address & (0 - address));
}

/* The real one has not an epilogue for every address. */
static int has_engine(const what *w, const preference *p, int type) {
  const int is_half = type == BLASLT_F16 || type == BLASLT_BF16;
  if (w->compute == BLASLT_COMPUTE_64F) return w->epilogue == BLASLT_DEFAULT;
  return !is_half || !(w->epilogue & BLASLT_BIAS) || p->align > 2;
}

int cublasLtMatmulAlgoGetHeuristic(blaslt_handle handle, blaslt_what given,
                                   blaslt_layout a, blaslt_layout b,
                                   blaslt_layout c, blaslt_layout d,
                                   blaslt_wish wish, int most,
                                   blaslt_found *out, int *n) {
  const what *w = given;
  const preference *p = wish;
  const layout *to = d;
  (void)handle;
  *n = 0;
  if ((to->type == BLASLT_F16 || to->type == BLASLT_BF16) &&
      p->sums != BLASLT_SUMS_COMPUTE_TYPE)
    fake_violate(fake_cuda(), "lets parts of sums be kept as halves");
  if (most < 1 || c != d || !fits(w, a, b, d)) return INVALID_VALUE;
  if (!has_engine(w, p, to->type)) return BLASLT_NOT_SUPPORTED;
  const engine found = {p->align, align_of(w->bias)};
  *out = (blaslt_found){.workspace = WORKSPACE};
  memcpy(&out->algo, &found, sizeof found);
  *n = 1;
  return BLASLT_OK;
}

/* ------------------------------------------------------------------ products
 */

typedef struct product {
  what w;
  layout a, b, d;
  double alpha, beta;
  const void *a_at, *b_at;
  void *d_at;
} product;

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double get(const void *at, int type, int64_t i) {
  if (type == BLASLT_F32) return (double)((const float *)at)[i];
  if (type == BLASLT_F64) return ((const double *)at)[i];
  if (type == BLASLT_F16)
    return (double)tn_kernel_f16_to_f32(((const uint16_t *)at)[i]);
  return (double)float_of((uint32_t)((const uint16_t *)at)[i] << 16);
}

static void put(void *at, int type, int64_t i, double value) {
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  if (type == BLASLT_F32) ((float *)at)[i] = single;
  if (type == BLASLT_F64) ((double *)at)[i] = value;
  if (type == BLASLT_F16) ((uint16_t *)at)[i] = tn_kernel_f32_to_f16(single);
  if (type == BLASLT_BF16)
    ((uint16_t *)at)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static double dot(const product *p, const void *a, const void *b, int64_t i,
                  int64_t j) {
  const int64_t depth = p->w.transpose_a ? p->a.rows : p->a.columns;
  double total = 0;
  for (int64_t k = 0; k < depth; ++k)
    total +=
        get(a, p->a.type,
            p->w.transpose_a ? i * p->a.ld + k : k * p->a.ld + i) *
        get(b, p->b.type, p->w.transpose_b ? k * p->b.ld + j : j * p->b.ld + k);
  return total;
}

/* The same for matrices in f32, of which tests have many. */
static double dot_f32(const product *p, const float *a, const float *b,
                      int64_t i, int64_t j) {
  const int64_t depth = p->w.transpose_a ? p->a.rows : p->a.columns;
  const int64_t a_step = p->w.transpose_a ? 1 : p->a.ld;
  const int64_t b_step = p->w.transpose_b ? p->b.ld : 1;
  double total = 0;
  a += p->w.transpose_a ? i * p->a.ld : i;
  b += p->w.transpose_b ? j : j * p->b.ld;
  for (int64_t k = 0; k < depth; ++k)
    total += (double)a[k * a_step] * (double)b[k * b_step];
  return total;
}

/* A factor in f32 after the permitted loss of bits: TF32 has 10. */
static double rounded(double value) {
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return (double)float_of((bits + 0x1000u) & ~0x1fffu);
}

static double dot_tf32(const product *p, const float *a, const float *b,
                       int64_t i, int64_t j) {
  const int64_t depth = p->w.transpose_a ? p->a.rows : p->a.columns;
  double total = 0;
  for (int64_t k = 0; k < depth; ++k)
    total +=
        rounded(
            (double)a[p->w.transpose_a ? i * p->a.ld + k : k * p->a.ld + i]) *
        rounded(
            (double)b[p->w.transpose_b ? k * p->b.ld + j : j * p->b.ld + k]);
  return total;
}

static double element(const product *p, const void *a, const void *b, int64_t i,
                      int64_t j) {
  if (p->w.compute == BLASLT_COMPUTE_32F_TF32) return dot_tf32(p, a, b, i, j);
  return p->a.type == BLASLT_F32 ? dot_f32(p, a, b, i, j) : dot(p, a, b, i, j);
}

static int64_t width_of(const layout *l) {
  return l->type == BLASLT_F64 ? 8 : l->type == BLASLT_F32 ? 4 : 2;
}

/* Where matrix number `i` of an operand is. */
static void *matrix(void *at, const layout *l, int32_t i) {
  return (char *)at + i * l->step * width_of(l);
}

static void multiply_one(const product *p, const void *a, const void *b,
                         void *d, const void *bias) {
  for (int64_t j = 0; j < p->d.columns; ++j)
    for (int64_t i = 0; i < p->d.rows; ++i) {
      const int64_t at = j * p->d.ld + i;
      double value = p->alpha * element(p, a, b, i, j);
      if (p->beta != 0) value += p->beta * get(d, p->d.type, at);
      if (p->w.epilogue & BLASLT_BIAS) value += get(bias, p->d.type, i);
      if ((p->w.epilogue & BLASLT_RELU) && value < 0) value = 0;
      put(d, p->d.type, at, value);
    }
}

static void multiply(fake *f, const void *arg) {
  const product *p = arg;
  void *a = fake_reach(f, p->a_at), *b = fake_reach(f, p->b_at),
       *d = fake_reach(f, p->d_at);
  const void *bias = p->w.bias ? fake_reach(f, p->w.bias) : NULL;
  for (int32_t i = 0; i < p->d.count; ++i)
    multiply_one(p, matrix(a, &p->a, i), matrix(b, &p->b, i),
                 matrix(d, &p->d, i), bias);
}

static size_t bytes_of(const layout *l) {
  const int64_t one = (l->columns - 1) * l->ld + l->rows;
  return (size_t)(((l->count - 1) * l->step + one) * width_of(l));
}

static double scalar(const void *at, int type) {
  return get(at, type, 0);
}

/* Fails where the real one would load unaligned data. */
static int reaches(const engine *e, const void *a, const void *b, const void *d,
                   const what *w) {
  return align_of(a) >= e->align && align_of(b) >= e->align &&
         align_of(d) >= e->align &&
         (!(w->epilogue & BLASLT_BIAS) || align_of(w->bias) >= e->bias_align);
}

int cublasLtMatmul(blaslt_handle handle, blaslt_what given, const void *alpha,
                   const void *a, blaslt_layout a_layout, const void *b,
                   blaslt_layout b_layout, const void *beta, const void *c,
                   blaslt_layout c_layout, void *d, blaslt_layout d_layout,
                   const blaslt_algo *algo, void *workspace, size_t bytes,
                   cuda_stream stream) {
  const what *w = given;
  product p = {.w = *w, .a_at = a, .b_at = b, .d_at = d};
  engine e;
  (void)handle, (void)c_layout;
  memcpy(&e, algo, sizeof e);
  if (!reaches(&e, a, b, d, w)) {
    fake_violate(fake_cuda(), "multiplies what is not aligned as was said");
    return INVALID_VALUE;
  }
  if (c != d || !fits(w, a_layout, b_layout, d_layout)) return INVALID_VALUE;
  if (bytes < WORKSPACE || !workspace || (uintptr_t)workspace % ALIGNED)
    return INVALID_VALUE;
  memcpy(&p.a, a_layout, sizeof p.a);
  memcpy(&p.b, b_layout, sizeof p.b);
  memcpy(&p.d, d_layout, sizeof p.d);
  p.alpha = scalar(alpha, w->scale);
  p.beta = scalar(beta, w->scale);
  const void *reads[] = {a, b, w->bias};
  const size_t read_bytes[] = {
      bytes_of(&p.a), bytes_of(&p.b),
      bytes_of(&(layout){p.d.type, p.d.rows, 1, 0, .count = 1})};
  const void *writes[] = {d, workspace};
  const size_t write_bytes[] = {bytes_of(&p.d), bytes};
  fake_work work = {.run = multiply,
                    .arg = &p,
                    .arg_bytes = sizeof p,
                    .reads = reads,
                    .n_reads = w->bias ? 3 : 2,
                    .writes = writes,
                    .n_writes = 2,
                    .read_bytes = read_bytes,
                    .write_bytes = write_bytes};
  return fake_cuda_submit(stream, &work) == CUDA_OK ? BLASLT_OK : INVALID_VALUE;
}
