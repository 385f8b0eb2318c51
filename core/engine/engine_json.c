/* SPDX-License-Identifier: Apache-2.0
 * engine_json.c: describes an engine as JSON, for a thread that watches it. It
 * never waits: if another thread holds a lock, the value is null.
 */
#include <inttypes.h>

#include "device_queue.h"
#include "engine.h"
#include "engine_state.h"
#include "kinds.h"
#include "pool.h"
#include "slab.h"

static const char *kind_name(const tn__engine *engine) {
  if (engine->kind == &tn__kind_naive) return "naive";
  return engine->kind == &tn__kind_dispatching ? "threaded" : "pooled";
}

static bool is_pushing(const tn__engine *engine) {
  const tn__gate_node *node =
      atomic_load_explicit(&engine->gate.holder, memory_order_acquire);
  return node != NULL &&
         atomic_load_explicit(&node->busy, memory_order_relaxed) != 0;
}

static void add_threads(const tn__engine *engine, tn__buf *out) {
  const tn__pool *pool = engine->pool;
  const bool any = pool != NULL && atomic_load(&pool->started) != 0;
  const uint32_t idle = any ? atomic_load(&pool->idle) : 0;
  tn__buf_add(out,
              "\"workers\": %u, \"threads\": %u, \"asleep\": %u, "
              "\"searching\": %u, ",
              pool != NULL ? engine->workers : 0,
              any ? atomic_load(&pool->n_threads) : 0, idle % TN__SEARCHING,
              idle / TN__SEARCHING);
}

/* Adds the number if it is known. */
static void add_number(bool known, uint64_t n, tn__buf *out) {
  if (known)
    tn__buf_add(out, "%" PRIu64, n);
  else
    tn__buf_add(out, "null");
}

static void add_failures(tn__engine *engine, tn__buf *out) {
  const bool locked = pthread_mutex_trylock(&engine->error_lock) == 0;
  const uint64_t n = locked ? engine->n_unreported : 0;
  if (locked) pthread_mutex_unlock(&engine->error_lock);
  add_number(locked, n, out);
}

/* Names are valid while their tokens are in the list, thus under the lock. */
static void add_queue(tn__queue *queue, tn__buf *out) {
  tn__buf_add(out, "{\"name\": ");
  tn__buf_json(out, queue->name);
  const bool locked = pthread_mutex_trylock(&queue->lock) == 0;
  const tn__token *first = locked ? queue->first : NULL;
  tn__buf_add(out, ", \"running\": %s, \"next\": ",
              !locked                ? "null"
              : queue->draining != 0 ? "true"
                                     : "false");
  tn__buf_json(out, first != NULL ? first->name : NULL);
  uint64_t n = 0;
  for (; first != NULL; first = first->next) ++n;
  tn__buf_add(out, ", \"ready\": ");
  add_number(locked, n, out);
  if (locked) pthread_mutex_unlock(&queue->lock);
  tn__buf_add(out, "}");
}

static void add_queues(tn__engine *engine, tn__buf *out) {
  if (pthread_mutex_trylock(&engine->queue_lock) != 0) {
    tn__buf_add(out, "null");
    return;
  }
  tn__buf_add(out, "[");
  for (tn__queue *each = engine->queues; each != NULL; each = each->older) {
    add_queue(each, out);
    if (each->older != NULL) tn__buf_add(out, ", ");
  }
  pthread_mutex_unlock(&engine->queue_lock);
  tn__buf_add(out, "]");
}

void tn__engine_json(tn__engine *engine, tn__buf *out) {
  tn__buf_add(out, "{\"kind\": \"%s\", ", kind_name(engine));
  add_threads(engine, out);
  tn__buf_add(
      out, "\"pending\": %" PRIu64 ", \"pushing\": %s, \"failures\": ",
      tn__epoch_count_pending(engine, 0) + tn__epoch_count_pending(engine, 1),
      is_pushing(engine) ? "true" : "false");
  add_failures(engine, out);
  tn__buf_add(out, ", \"queues\": ");
  add_queues(engine, out);
  tn__buf_add(out, "}");
}
