/* SPDX-License-Identifier: Apache-2.0
 * spectral.c: linalg.syevd and svd, by syevd and gesvd of cuSOLVER. gesvd has
 * no code for a row-major matrix with more rows than columns, so svd transposes
 * such a matrix into the workspace.
 */
#include "spectral.gen.h"

#include "cusolver.h"

/* Writes output 1, the values; NaN for a matrix with a flag. */
static int32_t write_values(const tn_frame *call, const cusolver_parts *parts,
                            int64_t n, void *values) {
  const cusolver_sizes sizes = {parts->flags.count, n, 1};
  const cusolver_move move = cusolver_move_all(&sizes, values, values, 0);
  return cusolver_write_output(call, parts, 1, &move);
}

/* ------------------------------------------------------------------- syevd */

typedef struct eigen {
  cusolver_parts parts;
  cusolver_sizes sizes;
  tn_device_task task;
} eigen;

static eigen lay_out_eigen(const tn_frame *call) {
  eigen e = {.sizes = cusolver_find_sizes(&call->in[0])};
  e.parts = cusolver_begin_parts(call, e.sizes.count);
  e.task = cusolver_describe(call, &e.parts, TN_DEVICE_EIGEN, &e.sizes);
  e.task.a = cusolver_take_output(call, &e.parts.room, 0);
  e.task.values = cusolver_take_output(call, &e.parts.room, 1);
  return e;
}

int32_t cusolver_syevd_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_syevd_cuda_options_of(call)->least, 0);
}

int32_t cusolver_syevd_bytes(const tn_frame *call, uint64_t *bytes) {
  const eigen e = lay_out_eigen(call);
  return cusolver_count_bytes(call, &e.parts, &e.task, 1, bytes);
}

int32_t cusolver_syevd(const tn_frame *call) {
  eigen e = lay_out_eigen(call);
  const int64_t n = e.sizes.n;
  const cusolver_vectors rows = {e.task.a, n, 1, n};
  cusolver_move in = cusolver_move_all(&e.sizes, call->in[0].data, e.task.a, 0);
  in.part = CUSOLVER_MIRROR_LOWER;
  int32_t code = cusolver_run_first(call, &e.parts, &e.task, &in);
  if (code == TN_OK && call->req[0] != TN_REQ_NULL)
    code = cusolver_choose_signs(call, &e.parts.flags, n, &rows, NULL);
  return code == TN_OK ? write_values(call, &e.parts, n, e.task.values) : code;
}

/* --------------------------------------------------------------------- svd */

typedef struct singular {
  cusolver_parts parts;
  cusolver_sizes wide; /* m <= n: of the input, or of its transpose */
  int transposes;      /* the input has more rows than columns */
  tn_device_task task;
} singular;

/* A task for a transpose computes V as its b, and U as its c, both transposed.
 * They are in the workspace, and cusolver_svd transposes them to the outputs.
 */
static singular lay_out_singular(const tn_frame *call) {
  const cusolver_sizes in = cusolver_find_sizes(&call->in[0]);
  singular s = {.wide = in, .transposes = in.m > in.n};
  if (s.transposes) s.wide = (cusolver_sizes){in.count, in.n, in.m};
  const int64_t count = in.count, k = s.wide.m;
  s.parts = cusolver_begin_parts(call, count);
  s.task = cusolver_describe(call, &s.parts, TN_DEVICE_SVD, &s.wide);
  s.task.ldb = k;
  s.task.step_b = k * k;
  s.task.a = cusolver_take(call, &s.parts.room, count * k * s.wide.n);
  s.task.values = cusolver_take_output(call, &s.parts.room, 1);
  if (s.transposes) {
    s.task.b = cusolver_take(call, &s.parts.room, count * k * k);
    s.task.c = cusolver_take(call, &s.parts.room, count * k * s.wide.n);
  } else {
    s.task.b = cusolver_take_output(call, &s.parts.room, 0);
    s.task.c = cusolver_take_output(call, &s.parts.room, 2);
  }
  return s;
}

int32_t cusolver_svd_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_svd_cuda_options_of(call)->least, 0);
}

int32_t cusolver_svd_bytes(const tn_frame *call, uint64_t *bytes) {
  const singular s = lay_out_singular(call);
  return cusolver_count_bytes(call, &s.parts, &s.task, 1, bytes);
}

/* Makes the largest element of each left singular vector positive: a column of
 * b, or a row of c. */
static int32_t choose_signs(const tn_frame *call, const singular *s) {
  const int64_t k = s->wide.m, n = s->wide.n;
  const cusolver_vectors columns = {s->task.b, k, k, 1};
  const cusolver_vectors rows = {s->task.c, n, 1, n};
  return cusolver_choose_signs(call, &s->parts.flags, k,
                               s->transposes ? &rows : &columns,
                               s->transposes ? &columns : &rows);
}

/* Writes output k as the transpose of `from`. */
static int32_t write_transpose(const tn_frame *call, const singular *s,
                               uint32_t k, const void *from) {
  const cusolver_sizes sizes = cusolver_find_sizes(&call->out[k]);
  const cusolver_move move =
      cusolver_move_all(&sizes, from, call->out[k].data, 1);
  return cusolver_write_output(call, &s->parts, k, &move);
}

int32_t cusolver_svd(const tn_frame *call) {
  singular s = lay_out_singular(call);
  const cusolver_move in =
      cusolver_move_all(&s.wide, call->in[0].data, s.task.a, s.transposes);
  int32_t code = cusolver_run_first(call, &s.parts, &s.task, &in);
  if (code == TN_OK) code = choose_signs(call, &s);
  if (code == TN_OK)
    code = write_values(call, &s.parts, s.wide.m, s.task.values);
  if (code == TN_OK && s.transposes)
    code = write_transpose(call, &s, 0, s.task.c);
  return code == TN_OK && s.transposes ? write_transpose(call, &s, 2, s.task.b)
                                       : code;
}
