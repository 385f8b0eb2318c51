/* SPDX-License-Identifier: Apache-2.0
 * cusolver.c: init and fini of the plugin. Without a GPU or usable libraries it
 * withdraws all kernels, with the reason.
 */
#include "cusolver.h"

#include <stdlib.h>

#include "plugin.gen.h"

static int32_t withdraw_all(tn_registrar *registrar, const char *why) {
  const tn_plugin *self = &TN_PLUGIN_ENTRY(cusolver);
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < self->n_kernels && code == TN_OK; ++i)
    code = registrar->withdraw(registrar, self->kernels[i]->id, why);
  return code;
}

/* Opens the libraries, which are large, and offers their tasks. */
static int32_t open_libraries(const tn_host *host, tn_registrar *registrar,
                              cusolver_instance *self) {
  char why[240];
  if (!solver_open(&self->library, solver_names, why)) {
    host->log(host, TN_LOG_INFO,
              "%s; plugin linalg uses its own kernels on "
              "cuda",
              why);
    return withdraw_all(registrar, why);
  }
  if (cusolver_lapack_open(self) != TN_OK)
    return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  return registrar->provide(registrar, TN_DEVICE_LAPACK_CUDA, &self->lapack);
}

int32_t cusolver_init(const tn_host *host, tn_registrar *registrar,
                      void **instance) {
  const tn_device_scope *scope = host->extension(host, TN_DEVICE_SCOPE_CUDA);
  *instance = NULL;
  if (!scope)
    return withdraw_all(registrar, "no plugin provides " TN_DEVICE_SCOPE_CUDA
                                   "; plugins/cuda does where there is a GPU");
  cusolver_instance *self = calloc(1, sizeof *self);
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  self->scope = scope;
  const int32_t code = open_libraries(host, registrar, self);
  if (code == TN_OK)
    *instance = self;
  else
    cusolver_fini(self);
  return code;
}

void cusolver_fini(void *instance) {
  cusolver_instance *self = instance;
  if (!self) return;
  cusolver_lapack_close(self);
  solver_close(&self->library);
  free(self);
}
