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
  uint16_t count;      /* offset of an array's u32 length */
  const tnm_table *of; /* the structs that the member points to */
  const char *names;   /* of the values of an ENUM, or of the bits of FLAGS;
                          each has `width` bytes, and "" is none */
  uint16_t n_names;
  uint16_t width;
} tnm_member;

/* The name of value or bit `i`; "" if it has none. */
static inline const char *tnm_get_name(const tnm_member *m, uint64_t i) {
  return i < m->n_names ? m->names + i * m->width : "";
}

struct tnm_table {
  uint16_t size;        /* size of the struct in this library */
  uint16_t first_size;  /* least accepted size: that in the first ABI with the
                           struct; 0: the struct never grows and has no
                           struct_size */
  uint16_t size_offset; /* offset of the member struct_size */
  uint16_t n_members;
  uint16_t reserved; /* offset of an unused u32; 0: none */
  const tnm_member *members;
};

/* Number of version members, the first members of tn_plugin: abi_major,
 * abi_minor and min_host_minor. In an encoding, they hold the ABI version of
 * the program that wrote the bytes, which tells a decoder the format. In the
 * note and the descriptor of a plugin, they hold the version of the op.h that
 * the plugin was compiled with. */
enum { TNM_PLUGIN_VERSIONS = 3 };

extern const tnm_table tnm_table_plugin;
extern const tnm_table tnm_table_op;

/* Tests whether the writer of `object` knew the member. This function and the
 * next ones are inline, because they run for every member of every plugin at
 * load. */
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

/* Returns the value of a scalar member as the number that the codec writes:
 * signed values in zigzag, doubles as their bits. Returns 0 if the object does
 * not have the member. */
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

/* tnm_get_pointer returns the value of a pointer member, tnm_get_count the
 * length of an array member. They return NULL and 0 if the object does not have
 * the member. */
const void *tnm_get_pointer(const tnm_table *table, const void *object,
                            const tnm_member *m);
uint32_t tnm_get_count(const tnm_table *table, const void *object,
                       const tnm_member *m);

/* Element `i` of an array of structs (VALUES or POINTERS). */
const void *tnm_get_element(const tnm_member *m, const void *array, size_t i);

/* -------------------------------------------------------- reading the bytes */

/* The state of reading an encoding. After the first fault, `why` is set, and
 * every read returns zero and does not move. */
typedef struct tnm_byte_reader {
  const uint8_t *begin;
  const uint8_t *at;
  const uint8_t *end; /* end of the current struct in the encoding */
  const char *why;
  bool newer; /* the writer had a newer minor version: structs may contain
                 further members */
  bool older; /* the writer had an older minor version: structs may end before
                 some members */
} tnm_byte_reader;

/* Tests whether the current struct has ended before this member, because its
 * writer was older. The member then counts as zero. */
static inline bool tnm_read_ended(const tnm_byte_reader *reader,
                                  const tnm_table *table) {
  return reader->older && table->first_size && reader->at == reader->end;
}

/* Reads a number of `n` bytes; the lowest byte is first. */
uint64_t tnm_read_fixed(tnm_byte_reader *reader, size_t n);

/* Reads an integer of one or more bytes, up to `max`. tnm_read_varint calls it
 * only for more than one byte, because nearly all integers have one. */
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

/* A text inside of the encoding, not terminated by NUL. s is NULL if the
 * encoded pointer was NULL. */
typedef struct tnm_view {
  const char *s;
  size_t n;
} tnm_view;

/* Checks the first byte and finds the version of the writer. */
void tnm_byte_reader_open(tnm_byte_reader *reader, const void *bytes, size_t n);
/* Ends the reading of an encoding. Returns TN_OK, or TN_PLUGIN with the place
 * and the reason of the first fault. */
tn_code tnm_byte_reader_close(const tnm_byte_reader *reader);
tnm_view tnm_read_text(tnm_byte_reader *reader);
/* Reads the length of an array. A length that the remaining bytes cannot
 * contain is a fault. */
uint32_t tnm_read_count(tnm_byte_reader *reader, const tnm_member *m);
/* Begins to read a struct that may grow. Returns the end of the outer struct,
 * which tnm_read_leave needs. */
const uint8_t *tnm_read_enter(tnm_byte_reader *reader, const tnm_table *table);
void tnm_read_leave(tnm_byte_reader *reader, const tnm_table *table,
                    const uint8_t *outer);

#endif /* TENON_TABLES_H_ */
