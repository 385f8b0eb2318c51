/* SPDX-License-Identifier: Apache-2.0
 * mailbox.c: pushes of an engine that runs nothing on the pushing thread. A
 * push appends a record and returns; dispatch.c takes the record out.
 *
 * No record gets lost between the two, because both write first and check then,
 * in the one order of sequentially consistent operations. A thread that adds a
 * record checks for a dispatcher afterwards. The dispatcher checks for more
 * records after it has stopped dispatching.
 */
#include <assert.h>

#include "futex.h"
#include "kinds.h"
#include "mailbox.h"
#include "operation.h"
#include "push.h"
#include "run_frame.h"
#include "slab.h"
#include "token_execution.h"

enum { PREFETCH = 512 }; /* bytes ahead of the prefetch */

_Static_assert(_Alignof(tn__var) >= 4, "an address has room for a mode");

/* ---------------------------------------------------------------- segments */

static tn__mailbox_segment *create_segment(const tn__env *env, size_t bytes) {
  tn__mailbox_segment *segment =
      tn__alloc_aligned(env, sizeof *segment + bytes, 64);
  if (segment != NULL) *segment = (tn__mailbox_segment){.bytes = bytes};
  return segment;
}

static void free_segments(const tn__env *env, tn__mailbox_segment *segment) {
  while (segment != NULL) {
    tn__mailbox_segment *next = segment->next;
    tn__free(env, segment);
    segment = next;
  }
}

tn_code tn__mailbox_create(tn__engine *engine, tn__mailbox **out) {
  tn__mailbox *mailbox =
      tn__alloc_aligned(engine->env, sizeof *mailbox, _Alignof(tn__mailbox));
  tn__mailbox_segment *segment = create_segment(engine->env, TN__SEGMENT);
  *out = NULL;
  if (mailbox == NULL || segment == NULL) {
    tn__free(engine->env, mailbox);
    tn__free(engine->env, segment);
    return tn__fail_memory(sizeof *mailbox + TN__SEGMENT,
                           "the engine's mailbox");
  }
  *mailbox = (tn__mailbox){.engine = engine,
                           .env = engine->env,
                           .to = segment->data,
                           .limit = segment->data + TN__SEGMENT,
                           .last = segment,
                           .from = segment->data,
                           .first = segment};
  *out = mailbox;
  return TN_OK;
}

void tn__mailbox_destroy(tn__mailbox *mailbox) {
  if (mailbox == NULL) return;
  free_segments(mailbox->env, mailbox->first);
  free_segments(mailbox->env, mailbox->empty);
  free_segments(mailbox->env, atomic_load(&mailbox->used));
  tn__free(mailbox->env, mailbox);
}

/* Returns a free segment or a new one. A larger one is not reused. */
static tn__mailbox_segment *get_segment(tn__mailbox *mailbox, size_t bytes) {
  if (bytes > TN__SEGMENT) return create_segment(mailbox->env, bytes);
  if (mailbox->empty == NULL)
    mailbox->empty =
        atomic_exchange_explicit(&mailbox->used, NULL, memory_order_acquire);
  tn__mailbox_segment *segment = mailbox->empty;
  if (segment == NULL) return create_segment(mailbox->env, TN__SEGMENT);
  mailbox->empty = segment->next;
  segment->next = NULL;
  return segment;
}

static bool add_segment(tn__mailbox *mailbox, size_t bytes) {
  tn__mailbox_segment *segment = get_segment(mailbox, bytes);
  if (segment == NULL) return false;
  *(tn__record *)(void *)mailbox->to = (tn__record){.flags = TN__RECORD_NEXT};
  mailbox->n_written += sizeof(tn__record);
  mailbox->last->next = segment;
  mailbox->last = segment;
  mailbox->to = segment->data;
  mailbox->limit = segment->data + segment->bytes;
  return true;
}

/* Returns the place for a record of so many bytes, with room after it for a
 * record that claims to the next segment. NULL without memory. The gate is
 * held.
 */
static void *reserve_bytes(tn__mailbox *mailbox, size_t bytes) {
  const size_t all = bytes + sizeof(tn__record);
  if ((size_t)(mailbox->limit - mailbox->to) < all &&
      !add_segment(mailbox, all))
    return NULL;
  tn__prefetch_write(mailbox->to + PREFETCH);
  return mailbox->to;
}

static void publish_record(tn__mailbox *mailbox, size_t bytes) {
  mailbox->to += bytes;
  mailbox->n_written += bytes;
  /* Sequentially consistent with the check for a dispatcher. */
  atomic_store(&mailbox->end, mailbox->n_written);
}

/* ------------------------------------------------------------------ tokens */

static bool put_token(tn__mailbox *mailbox, tn__token *token,
                      const tn__run_frame *frame) {
  tn__record_token *record = reserve_bytes(mailbox, sizeof *record);
  if (record == NULL) return false;
  if ((token->flags & TN__TOKEN_WAIT) == 0)
    token->flags |= tn__count_pushed(token->engine, frame);
  if (token->operation != NULL) tn__operation_count(token->operation);
  *record =
      (tn__record_token){.head = {.flags = TN__RECORD_TOKEN}, .token = token};
  publish_record(mailbox, sizeof *record);
  return true;
}

static bool put_wait(tn__mailbox *mailbox, tn__token *token) {
  const uint64_t owner = tn__gate_borrow(mailbox->engine);
  const bool done = put_token(mailbox, token, NULL);
  tn__gate_return(mailbox->engine, owner);
  return done;
}

static bool put_push(tn__mailbox *mailbox, tn__token *token,
                     const tn__run_frame *frame) {
  tn__gate_take(mailbox->engine);
  const bool done = put_token(mailbox, token, frame);
  tn__gate_give(mailbox->engine);
  return done;
}

/* Adds a record of a token without grants. The token of a wait is not counted.
 * False without memory: nothing has changed. */
static bool post_token(tn__token *token, const tn__run_frame *frame) {
  tn__mailbox *mailbox = token->engine->mailbox;
  const bool wait = (token->flags & TN__TOKEN_WAIT) != 0;
  if (!(wait ? put_wait(mailbox, token) : put_push(mailbox, token, frame)))
    return false;
  tn__dispatch_request(mailbox);
  return true;
}

static void count_alone(tn__token *token) {
  tn__engine *engine = token->engine;
  tn__gate_take(engine);
  token->flags |= tn__count_pushed(engine, NULL);
  tn__gate_give(engine);
}

bool tn__mailbox_put_waiting(tn__token *token, uint64_t deadline) {
  /* In an empty mailbox no thread need wake up to take a record. */
  if (deadline == TN__FOREVER && !tn__mailbox_is_settled(token->engine) &&
      post_token(token, NULL))
    return true;
  if ((token->flags & TN__TOKEN_WAIT) == 0) count_alone(token);
  return tn__dispatch_overtake(token, deadline);
}

/* A job that outlives its function, or belongs to a queue, needs a token. */
static tn_code push_token(tn__engine *engine, const tn__job *job,
                          tn__operation *operation) {
  tn__token *token = tn__token_create_for(engine, job, operation);
  if (token == NULL) return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  if (post_token(token, tn__run_frame_of(engine))) return TN_OK;
  tn__token_discard(token);
  return tn__job_drop_failed(
      job, tn__fail_memory(TN__SEGMENT, "the engine's mailbox"));
}

/* Reserves the room for all records before it writes the first. */
static tn_code dispatching_push_all(tn__engine *engine, tn__token *first) {
  const tn__run_frame *frame = tn__run_frame_of(engine);
  size_t n = 0;
  for (const tn__token *each = first; each != NULL; each = each->next) ++n;
  if (reserve_bytes(engine->mailbox, n * sizeof(tn__record_token)) == NULL)
    return tn__fail_memory(n * sizeof(tn__record_token),
                           "the engine's mailbox");
  while (first != NULL) {
    tn__token *token = first;
    first = token->next;
    token->next = NULL;
    const bool done = put_token(engine->mailbox, token, frame);
    assert(done);
    (void)done;
  }
  tn__dispatch_request(engine->mailbox);
  return TN_OK;
}

/* -------------------------------------------------------------------- jobs */

static bool needs_more(const tn__job *job, const tn__operation *operation) {
  return job->priority != 0 || operation != NULL ||
         job->n_access > TN__RECORD_CLAIMS;
}

static size_t record_bytes(const tn__job *job, bool more) {
  const size_t bytes =
      sizeof(tn__record_job) + job->n_access * sizeof(uintptr_t);
  return more ? bytes + sizeof(tn__record_more) : bytes;
}

static void fill_record(tn__record_job *record, const tn__job *job) {
  record->run = job->run;
  record->arg = job->arg;
  record->drop = job->drop;
  record->name = job->name;
  for (uint32_t i = 0; i < job->n_access; ++i)
    record->uses[i] = (uintptr_t)job->access[i].var | job->access[i].mode;
}

/* The gate is held. */
static bool put_job(tn__engine *engine, const tn__job *job,
                    const tn__record_more *more, const tn__run_frame *frame) {
  tn__mailbox *mailbox = engine->mailbox;
  const size_t bytes = record_bytes(job, more != NULL);
  tn__record_job *record = reserve_bytes(mailbox, bytes);
  if (record == NULL) return false;
  record->head.flags = job->flags | tn__count_pushed(engine, frame);
  record->head.n_uses = job->n_access;
  fill_record(record, job);
  if (more != NULL) {
    record->head.flags |= TN__RECORD_MORE;
    *(tn__record_more *)(void *)(record->uses + job->n_access) = *more;
    if (more->operation != NULL) tn__operation_count(more->operation);
  }
  publish_record(mailbox, bytes);
  return true;
}

static bool post_job(tn__engine *engine, const tn__job *job,
                     const tn__record_more *more) {
  const tn__run_frame *frame = tn__run_frame_of(engine);
  tn__gate_take(engine);
  const bool done = put_job(engine, job, more, frame);
  tn__gate_give(engine);
  return done;
}

static bool post_with_more(tn__engine *engine, const tn__job *job,
                           tn__operation *operation) {
  tn__record_more more = {.operation = operation, .priority = job->priority};
  if (job->n_access > TN__RECORD_CLAIMS) {
    more.claims = tn__alloc(engine->env, job->n_access * sizeof *more.claims);
    if (more.claims == NULL) return false;
  }
  if (post_job(engine, job, &more)) return true;
  tn__free(engine->env, more.claims);
  return false;
}

static tn_code dispatching_push(tn__engine *engine, const tn__job *job,
                                tn__operation *operation) {
  if ((job->flags & TN__JOB_ASYNC) != 0 || job->queue != NULL)
    return push_token(engine, job, operation);
  const bool done = needs_more(job, operation)
                        ? post_with_more(engine, job, operation)
                        : post_job(engine, job, NULL);
  if (!done) {
    (void)tn__fail_memory(TN__SEGMENT, "a function on its way to the engine");
    return tn__job_drop_failed(job, TN_OUT_OF_MEMORY);
  }
  tn__dispatch_request(engine->mailbox);
  return TN_OK;
}

static void dispatching_ready(tn__engine *engine, tn__token *token) {
  tn__pool_ready(engine->pool, token);
}

const tn__engine_kind tn__kind_dispatching = {.push = dispatching_push,
                                              .push_all = dispatching_push_all,
                                              .ready = dispatching_ready,
                                              .done = tn__token_complete};
