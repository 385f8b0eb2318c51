/* SPDX-License-Identifier: Apache-2.0
 * Tasks of plugins/cusolver ("lapack.cuda/1"), requested as a kernel does, on
 * the simulated driver with the simulated cuSOLVER and cuBLAS; libraries that
 * are missing or unusable; statuses of the libraries. Expected values are
 * computed by hand.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "../host_failure.h"
#include "../must.h"
#include "bare_device.h"
#include "cusolver.h"
#include "fake_lapack.h"

enum { N = 32, ROOM = 1024 }; /* numbers of a test; bytes after them */

static bare_device device;
static cusolver_instance self;
static double *memory; /* N numbers of the device, then ROOM bytes twice */
static tn_run run = {.struct_size = sizeof run, .device_type = TN_DEVICE_CUDA};

static const tn_host host = {.struct_size = sizeof host, .fail = store_failure};
static const tn_frame frame = {
    .struct_size = sizeof frame, .host = &host, .run = &run};

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, failure)

static void setup(void) {
  open_bare(&device, 0, N * sizeof *memory + 2 * ROOM);
  cuda_scope_fill(&device.cuda);
  self.scope = &device.cuda.scope;
  cr_assert(solver_open(&self.library, solver_names, failure), "%s", failure);
  OK(cusolver_lapack_open(&self));
  memory = (double *)(void *)device.memory;
  run.stream = cuda_queue_stream(&device.cuda, device.queue);
}

static void teardown(void) {
  free_bare(&device);
  cusolver_lapack_close(&self);
  solver_close(&self.library);
  close_bare(&device);
}

TestSuite(solver_tasks, .init = setup, .fini = teardown);

/* Numbers of 32 bits after the matrices: info, then pivots. */
static int32_t *get_numbers(void) {
  return (int32_t *)(void *)(memory + N);
}

/* A task for matrices m x n that begin with element 0. */
static tn_device_task describe_task(uint32_t kind, int64_t m, int64_t n) {
  return (tn_device_task){.struct_size = sizeof(tn_device_task),
                          .kind = kind,
                          .dtype = TN_F64,
                          .m = m,
                          .n = n,
                          .lda = n,
                          .ldb = n,
                          .ldc = n,
                          .count = 1,
                          .alpha = 1,
                          .a = memory,
                          .info = get_numbers(),
                          .pivots = get_numbers() + 8};
}

/* Replaces v by the result; returns info. */
static int32_t compute(tn_device_task task, double v[N]) {
  const tn_device_lapack *lapack = &self.lapack;
  int32_t info = 0;
  OK(lapack->plan(lapack, &frame, &task, &task.ws_bytes));
  cr_assert(task.ws_bytes <= ROOM);
  task.ws = (char *)(memory + N) + ROOM;
  put_bytes(&device, get_numbers(), &info, sizeof info);
  put_bytes(&device, memory, v, N * sizeof *v);
  OK(lapack->run(lapack, &frame, &task));
  get_bytes(&device, v, memory, N * sizeof *v);
  get_bytes(&device, &info, get_numbers(), sizeof info);
  return info;
}

static void expect(const double *have, const double *want, size_t n) {
  for (size_t i = 0; i < n; ++i)
    cr_assert(have[i] - want[i] < 1e-12 && want[i] - have[i] < 1e-12,
              "element %zu is %.17g, not %.17g", i, have[i], want[i]);
}

/* (2 0; 1 3) times its transpose is (4 2; 2 10). */
Test(solver_tasks, factorise_one_triangle) {
  double v[N] = {4, -7, 2, 10}, u[N] = {4, 2, -7, 10};
  tn_device_task task = describe_task(TN_DEVICE_CHOLESKY, 2, 2);
  cr_expect_eq(compute(task, v), 0);
  expect((const double[]){v[0], v[2], v[3]}, (const double[]){2, 1, 3}, 3);
  task.flags = TN_DEVICE_UPPER;
  cr_expect_eq(compute(task, u), 0);
  expect((const double[]){u[0], u[1], u[3]}, (const double[]){2, 1, 3}, 3);
}

Test(solver_tasks, report_the_minor_that_is_not_positive) {
  double v[N] = {4, 0, 2, 1};
  cr_expect_eq(compute(describe_task(TN_DEVICE_CHOLESKY, 2, 2), v), 2);
}

/* The inverse of (4 2; 2 10) is (10 -2; -2 4) / 36. */
Test(solver_tasks, invert_by_a_factor) {
  double v[N] = {2, -7, 1, 3}, zero[N] = {2, -7, 1, 0};
  cr_expect_eq(compute(describe_task(TN_DEVICE_CHOLESKY_INVERSE, 2, 2), v), 0);
  expect((const double[]){v[0], v[2], v[3]},
         (const double[]){10 / 36.0, -2 / 36.0, 4 / 36.0}, 3);
  cr_expect_eq(compute(describe_task(TN_DEVICE_CHOLESKY_INVERSE, 2, 2), zero),
               2);
}

/* a = (2 0; 1 4). The right-hand sides are b = a x, a^T x and x a, doubled. */
Test(solver_tasks, solve_with_triangles_on_both_sides) {
  const double x[] = {1, 2, 3, 4, 5, 6}; /* 2 x 3; on the right 3 x 2 */
  double left[N] = {2, -7, 1, 4, 4, 8, 12, 34, 44, 54};
  double turned[N] = {2, -7, 1, 4, 12, 18, 24, 32, 40, 48};
  double right[N] = {2, -7, 1, 4, 8, 16, 20, 32, 32, 48};
  tn_device_task task = describe_task(TN_DEVICE_TRIANGULAR_SOLVE, 2, 3);
  task.lda = 2;
  task.alpha = 0.5;
  task.b = memory + 4;
  (void)compute(task, left);
  expect(left + 4, x, 6);
  task.flags = TN_DEVICE_TRANSPOSE;
  (void)compute(task, turned);
  expect(turned + 4, x, 6);
  task.m = 3;
  task.n = task.ldb = 2;
  task.flags = TN_DEVICE_RIGHT;
  (void)compute(task, right);
  expect(right + 4, x, 6);
}

/* The same products. */
Test(solver_tasks, multiply_by_triangles_on_both_sides) {
  double left[N] = {2, -7, 1, 4, 1, 2, 3, 4, 5, 6};
  double turned[N], right[N];
  tn_device_task task = describe_task(TN_DEVICE_TRIANGULAR_PRODUCT, 2, 3);
  memcpy(turned, left, sizeof left);
  memcpy(right, left, sizeof left);
  task.lda = 2;
  task.alpha = 2;
  task.b = memory + 4;
  (void)compute(task, left);
  expect(left + 4, (const double[]){4, 8, 12, 34, 44, 54}, 6);
  task.flags = TN_DEVICE_TRANSPOSE;
  (void)compute(task, turned);
  expect(turned + 4, (const double[]){12, 18, 24, 32, 40, 48}, 6);
  task.m = 3;
  task.n = task.ldb = 2;
  task.flags = TN_DEVICE_RIGHT;
  (void)compute(task, right);
  expect(right + 4, (const double[]){8, 16, 20, 32, 32, 48}, 6);
}

/* a = (0 2; 4 6): a (1, 2) = (4, 16), a^T (1, 2) = (8, 14). */
Test(solver_tasks, solve_by_factors_with_exchanged_rows) {
  double v[N] = {0, 2, 4, 6, 4, 16}, turned[N];
  tn_device_task task = describe_task(TN_DEVICE_LU, 2, 2);
  cr_expect_eq(compute(task, v), 0);
  memcpy(turned, v, sizeof v);
  turned[4] = 8, turned[5] = 14;
  task.kind = TN_DEVICE_LU_SOLVE;
  task.m = 1;
  task.b = memory + 4;
  (void)compute(task, v);
  expect(v + 4, (const double[]){1, 2}, 2);
  task.flags = TN_DEVICE_TRANSPOSE;
  (void)compute(task, turned);
  expect(turned + 4, (const double[]){1, 2}, 2);
}

Test(solver_tasks, report_a_singular_matrix) {
  double v[N] = {1, 2, 2, 4};
  cr_expect_eq(compute(describe_task(TN_DEVICE_LU, 2, 2), v), 2);
}

/* (3 4) is -5 times (-0.6 -0.8). */
Test(solver_tasks, split_a_row_into_length_and_direction) {
  double v[N] = {3, 4};
  tn_device_task task = describe_task(TN_DEVICE_LQ, 1, 2);
  task.values = memory + 8;
  cr_expect_eq(compute(task, v), 0);
  expect(v, (const double[]){-5}, 1);
  task.kind = TN_DEVICE_LQ_ROWS;
  (void)compute(task, v);
  expect(v, (const double[]){-0.6, -0.8}, 2);
}

/* (17 8; 8 17) has the eigenvalues 9 and 25; its upper half is not read. */
Test(solver_tasks, find_eigenvalues_in_ascending_order) {
  double v[N] = {17, -3, 8, 17};
  tn_device_task task = describe_task(TN_DEVICE_EIGEN, 2, 2);
  task.values = memory + 8;
  cr_expect_eq(compute(task, v), 0);
  expect(v + 8, (const double[]){9, 25}, 2);
  expect((const double[]){v[0] * v[0], v[0] * v[1], v[2] * v[3]},
         (const double[]){0.5, -0.5, 0.5}, 3);
}

/* (0 2 0; 3 0 0) has the singular values 3 and 2. */
Test(solver_tasks, find_singular_values_of_a_wide_matrix) {
  double v[N] = {0, 2, 0, 3, 0, 0};
  tn_device_task task = describe_task(TN_DEVICE_SVD, 2, 3);
  task.ldb = 2;
  task.b = memory + 8;
  task.c = memory + 12;
  task.values = memory + 20;
  cr_expect_eq(compute(task, v), 0);
  expect(v + 20, (const double[]){3, 2}, 2);
  /* u and vt up to signs: their products are 1 */
  expect(
      (const double[]){v[8] * v[8], v[9] * v[9], v[10] * v[12], v[9] * v[16]},
      (const double[]){0, 1, 1, 1}, 4);
}

/* ---------------------------------------------------------------- failures */

static void refuses(tn_device_task task, int32_t code, const char *why) {
  uint64_t bytes = 0;
  failure[0] = '\0';
  cr_assert_eq(self.lapack.plan(&self.lapack, &frame, &task, &bytes), code);
  cr_assert_not_null(strstr(failure, why), "%s lacks `%s`", failure, why);
}

Test(solver_tasks, that_cannot_be_are_refused) {
  tn_device_task task = describe_task(TN_DEVICE_SVD, 3, 2);
  refuses(task, TN_UNSUPPORTED, "transpose the matrix");
  task = describe_task(TN_DEVICE_LU, 1, 1ll << 31);
  refuses(task, TN_UNSUPPORTED, "a length is above 2^31 - 1");
  task = describe_task(99, 1, 1);
  refuses(task, TN_UNSUPPORTED, "no kind of task has the number 99");
  task = describe_task(TN_DEVICE_LU, 1, 1);
  task.dtype = TN_F16;
  refuses(task, TN_DTYPE, "LU factors is in f32 or f64");
}

Test(solver_tasks, report_statuses_of_the_library) {
  const tn_device_lapack *lapack = &self.lapack;
  tn_device_task task = describe_task(TN_DEVICE_LU, 2, 2);
  fake_solver_fail(SOLVER_NO_MEMORY);
  refuses(task, TN_OUT_OF_MEMORY,
          "cuSOLVER 12.0.4, cuBLAS 13.1.0: LU factors: no memory");
  OK(lapack->plan(lapack, &frame, &task, &task.ws_bytes));
  task.ws = (char *)(memory + N) + ROOM;
  fake_solver_fail(SOLVER_NOT_SUPPORTED);
  cr_expect_eq(lapack->run(lapack, &frame, &task), TN_UNSUPPORTED);
  fake_solver_fail(6);
  cr_expect_eq(lapack->run(lapack, &frame, &task), TN_DEVICE);
  cr_expect_not_null(strstr(failure, "a kernel failed"), "%s", failure);
}

/* The simulated library checks the size of the workspace as the real one does.
 */
Test(solver_tasks, with_too_little_workspace_fail) {
  tn_device_task task = describe_task(TN_DEVICE_CHOLESKY, 2, 2);
  task.ws = (char *)(memory + N) + ROOM;
  task.ws_bytes = 8;
  cr_expect_eq(self.lapack.run(&self.lapack, &frame, &task), TN_DEVICE);
  cr_expect_not_null(strstr(failure, "invalid argument"), "%s", failure);
}

/* -------------------------------------------------------------- libraries */

/* A driver for that version of CUDA. */
static void begin_driver(int version) {
  fake_cuda_begin(&(fake_cuda_options){.devices = 1, .version = version});
}

static void lacks(const solver_files *names, const char *why) {
  solver_library library;
  char text[240] = "";
  cr_assert_not(solver_open(&library, names, text));
  cr_assert_not_null(strstr(text, why), "%s lacks `%s`", text, why);
  cr_assert_null(library.solver);
}

Test(solver_library, that_is_missing_is_named) {
  begin_driver(13000);
  lacks((const solver_files[]){{"libno.so.1", "libcublas.so.13", 0}, {0}},
        "libno.so.1");
  lacks((const solver_files[]){{"libcusolver.so.12", "libno.so.2", 0}, {0}},
        "libno.so.2");
  must_be_silent(fake_cuda_end());
}

Test(solver_library, without_a_function_is_refused) {
  begin_driver(13000);
  lacks((const solver_files[]){{HALF_FILE, "libcublas.so.13", 0}, {0}},
        "libcusolver has no function cusolverDnCreate");
  lacks((const solver_files[]){{"libcusolver.so.12", HALF_FILE, 0}, {0}},
        "libcublas has no function cublasGetStatusString");
  must_be_silent(fake_cuda_end());
}

Test(solver_library, for_a_newer_driver_is_skipped) {
  solver_library library;
  char text[240] = "";
  begin_driver(12040);
  lacks((const solver_files[]){{"libcusolver.so.12", "libcublas.so.13", 13},
                               {"libno.so.11", "libno.so.12", 12},
                               {0}},
        "there is no cuSOLVER with cuBLAS for CUDA 12");
  lacks(
      (const solver_files[]){{"libcusolver.so.12", "libcublas.so.13", 0}, {0}},
      "want a newer driver than that for CUDA 12");
  must_be_silent(fake_cuda_end());
  begin_driver(11080);
  lacks(solver_names, "the driver is for CUDA 11");
  must_be_silent(fake_cuda_end());
  begin_driver(13000);
  cr_expect(solver_open(&library, solver_names, text), "%s", text);
  cr_expect_str_eq(library.name, "cuSOLVER 12.0.4, cuBLAS 13.1.0");
  solver_close(&library);
  must_be_silent(fake_cuda_end());
}
