/* SPDX-License-Identifier: Apache-2.0
 * The end of programs on devices with queues (tests/storage/fake.h). A program
 * may be released from any place: nothing in use is freed, nothing is enqueued
 * for it, and it ends on the thread that releases it. The kernel is one of
 * lab.room; the plan does not contain its workspace for training.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../by_hand.h"
#include "fake_end.h"
#include "net.h"
#include "program.h"

enum { N = 6, ROOM = 1 << 16 };

/* -------------------------------------------------------------------- kernels
 */

typedef struct launch {
  const void *in;
  void *out;
  void *room; /* or NULL */
} launch;

/* Copies through the workspace, which it writes in full. */
static void room_run(fake *f, const void *arg) {
  const launch *l = arg;
  double *room = l->room ? fake_reach(f, l->room) : NULL;
  const double *from = fake_reach(f, l->in);
  if (room) {
    memset(room, 7, ROOM);
    memcpy(room, from, N * sizeof *room);
    from = room;
  }
  memcpy(fake_reach(f, l->out), from, N * sizeof *from);
}

static int32_t room_compute(const tn_frame *call) {
  const launch l = {.in = call->in[0].data,
                    .out = call->out[0].data,
                    .room = call->n_ws > 0 ? call->ws[0] : NULL};
  const void *const reads[] = {l.in}, *const writes[] = {l.out, l.room};
  const size_t write_bytes[] = {N * sizeof(double), ROOM};
  const fake_work work = {.run = room_run,
                          .arg = &l,
                          .arg_bytes = sizeof l,
                          .bytes = N * sizeof(double),
                          .reads = reads,
                          .n_reads = 1,
                          .writes = writes,
                          .n_writes = l.room ? 2 : 1,
                          .write_bytes = write_bytes};
  return fake_launch(call->run->stream, &work);
}

static int32_t room_prepare(const tn_frame *call, tn_plan *plan) {
  plan->n_ws = (call->flags & TN_CALL_TRAIN) != 0;
  plan->ws[0].bytes = ROOM;
  return TN_OK;
}

static const uint64_t only_f64[] = {TN_BIT_F64};
static const tn_kernel room = {.struct_size = sizeof(tn_kernel),
                               .flags = TN_KERNEL_REENTRANT,
                               .pass = TN_PASS_FORWARD,
                               .device_type = TN_DEVICE_EXT,
                               .writes = TN_WRITES_WRITE,
                               .n_dtype_sets = 1,
                               .when = TN_NONE,
                               .op = "lab.room@1",
                               .id = "guest.room.fake",
                               .dtype_sets = only_f64,
                               .prepare = room_prepare,
                               .compute = room_compute};
static const tn_kernel *const kernels[] = {&room};
static const tn_target target = {.struct_size = sizeof(tn_target),
                                 .op = "lab.room@1"};
static const tn_target *const targets[] = {&target};
static const tn_plugin guest = {
    PLUGIN_BY_HAND("guest", 1, "lab.room on fake devices"), .n_kernels = 1,
    .n_targets = 1, .kernels = kernels, .targets = targets};

/* -------------------------------------------------------------------- fixture
 */

static fake *f;
static tn_program *p; /* the released program */

static void setup_with(const tn__engine_options *options) {
  net_open_with(options);
  f = fake_create(&(fake_options){.count = 1, .latency_us = 20});
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__plugin_add(w.registry, &guest));
}

static void setup_device(void) {
  setup_with(&(tn__engine_options){.workers = 2});
}

static void close_all(void) {
  net_close();
  end_fake(f);
}

TestSuite(released_queue, .init = setup_device, .fini = close_all,
          .timeout = 100);

static tn_program *bind_net(void) {
  tn_program *made = NULL;
  const tn_bind how = {.struct_size = sizeof how, .place = {TN_DEVICE_EXT, 0}};
  net_renew();
  HEADS(g, OP(g, "room", NULL, "one",
              OP(g, "room", NULL, "two", typed_var(g, "x", F64(2, 3)))));
  OK(tn__program_bind(g, &how, &made));
  return made;
}

/* Its workspaces are memory outside of the plan. */
static void train_once(tn_program *program) {
  OK(tn__program_forward(program, TN_CALL_TRAIN));
  cr_assert_eq(program->memory.rooms.n, 2);
}

static tn_array *argument_array(const tn_program *program) {
  tn_array *array = NULL;
  OK(tn__program_array(program, TN_PROGRAM_ARGUMENT, "x", &array));
  return array;
}

/* --------------------------------------------------------------- from outside
 */

/* While the queue's own thread enqueues and is blocked. */
Test(released_queue, nothing_is_enqueued_where_a_program_is_released) {
  tn_program *other = bind_net();
  p = bind_net();
  train_once(p);
  OK(tn__wait_all(w.env.engine));
  train_once(other);
  OK(tn__wait_all(w.env.engine));
  fake_seize(f);
  OK(tn__program_forward(other, TN_CALL_TRAIN));
  fake_seize_await(f);
  tn__program_release(p);
  fake_let_go(f);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  tn__program_release(other);
}

static _Atomic int ended;

static void *release_there(void *arg) {
  tn__program_release(arg);
  atomic_store(&ended, 1);
  return NULL;
}

/* Arrays and pools of a program outlive it: without memory their own ends wait
 * for the device. */
typedef struct left {
  tn_array *arrays[8];
  tn__block *pools[2];
  uint32_t n_arrays;
  size_t n_pools;
} left;

static void left_take(left *l) {
  *l = (left){.n_arrays = p->n_values, .n_pools = p->memory.plan.n_pools};
  cr_assert(l->n_arrays <= 8 && l->n_pools <= 2);
  for (uint32_t i = 0; i < l->n_arrays; ++i)
    if (p->values[i].array) l->arrays[i] = tn__array_retain(p->values[i].array);
  for (size_t i = 0; i < l->n_pools; ++i)
    if (p->memory.pools[i]) l->pools[i] = tn__block_retain(p->memory.pools[i]);
}

static void left_release(const left *l) {
  for (uint32_t i = 0; i < l->n_arrays; ++i) tn__array_release(l->arrays[i]);
  for (size_t i = 0; i < l->n_pools; ++i) tn__block_release(l->pools[i]);
}

/* The device has the last run, but executes it only when a thread waits for it.
 * Without that wait, the release frees memory in use. */
static void release_at_work(bool starve) {
  pthread_t other;
  left l;
  p = bind_net();
  train_once(p);
  OK(tn__wait_all(w.env.engine));
  left_take(&l);
  tn__device *const device = p->placement.device;
  fake_hold(f);
  const int64_t enqueued =
      fake_counts_get(f).records + p->forward[1].n_operations;
  train_once(p);
  while (fake_counts_get(f).records < enqueued) sched_yield();
  const int64_t waits = fake_counts_get(f).host_waits;
  atomic_store(&ended, 0);
  w.memory.for_ever = starve;
  w.memory.fail_at = starve ? w.memory.asked + 1 : 0;
  cr_assert_eq(pthread_create(&other, NULL, release_there, p), 0);
  while (!atomic_load(&ended) && fake_counts_get(f).host_waits == waits)
    sched_yield();
  (void)tn__heap_trim(device); /* frees unused memory now */
  fake_go(f);
  pthread_join(other, NULL);
  w.memory.fail_at = 0;
  left_release(&l);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
}

Test(released_queue, its_last_run_is_waited_for) {
  release_at_work(false);
}

Test(released_queues, its_last_run_is_waited_for_without_memory) {
  for (uint32_t workers = 1; workers <= 2; ++workers) {
    setup_with(&(tn__engine_options){.workers = workers});
    release_at_work(true);
    close_all(); /* and nothing is left */
  }
}

/* With an engine where each run is complete when it was pushed. */
Test(released_queues, nothing_is_waited_for_without_memory) {
  setup_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
  p = bind_net();
  train_once(p);
  w.memory.for_ever = true;
  w.memory.fail_at = w.memory.asked + 1;
  tn__program_release(p);
  w.memory.fail_at = 0;
  close_all();
}

/* ---------------------------------------------------------------- from inside
 */

static _Atomic int released;
static sem_t is_begun, may_go;

static tn_code run_blocked(void *arg, tn__token *token) {
  (void)arg, (void)token;
  sem_post(&is_begun);
  while (sem_wait(&may_go)) continue;
  return TN_OK;
}

static tn_code run_release(void *arg, tn__token *token) {
  (void)arg, (void)token;
  tn__program_release(p);
  atomic_fetch_add(&released, 1);
  return TN_OK;
}

static void release_inside(void) {
  const tn__job job = {.name = "release", .run = run_release};
  OK(tn__push(w.env.engine, &job));
}

/* The run needs data that is written only after the program has lost its owner.
 */
Test(released_queue, a_pending_run_keeps_its_resources) {
  p = bind_net();
  train_once(p);
  OK(tn__wait_all(w.env.engine));
  tn_array *x = tn__array_retain(argument_array(p));
  tn_array *y = NULL;
  OK(tn__program_output(p, 0, &y));
  tn__array_retain(y);
  const double ones[N] = {1, 1, 1, 1, 1, 1};
  OK(tn__array_set(x, ones, sizeof ones));
  const tn__access access = {&x->block->var, TN__UPDATE, 0};
  const tn__job job = {
      .name = "before", .run = run_blocked, .access = &access, .n_access = 1};
  sem_init(&is_begun, 0, 0);
  sem_init(&may_go, 0, 0);
  OK(tn__push(w.env.engine, &job));
  while (sem_wait(&is_begun)) continue;
  train_once(p);
  release_inside();
  while (!atomic_load(&released)) sched_yield();
  sem_post(&may_go);
  OK(tn__wait_all(w.env.engine));
  double have[N];
  OK(tn__array_get(y, have, sizeof have));
  for (int i = 0; i < N; ++i) cr_assert_eq(have[i], 1);
  tn__array_release(x);
  tn__array_release(y);
}

static void *give_up(void *arg) {
  tn__program_unhold(arg);
  atomic_store(&ended, 1);
  return NULL;
}

/* Enqueued, but not executed: the thread that ends the program, here in the
 * place of the last job, waits for the execution. */
Test(released_queue, a_busy_device_keeps_its_resources) {
  p = bind_net();
  train_once(p);
  OK(tn__wait_all(w.env.engine));
  fake_hold(f);
  train_once(p);
  tn__program_hold(p);
  release_inside();
  while (!atomic_load(&released) || atomic_load(&p->n_holds) > 1) sched_yield();
  tn__device *const device = p->placement.device;
  const int64_t waits = fake_counts_get(f).host_waits;
  pthread_t job;
  cr_assert_eq(pthread_create(&job, NULL, give_up, p), 0);
  while (!atomic_load(&ended) && fake_counts_get(f).host_waits == waits)
    sched_yield();
  (void)tn__heap_trim(device); /* frees unused memory now */
  fake_go(f);
  pthread_join(job, NULL);
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
}

/* -------------------------------------------------------------- on which
 * thread
 */

/* Replaces the C library's function, which the engine calls as well. */
static tn_program *held; /* by a job that is about to drop it; or NULL */
static pthread_t owner;

int sched_yield(void) {
  pthread_t job;
  tn_program *program = held;
  if (!program || !pthread_equal(owner, pthread_self()))
    return (int)syscall(SYS_sched_yield);
  held = NULL;
  if (pthread_create(&job, NULL, give_up, program)) return -1;
  return pthread_join(job, NULL);
}

/* A job that is complete for waiters has not dropped the program yet: it does
 * so when the owner waits for that. */
Test(released_queue, a_program_ends_on_the_thread_that_releases_it) {
  p = bind_net();
  train_once(p);
  OK(tn__wait_all(w.env.engine));
  tn__program_hold(p);
  owner = pthread_self();
  held = p;
  const int64_t living = w.memory.living;
  tn__program_release(p);
  cr_assert_null(held, "nobody waited for the job");
  cr_assert_lt(w.memory.living, living, "it is not over");
}
