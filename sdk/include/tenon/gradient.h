/* SPDX-License-Identifier: Apache-2.0
 * gradient.h: the gradients of one call, for tools that have the call's arrays
 * and no tape: by the operator's backward kernel, or, if its gradient is a
 * graph of other operators (TN_GRADIENT_GRAPH), by a tape that records the call
 * again. Programs that differentiate use a tape from the start.
 *
 * Header only, C11 and C++.
 */
#ifndef TENON_GRADIENT_H_
#define TENON_GRADIENT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

/* The query of a tape; lists with room for every operand. */
typedef struct tn__gradient_lists {
  tn_array **memory; /* memory of all lists */
  tn_array **out;    /* of the call on the tape, released at the end */
  tn_array **heads;
  tn_array **weights;
  size_t n_heads;
  tn_array **of;
  tn_array **grads;
  tn_req *req;
  size_t n;
} tn__gradient_lists;

static inline tn_req tn__gradient_asked(const tn_backward *call, size_t i) {
  return call->in_grads.req != NULL ? call->in_grads.req[i]
                                    : (tn_req)TN_REQ_WRITE;
}

static inline bool tn__gradient_room(const tn_backward *call,
                                     tn__gradient_lists *l) {
  const size_t n_out = call->outputs.n + call->out_grads.n;
  const size_t n_in = call->in_grads.n;
  l->memory = (tn_array **)calloc(3 * n_out + 2 * n_in + 1, sizeof *l->memory);
  l->req = (tn_req *)calloc(n_in + 1, sizeof *l->req);
  if (l->memory == NULL || l->req == NULL) return false;
  l->out = l->memory;
  l->heads = l->out + n_out;
  l->weights = l->heads + n_out;
  l->of = l->weights + n_out;
  l->grads = l->of + n_in;
  return true;
}

/* Runs the call on the tape; watches the inputs with requested gradients. */
static inline tn_code tn__gradient_record(tn_tape *tape, tn_operator *op,
                                          const tn_backward *call,
                                          tn__gradient_lists *l) {
  const tn_outputs out = {call->outputs.n, l->out, NULL};
  tn_code rc = TN_OK;
  for (size_t i = 0; i < call->in_grads.n && rc == TN_OK; ++i) {
    if (tn__gradient_asked(call, i) == TN_REQ_NULL) continue;
    l->of[l->n] = call->inputs.arrays[i];
    l->grads[l->n] = call->in_grads.arrays[i];
    l->req[l->n] = tn__gradient_asked(call, i);
    rc = tn_tape_watch(tape, l->of[l->n++]);
  }
  /* Integers have no gradient, like in backward kernels. */
  if (rc != TN_OK) return rc == TN_DTYPE ? TN_UNSUPPORTED : rc;
  return (call->flags & TN_CALL_TRAIN) != 0
             ? tn_tape_call_train(tape, op, &call->inputs, call->params, &out)
             : tn_tape_call(tape, op, &call->inputs, call->params, &out);
}

/* Computes the gradients of the recorded call. */
static inline tn_code tn__gradient_ask(tn_tape *tape, const tn_backward *call,
                                       tn__gradient_lists *l) {
  for (size_t i = 0; i < call->outputs.n && i < call->out_grads.n; ++i) {
    if (call->out_grads.arrays[i] == NULL || l->out[i] == NULL) continue;
    l->heads[l->n_heads] = l->out[i];
    l->weights[l->n_heads++] = call->out_grads.arrays[i];
  }
  tn_tape_query query;
  memset(&query, 0, sizeof query);
  query.struct_size = sizeof query;
  query.heads.n = query.head_gradients.n = l->n_heads;
  query.heads.arrays = l->heads;
  query.head_gradients.arrays = l->weights;
  query.of.n = query.gradients.n = l->n;
  query.of.arrays = l->of;
  query.gradients.arrays = l->grads;
  query.gradients.req = l->req;
  const tn_code rc = tn_tape_gradient(tape, &query);
  size_t n = 0;
  for (size_t i = 0; i < call->in_grads.n && rc == TN_OK; ++i)
    if (tn__gradient_asked(call, i) != TN_REQ_NULL)
      call->in_grads.arrays[i] = l->grads[n++];
  return rc;
}

static inline tn_code tn__gradient_by_tape(tn_runtime *rt, tn_operator *op,
                                           const tn_backward *call) {
  tn__gradient_lists l;
  tn_tape *tape = NULL;
  memset(&l, 0, sizeof l);
  tn_code rc = tn_tape_create(rt, &tape);
  if (rc == TN_OK && !tn__gradient_room(call, &l)) rc = TN_OUT_OF_MEMORY;
  if (rc == TN_OK) rc = tn__gradient_record(tape, op, call, &l);
  if (rc == TN_OK) rc = tn__gradient_ask(tape, call, &l);
  for (size_t i = 0; l.out != NULL && i < call->outputs.n; ++i)
    tn_array_release(l.out[i]);
  tn_tape_release(tape);
  free(l.memory);
  free(l.req);
  return rc;
}

/* Like tn_call_backward, for gradients of either kind; every output must have
 * its place in call->outputs. [host-thread] */
static inline tn_code tn_gradient_call(tn_runtime *rt, tn_operator *op,
                                       const tn_backward *call) {
  const tn_gradient *g = tn_operator_desc(op)->gradient;
  return g != NULL && g->kind == TN_GRADIENT_GRAPH
             ? tn__gradient_by_tape(rt, op, call)
             : tn_call_backward(rt, op, call);
}

#endif /* TENON_GRADIENT_H_ */
