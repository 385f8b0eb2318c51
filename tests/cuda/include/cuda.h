/* SPDX-License-Identifier: Apache-2.0
 * cuda.h: the driver's types that headers of this repository name, for a C++
 * compiler of the host.
 */
#ifndef FAKE_CUDA_H_
#define FAKE_CUDA_H_

typedef enum { FAKE_CUDA_SUCCESS = 0 } CUresult;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

#endif /* FAKE_CUDA_H_ */
