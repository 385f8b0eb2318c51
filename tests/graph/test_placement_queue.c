/* SPDX-License-Identifier: Apache-2.0
 * Programs on devices with queues: results, the fences between queues, and
 * runs step by step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "queue_fixture.h"

TestSuite(placement_queue, .init = setup_devices, .fini = close_all);

/* --------------------------------------------------------------------- results
 */

Test(placement_queue, results_are_products_on_whichever_devices) {
  build_net();
  bind_net(TN_REQ_WRITE);
  run_all(5);
  cr_assert_gt(fake_counts_get(f).launches, 0);
}

Test(placement_queues, no_order_of_queues_and_no_plan_makes_a_difference) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    open_with(&(fake_options){.count = 2, .seed = seed}, 1 + seed % 3);
    build_net();
    const tn_bind how = {.struct_size = sizeof how,
                         .plan = seed % 3 == 1 ? TN_PLAN_NONE : TN_PLAN_DEFAULT,
                         .request = TN_REQ_WRITE,
                         .memory = seed % 2 ? TN_MEMORY_MINIMAL : 0,
                         .groups = groups,
                         .n_groups = 2};
    OK(tn__program_bind(g, &how, &p));
    run_all(4);
    close_all();
  }
}

Test(placement_queue, a_whole_program_runs_on_one_of_them) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .place = {TN_DEVICE_EXT, 1}};
  build_net();
  OK(tn__program_bind(g, &how, &p));
  run_all(3);
  cr_assert_eq(p->memory.plan.n_pools, 1);
  cr_assert_eq(p->memory.pools[0]->device->id, 1);
}

/* Both terms of a sum come from another device: neither copy can perform the
 * addition. */
Test(placement_queue, gradients_from_another_device_are_added) {
  const int64_t shape[] = {2, 3};
  tn_array *weights[2], *array = NULL;
  const tn_entry x = typed_var(g, "x", F64(2, 3));
  const tn_entry one = keep_of(x, "a", "one", "first");
  const tn_entry two = keep_of(one, "b", "two", "second");
  HEADS(g, two, keep_of(one, "c", "three", "second"));
  bind_net(TN_REQ_WRITE);
  for (int k = 0; k < 4; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put_values(array, k, 0);
  }
  for (int k = 0; k < 2; ++k) {
    weights[k] = empty(TN_F64, 2, shape);
    put_values(weights[k], 7 + k, 0);
  }
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, weights, 2));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  double *have = elements_of(array);
  for (int i = 0; i < N; ++i)
    cr_assert_eq(have[i],
                 value_at(1, 0, i) * (value_at(7, 0, i) * value_at(2, 0, i) +
                                      value_at(8, 0, i) * value_at(3, 0, i)));
  free(have);
  tn__array_release(weights[0]);
  tn__array_release(weights[1]);
}

/* The argument is on another device than its reader: its gradient is copied
 * there, and added to the existing elements. */
static void added_across(const tn_group where[2]) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_ADD,
                       .groups = where,
                       .n_groups = 2};
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3}), *array = NULL;
  const tn_entry x = typed_var(g, "x", F64(2, 3));
  OK(tn__attribute_set(g, x.node, "group", "first"));
  HEADS(g, keep_of(x, "a", "one", "second"));
  OK(tn__program_bind(g, &how, &p));
  for (int k = 0; k < 2; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put_values(array, k, 0);
  }
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  cr_assert_eq(array->block->device->type, where[0].place.device_type);
  put_values(array, 6, 0);
  put_values(weight, 9, 0);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
  }
  double *have = elements_of(array);
  for (int i = 0; i < N; ++i)
    cr_assert_eq(have[i],
                 value_at(6, 0, i) + 2 * value_at(9, 0, i) * value_at(1, 0, i));
  free(have);
  tn__array_release(weight);
}

Test(placement_queue, a_gradient_from_another_device_is_added_to_an_argument) {
  added_across(groups);
}

Test(placement_queue, a_gradient_from_the_cpu_is_added_to_an_argument) {
  added_across((const tn_group[]){groups[0], {"second", {TN_DEVICE_CPU, 0}}});
}

Test(placement_queue, a_gradient_is_added_to_an_argument_on_the_cpu) {
  added_across((const tn_group[]){{"first", {TN_DEVICE_CPU, 0}}, groups[1]});
}

/* If no queue connects two devices, results go through the cpu. */
Test(placement_queues, devices_of_two_types_meet_on_the_cpu) {
  open_with(&(fake_options){.count = 1, .seed = 5}, 2);
  fake *other = fake_create(
      &(fake_options){.type = OTHER, .name = "other", .count = 1, .seed = 6});
  const tn_group apart[] = {groups[0], {"second", {OTHER, 0}}};
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .groups = apart,
                       .n_groups = 2};
  uint32_t n_copies = 0;
  OK(tn__devices_add(w.devices, fake_table(other)));
  build_net();
  OK(tn__program_bind(g, &how, &p));
  for (uint32_t i = 0; i < p->n_forward; ++i)
    n_copies += p->steps[i]->kind == TN__STEP_COPY;
  cr_assert_eq(n_copies, 4); /* two from the first to the second */
  run_all(4);
  close_all();
  cr_assert_eq(fake_counts_get(other).violations, 0, "%s",
               fake_violation(other));
  fake_destroy(other);
}

Test(placement_queues, gradients_are_added_from_a_device_of_another_type) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    open_with(&(fake_options){.count = 1, .seed = seed}, 2);
    fake *other = fake_create(
        &(fake_options){.type = OTHER, .name = "other", .seed = seed});
    OK(tn__devices_add(w.devices, fake_table(other)));
    added_across((const tn_group[]){groups[0], {"second", {OTHER, 0}}});
    close_all();
    cr_assert_eq(fake_counts_get(other).violations, 0, "%s",
                 fake_violation(other));
    fake_destroy(other);
  }
}

/* Runs without a wait in between: each must leave the pools before the next
 * acquires them. */
Test(placement_queue, runs_follow_one_another_without_waiting) {
  tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  build_net();
  bind_net(TN_REQ_WRITE);
  for (int run = 0; run < 10; ++run) {
    for (int k = 0; k < N_NAMES; ++k) {
      tn_array *from = empty(TN_F64, 2, (const int64_t[]){2, 3});
      put_values(from, k, run);
      OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
      OK(tn__array_copy(array, from));
      tn__array_release(from);
    }
    put_values(weight, 9, run);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
  }
  is_right(9);
  tn__array_release(weight);
}

/* One worker, and a device that does nothing: a worker that waited for it would
 * delay all others. */
Test(placement_queues, no_worker_waits_for_a_device) {
  open_with(&(fake_options){.count = 2}, 1);
  tn_array *array = NULL, *x = scalar(3), *y = NULL;
  build_net();
  bind_net(TN_REQ_WRITE);
  arguments_put(0);
  expect(x, VALUES(3));
  fake_hold(f);
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &array));
  OK(call("probe.all", IN(x), &y));
  expect(y, VALUES(6));
  cr_assert_eq(tn__array_wait(array, TN__WAIT_WRITERS, 1000000), TN_BUSY);
  fake_go(f);
  is_product(array, 0, -1, false);
  tn__array_release(x);
  tn__array_release(y);
  close_all();
}

Test(placement_queue, arrays_of_a_program_begin_as_zeros_there_too) {
  tn_array *array = NULL;
  build_net();
  bind_net(TN_REQ_NULL);
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "b", &array));
  cr_assert_eq(array->tensor.device_type, TN_DEVICE_EXT);
  double *v = elements_of(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(v[i], 0);
  free(v);
}

/* --------------------------------------------------------------------- fences
 */

static uint32_t n_operations, n_nothing; /* of the run below */

/* Fences of a forward run of the graph; its head is 1. */
static int64_t fences_of(uint32_t flags) {
  static const double ones[N] = {1, 1, 1, 1, 1, 1};
  tn_array *array = NULL;
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .groups = groups,
                       .n_groups = 2};
  OK(tn__program_bind(g, &how, &p));
  for (int k = 0; k < 2; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    OK(tn__array_set(array, ones, sizeof ones));
  }
  OK(tn__program_forward(p, 0));
  OK(tn__wait_all(w.env.engine));
  n_operations = p->forward[0].n_operations - p->forward[0].n_begins;
  n_nothing = 0;
  for (uint32_t i = 0; i < p->n_forward; ++i)
    n_nothing += p->steps[i]->kind == TN__STEP_NOTHING;
  const int64_t before = fake_counts_get(f).records;
  OK(tn__program_forward(p, 0));
  OK(tn__wait_all(w.env.engine));
  const int64_t n = fake_counts_get(f).records - before;
  OK(tn__program_output(p, 0, &array));
  double *have = elements_of(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], 1);
  free(have);
  tn__program_release(p);
  p = NULL;
  return n;
}

Test(placement_queue, steps_of_one_queue_share_fences) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  HEADS(g, long_of(x, a, LONG, "first"));
  const int64_t together = fences_of(0), apart = fences_of(TN_BIND_NO_FUSE);
  cr_assert_eq(apart - together, LONG - (LONG + 15) / 16, "%lld and %lld",
               (long long)apart, (long long)together);
}

/* A reader of one step of a queue does not wait for later steps. */
Test(placement_queue, a_result_that_another_queue_reads_has_a_fence) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  const tn_entry three = long_of(x, a, 3, "first");
  const tn_entry six = long_of(three, a, 3, "first");
  HEADS(g, six, long_of(six, a, 1, "second"));
  const int64_t at_the_end = fences_of(0);
  HEADS(g, six, long_of(three, a, 1, "second"));
  cr_assert_eq(fences_of(0), at_the_end + 1);
}

/* Reads only the shape. */
static tn_entry zeros_of(tn_entry like, const char *group) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_ZERO,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "zeros",
                              .in = &like};
  OK(tn__node_add(g, &spec, &node));
  OK(tn__attribute_set(g, node->id, "group", group));
  return (tn_entry){node->id, 0};
}

Test(placement_queue, a_result_with_shape_readers_only_has_no_fence) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  const tn_entry three = long_of(x, a, 3, "first");
  const tn_entry six = long_of(three, a, 3, "first");
  HEADS(g, six, long_of(zeros_of(six, "second"), a, 1, "second"));
  const int64_t at_the_end = fences_of(0);
  HEADS(g, six, long_of(zeros_of(three, "second"), a, 1, "second"));
  cr_assert_eq(fences_of(0), at_the_end);
}

static tn_entry seen_of(tn_entry x, const char *group) {
  const tn_entry out = OP(g, "seen", NULL, NULL, x);
  OK(tn__attribute_set(g, out.node, "group", group));
  return out;
}

/* It begins no job after as many steps as share a fence, after a step that
 * another queue waits for, or in single steps. */
Test(placement_queue, a_step_without_work_is_no_job) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  const tn_entry most = long_of(x, a, 16, "first");
  HEADS(g, long_of(seen_of(most, "first"), a, 4, "first"));
  const int64_t fences = fences_of(0);
  cr_assert_eq(n_nothing, 1);
  cr_assert_eq(n_operations, 2);
  HEADS(g, long_of(most, a, 4, "first"));
  cr_assert_eq(fences_of(0), fences);
  const tn_entry three = long_of(x, a, 3, "first");
  HEADS(g, long_of(seen_of(three, "first"), a, 3, "first"),
        long_of(three, a, 1, "second"));
  (void)fences_of(0);
  cr_assert_eq(n_nothing, 1);
  cr_assert_eq(n_operations, 5); /* two copies, of `a` and of `three` */
  (void)fences_of(TN_BIND_NO_FUSE);
  cr_assert_eq(n_operations, 3 + 3 + 1 + 2);
}

/* As if the plan had decided so. */
Test(placement_queue, a_part_may_begin_with_nothing_or_be_nothing) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  const tn_bind how = {
      .struct_size = sizeof how, .groups = groups, .n_groups = 2};
  HEADS(g, long_of(x, a, 4, "first"));
  for (uint32_t n = 2; n <= 4; n += 2) {
    OK(tn__program_bind(g, &how, &p));
    for (uint32_t i = 0; i < n; ++i) {
      p->steps[i]->kind = TN__STEP_NOTHING;
      tn__step_set_run(p->steps[i]);
    }
    const int64_t before = count_launches();
    OK(tn__program_forward(p, 0));
    cr_assert_eq(count_launches() - before, 4 - n);
    cr_assert_eq(p->forward[0].n_operations - p->forward[0].n_begins, n < 4);
    tn__program_release(p);
    p = NULL;
  }
}

/* ------------------------------------------------------------------ step by
 * step
 */

static int n_shown;
static char shown[16][64];

static void note_output(void *ctx, const char *name, tn_array *array) {
  (void)ctx, (void)array;
  (void)snprintf(shown[n_shown++ % 16], sizeof shown[0], "%s", name);
}

Test(placement_queue, a_watched_program_shows_each_output) {
  build_net();
  bind_net(TN_REQ_WRITE);
  OK(tn__program_monitor(p, note_output, NULL));
  arguments_put(0);
  OK(tn__program_forward(p, 0));
  const char *const want[] = {"one_out", "one_0_copy_output", "two_out"};
  cr_assert_eq(n_shown, 7); /* four calls, three copies */
  for (int i = 0; i < 3; ++i)
    cr_assert_str_eq(shown[i], want[i], "output %d is %s", i, shown[i]);
  OK(tn__program_monitor(p, NULL, NULL));
  run_all(1);
}

Test(placement_queue, a_run_may_stop_on_the_way) {
  tn_array *array = NULL;
  size_t left = 0;
  build_net();
  bind_net(TN_REQ_NULL);
  arguments_put(0);
  OK(tn__program_forward_part(p, 0, 2, &left));
  cr_assert_eq(left, 5);
  OK(tn__program_forward_part(p, 0, 7, &left));
  cr_assert_eq(left, 0);
  OK(tn__program_output(p, 0, &array));
  is_product(array, 0, -1, false);
}
