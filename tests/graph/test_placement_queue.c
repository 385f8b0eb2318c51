/* SPDX-License-Identifier: Apache-2.0
 * Programs on devices with queues, which compute late, in an order of their own
 * among queues, and notice who did not wait (tests/storage/fake.h). Their
 * kernels are those of lab.keep: out = x y and slope = y, and the gradient.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "../must.h"
#include "evaluate.h"
#include "fake.h"
#include "program.h"

/* -------------------------------------------------------------------- kernels
 */

enum { MOST_OPERANDS = 6, N = 6 };

/* One call, for the device's thread; NULL: an operand that is not there. */
typedef struct launch {
  const void *in[MOST_OPERANDS];
  void *out[2];
  int64_t n;
  bool backward;
} launch;

static double *at(fake *f, const void *address) {
  return address ? fake_reach(f, address) : NULL;
}

static void keep_run(fake *f, const void *arg) {
  const launch *l = arg;
  const uint32_t first = l->backward ? 2 : 0;
  const double *grad = at(f, l->in[0]), *slope = at(f, l->in[5]);
  const double *x = at(f, l->in[first]), *y = at(f, l->in[first + 1]);
  double *one = at(f, l->out[0]), *two = at(f, l->out[1]);
  for (int64_t i = 0; i < l->n; ++i)
    if (l->backward) {
      if (one) one[i] = grad[i] * slope[i];
      if (two) two[i] = grad[i] * x[i];
    } else {
      if (one) one[i] = x[i] * y[i];
      if (two) two[i] = y[i];
    }
}

static int32_t keep(const tn_frame *call) {
  const void *reads[MOST_OPERANDS], *writes[2];
  launch l = {.n = tn_tensor_size(&call->out[0]), .backward = call->n_in > 2};
  fake_work work = {.run = keep_run,
                    .arg = &l,
                    .arg_bytes = sizeof l,
                    .bytes = (size_t)l.n * sizeof(double),
                    .reads = reads,
                    .writes = writes};
  for (uint32_t i = 0; i < call->n_in; ++i) {
    if (call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)) continue;
    reads[work.n_reads++] = l.in[i] = call->in[i].data;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    if (call->req[i] == TN_REQ_NULL) continue;
    writes[work.n_writes++] = l.out[i] = call->out[i].data;
  }
  return fake_launch(call->run->stream, &work);
}

/* A view, which lies where it is seen. */
static int32_t never(const tn_frame *call) {
  (void)call;
  return TN_INTERNAL;
}

static const uint64_t only_f64[] = {TN_BIT_F64};
enum { OTHER = 99 }; /* a second type of devices */
#define KERNEL(id_, op_, type_, pass_, compute_)                  \
  static const tn_kernel id_ = {.struct_size = sizeof(tn_kernel), \
                                .flags = TN_KERNEL_REENTRANT,     \
                                .pass = (pass_),                  \
                                .device_type = (type_),           \
                                .writes = TN_WRITES_WRITE,        \
                                .n_dtype_sets = 1,                \
                                .when = TN_NONE,                  \
                                .op = (op_),                      \
                                .id = "guest." #id_,              \
                                .dtype_sets = only_f64,           \
                                .compute = (compute_)}
#define KEEP(id_, type_, pass_) KERNEL(id_, "lab.keep@1", type_, pass_, keep)
KEEP(forward, TN_DEVICE_EXT, TN_PASS_FORWARD);
KEEP(backward, TN_DEVICE_EXT, TN_PASS_BACKWARD);
KEEP(other_forward, OTHER, TN_PASS_FORWARD);
KEEP(other_backward, OTHER, TN_PASS_BACKWARD);
KERNEL(seen, "lab.seen@1", TN_DEVICE_EXT, TN_PASS_FORWARD, never);
static const tn_kernel *const kernels[] = {&forward, &backward, &other_forward,
                                           &other_backward, &seen};
static const tn_target target = {.struct_size = sizeof(tn_target),
                                 .op = "lab.keep@1"},
                       seen_target = {.struct_size = sizeof(tn_target),
                                      .op = "lab.seen@1"};
static const tn_target *const targets[] = {&target, &seen_target};
static const tn_plugin guest = {
    PLUGIN_BY_HAND("guest", 1, "lab.keep and lab.seen on fake devices"),
    .n_kernels = 5, .n_targets = 2, .kernels = kernels, .targets = targets};

/* -------------------------------------------------------------------- fixture
 */

static fake *f;
static tn_program *p;

static void open_with(const fake_options *options, uint32_t workers) {
  net_open_on(workers);
  f = fake_create(options);
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__plugin_add(w.registry, &guest));
}

static void close_all(void) {
  tn__program_release(p);
  p = NULL;
  net_close();
  must_hold(fake_counts_get(f).violations == 0, fake_violation(f));
  fake_destroy(f);
}

static void setup(void) {
  open_with(&(fake_options){.count = 2, .latency_us = 20, .seed = 3}, 2);
}

TestSuite(place_queue, .init = setup, .fini = close_all);

static const tn_group groups[] = {{"first", {TN_DEVICE_EXT, 0}},
                                  {"second", {TN_DEVICE_EXT, 1}}};

static const char *const names[] = {"x", "a", "b", "c", "d"};
enum { N_NAMES = 5 };

static tn_entry keep_of(tn_entry x, const char *with, const char *name,
                        const char *group) {
  const tn_entry out = OP(g, "keep", NULL, name, x, typed(g, with, F64(2, 3)));
  OK(tn__attribute_set(g, out.node, "group", group));
  return out;
}

/* d c b a x, from device to device. */
static void net(void) {
  tn_entry last = keep_of(typed(g, "x", F64(2, 3)), "a", "one", "first");
  last = keep_of(last, "b", "two", "second");
  last = keep_of(last, "c", "three", "");
  HEADS(g, keep_of(last, "d", "four", "first"));
}

static void bind(tn_req request) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = request,
                       .groups = groups,
                       .n_groups = 2};
  OK(tn__program_bind(g, &how, &p));
}

/* Values whose products are exact. */
static double value(int what, int run, int i) {
  return (double)((what * 5 + run * 3 + i * 7) % 9 - 4);
}

static void put(tn_array *array, int what, int run) {
  double v[N];
  for (int i = 0; i < N; ++i) v[i] = value(what, run, i);
  OK(tn__array_set(array, v, sizeof v));
}

static void arguments_put(int run) {
  tn_array *array = NULL;
  for (int k = 0; k < N_NAMES; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put(array, k, run);
  }
}

/* The product of all arguments but `without`, and of the head's weight. */
static void are_products(const double *have, int run, int without,
                         bool weighted) {
  for (int i = 0; i < N; ++i) {
    double want = weighted ? value(9, run, i) : 1;
    for (int k = 0; k < N_NAMES; ++k)
      if (k != without) want *= value(k, run, i);
    cr_assert_eq(have[i], want, "element %d of run %d without %d is %g, not %g",
                 i, run, without, have[i], want);
  }
}

static void is_product(tn_array *array, int run, int without, bool weighted) {
  double *have = elements(array);
  are_products(have, run, without, weighted);
  free(have);
}

static void is_right(int run) {
  tn_array *array = NULL;
  OK(tn__program_output(p, 0, &array));
  is_product(array, run, -1, false);
  for (int k = 0; k < N_NAMES; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_GRADIENT, names[k], &array));
    is_product(array, run, k, true);
  }
}

static void run_all(int runs) {
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  for (int run = 0; run < runs; ++run) {
    arguments_put(run);
    put(weight, 9, run);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
    is_right(run);
  }
  tn__array_release(weight);
}

/* --------------------------------------------------------------------- results
 */

Test(place_queue, results_are_products_on_whichever_devices) {
  net();
  bind(TN_REQ_WRITE);
  run_all(5);
  cr_assert_gt(fake_counts_get(f).launches, 0);
}

Test(place_queues, no_order_of_queues_and_no_plan_makes_a_difference) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    open_with(&(fake_options){.count = 2, .seed = seed}, 1 + seed % 3);
    net();
    const tn_bind how = {.struct_size = sizeof how,
                         .plan = seed % 3,
                         .request = TN_REQ_WRITE,
                         .memory = seed % 2 ? TN_MEMORY_MINIMAL : 0,
                         .groups = groups,
                         .n_groups = 2};
    OK(tn__program_bind(g, &how, &p));
    run_all(4);
    close_all();
  }
}

Test(place_queue, a_whole_program_runs_on_one_of_them) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .place = {TN_DEVICE_EXT, 1}};
  net();
  OK(tn__program_bind(g, &how, &p));
  run_all(3);
  cr_assert_eq(p->plan.n_pools, 1);
  cr_assert_eq(p->pools[0]->device->id, 1);
}

/* Both terms of a sum come from another device: neither copy may be what the
 * sum is added by. */
Test(place_queue, gradients_from_another_device_are_added) {
  const int64_t shape[] = {2, 3};
  tn_array *weights[2], *array = NULL;
  const tn_entry x = typed(g, "x", F64(2, 3));
  const tn_entry one = keep_of(x, "a", "one", "first");
  const tn_entry two = keep_of(one, "b", "two", "second");
  HEADS(g, two, keep_of(one, "c", "three", "second"));
  bind(TN_REQ_WRITE);
  for (int k = 0; k < 4; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put(array, k, 0);
  }
  for (int k = 0; k < 2; ++k) {
    weights[k] = empty(TN_F64, 2, shape);
    put(weights[k], 7 + k, 0);
  }
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  OK(tn__program_backward(p, weights, 2));
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  double *have = elements(array);
  for (int i = 0; i < N; ++i)
    cr_assert_eq(have[i], value(1, 0, i) * (value(7, 0, i) * value(2, 0, i) +
                                            value(8, 0, i) * value(3, 0, i)));
  free(have);
  tn__array_release(weights[0]);
  tn__array_release(weights[1]);
}

/* The argument lies elsewhere than where it is read: its gradient crosses, and
 * is added to what is there. */
static void added_across(const tn_group where[2]) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_ADD,
                       .groups = where,
                       .n_groups = 2};
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3}), *array = NULL;
  const tn_entry x = typed(g, "x", F64(2, 3));
  OK(tn__attribute_set(g, x.node, "group", "first"));
  HEADS(g, keep_of(x, "a", "one", "second"));
  OK(tn__program_bind(g, &how, &p));
  for (int k = 0; k < 2; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put(array, k, 0);
  }
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, "x", &array));
  cr_assert_eq(array->block->device->type, where[0].place.device_type);
  put(array, 6, 0);
  put(weight, 9, 0);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
  }
  double *have = elements(array);
  for (int i = 0; i < N; ++i)
    cr_assert_eq(have[i], value(6, 0, i) + 2 * value(9, 0, i) * value(1, 0, i));
  free(have);
  tn__array_release(weight);
}

Test(place_queue, a_gradient_from_another_device_is_added_to_an_argument) {
  added_across(groups);
}

Test(place_queue, a_gradient_from_the_cpu_is_added_to_an_argument) {
  added_across((const tn_group[]){groups[0], {"second", {TN_DEVICE_CPU, 0}}});
}

Test(place_queue, a_gradient_is_added_to_an_argument_on_the_cpu) {
  added_across((const tn_group[]){{"first", {TN_DEVICE_CPU, 0}}, groups[1]});
}

/* Where no queue goes from device to device, results go over the cpu. */
Test(place_queues, devices_of_two_types_meet_on_the_cpu) {
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
  net();
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

Test(place_queues, gradients_are_added_from_a_device_of_another_type) {
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

/* Runs that nobody waits for in between: each must leave the pools before the
 * next takes them. */
Test(place_queue, runs_follow_one_another_without_waiting) {
  tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  net();
  bind(TN_REQ_WRITE);
  for (int run = 0; run < 10; ++run) {
    for (int k = 0; k < N_NAMES; ++k) {
      tn_array *from = empty(TN_F64, 2, (const int64_t[]){2, 3});
      put(from, k, run);
      OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
      OK(tn__array_copy(array, from));
      tn__array_release(from);
    }
    put(weight, 9, run);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
  }
  is_right(9);
  tn__array_release(weight);
}

/* One worker, and a device that does nothing: whoever waited for it would keep
 * all others waiting. */
Test(place_queues, no_worker_waits_for_a_device) {
  open_with(&(fake_options){.count = 2}, 1);
  tn_array *array = NULL, *x = scalar(3), *y = NULL;
  net();
  bind(TN_REQ_WRITE);
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

Test(place_queue, what_the_program_makes_is_zero_there_too) {
  tn_array *array = NULL;
  net();
  bind(TN_REQ_NULL);
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, "b", &array));
  cr_assert_eq(array->tensor.device_type, TN_DEVICE_EXT);
  double *v = elements(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(v[i], 0);
  free(v);
}

/* --------------------------------------------------------------------- fences
 */

enum { LONG = 40 };

/* x a a a ..., `n` calls in `group`. */
static tn_entry long_of(tn_entry x, tn_entry a, int n, const char *group) {
  for (int i = 0; i < n; ++i) {
    x = OP(g, "keep", NULL, NULL, x, a);
    OK(tn__attribute_set(g, x.node, "group", group));
  }
  return x;
}

static uint32_t n_operations, n_nothing; /* of the run below */

/* A step of a program that is not run counts as none. */
static int64_t launches(void) {
  (void)tn__wait_all(w.env.engine);
  return fake_counts_get(f).launches;
}

/* Fences of a forward run of the graph, whose head is 1. */
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
  double *have = elements(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], 1);
  free(have);
  tn__program_release(p);
  p = NULL;
  return n;
}

Test(place_queue, steps_of_one_queue_share_fences) {
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
  HEADS(g, long_of(x, a, LONG, "first"));
  const int64_t together = fences_of(0), apart = fences_of(TN_BIND_NO_FUSE);
  cr_assert_eq(apart - together, LONG - (LONG + 15) / 16, "%lld and %lld",
               (long long)apart, (long long)together);
}

/* Who waits for one step of a queue does not wait for those behind it. */
Test(place_queue, what_another_queue_reads_has_a_fence) {
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
  const tn_entry three = long_of(x, a, 3, "first");
  const tn_entry six = long_of(three, a, 3, "first");
  HEADS(g, six, long_of(six, a, 1, "second"));
  const int64_t at_the_end = fences_of(0);
  HEADS(g, six, long_of(three, a, 1, "second"));
  cr_assert_eq(fences_of(0), at_the_end + 1);
}

/* Of the shape alone. */
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

Test(place_queue, whose_shape_another_queue_knows_has_no_fence) {
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
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

/* Neither behind as many as share a fence, nor behind one that another queue
 * waits for, nor where steps are apart. */
Test(place_queue, what_is_nothing_is_no_job_of_its_own) {
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
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

/* As if the plan had found so. */
Test(place_queue, a_part_may_begin_with_nothing_or_be_nothing) {
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
  const tn_bind how = {
      .struct_size = sizeof how, .groups = groups, .n_groups = 2};
  HEADS(g, long_of(x, a, 4, "first"));
  for (uint32_t n = 2; n <= 4; n += 2) {
    OK(tn__program_bind(g, &how, &p));
    for (uint32_t i = 0; i < n; ++i) {
      p->steps[i]->kind = TN__STEP_NOTHING;
      tn__step_set_run(p->steps[i]);
    }
    const int64_t before = launches();
    OK(tn__program_forward(p, 0));
    cr_assert_eq(launches() - before, 4 - n);
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

static void see(void *ctx, const char *name, tn_array *array) {
  (void)ctx, (void)array;
  (void)snprintf(shown[n_shown++ % 16], sizeof shown[0], "%s", name);
}

Test(place_queue, a_watched_program_shows_each_output) {
  net();
  bind(TN_REQ_WRITE);
  OK(tn__program_monitor(p, see, NULL));
  arguments_put(0);
  OK(tn__program_forward(p, 0));
  const char *const want[] = {"one_out", "one_0_copy_output", "two_out"};
  cr_assert_eq(n_shown, 7); /* four calls, three copies */
  for (int i = 0; i < 3; ++i)
    cr_assert_str_eq(shown[i], want[i], "output %d is %s", i, shown[i]);
  OK(tn__program_monitor(p, NULL, NULL));
  run_all(1);
}

Test(place_queue, a_run_may_stop_on_the_way) {
  tn_array *array = NULL;
  size_t left = 0;
  net();
  bind(TN_REQ_NULL);
  arguments_put(0);
  OK(tn__program_forward_part(p, 0, 2, &left));
  cr_assert_eq(left, 5);
  OK(tn__program_forward_part(p, 0, 7, &left));
  cr_assert_eq(left, 0);
  OK(tn__program_output(p, 0, &array));
  is_product(array, 0, -1, false);
}

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

Test(place_queue, what_a_device_fails_at_is_told_by_the_outputs) {
  const tn_bind how = {.struct_size = sizeof how, .place = {TN_DEVICE_EXT, 1}};
  tn_array *array = NULL;
  double v[N];
  net();
  OK(tn__program_bind(g, &how, &p));
  OK(tn__program_output(p, 0, &array));
  break_forward();
  FAILS(tn__array_get(array, v, sizeof v), TN_DEVICE, "the device is on fire");
  /* The oldest step of which it says that it has failed. */
  cr_assert_eq(strncmp(tn_error_text(), "one", 3), 0, "%s", tn_error_text());
}

Test(place_queue, what_one_of_several_devices_fails_at_is_not_lost) {
  net();
  bind(TN_REQ_NULL);
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

/* Returns how many of the results there are. */
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

/* The n-th call of the device fails; returns whether there were so many. What
 * follows a step that failed must not be taken for a result. */
static bool refuse_one(int64_t n, tn_array *weight) {
  arguments_put(1);
  put(weight, 9, 1);
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
    put(weight, 9, run);
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
  net();
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

Test(place_queues, each_call_of_a_device_that_fails_is_told) {
  refuse_each(TN__ENGINE_POOLED, 0);
  refuse_each(TN__ENGINE_POOLED, TN_BIND_NO_FUSE);
}

Test(place_queues, each_call_of_a_device_that_fails_is_told_without_workers) {
  refuse_each(TN__ENGINE_NAIVE, 0);
}

/* The n-th command fails; returns how many of the results there are. One queue
 * fails from then on: what others make of what it was to make is no result. */
static int break_one(int64_t n, const fake_options *options) {
  open_with(options, 2);
  net();
  bind(TN_REQ_WRITE);
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  arguments_put(0);
  put(weight, 9, 0);
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

Test(place_queues, what_a_queue_fails_at_is_told_by_what_others_make_of_it) {
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

/* Each allocation fails in turn, until one that fails is a worker's, or none is
 * left. */
static void run_or_not(part_of_run *part, tn_array *weight) {
  tn_code rc = TN_OUT_OF_MEMORY;
  for (int64_t at = 1; rc != TN_OK; ++at) {
    const int64_t before = launches();
    w.memory.fail_at = w.memory.asked + at;
    rc = part(weight);
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert_eq(launches(), before, "steps ran without allocation %d",
                 (int)at);
  }
}

enum { MANY = 700 }; /* steps, which is more than the engine has room for */

Test(place_queues, a_run_without_memory_has_not_begun) {
  open_with(&(fake_options){.count = 1, .seed = 4}, 2);
  tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  const tn_entry x = typed(g, "x", F64(2, 3));
  HEADS(g, long_of(x, typed(g, "a", F64(2, 3)), MANY, "first"));
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
  double *have = elements(array);
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], MANY);
  free(have);
  tn__array_release(weight);
  close_all();
}

/* Another program's, in the memory of the first, for which the engine has no
 * room. */
Test(place_queues, a_run_that_has_not_begun_takes_nothing_away) {
  open_with(&(fake_options){.count = 1, .seed = 4}, 2);
  tn_program *other = NULL;
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  const tn_entry x = typed(g, "x", F64(2, 3)), a = typed(g, "a", F64(2, 3));
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
  cr_assert_eq(other->pools[0], p->pools[0]);
  /* All that there is to make but the push. */
  OK(tn__calls_complete(other, 1));
  OK(tn__sequence_make(other, &other->forward[1], 0, other->n_forward, 1));
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

/* A run is on its way, with steps of the host that wait for the device, while
 * another kind of run cannot be made. */
Test(place_queues, runs_that_cannot_be_made_leave_others_alone) {
  int n_missed = 0;
  for (int64_t at = 1; at < 120; ++at) { /* some are the workers' */
    open_with(&(fake_options){.count = 2, .seed = (uint64_t)at % 4}, 2);
    tn_array *array = NULL, *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
    net();
    bind(TN_REQ_WRITE);
    arguments_put(0);
    put(weight, 9, 0);
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
    close_all(); /* also while the run is on its way */
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

Test(place_queue, a_kernel_that_is_not_there_is_missed_when_binding) {
  const tn_entry one = OP(g, "tanh", NULL, "one", typed(g, "x", F64(2, 3)));
  OK(tn__attribute_set(g, one.node, "group", "second"));
  HEADS(g, one);
  FAILS(try_bind(TN_REQ_NULL), TN_UNSUPPORTED, "node `one`",
        "lab.tanh.cpu (plugin lab): is for cpu");
}

Test(place_queue, a_device_that_is_not_there_is_named) {
  const tn_group far = {"first", {TN_DEVICE_EXT, 2}};
  const tn_bind how = {
      .struct_size = sizeof how, .groups = &far, .n_groups = 1};
  net();
  FAILS(tn__program_bind(g, &how, &p), TN_NOT_FOUND, "`first`",
        "there is no fake(2)");
}
