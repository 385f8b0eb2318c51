/* SPDX-License-Identifier: Apache-2.0
 * A runtime with a limit of memory, and its statistics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static const tn_place cpu = {TN_DEVICE_CPU, 0};

static void tell(tn_runtime *rt, const char *when) {
  tn_memory m = {.struct_size = sizeof m};
  if (tn_memory_get(rt, cpu, &m)) return;
  printf("%s: live %u KiB, held %u KiB, peak %u KiB\n", when,
         (unsigned)(m.live >> 10), (unsigned)(m.held >> 10),
         (unsigned)(m.peak_live >> 10));
}

static void work(tn_runtime *rt, const void *values, size_t bytes) {
  const int64_t shape[] = {(int64_t)bytes};
  tn_array *x = NULL, *y = NULL;
  tn_code rc = tn_array_create(rt, &(tn_spec){TN_U8, 1, shape}, &x);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_U8, 1, shape}, &y);
  tell(rt, "created");
  if (!rc) rc = tn_array_set(x, values, bytes);
  tell(rt, "written");
  if (!rc) rc = tn_array_set(y, values, bytes);
  if (rc) printf("%s\n", tn_error_text());
  tn_array_release(x), tn_array_release(y);
  tell(rt, "released");
  if (tn_memory_trim(rt, cpu)) printf("%s\n", tn_error_text());
  tell(rt, "trimmed");
}

int main(void) {
  const tn_memory_limit limit = {TN_DEVICE_CPU, 0, 6 << 20};
  const tn_options options = {.struct_size = sizeof options,
                              .n_memory_limits = 1,
                              .memory_limits = &limit};
  const size_t bytes = 4 << 20;
  void *values = calloc(1, bytes);
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(&options, &rt);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  if (!rc && values) work(rt, values, bytes);
  tn_runtime_release(rt);
  free(values);
  return rc || !values;
}
