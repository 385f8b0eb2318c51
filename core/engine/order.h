/* SPDX-License-Identifier: Apache-2.0
 * order.h: the protocol of variables, and what the files of core/engine are to
 * each other. Inside core/engine only.
 *
 * A push asks for a *grant* on each of its variables: a reader's or a writer's.
 * It gets one at once if the variable allows it, otherwise it joins the end of
 * the variable's queue. A token runs when it holds all of its grants; when it
 * is complete it gives them back, and whoever that lets in is granted then:
 *
 *   acquire READ    nobody queued, no writer       readers += 1
 *   acquire write   nobody queued, nobody at all   WRITER
 *   otherwise                                      join the queue
 *   release READ    the last reader, queue waits   hand over to its head
 *   release write   queue waits                    hand over to its head
 *   hand over       the head is a writer           it gets WRITER, and takes
 *                                                  the queue along if that
 *                                                  begins with a writer
 *                   readers stand at the head      all of them, up to the next
 *                                                  writer, get a reader's grant
 *
 * A writer hands what it has taken along over first: from writer to writer
 * without a look at the variable, which who pushes has in its cache; once a
 * reader heads it, it goes back in front of what has joined meanwhile.
 *
 * `word` of a variable changes by compare-and-swap while LOCK is clear, or by
 * plain stores of the thread that has set LOCK. LOCK is held for a few
 * instructions that touch the queue; where nobody waits, each of the steps
 * above is one compare-and-swap.
 *
 * Acquiring is done by one thread at a time (the gate), so a token joins all of
 * its queues at one moment: two pushes stand in the same order in every queue,
 * and nothing can wait in a circle. Releasing needs no gate. In an engine that
 * dispatches, the gate orders records, and only the clerk, who takes them in
 * that order, acquires (pool.h).
 *
 * Only who holds a variable's writer's grant changes `error` and `fence`; who
 * holds any grant may read them. (What readers find out about devices, they
 * leave there under LOCK: fences of their own, and the failure of an earlier
 * writer's.)
 *
 * The short way needs none of this. The owner of the gate runs a small function
 * whose variables are free without a grant on any of them, inside of the gate:
 * others can only release meanwhile, so what is free stays free. If such a
 * function pushes something, it gets its token and its grants first, and is
 * completed like all others. The clerk does the same outside of the gate: what
 * its function pushes is posted, and so stands behind it.
 */
#ifndef TENON_ORDER_H_
#define TENON_ORDER_H_

#include "engine.h"

#define TN__VAR_LOCK (1ull << 0)
#define TN__VAR_WRITER (1ull << 1)
#define TN__VAR_QUEUED (1ull << 2)
#define TN__VAR_ERROR (1ull << 3)   /* error is set */
#define TN__VAR_FENCE (1ull << 4)   /* fence is set */
#define TN__VAR_LEAVING (1ull << 5) /* somebody in the queue may leave it */
#define TN__VAR_READER (1ull << 32)

typedef struct tn__slab tn__slab;

/* One token's use of one variable. */
typedef struct tn__link {
  tn__token *token;
  struct tn__link *next; /* in the variable's queue; of a writer that holds its
                            grant: the tail of what it has taken along */
  tn__var *var;
  uint32_t mode;
  uint32_t may_leave; /* tn__var_cancel may be called */
} tn__link;

enum {                             /* tn__token.flags, above those of jobs */
       TN__TOKEN_WAIT = 1u << 16,  /* on the stack of a waiting thread: being
                                      ready is all it does */
       TN__TOKEN_HERE = 1u << 17,  /* the waiting thread runs it itself */
       TN__TOKEN_LAST = 1u << 18,  /* its end may free the variable */
       TN__TOKEN_STACK = 1u << 19, /* not from the slab */
       TN__TOKEN_SIZE = 1u << 20,  /* two bits: which of the slab's sizes */
       TN__TOKEN_EPOCH = 1u << 22, /* pushed in epoch 1, not 0 */
       TN__TOKEN_LOST = 1u << 23   /* its queue cannot wait for another: what it
                                      overwrites may still be in use */
};

/* What running it needs stands in the first 64 bytes. */
struct tn__token {
  tn__engine *engine;
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  void (*drop)(void *arg);
  tn__queue *queue;
  tn__token *next;       /* in whatever list it stands */
  _Atomic uint32_t wait; /* grants that it lacks, plus 1 while it is pushed */
  uint32_t n_links;
  uint32_t flags;
  int32_t priority;
  const char *name;
  tn__operation *operation; /* held, or NULL */
  tn__link *links;          /* behind it, or memory of its own */
  _Atomic uint32_t over;    /* of WAIT and HERE: 1 ready; futex. naive.c has its
                               own use of it for the others */
  tn_code code;             /* naive.c: what tn__token_done said */
};

/* What failed. Counted; immutable. */
typedef struct tn__error {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn_code code;
  uint32_t reserved;
  struct tn__error *next; /* in the engine's list of those not yet told */
  char text[];
} tn__error;

/* A function that this thread runs. They stand on the stack. */
typedef struct tn__frame {
  struct tn__frame *outer;
  tn__engine *engine;
  /* Run without any mark on its variables, under the gate, and not yet marked:
   * this is what it was pushed as. Otherwise NULL. */
  const tn__job *job;
  tn__operation *operation;
  tn__token *token; /* NULL: it has none yet */
  uint32_t depth;   /* from 0 */
  uint32_t flags;   /* TN__TOKEN_EPOCH, for what it pushes; TN__FRAME_* */
} tn__frame;

enum {
  TN__FRAME_GATE = 1u << 0, /* runs inside of the gate */
  TN__FRAME_SYNC = 1u << 1, /* is over when it returns */
  TN__FRAME_END = 1u << 2,  /* its operation is deleted */
  TN__DEPTH_MAX = 16        /* of functions that run inside of a push, and of
                               drops inside of each other: beyond that, what
                               is pushed goes to the pool */
};

/* ------------------------------------------------------------------- var.c */

/* Asks for link->mode on link->var. True: granted. The gate is held. */
bool tn__var_acquire(tn__link *link);
/* Gives a grant back. Returns the first of the links that are granted by that,
 * NULL if there is none; they are no longer in the queue. */
tn__link *tn__var_release(tn__link *link);
/* The next of them: only readers are granted together. */
static inline tn__link *tn__link_next(const tn__link *link) {
  return link->mode == TN__READ ? link->next : NULL;
}
/* Takes a link that may leave out of its queue: false if it is granted, or
 * about to be. Others may be granted by that, as above. */
bool tn__var_cancel(tn__link *link, tn__link **granted);
/* Changes bits of word while others may change the rest. */
void tn__var_mark(tn__var *var, uint64_t clear, uint64_t set);

/* ------------------------------------------------------------------ push.c */

enum { TN__LINKS_HERE = 16 }; /* fit on a stack */

/* One access per variable, with the mode that they have together; how many. */
uint32_t tn__links_fill(tn__link *links, const tn__access *access, uint32_t n);
/* The same in place: of each link `var` and `mode` are set. */
uint32_t tn__links_merge(tn__link *links, uint32_t n);
/* A token for the job, which holds and asks for nothing yet; NULL: no memory,
 * with the error text. */
tn__token *tn__token_of(tn__engine *engine, const tn__job *job,
                        tn__operation *operation);
/* The same for one of its engine that has links enough. */
void tn__token_fill(tn__token *token, const tn__job *job);
/* The same when its links have `var` and `mode` of job->n_access accesses,
 * which are not looked at. */
void tn__token_begin(tn__token *token, const tn__job *job);
/* Counts a push from inside of `frame` or NULL; TN__TOKEN_EPOCH, or 0. The gate
 * is held. */
uint32_t tn__count_pushed(tn__engine *engine, const tn__frame *frame);
/* Counts it as pushed, from inside of `frame` or NULL, and asks for all of its
 * grants. True: it has them. The gate is held. */
bool tn__token_acquire(tn__token *token, const tn__frame *frame);
/* The same for one that is counted already; by the gate's holder or the clerk
 * (pool.h). */
bool tn__token_grant(tn__token *token);
/* Asks for a cache line that is about to be written. */
static inline void tn__fetch(const void *line) {
#if defined(__x86_64__)
  /* Compilers ask for it to be read, unless they know the processor. */
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/* For a token and its first link. */
static inline void tn__token_fetch(const tn__token *token) {
  tn__fetch(token);
  tn__fetch(&token->name);
}

/* Runs a small job without any mark on its variables, if that is allowed. */
bool tn__push_short(tn__engine *engine, const tn__job *job, tn_code *code);
/* Drops a job that could not be pushed; returns the code, with its text. */
tn_code tn__job_failed(const tn__job *job, tn_code code);
/* tn__push, also of a prepared operation. */
tn_code tn__push_for(tn__engine *engine, const tn__job *job,
                     tn__operation *operation);
/* Adds 1 to what only one thread at a time writes. */
static inline void tn__count_up(_Atomic uint64_t *count) {
  const uint64_t n = atomic_load_explicit(count, memory_order_relaxed);
  atomic_store_explicit(count, n + 1, memory_order_release);
}

/* ------------------------------------------------------------- operation.c */

/* One more push of it; the gate is held. */
void tn__operation_count(tn__operation *operation);
/* Behind the completion of one. */
void tn__operation_release(tn__operation *operation);

/* ----------------------------------------------------------------- token.c */

extern _Thread_local tn__frame *tn__frame_top
    __attribute__((tls_model("initial-exec")));

/* How many drops this thread is inside of. */
extern _Thread_local uint32_t tn__drops
    __attribute__((tls_model("initial-exec")));

/* Calls it, unless it is NULL. */
static inline void tn__drop(void (*drop)(void *arg), void *arg) {
  if (drop == NULL) return;
  ++tn__drops;
  drop(arg);
  --tn__drops;
}

/* The innermost frame of this engine, or NULL. */
tn__frame *tn__frame_of(const tn__engine *engine);
/* TN_INVALID if the caller is inside of a function or of tn__enter. */
tn_code tn__outside(const tn__engine *engine, const char *what);

/* Counts one grant; at the last one the token is made ready. */
void tn__token_granted(tn__token *token);
/* It holds its grants, and waits for no fence: to whoever runs it. */
void tn__token_ready(tn__token *token);
/* Runs a ready token and, unless it is asynchronous or parked for a fence,
 * completes it; then successors, one by one, that nobody else need run. */
void tn__token_execute(tn__token *token);
/* The same for one token, with what it returned. It is not asynchronous. */
tn_code tn__token_run(tn__token *token);
/* Whether it must wait for a device before it can run on the host; then it is
 * made ready again. */
bool tn__token_parked(tn__token *token);
/* Runs the function, if nothing stands against it; otherwise, and if it fails,
 * what it writes carries the error. */
tn_code tn__token_call(tn__token *token);
/* Leaves a failure, whose text is the thread's, on what it writes. */
void tn__token_fail(tn__token *token, tn_code code);
/* Gives the grants back, drops, frees. A code other than TN_OK is a failure
 * that is new: it is left on the variables first. */
void tn__token_complete(tn__token *token, tn_code code);
/* The same, of a code that tn__token_call has left on them, for a caller who
 * returns it: keeps the thread's error text. */
tn_code tn__token_return(tn__token *token, tn_code code);

/* ------------------------------------------------------------------ slab.c */

tn_code tn__slab_create(const tn__env *env, tn__slab **out);
void tn__slab_destroy(tn__slab *slab);
/* With room for n_links; NULL if there is no memory. */
tn__token *tn__token_create(tn__engine *engine, uint32_t n_links);
/* The same with links that it takes over, or NULL. */
tn__token *tn__token_create_with(tn__engine *engine, uint32_t n_links,
                                 tn__link *links);
/* Frees one that was never counted. */
void tn__token_discard(tn__token *token);
/* Counts it as complete in its epoch, and frees it. */
void tn__token_end(tn__token *token);
/* How many were completed in the epoch. */
uint64_t tn__slab_completed(const tn__slab *slab, uint32_t epoch);

/* ----------------------------------------------------------------- error.c */

/* Of the thread's error text. Never fails: without memory it is the engine's
 * one error that says so. */
tn__error *tn__error_create(tn__engine *engine, tn_code code);
/* The engine's one error that needs no memory. */
tn_code tn__error_init(tn__engine *engine);
void tn__error_deinit(tn__engine *engine);
/* To be told by the next tn__wait_all. */
void tn__error_announce(tn__engine *engine, tn__error *error);
/* The same for a failure that may be left in several places, one by one: it is
 * told once if nothing else failed in between. */
void tn__error_announce_again(tn__engine *engine, tn__error *error);
/* What is to be told, oldest first, which the caller owns, and how many there
 * were. */
tn__error *tn__error_collect(tn__engine *engine, uint64_t *n);
/* Puts the name of the function that failed in front of the thread's error
 * text, unless that begins with the name and a ':' or ' '; returns the code. */
tn_code tn__error_sign(tn_code code, const char *name);
/* "`name` was not run: " and the story of `cause`. */
tn__error *tn__error_follow(tn__engine *engine, tn__error *cause,
                            const char *name);
tn__error *tn__error_retain(tn__error *error);
void tn__error_release(tn__error *error);
/* Puts it on a variable whose writer's grant is held (NULL clears), which takes
 * a count of its own. */
void tn__error_put(tn__var *var, tn__error *error);
/* Sets the thread's error text; returns the code. */
tn_code tn__error_say(const tn__error *error);

/* ------------------------------------------------------------------ wait.c */

/* After a count of completed tokens went up: wakes who waits for them. */
void tn__drain_notify(tn__engine *engine);
/* Waits until all tokens of both epochs are complete, but not for what devices
 * still do. */
void tn__drain(tn__engine *engine);
/* Waits until those that were pushed before are, on devices too, whatever is
 * pushed meanwhile. */
void tn__settle(tn__engine *engine);

/* ----------------------------------------------------------------- queue.c */

/* Before a token runs: lets its queue wait for the fences of its variables. A
 * token of the host that must wait for the device is parked (true), and made
 * ready again when that is done. Failure of the device is put on the variable.
 */
bool tn__fence_before(tn__token *token);
/* After a token of a queue was run, with `code`: its fence, on its variables,
 * also if it failed, as it may have enqueued something before; then the code
 * and its text stay. */
tn_code tn__fence_after(tn__token *token, tn_code code);
/* Waits until devices are done with the variable: with what was written, or
 * with everything; a failure is put on it. False: the deadline (tn__now) has
 * passed before. */
bool tn__fence_wait(tn__var *var, uint32_t what, uint64_t deadline);
void tn__fence_drop(tn__var *var);
/* Waits until the devices are done with everything enqueued so far; their
 * failures are announced then. */
void tn__queues_await(tn__engine *engine);
/* Hands a ready token to its queue's own order. */
void tn__queue_ready(tn__token *token);

/* ----------------------------------------------------------------- trace.c */

/* Nanoseconds of the monotonic clock. */
uint64_t tn__now(void);
/* One span, on this thread. */
void tn__trace_span(tn__engine *engine, const char *name,
                    const tn__queue *queue, uint64_t begin);

#endif /* TENON_ORDER_H_ */
