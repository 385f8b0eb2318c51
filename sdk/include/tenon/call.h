/* SPDX-License-Identifier: Apache-2.0
 * call.h: eager calls and prepared calls. A part of tenon.h, which has the
 * conventions.
 */
#ifndef TENON_HOST_CALL_H_
#define TENON_HOST_CALL_H_

#include "tenon/array.h"
#include "tenon/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- calls */

/* Inputs of a call: NULL for an omitted optional input. The auxiliary states of
 * an operator follow its inputs; a call changes them, and after a failed call
 * their content is undefined. */
typedef struct tn_inputs {
  size_t n;
  tn_array *const *arrays;
} tn_inputs;

/* Outputs of a call. arrays[i] NULL: a new array is created and stored there;
 * the caller releases it. Otherwise the result goes into that array, which must
 * have the right dtype and shape; it may be one of the inputs. */
typedef struct tn_outputs {
  size_t n;
  tn_array **arrays;
  const tn_req *req; /* n of TN_REQ_NULL, WRITE, ADD; NULL: WRITE for all. ADD
                        needs an existing array. Only the library chooses
                        INPLACE: TN_INVALID here */
} tn_outputs;

#ifndef __cplusplus
#define TN_IN(...)                                              \
  (&(const tn_inputs){                                          \
      sizeof((tn_array *[]){__VA_ARGS__}) / sizeof(tn_array *), \
      (tn_array *[]){__VA_ARGS__}})
/* One output: the address of the variable that holds or receives the array. */
#define TN_OUT(place) (&(const tn_outputs){1, (place), NULL})
#endif

/* Runs an operator of `rt`: checks, infers, allocates, chooses a kernel,
 * computes. `params` NULL means all defaults. Hidden outputs may be omitted.
 * When it returns, the work is scheduled; tn_array_get waits for it. On failure
 * no array is stored; if the work itself failed, the caller's output arrays
 * carry the error. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call(tn_runtime *rt, tn_operator *op,
                                   const tn_inputs *in, const tn_params *params,
                                   const tn_outputs *out);

/* The same while training: statistics are updated, dropout drops
 * (TN_CALL_TRAIN). `params` NULL means all defaults. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_train(tn_runtime *rt, tn_operator *op,
                                         const tn_inputs *in,
                                         const tn_params *params,
                                         const tn_outputs *out);

/* A backward call: gradients of the inputs from gradients of the outputs. */
typedef struct tn_backward {
  uint32_t struct_size; /* sizeof(tn_backward) */
  uint32_t flags;       /* TN_CALL_TRAIN if the forward call had it */
  const tn_params *params;
  tn_inputs inputs;    /* of the forward call */
  tn_inputs outputs;   /* of the forward call, hidden ones included; entries
                          that the operator's needs do not list may be NULL */
  tn_inputs out_grads; /* one per output; NULL counts as zeros */
  tn_outputs in_grads; /* one per input, with requests; REQ_NULL for unneeded
                          ones */
} tn_backward;

/* Runs the operator's gradient. TN_UNSUPPORTED, with the reason, if it has
 * none. Otherwise like tn_call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_backward(tn_runtime *rt, tn_operator *op,
                                            const tn_backward *call);

/* A call to run many times with the same arrays. Checks, inference, choice of
 * the kernel and allocation happen once, when it is prepared; a run costs
 * little more than the kernel. */
typedef struct tn_preparation {
  uint32_t struct_size; /* sizeof(tn_preparation) */
  uint32_t flags;       /* TN_CALL_TRAIN or 0 */
  tn_operator *op;
  const tn_params *params; /* NULL: all defaults */
  tn_inputs inputs;
  tn_outputs outputs; /* like those of tn_call */
} tn_preparation;

/* Prepares a call; nothing is computed. It keeps its arrays and the operator's
 * plugin until it is released. Outputs with a dynamic shape cannot be prepared
 * (TN_UNSUPPORTED). The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_prepare(tn_runtime *rt,
                                           const tn_preparation *what,
                                           tn_prepared **out);

/* Runs the call, like tn_call. [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_run(tn_prepared *call);

/* Changes a parameter that its operator declares `dynamic`, for later runs.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_call_set(tn_prepared *call,
                                       const tn_value *value);

/* Releases the call after its last run; NULL is allowed. [host-thread] */
TN_API void tn_prepared_release(tn_prepared *call);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_CALL_H_ */
