/* SPDX-License-Identifier: Apache-2.0
 * device_scope.h: access to the devices of another plugin for plugins in plain
 * C, to call a vendor's library on them. Standalone: device.h only.
 *
 * There is one such table for each type of device; that of CUDA devices is
 * "device.cuda/1", which plugins/cuda provides on machines with a GPU. Call a
 * library with a current device per thread between enter and leave:
 *
 *   int32_t acme_compute(const tn_frame *call) {
 *     const acme *self = call->instance;
 *     const int32_t id = call->run->device_id;
 *     tn_device_error error = {.struct_size = sizeof error};
 *     int32_t code = self->scope->enter(self->scope, id, &error);
 *     if (code != TN_OK) return TN_FAIL(call, code, "%s", error.text);
 *     ... enqueue on call->run->stream ...
 *     self->scope->leave(self->scope, id);
 *     return code;
 *   }
 *
 * Kernels that enqueue and return declare TN_KERNEL_ASYNC.
 */
#ifndef TENON_PLUGIN_DEVICE_SCOPE_H_
#define TENON_PLUGIN_DEVICE_SCOPE_H_

#include "tenon/plugin/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_SCOPE_CUDA "device.cuda/1"

/* Work to be timed: enqueues on a stream. TN_OK or a code. */
typedef int32_t tn_device_work(void *arg, void *stream);

/* Constant from the provider's init to its fini. `error` is as in device.h. */
typedef struct tn_device_scope {
  uint32_t struct_size;
  int32_t device_type;
  int32_t n_devices; /* ids are below it */
  uint32_t reserved;
  void *data; /* the provider's own */

  /* Makes device `id` current for this thread, and opens it at its first use.
   * May be nested; each success is followed by one leave on the same thread.
   * TN_DEVICE if the device is lost. [any] */
  int32_t (*enter)(const struct tn_device_scope *scope, int32_t id,
                   tn_device_error *error);

  /* Restores the device that was current before enter. [any] */
  void (*leave)(const struct tn_device_scope *scope, int32_t id);

  /* Checks whether a device that was entered still works, after a library
   * failed on it without a reason: TN_OK, or TN_DEVICE with the reason. Does
   * not wait for kernels. [any] */
  int32_t (*check)(const struct tn_device_scope *scope, int32_t id,
                   tn_device_error *error);

  /* Enqueues a sum of device.h on the stream of a call, on its device; the
   * caller need not have entered it. TN_OK, or a code after TN_FAIL. NULL if
   * the provider has no sums. [worker] */
  int32_t (*sum)(const struct tn_device_scope *scope, const tn_frame *call,
                 const tn_device_sum *sum);

  /* The next functions serve to measure several algorithms on the device; the
   * caller has entered it. */

  /* Describes the device; `name` is its name. [any] */
  int32_t (*info)(const struct tn_device_scope *scope, int32_t id,
                  tn_device_info *out, tn_device_error *error);

  /* Allocates device memory, with undefined content (device.h). May block.
   * [any] */
  int32_t (*alloc)(const struct tn_device_scope *scope, int32_t id,
                   uint64_t bytes, void **out, tn_device_error *error);
  void (*free)(const struct tn_device_scope *scope, int32_t id, void *memory);

  /* Measures the time of the work in *ns, with its launch: runs it several
   * times on a separate stream and keeps the fastest. A failure ends it.
   * Blocks. [any] */
  int32_t (*time)(const struct tn_device_scope *scope, int32_t id,
                  tn_device_work *work, void *arg, uint64_t *ns,
                  tn_device_error *error);
} tn_device_scope;

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_DEVICE_SCOPE_H_ */
