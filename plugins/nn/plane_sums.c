/* SPDX-License-Identifier: Apache-2.0
 * plane_sums.c: sums of planes (plane_sums.h). Partial sums have the type of
 * the elements, their sum is f64.
 */
#include "plane_sums.h"

#include "axis.h"

enum { LANES = 16 }; /* number of partial sums of a line */

#define SUM_LINE(name, type)                                              \
  TN_KERNEL_BODY void name(const tn_kernel_block *block, const void *p) { \
    const type *x = block->in[0];                                         \
    type part[LANES] = {0};                                               \
    int64_t i = 0;                                                        \
    (void)p;                                                              \
    for (; i + LANES <= block->n; i += LANES)                             \
      for (int l = 0; l < LANES; ++l) part[l] += x[i + l];                \
    for (int l = 0; i < block->n; ++i, ++l) part[l] += x[i];              \
    double sum = 0;                                                       \
    for (int l = 0; l < LANES; ++l) sum += (double)part[l];               \
    *(double *)block->out += sum;                                         \
  }                                                                       \
  TN_KERNEL_LEVELS(name)
SUM_LINE(sum_f32, float)
SUM_LINE(sum_f64, double)

/* Computes the sums of planes [begin, end). */
static int32_t sum_slice(void *arg, int64_t begin, int64_t end) {
  static const tn_kernel_bodies singles = TN_KERNEL_BODIES(sum_f32);
  static const tn_kernel_bodies doubles = TN_KERNEL_BODIES(sum_f64);
  const nn_plane_sums *s = arg;
  const int64_t bytes = tn_dtype_bytes(s->mode.compute);
  const int is_single = s->mode.compute == TN_F32;
  tn_kernel_body *body =
      tn_kernel_body_at(is_single ? &singles : &doubles, s->mode.level);
  for (int64_t k = begin; k < end; ++k) {
    float *single = (float *)(void *)s->to + k;
    double *twice = (double *)(void *)s->to + k;
    double sum = 0;
    for (int64_t i = 0; i < s->images; ++i)
      body(&(tn_kernel_block){.n = s->size,
                              .out = (void *)&sum,
                              .in = {s->from +
                                     (i * s->planes + k) * s->size * bytes}},
           NULL);
    if (is_single)
      *single = (float)(sum + (s->add ? (double)*single : 0));
    else
      *twice = sum + (s->add ? *twice : 0);
  }
  return TN_OK;
}

int32_t nn_sum_planes(const nn_plane_sums *sums) {
  nn_plane_sums s = *sums;
  return nn_run_parallel(s.call, s.planes, s.images * s.size, sum_slice, &s);
}
