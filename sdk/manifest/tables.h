/* SPDX-License-Identifier: Apache-2.0
 * tables.h: op.h described as data: one list of members per struct. The codec,
 * the comparison, the structural check and the JSON printer walk these lists,
 * so a new member of op.h is added here only.
 */
#ifndef TENON_TABLES_H_
#define TENON_TABLES_H_

#include <string.h>

#include "manifest.h"

/* Forms of a member. Those up to TNM_F64 are scalars. */
enum {
  TNM_U32 = 1,
  TNM_U64,
  TNM_I32,
  TNM_I64,
  TNM_INDEX,  /* u32 that may be TN_NONE */
  TNM_ENUM,   /* u32, one of the positions of `names` */
  TNM_FLAGS,  /* u32, a set of the positions of `names` */
  TNM_DTYPE,  /* tn_dtype */
  TNM_DTYPES, /* u64, a set of TN_BIT_* */
  TNM_F64,
  TNM_TEXT,     /* const char *, may be NULL */
  TNM_TEXTS,    /* array of const char * */
  TNM_U32S,     /* array of u32 */
  TNM_U64S,     /* array of u64, each a set of TN_BIT_* */
  TNM_VALUES,   /* array of frozen structs */
  TNM_POINTERS, /* array of pointers to growing structs */
  TNM_POINTER   /* pointer to one growing struct, may be NULL */
};

typedef struct tnm_table tnm_table;

typedef struct tnm_member {
  const char *name;
  uint32_t form;
  uint16_t offset;
  uint16_t size;
  uint16_t count; /* offset of an array's u32 length */
  const tnm_table *of;
  const char *const *names; /* NULL where a value has no name */
  uint32_t n_names;
} tnm_member;

struct tnm_table {
  uint16_t size;       /* size of the struct in this library */
  uint16_t first_size; /* in ABI 0.0, the least that is accepted; 0: frozen, the
                          struct has no struct_size */
  uint16_t size_offset; /* of struct_size */
  uint16_t n_members;
  uint16_t reserved; /* offset of an unused u32; 0: none */
  const tnm_member *members;
};

/* The first members of tn_plugin are versions. The encoding contains those of
 * the generator, so that its reader knows the format. Note and descriptor
 * contain those of the op.h that the plugin was compiled with. */
enum { TNM_PLUGIN_VERSIONS = 3 };

extern const tnm_table tnm_table_plugin;
extern const tnm_table tnm_table_op;

/* Inline, because these functions run for every member of every plugin at load.
 * Tests whether the writer of `object` knew the member. */
static inline bool tnm_has_member(const tnm_table *table, const void *object,
                                  const tnm_member *m) {
  uint32_t size = table->size;
  if (table->first_size)
    memcpy(&size, (const char *)object + table->size_offset, sizeof size);
  return (uint32_t)m->offset + m->size <= size;
}

static inline uint64_t tnm_zigzag(int64_t value) {
  return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t tnm_unzigzag(uint64_t raw) {
  return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
}

/* A scalar as the number that the codec writes: signed values in zigzag,
 * doubles as their bits. 0 if the object does not have the member. */
static inline uint64_t tnm_get_scalar(const tnm_table *table,
                                      const void *object, const tnm_member *m) {
  const char *place = (const char *)object + m->offset;
  if (!tnm_has_member(table, object, m)) return 0;
  if (m->size == sizeof(uint32_t)) {
    uint32_t value;
    memcpy(&value, place, sizeof value);
    return m->form == TNM_I32 ? tnm_zigzag((int32_t)value) : value;
  }
  uint64_t value;
  memcpy(&value, place, sizeof value);
  return m->form == TNM_I64 ? tnm_zigzag((int64_t)value) : value;
}

void tnm_set_scalar(void *object, const tnm_member *m, uint64_t raw);

/* Member of pointer type, and the length of an array. NULL and 0 if the object
 * does not have it. */
const void *tnm_get_pointer(const tnm_table *table, const void *object,
                            const tnm_member *m);
uint32_t tnm_get_count(const tnm_table *table, const void *object,
                       const tnm_member *m);

/* Element `i` of an array of structs (VALUES or POINTERS). */
const void *tnm_get_element(const tnm_member *m, const void *array, size_t i);

/* -------------------------------------------------------- reading the bytes */

/* A position in an encoding. After the first fault `why` is set and every read
 * returns zero without moving. */
typedef struct tnm_byte_reader {
  const uint8_t *begin;
  const uint8_t *at;
  const uint8_t *end; /* of the current struct */
  const char *why;
  bool newer; /* written for a newer minor: structs may hold more */
  bool older; /* written for an older minor: structs may end early */
} tnm_byte_reader;

/* Tests whether the writer's struct ended before this member: it counts as
 * zero. */
static inline bool tnm_read_ended(const tnm_byte_reader *reader,
                                  const tnm_table *table) {
  return reader->older && table->first_size && reader->at == reader->end;
}

/* n bytes, lowest first. */
uint64_t tnm_read_fixed(tnm_byte_reader *reader, size_t n);

/* Nearly all integers are one byte. */
uint64_t tnm_read_long_varint(tnm_byte_reader *reader, uint64_t max);
static inline uint64_t tnm_read_varint(tnm_byte_reader *reader, uint64_t max) {
  if (!reader->why && reader->at < reader->end && *reader->at < 0x80 &&
      *reader->at <= max)
    return *reader->at++;
  return tnm_read_long_varint(reader, max);
}

static inline uint64_t tnm_read_scalar(tnm_byte_reader *reader,
                                       const tnm_member *m) {
  if (m->form == TNM_F64) return tnm_read_fixed(reader, sizeof(double));
  return tnm_read_varint(reader, m->size == 4 ? UINT32_MAX : UINT64_MAX);
}

/* Text inside the encoding, without a NUL; s is NULL for NULL. */
typedef struct tnm_view {
  const char *s;
  size_t n;
} tnm_view;

/* Checks the first byte and finds the version of the writer. */
void tnm_byte_reader_open(tnm_byte_reader *reader, const void *bytes, size_t n);
/* After the last read: TN_OK, or TN_PLUGIN with place and reason. */
tn_code tnm_byte_reader_close(const tnm_byte_reader *reader);
tnm_view tnm_read_text(tnm_byte_reader *reader);
/* An array's length, at most as large as the remaining bytes allow. */
uint32_t tnm_read_count(tnm_byte_reader *reader, const tnm_member *m);
/* Enters a growing struct's body; returns the outer end for `leave`. */
const uint8_t *tnm_read_enter(tnm_byte_reader *reader, const tnm_table *table);
void tnm_read_leave(tnm_byte_reader *reader, const tnm_table *table,
                    const uint8_t *outer);

#endif /* TENON_TABLES_H_ */
