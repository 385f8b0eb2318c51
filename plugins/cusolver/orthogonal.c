/* SPDX-License-Identifier: Apache-2.0
 * orthogonal.c: linalg.gelqf and qr, by the reflections of cuSOLVER. LQ works
 * in the memory of its output. QR is LQ of the transpose, which is in the
 * workspace.
 */
#include "orthogonal.gen.h"

#include "cusolver.h"

/* The wide matrices of a call, m <= n: those of the input, or their
 * transposes. */
typedef struct reflections {
  cusolver_parts parts;
  cusolver_sizes wide;
  void *a;
  void *factors; /* m of a matrix */
} reflections;

static reflections lay_out(const tn_frame *call, int transposes) {
  const cusolver_sizes in = cusolver_find_sizes(&call->in[0]);
  reflections r = {.wide = in};
  if (transposes) r.wide = (cusolver_sizes){in.count, in.n, in.m};
  r.parts = cusolver_begin_parts(call, in.count);
  r.a = transposes ? cusolver_take(call, &r.parts.room, in.count * in.m * in.n)
                   : cusolver_take_output(call, &r.parts.room, 0);
  r.factors = cusolver_take(call, &r.parts.room, in.count * r.wide.m);
  return r;
}

static tn_device_task describe_task(const tn_frame *call, const reflections *r,
                                    uint32_t kind) {
  tn_device_task task = cusolver_describe(call, &r->parts, kind, &r->wide);
  task.a = r->a;
  task.values = r->factors;
  return task;
}

static int32_t count_bytes(const tn_frame *call, int transposes,
                           uint64_t *bytes) {
  const reflections r = lay_out(call, transposes);
  const tn_device_task tasks[] = {describe_task(call, &r, TN_DEVICE_LQ),
                                  describe_task(call, &r, TN_DEVICE_LQ_ROWS)};
  return cusolver_count_bytes(call, &r.parts, tasks, 2, bytes);
}

/* Writes the triangle, which is the left part of a: L, or its transpose R. */
static int32_t write_triangle(const tn_frame *call, const reflections *r,
                              int transposes) {
  const cusolver_move move = {
      .rows = r->wide.m,
      .columns = r->wide.m,
      .from = r->a,
      .ld = r->wide.n,
      .step = r->wide.m * r->wide.n,
      .to = call->out[1].data,
      .part = transposes ? CUSOLVER_UPPER : CUSOLVER_LOWER,
      .transposes = transposes};
  return cusolver_write_output(call, &r->parts, 1, &move);
}

static int32_t write_q(const tn_frame *call, const reflections *r,
                       int transposes) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->out[0]);
  tn_device_task rows = describe_task(call, r, TN_DEVICE_LQ_ROWS);
  const cusolver_move move =
      cusolver_move_all(&sizes, r->a, call->out[0].data, transposes);
  if (call->req[0] == TN_REQ_NULL) return TN_OK;
  const int32_t code = cusolver_run(call, &r->parts, &rows);
  return code == TN_OK ? cusolver_copy_out(call, &r->parts.flags, &move) : code;
}

static int32_t run_call(const tn_frame *call, int transposes) {
  const reflections r = lay_out(call, transposes);
  tn_device_task lq = describe_task(call, &r, TN_DEVICE_LQ);
  const cusolver_move in =
      cusolver_move_all(&r.wide, call->in[0].data, r.a, transposes);
  int32_t code = cusolver_run_first(call, &r.parts, &lq, &in);
  if (code == TN_OK) code = write_triangle(call, &r, transposes);
  return code == TN_OK ? write_q(call, &r, transposes) : code;
}

int32_t cusolver_gelqf_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_gelqf_cuda_options_of(call)->least, 0);
}

int32_t cusolver_gelqf_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, 0, bytes);
}

int32_t cusolver_gelqf(const tn_frame *call) {
  return run_call(call, 0);
}

int32_t cusolver_qr_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_qr_cuda_options_of(call)->least, 0);
}

int32_t cusolver_qr_bytes(const tn_frame *call, uint64_t *bytes) {
  return count_bytes(call, 1, bytes);
}

int32_t cusolver_qr(const tn_frame *call) {
  return run_call(call, 1);
}
