/* SPDX-License-Identifier: Apache-2.0
 * exchange.h: arrays in other libraries (DLPack), and in files, which
 * libtenon-files.so reads and writes. Shared by this folder, core/files and
 * core/runtime/api_exchange.c.
 *
 * files: dlpack.c      imports and exports DLPack objects
 *        open_files.c  opens libtenon-files.so, and calls it
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

/* ---------------------------------------------------------------- a bundle */

typedef struct tn__zip_member tn__zip_member;

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

/* Each opens the library if it is not open yet; TN_UNSUPPORTED if that fails.
 */
tn_code tn__bundle_open(const tn__env *env, const char *path, tn_bundle **out);
void tn__bundle_close(tn_bundle *bundle); /* NULL is allowed */
tn_code tn__bundle_get(const tn_bundle *bundle, const char *name,
                       uint32_t flags, tn_array **out);
tn_code tn__bundle_save(const tn__env *env, const char *path,
                        const tn_bundle_content *content);
/* True if the arrays of such a file have names. */
bool tn__bundle_is_named(const char *path);

/* The functions of libtenon-files.so, with the names of those above. It is
 * opened for the first file, beside libtenon.so, and stays open. */
typedef struct tn__file_functions {
  tn_code (*open)(const tn__env *env, const char *path, tn_bundle **out);
  void (*close)(tn_bundle *bundle);
  tn_code (*get)(const tn_bundle *bundle, const char *name, uint32_t flags,
                 tn_array **out);
  tn_code (*save)(const tn__env *env, const char *path,
                  const tn_bundle_content *content);
} tn__file_functions;

#define TN__FILES_FILE "libtenon-files.so.0"
/* The library calls this when it is loaded. */
void tn__files_provide(const tn__file_functions *functions);

#endif /* TENON_EXCHANGE_INTERNAL_H_ */
