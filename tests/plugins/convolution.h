/* SPDX-License-Identifier: Apache-2.0
 * convolution.h: kernels of nn.convolution, a runtime with its plugin, and a
 * check of a case in all types, for the tests of nn.convolution.
 */
#ifndef TENON_TESTS_PLUGINS_CONVOLUTION_H_
#define TENON_TESTS_PLUGINS_CONVOLUTION_H_

#include "windows.h"

/* nn.convolution.cpu and so on, in the order of the manifest. */
static const char *const kernels[] = {
    "nn.convolution.cpu", "nn.convolution.cpu.2", "nn.convolution.cpu.3",
    "nn.convolution.cpu.6"};
static const char *const winograd = "nn.convolution.cpu.5";

/* With the plugin, and with OpenBLAS if `blas`; the caller releases it. */
static inline tn_runtime *open_runtime(uint64_t mask, uint32_t workers,
                                       bool blas) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .cpu_mask = mask,
                                     .workers = workers},
                       &rt));
  if (blas) OK(tn_plugin_load(rt, OPENBLAS_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

/* Halves are rounded once, and sums of the cases are below 64. */
static inline void check_types(tn_runtime *rt, const windows_case *c) {
  windows_check(rt, c, TN_F64, 1e-13);
  windows_check(rt, c, TN_F32, 1e-6);
  windows_check(rt, c, TN_F16, 0x1p-10);
  windows_check(rt, c, TN_BF16, 0x1p-7);
}

#endif /* TENON_TESTS_PLUGINS_CONVOLUTION_H_ */
