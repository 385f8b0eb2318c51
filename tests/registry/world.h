/* SPDX-License-Identifier: Apache-2.0
 * world.h: a registry with an allocator that counts and can fail, an operating
 * system whose calls can fail, a log that is kept, and files made for a test.
 */
#ifndef TENON_TESTS_WORLD_H_
#define TENON_TESTS_WORLD_H_

#include "registry.h"

/* Fails the call number `at` (from 0), or all from there on. */
typedef struct failure {
  size_t calls;
  size_t at;
  bool sticky;
} failure;

typedef struct world {
  tn__env env;
  tn__registry *registry;
  failure memory;
  _Atomic size_t blocks; /* living */
  char log[8192];
  char folder[64]; /* for files, removed at the end */
} world;

void world_open(world *w, uint32_t trust);
/* Destroys the registry; asserts that nothing is left. */
void world_close(world *w);
/* Nothing fails any more. */
void world_heal(world *w);

/* Number of failed calls of world_os, and what fails; one per process. */
extern failure world_os_failure;
extern const tn__os world_os;

/* Path of a built fixture; borrowed until the next call. */
const char *fixture(const char *name);
/* Bytes of a fixture; the caller frees them. */
uint8_t *fixture_bytes(const char *name, size_t *n);
/* Writes a file into the world's folder; the path is borrowed until the next
 * call. */
const char *world_file(world *w, const char *name, const void *bytes, size_t n);

/* The registry as text: plugins, operators, their kernels, what waits. */
void world_snapshot(const world *w, char *to, size_t n);

#endif /* TENON_TESTS_WORLD_H_ */
