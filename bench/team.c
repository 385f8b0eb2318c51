/* SPDX-License-Identifier: Apache-2.0
 * The threads of team.h.
 */
#include "team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "measure.h"

#define STOP UINT32_MAX /* member.go: the thread ends */

typedef struct team team;

/* One thread. `done` follows `go`. */
typedef struct member {
  _Alignas(128) _Atomic uint32_t go;
  _Alignas(128) _Atomic uint32_t done;
  const team *of;
  uint32_t i;
  pthread_t thread;
} member;

struct team {
  member members[TEAM_MOST]; /* the first is the caller */
  uint32_t n;
  void (*part)(void *arg, uint32_t i);
  void *arg;
};

static void *lie_in_wait(void *arg) {
  member *m = arg;
  for (uint32_t seen = 0;;) {
    const uint32_t go = atomic_load_explicit(&m->go, memory_order_acquire);
    if (go == STOP) return NULL;
    if (go == seen) continue;
    m->of->part(m->of->arg, m->i);
    seen = go;
    atomic_store_explicit(&m->done, go, memory_order_release);
  }
}

static void run_once(void *arg) {
  team *t = arg;
  for (uint32_t i = 1; i < t->n; ++i)
    atomic_fetch_add_explicit(&t->members[i].go, 1, memory_order_release);
  t->part(t->arg, 0);
  for (uint32_t i = 1; i < t->n; ++i)
    while (atomic_load_explicit(&t->members[i].done, memory_order_acquire) !=
           atomic_load_explicit(&t->members[i].go, memory_order_relaxed))
      continue;
}

static void start_team(team *t) {
  for (uint32_t i = 1; i < t->n; ++i) {
    member *m = &t->members[i];
    m->of = t;
    m->i = i;
    if (pthread_create(&m->thread, NULL, lie_in_wait, m))
      measure_fail("no thread");
  }
}

static void stop_team(team *t) {
  for (uint32_t i = 1; i < t->n; ++i) {
    atomic_store(&t->members[i].go, STOP);
    pthread_join(t->members[i].thread, NULL);
  }
}

double team_each(void (*part)(void *arg, uint32_t i), void *arg,
                 uint32_t threads, double seconds) {
  team t = {.n = threads, .part = part, .arg = arg};
  if (threads < 1 || threads > TEAM_MOST)
    measure_fail("1 to %d threads", TEAM_MOST);
  start_team(&t);
  const double taken = measure_each(run_once, &t, seconds);
  stop_team(&t);
  return taken;
}
