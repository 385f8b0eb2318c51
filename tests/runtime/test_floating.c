/* SPDX-License-Identifier: Apache-2.0
 * test_floating.c: a kernel that changes the rounding mode, or flushes denormal
 * numbers to zero, has no effect on later calls. This holds on the calling
 * thread and on workers, for every kind of call.
 */
#include <criterion/criterion.h>
#include <fenv.h>
#include <float.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "../by_hand.h"
#include "probe.h"
#include "tenon/graph.h"

#define OK(call) cr_assert_eq((call), TN_OK, "%s", tn_error_text())

/* ----------------------------------------------------------------- the mode */

/* Rounds upwards and flushes denormal numbers, as -ffast-math does. */
static void change_mode(void) {
  (void)fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static bool is_sound(void) {
  volatile float smallest = FLT_MIN, half = 0.5f;
  volatile long double one = 1, three = 3;
  const long double up = one / three, down = -(-one / three);
  return smallest * half > 0 && up == down && fegetround() == FE_TONEAREST;
}

/* --------------------------------------------------------------- the plugin */

typedef enum stage { COMPUTE, PREPARE, SUPPORTS, SLICES } stage;

static stage spoils;
static _Atomic int unsound; /* slices that found another mode */

static int32_t check_slice(void *arg, int64_t begin, int64_t end) {
  (void)arg, (void)begin, (void)end;
  if (!is_sound()) ++unsound;
  change_mode();
  return TN_OK;
}

static int32_t compute_half(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  if (!is_sound()) ++unsound;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) y[i] = x[i] / 2;
  if (spoils == COMPUTE) change_mode();
  return spoils == SLICES
             ? call->host->parallel_for(call, 1000, 1, check_slice, NULL)
             : TN_OK;
}

static int32_t prepare_half(const tn_frame *call, tn_plan *plan) {
  (void)call, (void)plan;
  if (spoils == PREPARE) change_mode();
  return TN_OK;
}

static int32_t supports_half(const tn_frame *call) {
  (void)call;
  if (spoils == SUPPORTS) change_mode();
  return TN_OK;
}

static const uint64_t only_f32[] = {TN_BIT_F32};
static const tn_kernel kernel = {.struct_size = sizeof kernel,
                                 .flags = TN_KERNEL_REENTRANT,
                                 .pass = TN_PASS_FORWARD,
                                 .device_type = TN_DEVICE_CPU,
                                 .priority = 5,
                                 .writes = TN_WRITES_WRITE,
                                 .n_dtype_sets = 1,
                                 .when = TN_NONE,
                                 .op = "probe.all@1",
                                 .id = "spoiler.all.cpu",
                                 .dtype_sets = only_f32,
                                 .supports = supports_half,
                                 .prepare = prepare_half,
                                 .compute = compute_half};
static const tn_kernel *const kernels[] = {&kernel};
static const tn_target target = {.struct_size = sizeof target,
                                 .op = "probe.all@1"};
static const tn_target *const targets[] = {&target};
static const tn_plugin spoiler_plugin = {
    PLUGIN_BY_HAND("spoiler", 1, "Leaves another rounding mode"),
    .n_kernels = 1, .n_targets = 1, .kernels = kernels, .targets = targets};

/* -------------------------------------------------------------------- tests */

static tn_runtime *rt;
static tn_operator *op;
static tn_array *x;

static void open_runtime(uint32_t engine, uint32_t workers) {
  const tn_options options = {
      .struct_size = sizeof options, .engine = engine, .workers = workers};
  const float values[] = {FLT_MIN, 6};
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_add(rt, &probe_plugin));
  OK(tn_plugin_add(rt, &spoiler_plugin));
  OK(tn_operator_get(rt, "probe.all", &op));
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 1, (int64_t[]){2}}, &x));
  OK(tn_array_set(x, values, sizeof values));
}

static void close_runtime(void) {
  tn_array_release(x);
  tn_runtime_release(rt);
}

/* Checks the mode before and after `times` calls, and their results. */
static void check_calls(int times) {
  tn_array *y = NULL;
  float got[2];
  for (int i = 0; i < times; ++i) {
    OK(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)));
    cr_assert(is_sound(), "call %d has changed the mode", i);
    OK(tn_array_get(y, got, sizeof got));
    cr_assert(got[0] == FLT_MIN / 2 && got[1] == 3, "%g %g", (double)got[0],
              (double)got[1]);
  }
  tn_array_release(y);
  cr_assert_eq(unsound, 0);
}

static void check_each_engine(stage at) {
  const uint32_t engines[] = {TN_ENGINE_NAIVE, TN_ENGINE_POOLED};
  for (int i = 0; i < 2; ++i) {
    open_runtime(engines[i], 3);
    spoils = at;
    check_calls(4);
    close_runtime();
  }
}

Test(floating, survives_a_compute_that_changes_it) {
  check_each_engine(COMPUTE);
}

Test(floating, survives_a_prepare_that_changes_it) {
  check_each_engine(PREPARE);
}

Test(floating, survives_a_supports_that_changes_it) {
  check_each_engine(SUPPORTS);
}

Test(floating, survives_slices_of_a_loop_that_change_it) {
  check_each_engine(SLICES);
}

Test(floating, survives_prepared_calls) {
  tn_array *y = NULL;
  tn_prepared *call = NULL;
  open_runtime(TN_ENGINE_POOLED, 2);
  spoils = COMPUTE;
  const tn_preparation how = {.struct_size = sizeof how,
                              .op = op,
                              .inputs = *TN_IN(x),
                              .outputs = *TN_OUT(&y)};
  OK(tn_call_prepare(rt, &how, &call));
  for (int i = 0; i < 3; ++i) {
    OK(tn_call_run(call));
    OK(tn_array_wait(y));
    cr_assert(is_sound(), "run %d has changed the mode", i);
  }
  cr_assert_eq(unsound, 0);
  tn_prepared_release(call);
  tn_array_release(y);
  close_runtime();
}

/* z = op(op(x)), both with the kernel that changes the mode. */
static void make_two_calls(tn_graph *g) {
  tn_entry entry;
  OK(tn_graph_variable(g, "x", NULL, &entry));
  for (int i = 0; i < 2; ++i) {
    const tn_entry in = entry;
    const tn_graph_node node = {
        .struct_size = sizeof node, .op = "probe.all", .n_in = 1, .in = &in};
    OK(tn_graph_call(g, &node, &entry));
  }
  OK(tn_graph_heads_set(g, &entry, 1));
}

Test(floating, survives_steps_of_a_program) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  open_runtime(TN_ENGINE_POOLED, 2);
  spoils = COMPUTE;
  OK(tn_graph_create(rt, &g));
  make_two_calls(g);
  const tn_argument argument = {.name = "x", .array = x};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &argument, .n_arguments = 1};
  OK(tn_program_bind(g, &how, &p));
  for (int i = 0; i < 4; ++i) {
    OK(tn_program_forward(p, 0));
    OK(tn_wait_all(rt));
    cr_assert(is_sound(), "run %d has changed the mode", i);
  }
  cr_assert_eq(unsound, 0);
  tn_program_release(p);
  tn_graph_release(g);
  close_runtime();
}
