/* SPDX-License-Identifier: Apache-2.0
 * example_file.c: a file with the places of its examples. Several threads read
 * at the same time.
 */
#include <string.h>

#include "sources.h"

enum { MOST_AT_ONCE = 1 << 20 }; /* bytes of neighbours */

tn_code tn__example_file_open(const tn__env *env, const char *path,
                              tn__example_file *out) {
  *out = (tn__example_file){.env = env};
  out->path = tn__strdup(env, path);
  if (!out->path)
    return tn__fail_memory(strlen(path) + 1, "the name of a file");
  TN__TRY(tn__file_open(env, out->path, &out->file));
  out->is_open = true;
  return TN_OK;
}

void tn__example_file_deinit(tn__example_file *file) {
  if (file->is_open) tn__file_close(&file->file);
  tn__free(file->env, file->path);
  tn__free(file->env, file->places);
}

tn_code tn__example_file_add(tn__example_file *file, uint64_t offset,
                             uint64_t bytes) {
  if (file->n == file->capacity) {
    const size_t capacity = file->capacity ? 2 * file->capacity : 256;
    tn__place *more = tn__alloc(file->env, capacity * sizeof *more);
    if (!more)
      return tn__fail_memory(capacity * sizeof *more, "places of examples");
    if (file->n > 0) memcpy(more, file->places, file->n * sizeof *more);
    tn__free(file->env, file->places);
    file->places = more;
    file->capacity = capacity;
  }
  file->places[file->n++] = (tn__place){offset, bytes};
  return TN_OK;
}

/* Examples of a batch that are neighbours in the file. */
typedef struct run {
  uint32_t n;
  uint64_t offset;
  uint64_t bytes;
} run;

/* The neighbours from position `at` of the batch on. */
static run find_run(const tn__example_file *file, const tn__filling *f,
                    uint32_t at) {
  const tn__place *first = &file->places[f->index[at]];
  run out = {1, first->offset, first->bytes};
  for (; at + out.n < f->n; ++out.n) {
    if (f->index[at + out.n] != f->index[at + out.n - 1] + 1) break;
    const tn__place *next = &file->places[f->index[at + out.n]];
    const uint64_t bytes = next->offset + next->bytes - first->offset;
    if (bytes > MOST_AT_ONCE) break;
    out.bytes = bytes;
  }
  return out;
}

static tn_code read_run(const tn__example_file *file, const tn__filling *f,
                        const run *r) {
  if (r->bytes > SIZE_MAX / 2)
    return tn__fail_memory(SIZE_MAX, "an example of a file");
  TN__TRY(tn__room_reserve(file->env, f->room, (size_t)r->bytes + 1, 0));
  return tn__file_read(&(tn__spot){&file->file, NULL}, r->offset, f->room->data,
                       (size_t)r->bytes);
}

tn_code tn__example_file_read(const tn__example_file *file,
                              const tn__filling *f, tn__use_example *use,
                              void *context) {
  for (uint32_t at = 0; at < f->n;) {
    const run r = find_run(file, f, at);
    TN__TRY(read_run(file, f, &r));
    for (uint32_t i = 0; i < r.n; ++i, ++at) {
      const tn__place *place = &file->places[f->index[at]];
      TN__TRY(use(context,
                  &(tn__example){at, f->room->data + (place->offset - r.offset),
                                 (size_t)place->bytes, place->offset}));
    }
  }
  return TN_OK;
}
