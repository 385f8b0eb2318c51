/* SPDX-License-Identifier: Apache-2.0
 * engine.c: creates and destroys engines, and contains the gate, which pushes
 * pass one at a time.
 */
#include <assert.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine_state.h"
#include "mailbox.h"
#include "slab.h"
#include "trace.h"
#include "travelling_error.h"
#include "wait.h"

_Static_assert(sizeof(tn__var) == 32, "stands inside of every array");

_Thread_local uint64_t tn__self __attribute__((tls_model("initial-exec")));

enum {
  /* Consecutive pushes that make a thread the owner of the gate, after an owner
   * lost the gate for the first time; each further loss doubles the number. */
  PATIENCE = 1024,
  PATIENCE_DOUBLED_MAX = 10
};

uint64_t tn__self_get(void) {
  static _Atomic uint64_t next = 1;
  if (tn__self == 0)
    tn__self = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
  return tn__self;
}

/* -------------------------------------------------------------------- begin */

static bool register_membarrier(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
                 0) == 0;
}

static uint32_t count_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return (uint32_t)CPU_COUNT(&set);
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (uint32_t)n : 1;
}

/* The lock is held for some dozen nanoseconds, so a thread that finds it locked
 * tries again for a moment before it sleeps. */
static void init_gate_lock(tn__engine *engine) {
  pthread_mutexattr_t attr;
  (void)pthread_mutexattr_init(&attr);
  (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
  (void)pthread_mutex_init(&engine->gate_lock, &attr);
  (void)pthread_mutexattr_destroy(&attr);
}

static const tn__engine_kind *kind_of(const tn__engine_options *options) {
  if (options->kind == TN__ENGINE_NAIVE) return &tn__kind_naive;
  return options->dispatch != 0 ? &tn__kind_dispatching : &tn__kind_pooled;
}

static void init_engine(tn__engine *engine, const tn__engine_options *options) {
  *engine = (tn__engine){
      .env = options->env,
      .kind = kind_of(options),
      .workers = options->workers != 0 ? options->workers : count_cores(),
      .dispatch = options->dispatch,
      .gate_allowed = register_membarrier(),
  };
  engine->nested_end = &engine->nested;
  init_gate_lock(engine);
  (void)pthread_mutex_init(&engine->drain_lock, NULL);
  (void)pthread_mutex_init(&engine->queue_lock, NULL);
}

static tn_code open_parts(tn__engine *engine) {
  TN__TRY(tn__error_init(engine));
  TN__TRY(tn__slab_create(engine->env, &engine->slab));
  if (engine->kind == &tn__kind_naive) return TN_OK;
  if (engine->kind == &tn__kind_dispatching)
    TN__TRY(tn__mailbox_create(engine, &engine->mailbox));
  return tn__pool_create(engine, engine->workers, &engine->pool);
}

static void free_all(tn__engine *engine) {
  tn__pool_destroy(engine->pool);
  tn__slab_destroy(engine->slab); /* waits for threads that still count in it */
  tn__mailbox_destroy(engine->mailbox);
  tn__error_deinit(engine);
  (void)pthread_mutex_destroy(&engine->queue_lock);
  (void)pthread_mutex_destroy(&engine->drain_lock);
  (void)pthread_mutex_destroy(&engine->gate_lock);
  tn__free(engine->env, engine);
}

tn_code tn__engine_create(const tn__engine_options *options, tn__engine **out) {
  *out = NULL;
  if (options->kind > TN__ENGINE_NAIVE)
    return tn__fail(TN_INVALID,
                    "there is no engine of kind %u: choose 0 (pooled) or 1 "
                    "(naive)",
                    options->kind);
  tn__engine *engine =
      tn__alloc_aligned(options->env, sizeof *engine, _Alignof(tn__engine));
  if (engine == NULL) return tn__fail_memory(sizeof *engine, "an engine");
  init_engine(engine, options);
  const tn_code code = open_parts(engine);
  if (code != TN_OK) {
    free_all(engine);
    return code;
  }
  *out = engine;
  return TN_OK;
}

uint32_t tn__engine_workers(const tn__engine *engine) {
  return engine->workers;
}

/* ---------------------------------------------------------------------- end */

void tn__engine_stop(tn__engine *engine) {
  assert(!tn__is_inside(engine));
  tn__drain(engine);
  tn__engine_stop_pushed(engine);
}

void tn__engine_stop_pushed(tn__engine *engine) {
  assert(!tn__is_inside(engine));
  tn__wait_for_pushed(engine);
  if (engine->pool != NULL) tn__pool_stop(engine->pool);
}

void tn__engine_abandon(tn__engine *engine) {
  tn__engine_pause(engine);
  atomic_store_explicit(&engine->abandoned, 1, memory_order_release);
  tn__engine_resume(engine);
}

void tn__engine_destroy(tn__engine *engine) {
  if (engine == NULL) return;
  tn__engine_stop(engine);
  tn__trace_drop(engine);
  free_all(engine);
}

/* ----------------------------------------------------------------- the gate */

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
  return engine->gate_allowed != 0 && engine->kind != &tn__kind_naive &&
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
