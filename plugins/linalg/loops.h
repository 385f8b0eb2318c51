/* SPDX-License-Identifier: Apache-2.0
 * loops.h: loops over the elements of one matrix, for f32 and f64. All matrices
 * are dense and row-major. No function here knows of calls or batches.
 */
#ifndef LINALG_LOOPS_H_
#define LINALG_LOOPS_H_

#include <stddef.h>
#include <stdint.h>

#include "tenon/plugin/lapack.h"

/* Functions of a square matrix x (n x n). */
enum {
  LINALG_COPY,
  LINALG_TRANSPOSE,
  LINALG_IDENTITY,         /* does not read x */
  LINALG_SYMMETRIC_PART,   /* (x + x^T) / 2 */
  LINALG_ADD_TRANSPOSE,    /* x + x^T */
  LINALG_MINUS_TRANSPOSE,  /* x - x^T */
  LINALG_HALF_TRIANGLE,    /* lower triangle, half of the diagonal */
  LINALG_MIRROR_LOWER,     /* the symmetric matrix of the lower triangle */
  LINALG_LOWER,            /* lower triangle */
  LINALG_UPPER_TRANSPOSED, /* upper triangle, transposed */
  LINALG_LOWER_TRANSPOSED, /* lower triangle, transposed */
  LINALG_EXTRACT_DIAGONAL, /* out has n elements */
  LINALG_MAKE_DIAGONAL,    /* x has n elements */
  LINALG_SUM_DIFFERENCES,  /* sums of rows minus those of columns: n */
  LINALG_SUM_LOG_DIAGONAL, /* one number */
  LINALG_SQUARES
};

/* out must not overlap x. */
typedef void linalg_square_fn(int64_t n, const void *x, void *out);

/* An LU factorisation, as TN_LAPACK_LU leaves it. */
typedef struct linalg_lu {
  int64_t n;
  void *factors;
  int32_t *pivots;
  int is_singular;
} linalg_lu;

/* Singular vectors or eigenvectors that need a sign, and a second set that gets
 * the same signs. */
typedef struct linalg_signs {
  int64_t n;      /* vectors */
  int64_t length; /* of the ones that decide */
  int64_t step;   /* between elements of a vector */
  int64_t next;   /* between vectors */
  void *vectors;
  int64_t length_2; /* of the others; their elements are contiguous */
  void *vectors_2;  /* or NULL */
} linalg_signs;

/* The loops of one type. [any] */
typedef struct linalg_loops {
  size_t bytes; /* of an element */
  linalg_square_fn *square[LINALG_SQUARES];

  /* x (rows x columns) transposed. */
  void (*transpose)(int64_t rows, int64_t columns, const void *x, void *out);

  /* Clears the other triangle of x (n x n). */
  void (*keep_triangle)(int64_t n, int is_lower, void *x);

  /* x[i, j] / (values[j] - values[i]), 0 where x is and on the diagonal. */
  void (*divide_by_gaps)(int64_t n, const void *x, const void *values,
                         void *out);

  /* The tasks up to LU_SOLVE and the triangular ones of lapack/1, without
   * blocks: for small matrices. */
  int64_t (*run)(const tn_lapack_task *task);

  /* The determinant of the factors. */
  void (*det)(const linalg_lu *lu, void *det);

  /* Its sign, and the logarithm of its magnitude. */
  void (*slogdet)(const linalg_lu *lu, void *sign, void *logarithm);

  /* Multiplies n * n elements with *scale and, if lu is not NULL, with the
   * determinant. */
  void (*scale)(const linalg_lu *lu, int64_t n, const void *scale, void *x);

  /* The cofactors of a singular matrix. Overwrites x; `places` has
   * room for 2 n numbers, `vectors` for 2 n elements. */
  void (*singular_cofactors)(int64_t n, void *x, int64_t *places, void *vectors,
                             void *out);

  /* Makes the element with the largest magnitude of each vector positive. */
  void (*choose_signs)(const linalg_signs *signs);
} linalg_loops;

/* The loops of TN_F32 or TN_F64. [any] */
const linalg_loops *linalg_loops_of(tn_dtype dtype);

/* Whether linalg_loops.run has this kind of task. [any] */
static inline int linalg_is_plain(uint32_t kind) {
  return kind <= TN_LAPACK_LU_SOLVE || kind >= TN_LAPACK_TRIANGULAR_PRODUCT;
}

#endif /* LINALG_LOOPS_H_ */
