/* SPDX-License-Identifier: Apache-2.0
 * sum_on_host.cc: plugins/cuda/sum.cu for the fake device, with what its
 * argument says of memory.
 */
#include "../../plugins/cuda/sum.cu"

/* From the lowest to the highest element of either side. */
static inline void fake_cuda_declare(fake_cuda_work *work, const sum_view &v) {
  int64_t low[2] = {0, 0}, high[2] = {0, 0};
  for (int d = 0; d < v.n_kept + v.n_summed; ++d) {
    const int64_t reach[2] = {(v.axis[d].n - 1) * v.axis[d].to,
                              (v.axis[d].n - 1) * v.axis[d].from};
    for (int side = 0; side < 2; ++side)
      (reach[side] < 0 ? low : high)[side] += reach[side];
  }
  fake_cuda_uses(work, (const char *)v.to + low[0] * v.width,
                 (size_t)((high[0] - low[0] + 1) * v.width), 1);
  if (v.from != NULL)
    fake_cuda_uses(work, (const char *)v.from + low[1] * v.width,
                   (size_t)((high[1] - low[1] + 1) * v.width), 0);
}

static inline void fake_cuda_translate(sum_view &v) {
  v.to = fake_cuda_reach(v.to);
  if (v.from != NULL) v.from = fake_cuda_reach(v.from);
}
