/* SPDX-License-Identifier: Apache-2.0
 * filebox.c: see filebox.h.
 */
#include "filebox.h"
#include "../must.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static char path_text[512];
static char seed_text[512];

void box_open(void) {
  strcpy(folder, "tenon-files-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  world_open_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
}

/* Finds temporary files that a save did not remove. */
void box_close(void) {
  world_close();
  DIR *dir = opendir(folder);
  must_hold(dir != NULL, "the folder is gone");
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    must_be_silent(strstr(e->d_name, ".tenon-"));
    unlink(box_path(e->d_name));
  }
  closedir(dir);
  must_hold(rmdir(folder) == 0, "the folder is not empty");
}

const char *box_path(const char *name) {
  snprintf(path_text, sizeof path_text, "%s/%s", folder, name);
  return path_text;
}

const char *seed_path(const char *name) {
  snprintf(seed_text, sizeof seed_text, "%s/%s", SEEDS, name);
  return seed_text;
}

void read_bytes(const char *path, bytes *out) {
  FILE *file = fopen(path, "rb");
  cr_assert_not_null(file, "%s", path);
  out->n = fread(out->data, 1, sizeof out->data, file);
  cr_assert_lt(out->n, sizeof out->data);
  fclose(file);
}

void write_bytes(const char *path, const bytes *b) {
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "%s", path);
  cr_assert_eq(fwrite(b->data, 1, b->n, file), b->n);
  cr_assert_eq(fclose(file), 0);
}

void add_bytes(bytes *b, const void *data, size_t n) {
  cr_assert_leq(n, sizeof b->data - b->n);
  if (n > 0) memcpy(b->data + b->n, data, n);
  b->n += n;
}

tn_bundle *open_bundle(const char *path) {
  tn_bundle *bundle = NULL;
  cr_assert_eq(tn__bundle_open(&w.env, path, &bundle), TN_OK, "%s",
               tn_error_text());
  return bundle;
}

tn_array *get_array(tn_bundle *bundle, const char *name) {
  tn_array *array = NULL;
  cr_assert_eq(tn__bundle_get(bundle, name, 0, &array), TN_OK, "%s",
               tn_error_text());
  return array;
}

static void expect_elements(tn_array *array, const tn_spec *spec,
                            const void *elements) {
  unsigned char *data = NULL;
  const tn_tensor *t = &array->tensor;
  const size_t n = (size_t)tn_tensor_bytes(t);
  cr_assert_eq(t->dtype, spec->dtype);
  cr_assert_eq(t->ndim, spec->ndim);
  for (int32_t i = 0; i < spec->ndim; ++i)
    cr_assert_eq(t->shape[i], spec->shape[i], "dimension %d", (int)i);
  data = malloc(n + 1);
  cr_assert_eq(tn__array_get(array, data, n), TN_OK, "%s", tn_error_text());
  if (n > 0) cr_expect_eq(memcmp(data, elements, n), 0);
  free(data);
}

void expect_array(const char *path, const char *name, const tn_spec *spec,
                  const void *elements) {
  const uint32_t flags[] = {0, TN_BUNDLE_MAP};
  tn_bundle *bundle = open_bundle(path);
  for (size_t i = 0; i < 2; ++i) {
    tn_array *array = NULL;
    cr_assert_eq(tn__bundle_get(bundle, name, flags[i], &array), TN_OK, "%s",
                 tn_error_text());
    if (i == 1) tn__bundle_close(bundle);
    expect_elements(array, spec, elements);
    tn__array_release(array);
  }
}

tn_code read_all(const char *path) {
  tn_bundle *bundle = NULL;
  TN__TRY(tn__bundle_open(&w.env, path, &bundle));
  tn_code rc = TN_OK;
  for (size_t i = 0; i < 2 * bundle->n && !rc; ++i) {
    tn_array *array = NULL;
    rc = tn__bundle_get(bundle, bundle->entries[i / 2].name,
                        i % 2 ? TN_BUNDLE_MAP : 0, &array);
    tn__array_release(array);
  }
  tn__bundle_close(bundle);
  return rc;
}
