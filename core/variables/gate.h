/* SPDX-License-Identifier: Apache-2.0
 * gate.h: the gate, which pushes pass one at a time. Part of the contract of
 * engine.h, but for the last section.
 */
#ifndef TENON_VARIABLES_GATE_H_
#define TENON_VARIABLES_GATE_H_

#include "job.h"
#include "thread.h"

/* The gate lets one thread at a time push. As long as only one thread pushes,
 * it owns the gate, and passing the gate costs two plain stores. Another thread
 * takes the gate away with a membarrier, and later pushes take a lock.
 *
 * Between enter and leave no other thread pushes, so variables that are
 * readable or writable stay so. A short function that never waits can run at
 * once, without a grant on its variables. If enter returns false, push a job
 * instead. Between enter and leave call nothing of this header except
 * tn__var_is_readable, tn__var_is_writable, tn__var_fail and tn__parallel_for,
 * which then uses this thread only. */
typedef struct tn__gate_node {
  _Alignas(64) uint64_t key; /* of one thread, for ever; 0: unused */
  uint64_t thread;           /* its tn__self */
  _Atomic uint32_t busy;     /* the thread is inside; only it writes this */
  uint32_t reserved;
} tn__gate_node;

typedef struct tn__gate {
  _Atomic(tn__gate_node *) owner; /* NULL: no owner */
  _Atomic(tn__gate_node *)
      holder; /* the owner, until another thread sees it outside */
} tn__gate;   /* first member of tn__engine */

/* Enters the gate if the owner's key is `key` (gate.c). A thread that comes
 * too late sets and clears `busy` of its own node only, and no other thread's
 * passage depends on that node. */
static inline bool tn__gate_enter_as(tn__engine *engine, uint64_t key) {
  tn__gate *gate = (tn__gate *)engine;
  tn__gate_node *node =
      atomic_load_explicit(&gate->owner, memory_order_acquire);
  if (node == NULL || node->key != key ||
      atomic_load_explicit(&node->busy, memory_order_relaxed) != 0)
    return false;
  atomic_store_explicit(&node->busy, 1, memory_order_relaxed);
  /* Orders the compiler only: the thread that takes the gate away orders this
   * processor with a membarrier. */
  atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&gate->owner, memory_order_acquire) == node)
    return true;
  atomic_store_explicit(&node->busy, 0, memory_order_release);
  return false;
}

static inline bool tn__gate_enter(tn__engine *engine) {
  return tn__gate_enter_as(engine, tn__self);
}

static inline void tn__gate_leave(tn__engine *engine) {
  tn__gate *gate = (tn__gate *)engine;
  tn__gate_node *node =
      atomic_load_explicit(&gate->holder, memory_order_relaxed);
  atomic_store_explicit(&node->busy, 0, memory_order_release);
}

/* True if this thread is between enter and leave, or inside of
 * tn__inline_job.choose. Then it must neither wait nor push. For functions that
 * allocate or free memory. */
bool tn__gate_is_entered(const tn__engine *engine);

/* Keeps all other threads from pushing until resume: their pushes wait. Pending
 * operations continue. For changes of tables that pushes read without a lock.
 */
void tn__engine_pause(tn__engine *engine);
void tn__engine_resume(tn__engine *engine);

/* ------------------------------------------------------- inside of the engine
 */

/* Lets this thread push: as the owner of the gate, or by the lock. Not while
 * tn__gate_is_mine. */
void tn__gate_take(tn__engine *engine);
void tn__gate_give(tn__engine *engine);
/* The same for waits, which are no pushes: the owner stays the owner. */
uint64_t tn__gate_borrow(tn__engine *engine);
void tn__gate_return(tn__engine *engine, uint64_t owner);
/* True if this thread is between tn__gate_enter and tn__gate_leave. */
bool tn__gate_is_mine(const tn__engine *engine);

#endif /* TENON_VARIABLES_GATE_H_ */
