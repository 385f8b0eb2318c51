/* SPDX-License-Identifier: Apache-2.0
 * fake_lapack.h: the computations of the simulated cuSOLVER and cuBLAS: plain
 * loops over column-major matrices of doubles on the thread of the simulated
 * device, and the checks that both libraries share.
 */
#ifndef TENON_TESTS_CUDA_FAKE_LAPACK_H_
#define TENON_TESTS_CUDA_FAKE_LAPACK_H_

#include "fake_cuda.h"
#include "library.h"

enum { /* fake_job.kind */
       FAKE_POTRF,
       FAKE_POTRI,
       FAKE_TRSM,
       FAKE_GETRF,
       FAKE_GETRS,
       FAKE_GEQRF,
       FAKE_ORGQR,
       FAKE_SYEVD,
       FAKE_GESVD,
       FAKE_TRMM
};

/* A call of a library, with the arguments of its function. */
typedef struct fake_job {
  int kind;
  int wide; /* 1: f64 */
  int m, n, k;
  int lda, ldb, ldc;
  int side, triangle, op;
  int size;      /* elements of `ws` */
  int count;     /* of matrices; 1 without lists */
  int has_lists; /* a and b are lists of addresses */
  double alpha;
  const void *a, *b, *c, *values, *ws;
  const int *pivots;
  int *info; /* NULL: none */
} fake_job;

/* A handle of either library. */
typedef struct fake_handle {
  int magic;
  int device;
  void *stream; /* NULL: not set */
} fake_handle;

/* Creates a handle for the current device: a status. */
int fake_handle_create(void *out, int magic);
/* 0 for a handle of the library that lives; otherwise a rule is broken. */
int fake_handle_check(const void *handle, int magic);
void fake_handle_destroy(void *handle);
int fake_handle_set_stream(void *handle, int magic, void *stream);

/* Enqueues a job in the type of the call, on the stream of the handle, after
 * its checks: a CUresult, or -1 for an argument that the real library refuses.
 * Without lists a job has one matrix. */
int fake_job_submit(const void *handle, int magic, fake_job job);

/* Whether the call of this thread is the function for f64. */
extern _Thread_local int fake_is_wide;

/* For SOLVER_TYPED and SOLVER_BLAS_TYPED (library.h): the functions of an entry
 * for f32 and f64. Both call `do_<field>`. */
#define DECLARE_TYPES(field, before, after, arguments, names) \
  int before##S##after arguments;                             \
  int before##D##after arguments;
#define DEFINE_TYPES(field, before, after, arguments, names) \
  int before##S##after arguments {                           \
    fake_is_wide = 0;                                        \
    return do_##field names;                                 \
  }                                                          \
  int before##D##after arguments {                           \
    fake_is_wide = 1;                                        \
    return do_##field names;                                 \
  }

/* ------------------------------------------------------------- for the tests
 */

/* In fake_solver.c: the next call of any function of cuSOLVER but the version
 * returns this status. */
void fake_solver_fail(int status);
/* Number of calls that computed something since the last question. */
int fake_solver_calls(void);
int fake_cublas_calls(void); /* in fake_cublas.c */

#endif /* TENON_TESTS_CUDA_FAKE_LAPACK_H_ */
