/* SPDX-License-Identifier: Apache-2.0
 * kernels.h: how the fake driver runs kernels: declarations shared by
 * fake_cuda.c and kernels.c.
 */
#ifndef TENON_TESTS_CUDA_KERNELS_H_
#define TENON_TESTS_CUDA_KERNELS_H_

#include "driver.h"
#include "fake.h"

/* The order of blocks and threads follows from the seed. */
void fake_kernels_begin(uint64_t seed);
/* Frees launches that never came to run. */
void fake_kernels_end(void);

/* The device that is current; a rule is broken if none is. */
int fake_cuda_device(void);
/* A launch, after its rules were checked: a result. */
int fake_cuda_submit(cuda_stream stream, fake_work *work);

/* Functions that the driver has, but plugins/cuda does not ask for. */
int cuCtxGetCurrent(cuda_context *out);
int cuStreamGetCtx(cuda_stream stream, cuda_context *out);

/* The functions of the runtime that .cu files here use. */
int cudaGetDriverEntryPointByVersion(const char *symbol, void **out,
                                     unsigned version, unsigned long long flags,
                                     int *found);
int cudaDeviceGetAttribute(int *value, int attribute, int device);
const char *cudaGetErrorString(int result);
const char *cudaGetErrorName(int result);

#endif /* TENON_TESTS_CUDA_KERNELS_H_ */
