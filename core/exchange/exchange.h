/* SPDX-License-Identifier: Apache-2.0
 * exchange.h: arrays in files (.npy, .npz, .safetensors) and in other libraries
 * (DLPack). This header is shared by the files of this folder, core/npz and
 * core/runtime/api_exchange.c only.
 *
 * files: dlpack.c            imports and exports DLPack objects
 *        names.c             checks names of arrays
 *        bundle.c            an open file: format, search, list, close
 *        load.c              creates an array of an entry: read, map, convert
 *        npy.c               reads the header of a .npy
 *        npz.c               opens libtenon-npz.so, which knows the .npz format
 *        safetensors.c       reads the header of a .safetensors
 *        save.c              chooses the format; streams elements of any array
 *        save_safetensors.c  writes a .safetensors
 */
#ifndef TENON_EXCHANGE_INTERNAL_H_
#define TENON_EXCHANGE_INTERNAL_H_

#include "files.h"
#include "ndarray.h"
#include "tenon/exchange.h"

/* ------------------------------------------------------------------ DLPack */

/* The public functions after the check of their pointers. */
tn_code tn__array_from_dlpack(const tn__env *env, tn_dlpack *from,
                              uint32_t flags, tn_array **out);
tn_code tn__array_from_dlpack_versioned(const tn__env *env,
                                        tn_dlpack_versioned *from,
                                        uint32_t flags, tn_array **out);
tn_code tn__array_to_dlpack(tn_array *array, tn_dlpack **out);
tn_code tn__array_to_dlpack_versioned(tn_array *array,
                                      tn_dlpack_versioned **out);

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
typedef struct tn__zip_member {
  uint64_t local;  /* its own header in the file */
  uint64_t begin;  /* its data, after that header */
  uint64_t stored; /* bytes in the file */
  uint64_t bytes;  /* bytes when inflated */
  uint32_t crc;
  uint16_t method; /* 0 stored, 8 deflated */
  uint16_t reserved;
} tn__zip_member;

typedef struct tn__bundle_entry {
  const char *name;
  const int64_t *shape;
  int32_t ndim;
  tn_dtype dtype;
  bool columns;                 /* column-major */
  bool swapped;                 /* big endian */
  uint64_t begin;               /* of the elements, in the file or the member */
  uint64_t bytes;               /* of the elements */
  const tn__zip_member *member; /* NULL: directly in the file */
} tn__bundle_entry;

struct tn_bundle {
  const tn__env *env;
  tn__file file;
  tn__arena arena;           /* owns all that entries point to */
  tn__bundle_entry *entries; /* in order of names, when the file is open */
  size_t n;
  size_t capacity;
  tn_bundle_pair *metadata; /* in order of keys */
  size_t n_metadata;
  size_t metadata_capacity;
};

tn_code tn__bundle_open(const tn__env *env, const char *path, tn_bundle **out);
void tn__bundle_close(tn_bundle *bundle);
/* Appends a zeroed entry. */
tn_code tn__bundle_add(tn_bundle *bundle, tn__bundle_entry **out);
/* Appends a zeroed pair of metadata. */
tn_code tn__bundle_add_pair(tn_bundle *bundle, tn_bundle_pair **out);
tn_code tn__bundle_find(const tn_bundle *bundle, const char *name,
                        const tn__bundle_entry **out);
tn_code tn__bundle_get(const tn_bundle *bundle, const char *name,
                       uint32_t flags, tn_array **out);

/* Read the table of contents of one format, and add the entries in any order.
 */
tn_code tn__npy_open(tn_bundle *bundle);
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

/* ----------------------------------------------------------------- writing */

/* tn__sink_write has this type. */
typedef tn_code tn__write_fn(void *ctx, const void *bytes, size_t n);

/* Passes all elements to `write`, dense and row-major. The read has its place
 * in the order of pushes. */
tn_code tn__array_stream(tn_array *array, tn__write_fn *write, void *ctx);
/* Bytes of all elements. */
uint64_t tn__array_bytes(const tn_array *array);

tn_code tn__bundle_save(const tn__env *env, const char *path,
                        const tn_bundle_content *content);

/* True if the arrays of such a file have names. */
bool tn__bundle_is_named(const char *path);

/* Formats the header of a .npy; TN_UNSUPPORTED for bf16. */
tn_code tn__npy_header(const char *path, const char *name,
                       const tn_array *array, tn__buf *out);
tn_code tn__safetensors_save(tn__sink *sink, const tn_bundle_content *content);

/* -------------------------------------------------------------------- .npz */

/* The functions of libtenon-npz.so, which needs zlib. It is opened for the
 * first .npz, beside libtenon.so, and stays open. */
typedef struct tn__npz_functions {
  tn_code (*open)(tn_bundle *bundle);
  tn_code (*read)(const tn__spot *spot, const tn__bundle_entry *entry,
                  void *to);
  tn_code (*save)(tn__sink *sink, const tn_bundle_content *content);
} tn__npz_functions;

#define TN__NPZ_FILE "libtenon-npz.so.0"
/* The library calls this when it is loaded. */
void tn__npz_provide(const tn__npz_functions *functions);

/* The same functions. TN_UNSUPPORTED if the library cannot be opened. */
tn_code tn__npz_open(tn_bundle *bundle);
/* Reads the elements of an entry with a member. */
tn_code tn__npz_read(const tn__spot *spot, const tn__bundle_entry *entry,
                     void *to);
tn_code tn__npz_save(tn__sink *sink, const tn_bundle_content *content);

#endif /* TENON_EXCHANGE_INTERNAL_H_ */
