/* SPDX-License-Identifier: Apache-2.0
 * local.c: the backend of runtimes in one process. Members that pass the same
 * text meet in a session; this file has its members. local_calls.c has their
 * calls.
 *
 * Sessions belong to the process, because its runtimes know nothing of each
 * other. They end with their last member.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t changed; /* a member joined, or a round is complete */
static local_session *sessions;

static void init_condition(void) {
  pthread_condattr_t attr;
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&changed, &attr);
  (void)pthread_condattr_destroy(&attr);
}

void local_lock(void) {
  (void)pthread_once(&once, init_condition);
  (void)pthread_mutex_lock(&lock);
}

void local_unlock(void) {
  (void)pthread_mutex_unlock(&lock);
}

local_session *local_sessions(void) {
  return sessions;
}

/* Waits for a change until `deadline`. Returns 0 after it. Requires the lock.
 */
static int wait_until(int64_t deadline) {
  const struct timespec t = {(time_t)(deadline / 1000000000),
                             (long)(deadline % 1000000000)};
  return pthread_cond_timedwait(&changed, &lock, &t) == 0;
}

/* ---------------------------------------------------------------- sessions */

static void free_session(local_session *s) {
  while (s->letters) {
    local_letter *letter = s->letters;
    s->letters = letter->next;
    free(letter);
  }
  free(s->members);
  free(s->n_calls);
  free(s->text);
  free(s);
}

static local_session *create_session(const char *text, int32_t size) {
  local_session *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->size = size;
  s->members = calloc((size_t)size, sizeof *s->members);
  s->n_calls = calloc((size_t)size, sizeof *s->n_calls);
  s->text = text ? strdup(text) : NULL;
  if (s->members && s->n_calls && (s->text || !text)) {
    s->next = sessions;
    sessions = s;
    return s;
  }
  free_session(s);
  return NULL;
}

void local_release(local_session *session) {
  if (--session->n_refs > 0) return;
  local_session **at = &sessions;
  while (*at != session) at = &(*at)->next;
  *at = session->next;
  free_session(session);
}

/* The session of a text, which is NULL for a session of one member. */
static local_session *find_session(const char *text) {
  local_session *s = sessions;
  while (s && (!text || !s->text || strcmp(s->text, text) != 0)) s = s->next;
  return s;
}

comm_task *local_break(local_session *session, comm_group *group,
                       const comm_task *task, int32_t code,
                       const char *reason) {
  char first[COMM_TEXT + 256], text[COMM_TEXT];
  if (session->broken == TN_OK) {
    (void)comm_mark_broken(group, task, code, reason);
    (void)comm_state(group, first);
    const char *at = strstr(first, ": ");
    (void)snprintf(text, sizeof text, "rank %d: %.470s", (int)group->info.rank,
                   at ? at + 2 : reason);
    session->broken = code;
    (void)snprintf(session->reason, sizeof session->reason, "%s", text);
    for (int32_t r = 0; r < session->size; ++r)
      if (session->members[r])
        (void)comm_mark_broken(session->members[r], NULL, code, text);
    (void)pthread_cond_broadcast(&changed);
  }
  return local_take_pending(session);
}

/* ----------------------------------------------------------------- joining */

/* Lists the ranks that have not joined: "1, 3". */
static void list_missing(const local_session *s, char *to, size_t bytes) {
  size_t n = 0;
  to[0] = 0;
  for (int32_t r = 0; r < s->size && n < bytes; ++r)
    if (!s->members[r])
      n += (size_t)snprintf(to + n, bytes - n, "%s%d", n ? ", " : "", (int)r);
}

/* Checks that a member fits into a session. */
static int32_t check_member(const local_session *s, const tn_comm_join *how,
                            int32_t size, tn_comm_reason *why) {
  if (s->size != size)
    return comm_fail(why, TN_INVALID,
                     "session `%s` has %d members, but this one passes "
                     "size=%d",
                     s->text, (int)s->size, (int)size);
  if (s->broken != TN_OK || s->complete)
    return comm_fail(why, TN_EXISTS,
                     "session `%s` is complete; members can join again when "
                     "all have left it",
                     s->text);
  if (s->members[how->rank])
    return comm_fail(why, TN_EXISTS,
                     "rank %d of session `%s` has joined already",
                     (int)how->rank, s->text);
  return TN_OK;
}

/* Waits until all members have joined. Requires the lock. */
static int32_t wait_for_members(local_session *s, comm_group *group,
                                int64_t deadline, tn_comm_reason *why) {
  char missing[128];
  while (!s->complete && s->broken == TN_OK && wait_until(deadline)) {
  }
  if (s->complete) return TN_OK;
  list_missing(s, missing, sizeof missing);
  const int32_t code = comm_fail(
      why, TN_BUSY,
      "group `%s`: after %lld ms, rank %s has not joined session `%s` of %d "
      "members",
      group->name, (long long)(group->timeout / 1000000), missing, s->text,
      (int)s->size);
  s->members[group->info.rank] = NULL;
  --s->n_members;
  local_release(s);
  return code;
}

/* Adds a member, and waits for all others. */
static int32_t enter_session(comm_group *group, const tn_comm_join *how,
                             const char *text, int32_t size,
                             tn_comm_reason *why) {
  const int64_t deadline = comm_now() + group->timeout;
  int32_t code = TN_OK;
  local_lock();
  local_session *s = find_session(text);
  if (s)
    code = check_member(s, how, size, why);
  else if (!(s = create_session(text, size)))
    code = comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  if (code == TN_OK) {
    group->info.rank = how->rank;
    group->info.size = size;
    s->members[how->rank] = group;
    ++s->n_refs;
    s->complete = ++s->n_members == size;
    if (s->complete) (void)pthread_cond_broadcast(&changed);
    group->state = s;
    code = wait_for_members(s, group, deadline, why);
  }
  local_unlock();
  return code;
}

static int32_t join_session(comm_group *group, const tn_comm_join *how,
                            tn_comm_reason *why) {
  const int32_t size = how->size == 0 ? 1 : how->size;
  if (size < 1 || size > LOCAL_RANKS)
    return comm_fail(why, TN_OUT_OF_RANGE,
                     "size=%d: a session has 1 to %d members", (int)size,
                     LOCAL_RANKS);
  if (how->rank < 0 || how->rank >= size)
    return comm_fail(why, TN_OUT_OF_RANGE,
                     "rank=%d: the ranks of %d members are 0 to %d",
                     (int)how->rank, (int)size, (int)size - 1);
  if (size == 1) return enter_session(group, how, NULL, 1, why);
  int32_t code = local_clock_open();
  if (code != TN_OK)
    return comm_fail(why, code,
                     "cannot start the thread that watches "
                     "deadlines");
  code = enter_session(group, how, how->session ? how->session : how->name,
                       size, why);
  if (code != TN_OK) local_clock_close();
  return code;
}

static void break_session(comm_group *group) {
  local_session *s = group->state;
  char text[COMM_TEXT];
  (void)pthread_mutex_lock(&group->lock);
  (void)snprintf(text, sizeof text, "%s", group->reason);
  const int32_t code = group->broken;
  (void)pthread_mutex_unlock(&group->lock);
  local_lock();
  comm_task *pending = local_break(s, group, NULL, code, text);
  local_unlock();
  comm_tasks_fail(pending);
}

static void leave_session(comm_group *group) {
  local_session *s = group->state;
  local_lock();
  const int32_t size = s->size;
  comm_task *pending =
      s->broken == TN_OK && s->n_members > 1
          ? local_break(s, group, NULL, TN_BUSY, "the rank left the group")
          : NULL;
  s->members[group->info.rank] = NULL;
  --s->n_members;
  local_release(s);
  local_unlock();
  group->state = NULL;
  comm_tasks_fail(pending);
  if (size > 1) local_clock_close();
}

/* ------------------------------------------------------------------ rounds */

static void release_round(local_round *round) {
  if (--round->n_refs == 0) free(round);
}

/* Adds a record to the round of the session. Requires the lock. */
static local_round *enter_round(local_session *s, int32_t rank,
                                const void *record, size_t bytes) {
  if (!s->round)
    s->round =
        calloc(1, sizeof *s->round + (size_t)s->size * (size_t)LOCAL_RECORD);
  local_round *round = s->round;
  if (!round) return NULL;
  memcpy(round->records + (size_t)rank * LOCAL_RECORD, record, bytes);
  ++round->n_refs;
  if (++round->n_arrived == s->size) {
    round->complete = 1;
    s->round = NULL;
    (void)pthread_cond_broadcast(&changed);
  }
  return round;
}

/* Shows a record to all members, and copies theirs to `all`, of size times
 * LOCAL_RECORD bytes. */
static int32_t exchange_records(comm_group *group, const void *record,
                                size_t bytes, char *all, tn_comm_reason *why) {
  local_session *s = group->state;
  const int64_t deadline = comm_now() + group->timeout;
  int32_t code = TN_OK;
  local_lock();
  local_round *round = enter_round(s, group->info.rank, record, bytes);
  if (!round) {
    local_unlock();
    return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  }
  while (!round->complete && s->broken == TN_OK && wait_until(deadline)) {
  }
  if (round->complete)
    memcpy(all, round->records, (size_t)s->size * (size_t)LOCAL_RECORD);
  else if (s->broken != TN_OK)
    code = comm_fail(why, s->broken, "group `%s` is broken: %s", group->name,
                     s->reason);
  else
    code = comm_fail(why, TN_BUSY,
                     "group `%s`: after %lld ms, %d of %d members have "
                     "called this function",
                     group->name, (long long)(group->timeout / 1000000),
                     (int)round->n_arrived, (int)s->size);
  if (!round->complete) {
    --round->n_arrived;
    if (round->n_refs == 1) s->round = NULL;
  }
  release_round(round);
  local_unlock();
  return code;
}

/* The choice of one member in a split. */
typedef struct choice {
  int32_t colour;
  int32_t key;
  char name[TN_COMM_NAME];
} choice;

static const choice *choice_of(const char *records, int32_t rank) {
  return (const choice *)(const void *)(records + (size_t)rank * LOCAL_RECORD);
}

/* The rank and size of a member in the new group of its colour. */
static void find_place(const char *records, int32_t n, int32_t rank,
                       tn_comm_join *how) {
  const choice *mine = choice_of(records, rank);
  for (int32_t r = 0; r < n; ++r) {
    const choice *other = choice_of(records, r);
    if (other->colour != mine->colour) continue;
    ++how->size;
    if (other->key < mine->key || (other->key == mine->key && r < rank))
      ++how->rank;
  }
}

static int32_t split_session(comm_group *from, comm_group *made, int32_t colour,
                             int32_t key, tn_comm_reason *why) {
  const local_session *s = from->state;
  const int32_t n = from->info.size, rank = from->info.rank;
  char text[256];
  char *all = malloc((size_t)n * (size_t)LOCAL_RECORD);
  choice mine = {.colour = colour, .key = key};
  if (!all) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  (void)snprintf(mine.name, sizeof mine.name, "%s", made->name);
  int32_t code = exchange_records(from, &mine, sizeof mine, all, why);
  if (code == TN_OK && colour >= 0) {
    tn_comm_join how = {.struct_size = sizeof how};
    find_place(all, n, rank, &how);
    /* Texts of hosts have no line end. */
    (void)snprintf(text, sizeof text, "%p\n%s\n%d", (const void *)s, made->name,
                   (int)colour);
    how.session = text;
    how.name = made->name;
    code = join_session(made, &how, why);
  }
  free(all);
  return code;
}

static int32_t share_key(comm_group *group, int32_t number, void *data,
                         uint64_t bytes, tn_comm_reason *why) {
  (void)number;
  char *all = malloc((size_t)group->info.size * (size_t)LOCAL_RECORD);
  if (!all) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  const int32_t code = exchange_records(group, data, bytes, all, why);
  if (code == TN_OK) memcpy(data, all, bytes);
  free(all);
  return code;
}

const comm_backend comm_local = {.name = "local",
                                 .join = join_session,
                                 .split = split_session,
                                 .start = local_start,
                                 .broken = break_session,
                                 .leave = leave_session,
                                 .share = share_key};
