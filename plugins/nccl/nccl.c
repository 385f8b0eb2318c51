/* SPDX-License-Identifier: Apache-2.0
 * nccl.c: init and fini of the plugin. Without a GPU, NCCL or plugins/comm it
 * withdraws all kernels, with the reason.
 */
#include "nccl_plugin.h"

#include <stdlib.h>

#include "plugin.gen.h"

static int32_t withdraw_all(tn_registrar *registrar, const char *why) {
  const tn_plugin *self = &TN_PLUGIN_ENTRY(nccl);
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < self->n_kernels && code == TN_OK; ++i)
    code = registrar->withdraw(registrar, self->kernels[i]->id, why);
  return code;
}

/* Opens NCCL, starts the thread, and offers the device to plugins/comm. */
static int32_t start_instance(const tn_host *host, tn_registrar *registrar,
                              nccl_instance *self) {
  char why[240];
  if (!nccl_library_open(&self->library, nccl_names, why)) {
    host->log(host, TN_LOG_INFO, "%s; operators of comm refuse arrays on cuda",
              why);
    return withdraw_all(registrar, why);
  }
  nccl_fill_device(self);
  if (nccl_calls_open(self) != TN_OK)
    return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no thread");
  const int32_t code = self->comm->add_device(self->comm->ctx, &self->device);
  self->is_offered = code == TN_OK;
  if (code == TN_OK) return TN_OK;
  return registrar->fail(registrar, code,
                         "plugin comm refuses the device: another plugin makes "
                         "its calls on cuda, or it has too many devices");
}

int32_t nccl_init(const tn_host *host, tn_registrar *registrar,
                  void **instance) {
  const tn_device_scope *scope = host->extension(host, TN_DEVICE_SCOPE_CUDA);
  const tn_comm *comm = host->extension(host, TN_COMM_EXTENSION);
  *instance = NULL;
  if (!scope)
    return withdraw_all(registrar, "no plugin provides " TN_DEVICE_SCOPE_CUDA
                                   "; plugins/cuda does where there is a GPU");
  if (!comm)
    return withdraw_all(registrar, "no plugin provides " TN_COMM_EXTENSION
                                   "; load plugins/comm before");
  nccl_instance *self = calloc(1, sizeof *self);
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  self->scope = scope;
  self->comm = comm;
  const int32_t code = start_instance(host, registrar, self);
  if (code == TN_OK)
    *instance = self;
  else
    nccl_fini(self);
  return code;
}

void nccl_fini(void *instance) {
  nccl_instance *self = instance;
  if (!self) return;
  if (self->is_offered && self->comm->remove_device)
    self->comm->remove_device(self->comm->ctx, &self->device);
  nccl_calls_close(self);
  nccl_library_close(&self->library);
  free(self);
}
