/* SPDX-License-Identifier: Apache-2.0
 * Times one thing about plugin files in a fresh process and prints nanoseconds;
 * bench/load.py runs it often and prints medians.
 *
 *   load inspect FILE   reads the note of a file (steady state, of many times)
 *   load dlopen FILE... opens and closes files with dlopen alone
 *   load load FILE...   loads files into one runtime
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum { TIMES = 1001 };

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare_times(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t time_inspect(tn_runtime *rt, char **files) {
  static int64_t times[TIMES];
  for (int i = 0; i < TIMES; ++i) {
    const int64_t begin = now_ns();
    tn_inspection *inspection = NULL;
    if (tn_inspection_open(rt, files[0], &inspection)) return -1;
    tn_inspection_close(inspection);
    times[i] = now_ns() - begin;
  }
  qsort(times, TIMES, sizeof *times, compare_times);
  return times[TIMES / 2];
}

static int64_t open_and_close(tn_runtime *rt, char **files) {
  (void)rt;
  const int64_t begin = now_ns();
  for (; *files; ++files) {
    void *handle = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    if (!handle || dlclose(handle)) return -1;
  }
  return now_ns() - begin;
}

static int64_t time_load(tn_runtime *rt, char **files) {
  const int64_t begin = now_ns();
  for (; *files; ++files)
    if (tn_plugin_load(rt, *files)) return -1;
  return now_ns() - begin;
}

static const struct {
  const char *name;
  int64_t (*measure)(tn_runtime *rt, char **files);
} measures[] = {
    {"inspect", time_inspect}, {"dlopen", open_and_close}, {"load", time_load}};

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  int64_t result = -1;
  if (argc < 3) return 2;
  if (tn_runtime_create(NULL, &rt) == TN_OK)
    for (size_t i = 0; i < sizeof measures / sizeof *measures; ++i)
      if (!strcmp(argv[1], measures[i].name))
        result = measures[i].measure(rt, argv + 2);
  if (result < 0) fprintf(stderr, "load: %s\n", tn_error_text());
  printf("%lld\n", (long long)result);
  tn_runtime_release(rt);
  return result < 0;
}
