/* SPDX-License-Identifier: Apache-2.0
 * pieces.h: the head of a piece of a record: TN_RECORD_MAGIC, then the kind in
 * three bits and the length in 29, little-endian.
 */
#ifndef TENON_RECORDS_PIECES_H_
#define TENON_RECORDS_PIECES_H_

#include <stdint.h>

enum { TN__PIECE_HEAD = 8 }; /* bytes */
#define TN__PIECE_MOST ((1u << 29) - 1)

enum {
  TN__PIECE_WHOLE = 0,
  TN__PIECE_FIRST = 1,
  TN__PIECE_MIDDLE = 2,
  TN__PIECE_LAST = 3
};

static inline uint32_t tn__piece_get_number(const unsigned char *from) {
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
         (uint32_t)from[3] << 24;
}

static inline void tn__piece_set_number(unsigned char *to, uint32_t number) {
  for (int i = 0; i < 4; ++i) to[i] = (unsigned char)(number >> 8 * i);
}

/* Bytes of a piece's data with the zeros after it. */
static inline uint64_t tn__piece_pad(uint64_t bytes) {
  return (bytes + 3) & ~(uint64_t)3;
}

#endif /* TENON_RECORDS_PIECES_H_ */
