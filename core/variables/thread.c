/* SPDX-License-Identifier: Apache-2.0
 * thread.c: creates threads, and gives each thread a number.
 */
#include "thread.h"

#include <signal.h>
#include <stdatomic.h>

_Thread_local uint64_t tn__self __attribute__((tls_model("initial-exec")));

uint64_t tn__self_get(void) {
  static _Atomic uint64_t next = 1;
  if (tn__self == 0)
    tn__self = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
  return tn__self;
}

bool tn__thread_create(pthread_t *out, void *(*run)(void *arg), void *arg) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int failed = pthread_create(out, NULL, run, arg);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return failed == 0;
}
