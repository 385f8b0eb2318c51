/* SPDX-License-Identifier: Apache-2.0
 * pairs.c: comm.send and recv. NCCL has no tags: messages of two ranks arrive
 * in the order of the calls.
 */
#include "pairs.gen.h"

#include "nccl_plugin.h"

/* The request of a message from or to a rank. */
static nccl_request describe_message(const char *name, const char *group,
                                     int64_t peer) {
  return (nccl_request){
      .name = name, .group = group, .root = peer, .is_message = 1, .room = 2};
}

static int32_t send_array(const tn_frame *frame, const nccl_request *request,
                          const tn_tensor *array, const tn_tensor *zeros) {
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, request, &call);
  if (!call) return code;
  if (zeros && zeros->data)
    nccl_add(call, &(nccl_piece){.kind = NCCL_FILL,
                                 .to = zeros->data,
                                 .n = (size_t)tn_tensor_bytes(zeros)});
  nccl_add_move(call, NCCL_SEND, array,
                &(nccl_piece){.peer = (int)request->root, .from = array->data});
  return nccl_push(call);
}

static int32_t receive_array(const tn_frame *frame,
                             const nccl_request *request) {
  const tn_tensor *array = &frame->out[0];
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, request, &call);
  if (!call) return code;
  nccl_add_move(call, NCCL_RECV, array,
                &(nccl_piece){.peer = (int)request->root, .to = array->data});
  return nccl_push(call);
}

int32_t nccl_send(const tn_frame *frame) {
  const comm_send_params *p = comm_send_params_of(frame);
  const nccl_request request = describe_message("comm.send", p->group, p->to);
  return send_array(frame, &request, &frame->in[COMM_SEND_IN_DATA], NULL);
}

int32_t nccl_send_backward(const tn_frame *frame) {
  const comm_send_params *p = comm_send_params_of(frame);
  const nccl_request request = describe_message("comm.send", p->group, p->to);
  return receive_array(frame, &request);
}

int32_t nccl_recv(const tn_frame *frame) {
  const comm_recv_params *p = comm_recv_params_of(frame);
  const nccl_request request = describe_message("comm.recv", p->group, p->from);
  return receive_array(frame, &request);
}

/* The gradient of `after` is zeros. */
int32_t nccl_recv_backward(const tn_frame *frame) {
  const comm_recv_params *p = comm_recv_params_of(frame);
  const nccl_request request = describe_message("comm.recv", p->group, p->from);
  return send_array(frame, &request, &frame->in[COMM_RECV_BACKWARD_GRAD_OUT],
                    &frame->out[0]);
}
