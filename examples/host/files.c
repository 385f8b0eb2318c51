/* SPDX-License-Identifier: Apache-2.0
 * Views of an array, a file of named arrays, and reading it again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tenon/exchange.h>

static tn_code save(tn_runtime *rt, const char *path) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  tn_array *x = NULL, *turned = NULL, *row = NULL;
  tn_code rc = tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_array_transpose(x, NULL, &turned);
  if (!rc) rc = tn_array_index(x, 0, -1, &row);
  const tn_bundle_item items[] = {{"turned", turned}, {"last row", row}};
  const tn_bundle_pair note = {"made by", "files.c"};
  const tn_bundle_content content = {.struct_size = sizeof content,
                                     .items = items,
                                     .n_items = 2,
                                     .metadata = &note,
                                     .n_metadata = 1};
  if (!rc) rc = tn_bundle_save(rt, path, &content);
  tn_array_release(x), tn_array_release(turned), tn_array_release(row);
  return rc;
}

static void list(const tn_bundle *file) {
  tn_bundle_entry e;
  for (size_t i = 0; !tn_bundle_at(file, i, &e); ++i) {
    printf("%s:", e.name);
    for (int32_t d = 0; d < e.ndim; ++d) printf(" %" PRId64, e.shape[d]);
    printf("\n");
  }
}

static tn_code load(tn_runtime *rt, const char *path) {
  float v[6];
  tn_bundle *file = NULL;
  tn_array *array = NULL, *missing = NULL;
  tn_code rc = tn_bundle_open(rt, path, &file);
  if (!rc) list(file);
  if (!rc) rc = tn_bundle_get(file, "turned", TN_BUNDLE_MAP, &array);
  if (!rc) rc = tn_array_get(array, v, sizeof v);
  if (!rc) printf("%g %g %g %g %g %g\n", v[0], v[1], v[2], v[3], v[4], v[5]);
  if (!rc && tn_bundle_get(file, "turn", 0, &missing))
    printf("%s\n", tn_error_text());
  tn_bundle_close(file);
  tn_array_release(array), tn_array_release(missing);
  return rc;
}

int main(void) {
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = save(rt, "model.safetensors");
  if (!rc) rc = load(rt, "model.safetensors");
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
