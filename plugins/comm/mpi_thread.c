/* SPDX-License-Identifier: Apache-2.0
 * mpi_thread.c: the thread of the process that makes all calls of MPI. MPI
 * needs a thread that tests its requests, and this way every build of MPI is
 * usable, also one that allows no other thread.
 *
 * While requests are pending, the thread tests them: first without a pause,
 * then it yields its processor, then it sleeps for times that grow. It begins
 * again when a test took long, since MPI was copying then. Without requests it
 * sleeps until there is a call.
 */
#include "mpi_thread.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  SPIN_NS = 100000,    /* tests without a pause */
  YIELD_NS = 2000000,  /* tests, each after a yield */
  BUSY_NS = 3000,      /* a test that takes longer has copied */
  LONGEST_NS = 200000, /* the longest pause */
  WATCH_NS = 5000000   /* between two looks at deadlines */
};
#define LAST_NS 5000000000 /* for sent messages at the end of the process */
#define ABANDONED_NS 2000000000 /* for MPI_Finalize after a broken group */

enum { STATE_NEW, STATE_STARTING, STATE_READY, STATE_FAILED, STATE_ENDED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t wake;    /* the thread */
static pthread_cond_t changed; /* threads of the host */

/* Protected by the lock. */
static struct {
  int state;
  int stop;
  int abandoned; /* a request may never end */
  char name[128];
  char why[COMM_TEXT];
  comm_task *tasks, *last_task;
  mpi_command *commands, *last_command;
} shared;

/* Of the thread alone. */
static struct {
  pthread_t thread;
  const comm_mpi_calls *calls;
  int32_t owned, control, rank, size;
  struct owner {
    mpi_ended *ended;
    void *owner;
    int32_t index;
  } * owners;
  int32_t n_owners;
  int64_t n_pending; /* requests without that for notices */
  int32_t notice_request;
  int failed; /* a request may never end */
  mpi_notice notice;
} own;

static void init_conditions(void) {
  pthread_condattr_t attr;
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&wake, &attr);
  (void)pthread_cond_init(&changed, &attr);
  (void)pthread_condattr_destroy(&attr);
}

static int wait_until(pthread_cond_t *condition, int64_t deadline) {
  const struct timespec t = {(time_t)(deadline / 1000000000),
                             (long)(deadline % 1000000000)};
  return pthread_cond_timedwait(condition, &lock, &t) == 0;
}

const comm_mpi_calls *mpi_calls(void) {
  return own.calls;
}

int32_t mpi_control(void) {
  return own.control;
}

int32_t mpi_world_rank(void) {
  return own.rank;
}

/* ---------------------------------------------------------------- requests */

void mpi_own_request(int32_t request, mpi_ended *ended, void *owner,
                     int32_t index) {
  if (request >= own.n_owners) {
    const int32_t n = 2 * request + 16;
    struct owner *more = realloc(own.owners, (size_t)n * sizeof *more);
    if (!more) {
      own.failed = 1;
      return;
    }
    memset(more + own.n_owners, 0, (size_t)(n - own.n_owners) * sizeof *more);
    own.owners = more;
    own.n_owners = n;
  }
  own.owners[request] = (struct owner){ended, owner, index};
  ++own.n_pending;
}

static void receive_notices(void);

static void end_notice(void *owner, int32_t index, const mpi_done *done) {
  (void)owner;
  (void)index;
  ++own.n_pending; /* this request is not counted */
  if (!done->error) mpi_take_notice(&own.notice);
  receive_notices();
}

/* Begins to receive the next notice of any process. */
static void receive_notices(void) {
  const mpi_elements e = {.out = &own.notice,
                          .count = (int32_t)sizeof own.notice,
                          .type = MPI_TYPE_U8,
                          .root = -1};
  if (own.calls->receive(own.control, &e, MPI_TAG_NOTICE, &own.notice_request))
    return;
  mpi_own_request(own.notice_request, end_notice, NULL, 0);
  --own.n_pending;
}

/* Calls the owners of ended requests. Returns their number. */
static int32_t test_requests(void) {
  const mpi_done *done = NULL;
  int32_t n = 0;
  if (own.calls->test(&done, &n)) return 0;
  for (int32_t i = 0; i < n; ++i) {
    if (done[i].request >= own.n_owners) continue;
    const struct owner o = own.owners[done[i].request];
    own.owners[done[i].request].ended = NULL;
    if (!o.ended) continue;
    --own.n_pending;
    const mpi_done copy = done[i];
    o.ended(o.owner, o.index, &copy);
  }
  return n;
}

/* -------------------------------------------------------------------- start */

static void note_end(void *owner, int32_t index, const mpi_done *done) {
  (void)index;
  *(int32_t *)owner = done->error ? 2 : 1;
}

/* Creates the communicator of notices. All processes do. */
static int create_control(void) {
  int32_t request, ended = 0;
  int error = own.calls->copy(0, &own.control, &request);
  if (error) return error;
  mpi_own_request(request, note_end, &ended, 0);
  while (!ended) {
    (void)test_requests();
    (void)sched_yield();
  }
  receive_notices();
  return ended == 2;
}

/* Starts MPI. False, with the reason. */
static int start_library(char name[128], char why[COMM_TEXT]) {
  int32_t denied = 0, rank = 0, size = 1;
  own.calls = mpi_find_library(name, why, COMM_TEXT);
  if (!own.calls) return 0;
  int error = own.calls->start(&own.owned, &denied);
  if (!error && denied) {
    (void)snprintf(why, COMM_TEXT,
                   "the program has started %s for one thread; it must "
                   "request MPI_THREAD_MULTIPLE, or leave the start to this "
                   "plugin",
                   name);
    return 0;
  }
  if (!error) error = own.calls->size(0, &own.rank, &own.size);
  if (!error) error = create_control();
  if (error) {
    (void)mpi_describe(error, name, why);
    return 0;
  }
  if (comm_launched(&rank, &size) && size != own.size) {
    (void)snprintf(why, COMM_TEXT,
                   "mpirun started %d processes, but %s finds %d; the two "
                   "belong to different installations of MPI",
                   (int)size, name, (int)own.size);
    return 0;
  }
  return 1;
}

int32_t mpi_describe(int error, const char *during, char why[COMM_TEXT]) {
  char text[COMM_TEXT / 2];
  own.calls->text(error, text, (int32_t)sizeof text);
  (void)snprintf(why, COMM_TEXT, "%s: %s", during, text);
  return TN_IO;
}

/* ---------------------------------------------------------------- the loop */

/* Takes the new calls and commands. False: the thread has to end. */
static int take_work(void) {
  (void)pthread_mutex_lock(&lock);
  comm_task *tasks = shared.tasks;
  mpi_command *commands = shared.commands;
  shared.tasks = shared.last_task = NULL;
  shared.commands = shared.last_command = NULL;
  const int go_on = !shared.stop;
  (void)pthread_mutex_unlock(&lock);
  while (tasks) {
    comm_task *task = tasks;
    tasks = task->next;
    task->next = NULL;
    mpi_start_task(task);
  }
  while (commands) {
    mpi_command *command = commands;
    commands = command->next;
    command->run(command);
  }
  return go_on;
}

/* Sleeps until there is work, at most until `deadline`. */
static void sleep_until(int64_t deadline) {
  (void)pthread_mutex_lock(&lock);
  if (!shared.tasks && !shared.commands && !shared.stop) {
    if (deadline == INT64_MAX)
      (void)pthread_cond_wait(&wake, &lock);
    else
      (void)wait_until(&wake, deadline);
  }
  (void)pthread_mutex_unlock(&lock);
}

/* One pause, `idle` nanoseconds after the last progress: longer ones later. */
static void pause_after(int64_t idle, int64_t now) {
  if (idle < SPIN_NS) return;
  if (idle < YIELD_NS) {
    (void)sched_yield();
    return;
  }
  const int64_t ns = idle / 100;
  sleep_until(now + (ns < LONGEST_NS ? ns : LONGEST_NS));
}

static void run_loop(void) {
  int64_t active = 0, watched = 0, n_calls = 0;
  while (take_work()) {
    const int64_t before = comm_now();
    const int32_t n = test_requests();
    const int64_t now = comm_now();
    if (n > 0 || now - before > BUSY_NS) active = now;
    if (n > 0 || now - watched > WATCH_NS) {
      n_calls = mpi_watch_deadlines(now);
      watched = now;
    }
    if (own.n_pending > 0 || n_calls > 0) {
      pause_after(now - active, now);
    } else if (n == 0) {
      sleep_until(INT64_MAX);
      active = comm_now();
    }
  }
}

void mpi_note_abandoned(void) {
  own.failed = 1;
  (void)pthread_mutex_lock(&lock);
  shared.abandoned = 1;
  (void)pthread_mutex_unlock(&lock);
}

/* Ends MPI, unless the program started it. Requests of broken groups may never
 * end; the other ones get time. */
static void end_library(void) {
  const int64_t deadline = comm_now() + (own.failed ? 0 : LAST_NS);
  while (own.n_pending > 0 && comm_now() < deadline) {
    (void)test_requests();
    (void)sched_yield();
  }
  if (!own.owned) return;
  own.calls->cancel(own.notice_request);
  (void)own.calls->finish();
}

static void set_state(int state) {
  (void)pthread_mutex_lock(&lock);
  shared.state = state;
  (void)pthread_cond_broadcast(&changed);
  (void)pthread_mutex_unlock(&lock);
}

static void *run_thread(void *arg) {
  (void)arg;
  if (!start_library(shared.name, shared.why)) {
    set_state(STATE_FAILED);
    return NULL;
  }
  set_state(STATE_READY);
  run_loop();
  end_library();
  return NULL;
}

/* At the end of the process: the thread that started MPI must end it. With
 * requests that never end, MPI may not return; then the process ends without
 * it, and mpirun reports that. */
static void end_thread(void) {
  (void)pthread_mutex_lock(&lock);
  const int is_ready = shared.state == STATE_READY;
  const int64_t limit = shared.abandoned ? ABANDONED_NS : 2 * LAST_NS;
  shared.stop = 1;
  shared.state = STATE_ENDED;
  (void)pthread_cond_signal(&wake);
  (void)pthread_mutex_unlock(&lock);
  if (!is_ready) return;
  const int64_t deadline = comm_now() + limit;
  const struct timespec t = {(time_t)(deadline / 1000000000),
                             (long)(deadline % 1000000000)};
  (void)pthread_clockjoin_np(own.thread, NULL, CLOCK_MONOTONIC, &t);
}

/* ------------------------------------------------------- for other threads */

/* Requires the lock. */
static int32_t create_thread(tn_comm_reason *why) {
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&own.thread, NULL, run_thread, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed)
    return comm_fail(why, TN_OUT_OF_MEMORY, "cannot start a thread for MPI");
  shared.state = STATE_STARTING;
  (void)atexit(end_thread);
  return TN_OK;
}

int32_t mpi_start_thread(int64_t deadline, tn_comm_reason *why) {
  int32_t code = TN_OK;
  (void)pthread_once(&once, init_conditions);
  (void)pthread_mutex_lock(&lock);
  if (shared.state == STATE_NEW) code = create_thread(why);
  while (code == TN_OK && shared.state == STATE_STARTING)
    if (!wait_until(&changed, deadline) && shared.state == STATE_STARTING)
      code = comm_fail(why, TN_BUSY,
                       "MPI has not started in time; it waits until all "
                       "processes of mpirun have joined a group");
  if (code == TN_OK && shared.state == STATE_FAILED)
    code = comm_fail(why, TN_UNSUPPORTED, "MPI cannot start: %s", shared.why);
  if (code == TN_OK && shared.state == STATE_ENDED)
    code = comm_fail(why, TN_UNSUPPORTED, "the process is ending");
  (void)pthread_mutex_unlock(&lock);
  return code;
}

mpi_command *mpi_create_command(void (*run)(mpi_command *), comm_group *group,
                                int64_t deadline) {
  mpi_command *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->run = run;
  c->group = group;
  c->deadline = deadline;
  c->n_refs = 1;
  return c;
}

/* Requires the lock. */
static void release_command(mpi_command *c) {
  if (--c->n_refs > 0) return;
  free(c->data);
  free(c);
}

int32_t mpi_post_command(mpi_command *command, int wait, tn_comm_reason *why) {
  int32_t code = TN_OK;
  (void)pthread_mutex_lock(&lock);
  command->n_refs += wait;
  if (shared.last_command)
    shared.last_command->next = command;
  else
    shared.commands = command;
  shared.last_command = command;
  (void)pthread_cond_signal(&wake);
  if (wait) {
    while (!command->complete) (void)pthread_cond_wait(&changed, &lock);
    code = command->code;
    if (code == TN_OK && command->copy_to)
      memcpy(command->copy_to, command->data, (size_t)command->bytes);
    if (code != TN_OK && why) *why = command->why;
    release_command(command);
  }
  (void)pthread_mutex_unlock(&lock);
  return code;
}

void mpi_end_command(mpi_command *command, int32_t code) {
  (void)pthread_mutex_lock(&lock);
  if (!command->complete) command->code = code;
  command->complete = 1;
  (void)pthread_cond_broadcast(&changed);
  if (command->n_pending == 0) release_command(command);
  (void)pthread_mutex_unlock(&lock);
}

void mpi_post_task(comm_task *task) {
  (void)pthread_mutex_lock(&lock);
  if (shared.last_task)
    shared.last_task->next = task;
  else
    shared.tasks = task;
  shared.last_task = task;
  (void)pthread_cond_signal(&wake);
  (void)pthread_mutex_unlock(&lock);
}

void comm_mpi_describe(char *to, uint64_t bytes) {
  (void)pthread_mutex_lock(&lock);
  const int state = shared.state;
  char name[128], why[COMM_TEXT];
  (void)snprintf(name, sizeof name, "%s", shared.name);
  (void)snprintf(why, sizeof why, "%s", shared.why);
  (void)pthread_mutex_unlock(&lock);
  if (state == STATE_NEW && !mpi_find_library(name, why, sizeof why))
    (void)snprintf(to, (size_t)bytes, "cannot start: %s", why);
  else if (state == STATE_FAILED)
    (void)snprintf(to, (size_t)bytes, "cannot start: %s", why);
  else
    (void)snprintf(to, (size_t)bytes, "%s", name);
}
