/* SPDX-License-Identifier: Apache-2.0
 * no_sum.c: replaces sum.cu in builds without nvcc.
 */
#include "sum.h"

#include <stddef.h>

cuda_sum_fn *const cuda_sum = NULL;
