/* SPDX-License-Identifier: Apache-2.0
 * fourier.h: fast Fourier transforms of lines, on the CPU (fourier.c). Several
 * lines are transformed together: element k of line l is number
 * k * lanes + l of an array for the real and of one for the imaginary parts.
 */
#ifndef TENSOR_FOURIER_H_
#define TENSOR_FOURIER_H_

#include "tenon/plugin/op.h"

/* A length and its tables. Constant after its creation. */
typedef struct tensor_fourier {
  int64_t length;
  int64_t size; /* elements of a line in the arrays: at least `length` */
  tn_dtype dtype;
  int32_t n_factors;
  int32_t factor[64]; /* of size */
  void *cosine;       /* of 2 pi i / size, for each i */
  void *sine;
  /* A length with a large prime factor is a convolution (Bluestein): */
  int32_t is_chirp;
  void *chirp_cosine; /* of pi i^2 / length, for each i of length */
  void *chirp_sine;
  void *kernel_real; /* the transform of the chirp, for each i of size */
  void *kernel_imaginary;
} tensor_fourier;

/* The arrays of some lines, and others of the same size for the work. */
typedef struct tensor_fourier_lines {
  void *real;
  void *imaginary;
  void *other_real;
  void *other_imaginary;
  int64_t lanes;
  uint32_t level; /* of instructions (tn_kernel_level) */
} tensor_fourier_lines;

/* Creates a plan for f32 or f64. The caller destroys *out. [worker] */
int32_t tensor_fourier_create(const tn_frame *call, int64_t length,
                              tn_dtype dtype, tensor_fourier **out);
void tensor_fourier_destroy(tensor_fourier *plan);

/* Transforms elements [0, length) of each line with exp(-2 pi i k n / length);
 * the results are in `real` and `imaginary`, which may be exchanged with the
 * others. [worker] */
void tensor_fourier_run(const tensor_fourier *plan,
                        tensor_fourier_lines *lines);

#endif /* TENSOR_FOURIER_H_ */
