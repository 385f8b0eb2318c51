/* SPDX-License-Identifier: Apache-2.0
 * call_stress.c: several threads call operators on shared arrays, copy and cast
 * them, while another loads and unloads a second plugin; the callers try its
 * operator too. Meant for ThreadSanitizer; a plain program, because Criterion
 * does not start under it. Bounded by a number of calls, never by time.
 *
 *   call_stress [calls per thread] [seed]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "../by_hand.h"
#include "tenon/tenon.h"

enum {
  THREADS = 4,
  N = 16,
  LEAST_LOADS = 20 /* while calls run; for these they go on a while longer */
};

/* ------------------------------------------------------------ two plugins */

/* Not reentrant, so it may count in a plain variable. */
static int64_t turns;

static int32_t run_turn(const tn_frame *call) {
  const float *x = (const float *)call->in[0].data;
  float *y = (float *)call->out[0].data;
  ++turns;
  for (int64_t i = 0; i < N; ++i) y[i] = x[i] + 1;
  return TN_OK;
}

static int32_t add_slice(void *arg, int64_t begin, int64_t end) {
  const tn_frame *call = (const tn_frame *)arg;
  const float *x = (const float *)call->in[0].data;
  float *y = (float *)call->out[0].data;
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
  return TN_OK;
}

static int32_t run_twice(const tn_frame *call) {
  return call->host->parallel_for(call, N, 4, add_slice,
                                  (void *)(uintptr_t)call);
}

/* Every element is the number of the first random block of the call. */
static int32_t run_draw(const tn_frame *call) {
  float *y = (float *)call->out[0].data;
  for (int64_t i = 0; i < N; ++i) y[i] = (float)call->run->random[0]->offset;
  return TN_OK;
}

static int32_t prepare_draw(const tn_frame *call, tn_plan *plan) {
  (void)call;
  plan->random_blocks = 1;
  plan->n_ws = 1;
  plan->ws[0].bytes = 64;
  return TN_OK;
}

static int32_t run_fail(const tn_frame *call) {
  return TN_FAIL(call, TN_UNIMPLEMENTED, "as it should");
}

static const tn_arg in_x = {.struct_size = sizeof(tn_arg),
                            .dtype_var = TN_NONE,
                            .dtype = TN_F32,
                            .dtype_param = TN_NONE,
                            .inplace = TN_NONE,
                            .init = TN_NONE,
                            .count = TN_NONE,
                            .name = "x"};
static const tn_arg out_y = {.struct_size = sizeof(tn_arg),
                             .dtype_var = TN_NONE,
                             .dtype = TN_F32,
                             .dtype_param = TN_NONE,
                             .shape_kind = TN_SHAPE_SAME,
                             .inplace = TN_NONE,
                             .init = TN_NONE,
                             .count = TN_NONE,
                             .name = "y"};
static const tn_arg *const ins[] = {&in_x}, *const outs[] = {&out_y};
static const uint32_t rng[] = {TN_RESOURCE_RANDOM};

#define OP(id, text)                                     \
  static const tn_op id = {.struct_size = sizeof(tn_op), \
                           .interface = 1,               \
                           .since = 1,                   \
                           .n_inputs = 1,                \
                           .n_outputs = 1,               \
                           .name = (text),               \
                           .summary = (text),            \
                           .inputs = ins,                \
                           .outputs = outs}
#define KERNEL(id_, op_, bits, plan, n_rng, how)                  \
  static const tn_kernel id_ = {.struct_size = sizeof(tn_kernel), \
                                .flags = (bits),                  \
                                .device_type = TN_DEVICE_CPU,     \
                                .writes = TN_WRITES_WRITE,        \
                                .n_resources = (n_rng),           \
                                .when = TN_NONE,                  \
                                .op = op_ "@1",                   \
                                .id = op_ ".cpu",                 \
                                .resources = rng,                 \
                                .prepare = (plan),                \
                                .compute = (how)}
OP(op_turn, "turn");
OP(op_twice, "twice");
OP(op_draw, "draw");
OP(op_fail, "fail");
OP(op_guest, "guest");
KERNEL(k_turn, "left.turn", 0, NULL, 0, run_turn);
KERNEL(k_twice, "left.twice", TN_KERNEL_REENTRANT, NULL, 0, run_twice);
KERNEL(k_draw, "left.draw", TN_KERNEL_REENTRANT, prepare_draw, 1, run_draw);
KERNEL(k_fail, "left.fail", TN_KERNEL_REENTRANT, NULL, 0, run_fail);
KERNEL(k_guest, "right.guest", TN_KERNEL_REENTRANT, NULL, 0, run_twice);
static const tn_op *const left_ops[] = {&op_turn, &op_twice, &op_draw,
                                        &op_fail},
                          *const right_ops[] = {&op_guest};
static const tn_kernel *const left_kernels[] = {&k_turn, &k_twice, &k_draw,
                                                &k_fail},
                              *const right_kernels[] = {&k_guest};

#define PLUGIN(id, text, ops, list, count)                                   \
  static const tn_plugin id = {PLUGIN_BY_HAND(text, 1, text),                \
                               .n_operators = (count), .n_kernels = (count), \
                               .operators = (ops), .kernels = (list)}
PLUGIN(left, "left", left_ops, left_kernels, 4);
PLUGIN(right, "right", right_ops, right_kernels, 1);

/* ----------------------------------------------------------------- threads */

static tn_runtime *rt;
static tn_operator *turn, *twice, *draw, *fail, *guest;
static tn_array *shared; /* 0 1 2 ..., only read */
static tn_array *board;  /* 0 1 2 ..., and 1 more for each call on it */
static _Atomic int64_t made, refused, wrong, loads;
static _Atomic int callers_left;

typedef struct worker {
  int64_t calls;
  uint64_t state;
  int64_t turns;
  int64_t raised; /* calls on the board */
} worker;

/* xorshift64*: any reproducible sequence does. */
static uint64_t next(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 2685821657736338717ull;
}

static void check(int good, const char *what) {
  if (good) return;
  if (atomic_fetch_add(&wrong, 1) < 10)
    fprintf(stderr, "wrong: %s: %s\n", what, tn_error_text());
}

static void check_values(tn_array *y, float factor, float plus) {
  float got[N];
  check(tn_array_get(y, got, sizeof got) == TN_OK, "get");
  for (int i = 0; i < N; ++i)
    check(got[i] == factor * (float)i + plus, "an element");
}

static void call_into(tn_operator *op, tn_array **y, float factor, float plus) {
  check(tn_call(rt, op, TN_IN(shared), NULL, TN_OUT(y)) == TN_OK, "call");
  if (*y) check_values(*y, factor, plus);
}

/* The kernel fails when it is its turn; the call may have returned by then. */
static void call_failing(tn_array **y) {
  float got[N];
  tn_code rc = tn_call(rt, fail, TN_IN(shared), NULL, TN_OUT(y));
  check(rc == TN_OK || rc == TN_UNIMPLEMENTED, "fail");
  if (rc && !*y) return;
  check(tn_array_get(*y, got, sizeof got) == TN_UNIMPLEMENTED, "its story");
}

/* Readers of the board see whole calls: all elements have been raised as often
 * as the first. */
static void check_board(worker *self, uint64_t how) {
  float got[N];
  tn_array *seen = board;
  tn_code rc = TN_OK;
  if (how & 1) {
    ++self->raised;
    rc = tn_call(rt, turn, TN_IN(board), NULL, TN_OUT(&seen));
  } else if (how & 2) {
    rc = tn_array_cast(board, TN_F32, &seen);
  }
  if (!rc) rc = tn_array_get(seen, got, sizeof got);
  check(rc == TN_OK, "the board");
  for (int i = 0; !rc && i < N; ++i)
    check(got[i] == got[0] + (float)i, "a call that was seen in parts");
  if (seen != board) tn_array_release(seen);
}

static void call_guest(tn_array **y) {
  tn_params *params = NULL;
  tn_code rc = tn_params_parse(guest, "", &params);
  if (!rc) rc = tn_call(rt, guest, TN_IN(shared), params, TN_OUT(y));
  check(rc == TN_OK || rc == TN_NOT_FOUND, "guest");
  if (!rc) check_values(*y, 2, 0);
  atomic_fetch_add(rc ? &refused : &made, 1);
  tn_params_release(params);
}

static int goes_on(const worker *self, int64_t i) {
  if (i < self->calls) return 1;
  return atomic_load(&loads) < LEAST_LOADS && i < 100 * self->calls;
}

static void *call_many(void *arg) {
  worker *self = (worker *)arg;
  tn_array *y = NULL;
  for (int64_t i = 0; goes_on(self, i); ++i) {
    uint64_t what = next(&self->state) >> 60;
    if (what < 3) {
      call_into(turn, &y, 1, 1);
      ++self->turns;
    } else if (what < 7) {
      call_into(twice, &y, 2, 0);
    } else if (what < 9) {
      check(tn_call(rt, draw, TN_IN(shared), NULL, TN_OUT(&y)) == TN_OK,
            "draw");
    } else if (what < 10) {
      call_failing(&y);
    } else if (what < 12) {
      check_board(self, next(&self->state) >> 62);
    } else if (what < 14) {
      call_guest(&y);
    } else {
      tn_array_release(y); /* the next call makes a new one */
      y = NULL;
    }
  }
  tn_array_release(y);
  atomic_fetch_sub(&callers_left, 1);
  return NULL;
}

static void *load_and_unload(void *arg) {
  (void)arg;
  while (atomic_load(&callers_left) > 0) {
    tn_code rc = tn_plugin_unload(rt, "right");
    check(rc == TN_OK || rc == TN_BUSY, "unload");
    if (rc) continue;
    check(tn_plugin_add(rt, &right) == TN_OK, "add");
    atomic_fetch_add(&loads, 1);
  }
  return NULL;
}

/* -------------------------------------------------------------------- main */

static tn_code open_all(void) {
  const int64_t shape[] = {N};
  float values[N];
  for (int i = 0; i < N; ++i) values[i] = (float)i;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugin_add(rt, &left);
  if (!rc) rc = tn_plugin_add(rt, &right);
  if (!rc) rc = tn_operator_get(rt, "left.turn", &turn);
  if (!rc) rc = tn_operator_get(rt, "left.twice", &twice);
  if (!rc) rc = tn_operator_get(rt, "left.draw", &draw);
  if (!rc) rc = tn_operator_get(rt, "left.fail", &fail);
  if (!rc) rc = tn_operator_get(rt, "right.guest", &guest);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &shared);
  if (!rc) rc = tn_array_set(shared, values, sizeof values);
  if (!rc) rc = tn_array_cast(shared, TN_F32, &board);
  return rc;
}

static void check_end(int64_t turned, int64_t raised) {
  float got[N];
  check(tn_array_get(board, got, sizeof got) == TN_OK, "get");
  check(got[0] == (float)raised, "calls on the board");
  check(turned + raised == turns, "calls of the kernel that is not reentrant");
}

static void run_all(int64_t calls, uint64_t seed) {
  pthread_t threads[THREADS], loader;
  worker workers[THREADS];
  int64_t turned = 0, raised = 0;
  atomic_store(&callers_left, THREADS);
  for (int i = 0; i < THREADS; ++i) {
    workers[i] =
        (worker){.calls = calls, .state = seed + 1 + (uint64_t)i * 7919};
    check(!pthread_create(&threads[i], NULL, call_many, &workers[i]), "thread");
  }
  check(!pthread_create(&loader, NULL, load_and_unload, NULL), "thread");
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    turned += workers[i].turns;
    raised += workers[i].raised;
  }
  pthread_join(loader, NULL);
  check(tn_wait_all(rt) != TN_BUSY, "the end");
  check_end(turned, raised);
}

int main(int argc, char **argv) {
  int64_t calls = argc > 1 ? atoll(argv[1]) : 5000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20240601;
  printf("call_stress: %d threads, %lld calls each, seed %llu\n", THREADS,
         (long long)calls, (unsigned long long)seed);
  if (open_all() != TN_OK) {
    fprintf(stderr, "%s\n", tn_error_text());
    return 1;
  }
  run_all(calls, seed);
  tn_array_release(shared);
  tn_array_release(board);
  tn_runtime_release(rt);
  printf(
      "call_stress: %lld loads, guest called %lld times and missing %lld "
      "times, %lld mistakes\n",
      (long long)loads, (long long)made, (long long)refused, (long long)wrong);
  return wrong ? 1 : 0;
}
