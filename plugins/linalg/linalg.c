/* SPDX-License-Identifier: Apache-2.0
 * linalg.c: init of the plugin: it uses the products and factorisations of a
 * plugin that provides blas/1 and lapack/1. Without them it uses loops.h and
 * tenon/kernel/product.h, and withdraws the kernels that need more.
 */
#include "linalg.h"

#include <stdlib.h>

#include "plugin.gen.h"

/* Removes the kernels that need factorisations of another plugin. */
static int32_t withdraw_lapack(tn_registrar *registrar) {
  static const char *const kernels[] = {"linalg.gelqf.cpu", "linalg.qr.cpu",
                                        "linalg.syevd.cpu", "linalg.svd.cpu"};
  int32_t code = TN_OK;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && code == TN_OK; ++i)
    code = registrar->withdraw(
        registrar, kernels[i],
        "no plugin provides " TN_LAPACK_EXTENSION
        "; plugins/openblas does where there is OpenBLAS with LAPACK");
  return code;
}

int32_t linalg_init(const tn_host *host, tn_registrar *registrar,
                    void **instance) {
  linalg_instance *linalg = calloc(1, sizeof *linalg);
  if (!linalg) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  linalg->blas = host->extension(host, TN_BLAS_EXTENSION);
  linalg->lapack = host->extension(host, TN_LAPACK_EXTENSION);
  const int32_t code = linalg->lapack ? TN_OK : withdraw_lapack(registrar);
  if (code == TN_OK)
    *instance = linalg;
  else
    free(linalg);
  return code;
}

void linalg_fini(void *instance) {
  free(instance);
}
