/* SPDX-License-Identifier: Apache-2.0
 * nn.c: the plugin as such: it takes matrix products from whoever provides
 * blas/1, and does without where nobody does.
 */
#include "nn.h"

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
