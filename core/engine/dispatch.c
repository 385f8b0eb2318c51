/* SPDX-License-Identifier: Apache-2.0
 * dispatch.c: takes records out of the mailbox (mailbox.c) in their order, one
 * thread at a time: the *dispatcher*. In an engine with a mailbox only the
 * dispatcher requests grants. So free variables stay free while it runs a small
 * function without grants: the fast path of push.c, on a worker. All other jobs
 * get a token and its grants, and run as in other engines.
 *
 * A push that has returned TN_OK takes effect, even without memory for its
 * token. Then the record stays in the mailbox until there is memory, or until
 * its variables are free and the dispatcher runs it with a token on its stack.
 */
#include <assert.h>
#include <sched.h>

#include "device_queue.h"
#include "futex.h"
#include "mailbox.h"
#include "operation.h"
#include "push.h"
#include "ready_token.h"
#include "slab.h"
#include "token_execution.h"
#include "trace.h"
#include "travelling_error.h"

enum {
  BATCH = 64,       /* records between two checks for other work */
  FEW = 32,         /* after fewer records the dispatcher waits for more */
  AWAIT_ROUNDS = 2, /* checks for more records before it gives up */
  RELAX = 32,       /* pauses before each check */
  SPINS = 64,       /* pauses between two yields of the processor */
  PREFETCH = 512    /* bytes ahead of the prefetch */
};

#define MODES ((uintptr_t)3)

/* The mailbox that this thread dispatches, or NULL. */
static _Thread_local const tn__mailbox *dispatching
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

static uint64_t begin_of(const tn__mailbox *mailbox) {
  return atomic_load_explicit(&mailbox->begin, memory_order_relaxed);
}

/* A thread that finds the mailbox settled sees all earlier writes. */
static void advance_begin(tn__mailbox *mailbox, size_t bytes) {
  mailbox->from += bytes;
  atomic_store_explicit(&mailbox->begin, begin_of(mailbox) + bytes,
                        memory_order_release);
}

static void return_segment(tn__mailbox *mailbox, tn__mailbox_segment *segment) {
  tn__mailbox_segment *used =
      atomic_load_explicit(&mailbox->used, memory_order_relaxed);
  do segment->next = used;
  while (!atomic_compare_exchange_weak_explicit(&mailbox->used, &used, segment,
                                                memory_order_release,
                                                memory_order_relaxed));
}

/* The last record of the segment was taken; the next one is in the next
 * segment. */
static void leave_segment(tn__mailbox *mailbox) {
  tn__mailbox_segment *segment = mailbox->first;
  advance_begin(mailbox, sizeof(tn__record));
  mailbox->first = segment->next;
  mailbox->from = mailbox->first->data;
  if (segment->bytes == TN__SEGMENT)
    return_segment(mailbox, segment);
  else
    tn__free(mailbox->env, segment);
}

/* Each load of `end` takes its cache line, and those of the newest records,
 * from the pushing thread. A load per record would cost both threads more than
 * the record. */
static void refresh_end(tn__mailbox *mailbox) {
  mailbox->inside = 0;
  mailbox->known = atomic_load_explicit(&mailbox->end, memory_order_acquire);
}

/* The next known record, or one that the dispatcher itself has added; NULL:
 * there is none. */
static const tn__record *next_record(tn__mailbox *mailbox) {
  const uint64_t begin = begin_of(mailbox);
  if (begin == mailbox->known && mailbox->inside != 0) refresh_end(mailbox);
  if (begin == mailbox->known) return NULL;
  const tn__record *head = (const void *)mailbox->from;
  if ((head->flags & TN__RECORD_NEXT) == 0) return head;
  leave_segment(mailbox);
  return (const void *)mailbox->from;
}

/* ---------------------------------------------------------------- fast path */

/* Bits of the variables' words, without `except`, that keep the uses from
 * running at once. */
static uint64_t blocking_bits(const tn__record_job *record, uint64_t except) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < record->head.n_uses; ++i) {
    const uintptr_t use = record->uses[i];
    const uint64_t word =
        atomic_load_explicit(&var_of(use)->word, memory_order_acquire);
    any |= mode_of(use) == TN__READ ? word & ~TN__VAR_READERS : word;
  }
  return any & ~except;
}

static bool can_run_at_once(const tn__engine *engine,
                            const tn__record_job *record) {
  return (record->head.flags & TN__JOB_SMALL) != 0 &&
         more_of(record)->priority == 0 &&
         atomic_load_explicit(&engine->abandoned, memory_order_relaxed) == 0 &&
         blocking_bits(record, 0) == 0;
}

static void leave_failure(tn__engine *engine, const tn__record_job *record,
                          tn_code code) {
  tn__error *error =
      tn__error_create(engine, tn__error_add_name(code, record->name));
  tn__error_announce(engine, error);
  for (uint32_t i = 0; i < record->head.n_uses; ++i)
    if (mode_of(record->uses[i]) != TN__READ)
      tn__error_put(var_of(record->uses[i]), error);
  tn__error_release(error);
}

static tn_code call_job(tn__engine *engine, const tn__record_job *record) {
  if (atomic_load_explicit(&engine->tracing, memory_order_acquire) == 0)
    return record->run(record->arg, NULL);
  const char *name = record->name;
  const uint64_t begin = tn__now();
  const tn_code code = record->run(record->arg, NULL);
  tn__trace_span(engine, name, NULL, begin);
  return code;
}

/* The waiting threads are notified after the batch. */
static void count_completed(tn__mailbox *mailbox, uint32_t flags) {
  const uint32_t epoch = (flags & TN__TOKEN_EPOCH) != 0 ? 1 : 0;
  tn__count_up(&mailbox->n_completed[epoch]);
  mailbox->unreported = 1;
}

static void notify_waiters(tn__mailbox *mailbox) {
  if (mailbox->unreported == 0) return;
  mailbox->unreported = 0;
  tn__drain_notify(mailbox->engine);
}

/* Runs the job without grants. Jobs that the drop pushes belong to the current
 * epoch, as those of other functions do. */
static void run_without_grants(tn__mailbox *mailbox,
                               const tn__record_job *record) {
  tn__engine *engine = mailbox->engine;
  const uint32_t flags = record->head.flags;
  tn__operation *operation = more_of(record)->operation;
  tn__run_frame frame = {.outer = tn__run_frame_top, .engine = engine};
  frame.depth = frame.outer != NULL ? frame.outer->depth + 1 : 0;
  frame.flags = TN__FRAME_SYNC | (flags & TN__TOKEN_EPOCH);
  tn__run_frame_top = &frame;
  if ((flags & TN__TOKEN_LAST) != 0) {
    tn__var_deinit(var_of(record->uses[0]));
  } else {
    const tn_code code = call_job(engine, record);
    if (code != TN_OK) leave_failure(engine, record, code);
  }
  frame.flags = 0;
  tn__call_drop(record->drop, record->arg);
  if (operation != NULL) tn__operation_release(operation);
  tn__run_frame_top = frame.outer;
  tn__free(mailbox->env, more_of(record)->claims);
}

/* ---------------------------------------------------------------- slow path */

/* Fills a token from the record. Its claims have room for the record's uses. */
static void fill_token(tn__token *token, const tn__record_job *record) {
  const tn__record_more *more = more_of(record);
  const tn__job job = {.name = record->name,
                       .run = record->run,
                       .arg = record->arg,
                       .drop = record->drop,
                       .n_access = record->head.n_uses,
                       .flags = record->head.flags & (TN__RECORD_NEXT - 1u),
                       .priority = (int32_t)more->priority};
  for (uint32_t i = 0; i < job.n_access; ++i)
    token->claims[i] = (tn__claim){.var = var_of(record->uses[i]),
                                   .mode = mode_of(record->uses[i])};
  tn__token_begin(token, &job);
  token->operation = more->operation;
}

static void grant_token(tn__token *token) {
  if (tn__token_grant(token)) tn__token_ready(token);
}

static bool take_as_token(tn__mailbox *mailbox, const tn__record_job *record) {
  tn__claim *claims = more_of(record)->claims;
  const uint32_t n = record->head.n_uses;
  tn__token *token = claims != NULL
                         ? tn__token_create_with(mailbox->engine, n, claims)
                         : tn__token_create(mailbox->engine, n);
  if (token == NULL) return false;
  fill_token(token, record);
  grant_token(token);
  return true;
}

/* Runs the token on this thread, after a wait for devices. */
static void run_here(tn__token *token) {
  const bool granted = tn__token_grant(token);
  assert(granted); /* the variables were free, and no other thread requests
                      grants */
  (void)granted;
  for (uint32_t i = 0; i < token->n_claims; ++i)
    (void)tn__fence_wait(
        token->claims[i].var,
        token->claims[i].mode == TN__READ ? TN__WAIT_WRITERS : TN__WAIT_ALL,
        TN__FOREVER);
  (void)tn__token_run(token);
}

/* Used without memory for a token. False: the variables are in use; the end of
 * that use is the time to try again. */
static bool run_on_stack(tn__mailbox *mailbox, const tn__record_job *record) {
  tn__claim room[TN__RECORD_CLAIMS];
  tn__claim *claims = more_of(record)->claims;
  tn__token token = {.engine = mailbox->engine, .flags = TN__TOKEN_STACK};
  if (blocking_bits(record, TN__VAR_ERROR | TN__VAR_FENCE) != 0) return false;
  token.claims = claims != NULL ? claims : room;
  fill_token(&token, record);
  run_here(&token);
  tn__free(mailbox->env, claims);
  return true;
}

/* --------------------------------------------------------------- dispatcher */

static bool take_job(tn__mailbox *mailbox, const tn__record_job *record,
                     bool runs) {
  const uint32_t flags = record->head.flags;
  const size_t bytes = bytes_of(&record->head);
  if (!runs || !can_run_at_once(mailbox->engine, record)) {
    if (!take_as_token(mailbox, record) &&
        !(runs && run_on_stack(mailbox, record)))
      return false;
    advance_begin(mailbox, bytes);
    return true;
  }
  run_without_grants(mailbox, record);
  advance_begin(mailbox, bytes);
  count_completed(mailbox, flags);
  return true;
}

/* The token may be freed as soon as it is granted. */
static void take_token(tn__mailbox *mailbox, const tn__record_token *record) {
  tn__token *token = record->token;
  grant_token(token);
  advance_begin(mailbox, sizeof *record);
}

/* False: without memory the record stays. */
static bool take_record(tn__mailbox *mailbox, const tn__record *head,
                        bool runs) {
  __builtin_prefetch(mailbox->from + PREFETCH);
  if ((head->flags & TN__RECORD_TOKEN) == 0)
    return take_job(mailbox, (const void *)head, runs);
  take_token(mailbox, (const void *)head);
  return true;
}

static bool try_lock(tn__mailbox *mailbox) {
  if (atomic_load_explicit(&mailbox->taking, memory_order_relaxed) != 0 ||
      atomic_exchange_explicit(&mailbox->taking, 1, memory_order_acquire) != 0)
    return false;
  dispatching = mailbox;
  return true;
}

static bool is_wanted(const tn__mailbox *mailbox) {
  return atomic_load_explicit(&mailbox->wanted, memory_order_relaxed) != 0;
}

static bool is_empty(const tn__mailbox *mailbox) {
  return atomic_load(&mailbox->end) == atomic_load(&mailbox->begin);
}

bool tn__dispatch_is_wanted(tn__mailbox *mailbox) {
  return !is_empty(mailbox) && atomic_load(&mailbox->taking) == 0;
}

void tn__dispatch_request(tn__mailbox *mailbox) {
  tn__pool *pool = mailbox->engine->pool;
  if (dispatching == mailbox) {
    mailbox->inside = 1;
    return;
  }
  if (atomic_load(&mailbox->taking) != 0) return;
  tn__pool_start(pool);
  tn__pool_wake_workers(pool, 1);
}

/* Sequentially consistent with the publishing of records that are still there.
 */
static void end_dispatch(tn__mailbox *mailbox) {
  dispatching = NULL;
  atomic_store(&mailbox->taking, 0);
}

bool tn__dispatch_begin(tn__mailbox *mailbox) {
  return !is_empty(mailbox) && !is_wanted(mailbox) && try_lock(mailbox);
}

/* Takes up to a batch of records; returns their number. */
static uint32_t take_batch(tn__mailbox *mailbox, bool *stuck) {
  const tn__record *head;
  uint32_t n = 0;
  refresh_end(mailbox);
  while (n < BATCH && !is_wanted(mailbox) &&
         (head = next_record(mailbox)) != NULL) {
    if (!take_record(mailbox, head, true)) {
      *stuck = true;
      break;
    }
    ++n;
  }
  notify_waiters(mailbox);
  return n;
}

/* Waits a moment for more records, so that they come in batches. */
static bool await_more(const tn__mailbox *mailbox) {
  for (uint32_t i = 1; i <= AWAIT_ROUNDS * RELAX && !is_wanted(mailbox); ++i) {
    tn__cpu_relax();
    if (i % RELAX == 0 && !is_empty(mailbox)) return true;
  }
  return false;
}

/* Continues while there is no other work. */
static bool serve_locked(tn__mailbox *mailbox, tn__worker_slot *slot,
                         bool helping) {
  bool any = false;
  bool stuck = false;
  uint32_t n;
  do {
    n = take_batch(mailbox, &stuck);
    any |= n != 0;
  } while (!stuck && !helping && !tn__pool_has_work(slot) &&
           (n >= FEW || await_more(mailbox)));
  return any;
}

bool tn__dispatch_records(tn__mailbox *mailbox, tn__worker_slot *slot) {
  const bool helping = tn__pool_worker_number(slot->pool) == 0;
  const bool any = serve_locked(mailbox, slot, helping);
  end_dispatch(mailbox);
  /* A worker that took no record searches again; a helping thread may not. */
  if ((any || helping) && tn__dispatch_is_wanted(mailbox))
    tn__dispatch_request(mailbox);
  return any;
}

/* --------------------------------------------------------------- overtaking */

/* The dispatcher gives way as soon as it sees `wanted`. False: the time is up.
 */
static bool lock_wanted(tn__mailbox *mailbox, uint64_t deadline) {
  bool locked = false;
  atomic_fetch_add(&mailbox->wanted, 1);
  for (uint32_t n = 1; !(locked = try_lock(mailbox)); ++n) {
    tn__cpu_relax();
    if (n % SPINS != 0) continue;
    if (tn__now() >= deadline) break;
    (void)sched_yield();
  }
  atomic_fetch_sub(&mailbox->wanted, 1);
  return locked;
}

/* Takes all records before `end`. */
static bool take_until(tn__mailbox *mailbox, uint64_t end, uint64_t deadline) {
  const bool runs = deadline == TN__FOREVER;
  for (uint32_t n = 1; begin_of(mailbox) < end; ++n) {
    refresh_end(mailbox);
    if (!take_record(mailbox, next_record(mailbox), runs)) return false;
    if (n % BATCH == 0 && tn__now() >= deadline) return false;
  }
  return true;
}

bool tn__dispatch_overtake(tn__token *token, uint64_t deadline) {
  tn__mailbox *mailbox = token->engine->mailbox;
  const uint64_t end = atomic_load(&mailbox->end);
  for (;;) {
    if (!lock_wanted(mailbox, deadline)) return false;
    const bool there = take_until(mailbox, end, deadline);
    if (there) grant_token(token);
    notify_waiters(mailbox);
    end_dispatch(mailbox);
    if (tn__dispatch_is_wanted(mailbox)) tn__dispatch_request(mailbox);
    if (there) return true;
    if (tn__now() >= deadline) return false;
    (void)sched_yield();
  }
}
