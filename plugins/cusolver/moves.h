/* SPDX-License-Identifier: Apache-2.0
 * moves.h: the kernels of this plugin before and after a task: they prepare
 * operands, and read the results that no host waits for. All of them return
 * TN_OK, or a code after TN_FAIL. [worker]
 *
 * Each matrix of a call has two flags: `odd` is 1 if an element was not finite,
 * and `info` is that of the last task. The results of a matrix with one of them
 * are NaN.
 */
#ifndef CUSOLVER_MOVES_H_
#define CUSOLVER_MOVES_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses on the device, in the workspace of a call. */
typedef struct cusolver_flags {
  int64_t count;
  int32_t *odd;
  int32_t *info;
} cusolver_flags;

/* A list of the addresses of matrices. */
typedef struct cusolver_list {
  void **to;
  void *first;
  int64_t bytes; /* from one matrix to the next */
} cusolver_list;

/* Clears the flags, and writes `n` lists, two at most. */
int32_t cusolver_clear_flags(const tn_frame *call, const cusolver_flags *flags,
                             const cusolver_list *lists, int n);

enum { /* cusolver_move.part: the elements that are read */
       CUSOLVER_ALL,
       CUSOLVER_LOWER, /* zeros in the other triangle */
       CUSOLVER_UPPER,
       CUSOLVER_MIRROR_LOWER, /* the other triangle becomes the mirror image */
       CUSOLVER_MIRROR_UPPER,
       CUSOLVER_IDENTITY /* none: the result is I */
};

/* Writes dense matrices `to` (rows x columns). Element (i, j) of the source is
 * from[i * ld + j], and that of the result is element (j, i) of the source with
 * `transposes`. Without it, `to` may be `from`. */
typedef struct cusolver_move {
  int64_t rows;
  int64_t columns;
  const void *from;
  int64_t ld;
  int64_t step; /* from one source matrix to the next, in elements */
  void *to;
  int32_t part;
  int32_t transposes;
} cusolver_move;

/* Before a task: sets `odd` of matrices with elements that are not finite,
 * which become 0. */
int32_t cusolver_copy_in(const tn_frame *call, const cusolver_flags *flags,
                         const cusolver_move *move);
/* After a task: matrices with a flag become NaN. */
int32_t cusolver_copy_out(const tn_frame *call, const cusolver_flags *flags,
                          const cusolver_move *move);

/* Vectors of n matrices: element k of vector i of a matrix is at
 * i * next + k * step. */
typedef struct cusolver_vectors {
  void *at; /* NULL: none */
  int64_t length;
  int64_t step;
  int64_t next;
} cusolver_vectors;

/* Makes the element with the largest magnitude of each of the n `first` vectors
 * of a matrix positive, and negates its `second` vector with it. Vectors of
 * matrices with a flag become NaN. A matrix of vectors has n * length elements.
 */
int32_t cusolver_choose_signs(const tn_frame *call, const cusolver_flags *flags,
                              int64_t n, const cusolver_vectors *first,
                              const cusolver_vectors *second);

/* Determinants of LU factors: det itself, or the sign and the logarithm of the
 * magnitude. */
typedef struct cusolver_determinants {
  int64_t n;
  const void *factors;
  const int32_t *pivots;
  void *det;       /* NULL: no output */
  void *sign;      /* the same */
  void *logarithm; /* the same */
} cusolver_determinants;

int32_t cusolver_write_determinants(const tn_frame *call,
                                    const cusolver_flags *flags,
                                    const cusolver_determinants *what);

#ifdef __cplusplus
}
#endif
#endif /* CUSOLVER_MOVES_H_ */
