/* SPDX-License-Identifier: Apache-2.0
 * engine_state.h: the engine itself, and the functions of its kind. For the
 * folders of the engine.
 */
#ifndef TENON_VARIABLES_ENGINE_STATE_H_
#define TENON_VARIABLES_ENGINE_STATE_H_

#include <pthread.h>

#include "gate.h"

/* Number of threads that may ever own the gate of an engine. A node cannot pass
 * to another thread, since its first thread may still read it. */
enum { TN__GATE_NODES = 64 };

struct tn__engine {
  /* Written by the pushing thread. */
  tn__gate gate;                /* first: gate.h */
  _Atomic uint64_t n_pushed[2]; /* tokens, in each epoch (wait.c) */
  _Atomic uint32_t epoch;
  uint32_t n_same; /* consecutive pushes by `last`, under gate_lock */
  uint64_t last;
  /* Rarely written. */
  _Alignas(64) const tn__env *env;
  const struct tn__engine_kind *kind;
  struct tn__pool *pool;       /* NULL: naive */
  struct tn__mailbox *mailbox; /* NULL: pushes request grants themselves */
  struct tn__slab *slab;
  _Atomic(struct tn__trace *) trace; /* NULL: there was none yet */
  uint32_t workers;
  uint32_t dispatch;
  _Atomic uint32_t tracing;
  _Atomic uint32_t abandoned;
  _Atomic uint32_t draining; /* 1 + the epoch that a thread waits for, or 0 */
  _Atomic uint32_t drained;  /* futex: changes when that epoch may have ended */
  uint32_t gate_allowed;     /* 0: the system has no membarrier */
  /* The rest. */
  _Alignas(64) pthread_mutex_t gate_lock; /* used while the gate has no owner */
  _Atomic uint64_t chooser;               /* tn__self of the thread inside of
                                             tn__inline_job.choose, or 0 */
  _Atomic uint64_t paused_by;
  uint32_t n_paused;
  uint64_t paused_owner; /* owner of the gate when it was paused */
  uint32_t n_revoked;    /* each doubles the pushes that make the next owner */
  tn__token *nested;     /* naive: pushed from inside, oldest first */
  tn__token **nested_end;
  bool running; /* naive: a function runs, and keeps all other pushes out */
  pthread_mutex_t drain_lock; /* epochs end one after the other */
  pthread_mutex_t error_lock;
  struct tn__error *unreported; /* failures that wait_all has not reported */
  struct tn__error **unreported_end;
  uint64_t n_unreported;
  struct tn__error *no_memory; /* the reserved error, which needs no memory */
  pthread_mutex_t queue_lock;  /* protects the two fields below */
  tn__queue *queues;           /* newest first */
  uint64_t n_queues;           /* number of queues ever created */
  tn__gate_node nodes[TN__GATE_NODES]; /* of threads that have owned the gate */
};

/* The functions that differ between the kinds of engines. */
typedef struct tn__engine_kind {
  tn_code (*push)(tn__engine *engine, const tn__job *job,
                  tn__operation *operation);
  /* Pushes a list of tokens, all or none, while all other threads are kept from
   * pushing. */
  tn_code (*push_all)(tn__engine *engine, tn__token *first);
  void (*ready)(tn__engine *engine, tn__token *token);
  void (*done)(tn__token *token, tn_code code); /* of asynchronous tokens */
} tn__engine_kind;

/* True if the engine runs each function inside of push. */
static inline bool tn__engine_is_naive(const tn__engine *engine) {
  return engine->pool == NULL;
}

#endif /* TENON_VARIABLES_ENGINE_STATE_H_ */
