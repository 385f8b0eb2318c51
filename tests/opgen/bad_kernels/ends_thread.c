/* SPDX-License-Identifier: Apache-2.0
 * ends_thread.c: ends the calling thread.
 * expect: e: f32, cpu, dense, new: the kernel ended the calling thread
 * (pthread_exit)
 */
#define BAD_STEP spoil
#include <pthread.h>
#include "bad.h"

static void spoil(const tn_frame *call) {
  (void)call;
  pthread_exit(NULL);
}
