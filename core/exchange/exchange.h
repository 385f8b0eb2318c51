/* SPDX-License-Identifier: Apache-2.0
 * exchange.h: arrays in files, and in other libraries' hands. What the readers
 * and writers of .npy, .npz and .safetensors share; for them and for
 * core/runtime/api_exchange.c only.
 *
 * files: dlpack.c       DLPack in and out
 *        names.c        which names arrays may have
 *        bundle.c       an opened file: which format, find, list, close
 *        load.c         elements become an array: read, mapped, converted
 *        npy.c          the header of a .npy, read
 *        zip.c          the directory of a .npz
 *        unzip.c        one member of it, as a stream
 *        safetensors.c  the header of a .safetensors, read
 *        save.c         which format; elements of any array as a stream
 *        save_npz.c     a .npz, written; save_safetensors.c likewise
 */
#ifndef TENON_EXCHANGE_INTERNAL_H_
#define TENON_EXCHANGE_INTERNAL_H_

#include "files.h"
#include "ndarray.h"
#include "tenon/exchange.h"

/* ------------------------------------------------------------------ DLPack */

/* The public functions, with checked pointers. */
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

/* NULL, or why an array cannot have this name. */
const char *tn__name_fault(const char *name, size_t n);
/* A text of a file as a message may have it: its begin, with ? in the place of
 * what is no printable ASCII. Returns `to`. */
enum { TN__SHOWN = 41 };
const char *tn__shown(const char *text, char to[TN__SHOWN]);

/* ---------------------------------------------------------------- a bundle */

/* Where a member of a zip lies. */
typedef struct tn__member {
  uint64_t local;  /* where its own header begins in the file */
  uint64_t begin;  /* of its data, behind that */
  uint64_t stored; /* bytes there */
  uint64_t bytes;  /* once inflated */
  uint32_t crc;
  uint16_t method; /* 0 stored, 8 deflated */
  uint16_t reserved;
} tn__member;

typedef struct tn__entry {
  const char *name;
  const int64_t *shape;
  int32_t ndim;
  tn_dtype dtype;
  bool columns;             /* column-major */
  bool swapped;             /* big endian */
  uint64_t begin;           /* of the elements, in the file or the member */
  uint64_t bytes;           /* of the elements */
  const tn__member *member; /* NULL: directly in the file */
} tn__entry;

struct tn_bundle {
  const tn__env *env;
  tn__file file;
  tn__arena arena;    /* all that entries lead to */
  tn__entry *entries; /* in order of names, once it is open */
  size_t n;
  size_t capacity;
  tn_bundle_pair *metadata; /* in order of keys */
  size_t n_metadata;
  size_t metadata_capacity;
};

tn_code tn__bundle_open(const tn__env *env, const char *path, tn_bundle **out);
void tn__bundle_close(tn_bundle *bundle);
/* The next entry, zeroed. */
tn_code tn__bundle_add(tn_bundle *bundle, tn__entry **out);
/* The next pair of the metadata, zeroed. */
tn_code tn__bundle_add_pair(tn_bundle *bundle, tn_bundle_pair **out);
tn_code tn__bundle_find(const tn_bundle *bundle, const char *name,
                        const tn__entry **out);
tn_code tn__bundle_get(const tn_bundle *bundle, const char *name,
                       uint32_t flags, tn_array **out);

/* The readers: they fill in the entries, in any order. */
tn_code tn__npy_open(tn_bundle *bundle);
tn_code tn__npz_open(tn_bundle *bundle);
tn_code tn__safetensors_open(tn_bundle *bundle);

/* -------------------------------------------------------- .npy and streams */

/* Gives exactly `n` bytes, the next ones, or fails. */
typedef tn_code tn__read_fn(void *ctx, void *to, size_t n);

/* Bytes that can be read in order. */
typedef struct tn__stream {
  tn__read_fn *read;
  void *ctx;
  uint64_t size; /* how many there are */
} tn__stream;

/* Reads the header of a .npy from the begin of a stream, and everything of the
 * entry but name and member; shape comes from the arena. */
tn_code tn__npy_read(const tn__spot *spot, const tn__stream *stream,
                     tn__arena *arena, tn__entry *entry);

/* A member of a zip, read from its begin. */
typedef struct tn__unzip tn__unzip;
tn_code tn__unzip_open(const tn__spot *spot, const tn__member *member,
                       tn__unzip **out);
tn_code tn__unzip_read(void *unzip, void *to, size_t n); /* a tn__read_fn */
/* Behind the last byte: that nothing follows, and that the sum is right. */
tn_code tn__unzip_end(tn__unzip *unzip);
void tn__unzip_close(tn__unzip *unzip); /* NULL is allowed */

/* ----------------------------------------------------------------- writing */

/* tn__sink_write is one. */
typedef tn_code tn__write_fn(void *ctx, const void *bytes, size_t n);

/* Hands all elements to `write`, dense and row-major, in the array's turn among
 * what was pushed. */
tn_code tn__array_stream(tn_array *array, tn__write_fn *write, void *ctx);
/* Bytes of all elements. */
uint64_t tn__array_bytes(const tn_array *array);

tn_code tn__bundle_save(const tn__env *env, const char *path,
                        const tn_bundle_content *content);

/* Whether the arrays of such a file have names. */
bool tn__bundle_is_named(const char *path);

/* The header of a .npy; TN_UNSUPPORTED for bf16. */
tn_code tn__npy_header(const char *path, const char *name,
                       const tn_array *array, tn__buf *out);
tn_code tn__npz_save(tn__sink *sink, const tn_bundle_content *content);
tn_code tn__safetensors_save(tn__sink *sink, const tn_bundle_content *content);

#endif /* TENON_EXCHANGE_INTERNAL_H_ */
