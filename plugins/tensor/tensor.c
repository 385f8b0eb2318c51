/* SPDX-License-Identifier: Apache-2.0
 * tensor.c: init of the plugin: it uses the matrix products of a plugin that
 * provides blas/1, and its own if there is none.
 */
#include "tensor.h"

#include <stdlib.h>

#include "plugin.gen.h"

int32_t tensor_init(const tn_host *host, tn_registrar *registrar,
                    void **instance) {
  static const char *const kernels[] = {"tensor.dot.cpu",
                                        "tensor.batch_dot.cpu"};
  tensor_instance *tensor = calloc(1, sizeof *tensor);
  if (!tensor) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  tensor->blas = host->extension(host, TN_BLAS_EXTENSION);
  int32_t code = TN_OK;
  for (int i = 0; i < 2 && !tensor->blas && code == TN_OK; ++i)
    code =
        registrar->withdraw(registrar, kernels[i],
                            "no plugin provides " TN_BLAS_EXTENSION
                            "; plugins/openblas does where there is OpenBLAS");
  if (code == TN_OK)
    *instance = tensor;
  else
    free(tensor);
  return code;
}

void tensor_fini(void *instance) {
  free(instance);
}
