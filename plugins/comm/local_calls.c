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

/* Copies a message. NULL without memory. */
static local_letter *write_letter(const comm_task *send) {
  const comm_piece *p = send->pieces;
  const size_t bytes = (size_t)(p->n_in * tn_dtype_bytes(send->dtype));
  local_letter *letter = malloc(sizeof *letter + bytes);
  if (!letter) return NULL;
  *letter = (local_letter){.from = send->group->info.rank,
                           .to = send->peer,
                           .tag = send->tag,
                           .dtype = send->dtype,
                           .n = p->n_in};
  if (bytes > 0) memcpy(letter->data, p->in, bytes);
  return letter;
}

/* Removes the oldest message that a call receives. Requires the lock. */
static local_letter *take_letter(local_session *s, const comm_task *receive) {
  for (local_letter **at = &s->letters; *at; at = &(*at)->next) {
    local_letter *letter = *at;
    if (letter->from != receive->peer || letter->tag != receive->tag ||
        letter->to != receive->group->info.rank)
      continue;
    *at = letter->next;
    return letter;
  }
  return NULL;
}

/* Removes the oldest call that receives a message. Requires the lock. */
static comm_task *take_receive(local_session *s, const local_letter *letter) {
  for (comm_task **at = &s->receives; *at; at = &(*at)->next) {
    comm_task *task = *at;
    if (letter->from != task->peer || letter->tag != task->tag ||
        letter->to != task->group->info.rank)
      continue;
    *at = task->next;
    task->next = NULL;
    return task;
  }
  return NULL;
}

/* The message has another type or size: its receiver fails, and the group. */
static void fail_receive(local_session *s, comm_task *task,
                         const local_letter *letter) {
  char why[COMM_TEXT];
  (void)snprintf(why, sizeof why,
                 "rank %d sends %lld elements of %s with tag %d, but rank %d "
                 "receives %lld of %s",
                 (int)letter->from, (long long)letter->n,
                 comm_dtype_name(letter->dtype), (int)letter->tag / 2,
                 (int)letter->to, (long long)task->pieces->n_out,
                 comm_dtype_name(task->dtype));
  local_lock();
  comm_task *pending = local_break(s, task->group, task, TN_SHAPE, why);
  local_unlock();
  comm_tasks_fail(task);
  comm_tasks_fail(pending);
}

/* Completes a receive, and frees the message. */
static void deliver_letter(local_session *s, comm_task *task,
                           local_letter *letter) {
  const comm_piece *p = task->pieces;
  if (letter->dtype != task->dtype || letter->n != p->n_out) {
    fail_receive(s, task, letter);
  } else {
    if (p->out && letter->n > 0)
      memcpy(p->out, letter->data,
             (size_t)(letter->n * tn_dtype_bytes(letter->dtype)));
    comm_task_end(task, TN_OK, NULL);
  }
  free(letter);
}

/* ------------------------------------------------------------------- begin */

/* Sends without a wait. */
static void start_send(local_session *s, comm_task *send) {
  local_letter *letter = write_letter(send);
  if (!letter) {
    comm_task_end(send, TN_OUT_OF_MEMORY, "no memory for a message");
    return;
  }
  local_lock();
  comm_task *receive = take_receive(s, letter);
  if (!receive) {
    local_letter **at = &s->letters;
    while (*at) at = &(*at)->next;
    *at = letter;
  }
  ++s->n_refs;
  local_unlock();
  comm_task_end(send, TN_OK, NULL);
  if (receive) deliver_letter(s, receive, letter);
  local_lock();
  local_release(s);
  local_unlock();
}

/* A message of a rank to itself: later calls, among them its send, begin after
 * this one. */
static void fail_own_receive(comm_task *task) {
  comm_task_end(task, TN_INVALID,
                "there is no message of this rank to itself; send it before "
                "the call that receives it");
}

static void start_receive(local_session *s, comm_task *task) {
  const int is_own = task->peer == task->group->info.rank;
  local_lock();
  local_letter *letter = take_letter(s, task);
  const int waits = !letter && !is_own && s->broken == TN_OK;
  if (waits) {
    comm_task **at = &s->receives;
    while (*at) at = &(*at)->next;
    *at = task;
    local_clock_watch(task->deadline);
  }
  ++s->n_refs;
  local_unlock();
  if (letter)
    deliver_letter(s, task, letter);
  else if (is_own)
    fail_own_receive(task);
  else if (!waits)
    comm_tasks_fail(task);
  local_lock();
  local_release(s);
  local_unlock();
}

/* Adds a call of all ranks, and computes if it is the last one. */
static void start_meeting(local_session *s, comm_task *task) {
  const tn_frame *worker = task->call;
  local_lock();
  const int is_broken = s->broken != TN_OK;
  const int is_there = !is_broken && enter_meeting(s, task);
  if (is_there) run_meetings(s, worker);
  local_unlock();
  if (is_broken)
    comm_tasks_fail(task);
  else if (!is_there)
    comm_task_end(task, TN_OUT_OF_MEMORY, "no memory for a call");
}

void local_start(comm_task *task) {
  local_session *s = task->group->state;
  if (task->kind == COMM_SEND)
    start_send(s, task);
  else if (task->kind == COMM_RECV)
    start_receive(s, task);
  else
    start_meeting(s, task);
}

/* ---------------------------------------------------------- ends without all
 */

comm_task *local_take_pending(local_session *session) {
  comm_task *list = session->receives;
  session->receives = NULL;
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
  for (comm_task *t = s->receives; t && !ended; t = t->next)
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
