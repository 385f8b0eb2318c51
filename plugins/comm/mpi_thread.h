/* SPDX-License-Identifier: Apache-2.0
 * mpi_thread.h: the thread of the process that makes all calls of MPI, and the
 * groups and calls that it works on. Used inside of the backend `mpi` alone.
 */
#ifndef TENON_PLUGINS_COMM_MPI_THREAD_H_
#define TENON_PLUGINS_COMM_MPI_THREAD_H_

#include "check.h"
#include "group.h"
#include "mpi_calls.h"

/* Finds an MPI and stores its release in `name`; NULL and the reason. [any] */
const comm_mpi_calls *mpi_find_library(char name[128], char *why,
                                       uint64_t bytes);

/* ---------------------------------------------------------------- commands */

/* Work for the thread, in which a thread of the host waits. */
typedef struct mpi_command {
  struct mpi_command *next;
  void (*run)(struct mpi_command *command); /* on the thread of MPI */
  int32_t n_refs;
  int complete;
  int32_t code;
  tn_comm_reason why;
  int64_t deadline;
  comm_group *group;
  int32_t colour;
  int32_t key;
  int32_t number;
  char *data;    /* freed with the command */
  void *copy_to; /* of the waiting thread: gets `bytes` of data */
  uint64_t bytes;
  char name[TN_COMM_NAME];
  /* of the thread of MPI */
  int32_t step;
  int32_t n_pending;
  struct mpi_group *from, *made;
} mpi_command;

/* Starts MPI and its thread, once per process. [any] */
int32_t mpi_start_thread(int64_t deadline, tn_comm_reason *why);

/* Creates a command. NULL without memory. [any] */
mpi_command *mpi_create_command(void (*run)(mpi_command *), comm_group *group,
                                int64_t deadline);

/* Passes a command to the thread. With `wait`, returns its result, or TN_BUSY
 * after its deadline. Frees it. [any] */
int32_t mpi_post_command(mpi_command *command, int wait, tn_comm_reason *why);

/* Passes a call to the thread. [any] */
void mpi_post_task(comm_task *task);

/* ------------------------------------------------- on the thread of MPI only
 */

/* The functions of MPI. */
const comm_mpi_calls *mpi_calls(void);

/* Ends a command: a waiting thread goes on. While requests of it are pending,
 * it exists on, and has to be ended again after the last of them. */
void mpi_end_command(mpi_command *command, int32_t code);

/* The function that is called when a request has ended. */
typedef void mpi_ended(void *owner, int32_t index, const mpi_done *done);
void mpi_own_request(int32_t request, mpi_ended *ended, void *owner,
                     int32_t index);

/* Notes that a request may never end. */
void mpi_note_abandoned(void);

/* The communicator of notices, and this process in it. */
int32_t mpi_control(void);
int32_t mpi_world_rank(void);

/* --------------------------------------------------------------- operations */

/* A part of a call: one request of MPI. */
typedef struct mpi_message {
  uint32_t first; /* piece of the task */
  uint32_t n;     /* pieces */
  int64_t at;     /* first element of the piece */
  int64_t count;  /* elements */
  char *buffer;   /* NULL: the memory of the arrays */
  size_t bytes;   /* of the buffer */
} mpi_message;

/* A call that has begun. */
typedef struct mpi_op {
  struct mpi_op *next;
  struct mpi_group *group; /* NULL: only MPI still works on it */
  comm_task *task;         /* NULL: ended */
  int32_t n_pending;       /* requests */
  int64_t fail_at;         /* after this, the task fails; 0: never */
  comm_header *headers;    /* of all ranks, while they are compared */
  char *results;           /* of halves, as f32; a copy of a sent message */
  uint32_t n_messages;
  mpi_message messages[];
} mpi_op;

/* Creates the operation of a task. NULL without memory. */
mpi_op *mpi_create_op(struct mpi_group *group, comm_task *task);
void mpi_free_op(mpi_op *op);

/* Begins the requests of an operation; `ended` is called for each. TN_OK, or a
 * code and a reason. */
int32_t mpi_begin_op(mpi_op *op, mpi_ended *ended, char why[COMM_TEXT]);

/* Writes the results of message `index`. TN_OK, or a code and a reason. */
int32_t mpi_finish_message(mpi_op *op, int32_t index, const mpi_done *done,
                           char why[COMM_TEXT]);

/* Describes an error of MPI. Returns TN_IO. */
int32_t mpi_describe(int error, const char *during, char why[COMM_TEXT]);

/* ------------------------------------------------------------------- groups */

typedef struct mpi_group {
  struct mpi_group *next;
  comm_group *group;
  int32_t comm;    /* of operators */
  int32_t service; /* of functions of the host */
  uint64_t id;     /* equal on all ranks, and no other group has it */
  int32_t *world_ranks;
  int64_t n_calls;
  comm_task *first, *last; /* not begun */
  mpi_op *active;
  int32_t n_active;
  int told;      /* others know that this rank takes no further part */
  int64_t limit; /* calls from this position on fail */
  int32_t limit_code;
  char limit_reason[COMM_TEXT];
  mpi_command *leaving;
} mpi_group;

/* The backend's functions, which wait. [any] */
int32_t mpi_join(comm_group *group, const tn_comm_join *how,
                 tn_comm_reason *why);
int32_t mpi_split(comm_group *from, comm_group *made, int32_t colour,
                  int32_t key, tn_comm_reason *why);
int32_t mpi_share(comm_group *group, int32_t number, void *data, uint64_t bytes,
                  tn_comm_reason *why);

/* The functions of commands. */
void mpi_run_join(mpi_command *command);
void mpi_run_split(mpi_command *command);
void mpi_run_share(mpi_command *command);
void mpi_run_break(mpi_command *command);
void mpi_run_leave(mpi_command *command);

/* Ends joins after their deadlines. Returns the number of others. */
int64_t mpi_watch_joins(int64_t now);

/* Adds a group that joined. */
void mpi_add_group(mpi_group *g);

/* Begins a call, or keeps it until those before it have begun. */
void mpi_start_task(comm_task *task);

/* Handles a notice of another process. */
typedef struct mpi_notice {
  uint64_t id;
  int64_t position; /* of the first call without that rank */
  int32_t rank;
  int32_t code;
  char reason[COMM_TEXT];
} mpi_notice;
void mpi_take_notice(const mpi_notice *notice);

/* Ends calls after their deadlines. Returns the number of calls that have not
 * ended. */
int64_t mpi_watch_deadlines(int64_t now);

#endif /* TENON_PLUGINS_COMM_MPI_THREAD_H_ */
