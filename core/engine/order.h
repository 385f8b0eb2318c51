/* SPDX-License-Identifier: Apache-2.0
 * order.h: the protocol of variables, and the functions that the files of
 * core/engine share. Inside core/engine only.
 *
 * A push requests a *grant* on each of its variables: a reader's or a writer's.
 * If the variable allows it the grant comes at once, otherwise the *claim*
 * joins the end of the variable's queue. A token runs when it holds all of its
 * grants. When it is complete it releases them, and each release grants the
 * next claims:
 *
 *   acquire READ    empty queue, no writer         readers += 1
 *   acquire write   empty queue, no grant at all   WRITER
 *   otherwise                                      join the queue
 *   release READ    last reader, queue not empty   hand over to the head
 *   release write   queue not empty                hand over to the head
 *   hand over       the head is a writer           it gets WRITER, and takes
 *                                                  the queue along if that
 *                                                  begins with a writer
 *                   readers are at the head        all of them, up to the next
 *                                                  writer, get a reader's grant
 *
 * A writer first hands over the queue that it has taken along. From writer to
 * writer this touches no word of the variable, so the pushing thread keeps the
 * variable in its cache. When a reader is at its head, the queue goes back,
 * before the claims that have joined meanwhile.
 *
 * `word` of a variable changes by compare-and-swap while LOCK is clear, or by
 * plain stores of the thread that has set LOCK. A thread holds LOCK for the few
 * instructions that touch the queue. If the queue is empty, each of the steps
 * above is one compare-and-swap.
 *
 * One thread at a time acquires (the gate), so a token joins all of its queues
 * at one moment. Two pushes have the same order in every queue, and no circle
 * of waiting tokens can arise. Releasing needs no gate. In an engine that
 * dispatches, the gate orders records, and only the dispatcher acquires, in the
 * order of the records (pool.h).
 *
 * Only the holder of a writer's grant changes `error` and `fence`; the holder
 * of any grant may read them. There is one exception, under LOCK: readers leave
 * their own fences there, and the failure of an earlier writer's fence.
 *
 * The fast path needs none of this. The owner of the gate runs a small function
 * with free variables inside of the gate and without grants. Meanwhile others
 * can only release, so free variables stay free. If the function pushes a job
 * it first gets its token and its grants, and is then completed like all
 * others. The dispatcher does the same outside of the gate; a job that its
 * function pushes becomes a later record.
 */
#ifndef TENON_ORDER_H_
#define TENON_ORDER_H_

#include "engine.h"

#define TN__VAR_LOCK (1ull << 0)
#define TN__VAR_WRITER (1ull << 1)
#define TN__VAR_QUEUED (1ull << 2)
#define TN__VAR_ERROR (1ull << 3)   /* error is set */
#define TN__VAR_FENCE (1ull << 4)   /* fence is set */
#define TN__VAR_LEAVING (1ull << 5) /* a claim in the queue may leave it */
#define TN__VAR_READER (1ull << 32)

typedef struct tn__slab tn__slab;

/* One token's use of one variable: its request for a grant. */
typedef struct tn__claim {
  tn__token *token;
  /* Next in the variable's queue. Of a writer that holds its grant: the tail of
   * the queue that it has taken along. */
  struct tn__claim *next;
  tn__var *var;
  uint32_t mode;
  uint32_t may_leave; /* tn__var_cancel may be called */
} tn__claim;

enum {                            /* tn__token.flags, above those of jobs */
       TN__TOKEN_WAIT = 1u << 16, /* on the stack of a waiting thread; it has no
                                     function to run */
       TN__TOKEN_HERE = 1u << 17, /* the waiting thread runs it itself */
       TN__TOKEN_LAST = 1u << 18, /* its end may free the variable */
       TN__TOKEN_STACK = 1u << 19, /* not from the slab */
       TN__TOKEN_SIZE = 1u << 20,  /* two bits: index of the slab's size */
       TN__TOKEN_EPOCH = 1u << 22, /* pushed in epoch 1, not 0 */
       TN__TOKEN_LOST = 1u << 23 /* its queue cannot wait for another: the data
                                    that it overwrites may still be in use */
};

/* The first 64 bytes contain everything that running the token needs. */
struct tn__token {
  tn__engine *engine;
  tn_code (*run)(void *arg, tn__token *token);
  void *arg;
  void (*drop)(void *arg);
  tn__queue *queue;
  tn__token *next;       /* in the list that contains it */
  _Atomic uint32_t wait; /* missing grants, plus 1 while it is pushed */
  uint32_t n_claims;
  uint32_t flags;
  int32_t priority;
  const char *name;
  tn__operation *operation; /* held, or NULL */
  tn__claim *claims;        /* after the token, or separate memory */
  _Atomic uint32_t over; /* of WAIT and HERE: 1 if ready; futex. naive.c uses it
                            in another way for other tokens */
  tn_code code;          /* naive.c: the code of tn__token_done */
};

/* A failure. Reference counted; immutable. */
typedef struct tn__error {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn_code code;
  uint32_t reserved;
  struct tn__error *next; /* in the engine's list of unreported errors */
  char text[];
} tn__error;

/* A function that this thread runs. Frames are on the stack. */
typedef struct tn__run_frame {
  struct tn__run_frame *outer;
  tn__engine *engine;
  /* The job of a function that runs under the gate without grants; NULL once it
   * has grants. */
  const tn__job *job;
  tn__operation *operation;
  tn__token *token; /* NULL: it has none yet */
  uint32_t depth;   /* from 0 */
  uint32_t flags;   /* TN__TOKEN_EPOCH, for its pushes; TN__FRAME_* */
} tn__run_frame;

enum {
  TN__FRAME_GATE = 1u << 0, /* runs inside of the gate */
  TN__FRAME_SYNC = 1u << 1, /* is over when it returns */
  TN__FRAME_END = 1u << 2,  /* its operation is deleted */
  TN__DEPTH_MAX = 16 /* of functions that run inside of a push, and of nested
                        drops; deeper pushes go to the pool */
};

/* --------------------------------------------------------------- variable.c */

/* Requests claim->mode on claim->var. True: granted. The gate is held. */
bool tn__var_acquire(tn__claim *claim);
/* Releases a grant. Returns the first claim that is granted by that, or NULL.
 * The granted claims are no longer in the queue. */
tn__claim *tn__var_release(tn__claim *claim);
/* The next granted claim; only readers are granted together. */
static inline tn__claim *tn__claim_next(const tn__claim *claim) {
  return claim->mode == TN__READ ? claim->next : NULL;
}
/* Removes a claim that may leave from its queue. False if it is granted, or
 * about to be. The removal may grant others, as above. */
bool tn__var_cancel(tn__claim *claim, tn__claim **granted);
/* Changes bits of word while other threads may change the rest. */
void tn__var_mark(tn__var *var, uint64_t clear, uint64_t set);

/* ------------------------------------------------------------------ push.c */

enum { TN__CLAIMS_HERE = 16 }; /* fit on a stack */

/* Fills one claim per variable, with the combined mode of its accesses. Returns
 * the number of claims. */
uint32_t tn__claims_fill(tn__claim *claims, const tn__access *access,
                         uint32_t n);
/* The same in place; `var` and `mode` of each claim are set. */
uint32_t tn__claims_merge(tn__claim *claims, uint32_t n);
/* Creates a token for the job, without grants and requests. NULL without
 * memory, with the error text. */
tn__token *tn__token_create_for(tn__engine *engine, const tn__job *job,
                                tn__operation *operation);
/* The same for an existing token of the engine with enough claims. */
void tn__token_fill(tn__token *token, const tn__job *job);
/* The same if its claims already have `var` and `mode` of job->n_access
 * accesses; ignores job->access. */
void tn__token_begin(tn__token *token, const tn__job *job);
/* Counts a push from inside of `frame` (or NULL). Returns TN__TOKEN_EPOCH or 0.
 * The gate is held. */
uint32_t tn__count_pushed(tn__engine *engine, const tn__run_frame *frame);
/* Counts the token as pushed, from inside of `frame` (or NULL), and requests
 * all of its grants. True: it holds them. The gate is held. */
bool tn__token_acquire(tn__token *token, const tn__run_frame *frame);
/* The same for a token that is counted already. For the holder of the gate and
 * the dispatcher (pool.h). */
bool tn__token_grant(tn__token *token);
/* Prefetches a cache line for writing. */
static inline void tn__prefetch_write(const void *line) {
#if defined(__x86_64__)
  /* Compilers emit a prefetch for reading if they do not know the processor. */
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/* Prefetches a token and its first claim. */
static inline void tn__token_prefetch(const tn__token *token) {
  tn__prefetch_write(token);
  tn__prefetch_write(&token->name);
}

/* Runs a small job without grants, if that is allowed. */
bool tn__push_fast(tn__engine *engine, const tn__job *job, tn_code *code);
/* Drops a job that could not be pushed. Returns the code and keeps its text. */
tn_code tn__job_drop_failed(const tn__job *job, tn_code code);
/* tn__push, also for a prepared operation. */
tn_code tn__push_for(tn__engine *engine, const tn__job *job,
                     tn__operation *operation);
/* Adds 1 to a counter that only one thread at a time writes. */
static inline void tn__count_up(_Atomic uint64_t *count) {
  const uint64_t n = atomic_load_explicit(count, memory_order_relaxed);
  atomic_store_explicit(count, n + 1, memory_order_release);
}

/* ------------------------------------------------------------- operation.c */

/* Counts one more push. The gate is held. */
void tn__operation_count(tn__operation *operation);
/* Counts a completed push. */
void tn__operation_release(tn__operation *operation);

/* ----------------------------------------------------------------- token.c */

extern _Thread_local tn__run_frame *tn__run_frame_top
    __attribute__((tls_model("initial-exec")));

/* Number of drops that this thread is inside of. */
extern _Thread_local uint32_t tn__drop_depth
    __attribute__((tls_model("initial-exec")));

/* Calls `drop` unless it is NULL. */
static inline void tn__call_drop(void (*drop)(void *arg), void *arg) {
  if (drop == NULL) return;
  ++tn__drop_depth;
  drop(arg);
  --tn__drop_depth;
}

/* The innermost frame of this engine, or NULL. */
tn__run_frame *tn__run_frame_of(const tn__engine *engine);
/* TN_INVALID if the caller is inside of a function or between tn__gate_enter
 * and tn__gate_leave. */
tn_code tn__check_outside(const tn__engine *engine, const char *action);

/* Counts one grant; the last one makes the token ready. */
void tn__token_granted(tn__token *token);
/* The token holds its grants and waits for no fence: passes it to the thread or
 * pool that runs it. */
void tn__token_ready(tn__token *token);
/* Runs a ready token and completes it, unless it is asynchronous or parked for
 * a fence. Then runs successors, one by one, that no other thread need run. */
void tn__token_execute(tn__token *token);
/* The same for one token that is not asynchronous. Returns its code. */
tn_code tn__token_run(tn__token *token);
/* True if the token must wait for a device before it can run on the host. Then
 * it becomes ready again later. */
bool tn__token_try_park(tn__token *token);
/* Runs the function unless an error prevents that. If it did not run or failed,
 * the variables that it writes carry the error. */
tn_code tn__token_call(tn__token *token);
/* Puts a failure, with the thread's error text, on the variables that the token
 * writes. */
void tn__token_fail(tn__token *token, tn_code code);
/* Releases the grants, calls the drop and frees. A code other than TN_OK is a
 * new failure, which first goes to the variables. */
void tn__token_complete(tn__token *token, tn_code code);
/* The same for a code that tn__token_call has put on the variables. Keeps the
 * thread's error text, since the caller returns the code. */
tn_code tn__token_return(tn__token *token, tn_code code);

/* ------------------------------------------------------------------ slab.c */

tn_code tn__slab_create(const tn__env *env, tn__slab **out);
void tn__slab_destroy(tn__slab *slab);
/* With room for n_claims; NULL without memory. */
tn__token *tn__token_create(tn__engine *engine, uint32_t n_claims);
/* The same with claims that the token then owns, or NULL. */
tn__token *tn__token_create_with(tn__engine *engine, uint32_t n_claims,
                                 tn__claim *claims);
/* Frees a token that was never counted. */
void tn__token_discard(tn__token *token);
/* Counts the token as complete in its epoch, and frees it. */
void tn__token_end(tn__token *token);
/* Number of tokens that were completed in the epoch. */
uint64_t tn__slab_completed(const tn__slab *slab, uint32_t epoch);

/* ------------------------------------------------------- travelling_error.c */

/* Creates an error with the thread's error text. Never fails: without memory it
 * returns the engine's reserved error, which reports the lack of memory. */
tn__error *tn__error_create(tn__engine *engine, tn_code code);
/* Creates the reserved error of the engine. */
tn_code tn__error_init(tn__engine *engine);
void tn__error_deinit(tn__engine *engine);
/* The next tn__wait_all reports it. */
void tn__error_announce(tn__engine *engine, tn__error *error);
/* The same for a failure that several calls may announce. It is reported once
 * if no other failure came in between. */
void tn__error_announce_again(tn__engine *engine, tn__error *error);
/* Returns the unreported errors, oldest first, and their number. The caller
 * owns them. */
tn__error *tn__error_collect(tn__engine *engine, uint64_t *n);
/* Puts the name of the failed function before the thread's error text, unless
 * the text begins with the name and a ':' or ' '. Returns the code. */
tn_code tn__error_add_name(tn_code code, const char *name);
/* Creates an error with the text "`name` was not run: " and the text of
 * `cause`. */
tn__error *tn__error_derive(tn__engine *engine, tn__error *cause,
                            const char *name);
tn__error *tn__error_retain(tn__error *error);
void tn__error_release(tn__error *error);
/* Puts the error on a variable (NULL clears) and adds an owner. The caller
 * holds the writer's grant of the variable. */
void tn__error_put(tn__var *var, tn__error *error);
/* Sets the thread's error text; returns the code. */
tn_code tn__error_set_text(const tn__error *error);

/* ------------------------------------------------------------------ wait.c */

/* Wakes the threads that wait for tokens to complete, after their count rose.
 */
void tn__drain_notify(tn__engine *engine);
/* Waits until all tokens of both epochs are complete, but not for devices. */
void tn__drain(tn__engine *engine);
/* Waits until all earlier pushes are complete, on devices too. Ignores later
 * pushes. */
void tn__wait_for_pushed(tn__engine *engine);

/* --------------------------------------------------- fences, device_queue.c */

/* Before a token runs: makes its queue wait for the fences of its variables.
 * True: a token of the host was parked, and becomes ready again when the device
 * is done. A failure of the device goes to the variable. */
bool tn__fence_before(tn__token *token);
/* After a token of a queue ran with `code`: puts a fence on its variables. Also
 * if the token failed, since it may have enqueued work before; then the code
 * and its text stay. */
tn_code tn__fence_after(tn__token *token, tn_code code);
/* Waits until devices have written the variable, or until they no longer use
 * it. A failure goes to the variable. False: the deadline (tn__now) has passed
 * before. */
bool tn__fence_wait(tn__var *var, uint32_t condition, uint64_t deadline);
void tn__fence_drop(tn__var *var);
/* Waits until the devices have executed everything that is enqueued so far.
 * Announces their failures. */
void tn__queues_await(tn__engine *engine);
/* Inserts a ready token into the order of its queue. */
void tn__queue_add_ready(tn__token *token);

/* ----------------------------------------------------------------- trace.c */

/* Nanoseconds of the monotonic clock. */
uint64_t tn__now(void);
/* Records one span on this thread. */
void tn__trace_span(tn__engine *engine, const char *name,
                    const tn__queue *queue, uint64_t begin);

#endif /* TENON_ORDER_H_ */
