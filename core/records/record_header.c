/* SPDX-License-Identifier: Apache-2.0
 * record_header.c: records that begin with a header and labels. In the record a
 * label has the bytes of an f32 in the memory of all supported machines, which
 * are little-endian.
 */
#include <inttypes.h>
#include <string.h>

#include "pieces.h"
#include "records.h"

static void put_u64(unsigned char *to, uint64_t number) {
  tn__piece_set_number(to, (uint32_t)number);
  tn__piece_set_number(to + 4, (uint32_t)(number >> 32));
}

static uint64_t get_u64(const unsigned char *from) {
  return tn__piece_get_number(from) | (uint64_t)tn__piece_get_number(from + 4)
                                          << 32;
}

static void put_header(unsigned char *to, const tn_record_header *header) {
  uint32_t label;
  memcpy(&label, &header->label, sizeof label);
  tn__piece_set_number(to, header->n_labels);
  tn__piece_set_number(to + 4, label);
  put_u64(to + 8, header->id);
  put_u64(to + 16, header->id2);
}

tn_code tn__record_write_labelled(tn_record_writer *w, uint64_t key,
                                  const tn_record_header *header) {
  const tn__env *env = tn__record_writer_env(w);
  const uint64_t before =
      TN_RECORD_HEADER_BYTES + (uint64_t)header->n_labels * sizeof(float);
  if (header->bytes > TN__PIECE_MOST || before + header->bytes > TN__PIECE_MOST)
    return tn__fail(TN_OUT_OF_RANGE,
                    "a record with %" PRIu32 " labels and %" PRIu64
                    " bytes of data is too long; with its header of %d bytes "
                    "the format has room for %u; divide it",
                    header->n_labels, header->bytes, TN_RECORD_HEADER_BYTES,
                    TN__PIECE_MOST);
  const size_t n = (size_t)(before + header->bytes);
  unsigned char *all = tn__alloc(env, n);
  if (all == NULL) return tn__fail_memory(n, "a record");
  put_header(all, header);
  if (header->n_labels > 0)
    memcpy(all + TN_RECORD_HEADER_BYTES, header->labels,
           header->n_labels * sizeof(float));
  if (header->bytes > 0)
    memcpy(all + before, header->data, (size_t)header->bytes);
  const tn_code rc = tn__record_write(w, key, all, n);
  tn__free(env, all);
  return rc;
}

static tn_code fail_header(const tn_record *record, const char *reason) {
  return tn__fail(TN_INVALID,
                  "the record at byte %" PRIu64 " with %" PRIu64
                  " bytes %s; pack it with labels (`tenon data pack`), or read "
                  "it as it is",
                  record->offset, record->bytes, reason);
}

tn_code tn__record_header_read(const tn_record *record, tn_record_header *out) {
  const unsigned char *from = record->data;
  const unsigned char *data = from + TN_RECORD_HEADER_BYTES;
  if (record->bytes < TN_RECORD_HEADER_BYTES)
    return fail_header(record, "is shorter than the header of a label");
  if ((uintptr_t)from % sizeof(float) != 0)
    return fail_header(record, "is not at a multiple of 4 in memory");
  const uint32_t label = tn__piece_get_number(from + 4);
  const tn_record_header h = {.n_labels = tn__piece_get_number(from),
                              .id = get_u64(from + 8),
                              .id2 = get_u64(from + 16)};
  const uint64_t rest = record->bytes - TN_RECORD_HEADER_BYTES;
  if (h.n_labels > rest / sizeof(float))
    return fail_header(record,
                       "has no room for the labels that its header has");
  *out = h;
  memcpy(&out->label, &label, sizeof label);
  if (h.n_labels > 0) out->labels = (const float *)(const void *)data;
  out->data = data + h.n_labels * sizeof(float);
  out->bytes = rest - h.n_labels * sizeof(float);
  return TN_OK;
}
