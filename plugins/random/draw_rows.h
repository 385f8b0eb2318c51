/* SPDX-License-Identifier: Apache-2.0
 * draw_rows.h: draws of distributions that need an unknown number of words, and
 * of one distribution for each row: draw_rows.c on the CPU, draw_rows.cu on
 * CUDA devices. counts.c has the operators.
 */
#ifndef RANDOM_DRAW_ROWS_H_
#define RANDOM_DRAW_ROWS_H_

#include <float.h>

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The distributions, and their two parameters a and b. */
typedef enum draw_row_kind {
  DRAW_ROW_UNIFORM,     /* low, high */
  DRAW_ROW_NORMAL,      /* mu, sigma */
  DRAW_ROW_GAMMA,       /* alpha, beta */
  DRAW_ROW_EXPONENTIAL, /* lam */
  DRAW_ROW_POISSON,     /* lam */
  DRAW_ROW_NEGATIVE,    /* k, p */
  DRAW_ROW_GENERALIZED  /* mu, alpha */
} draw_row_kind;

#define DRAW_MOST DBL_MAX           /* of any parameter */
#define DRAW_MOST_MEAN 2147483647.0 /* of counts */

/* Parameters of all rows: two numbers, or an element of in[0], and of in[1] if
 * there are two inputs, for each row. */
typedef struct draw_rows_params {
  draw_row_kind kind;
  int32_t of_inputs;
  double a, b;
  int64_t columns; /* elements of a row */
} draw_rows_params;

/* Sets all elements of out[0], which is dense. Element i uses the blocks of the
 * counter i alone. On the CPU, TN_OUT_OF_RANGE if a row has no distribution;
 * otherwise the row becomes NaN. [worker] */
int32_t draw_rows(const tn_frame *call, const draw_rows_params *params);

#ifdef __cplusplus
}
#endif
#endif /* RANDOM_DRAW_ROWS_H_ */
