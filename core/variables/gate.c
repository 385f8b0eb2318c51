/* SPDX-License-Identifier: Apache-2.0
 * gate.c: the gate, which pushes pass one at a time.
 */
#include "gate.h"

#include <assert.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine_state.h"

enum {
  /* Consecutive pushes that make a thread the owner of the gate, after an owner
   * lost the gate for the first time; each further loss doubles the number. */
  PATIENCE = 1024,
  PATIENCE_DOUBLED_MAX = 10
};

/* The key of a thread. In an engine that runs nothing on the pushing thread it
 * differs from every tn__self, so tn__gate_enter never succeeds. */
static uint64_t key_of(const tn__engine *engine, uint64_t thread) {
  return thread == 0 || engine->dispatch == 0 ? thread : ~thread;
}

static tn__gate_node *holder_of(const tn__engine *engine) {
  return atomic_load_explicit(&engine->gate.holder, memory_order_acquire);
}

bool tn__gate_is_mine(const tn__engine *engine) {
  /* The holder changes to or from this thread only by itself, or while it is
   * outside. */
  const tn__gate_node *node = holder_of(engine);
  return node != NULL && node->thread == tn__self &&
         atomic_load_explicit(&node->busy, memory_order_relaxed) != 0;
}

bool tn__gate_is_entered(const tn__engine *engine) {
  const uint64_t chooser =
      atomic_load_explicit(&engine->chooser, memory_order_relaxed);
  return tn__gate_is_mine(engine) || (chooser != 0 && chooser == tn__self);
}

static bool enter_gate(tn__engine *engine) {
  return tn__self != 0 && tn__gate_enter_as(engine, key_of(engine, tn__self));
}

/* The gate has no owner while a trace is recorded or the engine is abandoned.
 */
static bool may_own(const tn__engine *engine) {
  return engine->gate_allowed != 0 && !tn__engine_is_naive(engine) &&
         atomic_load_explicit(&engine->tracing, memory_order_relaxed) == 0 &&
         atomic_load_explicit(&engine->abandoned, memory_order_relaxed) == 0;
}

/* The thread's node; NULL if other threads have all nodes. The lock is held. */
static tn__gate_node *node_of(tn__engine *engine, uint64_t thread) {
  for (size_t i = 0; i < TN__GATE_NODES; ++i) {
    tn__gate_node *node = &engine->nodes[i];
    if (node->thread == thread) return node;
    if (node->thread != 0) continue;
    node->thread = thread;
    node->key = key_of(engine, thread);
    return node;
  }
  return NULL;
}

static void set_owner(tn__engine *engine, uint64_t thread) {
  if (thread == 0 || !may_own(engine)) return;
  tn__gate_node *node = node_of(engine, thread);
  atomic_store_explicit(&engine->gate.holder, node, memory_order_release);
  atomic_store_explicit(&engine->gate.owner, node, memory_order_release);
}

/* Takes the gate from its owner. Returns the owner's tn__self, or 0 if there is
 * no owner. The lock is held. */
static uint64_t revoke_owner(tn__engine *engine) {
  const tn__gate_node *holder = holder_of(engine);
  if (holder == NULL) return 0;
  atomic_store_explicit(&engine->gate.owner, NULL, memory_order_seq_cst);
  if (holder->thread != tn__self)
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  /* Now either the owner has read the NULL, or this thread sees its `busy`. */
  while (atomic_load_explicit(&holder->busy, memory_order_acquire) != 0)
    (void)sched_yield();
  atomic_store_explicit(&engine->gate.holder, NULL, memory_order_relaxed);
  return holder->thread;
}

/* True if this thread has paused the engine and so keeps all others out. */
static bool is_pausing(const tn__engine *engine) {
  return atomic_load_explicit(&engine->paused_by, memory_order_relaxed) ==
         tn__self_get();
}

/* Meanwhile another thread may have made this one the owner again. */
static bool lock_unless_owner(tn__engine *engine) {
  (void)pthread_mutex_lock(&engine->gate_lock);
  const tn__gate_node *owner =
      atomic_load_explicit(&engine->gate.owner, memory_order_relaxed);
  if (owner == NULL || owner->thread != tn__self) return true;
  (void)pthread_mutex_unlock(&engine->gate_lock);
  return false;
}

void tn__gate_take(tn__engine *engine) {
  assert(!tn__gate_is_mine(engine));
  do
    if (enter_gate(engine) || is_pausing(engine)) return;
  while (!lock_unless_owner(engine));
  if (revoke_owner(engine) != 0) ++engine->n_revoked;
}

/* Consecutive pushes before a thread owns the gate. */
static uint32_t pushes_to_own(const tn__engine *engine) {
  uint32_t n = engine->n_revoked;
  if (n == 0) return 0;
  if (--n > PATIENCE_DOUBLED_MAX) n = PATIENCE_DOUBLED_MAX;
  return (uint32_t)PATIENCE << n;
}

void tn__gate_give(tn__engine *engine) {
  if (tn__gate_is_mine(engine)) {
    tn__gate_leave(engine);
    return;
  }
  if (is_pausing(engine)) return;
  engine->n_same = engine->last == tn__self ? engine->n_same + 1 : 0;
  engine->last = tn__self;
  if (engine->n_same >= pushes_to_own(engine)) set_owner(engine, tn__self);
  (void)pthread_mutex_unlock(&engine->gate_lock);
}

uint64_t tn__gate_borrow(tn__engine *engine) {
  assert(!tn__gate_is_mine(engine));
  if (enter_gate(engine) || is_pausing(engine)) return 0;
  (void)pthread_mutex_lock(&engine->gate_lock);
  return revoke_owner(engine);
}

void tn__gate_return(tn__engine *engine, uint64_t owner) {
  if (tn__gate_is_mine(engine)) {
    tn__gate_leave(engine);
  } else if (!is_pausing(engine)) {
    set_owner(engine, owner);
    (void)pthread_mutex_unlock(&engine->gate_lock);
  }
}

/* Inside of the gate all other threads are kept out already. A pause may change
 * state that the owner must not pass by, so the owner loses the gate and comes
 * back by the lock. */
void tn__engine_pause(tn__engine *engine) {
  if (tn__gate_is_mine(engine)) {
    atomic_store_explicit(&engine->gate.owner, NULL, memory_order_relaxed);
    return;
  }
  if (!is_pausing(engine)) {
    (void)pthread_mutex_lock(&engine->gate_lock);
    engine->paused_owner = revoke_owner(engine);
    atomic_store_explicit(&engine->paused_by, tn__self, memory_order_relaxed);
  }
  ++engine->n_paused;
}

void tn__engine_resume(tn__engine *engine) {
  if (tn__gate_is_mine(engine)) return;
  assert(is_pausing(engine) && engine->n_paused > 0);
  if (--engine->n_paused != 0) return;
  atomic_store_explicit(&engine->paused_by, 0, memory_order_relaxed);
  set_owner(engine, engine->paused_owner);
  (void)pthread_mutex_unlock(&engine->gate_lock);
}
