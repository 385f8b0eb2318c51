/* SPDX-License-Identifier: Apache-2.0
 * text_lines.c: finds and checks the lines of a text. A file may be longer than
 * the memory: only one piece of it is in memory at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sources.h"

enum { PIECE = 1 << 18 };

tn_code tn__line_fail(const tn__line *line, const char *remedy,
                      const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const uint64_t column = (uint64_t)(line->at - line->begin) + 1;
  if (line->number == 0)
    return tn__fail(TN_INVALID,
                    "%s, byte %" PRIu64
                    ": %s; the file has changed since it was opened",
                    line->path, line->offset + column - 1, text);
  return tn__fail(TN_INVALID,
                  "%s, line %" PRIu64 ", column %" PRIu64 ": %s; %s",
                  line->path, line->number, column, text, remedy);
}

tn__line tn__line_of_example(const tn__example_file *file,
                             const tn__example *example) {
  const char *begin = (const char *)example->data;
  return (tn__line){.path = file->path,
                    .begin = begin,
                    .end = begin + example->bytes,
                    .at = begin,
                    .offset = example->offset};
}

/* A piece of the file. */
typedef struct piece {
  tn__room room;
  uint64_t offset; /* of its first byte in the file */
  size_t n;        /* bytes */
} piece;

/* Removes the first `used` bytes, and reads more. */
static tn_code read_more(const tn__example_file *file, piece *p, size_t used) {
  const uint64_t rest = file->file.size - p->offset - p->n;
  const size_t more = rest < PIECE ? (size_t)rest : PIECE;
  const size_t kept = p->n - used;
  if (used > 0) memmove(p->room.data, p->room.data + used, kept);
  p->offset += used;
  p->n = kept;
  TN__TRY(tn__room_reserve(file->env, &p->room, kept + more, kept));
  TN__TRY(tn__file_read(&(tn__spot){&file->file, NULL}, p->offset + kept,
                        p->room.data + kept, more));
  p->n += more;
  return TN_OK;
}

static tn_code scan_line(tn__example_file *file, tn__line_scan *scan,
                         tn__line *line) {
  bool is_example = true;
  const uint64_t n = (uint64_t)(line->end - line->begin);
  const tn_code rc = scan->check(scan->context, line, &is_example);
  if (rc == TN_INVALID && scan->skips) {
    ++scan->n_skipped;
    return TN_OK;
  }
  if (rc != TN_OK || !is_example) return rc;
  return tn__example_file_add(file, line->offset, n);
}

/* A line without its carriage return, and the mark of UTF-8 before the first.
 */
static tn__line make_line(const tn__example_file *file, const piece *p,
                          size_t at, size_t n) {
  const char *begin = (const char *)p->room.data + at;
  size_t skipped = 0;
  if (n > 0 && begin[n - 1] == '\r') --n;
  if (p->offset + at == 0 && n >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0)
    skipped = 3;
  return (tn__line){.path = file->path,
                    .begin = begin + skipped,
                    .end = begin + n,
                    .at = begin + skipped,
                    .offset = p->offset + at + skipped};
}

static tn_code scan_pieces(tn__example_file *file, tn__line_scan *scan,
                           piece *p) {
  uint64_t number = 0;
  size_t at = 0, n_searched = 0;
  for (;;) {
    const unsigned char *from = p->room.data + at;
    const bool is_last = p->offset + p->n == file->file.size;
    const unsigned char *end =
        p->n > at + n_searched
            ? memchr(from + n_searched, '\n', p->n - at - n_searched)
            : NULL;
    if (!end && !is_last) {
      n_searched = p->n - at;
      TN__TRY(read_more(file, p, at));
      at = 0;
      continue;
    }
    const size_t n = end ? (size_t)(end - from) : p->n - at;
    if (!end && n == 0) return TN_OK;
    tn__line line = make_line(file, p, at, n);
    line.number = ++number;
    TN__TRY(scan_line(file, scan, &line));
    if (!end) return TN_OK;
    at += n + 1;
    n_searched = 0;
  }
}

tn_code tn__scan_lines(tn__example_file *file, tn__line_scan *scan) {
  piece p = {0};
  if (file->file.size == 0) return TN_OK;
  tn_code rc = read_more(file, &p, 0);
  if (rc == TN_OK) rc = scan_pieces(file, scan, &p);
  tn__free(file->env, p.room.data);
  return rc;
}
