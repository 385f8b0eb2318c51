/* SPDX-License-Identifier: Apache-2.0
 * fake_nccl.c: an NCCL for the simulated driver, with the soname of one. Ranks
 * are communicators of one process. An exchange is two commands on the stream
 * of a rank: the first copies its input to the others, the second waits until
 * all inputs are there. So streams really wait for one another. Functions
 * return "in progress", and enqueue their work at a later poll. Numbers of
 * types and functions are repeated here from nccl.h 2.32.3, as an independent
 * check of those in plugins/nccl.
 */
#include "fake_nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_nccl_parts.h"

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, PROGRESS = 7 };
enum { POLLS = 2 }; /* until work is enqueued */

static struct {
  pthread_mutex_t lock;
  fake_world *worlds;
  int n_keys;
  int version;
  int refused;
  int n_open;
  int n_aborts;
  int broken[MOST_RANKS];
  char *log[MOST_RANKS];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The group of this thread. */
static _Thread_local int depth;
static _Thread_local fake_comm *grouped;

void fake_nccl_lock(void) {
  pthread_mutex_lock(&all.lock);
}

void fake_nccl_unlock(void) {
  pthread_mutex_unlock(&all.lock);
}

/* -------------------------------------------------------------------- tests */

/* The lock is held. */
static void add_line(int rank, const char *line) {
  char *old = all.log[rank];
  const size_t n = old ? strlen(old) : 0;
  char *text = malloc(n + strlen(line) + 2);
  if (!text) abort();
  (void)sprintf(text, "%s%s\n", old ? old : "", line);
  free(old);
  all.log[rank] = text;
}

char *fake_nccl_log(int rank) {
  fake_nccl_lock();
  if (!all.log[rank]) all.log[rank] = calloc(1, 1);
  char *text = all.log[rank];
  all.log[rank] = NULL;
  fake_nccl_unlock();
  return text;
}

void fake_nccl_refuse(int result) {
  fake_nccl_lock();
  all.refused = result;
  fake_nccl_unlock();
}

void fake_nccl_break(int rank, int result) {
  fake_nccl_lock();
  all.broken[rank] = result;
  fake_nccl_unlock();
}

int fake_nccl_open(void) {
  fake_nccl_lock();
  const int n = all.n_open;
  fake_nccl_unlock();
  return n;
}

int fake_nccl_aborts(void) {
  fake_nccl_lock();
  const int n = all.n_aborts;
  all.n_aborts = 0;
  fake_nccl_unlock();
  return n;
}

void fake_nccl_set_version(int version) {
  all.version = version;
}

/* ------------------------------------------------------------ communicators */

int ncclGetVersion(int *out) {
  *out = all.version ? all.version : 23203;
  return SUCCESS;
}

const char *ncclGetErrorString(int result) {
  return result == 6   ? "remote process exited or there was a network error"
         : result == 1 ? "unhandled cuda error"
                       : "an error of the test";
}

const char *ncclGetLastError(void *comm) {
  return comm ? "the test broke it" : "";
}

int ncclGetUniqueId(void *out) {
  char key[KEY_BYTES] = {0};
  fake_nccl_lock();
  (void)snprintf(key, sizeof key, "key %d", ++all.n_keys);
  fake_nccl_unlock();
  memcpy(out, key, sizeof key);
  return SUCCESS;
}

/* The lock is held. */
static fake_world *find_world(const nccl_key *key, int size) {
  fake_world *w = all.worlds;
  while (w && memcmp(&w->key, key, sizeof *key) != 0) w = w->next;
  if (w) return w;
  w = calloc(1, sizeof *w);
  if (!w) abort();
  w->key = *key;
  w->size = size;
  w->next = all.worlds;
  all.worlds = w;
  return w;
}

static int check_config(const nccl_config *config) {
  if (config->size == 24 && config->magic == 0xcafebeef &&
      config->version == 21400 && config->blocking == 0)
    return SUCCESS;
  fake_violate(fake_cuda(), "passes a wrong configuration to NCCL");
  return INVALID_ARGUMENT;
}

int ncclCommInitRankConfig(void *out, int size, nccl_key key, int rank,
                           nccl_config *config) {
  const int device = fake_cuda_device();
  if (check_config(config) || size > MOST_RANKS || rank < 0 || rank >= size)
    return INVALID_ARGUMENT;
  fake_comm *c = calloc(1, sizeof *c);
  if (!c) abort();
  fake_nccl_lock();
  *c = (fake_comm){
      .world = find_world(&key, size), .rank = rank, .device = device};
  const int is_wrong = c->world->size != size || c->world->comms[rank];
  c->world->comms[rank] = c;
  ++c->world->n_joined;
  ++all.n_open;
  fake_nccl_unlock();
  if (is_wrong) fake_violate(fake_cuda(), "joins a communicator twice");
  memcpy(out, &c, sizeof c);
  return PROGRESS;
}

/* The device of the communicator has to be current. */
static void check_comm(const fake_comm *c) {
  if (fake_cuda_device() != c->device)
    fake_violate(fake_cuda(), "uses a communicator of another device");
}

static void submit_outputs(fake_exchange *e) {
  while (e) {
    fake_exchange *next = e->next; /* the command frees it */
    fake_nccl_submit_output(e);
    e = next;
  }
}

/* Enqueues the pending exchanges. A group is one exchange: senders wait for
 * receivers after all inputs and outputs. */
static void submit_pending(fake_comm *c) {
  fake_exchange *senders = NULL, *others = NULL;
  while (c->pending) {
    fake_exchange *e = c->pending, **list = &others;
    c->pending = e->next;
    fake_nccl_submit_input(e);
    if (e->kind == FAKE_SEND) list = &senders;
    while (*list) list = &(*list)->next;
    e->next = NULL;
    *list = e;
  }
  submit_outputs(others);
  submit_outputs(senders);
}

int ncclCommGetAsyncError(void *comm, void *out) {
  fake_comm *c = comm;
  int state = SUCCESS;
  check_comm(c);
  fake_nccl_lock();
  if (c->world->n_joined < c->world->size) state = PROGRESS;
  if (all.broken[c->rank]) state = all.broken[c->rank];
  fake_nccl_unlock();
  if (state == SUCCESS && c->pending) {
    if (++c->n_polls < POLLS)
      state = PROGRESS;
    else
      submit_pending(c);
  }
  memcpy(out, &state, sizeof state);
  return SUCCESS;
}

int ncclCommFinalize(void *comm) {
  fake_comm *c = comm;
  check_comm(c);
  c->is_finalized = 1;
  return PROGRESS;
}

/* Removes a rank; the world remains for commands that have not run. */
static void remove_comm(fake_comm *c) {
  fake_nccl_lock();
  c->is_aborted = 1;
  --all.n_open;
  all.broken[c->rank] = SUCCESS;
  fake_nccl_unlock();
  fake_nudge(fake_cuda());
}

int ncclCommDestroy(void *comm) {
  fake_comm *c = comm;
  check_comm(c);
  if (!c->is_finalized || c->pending)
    fake_violate(fake_cuda(), "destroys a communicator that works");
  remove_comm(c);
  return SUCCESS;
}

int ncclCommAbort(void *comm) {
  fake_comm *c = comm;
  check_comm(c);
  fake_nccl_lock();
  ++all.n_aborts;
  fake_nccl_unlock();
  remove_comm(c);
  return SUCCESS;
}

/* ------------------------------------------------------------------- groups */

int ncclGroupStart(void) {
  ++depth;
  return SUCCESS;
}

int ncclGroupEnd(void) {
  fake_comm *c = grouped;
  if (--depth < 0) return INVALID_USAGE;
  if (depth > 0 || !c) return SUCCESS;
  grouped = NULL;
  c->n_polls = 0;
  fake_nccl_lock();
  add_line(c->rank, "}");
  fake_nccl_unlock();
  return PROGRESS;
}

/* Adds an exchange to the group of this thread. */
static int add_exchange(const char *name, const fake_exchange *exchange) {
  fake_comm *c = exchange->comm;
  fake_exchange *e = malloc(sizeof *e), **at = &c->pending;
  char line[96];
  check_comm(c);
  if (depth == 0) fake_violate(fake_cuda(), "exchanges outside of a group");
  if (!e) abort();
  *e = *exchange;
  fake_nccl_lock();
  const int refused = all.refused;
  all.refused = 0;
  if (!grouped) add_line(c->rank, "{");
  (void)snprintf(line, sizeof line, "%s n=%zu type=%d", name, e->n, e->type);
  const size_t n = strlen(line);
  if (e->op >= 0)
    (void)snprintf(line + n, sizeof line - n, " op=%d", e->op);
  else if (e->peer >= 0)
    (void)snprintf(line + n, sizeof line - n, " peer=%d", e->peer);
  add_line(c->rank, line);
  fake_nccl_unlock();
  grouped = c;
  if (refused || fake_nccl_prepare(e)) {
    free(e);
    return refused ? refused : INVALID_ARGUMENT;
  }
  while (*at) at = &(*at)->next;
  *at = e;
  return PROGRESS;
}

/* ---------------------------------------------------------------- exchanges */

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op,
                  void *comm, void *stream) {
  return add_exchange("all_reduce", &(fake_exchange){.kind = FAKE_ALL_REDUCE,
                                                     .from = from,
                                                     .to = to,
                                                     .n = n,
                                                     .type = type,
                                                     .op = op,
                                                     .peer = -1,
                                                     .comm = comm,
                                                     .stream = stream});
}

int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root,
               void *comm, void *stream) {
  return add_exchange("reduce", &(fake_exchange){.kind = FAKE_REDUCE,
                                                 .from = from,
                                                 .to = to,
                                                 .n = n,
                                                 .type = type,
                                                 .op = op,
                                                 .peer = root,
                                                 .comm = comm,
                                                 .stream = stream});
}

int ncclReduceScatter(const void *from, void *to, size_t n, int type, int op,
                      void *comm, void *stream) {
  return add_exchange("reduce_scatter",
                      &(fake_exchange){.kind = FAKE_REDUCE_SCATTER,
                                       .from = from,
                                       .to = to,
                                       .n = n,
                                       .type = type,
                                       .op = op,
                                       .peer = -1,
                                       .comm = comm,
                                       .stream = stream});
}

int ncclAllGather(const void *from, void *to, size_t n, int type, void *comm,
                  void *stream) {
  return add_exchange("all_gather", &(fake_exchange){.kind = FAKE_ALL_GATHER,
                                                     .from = from,
                                                     .to = to,
                                                     .n = n,
                                                     .type = type,
                                                     .op = -1,
                                                     .peer = -1,
                                                     .comm = comm,
                                                     .stream = stream});
}

int ncclBroadcast(const void *from, void *to, size_t n, int type, int root,
                  void *comm, void *stream) {
  return add_exchange("broadcast", &(fake_exchange){.kind = FAKE_BROADCAST,
                                                    .from = from,
                                                    .to = to,
                                                    .n = n,
                                                    .type = type,
                                                    .op = -1,
                                                    .peer = root,
                                                    .comm = comm,
                                                    .stream = stream});
}

int ncclSend(const void *from, size_t n, int type, int peer, void *comm,
             void *stream) {
  return add_exchange("send", &(fake_exchange){.kind = FAKE_SEND,
                                               .from = from,
                                               .n = n,
                                               .type = type,
                                               .op = -1,
                                               .peer = peer,
                                               .comm = comm,
                                               .stream = stream});
}

int ncclRecv(void *to, size_t n, int type, int peer, void *comm, void *stream) {
  return add_exchange("recv", &(fake_exchange){.kind = FAKE_RECV,
                                               .to = to,
                                               .n = n,
                                               .type = type,
                                               .op = -1,
                                               .peer = peer,
                                               .comm = comm,
                                               .stream = stream});
}
