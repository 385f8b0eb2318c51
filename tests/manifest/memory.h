/* SPDX-License-Identifier: Apache-2.0
 * memory.h: manifests for tests as files that exist in memory only, and an
 * allocator that fails on request.
 */
#ifndef TENON_TESTS_MANIFEST_MEMORY_H_
#define TENON_TESTS_MANIFEST_MEMORY_H_

#include "manifest.h"

typedef struct memory_file {
  const char *path;
  const char *text;
} memory_file;

/* An environment with these files only, ended by one without a path. One set at
 * a time; the files outlive their use. */
const tn__env *memory_env(const memory_file *files);

/* Makes allocation number `n` fail from now on (counted from 1; 0: none), and
 * all after it if `for_ever`. */
void memory_fail_at(size_t n, bool for_ever);
/* Number of blocks that are allocated and not freed. */
size_t memory_live(void);
/* Most bytes that were allocated at a time since memory_env. */
size_t memory_peak(void);
/* Tests whether an allocation has failed since memory_fail_at. */
bool memory_refused(void);

/* Reads `path` and prints its mistakes; the caller frees the text. *out may be
 * NULL. */
char *memory_read(const tn__env *env, const char *path, int format,
                  tnm_plugin **out);

#endif /* TENON_TESTS_MANIFEST_MEMORY_H_ */
