/* SPDX-License-Identifier: Apache-2.0
 * test_parallel_calls.c: workers take part in calls that are long enough,
 * for every kind of call.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../by_hand.h"
#include "runtime.h"

enum { N = 48 << 10 /* two arrays have 384 KiB */, SLICES = 16 };

static pthread_t caller;
static _Atomic int came;
static _Atomic int fails;
static _Atomic int two_slices_fail, lower_failed;

static void spin_ms(void) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec -
             begin.tv_nsec <
         1000000);
}

/* The first slice is long enough that waking a worker pays. The caller's other
 * slices end when the worker has come. */
static int32_t double_slice(void *arg, int64_t begin, int64_t end) {
  const tn_frame *call = (const tn_frame *)arg;
  const float *x = (const float *)call->in[0].data;
  float *y = (float *)call->out[0].data;
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
  if (!pthread_equal(caller, pthread_self()))
    atomic_store(&came, 1);
  else if (begin == 0)
    spin_ms();
  else
    while (atomic_load(&came) == 0) sched_yield();
  return TN_OK;
}

/* The caller's second slice fails first, then one of the worker's, which is
 * higher. */
static int32_t fail_slice(void *arg, int64_t begin, int64_t end) {
  const tn_frame *call = (const tn_frame *)arg;
  if (pthread_equal(caller, pthread_self())) {
    const int32_t code = double_slice(arg, begin, end);
    if (begin == 0) return code;
    const int32_t lower = TN_FAIL(call, TN_OUT_OF_RANGE, "the lower slice");
    atomic_store(&lower_failed, 1);
    return lower;
  }
  atomic_store(&came, 1);
  while (atomic_load(&lower_failed) == 0) sched_yield();
  return TN_FAIL(call, TN_INVALID, "the higher slice");
}

static int32_t run_double(const tn_frame *call) {
  if (two_slices_fail)
    return call->host->parallel_for(call, N, N / SLICES, fail_slice,
                                    (void *)(uintptr_t)call);
  const int32_t code = call->host->parallel_for(
      call, N, N / SLICES, double_slice, (void *)(uintptr_t)call);
  if (code != TN_OK || fails == 0) return code;
  return TN_FAIL(call, TN_OUT_OF_RANGE, "as requested");
}

#define ARG(text, kind)                                                   \
  {                                                                       \
    .struct_size = sizeof(tn_arg), .dtype_var = TN_NONE, .dtype = TN_F32, \
    .dtype_param = TN_NONE, .shape_kind = (kind), .inplace = TN_NONE,     \
    .init = TN_NONE, .count = TN_NONE, .name = (text)                     \
  }
static const tn_arg in_x = ARG("x", TN_SHAPE_ANY);
static const tn_arg out_y = ARG("y", TN_SHAPE_SAME);
static const tn_arg *const ins[] = {&in_x}, *const outs[] = {&out_y};
static const tn_op op = {.struct_size = sizeof op,
                         .interface = 1,
                         .since = 1,
                         .n_inputs = 1,
                         .n_outputs = 1,
                         .name = "double",
                         .summary = "Doubles, in company.",
                         .inputs = ins,
                         .outputs = outs};
static const tn_kernel kernel = {
    .struct_size = sizeof kernel,
    .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ELEMENTWISE,
    .device_type = TN_DEVICE_CPU,
    .writes = TN_WRITES_WRITE,
    .when = TN_NONE,
    .op = "company.double@1",
    .id = "company.double.cpu",
    .compute = run_double};
static const tn_op *const ops[] = {&op};
static const tn_kernel *const kernels[] = {&kernel};
static const tn_plugin plugin = {PLUGIN_BY_HAND("company", 1, "For tests."),
                                 .n_operators = 1, .n_kernels = 1,
                                 .operators = ops, .kernels = kernels};

static tn_runtime *rt;
static tn_operator *twice;
static tn_array *x;

static void setup(void) {
  const tn_options options = {.struct_size = sizeof options, .workers = 2};
  const int64_t n = N;
  float *values = malloc(N * sizeof *values);
  cr_assert_not_null(values);
  for (int i = 0; i < N; ++i) values[i] = (float)i;
  caller = pthread_self();
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &plugin), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_operator_get(rt, "company.double", &twice), TN_OK);
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, values, N * sizeof *values), TN_OK);
  free(values);
}

static void teardown(void) {
  tn_array_release(x);
  tn_runtime_release(rt);
}

TestSuite(parallel_calls, .init = setup, .fini = teardown, .timeout = 100);

static void expect_doubled(tn_array *y) {
  float *got = calloc(N, sizeof *got);
  cr_assert_not_null(got);
  cr_assert_eq(tn_array_get(y, got, N * sizeof *got), TN_OK, "%s",
               tn_error_text());
  for (int i = 0; i < N; ++i) cr_assert_eq(got[i], 2 * (float)i);
  free(got);
}

static tn_code call_twice(tn_array **y) {
  atomic_store(&came, 0);
  return tn_call(rt, twice, TN_IN(x), NULL, TN_OUT(y));
}

/* The first call of a kind takes the slow path, where no worker may take part.
 */
static tn_array *first_call(void) {
  tn_array *y = NULL;
  caller = (pthread_t)0;
  cr_assert_eq(call_twice(&y), TN_OK, "%s", tn_error_text());
  expect_doubled(y);
  caller = pthread_self();
  return y;
}

Test(parallel_calls, workers_take_part_in_a_call_into_an_existing_output) {
  tn_array *y = first_call();
  for (int i = 0; i < 3; ++i) {
    cr_assert_eq(call_twice(&y), TN_OK, "%s", tn_error_text());
    cr_assert_eq(came, 1, "call %d", i);
    expect_doubled(y);
  }
  tn_array_release(y);
}

Test(parallel_calls, workers_take_part_in_a_call_into_a_new_output) {
  tn_array_release(first_call());
  for (int i = 0; i < 3; ++i) {
    tn_array *y = NULL;
    cr_assert_eq(call_twice(&y), TN_OK, "%s", tn_error_text());
    cr_assert_eq(came, 1, "call %d", i);
    expect_doubled(y);
    tn_array_release(y);
  }
}

Test(parallel_calls, workers_take_part_in_a_prepared_call) {
  tn_array *y = first_call();
  tn_prepared *prepared = NULL;
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = twice,
                               .inputs = *TN_IN(x),
                               .outputs = *TN_OUT(&y)};
  cr_assert_eq(tn_call_prepare(rt, &what, &prepared), TN_OK);
  for (int i = 0; i < 3; ++i) {
    atomic_store(&came, 0);
    cr_assert_eq(tn_call_run(prepared), TN_OK, "%s", tn_error_text());
    cr_assert_eq(came, 1, "run %d", i);
    expect_doubled(y);
  }
  tn_prepared_release(prepared);
  tn_array_release(y);
}

/* A new output is not created then. */
Test(parallel_calls, the_call_and_an_existing_output_report_a_failure) {
  tn_array *y = first_call(), *none = NULL;
  atomic_store(&fails, 1);
  cr_assert_eq(call_twice(&y), TN_OUT_OF_RANGE);
  cr_assert_eq(tn_array_wait(y), TN_OUT_OF_RANGE);
  cr_assert_eq(call_twice(&none), TN_OUT_OF_RANGE);
  cr_assert_null(none);
  atomic_store(&fails, 0);
  cr_assert_eq(call_twice(&y), TN_OK, "%s", tn_error_text());
  expect_doubled(y);
  cr_assert_eq(tn_wait_all(rt), TN_OUT_OF_RANGE);
  tn_array_release(y);
}

Test(parallel_calls, the_text_is_that_of_the_lowest_slice, .timeout = 100) {
  tn_array *y = first_call();
  atomic_store(&came, 0);
  atomic_store(&two_slices_fail, 1);
  cr_assert_eq(call_twice(&y), TN_OUT_OF_RANGE);
  cr_assert_not_null(strstr(tn_error_text(), "the lower slice"), "%s",
                     tn_error_text());
  atomic_store(&two_slices_fail, 0);
  tn_array_release(y);
}
