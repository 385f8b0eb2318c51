/* SPDX-License-Identifier: Apache-2.0
 * graph.c: records the work of a stream between capture_begin and capture_end
 * as a graph, which is launched as one. Recording is thread-local: the work of
 * other threads, including memory allocation, is not recorded and not checked.
 */
#include <stdio.h>
#include <stdlib.h>

#include "devices.h"

typedef struct graph {
  cuda_device *device;
  cuda_executable executable;
} graph;

int32_t cuda_capture_begin(void *ctx, void *handle, tn_device_error *error) {
  const cuda_queue *q = handle;
  const cuda_driver *driver = &q->device->instance->driver;
  (void)ctx;
  if (!driver->has_graphs) {
    (void)snprintf(error->text, sizeof error->text,
                   "the driver has no graphs: it is for CUDA %d.%d, and at "
                   "least 11.4 is needed; update the driver",
                   driver->version / 1000, driver->version % 1000 / 10);
    return TN_UNSUPPORTED;
  }
  const int32_t code = cuda_enter(q->device, error);
  if (code != TN_OK) return code;
  const int result =
      driver->capture_begin(q->stream, CUDA_CAPTURE_THREAD_LOCAL);
  return cuda_leave_with(q->device, result, error);
}

/* The recording is released as soon as it is an executable graph. */
static int end_capture(const cuda_queue *q, int wanted, cuda_executable *out) {
  const cuda_driver *driver = &q->device->instance->driver;
  cuda_graph recorded = NULL;
  int result = driver->capture_end(q->stream, &recorded);
  if (result == CUDA_OK && wanted)
    result = driver->executable_create(out, recorded, 0);
  if (recorded) (void)driver->graph_destroy(recorded);
  return result;
}

int32_t cuda_capture_end(void *ctx, void *handle, void **out,
                         tn_device_error *error) {
  const cuda_queue *q = handle;
  (void)ctx;
  graph *g = out ? calloc(1, sizeof *g) : NULL;
  int32_t code = cuda_enter(q->device, error);
  if (code == TN_OK)
    code = cuda_leave_with(
        q->device, end_capture(q, g != NULL, g ? &g->executable : NULL), error);
  if (code == TN_OK && out && !g) code = TN_OUT_OF_MEMORY;
  if (code != TN_OK) {
    free(g);
    return code;
  }
  if (g) {
    g->device = q->device;
    *out = g;
  }
  return TN_OK;
}

int32_t cuda_graph_launch(void *ctx, void *handle, void *at,
                          tn_device_error *error) {
  const graph *g = handle;
  const cuda_queue *q = at;
  (void)ctx;
  const int32_t code = cuda_enter(q->device, error);
  if (code != TN_OK) return code;
  return cuda_leave_with(
      q->device,
      q->device->instance->driver.graph_launch(g->executable, q->stream),
      error);
}

void cuda_graph_close(void *ctx, void *handle) {
  graph *g = handle;
  tn_device_error error = {.struct_size = sizeof error};
  (void)ctx;
  if (cuda_enter(g->device, &error) == TN_OK) {
    (void)g->device->instance->driver.executable_destroy(g->executable);
    cuda_leave(g->device);
  }
  free(g);
}
