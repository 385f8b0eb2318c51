/* SPDX-License-Identifier: Apache-2.0
 * A libcuda.so.1 that has no GPU and accepts every kernel. cuDNN finalizes
 * engines that it compiles at run time only if a driver accepts the compiled
 * code. Only arguments for results have names.
 */
static char somewhere[4096];

enum { NO_DEVICE = 100 };

/* Further functions that cuDNN looks for. */
#define ABSENT(X)              \
  X(cuInit)                    \
  X(cuDeviceGetCount)          \
  X(cuDeviceGet)               \
  X(cuDriverGetVersion)        \
  X(cuGetErrorString)          \
  X(cuGetErrorName)            \
  X(cuCtxGetCurrent)           \
  X(cuCtxGetLimit)             \
  X(cuCtxPopCurrent)           \
  X(cuCtxPushCurrent)          \
  X(cuStreamGetCtx)            \
  X(cuLinkCreate)              \
  X(cuLinkAddData)             \
  X(cuLinkComplete)            \
  X(cuLinkDestroy)             \
  X(cuLaunchKernel)            \
  X(cuLaunchKernelEx)          \
  X(cuLaunchCooperativeKernel) \
  X(cuLibraryLoadFromFile)     \
  X(cuKernelGetAttribute)      \
  X(cuOccupancyMaxPotentialClusterSize)

#define DEFINE(name)  \
  int name(void);     \
  int name(void) {    \
    return NO_DEVICE; \
  }
ABSENT(DEFINE)

int cuLibraryLoadData(void **library);
int cuLibraryGetKernel(void **kernel);
int cuKernelGetFunction(void **function);
int cuLibraryUnload(void);
int cuKernelSetAttribute(void);
int cuFuncSetAttribute(void);

int cuLibraryLoadData(void **library) {
  *library = somewhere;
  return 0;
}

int cuLibraryGetKernel(void **kernel) {
  *kernel = somewhere;
  return 0;
}

int cuKernelGetFunction(void **function) {
  *function = somewhere;
  return 0;
}

int cuLibraryUnload(void) {
  return 0;
}

int cuKernelSetAttribute(void) {
  return 0;
}

int cuFuncSetAttribute(void) {
  return 0;
}
