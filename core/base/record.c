/* SPDX-License-Identifier: Apache-2.0
 * record.c: see child.h. A record is a length, a kind, two keyed hashes and the
 * bytes, with a NUL after them. The first hash is of the length and the kind,
 * so that foreign bytes are not mistaken for the beginning of a long record. It
 * calls the C library only, so that a program can be linked with it beside
 * libtenon.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "siphash.h"

enum { END = 0 };

typedef struct header {
  uint32_t n; /* bytes without the NUL */
  uint32_t kind;
  uint64_t own_hash; /* of the two fields above */
  uint64_t hash;     /* of the bytes */
} header;

/* ----------------------------------------------------------------- hashing */

/* The hash of n bytes that are part `part` of record `number`. */
static uint64_t hash_part(const uint64_t key[2], uint64_t number, uint64_t part,
                          const void *bytes, size_t n) {
  tn__sip sip = tn__sip_begin(key, 2);
  tn__sip_add(&sip, number << 1 | part);
  return tn__sip_end(&sip, bytes, n);
}

static uint64_t hash_header(const uint64_t key[2], uint64_t number,
                            const header *head) {
  return hash_part(key, number, 0, head, offsetof(header, own_hash));
}

static uint64_t hash_bytes(const uint64_t key[2], uint64_t number,
                           const char *bytes, size_t n) {
  return hash_part(key, number, 1, bytes, n);
}

/* ----------------------------------------------------------------- writing */

static bool write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    const ssize_t written = write(fd, bytes, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    n -= (size_t)written;
  }
  return true;
}

bool tn__answer_add(tn__answer *answer, uint32_t kind, const void *bytes,
                    size_t n) {
  header head = {.n = (uint32_t)n, .kind = kind};
  if (n >= UINT32_MAX) return false;
  const uint64_t number = answer->n_records++;
  head.own_hash = hash_header(answer->key, number, &head);
  head.hash = hash_bytes(answer->key, number, bytes, n);
  return write_all(answer->fd, (const char *)&head, sizeof head) &&
         write_all(answer->fd, bytes, n) && write_all(answer->fd, "", 1);
}

bool tn__answer_end(tn__answer *answer) {
  return tn__answer_add(answer, END, "", 0);
}

/* ----------------------------------------------------------------- reading */

/* Marks the remaining bytes as foreign; there is no next record. */
static bool refuse_rest(tn__records *records) {
  records->foreign = true;
  return false;
}

/* A record that is cut short is not foreign: its writer died. */
bool tn__records_next(tn__records *records, tn__child_record *out) {
  const size_t left = records->n - records->at;
  const char *from = records->bytes + records->at;
  header head;
  if (records->complete || records->foreign || left < sizeof head) return false;
  memcpy(&head, from, sizeof head);
  if (hash_header(records->key, records->n_records, &head) != head.own_hash)
    return refuse_rest(records);
  if (head.n >= left - sizeof head) return false;
  from += sizeof head;
  if (from[head.n] != '\0' ||
      hash_bytes(records->key, records->n_records, from, head.n) != head.hash)
    return refuse_rest(records);
  ++records->n_records;
  records->at += sizeof head + head.n + 1;
  if (head.kind != END) {
    *out = (tn__child_record){head.kind, from, head.n};
    return true;
  }
  if (records->at != records->n) return refuse_rest(records);
  records->complete = true;
  return false;
}
