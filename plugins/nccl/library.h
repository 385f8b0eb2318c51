/* SPDX-License-Identifier: Apache-2.0
 * library.h: the functions of NCCL and of the CUDA driver that this plugin
 * uses, loaded at run time. Numbers are those of nccl.h, the same from NCCL
 * 2.14 on. Handles and enumerations that are written through pointers are void
 * pointers here; tests/cuda/check_nccl.c passes our arguments to the functions
 * of a real nccl.h and cuda.h.
 */
#ifndef NCCL_LIBRARY_H_
#define NCCL_LIBRARY_H_

#include <stddef.h>
#include <stdint.h>

enum { /* ncclResult_t */
       NCCL_OK = 0,
       NCCL_CUDA_ERROR = 1,
       NCCL_SYSTEM_ERROR = 2,
       NCCL_INTERNAL_ERROR = 3,
       NCCL_INVALID_ARGUMENT = 4,
       NCCL_INVALID_USAGE = 5,
       NCCL_REMOTE_ERROR = 6,
       NCCL_IN_PROGRESS = 7
};

enum { /* ncclDataType_t */
       NCCL_I8 = 0,
       NCCL_U8 = 1,
       NCCL_I32 = 2,
       NCCL_U32 = 3,
       NCCL_I64 = 4,
       NCCL_U64 = 5,
       NCCL_F16 = 6,
       NCCL_F32 = 7,
       NCCL_F64 = 8,
       NCCL_BF16 = 9
};

enum { /* ncclRedOp_t */
       NCCL_SUM = 0,
       NCCL_PROD = 1,
       NCCL_MAX = 2,
       NCCL_MIN = 3,
       NCCL_AVG = 4
};

enum { NCCL_KEY_BYTES = 128 };

typedef struct nccl_key { /* ncclUniqueId */
  char bytes[NCCL_KEY_BYTES];
} nccl_key;

enum { NCCL_MAGIC_LOW = 0xbeef, NCCL_MAGIC_HIGH = 0xcafe };
enum { NCCL_CONFIG_VERSION = 21400 };

/* The ncclConfig_t of NCCL 2.14, which all later releases read. */
typedef struct nccl_config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int reserved; /* not read: the size is that of 2.14 */
} nccl_config;

/* field, symbol, arguments, their names. All return a ncclResult_t. */
#define NCCL_FUNCTIONS(X)                                                   \
  X(version, ncclGetVersion, (int *out), (out))                             \
  X(create_key, ncclGetUniqueId, (void *out), (out))                        \
  X(finalize, ncclCommFinalize, (void *comm), (comm))                       \
  X(destroy, ncclCommDestroy, (void *comm), (comm))                         \
  X(abort, ncclCommAbort, (void *comm), (comm))                             \
  X(get_state, ncclCommGetAsyncError, (void *comm, void *out), (comm, out)) \
  X(all_reduce, ncclAllReduce,                                              \
    (const void *from, void *to, size_t n, int type, int op, void *comm,    \
     void *stream),                                                         \
    (from, to, n, type, op, comm, stream))                                  \
  X(reduce, ncclReduce,                                                     \
    (const void *from, void *to, size_t n, int type, int op, int root,      \
     void *comm, void *stream),                                             \
    (from, to, n, type, op, root, comm, stream))                            \
  X(broadcast, ncclBroadcast,                                               \
    (const void *from, void *to, size_t n, int type, int root, void *comm,  \
     void *stream),                                                         \
    (from, to, n, type, root, comm, stream))                                \
  X(all_gather, ncclAllGather,                                              \
    (const void *from, void *to, size_t n, int type, void *comm,            \
     void *stream),                                                         \
    (from, to, n, type, comm, stream))                                      \
  X(reduce_scatter, ncclReduceScatter,                                      \
    (const void *from, void *to, size_t n, int type, int op, void *comm,    \
     void *stream),                                                         \
    (from, to, n, type, op, comm, stream))                                  \
  X(send, ncclSend,                                                         \
    (const void *from, size_t n, int type, int peer, void *comm,            \
     void *stream),                                                         \
    (from, n, type, peer, comm, stream))                                    \
  X(recv, ncclRecv,                                                         \
    (void *to, size_t n, int type, int peer, void *comm, void *stream),     \
    (to, n, type, peer, comm, stream))                                      \
  X(group_start, ncclGroupStart, (void), ())                                \
  X(group_end, ncclGroupEnd, (void), ())

/* The same of the driver. All return a CUresult. */
#define NCCL_DRIVER_FUNCTIONS(X)                                               \
  X(stream_create, cuStreamCreateWithPriority,                                 \
    (void *out, unsigned flags, int priority), (out, flags, priority))         \
  X(stream_destroy, cuStreamDestroy_v2, (void *stream), (stream))              \
  X(stream_wait, cuStreamWaitEvent,                                            \
    (void *stream, void *event, unsigned flags), (stream, event, flags))       \
  X(event_create, cuEventCreate, (void *out, unsigned flags), (out, flags))    \
  X(event_destroy, cuEventDestroy_v2, (void *event), (event))                  \
  X(event_record, cuEventRecord, (void *event, void *stream), (event, stream)) \
  X(event_query, cuEventQuery, (void *event), (event))                         \
  X(fill, cuMemsetD8Async,                                                     \
    (unsigned long long to, unsigned char byte, size_t bytes, void *stream),   \
    (to, byte, bytes, stream))                                                 \
  X(copy, cuMemcpyDtoDAsync_v2,                                                \
    (unsigned long long to, unsigned long long from, size_t bytes,             \
     void *stream),                                                            \
    (to, from, bytes, stream))

enum { DRIVER_OK = 0, DRIVER_NOT_READY = 600 }; /* CUresult */
enum { DRIVER_STREAM_NON_BLOCKING = 1, DRIVER_EVENT_NO_TIMING = 2 };

typedef struct nccl_library {
  void *file; /* from dlopen */
  void *driver;
  char name[32];                             /* "NCCL 2.32.3" */
  const char *(*describe)(int result);       /* ncclGetErrorString */
  const char *(*get_last_error)(void *comm); /* ncclGetLastError */
  int (*open)(void *out, int size, nccl_key key, int rank,
              nccl_config *config); /* ncclCommInitRankConfig */
#define NCCL_FIELD(field, symbol, arguments, names) int(*field) arguments;
  NCCL_FUNCTIONS(NCCL_FIELD)
  NCCL_DRIVER_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
} nccl_library;

/* File names of NCCL; the last one is NULL. */
extern const char *const nccl_names[];

/* Opens the first file that exists, and the driver, which plugins/cuda has
 * opened before: 1, or 0 with a sentence in `why` that names the missing part
 * and the remedy. [load] */
int nccl_library_open(nccl_library *library, const char *const *names,
                      char why[240]);

/* [load] */
void nccl_library_close(nccl_library *library);

/* Settings of a communicator whose functions do not wait. [any] */
nccl_config nccl_get_config(void);

#endif /* NCCL_LIBRARY_H_ */
