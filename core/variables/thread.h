/* SPDX-License-Identifier: Apache-2.0
 * thread.h: creates threads, and gives each thread a number.
 */
#ifndef TENON_VARIABLES_THREAD_H_
#define TENON_VARIABLES_THREAD_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Creates a thread with all signals blocked: signals belong to the application.
 */
bool tn__thread_create(pthread_t *out, void *(*run)(void *arg), void *arg);

/* A number for each thread, from 1; 0 until the thread first pushed. */
extern _Thread_local uint64_t tn__self
    __attribute__((tls_model("initial-exec")));
/* Returns tn__self; the thread gets a number if it has none. */
uint64_t tn__self_get(void);

#endif /* TENON_VARIABLES_THREAD_H_ */
