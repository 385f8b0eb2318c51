/* SPDX-License-Identifier: Apache-2.0
 * optim_on_host.cc: plugins/optim/sgd_mom_update.cu for the fake device, with
 * what its argument says of memory.
 */
#include "../../plugins/optim/sgd_mom_update.cu"

static inline void fake_cuda_declare(fake_cuda_work *work,
                                     const optim_step_view &v) {
  const size_t bytes = (size_t)(v.n * tn_dtype_bytes(v.dtype));
  fake_cuda_uses(work, v.weight, bytes, 0);
  fake_cuda_uses(work, v.gradient, bytes, 0);
  fake_cuda_uses(work, v.mom, bytes, 1);
  fake_cuda_uses(work, v.out, bytes, 1);
  fake_cuda_uses(work, v.live, sizeof *v.live, 0);
}

static inline void fake_cuda_translate(optim_step_view &v) {
  v.weight = fake_cuda_reach(v.weight);
  v.gradient = fake_cuda_reach(v.gradient);
  v.mom = fake_cuda_reach(v.mom);
  v.out = fake_cuda_reach(v.out);
  if (v.live != NULL)
    v.live = (const optim_sgd_mom_update_params *)fake_cuda_reach(v.live);
}
