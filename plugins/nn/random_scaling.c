/* SPDX-License-Identifier: Apache-2.0
 * random_scaling.c: element-wise products with random factors
 * (random_scaling.h). The elements of a call are cut into parts. A part draws
 * its words, and the loop does the rest. Operands of another type than the
 * computation get rounded factors before the product, so that forward and
 * backward scale equally.
 */
#include "random_scaling.h"

#include "tenon/kernel/philox.h"

enum {
  PART = 1024
}; /* elements, a multiple of the numbers of one call of
    * philox.h */

typedef struct scaling_work {
  const nn_random_scaling *masked;
  tn_kernel_mode mode;
} scaling_work;

/* Returns the address of element `at` of an operand. */
static char *locate_part(const tn_tensor *tensor, int64_t at) {
  return (char *)tensor->data + at * tn_dtype_bytes(tensor->dtype);
}

/* Tests whether output number `out` is requested. */
static int is_requested(const tn_frame *call, uint32_t out) {
  return out < call->n_out && call->req[out] != TN_REQ_NULL;
}

/* Defines a loop that multiplies both inputs. */
#define TIMES(name, type)                                                      \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *params) { \
    const type *x = block->in[0], *factor = block->in[1];                      \
    type *y = block->out;                                                      \
    (void)params;                                                              \
    TN_KERNEL_INDEPENDENT                                                      \
    for (int64_t i = 0; i < block->n; ++i) y[i] = x[i] * factor[i];            \
  }                                                                            \
  TN_KERNEL_LEVELS(name)

TIMES(multiply_elements_f32, float)
TIMES(multiply_elements_f64, double)

/* Scales n elements from `at` on, if operands have the type of the computation.
 * `word` has their random words. Outputs that are not requested use scratch
 * memory. */
static void scale_part(const scaling_work *w, int64_t at, int64_t n,
                       const uint32_t *word) {
  TN_KERNEL_LINED char scratch[2][PART * sizeof(double)];
  const tn_frame *call = w->masked->call;
  tn_kernel_block block = {
      .n = n,
      .out = scratch[0],
      .in = {word, locate_part(&call->in[0], at), scratch[1]}};
  if (is_requested(call, 0)) block.out = locate_part(&call->out[0], at);
  if (is_requested(call, 1)) block.in[2] = locate_part(&call->out[1], at);
  nn_run_loop(&w->mode, w->masked->loops, &block, w->masked->params);
}

/* Scales n elements from `at` on, if operands have another type than the
 * computation: they are converted first. `word` has their random words. */
static void scale_converted_part(const scaling_work *w, int64_t at, int64_t n,
                                 const uint32_t *word) {
  static const nn_loops times = NN_LOOPS(multiply_elements);
  TN_KERNEL_LINED char x[PART * sizeof(double)], y[PART * sizeof(double)];
  TN_KERNEL_LINED char factor[PART * sizeof(double)];
  TN_KERNEL_LINED char narrow[PART * sizeof(double)];
  const tn_frame *call = w->masked->call;
  const tn_tensor *in = &call->in[0];
  void *mask = is_requested(call, 1) ? locate_part(&call->out[1], at) : narrow;
  const tn_kernel_block drawn = {.n = n, .out = y, .in = {word, x, factor}};
  const tn_kernel_block all = {.n = n, .out = y, .in = {x, factor}};
  tn_kernel_load_dense(x, &w->mode, locate_part(in, at), in->dtype, n);
  nn_run_loop(&w->mode, w->masked->loops, &drawn, w->masked->params);
  tn_kernel_store_dense(mask, in->dtype, factor, &w->mode, n);
  if (!is_requested(call, 0)) return;
  tn_kernel_load_dense(factor, &w->mode, mask, in->dtype, n);
  nn_run_loop(&w->mode, &times, &all, NULL);
  tn_kernel_store_dense(locate_part(&call->out[0], at), in->dtype, y, &w->mode,
                        n);
}

/* Scales the parts [begin, end) of a call; each draws its own random words. */
static int32_t run_slice(void *arg, int64_t begin, int64_t end) {
  const scaling_work *w = arg;
  const nn_random_scaling *m = w->masked;
  const int64_t size = tn_tensor_size(&m->call->in[0]);
  TN_KERNEL_LINED uint32_t word[PART];
  if (!m->draws) memset(word, 0, sizeof word);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at = p * PART;
    const int64_t n = size - at < PART ? size - at : PART;
    if (m->draws)
      tn_philox_words(word, m->call->run->random[0], (uint64_t)at / 4,
                      (n + 3) / 4, w->mode.level);
    if (m->call->in[0].dtype == w->mode.compute)
      scale_part(w, at, n, word);
    else
      scale_converted_part(w, at, n, word);
  }
  return TN_OK;
}

int32_t nn_random_scaling_run(const nn_random_scaling *masked) {
  const tn_frame *call = masked->call;
  const int64_t size = tn_tensor_size(&call->in[0]);
  scaling_work w = {
      masked, {tn_kernel_compute(call->in[0].dtype), tn_kernel_level(call)}};
  return nn_run_parallel(call, (size + PART - 1) / PART, 2 * PART, run_slice,
                         &w);
}
