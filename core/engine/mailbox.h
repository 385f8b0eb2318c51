/* SPDX-License-Identifier: Apache-2.0
 * mailbox.h: pushes of an engine that runs nothing on the pushing thread, and
 * their dispatcher. This folder only.
 */
#ifndef TENON_ENGINE_MAILBOX_H_
#define TENON_ENGINE_MAILBOX_H_

#include "engine_state.h"
#include "pool.h"
#include "token.h"

/* Pushes of an engine that runs nothing on the pushing thread: records in push
 * order, in segments that are reused and kept until the engine ends. The
 * pushing thread appends under the gate. The dispatcher, a worker or a waiting
 * thread, takes from the beginning (dispatch.c). The two share only the
 * records, so a variable stays in the dispatcher's cache. `begin` and `end`
 * count bytes. */
typedef struct tn__mailbox_segment {
  struct tn__mailbox_segment *next;
  size_t bytes;
  unsigned char data[];
} tn__mailbox_segment;

typedef struct tn__mailbox {
  tn__engine *engine;
  const tn__env *env;
  /* Used under the gate. */
  _Alignas(64) unsigned char *to; /* place of the next record */
  unsigned char *limit;           /* the end of its segment */
  tn__mailbox_segment *last;
  tn__mailbox_segment *empty; /* a list */
  uint64_t n_written;         /* value of `end` */
  _Alignas(64) _Atomic uint64_t end;
  /* The thread that has set `taking` is the dispatcher. `wanted` counts the
   * threads that wait to set it; the dispatcher gives way to them. */
  _Alignas(64) _Atomic uint32_t taking;
  _Atomic uint32_t wanted;
  /* Used by the dispatcher. */
  _Alignas(64) _Atomic uint64_t begin; /* records below are done with */
  _Atomic uint64_t n_completed[2];     /* without a token, in each epoch */
  uint64_t known;                      /* last value of `end` that was read */
  uint32_t unreported; /* jobs were completed since the waiting threads were
                          notified */
  uint32_t inside;     /* the dispatcher itself has added a record */
  unsigned char *from;
  tn__mailbox_segment *first;
  _Alignas(64) _Atomic(tn__mailbox_segment *) used; /* returned ones; a list */
} tn__mailbox;

enum { /* tn__record.flags, besides TN__JOB_* and TN__TOKEN_* */
       TN__RECORD_NEXT = 1u << 24,  /* goes on in the next segment */
       TN__RECORD_TOKEN = 1u << 25, /* a tn__record_token */
       TN__RECORD_MORE = 1u << 26,  /* tn__record_more follows */
       TN__RECORD_CLAIMS = 32, /* claims that fit on the dispatcher's stack */
       TN__SEGMENT = 32 * 1024
};

typedef struct tn__record {
  uint32_t flags;
  uint32_t n_uses;
} tn__record;

typedef struct tn__record_token {
  tn__record head;
  tn__token *token;
} tn__record_token;

typedef struct tn__record_job {
  tn__record head;
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  void (*drop)(void *arg);
  const char *name;
  uintptr_t uses[]; /* a variable's address plus the mode */
} tn__record_job;

typedef struct tn__record_more {
  tn__operation *operation; /* held, or NULL */
  tn__claim *claims;        /* for more than TN__RECORD_CLAIMS uses, or NULL */
  int64_t priority;
} tn__record_more;

tn_code tn__mailbox_create(tn__engine *engine, tn__mailbox **out);
/* NULL is allowed. The mailbox is empty. */
void tn__mailbox_destroy(tn__mailbox *mailbox);

/* Lets a token on the stack of a waiting thread request its grants in its turn.
 * The token of a wait is not counted. False: the time was up, and it has
 * requested nothing; never if the deadline is TN__FOREVER. */
bool tn__mailbox_put_waiting(tn__token *token, uint64_t deadline);

/* True if all records so far are acquired or over, so that the words of
 * variables show their use. True without a mailbox. */
static inline bool tn__mailbox_is_settled(const tn__engine *engine) {
  const tn__mailbox *mailbox = engine->mailbox;
  if (mailbox == NULL) return true;
  const uint64_t end =
      atomic_load_explicit(&mailbox->end, memory_order_acquire);
  return atomic_load_explicit(&mailbox->begin, memory_order_acquire) >= end;
}

/* True if there are records and no dispatcher. */
bool tn__dispatch_is_wanted(tn__mailbox *mailbox);
/* Makes this thread the dispatcher, if there are records. */
bool tn__dispatch_begin(tn__mailbox *mailbox);
/* Takes records and runs small jobs with free variables, until there is other
 * work; a helping thread takes one batch. Then this thread is no longer the
 * dispatcher. False: it could take no record. */
bool tn__dispatch_records(tn__mailbox *mailbox, tn__worker_slot *slot);
/* Called after a record was added: makes sure that a thread will take it. */
void tn__dispatch_request(tn__mailbox *mailbox);
/* Requests the grants of a token that is counted, after all records so far and
 * without a record of its own. With a deadline other than TN__FOREVER it runs
 * no function. False: the time was up, and it has requested nothing. */
bool tn__dispatch_overtake(tn__token *token, uint64_t deadline);

#endif /* TENON_ENGINE_MAILBOX_H_ */
