/* SPDX-License-Identifier: Apache-2.0
 * mpi_groups.c: the calls of groups on the thread of MPI, in their order, and
 * groups that are broken.
 *
 * MPI cannot end a collective call that has begun. So the calls of a broken
 * group end in three steps. The rank tells all others that it takes part in no
 * further call; their threads are awake, also if their program computes. Then
 * it waits for a short time, in which messages arrive that were on their way.
 * Then it completes the calls with an error, and MPI writes no more to their
 * arrays, because one rank has not begun the call and never will.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_thread.h"

enum {
  GRACE_NS = 100000000,    /* for messages on their way */
  MESSAGE_NS = 1000000000, /* for those of a rank that has left */
  EARLY = 64               /* notices before the end of a join */
};

static mpi_group *groups;

static mpi_group *state_of(const comm_task *task) {
  return task->group->state;
}

static int is_message(const comm_task *task) {
  return task->kind == COMM_SEND || task->kind == COMM_RECV;
}

/* ------------------------------------------------------------------ notices */

static void end_sent_notice(void *owner, int32_t index, const mpi_done *done) {
  (void)index;
  (void)done;
  free(owner);
}

/* The first position at which this rank has not completed a call. */
static int64_t first_pending(const mpi_group *g) {
  int64_t first = g->n_calls;
  for (const mpi_op *op = g->active; op; op = op->next)
    if (op->task->position >= 0 && op->task->position < first)
      first = op->task->position;
  for (const comm_task *t = g->first; t; t = t->next)
    if (t->position >= 0 && t->position < first) first = t->position;
  return first;
}

/* Tells all other ranks that this one takes part in no further call. */
static void tell_others(mpi_group *g) {
  const comm_group *group = g->group;
  char text[COMM_TEXT + 256];
  mpi_notice notice = {
      .id = g->id, .position = first_pending(g), .rank = group->info.rank};
  if (g->told) return;
  g->told = 1;
  notice.code = comm_state(g->group, text);
  const char *reason = strstr(text, ": ");
  (void)snprintf(notice.reason, sizeof notice.reason, "rank %d: %.470s",
                 (int)notice.rank, reason ? reason + 2 : text);
  for (int32_t r = 0; r < group->info.size; ++r) {
    mpi_notice *copy = r == group->info.rank ? NULL : malloc(sizeof *copy);
    int32_t request;
    if (!copy) continue;
    *copy = notice;
    const mpi_elements e = {.in = copy,
                            .count = (int32_t)sizeof *copy,
                            .type = MPI_TYPE_U8,
                            .root = g->world_ranks[r]};
    if (mpi_calls()->send(mpi_control(), &e, MPI_TAG_NOTICE, &request))
      free(copy);
    else
      mpi_own_request(request, end_sent_notice, copy, 0);
  }
}

/* ------------------------------------------------------------ broken groups */

/* Ends the waiting calls of a broken group now, and the others soon. */
static void end_calls(mpi_group *g) {
  comm_task *waiting = g->first;
  const int64_t now = comm_now();
  g->first = g->last = NULL;
  comm_tasks_fail(waiting);
  for (mpi_op *op = g->active; op; op = op->next)
    if (!op->fail_at) op->fail_at = now + GRACE_NS;
}

/* Breaks a group on the thread of MPI. */
static void break_group(mpi_group *g, const comm_task *task, int32_t code,
                        const char *reason) {
  (void)comm_mark_broken(g->group, task, code, reason);
  tell_others(g);
  end_calls(g);
}

/* Breaks the group if a call is at or after the limit that another rank set. */
static int obey_limit(mpi_group *g, const comm_task *task) {
  if (task->position < g->limit) return 0;
  g->told = 1; /* the rank that set the limit has told all */
  break_group(g, NULL, g->limit_code, g->limit_reason);
  return 1;
}

/* Notices of groups that this rank has not finished to join, or has left. The
 * oldest one is overwritten. */
static mpi_notice early[EARLY];
static uint32_t n_early;

static void keep_notice(const mpi_notice *notice) {
  early[n_early++ % EARLY] = *notice;
}

void mpi_take_notice(const mpi_notice *notice) {
  mpi_group *g = groups;
  while (g && g->id != notice->id) g = g->next;
  if (!g) {
    keep_notice(notice);
    return;
  }
  if (notice->position < g->limit) {
    g->limit = notice->position;
    g->limit_code = notice->code;
    memcpy(g->limit_reason, notice->reason, sizeof g->limit_reason);
  }
  const int64_t soon = comm_now() + MESSAGE_NS;
  for (mpi_op *op = g->active; op; op = op->next)
    if (is_message(op->task) && op->task->peer == notice->rank &&
        op->task->deadline > soon)
      op->task->deadline = soon;
  for (const mpi_op *op = g->active; op; op = op->next)
    if (obey_limit(g, op->task)) return;
  for (const comm_task *t = g->first; t; t = t->next)
    if (obey_limit(g, t)) return;
}

/* Removes an operation from the active ones of its group. */
static void remove_op(mpi_op *op) {
  mpi_group *g = op->group;
  mpi_op **at = &g->active;
  while (*at != op) at = &(*at)->next;
  *at = op->next;
  --g->n_active;
  op->group = NULL;
}

/* Ends a call of a broken group on which MPI works, and keeps the operation
 * until MPI has ended it. */
static void abandon_op(mpi_op *op) {
  comm_task *task = op->task;
  remove_op(op);
  mpi_note_abandoned();
  op->task = NULL;
  task->next = NULL;
  comm_tasks_fail(task);
}

/* -------------------------------------------------------------------- calls */

static void begin_waiting(mpi_group *g);
static void finish_leaving(mpi_group *g);

/* Completes a call whose requests have all ended. */
static void complete_op(mpi_op *op) {
  mpi_group *g = op->group;
  comm_task *task = op->task;
  remove_op(op);
  mpi_free_op(op);
  comm_task_end(task, TN_OK, NULL);
  begin_waiting(g);
}

static void fail_op(mpi_op *op, int32_t code, const char *why) {
  mpi_group *g = op->group;
  break_group(g, op->task, code, why);
  abandon_op(op);
}

static void end_request(void *owner, int32_t index, const mpi_done *done) {
  mpi_op *op = owner;
  char why[COMM_TEXT];
  --op->n_pending;
  if (op->task) {
    const int32_t code = mpi_finish_message(op, index, done, why);
    if (code != TN_OK) fail_op(op, code, why);
  }
  if (op->n_pending > 0) return;
  if (op->task)
    complete_op(op);
  else
    mpi_free_op(op);
}

/* Completes a send, whose message MPI has a copy of. */
static void end_send(mpi_op *op) {
  comm_task *task = op->task;
  remove_op(op);
  op->task = NULL;
  comm_task_end(task, TN_OK, NULL);
}

static void begin_op(mpi_op *op) {
  char why[COMM_TEXT];
  const int32_t code = mpi_begin_op(op, end_request, why);
  if (code == TN_OK) {
    if (op->task->kind == COMM_SEND) end_send(op);
    return;
  }
  fail_op(op, code, why);
  if (op->n_pending == 0) mpi_free_op(op);
}

/* ------------------------------------------------------- compared calls */

static void end_comparison(void *owner, int32_t index, const mpi_done *done) {
  mpi_op *op = owner;
  mpi_group *g = op->group;
  char why[COMM_TEXT];
  (void)index;
  --op->n_pending;
  if (!op->task) {
    mpi_free_op(op);
    return;
  }
  int32_t code = done->error
                     ? mpi_describe(done->error, "comparison of calls", why)
                     : comm_compare(op->headers, g->group->info.size, why);
  free(op->headers);
  op->headers = NULL;
  if (code != TN_OK) {
    g->told = 1; /* all ranks find the difference */
    fail_op(op, code, why);
    mpi_free_op(op);
    return;
  }
  begin_op(op);
  begin_waiting(g);
}

/* Shows the call to all ranks before it begins. */
static void begin_comparison(mpi_op *op) {
  mpi_group *g = op->group;
  const size_t size = (size_t)g->group->info.size;
  const int32_t rank = g->group->info.rank;
  int32_t request;
  op->headers = calloc(size, sizeof *op->headers);
  if (!op->headers) {
    fail_op(op, TN_OUT_OF_MEMORY, "no memory");
    mpi_free_op(op);
    return;
  }
  comm_header_init(&op->headers[rank], op->task);
  const mpi_elements e = {.out = op->headers,
                          .count = (int32_t)sizeof *op->headers,
                          .type = MPI_TYPE_U8};
  const int error = mpi_calls()->all_gather(g->comm, &e, &request);
  if (error) {
    char why[COMM_TEXT];
    fail_op(op, mpi_describe(error, "comparison of calls", why), why);
    mpi_free_op(op);
    return;
  }
  ++op->n_pending;
  mpi_own_request(request, end_comparison, op, 0);
}

/* ------------------------------------------------------------------- begin */

static int is_comparing(const mpi_group *g) {
  for (const mpi_op *op = g->active; op; op = op->next)
    if (op->headers) return 1;
  return 0;
}

/* Whether a call is active that takes part in the order. */
static int has_ordered(const mpi_group *g) {
  for (const mpi_op *op = g->active; op; op = op->next)
    if (!op->task->service) return 1;
  return 0;
}

/* Whether the first waiting call may begin: after a comparison, in order; a
 * barrier after all calls. */
static int may_begin(const mpi_group *g) {
  const comm_task *task = g->first;
  if (g->group->check && is_comparing(g)) return 0;
  return task->kind != COMM_BARRIER || !has_ordered(g);
}

static void begin_task(mpi_group *g, comm_task *task) {
  mpi_op *op = mpi_create_op(g, task);
  if (!op) {
    break_group(g, task, TN_OUT_OF_MEMORY, "no memory for a call");
    comm_tasks_fail(task);
    return;
  }
  op->next = g->active;
  g->active = op;
  ++g->n_active;
  if (g->group->check && !is_message(task))
    begin_comparison(op);
  else
    begin_op(op);
}

/* Begins waiting calls in their order. */
static void begin_waiting(mpi_group *g) {
  while (g->first && may_begin(g)) {
    comm_task *task = g->first;
    g->first = task->next;
    if (!g->first) g->last = NULL;
    task->next = NULL;
    begin_task(g, task);
  }
}

void mpi_start_task(comm_task *task) {
  mpi_group *g = state_of(task);
  char text[COMM_TEXT + 256];
  if (!is_message(task)) task->position = g->n_calls++;
  if (comm_state(g->group, text) != TN_OK || obey_limit(g, task)) {
    comm_tasks_fail(task);
    return;
  }
  if (task->service) {
    begin_task(g, task);
    return;
  }
  if (g->last)
    g->last->next = task;
  else
    g->first = task;
  g->last = task;
  begin_waiting(g);
}

/* ---------------------------------------------------------------- deadlines */

/* Breaks the group if a call has ended by time or by its host. */
static int is_late(mpi_group *g, const comm_task *task, int64_t now) {
  char why[COMM_TEXT];
  if (task->call->host->cancelled(task->later)) {
    break_group(g, task, TN_BUSY, "the runtime was shut down");
    return 1;
  }
  if (task->deadline > now) return 0;
  (void)snprintf(why, sizeof why, "not all ranks made this call within %lld ms",
                 (long long)(task->group->timeout / 1000000));
  break_group(g, task, TN_BUSY, why);
  return 1;
}

static void watch_group(mpi_group *g, int64_t now) {
  char text[COMM_TEXT + 256];
  if (comm_state(g->group, text) == TN_OK) {
    for (const mpi_op *op = g->active; op; op = op->next)
      if (is_late(g, op->task, now)) break;
    for (const comm_task *t = g->first; t; t = t->next)
      if (is_late(g, t, now)) break;
  }
  for (mpi_op *op = g->active, *following; op; op = following) {
    following = op->next;
    if (op->fail_at && op->fail_at <= now) abandon_op(op);
  }
}

int64_t mpi_watch_deadlines(int64_t now) {
  int64_t n = mpi_watch_joins(now);
  for (mpi_group *g = groups, *following; g; g = following) {
    following = g->next;
    watch_group(g, now);
    for (const comm_task *t = g->first; t; t = t->next) ++n;
    n += g->n_active;
    if (g->leaving) finish_leaving(g);
  }
  return n;
}

/* ------------------------------------------------------------ join and leave
 */

void mpi_add_group(mpi_group *g) {
  g->limit = INT64_MAX;
  g->next = groups;
  groups = g;
  for (uint32_t i = 0; i < EARLY; ++i)
    if (early[i].id == g->id) mpi_take_notice(&early[i]);
}

void mpi_run_break(mpi_command *command) {
  mpi_group *g = command->group->state;
  if (g) {
    tell_others(g);
    end_calls(g);
  }
  mpi_end_command(command, TN_OK);
}

/* Frees a group without calls. Its communicators remain if MPI may still work
 * on them. */
static void finish_leaving(mpi_group *g) {
  mpi_command *command = g->leaving;
  if (g->n_active > 0) return;
  mpi_group **at = &groups;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  command->group->state = NULL;
  free(g->world_ranks);
  free(g);
  mpi_end_command(command, TN_OK);
}

void mpi_run_leave(mpi_command *command) {
  mpi_group *g = command->group->state;
  (void)comm_mark_broken(g->group, NULL, TN_BUSY, "the rank left the group");
  tell_others(g);
  end_calls(g);
  g->leaving = command;
  if (g->n_active == 0) finish_leaving(g);
}

/* -------------------------------------------------- threads of the host */

static void start_task(comm_task *task) {
  mpi_post_task(task);
}

static void break_from_outside(comm_group *group) {
  mpi_command *c = mpi_create_command(mpi_run_break, group, 0);
  if (c) (void)mpi_post_command(c, 0, NULL);
}

static void leave_group(comm_group *group) {
  mpi_command *c = mpi_create_command(mpi_run_leave, group, 0);
  if (c) (void)mpi_post_command(c, 1, NULL);
}

const comm_backend comm_mpi = {.name = "mpi",
                               .join = mpi_join,
                               .split = mpi_split,
                               .start = start_task,
                               .broken = break_from_outside,
                               .leave = leave_group,
                               .share = mpi_share};
