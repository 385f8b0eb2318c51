/* SPDX-License-Identifier: Apache-2.0
 * cublaslt.c: init of the plugin. Without a plugin that provides products it
 * withdraws all kernels, with the reason.
 */
#include "plugin.gen.h"
#include "tenon/plugin/device_blas.h"

int32_t cublaslt_init(const tn_host *host, tn_registrar *registrar,
                      void **instance) {
  const tn_plugin *self = &TN_PLUGIN_ENTRY(cublaslt);
  const tn_device_blas *blas = host->extension(host, TN_DEVICE_BLAS_CUDA);
  int32_t code = TN_OK;
  *instance = (void *)(uintptr_t)blas;
  for (uint32_t i = 0; !blas && i < self->n_kernels && code == TN_OK; ++i)
    code = registrar->withdraw(registrar, self->kernels[i]->id,
                               "no plugin provides " TN_DEVICE_BLAS_CUDA
                               "; plugins/cuda does where there are a GPU "
                               "and cuBLASLt");
  return code;
}
