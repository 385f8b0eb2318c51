/* SPDX-License-Identifier: Apache-2.0
 * kernel_options.h: how a host sets the options of kernels: settings of a
 * backend that are not parameters of the operator, such as rounding to TF32 or
 * the workspace limit of an algorithm. `tenon show OP` lists kernels and
 * options.
 *
 *   tn_operator *conv = NULL;
 *   tn_code rc = tn_operator_get(rt, "nn.convolution", &conv);
 *   if (!rc)
 *     rc = tn_operator_tune(conv, "cudnn.convolution.cuda", "fast=true");
 */
#ifndef TENON_KERNEL_OPTIONS_H_
#define TENON_KERNEL_OPTIONS_H_

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the options of kernel `id`, of both passes, from "fast=true
 * workspace=1048576". Options that are not named get their defaults; `text`
 * NULL names none. They apply to calls that are prepared, and programs that are
 * bound, from then on. TN_NOT_FOUND if the operator has no such kernel, or the
 * kernel no such option. [any] */
TN_API TN_MUST_USE tn_code tn_operator_tune(tn_operator *op, const char *id,
                                            const char *text);

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_OPTIONS_H_ */
