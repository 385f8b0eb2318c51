/* SPDX-License-Identifier: Apache-2.0
 * devices.h: the types and functions that the files of this plugin share.
 *
 * files: driver.c   the driver's functions, loaded at run time
 *        device.c   the devices: their number, properties and contexts
 *        memory.c   device memory from a pool, pinned memory of the host
 *        queue.c    streams, events, copies
 *        graph.c    work of a stream, recorded and launched again
 *        failure.c  results of the driver as messages; devices that are lost
 *        blaslt.c   cuBLASLt, loaded at run time
 *        sum.cu     sums on a device; no_sum.c replaces it without nvcc
 *        product.c  matrix products with cuBLASLt, as "blas.cuda/1"
 *        scope.c    the devices for other plugins, as "device.cuda/1"
 *        cuda.c     init and fini
 */
#ifndef CUDA_DEVICES_H_
#define CUDA_DEVICES_H_

#include <pthread.h>
#include <stdatomic.h>

#include "driver.h"
#include "sum.h"
#include "tenon/plugin/device.h"
#include "tenon/plugin/device_blas.h"
#include "tenon/plugin/device_scope.h"

typedef struct cuda_blaslt cuda_blaslt;

/* One GPU. Everything but `lost` is written under `lock` before `context`, and
 * is constant after that until the end. */
typedef struct cuda_device {
  struct cuda_instance *instance;
  int32_t id;
  int handle; /* the driver's */
  pthread_mutex_t lock;
  _Atomic(cuda_context) context; /* the primary one; NULL until it is needed */
  cuda_pool pool;                /* NULL: this GPU has no pools */
  cuda_stream memory;            /* used to allocate and free memory */
  _Atomic int lost;              /* the result that made the device unusable */
  void *blaslt;                  /* its cuBLASLt handle, under `lock` */
} cuda_device;

/* State of the plugin for one runtime. */
typedef struct cuda_instance {
  cuda_driver driver;
  tn_device table;
  cuda_device *devices;
  int32_t n_devices;
  char why[240];         /* reason if there are no devices */
  pthread_key_t entered; /* key of the thread's state; see cuda_enter */
  int counts;            /* the key exists */
  cuda_blaslt *blaslt;
  tn_device_blas products;
  tn_device_scope scope;
} cuda_instance;

/* ---------------------------------------------------------------- device.c */

/* Asks the driver for the devices; none leaves the reason in instance->why.
 * TN_OK or TN_OUT_OF_MEMORY. */
int32_t cuda_devices_open(cuda_instance *instance);
/* Closes contexts that were opened. */
void cuda_devices_close(cuda_instance *instance);

/* Makes the device current for the thread until cuda_leave, which restores the
 * previous one. The first call opens the context. The previous device may be
 * the choice of another library in this process.
 *
 * Another thread may be recording at that moment. By default the driver forbids
 * every thread to do things that could disturb a recording (querying events,
 * allocating memory), and breaks the disturbed recording. Until cuda_leave,
 * only this thread's own recordings have that effect. [any] */
int32_t cuda_enter(cuda_device *device, tn_device_error *error);
void cuda_leave(const cuda_device *device);

/* ctx of the table, and an id that `count` allows. */
cuda_device *cuda_device_of(void *ctx, int32_t id);

int32_t cuda_count(void *ctx, int32_t *out, tn_device_error *error);
int32_t cuda_info(void *ctx, int32_t id, tn_device_info *out,
                  tn_device_error *error);

/* ---------------------------------------------------------------- memory.c */

/* The device's pool and the stream that it is used on. The device is current.
 */
int cuda_memory_open(cuda_device *device);
void cuda_memory_close(cuda_device *device);

int32_t cuda_alloc(void *ctx, int32_t id, uint32_t kind, uint64_t bytes,
                   void **out, tn_device_error *error);
void cuda_free(void *ctx, int32_t id, uint32_t kind, void *memory);
uint64_t cuda_trim(void *ctx, int32_t id);

/* ----------------------------------------------------------------- queue.c */

/* A queue of the host. */
typedef struct cuda_queue {
  cuda_device *device;
  cuda_stream stream;
} cuda_queue;

/* Ends cuda_enter: returns the code and the sentence for `result`. */
int32_t cuda_leave_with(cuda_device *device, int result,
                        tn_device_error *error);

int32_t cuda_queue_open(void *ctx, int32_t id, uint32_t purpose,
                        int32_t priority, void **out, tn_device_error *error);
void cuda_queue_close(void *ctx, void *queue);
void *cuda_queue_stream(void *ctx, void *queue);
int32_t cuda_copy(void *ctx, void *queue, const tn_copy *copy,
                  tn_device_error *error);
int32_t cuda_fill(void *ctx, void *queue, void *memory, int32_t byte,
                  uint64_t bytes, tn_device_error *error);
int32_t cuda_queue_sum(void *ctx, void *queue, const tn_device_sum *sum,
                       tn_device_error *error);
int32_t cuda_fence_open(void *ctx, int32_t id, void **out,
                        tn_device_error *error);
void cuda_fence_close(void *ctx, void *fence);
int32_t cuda_fence_record(void *ctx, void *fence, void *queue,
                          tn_device_error *error);
int32_t cuda_queue_wait(void *ctx, void *queue, void *fence,
                        tn_device_error *error);
int32_t cuda_fence_query(void *ctx, void *fence, int32_t *out,
                         tn_device_error *error);
int32_t cuda_fence_wait(void *ctx, void *fence, tn_device_error *error);

/* ----------------------------------------------------------------- graph.c */

int32_t cuda_capture_begin(void *ctx, void *queue, tn_device_error *error);
int32_t cuda_capture_end(void *ctx, void *queue, void **out,
                         tn_device_error *error);
int32_t cuda_graph_launch(void *ctx, void *graph, void *queue,
                          tn_device_error *error);
void cuda_graph_close(void *ctx, void *graph);

/* --------------------------------------------------------------- failure.c */

/* The code and the sentence for a result of the driver. After some results a
 * device never works again in this process: the message says so, and the device
 * is marked as lost. */
int32_t cuda_fail(cuda_device *device, int result, tn_device_error *error);

/* The same for an operation between two devices: if a result is final, and
 * `device` still answers, the other one is lost. */
int32_t cuda_fail_between(cuda_device *device, cuda_device *other, int result,
                          tn_device_error *error);

/* Asks the device for a sign of life: TN_OK, or the failure that made it
 * lost. */
int32_t cuda_check_status(cuda_device *device, tn_device_error *error);

/* Whether the result comes from a recording in another thread. */
int cuda_is_capture(int result);

/* TN_OK, or the failure that made the device lost. */
int32_t cuda_check_lost(cuda_device *device, tn_device_error *error);

/* ---------------------------------------------------------------- product.c */

/* Fills in instance->products if there is cuBLASLt: 1, or 0 with a sentence. */
int cuda_products_open(cuda_instance *instance, char why[240]);
void cuda_products_close(cuda_instance *instance);

/* ------------------------------------------------------------------ scope.c
 */

/* Fills in instance->scope, once the devices are known. */
void cuda_scope_fill(cuda_instance *instance);

#endif /* CUDA_DEVICES_H_ */
