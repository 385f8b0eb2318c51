/* SPDX-License-Identifier: Apache-2.0
 * local.h: sessions, in which runtimes of one process meet. Used inside of the
 * backend `local` alone.
 */
#ifndef TENON_PLUGINS_COMM_LOCAL_H_
#define TENON_PLUGINS_COMM_LOCAL_H_

#include "group.h"

enum {
  LOCAL_RANKS = 256, /* most members of a session */
  LOCAL_RECORD = 320 /* bytes that a member may show to all others */
};

/* The calls of all ranks at one position. */
typedef struct local_meeting {
  struct local_meeting *next;
  int32_t n_tasks;
  comm_task *tasks[]; /* by rank; NULL: the rank has not called */
} local_meeting;

/* Members show a record to all others. */
typedef struct local_round {
  int32_t n_arrived;
  int32_t n_refs;
  int complete;
  char records[]; /* of LOCAL_RECORD bytes, by rank */
} local_round;

/* A message that nobody has received. */
typedef struct local_letter {
  struct local_letter *next;
  int32_t from;
  int32_t to;
  int32_t tag;
  tn_dtype dtype;
  int64_t n; /* elements */
  char data[];
} local_letter;

/* All fields are protected by the lock of local_lock(). */
typedef struct local_session {
  struct local_session *next;
  int32_t size;
  int32_t n_members;
  int32_t n_refs;       /* members, and a thread that computes */
  int complete;         /* all members have joined */
  int running;          /* a thread computes meetings */
  comm_group **members; /* by rank; NULL: not joined, or left */
  int64_t *n_calls;     /* by rank */
  int64_t first_position;
  local_meeting *first, *last;
  local_letter *letters; /* in the order of the calls */
  comm_task *receives;   /* that wait, in the order of the calls */
  local_round *round;    /* that is not complete */
  int32_t broken;        /* code; TN_OK: not broken */
  char reason[COMM_TEXT];
  char *text; /* where members meet */
} local_session;

/* One lock for all sessions. Nothing that takes long, and no function of the
 * host, is called inside of it. [any] */
void local_lock(void);
void local_unlock(void);

/* The sessions. Requires the lock. */
local_session *local_sessions(void);

/* Frees the session if nothing refers to it. Requires the lock. */
void local_release(local_session *session);

/* Marks the session as broken, for all members, and returns its pending calls,
 * for comm_tasks_fail without the lock. `group` and `task`: the member and the
 * call that failed; `task` may be NULL. Requires the lock. */
comm_task *local_break(local_session *session, comm_group *group,
                       const comm_task *task, int32_t code, const char *reason);

/* Takes the pending calls of a session. Requires the lock. */
comm_task *local_take_pending(local_session *session);

/* Begins a call. [any] */
void local_start(comm_task *task);

/* Computes a meeting whose tasks are all there. `worker` is a call that runs on
 * this thread, for parallel loops, or NULL. [any] */
void local_compute(comm_task *const *tasks, int32_t n, const tn_frame *worker);

/* Ends calls after their deadlines, and those of runtimes that are shut down.
 * `pending`: whether calls remain. Returns the calls that ended, and the
 * earliest deadline. Requires the lock. */
comm_task *local_expire(int64_t now, int64_t *next);

/* The thread that watches deadlines runs between these, which count. Not with
 * the lock. [any] */
int32_t local_clock_open(void);
void local_clock_close(void);

/* Tells that thread about a deadline. Requires the lock. */
void local_clock_watch(int64_t deadline);

#endif /* TENON_PLUGINS_COMM_LOCAL_H_ */
