/* SPDX-License-Identifier: Apache-2.0
 * library.h: the functions of cuSOLVER and cuBLAS that this plugin uses, loaded
 * at run time. Numbers are those of cusolverDn.h and cublas_api.h, the same
 * from CUDA 12 on. Pointers to numbers of the device are void pointers here, so
 * that one type serves functions for f32 and f64; tests/cuda/check_solver.c
 * passes our arguments to the functions of a toolkit's headers.
 */
#ifndef CUSOLVER_LIBRARY_H_
#define CUSOLVER_LIBRARY_H_

#include <stddef.h>
#include <stdint.h>

enum { SOLVER_OK = 0, SOLVER_NO_MEMORY = 2, SOLVER_NOT_SUPPORTED = 9 };
enum { BLAS_NO_MEMORY = 3, BLAS_NOT_SUPPORTED = 15 };
/* Added to statuses of cuBLAS, so that one number names both. */
enum { SOLVER_BLAS_STATUS = 1000 };

enum { SOLVER_LOWER = 0, SOLVER_UPPER = 1 };
enum { SOLVER_LEFT = 0, SOLVER_RIGHT = 1 };
enum { SOLVER_OP_N = 0, SOLVER_OP_T = 1 };
enum { SOLVER_NON_UNIT = 0 };
enum { SOLVER_VECTORS = 1 };       /* cusolverEigMode_t */
enum { SOLVER_DETERMINISTIC = 1 }; /* cusolverDeterministicMode_t */
enum { SOLVER_MAJOR = 0, SOLVER_MINOR = 1, SOLVER_PATCH = 2 };

/* field, symbol, arguments, their names. All return a cusolverStatus_t. */
#define SOLVER_FUNCTIONS(X)                                             \
  X(create, cusolverDnCreate, (void *out), (out))                       \
  X(destroy, cusolverDnDestroy, (void *handle), (handle))               \
  X(set_stream, cusolverDnSetStream, (void *handle, void *stream),      \
    (handle, stream))                                                   \
  X(set_mode, cusolverDnSetDeterministicMode, (void *handle, int mode), \
    (handle, mode))                                                     \
  X(version, cusolverGetProperty, (int which, int *out), (which, out))

/* field, the symbol before and after the letter of a type, arguments, their
 * names. All return a cusolverStatus_t. */
#define SOLVER_TYPED(X)                                                        \
  X(potrf_size, cusolverDn, potrf_bufferSize,                                  \
    (void *handle, int triangle, int n, void *a, int lda, int *size),          \
    (handle, triangle, n, a, lda, size))                                       \
  X(potrf, cusolverDn, potrf,                                                  \
    (void *handle, int triangle, int n, void *a, int lda, void *ws, int size,  \
     int *info),                                                               \
    (handle, triangle, n, a, lda, ws, size, info))                             \
  X(potrf_batched, cusolverDn, potrfBatched,                                   \
    (void *handle, int triangle, int n, void *a, int lda, int *info,           \
     int count),                                                               \
    (handle, triangle, n, a, lda, info, count))                                \
  X(potri_size, cusolverDn, potri_bufferSize,                                  \
    (void *handle, int triangle, int n, void *a, int lda, int *size),          \
    (handle, triangle, n, a, lda, size))                                       \
  X(potri, cusolverDn, potri,                                                  \
    (void *handle, int triangle, int n, void *a, int lda, void *ws, int size,  \
     int *info),                                                               \
    (handle, triangle, n, a, lda, ws, size, info))                             \
  X(getrf_size, cusolverDn, getrf_bufferSize,                                  \
    (void *handle, int m, int n, void *a, int lda, int *size),                 \
    (handle, m, n, a, lda, size))                                              \
  X(getrf, cusolverDn, getrf,                                                  \
    (void *handle, int m, int n, void *a, int lda, void *ws, int *pivots,      \
     int *info),                                                               \
    (handle, m, n, a, lda, ws, pivots, info))                                  \
  X(getrs, cusolverDn, getrs,                                                  \
    (void *handle, int op, int n, int sides, const void *a, int lda,           \
     const int *pivots, void *b, int ldb, int *info),                          \
    (handle, op, n, sides, a, lda, pivots, b, ldb, info))                      \
  X(geqrf_size, cusolverDn, geqrf_bufferSize,                                  \
    (void *handle, int m, int n, void *a, int lda, int *size),                 \
    (handle, m, n, a, lda, size))                                              \
  X(geqrf, cusolverDn, geqrf,                                                  \
    (void *handle, int m, int n, void *a, int lda, void *factors, void *ws,    \
     int size, int *info),                                                     \
    (handle, m, n, a, lda, factors, ws, size, info))                           \
  X(orgqr_size, cusolverDn, orgqr_bufferSize,                                  \
    (void *handle, int m, int n, int k, const void *a, int lda,                \
     const void *factors, int *size),                                          \
    (handle, m, n, k, a, lda, factors, size))                                  \
  X(orgqr, cusolverDn, orgqr,                                                  \
    (void *handle, int m, int n, int k, void *a, int lda, const void *factors, \
     void *ws, int size, int *info),                                           \
    (handle, m, n, k, a, lda, factors, ws, size, info))                        \
  X(syevd_size, cusolverDn, syevd_bufferSize,                                  \
    (void *handle, int mode, int triangle, int n, const void *a, int lda,      \
     const void *values, int *size),                                           \
    (handle, mode, triangle, n, a, lda, values, size))                         \
  X(syevd, cusolverDn, syevd,                                                  \
    (void *handle, int mode, int triangle, int n, void *a, int lda,            \
     void *values, void *ws, int size, int *info),                             \
    (handle, mode, triangle, n, a, lda, values, ws, size, info))               \
  X(gesvd_size, cusolverDn, gesvd_bufferSize,                                  \
    (void *handle, int m, int n, int *size), (handle, m, n, size))             \
  X(gesvd, cusolverDn, gesvd,                                                  \
    (void *handle, signed char job_u, signed char job_vt, int m, int n,        \
     void *a, int lda, void *values, void *u, int ldu, void *vt, int ldvt,     \
     void *ws, int size, void *rest, int *info),                               \
    (handle, job_u, job_vt, m, n, a, lda, values, u, ldu, vt, ldvt, ws, size,  \
     rest, info))

/* The same of cuBLAS. All return a cublasStatus_t. */
#define SOLVER_BLAS_FUNCTIONS(X)                                       \
  X(blas_create, cublasCreate_v2, (void *out), (out))                  \
  X(blas_destroy, cublasDestroy_v2, (void *handle), (handle))          \
  X(blas_set_stream, cublasSetStream_v2, (void *handle, void *stream), \
    (handle, stream))                                                  \
  X(blas_version, cublasGetProperty, (int which, int *out), (which, out))

#define SOLVER_BLAS_TYPED(X)                                                   \
  X(trsm, cublas, trsm_v2,                                                     \
    (void *handle, int side, int triangle, int op, int diagonal, int m, int n, \
     const void *alpha, const void *a, int lda, void *b, int ldb),             \
    (handle, side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb))       \
  X(trsm_batched, cublas, trsmBatched,                                         \
    (void *handle, int side, int triangle, int op, int diagonal, int m, int n, \
     const void *alpha, const void *a, int lda, const void *b, int ldb,        \
     int count),                                                               \
    (handle, side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb,        \
     count))                                                                   \
  X(trmm, cublas, trmm_v2,                                                     \
    (void *handle, int side, int triangle, int op, int diagonal, int m, int n, \
     const void *alpha, const void *a, int lda, const void *b, int ldb,        \
     void *c, int ldc),                                                        \
    (handle, side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb, c,     \
     ldc))                                                                     \
  X(getrf_batched, cublas, getrfBatched,                                       \
    (void *handle, int n, const void *a, int lda, int *pivots, int *info,      \
     int count),                                                               \
    (handle, n, a, lda, pivots, info, count))                                  \
  X(getrs_batched, cublas, getrsBatched,                                       \
    (void *handle, int op, int n, int sides, const void *a, int lda,           \
     const int *pivots, const void *b, int ldb, int *info, int count),         \
    (handle, op, n, sides, a, lda, pivots, b, ldb, info, count))

typedef struct solver_library {
  void *solver; /* from dlopen */
  void *blas;
  char name[96];                /* "cuSOLVER 12.0.4, cuBLAS 13.1.0" */
  const char *(*say)(int code); /* cublasGetStatusString */
#define SOLVER_FIELD(field, symbol, arguments, names) int(*field) arguments;
  SOLVER_FUNCTIONS(SOLVER_FIELD)
  SOLVER_BLAS_FUNCTIONS(SOLVER_FIELD)
#undef SOLVER_FIELD
/* For f32 and f64. */
#define SOLVER_FIELD(field, before, after, arguments, names) \
  int(*field[2]) arguments;
  SOLVER_TYPED(SOLVER_FIELD)
  SOLVER_BLAS_TYPED(SOLVER_FIELD)
#undef SOLVER_FIELD
} solver_library;

/* File names of the two libraries of one release of CUDA. */
typedef struct solver_files {
  const char *solver;
  const char *blas;
  int cuda; /* its major version; 0: known after they are open */
} solver_files;

/* Those of all releases, the newest first; the last one has no names. */
extern const solver_files solver_names[];

/* Opens the first pair of files that exists and works with the machine's
 * driver, which has loaded before: 1, or 0 with a sentence in `why` that names
 * the missing part and the remedy. [load] */
int solver_open(solver_library *library, const solver_files *names,
                char why[240]);

/* [load] */
void solver_close(solver_library *library);

/* A status of cuSOLVER, or of cuBLAS plus SOLVER_BLAS_STATUS, as text. [any] */
const char *solver_describe(const solver_library *library, int status);

#endif /* CUSOLVER_LIBRARY_H_ */
