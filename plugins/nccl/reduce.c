/* SPDX-License-Identifier: Apache-2.0
 * reduce.c: comm.all_reduce, reduce_scatter, reduce and barrier.
 */
#include "reduce.gen.h"

#include "nccl_plugin.h"

/* Values of the parameter `op`, in the order of the manifests of comm. */
enum { SUM, MAX, MIN, MEAN, PROD };

static const char *const op_names[] = {"sum", "max", "min", "mean", "prod"};

/* The function of NCCL. A sum of bools is true if one is. */
static int get_op(int64_t op, tn_dtype dtype) {
  static const int ops[] = {NCCL_SUM, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_PROD};
  if (dtype == TN_BOOL && op == SUM) return NCCL_MAX;
  if (dtype == TN_BOOL && op == PROD) return NCCL_MIN;
  return ops[op];
}

/* ---------------------------------------------------------------- decisions */

static int is_float(tn_dtype dtype) {
  return dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F32 ||
         dtype == TN_F64;
}

static int32_t check_op(const tn_frame *frame, int64_t op) {
  const tn_dtype dtype = frame->in[0].dtype;
  if ((frame->flags & TN_CALL_BACKWARD) && op != SUM && op != MEAN)
    return TN_FAIL(frame, TN_UNSUPPORTED,
                   "op=%s has no gradient over ranks; sum and mean have one",
                   op_names[op]);
  if (op == MEAN && !is_float(dtype))
    return TN_FAIL(frame, TN_UNSUPPORTED,
                   "op=mean is of floats only; use op=sum");
  if (nccl_get_type(dtype) >= 0) return TN_OK;
  return TN_FAIL(frame, TN_UNSUPPORTED,
                 "NCCL has no functions of %s; use integers of 8, 32 or 64 "
                 "bits, or an array on the cpu",
                 nccl_name_dtype(dtype));
}

int32_t nccl_all_reduce_supports(const tn_frame *frame) {
  return check_op(frame, comm_all_reduce_params_of(frame)->op);
}

int32_t nccl_reduce_scatter_supports(const tn_frame *frame) {
  return check_op(frame, comm_reduce_scatter_params_of(frame)->op);
}

int32_t nccl_reduce_supports(const tn_frame *frame) {
  return check_op(frame, comm_reduce_params_of(frame)->op);
}

/* -------------------------------------------------------------------- calls */

/* A piece with all elements of an array, computed in its type. */
static nccl_piece describe_piece(int kind, const tn_tensor *array, int64_t op) {
  return (nccl_piece){.kind = kind,
                      .type = nccl_get_type(array->dtype),
                      .op = get_op(op, array->dtype),
                      .n = (size_t)tn_tensor_size(array)};
}

/* Also of gradients: in[k] is the gradient of result k, and out[k] that of
 * array k. All ranks request the gradients of the same arrays. */
int32_t nccl_all_reduce(const tn_frame *frame) {
  const comm_all_reduce_params *p = comm_all_reduce_params_of(frame);
  const nccl_request request = {.name = "comm.all_reduce",
                                .group = p->group,
                                .op = op_names[p->op],
                                .root = -1,
                                .room = frame->n_out};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  for (uint32_t k = 0; k < frame->n_out; ++k) {
    if (frame->req[k] == TN_REQ_NULL) continue;
    nccl_piece piece = describe_piece(NCCL_ALL_REDUCE, &frame->in[k], p->op);
    piece.from = frame->in[k].data;
    piece.to = frame->out[k].data;
    nccl_add(call, &piece);
  }
  return nccl_push(call);
}

int32_t nccl_reduce_scatter(const tn_frame *frame) {
  const comm_reduce_scatter_params *p = comm_reduce_scatter_params_of(frame);
  const nccl_request request = {.name = "comm.reduce_scatter",
                                .group = p->group,
                                .op = op_names[p->op],
                                .root = -1,
                                .room = 1};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  nccl_piece piece = describe_piece(NCCL_REDUCE_SCATTER, &frame->out[0], p->op);
  piece.from = frame->in[0].data;
  piece.to = frame->out[0].data;
  nccl_add(call, &piece);
  return nccl_push(call);
}

/* All ranks but the root get zeros, after the input was sent: the output may
 * have its memory. */
int32_t nccl_reduce(const tn_frame *frame) {
  const comm_reduce_params *p = comm_reduce_params_of(frame);
  const nccl_request request = {.name = "comm.reduce",
                                .group = p->group,
                                .op = op_names[p->op],
                                .root = p->root,
                                .room = 2};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  nccl_piece piece = describe_piece(NCCL_REDUCE, &frame->in[0], p->op);
  piece.peer = (int)p->root;
  piece.from = frame->in[0].data;
  piece.to = frame->out[0].data;
  nccl_add(call, &piece);
  if (p->root != call->group.rank)
    nccl_add(call, &(nccl_piece){.kind = NCCL_FILL,
                                 .to = frame->out[0].data,
                                 .n = (size_t)tn_tensor_bytes(&frame->out[0])});
  return nccl_push(call);
}

/* Each rank adds 1 to the number of ranks. The number is little-endian, as GPUs
 * are. */
int32_t nccl_barrier(const tn_frame *frame) {
  const nccl_request request = {.name = "comm.barrier",
                                .group = comm_barrier_params_of(frame)->group,
                                .root = -1,
                                .room = 3};
  nccl_call *call = NULL;
  const int32_t code = nccl_begin(frame, &request, &call);
  if (!call) return code;
  nccl_piece piece = describe_piece(NCCL_ALL_REDUCE, &frame->out[0], SUM);
  nccl_piece fill = {.kind = NCCL_FILL, .to = frame->out[0].data};
  piece.from = piece.to = frame->out[0].data;
  fill.n = sizeof(int64_t);
  nccl_add(call, &fill);
  fill.n = 1;
  fill.byte = 1;
  nccl_add(call, &fill);
  nccl_add(call, &piece);
  return nccl_push(call);
}
