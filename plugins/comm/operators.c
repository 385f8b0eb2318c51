/* SPDX-License-Identifier: Apache-2.0
 * operators.c: the kernels of the operators on the CPU. Each describes its call
 * and passes it to the group.
 */
#include <string.h>

#include "barrier.gen.h"
#include "gather.gen.h"
#include "group.h"
#include "pairs.gen.h"
#include "reduce.gen.h"

/* Begins a call with all arrays of its frame. */
static int32_t submit_all(const tn_frame *call, const char *group,
                          comm_task model) {
  model.n = call->n_out;
  model.dtype = call->out[0].dtype;
  return comm_submit(call, group, &model);
}

/* ---------------------------------------------------------------- supports */

/* Refuses gradients of functions that have none, and means of integers. */
static int32_t check_op(const tn_frame *call, comm_op op, int gradient) {
  static const char *const names[] = {"sum", "max", "min", "mean", "prod"};
  const tn_dtype dtype = call->out[0].dtype;
  const int is_float =
      dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 || dtype == TN_F64;
  if (gradient && op != COMM_SUM && op != COMM_MEAN)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "op=%s has no gradient over ranks: one rank does not know "
                   "the elements of the others; sum and mean have one",
                   names[op]);
  if (op == COMM_MEAN && !is_float)
    return TN_FAIL(call, TN_UNSUPPORTED,
                   "op=mean is of floats only, because integers have no "
                   "fractions; use op=sum");
  return TN_OK;
}

int32_t comm_all_reduce_supports(const tn_frame *call) {
  return check_op(call, (comm_op)comm_all_reduce_params_of(call)->op,
                  (call->flags & TN_CALL_BACKWARD) != 0);
}

int32_t comm_reduce_scatter_supports(const tn_frame *call) {
  return check_op(call, (comm_op)comm_reduce_scatter_params_of(call)->op, 0);
}

int32_t comm_reduce_supports(const tn_frame *call) {
  return check_op(call, (comm_op)comm_reduce_params_of(call)->op, 0);
}

int32_t comm_all_gather_supports(const tn_frame *call) {
  return check_op(call, (comm_op)comm_all_gather_params_of(call)->gradient_of,
                  1);
}

int32_t comm_broadcast_supports(const tn_frame *call) {
  return check_op(call, (comm_op)comm_broadcast_params_of(call)->gradient_of,
                  1);
}

/* ------------------------------------------------------- calls of all ranks */

/* Also of gradients: the operands are those of a sum of the gradients. */
int32_t comm_all_reduce(const tn_frame *call) {
  const comm_all_reduce_params *p = comm_all_reduce_params_of(call);
  return submit_all(call, p->group,
                    (comm_task){.kind = COMM_ALL_REDUCE,
                                .op = (comm_op)p->op,
                                .peer = -1,
                                .pack = p->pack});
}

int32_t comm_reduce_scatter(const tn_frame *call) {
  const comm_reduce_scatter_params *p = comm_reduce_scatter_params_of(call);
  return submit_all(
      call, p->group,
      (comm_task){
          .kind = COMM_REDUCE_SCATTER, .op = (comm_op)p->op, .peer = -1});
}

/* A rank number as the tasks have it; a greater one is in no group. */
static int32_t rank_of(int64_t rank) {
  return rank > INT32_MAX ? INT32_MAX : (int32_t)rank;
}

int32_t comm_reduce(const tn_frame *call) {
  const comm_reduce_params *p = comm_reduce_params_of(call);
  return submit_all(
      call, p->group,
      (comm_task){
          .kind = COMM_REDUCE, .op = (comm_op)p->op, .peer = rank_of(p->root)});
}

int32_t comm_all_gather(const tn_frame *call) {
  const comm_all_gather_params *p = comm_all_gather_params_of(call);
  return submit_all(
      call, p->group,
      (comm_task){
          .kind = COMM_ALL_GATHER, .op = (comm_op)p->gradient_of, .peer = -1});
}

int32_t comm_broadcast(const tn_frame *call) {
  const comm_broadcast_params *p = comm_broadcast_params_of(call);
  return submit_all(call, p->group,
                    (comm_task){.kind = COMM_BROADCAST,
                                .op = (comm_op)p->gradient_of,
                                .peer = rank_of(p->root)});
}

int32_t comm_all_to_all(const tn_frame *call) {
  const comm_all_to_all_params *p = comm_all_to_all_params_of(call);
  return submit_all(call, p->group,
                    (comm_task){.kind = COMM_ALL_TO_ALL, .peer = -1});
}

int32_t comm_barrier(const tn_frame *call) {
  return submit_all(call, comm_barrier_params_of(call)->group,
                    (comm_task){.kind = COMM_BARRIER, .peer = -1});
}

/* ----------------------------------------------------------------- messages */

/* The array that is sent or received: operand `in` or output `out`; the other
 * is -1. */
static int32_t submit_message(const tn_frame *call, const char *group,
                              comm_task model, const tn_tensor *array) {
  model.n = 1;
  model.dtype = array->dtype;
  return comm_submit(call, group, &model);
}

int32_t comm_send(const tn_frame *call) {
  const comm_send_params *p = comm_send_params_of(call);
  return submit_message(call, p->group,
                        (comm_task){.kind = COMM_SEND,
                                    .peer = rank_of(p->to),
                                    .tag = 2 * (int32_t)p->tag,
                                    .service = p->service},
                        &call->in[COMM_SEND_IN_DATA]);
}

/* The tag of a gradient is odd. */
int32_t comm_send_backward(const tn_frame *call) {
  const comm_send_params *p = comm_send_params_of(call);
  return submit_message(call, p->group,
                        (comm_task){.kind = COMM_RECV,
                                    .peer = rank_of(p->to),
                                    .tag = 2 * (int32_t)p->tag + 1},
                        &call->out[0]);
}

int32_t comm_recv(const tn_frame *call) {
  const comm_recv_params *p = comm_recv_params_of(call);
  return submit_message(call, p->group,
                        (comm_task){.kind = COMM_RECV,
                                    .peer = rank_of(p->from),
                                    .tag = 2 * (int32_t)p->tag,
                                    .service = p->service},
                        &call->out[COMM_RECV_OUT_OUT]);
}

/* The gradient of `after` is zeros. */
int32_t comm_recv_backward(const tn_frame *call) {
  const comm_recv_params *p = comm_recv_params_of(call);
  const tn_tensor *after = &call->out[0];
  if (after->data) memset(after->data, 0, (size_t)tn_tensor_bytes(after));
  return submit_message(call, p->group,
                        (comm_task){.kind = COMM_SEND,
                                    .peer = rank_of(p->from),
                                    .tag = 2 * (int32_t)p->tag + 1},
                        &call->in[COMM_RECV_BACKWARD_GRAD_OUT]);
}
