/* SPDX-License-Identifier: Apache-2.0
 * check_solver.c: plugins/cusolver/library.h against the headers of a toolkit:
 * numbers, and calls of every function with our arguments. A number of
 * arguments, or a type, that differs does not compile. Never run.
 */
#include <cublas_v2.h>
#include <cusolverDn.h>

#include "library.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(SOLVER_OK, CUSOLVER_STATUS_SUCCESS);
SAME(SOLVER_NO_MEMORY, CUSOLVER_STATUS_ALLOC_FAILED);
SAME(SOLVER_NOT_SUPPORTED, CUSOLVER_STATUS_NOT_SUPPORTED);
SAME(SOLVER_OK, CUBLAS_STATUS_SUCCESS);
SAME(BLAS_NO_MEMORY, CUBLAS_STATUS_ALLOC_FAILED);
SAME(BLAS_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(SOLVER_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(SOLVER_UPPER, CUBLAS_FILL_MODE_UPPER);
SAME(SOLVER_LEFT, CUBLAS_SIDE_LEFT);
SAME(SOLVER_RIGHT, CUBLAS_SIDE_RIGHT);
SAME(SOLVER_OP_N, CUBLAS_OP_N);
SAME(SOLVER_OP_T, CUBLAS_OP_T);
SAME(SOLVER_NON_UNIT, CUBLAS_DIAG_NON_UNIT);
SAME(SOLVER_VECTORS, CUSOLVER_EIG_MODE_VECTOR);
SAME(SOLVER_DETERMINISTIC, CUSOLVER_DETERMINISTIC_RESULTS);
SAME(SOLVER_MAJOR, MAJOR_VERSION);
SAME(SOLVER_MINOR, MINOR_VERSION);
SAME(SOLVER_PATCH, PATCH_LEVEL);

/* An enumeration of theirs is an int of ours. */
SAME(sizeof(int), sizeof(cublasOperation_t));
SAME(sizeof(int), sizeof(cusolverStatus_t));

/* clang's enumerations without negative numbers are unsigned. */
#pragma GCC diagnostic ignored "-Wsign-conversion"

#define CALL(field, symbol, arguments, names)     \
  extern int cuda_check_solver_##field arguments; \
  int cuda_check_solver_##field arguments {       \
    return (int)symbol names;                     \
  }
SOLVER_FUNCTIONS(CALL)
SOLVER_BLAS_FUNCTIONS(CALL)
#undef CALL

#define CALL(field, before, after, arguments, names) \
  extern int cuda_check_solver_S_##field arguments;  \
  extern int cuda_check_solver_D_##field arguments;  \
  int cuda_check_solver_S_##field arguments {        \
    return (int)before##S##after names;              \
  }                                                  \
  int cuda_check_solver_D_##field arguments {        \
    return (int)before##D##after names;              \
  }
SOLVER_TYPED(CALL)
SOLVER_BLAS_TYPED(CALL)
