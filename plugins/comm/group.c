/* SPDX-License-Identifier: Apache-2.0
 * group.c: calls of groups from their begin to their completion, and groups
 * that are broken.
 */
#include "group.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

/* So late that a call never ends by time, while ends of runtimes are noticed.
 */
#define NO_DEADLINE (INT64_MAX / 2)

int64_t comm_now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int32_t comm_fail(tn_comm_reason *why, int32_t code, const char *format, ...) {
  if (!why) return code;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(why->text, sizeof why->text, format, args);
  va_end(args);
  return code;
}

int comm_launched(int32_t *rank, int32_t *size) {
  static const char *const names[][2] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"PMIX_RANK", "PMIX_SIZE"},
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *r = getenv(names[i][0]), *n = getenv(names[i][1]);
    if (!r) continue;
    *rank = (int32_t)strtol(r, NULL, 10);
    *size = n ? (int32_t)strtol(n, NULL, 10) : 1;
    return 1;
  }
  return 0;
}

/* -------------------------------------------------------------- broken groups
 */

int32_t comm_state(comm_group *group, char text[COMM_TEXT + 256]) {
  (void)pthread_mutex_lock(&group->lock);
  const int32_t code = group->broken;
  if (code != TN_OK)
    (void)snprintf(text, COMM_TEXT + 256,
                   "group `%s` is broken on rank %d of %d: %s", group->name,
                   (int)group->info.rank, (int)group->info.size, group->reason);
  (void)pthread_mutex_unlock(&group->lock);
  return code;
}

static void describe_failure(char to[COMM_TEXT], const comm_task *task,
                             const char *reason) {
  if (task && task->position >= 0)
    (void)snprintf(to, COMM_TEXT, "call %lld, %s: %s",
                   (long long)task->position, comm_kind_name(task->kind),
                   reason);
  else if (task)
    (void)snprintf(to, COMM_TEXT, "%s: %s", comm_kind_name(task->kind), reason);
  else
    (void)snprintf(to, COMM_TEXT, "%s", reason);
}

int comm_mark_broken(comm_group *group, const comm_task *task, int32_t code,
                     const char *reason) {
  (void)pthread_mutex_lock(&group->lock);
  const int first = group->broken == TN_OK;
  if (first) {
    group->broken = code;
    describe_failure(group->reason, task, reason);
    for (const comm_opened *o = group->opened; o; o = o->next)
      o->device->abort(o->device->ctx, o->handle);
  }
  (void)pthread_mutex_unlock(&group->lock);
  return first;
}

void comm_break(comm_group *group, const comm_task *task, int32_t code,
                const char *reason) {
  if (comm_mark_broken(group, task, code, reason))
    group->backend->broken(group);
}

/* --------------------------------------------------------------------- tasks
 */

static comm_task *create_task(comm_group *group, const tn_frame *call,
                              const comm_task *model) {
  const uint32_t n = model->n > 1 ? model->n - 1 : 0;
  comm_task *task = malloc(sizeof *task + n * sizeof *task->pieces);
  if (!task) return NULL;
  *task = *model;
  task->group = group;
  task->call = call;
  task->next = NULL;
  task->position = -1;
  task->pieces = task->small;
  task->deadline = task->service ? NO_DEADLINE : comm_now() + group->timeout;
  for (uint32_t k = 0; k < model->n; ++k) {
    const tn_tensor *in = k < call->n_in ? &call->in[k] : NULL;
    const tn_tensor *out = k < call->n_out ? &call->out[k] : NULL;
    const int has_out = out && call->req[k] != TN_REQ_NULL;
    task->pieces[k] =
        (comm_piece){.in = in ? in->data : NULL,
                     .out = has_out ? out->data : NULL,
                     .n_in = in && in->ndim >= 0 ? tn_tensor_size(in) : 0,
                     .n_out = out ? tn_tensor_size(out) : 0};
  }
  return task;
}

void comm_task_end(comm_task *task, int32_t code, const char *text) {
  const tn_host *host = task->call->host;
  tn_later *later = task->later;
  free(task);
  host->complete(later, code, text);
}

void comm_tasks_fail(comm_task *list) {
  char text[COMM_TEXT + 256];
  while (list) {
    comm_task *task = list;
    list = task->next;
    const int32_t code = comm_state(task->group, text);
    comm_task_end(task, code, text);
  }
}

/* Keeps the group from being left, unless it is broken. */
static int32_t begin_start(comm_group *group, char text[COMM_TEXT + 256]) {
  (void)pthread_mutex_lock(&group->lock);
  const int is_broken = group->broken != TN_OK;
  if (!is_broken) ++group->n_starting;
  (void)pthread_mutex_unlock(&group->lock);
  return is_broken ? comm_state(group, text) : TN_OK;
}

static void end_start(comm_group *group) {
  (void)pthread_mutex_lock(&group->lock);
  if (--group->n_starting == 0) (void)pthread_cond_broadcast(&group->idle);
  (void)pthread_mutex_unlock(&group->lock);
}

void comm_wait_idle(comm_group *group) {
  (void)pthread_mutex_lock(&group->lock);
  while (group->n_starting > 0)
    (void)pthread_cond_wait(&group->idle, &group->lock);
  (void)pthread_mutex_unlock(&group->lock);
}

int32_t comm_submit(const tn_frame *call, const char *name,
                    const comm_task *model) {
  comm_group *group = NULL;
  tn_comm_reason why;
  char text[COMM_TEXT + 256];
  int32_t code = comm_use_group(call->instance, name, &group, &why);
  if (code != TN_OK) return TN_FAIL(call, code, "%s", why.text);
  if (call->flags & TN_CALL_SKIPPED) {
    comm_task skipped = *model;
    skipped.position = -1;
    comm_break(group, &skipped, TN_INVALID, "an input carries an error");
    return TN_OK;
  }
  if (model->peer >= group->info.size)
    return TN_FAIL(call, TN_OUT_OF_RANGE,
                   "rank %d is not in group `%s`, which has %d ranks",
                   (int)model->peer, name, (int)group->info.size);
  comm_task *task = create_task(group, call, model);
  if (!task) return TN_FAIL(call, TN_OUT_OF_MEMORY, "no memory for a call");
  code = begin_start(group, text);
  if (code == TN_OK && !(task->later = call->host->defer(call))) {
    free(task);
    end_start(group);
    return TN_UNSUPPORTED; /* the host has the reason */
  }
  if (code != TN_OK) {
    free(task);
    return TN_FAIL(call, code, "%s", text);
  }
  group->backend->start(task);
  end_start(group);
  return TN_LATER;
}
