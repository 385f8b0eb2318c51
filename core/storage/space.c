/* SPDX-License-Identifier: Apache-2.0
 * space.c: temporary space. Who may use it when is the engine's business; here
 * it grows.
 */
#include "family.h"

/* Two threads that ask at the same time may get the same space: they only wait
 * for each other then. That is cheaper than counting exactly. */
tn__space *tn__space_next(tn__device *device) {
  const uint32_t turn =
      atomic_load_explicit(&device->n_turns, memory_order_relaxed);
  atomic_store_explicit(&device->n_turns, turn + 1, memory_order_relaxed);
  return &device->spaces[turn % device->n_spaces];
}

/* The last operation is over for the engine as soon as it is enqueued; only the
 * device knows when it lets go of the memory. */
static tn_code shrink(tn__space *space) {
  if (space->data == NULL) return TN_OK;
  TN__TRY(tn__device_drain(space->device, TN_QUEUE_COMPUTE));
  tn__heap_free(space->device, space->data, space->bytes);
  space->data = NULL;
  space->bytes = 0;
  return TN_OK;
}

tn_code tn__space_reserve(tn__space *space, size_t bytes, void **out) {
  *out = NULL;
  if (bytes > space->bytes) {
    TN__TRY(shrink(space));
    TN__TRY(
        tn__heap_alloc(space->device, bytes, "temporary space", &space->data));
    space->bytes = bytes;
  }
  *out = space->data;
  return TN_OK;
}
