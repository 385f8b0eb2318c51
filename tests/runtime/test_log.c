/* SPDX-License-Identifier: Apache-2.0
 * test_log.c: lines that the library writes to the log of a host, by part and
 * level (tn_options.log_levels).
 */
#include <stdio.h>
#include <time.h>

#include "jobs.h"

static char logged[1 << 14];

static void keep_line(void *ctx, int32_t level, const char *line) {
  const size_t n = strlen(logged);
  (void)ctx;
  (void)snprintf(logged + n, sizeof logged - n, "%d %s\n", level, line);
}

static tn_runtime *open_logging(const char *levels) {
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 2,
                              .log = keep_line,
                              .log_levels = levels};
  tn_runtime *rt = NULL;
  logged[0] = '\0';
  EXPECT(tn_runtime_create(&options, &rt), TN_OK);
  return rt;
}

#define EXPECT_LINE(line) \
  cr_assert(strstr(logged, (line)), "no %s in:\n%s", (line), logged)

static void run_two_jobs(tn_runtime *rt) {
  gate g;
  tn_variable *x = make_variable(rt);
  push_gate(rt, &g, x);
  (void)sem_post(&g.go);
  EXPECT(tn_variable_wait(x), TN_OK);
  tn_variable_release(x);
}

Test(log, the_engine_logs_the_start_of_its_workers) {
  tn_runtime *rt = open_logging("engine:debug");
  run_two_jobs(rt);
  tn_runtime_release(rt);
  EXPECT_LINE("4 engine: started 2 workers\n");
}

Test(log, parts_at_the_default_level_log_no_debug_lines) {
  tn_runtime *rt = open_logging("storage:debug");
  run_two_jobs(rt);
  tn_runtime_release(rt);
  cr_assert_str_eq(logged, "");
}

/* Needs more than 100 ms, which is a slow wait. */
static tn_code spin(void *arg) {
  struct timespec begin, now;
  (void)arg;
  (void)clock_gettime(CLOCK_MONOTONIC, &begin);
  do (void)clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec -
             begin.tv_nsec <
         120000000);
  return TN_OK;
}

Test(log, a_slow_wait_is_logged) {
  tn_runtime *rt = open_logging("debug");
  tn_variable *x = make_variable(rt);
  EXPECT(tn_push(rt, JOB(spin, NULL, TN_USES({x, TN_UPDATE}))), TN_OK);
  EXPECT(tn_variable_wait(x), TN_OK);
  EXPECT_LINE("4 engine: a wait took 1");
  logged[0] = '\0';
  EXPECT(tn_push(rt, JOB(spin, NULL, TN_USES({x, TN_UPDATE}))), TN_OK);
  EXPECT(tn_wait_all(rt), TN_OK);
  EXPECT_LINE("4 engine: a wait took 1");
  tn_variable_release(x);
  tn_runtime_release(rt);
}

Test(log, a_device_logs_when_its_memory_doubles) {
  static const char bytes[5 << 20];
  const int64_t shape[] = {sizeof bytes};
  tn_array *array = NULL;
  tn_runtime *rt = open_logging("storage:debug");
  EXPECT(tn_array_create(
             rt, &(tn_spec){.dtype = TN_U8, .ndim = 1, .shape = shape}, &array),
         TN_OK);
  EXPECT(tn_array_set(array, bytes, sizeof bytes), TN_OK);
  tn_array_release(array);
  tn_runtime_release(rt);
  EXPECT_LINE("4 storage: cpu(0) holds 5242880 bytes\n");
}

Test(log, a_refused_plugin_is_logged_with_its_reason) {
  tn_runtime *rt = open_logging("");
  EXPECT(tn_plugin_load(rt, "/nowhere/x.so"), TN_NOT_FOUND);
  EXPECT_LINE("3 loading: refused: /nowhere/x.so: ");
  tn_runtime_release(rt);
}

Test(log, wrong_levels_are_refused_with_the_valid_ones) {
  tn_runtime *rt = NULL;
  const tn_options wrong = {.struct_size = sizeof wrong,
                            .log_levels = "memory:debug"};
  EXPECT(tn_runtime_create(&wrong, &rt), TN_INVALID);
  cr_assert_null(rt);
  EXPECT_TEXT(
      "tn_options.log_levels is \"memory:debug\", and `memory` is no "
      "part");
  EXPECT_TEXT("parts: engine, storage, loading");
}
