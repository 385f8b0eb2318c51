/* SPDX-License-Identifier: Apache-2.0
 * sum.h: the only part of this plugin that nvcc compiles, sum.cu. Without nvcc,
 * no_sum.c replaces it. For C and C++.
 */
#ifndef CUDA_SUM_H_
#define CUDA_SUM_H_

#include "tenon/plugin/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a sum on a stream of the current device. Returns a result of the
 * driver; the CUDA runtime uses the same numbers. [worker] */
typedef int cuda_sum_fn(void *stream, const tn_device_sum *sum);

/* NULL: this plugin was built without nvcc. */
extern cuda_sum_fn *const cuda_sum;

#ifdef __cplusplus
}
#endif
#endif /* CUDA_SUM_H_ */
