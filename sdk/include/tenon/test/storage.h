/* SPDX-License-Identifier: Apache-2.0
 * test/storage.h: a part of test.h: numbers as elements of storage types, and
 * back (tenon/kernel/storage.h).
 */
#ifndef TENON_TEST_STORAGE_H_
#define TENON_TEST_STORAGE_H_

static bool tn_test_is_storage(tn_dtype dtype) {
  return tn_storage_has(dtype) != 0;
}

/* Numbers as elements of a storage type, and back. */
static void tn_test_store(tn_dtype dtype, const double *from, size_t n,
                          void *to) {
  const tn_storage_rule rule = {dtype, 0, TN_STORAGE_NEAREST};
  memset(to, 0, (size_t)tn_dtype_bytes_of(dtype, (int64_t)n));
  for (size_t i = 0; i < n; ++i)
    tn_storage_write(to, &rule, (int64_t)i, from[i]);
}

static void tn_test_restore(tn_dtype dtype, const void *from, size_t n,
                            double *to) {
  for (size_t i = 0; i < n; ++i)
    to[i] = (double)tn_storage_read(from, dtype, (int64_t)i);
}

/* The number that an element is after a number was stored in it. */
static double tn_test_stored(tn_dtype dtype, double value) {
  unsigned char element = 0;
  if (!tn_test_is_storage(dtype)) return dtype == TN_BOOL ? value != 0 : value;
  tn_test_store(dtype, &value, 1, &element);
  tn_test_restore(dtype, &element, 1, &value);
  return value;
}

/* Writes numbers into an array of a storage type. */
static tn_code tn_test_set_storage(tn_array *array, const double *from) {
  const tn_dtype dtype = tn_array_tensor(array)->dtype;
  const size_t bytes = tn_test_bytes(array);
  void *elements = malloc(bytes + 1);
  if (elements == NULL) return TN_OUT_OF_MEMORY;
  tn_test_store(dtype, from, (size_t)tn_array_size(array), elements);
  const tn_code rc = tn_array_set(array, elements, bytes);
  free(elements);
  return rc;
}

/* Reads them. */
static tn_code tn_test_get_storage(tn_array *array, double *out) {
  const size_t bytes = tn_test_bytes(array);
  void *elements = malloc(bytes + 1);
  if (elements == NULL) return TN_OUT_OF_MEMORY;
  const tn_code rc = tn_array_get(array, elements, bytes);
  if (rc == TN_OK)
    tn_test_restore(tn_array_tensor(array)->dtype, elements,
                    (size_t)tn_array_size(array), out);
  free(elements);
  return rc;
}

#endif /* TENON_TEST_STORAGE_H_ */
