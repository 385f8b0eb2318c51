/* SPDX-License-Identifier: Apache-2.0
 * sort_words.c: sorts words by their keys, digit by digit from the lowest on. A
 * digit has 8 bits. A digit that all keys share takes no pass.
 */
#include "sort_words.h"

enum { FEW = 32 /* words that are inserted one by one */ };

static inline uint32_t find_digit(uint64_t word, int shift) {
  return (uint32_t)(word >> shift) % SORT_DIGITS;
}

static void insert_words(uint64_t *words, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t word = words[i];
    int64_t at = i;
    for (; at > 0 && words[at - 1] >> 32 > word >> 32; --at)
      words[at] = words[at - 1];
    words[at] = word;
  }
}

/* Counts all digits of the keys in one pass. */
static void count_digits(const uint64_t *words, int64_t n, int32_t n_digits,
                         uint32_t (*counts)[SORT_DIGITS]) {
  memset(counts, 0, (size_t)n_digits * sizeof *counts);
  for (int64_t i = 0; i < n; ++i) {
    ++counts[0][find_digit(words[i], 32)];
    if (n_digits == 1) continue;
    ++counts[1][find_digit(words[i], 40)];
    if (n_digits == 2) continue;
    ++counts[2][find_digit(words[i], 48)];
    ++counts[3][find_digit(words[i], 56)];
  }
}

uint64_t *sort_words(uint64_t *words, uint64_t *other, int64_t n,
                     int32_t bits) {
  uint32_t counts[4][SORT_DIGITS];
  if (n <= FEW) {
    insert_words(words, n);
    return words;
  }
  count_digits(words, n, bits / 8, counts);
  for (int32_t d = 0; d < bits / 8; ++d) {
    const int shift = 32 + 8 * d;
    uint32_t *at = counts[d], sum = 0;
    if (at[find_digit(words[0], shift)] == (uint64_t)n) continue;
    for (int k = 0; k < SORT_DIGITS; ++k) {
      const uint32_t count = at[k];
      at[k] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i)
      other[at[find_digit(words[i], shift)]++] = words[i];
    uint64_t *sorted = other;
    other = words;
    words = sorted;
  }
  return words;
}

/* -------------------------------------------------------------- long lines */

/* One pass: pieces of `from` go to `to` by one digit. */
typedef struct digit_pass {
  uint64_t *from;
  uint64_t *to;
  uint32_t (*counts)[SORT_DIGITS]; /* of each piece; then its places */
  int64_t n;
  int64_t piece;
  int shift;
} digit_pass;

int64_t sort_piece_length(int64_t n) {
  const int64_t least = (n + SORT_PIECES - 1) / SORT_PIECES;
  return least > SORT_LONG ? least : SORT_LONG;
}

static int64_t find_piece_end(const digit_pass *pass, int64_t piece) {
  const int64_t end = (piece + 1) * pass->piece;
  return end < pass->n ? end : pass->n;
}

static int32_t count_slice(void *arg, int64_t begin, int64_t end) {
  const digit_pass *pass = (const digit_pass *)arg;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t last = find_piece_end(pass, p);
    uint32_t *count = pass->counts[p];
    memset(count, 0, sizeof *pass->counts);
    for (int64_t i = p * pass->piece; i < last; ++i)
      ++count[find_digit(pass->from[i], pass->shift)];
  }
  return TN_OK;
}

static int32_t move_slice(void *arg, int64_t begin, int64_t end) {
  const digit_pass *pass = (const digit_pass *)arg;
  const int shift = pass->shift;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t last = find_piece_end(pass, p);
    uint32_t *at = pass->counts[p];
    for (int64_t i = p * pass->piece; i < last; ++i)
      pass->to[at[find_digit(pass->from[i], shift)]++] = pass->from[i];
  }
  return TN_OK;
}

/* Turns counts into the places of the first words. Returns 0 if all words have
 * the same digit. */
static int sum_counts(const digit_pass *pass, int64_t pieces) {
  uint64_t sum = 0;
  int moves = 1;
  for (int k = 0; k < SORT_DIGITS; ++k) {
    const uint64_t before = sum;
    for (int64_t p = 0; p < pieces; ++p) {
      const uint32_t count = pass->counts[p][k];
      pass->counts[p][k] = (uint32_t)sum;
      sum += count;
    }
    if (sum - before == (uint64_t)pass->n) moves = 0;
  }
  return moves;
}

int32_t sort_words_long(const tn_frame *call, sort_room *room, int64_t n,
                        int32_t bits) {
  const int64_t piece = sort_piece_length(n), pieces = (n + piece - 1) / piece;
  for (int32_t d = 0; d < bits / 8; ++d) {
    digit_pass pass = {room->words, room->other, room->counts,
                       n,           piece,       32 + 8 * d};
    int32_t code =
        call->host->parallel_for(call, pieces, 1, count_slice, &pass);
    if (code != TN_OK) return code;
    if (!sum_counts(&pass, pieces)) continue;
    code = call->host->parallel_for(call, pieces, 1, move_slice, &pass);
    if (code != TN_OK) return code;
    room->words = pass.to;
    room->other = pass.from;
  }
  return TN_OK;
}
