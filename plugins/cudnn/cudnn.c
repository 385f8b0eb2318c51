/* SPDX-License-Identifier: Apache-2.0
 * cudnn.c: init and fini of the plugin. Without a GPU or a usable cuDNN it
 * withdraws all kernels, with the reason.
 */
#include <stdlib.h>

#include "kit.h"
#include "plugin.gen.h"

/* Number of cached plans: a large network has a hundred, training included. */
enum { MOST_PLANS = 512 };

static int32_t withdraw_all(tn_registrar *registrar, const char *why) {
  const tn_plugin *self = &TN_PLUGIN_ENTRY(cudnn);
  int32_t code = TN_OK;
  for (uint32_t i = 0; i < self->n_kernels && code == TN_OK; ++i)
    code = registrar->withdraw(registrar, self->kernels[i]->id, why);
  return code;
}

static int32_t open_devices(tn_registrar *registrar, cudnn_instance *self) {
  if (cudnn_devices_open(self) != TN_OK)
    return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  cudnn_plans_open(&self->plans, MOST_PLANS);
  cudnn_choices_path(self->path, sizeof self->path);
  return TN_OK;
}

/* Opens cuDNN only if there is a GPU, because it is large. */
int32_t cudnn_init(const tn_host *host, tn_registrar *registrar,
                   void **instance) {
  const tn_device_scope *scope = host->extension(host, TN_DEVICE_SCOPE_CUDA);
  char why[240];
  *instance = NULL;
  if (!scope)
    return withdraw_all(registrar, "no plugin provides " TN_DEVICE_SCOPE_CUDA
                                   "; plugins/cuda does where there is a GPU");
  cudnn_instance *self = calloc(1, sizeof *self);
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  self->scope = scope;
  int32_t code = TN_OK;
  if (dnn_open(&self->library, dnn_names, why)) {
    code = open_devices(registrar, self);
    if (code == TN_OK) *instance = self;
  } else {
    code = withdraw_all(registrar, why);
  }
  if (!*instance) {
    dnn_close(&self->library);
    free(self);
  }
  return code;
}

void cudnn_fini(void *instance) {
  cudnn_instance *self = instance;
  if (!self) return;
  cudnn_plans_close(&self->plans, &self->maker);
  cudnn_devices_close(self);
  dnn_close(&self->library);
  free(self);
}
