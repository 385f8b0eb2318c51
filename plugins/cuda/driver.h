/* SPDX-License-Identifier: Apache-2.0
 * driver.h: the functions of the CUDA driver that this plugin uses, loaded at
 * run time. So the plugin loads without a driver and builds without a toolkit.
 * Types and numbers repeat those of cuda.h; tests/cuda/check_header.c compares
 * them with a toolkit if there is one.
 *
 * Names with _v2 are part of the driver's ABI; in cuda.h they are macros.
 */
#ifndef CUDA_DRIVER_H_
#define CUDA_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long cuda_address; /* CUdeviceptr */
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream; /* also the runtime's cudaStream_t */
typedef struct CUevent_st *cuda_event;
typedef struct CUmemPoolHandle_st *cuda_pool;
typedef struct CUgraph_st *cuda_graph;          /* the recorded work */
typedef struct CUgraphExec_st *cuda_executable; /* the same, to be launched */

enum { /* CUresult: the distinguished values */
       CUDA_OK = 0,
       CUDA_OUT_OF_MEMORY = 2,
       CUDA_NO_DEVICE = 100,
       CUDA_NOT_READY = 600,
       CUDA_NOT_SUPPORTED = 801,
       CUDA_CAPTURE_FIRST = 900, /* from this to the last: another thread */
       CUDA_CAPTURE_LAST = 908   /* records, and the call has to wait */
};

enum { /* CUdevice_attribute */
       CUDA_COMPUTE_MAJOR = 75,
       CUDA_COMPUTE_MINOR = 76,
       CUDA_MANAGED_MEMORY = 83,
       CUDA_MEMORY_POOLS = 115
};

enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2 };
enum { CUDA_HOST_PORTABLE = 1 };
enum { CUDA_ATTACH_GLOBAL = 1 };
enum { CUDA_POOL_RELEASE_THRESHOLD = 4, CUDA_POOL_RESERVED = 5 };
enum { CUDA_CAPTURE_GLOBAL = 0, CUDA_CAPTURE_THREAD_LOCAL = 1 };
enum { CUDA_LOCATION_DEVICE = 1, CUDA_PINNED = 1, CUDA_READ_WRITE = 3 };

typedef struct cuda_location { /* CUmemLocation */
  int type;
  int id;
} cuda_location;

typedef struct cuda_pool_props { /* CUmemPoolProps */
  int alloc_type;
  int handle_types;
  cuda_location location;
  void *security;
  unsigned char rest[64]; /* zero: no largest size, no special usage */
} cuda_pool_props;

typedef struct cuda_access { /* CUmemAccessDesc */
  cuda_location location;
  int flags;
} cuda_access;

/* field, symbol, arguments. All return a CUresult. */
#define CUDA_DRIVER_FUNCTIONS(X)                                             \
  X(init, cuInit, (unsigned flags))                                          \
  X(driver_version, cuDriverGetVersion, (int *out))                          \
  X(error_name, cuGetErrorName, (int result, const char **out))              \
  X(error_text, cuGetErrorString, (int result, const char **out))            \
  X(device_count, cuDeviceGetCount, (int *out))                              \
  X(device_get, cuDeviceGet, (int *out, int ordinal))                        \
  X(device_name, cuDeviceGetName, (char *out, int bytes, int device))        \
  X(device_bus, cuDeviceGetPCIBusId, (char *out, int bytes, int device))     \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * out, int device))          \
  X(device_attribute, cuDeviceGetAttribute,                                  \
    (int *out, int attribute, int device))                                   \
  X(device_reaches, cuDeviceCanAccessPeer, (int *out, int device, int peer)) \
  X(context_retain, cuDevicePrimaryCtxRetain,                                \
    (cuda_context * out, int device))                                        \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))             \
  X(context_push, cuCtxPushCurrent_v2, (cuda_context context))               \
  X(context_pop, cuCtxPopCurrent_v2, (cuda_context * out))                   \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))            \
  X(context_priorities, cuCtxGetStreamPriorityRange,                         \
    (int *least, int *greatest))                                             \
  X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))           \
  X(memory_alloc, cuMemAlloc_v2, (cuda_address * out, size_t bytes))         \
  X(memory_free, cuMemFree_v2, (cuda_address memory))                        \
  X(managed_alloc, cuMemAllocManaged,                                        \
    (cuda_address * out, size_t bytes, unsigned flags))                      \
  X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))  \
  X(host_free, cuMemFreeHost, (void *memory))                                \
  X(pool_create, cuMemPoolCreate,                                            \
    (cuda_pool * out, const cuda_pool_props *props))                         \
  X(pool_destroy, cuMemPoolDestroy, (cuda_pool pool))                        \
  X(pool_set, cuMemPoolSetAttribute,                                         \
    (cuda_pool pool, int attribute, void *value))                            \
  X(pool_get, cuMemPoolGetAttribute,                                         \
    (cuda_pool pool, int attribute, void *value))                            \
  X(pool_access, cuMemPoolSetAccess,                                         \
    (cuda_pool pool, const cuda_access *access, size_t n))                   \
  X(pool_trim, cuMemPoolTrimTo, (cuda_pool pool, size_t keep))               \
  X(pool_alloc, cuMemAllocFromPoolAsync,                                     \
    (cuda_address * out, size_t bytes, cuda_pool pool, cuda_stream stream))  \
  X(pool_free, cuMemFreeAsync, (cuda_address memory, cuda_stream stream))    \
  X(stream_create, cuStreamCreateWithPriority,                               \
    (cuda_stream * out, unsigned flags, int priority))                       \
  X(stream_destroy, cuStreamDestroy_v2, (cuda_stream stream))                \
  X(stream_synchronize, cuStreamSynchronize, (cuda_stream stream))           \
  X(stream_wait, cuStreamWaitEvent,                                          \
    (cuda_stream stream, cuda_event event, unsigned flags))                  \
  X(event_create, cuEventCreate, (cuda_event * out, unsigned flags))         \
  X(event_destroy, cuEventDestroy_v2, (cuda_event event))                    \
  X(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))     \
  X(event_query, cuEventQuery, (cuda_event event))                           \
  X(event_synchronize, cuEventSynchronize, (cuda_event event))               \
  X(copy_in, cuMemcpyHtoDAsync_v2,                                           \
    (cuda_address to, const void *from, size_t bytes, cuda_stream stream))   \
  X(copy_out, cuMemcpyDtoHAsync_v2,                                          \
    (void *to, cuda_address from, size_t bytes, cuda_stream stream))         \
  X(copy_within, cuMemcpyDtoDAsync_v2,                                       \
    (cuda_address to, cuda_address from, size_t bytes, cuda_stream stream))  \
  X(copy_across, cuMemcpyPeerAsync,                                          \
    (cuda_address to, cuda_context to_context, cuda_address from,            \
     cuda_context from_context, size_t bytes, cuda_stream stream))           \
  X(fill, cuMemsetD8Async,                                                   \
    (cuda_address to, unsigned char byte, size_t bytes, cuda_stream stream))

/* Functions that drivers before CUDA 11.4 lack. Where cuda.h has
 * cuGraphInstantiate, the library has an older function of that name. */
#define CUDA_GRAPH_FUNCTIONS(X)                                          \
  X(capture_begin, cuStreamBeginCapture_v2, (cuda_stream s, int mode))   \
  X(capture_end, cuStreamEndCapture, (cuda_stream s, cuda_graph * out))  \
  X(graph_launch, cuGraphLaunch, (cuda_executable graph, cuda_stream s)) \
  X(graph_destroy, cuGraphDestroy, (cuda_graph graph))                   \
  X(executable_create, cuGraphInstantiateWithFlags,                      \
    (cuda_executable * out, cuda_graph graph, unsigned long long flags)) \
  X(executable_destroy, cuGraphExecDestroy, (cuda_executable graph))

typedef struct cuda_driver {
  void *library;
  int version;    /* 12040 is CUDA 12.4 */
  int has_graphs; /* all of the second list are there */
#define CUDA_FIELD(field, symbol, arguments) int(*field) arguments;
  CUDA_DRIVER_FUNCTIONS(CUDA_FIELD)
  CUDA_GRAPH_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_driver;

/* Opens the first library of a list that ends with NULL (sonames, or paths),
 * finds the functions, and starts the driver: 1, or 0 with a sentence in `why`
 * that names the missing part and the remedy. [load] */
int cuda_driver_open(cuda_driver *driver, const char *const *names,
                     char why[240]);

/* [load] */
void cuda_driver_close(cuda_driver *driver);

/* Names of the driver on Linux. */
extern const char *const cuda_driver_names[];

/* "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected" */
void cuda_driver_describe(const cuda_driver *driver, int result, char to[160]);

#endif /* CUDA_DRIVER_H_ */
