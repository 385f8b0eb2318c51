/* SPDX-License-Identifier: Apache-2.0
 * post.c: what is pushed to an engine that runs nothing on the pushing thread.
 * A push writes a record behind the others and is done; clerk.c takes it out.
 *
 * Nothing gets lost between the two, because both write first and look then, in
 * the one order of sequentially consistent operations: who posts looks whether
 * there is a clerk afterwards; the clerk looks for more when it has stopped
 * being one.
 */
#include <assert.h>

#include "pool.h"

enum { AHEAD = 512 }; /* bytes, of what is fetched before it is written */

_Static_assert(_Alignof(tn__var) >= 4, "an address has room for a mode");

/* ---------------------------------------------------------------- segments */

static tn__segment *segment_create(const tn__env *env, size_t bytes) {
  tn__segment *segment = tn__alloc_aligned(env, sizeof *segment + bytes, 64);
  if (segment != NULL) *segment = (tn__segment){.bytes = bytes};
  return segment;
}

static void free_list(const tn__env *env, tn__segment *segment) {
  while (segment != NULL) {
    tn__segment *next = segment->next;
    tn__free(env, segment);
    segment = next;
  }
}

tn_code tn__post_create(tn__engine *engine, tn__post **out) {
  tn__post *post =
      tn__alloc_aligned(engine->env, sizeof *post, _Alignof(tn__post));
  tn__segment *segment = segment_create(engine->env, TN__SEGMENT);
  *out = NULL;
  if (post == NULL || segment == NULL) {
    tn__free(engine->env, post);
    tn__free(engine->env, segment);
    return tn__fail_memory(sizeof *post + TN__SEGMENT, "the engine's post");
  }
  *post = (tn__post){.engine = engine,
                     .env = engine->env,
                     .to = segment->data,
                     .limit = segment->data + TN__SEGMENT,
                     .last = segment,
                     .from = segment->data,
                     .first = segment};
  *out = post;
  return TN_OK;
}

void tn__post_destroy(tn__post *post) {
  if (post == NULL) return;
  free_list(post->env, post->first);
  free_list(post->env, post->empty);
  free_list(post->env, atomic_load(&post->used));
  tn__free(post->env, post);
}

/* One that was given back, or a new one; one that is larger is not kept. */
static tn__segment *segment_get(tn__post *post, size_t bytes) {
  if (bytes > TN__SEGMENT) return segment_create(post->env, bytes);
  if (post->empty == NULL)
    post->empty =
        atomic_exchange_explicit(&post->used, NULL, memory_order_acquire);
  tn__segment *segment = post->empty;
  if (segment == NULL) return segment_create(post->env, TN__SEGMENT);
  post->empty = segment->next;
  segment->next = NULL;
  return segment;
}

static bool next_segment(tn__post *post, size_t bytes) {
  tn__segment *segment = segment_get(post, bytes);
  if (segment == NULL) return false;
  *(tn__record *)(void *)post->to = (tn__record){.flags = TN__RECORD_NEXT};
  post->posted += sizeof(tn__record);
  post->last->next = segment;
  post->last = segment;
  post->to = segment->data;
  post->limit = segment->data + segment->bytes;
  return true;
}

/* Where a record of so many bytes may be written, with room behind it for one
 * that says where it goes on; NULL: no memory. The gate is held. */
static void *reserve(tn__post *post, size_t bytes) {
  const size_t all = bytes + sizeof(tn__record);
  if ((size_t)(post->limit - post->to) < all && !next_segment(post, all))
    return NULL;
  tn__fetch(post->to + AHEAD);
  return post->to;
}

static void publish(tn__post *post, size_t bytes) {
  post->to += bytes;
  post->posted += bytes;
  /* In one order with the look for a clerk. */
  atomic_store(&post->end, post->posted);
}

bool tn__post_settled(const tn__engine *engine) {
  const tn__post *post = engine->post;
  if (post == NULL) return true;
  const uint64_t end = atomic_load_explicit(&post->end, memory_order_acquire);
  return atomic_load_explicit(&post->begin, memory_order_acquire) >= end;
}

/* ------------------------------------------------------------------ tokens */

static bool put_token(tn__post *post, tn__token *token,
                      const tn__frame *frame) {
  tn__record_token *record = reserve(post, sizeof *record);
  if (record == NULL) return false;
  if ((token->flags & TN__TOKEN_WAIT) == 0)
    token->flags |= tn__count_pushed(token->engine, frame);
  if (token->operation != NULL) tn__operation_count(token->operation);
  *record =
      (tn__record_token){.head = {.flags = TN__RECORD_TOKEN}, .token = token};
  publish(post, sizeof *record);
  return true;
}

static bool put_wait(tn__post *post, tn__token *token) {
  const uint64_t owner = tn__gate_borrow(post->engine);
  const bool done = put_token(post, token, NULL);
  tn__gate_return(post->engine, owner);
  return done;
}

static bool put_push(tn__post *post, tn__token *token, const tn__frame *frame) {
  tn__gate_take(post->engine);
  const bool done = put_token(post, token, frame);
  tn__gate_give(post->engine);
  return done;
}

bool tn__post_token(tn__token *token, const tn__frame *frame) {
  tn__post *post = token->engine->post;
  const bool wait = (token->flags & TN__TOKEN_WAIT) != 0;
  if (!(wait ? put_wait(post, token) : put_push(post, token, frame)))
    return false;
  tn__post_ring(post);
  return true;
}

static void count_alone(tn__token *token) {
  tn__engine *engine = token->engine;
  tn__gate_take(engine);
  token->flags |= tn__count_pushed(engine, NULL);
  tn__gate_give(engine);
}

bool tn__post_here(tn__token *token, uint64_t deadline) {
  /* Where nothing is posted nobody need be woken to take a record. */
  if (deadline == TN__FOREVER && !tn__post_settled(token->engine) &&
      tn__post_token(token, NULL))
    return true;
  if ((token->flags & TN__TOKEN_WAIT) == 0) count_alone(token);
  return tn__post_overtake(token, deadline);
}

/* What outlives its function, or belongs to a queue, cannot do without. */
static tn_code push_token(tn__engine *engine, const tn__job *job,
                          tn__operation *operation) {
  tn__token *token = tn__token_of(engine, job, operation);
  if (token == NULL) return tn__job_failed(job, TN_OUT_OF_MEMORY);
  if (tn__post_token(token, tn__frame_of(engine))) return TN_OK;
  tn__token_discard(token);
  return tn__job_failed(job, tn__fail_memory(TN__SEGMENT, "the engine's post"));
}

/* The room for all records is there before the first is written. */
static tn_code posted_push_all(tn__engine *engine, tn__token *first) {
  const tn__frame *frame = tn__frame_of(engine);
  size_t n = 0;
  for (const tn__token *each = first; each != NULL; each = each->next) ++n;
  if (reserve(engine->post, n * sizeof(tn__record_token)) == NULL)
    return tn__fail_memory(n * sizeof(tn__record_token), "the engine's post");
  while (first != NULL) {
    tn__token *token = first;
    first = token->next;
    token->next = NULL;
    const bool done = put_token(engine->post, token, frame);
    assert(done);
    (void)done;
  }
  tn__post_ring(engine->post);
  return TN_OK;
}

/* -------------------------------------------------------------------- jobs */

static bool has_more(const tn__job *job, const tn__operation *operation) {
  return job->priority != 0 || operation != NULL ||
         job->n_access > TN__RECORD_LINKS;
}

static size_t record_bytes(const tn__job *job, bool more) {
  const size_t bytes =
      sizeof(tn__record_job) + job->n_access * sizeof(uintptr_t);
  return more ? bytes + sizeof(tn__record_more) : bytes;
}

static void fill(tn__record_job *record, const tn__job *job) {
  record->run = job->run;
  record->arg = job->arg;
  record->drop = job->drop;
  record->name = job->name;
  for (uint32_t i = 0; i < job->n_access; ++i)
    record->uses[i] = (uintptr_t)job->access[i].var | job->access[i].mode;
}

/* The gate is held. */
static bool put_job(tn__engine *engine, const tn__job *job,
                    const tn__record_more *more, const tn__frame *frame) {
  tn__post *post = engine->post;
  const size_t bytes = record_bytes(job, more != NULL);
  tn__record_job *record = reserve(post, bytes);
  if (record == NULL) return false;
  record->head.flags = job->flags | tn__count_pushed(engine, frame);
  record->head.n_uses = job->n_access;
  fill(record, job);
  if (more != NULL) {
    record->head.flags |= TN__RECORD_MORE;
    *(tn__record_more *)(void *)(record->uses + job->n_access) = *more;
    if (more->operation != NULL) tn__operation_count(more->operation);
  }
  publish(post, bytes);
  return true;
}

static bool post_job(tn__engine *engine, const tn__job *job,
                     const tn__record_more *more) {
  const tn__frame *frame = tn__frame_of(engine);
  tn__gate_take(engine);
  const bool done = put_job(engine, job, more, frame);
  tn__gate_give(engine);
  return done;
}

static bool post_with_more(tn__engine *engine, const tn__job *job,
                           tn__operation *operation) {
  tn__record_more more = {.operation = operation, .priority = job->priority};
  if (job->n_access > TN__RECORD_LINKS) {
    more.links = tn__alloc(engine->env, job->n_access * sizeof *more.links);
    if (more.links == NULL) return false;
  }
  if (post_job(engine, job, &more)) return true;
  tn__free(engine->env, more.links);
  return false;
}

static tn_code posted_push(tn__engine *engine, const tn__job *job,
                           tn__operation *operation) {
  if ((job->flags & TN__JOB_ASYNC) != 0 || job->queue != NULL)
    return push_token(engine, job, operation);
  const bool done = has_more(job, operation)
                        ? post_with_more(engine, job, operation)
                        : post_job(engine, job, NULL);
  if (!done) {
    (void)tn__fail_memory(TN__SEGMENT, "a function on its way to the engine");
    return tn__job_failed(job, TN_OUT_OF_MEMORY);
  }
  tn__post_ring(engine->post);
  return TN_OK;
}

static void posted_ready(tn__engine *engine, tn__token *token) {
  tn__pool_ready(engine->pool, token);
}

const tn__engine_kind tn__kind_posted = {.push = posted_push,
                                         .push_all = posted_push_all,
                                         .ready = posted_ready,
                                         .done = tn__token_complete};
