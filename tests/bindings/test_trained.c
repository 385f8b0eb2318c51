/* SPDX-License-Identifier: Apache-2.0
 * States that only training changes (`changes: training`): for all other calls
 * they are inputs, also on the short way of small calls.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

#include "lab.h"
#include "tenon/define.h"

/* Calls that meet: each waits for as many as are wanted. */
typedef struct meeting {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int wanted;
  int here;
} meeting;

static bool meet(meeting *m) {
  struct timespec latest;
  (void)clock_gettime(CLOCK_REALTIME, &latest);
  latest.tv_sec += 80; /* it has failed then */
  (void)pthread_mutex_lock(&m->lock);
  ++m->here;
  (void)pthread_cond_broadcast(&m->changed);
  int late = 0;
  while (m->here < m->wanted && late == 0)
    late = pthread_cond_timedwait(&m->changed, &m->lock, &latest);
  (void)pthread_mutex_unlock(&m->lock);
  return late == 0;
}

/* The data and the state; numbers below 0 are refused, 9 waits for others. */
static int32_t watch(const tn_frame *call) {
  meeting *m = call->instance;
  const float x = *(const float *)call->in[0].data;
  float *seen = call->aux[0].data;
  if (x < 0) return TN_FAIL(call, TN_INVALID, "below 0");
  if (x > 8 && !meet(m)) return TN_FAIL(call, TN_INTERNAL, "nobody came");
  *(float *)call->out[0].data = x + *seen;
  if (call->flags & TN_CALL_TRAIN) *seen += 1;
  return TN_OK;
}

static const char text[] =
    "opgen: 1\n"
    "op: watch\n"
    "summary: Adds how many calls there were in training\n"
    "inputs: [{name: x, dtype: f32}]\n"
    "outputs: [{name: out, dtype: f32, shape: x}]\n"
    "aux: [{name: seen, dtype: f32, shape: [], changes: training}]\n"
    "gradient: {none: true, why: it is a test}\n"
    "kernels:\n"
    "  - {device: cpu, forward: watch, flags: [reentrant]}\n";

static meeting all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0,
                      0};
static lab l;
static tn_operator *op;
static tn_array *seen;

static tn_array *number(double value) {
  return host_array(l.rt, TN_F32, (host_shape){0, {0}}, &value);
}

static void setup(void) {
  static const tn_host_kernel functions[] = {{"watch", watch, NULL, NULL}};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = functions, .instance = &all};
  lab_open(&l, NULL);
  OK(tn_operator_define(l.rt, text, &kernels, &op));
  seen = number(5);
}

static void teardown(void) {
  tn_array_release(seen);
  lab_close(&l);
}

TestSuite(trained, .init = setup, .fini = teardown, .timeout = 100);

/* One call on a number; its result is `want`. */
static void calls_give(double x, double want) {
  tn_array *in = number(x), *out = NULL;
  OK(tn_call(l.rt, op, TN_IN(in, seen), NULL, TN_OUT(&out)));
  host_expect(out, &want, 1, 0);
  tn_array_release(in), tn_array_release(out);
}

static void call_fails(void) {
  tn_array *in = number(-1), *out = NULL;
  tn_code rc = tn_call(l.rt, op, TN_IN(in, seen), NULL, TN_OUT(&out));
  if (rc == TN_OK) rc = tn_array_wait(out);
  cr_expect_eq(rc, TN_INVALID, "%s", tn_code_name(rc));
  tn_array_release(in), tn_array_release(out);
}

Test(trained, a_call_that_fails_leaves_a_state_that_it_reads_alone) {
  for (int i = 0; i < 3; ++i) calls_give(1, 6); /* the way is short by then */
  call_fails();
  OK(tn_array_wait(seen));
  calls_give(2, 7);
}

static void *call_that_waits(void *arg) {
  (void)arg;
  calls_give(9, 14);
  return NULL;
}

/* This thread has pushed before the others, so it owns the gate. */
Test(trained, calls_that_read_a_state_run_side_by_side) {
  enum { HELPERS = 3 };
  pthread_t helpers[HELPERS];
  for (int i = 0; i < 3; ++i) calls_give(1, 6);
  for (int round = 0; round < 20; ++round) {
    all.wanted = HELPERS, all.here = 0;
    for (int i = 0; i < HELPERS; ++i)
      cr_assert_eq(pthread_create(&helpers[i], NULL, call_that_waits, NULL), 0);
    for (int i = 0; i < HELPERS; ++i) (void)pthread_join(helpers[i], NULL);
  }
  calls_give(1, 6);
}
