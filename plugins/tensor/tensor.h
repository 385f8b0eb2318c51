/* SPDX-License-Identifier: Apache-2.0
 * tensor.h: state of the plugin for one runtime: call->instance.
 */
#ifndef TENSOR_TENSOR_H_
#define TENSOR_TENSOR_H_

#include "tenon/plugin/blas.h"

typedef struct tensor_instance {
  const tn_blas *blas; /* NULL: no plugin provides blas/1 */
} tensor_instance;

#endif /* TENSOR_TENSOR_H_ */
