/* SPDX-License-Identifier: Apache-2.0
 * fourier.h: fast Fourier transforms of lines, on the CPU (fourier.c). Several
 * lines are transformed together: element k of line l is number
 * k * lanes + l of an array for the real and of one for the imaginary parts.
 * A long line is transformed alone, as a matrix of rows: first its columns,
 * several of them together, and then its rows.
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
  void *cosine;       /* of -2 pi i / size, for each i */
  void *sine;
  /* A long line: the plans of its columns and of its rows; otherwise NULL. */
  struct tensor_fourier *columns;
  struct tensor_fourier *rows;
  void *turn_cosine; /* of the roots between the two, as a matrix */
  void *turn_sine;
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
  void *room;     /* of tensor_fourier_room bytes */
  /* If a line is transformed alone, it may be read from pairs of real and
   * imaginary parts instead, the latter times `sign`, and written to pairs,
   * times the factors; otherwise NULL. */
  const void *from_pairs;
  void *to_pairs;
  double sign;
  double factor[2];
} tensor_fourier_lines;

/* Lines that are transformed together, at most. [any] */
int64_t tensor_fourier_lanes(const tensor_fourier *plan);

/* Elements of an array of tensor_fourier_lines for one line. [any] */
int64_t tensor_fourier_elements(const tensor_fourier *plan);

/* Whether a line may be read from pairs, and written to them. [any] */
int tensor_fourier_takes_pairs(const tensor_fourier *plan);

/* Bytes of tensor_fourier_lines.room. [any] */
int64_t tensor_fourier_room(const tensor_fourier *plan);

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
