/* SPDX-License-Identifier: Apache-2.0
 * root.c: a kernel with a loop that is compiled for three levels of x86. It
 * checks its input first.
 */
#include "root.gen.h"
#include "tenon/kernel/kernel.h"

TN_KERNEL_BODY void root(const tn_kernel_block *block, const void *params) {
  const float scale = (float)((const lab_root_params *)params)->scale;
  const float *x = (const float *)block->in[0];
  float *y = (float *)block->out;
  TN_KERNEL_INDEPENDENT
  for (int64_t i = 0; i < block->n; ++i) y[i] = scale * sqrtf(x[i]);
}
TN_KERNEL_LEVELS(root)

/* One output, 0, computed from one input, 0; nothing in f64. */
static const tn_kernel_map map = {
    .f32 = TN_KERNEL_BODIES(root), .n_in = 1, .in = {0}};

/* Fails if one of the elements [begin, end) is negative. */
static int32_t look(void *arg, int64_t begin, int64_t end) {
  const tn_kernel_walk *walk = arg;
  tn_kernel_run run;
  for (int64_t i = begin; i < end; i += run.n) {
    tn_kernel_walk_run(walk, i, end, &run);
    const float *x = (const void *)run.at[0];
    for (int64_t k = 0; k < run.n; ++k)
      if (x[k * run.stride[0]] < 0) return TN_OUT_OF_RANGE;
  }
  return TN_OK;
}

int32_t lab_root(const tn_frame *call) {
  tn_kernel_walk walk;
  tn_kernel_walk_init(&walk, &call->in[0]);
  tn_kernel_walk_begin(&walk);
  const int32_t code =
      call->host->parallel_for(call, walk.size, TN_KERNEL_GRAIN, look, &walk);
  if (code != TN_OK)
    return TN_FAIL(call, code, "an element of `data` is negative");
  return tn_kernel_map_run(call, &map, 1);
}
