/* SPDX-License-Identifier: Apache-2.0
 * futex.h: sleeping and waking by system call, and the clock of deadlines.
 */
#ifndef TENON_VARIABLES_FUTEX_H_
#define TENON_VARIABLES_FUTEX_H_

#include <stdatomic.h>
#include <stdint.h>

#define TN__FOREVER UINT64_MAX /* a deadline that never passes */
/* The same, but the host may end the wait (tn_options.interrupted). */
#define TN__UNTIL_INTERRUPTED (UINT64_MAX - 1)

/* Nanoseconds of the monotonic clock. */
uint64_t tn__now(void);

/* Sleeps while *word is `seen`, at most until `deadline`. May return early. */
void tn__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline);
void tn__futex_wake(_Atomic uint32_t *word, uint32_t n);
void tn__futex_wake_all(_Atomic uint32_t *word);

static inline void tn__cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif /* TENON_VARIABLES_FUTEX_H_ */
