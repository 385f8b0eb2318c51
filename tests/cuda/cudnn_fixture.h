/* SPDX-License-Identifier: Apache-2.0
 * cudnn_fixture.h: a runtime with plugins/nn and plugins/cudnn, on the
 * simulated driver and cuDNN, or on a GPU (ON_GPU).
 */
#ifndef TENON_TESTS_CUDA_CUDNN_FIXTURE_H_
#define TENON_TESTS_CUDA_CUDNN_FIXTURE_H_

#include "../must.h"
#include "fake_cudnn.h"
#include "fixture.h"

static inline void open_cudnn(int devices, uint64_t seed) {
  fixture_open(&(fake_cuda_options){.devices = devices, .seed = seed});
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, CUDNN_FILE));
}

/* For the end of a test: broken rules and objects that were not freed end the
 * process. */
static inline void close_cudnn(void) {
  fixture_close();
#ifndef ON_GPU
  const char *left = fake_cudnn_end();
  if (!fixture_is_broken) must_be_silent(left);
#endif
}

#endif /* TENON_TESTS_CUDA_CUDNN_FIXTURE_H_ */
