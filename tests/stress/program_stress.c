/* SPDX-License-Identifier: Apache-2.0
 * program_stress.c: several threads bind, train, reshape, monitor and release
 * programs of random nets in one runtime. Every result is compared with that of
 * the same net, unfused, while nothing else ran: bit for bit, but for gradients
 * where the plan may add one to another in its memory, which rounds once where
 * a sum of the two rounds twice. Meant for ThreadSanitizer; a plain program,
 * because Criterion does not start under it. Bounded by a number of rounds,
 * never by time.
 *
 *   program_stress [rounds per thread] [seed]
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/graph.h"
#include "tenon/tenon.h"

enum { THREADS = 3, NETS = 6, SIZES = 2, COLUMNS = 96, STEPS = 3, LENGTH = 5 };

/* The results of a program. */
typedef struct outcome {
  float loss[STEPS];
  float slope[COLUMNS]; /* of the first step */
  float last[COLUMNS];  /* the weight after the last */
} outcome;

/* Shared data: only one thread at a time uses a graph, so threads copy it under
 * the lock. */
typedef struct net {
  tn_graph *graph;
  int64_t rows[SIZES];
  tn_array *x[SIZES];
  outcome want[SIZES];
} net;

static tn_runtime *rt;
static tn_operator *sub;
static tn_array *one;
static net nets[NETS];
static float start[COLUMNS]; /* of all weights */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int64_t wrong, runs, seen;

/* xorshift64*: any reproducible sequence does. */
static uint64_t next(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 2685821657736338717ull;
}

static uint32_t below(uint64_t *state, uint32_t n) {
  return (uint32_t)(next(state) >> 33) % n;
}

static void check(int good, const char *what) {
  if (good) return;
  if (atomic_fetch_add(&wrong, 1) < 10)
    fprintf(stderr, "wrong: %s: %s\n", what, tn_error_text());
}

static void must(tn_code rc) {
  if (rc == TN_OK) return;
  fprintf(stderr, "%s\n", tn_error_text());
  exit(1);
}

/* --------------------------------------------------------------------- nets
 */

static tn_entry call(tn_graph *g, const char *op, tn_entry a, tn_entry b) {
  tn_entry out;
  const tn_entry in[] = {a, b};
  must(tn_graph_call(g,
                     &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                      .n_in = b.node == TN_NONE ? 1 : 2,
                                      .op = op,
                                      .in = in},
                     &out));
  return out;
}

static tn_entry chain(tn_graph *g, uint64_t *state, tn_entry x, tn_entry w) {
  static const char *const unary[] = {"elemwise.tanh", "elemwise.sigmoid"};
  static const char *const binary[] = {"elemwise.broadcast_add",
                                       "elemwise.broadcast_mul"};
  const uint32_t n = 2 + below(state, 6);
  for (uint32_t i = 0; i < n; ++i)
    x = i % 2 ? call(g, unary[below(state, 2)], x, TN_ENTRY_NONE)
              : call(g, binary[below(state, 2)], x, w);
  return x;
}

/* h' = tanh(h * w + x[t]): its states pass from each step to the next. */
static tn_entry loop(tn_graph *g, tn_entry x, tn_entry w) {
  tn_graph *step = NULL;
  tn_entry e, h, v, out;
  must(tn_graph_create(rt, &step));
  must(tn_graph_variable(step, "e", NULL, &e));
  must(tn_graph_variable(step, "h", NULL, &h));
  must(tn_graph_variable(step, "v", NULL, &v));
  const tn_entry heads[] = {
      call(step, "elemwise.tanh",
           call(step, "elemwise.add", call(step, "elemwise.mul", h, v), e),
           TN_ENTRY_NONE)};
  must(tn_graph_heads_set(step, heads, 1));
  must(tn_graph_loop(g,
                     &(tn_loop){.struct_size = sizeof(tn_loop),
                                .n_in = 3,
                                .step = step,
                                .sequences = (const char *const[]){"e"},
                                .states = (const char *const[]){"h"},
                                .n_sequences = 1,
                                .n_states = 1,
                                .in = (const tn_entry[]){x, w, w},
                                .keys = (const char *const[]){"e", "h", "v"}},
                     &out));
  tn_graph_release(step);
  return out;
}

/* Two branches of x (rows, COLUMNS) and a weight (COLUMNS), joined and summed;
 * every third net has a loop over the rows besides. */
static void net_make(net *n, int number, uint64_t *state) {
  tn_entry x, w;
  must(tn_graph_create(rt, &n->graph));
  must(tn_graph_variable(n->graph, "x", NULL, &x));
  must(tn_graph_variable(n->graph, "w", NULL, &w));
  const tn_entry a = chain(n->graph, state, x, w),
                 b = chain(n->graph, state, x, w);
  tn_entry all = call(n->graph, "tensor.sum",
                      call(n->graph, "elemwise.mul", a, b), TN_ENTRY_NONE);
  if (number % 3 == 2)
    all =
        call(n->graph, "elemwise.add", all,
             call(n->graph, "tensor.sum", loop(n->graph, x, w), TN_ENTRY_NONE));
  must(tn_graph_heads_set(n->graph, &all, 1));
  for (int i = 0; i < SIZES; ++i) {
    n->rows[i] = number % 3 == 2 ? 3 + below(state, 8) : 90 + below(state, 500);
    if (i > 0) n->rows[i] += n->rows[i - 1]; /* no two are the same */
    const int64_t shape[] = {n->rows[i], COLUMNS};
    float *values = malloc((size_t)(shape[0] * COLUMNS) * sizeof *values);
    for (int64_t k = 0; k < shape[0] * COLUMNS; ++k)
      values[k] = (float)below(state, 2000) / 1000 - 1;
    must(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &n->x[i]));
    must(tn_array_set(n->x[i], values,
                      (size_t)(shape[0] * COLUMNS) * sizeof *values));
    free(values);
  }
}

/* ----------------------------------------------------------------- programs
 */

static tn_array *weight_new(void) {
  tn_array *w = NULL;
  const int64_t shape[] = {COLUMNS};
  must(tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &w));
  must(tn_array_set(w, start, sizeof start));
  return w;
}

static tn_program *bind(const tn_graph *graph, tn_array *x, tn_array *w,
                        const tn_bind *how) {
  tn_program *p = NULL;
  const tn_argument arguments[] = {
      {.name = "x", .array = x, .has_request = 1, .request = TN_REQ_NULL},
      {.name = "w", .array = w}};
  tn_bind b = *how;
  b.struct_size = sizeof b;
  b.request = TN_REQ_WRITE;
  b.arguments = arguments;
  b.n_arguments = 2;
  must(tn_program_bind(graph, &b, &p));
  return p;
}

static tn_array *array_of(const tn_program *p, uint32_t what,
                          const char *name) {
  tn_array *array = NULL;
  if (what == TN_PROGRAM_OUTPUT)
    must(tn_program_output(p, 0, &array));
  else
    must(tn_program_array(p, what, name, &array));
  return array;
}

static void train(tn_program *p) {
  must(tn_program_forward(p, TN_CALL_TRAIN));
  must(tn_program_backward(p, &one, 1));
  atomic_fetch_add(&runs, 1);
}

/* w -= its gradient, by a call. */
static void descend(tn_program *p, tn_array *w) {
  tn_array *out = w;
  tn_array *slope = array_of(p, TN_PROGRAM_GRADIENT, "w");
  must(tn_call(rt, sub, TN_IN(w, slope), NULL, TN_OUT(&out)));
}

static void expect(const net *n, int size, outcome *out) {
  tn_array *w = weight_new();
  tn_program *p =
      bind(n->graph, n->x[size], w,
           &(tn_bind){.flags = TN_BIND_NO_FUSE, .plan = TN_PLAN_NONE});
  for (int s = 0; s < STEPS; ++s) {
    train(p);
    must(tn_array_get(array_of(p, TN_PROGRAM_OUTPUT, NULL), &out->loss[s],
                      sizeof(float)));
    if (s == 0)
      must(tn_array_get(array_of(p, TN_PROGRAM_GRADIENT, "w"), out->slope,
                        sizeof out->slope));
    descend(p, w);
  }
  must(tn_array_get(w, out->last, sizeof out->last));
  tn_program_release(p);
  tn_array_release(w);
}

/* ------------------------------------------------------------------ threads
 */

/* A program, and its expected results. */
typedef struct trial {
  tn_program *p;
  const outcome *want;
  bool exact; /* to the bit */
} trial;

static bool is_near(const float *have, const float *want, size_t n,
                    bool exact) {
  float most = 0;
  if (exact) return memcmp(have, want, n * sizeof *have) == 0;
  for (size_t i = 0; i < n; ++i) most = fmaxf(most, fabsf(want[i]));
  for (size_t i = 0; i < n; ++i)
    if (!(fabsf(have[i] - want[i]) <= 1e-5f * most)) return false;
  return true;
}

static void check_near(tn_array *array, const float *want, size_t n, bool exact,
                       const char *what) {
  float have[COLUMNS];
  check(tn_array_get(array, have, n * sizeof *have) == TN_OK &&
            is_near(have, want, n, exact),
        what);
}

static tn_graph *graph_of(const net *n) {
  tn_graph *copy = NULL;
  pthread_mutex_lock(&lock);
  must(tn_graph_copy(n->graph, &copy));
  pthread_mutex_unlock(&lock);
  return copy;
}

static trial any_trial(uint64_t *state, const net *n, int size, tn_array *w) {
  static const uint32_t plans[] = {TN_PLAN_DEFAULT, TN_PLAN_DEFAULT,
                                   TN_PLAN_DEFAULT, TN_PLAN_NONE};
  tn_graph *graph = graph_of(n);
  const uint32_t plan = plans[below(state, 4)];
  const tn_bind how = {.flags = below(state, 4) == 0 ? TN_BIND_NO_FUSE : 0,
                       .plan = plan,
                       .memory = below(state, 5) == 0 ? TN_MEMORY_MINIMAL : 0};
  const trial out = {.p = bind(graph, n->x[size], w, &how),
                     .want = &n->want[size],
                     .exact = plan == TN_PLAN_NONE && how.memory == 0};
  tn_graph_release(graph);
  return out;
}

/* Trains, and gives the program up while it may still run. */
static void train_some(uint64_t *state, const net *n) {
  tn_array *w = weight_new();
  const trial t = any_trial(state, n, (int)below(state, SIZES), w);
  for (int s = 0; s < STEPS; ++s) {
    train(t.p);
    if (below(state, 2))
      check_near(array_of(t.p, TN_PROGRAM_OUTPUT, NULL), &t.want->loss[s], 1,
                 t.exact || s == 0, "a loss");
    descend(t.p, w);
  }
  tn_program_release(t.p);
  check_near(w, t.want->last, COLUMNS, t.exact, "a trained weight");
  tn_array_release(w);
}

/* One of two programs that share a pool, each with a thread of its own; they
 * have the gradient in common, too. */
typedef struct half {
  pthread_mutex_t *turn;
  trial own;
  const outcome *other;
} half;

static void check_either(const half *h) {
  float have[COLUMNS];
  const trial *t = &h->own;
  tn_array *slope = array_of(t->p, TN_PROGRAM_GRADIENT, "w");
  check(tn_array_get(slope, have, sizeof have) == TN_OK &&
            (is_near(have, t->want->slope, COLUMNS, t->exact) ||
             is_near(have, h->other->slope, COLUMNS, t->exact)),
        "a gradient of two programs");
}

static void *run_half(void *arg) {
  const half *h = arg;
  for (int i = 0; i < LENGTH; ++i) {
    pthread_mutex_lock(h->turn); /* to push: the pushed jobs overlap */
    train(h->own.p);
    pthread_mutex_unlock(h->turn);
    check_either(h);
    check_near(array_of(h->own.p, TN_PROGRAM_OUTPUT, NULL), h->own.want->loss,
               1, true, "a loss in a shared pool");
  }
  return NULL;
}

static tn_program *like(tn_program *p, const net *n, int size) {
  tn_program *out = NULL;
  tn_known known = {.name = "x", .sig = {.dtype = TN_F32, .ndim = 2}};
  known.sig.shape[0] = n->rows[size];
  known.sig.shape[1] = COLUMNS;
  must(tn_program_reshape(p, &known, 1, &out));
  const size_t bytes = (size_t)(n->rows[size] * COLUMNS) * sizeof(float);
  float *values = malloc(bytes);
  must(tn_array_get(n->x[size], values, bytes));
  must(tn_array_set(array_of(out, TN_PROGRAM_ARGUMENT, "x"), values, bytes));
  free(values);
  return out;
}

static void share_pool(uint64_t *state, const net *n) {
  tn_array *w = weight_new();
  const int size = (int)below(state, SIZES);
  pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
  half mine = {&turn, any_trial(state, n, size, w), &n->want[1 - size]};
  half other = {&turn, mine.own, &n->want[size]};
  pthread_t thread;
  other.own.p = like(mine.own.p, n, 1 - size);
  other.own.want = mine.other;
  check(!pthread_create(&thread, NULL, run_half, &other), "thread");
  (void)run_half(&mine);
  pthread_join(thread, NULL);
  const bool first = below(state, 2) != 0; /* either may outlive the other */
  tn_program_release(first ? mine.own.p : other.own.p);
  tn_program_release(first ? other.own.p : mine.own.p);
  pthread_mutex_destroy(&turn);
  tn_array_release(w);
}

static void look(void *ctx, const char *name, tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  (void)ctx, (void)name;
  if (t->data != NULL && t->ndim > 0) atomic_fetch_add(&seen, 1);
}

static void watch(uint64_t *state, const net *n) {
  tn_array *w = weight_new();
  const trial t = any_trial(state, n, (int)below(state, SIZES), w);
  for (int i = 0; i < 3; ++i) {
    must(tn_program_monitor(t.p, i % 2 ? look : NULL, NULL));
    train(t.p);
  }
  check_near(array_of(t.p, TN_PROGRAM_GRADIENT, "w"), t.want->slope, COLUMNS,
             t.exact, "a gradient that was watched");
  tn_program_release(t.p);
  tn_array_release(w);
}

typedef struct worker {
  int64_t rounds;
  uint64_t state;
} worker;

static void *work(void *arg) {
  worker *self = arg;
  for (int64_t i = 0; i < self->rounds; ++i) {
    const net *n = &nets[below(&self->state, NETS)];
    switch (below(&self->state, 4)) {
      case 0:
        share_pool(&self->state, n);
        break;
      case 1:
        watch(&self->state, n);
        break;
      default:
        train_some(&self->state, n);
    }
  }
  return NULL;
}

/* --------------------------------------------------------------------- main
 */

static void open_all(uint32_t workers, uint64_t seed) {
  const tn_options options = {.struct_size = sizeof options,
                              .workers = workers};
  uint64_t state = seed;
  const float unit = 1e-3f; /* short steps */
  must(tn_runtime_create(&options, &rt));
  must(tn_plugin_load(rt, ELEMWISE_FILE));
  must(tn_plugin_load(rt, TENSOR_FILE));
  must(tn_operator_get(rt, "elemwise.sub", &sub));
  must(tn_array_create(rt, &(tn_spec){TN_F32, 0, NULL}, &one));
  must(tn_array_set(one, &unit, sizeof unit));
  for (int i = 0; i < COLUMNS; ++i)
    start[i] = (float)below(&state, 2000) / 2000;
  for (int i = 0; i < NETS; ++i) {
    net_make(&nets[i], i, &state);
    for (int size = 0; size < SIZES; ++size)
      expect(&nets[i], size, &nets[i].want[size]);
  }
}

static void close_all(void) {
  for (int i = 0; i < NETS; ++i) {
    tn_graph_release(nets[i].graph);
    for (int k = 0; k < SIZES; ++k) tn_array_release(nets[i].x[k]);
    memset(&nets[i], 0, sizeof nets[i]);
  }
  tn_array_release(one);
  tn_runtime_release(rt);
}

static void run_all(int64_t rounds, uint64_t seed) {
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i] = (worker){rounds, seed + 1 + (uint64_t)i * 7919};
    check(!pthread_create(&threads[i], NULL, work, &workers[i]), "thread");
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  check(tn_wait_all(rt) == TN_OK, "the end");
}

int main(int argc, char **argv) {
  const int64_t rounds = argc > 1 ? atoll(argv[1]) : 20;
  const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20240601;
  printf("program_stress: %d threads, %lld rounds each, seed %llu\n", THREADS,
         (long long)rounds, (unsigned long long)seed);
  for (uint32_t workers = 2; workers <= 4; workers += 2) {
    open_all(workers, seed + workers);
    run_all(rounds, seed + workers);
    close_all();
  }
  printf(
      "program_stress: %lld training runs, %lld arrays seen, %lld mistakes\n",
      (long long)runs, (long long)seen, (long long)wrong);
  return wrong ? 1 : 0;
}
