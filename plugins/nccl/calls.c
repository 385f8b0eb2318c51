/* SPDX-License-Identifier: Apache-2.0
 * calls.c: the thread that makes the calls of a runtime, one after the other.
 * It is the only user of NCCL, except for members that close.
 *
 * Each group has a stream of its own. So computation on the stream of the
 * device goes on meanwhile, if it does not need the result. A call ends when
 * the event after it is complete, or when NCCL reports an error, time is over
 * or the group ends. Then the communicator is aborted, which ends its kernels,
 * and the group is broken.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nccl_plugin.h"

/* ------------------------------------------------------------ descriptions */

typedef struct writer {
  char *at;
  size_t n;
} writer;

static void add_text(writer *w, const char *format, ...) TN_PRINTF(2, 3);

static void add_text(writer *w, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const int n = vsnprintf(w->at, w->n, format, list);
  va_end(list);
  const size_t used = n < 0 ? 0 : (size_t)n < w->n ? (size_t)n : w->n - 1;
  w->at += used;
  w->n -= used;
}

/* "comm.all_reduce op=sum of f32 (2,3) on cuda": the same for equal calls. */
static void describe_call(const nccl_call *call, char to[NCCL_CALL_TEXT]) {
  const tn_frame *frame = call->frame;
  writer w = {to, NCCL_CALL_TEXT};
  add_text(&w, "%s", call->request.name);
  if (call->request.op) add_text(&w, " op=%s", call->request.op);
  if (call->request.root >= 0)
    add_text(&w, " root=%lld", (long long)call->request.root);
  for (uint32_t k = 0; k < frame->n_out && k < frame->n_in; ++k) {
    const tn_tensor *t = &frame->in[k];
    add_text(&w, "%s%s (", k ? ", " : " of ", nccl_name_dtype(t->dtype));
    for (int32_t d = 0; d < t->ndim; ++d)
      add_text(&w, "%s%lld", d ? "," : "", (long long)t->shape[d]);
    add_text(&w, ")");
  }
  add_text(&w, " on cuda");
}

/* ------------------------------------------------------------------ pieces */

static int enqueue_exchange(const nccl_library *library, const nccl_member *m,
                            const nccl_piece *p) {
  switch (p->kind) {
    case NCCL_ALL_REDUCE:
      return library->all_reduce(p->from, p->to, p->n, p->type, p->op, m->comm,
                                 m->stream);
    case NCCL_REDUCE_SCATTER:
      return library->reduce_scatter(p->from, p->to, p->n, p->type, p->op,
                                     m->comm, m->stream);
    case NCCL_REDUCE:
      return library->reduce(p->from, p->to, p->n, p->type, p->op, p->peer,
                             m->comm, m->stream);
    case NCCL_ALL_GATHER:
      return library->all_gather(p->from, p->to, p->n, p->type, m->comm,
                                 m->stream);
    case NCCL_BROADCAST:
      return library->broadcast(p->from, p->to, p->n, p->type, p->peer, m->comm,
                                m->stream);
    case NCCL_SEND:
      return library->send(p->from, p->n, p->type, p->peer, m->comm, m->stream);
    default:
      return library->recv(p->to, p->n, p->type, p->peer, m->comm, m->stream);
  }
}

static unsigned long long get_address(const void *memory) {
  return (unsigned long long)(uintptr_t)memory;
}

static int is_local(const nccl_piece *p) {
  return p->kind == NCCL_FILL || p->kind == NCCL_COPY;
}

static int enqueue_local(const nccl_library *library, const nccl_member *m,
                         const nccl_piece *p) {
  if (p->kind == NCCL_FILL)
    return library->fill(get_address(p->to), (unsigned char)p->byte, p->n,
                         m->stream);
  if (p->from == p->to) return DRIVER_OK;
  return library->copy(get_address(p->to), get_address(p->from), p->n,
                       m->stream);
}

/* Enqueues pieces of NCCL from `at` on as one group; returns their end. */
static uint32_t enqueue_group(const nccl_call *call, const nccl_member *m,
                              uint32_t at, int *result) {
  const nccl_instance *self = m->instance;
  const nccl_library *library = &self->library;
  *result = library->group_start();
  int first = *result;
  while (at < call->n && !is_local(&call->pieces[at])) {
    if (first == NCCL_OK || first == NCCL_IN_PROGRESS)
      first = enqueue_exchange(library, m, &call->pieces[at]);
    ++at;
  }
  if (*result != NCCL_OK) return at;
  *result = library->group_end();
  if (first != NCCL_OK && first != NCCL_IN_PROGRESS) *result = first;
  return at;
}

/* -------------------------------------------------------------------- a call
 */

/* A call that the thread makes. */
typedef struct making {
  nccl_instance *self;
  nccl_call *call;
  nccl_member *member;
  uint64_t begin;
  tn_comm_reason why;
} making;

/* The reason for which the group has ended, if plugins/comm has one. */
static int32_t explain_end(making *m, int32_t code) {
  const tn_comm *comm = m->self->comm;
  tn_comm_reason why = {""};
  if (!comm->begin) return code;
  const int32_t known = comm->begin(comm->ctx, m->call->group.id, NULL, &why);
  if (known == TN_OK) return code;
  m->why = why;
  return known;
}

static int32_t check_wait(making *m) {
  const int32_t code = nccl_check_wait(m->self, m->member, m->begin,
                                       m->call->group.timeout_ms, &m->why);
  return code != TN_OK && nccl_has_ended(m->member) ? explain_end(m, code)
                                                    : code;
}

static int32_t explain_result(making *m, int result) {
  return nccl_explain(m->self, m->member->comm, m->member->device_id, result,
                      &m->why);
}

static int32_t explain_driver(making *m, int result, const char *action) {
  return nccl_explain_driver(m->self, m->member->device_id, result, action,
                             &m->why);
}

/* Polls the communicator until its functions have returned. */
static int32_t await_enqueued(making *m, int result) {
  while (result == NCCL_IN_PROGRESS) {
    const int32_t code = check_wait(m);
    if (code != TN_OK) return code;
    nccl_pause(m->self, m->begin);
    const int failed = m->self->library.get_state(m->member->comm, &result);
    if (failed != NCCL_OK) result = failed;
  }
  return result == NCCL_OK ? TN_OK : explain_result(m, result);
}

static int32_t enqueue_pieces(making *m) {
  const nccl_call *call = m->call;
  const nccl_library *library = &m->self->library;
  int result = library->stream_wait(m->member->stream, call->ready, 0);
  if (result != DRIVER_OK) return explain_driver(m, result, "a wait");
  for (uint32_t at = 0; at < call->n;) {
    int32_t code = TN_OK;
    if (is_local(&call->pieces[at])) {
      result = enqueue_local(library, m->member, &call->pieces[at++]);
      if (result != DRIVER_OK) code = explain_driver(m, result, "a copy");
    } else {
      at = enqueue_group(call, m->member, at, &result);
      code = await_enqueued(m, result);
    }
    if (code != TN_OK) return code;
  }
  return TN_OK;
}

static int32_t record_done(making *m) {
  const int result =
      m->self->library.event_record(m->member->done, m->member->stream);
  return result == DRIVER_OK ? TN_OK : explain_driver(m, result, "an event");
}

/* Polls the event after the work, and NCCL. */
static int32_t await_done(making *m) {
  const nccl_library *library = &m->self->library;
  for (;;) {
    int result = library->event_query(m->member->done);
    if (result == DRIVER_OK) return TN_OK;
    if (result != DRIVER_NOT_READY) return explain_driver(m, result, "a call");
    int state = NCCL_OK;
    result = library->get_state(m->member->comm, &state);
    if (result == NCCL_OK) result = state;
    if (result != NCCL_OK && result != NCCL_IN_PROGRESS)
      return explain_result(m, result);
    const int32_t code = check_wait(m);
    if (code != TN_OK) return code;
    nccl_pause(m->self, m->begin);
  }
}

/* Ends work that may have been enqueued, so that it no longer uses memory. */
static void abort_work(making *m) {
  const nccl_library *library = &m->self->library;
  nccl_end_member(m->member);
  if (m->member->comm) (void)library->abort(m->member->comm);
  m->member->comm = NULL;
  if (library->event_record(m->member->done, m->member->stream) != DRIVER_OK)
    return;
  const uint64_t begin = nccl_get_time();
  while (library->event_query(m->member->done) == DRIVER_NOT_READY)
    nccl_pause(m->self, begin);
}

/* The device is current. */
static int32_t make_call(making *m) {
  if (!m->member->comm) return check_wait(m);
  int32_t code = enqueue_pieces(m);
  if (code == TN_OK) code = record_done(m);
  if (code == TN_OK) code = await_done(m);
  if (code != TN_OK) abort_work(m);
  return code;
}

/* Opens the group on the device, at its first call, and compares the call. */
static int32_t prepare_call(making *m) {
  const nccl_call *call = m->call;
  const tn_comm *comm = m->self->comm;
  char text[NCCL_CALL_TEXT];
  void *opened = NULL;
  int32_t code = TN_OK;
  describe_call(call, text);
  if (comm->begin)
    code = comm->begin(comm->ctx, call->group.id,
                       call->request.is_message ? NULL : text, &m->why);
  if (code == TN_OK)
    code = comm->opened(
        comm->ctx, call->group.id,
        &(tn_comm_place){TN_DEVICE_CUDA, call->frame->run->device_id}, &opened,
        &m->why);
  m->member = opened;
  return code;
}

static int32_t run_call(making *m) {
  nccl_instance *self = m->self;
  const int32_t id = m->call->frame->run->device_id;
  tn_device_error error = {.struct_size = sizeof error};
  const int32_t prepared = prepare_call(m);
  int32_t code = self->scope->enter(self->scope, id, &error);
  if (code != TN_OK) {
    (void)snprintf(m->why.text, sizeof m->why.text, "%s", error.text);
    return code;
  }
  if (prepared == TN_OK) code = make_call(m);
  (void)self->library.event_destroy(m->call->ready);
  self->scope->leave(self->scope, id);
  return prepared == TN_OK ? code : prepared;
}

static void end_call(making *m, int32_t code) {
  nccl_call *call = m->call;
  const tn_comm *comm = m->self->comm;
  char text[sizeof m->why.text + 160];
  const tn_host *host = call->frame->host;
  tn_later *later = call->later;
  (void)snprintf(text, sizeof text, "%s: %s", call->request.name, m->why.text);
  if (code != TN_OK && comm->fail)
    (void)comm->fail(comm->ctx, call->group.id, code, text);
  (void)snprintf(text, sizeof text, "group `%s`, rank %d of %d: %s",
                 call->group.name, (int)call->group.rank, (int)call->group.size,
                 m->why.text);
  m->self->current = NULL;
  free(call);
  host->complete(later, code, code == TN_OK ? NULL : text);
}

/* ---------------------------------------------------------------- the thread
 */

static nccl_call *take_call(nccl_instance *self) {
  (void)pthread_mutex_lock(&self->lock);
  while (!self->first && !self->is_ending)
    (void)pthread_cond_wait(&self->changed, &self->lock);
  nccl_call *call = self->first;
  if (call) self->first = call->next;
  (void)pthread_mutex_unlock(&self->lock);
  return call;
}

static void *run_calls(void *arg) {
  nccl_instance *self = arg;
  for (nccl_call *call = take_call(self); call; call = take_call(self)) {
    making m = {.self = self, .call = call, .begin = nccl_get_time()};
    self->current = call;
    end_call(&m, run_call(&m));
  }
  return NULL;
}

void nccl_hand_over(nccl_instance *self, nccl_call *call) {
  (void)pthread_mutex_lock(&self->lock);
  if (self->first)
    self->last->next = call;
  else
    self->first = call;
  self->last = call;
  (void)pthread_cond_broadcast(&self->changed);
  (void)pthread_mutex_unlock(&self->lock);
}

static void destroy_locks(nccl_instance *self) {
  (void)pthread_cond_destroy(&self->changed);
  (void)pthread_mutex_destroy(&self->lock);
}

int32_t nccl_calls_open(nccl_instance *self) {
  pthread_condattr_t how;
  (void)pthread_mutex_init(&self->lock, NULL);
  (void)pthread_condattr_init(&how);
  (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&self->changed, &how);
  (void)pthread_condattr_destroy(&how);
  /* Under the lock, because the thread reads `thread`. */
  (void)pthread_mutex_lock(&self->lock);
  self->has_thread = pthread_create(&self->thread, NULL, run_calls, self) == 0;
  (void)pthread_mutex_unlock(&self->lock);
  if (self->has_thread) return TN_OK;
  destroy_locks(self);
  return TN_OUT_OF_MEMORY;
}

void nccl_calls_close(nccl_instance *self) {
  if (!self->has_thread) return;
  (void)pthread_mutex_lock(&self->lock);
  self->is_ending = 1;
  (void)pthread_cond_broadcast(&self->changed);
  (void)pthread_mutex_unlock(&self->lock);
  (void)pthread_join(self->thread, NULL);
  destroy_locks(self);
}
