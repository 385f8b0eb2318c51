/* SPDX-License-Identifier: Apache-2.0
 * Failures while the simulated GPU records a program or launches it
 * (TN_BIND_CAPTURE). Without memory a run goes step by step and the program
 * records again later. Other errors reach the reader of a result, and the next
 * run is right.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "capture.h"
#include "driver.h" /* results */

/* If the driver has no memory for a recording or its launch, runs go step by
 * step. After eight runs the next one tries again. */
static void refuse_memory(int what) {
  static const char why[] =
      "CUDA_ERROR_OUT_OF_MEMORY: out of memory; it will be tried again";
  const char *const ops[] = {"elemwise.tanh"};
  tn_array *y = NULL;
  float before[24], after[24];
  fixture_open_all(&(fake_cuda_options){.devices = 1});
  tn_program *p = bind_chain(ops, 1, TN_BIND_CAPTURE);
  OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &y));
  OK(tn_array_get(y, before, sizeof before));
  fake_graph_refuse(&(fake_graph_refusal){what, CUDA_OUT_OF_MEMORY});
  for (int run = 0; run < 9; ++run) {
    OK(tn_program_forward(p, 0));
    expect_uncaptured(p, TN_PART_FORWARD, why);
  }
  expect_line(p, why);
  cr_expect_eq(fake_graph_counts_get().launched, 0);
  OK(tn_program_forward(p, 0));
  expect_captured(p, TN_PART_FORWARD);
  OK(tn_program_forward(p, 0));
  OK(tn_array_get(y, after, sizeof after));
  cr_expect_arr_eq(before, after, sizeof before);
  cr_expect_eq(fake_graph_counts_get().launched, 2);
  tn_program_release(p);
  fixture_close();
}

Test(captured, a_recording_without_memory_is_made_later) {
  refuse_memory(FAKE_CAPTURE_BEGIN);
  refuse_memory(FAKE_CAPTURE_END);
  refuse_memory(FAKE_GRAPH_CREATE);
  refuse_memory(FAKE_GRAPH_LAUNCH);
}

/* Run 1 launches its recording, run 10 again, and then run 27. */
Test(captured, launches_are_tried_ever_more_seldom) {
  const char *const op = "elemwise.tanh";
  fixture_open_all(&(fake_cuda_options){.devices = 1});
  tn_program *p = bind_chain(&op, 1, TN_BIND_CAPTURE);
  for (int run = 0; run < 28; ++run) {
    if (run == 0 || run == 5)
      fake_graph_refuse(
          &(fake_graph_refusal){FAKE_GRAPH_LAUNCH, CUDA_OUT_OF_MEMORY});
    OK(tn_program_forward(p, 0));
    OK(tn_wait_all(fixture));
    cr_assert_eq(fake_graph_counts_get().launched, run == 27, "run %d", run);
  }
  cr_expect_eq(fake_graph_counts_get().begun, 1, "what was recorded is kept");
  expect_captured(p, TN_PART_FORWARD);
  tn_program_release(p);
}

/* Runs of one operator, each of which meets the refusal, if it records. */
static int tries_of(const char *op, int runs, int result) {
  tn_program *p = bind_chain(&op, 1, TN_BIND_CAPTURE);
  const int before = fake_graph_counts_get().begun;
  for (int run = 0; run < runs; ++run) {
    fake_graph_refuse(&(fake_graph_refusal){FAKE_CAPTURE_END, result});
    OK(tn_program_forward(p, 0));
    OK(tn_wait_all(fixture));
  }
  cr_expect_eq(fake_graph_counts_get().launched, 0);
  tn_program_release(p);
  return fake_graph_counts_get().begun - before;
}

/* Run 2, and after 8, 16, 32 and 64 others. */
Test(captured, recording_is_tried_ever_more_seldom_or_not_again) {
  open_trial(0);
  cr_expect_eq(tries_of("elemwise.tanh", 200, CUDA_OUT_OF_MEMORY), 5);
  cr_expect_eq(tries_of("trial.brittle", 50, CUDA_OK), 1);
}

/* Runs in between draw the same numbers as without a recording. */
Test(captured, random_numbers_go_on_where_there_was_no_memory_to_record) {
  enum { LONG = 16 };
  static const char *const ops[] = {"trial.noise", "elemwise.tanh"};
  static float out[2][LONG][24];
  open_trial(3);
  for (uint32_t i = 0; i < 2; ++i) {
    tn_array *y = NULL;
    tn_program *p = bind_chain(ops, 2, i * TN_BIND_CAPTURE);
    OK(tn_random_seed(fixture, 78));
    OK(tn_program_output(p, 0, &y));
    for (uint32_t run = 0; run < LONG; ++run) {
      if (run == 1) (void)fake_cuda_starve(1, true);
      OK(tn_program_forward(p, 0));
      OK(tn_array_get(y, out[i][run], sizeof out[i][run]));
      if (run == 1) (void)fake_cuda_starve(0, false);
      if (run == 1 && i == 1)
        expect_uncaptured(p, TN_PART_FORWARD,
                          "the values that change between runs");
    }
    if (i == 1) expect_captured(p, TN_PART_FORWARD);
    tn_program_release(p);
  }
  cr_expect_arr_eq(out[0], out[1], sizeof out[0]);
  cr_expect_gt(fake_graph_counts_get().launched, 0);
}

Test(captured, a_failed_launch_is_reported_once_with_the_programs_name) {
  const char *const ops[] = {"elemwise.tanh", "elemwise.sigmoid"};
  tn_array *y = NULL;
  float before[24], after[24];
  open_trial(0);
  tn_program *p = run_thrice(ops, 2);
  OK(tn_program_output(p, 0, &y));
  OK(tn_array_get(y, before, sizeof before));
  fake_graph_refuse(
      &(fake_graph_refusal){FAKE_GRAPH_LAUNCH, CUDA_NOT_SUPPORTED});
  const tn_code rc = tn_program_forward(p, 0);
  cr_expect(rc == TN_OK || rc == TN_UNSUPPORTED);
  FAILS(tn_array_get(y, after, sizeof after), TN_UNSUPPORTED,
        "program `n0 .. n1`: cuda(0): launching a recording failed: "
        "error 801");
  OK(tn_program_forward(p, 0));
  OK(tn_array_get(y, after, sizeof after));
  cr_expect_arr_eq(before, after, sizeof before);
  expect_captured(p, TN_PART_FORWARD);
  tn_program_release(p);
}

/* A program of curve() with gradients, and its output gradient. */
static tn_program *curve_bind(tn_array **weight) {
  tn_program *p = NULL;
  fixture_open_all(&(fake_cuda_options){.devices = 1});
  tn_graph *g = build_curve();
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = TN_BIND_CAPTURE,
                       .request = TN_REQ_WRITE,
                       .place = fixture_place("cuda(0)")};
  OK(tn_program_bind(g, &how, &p));
  tn_graph_release(g);
  *weight = fixture_array("cuda(0)", 32);
  put_values(*weight, 9);
  return p;
}

/* Reading the gradient reports it; after the next run the gradient is as
 * before. */
static void check_failed_launch(tn_program *p, tn_array *weight,
                                const char *message) {
  float before[32], after[32];
  tn_array *slope = find_array(p, TN_PROGRAM_GRADIENT, "a");
  OK(tn_array_get(slope, before, sizeof before));
  fake_graph_refuse(
      &(fake_graph_refusal){FAKE_GRAPH_LAUNCH, CUDA_NOT_SUPPORTED});
  (void)!tn_program_forward(p, TN_CALL_TRAIN);
  (void)!tn_program_backward(p, &weight, 1);
  FAILS(tn_array_get(slope, after, sizeof after), TN_UNSUPPORTED, message);
  run_curve(p, 1, weight);
  OK(tn_array_get(slope, after, sizeof after));
  cr_expect_arr_eq(before, after, sizeof before);
}

Test(captured, a_backward_part_is_not_launched_after_a_failure) {
  tn_array *weight = NULL;
  tn_program *p = curve_bind(&weight);
  for (uint32_t run = 0; run < 3; ++run) run_curve(p, 1, weight);
  check_failed_launch(
      p, weight, "was not run: program `product .. y`: cuda(0): launching");
  tn_program_release(p);
  tn_array_release(weight);
}

/* Runs of one part step by step, after a failed launch of the other. */
Test(captured, a_launch_that_fails_ends_no_run_that_is_made_step_by_step) {
  tn_array *weight = NULL;
  tn_program *p = curve_bind(&weight);
  run_curve(p, 1, weight);
  fake_graph_refuse(
      &(fake_graph_refusal){FAKE_CAPTURE_BEGIN, CUDA_OUT_OF_MEMORY});
  for (uint32_t run = 0; run < 2; ++run) run_curve(p, 1, weight);
  expect_uncaptured(p, TN_PART_TRAIN,
                    "OUT_OF_MEMORY: out of memory; it will be tried");
  expect_captured(p, TN_PART_BACKWARD);
  check_failed_launch(p, weight, "launching a recording failed");
  tn_program_release(p);
  tn_array_release(weight);
}

/* An allocator that fails once, and counts. */
static _Atomic int64_t fail_in, living;

static void *allocate_memory(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  if (atomic_load(&fail_in) > 0 && atomic_fetch_sub(&fail_in, 1) == 1)
    return NULL;
  void *memory = NULL;
  if (posix_memalign(&memory, align < 16 ? 16 : align, bytes + 1)) return NULL;
  atomic_fetch_add(&living, 1);
  return memory;
}

static void free_memory(void *ctx, void *memory) {
  (void)ctx;
  if (memory) atomic_fetch_sub(&living, 1);
  free(memory);
}

/* Whether all was well although the n-th allocation of the run that records
 * failed. Later runs are, in any case. */
static bool records_with_failure(int64_t n) {
  const char *const ops[] = {"trial.noise", "elemwise.tanh"};
  tn_array *y = NULL;
  float v[24];
  tn_program *p = bind_chain(ops, 2, TN_BIND_CAPTURE);
  OK(tn_program_output(p, 0, &y));
  OK(tn_program_forward(p, 0));
  OK(tn_array_get(y, v, sizeof v));
  atomic_store(&fail_in, n);
  tn_code rc = tn_program_forward(p, 0);
  (void)!tn_wait_all(fixture);
  const bool failed = atomic_exchange(&fail_in, 0) == 0;
  if (rc == TN_OK) rc = tn_array_get(y, v, sizeof v);
  cr_assert(rc == TN_OK || (failed && rc == TN_OUT_OF_MEMORY), "%s",
            tn_error_text());
  OK(tn_program_forward(p, 0));
  OK(tn_array_get(y, v, sizeof v));
  tn_program_release(p);
  return !failed;
}

Test(captured, memory_that_runs_out_at_any_point_ends_no_program) {
  const tn_options how = {.struct_size = sizeof how,
                          .workers = 1,
                          .allocator = {NULL, allocate_memory, free_memory}};
  fake_cuda_begin(&(fake_cuda_options){.devices = 1});
  OK(tn_runtime_create(&how, &fixture));
  OK(tn_plugin_load(fixture, CUDA_FILE));
  OK(tn_plugin_load(fixture, ELEMWISE_FILE));
  OK(tn_plugin_load(fixture, ELEMWISE_CUDA_FILE));
  OK(tn_plugin_load(fixture, TRIAL_FILE));
  OK(tn_plugin_load(fixture, TRIAL_CUDA_FILE));
  int64_t n = 1;
  while (!records_with_failure(n)) cr_assert_lt(++n, 100);
  cr_assert_gt(n, 3, "nothing was allocated");
  fixture_close();
  cr_assert_eq(living, 0);
}

Test(captured, a_gpu_that_disappears_ends_no_process) {
  const char *const ops[] = {"elemwise.tanh"};
  tn_array *y = NULL;
  float v[24];
  open_trial(0);
  tn_program *p = run_thrice(ops, 1);
  fake_cuda_lose(0, 999);
  const tn_code rc = tn_program_forward(p, 0);
  cr_expect(rc == TN_OK || rc == TN_DEVICE);
  OK(tn_program_output(p, 0, &y));
  FAILS(tn_array_get(y, v, sizeof v), TN_DEVICE, "CUDA_ERROR_UNKNOWN");
  tn_program_release(p);
  fixture_is_broken = true;
}
