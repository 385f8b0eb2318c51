/* SPDX-License-Identifier: Apache-2.0
 * later_plugin.c: see later_plugin.h.
 */
#include "later_plugin.h"

#include <pthread.h>
#include <stdlib.h>

#include "../by_hand.h"

/* ---------------------------------------------------------- calls in flight */

enum { MOST = 4096 };

typedef struct flight {
  const tn_frame *call;
  tn_later *later;
} flight;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static flight flights[MOST]; /* oldest first */
static int n_flights;
static int stopping;
static later_mode mode;
static flight parked; /* of later.meet */

static void add_flight(const tn_frame *call, tn_later *later) {
  (void)pthread_mutex_lock(&lock);
  if (n_flights == MOST) abort();
  flights[n_flights++] = (flight){call, later};
  (void)pthread_cond_broadcast(&changed);
  (void)pthread_mutex_unlock(&lock);
}

/* Removes flight `at`; negative numbers count from the newest. */
static flight take_flight(int at) {
  (void)pthread_mutex_lock(&lock);
  if (at < 0) at += n_flights;
  const flight taken = flights[at];
  for (int i = at; i + 1 < n_flights; ++i) flights[i] = flights[i + 1];
  --n_flights;
  (void)pthread_mutex_unlock(&lock);
  return taken;
}

void later_set_mode(later_mode to) {
  (void)pthread_mutex_lock(&lock);
  mode = to;
  (void)pthread_mutex_unlock(&lock);
}

static later_mode get_mode(void) {
  (void)pthread_mutex_lock(&lock);
  const later_mode now = mode;
  (void)pthread_mutex_unlock(&lock);
  return now;
}

void later_await(int n) {
  (void)pthread_mutex_lock(&lock);
  while (n_flights < n) (void)pthread_cond_wait(&changed, &lock);
  (void)pthread_mutex_unlock(&lock);
}

/* -------------------------------------------------------------- completions */

static void compute(const tn_frame *call) {
  const float *factor = call->ws[0], *x = call->in[0].data;
  float *out = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = *factor * x[i];
}

static void complete(const flight *f, int32_t code, const char *text) {
  if (code == TN_OK) compute(f->call);
  f->call->host->complete(f->later, code, text);
}

void later_complete(int32_t code, const char *text) {
  const flight f = take_flight(0);
  complete(&f, code, text);
}

void later_complete_failed(int32_t code, const char *text) {
  const flight f = take_flight(0);
  (void)TN_FAIL(f.call, code, "%s", text);
  complete(&f, code, NULL);
}

int32_t later_is_cancelled(void) {
  (void)pthread_mutex_lock(&lock);
  const flight f = flights[0];
  (void)pthread_mutex_unlock(&lock);
  return f.call->host->cancelled(f.later);
}

static pthread_t helper;

static void *help(void *arg) {
  (void)arg;
  for (;;) {
    (void)pthread_mutex_lock(&lock);
    while (n_flights == 0 && !stopping)
      (void)pthread_cond_wait(&changed, &lock);
    const int n = n_flights;
    (void)pthread_mutex_unlock(&lock);
    if (n == 0) return NULL;
    const flight f = take_flight(-1);
    complete(&f, TN_OK, NULL);
  }
}

void later_start_helper(void) {
  stopping = 0;
  if (pthread_create(&helper, NULL, help, NULL)) abort();
}

void later_stop_helper(void) {
  (void)pthread_mutex_lock(&lock);
  stopping = 1;
  (void)pthread_cond_broadcast(&changed);
  (void)pthread_mutex_unlock(&lock);
  (void)pthread_join(helper, NULL);
}

/* ------------------------------------------------------------------ kernels */

static int32_t prepare(const tn_frame *call, tn_plan *plan) {
  (void)call;
  plan->n_ws = 1;
  plan->ws[0].bytes = sizeof(float);
  return TN_OK;
}

static void *complete_other(void *arg) {
  complete(arg, TN_OK, NULL);
  return NULL;
}

static int32_t run_twice(const tn_frame *call) {
  const later_mode how = get_mode();
  if (how == LATER_NO_TICKET) return TN_LATER;
  tn_later *later = call->host->defer(call);
  flight f = {call, later};
  pthread_t other;
  if (!later) return TN_UNSUPPORTED;
  *(float *)call->ws[0] = 2;
  if (later != call->host->defer(call))
    return TN_FAIL(call, TN_INTERNAL, "two tickets");
  switch (how) {
    case LATER_AT_ONCE:
      complete(&f, TN_OK, NULL);
      return TN_LATER;
    case LATER_OTHER:
      if (pthread_create(&other, NULL, complete_other, &f)) abort();
      (void)pthread_join(other, NULL);
      return TN_LATER;
    case LATER_NEVER:
      compute(call);
      return TN_OK;
    case LATER_FAIL:
      return TN_FAIL(call, TN_IO, "no line");
    default:
      add_flight(call, later);
      return TN_LATER;
  }
}

/* The second of two calls completes the first one, and then itself. */
static int32_t run_meet(const tn_frame *call) {
  const flight mine = {call, call->host->defer(call)};
  if (!mine.later) return TN_UNSUPPORTED;
  *(float *)call->ws[0] = 2;
  (void)pthread_mutex_lock(&lock);
  const flight other = parked;
  parked = other.later ? (flight){NULL, NULL} : mine;
  (void)pthread_mutex_unlock(&lock);
  if (other.later) {
    complete(&other, TN_OK, NULL);
    complete(&mine, TN_OK, NULL);
  }
  return TN_LATER;
}

static int32_t run_early(const tn_frame *call) {
  return call->host->defer(call) ? TN_LATER : TN_UNSUPPORTED;
}

static int32_t run_pick(const tn_frame *call) {
  const int32_t rc =
      call->host->set_shape(call, TN_OPERAND_OUT, 0, 1, call->in[0].shape);
  return rc ? rc : run_twice(call);
}

static int32_t run_next(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *out = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + 1;
  return TN_OK;
}

/* The gradient of out. */
static int32_t back_next(const tn_frame *call) {
  const float *from = call->in[0].data;
  float *to = call->out[0].data;
  const int64_t n = tn_tensor_size(&call->in[0]);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  return TN_OK;
}

/* ------------------------------------------------------------------- tables */

#define ARG(id, text, bits, kind, place)                   \
  static const tn_arg id = {.struct_size = sizeof(tn_arg), \
                            .flags = (bits),               \
                            .dtype_param = TN_NONE,        \
                            .shape_kind = (kind),          \
                            .inplace = (place),            \
                            .init = TN_NONE,               \
                            .count = TN_NONE,              \
                            .name = (text),                \
                            .doc = (text)}
ARG(in_x, "x", TN_ARG_CONTIGUOUS, TN_SHAPE_ANY, TN_NONE);
ARG(out_dense, "out", TN_ARG_CONTIGUOUS, TN_SHAPE_SAME, 0);
ARG(out_some, "out", TN_ARG_DYNAMIC | TN_ARG_CONTIGUOUS, TN_SHAPE_ANY, TN_NONE);
static const tn_arg *const ins[] = {&in_x};
static const tn_arg *const outs[] = {&out_dense};
static const tn_arg *const picked[] = {&out_some};

static const tn_dtype_var var_t = {
    .struct_size = sizeof(tn_dtype_var), .allowed = TN_BIT_F32, .name = "T"};
static const tn_dtype_var *const vars[] = {&var_t};

static const tn_need needs[] = {{TN_NEED_GRAD_OUT, 0, 0, 0}};
static const tn_input_gradient rule = {.struct_size = sizeof rule,
                                       .n_needs = 1,
                                       .inplace = TN_NONE,
                                       .needs = needs};
static const tn_input_gradient *const rules[] = {&rule};
static const tn_gradient by_kernel = {.struct_size = sizeof by_kernel,
                                      .kind = TN_GRADIENT_KERNEL,
                                      .n_inputs = 1,
                                      .inputs = rules};
static const tn_gradient no_gradient = {.struct_size = sizeof no_gradient,
                                        .kind = TN_GRADIENT_NONE,
                                        .why = "it is for tests"};

#define OP(id, text, results, rule_)                     \
  static const tn_op id = {.struct_size = sizeof(tn_op), \
                           .interface = 1,               \
                           .since = 1,                   \
                           .n_dtype_vars = 1,            \
                           .n_inputs = 1,                \
                           .n_outputs = 1,               \
                           .name = (text),               \
                           .summary = (text),            \
                           .dtype_vars = vars,           \
                           .inputs = ins,                \
                           .outputs = results,           \
                           .gradient = &(rule_)}
OP(op_twice, "twice", outs, by_kernel);
OP(op_meet, "meet", outs, no_gradient);
OP(op_early, "early", outs, no_gradient);
OP(op_pick, "pick", picked, no_gradient);
OP(op_next, "next", outs, by_kernel);
static const tn_op *const operators[] = {&op_twice, &op_meet, &op_early,
                                         &op_pick, &op_next};

static const uint64_t only_f32[] = {TN_BIT_F32};
#define KERNEL(id_, text, way, bits, plan_, how)                               \
  static const tn_kernel id_ = {.struct_size = sizeof(tn_kernel),              \
                                .flags = TN_KERNEL_REENTRANT | (bits),         \
                                .pass = (way),                                 \
                                .device_type = TN_DEVICE_CPU,                  \
                                .writes = TN_WRITES_WRITE | TN_WRITES_INPLACE, \
                                .n_dtype_sets = 1,                             \
                                .when = TN_NONE,                               \
                                .op = "later." text "@1",                      \
                                .id = "later." text ".cpu",                    \
                                .dtype_sets = only_f32,                        \
                                .prepare = (plan_),                            \
                                .compute = (how)}
#define FORWARD TN_PASS_FORWARD
#define BACKWARD TN_PASS_BACKWARD
KERNEL(k_twice, "twice", FORWARD, TN_KERNEL_LATER, prepare, run_twice);
KERNEL(b_twice, "twice", BACKWARD, TN_KERNEL_LATER, prepare, run_twice);
KERNEL(k_meet, "meet", FORWARD, TN_KERNEL_LATER, prepare, run_meet);
KERNEL(k_early, "early", FORWARD, 0, prepare, run_early);
KERNEL(k_pick, "pick", FORWARD, TN_KERNEL_LATER, prepare, run_pick);
KERNEL(k_next, "next", FORWARD, 0, NULL, run_next);
KERNEL(b_next, "next", BACKWARD, 0, NULL, back_next);
static const tn_kernel *const kernels[] = {
    &k_twice, &b_twice, &k_meet, &k_early, &k_pick, &k_next, &b_next};

const tn_plugin later_plugin = {
    PLUGIN_BY_HAND("later", 1, "Kernels that complete later"),
    .n_operators = sizeof operators / sizeof *operators,
    .n_kernels = sizeof kernels / sizeof *kernels, .operators = operators,
    .kernels = kernels};
