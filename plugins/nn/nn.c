/* SPDX-License-Identifier: Apache-2.0
 * nn.c: the plugin as such: it takes matrix products from whoever provides
 * blas/1, and does without where nobody does.
 */
#include "nn.h"

#include <stdio.h>
#include <stdlib.h>

#include "plugin.gen.h"

int32_t nn_init(const tn_host *host, tn_registrar *registrar, void **instance) {
  nn_instance *nn = calloc(1, sizeof *nn);
  if (!nn) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  nn->blas = host->extension(host, TN_BLAS_EXTENSION);
  *instance = nn;
  if (nn->blas) return TN_OK;
  return registrar->withdraw(registrar, "nn.fully_connected.cpu",
                             "no plugin provides " TN_BLAS_EXTENSION
                             "; plugins/openblas does where there is OpenBLAS");
}

void nn_fini(void *instance) {
  free(instance);
}

int32_t nn_multiply(const tn_frame *call, const tn_blas_gemm *product) {
  const nn_instance *nn = call->instance;
  return nn->blas ? nn->blas->gemm(nn->blas, call, product)
                  : nn_product(call, product);
}

nn_shape_text nn_shape(const tn_tensor *tensor) {
  nn_shape_text s = {"of unknown rank"};
  size_t n = 0;
  if (tensor->ndim < 0) return s;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const char *mark = d == 0 ? "(" : ",";
    n += (size_t)(tensor->shape[d] < 0
                      ? snprintf(s.text + n, sizeof s.text - n, "%s?", mark)
                      : snprintf(s.text + n, sizeof s.text - n, "%s%lld", mark,
                                 (long long)tensor->shape[d]));
  }
  (void)snprintf(s.text + n, sizeof s.text - n, n > 0 ? ")" : "()");
  return s;
}
