/* SPDX-License-Identifier: Apache-2.0
 * choose.h: the choice of the kernel that computes a call.
 *
 * files:
 *   choose.c            compares candidates, and explains the choice
 *   kernel_candidate.c  decides whether one kernel applies, with a reason
 *   kernel_options.c    options of kernels, and the kernel that a user pins
 *   inplace.c           outputs of a kernel that may use memory of its inputs
 */
#ifndef TENON_CHOOSE_H_
#define TENON_CHOOSE_H_

#include "registry.h"

/* A kernel that is held: its plugin cannot be unloaded until
 * tn__kernel_release. */
typedef struct tn__choice {
  tn__kernel *kernel;
} tn__choice;

/* A question for a kernel; the choice is the first kernel that applies. `frame`
 * has metadata only; its instance, options and host are set for each candidate.
 * `vars` are the dtypes of the operator's type variables. TN_UNSUPPORTED lists
 * every candidate with its reason. */
typedef struct tn__query {
  uint32_t pass; /* TN_PASS_* */
  int32_t device_type;
  const tn_dtype *vars; /* op->n_dtype_vars; NULL: not known yet */
  tn_frame
      *frame; /* NULL: check only conditions that do not depend on the inputs */
  const tn_signature *io; /* of the forward call, complete; with `frame` */
  const uint32_t *absent; /* its absent inputs; may be NULL */
} tn__query;

tn_code tn__kernel_choose(tn_operator *op, const tn__query *query,
                          tn__choice *out);
void tn__kernel_release(const tn__choice *choice);
/* Adds a hold to a kernel that is held. */
tn__kernel *tn__kernel_retain(const tn__choice *choice);

/* Sets the options of a kernel from a text; NULL: the defaults. */
tn_code tn__operator_set_options(tn_operator *op, const char *id,
                                 const char *text);

/* Prints every candidate of both passes with its reason. */
void tn__kernel_explain(tn_operator *op, const tn__query *query, tn__buf *out);

/* -------------------------------------------------------- kernel_candidate.c
 */

/* Why a kernel does not apply; "" if it does. */
typedef struct tn__reason {
  char text[1024];
} tn__reason;

/* Whether the kernel applies to the call; ignores its priority. `reason` may be
 * NULL, which is faster: writing the text takes most of the time. The registry
 * is locked. */
bool tn__kernel_applies(const tn_operator *op, const tn__kernel *kernel,
                        const tn__query *query, tn__reason *reason);

/* The types that the kernel accepts for a type variable of its operator. */
uint64_t tn__kernel_types(const tn_operator *op, const tn_kernel *kernel,
                          uint32_t var);

/* Sets the members of a frame that belong to the kernel. */
void tn__frame_set_kernel(tn_frame *frame, const tn__kernel *kernel);

/* ----------------------------------------------------------------- inplace.c
 */

/* The in-place pairs of a kernel in a call with these numbers of forward inputs
 * and outputs: it may omit optional inputs at the end. */
typedef struct tn__pairs {
  const tn_kernel *kernel;
  const tn_op *op;
  uint32_t n_in;
  uint32_t n_out;
} tn__pairs;

/* Number of declared pairs; 0 if the kernel never works in place. */
uint32_t tn__pairs_count(const tn__pairs *p);
/* Gets pair number `i` in the positions of the call; false if the call does not
 * have its operands. */
bool tn__pairs_get(const tn__pairs *p, uint32_t i, tn_inplace *out);
/* Tests whether the kernel supports this pair of the call. */
bool tn__pairs_has(const tn__pairs *p, tn_inplace pair);

/* "cpu", "cuda", or "device". */
const char *tn__device_name(int32_t device_type);

#endif /* TENON_CHOOSE_H_ */
