/* SPDX-License-Identifier: Apache-2.0
 * siphash.h: the state of a SipHash (Aumasson and Bernstein, 2012), fed with
 * words of 64 bits. SipHash-1-3 hashes names in tables (keyed_hash.c),
 * SipHash-2-4 the records of a child (record.c). It needs the C library only.
 */
#ifndef TENON_BASE_SIPHASH_H_
#define TENON_BASE_SIPHASH_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tn__sip {
  uint64_t v[4];
  int rounds; /* per word; the end has two more */
} tn__sip;

static inline tn__sip tn__sip_begin(const uint64_t key[2], int rounds) {
  return (tn__sip){{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                    key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u},
                   rounds};
}

static inline uint64_t tn__sip_rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static inline void tn__sip_mix(uint64_t v[4], int rounds) {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1], v[2] += v[3];
    v[1] = tn__sip_rotate(v[1], 13) ^ v[0];
    v[3] = tn__sip_rotate(v[3], 16) ^ v[2];
    v[0] = tn__sip_rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = tn__sip_rotate(v[1], 17) ^ v[2];
    v[3] = tn__sip_rotate(v[3], 21) ^ v[0];
    v[2] = tn__sip_rotate(v[2], 32);
  }
}

static inline void tn__sip_add(tn__sip *sip, uint64_t word) {
  sip->v[3] ^= word;
  tn__sip_mix(sip->v, sip->rounds);
  sip->v[0] ^= word;
}

/* Adds n bytes, the last of the message, and returns the hash. Words are
 * little-endian, as all machines of this library are. */
static inline uint64_t tn__sip_end(tn__sip *sip, const void *bytes, size_t n) {
  const unsigned char *from = bytes;
  uint64_t last = (uint64_t)n << 56, word = 0;
  for (; n >= 8; n -= 8, from += 8) {
    memcpy(&word, from, 8);
    tn__sip_add(sip, word);
  }
  for (size_t i = 0; i < n; ++i) last |= (uint64_t)from[i] << (8 * i);
  tn__sip_add(sip, last);
  sip->v[2] ^= 0xff;
  tn__sip_mix(sip->v, sip->rounds + 2);
  return sip->v[0] ^ sip->v[1] ^ sip->v[2] ^ sip->v[3];
}

#endif /* TENON_BASE_SIPHASH_H_ */
