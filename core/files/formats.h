/* SPDX-License-Identifier: Apache-2.0
 * formats.h: arrays in files (.npy, .npz, .safetensors): libtenon-files.so.
 * Used inside of core/files only; core/exchange calls it by tn__file_functions.
 *
 * files: file_functions.c    the table of functions
 *        names.c             checks names of arrays
 *        bundle.c            an open file: format, search, list, close
 *        load.c              creates an array of an entry: read, map, convert
 *        npy.c               reads the header of a .npy
 *        zip.c               reads the directory of a .npz
 *        unzip.c             reads one member of a zip as a stream
 *        safetensors.c       reads the header of a .safetensors
 *        save.c              chooses the format; streams elements of any array
 *        save_npz.c          writes a .npz
 *        save_safetensors.c  writes a .safetensors
 */
#ifndef TENON_FORMATS_H_
#define TENON_FORMATS_H_

#include "exchange.h"

/* ------------------------------------------------------------------- bytes */

static inline uint16_t tn__le16(const unsigned char *p) {
  return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t tn__le32(const unsigned char *p) {
  return tn__le16(p) | (uint32_t)tn__le16(p + 2) << 16;
}
static inline uint64_t tn__le64(const unsigned char *p) {
  return tn__le32(p) | (uint64_t)tn__le32(p + 4) << 32;
}

/* Returns the reason why an array cannot have this name, or NULL. */
const char *tn__find_name_fault(const char *name, size_t n);
/* Copies the start of a file's text for a message, with ? for characters that
 * are no printable ASCII. Returns `to`. */
enum { TN__SHOWN = 41 };
const char *tn__show_text(const char *text, char to[TN__SHOWN]);

/* ---------------------------------------------------------------- a bundle */

/* Position of a member in a zip. */
struct tn__zip_member {
  uint64_t local;  /* its own header in the file */
  uint64_t begin;  /* its data, after that header */
  uint64_t stored; /* bytes in the file */
  uint64_t bytes;  /* bytes when inflated */
  uint32_t crc;
  uint16_t method; /* 0 stored, 8 deflated */
  uint16_t reserved;
};

/* Implement the functions of exchange.h. */
tn_code tn__file_open_bundle(const tn__env *env, const char *path,
                             tn_bundle **out);
void tn__file_close_bundle(tn_bundle *bundle);
tn_code tn__file_get_array(const tn_bundle *bundle, const char *name,
                           uint32_t flags, tn_array **out);
tn_code tn__file_save_bundle(const tn__env *env, const char *path,
                             const tn_bundle_content *content);

/* Appends a zeroed entry. */
tn_code tn__bundle_add(tn_bundle *bundle, tn__bundle_entry **out);
/* Appends a zeroed pair of metadata. */
tn_code tn__bundle_add_pair(tn_bundle *bundle, tn_bundle_pair **out);
tn_code tn__bundle_find(const tn_bundle *bundle, const char *name,
                        const tn__bundle_entry **out);

/* Read the table of contents of one format, and add the entries in any order.
 */
tn_code tn__npy_open(tn_bundle *bundle);
tn_code tn__npz_open(tn_bundle *bundle);
tn_code tn__safetensors_open(tn_bundle *bundle);

/* -------------------------------------------------------- .npy and streams */

/* Reads exactly the next `n` bytes, or fails. */
typedef tn_code tn__read_fn(void *ctx, void *to, size_t n);

/* Bytes that can be read in order. */
typedef struct tn__stream {
  tn__read_fn *read;
  void *ctx;
  uint64_t size; /* bytes in the stream */
} tn__stream;

/* Reads the header of a .npy from the start of a stream. Sets all fields of the
 * entry but name and member. The shape is in the arena. */
tn_code tn__npy_read(const tn__spot *spot, const tn__stream *stream,
                     tn__arena *arena, tn__bundle_entry *entry);

/* A stream of one member of a zip. */
typedef struct tn__unzip tn__unzip;
tn_code tn__unzip_open(const tn__spot *spot, const tn__zip_member *member,
                       tn__unzip **out);
tn_code tn__unzip_read(void *unzip, void *to, size_t n); /* a tn__read_fn */
/* Checks after the last byte that nothing follows and that the checksum is
 * right. */
tn_code tn__unzip_end(tn__unzip *unzip);
void tn__unzip_close(tn__unzip *unzip); /* NULL is allowed */

/* ----------------------------------------------------------------- writing */

/* tn__sink_write has this type. */
typedef tn_code tn__write_fn(void *ctx, const void *bytes, size_t n);

/* Passes all elements to `write`, dense and row-major. The read has its place
 * in the order of pushes. */
tn_code tn__array_stream(tn_array *array, tn__write_fn *write, void *ctx);

/* The type's name in a .npy, without the byte order; NULL: it has none. */
const char *tn__npy_descr(tn_dtype dtype);
/* Formats the header of a .npy; TN_UNSUPPORTED for bf16 and storage types. */
tn_code tn__npy_header(const char *path, const char *name,
                       const tn_array *array, tn__buf *out);
/* NULL: the format has no such type. */
const char *tn__safetensors_name(tn_dtype dtype);
tn_code tn__safetensors_save(tn__sink *sink, const tn_bundle_content *content);
tn_code tn__npz_save(tn__sink *sink, const tn_bundle_content *content);

#endif /* TENON_FORMATS_H_ */
