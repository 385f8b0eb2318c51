/* SPDX-License-Identifier: Apache-2.0
 * operands.c: converts operands to the type of the computation, and back
 * (operands.h).
 */
#include "operands.h"

#include "tenon/kernel/kernel.h"

static uint64_t bytes_of(const tn_tensor *tensor) {
  const tn_dtype compute = tn_kernel_compute(tensor->dtype);
  if (tensor->dtype == compute) return 0;
  const uint64_t bytes =
      (uint64_t)(tn_tensor_size(tensor) * tn_dtype_bytes(compute));
  return (bytes + 63) / 64 * 64;
}

uint64_t nn_operands_bytes(const tn_frame *call) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < call->n_in; ++i)
    if (!(call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)))
      bytes += bytes_of(&call->in[i]);
  for (uint32_t i = 0; i < call->n_out; ++i)
    if (call->req[i] != TN_REQ_NULL) bytes += bytes_of(&call->out[i]);
  return bytes;
}

nn_operands nn_operands_open(const tn_frame *call, void *room) {
  return (nn_operands){.call = call,
                       .dtype = tn_kernel_compute(call->in[0].dtype),
                       .level = tn_kernel_level(call),
                       .room = room};
}

static void *take_room(nn_operands *x, const tn_tensor *tensor) {
  void *taken = x->room;
  x->room += bytes_of(tensor);
  return taken;
}

/* A tensor that is converted to or from `wide`. */
typedef struct crossing {
  const nn_operands *x;
  const tn_tensor *tensor;
  char *wide;
  int add;
} crossing;

static char *narrow_at(const crossing *c, int64_t i) {
  return (char *)c->tensor->data + i * tn_dtype_bytes(c->tensor->dtype);
}

static char *wide_at(const crossing *c, int64_t i) {
  return c->wide + i * tn_dtype_bytes(c->x->dtype);
}

static int32_t widen_slice(void *arg, int64_t begin, int64_t end) {
  const crossing *c = arg;
  const tn_kernel_mode mode = {c->x->dtype, c->x->level};
  tn_kernel_load_dense(wide_at(c, begin), &mode, narrow_at(c, begin),
                       c->tensor->dtype, end - begin);
  return TN_OK;
}

static int32_t narrow_slice(void *arg, int64_t begin, int64_t end) {
  const crossing *c = arg;
  const tn_kernel_mode mode = {c->x->dtype, c->x->level};
  const tn_dtype dtype = c->tensor->dtype;
  double old[TN_KERNEL_STAGE]; /* room for either type */
  for (int64_t i = begin; i < end; i += TN_KERNEL_STAGE) {
    const int64_t n = end - i < TN_KERNEL_STAGE ? end - i : TN_KERNEL_STAGE;
    if (c->add) {
      tn_kernel_load_dense(old, &mode, narrow_at(c, i), dtype, n);
      tn_kernel_add_dense(wide_at(c, i), old, &mode, n);
    }
    tn_kernel_store_dense(narrow_at(c, i), dtype, wide_at(c, i), &mode, n);
  }
  return TN_OK;
}

static void cross_types(crossing *c, tn_loop_body *body) {
  const tn_frame *call = c->x->call;
  const int64_t size = tn_tensor_size(c->tensor);
  if (size <= TN_KERNEL_GRAIN)
    (void)body(c, 0, size);
  else
    (void)call->host->parallel_for(call, size, TN_KERNEL_GRAIN, body, c);
}

void *nn_operands_in(nn_operands *x, uint32_t i) {
  const tn_tensor *in = &x->call->in[i];
  if (in->dtype == x->dtype || !in->data) return in->data;
  crossing c = {x, in, take_room(x, in), 0};
  cross_types(&c, widen_slice);
  return c.wide;
}

void *nn_operands_out(nn_operands *x, uint32_t i) {
  const tn_tensor *out = &x->call->out[i];
  return out->dtype == x->dtype ? out->data : take_room(x, out);
}

int nn_operands_adds(const nn_operands *x, uint32_t i) {
  return x->call->req[i] == TN_REQ_ADD && x->call->out[i].dtype == x->dtype;
}

void nn_operands_close(const nn_operands *x, uint32_t i, const void *from) {
  const tn_tensor *out = &x->call->out[i];
  if (out->dtype == x->dtype) return;
  crossing c = {x, out, (char *)(uintptr_t)from, x->call->req[i] == TN_REQ_ADD};
  cross_types(&c, narrow_slice);
}
