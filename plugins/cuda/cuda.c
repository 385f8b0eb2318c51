/* SPDX-License-Identifier: Apache-2.0
 * cuda.c: init and fini of the plugin. Without a driver or a GPU it still
 * provides its device table, with no devices and the reason.
 */
#include <stdio.h>
#include <stdlib.h>

#include "devices.h"
#include "plugin.gen.h"

static const tn_device functions = {
    .struct_size = sizeof functions,
    .device_type = TN_DEVICE_CUDA,
    .name = "cuda",
    .count = cuda_count,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .queue_open = cuda_queue_open,
    .queue_close = cuda_queue_close,
    .queue_stream = cuda_queue_stream,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .fence_open = cuda_fence_open,
    .fence_close = cuda_fence_close,
    .fence_record = cuda_fence_record,
    .queue_wait = cuda_queue_wait,
    .fence_query = cuda_fence_query,
    .fence_wait = cuda_fence_wait,
    .sum = cuda_queue_sum,
    .trim = cuda_trim,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_close = cuda_graph_close,
    .sum_dtypes = (TN_BIT_BOOL << 1) - 1, /* all */
    .sum_flags = TN_SUM_WIDE,
};

/* Fills in the reason that a machine without GPUs reports. */
static int32_t find_devices(cuda_instance *self) {
  if (!cuda_driver_open(&self->driver, cuda_driver_names, self->why))
    return TN_OK;
  return cuda_devices_open(self);
}

/* Offers products only if there is a device: opening cuBLASLt uses hundreds of
 * megabytes of address space. */
static int32_t offer_products(const tn_host *host, tn_registrar *registrar,
                              cuda_instance *self) {
  char why[240];
  if (self->n_devices == 0) return TN_OK;
  if (cuda_products_open(self, why))
    return registrar->provide(registrar, TN_DEVICE_BLAS_CUDA, &self->products);
  host->log(host, TN_LOG_INFO, "%s; there are no matrix products on cuda", why);
  return TN_OK;
}

/* Offers the devices to other plugins, if there are any. */
static int32_t offer_scope(tn_registrar *registrar, cuda_instance *self) {
  if (self->n_devices == 0) return TN_OK;
  cuda_scope_fill(self);
  return registrar->provide(registrar, TN_DEVICE_SCOPE_CUDA, &self->scope);
}

int32_t cuda_init(const tn_host *host, tn_registrar *registrar, void **out) {
  cuda_instance *self = calloc(1, sizeof *self);
  *out = self;
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  self->table = functions;
  self->table.ctx = self;
  if (!cuda_sum) self->table.sum = NULL;
  int32_t code = find_devices(self);
  if (code != TN_OK)
    code = registrar->fail(registrar, code, "no memory for the devices");
  if (code == TN_OK) code = offer_products(host, registrar, self);
  if (code == TN_OK) code = offer_scope(registrar, self);
  if (code == TN_OK)
    code = registrar->provide(registrar, TN_DEVICE_EXTENSION, &self->table);
  if (code != TN_OK) cuda_fini(self);
  return code;
}

void cuda_fini(void *instance) {
  cuda_instance *self = instance;
  cuda_products_close(self);
  cuda_devices_close(self);
  cuda_driver_close(&self->driver);
  free(self);
}
