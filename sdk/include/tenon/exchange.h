/* SPDX-License-Identifier: Apache-2.0
 * exchange.h: import and export of arrays: DLPack in memory, and files of NumPy
 * (.npy, .npz) and safetensors. Part of libtenon; the conventions are those of
 * tenon.h.
 *
 *   tn_bundle *file = NULL;
 *   tn_array *weight = NULL;
 *   tn_code rc = tn_bundle_open(rt, "model.safetensors", &file);
 *   if (!rc) rc = tn_bundle_get(file, "layer.weight", 0, &weight);
 *   tn_bundle_close(file);
 */
#ifndef TENON_EXCHANGE_H_
#define TENON_EXCHANGE_H_

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ DLPack */

/* The two objects in which frameworks exchange arrays. They have the layout of
 * DLPack's DLManagedTensor and DLManagedTensorVersioned, so a pointer to one of
 * those may be cast; <dlpack/dlpack.h> is not needed here. Frozen. */
typedef struct tn_dlpack {
  tn_tensor tensor; /* strides may be NULL: dense and row-major */
  void *manager_ctx;
  void (*deleter)(
      struct tn_dlpack *self); /* frees it all; may be NULL. [any] */
} tn_dlpack;

typedef struct tn_dlpack_versioned {
  uint32_t major;
  uint32_t minor;
  void *manager_ctx;
  void (*deleter)(struct tn_dlpack_versioned *self); /* as above. [any] */
  uint64_t flags;                                    /* TN_DLPACK_* */
  tn_tensor tensor;                                  /* as above */
} tn_dlpack_versioned;

/* The version of exported objects; imports accept any minor. */
#define TN_DLPACK_MAJOR 1
#define TN_DLPACK_MINOR 1

enum {                                /* tn_dlpack_versioned.flags */
       TN_DLPACK_READ_ONLY = 1u << 0, /* the memory must not be written */
       TN_DLPACK_IS_COPIED = 1u << 1, /* the producer made a copy for this */
       TN_DLPACK_PADDED = 1u << 2     /* elements below 8 bits do not share
                                         bytes; such imports are refused */
};

enum { /* flags of an import */
       /* Import read-only memory as it is, without a copy: the array must never
        * be an output. */
       TN_DLPACK_BORROW = 1u << 0
};

/* Makes an array of foreign memory, without a copy. Takes `from` on success:
 * its deleter is called once, on any thread, after the last array, view and
 * operation that use the memory. On failure it still belongs to the caller and
 * the deleter was not called.
 *
 * Memory that cannot be written safely is copied, and released before the
 * function returns, unless `flags` has TN_DLPACK_BORROW: memory marked
 * TN_DLPACK_READ_ONLY, and elements that overlap one another. (Repetition by a
 * stride of 0 counts as a broadcast view, which calls refuse as an output.)
 *
 * The import waits for nothing: the producer's work on the memory must be
 * complete. Two imports of the same memory are two arrays; uses of one are not
 * ordered with uses of the other.
 *
 * Refused are: another major version, packed elements that are not dense, and
 * padded ones (TN_UNSUPPORTED), element types that op.h does not have, vectors
 * of elements (TN_DTYPE), devices that the runtime does not have
 * (TN_NOT_FOUND), and invalid tensors: more than TN_MAX_NDIM dimensions,
 * negative ones, no data for elements, elements that are not aligned to their
 * size, sizes that exceed an address (TN_INVALID, TN_OUT_OF_RANGE). The caller
 * releases *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_from_dlpack_versioned(
    tn_runtime *rt, tn_dlpack_versioned *from, uint32_t flags, tn_array **out);

/* The same for the object without version and flags, of DLPack before 1.0: its
 * memory counts as writable. Takes `from` on success. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_array_from_dlpack(tn_runtime *rt, tn_dlpack *from,
                                                uint32_t flags, tn_array **out);

/* Lends the array's memory to a consumer, without a copy. Waits until it can be
 * read, and reports the error that it carries; an array that was never written
 * becomes zeros. The object keeps the array and its runtime until its deleter
 * is called, once, on any thread that may release arrays; every export makes
 * its own object. While the consumer uses the memory, nothing here may write
 * it: the two are not ordered. The consumer's work on the memory, also on a
 * device, must be complete when it calls the deleter: the next array may get
 * that memory. Broadcast views and borrowed read-only memory are marked
 * read-only. The caller releases *out by its deleter. [host-thread] */
TN_API TN_MUST_USE tn_code
tn_array_to_dlpack_versioned(tn_array *array, tn_dlpack_versioned **out);
TN_API TN_MUST_USE tn_code tn_array_to_dlpack(tn_array *array, tn_dlpack **out);

/* ------------------------------------------------------------------- files */

/* An opened file of named arrays. Its table of contents is read and checked as
 * a whole when it is opened; elements are read on request. The reader checks
 * everything: sizes, ranges and names must fit the file and each other,
 * compressed data must be exactly as long as declared, and memory is allocated
 * in proportion to the real content. Messages name the file, the array and the
 * byte.
 *
 * .npy          formats 1 to 3, one array without a name; both byte orders;
 *               column-major files become transposed views
 * .npz          zip of .npy files, stored or deflated, zip64; the checksum is
 *               compared when an array is read. Arrays are named without ".npy"
 * .safetensors  with metadata; every byte must belong to exactly one array
 *
 * The end of the file's name selects the format; with any other end, the file's
 * first bytes do. A file with an array of a type that op.h does not have is
 * refused as a whole, and so are names with "..", a backslash or a control
 * character in them, and names that occur twice. The file may be renamed or
 * deleted while it is open, but must not be changed. */
typedef struct tn_bundle tn_bundle;

/* One array of a file. Frozen. */
typedef struct tn_bundle_entry {
  const char *name;     /* "" in a .npy; borrowed until the bundle is closed */
  const int64_t *shape; /* ndim entries; borrowed likewise */
  int32_t ndim;
  tn_dtype dtype;
} tn_bundle_entry;

/* A line of the metadata of a .safetensors. Frozen. */
typedef struct tn_bundle_pair {
  const char *key;
  const char *value;
} tn_bundle_pair;

/* Opens a file. It keeps the runtime until it is closed. The caller closes
 * *out. [host-thread] */
TN_API TN_MUST_USE tn_code tn_bundle_open(tn_runtime *rt, const char *path,
                                          tn_bundle **out);

/* Closes the file; arrays that were read stay valid. NULL is allowed.
 * [host-thread] */
TN_API void tn_bundle_close(tn_bundle *bundle);

/* Number of arrays. [any] */
TN_API size_t tn_bundle_size(const tn_bundle *bundle);

/* Array number `index` in order of names; TN_NOT_FOUND beyond the last.
 * Borrowed until the bundle is closed. [any] */
TN_API TN_MUST_USE tn_code tn_bundle_at(const tn_bundle *bundle, size_t index,
                                        tn_bundle_entry *out);

/* Pair number `index` of the metadata in order of keys; TN_NOT_FOUND beyond the
 * last. Borrowed until the bundle is closed. [any] */
TN_API TN_MUST_USE tn_code tn_bundle_pair_at(const tn_bundle *bundle,
                                             size_t index, tn_bundle_pair *out);

enum { /* flags of tn_bundle_get */
       /* The array is the file's own pages, read when they are touched and
        * private once written, instead of a copy: for .npy and .safetensors
        * with aligned elements that need no conversion; otherwise they are read
        * as without the flag. If the file is truncated meanwhile, touching a
        * lost page ends the process (SIGBUS). */
       TN_BUNDLE_MAP = 1u << 0
};

/* Reads one array, onto the cpu. `name` NULL means the only one of the file;
 * the text of TN_NOT_FOUND has the nearest name. The caller releases *out.
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_bundle_get(tn_bundle *bundle, const char *name,
                                         uint32_t flags, tn_array **out);

/* One array to write. */
typedef struct tn_bundle_item {
  const char *name; /* ignored for a .npy */
  tn_array *array;  /* on any device, with any strides */
} tn_bundle_item;

enum {                             /* tn_bundle_content.flags */
       TN_BUNDLE_DEFLATE = 1u << 0 /* compress; .npz only */
};

/* The content of a file to write. */
typedef struct tn_bundle_content {
  uint32_t struct_size; /* sizeof(tn_bundle_content) */
  uint32_t flags;
  const tn_bundle_item *items;
  size_t n_items;
  const tn_bundle_pair *metadata; /* .safetensors only */
  size_t n_metadata;
} tn_bundle_content;

/* Writes a file in the format that the end of its name selects: ".npy" (exactly
 * one array), ".npz" or ".safetensors". Waits until the arrays can be read. The
 * file appears under its name when it is complete and on the disk; after a
 * failure the old file is unchanged. The new file gets the permissions of a
 * file that it replaces; a link is followed to its target. A device or a FIFO
 * is written directly, except for a .npz, which cannot be written in order
 * (TN_UNSUPPORTED). The same content makes the same bytes (deflated ones with
 * the same zlib). A .npy cannot hold bf16 and storage types, a .safetensors
 * cannot hold i4, u4, i2, u2, and an odd number of f4e2m1 (TN_UNSUPPORTED).
 * [host-thread] */
TN_API TN_MUST_USE tn_code tn_bundle_save(tn_runtime *rt, const char *path,
                                          const tn_bundle_content *content);

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXCHANGE_H_ */
