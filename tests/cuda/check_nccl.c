/* SPDX-License-Identifier: Apache-2.0
 * check_nccl.c: plugins/nccl/library.h against nccl.h and the cuda.h of a
 * toolkit: numbers, and calls of every function with our arguments. A number of
 * arguments, or a type, that differs does not compile. Never run.
 */
#include <cuda.h>
#include <nccl.h>
#include <string.h>

#include "library.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_I8, ncclInt8);
SAME(NCCL_U8, ncclUint8);
SAME(NCCL_I32, ncclInt32);
SAME(NCCL_U32, ncclUint32);
SAME(NCCL_I64, ncclInt64);
SAME(NCCL_U64, ncclUint64);
SAME(NCCL_F16, ncclFloat16);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_F64, ncclFloat64);
SAME(NCCL_BF16, ncclBfloat16);
SAME(NCCL_SUM, ncclSum);
SAME(NCCL_PROD, ncclProd);
SAME(NCCL_MAX, ncclMax);
SAME(NCCL_MIN, ncclMin);
SAME(NCCL_AVG, ncclAvg);
SAME(NCCL_KEY_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(sizeof(nccl_key), sizeof(ncclUniqueId));
#ifdef NCCL_API_MAGIC /* recent releases name it */
SAME((unsigned)NCCL_MAGIC_HIGH << 16 | (unsigned)NCCL_MAGIC_LOW,
     NCCL_API_MAGIC);
#endif
SAME(offsetof(nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(nccl_config, blocking), offsetof(ncclConfig_t, blocking));
SAME(DRIVER_OK, CUDA_SUCCESS);
SAME(DRIVER_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(DRIVER_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(DRIVER_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);

/* An enumeration of theirs is an int of ours. */
SAME(sizeof(int), sizeof(ncclResult_t));
SAME(sizeof(int), sizeof(ncclDataType_t));
SAME(sizeof(int), sizeof(ncclRedOp_t));
SAME(sizeof(int), sizeof(CUresult));

/* clang's enumerations without negative numbers are unsigned. */
#pragma GCC diagnostic ignored "-Wsign-conversion"

#define CALL(field, symbol, arguments, names)   \
  extern int cuda_check_nccl_##field arguments; \
  int cuda_check_nccl_##field arguments {       \
    return (int)symbol names;                   \
  }
NCCL_FUNCTIONS(CALL)
NCCL_DRIVER_FUNCTIONS(CALL)

extern int cuda_check_nccl_open(void *out, int size, nccl_key key, int rank,
                                nccl_config *config);
int cuda_check_nccl_open(void *out, int size, nccl_key key, int rank,
                         nccl_config *config) {
  ncclUniqueId id;
  memcpy(&id, &key, sizeof id);
  return (int)ncclCommInitRankConfig(out, size, id, rank,
                                     (ncclConfig_t *)(void *)config);
}

extern const char *cuda_check_nccl_describe(int result);
const char *cuda_check_nccl_describe(int result) {
  return ncclGetErrorString((ncclResult_t)result);
}

extern const char *cuda_check_nccl_get_last_error(void *comm);
const char *cuda_check_nccl_get_last_error(void *comm) {
  return ncclGetLastError(comm);
}
