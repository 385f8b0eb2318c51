/* SPDX-License-Identifier: Apache-2.0
 * writer.h: results that are written in order, line by line, and past the
 * caches if no cache would hold them: then memory is not read for them. Lines
 * are composed in a cached buffer, which is written to memory whenever it is
 * full.
 */
#ifndef NN_WRITER_H_
#define NN_WRITER_H_

#include <stdint.h>
#include <string.h>

#include "tenon/kernel/kernel.h"

enum { NN_WRITER_CHUNK = 2048, NN_WRITER_LINE = 64 };

/* Bytes of a call's operands from which writing past the caches is worthwhile.
 */
#define NN_WRITER_LARGE (32 << 20)

typedef struct nn_writer {
  char *to;     /* destination of the bytes in `buffer` */
  char *buffer; /* buffer; NULL: lines are composed at their destination */
  int64_t used; /* bytes of the buffer in use */
  int64_t skip; /* unused bytes at the start of the buffer, before the
                   destination */
  int wide;     /* stores have 64 bytes (AVX-512) */
} nn_writer;

/* Bytes of the buffer for lines of `line` bytes; the buffer must be aligned
 * to 64. [any] */
static inline uint64_t nn_writer_count_bytes(int64_t line) {
  const int64_t all = line + NN_WRITER_CHUNK + 2 * NN_WRITER_LINE;
  return (uint64_t)all / NN_WRITER_LINE * NN_WRITER_LINE;
}

/* Starts writing at `to`; past the caches if `buffer` is a buffer. `level` is
 * the level of the call. [worker] */
static inline nn_writer nn_writer_open(void *to, void *buffer, uint32_t level) {
  nn_writer w = {.to = to, .wide = level == TN_KERNEL_N_LEVELS - 1};
#if defined(TN_KERNEL_AVX2)
  w.buffer = buffer;
  w.skip = w.used = buffer ? (int64_t)((uintptr_t)to % NN_WRITER_LINE) : 0;
  if (w.skip > 0) w.to -= w.skip;
#else
  (void)buffer;
#endif
  return w;
}

/* Returns the address at which the caller composes the next line. */
static inline void *nn_writer_begin_line(const nn_writer *w) {
  return w->buffer ? w->buffer + w->used : w->to;
}

#if defined(TN_KERNEL_AVX2)
/* Writes whole cache lines past the caches. */
static inline TN_KERNEL_AVX512 void nn_writer_stream_avx512(char *to,
                                                            const char *from,
                                                            int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += NN_WRITER_LINE)
    _mm512_stream_si512((__m512i *)(void *)(to + i),
                        _mm512_load_si512(from + i));
}
#endif

/* Writes the cache lines [at, end) of the buffer past the caches. */
static inline void nn_writer_stream(const nn_writer *w, int64_t at,
                                    int64_t end) {
#if defined(TN_KERNEL_AVX2)
  if (w->wide) {
    nn_writer_stream_avx512(w->to + at, w->buffer + at, end - at);
    return;
  }
  for (; at < end; at += 16)
    _mm_stream_si128((__m128i *)(void *)(w->to + at),
                     _mm_load_si128((const __m128i *)(void *)(w->buffer + at)));
#else
  memcpy(w->to + at, w->buffer + at, (size_t)(end - at));
#endif
}

/* Writes all full cache lines of the buffer, and moves the rest to its start.
 */
static inline void nn_writer_flush(nn_writer *w) {
  const int64_t end = w->used / NN_WRITER_LINE * NN_WRITER_LINE;
  int64_t at = 0;
  if (end == 0) return;
  if (w->skip > 0) {
    at = NN_WRITER_LINE;
    memcpy(w->to + w->skip, w->buffer + w->skip, (size_t)(at - w->skip));
  }
  nn_writer_stream(w, at, end);
  memcpy(w->buffer, w->buffer + end, NN_WRITER_LINE);
  w->to += end;
  w->used -= end;
  w->skip = 0;
}

/* Ends a line that has `bytes` bytes. */
static inline void nn_writer_end_line(nn_writer *w, int64_t bytes) {
  if (!w->buffer) {
    w->to += bytes;
    return;
  }
  w->used += bytes;
  if (w->used >= NN_WRITER_CHUNK) nn_writer_flush(w);
}

/* Writes the rest of the buffer. Other threads see the lines when the call is
 * complete. */
static inline void nn_writer_close(nn_writer *w) {
  if (!w->buffer) return;
  nn_writer_flush(w);
  memcpy(w->to + w->skip, w->buffer + w->skip, (size_t)(w->used - w->skip));
#if defined(TN_KERNEL_AVX2)
  _mm_sfence();
#endif
}

#endif /* NN_WRITER_H_ */
