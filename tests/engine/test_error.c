/* SPDX-License-Identifier: Apache-2.0
 * Errors that travel along variables, and how they end.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"

static tn_code push_boom(tn__engine *engine, const char *name, const char *text,
                         const tn__access *access, uint32_t n) {
  return tn__push(engine, &(tn__job){.name = name,
                                     .run = run_boom,
                                     .arg = (void *)(uintptr_t)text,
                                     .access = access,
                                     .n_access = n});
}

static tn_code push_named(tn__engine *engine, const char *name, _Atomic int *n,
                          const tn__access *access, uint32_t n_access) {
  return tn__push(engine, &(tn__job){.name = name,
                                     .run = run_count,
                                     .arg = n,
                                     .access = access,
                                     .n_access = n_access});
}

static tn_code await(tn__engine *engine, tn__var *var) {
  return tn__wait(engine, var, TN__WAIT_WRITERS, TN__FOREVER);
}

Test(error, variables_of_a_failing_function_carry_its_error) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var in = {0}, x = {0}, y = {0};
    (void)push_boom(engine, "load", "here", ON(R(in), U(x), W(y)));
    cr_assert_eq(await(engine, &x), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("load", "boom here");
    cr_assert_eq(await(engine, &y), TN_INVALID);
    EXPECT_TEXT("load", "boom here");
    cr_assert_eq(await(engine, &in), TN_OK);
    cr_assert_eq(tn__var_check(&x), TN_INVALID);
    cr_assert_eq(tn__var_check(&in), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_INVALID);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

Test(error, dependents_do_not_run_and_report_the_whole_chain) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0}, z = {0}, other = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "load", "here", ON(W(x)));
    (void)push_named(engine, "scale", &n, ON(R(x), W(y)));
    (void)push_named(engine, "sum", &n, ON(R(y), U(z)));
    (void)push_named(engine, "unrelated", &n, ON(U(other)));
    cr_assert_eq(await(engine, &z), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("sum", "scale", "load", "boom here");
    cr_assert_eq(await(engine, &y), TN_INVALID);
    EXPECT_TEXT("scale", "load", "boom here");
    cr_assert_null(strstr(tn_error_text(), "sum"));
    cr_assert_eq(await(engine, &other), TN_OK);
    cr_assert_eq(n, 1);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    tn__var_deinit(&z);
    engine_close(engine);
  }
}

Test(error, every_wait_reports_and_only_a_whole_overwrite_clears) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "load", "here", ON(W(x)));
    for (int i = 0; i < 3; ++i) {
      cr_assert_eq(await(engine, &x), TN_INVALID);
      cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    }
    (void)push_named(engine, "part", &n, ON(U(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID);
    cr_assert_eq(n, 0);
    cr_assert_eq(push_named(engine, "whole", &n, ON(W(x))), TN_OK);
    cr_assert_eq(await(engine, &x), TN_OK, "%s", kinds[k].name);
    cr_assert_eq(push_named(engine, "part", &n, ON(U(x))), TN_OK);
    cr_assert_eq(await(engine, &x), TN_OK);
    cr_assert_eq(n, 2);
    cr_assert(tn__var_is_writable(&x));
    (void)tn__wait_all(engine);
    engine_close(engine);
  }
}

Test(error, a_function_that_overwrites_its_input_does_not_clear) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "load", "here", ON(W(x)));
    (void)push_named(engine, "both", &n, ON(R(x), W(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID, "%s", kinds[k].name);
    cr_assert_eq(n, 0);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

Test(error, a_failing_overwrite_leaves_the_newer_error) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    (void)push_boom(engine, "first", "old", ON(W(x)));
    (void)push_boom(engine, "second", "new", ON(W(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID);
    EXPECT_TEXT("second", "boom new");
    cr_assert_null(strstr(tn_error_text(), "old"));
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

Test(error, a_dependent_that_only_reads_is_not_run_either) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "load", "here", ON(W(x)));
    (void)push_named(engine, "print", &n, ON(R(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    cr_assert_eq(n, 0, "%s", kinds[k].name);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

Test(error, some_functions_run_although_there_is_an_error) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "load", "here", ON(W(x)));
    const tn__job job = {.name = "always",
                         .run = run_count,
                         .arg = &n,
                         .access = (tn__access[]){R(x)},
                         .n_access = 1,
                         .flags = TN__JOB_ALWAYS};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
    cr_assert_eq(tn__wait(engine, &x, TN__WAIT_ALL, TN__FOREVER), TN_INVALID);
    cr_assert_eq(n, 1, "%s", kinds[k].name);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

typedef struct told {
  _Atomic int ran;
  _Atomic int heard;
} told;

static tn_code run_or_hear(void *arg, tn__token *token) {
  told *self = (told *)arg;
  atomic_fetch_add(tn__is_told() ? &self->heard : &self->ran, 1);
  if (tn__is_told()) return tn__fail(TN_IO, "ignored");
  tn__token_done(token, TN_OK);
  return TN_OK;
}

/* Also if it would complete later. */
Test(error, some_functions_are_told_that_they_cannot_run) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    told self = {0, 0};
    const tn__job job = {.name = "told",
                         .run = run_or_hear,
                         .arg = &self,
                         .access = (tn__access[]){R(x), W(y)},
                         .n_access = 2,
                         .flags = TN__JOB_TOLD | TN__JOB_ASYNC};
    cr_assert_eq(tn__push(engine, &job), TN_OK);
    cr_assert_eq(await(engine, &y), TN_OK, "%s", kinds[k].name);
    (void)push_boom(engine, "load", "here", ON(W(x)));
    (void)tn__push(engine, &job);
    cr_assert_eq(await(engine, &y), TN_INVALID);
    EXPECT_TEXT("told", "load", "boom here");
    cr_assert_null(strstr(tn_error_text(), "ignored"));
    cr_assert_eq(self.ran, 1, "%s", kinds[k].name);
    cr_assert_eq(self.heard, 1, "%s", kinds[k].name);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

Test(error, wait_all_reports_each_failure_once) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    (void)push_boom(engine, "left", "one", ON(W(x)));
    (void)push_boom(engine, "right", "two", ON(W(y)));
    cr_assert_eq(tn__wait_all(engine), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("left", "boom one", "right", "boom two");
    cr_assert_eq(tn__wait_all(engine), TN_OK, "%s", kinds[k].name);
    cr_assert_eq(await(engine, &x), TN_INVALID, "but the variable keeps it");
    (void)push_boom(engine, "again", "three", ON(W(x)));
    cr_assert_eq(tn__wait_all(engine), TN_INVALID);
    EXPECT_TEXT("again", "boom three");
    cr_assert_null(strstr(tn_error_text(), "boom two"));
    cr_assert_eq(tn__wait_all(engine), TN_OK);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

static int count_text(const char *part) {
  int n = 0;
  const char *at = tn_error_text();
  for (; (at = strstr(at, part)) != NULL; at += strlen(part)) ++n;
  return n;
}

Test(error, functions_that_fail_alike_are_counted_one_by_one) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    (void)push_boom(engine, "load", "alike", ON(W(x)));
    (void)push_boom(engine, "load", "alike", ON(W(y)));
    cr_assert_eq(tn__wait_all(engine), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("the first of 2 failures");
    cr_assert_eq(count_text("boom alike"), 2);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

/* "bo" is not the name of the function that reports "boom". */
Test(error, a_text_that_begins_like_the_name_is_signed_all_the_same) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0};
    (void)push_boom(engine, "bo", "here", ON(W(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("bo: boom here");
    (void)push_boom(engine, "boom", "here", ON(W(x)));
    cr_assert_eq(await(engine, &x), TN_INVALID);
    cr_assert_str_eq(tn_error_text(), "boom here");
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

Test(error, a_function_without_variables_fails_in_wait_all) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    (void)push_boom(engine, "lonely", "here", NULL, 0);
    cr_assert_eq(tn__wait_all(engine), TN_INVALID, "%s", kinds[k].name);
    EXPECT_TEXT("lonely", "boom here");
    engine_close(engine);
  }
}

Test(error, two_broken_inputs_are_one_error_of_the_output) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0}, z = {0};
    _Atomic int n = 0;
    (void)push_boom(engine, "left", "one", ON(W(x)));
    (void)push_boom(engine, "right", "two", ON(W(y)));
    (void)push_named(engine, "join", &n, ON(R(x), R(y), W(z)));
    cr_assert_eq(await(engine, &z), TN_INVALID);
    EXPECT_TEXT("join", "left", "boom one");
    cr_assert_eq(n, 0);
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    tn__var_deinit(&z);
    engine_close(engine);
  }
}

Test(error, push_reports_a_failure_inside_of_it) {
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0};
  const tn__job job = {.name = "quick",
                       .run = run_boom,
                       .arg = (void *)(uintptr_t) "at once",
                       .access = (tn__access[]){W(x)},
                       .n_access = 1,
                       .flags = TN__JOB_SMALL};
  cr_assert_eq(tn__push(engine, &job), TN_INVALID);
  EXPECT_TEXT("boom at once");
  cr_assert_eq(await(engine, &x), TN_INVALID);
  EXPECT_TEXT("quick", "boom at once");
  (void)tn__wait_all(engine);
  tn__var_deinit(&x);
  engine_close(engine);
}

/* Between enter and leave a function runs without a token. */
Test(error, the_fast_path_puts_an_error_on_a_variable) {
  tn__engine *engine = engine_pooled(1);
  tn__var x = {0}, y = {0};
  _Atomic int n = 0;
  for (int i = 0; i < 100; ++i) (void)push_named(engine, "n", &n, ON(U(x)));
  cr_assert_eq(tn__wait_all(engine), TN_OK);
  cr_assert(tn__gate_enter(engine));
  tn__var_fail(engine, &x, tn__fail(TN_IO, "short and bad"));
  cr_assert_not(tn__var_is_readable(&x));
  tn__gate_leave(engine);
  (void)push_named(engine, "next", &n, ON(R(x), W(y)));
  cr_assert_eq(await(engine, &y), TN_IO);
  EXPECT_TEXT("next", "short and bad");
  cr_assert_eq(n, 100);
  (void)tn__wait_all(engine);
  tn__var_deinit(&x);
  tn__var_deinit(&y);
  engine_close(engine);
}

static tn_code run_mark(void *arg, tn__token *token) {
  (void)token;
  tn__engine **engine_and_var = (tn__engine **)arg;
  tn__var_fail(engine_and_var[0], (tn__var *)engine_and_var[1],
               tn__fail(TN_IO, "one of two"));
  return TN_OK;
}

/* A function that went well on the whole may mark one of its variables. */
Test(error, a_function_puts_an_error_on_one_of_its_variables) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    void *arg[2] = {engine, &x};
    cr_assert_eq(push(engine, run_mark, arg, ON(U(x), U(y))), TN_OK);
    cr_assert_eq(await(engine, &y), TN_OK);
    cr_assert_eq(await(engine, &x), TN_IO, "%s", kinds[k].name);
    EXPECT_TEXT("one of two");
    (void)tn__wait_all(engine);
    tn__var_deinit(&x);
    engine_close(engine);
  }
}

static tn_code run_mark_both(void *arg, tn__token *token) {
  void **self = (void **)arg;
  (void)token;
  for (int i = 1; i <= 2; ++i)
    tn__var_fail((tn__engine *)self[0], (tn__var *)self[i],
                 tn__fail(TN_IO, "both of two"));
  return TN_OK;
}

Test(error, one_failure_on_two_variables_is_reported_once) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x = {0}, y = {0};
    void *arg[3] = {engine, &x, &y};
    cr_assert_eq(push(engine, run_mark_both, arg, ON(U(x), U(y))), TN_OK);
    cr_assert_eq(tn__wait_all(engine), TN_IO, "%s", kinds[k].name);
    cr_assert_str_eq(tn_error_text(), "both of two");
    tn__var_deinit(&x);
    tn__var_deinit(&y);
    engine_close(engine);
  }
}

/* The text of a long chain may be shortened, but names the first failure. */
Test(error, a_long_chain_of_followers_still_names_its_root) {
  tn__engine *engine = engine_dispatch(2);
  enum { N = 500 };
  static tn__var x[N];
  _Atomic int n = 0;
  (void)push_boom(engine, "root", "deep below", ON(W(x[0])));
  for (int i = 1; i < N; ++i)
    (void)push_named(engine, "follower", &n, ON(R(x[i - 1]), W(x[i])));
  cr_assert_eq(await(engine, &x[N - 1]), TN_INVALID);
  EXPECT_TEXT("follower", "root", "boom deep below");
  cr_assert_eq(n, 0);
  (void)tn__wait_all(engine);
  for (int i = 0; i < N; ++i) tn__var_deinit(&x[i]);
  engine_close(engine);
}

/* No error of a thousand failures stays in memory when variables are
 * overwritten, deleted or read again. */
Test(error, errors_are_counted_and_freed) {
  for (int k = 0; k < N_KINDS; ++k) {
    tn__engine *engine = engine_open(&kinds[k]);
    tn__var x[10] = {0};
    _Atomic int n = 0;
    for (int i = 0; i < 1000; ++i) {
      (void)push_boom(engine, "bad", "again", ON(W(x[i % 10])));
      (void)push_named(engine, "next", &n,
                       ON(R(x[i % 10]), U(x[(i + 3) % 10])));
      if (i % 7 == 0) (void)push_named(engine, "new", &n, ON(W(x[i % 10])));
      if (i % 100 == 0) (void)tn__wait_all(engine);
    }
    (void)tn__wait_all(engine);
    for (int i = 0; i < 10; ++i) tn__var_deinit(&x[i]);
    engine_close(engine);
  }
}
