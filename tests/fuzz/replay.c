/* SPDX-License-Identifier: Apache-2.0
 * replay.c: runs a fuzz target without libFuzzer: on every seed, and on a fixed
 * number of seeds that a known generator damages.
 *
 *   npy_replay FOLDER COUNT [SEED]
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { MAX_BYTES = 1 << 16, MAX_SEEDS = 256 };

typedef struct input {
  uint8_t data[MAX_BYTES];
  size_t n;
} input;

static input *seeds[MAX_SEEDS];
static size_t n_seeds;
static uint64_t state;

/* splitmix64 */
static uint64_t draw(void) {
  uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static size_t below(size_t n) {
  return n ? (size_t)(draw() % n) : 0;
}

static int load(const char *folder, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  input *in = calloc(1, sizeof *in);
  if (!file || !in || n_seeds == MAX_SEEDS) return 0;
  in->n = fread(in->data, 1, MAX_BYTES, file);
  fclose(file);
  seeds[n_seeds++] = in;
  return 1;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* In order of names, so that a number finds the same input everywhere. */
static int load_all(const char *folder) {
  struct dirent **entries = NULL;
  int n = scandir(folder, &entries, NULL, by_name), ok = n >= 0;
  for (int i = 0; i < n; ++i) {
    if (ok && entries[i]->d_name[0] != '.')
      ok = load(folder, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return ok && n_seeds > 0;
}

/* One of the ways in which files go wrong. */
static void damage(input *in) {
  static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, ' ', '9', '{', '"'};
  size_t at = below(in->n), n = below(9);
  if (in->n == 0) return;
  switch (below(5)) {
    case 0:
      in->data[at] ^= (uint8_t)(1u << below(8));
      break;
    case 1:
      in->data[at] = values[below(sizeof values)];
      break;
    case 2:
      in->n = at;
      break;
    case 3: /* a piece is repeated */
      if (in->n + n > MAX_BYTES || n > in->n - at) break;
      memmove(in->data + at + n, in->data + at, in->n - at);
      in->n += n;
      break;
    default: /* a piece is left out */
      if (n > in->n - at) n = in->n - at;
      memmove(in->data + at, in->data + at + n, in->n - at - n);
      in->n -= n;
  }
}

/* A copy of exactly its size: reading beyond it is found by the sanitizer. */
static void run(const input *in) {
  uint8_t *exact = malloc(in->n ? in->n : 1);
  if (!exact) exit(1);
  memcpy(exact, in->data, in->n);
  (void)LLVMFuzzerTestOneInput(exact, in->n);
  free(exact);
}

int main(int argc, char **argv) {
  static input in;
  if (argc < 3 || !load_all(argv[1])) {
    fprintf(stderr, "replay: FOLDER COUNT [SEED]; the folder has the seeds\n");
    return 2;
  }
  const unsigned long count = strtoul(argv[2], NULL, 10);
  const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  for (size_t i = 0; i < n_seeds; ++i) run(seeds[i]);
  for (unsigned long i = 0; i < count; ++i) {
    state = seed * 1000003 + i;
    in = *seeds[below(n_seeds)];
    for (size_t k = 1 + below(4); k > 0; --k) damage(&in);
    run(&in);
  }
  printf("%zu seeds and %lu damaged ones, seed %llu\n", n_seeds, count,
         (unsigned long long)seed);
  for (size_t i = 0; i < n_seeds; ++i) free(seeds[i]);
  return 0;
}
