/* SPDX-License-Identifier: Apache-2.0
 * elements.c: copies, sums, zeros and ones on the device of the tensors. The
 * host has code for each of them (strided_copy.c, strided_add.c,
 * strided_sum.c). A device with queues copies and fills dense bytes, and does
 * everything else with its function `sum`.
 */
#include <string.h>

#include "strided_walk.h"

bool tn__elements_can_add(const tn__device *device, tn_dtype dtype) {
  return !tn__dtype_is_storage(dtype) &&
         (!device->table || tn__device_can_add(device, dtype));
}

bool tn__elements_can_sum_wide(const tn__device *device) {
  return !device->table || tn__device_can_sum_wide(device);
}

/* ------------------------------------------------------------------- queues */

/* Enqueues a sum of `from`, or of `value` everywhere if that has no data. */
static tn_code enqueue_sum(const tn__site *site, const tn_tensor *to,
                           const tn_tensor *from, tn_device_sum sum) {
  tn__axes kept, cut;
  tn__find_sum_axes(to, from, &kept, &cut);
  memcpy(kept.v + kept.n, cut.v, (size_t)cut.n * sizeof *cut.v);
  sum.dtype = to->dtype;
  sum.n_kept = (uint32_t)kept.n;
  sum.n_summed = (uint32_t)cut.n;
  sum.axes = kept.v;
  sum.to = to->data;
  sum.from = from->data;
  return tn__device_sum(site->token, site->device, &sum);
}

static tn_code enqueue_value(const tn__site *site, const tn_tensor *to,
                             double value, bool add) {
  static const int64_t strides[TN_MAX_NDIM] = {0};
  tn_tensor from = *to;
  from.data = NULL;
  from.strides = (int64_t *)(uintptr_t)strides; /* only read */
  return enqueue_sum(
      site, to, &from,
      (tn_device_sum){.flags = add ? TN_SUM_ADD : 0, .value = value});
}

static tn_code enqueue_copy(const tn__site *site, const tn_tensor *to,
                            const tn_tensor *from) {
  const tn_copy copy = {.to = to->data,
                        .from = from->data,
                        .bytes = tn__dense_bytes(to),
                        .to_type = to->device_type,
                        .to_id = to->device_id,
                        .from_type = from->device_type,
                        .from_id = from->device_id};
  if (!tn_tensor_is_contiguous(to) || !tn_tensor_is_contiguous(from))
    return enqueue_sum(site, to, from, (tn_device_sum){0});
  return tn__device_copy(site->token, &copy);
}

/* --------------------------------------------------------------- operations */

tn_code tn__elements_copy(const tn__site *site, const tn_tensor *to,
                          const tn_tensor *from) {
  if (to->data == from->data || tn_tensor_size(to) == 0) return TN_OK;
  if (site->device->table) return enqueue_copy(site, to, from);
  tn__tensor_copy_shared(site->engine, to, from);
  return TN_OK;
}

tn_code tn__elements_add(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from) {
  if (site->device->table) return tn__elements_sum(site, to, from, true);
  tn__tensor_add(to, from);
  return TN_OK;
}

tn_code tn__elements_sum(const tn__site *site, const tn_tensor *to,
                         const tn_tensor *from, bool add) {
  if (!site->device->table) {
    tn__tensor_sum(site->engine, to, from, add);
    return TN_OK;
  }
  if (tn_tensor_size(from) == 0)
    return add ? TN_OK : tn__elements_zero(site, to);
  const uint32_t wide = from->dtype != to->dtype ? TN_SUM_WIDE : 0;
  return enqueue_sum(site, to, from,
                     (tn_device_sum){.flags = (add ? TN_SUM_ADD : 0) | wide});
}

tn_code tn__elements_zero(const tn__site *site, const tn_tensor *to) {
  if (!site->device->table)
    tn__tensor_zero(to);
  else if (tn_tensor_is_contiguous(to))
    return tn__device_fill(site->token, site->device, to->data, 0,
                           tn__dense_bytes(to));
  else if (tn_tensor_size(to) > 0)
    return enqueue_value(site, to, 0, false);
  return TN_OK;
}

/* Returns the bits of the number 1. */
static uint64_t one_of(tn_dtype dtype) {
  const float one = 1.0f;
  const double one64 = 1.0;
  uint64_t bits = 0;
  if (dtype == TN_F32)
    memcpy(&bits, &one, sizeof one);
  else if (dtype == TN_F64)
    memcpy(&bits, &one64, sizeof one64);
  else if (dtype == TN_F16)
    bits = tn__f32_to_f16(one);
  else if (dtype == TN_BF16)
    bits = tn__f32_to_bf16(one);
  else
    bits = 1;
  return bits;
}

tn_code tn__elements_fill_one(const tn__site *site, const tn_tensor *to,
                              bool add) {
  uint64_t bits = one_of(to->dtype);
  int64_t strides[TN_MAX_NDIM] = {0};
  tn_tensor one = *to;
  if (tn_tensor_size(to) == 0) return TN_OK;
  if (site->device->table) return enqueue_value(site, to, 1, add);
  one.data = &bits;
  one.strides = strides;
  if (add)
    tn__tensor_add(to, &one);
  else
    tn__tensor_copy(to, &one);
  return TN_OK;
}
