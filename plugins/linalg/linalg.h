/* SPDX-License-Identifier: Apache-2.0
 * linalg.h: state of the plugin, and calls on batches of matrices.
 *
 * A kernel describes its work on one matrix as a function, and linalg_run_all
 * calls it for all matrices of the batch. It divides them into units by their
 * shape alone, and each unit has its own scratch memory.
 */
#ifndef LINALG_LINALG_H_
#define LINALG_LINALG_H_

#include "loops.h"
#include "tenon/plugin/blas.h"
#include "tenon/plugin/lapack.h"

/* State of the plugin for one runtime: call->instance. */
typedef struct linalg_instance {
  const tn_blas *blas;     /* NULL: no plugin provides blas/1 */
  const tn_lapack *lapack; /* NULL: no plugin provides lapack/1 */
} linalg_instance;

/* The call on one matrix of a batch. */
typedef struct linalg_one {
  const tn_frame *call;
  const linalg_loops *loops; /* of the type of the first output */
  int64_t i;                 /* number of the matrix */
  char *scratch;             /* of the unit, aligned to 64 bytes */
} linalg_one;

/* Computes one matrix. Returns 0, a positive number that says why the matrix
 * has no result, or a negative code. */
typedef int64_t linalg_step(const linalg_one *one);

/* The kernel of an operator. */
typedef struct linalg_kernel {
  linalg_step *step;
  uint64_t scratch;    /* bytes for one matrix */
  double work;         /* operations for one matrix, about */
  const char *failure; /* "is singular": says why a matrix has no result; NULL:
                          it is not an error */
  const char *place;   /* "pivot": the unit of the positive number */
} linalg_kernel;

/* Computes all matrices of a call with `count` of them. [worker] */
int32_t linalg_run_all(const tn_frame *call, int64_t count,
                       const linalg_kernel *kernel);

/* Bytes of workspace that linalg_run_all needs for the same arguments. [any] */
uint64_t linalg_scratch(int64_t count, const linalg_kernel *kernel);

/* Product of the dimensions of a tensor before its last `n` ones. [any] */
int64_t linalg_count(const tn_tensor *tensor, int32_t n);

/* Address of number i of the matrices, vectors (n = 1) or numbers (n = 0) in
 * the last n dimensions of a tensor; NULL if it has no elements. [any] */
void *linalg_at(const tn_tensor *tensor, int32_t n, int64_t i);

/* Bytes of the scratch memory that output `k` needs: those of one matrix or
 * vector, rounded, if the output was not requested, otherwise 0. [any] */
uint64_t linalg_spare_bytes(const tn_frame *call, uint32_t k, int32_t n);

/* Memory for output `k` of one matrix: that of the output, or the next part of
 * the scratch memory, which *at points to. [worker] */
void *linalg_spare_at(const linalg_one *one, uint32_t k, int32_t n, char **at);

/* Rows and columns of the matrices of a tensor. [any] */
int64_t linalg_rows(const tn_tensor *tensor);
int64_t linalg_columns(const tn_tensor *tensor);

/* Checks a task before the call, and adds its workspace to *bytes, rounded to
 * 64 bytes. [any] */
int32_t linalg_plan(const tn_frame *call, const tn_lapack_task *task,
                    uint64_t *bytes);

/* Computes a task: small ones by loops.h, others by lapack/1 if it is provided.
 * Tasks that loops.h does not have need lapack/1. [worker] */
int64_t linalg_run(const linalg_one *one, const tn_lapack_task *task);

/* A dense matrix as a factor of a product. */
typedef struct linalg_factor {
  const void *at;
  int64_t rows;
  int64_t columns;
  uint32_t transpose; /* 1: op transposes it */
} linalg_factor;

/* A dense matrix c = alpha * product + beta * c. */
typedef struct linalg_target {
  void *at;
  double alpha;
  double beta;
} linalg_target;

/* Computes a product of matrices of the call's type. TN_OK or a code.
 * [worker] */
int32_t linalg_multiply(const linalg_one *one, linalg_factor a, linalg_factor b,
                        linalg_target c);

/* Rounds a number of bytes up to the next multiple of 64. [any] */
static inline uint64_t linalg_round(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

#endif /* LINALG_LINALG_H_ */
