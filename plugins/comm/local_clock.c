/* SPDX-License-Identifier: Apache-2.0
 * local_clock.c: the thread that watches the deadlines of pending calls. It
 * sleeps until the earliest one, or until a call is pending.
 */
#include <signal.h>
#include <time.h>

#include "local.h"

enum { CLOCK_ABSENT, CLOCK_RUNNING, CLOCK_STOPPING };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of state */
static pthread_cond_t stopped = PTHREAD_COND_INITIALIZER;
static int state = CLOCK_ABSENT;
static int32_t n_users;
static pthread_t thread;

/* Of local_lock(), but `wake_lock` of the condition. The order of locks is
 * local_lock, wake_lock. */
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static int64_t wake_at = INT64_MAX; /* when the thread wakes up by itself */
static int64_t earliest = INT64_MAX;
static int stop;

/* Sleeps until `next`, or until an earlier deadline is known. */
static int sleep_until(int64_t next) {
  (void)pthread_mutex_lock(&wake_lock);
  wake_at = next;
  while (!stop && earliest >= wake_at && comm_now() < wake_at) {
    if (wake_at == INT64_MAX) {
      (void)pthread_cond_wait(&wake, &wake_lock);
      continue;
    }
    const struct timespec t = {(time_t)(wake_at / 1000000000),
                               (long)(wake_at % 1000000000)};
    (void)pthread_cond_timedwait(&wake, &wake_lock, &t);
  }
  earliest = INT64_MAX;
  const int go_on = !stop;
  (void)pthread_mutex_unlock(&wake_lock);
  return go_on;
}

static void *watch_deadlines(void *arg) {
  (void)arg;
  int64_t next = INT64_MAX;
  while (sleep_until(next)) {
    local_lock();
    comm_task *ended = local_expire(comm_now(), &next);
    local_unlock();
    comm_tasks_fail(ended);
  }
  return NULL;
}

void local_clock_watch(int64_t deadline) {
  (void)pthread_mutex_lock(&wake_lock);
  if (deadline < earliest) earliest = deadline;
  if (deadline < wake_at) (void)pthread_cond_signal(&wake);
  (void)pthread_mutex_unlock(&wake_lock);
}

/* Starts the thread without signals, which belong to threads of the host. */
static int32_t start_thread(void) {
  sigset_t all, before;
  pthread_condattr_t attr;
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&wake, &attr);
  (void)pthread_condattr_destroy(&attr);
  stop = 0;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&thread, NULL, watch_deadlines, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) (void)pthread_cond_destroy(&wake);
  return failed ? TN_OUT_OF_MEMORY : TN_OK;
}

int32_t local_clock_open(void) {
  int32_t code = TN_OK;
  (void)pthread_mutex_lock(&lock);
  while (state == CLOCK_STOPPING) (void)pthread_cond_wait(&stopped, &lock);
  if (state == CLOCK_ABSENT) code = start_thread();
  if (code == TN_OK) {
    state = CLOCK_RUNNING;
    ++n_users;
  }
  (void)pthread_mutex_unlock(&lock);
  return code;
}

static void stop_thread(void) {
  (void)pthread_mutex_lock(&wake_lock);
  stop = 1;
  (void)pthread_cond_signal(&wake);
  (void)pthread_mutex_unlock(&wake_lock);
  (void)pthread_join(thread, NULL);
  (void)pthread_cond_destroy(&wake);
}

void local_clock_close(void) {
  (void)pthread_mutex_lock(&lock);
  const int last = --n_users == 0;
  if (last) state = CLOCK_STOPPING;
  (void)pthread_mutex_unlock(&lock);
  if (!last) return;
  stop_thread();
  (void)pthread_mutex_lock(&lock);
  state = CLOCK_ABSENT;
  (void)pthread_cond_broadcast(&stopped);
  (void)pthread_mutex_unlock(&lock);
}
