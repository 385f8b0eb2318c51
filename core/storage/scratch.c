/* SPDX-License-Identifier: Apache-2.0
 * scratch.c: scratch space. The engine orders its use; here it grows.
 */
#include "device_type.h"

/* Two threads may get the same space at the same time. Then one only waits for
 * the other. That is cheaper than an exact count. */
tn__scratch_space *tn__scratch_next(tn__device *device) {
  const uint32_t turn =
      atomic_load_explicit(&device->n_turns, memory_order_relaxed);
  atomic_store_explicit(&device->n_turns, turn + 1, memory_order_relaxed);
  return &device->spaces[turn % device->n_spaces];
}

/* For the engine the last operation is complete once it is enqueued. Only the
 * device knows when it no longer uses the memory. */
static tn_code free_memory(tn__scratch_space *space) {
  if (space->data == NULL) return TN_OK;
  TN__TRY(tn__device_drain(space->device, TN_QUEUE_COMPUTE));
  tn__heap_free(space->device, space->data, space->bytes);
  space->data = NULL;
  space->bytes = 0;
  return TN_OK;
}

tn_code tn__scratch_reserve(tn__scratch_space *space, size_t bytes,
                            void **out) {
  *out = NULL;
  if (bytes > space->bytes) {
    TN__TRY(free_memory(space));
    TN__TRY(
        tn__heap_alloc(space->device, bytes, "scratch space", &space->data));
    space->bytes = bytes;
  }
  *out = space->data;
  return TN_OK;
}
