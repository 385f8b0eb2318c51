/* SPDX-License-Identifier: Apache-2.0
 * logsumexp.c: logsumexp by reductions and loops over elements (reduce.h), on
 * every device: the largest elements m of the lines, exp(data - m) in a
 * workspace, their sums, and m plus the logarithms of these.
 */
#include "reduce.h"
#include "scan.gen.h"

/* A dense tensor in the workspace. */
typedef struct room {
  tn_tensor tensor;
  int64_t shape[TN_MAX_NDIM];
  int64_t strides[TN_MAX_NDIM];
  uint64_t at; /* offset in bytes */
} room;

/* The steps between data and out. */
typedef struct steps {
  uint32_t axes;
  room most, powers, sums;
  uint64_t reduction; /* offset of the workspace of the reductions */
  uint64_t bytes;     /* of all */
} steps;

/* Plans a tensor with the shape of `like`, at the end of the workspace. */
static void plan_room(steps *s, room *r, const tn_tensor *like,
                      tn_dtype dtype) {
  int64_t step = 1;
  r->at = s->bytes;
  r->tensor = *like;
  r->tensor.dtype = dtype;
  r->tensor.data = NULL;
  r->tensor.shape = r->shape;
  r->tensor.strides = r->strides;
  for (int32_t d = like->ndim; d-- > 0; step *= like->shape[d]) {
    r->shape[d] = like->shape[d];
    r->strides[d] = step;
  }
  s->bytes += ((uint64_t)(step * tn_dtype_bytes(dtype)) + 63) / 64 * 64;
}

static int32_t plan_steps(const tn_frame *call, steps *s) {
  const tn_tensor *data = &call->in[0], *out = &call->out[0];
  const int32_t code = reduce_read_axes(call, data->ndim, &s->axes);
  s->bytes = 0;
  if (code != TN_OK) return code;
  plan_room(s, &s->most, out, data->dtype);
  plan_room(s, &s->powers, data, data->dtype == TN_F64 ? TN_F64 : TN_F32);
  plan_room(s, &s->sums, out, TN_F64);
  s->reduction = s->bytes;
  const uint64_t first = reduce_count_bytes(data, &s->most.tensor, s->axes);
  const uint64_t second =
      reduce_count_bytes(&s->powers.tensor, &s->sums.tensor, s->axes);
  s->bytes += first > second ? first : second;
  return TN_OK;
}

int32_t tensor_logsumexp_bytes(const tn_frame *call, uint64_t *bytes) {
  steps s;
  *bytes = 0;
  if (call->flags & TN_CALL_BACKWARD) return TN_OK;
  const int32_t code = plan_steps(call, &s);
  if (code == TN_OK) *bytes = s.bytes;
  return code;
}

static int32_t reduce_to(const tn_frame *call, const steps *s,
                         const reduce_op *op, const tn_tensor *in,
                         const tn_tensor *out) {
  char *at = (char *)call->ws[0] + s->reduction;
  const int has_room = reduce_count_bytes(in, out, s->axes) > 0;
  const reduce_run run = {.call = call,
                          .op = op,
                          .in = in,
                          .out = out,
                          .axes = s->axes,
                          .req = TN_REQ_WRITE,
                          .workspace = has_room ? at : NULL};
  return reduce_compute(&run);
}

/* Applies a rule to the elements of two tensors. */
static int32_t apply_rule(const tn_frame *call, const reduce_gradient *rule,
                          const tn_tensor *pair, const tn_tensor *out,
                          const tn_req *req) {
  tn_frame own = *call;
  own.in = pair;
  own.n_in = 2;
  own.out = out;
  own.n_out = 1;
  own.req = req;
  own.params = NULL;
  own.prepared = NULL;
  return reduce_run_gradient(&own, rule);
}

int32_t tensor_logsumexp(const tn_frame *call) {
  static const tn_req writes = TN_REQ_WRITE;
  const tn_tensor *data = &call->in[0];
  steps s;
  reduce_repeated most;
  int32_t code = plan_steps(call, &s);
  if (code != TN_OK || tn_tensor_size(&call->out[0]) == 0) return code;
  room *const rooms[] = {&s.most, &s.powers, &s.sums};
  for (int i = 0; i < 3; ++i)
    rooms[i]->tensor.data = (char *)call->ws[0] + rooms[i]->at;
  code = reduce_to(call, &s, &reduce_max, data, &s.most.tensor);
  if (code != TN_OK) return code;
  reduce_repeat_along(&most, &s.most.tensor, data, s.axes);
  const tn_tensor elements[] = {*data, most.tensor};
  if (tn_tensor_size(data) > 0)
    code = apply_rule(call, &reduce_gradient_power, elements, &s.powers.tensor,
                      &writes);
  if (code == TN_OK)
    code = reduce_to(call, &s, &reduce_sum, &s.powers.tensor, &s.sums.tensor);
  const tn_tensor results[] = {s.sums.tensor, s.most.tensor};
  return code == TN_OK ? apply_rule(call, &reduce_gradient_logarithm, results,
                                    call->out, call->req)
                       : code;
}
