/* SPDX-License-Identifier: Apache-2.0
 * conv.h: the description of a convolution that all algorithms use, and the
 * list of these algorithms. The operator's kernels, in convolution.c, differ
 * only in the algorithm.
 */
#ifndef NN_CONV_H_
#define NN_CONV_H_

#include "nn.h"
#include "tenon/kernel/checked_size.h"
#include "tenon/kernel/kernel.h"
#include "window.h"

/* NN_CONV_UNROLL precedes a loop over sums in registers, and unrolls it
 * completely. NN_CONV_FOUR precedes a loop with few such sums, and unrolls it
 * four times to save counting. */
#if defined(__clang__)
#define NN_CONV_UNROLL _Pragma("clang loop unroll(full)")
#define NN_CONV_FOUR _Pragma("clang loop unroll_count(4)")
#else
#define NN_CONV_UNROLL _Pragma("GCC unroll 16")
#define NN_CONV_FOUR _Pragma("GCC unroll 4")
#endif

/* A call in f32 or f64. Images, filters and channels are dense:
 *
 *   data    (images, groups, channels, in)
 *   weight  (groups, filters, channels, kernel)
 *   out     (images, groups, filters, out) */
typedef struct nn_conv {
  const tn_frame *call;
  tn_dtype dtype;
  uint32_t level; /* level of vector instructions */
  int64_t bytes;  /* bytes of an element */
  nn_window window;
  int64_t images;
  int64_t groups;
  int64_t channels; /* number in one group */
  int64_t filters;  /* number in one group */
  int64_t taps;     /* elements of a window */
  int64_t in_size;  /* elements of an image of one channel */
  int64_t out_size;
  /* Runs on each final element of out of a forward pass: a loop with in[0]
   * equal to its out. NULL: nothing. */
  tn_kernel_body *after;
  char *memory; /* workspace of the algorithm, aligned to 64 bytes */
} nn_conv;

/* Whether padding is so large that copying it, or looping over it, costs far
 * more than the computation. [any] */
static inline int nn_conv_is_mostly_padding(const nn_conv *c) {
  enum { LARGE = 1 << 20, TIMES = 8 };
  const nn_window *w = &c->window;
  int64_t n = 1;
  for (int d = 0; d < NN_WINDOW_RANK && n >= 0; ++d)
    n = tn_size_times(n, w->in[d] + 2 * w->pad[d]);
  return n < 0 || (n > LARGE && n / TIMES > c->in_size);
}

/* n rounded up to a multiple of `step`. [any] */
static inline int64_t nn_round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

/* Divides n into parts of at most `most` that are about equal, and returns the
 * length of a part. */
static inline int64_t nn_divide_evenly(int64_t n, int64_t most) {
  const int64_t parts = (n + most - 1) / most;
  return (n + parts - 1) / parts;
}

/* Selects the table of loops for `level` in a file that defines one for each
 * level. */
#if defined(TN_KERNEL_AVX2)
#define NN_CONV_LOOPS(level) \
  ((const loops *const[]){&loops_base, &loops_avx2, &loops_avx512}[level])
#else
#define NN_CONV_LOOPS(level) ((void)(level), &loops_base)
#endif

/* Runs `after` on n dense elements of out. [worker] */
static inline void nn_conv_run_after(const nn_conv *conv, void *out,
                                     int64_t n) {
  if (conv->after)
    conv->after(&(tn_kernel_block){.n = n, .out = out, .in = {out}}, NULL);
}

/* Writes the bias of each filter of a group to n elements of its row in out, or
 * adds it. [worker] */
void nn_conv_write_bias(const nn_conv *conv, const char *bias, char *out,
                        int64_t n, int add);

/* The four arrays of a convolution. In a backward pass they are gradients where
 * the pass computes or reads them. */
typedef struct nn_conv_arrays {
  char *data;
  char *weight;
  char *bias; /* NULL: no bias */
  char *out;
} nn_conv_arrays;

enum {
  NN_CONV_FORWARD, /* out from the others */
  NN_CONV_DATA,    /* data from weight and out */
  NN_CONV_WEIGHT,  /* weight from data and out */
  NN_CONV_PASSES
};

/* Computes the array that the pass is named after, or adds to it if `add`. No
 * dimension is 0. TN_OK, or a code after TN_FAIL. [worker] */
typedef int32_t nn_conv_pass(const nn_conv *conv, const nn_conv_arrays *arrays,
                             int add);

/* The gradient of a weight as several independent sums, each over an equal part
 * of the images. The first sum is in the gradient itself, the others are in
 * conv->room. The shapes alone decide their number. */
typedef struct nn_conv_sums {
  const nn_conv *conv;
  int64_t parts;
} nn_conv_sums;

nn_conv_sums nn_conv_plan_sums(const nn_conv *conv);
/* Bytes of workspace for the sums, a multiple of 64. [any] */
uint64_t nn_conv_count_sum_bytes(const nn_conv_sums *sums);
char *nn_conv_locate_sum(const nn_conv_sums *sums, char *weight, int64_t part);
/* Adds all other sums to the first one. TN_OK, or a code after TN_FAIL.
 * [worker] */
int32_t nn_conv_add_sums(const nn_conv_sums *sums, char *weight);

typedef struct nn_conv_algorithm {
  /* Bytes of workspace for a pass. [any] */
  uint64_t (*count_bytes)(const nn_conv *conv, int pass);
  nn_conv_pass *passes[NN_CONV_PASSES];
} nn_conv_algorithm;

extern const nn_conv_algorithm nn_conv_tiles;     /* f32; any convolution */
extern const nn_conv_algorithm nn_conv_panels;    /* any convolution */
extern const nn_conv_algorithm nn_conv_pointwise; /* windows of one element,
                                               side by side, no padding */
extern const nn_conv_algorithm nn_conv_depthwise; /* one channel in a group; at
                                               most two dimensions */
extern const nn_conv_algorithm
    nn_conv_winograd;                          /* f32; windows of 3 x 3 elements
                                            side by side, padding up to 2 */
extern const nn_conv_algorithm nn_conv_direct; /* f32; windows side by side, of
                                            at most 128 elements in at most two
                                            dimensions */

/* Returns the first algorithm that accepts a convolution. [any] */
const nn_conv_algorithm *nn_conv_choose_algorithm(const nn_conv *conv);

/* Runs a forward call of nn.convolution, or of an operator with the same
 * frames, with one of the algorithms; NULL: the first that accepts it. `after`
 * runs on each element in the type of the computation. [worker] */
int32_t nn_conv_run_forward(const tn_frame *call,
                            const nn_conv_algorithm *algorithm,
                            tn_kernel_body *after);

#endif /* NN_CONV_H_ */
