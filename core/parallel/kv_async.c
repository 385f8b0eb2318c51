/* SPDX-License-Identifier: Apache-2.0
 * kv_async.c: a store whose keys have owners, which apply each push when it
 * arrives. A store has a group of its own. For each other rank it has a thread
 * that receives the requests of that rank, in their order. These receives are
 * outside of the order of the runtime's collective calls, and wait without a
 * limit. A value that a request has or wants is a message of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store.h"
#include "tenon/call.h"

enum {           /* what a request wants */
       PUSH = 1, /* its value follows */
       PULL,     /* the value of a key */
       PING,     /* an answer, which is after all earlier requests */
       END       /* the rank has released the store */
};

enum { /* tags; answers have those from TAG_ANSWER on, one after the other */
       TAG_REQUEST = 0,
       TAG_VALUE = 1,
       TAG_ANSWER = 2,
       N_ANSWERS = 8000
};

typedef struct request {
  int64_t what;
  int64_t key; /* number of an entry, the same on all ranks */
  int64_t tag; /* of the answer */
} request;

enum { REQUEST_WORDS = sizeof(request) / sizeof(int64_t) };

/* Another rank, and the thread that serves it. */
typedef struct peer {
  tn_kvstore *kv;
  int32_t rank;
  bool is_served; /* there is a thread */
  pthread_t thread;
} peer;

struct tn__kv_async {
  const tn_comm *comm;
  tn_comm_group group;
  int64_t n_answers; /* that this rank has asked for */
  peer peers[];      /* one for each rank; its own is not used */
};

static const tn_spec request_spec = {TN_I64, 1,
                                     (const int64_t[]){REQUEST_WORDS}};

/* ----------------------------------------------------------------- messages */

/* A call of an operator with messages. */
typedef struct message_call {
  const char *name;
  const tn_value *values;
  size_t n; /* values */
  tn_array *in;
} message_call;

static tn_code call_message(const tn_kvstore *kv, message_call c,
                            tn_array **out) {
  tn_operator *op = NULL;
  tn_params *params = NULL;
  TN__TRY(tn_operator_get(kv->rt, c.name, &op));
  TN__TRY(tn_params_create(op, c.values, c.n, &params));
  const tn_code rc = tn_call(kv->rt, op, &(tn_inputs){c.in ? 1 : 0, &c.in},
                             params, &(tn_outputs){1, out, NULL});
  tn_params_release(params);
  return rc;
}

/* A message. *sent, unless `sent` is NULL, is complete when it is sent. */
typedef struct message {
  int32_t to;
  int64_t tag;
  tn_array *array;
  bool is_answer; /* does not wait for the collective calls of this rank */
} message;

static tn_code send_message(const tn_kvstore *kv, const message *m,
                            tn_array **sent) {
  const tn_value values[] = {
      tn_value_text("group", kv->async->group.name), tn_value_int("to", m->to),
      tn_value_int("tag", m->tag),
      tn_value_text("service", m->is_answer ? "true" : "false")};
  tn_array *done = NULL;
  const tn_code rc =
      call_message(kv, (message_call){"comm.send", values, 4, m->array}, &done);
  if (sent)
    *sent = done;
  else
    tn_array_release(done);
  return rc;
}

/* Receives into *out, or creates it. */
static tn_code receive_array(const tn_kvstore *kv, int32_t from, int64_t tag,
                             const tn_spec *spec, tn_array **out) {
  const tn_value values[] = {
      tn_value_text("group", kv->async->group.name),
      tn_value_int("from", from),
      tn_value_int("tag", tag),
      tn_value_text("service", "true"),
      tn_value_text("dtype", tn_dtype_name(spec->dtype)),
      tn_value_ints("shape", spec->shape, (uint32_t)spec->ndim)};
  return call_message(kv, (message_call){"comm.recv", values, 6, NULL}, out);
}

/* Sends the words of a request, or of an answer. */
static tn_code send_words(const tn_kvstore *kv, message m, const request *words,
                          tn_array **sent) {
  tn_code rc = tn_array_create(kv->rt, &request_spec, &m.array);
  if (rc == TN_OK) rc = tn_array_set(m.array, words, sizeof *words);
  if (rc == TN_OK) rc = send_message(kv, &m, sent);
  tn_array_release(m.array);
  return rc;
}

static tn_code send_request(const tn_kvstore *kv, int32_t to,
                            const request *what) {
  return send_words(kv, (message){to, TAG_REQUEST, NULL, false}, what, NULL);
}

static int64_t next_tag(const tn_kvstore *kv) {
  return TAG_ANSWER + kv->async->n_answers++ % N_ANSWERS;
}

static tn_spec spec_of(const tn_array *array) {
  const tn_tensor *t = tn_array_tensor(array);
  return (tn_spec){t->dtype, t->ndim, t->shape};
}

/* ------------------------------------------------------------------ serving */

static tn_code fail_update(void *text) {
  return tn_fail(TN_PLUGIN, "%s", (const char *)text);
}

/* Leaves the error text of this thread on a value, as a failed step would. */
static void fail_value(const tn_kvstore *kv, tn_array *value) {
  tn_variable *variable = NULL;
  char *text = strdup(tn_error_text());
  if (text && tn_array_variable(value, &variable) == TN_OK) {
    const tn_job job = {.struct_size = sizeof job,
                        .name = "update of a key",
                        .run = fail_update,
                        .arg = text,
                        .drop = free,
                        TN_USES({variable, TN_UPDATE})};
    if (tn_push(kv->rt, &job) == TN_OK) text = NULL;
  }
  tn_variable_release(variable);
  free(text);
}

static tn_code serve_push(const peer *p, tn__kv_entry *entry) {
  tn_kvstore *kv = p->kv;
  tn_array *value = NULL;
  const tn_spec spec = spec_of(entry->local);
  TN__TRY(receive_array(kv, p->rank, TAG_VALUE, &spec, &value));
  const tn__kv_group group = {
      .entry = entry, .arrays = &value, .n = 1, .received = value};
  (void)pthread_mutex_lock(&kv->lock);
  kv->function = "tn_kvstore_push";
  if (tn__kv_update(kv, &group) != TN_OK) fail_value(kv, entry->local);
  (void)pthread_mutex_unlock(&kv->lock);
  tn_array_release(value);
  return TN_OK;
}

/* A copy of the value, with all updates before. */
static tn_code copy_value(tn_kvstore *kv, const tn__kv_entry *entry,
                          tn_array **out) {
  (void)pthread_mutex_lock(&kv->lock);
  tn_code rc = tn__kv_create_like(kv->rt, entry->local,
                                  (tn_place){TN_DEVICE_CPU, 0}, out);
  if (rc == TN_OK) rc = tn_array_copy(*out, entry->local);
  (void)pthread_mutex_unlock(&kv->lock);
  return rc == TN_OK ? tn_array_wait(*out) : rc;
}

/* A value that carries an error is no message. */
static tn_code serve_pull(const peer *p, const tn__kv_entry *entry,
                          int64_t tag) {
  tn_array *value = NULL;
  tn_code rc = copy_value(p->kv, entry, &value);
  if (rc == TN_OK)
    rc = send_message(p->kv, &(message){p->rank, tag, value, true}, NULL);
  tn_array_release(value);
  return rc;
}

static tn__kv_entry *get_entry(tn_kvstore *kv, int64_t number) {
  (void)pthread_mutex_lock(&kv->lock);
  tn__kv_entry *entry =
      number >= 0 && (size_t)number < kv->table.n ? kv->table.v[number] : NULL;
  (void)pthread_mutex_unlock(&kv->lock);
  return entry;
}

static tn_code serve_request(const peer *p, const request *what) {
  if (what->what == PING)
    return send_words(p->kv, (message){p->rank, what->tag, NULL, true}, what,
                      NULL);
  tn__kv_entry *entry = get_entry(p->kv, what->key);
  if (!entry) return TN_NOT_FOUND;
  return what->what == PUSH ? serve_push(p, entry)
                            : serve_pull(p, entry, what->tag);
}

static tn_code read_request(const peer *p, request *out) {
  tn_array *words = NULL;
  tn_code rc =
      receive_array(p->kv, p->rank, TAG_REQUEST, &request_spec, &words);
  if (rc == TN_OK) rc = tn_array_get(words, out, sizeof *out);
  tn_array_release(words);
  return rc;
}

/* Ends when the rank has released the store, or the group is broken: also by a
 * request that fails, because the rank would wait for its answer. */
static void *serve_peer(void *arg) {
  const peer *p = arg;
  const tn__kv_async *async = p->kv->async;
  request what = {0, 0, 0};
  tn_code rc = TN_OK;
  while (rc == TN_OK && what.what != END) {
    rc = read_request(p, &what);
    if (rc == TN_OK && what.what != END) rc = serve_request(p, &what);
  }
  if (rc != TN_OK)
    (void)async->comm->fail(async->comm->ctx, async->group.id, rc,
                            tn_error_text());
  return NULL;
}

/* ----------------------------------------------------------- open and close */

/* Forms the store's own group. All ranks have made the same groups before, so
 * the same number is free on all of them. */
static tn_code make_group(const tn_kvstore *kv, tn__kv_async *async) {
  const tn_comm *comm = async->comm;
  char name[TN_COMM_NAME];
  tn_comm_group world = {.struct_size = sizeof world};
  tn_comm_reason why = {""};
  int32_t rc = comm->find(comm->ctx, kv->ranks.group, &world, &why);
  for (int i = 0; rc == TN_OK; ++i) {
    (void)snprintf(name, sizeof name, "%.40s/kvstore%d", kv->ranks.group, i);
    const tn_comm_split how = {sizeof how, 0, world.rank, 0, name};
    async->group = (tn_comm_group){.struct_size = sizeof async->group};
    rc = comm->split(comm->ctx, world.id, &how, &async->group, &why);
    if (rc != TN_EXISTS) break;
    rc = TN_OK;
  }
  return rc == TN_OK ? TN_OK : tn_fail(rc, "%s: %s", kv->function, why.text);
}

static tn_code start_peers(tn_kvstore *kv, tn__kv_async *async) {
  for (int32_t r = 0; r < kv->ranks.size; ++r) {
    peer *p = &async->peers[r];
    *p = (peer){.kv = kv, .rank = r};
    if (r == kv->ranks.rank) continue;
    if (pthread_create(&p->thread, NULL, serve_peer, p) != 0)
      return tn__kv_fail_memory(kv->function);
    p->is_served = true;
  }
  return TN_OK;
}

/* A naive engine runs one function at a time: a receive would keep the rank
 * from its own work. */
static tn_code check_engine(const tn_kvstore *kv) {
  tn_text *state = NULL;
  TN__TRY(tn_runtime_json(kv->rt, &state));
  const bool is_naive =
      strstr(tn_text_get(state), "\"kind\": \"naive\"") != NULL;
  tn_text_release(state);
  if (!is_naive) return TN_OK;
  return tn_fail(TN_UNSUPPORTED,
                 "%s: a naive engine cannot serve other ranks meanwhile; use "
                 "another engine, or dist_sync",
                 kv->function);
}

tn_code tn__kv_async_open(tn_kvstore *kv) {
  TN__TRY(check_engine(kv));
  const size_t n = (size_t)kv->ranks.size;
  tn__kv_async *async = calloc(1, sizeof *async + n * sizeof *async->peers);
  if (!async) return tn__kv_fail_memory(kv->function);
  tn_code rc = tn__comm_find(kv->rt, kv->function, &async->comm);
  if (rc == TN_OK) rc = make_group(kv, async);
  if (rc != TN_OK) {
    free(async);
    return rc;
  }
  kv->async = async;
  return start_peers(kv, async);
}

/* Waits until the thread ends, at most as long as a call of the group. */
static bool join_peer(const tn__kv_async *async, const peer *p) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += async->group.timeout_ms / 1000 + 1;
  return pthread_timedjoin_np(p->thread, NULL, &until) == 0;
}

/* A broken group has ended the other rank's thread. */
static tn_code send_end(const tn_kvstore *kv, int32_t rank) {
  const request end = {END, 0, 0};
  tn_array *sent = NULL;
  tn_code rc =
      send_words(kv, (message){rank, TAG_REQUEST, NULL, false}, &end, &sent);
  if (rc == TN_OK) rc = tn_array_wait(sent);
  tn_array_release(sent);
  return rc;
}

/* Tells the other ranks, and waits until all of them have told this one. */
void tn__kv_async_close(tn_kvstore *kv) {
  tn__kv_async *async = kv->async;
  bool is_whole = async != NULL;
  if (!async) return;
  for (int32_t r = 0; r < kv->ranks.size && is_whole; ++r)
    if (r != kv->ranks.rank) is_whole = send_end(kv, r) == TN_OK;
  for (int32_t r = 0; r < kv->ranks.size; ++r)
    if (async->peers[r].is_served && join_peer(async, &async->peers[r]))
      async->peers[r].is_served = false;
  /* Ends the receives of the threads that still wait. */
  (void)async->comm->leave(async->comm->ctx, async->group.id, NULL);
  for (int32_t r = 0; r < kv->ranks.size; ++r)
    if (async->peers[r].is_served)
      (void)pthread_join(async->peers[r].thread, NULL);
  free(async);
  kv->async = NULL;
}

/* ----------------------------------------------------------------- the rank */

tn_code tn__kv_async_push(tn_kvstore *kv, tn__kv_group *group) {
  const tn__kv_entry *entry = group->entry;
  TN__TRY(tn__kv_sum(kv, group));
  if (entry->owner == kv->ranks.rank) return tn__kv_update(kv, group);
  const request what = {PUSH, entry->number, 0};
  TN__TRY(send_request(kv, entry->owner, &what));
  return send_message(
      kv, &(message){entry->owner, TAG_VALUE, group->received, false}, NULL);
}

tn_code tn__kv_async_pull(tn_kvstore *kv, tn__kv_entry *entry) {
  if (entry->owner == kv->ranks.rank) return TN_OK;
  const request what = {PULL, entry->number, next_tag(kv)};
  const tn_spec spec = spec_of(entry->local);
  TN__TRY(send_request(kv, entry->owner, &what));
  return receive_array(kv, entry->owner, what.tag, &spec, &entry->local);
}

/* An answer of a rank follows all earlier requests of this one. */
static tn_code await_answer(tn_kvstore *kv, int32_t rank) {
  tn_array *answer = NULL;
  (void)pthread_mutex_lock(&kv->lock);
  const request what = {PING, 0, next_tag(kv)};
  tn_code rc = send_request(kv, rank, &what);
  if (rc == TN_OK)
    rc = receive_array(kv, rank, what.tag, &request_spec, &answer);
  (void)pthread_mutex_unlock(&kv->lock);
  if (rc == TN_OK) rc = tn_array_wait(answer);
  tn_array_release(answer);
  return rc;
}

tn_code tn__kv_async_flush(tn_kvstore *kv) {
  for (int32_t r = 0; r < kv->ranks.size; ++r)
    if (r != kv->ranks.rank) TN__TRY(await_answer(kv, r));
  return TN_OK;
}
