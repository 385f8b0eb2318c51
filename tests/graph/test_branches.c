/* SPDX-License-Identifier: Apache-2.0
 * Parallel steps: long branches of a program run at the same time within limits
 * of memory, except calls of a kernel that is not reentrant. Also the spans of
 * steps in a trace.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../by_hand.h"
#include "evaluate.h"

/* ------------------------------------------------------------- the operators
 */

enum { N = 1 << 16 }; /* elements: 256 KiB, too many for one thread */

/* A caller waits for a second one; then both continue. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t came;
  int n_here;
  int n_met; /* pairs */
  bool open; /* no caller waits */
} hall = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

/* Returns false after a long wait without a second caller. */
static bool meet_other(void) {
  struct timespec end;
  bool met = true;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 80;
  pthread_mutex_lock(&hall.lock);
  const int pair = hall.n_met;
  if (!hall.open && ++hall.n_here == 2) {
    hall.n_here = 0;
    ++hall.n_met;
    pthread_cond_broadcast(&hall.came);
  }
  while (met && !hall.open && hall.n_met == pair)
    met = pthread_cond_timedwait(&hall.came, &hall.lock, &end) == 0;
  pthread_mutex_unlock(&hall.lock);
  return met;
}

static int32_t run_meet(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  if (!meet_other())
    return TN_FAIL(call, TN_BUSY, "no other branch ran at the same time");
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) y[i] = x[i] + 1;
  return TN_OK;
}

/* Number of calls inside of the kernels; the largest number so far. */
static _Atomic int n_inside, most_inside;

static int32_t run_alone(const tn_frame *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  const int n = atomic_fetch_add(&n_inside, 1) + 1;
  if (n > 1) atomic_store(&most_inside, n);
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) y[i] = x[i] + 1;
  atomic_fetch_sub(&n_inside, 1);
  return TN_OK;
}

static int32_t run_join(const tn_frame *call) {
  const float *x = call->in[0].data, *y = call->in[1].data;
  float *z = call->out[0].data;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i)
    z[i] = x[i] + 2 * y[i];
  return TN_OK;
}

#define ARG(text, kind)                                            \
  {                                                                \
    .struct_size = sizeof(tn_arg), .flags = TN_ARG_CONTIGUOUS,     \
    .dtype_var = TN_NONE, .dtype = TN_F32, .dtype_param = TN_NONE, \
    .shape_kind = (kind), .inplace = TN_NONE, .init = TN_NONE,     \
    .count = TN_NONE, .name = (text)                               \
  }
static const tn_arg x_arg = ARG("x", TN_SHAPE_ANY),
                    y_arg = ARG("y", TN_SHAPE_SAME);
static const tn_arg *const ins[] = {&x_arg, &y_arg}, *const outs[] = {&y_arg};
static const tn_gradient no_gradient = {.struct_size = sizeof(tn_gradient),
                                        .why = "nobody needs one"};
#define OPERATOR(n, text)                                                      \
  {                                                                            \
    .struct_size = sizeof(tn_op), .interface = 1, .since = 1, .n_inputs = (n), \
    .n_outputs = 1, .name = (text), .summary = (text), .inputs = ins,          \
    .outputs = outs, .gradient = &no_gradient                                  \
  }
#define KERNEL(text, function, how)                                           \
  {                                                                           \
    .struct_size = sizeof(tn_kernel), .flags = (how),                         \
    .device_type = TN_DEVICE_CPU, .writes = TN_WRITES_WRITE, .when = TN_NONE, \
    .op = "hall." text "@1", .id = "hall." text ".cpu", .compute = (function) \
  }
static const tn_op meet_op = OPERATOR(1, "meet"), join_op = OPERATOR(2, "join"),
                   alone_op = OPERATOR(1, "alone");
static const tn_op *const ops[] = {&meet_op, &join_op, &alone_op};
static const tn_kernel meet_kernel =
                           KERNEL("meet", run_meet, TN_KERNEL_REENTRANT),
                       join_kernel =
                           KERNEL("join", run_join, TN_KERNEL_REENTRANT),
                       alone_kernel = KERNEL("alone", run_alone, 0);
static const tn_kernel *const kernels[] = {&meet_kernel, &join_kernel,
                                           &alone_kernel};
static const tn_plugin hall_plugin = {
    PLUGIN_BY_HAND("hall", 1, "Kernels that wait for one another"),
    .n_operators = 3, .n_kernels = 3, .operators = ops, .kernels = kernels};

/* ------------------------------------------------------------------- graphs */

static tn_array *x;

static void open_with(uint32_t workers) {
  net_open_on(workers);
  OK(tn__plugin_add(w.registry, &hall_plugin));
  float *values = calloc(N, sizeof *values);
  x = empty(TN_F32, SHAPE(N));
  for (int i = 0; i < N; ++i) values[i] = (float)(i % 1000);
  OK(tn__array_set(x, values, N * sizeof *values));
  free(values);
}

static void close_all(void) {
  tn__array_release(x);
  net_close();
}

static tn_entry call_hall(const char *op, const char *name, uint32_t n,
                          const tn_entry *in) {
  tn_entry out;
  const tn_graph_node node = {
      .struct_size = sizeof node, .n_in = n, .op = op, .name = name, .in = in};
  OK(tn__graph_call(g, &node, &out));
  return out;
}

static tn_entry branch_of(const char *op, tn_entry from, int length) {
  for (int i = 0; i < length; ++i) from = call_hall(op, NULL, 1, &from);
  return from;
}

/* `n` branches of x, joined one after the other. */
static void branches_of(const char *op, int n, int length) {
  const tn_entry from = var_node(g, "x");
  tn_entry all[16];
  for (int i = 0; i < n; ++i) all[i] = branch_of(op, from, length);
  for (int i = 1; i < n; ++i)
    all[0] =
        call_hall("hall.join", NULL, 2, (const tn_entry[]){all[0], all[i]});
  HEADS(g, all[0]);
}

static void branches_run(int n, int length) {
  branches_of("hall.meet", n, length);
}

static tn_program *bind_graph(uint64_t memory) {
  const tn_argument arguments[] = {{.name = "x", .array = x}};
  const tn_bind how = {.struct_size = sizeof how,
                       .arguments = arguments,
                       .n_arguments = 1,
                       .memory = memory};
  tn_program *p = NULL;
  OK(tn__program_bind(g, &how, &p));
  return p;
}

static uint64_t pool_of(uint64_t memory) {
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn_program *p = bind_graph(memory);
  tn__program_stats(p, &stats);
  tn__program_release(p);
  return stats.pool_bytes;
}

static bool is_wide(const tn_program *p) {
  tn_text *text = NULL;
  OK(tn__program_text(p, 0, &text));
  const bool wide = strstr(tn_text_get(text), "no branch waits") != NULL;
  tn_text_release(text);
  return wide;
}

/* ----------------------------------------------------------------- branches */

/* Three calls each, so that with the least memory the second branch would
 * overwrite the memory of the first. */
Test(branches, two_long_ones_run_at_the_same_time, .timeout = 100) {
  open_with(2);
  branches_run(2, 3);
  tn_program *p = bind_graph(0);
  cr_assert(is_wide(p));
  for (int run = 1; run <= 5; ++run) {
    float *have = calloc(N, sizeof *have);
    tn_array *out = NULL;
    OK(tn__program_forward(p, 0));
    OK(tn__program_output(p, 0, &out));
    OK(tn__array_get(out, have, N * sizeof *have));
    for (int i = 0; i < N; ++i)
      cr_assert_eq(have[i], (float)(3 * (i % 1000 + 3)));
    cr_assert_eq(hall.n_met, 3 * run);
    free(have);
  }
  tn__program_release(p);
  close_all();
}

/* Two buffers for each of two branches, where three in total would suffice. */
Test(branches, their_memory_is_limited) {
  enum { EACH = N * sizeof(float), PLENTY = 1 << 30 };
  open_with(2);
  branches_run(2, 3);
  cr_assert_eq(pool_of(PLENTY), 3 * EACH);
  cr_assert_eq(pool_of(0), 4 * EACH);
  net_renew();
  for (int n = 3; n <= 12; n += 3) {
    branches_run(n, 3);
    const uint64_t least = pool_of(PLENTY), taken = pool_of(0);
    cr_assert_leq(taken, least + least / 2, "%d branches take %llu", n,
                  (unsigned long long)taken);
    cr_assert_geq(taken, least);
    net_renew();
  }
  close_all();
}

Test(branches, impossible_branches_cost_nothing) {
  open_with(1);
  branches_run(2, 3);
  tn_program *p = bind_graph(0);
  cr_assert_not(is_wide(p), "there is one worker");
  tn__program_release(p);
  close_all();
  open_with(2);
  branches_run(1, 6);
  p = bind_graph(0);
  cr_assert_not(is_wide(p), "there is one branch");
  tn__program_release(p);
  close_all();
}

/* Calls of the kernel that is not reentrant, with so many elements. */
typedef struct caller {
  pthread_t thread;
  tn_array *in, *out;
  tn_code rc;
} caller;

static void *call_alone(void *arg) {
  caller *self = arg;
  const tn__target_op what = {&w.caller, op_get("hall.alone"), NULL,
                              TN_PASS_FORWARD, 0};
  for (int i = 0; i < 20 && self->rc == TN_OK; ++i)
    self->rc = tn__call(&what, &(tn_inputs){1, &self->in},
                        &(tn_outputs){1, &self->out, NULL});
  return NULL;
}

/* Neither branches of a program nor other calls at the same time overlap: short
 * and long ones, by the thread that runs the program and by others. */
Test(branches, of_a_kernel_that_is_not_reentrant_take_turns, .timeout = 100) {
  open_with(2);
  caller callers[] = {{.in = empty(TN_F32, SHAPE(4))}, {.in = x}};
  branches_of("hall.alone", 2, 3);
  tn_program *p = bind_graph(0);
  for (int run = 0; run < 100; ++run) {
    OK(tn__program_forward(p, 0));
    call_alone(&callers[0]);
    OK(tn__wait_all(w.env.engine));
  }
  for (int run = 0; run < 20; ++run) {
    for (int i = 0; i < 2; ++i)
      pthread_create(&callers[i].thread, NULL, call_alone, &callers[i]);
    OK(tn__program_forward(p, 0));
    for (int i = 0; i < 2; ++i) pthread_join(callers[i].thread, NULL);
  }
  OK(tn__wait_all(w.env.engine));
  cr_assert_eq(most_inside, 0, "%d calls at a time", most_inside);
  for (int i = 0; i < 2; ++i) {
    cr_assert_eq(callers[i].rc, TN_OK);
    tn__array_release(callers[i].out);
  }
  tn__array_release(callers[0].in);
  tn__program_release(p);
  close_all();
}

/* ------------------------------------------------------------------- traces */

/* The trace of one run of `p`. */
static char *trace_of(tn_program *p) {
  char path[64];
  tn_array *out = NULL;
  (void)snprintf(path, sizeof path, "branches_%ld.json", (long)getpid());
  OK(tn__trace_start(w.env.engine));
  OK(tn__program_forward(p, 0));
  OK(tn__program_output(p, 0, &out));
  free(elements_of(out));
  tn__trace_stop(w.env.engine);
  OK(tn__trace_write(w.env.engine, path));
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  char *text = calloc(1, 1 << 20);
  cr_assert_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
  fclose(file);
  (void)remove(path);
  return text;
}

/* One span; its beginning and end in microseconds. */
typedef struct interval {
  double begin, end;
} interval;

static double number_after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  const char *end = strchr(line, '\n');
  cr_assert(at != NULL && (!end || at < end), "no %s in %.200s", key, line);
  return atof(at + strlen(key));
}

static int count_spans(const char *text, const char *name, interval *last) {
  char key[200];
  int n = 0;
  (void)snprintf(key, sizeof key, "\"name\":\"%s\"", name);
  for (const char *at = text; (at = strstr(at, key)) != NULL; ++n) {
    const char *line = at;
    while (line > text && line[-1] != '\n') --line;
    last->begin = number_after(line, "\"ts\":");
    last->end = last->begin + number_after(line, "\"dur\":");
    at += strlen(key);
  }
  return n;
}

static void has_spans(const char *text, const char *outer,
                      const char *const *names) {
  interval all = {0, 0}, before = {0, 0}, one = {0, 0};
  cr_assert_eq(count_spans(text, outer, &all), 1, "no %s in\n%s", outer, text);
  for (; *names; ++names, before = one) {
    cr_assert_eq(count_spans(text, *names, &one), 1, "not one %s in\n%s",
                 *names, text);
    /* Times are rounded to a thousandth. */
    cr_assert(one.begin > all.begin - 0.002 && one.end < all.end + 0.002,
              "%s is not inside of %s", *names, outer);
    cr_assert_gt(one.begin, before.end - 0.002);
  }
}

static void set_x(int64_t n) {
  tn__array_release(x);
  double *values = calloc((size_t)n, sizeof *values);
  x = empty(TN_F64, SHAPE(n));
  OK(tn__array_set(x, values, (size_t)n * sizeof *values));
  free(values);
}

Test(branches, every_step_of_a_chain_has_a_span) {
  open_with(1);
  set_x(4);
  const tn_entry a = OP(g, "tanh", NULL, "first", var_node(g, "x"));
  const tn_entry b = OP(g, "exp", NULL, "second", a);
  HEADS(g, OP(g, "square", NULL, "third", b));
  tn_program *p = bind_graph(0);
  for (int run = 0; run < 3; ++run) { /* later runs call kernels directly */
    char *text = trace_of(p);
    has_spans(text, "first .. third",
              (const char *const[]){"first", "second", "third", NULL});
    free(text);
  }
  tn__program_release(p);
  close_all();
}

Test(branches, fused_steps_have_spans_of_all_their_names) {
  open_with(1);
  set_x(N);
  const tn_entry a = OP(g, "tanh", NULL, "first", var_node(g, "x"));
  HEADS(g, OP(g, "square", NULL, "second", a));
  tn_program *p = bind_graph(0);
  char *text = trace_of(p);
  has_spans(text, "second", (const char *const[]){"first + second", NULL});
  free(text);
  tn__program_release(p);
  close_all();
}
