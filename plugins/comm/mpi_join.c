/* SPDX-License-Identifier: Apache-2.0
 * mpi_join.c: new groups of processes. Each has a communicator for operators
 * and one for functions of the host, because calls on one communicator must
 * have one order on all ranks. All ranks compare their names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_thread.h"

enum { TAG_SHARE = 32100 }; /* above those of operators; at most 32767 */

/* The steps of a new group. */
enum { STEP_COPY, STEP_SERVICE, STEP_RECORDS };

/* A member as it presents itself to all others. */
typedef struct record {
  uint64_t id; /* a proposal; that of rank 0 counts */
  int32_t world_rank;
  uint32_t check;
  int32_t colour; /* of a split */
  char name[TN_COMM_NAME];
} record;

static uint64_t n_groups; /* that this process has proposed */
static mpi_command *waiting;

static void add_waiting(mpi_command *c) {
  c->next = waiting;
  waiting = c;
}

static void remove_waiting(mpi_command *c) {
  mpi_command **at = &waiting;
  while (*at && *at != c) at = &(*at)->next;
  if (*at) *at = c->next;
}

int64_t mpi_watch_joins(int64_t now) {
  int64_t n = 0;
  for (mpi_command *c = waiting, *following; c; c = following) {
    following = c->next;
    ++n;
    if (c->deadline > now || c->complete) continue;
    (void)comm_fail(&c->why, TN_BUSY,
                    "group `%s`: not all ranks have called this function in "
                    "time",
                    c->name);
    mpi_end_command(c, TN_BUSY);
  }
  return n;
}

/* Ends a command that is or was waiting. */
static void end_waiting(mpi_command *c, int32_t code) {
  remove_waiting(c);
  mpi_end_command(c, code);
}

static void fail_waiting(mpi_command *c, int error) {
  char why[COMM_TEXT];
  const int32_t code = mpi_describe(error, "join", why);
  end_waiting(c, comm_fail(&c->why, code, "group `%s`: %s", c->name, why));
}

/* ------------------------------------------------------------------- steps */

static void end_step(void *owner, int32_t index, const mpi_done *done);

static void begin_records(mpi_command *c) {
  int32_t request, rank = 0, size = 0;
  mpi_group *g = c->made;
  int error = mpi_calls()->size(g->comm, &rank, &size);
  c->data = error ? NULL : calloc((size_t)size, sizeof(record));
  g->world_ranks = error ? NULL : calloc((size_t)size, sizeof *g->world_ranks);
  if (!error && (!c->data || !g->world_ranks)) {
    end_waiting(c, comm_fail(&c->why, TN_OUT_OF_MEMORY, "no memory"));
    return;
  }
  if (!error) {
    record *mine = (record *)(void *)c->data + rank;
    c->group->info.rank = rank;
    c->group->info.size = size;
    mine->id = (uint64_t)(uint32_t)mpi_world_rank() << 32 | ++n_groups;
    mine->world_rank = mpi_world_rank();
    mine->check = c->group->check;
    memcpy(mine->name, c->name, sizeof mine->name);
    const mpi_elements e = {
        .out = c->data, .count = (int32_t)sizeof(record), .type = MPI_TYPE_U8};
    error = mpi_calls()->all_gather(g->service, &e, &request);
  }
  if (error) {
    fail_waiting(c, error);
    return;
  }
  c->step = STEP_RECORDS;
  ++c->n_pending;
  mpi_own_request(request, end_step, c, 0);
}

/* Checks that all ranks join the same group, and ends the command. */
static void end_records(mpi_command *c) {
  const record *all = (const record *)(const void *)c->data;
  mpi_group *g = c->made;
  for (int32_t r = 0; r < c->group->info.size; ++r) {
    g->world_ranks[r] = all[r].world_rank;
    if (strcmp(all[r].name, all[0].name) == 0 && all[r].check == all[0].check)
      continue;
    end_waiting(c, comm_fail(&c->why, TN_INVALID,
                             "rank 0 joins group `%s` with check=%u, but rank "
                             "%d joins `%s` with check=%u",
                             all[0].name, all[0].check, (int)r, all[r].name,
                             all[r].check));
    return;
  }
  g->id = all[0].id;
  g->group = c->group;
  c->group->state = g;
  mpi_add_group(g);
  end_waiting(c, TN_OK);
}

/* Begins to copy a communicator. */
static void begin_copy(mpi_command *c, int32_t from, int32_t *to,
                       int32_t step) {
  int32_t request;
  const int error = mpi_calls()->copy(from, to, &request);
  if (error) {
    fail_waiting(c, error);
    return;
  }
  c->step = step;
  ++c->n_pending;
  mpi_own_request(request, end_step, c, 0);
}

static void end_step(void *owner, int32_t index, const mpi_done *done) {
  mpi_command *c = owner;
  (void)index;
  --c->n_pending;
  if (c->complete) /* the host has ceased to wait */
    end_waiting(c, TN_BUSY);
  else if (done->error)
    fail_waiting(c, done->error);
  else if (c->step == STEP_COPY)
    begin_copy(c, c->made->comm, &c->made->service, STEP_SERVICE);
  else if (c->step == STEP_SERVICE)
    begin_records(c);
  else
    end_records(c);
}

/* Creates the state of a group that is being made. */
static int begin_group(mpi_command *c) {
  c->made = calloc(1, sizeof *c->made);
  add_waiting(c);
  if (c->made) return 1;
  end_waiting(c, comm_fail(&c->why, TN_OUT_OF_MEMORY, "no memory"));
  return 0;
}

void mpi_run_join(mpi_command *c) {
  if (begin_group(c)) begin_copy(c, 0, &c->made->comm, STEP_COPY);
}

/* -------------------------------------------------------------------- split */

/* All ranks have called: MPI_Comm_split does not wait for long. */
static void end_choices(void *owner, int32_t index, const mpi_done *done) {
  mpi_command *c = owner;
  (void)index;
  --c->n_pending;
  if (c->complete || done->error) {
    if (done->error)
      fail_waiting(c, done->error);
    else
      end_waiting(c, TN_BUSY);
    return;
  }
  int32_t comm;
  const int error =
      mpi_calls()->split(c->from->service, c->colour, c->key, &comm);
  if (error) {
    fail_waiting(c, error);
  } else if (comm < 0) { /* no group for this rank */
    free(c->made);
    c->made = NULL;
    c->group->info.size = 0;
    end_waiting(c, TN_OK);
  } else {
    c->made->comm = comm;
    begin_copy(c, comm, &c->made->service, STEP_SERVICE);
  }
}

void mpi_run_split(mpi_command *c) {
  int32_t request;
  if (!begin_group(c)) return;
  const int error = mpi_calls()->barrier(c->from->service, &request);
  if (error) {
    fail_waiting(c, error);
    return;
  }
  ++c->n_pending;
  mpi_own_request(request, end_choices, c, 0);
}

/* -------------------------------------------------------------------- share */

static void end_share(void *owner, int32_t index, const mpi_done *done) {
  mpi_command *c = owner;
  (void)index;
  --c->n_pending;
  if (done->error) {
    fail_waiting(c, done->error);
  } else if (c->n_pending == 0) {
    end_waiting(c, TN_OK);
  }
}

/* Rank 0 sends its bytes to each other rank. */
void mpi_run_share(mpi_command *c) {
  const comm_group *group = c->group;
  mpi_group *g = group->state;
  const int is_first = group->info.rank == 0;
  int error = 0;
  add_waiting(c);
  for (int32_t r = 0; r < group->info.size && !error; ++r) {
    int32_t request;
    const mpi_elements e = {.in = c->data,
                            .out = c->data,
                            .count = (int32_t)c->bytes,
                            .type = MPI_TYPE_U8,
                            .root = r};
    const int32_t tag = TAG_SHARE + c->number % 500;
    if (is_first ? r == 0 : r != 0) continue;
    error = is_first ? mpi_calls()->send(g->service, &e, tag, &request)
                     : mpi_calls()->receive(g->service, &e, tag, &request);
    if (error) break;
    ++c->n_pending;
    mpi_own_request(request, end_share, c, 0);
  }
  if (error)
    fail_waiting(c, error);
  else if (c->n_pending == 0)
    end_waiting(c, TN_OK);
}

/* -------------------------------------------------- threads of the host */

int32_t mpi_join(comm_group *group, const tn_comm_join *how,
                 tn_comm_reason *why) {
  const int64_t deadline = comm_now() + group->timeout;
  (void)how;
  const int32_t code = mpi_start_thread(deadline, why);
  if (code != TN_OK) return code;
  mpi_command *c = mpi_create_command(mpi_run_join, group, deadline);
  if (!c) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  memcpy(c->name, group->name, sizeof c->name);
  return mpi_post_command(c, 1, why);
}

int32_t mpi_split(comm_group *from, comm_group *made, int32_t colour,
                  int32_t key, tn_comm_reason *why) {
  mpi_command *c =
      mpi_create_command(mpi_run_split, made, comm_now() + from->timeout);
  if (!c) return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  c->from = from->state;
  c->colour = colour;
  c->key = key;
  memcpy(c->name, made->name, sizeof c->name);
  return mpi_post_command(c, 1, why);
}

int32_t mpi_share(comm_group *group, int32_t number, void *data, uint64_t bytes,
                  tn_comm_reason *why) {
  mpi_command *c =
      mpi_create_command(mpi_run_share, group, comm_now() + group->timeout);
  if (c) c->data = malloc((size_t)bytes);
  if (!c || !c->data) {
    free(c);
    return comm_fail(why, TN_OUT_OF_MEMORY, "no memory");
  }
  memcpy(c->data, data, (size_t)bytes);
  memcpy(c->name, group->name, sizeof c->name);
  c->bytes = bytes;
  c->number = number;
  c->copy_to = data;
  return mpi_post_command(c, 1, why);
}
