/* SPDX-License-Identifier: Apache-2.0
 * engine.c: creates, stops and destroys engines, and destroys device queues.
 */
#include <assert.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_queue.h"
#include "engine.h"
#include "kinds.h"
#include "mailbox.h"
#include "slab.h"
#include "travelling_error.h"
#include "wait.h"
#include "workers.h"

_Static_assert(sizeof(tn__var) == 32, "stands inside of every array");

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
  if (engine->kind == &tn__kind_dispatching) {
    TN__TRY(tn__mailbox_create(engine, &engine->mailbox));
    tn__slab_count_also(engine->slab, engine->mailbox->n_completed);
  }
  return tn__pool_create(engine, engine->workers, tn__worker_run,
                         &engine->pool);
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
  /* First, because a function of a naive engine may wait for it. */
  atomic_store_explicit(&engine->abandoned, 1, memory_order_release);
  tn__engine_pause(engine);
  tn__engine_resume(engine);
}

void tn__engine_destroy(tn__engine *engine) {
  if (engine == NULL) return;
  tn__engine_stop(engine);
  tn__trace_drop(engine);
  free_all(engine);
}

void tn__queue_destroy(tn__queue *queue) {
  if (queue == NULL) return;
  tn__drain(queue->engine);
  tn__queue_end(queue);
}
