/* SPDX-License-Identifier: Apache-2.0
 * futex.c: sleeps until a word of memory changes, wakes sleepers, and reads the
 * clock of their deadlines.
 */
#include "futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

uint64_t tn__now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void tn__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline) {
  const struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_S),
                                 .tv_nsec = (long)(deadline % NS_PER_S)};
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen,
          deadline >= TN__UNTIL_INTERRUPTED ? NULL : &until, NULL,
          FUTEX_BITSET_MATCH_ANY);
}

void tn__futex_wake(_Atomic uint32_t *word, uint32_t n) {
  if (n > 0) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
}

void tn__futex_wake_all(_Atomic uint32_t *word) {
  tn__futex_wake(word, INT32_MAX);
}
