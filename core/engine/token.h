/* SPDX-License-Identifier: Apache-2.0
 * token.h: tokens, one execution of a job each: their grants, their functions,
 * and their completion. This folder only.
 */
#ifndef TENON_ENGINE_TOKEN_H_
#define TENON_ENGINE_TOKEN_H_

#include "variable.h"

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

/* Adds 1 to a counter that only one thread at a time writes. */
static inline void tn__count_up(_Atomic uint64_t *count) {
  const uint64_t n = atomic_load_explicit(count, memory_order_relaxed);
  atomic_store_explicit(count, n + 1, memory_order_release);
}

#endif /* TENON_ENGINE_TOKEN_H_ */
