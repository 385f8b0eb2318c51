/* SPDX-License-Identifier: Apache-2.0
 * blaslt.h: the functions of cuBLASLt that this plugin uses, loaded at run
 * time. Types and numbers are those of cublasLt.h, the same from CUDA 11 on.
 */
#ifndef CUDA_BLASLT_H_
#define CUDA_BLASLT_H_

#include "driver.h"

enum { /* cublasStatus_t: the distinguished values */
       BLASLT_OK = 0,
       BLASLT_NO_MEMORY = 3,
       BLASLT_NOT_SUPPORTED = 15
};
enum { BLASLT_F32 = 0, BLASLT_F64 = 1, BLASLT_F16 = 2, BLASLT_BF16 = 14 };
enum { BLASLT_COMPUTE_32F = 68, BLASLT_COMPUTE_64F = 70 };
enum { BLASLT_COMPUTE_32F_TF32 = 77 };
enum {
  BLASLT_TRANSA = 3,
  BLASLT_TRANSB = 4
}; /* attributes of a matrix product's description */
enum { BLASLT_EPILOGUE = 7, BLASLT_BIAS_POINTER = 8, BLASLT_BIAS_TYPE = 26 };
enum { BLASLT_OP_N = 0, BLASLT_OP_T = 1 };
enum { BLASLT_DEFAULT = 1, BLASLT_RELU = 2, BLASLT_BIAS = 4 };
enum {
  BLASLT_BATCH_COUNT = 5,
  BLASLT_BATCH_STEP = 6
};     /* attributes of a matrix's layout */
enum { /* attributes of a preference for algorithms */
       BLASLT_MOST_WORKSPACE = 1,
       BLASLT_SUMS_OF_PARTS = 3, /* in which types: a mask */
       BLASLT_ALIGN_A = 5,
       BLASLT_ALIGN_B = 6,
       BLASLT_ALIGN_C = 7,
       BLASLT_ALIGN_D = 8
};

enum { BLASLT_SUMS_COMPUTE_TYPE = 2 };

typedef struct blaslt_algo { /* cublasLtMatmulAlgo_t */
  uint64_t data[8];
} blaslt_algo;

typedef struct blaslt_found { /* cublasLtMatmulHeuristicResult_t */
  blaslt_algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} blaslt_found;

typedef void *blaslt_handle;
typedef void *blaslt_what;   /* cublasLtMatmulDesc_t */
typedef void *blaslt_layout; /* cublasLtMatrixLayout_t */
typedef void *blaslt_wish;   /* cublasLtMatmulPreference_t */

/* field, symbol, arguments. All return a cublasStatus_t. */
#define BLASLT_FUNCTIONS(X)                                                    \
  X(create, cublasLtCreate, (blaslt_handle * out))                             \
  X(destroy, cublasLtDestroy, (blaslt_handle handle))                          \
  X(what_create, cublasLtMatmulDescCreate,                                     \
    (blaslt_what * out, int compute, int scale))                               \
  X(what_destroy, cublasLtMatmulDescDestroy, (blaslt_what what))               \
  X(what_set, cublasLtMatmulDescSetAttribute,                                  \
    (blaslt_what what, int attribute, const void *value, size_t bytes))        \
  X(layout_create, cublasLtMatrixLayoutCreate,                                 \
    (blaslt_layout * out, int type, uint64_t rows, uint64_t columns,           \
     int64_t ld))                                                              \
  X(layout_set, cublasLtMatrixLayoutSetAttribute,                              \
    (blaslt_layout layout, int attribute, const void *value, size_t bytes))    \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (blaslt_layout layout))       \
  X(wish_create, cublasLtMatmulPreferenceCreate, (blaslt_wish * out))          \
  X(wish_destroy, cublasLtMatmulPreferenceDestroy, (blaslt_wish wish))         \
  X(wish_set, cublasLtMatmulPreferenceSetAttribute,                            \
    (blaslt_wish wish, int attribute, const void *value, size_t bytes))        \
  X(choose, cublasLtMatmulAlgoGetHeuristic,                                    \
    (blaslt_handle handle, blaslt_what what, blaslt_layout a, blaslt_layout b, \
     blaslt_layout c, blaslt_layout d, blaslt_wish wish, int most,             \
     blaslt_found *out, int *n))                                               \
  X(multiply, cublasLtMatmul,                                                  \
    (blaslt_handle handle, blaslt_what what, const void *alpha, const void *a, \
     blaslt_layout a_layout, const void *b, blaslt_layout b_layout,            \
     const void *beta, const void *c, blaslt_layout c_layout, void *d,         \
     blaslt_layout d_layout, const blaslt_algo *algo, void *workspace,         \
     size_t bytes, cuda_stream stream))

typedef struct cuda_blaslt {
  void *library;
  char name[64];                /* "cuBLASLt 12.4.5" */
  const char *(*say)(int code); /* cublasLtGetStatusString */
#define BLASLT_FIELD(field, symbol, arguments) int(*field) arguments;
  BLASLT_FUNCTIONS(BLASLT_FIELD)
#undef BLASLT_FIELD
} cuda_blaslt;

/* Opens the newest library that works with a driver of that version (12040 is
 * CUDA 12.4): 1, or 0 with a sentence in `why`. [load] */
int cuda_blaslt_open(cuda_blaslt *blaslt, int driver, char why[240]);

/* [load] */
void cuda_blaslt_close(cuda_blaslt *blaslt);

#endif /* CUDA_BLASLT_H_ */
