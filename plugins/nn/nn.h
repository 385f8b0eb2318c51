/* SPDX-License-Identifier: Apache-2.0
 * nn.h: what the kernels of this plugin share.
 */
#ifndef NN_NN_H_
#define NN_NN_H_

#include "product.h"

/* What init found out for a runtime: call->instance. */
typedef struct nn_instance {
  const tn_blas *blas; /* NULL: no plugin provides blas/1 */
} nn_instance;

#endif /* NN_NN_H_ */
