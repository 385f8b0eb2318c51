/* SPDX-License-Identifier: Apache-2.0
 * world.h: a registry for a test: an allocator that counts and can fail, an
 * operating system with calls that can fail, a log that is kept, and files.
 */
#ifndef TENON_TESTS_WORLD_H_
#define TENON_TESTS_WORLD_H_

#include "choose.h"
#include "loading.h"

/* Fails the call number `at` (from 0), or all calls from it on. */
typedef struct failure {
  size_t calls;
  size_t at;
  bool sticky;
} failure;

typedef struct world {
  tn__env env;
  tn__registry *registry;
  failure memory;
  _Atomic size_t blocks; /* existing blocks */
  char log[8192];
  char folder[64]; /* for files, removed at the end */
} world;

void world_open(world *w, uint32_t trust);
/* Destroys the registry; asserts that no memory remains. */
void world_close(world *w);
/* Makes all further calls succeed. */
void world_heal(world *w);

/* Counts the calls of world_os and chooses those that fail; one per process. */
extern failure world_os_failure;
extern const tn__os world_os;

/* Path of a built fixture; borrowed until the next call. */
const char *fixture_path(const char *name);
/* Bytes of a fixture; the caller frees them. */
uint8_t *fixture_bytes(const char *name, size_t *n);
/* Writes a file into the world's folder; the path is borrowed until the next
 * call. */
const char *world_file(world *w, const char *name, const void *bytes, size_t n);

/* The registry as text: plugins, operators, their kernels, waiting kernels. */
void world_snapshot(const world *w, char *to, size_t n);

#endif /* TENON_TESTS_WORLD_H_ */
