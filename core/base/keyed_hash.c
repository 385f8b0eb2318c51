/* SPDX-License-Identifier: Apache-2.0
 * keyed_hash.c: the hash of names in tables. Names come from files of
 * strangers, and a file could hold 40 000 names of one slot of a hash
 * without a key: each is then compared with all others. SipHash-1-3, with a key
 * that the system draws once for the process, leaves nothing to compute in
 * advance.
 *
 * The key is the only variable of the library that is not constant. It decides
 * where a table keeps a name, and nothing else.
 */
#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include "base.h"
#include "siphash.h"

static uint64_t key[2];
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Early in the start of a system there may be no random bytes yet: addresses,
 * which the system places at random, and the time must do then. */
static void draw_key(void) {
  struct timespec now = {0};
  if (getrandom(key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key) return;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  key[0] = (uint64_t)(uintptr_t)&now ^ (uint64_t)now.tv_nsec << 32;
  key[1] = (uint64_t)(uintptr_t)&key ^ (uint64_t)now.tv_sec << 20;
}

uint64_t tn__siphash(const uint64_t k[2], const void *bytes, size_t n) {
  tn__sip sip = tn__sip_begin(k, 1);
  return tn__sip_end(&sip, bytes, n);
}

uint64_t tn__keyed_hash(const void *bytes, size_t n) {
  (void)pthread_once(&key_once, draw_key);
  return tn__siphash(key, bytes, n);
}
