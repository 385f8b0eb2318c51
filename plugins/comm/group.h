/* SPDX-License-Identifier: Apache-2.0
 * group.h: the groups of a runtime, their calls, and the backends that make
 * these calls. Used inside of plugins/comm alone.
 */
#ifndef TENON_PLUGINS_COMM_GROUP_H_
#define TENON_PLUGINS_COMM_GROUP_H_

#include <pthread.h>

#include "tenon/plugin/comm.h"

#if !defined(TN_CALL_SKIPPED) && defined(TN_CALL_TOLD)
#define TN_CALL_SKIPPED TN_CALL_TOLD
#endif

typedef struct comm_instance comm_instance;
typedef struct comm_group comm_group;
typedef struct comm_task comm_task;

enum {
  COMM_TEXT = 512,         /* bytes of a reason */
  COMM_CALL_TEXT = 256,    /* of the description of a call on a device */
  COMM_TIMEOUT_MS = 300000 /* of a call, if the host passes 0 */
};

/* Operators; check.c has their names. */
typedef enum comm_kind {
  COMM_ALL_REDUCE,
  COMM_REDUCE_SCATTER,
  COMM_REDUCE,
  COMM_ALL_GATHER,
  COMM_BROADCAST,
  COMM_ALL_TO_ALL,
  COMM_BARRIER,
  COMM_SEND,
  COMM_RECV
} comm_kind;

/* Values of the parameter `op`, in the order of the manifest. */
typedef enum comm_op {
  COMM_SUM,
  COMM_MAX,
  COMM_MIN,
  COMM_MEAN,
  COMM_PROD
} comm_op;

/* ------------------------------------------------------------------- tasks */

/* One array of a call. */
typedef struct comm_piece {
  const void *in;
  void *out; /* NULL: not requested */
  int64_t n_in;
  int64_t n_out;
} comm_piece;

/* A call of an operator, from its begin until its completion. */
struct comm_task {
  comm_task *next; /* in a list of the backend */
  comm_group *group;
  const tn_frame *call;
  tn_later *later;
  comm_kind kind;
  comm_op op;       /* of all_gather and broadcast: see divides */
  tn_dtype dtype;   /* 0: barrier */
  int32_t peer;     /* root, or the other rank of a message; -1: none */
  int32_t tag;      /* of a message */
  int32_t service;  /* it waits without a limit */
  uint32_t n;       /* pieces */
  int64_t pack;     /* bytes */
  int64_t position; /* in the group, from 0; messages have none: -1 */
  int64_t deadline; /* comm_now() */
  comm_piece *pieces;
  comm_piece small[1]; /* memory of `pieces` if there is one */
};

/* Nanoseconds of a clock that never jumps. [any] */
int64_t comm_now(void);

/* Ends a call and frees the task. Takes no lock. `text` NULL: no failure.
 * [any] */
void comm_task_end(comm_task *task, int32_t code, const char *text);

/* Ends each call of a list with the reason for which its group is broken.
 * [any] */
void comm_tasks_fail(comm_task *list);

/* ---------------------------------------------------------------- backends */

/* Communication between the members of a group. */
typedef struct comm_backend {
  const char *name;

  /* Joins; sets group->state, and rank and size if it decides them. [any] */
  int32_t (*join)(comm_group *group, const tn_comm_join *how,
                  tn_comm_reason *why);

  /* Divides a group; `made` has a name already. Its size is 0 afterwards if
   * this member joins none. [any] */
  int32_t (*split)(comm_group *from, comm_group *made, int32_t colour,
                   int32_t key, tn_comm_reason *why);

  /* Begins a call, and takes the task. [any] */
  void (*start)(comm_task *task);

  /* Reports that the group is broken on this member, and ends its pending
   * calls. [any] */
  void (*broken)(comm_group *group);

  /* Leaves: like `broken`, and frees group->state. [any] */
  void (*leave)(comm_group *group);

  /* Copies `bytes` bytes of rank 0 to all ranks, for the key of a device. All
   * ranks call it with the same `number`. [any] */
  int32_t (*share)(comm_group *group, int32_t number, void *data,
                   uint64_t bytes, tn_comm_reason *why);
} comm_backend;

extern const comm_backend comm_local;
extern const comm_backend comm_mpi;

/* The release of MPI and how it was found, or the reason that it cannot start.
 * [any] */
void comm_mpi_describe(char *to, uint64_t bytes);

/* The rank and number of processes that mpirun started, by its environment.
 * False: this process was started alone. [any] */
int comm_launched(int32_t *rank, int32_t *size);

/* ------------------------------------------------------------------ groups */

/* A device that a group has opened. */
typedef struct comm_opened {
  struct comm_opened *next;
  const tn_comm_device *device;
  int32_t device_id;
  void *handle;
} comm_opened;

struct comm_group {
  comm_group *next;
  comm_instance *instance;
  const comm_backend *backend;
  void *state; /* of the backend */
  tn_comm_group info;
  char name[TN_COMM_NAME];
  uint32_t check;
  int64_t timeout;  /* nanoseconds */
  int implicit;     /* made for operators of a runtime that joined none */
  int left;         /* under the lock of the instance */
  int32_t n_shared; /* by `share` */

  pthread_mutex_t lock; /* of the following; no other is locked inside */
  pthread_cond_t idle;  /* n_starting is 0 */
  int32_t n_starting;   /* threads in backend->start */
  int32_t broken;       /* the code; TN_OK: not broken */
  char reason[COMM_TEXT];
  comm_opened *opened;
};

/* The plugin in one runtime. */
struct comm_instance {
  const tn_host *host;
  pthread_mutex_t lock; /* of the list; locks of backends are inside of it */
  pthread_cond_t changed;
  comm_group *groups;
  uint32_t n_groups;
  int joining; /* a thread joins or divides a group */
  uint32_t n_devices;
  const tn_comm_device *devices[4];
  tn_comm table;
};

/* Writes a reason and returns `code`. `why` may be NULL. [any] */
int32_t comm_fail(tn_comm_reason *why, int32_t code, const char *format, ...)
    TN_PRINTF(3, 4);

/* The group of a name, for an operator; TN_NOT_FOUND with a reason. Without
 * "world", it is made with one rank. [any] */
int32_t comm_use_group(comm_instance *self, const char *name, comm_group **out,
                       tn_comm_reason *why);

/* Marks the group as broken, and ends its calls on devices. `task` is the call
 * that failed, or NULL. False: it was broken before. [any] */
int comm_mark_broken(comm_group *group, const comm_task *task, int32_t code,
                     const char *reason);

/* The same, and lets the backend end the pending calls. [any] */
void comm_break(comm_group *group, const comm_task *task, int32_t code,
                const char *reason);

/* The code with which calls of the group fail, and the text; TN_OK: none.
 * [any] */
int32_t comm_state(comm_group *group, char text[COMM_TEXT + 256]);

/* Waits until no call is being started. The group must be broken, so that no
 * other follows. [any] */
void comm_wait_idle(comm_group *group);

/* Begins a call of the group. Returns the result of `compute`. [worker] */
int32_t comm_submit(const tn_frame *call, const char *group,
                    const comm_task *model);

/* The table of TN_COMM_EXTENSION. */
void comm_fill_table(comm_instance *self);

#endif /* TENON_PLUGINS_COMM_GROUP_H_ */
