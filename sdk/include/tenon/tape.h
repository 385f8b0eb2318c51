/* SPDX-License-Identifier: Apache-2.0
 * tape.h: tapes, which record calls and differentiate them. A part of tenon.h,
 * which has the conventions.
 */
#ifndef TENON_HOST_TAPE_H_
#define TENON_HOST_TAPE_H_

#include "tenon/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------- tape */

/* A tape records calls and differentiates them.
 *
 *   rc = tn_tape_create(rt, &tape);
 *   if (!rc) rc = tn_tape_watch(tape, w);
 *   if (!rc) rc = tn_tape_call(tape, mul, TN_IN(w, x), NULL, TN_OUT(&y));
 *   if (!rc) rc = tn_tape_call(tape, sum, TN_IN(y), NULL, TN_OUT(&loss));
 *   if (!rc) rc = tn_tape_gradient(tape, &(tn_tape_query){
 *                .struct_size = sizeof(tn_tape_query), .heads = *TN_IN(loss),
 *                .of = *TN_IN(w), .gradients = *TN_OUT(&gradient)});
 *
 * It keeps the arrays that gradients need, and identifies values by their
 * memory: a view of a recorded array is a part of it. It detects when a
 * recorded array is written outside of the tape; a gradient that needs the old
 * value is TN_INVALID. A tape is used by one thread at a time. */
typedef struct tn_tape tn_tape;

/* An empty tape. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_create(tn_runtime *rt, tn_tape **out);

/* Releases the tape with its records; NULL is allowed. [host-thread] */
TN_API void tn_tape_release(tn_tape *tape);

/* Allows requests for gradients with respect to this array, of a floating-point
 * type. Calls that depend on no watched array are not recorded; if the tape
 * writes their result over a watched array, it is a constant there.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_watch(tn_tape *tape, tn_array *array);

/* Runs a call, like tn_call or tn_call_train, and records it. `params` NULL
 * means all defaults. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_call(tn_tape *tape, tn_operator *op,
                                        const tn_inputs *in,
                                        const tn_params *params,
                                        const tn_outputs *out);
TN_API TN_MUST_USE tn_code tn_tape_call_train(tn_tape *tape, tn_operator *op,
                                              const tn_inputs *in,
                                              const tn_params *params,
                                              const tn_outputs *out);

/* Copies the elements into an array that the tape does not record: gradients
 * stop there. The caller releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_detach(tn_tape *tape, tn_array *array,
                                          tn_array **out);

enum {                          /* tn_tape_query.flags */
       TN_TAPE_KEEP = 1u << 0,  /* the tape can be queried again */
       TN_TAPE_RECORD = 1u << 1 /* the gradient's own calls are recorded:
                                   it can be differentiated; implies KEEP */
};

/* Gradients of the sum of `heads`, each weighted by its entry in
 * `head_gradients`. */
typedef struct tn_tape_query {
  uint32_t struct_size; /* sizeof(tn_tape_query) */
  uint32_t flags;       /* TN_TAPE_* */
  tn_inputs heads;
  tn_inputs head_gradients; /* n 0, or an entry NULL: ones */
  tn_inputs of;             /* watched or recorded arrays */
  tn_outputs gradients;     /* one for each of `of`; WRITE, ADD or NULL */
} tn_tape_query;

/* Computes gradients. Those of arrays that the heads do not depend on are
 * zeros; that of a watched array is with respect to its value at its first use.
 * Without TN_TAPE_KEEP the tape drops its calls. On failure the tape is
 * unchanged, and the content of passed arrays is undefined. TN_TAPE_RECORD
 * needs an operator `<name>_grad` for every operator between; if one is
 * missing, the text of TN_UNSUPPORTED describes it. [host-thread] */
TN_API TN_MUST_USE tn_code tn_tape_gradient(tn_tape *tape,
                                            const tn_tape_query *query);

#ifdef __cplusplus
}
#endif
#endif /* TENON_HOST_TAPE_H_ */
