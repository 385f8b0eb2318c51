/* SPDX-License-Identifier: Apache-2.0
 * test_exchange.c: each public function of exchange.h once with valid
 * arguments, as a host uses it, and once with NULL. tests/exchange covers the
 * functions themselves.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tenon/exchange.h"

static tn_runtime *rt;
static tn_array *x;
static char path[] = "tenon-exchange-XXXXXX.safetensors";
static const float values[] = {1, 2, 3, 4, 5, 6};

static void setup(void) {
  const int64_t shape[] = {2, 3};
  int fd = mkstemps(path, 12);
  cr_assert_geq(fd, 0);
  close(fd);
  cr_assert_eq(tn_runtime_create(NULL, &rt), TN_OK);
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
}

static void teardown(void) {
  tn_array_release(x);
  tn_runtime_release(rt);
  unlink(path);
}

TestSuite(exchange, .init = setup, .fini = teardown);

static void expect_text(const char *part) {
  cr_assert_not_null(strstr(tn_error_text(), part), "\"%s\" is missing in: %s",
                     part, tn_error_text());
}

static tn_bundle_content make_content(const tn_bundle_item *items, size_t n) {
  return (tn_bundle_content){
      .struct_size = sizeof(tn_bundle_content), .items = items, .n_items = n};
}

Test(exchange, a_bundle_is_saved_listed_and_read) {
  const tn_bundle_item item = {"x", x};
  const tn_bundle_pair pair = {"made by", "a test"};
  tn_bundle_content content = make_content(&item, 1);
  tn_bundle *bundle = NULL;
  tn_bundle_entry entry;
  tn_bundle_pair line;
  tn_array *back = NULL;
  float got[6] = {0};
  content.metadata = &pair;
  content.n_metadata = 1;
  cr_assert_eq(tn_bundle_save(rt, path, &content), TN_OK, "%s",
               tn_error_text());
  cr_assert_eq(tn_bundle_open(rt, path, &bundle), TN_OK, "%s", tn_error_text());
  cr_expect_eq(tn_bundle_size(bundle), 1);
  cr_assert_eq(tn_bundle_at(bundle, 0, &entry), TN_OK);
  cr_expect_str_eq(entry.name, "x");
  cr_expect_eq(entry.dtype, TN_F32);
  cr_expect_eq(entry.ndim, 2);
  cr_expect_eq(entry.shape[1], 3);
  cr_expect_eq(tn_bundle_at(bundle, 1, &entry), TN_NOT_FOUND);
  cr_assert_eq(tn_bundle_pair_at(bundle, 0, &line), TN_OK);
  cr_expect_str_eq(line.value, "a test");
  cr_expect_eq(tn_bundle_pair_at(bundle, 1, &line), TN_NOT_FOUND);
  cr_assert_eq(tn_bundle_get(bundle, "x", TN_BUNDLE_MAP, &back), TN_OK);
  tn_bundle_close(bundle);
  cr_assert_eq(tn_array_get(back, got, sizeof got), TN_OK);
  cr_expect_eq(memcmp(got, values, sizeof got), 0);
  tn_array_release(back);
}

Test(exchange, exports_and_mapped_arrays_outlive_the_release_of_their_runtime) {
  const tn_bundle_item item = {"x", x};
  const tn_bundle_content content = make_content(&item, 1);
  tn_bundle *bundle = NULL;
  tn_dlpack_versioned *d = NULL;
  tn_array *back = NULL;
  cr_assert_eq(tn_bundle_save(rt, path, &content), TN_OK);
  cr_assert_eq(tn_bundle_open(rt, path, &bundle), TN_OK);
  cr_assert_eq(tn_bundle_get(bundle, NULL, TN_BUNDLE_MAP, &back), TN_OK);
  cr_assert_eq(tn_array_to_dlpack_versioned(back, &d), TN_OK);
  tn_array_release(back);
  tn_bundle_close(bundle);
  tn_array_release(x), x = NULL;
  tn_runtime_release(rt), rt = NULL;
  cr_expect_eq(((float *)d->tensor.data)[5], 6);
  d->deleter(d);
}

Test(exchange, arrays_travel_between_runtimes) {
  tn_runtime *other = NULL;
  tn_dlpack *d = NULL;
  tn_array *there = NULL;
  float got[6] = {0};
  cr_assert_eq(tn_runtime_create(NULL, &other), TN_OK);
  cr_assert_eq(tn_array_to_dlpack(x, &d), TN_OK);
  cr_assert_eq(tn_array_from_dlpack(other, d, 0, &there), TN_OK, "%s",
               tn_error_text());
  cr_expect_eq(tn_array_tensor(there)->data, tn_array_tensor(x)->data);
  cr_assert_eq(tn_array_get(there, got, sizeof got), TN_OK);
  cr_expect_eq(memcmp(got, values, sizeof got), 0);
  tn_array_release(there);
  tn_runtime_release(other);
}

Test(exchange, null_is_reported_with_the_argument_s_name) {
  tn_bundle *bundle = NULL;
  tn_array *array = NULL;
  tn_dlpack *d = NULL;
  tn_dlpack_versioned *v = NULL;
  cr_expect_eq(tn_array_from_dlpack(rt, NULL, 0, &array), TN_INVALID);
  expect_text("from");
  cr_expect_eq(tn_array_from_dlpack_versioned(rt, NULL, 0, &array), TN_INVALID);
  cr_expect_eq(tn_array_to_dlpack(NULL, &d), TN_INVALID);
  cr_expect_eq(tn_array_to_dlpack_versioned(x, NULL), TN_INVALID);
  cr_expect_eq(tn_array_to_dlpack_versioned(NULL, &v), TN_INVALID);
  cr_expect_eq(tn_bundle_open(rt, NULL, &bundle), TN_INVALID);
  expect_text("path");
  cr_expect_eq(tn_bundle_get(NULL, "x", 0, &array), TN_INVALID);
  cr_expect_eq(tn_bundle_at(NULL, 0, &(tn_bundle_entry){0}), TN_INVALID);
  cr_expect_eq(tn_bundle_pair_at(NULL, 0, &(tn_bundle_pair){0}), TN_INVALID);
  cr_expect_eq(tn_bundle_size(NULL), 0);
  tn_bundle_close(NULL);
}

Test(exchange, content_with_holes_is_refused) {
  const tn_bundle_item no_array = {"x", NULL}, no_name = {NULL, x};
  tn_bundle_content content = make_content(&no_array, 1);
  cr_expect_eq(tn_bundle_save(rt, path, &content), TN_INVALID);
  expect_text("tn_bundle_save: the argument `content->items[i].array`");
  content.items = &no_name;
  cr_expect_eq(tn_bundle_save(rt, path, &content), TN_INVALID);
  expect_text("tn_bundle_save: the argument `content->items[i].name`");
  content.items = NULL;
  cr_expect_eq(tn_bundle_save(rt, path, &content), TN_INVALID);
  content.struct_size = 4;
  cr_expect_eq(tn_bundle_save(rt, path, &content), TN_INVALID);
  expect_text("sizeof(tn_bundle_content)");
  cr_expect_eq(tn_bundle_save(rt, path, NULL), TN_INVALID);
}
