/* SPDX-License-Identifier: Apache-2.0
 * sum.h: the one part of this plugin that is compiled by nvcc, sum.cu; where
 * there is no nvcc, no_sum.c stands in its place. For C and C++.
 */
#ifndef CUDA_SUM_H_
#define CUDA_SUM_H_

#include "tenon/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a sum on a stream of the device that is current. A result of the
 * driver, whose numbers are those of the CUDA runtime. [worker] */
typedef int cuda_sum_fn(void *stream, const tn_device_sum *sum);

/* NULL: this plugin was built without nvcc. */
extern cuda_sum_fn *const cuda_sum;

#ifdef __cplusplus
}
#endif
#endif /* CUDA_SUM_H_ */
