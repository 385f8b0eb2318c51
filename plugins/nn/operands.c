/* SPDX-License-Identifier: Apache-2.0
 * operands.c: converts operands to the type of the computation, and back
 * (operands.h).
 */
#include "operands.h"

#include "tenon/kernel/kernel.h"

/* Returns the bytes of workspace for the copy of an operand; 0 if it has the
 * type of the computation. */
static uint64_t count_wide_bytes(const tn_tensor *tensor) {
  const tn_dtype compute = tn_kernel_compute(tensor->dtype);
  if (tensor->dtype == compute) return 0;
  const uint64_t bytes =
      (uint64_t)(tn_tensor_size(tensor) * tn_dtype_bytes(compute));
  return (bytes + 63) / 64 * 64;
}

uint64_t nn_operands_count_bytes(const tn_frame *call) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < call->n_in; ++i)
    if (!(call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)))
      bytes += count_wide_bytes(&call->in[i]);
  for (uint32_t i = 0; i < call->n_out; ++i)
    if (call->req[i] != TN_REQ_NULL) bytes += count_wide_bytes(&call->out[i]);
  return bytes;
}

nn_operands nn_operands_open(const tn_frame *call, void *memory) {
  return (nn_operands){.call = call,
                       .dtype = tn_kernel_compute(call->in[0].dtype),
                       .level = tn_kernel_level(call),
                       .memory = memory};
}

/* Returns the next part of the workspace, for the copy of an operand. */
static void *take_workspace(nn_operands *x, const tn_tensor *tensor) {
  void *taken = x->memory;
  x->memory += count_wide_bytes(tensor);
  return taken;
}

/* The conversion between a tensor and its elements `wide` in the type of the
 * computation. */
typedef struct conversion {
  const nn_operands *x;
  const tn_tensor *tensor;
  char *wide;
  int add;
} conversion;

/* Returns the address of element i of the operand. */
static char *locate_narrow(const conversion *c, int64_t i) {
  return (char *)c->tensor->data + i * tn_dtype_bytes(c->tensor->dtype);
}

/* Returns the address of element i in the copy of the operand. */
static char *locate_wide(const conversion *c, int64_t i) {
  return c->wide + i * tn_dtype_bytes(c->x->dtype);
}

/* Converts elements [begin, end) of an operand to the type of the computation.
 */
static int32_t widen_slice(void *arg, int64_t begin, int64_t end) {
  const conversion *c = arg;
  const tn_kernel_mode mode = {c->x->dtype, c->x->level};
  tn_kernel_load_dense(locate_wide(c, begin), &mode, locate_narrow(c, begin),
                       c->tensor->dtype, end - begin);
  return TN_OK;
}

/* Converts elements [begin, end) of a result to the type of the operand; adds
 * the old elements first if the request is add. */
static int32_t narrow_slice(void *arg, int64_t begin, int64_t end) {
  const conversion *c = arg;
  const tn_kernel_mode mode = {c->x->dtype, c->x->level};
  const tn_dtype dtype = c->tensor->dtype;
  double old[TN_KERNEL_STAGE]; /* room for either type */
  for (int64_t i = begin; i < end; i += TN_KERNEL_STAGE) {
    const int64_t n = end - i < TN_KERNEL_STAGE ? end - i : TN_KERNEL_STAGE;
    if (c->add) {
      tn_kernel_load_dense(old, &mode, locate_narrow(c, i), dtype, n);
      tn_kernel_add_dense(locate_wide(c, i), old, &mode, n);
    }
    tn_kernel_store_dense(locate_narrow(c, i), dtype, locate_wide(c, i), &mode,
                          n);
  }
  return TN_OK;
}

/* Converts all elements of an operand, in slices if there are many. */
static void convert_elements(conversion *c, tn_loop_body *body) {
  const tn_frame *call = c->x->call;
  const int64_t size = tn_tensor_size(c->tensor);
  if (size <= TN_KERNEL_GRAIN)
    (void)body(c, 0, size);
  else
    (void)call->host->parallel_for(call, size, TN_KERNEL_GRAIN, body, c);
}

void *nn_operands_open_input(nn_operands *x, uint32_t i) {
  const tn_tensor *in = &x->call->in[i];
  if (in->dtype == x->dtype || !in->data) return in->data;
  conversion c = {x, in, take_workspace(x, in), 0};
  convert_elements(&c, widen_slice);
  return c.wide;
}

void *nn_operands_open_output(nn_operands *x, uint32_t i) {
  const tn_tensor *out = &x->call->out[i];
  return out->dtype == x->dtype ? out->data : take_workspace(x, out);
}

int nn_operands_is_added(const nn_operands *x, uint32_t i) {
  return x->call->req[i] == TN_REQ_ADD && x->call->out[i].dtype == x->dtype;
}

void nn_operands_close_output(const nn_operands *x, uint32_t i,
                              const void *from) {
  const tn_tensor *out = &x->call->out[i];
  if (out->dtype == x->dtype) return;
  conversion c = {x, out, (char *)(uintptr_t)from,
                  x->call->req[i] == TN_REQ_ADD};
  convert_elements(&c, narrow_slice);
}
