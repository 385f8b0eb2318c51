/* SPDX-License-Identifier: Apache-2.0
 * local_calls.c: the calls of a session. Those of all ranks at one position
 * meet; the last rank that arrives computes for all. One thread at a time
 * computes the meetings of a session, in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "local.h"

enum { WATCH_NS = 100000000 }; /* how often shut down runtimes are noticed */

/* ----------------------------------------------------------------- meetings */

/* The meeting at the position of a call; it is made if the call is its first.
 * NULL without memory. */
static local_meeting *find_meeting(local_session *s, int64_t position) {
  local_meeting *m = s->first;
  for (int64_t i = s->first_position; m && i < position; ++i) m = m->next;
  if (m) return m;
  m = calloc(1, sizeof *m + (size_t)s->size * sizeof *m->tasks);
  if (!m) return NULL;
  if (s->last)
    s->last->next = m;
  else
    s->first = m;
  s->last = m;
  return m;
}

/* Removes the first meeting if all calls are there. */
static local_meeting *take_meeting(local_session *s) {
  local_meeting *m = s->first;
  if (!m || m->n_tasks < s->size) return NULL;
  s->first = m->next;
  if (!m->next) s->last = NULL;
  ++s->first_position;
  return m;
}

/* The call of one rank is different: all fail, with both described. */
static void fail_meeting(local_session *s, local_meeting *m, const char *why) {
  comm_task *list = NULL;
  local_lock();
  comm_task *pending =
      local_break(s, m->tasks[0]->group, m->tasks[0], TN_INVALID, why);
  local_unlock();
  for (int32_t r = s->size; r-- > 0;) {
    m->tasks[r]->next = list;
    list = m->tasks[r];
  }
  comm_tasks_fail(list);
  comm_tasks_fail(pending);
}

/* Computes a meeting and completes its calls. `worker` is the call of this
 * thread. */
static void run_meeting(local_session *s, local_meeting *m,
                        const tn_frame *worker) {
  char why[COMM_TEXT];
  if (comm_compare_tasks(m->tasks, s->size, why) != TN_OK) {
    fail_meeting(s, m, why);
  } else {
    local_compute(m->tasks, s->size, worker);
    for (int32_t r = 0; r < s->size; ++r)
      comm_task_end(m->tasks[r], TN_OK, NULL);
  }
  free(m);
}

/* Computes meetings while the first one has all calls. Requires the lock, which
 * it gives up meanwhile. */
static void run_meetings(local_session *s, const tn_frame *worker) {
  if (s->running) return;
  local_meeting *m = take_meeting(s);
  if (!m) return;
  s->running = 1;
  ++s->n_refs;
  for (; m; m = take_meeting(s)) {
    local_unlock();
    run_meeting(s, m, worker);
    local_lock();
  }
  s->running = 0;
  local_release(s);
}

/* Adds a call of all ranks. Requires the lock. Returns false without memory. */
static int enter_meeting(local_session *s, comm_task *task) {
  const int32_t rank = task->group->info.rank;
  local_meeting *m = find_meeting(s, s->n_calls[rank]);
  if (!m) return 0;
  task->position = s->n_calls[rank]++;
  m->tasks[rank] = task;
  if (++m->n_tasks < s->size) local_clock_watch(task->deadline);
  return 1;
}

/* ----------------------------------------------------------------- messages */

static int is_counterpart(const comm_task *a, const comm_task *b) {
  return a->kind != b->kind && a->tag == b->tag &&
         a->peer == b->group->info.rank && b->peer == a->group->info.rank;
}

/* Removes the oldest counterpart of a message. Requires the lock. */
static comm_task *take_counterpart(local_session *s, const comm_task *task) {
  for (comm_task **at = &s->messages; *at; at = &(*at)->next) {
    comm_task *other = *at;
    if (!is_counterpart(task, other)) continue;
    *at = other->next;
    return other;
  }
  return NULL;
}

static void append_message(local_session *s, comm_task *task) {
  comm_task **at = &s->messages;
  while (*at) at = &(*at)->next;
  *at = task;
  local_clock_watch(task->deadline);
}

/* Fails two calls that do not fit. */
static void fail_message(local_session *s, comm_task *send, comm_task *recv) {
  char why[COMM_TEXT];
  (void)snprintf(why, sizeof why,
                 "rank %d sends %lld elements of %s with tag %d, but rank %d "
                 "receives %lld of %s",
                 (int)send->group->info.rank, (long long)send->pieces->n_in,
                 comm_dtype_name(send->dtype), (int)send->tag / 2,
                 (int)recv->group->info.rank, (long long)recv->pieces->n_out,
                 comm_dtype_name(recv->dtype));
  local_lock();
  comm_task *pending = local_break(s, recv->group, recv, TN_SHAPE, why);
  local_unlock();
  send->next = recv;
  recv->next = NULL;
  comm_tasks_fail(send);
  comm_tasks_fail(pending);
}

static void deliver_message(local_session *s, comm_task *a, comm_task *b) {
  comm_task *send = a->kind == COMM_SEND ? a : b;
  comm_task *recv = send == a ? b : a;
  if (send->dtype != recv->dtype ||
      send->pieces->n_in != recv->pieces->n_out) {
    fail_message(s, send, recv);
    return;
  }
  if (recv->pieces->out && recv->pieces->n_out > 0)
    memcpy(recv->pieces->out, send->pieces->in,
           (size_t)(recv->pieces->n_out * tn_dtype_bytes(recv->dtype)));
  comm_task_end(recv, TN_OK, NULL);
  comm_task_end(send, TN_OK, NULL);
}

/* ------------------------------------------------------------------- begin */

static void start_message(local_session *s, comm_task *task) {
  comm_task *other = take_counterpart(s, task);
  if (!other) {
    append_message(s, task);
    return;
  }
  ++s->n_refs;
  local_unlock();
  deliver_message(s, task, other);
  local_lock();
  local_release(s);
}

void local_start(comm_task *task) {
  local_session *s = task->group->state;
  const tn_frame *worker = task->call;
  local_lock();
  if (s->broken != TN_OK) {
    local_unlock();
    comm_tasks_fail(task);
    return;
  }
  if (task->kind == COMM_SEND || task->kind == COMM_RECV) {
    start_message(s, task);
  } else if (enter_meeting(s, task)) {
    run_meetings(s, worker);
  } else {
    local_unlock();
    comm_task_end(task, TN_OUT_OF_MEMORY, "no memory for a call");
    return;
  }
  local_unlock();
}

/* ---------------------------------------------------------- ends without all */

comm_task *local_take_pending(local_session *session) {
  comm_task *list = session->messages;
  session->messages = NULL;
  while (session->first) {
    local_meeting *m = session->first;
    session->first = m->next;
    for (int32_t r = 0; r < session->size; ++r) {
      if (!m->tasks[r]) continue;
      m->tasks[r]->next = list;
      list = m->tasks[r];
    }
    free(m);
  }
  session->last = NULL;
  return list;
}

/* Lists the ranks without a call: "ranks 1, 3". */
static void list_absent(const local_session *s, const local_meeting *m,
                        char *to, size_t bytes) {
  size_t n = 0;
  for (int32_t r = 0; r < s->size && n < bytes; ++r)
    if (!m->tasks[r])
      n += (size_t)snprintf(to + n, bytes - n, "%s%d", n ? ", " : "", (int)r);
}

/* Breaks the session because of one of its pending calls, if the call has ended
 * by time or by its host. */
static comm_task *expire_task(local_session *s, const local_meeting *m,
                              comm_task *task, int64_t now, int64_t *next) {
  char absent[128] = "", why[COMM_TEXT];
  const tn_host *host = task->call->host;
  if (host->cancelled(task->later))
    return local_break(s, task->group, task, TN_BUSY,
                       "the runtime was shut down");
  if (task->deadline > now) {
    if (task->deadline < *next) *next = task->deadline;
    return NULL;
  }
  if (m)
    list_absent(s, m, absent, sizeof absent);
  else
    (void)snprintf(absent, sizeof absent, "%d", (int)task->peer);
  (void)snprintf(why, sizeof why, "no call of rank %s within %lld ms", absent,
                 (long long)(task->group->timeout / 1000000));
  return local_break(s, task->group, task, TN_BUSY, why);
}

static comm_task *expire_session(local_session *s, int64_t now, int64_t *next) {
  comm_task *ended = NULL;
  for (comm_task *t = s->messages; t && !ended; t = t->next)
    ended = expire_task(s, NULL, t, now, next);
  local_meeting *m = ended ? NULL : s->first;
  while (m) {
    local_meeting *following = m->next;
    for (int32_t r = 0; r < s->size && !ended; ++r)
      if (m->tasks[r]) ended = expire_task(s, m, m->tasks[r], now, next);
    m = ended ? NULL : following; /* the pending meetings are gone */
  }
  return ended;
}

comm_task *local_expire(int64_t now, int64_t *next) {
  comm_task *all = NULL;
  *next = INT64_MAX;
  for (local_session *s = local_sessions(); s; s = s->next) {
    comm_task *ended = expire_session(s, now, next);
    while (ended) {
      comm_task *task = ended;
      ended = task->next;
      task->next = all;
      all = task;
    }
  }
  if (*next != INT64_MAX && *next > now + WATCH_NS) *next = now + WATCH_NS;
  return all;
}
