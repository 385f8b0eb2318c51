/* SPDX-License-Identifier: Apache-2.0
 * gather.c: comm.all_gather, broadcast and all_to_all. Elements are moved as
 * bytes, so every type is supported. A gradient of a mean is divided by the
 * number of ranks: then a mean over all ranks, of the array on one of them and
 * zeros on the others, replaces the move.
 */
#include "gather.gen.h"

#include "nccl_plugin.h"

enum { MEAN = 3 }; /* of the parameter `gradient_of` */

/* Adds: a mean over all ranks of zeros and, at `place` unless it is NULL, the
 * elements of `data`. */
static void add_mean(nccl_call *call, const tn_tensor *out, void *place,
                     const tn_tensor *data) {
  const size_t bytes = (size_t)tn_tensor_bytes(out);
  const nccl_piece fill = {.kind = NCCL_FILL, .to = out->data, .n = bytes};
  const nccl_piece copy = {.kind = NCCL_COPY,
                           .from = data->data,
                           .to = place,
                           .n = (size_t)tn_tensor_bytes(data)};
  if (!place || copy.n < bytes) nccl_add(call, &fill);
  if (place) nccl_add(call, &copy);
  nccl_add(call, &(nccl_piece){.kind = NCCL_ALL_REDUCE,
                               .type = nccl_get_type(out->dtype),
                               .op = NCCL_AVG,
                               .from = out->data,
                               .to = out->data,
                               .n = (size_t)tn_tensor_size(out)});
}

int32_t nccl_all_gather(const tn_frame *frame) {
  const comm_all_gather_params *p = comm_all_gather_params_of(frame);
  const tn_tensor *data = &frame->in[0], *out = &frame->out[0];
  const nccl_request request = {
      .name = "comm.all_gather", .group = p->group, .root = -1, .room = 3};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  if (p->gradient_of == MEAN)
    add_mean(call, out,
             (char *)out->data + call->group.rank * tn_tensor_bytes(data),
             data);
  else
    nccl_add_move(call, NCCL_ALL_GATHER, data,
                  &(nccl_piece){.from = data->data, .to = out->data});
  return nccl_push(call);
}

int32_t nccl_broadcast(const tn_frame *frame) {
  const comm_broadcast_params *p = comm_broadcast_params_of(frame);
  const tn_tensor *data = &frame->in[0], *out = &frame->out[0];
  const nccl_request request = {
      .name = "comm.broadcast", .group = p->group, .root = p->root, .room = 3};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  if (p->gradient_of == MEAN)
    add_mean(call, out, p->root == call->group.rank ? out->data : NULL, data);
  else
    nccl_add_move(
        call, NCCL_BROADCAST, data,
        &(nccl_piece){
            .peer = (int)p->root, .from = data->data, .to = out->data});
  return nccl_push(call);
}

/* A message to each rank, and one from each, this rank included. */
int32_t nccl_all_to_all(const tn_frame *frame) {
  const comm_all_to_all_params *p = comm_all_to_all_params_of(frame);
  const tn_tensor *data = &frame->in[0], *out = &frame->out[0];
  const nccl_request request = {
      .name = "comm.all_to_all", .group = p->group, .root = -1};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  const int64_t bytes = tn_tensor_bytes(data) / call->group.size;
  for (int r = 0; r < call->group.size; ++r) {
    nccl_piece piece = {
        .kind = NCCL_SEND, .type = NCCL_U8, .peer = r, .n = (size_t)bytes};
    piece.from = (const char *)data->data + r * bytes;
    nccl_add(call, &piece);
    piece.kind = NCCL_RECV;
    piece.to = (char *)out->data + r * bytes;
    nccl_add(call, &piece);
  }
  return nccl_push(call);
}
