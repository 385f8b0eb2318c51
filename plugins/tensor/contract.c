/* SPDX-License-Identifier: Apache-2.0
 * contract.c: contract.h on the CPU. Floats are products of matrices (dot.c),
 * for each place of the batch dimensions; an operand that is no matrix is
 * copied before. Small products and integers are loops over the rows of the
 * result.
 */
#include "contract.h"

#include <string.h>

#include "move.h"
#include "products.h"
#include "tenon/kernel/kernel.h"
#include "tensor.h"

/* Some dimensions as one: their length, and the step if they are contiguous. */
typedef struct joined_dims {
  int64_t length;
  int64_t step;
  int is_joined;
} joined_dims;

static joined_dims join_dims(const tensor_contraction *c, const int64_t *step,
                             int kind) {
  joined_dims j = {1, 0, 1};
  for (int64_t i = c->first[kind + 1]; i-- > c->first[kind];) {
    if (c->length[i] == 1) continue;
    if (j.length > 1 && step[i] != j.step * j.length) j.is_joined = 0;
    if (j.length == 1) j.step = step[i];
    j.length *= c->length[i];
  }
  return j;
}

static int64_t count_kind(const tensor_contraction *c, int kind) {
  return join_dims(c, c->step_a, kind).length;
}

/* ----------------------------------------------------------------- matrices */

/* An operand as one matrix for each place of the batch. */
typedef struct matrix {
  const void *data;
  int64_t next; /* to the next matrix, in elements */
  int64_t ld;
  uint32_t is_transposed; /* in memory */
  int is_copied;          /* it must be copied before */
} matrix;

/* Rows and columns are kinds of dimensions. */
static matrix find_matrix(const tensor_contraction *c, const int64_t *step,
                          int rows, int columns) {
  const joined_dims batch = join_dims(c, step, TENSOR_BATCH);
  const joined_dims row = join_dims(c, step, rows);
  const joined_dims column = join_dims(c, step, columns);
  const int joined = batch.is_joined && row.is_joined && column.is_joined;
  matrix m = {.next = batch.step};
  if (joined && (column.step == 1 || column.length == 1) &&
      (row.step >= column.length || row.length == 1)) {
    m.ld = row.length == 1 ? column.length : row.step;
  } else if (joined && (row.step == 1 || row.length == 1) &&
             (column.step >= row.length || column.length == 1)) {
    m.is_transposed = 1;
    m.ld = column.length == 1 ? row.length : column.step;
  } else {
    m.is_copied = 1;
    m.ld = column.length;
    m.next = row.length * column.length;
  }
  if (m.ld < 1) m.ld = 1;
  return m;
}

static int64_t count_copy_bytes(const tensor_contraction *c, int rows,
                                int columns, int64_t width) {
  const int64_t n = count_kind(c, TENSOR_BATCH) * count_kind(c, rows) *
                    count_kind(c, columns);
  return (n * width + 63) / 64 * 64;
}

static void append_dims(tensor_view *view, const tensor_contraction *c,
                        const int64_t *step, int kind) {
  for (int64_t i = c->first[kind]; i < c->first[kind + 1]; ++i)
    tensor_view_insert(view, view->tensor.ndim, c->length[i], step[i]);
}

/* The copies of a call: `room` is the free part of its workspace. */
typedef struct copies {
  const tn_frame *call;
  const tensor_contraction *c;
  char *room;
} copies;

/* Finds the matrices of an operand, and copies it if they are not there. */
static int32_t open_matrix(copies *x, const tn_tensor *operand, int rows,
                           int columns, matrix *m) {
  const tensor_contraction *c = x->c;
  const int64_t *step = rows == TENSOR_SUMMED ? c->step_b : c->step_a;
  tensor_view from = {.tensor = *operand}, to;
  from.tensor.ndim = 0;
  from.tensor.shape = from.shape;
  from.tensor.strides = from.strides;
  *m = find_matrix(c, step, rows, columns);
  m->data = operand->data;
  if (!m->is_copied) return TN_OK;
  append_dims(&from, c, step, TENSOR_BATCH);
  append_dims(&from, c, step, rows);
  append_dims(&from, c, step, columns);
  tensor_view_shaped(&to, operand, from.tensor.ndim, from.shape);
  m->data = to.tensor.data = x->room;
  x->room += count_copy_bytes(c, rows, columns, tn_dtype_bytes(operand->dtype));
  return tensor_copy(x->call, &to.tensor, &from.tensor);
}

static int32_t multiply_matrices(const tn_frame *call,
                                 const tensor_contraction *c,
                                 const tensor_factors *f) {
  const int64_t m = count_kind(c, TENSOR_LEFT), n = count_kind(c, TENSOR_RIGHT);
  copies x = {call, c, (char *)f->room};
  matrix a, b;
  int32_t code = open_matrix(&x, f->a, TENSOR_LEFT, TENSOR_SUMMED, &a);
  if (code == TN_OK)
    code = open_matrix(&x, f->b, TENSOR_SUMMED, TENSOR_RIGHT, &b);
  if (code != TN_OK) return code;
  const tensor_products p = {
      .call = call,
      .blas = ((const tensor_instance *)call->instance)->blas,
      .one = {.struct_size = sizeof p.one,
              .dtype = f->out->dtype,
              .transpose_a = a.is_transposed,
              .transpose_b = b.is_transposed,
              .m = m,
              .n = n,
              .k = count_kind(c, TENSOR_SUMMED),
              .a = a.data,
              .b = b.data,
              .c = f->out->data,
              .lda = a.ld,
              .ldb = b.ld,
              .ldc = n,
              .alpha = 1},
      .count = count_kind(c, TENSOR_BATCH),
      .next_a = a.next,
      .next_b = b.next,
      .next_c = m * n};
  return tensor_multiply_all(&p);
}

/* -------------------------------------------------------------------- loops */

enum { CHUNK = 256 }; /* elements of a row whose sums are kept together */

/* The loops of a call. The last dimension of the result is a row; `n_outer`
 * dimensions number rows. */
typedef struct loops {
  const tensor_contraction *c;
  const tensor_factors *f;
  int64_t n_outer;
  int64_t row, step_a, step_b;
  int64_t n_terms; /* of a sum */
} loops;

/* Positions in both operands of number i of the dimensions [begin, end). */
typedef struct position {
  int64_t a, b;
} position;

static position find_position(const tensor_contraction *c, int64_t i,
                              int64_t begin, int64_t end) {
  position at = {0, 0};
  for (int64_t d = end; d-- > begin; i /= c->length[d]) {
    at.a += i % c->length[d] * c->step_a[d];
    at.b += i % c->length[d] * c->step_b[d];
  }
  return at;
}

/* Computes elements [first, first + n) of a row, n at most CHUNK. */
typedef void sum_fn(const loops *l, position at, int64_t to, int64_t n);

#define SUM_ROW(name, type)                                              \
  static void name(const loops *l, position at, int64_t to, int64_t n) { \
    const tensor_contraction *c = l->c;                                  \
    const type *a = (const type *)l->f->a->data;                         \
    const type *b = (const type *)l->f->b->data;                         \
    TN_KERNEL_LINED type sum[CHUNK];                                     \
    memset(sum, 0, sizeof sum);                                          \
    for (int64_t k = 0; k < l->n_terms; ++k) {                           \
      const position term =                                              \
          find_position(c, k, c->first[TENSOR_SUMMED], c->n);            \
      const type *x = a + at.a + term.a, *y = b + at.b + term.b;         \
      if (l->step_a == 1 && l->step_b == 1)                              \
        for (int64_t i = 0; i < n; ++i) sum[i] += x[i] * y[i];           \
      else                                                               \
        for (int64_t i = 0; i < n; ++i)                                  \
          sum[i] += x[i * l->step_a] * y[i * l->step_b];                 \
    }                                                                    \
    memcpy((type *)l->f->out->data + to, sum, (size_t)n * sizeof *sum);  \
  }

/* Unsigned integers wrap, with the bits of signed ones. */
SUM_ROW(sum_f32, float)
SUM_ROW(sum_f64, double)
SUM_ROW(sum_32, uint32_t)
SUM_ROW(sum_64, uint64_t)

static int32_t row_slice(void *arg, int64_t begin, int64_t end) {
  const loops *l = (const loops *)arg;
  const tn_dtype dtype = l->f->out->dtype;
  sum_fn *sum = dtype == TN_F32   ? sum_f32
                : dtype == TN_F64 ? sum_f64
                : dtype == TN_I32 ? sum_32
                                  : sum_64;
  for (int64_t r = begin; r < end; ++r) {
    const position row = find_position(l->c, r, 0, l->n_outer);
    for (int64_t i = 0; i < l->row; i += CHUNK) {
      const position at = {row.a + i * l->step_a, row.b + i * l->step_b};
      const int64_t left = l->row - i;
      sum(l, at, r * l->row + i, left < CHUNK ? left : CHUNK);
    }
  }
  return TN_OK;
}

static int32_t run_loops(const tn_frame *call, const tensor_contraction *c,
                         const tensor_factors *f) {
  const int64_t n_kept = c->first[TENSOR_SUMMED];
  loops l = {c, f, n_kept > 0 ? n_kept - 1 : 0, 1, 0, 0, 1};
  int64_t rows = 1;
  if (n_kept > 0) {
    l.row = c->length[n_kept - 1];
    l.step_a = c->step_a[n_kept - 1];
    l.step_b = c->step_b[n_kept - 1];
  }
  for (int64_t d = 0; d < l.n_outer; ++d) rows *= c->length[d];
  l.n_terms = count_kind(c, TENSOR_SUMMED);
  const int64_t each = l.row * (l.n_terms + 1);
  const int64_t grain = TN_KERNEL_GRAIN / (each > 0 ? each : 1);
  return call->host->parallel_for(call, rows, grain > 0 ? grain : 1, row_slice,
                                  &l);
}

/* ---------------------------------------------------------------- contracts */

/* Matrices of fewer products are not worth a call for each. */
static int is_product(const tensor_contraction *c, tn_dtype dtype) {
  enum { LEAST = 64 };
  const int64_t m = count_kind(c, TENSOR_LEFT), n = count_kind(c, TENSOR_RIGHT);
  const int64_t k = count_kind(c, TENSOR_SUMMED);
  return (dtype == TN_F32 || dtype == TN_F64) && k > 0 &&
         (double)m * (double)n * (double)k >= LEAST;
}

uint64_t tensor_contract_bytes(const tensor_contraction *c, tn_dtype dtype) {
  const int64_t width = tn_dtype_bytes(dtype);
  int64_t bytes = 0;
  if (!is_product(c, dtype)) return 0;
  if (find_matrix(c, c->step_a, TENSOR_LEFT, TENSOR_SUMMED).is_copied)
    bytes += count_copy_bytes(c, TENSOR_LEFT, TENSOR_SUMMED, width);
  if (find_matrix(c, c->step_b, TENSOR_SUMMED, TENSOR_RIGHT).is_copied)
    bytes += count_copy_bytes(c, TENSOR_SUMMED, TENSOR_RIGHT, width);
  return (uint64_t)bytes;
}

int32_t tensor_contract(const tn_frame *call, const tensor_contraction *c,
                        const tensor_factors *f) {
  return is_product(c, f->out->dtype) ? multiply_matrices(call, c, f)
                                      : run_loops(call, c, f);
}
