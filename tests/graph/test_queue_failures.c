/* SPDX-License-Identifier: Apache-2.0
 * Programs on devices with queues that fail: failures of the device reach the
 * outputs, a run without memory leaves everything unchanged, and a bind names
 * missing kernels and devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "../must.h"
#include "queue_fixture.h"

TestSuite(queue_failures, .init = setup_devices, .fini = close_all);

/* ---------------------------------------------------------------------- errors
 */

static void break_forward(void) {
  arguments_put(0);
  OK(tn__wait_all(w.env.engine));
  fake_hold(f);
  OK(tn__program_forward(p, 0));
  fake_break(f, "the device is on fire");
  fake_go(f);
}

Test(queue_failures, outputs_report_failures_of_a_device) {
  const tn_bind how = {.struct_size = sizeof how, .place = {TN_DEVICE_EXT, 1}};
  tn_array *array = NULL;
  double v[N];
  build_net();
  OK(tn__program_bind(g, &how, &p));
  OK(tn__program_output(p, 0, &array));
  break_forward();
  FAILS(tn__array_get(array, v, sizeof v), TN_DEVICE, "the device is on fire");
  /* The oldest step that reports a failure. */
  cr_assert_eq(strncmp(tn_error_text(), "one", 3), 0, "%s", tn_error_text());
}

Test(queue_failures, a_failure_of_one_of_several_devices_is_not_lost) {
  build_net();
  bind_net(TN_REQ_NULL);
  break_forward();
  FAILS(tn__wait_all(w.env.engine), TN_DEVICE, "the device is on fire");
}

/* The right results of the last run, or an error of this code. */
static bool is_right_or_fails(tn_array *array, int run, int without,
                              tn_code code) {
  double v[N];
  const tn_code rc = tn__array_get(array, v, sizeof v);
  if (rc == TN_OK) are_products(v, run, without, without >= 0);
  if (rc != TN_OK) cr_assert_eq(rc, code, "%s", tn_error_text());
  return rc == TN_OK;
}

/* Returns the number of results. */
static int look_at_all(int run, tn_code code) {
  tn_array *array = NULL;
  OK(tn__program_output(p, 0, &array));
  int n = is_right_or_fails(array, run, -1, code);
  for (int k = 0; k < N_NAMES; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_GRADIENT, names[k], &array));
    n += is_right_or_fails(array, run, k, code);
  }
  return n;
}

/* The n-th call of the device fails; returns whether there were so many calls.
 * Output of steps after the failed one must not count as a result. */
static bool refuse_one(int64_t n, tn_array *weight) {
  arguments_put(1);
  put_values(weight, 9, 1);
  OK(tn__wait_all(w.env.engine));
  fake_refuse(f, n);
  tn_code rc = tn__program_forward(p, TN_CALL_TRAIN);
  if (rc == TN_OK) rc = tn__program_backward(p, &weight, 1);
  const tn_code all = tn__wait_all(w.env.engine);
  fake_refuse(f, 0);
  if (rc != TN_OK) cr_assert_eq(rc, TN_DEVICE, "%s", tn_error_text());
  const int n_right = rc == TN_OK ? look_at_all(1, TN_DEVICE) : 0;
  if (all == TN_OK) cr_assert_eq(n_right, N_NAMES + 1);
  for (int run = 2; run < 4; ++run) {
    arguments_put(run);
    put_values(weight, 9, run);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
    is_right(run);
  }
  (void)tn__wait_all(w.env.engine);
  return all != TN_OK;
}

static void refuse_each(uint32_t kind, uint32_t flags) {
  net_open_with(&(tn__engine_options){.kind = kind, .workers = 2});
  f = fake_create(&(fake_options){.count = 2, .seed = 4});
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__plugin_add(w.registry, &guest));
  build_net();
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .request = TN_REQ_WRITE,
                       .groups = groups,
                       .n_groups = 2};
  OK(tn__program_bind(g, &how, &p));
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  int64_t n = 1;
  while (refuse_one(n, weight)) ++n;
  cr_assert_gt(n, 20, "only %d calls", (int)n);
  tn__array_release(weight);
  close_all();
}

Test(queue_failure, each_failing_call_of_a_device_is_reported) {
  refuse_each(TN__ENGINE_POOLED, 0);
  refuse_each(TN__ENGINE_POOLED, TN_BIND_NO_FUSE);
}

Test(queue_failure, each_failing_call_of_a_device_is_reported_without_workers) {
  refuse_each(TN__ENGINE_NAIVE, 0);
}

/* The n-th command fails; returns the number of results. One queue fails from
 * then on: results that depend on its commands are invalid. */
static int break_one(int64_t n, const fake_options *options) {
  open_with(options, 2);
  build_net();
  bind_net(TN_REQ_WRITE);
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  arguments_put(0);
  put_values(weight, 9, 0);
  OK(tn__wait_all(w.env.engine));
  fake_hold(f);
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, &weight, 1));
  fake_break_at(f, n, "the device is on fire");
  fake_go(f);
  const int n_right = look_at_all(0, TN_DEVICE);
  const tn_code all = tn__wait_all(w.env.engine);
  if (n_right < N_NAMES + 1) cr_assert_eq(all, TN_DEVICE);
  tn__array_release(weight);
  close_all();
  return n_right;
}

Test(queue_failure, results_of_other_queues_report_failures_of_a_queue) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const fake_options options = {.count = 2, .seed = seed};
    int n_right = 0, n_some = 0;
    for (int64_t n = 1; n_right < N_NAMES + 1; ++n) {
      n_right = break_one(n, &options);
      n_some += n_right > 0;
    }
    cr_assert_gt(n_some, 2, "and nothing else is disturbed");
  }
}

/* -------------------------------------------------------------------- memory
 */

typedef tn_code part_of_run(tn_array *weight);

static tn_code forward_run(tn_array *weight) {
  (void)weight;
  return tn__program_forward(p, TN_CALL_TRAIN);
}

static tn_code backward_run(tn_array *weight) {
  return tn__program_backward(p, &weight, 1);
}

/* Each allocation fails in turn, until a failing one is a worker's, or none is
 * left. */
static void run_or_not(part_of_run *part, tn_array *weight) {
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t at = 1; rc != TN_OK; ++at) {
    const int64_t before = count_launches();
    w.memory.fail_at = w.memory.asked + at;
    rc = part(weight);
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert_eq(count_launches(), before, "steps ran without allocation %d",
                 (int)at);
  }
}

enum { MANY = 700 }; /* steps; more than the engine can hold */

Test(queue_failure, a_run_without_memory_has_not_begun) {
  open_with(&(fake_options){.count = 1, .seed = 4}, 2);
  tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  const tn_entry x = typed_var(g, "x", F64(2, 3));
  HEADS(g, long_of(x, typed_var(g, "a", F64(2, 3)), MANY, "first"));
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = TN_BIND_NO_FUSE,
                       .request = TN_REQ_WRITE,
                       .groups = groups,
                       .n_groups = 1};
  OK(tn__program_bind(g, &how, &p));
  const double ones[N] = {1, 1, 1, 1, 1, 1};
  for (int k = 0; k < 2; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    OK(tn__array_set(array, ones, sizeof ones));
  }
  OK(tn__array_set(weight, ones, sizeof ones));
  run_or_not(forward_run, weight);
  run_or_not(backward_run, weight);
  OK(forward_run(weight));
  OK(backward_run(weight));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "a", &array));
  double *have = elements_of(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], MANY);
  free(have);
  tn__array_release(weight);
  close_all();
}

/* A run of another program in the memory of the first, for which the engine has
 * no memory. */
Test(queue_failure, a_run_that_has_not_begun_overwrites_nothing) {
  open_with(&(fake_options){.count = 1, .seed = 4}, 2);
  tn_program *other = NULL;
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  tn_bind how = {.struct_size = sizeof how,
                 .flags = TN_BIND_NO_FUSE,
                 .request = TN_REQ_WRITE,
                 .groups = groups,
                 .n_groups = 1};
  HEADS(g, long_of(x, a, 30, "first"));
  OK(tn__program_bind(g, &how, &p));
  HEADS(g, long_of(x, a, MANY, "first"));
  how.request = TN_REQ_NULL;
  how.shared = p;
  OK(tn__program_bind(g, &how, &other));
  cr_assert_eq(other->memory.pools[0], p->memory.pools[0]);
  /* Everything except the push. */
  OK(tn__calls_complete(other, 1));
  const tn__step_range all = tn__range_forward(other, 1);
  OK(tn__sequence_make(&other->forward[1], &all));
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__wait_all(w.env.engine));
  w.memory.for_ever = true;
  w.memory.fail_at = w.memory.asked + 1;
  FAILS(tn__program_forward(other, TN_CALL_TRAIN), TN_OUT_OF_MEMORY, "memory");
  w.memory.fail_at = 0;
  OK(tn__program_backward(p, &weight, 1));
  tn__program_release(other);
  tn__array_release(weight);
  close_all();
}

/* A run is pending, with steps of the host that wait for the device, while
 * another kind of run cannot be made. */
Test(queue_failure, runs_that_cannot_be_made_leave_others_alone) {
  int n_missed = 0;
  for (int64_t at = 1; at < 120; ++at) { /* some allocations are those of
                                            workers */
    open_with(&(fake_options){.count = 2, .seed = (uint64_t)at % 4}, 2);
    tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
    build_net();
    bind_net(TN_REQ_WRITE);
    arguments_put(0);
    put_values(weight, 9, 0);
    OK(tn__wait_all(w.env.engine));
    fake_hold(f);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    w.memory.fail_at = w.memory.asked + at;
    tn_code rc = tn__program_backward(p, &weight, 1);
    if (rc == TN_OK) rc = tn__program_forward(p, 0);
    w.memory.fail_at = 0;
    n_missed += rc != TN_OK;
    if (rc != TN_OK) cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    fake_go(f);
    OK(tn__program_output(p, 0, &array));
    if (at % 2) is_product(array, 0, -1, false);
    tn__array_release(weight);
    close_all(); /* also while the run is pending */
  }
  cr_assert_gt(n_missed, 20, "only %d allocations", n_missed);
}

static tn_code try_bind(tn_req request) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = request,
                       .groups = groups,
                       .n_groups = 2};
  const tn_code rc = tn__program_bind(g, &how, &p);
  cr_assert_null(p);
  return rc;
}

Test(queue_failures, a_kernel_that_is_not_there_is_missed_when_binding) {
  const tn_entry one = OP(g, "tanh", NULL, "one", typed_var(g, "x", F64(2, 3)));
  OK(tn__attribute_set(g, one.node, "group", "second"));
  HEADS(g, one);
  FAILS(try_bind(TN_REQ_NULL), TN_UNSUPPORTED, "node `one`",
        "lab.tanh.cpu (plugin lab): is for cpu");
}

Test(queue_failures, a_device_that_is_not_there_is_named) {
  const tn_group far = {"first", {TN_DEVICE_EXT, 2}};
  const tn_bind how = {
      .struct_size = sizeof how, .groups = &far, .n_groups = 1};
  build_net();
  FAILS(tn__program_bind(g, &how, &p), TN_NOT_FOUND, "`first`",
        "there is no fake(2)");
}
