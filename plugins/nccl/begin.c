/* SPDX-License-Identifier: Apache-2.0
 * begin.c: the part of a call that its kernel does. It lists the pieces,
 * records the point at which its inputs are complete, and hands the call to the
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "nccl_plugin.h"

int nccl_get_type(tn_dtype dtype) {
  switch (dtype) {
    case TN_BOOL: /* 0 and 1: max is `or`, min is `and` */
    case TN_U8:
      return NCCL_U8;
    case TN_I8:
      return NCCL_I8;
    case TN_I32:
      return NCCL_I32;
    case TN_U32:
      return NCCL_U32;
    case TN_I64:
      return NCCL_I64;
    case TN_U64:
      return NCCL_U64;
    case TN_F16:
      return NCCL_F16;
    case TN_BF16:
      return NCCL_BF16;
    case TN_F32:
      return NCCL_F32;
    case TN_F64:
      return NCCL_F64;
    default:
      return -1;
  }
}

const char *nccl_name_dtype(tn_dtype dtype) {
  static const char *const names[] = {
      [TN_BOOL] = "bool", [TN_F16] = "f16", [TN_BF16] = "bf16",
      [TN_F32] = "f32",   [TN_F64] = "f64", [TN_I8] = "i8",
      [TN_U8] = "u8",     [TN_I16] = "i16", [TN_U16] = "u16",
      [TN_I32] = "i32",   [TN_U32] = "u32", [TN_I64] = "i64",
      [TN_U64] = "u64"};
  const size_t n = sizeof names / sizeof *names;
  return (size_t)dtype < n && names[dtype] ? names[dtype] : "?";
}

/* The call cannot run, and others may wait for it: the group is broken. */
static void tell_group(const tn_frame *frame, const tn_comm_group *group,
                       const nccl_request *request) {
  const nccl_instance *self = frame->instance;
  char text[160];
  (void)snprintf(text, sizeof text,
                 "%s: an input carries an error, so this rank made no call",
                 request->name);
  if (self->comm->fail)
    (void)self->comm->fail(self->comm->ctx, group->id, TN_INVALID, text);
}

/* Fails unless the ranks in the call are in the group. */
static int32_t check_root(const tn_frame *frame, const tn_comm_group *group,
                          const nccl_request *request) {
  if (request->root < group->size) return TN_OK;
  return TN_FAIL(frame, TN_OUT_OF_RANGE,
                 "rank %lld is not in group `%s`, which has %d ranks",
                 (long long)request->root, group->name, (int)group->size);
}

int32_t nccl_begin(const tn_frame *frame, const nccl_request *request,
                   nccl_call **out) {
  nccl_instance *self = frame->instance;
  tn_comm_group group = {.struct_size = sizeof group};
  tn_comm_reason why = {""};
  *out = NULL;
  int32_t code =
      self->comm->find(self->comm->ctx, request->group, &group, &why);
  if (code != TN_OK) return TN_FAIL(frame, code, "%s", why.text);
  if (frame->flags & TN_CALL_TOLD) {
    tell_group(frame, &group, request);
    return TN_OK;
  }
  code = check_root(frame, &group, request);
  if (code != TN_OK) return code;
  const uint32_t room = request->room + 2 * (uint32_t)group.size;
  nccl_call *call = malloc(sizeof *call + room * sizeof *call->pieces);
  if (!call) return TN_FAIL(frame, TN_OUT_OF_MEMORY, "no memory for a call");
  *call = (nccl_call){.frame = frame, .group = group, .request = *request};
  *out = call;
  return TN_OK;
}

void nccl_add(nccl_call *call, const nccl_piece *piece) {
  if (piece->n > 0) call->pieces[call->n++] = *piece;
}

void nccl_add_move(nccl_call *call, int kind, const tn_tensor *array,
                   const nccl_piece *piece) {
  nccl_piece p = *piece;
  p.kind = kind;
  p.type = NCCL_U8;
  p.n = (size_t)tn_tensor_bytes(array);
  nccl_add(call, &p);
}

/* Records the event after which the stream of the call has made the inputs. */
static int32_t record_ready(nccl_call *call) {
  const tn_frame *frame = call->frame;
  nccl_instance *self = frame->instance;
  const int32_t id = frame->run->device_id;
  tn_device_error error = {.struct_size = sizeof error};
  tn_comm_reason why;
  int32_t code = self->scope->enter(self->scope, id, &error);
  if (code != TN_OK) return TN_FAIL(frame, code, "%s", error.text);
  int result = self->library.event_create(&call->ready, DRIVER_EVENT_NO_TIMING);
  if (result == DRIVER_OK)
    result = self->library.event_record(call->ready, frame->run->stream);
  if (result != DRIVER_OK)
    code = nccl_explain_driver(self, id, result, "an event", &why);
  if (result != DRIVER_OK && call->ready)
    (void)self->library.event_destroy(call->ready);
  self->scope->leave(self->scope, id);
  return code == TN_OK ? TN_OK : TN_FAIL(frame, code, "%s", why.text);
}

int32_t nccl_push(nccl_call *call) {
  const tn_frame *frame = call->frame;
  call->later = frame->host->defer(frame);
  int32_t code = call->later ? TN_OK : TN_UNSUPPORTED; /* the host has a text */
  if (code == TN_OK) code = record_ready(call);
  if (code != TN_OK) {
    free(call);
    return code;
  }
  nccl_hand_over(frame->instance, call);
  return TN_LATER;
}
