/* SPDX-License-Identifier: Apache-2.0
 * record_join.c: joins the pieces of a record that is in memory.
 */
#include <string.h>

#include "pieces.h"
#include "records.h"

/* The head of a piece in memory. */
typedef struct head {
  uint32_t kind;
  size_t bytes;
} head;

/* Reads the head at byte `at`; false if there is no whole piece. */
static bool read_head(const unsigned char *raw, size_t at, size_t n,
                      head *out) {
  if (n - at < TN__PIECE_HEAD ||
      tn__piece_get_number(raw + at) != TN_RECORD_MAGIC)
    return false;
  const uint32_t word = tn__piece_get_number(raw + at + 4);
  *out = (head){word >> 29, word & TN__PIECE_MOST};
  return tn__piece_pad(out->bytes) <= n - at - TN__PIECE_HEAD;
}

unsigned char *tn__record_join(unsigned char *raw, size_t n, size_t *bytes) {
  unsigned char *data = raw + TN__PIECE_HEAD;
  size_t at = 0, n_joined = 0;
  for (head piece; read_head(raw, at, n, &piece);) {
    const bool is_first = at == 0;
    const bool may_follow =
        is_first
            ? piece.kind == TN__PIECE_WHOLE || piece.kind == TN__PIECE_FIRST
            : piece.kind == TN__PIECE_MIDDLE || piece.kind == TN__PIECE_LAST;
    if (!may_follow) return NULL;
    /* The joined data ends before the head of this piece, which has room for
     * the number. */
    if (!is_first) {
      tn__piece_set_number(data + n_joined, TN_RECORD_MAGIC);
      n_joined += 4;
    }
    memmove(data + n_joined, raw + at + TN__PIECE_HEAD, piece.bytes);
    n_joined += piece.bytes;
    at += TN__PIECE_HEAD + (size_t)tn__piece_pad(piece.bytes);
    if (piece.kind == TN__PIECE_WHOLE || piece.kind == TN__PIECE_LAST) {
      *bytes = n_joined;
      return data;
    }
  }
  return NULL;
}
