/* SPDX-License-Identifier: Apache-2.0
 * solve.c: linalg.inverse, det, slogdet and solve, by LU factors of cuSOLVER
 * and cuBLAS. Singular matrices have a flag, and their results are NaN; their
 * determinants are 0.
 */
#include "solve.gen.h"

#include "cusolver.h"

/* The workspace of a call with matrices n x n. */
typedef struct factors {
  cusolver_parts parts;
  cusolver_sizes sizes;
  void *a; /* the factors */
  int32_t *pivots;
  void *rows; /* right-hand sides as rows, or NULL */
} factors;

/* Right-hand sides as rows need a copy, unless there is only one. */
static factors lay_out(const tn_frame *call, int64_t sides) {
  factors f = {.sizes = cusolver_find_sizes(&call->in[0])};
  f.parts = cusolver_begin_parts(call, f.sizes.count);
  f.a =
      cusolver_take(call, &f.parts.room, f.sizes.count * f.sizes.n * f.sizes.n);
  f.pivots = cusolver_take_numbers(&f.parts.room, f.sizes.count * f.sizes.n);
  if (sides > 1)
    f.rows =
        cusolver_take(call, &f.parts.room, f.sizes.count * f.sizes.n * sides);
  return f;
}

static tn_device_task describe_factors(const tn_frame *call, const factors *f) {
  tn_device_task task =
      cusolver_describe(call, &f->parts, TN_DEVICE_LU, &f->sizes);
  task.a = f->a;
  task.pivots = f->pivots;
  return task;
}

/* The task for `sides` right-hand sides, which are the rows of b. */
static tn_device_task describe_solve(const tn_frame *call, const factors *f,
                                     int64_t sides, void *b) {
  tn_device_task task = describe_factors(call, f);
  task.kind = TN_DEVICE_LU_SOLVE;
  task.m = sides;
  task.step_b = sides * task.n;
  task.b = b;
  return task;
}

static int32_t count_bytes(const tn_frame *call, const factors *f,
                           int64_t sides, uint64_t *bytes) {
  const tn_device_task tasks[] = {describe_factors(call, f),
                                  describe_solve(call, f, sides, NULL)};
  return cusolver_count_bytes(call, &f->parts, tasks, sides > 0 ? 2 : 1, bytes);
}

/* Computes the factors. `b` is the operand of a later task, or NULL; its list
 * is written here too. */
static int32_t factorise_matrices(const tn_frame *call, const factors *f,
                                  int64_t sides, void *b) {
  const tn_device_task lists = describe_solve(call, f, sides, b);
  const cusolver_move in =
      cusolver_move_all(&f->sizes, call->in[0].data, f->a, 0);
  tn_device_task lu = describe_factors(call, f);
  int32_t code = cusolver_begin(call, &f->parts, &lists);
  if (code == TN_OK) code = cusolver_copy_in(call, &f->parts.flags, &in);
  return code == TN_OK ? cusolver_run(call, &f->parts, &lu) : code;
}

/* ----------------------------------------------------------------- inverse */

int32_t cusolver_inverse_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_inverse_cuda_options_of(call)->least,
                         1);
}

int32_t cusolver_inverse_bytes(const tn_frame *call, uint64_t *bytes) {
  const factors f = lay_out(call, 0);
  return count_bytes(call, &f, f.sizes.n, bytes);
}

/* Rows of the inverse solve the transposed equations for rows of I. */
int32_t cusolver_inverse(const tn_frame *call) {
  const factors f = lay_out(call, 0);
  void *out = call->out[0].data;
  tn_device_task solve = describe_solve(call, &f, f.sizes.n, out);
  cusolver_move identity = cusolver_move_all(&f.sizes, NULL, out, 0);
  const cusolver_move last = cusolver_move_all(&f.sizes, out, out, 0);
  identity.part = CUSOLVER_IDENTITY;
  solve.flags = TN_DEVICE_TRANSPOSE;
  int32_t code = factorise_matrices(call, &f, f.sizes.n, out);
  if (code == TN_OK) code = cusolver_copy_in(call, &f.parts.flags, &identity);
  if (code == TN_OK) code = cusolver_run(call, &f.parts, &solve);
  return code == TN_OK ? cusolver_copy_out(call, &f.parts.flags, &last) : code;
}

/* ------------------------------------------------------------ determinants */

/* Output k, or NULL if it was not requested. */
static void *find_output(const tn_frame *call, uint32_t k) {
  return call->req[k] == TN_REQ_NULL ? NULL : call->out[k].data;
}

static int32_t run_determinants(const tn_frame *call, const factors *f,
                                cusolver_determinants *what) {
  what->n = f->sizes.n;
  what->factors = f->a;
  what->pivots = f->pivots;
  const int32_t code = factorise_matrices(call, f, 0, NULL);
  return code == TN_OK
             ? cusolver_write_determinants(call, &f->parts.flags, what)
             : code;
}

/* Of det and slogdet. */
int32_t cusolver_determinant_bytes(const tn_frame *call, uint64_t *bytes) {
  const factors f = lay_out(call, 0);
  return count_bytes(call, &f, 0, bytes);
}

int32_t cusolver_det_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_det_cuda_options_of(call)->least, 1);
}

int32_t cusolver_det(const tn_frame *call) {
  const factors f = lay_out(call, 0);
  return run_determinants(
      call, &f, &(cusolver_determinants){.det = find_output(call, 0)});
}

int32_t cusolver_slogdet_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_slogdet_cuda_options_of(call)->least,
                         1);
}

int32_t cusolver_slogdet(const tn_frame *call) {
  const factors f = lay_out(call, 0);
  return run_determinants(
      call, &f,
      &(cusolver_determinants){.sign = find_output(call, 0),
                               .logarithm = find_output(call, 1)});
}

/* ------------------------------------------------------------------- solve */

int32_t cusolver_solve_supports(const tn_frame *call) {
  return cusolver_decide(call, cusolver_solve_cuda_options_of(call)->least, 1);
}

int32_t cusolver_solve_bytes(const tn_frame *call, uint64_t *bytes) {
  const int64_t sides = cusolver_find_sizes(&call->in[1]).n;
  const factors f = lay_out(call, sides);
  return count_bytes(call, &f, sides, bytes);
}

/* Right-hand sides are columns, and a task has rows; a single one is both. */
int32_t cusolver_solve(const tn_frame *call) {
  const cusolver_sizes b = cusolver_find_sizes(&call->in[1]);
  const cusolver_sizes turned = {b.count, b.n, b.m};
  const factors f = lay_out(call, b.n);
  void *out = call->out[0].data;
  void *rows = b.n > 1 ? f.rows : out;
  tn_device_task solve = describe_solve(call, &f, b.n, rows);
  const cusolver_move in =
      cusolver_move_all(&turned, call->in[1].data, rows, b.n > 1);
  const cusolver_move last = cusolver_move_all(&b, rows, out, b.n > 1);
  int32_t code = factorise_matrices(call, &f, b.n, rows);
  if (code == TN_OK) code = cusolver_copy_out(call, &f.parts.flags, &in);
  if (code == TN_OK) code = cusolver_run(call, &f.parts, &solve);
  return code == TN_OK ? cusolver_copy_out(call, &f.parts.flags, &last) : code;
}
