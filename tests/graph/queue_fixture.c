/* SPDX-License-Identifier: Apache-2.0
 * queue_fixture.c: see queue_fixture.h.
 */
#include "queue_fixture.h"

#include <stdlib.h>

#include "../by_hand.h"
#include "fake_end.h"

/* -------------------------------------------------------------------- kernels
 */

enum { MOST_OPERANDS = 6 };

/* One call, for the device's thread; NULL: an absent operand. */
typedef struct launch {
  const void *in[MOST_OPERANDS];
  void *out[2];
  int64_t n;
  bool backward;
} launch;

static double *device_doubles(fake *device, const void *address) {
  return address ? fake_reach(device, address) : NULL;
}

static void keep_run(fake *device, const void *arg) {
  const launch *l = arg;
  const uint32_t first = l->backward ? 2 : 0;
  const double *grad = device_doubles(device, l->in[0]),
               *slope = device_doubles(device, l->in[5]);
  const double *x = device_doubles(device, l->in[first]),
               *y = device_doubles(device, l->in[first + 1]);
  double *one = device_doubles(device, l->out[0]),
         *two = device_doubles(device, l->out[1]);
  for (int64_t i = 0; i < l->n; ++i)
    if (l->backward) {
      if (one) one[i] = grad[i] * slope[i];
      if (two) two[i] = grad[i] * x[i];
    } else {
      if (one) one[i] = x[i] * y[i];
      if (two) two[i] = y[i];
    }
}

static int32_t launch_keep(const tn_frame *call) {
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

/* A view, which needs no call: its output is in the memory of its input. */
static int32_t fail_view(const tn_frame *call) {
  (void)call;
  return TN_INTERNAL;
}

static const uint64_t only_f64[] = {TN_BIT_F64};
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
#define KEEP(id_, type_, pass_) \
  KERNEL(id_, "lab.keep@1", type_, pass_, launch_keep)
KEEP(forward, TN_DEVICE_EXT, TN_PASS_FORWARD);
KEEP(backward, TN_DEVICE_EXT, TN_PASS_BACKWARD);
KEEP(other_forward, OTHER, TN_PASS_FORWARD);
KEEP(other_backward, OTHER, TN_PASS_BACKWARD);
KERNEL(seen, "lab.seen@1", TN_DEVICE_EXT, TN_PASS_FORWARD, fail_view);
static const tn_kernel *const kernels[] = {&forward, &backward, &other_forward,
                                           &other_backward, &seen};
static const tn_target target = {.struct_size = sizeof(tn_target),
                                 .op = "lab.keep@1"},
                       seen_target = {.struct_size = sizeof(tn_target),
                                      .op = "lab.seen@1"};
static const tn_target *const targets[] = {&target, &seen_target};
const tn_plugin guest = {
    PLUGIN_BY_HAND("guest", 1, "lab.keep and lab.seen on fake devices"),
    .n_kernels = 5, .n_targets = 2, .kernels = kernels, .targets = targets};

/* -------------------------------------------------------------------- fixture
 */

fake *f;
tn_program *p;

void open_with(const fake_options *options, uint32_t workers) {
  net_open_on(workers);
  f = fake_create(options);
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__plugin_add(w.registry, &guest));
}

void close_all(void) {
  tn__program_release(p);
  p = NULL;
  net_close();
  end_fake(f);
}

void setup_devices(void) {
  open_with(&(fake_options){.count = 2, .latency_us = 20, .seed = 3}, 2);
}

const tn_group groups[2] = {{"first", {TN_DEVICE_EXT, 0}},
                            {"second", {TN_DEVICE_EXT, 1}}};

const char *const names[N_NAMES] = {"x", "a", "b", "c", "d"};

tn_entry keep_of(tn_entry x, const char *with, const char *name,
                 const char *group) {
  const tn_entry out =
      OP(g, "keep", NULL, name, x, typed_var(g, with, F64(2, 3)));
  OK(tn__attribute_set(g, out.node, "group", group));
  return out;
}

void build_net(void) {
  tn_entry last = keep_of(typed_var(g, "x", F64(2, 3)), "a", "one", "first");
  last = keep_of(last, "b", "two", "second");
  last = keep_of(last, "c", "three", "");
  HEADS(g, keep_of(last, "d", "four", "first"));
}

void bind_net(tn_req request) {
  const tn_bind how = {.struct_size = sizeof how,
                       .request = request,
                       .groups = groups,
                       .n_groups = 2};
  OK(tn__program_bind(g, &how, &p));
}

double value_at(int what, int run, int i) {
  return (double)((what * 5 + run * 3 + i * 7) % 9 - 4);
}

void put_values(tn_array *array, int what, int run) {
  double v[N];
  for (int i = 0; i < N; ++i) v[i] = value_at(what, run, i);
  OK(tn__array_set(array, v, sizeof v));
}

void arguments_put(int run) {
  tn_array *array = NULL;
  for (int k = 0; k < N_NAMES; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, names[k], &array));
    put_values(array, k, run);
  }
}

void are_products(const double *have, int run, int without, bool weighted) {
  for (int i = 0; i < N; ++i) {
    double want = weighted ? value_at(9, run, i) : 1;
    for (int k = 0; k < N_NAMES; ++k)
      if (k != without) want *= value_at(k, run, i);
    cr_assert_eq(have[i], want, "element %d of run %d without %d is %g, not %g",
                 i, run, without, have[i], want);
  }
}

void is_product(tn_array *array, int run, int without, bool weighted) {
  double *have = elements_of(array);
  are_products(have, run, without, weighted);
  free(have);
}

void is_right(int run) {
  tn_array *array = NULL;
  OK(tn__program_output(p, 0, &array));
  is_product(array, run, -1, false);
  for (int k = 0; k < N_NAMES; ++k) {
    OK(tn__program_array(p, TN_PROGRAM_GRADIENT, names[k], &array));
    is_product(array, run, k, true);
  }
}

void run_all(int runs) {
  tn_array *weight = empty(TN_F64, 2, (const int64_t[]){2, 3});
  for (int run = 0; run < runs; ++run) {
    arguments_put(run);
    put_values(weight, 9, run);
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, &weight, 1));
    is_right(run);
  }
  tn__array_release(weight);
}

tn_entry long_of(tn_entry x, tn_entry a, int n, const char *group) {
  for (int i = 0; i < n; ++i) {
    x = OP(g, "keep", NULL, NULL, x, a);
    OK(tn__attribute_set(g, x.node, "group", group));
  }
  return x;
}

int64_t count_launches(void) {
  (void)tn__wait_all(w.env.engine);
  return fake_counts_get(f).launches;
}
