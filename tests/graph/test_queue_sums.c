/* SPDX-License-Identifier: Apache-2.0
 * Sums of a device with queues (tn_device.sum): gradients of entries that
 * several nodes read or that a broadcast repeats, ones, loops, and requests and
 * layouts that a kernel does not support. Each program runs on the cpu and on
 * the device; all values are small integers, so both are exact. The device is
 * that of tests/storage/fake.h; its kernels are those of lab.times_all, out = x
 * y, and of lab.broad for integers, out = x + y.
 */
#include <stdlib.h>
#include <string.h>

#include "../by_hand.h"
#include "evaluate.h"
#include "fake_end.h"
#include "program.h"

/* --------------------------------------------------------------------- kernel
 */

enum { MOST = 4, AXES_MOST = 3 };

/* An operand on the device: the axes of the loop, 0 where it repeats elements.
 */
typedef struct box_operand {
  const void *data; /* NULL: absent */
  int64_t step[AXES_MOST];
} box_operand;

typedef struct launch {
  int64_t shape[AXES_MOST];
  box_operand in[MOST];
  box_operand out[2];
  bool backward;
} launch;

static double *reach_element(fake *f, const box_operand *o, const int64_t *at) {
  double *data = o->data ? fake_reach(f, o->data) : NULL;
  for (int k = 0; data && k < AXES_MOST; ++k) data += at[k] * o->step[k];
  return data;
}

static void times_at(fake *f, const launch *l, const int64_t *at) {
  const int first = l->backward ? 1 : 0;
  const double *grad = l->backward ? reach_element(f, &l->in[0], at) : NULL,
               *x = reach_element(f, &l->in[first], at),
               *y = reach_element(f, &l->in[first + 1], at);
  double *one = reach_element(f, &l->out[0], at),
         *two = reach_element(f, &l->out[1], at);
  if (one) *one = l->backward ? *grad * *y : *x * *y;
  if (two) *two = *grad * *x;
}

static void times_run(fake *f, const void *arg) {
  const launch *l = arg;
  int64_t at[AXES_MOST];
  for (at[0] = 0; at[0] < l->shape[0]; ++at[0])
    for (at[1] = 0; at[1] < l->shape[1]; ++at[1])
      for (at[2] = 0; at[2] < l->shape[2]; ++at[2]) times_at(f, l, at);
}

/* The last axes come last. */
static box_operand operand_of(const launch *l, const tn_tensor *t) {
  box_operand o = {.data = t->data};
  const int32_t missing = AXES_MOST - t->ndim;
  for (int32_t k = missing; k < AXES_MOST; ++k)
    if (t->shape[k - missing] == l->shape[k])
      o.step[k] = t->strides[k - missing];
  return o;
}

static void shape_set(launch *l, const tn_tensor *t) {
  for (int32_t k = 0; k < AXES_MOST; ++k) {
    const int32_t own = k - (AXES_MOST - t->ndim);
    l->shape[k] = own < 0 ? 1 : t->shape[own];
  }
}

/* The first element of each operand decides. */
static int32_t launch_times(const tn_frame *call) {
  const void *reads[MOST], *writes[2];
  launch l = {.backward = call->n_in > 2};
  fake_work work = {.run = times_run,
                    .arg = &l,
                    .arg_bytes = sizeof l,
                    .bytes = sizeof(double),
                    .reads = reads,
                    .writes = writes};
  shape_set(&l, l.backward ? &call->in[0] : &call->out[0]);
  if (l.shape[0] * l.shape[1] * l.shape[2] == 0) return TN_OK;
  for (uint32_t i = 0; i < call->n_in; ++i) {
    if (call->in_flags[i] & (TN_IN_ABSENT | TN_IN_METADATA)) continue;
    l.in[i] = operand_of(&l, &call->in[i]);
    reads[work.n_reads++] = l.in[i].data;
  }
  for (uint32_t i = 0; i < call->n_out; ++i) {
    if (call->req[i] == TN_REQ_NULL) continue;
    l.out[i] = operand_of(&l, &call->out[i]);
    writes[work.n_writes++] = l.out[i].data;
  }
  return fake_launch(call->run->stream, &work);
}

/* Three arrays of i32, dense. */
typedef struct whole_launch {
  const void *in[2];
  void *out;
  int64_t n;
} whole_launch;

static void broad_run(fake *f, const void *arg) {
  const whole_launch *l = arg;
  const int32_t *x = fake_reach(f, l->in[0]), *y = fake_reach(f, l->in[1]);
  int32_t *out = fake_reach(f, l->out);
  for (int64_t i = 0; i < l->n; ++i) out[i] = x[i] + y[i];
}

static int32_t launch_broad(const tn_frame *call) {
  whole_launch l = {.in = {call->in[0].data, call->in[1].data},
                    .out = call->out[0].data,
                    .n = tn_tensor_size(&call->out[0])};
  const void *writes[] = {l.out};
  return fake_launch(call->run->stream,
                     &(fake_work){.run = broad_run,
                                  .arg = &l,
                                  .arg_bytes = sizeof l,
                                  .bytes = (size_t)l.n * sizeof(int32_t),
                                  .reads = l.in,
                                  .n_reads = 2,
                                  .writes = writes,
                                  .n_writes = 1});
}

static const uint64_t only_f64[] = {TN_BIT_F64}, only_i32[] = {TN_BIT_I32};
#define TIMES(id_, pass_)                                   \
  static const tn_kernel id_ = {                            \
      .struct_size = sizeof(tn_kernel),                     \
      .flags = TN_KERNEL_REENTRANT | TN_KERNEL_ELEMENTWISE, \
      .pass = (pass_),                                      \
      .device_type = TN_DEVICE_EXT,                         \
      .writes = TN_WRITES_WRITE,                            \
      .n_dtype_sets = 1,                                    \
      .when = TN_NONE,                                      \
      .op = "lab.times_all@1",                              \
      .id = "guest.times_all." #id_,                        \
      .dtype_sets = only_f64,                               \
      .compute = launch_times}
TIMES(forward, TN_PASS_FORWARD);
TIMES(backward, TN_PASS_BACKWARD);
/* For dense arrays. */
static const tn_kernel add_whole = {.struct_size = sizeof(tn_kernel),
                                    .flags = TN_KERNEL_REENTRANT,
                                    .device_type = TN_DEVICE_EXT,
                                    .writes = TN_WRITES_WRITE,
                                    .n_dtype_sets = 1,
                                    .when = TN_NONE,
                                    .op = "lab.broad@1",
                                    .id = "guest.broad",
                                    .dtype_sets = only_i32,
                                    .compute = launch_broad};
static const tn_kernel *const kernels[] = {&forward, &backward, &add_whole};
static const tn_target times_all = {.struct_size = sizeof(tn_target),
                                    .op = "lab.times_all@1"},
                       broad_op = {.struct_size = sizeof(tn_target),
                                   .op = "lab.broad@1"};
static const tn_target *const targets[] = {&times_all, &broad_op};
static const tn_plugin guest = {
    PLUGIN_BY_HAND("guest", 1, "lab.times_all on a fake device"),
    .n_kernels = 3, .n_targets = 2, .kernels = kernels, .targets = targets};

/* -------------------------------------------------------------------- fixture
 */

static fake *f;
static tn__device *there;

static void open_with(const fake_options *options, uint32_t workers) {
  net_open_on(workers);
  f = fake_create(options);
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__plugin_add(w.registry, &guest));
  OK(tn__device_find(w.devices, TN_DEVICE_EXT, 0, &there));
}

static void close_all(void) {
  net_close();
  end_fake(f);
}

static void setup_devices(void) {
  open_with(&(fake_options){.count = 1, .latency_us = 20, .seed = 3}, 2);
}

TestSuite(queue_sums, .init = setup_devices, .fini = close_all);
TestSuite(queue_without, .fini = close_all);

static tn_entry times_of(tn_graph *graph, tn_entry x, tn_entry y) {
  return OP(graph, "times_all", NULL, NULL, x, y);
}

/* Small integers, none of them zero, that depend on all three. */
static void fill_array(tn_array *array, size_t what, int run) {
  static const double values[] = {1, -2, 3, 2, -1, 1, -3, 2};
  const size_t n = n_elements(array);
  double *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; i < n; ++i)
    v[i] = values[(i * 3 + what * 5 + (size_t)run) % 8];
  OK(tn__array_set(array, v, n * sizeof *v));
  free(v);
}

static tn_program *bind_at(int32_t type, tn_req request) {
  const tn_bind how = {
      .struct_size = sizeof how, .request = request, .place = {type, 0}};
  tn_program *p = NULL;
  OK(tn__program_bind(g, &how, &p));
  return p;
}

static tn_array *argument_array(const tn_program *p, uint32_t what,
                                uint32_t i) {
  const char *name = tn__node_at(p->graph, p->arguments.v[i].node)->name;
  tn_array *array = NULL;
  OK(tn__program_array(p, what, name, &array));
  return array;
}

/* One run, with output gradients for the heads that need them. */
static void run_once(tn_program *p, tn_req request, int run) {
  tn_array *weights[4] = {NULL}, *out = NULL;
  for (uint32_t i = 0; i < p->arguments.n; ++i)
    fill_array(argument_array(p, TN_PROGRAM_ARGUMENT, i), i, run);
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  if (request == TN_REQ_NULL) return;
  for (uint32_t i = 0; i < p->heads.n; ++i) {
    OK(tn__program_output(p, i, &out));
    weights[i] = empty(TN_F64, (size_t)out->tensor.ndim, out->tensor.shape);
    fill_array(weights[i], 7 + i, run);
  }
  OK(tn__program_backward(p, weights, p->heads.n));
  for (uint32_t i = 0; i < p->heads.n; ++i) tn__array_release(weights[i]);
}

static void expect_same(tn_array *a, tn_array *b, const char *what,
                        uint32_t number) {
  double *x = elements_of(a), *y = elements_of(b);
  cr_assert_eq(n_elements(a), n_elements(b));
  for (size_t i = 0; i < n_elements(a); ++i)
    cr_assert_eq(x[i], y[i], "%s %u, element %zu: %g here, %g there", what,
                 number, i, x[i], y[i]);
  free(x), free(y);
}

static void compare_programs(const tn_program *here, const tn_program *far,
                             tn_req request) {
  tn_array *a = NULL, *b = NULL;
  for (uint32_t i = 0; i < here->heads.n; ++i) {
    OK(tn__program_output(here, i, &a));
    OK(tn__program_output(far, i, &b));
    cr_assert_eq(b->tensor.device_type, TN_DEVICE_EXT);
    expect_same(a, b, "output", i);
  }
  for (uint32_t i = 0; request && i < here->arguments.n; ++i)
    expect_same(argument_array(here, TN_PROGRAM_GRADIENT, i),
                argument_array(far, TN_PROGRAM_GRADIENT, i), "gradient", i);
}

/* The graph, three times on the cpu and on the device. */
static void check_agreement(tn_req request) {
  tn_program *here = bind_at(TN_DEVICE_CPU, request),
             *far = bind_at(TN_DEVICE_EXT, request);
  for (int run = 0; run < 3; ++run) {
    run_once(here, request, run);
    run_once(far, request, run);
    compare_programs(here, far, request);
  }
  tn__program_release(here);
  tn__program_release(far);
}

static void agree_always(void) {
  check_agreement(TN_REQ_NULL);
  check_agreement(TN_REQ_WRITE);
  check_agreement(TN_REQ_ADD);
}

/* ------------------------------------------------------------------ gradients
 */

static void shared_graph(void) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 a = typed_var(g, "a", F64(2, 3));
  const tn_entry y = times_of(g, x, a);
  HEADS(g, times_of(g, y, a), times_of(g, y, y), times_of(g, y, x));
}

Test(queue_sums, gradients_of_entries_with_several_readers) {
  shared_graph();
  agree_always();
}

/* Each axis, several, all of them, and missing ones. */
Test(queue_sums, gradients_of_entries_that_a_broadcast_repeats) {
  const tn_entry x = typed_var(g, "x", F64(2, 3, 4));
  tn_entry y = times_of(g, x, typed_var(g, "last", F64(4)));
  y = times_of(g, y, typed_var(g, "middle", F64(3, 1)));
  y = times_of(g, y, typed_var(g, "first", F64(2, 1, 1)));
  y = times_of(g, y, typed_var(g, "two", F64(2, 1, 4)));
  HEADS(g, times_of(g, y, typed_var(g, "one", SCALAR(TN_F64))));
  agree_always();
}

Test(queue_sums, gradients_of_nothing) {
  const tn_entry x = typed_var(g, "x", F64(0, 3));
  const tn_entry y = times_of(g, x, typed_var(g, "v", F64(3)));
  HEADS(g, times_of(g, y, y));
  agree_always();
}

/* The heads have no output gradients. */
Test(queue_sums, ones_of_gradients_in_the_graph) {
  const tn_entry x = typed_var(g, "x", F64(2, 3)),
                 b = typed_var(g, "b", F64(3));
  const tn_entry heads[] = {times_of(g, x, b), times_of(g, x, x), x},
                 of[] = {x, b};
  tn_entry slopes[2];
  const tn__gradient_spec spec = {
      .query = {.heads = heads, .of = of, .n_heads = 3, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, slopes));
  HEADS(g, slopes[0], slopes[1]);
  check_agreement(TN_REQ_NULL);
}

Test(queues_sum, no_order_of_queues_makes_a_difference) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    open_with(&(fake_options){.count = 1, .seed = seed}, 1 + seed % 3);
    shared_graph();
    check_agreement(TN_REQ_ADD);
    close_all();
  }
}

/* ----------------------------------------------------------------------- loops
 */

/* h' = h x k, collected: h' h' and x. */
static void loop_make(int64_t n, bool reverse) {
  tn_graph *step = net_new();
  const tn_entry x = var_node(step, "x"), h = var_node(step, "h"),
                 k = var_node(step, "k");
  const tn_entry next = times_of(step, times_of(step, h, x), k);
  tn_entry out;
  HEADS(step, next, times_of(step, next, next), x);
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 3,
                        .step = step,
                        .sequences = (const char *const[]){"x"},
                        .states = (const char *const[]){"h"},
                        .n_sequences = 1,
                        .n_states = 1,
                        .reverse = reverse,
                        .in = (const tn_entry[]){typed_var(g, "x", F64(n, 2)),
                                                 typed_var(g, "h", F64(2)),
                                                 typed_var(g, "k", F64(1))},
                        .keys = (const char *const[]){"x", "h", "k"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out, output_of(out, 1), output_of(out, 2));
  tn__graph_release(step);
}

Test(queues_sum, loops_and_their_gradients) {
  for (uint32_t n = 0; n < 4; ++n) {
    open_with(&(fake_options){.count = 1, .seed = n}, 2);
    loop_make(n, n % 2);
    agree_always();
    close_all();
  }
}

/* The step ignores the first state, so its gradient is zeros. */
Test(queue_sums, zeros_where_nothing_depends_on_an_argument) {
  tn_graph *step = net_new();
  const tn_entry x = var_node(step, "x"), h = var_node(step, "h");
  tn_entry out;
  HEADS(step, times_of(step, x, x), times_of(step, x, h));
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 2,
                        .step = step,
                        .sequences = (const char *const[]){"x"},
                        .states = (const char *const[]){"h"},
                        .n_sequences = 1,
                        .n_states = 1,
                        .in = (const tn_entry[]){typed_var(g, "x", F64(3, 2)),
                                                 typed_var(g, "h", F64(2))},
                        .keys = (const char *const[]){"x", "h"}};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out);
  tn__graph_release(step);
  agree_always();
}

/* --------------------------------------------------------------------- refused
 */

static void is_refused(tn_req request, const char *what) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = request,
                       .place = {TN_DEVICE_EXT, 0}};
  tn_program *p = NULL;
  FAILS(tn__program_bind(g, &how, &p), TN_UNSUPPORTED, what, "fake(0)");
  cr_assert_null(p);
}

static void setup_without(void) {
  open_with(&(fake_options){.count = 1, .no_sums = true}, 2);
}

Test(queue_without, sums_of_gradients_are_refused, .init = setup_without) {
  shared_graph();
  is_refused(TN_REQ_WRITE, "gradients cannot be added on");
  tn__program_release(bind_at(TN_DEVICE_EXT, TN_REQ_NULL));
}

Test(queue_without, broadcasts_have_no_gradients, .init = setup_without) {
  HEADS(g,
        times_of(g, typed_var(g, "x", F64(2, 3)), typed_var(g, "v", F64(3))));
  is_refused(TN_REQ_WRITE, "does not take the request or the layout of");
  tn__program_release(bind_at(TN_DEVICE_EXT, TN_REQ_NULL));
}

Test(queue_without, loops_are_refused, .init = setup_without) {
  loop_make(2, false);
  is_refused(TN_REQ_NULL, "no loop can run on");
}

/* ----------------------------------------------------------------------- calls
 */

static tn_array *on_device(size_t ndim, const int64_t *shape,
                           const double *values) {
  tn_array *array = NULL, *host = create_doubles(ndim, shape, values);
  OK(tn__array_to(host, there, &array));
  tn__array_release(host);
  return array;
}

static void expect_values(tn_array *array, size_t n, const double *want) {
  double *have = elements_of(array);
  cr_assert_eq(n_elements(array), n);
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(have[i], want[i], "%zu: %g, not %g", i, have[i], want[i]);
  free(have);
}
#define IS(array, ...)                                                     \
  expect_values((array), sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
                (const double[]){__VA_ARGS__})

static void call_times(tn_array *x, tn_array *y, tn_array *out, tn_req req) {
  tn_operator *op = NULL;
  OK(tn__operator_get(w.registry, "lab.times_all", &op));
  const tn__target_op what = {&w.caller, op, NULL, TN_PASS_FORWARD, 0};
  OK(tn__call(&what, &(tn_inputs){2, (tn_array *[]){x, y}},
              &(tn_outputs){1, &out, &req}));
}

Test(queue_sums, a_call_adds_to_existing_elements) {
  tn_array *x = on_device(SHAPE(2, 2), (const double[]){1, 2, 3, 4}),
           *y = on_device(SHAPE(2), (const double[]){10, 100}),
           *out = on_device(SHAPE(2, 2), (const double[]){5, 6, 7, 8});
  call_times(x, y, out, TN_REQ_ADD);
  IS(out, 15, 206, 37, 408);
  tn__array_release(x);
  tn__array_release(y);
  tn__array_release(out);
}

/* The target of the addition is every second column of another array. */
Test(queue_sums, a_call_adds_to_part_of_an_array) {
  tn_array *x = on_device(SHAPE(2, 2), (const double[]){1, 2, 3, 4}),
           *y = on_device(SHAPE(1), (const double[]){10}),
           *whole =
               on_device(SHAPE(2, 4), (const double[]){0, 1, 2, 3, 4, 5, 6, 7}),
           *part = NULL;
  const tn_range range = {1, 0, -1, INT64_MIN, -2};
  OK(tn__array_slice(whole, &range, &part));
  call_times(x, y, part, TN_REQ_ADD);
  IS(whole, 0, 21, 2, 13, 4, 45, 6, 37);
  tn__array_release(part);
  tn__array_release(whole);
  tn__array_release(x);
  tn__array_release(y);
}

/* The output is one of the inputs, and its kernel overwrites only other arrays.
 */
Test(queue_sums, a_call_may_overwrite_its_input) {
  tn_array *x = on_device(SHAPE(2, 2), (const double[]){1, 2, 3, 4}), *t = NULL;
  OK(tn__array_transpose(x, NULL, &t));
  call_times(x, t, x, TN_REQ_WRITE);
  IS(x, 1, 6, 6, 16);
  tn__array_release(t);
  tn__array_release(x);
}

/* The sum is pending when a new array allocates memory: it must not get the
 * temporary memory of the call. */
Test(queue_sums, temporary_memory_of_a_call_is_in_use_until_it_is_done) {
  const double ones[] = {1, 1, 1, 1};
  tn_array *x = on_device(SHAPE(2, 2), (const double[]){1, 2, 3, 4}),
           *out = on_device(SHAPE(2, 2), (const double[]){5, 6, 7, 8});
  OK(tn__wait_all(w.env.engine));
  fake_hold(f);
  call_times(x, x, out, TN_REQ_ADD);
  cr_assert_eq(tn__array_wait(out, TN__WAIT_WRITERS, 1000000), TN_BUSY);
  tn_array *host = create_doubles(SHAPE(2, 2), ones), *more[4];
  for (int i = 0; i < 4; ++i) OK(tn__array_to(host, there, &more[i]));
  cr_assert_eq(tn__array_wait(more[3], TN__WAIT_WRITERS, 1000000), TN_BUSY);
  fake_go(f);
  IS(out, 6, 10, 16, 24);
  for (int i = 0; i < 4; ++i) tn__array_release(more[i]);
  tn__array_release(host);
  tn__array_release(out);
  tn__array_release(x);
}

/* -------------------------------------------------------------------- integers
 */

static tn_array *whole_on_device(int64_t n, const int32_t *values) {
  tn_array *array = NULL;
  OK(tn__array_create_on(there, &(tn_spec){TN_I32, 1, &n}, &array));
  OK(tn__array_set(array, values, (size_t)n * sizeof *values));
  return array;
}

static tn_code call_broad(tn_array *x, tn_array *out, tn_req req) {
  tn_operator *op = NULL;
  OK(tn__operator_get(w.registry, "lab.broad", &op));
  const tn__target_op what = {&w.caller, op, NULL, TN_PASS_FORWARD, 0};
  return tn__call(&what, &(tn_inputs){2, (tn_array *[]){x, x}},
                  &(tn_outputs){1, &out, &req});
}

static void whole_is(tn_array *array, const int32_t *want, size_t n) {
  int32_t have[8];
  OK(tn__array_get(array, have, n * sizeof *have));
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(have[i], want[i], "%zu: %d, not %d", i, have[i], want[i]);
}

/* The last sum wraps. */
Test(queue_sums, a_call_adds_to_integers) {
  tn_array *x = whole_on_device(3, (const int32_t[]){1, -2, 1}),
           *out = whole_on_device(3, (const int32_t[]){5, 6, INT32_MAX});
  OK(call_broad(x, out, TN_REQ_ADD));
  whole_is(out, (const int32_t[]){7, 2, INT32_MIN + 1}, 3);
  tn__array_release(x);
  tn__array_release(out);
}

/* A table that names no dtypes sums floats; it only copies integers. */
Test(queue_without, integers_are_not_added_to_unless_the_table_says_so) {
  tn_array *part = NULL;
  open_with(&(fake_options){.count = 1, .only_floats = true}, 2);
  tn_array *x = whole_on_device(3, (const int32_t[]){1, -2, 1}),
           *out = whole_on_device(6, (const int32_t[]){0, 1, 2, 3, 4, 5});
  const tn_range range = {0, 0, -1, INT64_MIN, -2};
  OK(tn__array_slice(out, &range, &part));
  FAILS(call_broad(x, part, TN_REQ_ADD), TN_UNSUPPORTED,
        "does not take the request or the layout of", "fake(0)");
  OK(tn__array_copy(part, x));
  whole_is(out, (const int32_t[]){0, 1, 2, -2, 4, 1}, 6);
  tn__array_release(x);
  tn__array_release(part);
  tn__array_release(out);
}
