/* SPDX-License-Identifier: Apache-2.0
 * library.h: opens the OpenBLAS of this machine with its best instructions, and
 * calls it without threads of its own.
 */
#ifndef OPENBLAS_LIBRARY_H_
#define OPENBLAS_LIBRARY_H_

#include <stdint.h>

/* cblas_sgemm and cblas_dgemm with 32-bit integers; enumerations are ints. */
typedef void openblas_sgemm(int order, int transpose_a, int transpose_b, int m,
                            int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c,
                            int ldc);
typedef void openblas_dgemm(int order, int transpose_a, int transpose_b, int m,
                            int n, int k, double alpha, const double *a,
                            int lda, const double *b, int ldb, double beta,
                            double *c, int ldc);

typedef struct openblas_library {
  void *handle;
  char **environment; /* the one in which it was opened */
  int threads; /* if the process had opened it before: its number; else 0 */
  int (*get_threads)(void); /* or NULL */
  void (*set_threads)(int n);
  openblas_sgemm *sgemm;
  openblas_dgemm *dgemm;
  char name[96]; /* "OpenBLAS 0.3.21 SkylakeX" */
} openblas_library;

/* Opens it: 1, or 0 with a sentence in `why`. A library that the process has
 * already opened keeps its kernels. `features` are TN_CPU_*. [load] */
int openblas_library_open(openblas_library *library, uint64_t features,
                          char why[256]);

/* Starts a product: OpenBLAS uses one thread until openblas_threads_end.
 * [any] */
void openblas_threads_begin(const openblas_library *library);
void openblas_threads_end(const openblas_library *library);

/* Closes it. [load] */
void openblas_library_close(openblas_library *library);

#endif /* OPENBLAS_LIBRARY_H_ */
