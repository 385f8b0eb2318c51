/* SPDX-License-Identifier: Apache-2.0
 * library.h: opens the OpenBLAS of this machine with its best instructions, and
 * calls it without threads of its own.
 */
#ifndef OPENBLAS_LIBRARY_H_
#define OPENBLAS_LIBRARY_H_

#include <stddef.h>
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

/* cblas_strsm, cblas_strmm, and those of double. */
typedef void openblas_striangular(int order, int side, int uplo, int transpose,
                                  int diagonal, int m, int n, float alpha,
                                  const float *a, int lda, float *b, int ldb);
typedef void openblas_dtriangular(int order, int side, int uplo, int transpose,
                                  int diagonal, int m, int n, double alpha,
                                  const double *a, int lda, double *b, int ldb);

/* Functions of LAPACK as gfortran compiles them, for one type of elements: the
 * lengths of texts are the last arguments. */
typedef void openblas_potrf(const char *uplo, const int *n, void *a,
                            const int *lda, int *info, size_t uplo_length);
typedef void openblas_getrf(const int *m, const int *n, void *a, const int *lda,
                            int *pivots, int *info);
typedef void openblas_getrs(const char *transpose, const int *n,
                            const int *n_columns, const void *a, const int *lda,
                            const int *pivots, void *b, const int *ldb,
                            int *info, size_t transpose_length);
typedef void openblas_geqrf(const int *m, const int *n, void *a, const int *lda,
                            void *scalars, void *work, const int *n_work,
                            int *info);
typedef void openblas_orgqr(const int *m, const int *n, const int *k, void *a,
                            const int *lda, const void *scalars, void *work,
                            const int *n_work, int *info);
typedef void openblas_syevd(const char *job, const char *uplo, const int *n,
                            void *a, const int *lda, void *values, void *work,
                            const int *n_work, int *integers,
                            const int *n_integers, int *info, size_t job_length,
                            size_t uplo_length);
typedef void openblas_gesdd(const char *job, const int *m, const int *n,
                            void *a, const int *lda, void *values, void *u,
                            const int *ldu, void *vt, const int *ldvt,
                            void *work, const int *n_work, int *integers,
                            int *info, size_t job_length);

typedef struct openblas_functions {
  openblas_potrf *potrf;
  openblas_potrf *potri; /* equal arguments */
  openblas_getrf *getrf;
  openblas_getrs *getrs;
  openblas_geqrf *geqrf;
  openblas_orgqr *orgqr;
  openblas_syevd *syevd;
  openblas_gesdd *gesdd;
} openblas_functions;

typedef struct openblas_library {
  void *handle;
  char **environment; /* the one in which it was opened */
  int threads; /* if the process had opened it before: its number; else 0 */
  int (*get_threads)(void); /* or NULL */
  void (*set_threads)(int n);
  openblas_sgemm *sgemm;
  openblas_dgemm *dgemm;
  openblas_striangular *strmm, *strsm;
  openblas_dtriangular *dtrmm, *dtrsm;
  openblas_functions lapack[2]; /* of f32 and f64 */
  const char *lacks; /* a function of LAPACK that is absent, or NULL */
  char name[96];     /* "OpenBLAS 0.3.21 SkylakeX" */
} openblas_library;

/* Opens it: 1, or 0 with a sentence in `why`. A library that the process has
 * already opened keeps its kernels. `features` are TN_CPU_*. [load] */
int openblas_library_open(openblas_library *library, uint64_t features,
                          char why[256]);

/* Starts a product or factorisation: OpenBLAS uses one thread until
 * openblas_threads_end. [any] */
void openblas_threads_begin(const openblas_library *library);
void openblas_threads_end(const openblas_library *library);

/* Closes it. [load] */
void openblas_library_close(openblas_library *library);

#endif /* OPENBLAS_LIBRARY_H_ */
