/* SPDX-License-Identifier: Apache-2.0
 * The kernels that opgen writes, compiled and run: values by hand for all
 * requests, element types and layouts.
 */
#include <criterion/criterion.h>

#include "../host_failure.h"
#include "tenon/kernel/kernel.h"

typedef struct cases_params {
  double a;
  double b;
  int64_t n;
  int32_t flag;
  double t1;
  double p;
} cases_params;

#include "tenon/kernel/math.h"

#include "cases.gen.h"
#include "levels.h"

/* ----------------------------------------------------------------------- host
 */

static int slices;

/* Slices of an odd length, so that they end anywhere. */
static int32_t in_slices(const tn_frame *call, int64_t n, int64_t grain,
                         tn_loop_body *body, void *arg) {
  (void)call;
  for (int64_t begin = 0; begin < n; begin += grain - 13, ++slices) {
    const int64_t end = begin + grain - 13 < n ? begin + grain - 13 : n;
    const int32_t code = body(arg, begin, end);
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

static tn_host host = {.struct_size = sizeof(tn_host),
                       .fail = store_failure,
                       .parallel_for = in_slices};

/* -------------------------------------------------------------------- tensors
 */

/* Two by three elements somewhere in a memory of their own. */
enum { ROWS = 2, COLUMNS = 3, N = ROWS * COLUMNS };

typedef struct matrix {
  int64_t shape[2];
  int64_t strides[2];
  double memory[64];
  tn_tensor t;
} matrix;

/* Step of a row and of a column; a row that is broadcast has one row only. */
typedef struct layout {
  int64_t strides[2];
  int64_t first;
} layout;

static const layout layouts[] = {
    {{3, 1}, 0}, {{1, 2}, 0}, {{16, 2}, 0}, {{-8, -2}, 20}};
static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};

enum { N_LAYOUTS = sizeof layouts / sizeof *layouts, N_DTYPES = 4 };

static tn_kernel_line element(const matrix *m, int i) {
  const int64_t row = m->shape[0] == 1 ? 0 : i / COLUMNS;
  const int64_t at = row * m->strides[0] + i % COLUMNS * m->strides[1];
  return (tn_kernel_line){(char *)m->t.data + at * tn_dtype_bytes(m->t.dtype),
                          1, 1, m->t.dtype};
}

static const tn_kernel_mode as_f64 = {TN_F64, 0};

static double get(const matrix *m, int i) {
  const tn_kernel_line line = element(m, i);
  double value = 0;
  tn_kernel_load(&value, &as_f64, &line);
  return value;
}

static void make(matrix *m, tn_dtype dtype, const layout *l,
                 const double *values) {
  *m = (matrix){.shape = {ROWS, COLUMNS},
                .strides = {l->strides[0], l->strides[1]}};
  m->t =
      (tn_tensor){.data = (char *)m->memory + l->first * tn_dtype_bytes(dtype),
                  .device_type = TN_DEVICE_CPU,
                  .ndim = 2,
                  .dtype = dtype,
                  .shape = m->shape,
                  .strides = m->strides};
  for (int i = 0; values && i < N; ++i) {
    const tn_kernel_line line = element(m, i);
    tn_kernel_store(&line, &as_f64, &values[i]);
  }
}

/* ---------------------------------------------------------------------- calls
 */

/* A kernel as it is in a plugin's tables. */
typedef struct kernel {
  int32_t (*prepare)(const tn_frame *call, tn_plan *plan);
  int32_t (*compute)(const tn_frame *call);
} kernel;
#define KERNEL(name) \
  { name##_prepare, name }

static int prepared; /* calls with a successful prepare */

/* One formula: inputs in the order of the call, and the expected output. */
typedef struct value_case {
  const char *name;
  kernel kernel;
  size_t n_in;
  double in[4][N];
  double out[N];
} value_case;

static const cases_params params = {
    .a = 2, .b = 3, .n = 5, .flag = 1, .t1 = 4, .p = 7};

#define ONE \
  { 1, 1, 1, 1, 1, 1 }
#define ZERO \
  { 0, 0, 0, 0, 0, 0 }

/* Every value is exact in bf16, the coarsest type. */
static const value_case values[] = {
    {"quadratic",
     KERNEL(quadratic_forward),
     1,
     {{0, 1, 2, -1, 0.5, -2}},
     {5, 10, 19, 4, 7, 7}},
    {"mul",
     KERNEL(mul_forward),
     2,
     {{1, 2, 3, 4, 5, 6}, {2, 0, -1, 0.5, 3, -2}},
     {2, 0, -3, 2, 15, -12}},
    {"relu",
     KERNEL(relu_forward),
     1,
     {{-1, 0, 2, -0.5, 3, -4}},
     {0, 0, 2, 0, 3, 0}},
    {"sigmoid",
     KERNEL(sigmoid_forward),
     1,
     {{0, 1000, -1000, 0, 0, 0}},
     {0.5, 1, 0, 0.5, 0.5, 0.5}},
    {"smooth_l1",
     KERNEL(smooth_l1_forward),
     1,
     {{1, -1, 0.125, -0.25, 0, -3}},
     {0.875, 0.875, 0.03125, 0.125, 0, 2.875}},
    {"minimum",
     KERNEL(minimum_forward),
     2,
     {{1, 2, 3, -1, 0, 5}, {2, 1, 3, 0, -1, 4}},
     {1, 1, 3, -1, -1, 4}},
    {"maximum",
     KERNEL(maximum_forward),
     2,
     {{1, 2, 3, -1, 0, 5}, {2, 1, 3, 0, -1, 4}},
     {2, 2, 3, 0, 0, 5}},
    {"mod",
     KERNEL(mod_forward),
     2,
     {{7, -7, 7, -7, 5, 6}, {3, 3, -3, -3, 0, 3}},
     {1, 2, -2, -1, 0, 0}},
    {"power",
     KERNEL(power_forward),
     2,
     {{2, 3, 4, -2, 1, 0}, {3, 2, 0.5, 2, 9, 4}},
     {8, 9, 2, 4, 1, 0}},
    {"cube",
     KERNEL(cube_forward),
     2,
     {{1, 0, 2, -1, -3, 4}, {1, 1, 1, 0, 1, -4}},
     {8, 1, 27, -1, -8, 0}},
    {"fourth",
     KERNEL(fourth_forward),
     1,
     {{0, 1, -1, 2, -3, 0.5}},
     {0, -1, -1, -16, -81, -0.0625}},
    {"root",
     KERNEL(root_forward),
     2,
     {{4, 9, 0, 1, 16, 0.25}, {1, 2, -1, 4, 0.5, 8}},
     {3, 3.5, -1, 1.25, 6, 0.625}},
    {"rsqrt",
     KERNEL(rsqrt_forward),
     2,
     {{4, 16, 1, 0.25, 64, 4}, {2, 4, 3, 1, 8, 0}},
     {1, 1, 3, 2, 1, 0}},
    {"less",
     KERNEL(less_forward),
     2,
     {{1, 2, 2, 3, -1, 0}, {2, 2, 1, 3, 1, 0}},
     {1, 2, 0, 2, 1, 2}},
    {"choose",
     KERNEL(choose_forward),
     2,
     {{1, 0, -1, 0, 2, 0}, {5, 5, 6, 6, 7, 7}},
     {5, -3, 6, -3, 7, -3}},
    {"steps",
     KERNEL(steps_forward),
     1,
     {{0.5, -0.5, 2, -1.5, 0, 1.25}},
     {10, -1, 22, -12, 0, 21}},
    {"signs",
     KERNEL(signs_forward),
     2,
     {{2, -2, 0, 1, 0, 3}, {1, -1, 2, 0, 0, -3}},
     {0, 2, 2, 0, 0, 1}},
    {"smooth", KERNEL(smooth_forward), 2, {ZERO, {1, 2, 3, 4, 5, 6}}, ONE},
    {"sixteen",
     KERNEL(sixteen_forward),
     2,
     {ZERO, {2, -2, 4, 0, 1, -1}},
     {-7.5, 8.5, -3.5, 0.5, -4.25, 5.25}},
    {"error",
     KERNEL(error_forward),
     2,
     {ZERO, {1, 2, -1, 4, 8, -4}},
     {0, 1, -2, 3, 7, -5}},
    {"constant",
     KERNEL(constant_forward),
     0,
     {{0}},
     {1001, 1001, 1001, 1001, 1001, 1001}},
    {"taken",
     KERNEL(taken_forward),
     2,
     {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 0, 1, 2}},
     {4, 7, 10, 23, 26, 29}},
    {"long_sum",
     KERNEL(long_sum_forward),
     2,
     {{1, 2, 0, 3, -1, 1}, {2, 1, 0, 1, 0, 1}},
     {1, 15, 2, 28, -1, 6}},
    {"shares",
     KERNEL(shares_forward),
     2,
     {{0, 1, -1, 0, 2, -2}, {0, 0, 0, 1, -1, 1}},
     {0, 1.5, -0.5, 1.5, 1.5, -0.5}},
    {"quadratic, backward",
     KERNEL(quadratic_backward),
     2,
     {{1, 1, 2, 1, -1, 0}, {0, 1, 2, -1, 0.5, -2}},
     {3, 7, 22, -1, -5, 0}},
    {"relu, backward",
     KERNEL(relu_backward),
     2,
     {{1, 2, 3, 4, 5, 6}, {-1, 0, 2, -0.5, 3, -4}},
     {0, 0, 3, 0, 5, 0}},
    {"sigmoid, backward",
     KERNEL(sigmoid_backward),
     4,
     {{4, 8, 1, 1, -4, 0}, ZERO, ZERO, {0.5, 0.25, 0, 1, 0.5, 0.5}},
     {1, 1.5, 0, 0, -1, 0}},
    {"smooth_l1, backward",
     KERNEL(smooth_l1_backward),
     2,
     {{1, 1, 2, 1, 3, 4}, {1, -1, 0.125, -0.25, 0, -3}},
     {1, -1, 1, -1, 0, -4}},
    {"taken, backward",
     KERNEL(taken_backward),
     2,
     {{1, 2, 3, 4, 5, 6}, {2, 2, -1, -1, 0, 0}},
     {2, 4, -3, -4, 0, 0}},
};

enum { N_VALUES = sizeof values / sizeof *values };

/* 1001 needs more bits than bf16 has. */
static double rounded(double value, tn_dtype dtype) {
  if (dtype != TN_BF16) return value;
  return (double)tn_kernel_bf16_to_f32(tn_kernel_f32_to_bf16((float)value));
}

static int32_t run(kernel k, const tn_tensor *in, size_t n_in,
                   const tn_tensor *out, tn_req req) {
  const int32_t alias = req == TN_REQ_INPLACE ? 0 : -1;
  tn_plan plan = {.struct_size = sizeof plan};
  tn_frame call = {.struct_size = sizeof call,
                   .n_in = (uint32_t)n_in,
                   .n_out = 1,
                   .in = in,
                   .out = out,
                   .req = &req,
                   .alias = &alias,
                   .params = &params,
                   .host = &host};
  cr_assert_eq(k.prepare(&call, &plan), TN_OK);
  cr_assert_null(plan.destroy);
  prepared += plan.prepared != NULL;
  call.prepared = plan.prepared;
  return k.compute(&call);
}

/* Every operand in a layout of its own, or, after those, all of them dense. */
static const layout *layout_of(size_t shift, size_t operand) {
  return &layouts[shift == N_LAYOUTS ? 0 : (shift + operand) % N_LAYOUTS];
}

/* Inputs of every layout and one dtype, the output in a layout of its own. */
static void check(const value_case *c, tn_dtype dtype, size_t shift,
                  tn_req req) {
  static const double old[N] = {1, 2, 4, -8, 0, 16};
  matrix in[4], out;
  tn_tensor t[4];
  for (size_t i = 0; i < c->n_in; ++i) {
    make(&in[i], dtype, layout_of(shift, i), c->in[i]);
    t[i] = in[i].t;
  }
  make(&out, dtype, layout_of(shift, 1 + c->n_in / 3), old);
  matrix *result = req == TN_REQ_INPLACE ? &in[0] : &out;
  cr_assert_eq(run(c->kernel, t, c->n_in, &result->t, req), TN_OK);
  for (int i = 0; i < N; ++i) {
    const double expected = c->out[i] + (req == TN_REQ_ADD ? old[i] : 0);
    cr_expect_eq(get(result, i), rounded(expected, dtype),
                 "%s[%d]: %g, not %g (dtype %x, layout %zu, request %u)",
                 c->name, i, get(result, i), expected, dtype, shift, req);
  }
}

static void check_values(tn_req req) {
  for (size_t i = 0; i < N_VALUES; ++i)
    for (size_t d = 0; d < N_DTYPES; ++d)
      for (size_t l = 0; l <= N_LAYOUTS; ++l)
        if (req != TN_REQ_INPLACE || values[i].n_in > 0)
          check(&values[i], dtypes[d], l, req);
}

/* Prepare recognises dense calls. */
static void check_all(tn_req req) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  for (size_t i = 0; i < n; ++i) {
    host.cpu_features = features[i];
    prepared = 0;
    check_values(req);
    cr_expect_gt(prepared, 0);
  }
}

Test(emit, write_gives_the_values_of_the_formula) {
  check_all(TN_REQ_WRITE);
}

Test(emit, add_keeps_existing_values) {
  check_all(TN_REQ_ADD);
}

Test(emit, inplace_overwrites_the_first_input) {
  check_all(TN_REQ_INPLACE);
}

/* 1e300 is infinite in f32 and 1e-60 is 0, so that only lhs is left. */
Test(emit, constants_beyond_f32_become_infinite_or_zero) {
  const double lhs[N] = {1, 2, 3, 4, 5, 6}, rhs[N] = {9, 9, 9, 9, 9, 9};
  matrix in[2], out;
  make(&in[0], TN_F32, &layouts[0], lhs);
  make(&in[1], TN_F32, &layouts[0], rhs);
  make(&out, TN_F32, &layouts[0], NULL);
  const tn_tensor t[] = {in[0].t, in[1].t};
  cr_assert_eq(run((kernel)KERNEL(huge_forward), t, 2, &out.t, TN_REQ_WRITE),
               TN_OK);
  for (int i = 0; i < N; ++i) cr_expect_eq(get(&out, i), lhs[i]);
}

/* As a double 3.4028235e38 is beyond FLT_MAX, which it is nearest to. */
Test(emit, the_largest_float_is_a_number) {
  const double lhs[N] = {(double)INFINITY, 2, 3, 4, 5, 6};
  const double rhs[N] = {1, 1, 1, 1, 1, 1};
  matrix in[2], out;
  make(&in[0], TN_F32, &layouts[0], lhs);
  make(&in[1], TN_F32, &layouts[0], rhs);
  make(&out, TN_F32, &layouts[0], NULL);
  const tn_tensor t[] = {in[0].t, in[1].t};
  cr_assert_eq(run((kernel)KERNEL(edge_forward), t, 2, &out.t, TN_REQ_WRITE),
               TN_OK);
  cr_expect_eq(get(&out, 0), 0x1.fffffep127);
  cr_expect_eq(get(&out, 1), 2);
}

Test(emit, a_row_is_broadcast_over_the_others) {
  const double lhs[N] = {1, 2, 3, 4, 5, 6}, row[N] = {2, 3, -1, 2, 3, -1};
  const double product[N] = {2, 6, -3, 8, 15, -6};
  for (size_t d = 0; d < N_DTYPES; ++d) {
    matrix in[2], out;
    make(&in[0], dtypes[d], &layouts[d], lhs);
    make(&in[1], dtypes[d], &layouts[0], NULL);
    make(&out, dtypes[d], &layouts[0], NULL);
    in[1].shape[0] = 1;
    for (int i = 0; i < COLUMNS; ++i) {
      const tn_kernel_line line = element(&in[1], i);
      tn_kernel_store(&line, &as_f64, &row[i]);
    }
    const tn_tensor t[] = {in[0].t, in[1].t};
    cr_assert_eq(run((kernel)KERNEL(mul_forward), t, 2, &out.t, TN_REQ_WRITE),
                 TN_OK);
    for (int i = 0; i < N; ++i) cr_expect_eq(get(&out, i), product[i]);
  }
}

/* ---------------------------------------------------------- requests, failures
 */

/* mul_backward: in = grad.out, lhs, rhs, out; two gradients. */
static int32_t run_mul_backward(matrix *in, matrix *out, const tn_req *req) {
  const tn_tensor t_in[] = {in[0].t, in[1].t, in[2].t, in[2].t};
  tn_tensor t_out[] = {out[0].t, out[1].t};
  const int32_t alias[] = {-1, -1};
  for (int i = 0; i < 2; ++i)
    if (req[i] == TN_REQ_NULL) t_out[i].data = NULL;
  tn_plan plan = {.struct_size = sizeof plan};
  tn_frame call = {.struct_size = sizeof call,
                   .n_in = 4,
                   .n_out = 2,
                   .in = t_in,
                   .out = t_out,
                   .req = req,
                   .alias = alias,
                   .params = &params,
                   .host = &host};
  cr_assert_eq(mul_backward_prepare(&call, &plan), TN_OK);
  call.prepared = plan.prepared;
  return mul_backward(&call);
}

Test(emit, an_output_that_nobody_asks_for_is_left_alone) {
  const double grad[N] = {1, 1, 2, 2, 3, 3}, lhs[N] = {1, 2, 3, 4, 5, 6};
  const double rhs[N] = {2, 2, 2, 2, 2, 2};
  for (uint32_t asked = 1; asked < 4; ++asked) {
    const tn_req req[] = {asked & 1 ? TN_REQ_WRITE : TN_REQ_NULL,
                          asked & 2 ? TN_REQ_ADD : TN_REQ_NULL};
    matrix in[3], out[2];
    make(&in[0], TN_F32, &layouts[0], grad);
    make(&in[1], TN_F32, &layouts[1], lhs);
    make(&in[2], TN_F32, &layouts[2], rhs);
    make(&out[0], TN_F32, &layouts[0], lhs);
    make(&out[1], TN_F32, &layouts[3], rhs);
    cr_assert_eq(run_mul_backward(in, out, req), TN_OK);
    for (int i = 0; i < N; ++i) {
      cr_expect_eq(get(&out[0], i), asked & 1 ? grad[i] * 2 : lhs[i]);
      cr_expect_eq(get(&out[1], i), asked & 2 ? 2 + grad[i] * lhs[i] : 2);
    }
  }
}

Test(emit, an_empty_tensor_needs_no_memory) {
  matrix in, out;
  make(&in, TN_F32, &layouts[0], NULL);
  make(&out, TN_F32, &layouts[0], NULL);
  in.shape[0] = out.shape[0] = 0;
  in.t.data = out.t.data = NULL;
  cr_expect_eq(
      run((kernel)KERNEL(quadratic_forward), &in.t, 1, &out.t, TN_REQ_WRITE),
      TN_OK);
}

Test(emit, unsupported_calls_are_refused_with_a_reason) {
  matrix in, out;
  make(&in, TN_F32, &layouts[0], NULL);
  make(&out, TN_F32, &layouts[0], NULL);
  in.t.dtype = TN_DTYPE_MAKE(5, 64); /* complex numbers */
  cr_expect_eq(
      run((kernel)KERNEL(relu_forward), &in.t, 1, &out.t, TN_REQ_WRITE),
      TN_DTYPE);
  cr_expect_str_eq(failure,
                   "input 0 has a type in which nothing is computed: 0x14005");
  in.t.dtype = out.t.dtype = TN_I32;
  cr_expect_eq(
      run((kernel)KERNEL(relu_forward), &in.t, 1, &out.t, TN_REQ_WRITE),
      TN_DTYPE);
  cr_expect_str_eq(failure, "this kernel does not compute in i32");
  out.t.dtype = TN_F32;
  in.t.dtype = TN_F32;
  in.shape[1] = 2;
  cr_expect_eq(
      run((kernel)KERNEL(relu_forward), &in.t, 1, &out.t, TN_REQ_WRITE),
      TN_SHAPE);
  in.t.ndim = -1;
  cr_expect_eq(
      run((kernel)KERNEL(relu_forward), &in.t, 1, &out.t, TN_REQ_WRITE),
      TN_INVALID);
  cr_expect_str_eq(failure, "input 0 is not given");
}

/* -------------------------------------------------------------------- slices
 */

enum { MANY = 300000, HUGE = 3000001 };

static float many_in[MANY], many_out[MANY], halves[2 * MANY];
static float huge_in[HUGE], huge_out[HUGE + 1];

static void multiply_beyond_the_caches(int64_t n, int skip) {
  int64_t shape[] = {n}, dense[] = {1};
  const tn_tensor in = {huge_in, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0};
  const tn_tensor t[] = {in, in};
  tn_tensor out = in;
  out.data = huge_out + skip;
  memset(huge_out, 0, sizeof huge_out);
  cr_assert_eq(run((kernel)KERNEL(mul_forward), t, 2, &out, TN_REQ_WRITE),
               TN_OK);
  for (int64_t i = 0; i < n; ++i)
    cr_assert_eq(huge_out[i + skip], (float)((i % 1000) * (i % 1000)), "%lld",
                 (long long)i);
}

/* More than a near cache, which is fetched page by page, and more than any,
 * which is written past them, wherever slices and the output begin. */
Test(emit, loops_beyond_the_caches_give_the_same) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  for (int i = 0; i < HUGE; ++i) huge_in[i] = (float)(i % 1000);
  host.cpu_features = features[levels(features) - 1];
  for (int skip = 0; skip < 2; ++skip) {
    multiply_beyond_the_caches(HUGE / 5, skip);
    multiply_beyond_the_caches(HUGE, skip);
  }
}

static void multiply_by_halves(int64_t stride) {
  int64_t shape[] = {MANY}, dense[] = {1}, apart[] = {stride};
  const tn_tensor t[] = {
      {many_in, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0},
      {halves, TN_DEVICE_CPU, 0, 1, TN_F32, shape, apart, 0}};
  const tn_tensor out = {many_out, TN_DEVICE_CPU, 0,     1,
                         TN_F32,   shape,         dense, 0};
  memset(many_out, 0, sizeof many_out);
  slices = 0;
  cr_assert_eq(run((kernel)KERNEL(mul_forward), t, 2, &out, TN_REQ_WRITE),
               TN_OK);
  cr_expect_geq(slices, 4);
  for (int i = 0; i < MANY; ++i)
    cr_assert_eq(many_out[i], (float)(i % 1000) / 2, "%d", i);
}

/* sum = lhs*rhs of a dense input and of one that is strided, or one number,
 * long enough for slices, at every level. */
Test(emit, long_loops_are_cut_into_slices_anywhere) {
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  for (int i = 0; i < MANY; ++i) {
    many_in[i] = (float)(i % 1000);
    halves[2 * i] = 0.5f;
  }
  for (size_t level = 0; level < n; ++level) {
    host.cpu_features = features[level];
    multiply_by_halves(2);
    multiply_by_halves(0);
  }
}

/* sin(far) + 2 cos(part): most angles are near, one in every fifth thousand is
 * not, and the output is the first input. */
static void expect_waves(const float *x, const float *y, size_t level) {
  for (int i = 0; i < MANY; ++i) {
    const double far = (double)x[i];
    const double exact = sin(far) + 2 * cos((double)halves[i]);
    if (isnan(exact))
      cr_expect(isnan(y[i]), "%d at %zu", i, level);
    else
      cr_expect(fabs((double)y[i] - exact) < 4e-7, "%d at %zu: %g, not %g", i,
                level, (double)y[i], exact);
  }
}

Test(emit, near_and_far_angles_share_vectors) {
  static float x[MANY];
  int64_t shape[] = {MANY}, dense[] = {1};
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n_levels = levels(features);
  const tn_tensor t[] = {
      {many_in, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0},
      {halves, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0}};
  for (int i = 0; i < MANY; ++i) {
    x[i] = 0.001f * (float)(i % 9973);
    halves[i] = -0.5f * (float)(i % 1511);
  }
  for (int i = 0; i < MANY; i += 5000) x[i] = ldexpf(1.5f, i / 5000 % 128);
  x[4] = NAN;
  x[MANY - 1] = INFINITY;
  for (size_t level = 0; level < n_levels; ++level) {
    host.cpu_features = features[level];
    memcpy(many_in, x, sizeof x);
    cr_assert_eq(
        run((kernel)KERNEL(waves_forward), t, 2, &t[0], TN_REQ_INPLACE), TN_OK);
    expect_waves(x, many_in, level);
  }
}

/* log(x) + log2(y) - log10(x): most numbers are normal, one in every five
 * thousand is not, or is negative. */
static void expect_logs(const float *x, const float *y, const float *have) {
  for (int i = 0; i < MANY; ++i) {
    const double a = (double)x[i];
    const double exact = log(a) + log2((double)y[i]) - log10(a);
    if (isfinite(exact))
      cr_expect(fabs((double)have[i] - exact) < 3e-5, "%d: %g, not %g", i,
                (double)have[i], exact);
    else
      cr_expect(isnan(exact) ? isnan(have[i]) : (double)have[i] == exact,
                "%d: %g, not %g", i, (double)have[i], exact);
  }
}

Test(emit, logarithms_of_all_numbers_share_vectors) {
  static const float odd[] = {0,      -0.0f, 0x1p-130f, -2,
                              -1e30f, NAN,   INFINITY,  -INFINITY};
  static float x[MANY], out[MANY];
  int64_t shape[] = {MANY}, dense[] = {1};
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n_levels = levels(features);
  const tn_tensor in[] = {
      {x, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0},
      {halves, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0}};
  const tn_tensor to = {out, TN_DEVICE_CPU, 0, 1, TN_F32, shape, dense, 0};
  for (int i = 0; i < MANY; ++i) {
    x[i] = 0.001f + 0.01f * (float)(i % 9973);
    halves[i] = 0.5f + (float)(i % 1511);
    if (i % 5000 == 7) x[i] = odd[i / 5000 % 8];
  }
  for (size_t level = 0; level < n_levels; ++level) {
    host.cpu_features = features[level];
    cr_assert_eq(run((kernel)KERNEL(logs_forward), in, 2, &to, TN_REQ_WRITE),
                 TN_OK);
    expect_logs(x, halves, out);
  }
}

/* ------------------------------------------------------------ repeated inputs
 */

enum { LINES = 5, LONGEST = 1040, APART = LONGEST + 3 };
static float each[LINES * APART], one[LONGEST], made[LINES * APART];

/* The operands of a call over `lines` lines of n elements: `which` input has
 * one element for each line, or one line for all. */
typedef struct repetition {
  int64_t shape[2];
  int64_t whole[2];
  int64_t strides[2];
  int which;
  tn_req req;
} repetition;

static float input(const repetition *r, int k, int64_t i, int64_t j) {
  return k == r->which ? one[i * r->strides[0] + j * r->strides[1]]
                       : each[i * r->whole[0] + j];
}

/* 1 where lhs is less than rhs, 2 where they are equal: another number if they
 * are taken for each other, or NaN for a number. */
static void check_repetition(const repetition *r) {
  repetition x = *r;
  tn_tensor t[2];
  tn_tensor out = {made, TN_DEVICE_CPU, 0, 2, TN_F32, x.shape, x.whole, 0};
  for (int i = 0; i < LINES * APART; ++i) made[i] = 0.5f;
  t[1 - r->which] = out;
  t[1 - r->which].data = each;
  t[r->which] = out;
  t[r->which].data = one;
  t[r->which].strides = x.strides;
  if (r->req == TN_REQ_INPLACE) {
    memcpy(made, each, sizeof made);
    t[1 - r->which].data = made;
  }
  const float old = r->req == TN_REQ_ADD ? 0.5f : 0;
  cr_assert_eq(run((kernel)KERNEL(less_forward), t, 2, &out, r->req), TN_OK);
  for (int64_t i = 0; i < r->shape[0]; ++i)
    for (int64_t j = 0; j < r->shape[1]; ++j) {
      const float a = input(r, 0, i, j), b = input(r, 1, i, j);
      cr_assert_eq(made[i * r->whole[0] + j],
                   (float)((a < b) + 2 * (a == b)) + old,
                   "%lld x %lld, input %d, strides %lld %lld, request %u: "
                   "(%lld, %lld)",
                   (long long)r->shape[0], (long long)r->shape[1], r->which,
                   (long long)r->strides[0], (long long)r->strides[1], r->req,
                   (long long)i, (long long)j);
    }
  for (int64_t i = 0; i < r->shape[0] * r->whole[0]; ++i)
    if (i % r->whole[0] >= r->shape[1] && r->req != TN_REQ_INPLACE)
      cr_assert_eq(made[i], 0.5f, "%lld was no output", (long long)i);
}

static void check_repetitions(int64_t n, int64_t line) {
  for (int way = 0; way < 12; ++way) {
    const int column = way & 2;
    const repetition r = {.shape = {way < 4 ? 1 : LINES, n},
                          .whole = {line, 1},
                          .strides = {column ? 1 : 0, column ? 0 : 1},
                          .which = way & 1,
                          .req = way % 3 == 0   ? TN_REQ_WRITE
                                 : way % 3 == 1 ? TN_REQ_ADD
                                                : TN_REQ_INPLACE};
    check_repetition(&r);
    repetition write = r;
    write.req = TN_REQ_WRITE;
    check_repetition(&write);
  }
}

/* Columns and rows repeated along lines of every length around the edges of
 * vectors and of short lines, with and without gaps between lines. */
Test(emit, inputs_that_repeat_give_the_values_of_the_formula) {
  static const int64_t lengths[] = {1,  7,  31, 32,  33,  47,
                                    48, 64, 99, 128, 129, LONGEST};
  uint64_t features[TN_KERNEL_N_LEVELS];
  const size_t n = levels(features);
  for (int i = 0; i < LINES * APART; ++i) each[i] = (float)(i * 7 % 11);
  for (int i = 0; i < LONGEST; ++i) one[i] = (float)(i * 5 % 11);
  each[3] = one[2] = NAN;
  for (size_t level = 0; level < n; ++level) {
    host.cpu_features = features[level];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
      check_repetitions(lengths[i], lengths[i]);
      check_repetitions(lengths[i], APART);
    }
  }
}
