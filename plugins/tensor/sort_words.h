/* SPDX-License-Identifier: Apache-2.0
 * sort_words.h: sorts on the CPU. An element becomes a key: an unsigned number,
 * less for an element that comes first. A word has a key of up to 32 bits in
 * its upper half and the number of the element in the lower one. A sort of
 * words by their keys is stable, so 64-bit keys take two sorts: by the lower
 * half of the keys, and then by the upper one.
 */
#ifndef TENSOR_SORT_WORDS_H_
#define TENSOR_SORT_WORDS_H_

#include "tenon/kernel/kernel.h"

/* -------------------------------------------------------------------- keys */

typedef struct sort_key_rule {
  uint64_t flip;     /* bits that change */
  uint64_t infinity; /* of floats: the bits of that number */
} sort_key_rule;

/* How elements of a type become keys (sort_keys.c). NaN has the greatest key
 * of ascending order; -0 has the key of 0. */
typedef struct sort_keys {
  tn_kernel_body *body;
  sort_key_rule rule;
  int32_t bits;  /* of a key: 8, 16, 32 or 64 */
  int64_t bytes; /* of an element */
} sort_keys;

void sort_keys_init(sort_keys *keys, const tn_frame *call, tn_dtype dtype,
                    int descending);

/* Elements of a line: `step` elements apart. */
typedef struct sort_line {
  const char *at;
  int64_t step;
} sort_line;

/* Keys that are read together: `wide` if they have 64 bits. */
enum { SORT_KEYS = 512 };
typedef union sort_some_keys {
  uint32_t narrow[SORT_KEYS];
  uint64_t wide[SORT_KEYS];
} sort_some_keys;

/* Reads the keys of elements [begin, begin + n), n at most SORT_KEYS.
 * [worker] */
void sort_keys_read(const sort_keys *keys, const sort_line *line, int64_t begin,
                    int64_t n, sort_some_keys *to);

/* Reads n keys of 64 bits of the elements that words name, in the order of the
 * words. [worker] */
void sort_keys_gather(const sort_keys *keys, const sort_line *line,
                      const uint64_t *words, int64_t n, sort_some_keys *to);

/* ------------------------------------------------------------------- words */

/* Sorts n words by the lowest `bits` bits of their keys. Returns `words` or
 * `other`, which has room for n: the one with the result. [worker] */
uint64_t *sort_words(uint64_t *words, uint64_t *other, int64_t n, int32_t bits);

/* Memory for a line that several threads sort together. */
enum { SORT_PIECES = 64, SORT_DIGITS = 256, SORT_LONG = 65536 };
typedef struct sort_room {
  uint64_t *words, *other;         /* n of each */
  uint32_t (*counts)[SORT_DIGITS]; /* SORT_PIECES */
} sort_room;

/* Number of elements in a piece of a line of n elements, of which there are at
 * most SORT_PIECES. [any] */
int64_t sort_piece_length(int64_t n);

/* Sorts the n words in room->words, in parallel, and leaves them there; the
 * arrays may be swapped. [worker] */
int32_t sort_words_long(const tn_frame *call, sort_room *room, int64_t n,
                        int32_t bits);

#endif /* TENSOR_SORT_WORDS_H_ */
