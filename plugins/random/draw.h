/* SPDX-License-Identifier: Apache-2.0
 * draw.h: turns random words into numbers: draw.c on the CPU, draw.cu on CUDA
 * devices. random.c computes the parameters of each operator and is independent
 * of the device.
 */
#ifndef RANDOM_DRAW_H_
#define RANDOM_DRAW_H_

#include "tenon/plugin/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum draw_kind {
  DRAW_UNIFORM,
  DRAW_NORMAL,
  DRAW_EXPONENTIAL,
  DRAW_BERNOULLI,
  DRAW_RANDINT
} draw_kind;

/* Parameters of a distribution. */
typedef struct draw_params {
  double low, range, last; /* uniform: low + range*u, at most last */
  uint32_t shift;          /* u: word >> shift, times unit */
  double unit;
  double loc, scale; /* normal; exponential: scale */
  int64_t limit;     /* bernoulli: words below it are ones */
  int64_t least;     /* randint: least + i for i below n */
  uint64_t n;
} draw_params;

/* Sets all elements of out[0], which is dense. Element i uses the words of its
 * own index: one for f32, two for f64 and integers, always one for bernoulli.
 * Halves are computed in f32. [worker] */
int32_t draw(const tn_frame *call, draw_kind kind, const draw_params *params);

#ifdef __cplusplus
}
#endif
#endif /* RANDOM_DRAW_H_ */
