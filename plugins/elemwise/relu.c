/* SPDX-License-Identifier: Apache-2.0
 * relu.c: the hand-written kernel of relu.yaml for half types. It works on
 * their bits; the generated kernel converts to f32 and back. Both give the same
 * values.
 */
#include "relu.gen.h"
#include "tenon/kernel/kernel.h"

/* One line of elements: at[0] is the output, at[1] the input. The loops are
 * compiled for steps of 1 as well, and vectorised. */
typedef void relu_line(const tn_kernel_run *run);

/* Negative numbers become 0; NaN and -0 stay. A half is negative if its bits
 * are above those of -0 and not above those of minus infinity. */
static void relu_half(const tn_kernel_run *run, uint16_t minus_infinity) {
  const uint16_t *x = (const void *)run->at[1];
  uint16_t *y = (void *)run->at[0];
  const int64_t x_step = run->stride[1];
  const int64_t y_step = run->stride[0];
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < run->n; ++i) {
    const uint16_t bits = x[i * x_step];
    const int negative = bits > 0x8000u && bits <= minus_infinity;
    y[i * y_step] = negative ? 0 : bits;
  }
}

static void relu_f16(const tn_kernel_run *run) {
  relu_half(run, 0xfc00u);
}

static void relu_bf16(const tn_kernel_run *run) {
  relu_half(run, 0xff80u);
}

static relu_line *line_for(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      return relu_f16;
    case TN_BF16:
      return relu_bf16;
    default:
      return NULL;
  }
}

typedef struct relu_loop {
  tn_kernel_walk walk;
  relu_line *line;
} relu_loop;

static int32_t relu_slice(void *arg, int64_t begin, int64_t end) {
  const relu_loop *loop = arg;
  tn_kernel_run run;
  for (int64_t i = begin; i < end; i += run.n) {
    tn_kernel_walk_run(&loop->walk, i, end, &run);
    loop->line(&run);
  }
  return TN_OK;
}

int32_t elemwise_relu_cpu(const tn_frame *call) {
  relu_loop loop = {.line = line_for(call->out[0].dtype)};
  if (loop.line == NULL)
    return TN_FAIL(call, TN_DTYPE, "relu takes f16 and bf16 here");
  tn_kernel_walk_init(&loop.walk, &call->out[0]);
  if (!tn_kernel_walk_add(&loop.walk, &call->in[0]))
    return TN_FAIL(call, TN_SHAPE, "input and output differ in shape");
  if (loop.walk.size == 0) return TN_OK;
  tn_kernel_walk_begin(&loop.walk);
  return call->host->parallel_for(call, loop.walk.size, TN_KERNEL_GRAIN,
                                  relu_slice, &loop);
}
