/* SPDX-License-Identifier: Apache-2.0
 * codec.c: encodes tables as bytes and decodes them
 * (docs/reference/note-format.md). The decoder trusts nothing: it compares
 * lengths with the remaining bytes before it reads anything. The nesting depth
 * of structs comes from op.h, not from the input.
 */
#include <string.h>

#include "tables.h"

enum { ENCODING_VERSION = 1 };

/* ------------------------------------------------------------------ writing */

/* Writes a number with 7 bits in each byte; every byte except the last has its
 * highest bit set. */
static void write_varint(tn__buf *out, uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = (uint8_t)value;
  tn__buf_bytes(out, bytes, n);
}

/* Writes a number as n bytes, the lowest byte first. */
static void write_fixed(uint8_t *to, uint64_t value, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = (uint8_t)(value >> (8 * i));
}

/* Writes a scalar member; `raw` is its value as 64 bits. */
static void write_scalar(tn__buf *out, const tnm_member *m, uint64_t raw) {
  uint8_t bits[8];
  if (m->form != TNM_F64) {
    write_varint(out, raw);
    return;
  }
  write_fixed(bits, raw, sizeof bits);
  tn__buf_bytes(out, bits, sizeof bits);
}

/* Writes a text that may be NULL: 0 for NULL, otherwise its length plus 1 and
 * its bytes. */
static void write_optional_text(tn__buf *out, const char *text) {
  size_t n = text ? strlen(text) : 0;
  write_varint(out, text ? n + 1 : 0);
  if (n) tn__buf_bytes(out, text, n);
}

static void write_struct(tn__buf *out, const tnm_table *table,
                         const void *object);

/* Writes element i of an array member. */
static void write_element(tn__buf *out, const tnm_member *m, const void *array,
                          size_t i) {
  switch (m->form) {
    case TNM_TEXTS:
      write_optional_text(out, ((const char *const *)array)[i]);
      break;
    case TNM_U32S:
      write_varint(out, ((const uint32_t *)array)[i]);
      break;
    case TNM_U64S:
      write_varint(out, ((const uint64_t *)array)[i]);
      break;
    default:
      write_struct(out, m->of, tnm_get_element(m, array, i));
  }
}

/* Writes one member of the struct `object`. */
static void write_member(tn__buf *out, const tnm_table *table,
                         const void *object, const tnm_member *m) {
  if (m->form <= TNM_F64) {
    write_scalar(out, m, tnm_get_scalar(table, object, m));
    return;
  }
  const void *pointer = tnm_get_pointer(table, object, m);
  if (m->form == TNM_TEXT) {
    write_optional_text(out, pointer);
  } else if (m->form == TNM_POINTER) {
    write_varint(out, pointer ? 1 : 0);
    if (pointer) write_struct(out, m->of, pointer);
  } else {
    uint32_t n = tnm_get_count(table, object, m);
    write_varint(out, n);
    for (size_t i = 0; i < n; ++i) write_element(out, m, pointer, i);
  }
}

/* Writes all members of the struct `object`. */
static void write_struct(tn__buf *out, const tnm_table *table,
                         const void *object) {
  const uint8_t length[4] = {0};
  size_t at = out->n;
  if (table->first_size) tn__buf_bytes(out, length, sizeof length);
  for (size_t i = 0; i < table->n_members; ++i)
    write_member(out, table, object, &table->members[i]);
  if (table->first_size && !out->failed)
    write_fixed((uint8_t *)out->s + at, out->n - at - sizeof length,
                sizeof length);
}

void tn__tables_encode(const tn_plugin *plugin, tn__buf *out) {
  const uint8_t version = ENCODING_VERSION;
  tn__buf_bytes(out, &version, 1);
  write_struct(out, &tnm_table_plugin, plugin);
}

/* ------------------------------------------------------------------ reading */

/* Returns the number of bytes of the current struct that were not read yet. */
static size_t count_remaining_bytes(const tnm_byte_reader *reader) {
  return (size_t)(reader->end - reader->at);
}

/* Records the first fault of an encoding. */
static void set_read_fault(tnm_byte_reader *reader, const char *why) {
  if (!reader->why) reader->why = why;
}

uint64_t tnm_read_fixed(tnm_byte_reader *reader, size_t n) {
  uint64_t value = 0;
  if (!reader->why && count_remaining_bytes(reader) < n)
    set_read_fault(reader, "it ends inside a number");
  if (reader->why) return 0;
  for (size_t i = 0; i < n; ++i) value |= (uint64_t)*reader->at++ << (8 * i);
  return value;
}

uint64_t tnm_read_long_varint(tnm_byte_reader *reader, uint64_t max) {
  uint64_t value = 0;
  for (unsigned shift = 0; !reader->why; shift += 7) {
    uint8_t byte = (uint8_t)tnm_read_fixed(reader, 1);
    if (reader->why) return 0;
    if (shift == 63 && byte > 1)
      set_read_fault(reader, "a number has more than 64 bits");
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    if (shift && !byte) set_read_fault(reader, "a number has needless zeros");
    if (value > max)
      set_read_fault(reader, "a number is too large for its field");
    break;
  }
  return reader->why ? 0 : value;
}

tnm_view tnm_read_text(tnm_byte_reader *reader) {
  tnm_view view = {NULL, 0};
  uint64_t n = tnm_read_varint(reader, UINT64_MAX);
  if (!n) return view;
  if (n - 1 > count_remaining_bytes(reader))
    set_read_fault(reader, "a text is longer than the data");
  if (!reader->why && memchr(reader->at, 0, (size_t)n - 1))
    set_read_fault(reader, "a text holds a zero byte");
  if (reader->why) return view;
  view = (tnm_view){(const char *)reader->at, (size_t)n - 1};
  reader->at += view.n;
  return view;
}

uint32_t tnm_read_count(tnm_byte_reader *reader, const tnm_member *m) {
  size_t least = m->form == TNM_POINTERS ? 4
                 : m->form == TNM_VALUES ? m->of->n_members
                                         : 1;
  uint64_t n = tnm_read_varint(reader, UINT32_MAX);
  if (n > count_remaining_bytes(reader) / least)
    set_read_fault(reader, "a list is longer than the data");
  return reader->why ? 0 : (uint32_t)n;
}

const uint8_t *tnm_read_enter(tnm_byte_reader *reader, const tnm_table *table) {
  const uint8_t *outer = reader->end;
  if (!table->first_size) return outer;
  uint64_t n = tnm_read_fixed(reader, 4);
  if (n > count_remaining_bytes(reader))
    set_read_fault(reader, "a struct is longer than the data");
  if (!reader->why) reader->end = reader->at + n;
  return outer;
}

void tnm_read_leave(tnm_byte_reader *reader, const tnm_table *table,
                    const uint8_t *outer) {
  if (table->first_size && !reader->why) {
    if (reader->at != reader->end && !reader->newer)
      set_read_fault(reader, "a struct holds more than its fields");
    if (!reader->why) reader->at = reader->end;
  }
  reader->end = outer;
}

void tnm_byte_reader_open(tnm_byte_reader *reader, const void *bytes,
                          size_t n) {
  *reader = (tnm_byte_reader){
      .begin = bytes, .at = bytes, .end = (const uint8_t *)bytes + n};
  if (tnm_read_fixed(reader, 1) != ENCODING_VERSION)
    set_read_fault(
        reader,
        "its first byte is not 1, the only encoding that this version "
        "of Tenon reads");
  tnm_byte_reader ahead = *reader;
  (void)tnm_read_enter(&ahead, &tnm_table_plugin);
  (void)tnm_read_varint(&ahead, UINT32_MAX);
  const uint64_t minor = tnm_read_varint(&ahead, UINT32_MAX);
  reader->newer = minor > TN_ABI_MINOR;
  reader->older = minor < TN_ABI_MINOR;
}

tn_code tnm_byte_reader_close(const tnm_byte_reader *reader) {
  const char *why = reader->why;
  if (!why && reader->at != reader->end) why = "bytes follow its end";
  if (!why) return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the manifest in the note is malformed at byte %zu: %s; "
                  "rebuild the plugin",
                  (size_t)(reader->at - reader->begin), why);
}

/* ----------------------------------------------------------------- decoding */

typedef struct decoder {
  tnm_byte_reader reader;
  tn__arena *arena;
} decoder;

static const char out_of_memory[] = "no memory is left to read it";

/* Allocates zeroed memory for decoded tables; NULL if memory ran out. */
static void *alloc_decoded(decoder *d, size_t bytes) {
  void *memory = d->reader.why ? NULL : tn__arena_alloc(d->arena, bytes);
  if (!memory) set_read_fault(&d->reader, out_of_memory);
  return memory;
}

/* Decodes a text into the arena; NULL if it is absent or after a fault. */
static const char *decode_text(decoder *d) {
  tnm_view view = tnm_read_text(&d->reader);
  if (!view.s) return NULL;
  const char *text = tn__arena_text(d->arena, view.s, view.n);
  if (!text) set_read_fault(&d->reader, out_of_memory);
  return text;
}

static void decode_struct(decoder *d, const tnm_table *table, void *object);

/* Decodes a struct into new memory; NULL after a fault. */
static void *decode_new_struct(decoder *d, const tnm_table *table) {
  void *object = alloc_decoded(d, table->size);
  if (object) decode_struct(d, table, object);
  return object;
}

/* Decodes element i of an array member. */
static void decode_element(decoder *d, const tnm_member *m, void *array,
                           size_t i) {
  switch (m->form) {
    case TNM_TEXTS:
      ((const char **)array)[i] = decode_text(d);
      break;
    case TNM_U32S:
      ((uint32_t *)array)[i] =
          (uint32_t)tnm_read_varint(&d->reader, UINT32_MAX);
      break;
    case TNM_U64S:
      ((uint64_t *)array)[i] = tnm_read_varint(&d->reader, UINT64_MAX);
      break;
    case TNM_POINTERS:
      ((void **)array)[i] = decode_new_struct(d, m->of);
      break;
    default:
      decode_struct(d, m->of, (char *)array + i * m->of->size);
  }
}

/* Decodes an array member of `object`, and stores its length there. Returns
 * the array; NULL if it is empty or after a fault. */
static const void *decode_array(decoder *d, void *object, const tnm_member *m) {
  size_t each = m->form == TNM_VALUES ? m->of->size
                : m->form == TNM_U32S ? sizeof(uint32_t)
                                      : sizeof(uint64_t);
  uint32_t n = tnm_read_count(&d->reader, m);
  if (!n) return NULL;
  void *array = alloc_decoded(d, n * each);
  for (size_t i = 0; i < n && !d->reader.why; ++i)
    decode_element(d, m, array, i);
  memcpy((char *)object + m->count, &n, sizeof n);
  return array;
}

/* Decodes one member of the struct `object`. */
static void decode_member(decoder *d, void *object, const tnm_member *m) {
  const void *pointer = NULL;
  if (m->form <= TNM_F64) {
    tnm_set_scalar(object, m, tnm_read_scalar(&d->reader, m));
    return;
  }
  if (m->form == TNM_TEXT)
    pointer = decode_text(d);
  else if (m->form != TNM_POINTER)
    pointer = decode_array(d, object, m);
  else if (tnm_read_varint(&d->reader, 1))
    pointer = decode_new_struct(d, m->of);
  memcpy((char *)object + m->offset, &pointer, sizeof pointer);
}

/* Decodes all members of the struct `object`. */
static void decode_struct(decoder *d, const tnm_table *table, void *object) {
  const uint32_t size = table->size;
  const uint8_t *outer = tnm_read_enter(&d->reader, table);
  if (table->first_size)
    memcpy((char *)object + table->size_offset, &size, sizeof size);
  for (size_t i = 0; i < table->n_members && !d->reader.why; ++i) {
    if (tnm_read_ended(&d->reader, table)) break;
    decode_member(d, object, &table->members[i]);
  }
  tnm_read_leave(&d->reader, table, outer);
}

tn_code tn__tables_decode(tn__arena *arena, const void *bytes, size_t n,
                          const tn_plugin **out) {
  decoder d = {.arena = arena};
  *out = NULL;
  tnm_byte_reader_open(&d.reader, bytes, n);
  tn_plugin *plugin = decode_new_struct(&d, &tnm_table_plugin);
  if (d.reader.why == out_of_memory) return tn__fail_memory(n, "a manifest");
  TN__TRY(tnm_byte_reader_close(&d.reader));
  plugin->magic = TN_PLUGIN_MAGIC;
  plugin->manifest_hash = tn__hash(bytes, n);
  *out = plugin;
  return TN_OK;
}
