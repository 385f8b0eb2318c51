/* SPDX-License-Identifier: Apache-2.0
 * keyed_hash.c: the hash of names in tables. Names come from files of
 * strangers, and a file could hold 40 000 names of one slot of a hash
 * without a key: each is then compared with all others. SipHash-1-3
 * (Aumasson and Bernstein, 2012), with a key that the system draws once for the
 * process, leaves nothing to compute in advance.
 *
 * The key is the only variable of the library that is not constant. It decides
 * where a table keeps a name, and nothing else.
 */
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base.h"

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

static uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static void mix_state(uint64_t v[4]) {
  v[0] += v[1], v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1], v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

static void take_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  mix_state(v);
  v[0] ^= word;
}

uint64_t tn__siphash(const uint64_t k[2], const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t v[4] = {k[0] ^ 0x736f6d6570736575u, k[1] ^ 0x646f72616e646f6du,
                   k[0] ^ 0x6c7967656e657261u, k[1] ^ 0x7465646279746573u};
  uint64_t word = 0;
  size_t left = n;
  for (; left >= 8; left -= 8, p += 8) {
    memcpy(&word, p, 8); /* little-endian, as all machines of this library */
    take_word(v, word);
  }
  word = (uint64_t)n << 56;
  for (size_t i = 0; i < left; ++i) word |= (uint64_t)p[i] << (8 * i);
  take_word(v, word);
  v[2] ^= 0xff;
  for (int i = 0; i < 3; ++i) mix_state(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t tn__keyed_hash(const void *bytes, size_t n) {
  (void)pthread_once(&key_once, draw_key);
  return tn__siphash(key, bytes, n);
}
