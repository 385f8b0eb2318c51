/* SPDX-License-Identifier: Apache-2.0
 * token.h: tokens, one execution of a job each. For the folders of the engine.
 */
#ifndef TENON_VARIABLES_TOKEN_H_
#define TENON_VARIABLES_TOKEN_H_

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

#endif /* TENON_VARIABLES_TOKEN_H_ */
