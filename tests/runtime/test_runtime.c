/* SPDX-License-Identifier: Apache-2.0
 * test_runtime.c: options, owners, fork, devices and features of the machine.
 * Only the tests of fork and of the machine use internal names. test_running.c
 * tests the work inside of a runtime.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../forked.h"
#include "probe.h"
#include "runtime.h"

typedef struct meter {
  _Atomic int64_t living;
  _Atomic int64_t asked;
  int64_t fail_at;
  bool for_ever;
} meter;

static meter memory;

static void *alloc_meter(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  void *got = NULL;
  int64_t asked = ++m->asked;
  if (m->fail_at > 0 &&
      (asked == m->fail_at || (m->for_ever && asked > m->fail_at)))
    return NULL;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (posix_memalign(&got, align, bytes)) return NULL;
  memset(got, 0xa5, bytes);
  ++m->living;
  return got;
}

static void free_meter(void *ctx, void *got) {
  meter *m = ctx;
  --m->living;
  free(got);
}

static void drop_log(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level, (void)line;
}

static tn_options options_metered(void) {
  return (tn_options){.struct_size = sizeof(tn_options),
                      .seed = 5,
                      .allocator = {&memory, alloc_meter, free_meter},
                      .log = drop_log};
}

static tn_runtime *runtime_with_probe(void) {
  const tn_options options = options_metered();
  tn_runtime *rt = NULL;
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_plugin_add(rt, &probe_plugin), TN_OK, "%s", tn_error_text());
  return rt;
}

static tn_array *make_pair(tn_runtime *rt, float a, float b) {
  tn_array *x = NULL;
  const float values[] = {a, b};
  const int64_t shape[] = {2};
  cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &x), TN_OK);
  cr_assert_eq(tn_array_set(x, values, sizeof values), TN_OK);
  return x;
}

static void expect_pair(tn_array *x, float a, float b) {
  float got[2] = {0};
  cr_assert_eq(tn_array_get(x, got, sizeof got), TN_OK, "%s", tn_error_text());
  cr_assert(got[0] == a && got[1] == b, "%g %g", (double)got[0],
            (double)got[1]);
}

static void expect_text(const char *part) {
  cr_assert_not_null(strstr(tn_error_text(), part), "\"%s\" is missing in: %s",
                     part, tn_error_text());
}

/* ---------------------------------------------------------------- options */

Test(runtime, can_be_created_with_defaults) {
  tn_runtime *rt = NULL;
  tn_operator *op = NULL;
  cr_assert_eq(tn_runtime_create(NULL, &rt), TN_OK);
  cr_assert_eq(tn_operator_at(rt, 0, &op), TN_NOT_FOUND);
  cr_assert_null(op);
  tn_runtime_release(rt);
  tn_runtime_release(NULL);
}

Test(runtime, takes_all_memory_from_the_allocator_of_its_options) {
  tn_runtime *rt = runtime_with_probe();
  cr_assert_gt(memory.living, 0);
  tn_runtime_release(rt);
  cr_assert_eq(memory.living, 0);
}

Test(runtime, reads_options_of_any_size) {
  tn_runtime *rt = NULL;
  struct {
    tn_options known;
    uint64_t newer;
  } o = {{0}, 0};
  o.known = options_metered();
  o.known.struct_size = sizeof o;
  cr_assert_eq(tn_runtime_create(&o.known, &rt), TN_OK, "%s", tn_error_text());
  tn_runtime_release(rt);
  o.newer = 1ull << 56;
  cr_assert_eq(tn_runtime_create(&o.known, &rt), TN_UNSUPPORTED);
  cr_assert_null(rt);
  expect_text("field at byte");
  o.known.struct_size = 8; /* an older program knew two fields */
  o.known.n_memory_limits = 1;
  cr_assert_eq(tn_runtime_create(&o.known, &rt), TN_OK);
  tn_runtime_release(rt);
}

static void expect_refused(tn_options o, tn_code code, const char *part) {
  tn_runtime *rt = (tn_runtime *)&memory;
  cr_assert_eq(tn_runtime_create(&o, &rt), code);
  cr_assert_null(rt);
  expect_text(part);
}

/* A limit is on memory from the system: 40000 bytes take 40960. */
Test(runtime, keeps_arrays_within_the_memory_limit) {
  const tn_memory_limit limit = {TN_DEVICE_CPU, 0, 100000};
  static const float values[10000];
  tn_options o = options_metered();
  tn_runtime *rt = NULL;
  tn_array *arrays[3] = {NULL, NULL, NULL};
  o.n_memory_limits = 1;
  o.memory_limits = &limit;
  cr_assert_eq(tn_runtime_create(&o, &rt), TN_OK, "%s", tn_error_text());
  for (int i = 0; i < 3; ++i)
    cr_assert_eq(tn_array_create(rt, &(tn_spec){TN_F32, 1, (int64_t[]){10000}},
                                 &arrays[i]),
                 TN_OK);
  cr_assert_eq(tn_array_set(arrays[0], values, sizeof values), TN_OK);
  cr_assert_eq(tn_array_set(arrays[1], values, sizeof values), TN_OK);
  cr_assert_eq(tn_array_set(arrays[2], values, sizeof values),
               TN_OUT_OF_MEMORY);
  expect_text("40000 bytes");
  expect_text("the elements of an array");
  expect_text("100000");
  expect_text("81920");
  tn_array_release(arrays[0]);
  cr_assert_eq(tn_array_set(arrays[2], values, sizeof values), TN_OK);
  tn_array_release(arrays[1]), tn_array_release(arrays[2]);
  tn_runtime_release(rt);
}

Test(runtime, has_the_requested_number_of_cpus) {
  const tn_memory_limit limit = {TN_DEVICE_CPU, 1, 100000};
  static const float values[30000];
  const tn_spec spec = {TN_F32, 1, (int64_t[]){30000}};
  tn_options o = options_metered();
  tn_runtime *rt = NULL;
  tn_array *here = NULL, *there = NULL, *third = NULL;
  tn_device_entry entry;
  tn_place place;
  o.n_cpus = 3;
  o.n_memory_limits = 1;
  o.memory_limits = &limit;
  cr_assert_eq(tn_runtime_create(&o, &rt), TN_OK, "%s", tn_error_text());
  cr_assert_eq(tn_device_at(rt, 0, &entry), TN_OK);
  cr_assert_eq(entry.count, 3);
  cr_assert_eq(tn_place_parse(rt, "cpu(3)", &place), TN_NOT_FOUND);
  cr_assert_eq(tn_place_parse(rt, "cpu(2)", &place), TN_OK);
  cr_assert(place.device_type == TN_DEVICE_CPU && place.device_id == 2);
  cr_assert_eq(tn_array_create(rt, &spec, &here), TN_OK);
  cr_assert_eq(tn_array_set(here, values, sizeof values), TN_OK);
  cr_assert_eq(
      tn_array_create_on(rt, &spec, (tn_place){TN_DEVICE_CPU, 1}, &there),
      TN_OK);
  cr_assert_eq(tn_array_set(there, values, sizeof values), TN_OUT_OF_MEMORY);
  expect_text("cpu(1)");
  cr_assert_eq(tn_array_to(here, place, &third), TN_OK);
  cr_assert_eq(tn_array_wait(third), TN_OK);
  tn_array_release(here), tn_array_release(there), tn_array_release(third);
  tn_runtime_release(rt);
}

Test(runtime, refuses_invalid_options) {
  tn_options o = options_metered();
  expect_refused((tn_options){0}, TN_INVALID, "struct_size is 0");
  o.trust = 8;
  expect_refused(o, TN_INVALID, "unknown bits 0x8");
  o = options_metered();
  o.allocator.free = NULL;
  expect_refused(o, TN_INVALID, "only one of alloc and free");
  const tn_memory_limit limits[] = {{TN_DEVICE_CPU, 0, 100}};
  o = options_metered();
  o.n_memory_limits = 1;
  expect_refused(o, TN_INVALID, "memory_limits is NULL");
  o.memory_limits = (const tn_memory_limit[]){limits[0], limits[0]};
  o.n_memory_limits = 2;
  expect_refused(o, TN_INVALID, "twice");
  o = options_metered();
  o.engine = 7;
  expect_refused(o, TN_INVALID, "tn_options.engine is 7");
  o = options_metered();
  o.workers = 5000;
  expect_refused(o, TN_OUT_OF_RANGE, "tn_options.workers is 5000");
  o = options_metered();
  o.n_cpus = 65;
  expect_refused(o, TN_OUT_OF_RANGE, "tn_options.n_cpus is 65");
  cr_assert_eq(tn_runtime_create(NULL, NULL), TN_INVALID);
  expect_text("tn_runtime_create: the argument `out` is NULL");
}

Test(runtime, survives_every_failing_allocation) {
  for (int mode = 0; mode < 2; ++mode) {
    int64_t n = 0;
    tn_code rc = TN_OUT_OF_MEMORY;
    while (rc == TN_OUT_OF_MEMORY) {
      tn_options options = options_metered();
      options.search_path = "/none";
      tn_runtime *rt = NULL;
      memory.living = memory.asked = 0;
      memory.fail_at = ++n;
      memory.for_ever = mode == 1;
      rc = tn_runtime_create(&options, &rt);
      if (!rc) rc = tn_plugin_add(rt, &probe_plugin);
      if (!rc) rc = tn_plugin_unload(rt, "probe");
      tn_runtime_release(rt);
      cr_assert_eq(memory.living, 0, "failure %lld leaks", (long long)n);
    }
    cr_assert_eq(rc, TN_OK, "%s", tn_error_text());
    cr_assert_gt(n, 10);
  }
}

/* ----------------------------------------------------------------- owners */

Test(runtime, lives_until_its_last_array_is_gone) {
  tn_runtime *rt = runtime_with_probe();
  tn_array *x = make_pair(rt, 1, 2), *tail = NULL;
  const tn_range range = {0, 0, 1, 2, 1};
  cr_assert_eq(tn_array_slice(x, &range, &tail), TN_OK);
  tn_runtime_release(rt);
  expect_pair(x, 1, 2);
  tn_array_release(x);
  cr_assert_gt(memory.living, 0);
  tn_array_release(tail);
  cr_assert_eq(memory.living, 0);
}

Test(runtime, lives_until_its_last_params_are_gone) {
  tn_runtime *rt = runtime_with_probe();
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_text *text = NULL;
  cr_assert_eq(tn_operator_get(rt, "probe.all", &op), TN_OK);
  cr_assert_eq(tn_params_parse(op, "", &params), TN_OK);
  tn_runtime_release(rt);
  cr_assert_eq(tn_params_json(params, &text), TN_OK);
  cr_assert_str_eq(tn_text_get(text), "{}");
  tn_text_release(text);
  tn_params_release(params);
  cr_assert_eq(memory.living, 0);
}

Test(runtime, shares_nothing_with_another) {
  tn_runtime *a = runtime_with_probe(), *b = runtime_with_probe();
  tn_operator *op_a = NULL, *op_b = NULL;
  cr_assert_eq(tn_operator_get(a, "probe.all", &op_a), TN_OK);
  cr_assert_eq(tn_operator_get(b, "probe.all", &op_b), TN_OK);
  cr_assert_neq(op_a, op_b);
  tn_array *x = make_pair(a, 1, 2), *y = NULL;
  cr_assert_eq(tn_call(a, op_a, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
  expect_pair(y, 2, 4);
  cr_assert_eq(tn_call(b, op_b, TN_IN(x), NULL, TN_OUT(&y)), TN_INVALID);
  expect_text("another runtime");
  cr_assert_eq(tn_call(b, op_a, TN_IN(x), NULL, TN_OUT(&y)), TN_INVALID);
  expect_text("another runtime");
  tn_runtime_release(b);
  cr_assert_eq(tn_call(a, op_a, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
  tn_array_release(x);
  tn_array_release(y);
  tn_runtime_release(a);
  cr_assert_eq(memory.living, 0);
}

/* The exit status is 0 if every result in the child was right. */
static int check_in_child(tn_runtime *rt, tn_operator *op, tn_array *x) {
  tn_array *y = NULL, *view = NULL;
  tn_runtime *own = NULL;
  float got[2];
  if (tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)) != TN_UNSUPPORTED) return 1;
  if (!strstr(tn_error_text(), "child made by fork")) return 2;
  if (tn_array_get(x, got, sizeof got) != TN_UNSUPPORTED) return 3;
  if (tn_array_transpose(x, NULL, &view) != TN_UNSUPPORTED) return 4;
  if (tn_operator_get(rt, "probe.all", &op) != TN_UNSUPPORTED) return 5;
  if (tn_plugin_unload(rt, "probe") != TN_UNSUPPORTED) return 6;
  tn_array_release(x);
  tn_runtime_release(rt);
  if (tn_runtime_create(NULL, &own) != TN_OK) return 7;
  tn_runtime_release(own);
  return 0;
}

Test(runtime, fails_in_a_forked_child) {
  skip_where_forks_keep_all();
  tn_runtime *rt = runtime_with_probe();
  tn_operator *op = NULL;
  cr_assert_eq(tn_operator_get(rt, "probe.all", &op), TN_OK);
  tn_array *x = make_pair(rt, 1, 2), *y = NULL;
  pid_t pid = fork();
  if (pid == 0) _exit(check_in_child(rt, op, x));
  int status = -1;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
  cr_assert_eq(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_OK);
  expect_pair(y, 2, 4);
  tn_array_release(x);
  tn_array_release(y);
  tn_runtime_release(rt);
}

Test(runtime, recognises_its_process_without_the_page_too) {
  tn__creator creator = {.page = NULL, .pid = getpid()};
  cr_assert(tn__creator_is_here(&creator));
  creator.pid = getppid();
  cr_assert_not(tn__creator_is_here(&creator));
}

/* ------------------------------------------------------------- the machine */

Test(runtime, lists_the_cpu_with_its_features) {
  tn_options options = options_metered();
  tn_device_entry entry;
  tn_runtime *rt = NULL;
  options.cpu_mask = ~0ull;
  cr_assert_eq(tn_runtime_create(&options, &rt), TN_OK);
  cr_assert_eq(tn_device_at(rt, 0, &entry), TN_OK);
  cr_assert_str_eq(entry.name, "cpu");
  cr_assert_eq(entry.device_type, TN_DEVICE_CPU);
  cr_assert_eq(entry.count, 1);
  cr_assert_str_eq(entry.detail, "none");
  cr_assert_eq(tn_device_at(rt, 1, &entry), TN_NOT_FOUND);
  cr_assert_null(entry.name);
  tn_runtime_release(rt);
}

Test(runtime, names_features_in_order) {
  char text[256], small[8];
  tn__cpu_text(TN_CPU_SSE42 | TN_CPU_AVX2 | TN_CPU_SVE, text, sizeof text);
  cr_assert_str_eq(text, "sse4.2 avx2 sve");
  tn__cpu_text(TN_CPU_SSE42 | TN_CPU_AVX2, small, sizeof small);
  cr_assert_eq(strlen(small), 7);
}

#if defined(__x86_64__)
/* Compares with the compiler's own detection. */
Test(runtime, finds_the_features_that_the_compiler_finds) {
  uint64_t found = tn__cpu_features();
  __builtin_cpu_init();
  cr_assert_eq((found & TN_CPU_SSE42) != 0,
               __builtin_cpu_supports("sse4.2") != 0);
  cr_assert_eq((found & TN_CPU_AVX) != 0, __builtin_cpu_supports("avx") != 0);
  cr_assert_eq((found & TN_CPU_FMA) != 0, __builtin_cpu_supports("fma") != 0);
  cr_assert_eq((found & TN_CPU_AVX2) != 0, __builtin_cpu_supports("avx2") != 0);
  cr_assert_eq((found & TN_CPU_AVX512) != 0,
               __builtin_cpu_supports("avx512bw") != 0 &&
                   __builtin_cpu_supports("avx512vl") != 0 &&
                   __builtin_cpu_supports("avx512dq") != 0);
}
#endif
