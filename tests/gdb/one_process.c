/* SPDX-License-Identifier: Apache-2.0
 * one_process.c: runs tests of Criterion one after the other in the process
 * itself, for `./dev gdb`. Criterion gives each test a process that a debugger
 * cannot follow, because Criterion traces it.
 *
 * A library for LD_PRELOAD: it replaces functions of Criterion. TENON_TEST
 * selects tests, as "SUITE/NAME" with * and ?. A failed assertion stops the
 * debugger with SIGTRAP.
 */
#include <criterion/criterion.h>
#include <criterion/event.h>
#include <criterion/internal/ordered-set.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

CR_API void criterion_send_assert(struct criterion_assert_stats *stats) {
  if (stats->passed) return;
  fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
  (void)raise(SIGTRAP);
}

/* The process ends, because the objects of the test still exist. */
CR_API CR_NORETURN void criterion_abort_test(void) {
  exit(1);
}

/* Parts of each test: without a process of its own, only the second has a task.
 */
CR_API void criterion_internal_test_setup(void) {}
CR_API void criterion_internal_test_main(void (*function)(void)) {
  function();
}
CR_API void criterion_internal_test_teardown(void) {}

static void call(void (*function)(void)) {
  if (function) function();
}

static void run_test(const struct criterion_suite *suite,
                     const struct criterion_test *test) {
  const struct criterion_test_extra_data *of = suite->data;
  fprintf(stderr, "%s/%s\n", test->category, test->name);
  if (of) call(of->init);
  call(test->data->init);
  call(test->test);
  call(test->data->fini);
  if (of) call(of->fini);
}

static bool is_selected(const struct criterion_test *test) {
  const char *pattern = getenv("TENON_TEST");
  char name[512];
  (void)snprintf(name, sizeof name, "%s/%s", test->category, test->name);
  return test->data->kind_ == CR_TEST_NORMAL &&
         (!pattern || fnmatch(pattern, name, 0) == 0);
}

static int run_suite(const struct criterion_suite_set *set) {
  int selected = 0; /* the macro has a variable n */
  /* clang-format off */
  FOREACH_SET(struct criterion_test *test, set->tests) {
    if (!is_selected(test)) continue;
    run_test(&set->suite, test);
    ++selected;
  }
  /* clang-format on */
  return selected;
}

CR_API int criterion_run_all_tests(struct criterion_test_set *tests) {
  int selected = 0;
  /* clang-format off */
  FOREACH_SET(struct criterion_suite_set *set, tests->suites) {
    selected += run_suite(set);
  }
  /* clang-format on */
  if (selected == 0) fprintf(stderr, "no test matches TENON_TEST\n");
  return selected > 0;
}
