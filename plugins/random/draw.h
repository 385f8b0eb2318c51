/* SPDX-License-Identifier: Apache-2.0
 * draw.h: numbers that are made of random words: in draw.c on the CPU, in
 * draw.cu on CUDA devices. What operators ask for is decided in random.c, which
 * knows of no device.
 */
#ifndef RANDOM_DRAW_H_
#define RANDOM_DRAW_H_

#include "tenon/op.h"

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

/* What they are made with, beside words. */
typedef struct draw_params {
  double low, range, last; /* uniform: low + range*u, at most last */
  uint32_t shift;          /* u: word >> shift, times unit */
  double unit;
  double loc, scale; /* normal; exponential: scale */
  int64_t limit;     /* bernoulli: words below it are ones */
  int64_t least;     /* randint: least + i for i below n */
  uint64_t n;
} draw_params;

/* Sets all elements of out[0], which is dense. Element i is made of the words
 * of its own number: of f32 one, of f64 and of whole numbers two, of bernoulli
 * always one. Halves are made in f32. [worker] */
int32_t draw(const tn_frame *call, draw_kind kind, const draw_params *params);

#ifdef __cplusplus
}
#endif
#endif /* RANDOM_DRAW_H_ */
