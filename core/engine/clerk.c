/* SPDX-License-Identifier: Apache-2.0
 * clerk.c: takes records out of the post (post.c) in their order, one thread at
 * a time: the *clerk*. In an engine with a post only the clerk asks for grants,
 * so what is free stays free while it runs a small function without a mark on
 * any variable: the short way of push.c, on a worker. Everything else gets a
 * token and its grants, and is run as in other engines.
 *
 * A push that has returned TN_OK happens, also when there is no memory for its
 * token: then the record stays where it is until there is memory or its
 * variables are free; then the clerk itself runs it, by a token on its stack.
 */
#include <assert.h>
#include <sched.h>

#include "pool.h"

enum {
  BATCH = 64, /* records before a look at what else there is to do */
  FEW = 32,   /* of them: then the clerk waits for more */
  LINGER = 2, /* looks for more before the clerk gives up */
  RELAX = 32, /* pauses before each */
  SPINS = 64, /* between two offers of the processor to others */
  AHEAD = 512 /* bytes, of what is fetched before it is needed */
};

#define MODES ((uintptr_t)3)

/* The post whose clerk this thread is. */
static _Thread_local const tn__post *mine
    __attribute__((tls_model("initial-exec")));

static tn__var *var_of(uintptr_t use) {
  return (tn__var *)(use & ~MODES);
}

static uint32_t mode_of(uintptr_t use) {
  return (uint32_t)(use & MODES);
}

/* ----------------------------------------------------------------- records */

static const tn__record_more *more_of(const tn__record_job *record) {
  static const tn__record_more none = {0};
  return (record->head.flags & TN__RECORD_MORE) != 0
             ? (const void *)(record->uses + record->head.n_uses)
             : &none;
}

static size_t bytes_of(const tn__record *head) {
  if ((head->flags & TN__RECORD_TOKEN) != 0) return sizeof(tn__record_token);
  const size_t bytes =
      sizeof(tn__record_job) + head->n_uses * sizeof(uintptr_t);
  return (head->flags & TN__RECORD_MORE) != 0 ? bytes + sizeof(tn__record_more)
                                              : bytes;
}

static uint64_t begin_of(const tn__post *post) {
  return atomic_load_explicit(&post->begin, memory_order_relaxed);
}

/* What was done before is seen by who finds the post settled. */
static void advance(tn__post *post, size_t bytes) {
  post->from += bytes;
  atomic_store_explicit(&post->begin, begin_of(post) + bytes,
                        memory_order_release);
}

static void give_back(tn__post *post, tn__segment *segment) {
  tn__segment *used = atomic_load_explicit(&post->used, memory_order_relaxed);
  do segment->next = used;
  while (!atomic_compare_exchange_weak_explicit(
      &post->used, &used, segment, memory_order_release, memory_order_relaxed));
}

/* Its last record was taken; the next one stands in the next segment. */
static void leave_segment(tn__post *post) {
  tn__segment *segment = post->first;
  advance(post, sizeof(tn__record));
  post->first = segment->next;
  post->from = post->first->data;
  if (segment->bytes == TN__SEGMENT)
    give_back(post, segment);
  else
    tn__free(post->env, segment);
}

/* Each look takes the line of `end`, and those of the newest records, from who
 * posts: a look for each record would cost both of them more than the record.
 */
static void look(tn__post *post) {
  post->inside = 0;
  post->known = atomic_load_explicit(&post->end, memory_order_acquire);
}

/* The next record of those that are known, or that the clerk has posted itself;
 * NULL: there is none. */
static const tn__record *next(tn__post *post) {
  const uint64_t begin = begin_of(post);
  if (begin == post->known && post->inside != 0) look(post);
  if (begin == post->known) return NULL;
  const tn__record *head = (const void *)post->from;
  if ((head->flags & TN__RECORD_NEXT) == 0) return head;
  leave_segment(post);
  return (const void *)post->from;
}

/* ------------------------------------------------------------ the short way */

/* What of the words keeps the uses from running at once, but `except`. */
static uint64_t in_the_way(const tn__record_job *record, uint64_t except) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < record->head.n_uses; ++i) {
    const uintptr_t use = record->uses[i];
    const uint64_t word =
        atomic_load_explicit(&var_of(use)->word, memory_order_acquire);
    any |= mode_of(use) == TN__READ ? word & ~TN__VAR_READERS : word;
  }
  return any & ~except;
}

static bool is_short(const tn__engine *engine, const tn__record_job *record) {
  return (record->head.flags & TN__JOB_SMALL) != 0 &&
         more_of(record)->priority == 0 &&
         atomic_load_explicit(&engine->abandoned, memory_order_relaxed) == 0 &&
         in_the_way(record, 0) == 0;
}

static void fail(tn__engine *engine, const tn__record_job *record,
                 tn_code code) {
  tn__error *error =
      tn__error_create(engine, tn__error_sign(code, record->name));
  tn__error_announce(engine, error);
  for (uint32_t i = 0; i < record->head.n_uses; ++i)
    if (mode_of(record->uses[i]) != TN__READ)
      tn__error_put(var_of(record->uses[i]), error);
  tn__error_release(error);
}

static tn_code call(tn__engine *engine, const tn__record_job *record) {
  if (atomic_load_explicit(&engine->tracing, memory_order_acquire) == 0)
    return record->run(record->arg, NULL);
  const char *name = record->name;
  const uint64_t begin = tn__now();
  const tn_code code = record->run(record->arg, NULL);
  tn__trace_span(engine, name, NULL, begin);
  return code;
}

/* Who waits for that is told behind the batch. */
static void count(tn__post *post, uint32_t flags) {
  const uint32_t epoch = (flags & TN__TOKEN_EPOCH) != 0 ? 1 : 0;
  tn__count_up(&post->n_completed[epoch]);
  post->untold = 1;
}

static void tell(tn__post *post) {
  if (post->untold == 0) return;
  post->untold = 0;
  tn__drain_notify(post->engine);
}

/* Without any mark. What the drop pushes belongs to the epoch that goes on, as
 * that of other functions. */
static void run_unmarked(tn__post *post, const tn__record_job *record) {
  tn__engine *engine = post->engine;
  const uint32_t flags = record->head.flags;
  tn__operation *operation = more_of(record)->operation;
  tn__frame frame = {.outer = tn__frame_top, .engine = engine};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  frame.flags = TN__FRAME_SYNC | (flags & TN__TOKEN_EPOCH);
  tn__frame_top = &frame;
  if ((flags & TN__TOKEN_LAST) != 0) {
    tn__var_deinit(var_of(record->uses[0]));
  } else {
    const tn_code code = call(engine, record);
    if (code != TN_OK) fail(engine, record, code);
  }
  frame.flags = 0;
  tn__drop(record->drop, record->arg);
  if (operation != NULL) tn__operation_release(operation);
  tn__frame_top = frame.outer;
  tn__free(post->env, more_of(record)->links);
}

/* ------------------------------------------------------------- the long way */

/* A token of the record, whose links have room for its uses. */
static void fill(tn__token *token, const tn__record_job *record) {
  const tn__record_more *more = more_of(record);
  const tn__job job = {.name = record->name,
                       .run = record->run,
                       .arg = record->arg,
                       .drop = record->drop,
                       .n_access = record->head.n_uses,
                       .flags = record->head.flags & (TN__RECORD_NEXT - 1u),
                       .priority = (int32_t)more->priority};
  for (uint32_t i = 0; i < job.n_access; ++i)
    token->links[i] = (tn__link){.var = var_of(record->uses[i]),
                                 .mode = mode_of(record->uses[i])};
  tn__token_begin(token, &job);
  token->operation = more->operation;
}

static void grant(tn__token *token) {
  if (tn__token_grant(token)) tn__token_ready(token);
}

static bool take_long(tn__post *post, const tn__record_job *record) {
  tn__link *links = more_of(record)->links;
  const uint32_t n = record->head.n_uses;
  tn__token *token = links != NULL
                         ? tn__token_create_with(post->engine, n, links)
                         : tn__token_create(post->engine, n);
  if (token == NULL) return false;
  fill(token, record);
  grant(token);
  return true;
}

/* Devices are waited for here. */
static void run_here(tn__token *token) {
  const bool granted = tn__token_grant(token);
  assert(granted); /* nothing was in the way, and nobody else asks */
  (void)granted;
  for (uint32_t i = 0; i < token->n_links; ++i)
    (void)tn__fence_wait(
        token->links[i].var,
        token->links[i].mode == TN__READ ? TN__WAIT_WRITERS : TN__WAIT_ALL,
        TN__FOREVER);
  (void)tn__token_run(token);
}

/* For want of memory. False: something is in the way, whose end will be a
 * reason to try again. */
static bool run_on_stack(tn__post *post, const tn__record_job *record) {
  tn__link room[TN__RECORD_LINKS];
  tn__link *links = more_of(record)->links;
  tn__token token = {.engine = post->engine, .flags = TN__TOKEN_STACK};
  if (in_the_way(record, TN__VAR_ERROR | TN__VAR_FENCE) != 0) return false;
  token.links = links != NULL ? links : room;
  fill(&token, record);
  run_here(&token);
  tn__free(post->env, links);
  return true;
}

/* ------------------------------------------------------------------ the clerk
 */

static bool take_job(tn__post *post, const tn__record_job *record, bool runs) {
  const uint32_t flags = record->head.flags;
  const size_t bytes = bytes_of(&record->head);
  if (!runs || !is_short(post->engine, record)) {
    if (!take_long(post, record) && !(runs && run_on_stack(post, record)))
      return false;
    advance(post, bytes);
    return true;
  }
  run_unmarked(post, record);
  advance(post, bytes);
  count(post, flags);
  return true;
}

/* The token may be gone when it is granted. */
static void take_token(tn__post *post, const tn__record_token *record) {
  tn__token *token = record->token;
  grant(token);
  advance(post, sizeof *record);
}

/* False: for want of memory the record stays. */
static bool take(tn__post *post, const tn__record *head, bool runs) {
  __builtin_prefetch(post->from + AHEAD);
  if ((head->flags & TN__RECORD_TOKEN) == 0)
    return take_job(post, (const void *)head, runs);
  take_token(post, (const void *)head);
  return true;
}

static bool try_lock(tn__post *post) {
  if (atomic_load_explicit(&post->taking, memory_order_relaxed) != 0 ||
      atomic_exchange_explicit(&post->taking, 1, memory_order_acquire) != 0)
    return false;
  mine = post;
  return true;
}

static bool is_wanted(const tn__post *post) {
  return atomic_load_explicit(&post->wanted, memory_order_relaxed) != 0;
}

static bool is_empty(const tn__post *post) {
  return atomic_load(&post->end) == atomic_load(&post->begin);
}

bool tn__post_wanted(tn__post *post) {
  return !is_empty(post) && atomic_load(&post->taking) == 0;
}

void tn__post_ring(tn__post *post) {
  tn__pool *pool = post->engine->pool;
  if (mine == post) {
    post->inside = 1;
    return;
  }
  if (atomic_load(&post->taking) != 0) return;
  tn__pool_start(pool);
  tn__pool_call(pool, 1);
}

/* In one order with the posting of what is still there. */
static void unlock(tn__post *post) {
  mine = NULL;
  atomic_store(&post->taking, 0);
}

bool tn__post_take(tn__post *post) {
  return !is_empty(post) && !is_wanted(post) && try_lock(post);
}

/* Up to a batch; how many. */
static uint32_t take_batch(tn__post *post, bool *stuck) {
  const tn__record *head;
  uint32_t n = 0;
  look(post);
  while (n < BATCH && !is_wanted(post) && (head = next(post)) != NULL) {
    if (!take(post, head, true)) {
      *stuck = true;
      break;
    }
    ++n;
  }
  tell(post);
  return n;
}

/* Waits a moment for more to come, so that it will be some. */
static bool linger(const tn__post *post) {
  for (uint32_t i = 1; i <= LINGER * RELAX && !is_wanted(post); ++i) {
    tn__relax();
    if (i % RELAX == 0 && !is_empty(post)) return true;
  }
  return false;
}

/* Goes on as long as there is nothing else to do. */
static bool serve_locked(tn__post *post, tn__seat *seat, bool guest) {
  bool any = false;
  bool stuck = false;
  uint32_t n;
  do {
    n = take_batch(post, &stuck);
    any |= n != 0;
  } while (!stuck && !guest && !tn__pool_busy(seat) &&
           (n >= FEW || linger(post)));
  return any;
}

bool tn__post_serve(tn__post *post, tn__seat *seat) {
  const bool guest = tn__pool_worker(seat->pool) == 0;
  const bool any = serve_locked(post, seat, guest);
  unlock(post);
  /* A worker that could take nothing looks again; a guest may not. */
  if ((any || guest) && tn__post_wanted(post)) tn__post_ring(post);
  return any;
}

/* --------------------------------------------------------------- overtaking */

/* The clerk makes way as soon as it sees it. False: the time is up. */
static bool lock_wanted(tn__post *post, uint64_t deadline) {
  bool locked = false;
  atomic_fetch_add(&post->wanted, 1);
  for (uint32_t n = 1; !(locked = try_lock(post)); ++n) {
    tn__relax();
    if (n % SPINS != 0) continue;
    if (tn__now() >= deadline) break;
    (void)sched_yield();
  }
  atomic_fetch_sub(&post->wanted, 1);
  return locked;
}

/* Takes everything that was posted before `end`. */
static bool take_until(tn__post *post, uint64_t end, uint64_t deadline) {
  const bool runs = deadline == TN__FOREVER;
  for (uint32_t n = 1; begin_of(post) < end; ++n) {
    look(post);
    if (!take(post, next(post), runs)) return false;
    if (n % BATCH == 0 && tn__now() >= deadline) return false;
  }
  return true;
}

bool tn__post_overtake(tn__token *token, uint64_t deadline) {
  tn__post *post = token->engine->post;
  const uint64_t end = atomic_load(&post->end);
  for (;;) {
    if (!lock_wanted(post, deadline)) return false;
    const bool there = take_until(post, end, deadline);
    if (there) grant(token);
    tell(post);
    unlock(post);
    if (tn__post_wanted(post)) tn__post_ring(post);
    if (there) return true;
    if (tn__now() >= deadline) return false;
    (void)sched_yield();
  }
}
