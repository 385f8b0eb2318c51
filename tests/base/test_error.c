/* SPDX-License-Identifier: Apache-2.0
 * The error text of a thread, and the names of codes.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

Test(error, the_last_failure_of_a_thread_is_its_text) {
  cr_assert_str_eq(tn_error_text(), "");
  cr_assert_eq(tn__fail(TN_SHAPE, "first %d", 1), TN_SHAPE);
  cr_assert_eq(tn__fail(TN_DTYPE, "second"), TN_DTYPE);
  cr_assert_str_eq(tn_error_text(), "second");
  cr_assert_eq(tn__fail_more(TN_DTYPE, " of %s", "two"), TN_DTYPE);
  cr_assert_str_eq(tn_error_text(), "second of two");
}

Test(error, a_text_may_quote_the_one_it_replaces) {
  (void)tn__fail(TN_INVALID, "inner");
  (void)tn__fail(TN_PLUGIN, "outer (%s)", tn_error_text());
  cr_assert_str_eq(tn_error_text(), "outer (inner)");
}

Test(error, a_text_that_does_not_fit_ends_in_dots) {
  char text[TN__ERROR_MAX + 100];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  (void)tn__fail(TN_INVALID, "%s", text);
  const char *got = tn_error_text();
  cr_assert_eq(strlen(got), TN__ERROR_MAX - 1);
  cr_assert_str_eq(got + TN__ERROR_MAX - 4, "...");
  (void)tn__fail_more(TN_INVALID, "more");
  cr_assert_str_eq(got + TN__ERROR_MAX - 4, "...");
}

/* A name may come from a hostile file. Messages and the log show ? for control
 * characters. Lines of a message stay lines. */
static void keep_line(void *ctx, int32_t level, const char *line) {
  (void)level;
  (void)snprintf(ctx, TN__ERROR_MAX, "%s", line);
}

Test(error, texts_have_no_control_characters) {
  static const char hostile[] = "a\x1b[2J\b\x7f\r\xc3\xa9";
  static const char shown[] = "a?[2J???\xc3\xa9";
  char line[TN__ERROR_MAX] = "";
  const tn__env env = {.log = keep_line, .log_ctx = line};
  (void)tn__fail(TN_INVALID, "%s", hostile);
  cr_assert_str_eq(tn_error_text(), shown);
  (void)tn__fail(TN_INVALID, "one\n\ttwo");
  (void)tn__fail_more(TN_INVALID, "%s", hostile);
  cr_assert_eq(strncmp(tn_error_text(), "one\n\ttwo", 8), 0);
  cr_assert_str_eq(tn_error_text() + 8, shown);
  tn__log(&env, TN__LOG_ENGINE, TN_LOG_WARNING, "%s", hostile);
  cr_assert_str_eq(line, shown);
}

/* CSI as one character, a right-to-left override, a mark of no width, a byte
 * order mark, and bytes that are not UTF-8. */
Test(error, texts_have_nothing_that_reverses_or_hides_them) {
  (void)tn__fail(TN_INVALID, "%s",
                 "a\xc2\x9b"
                 "b\xe2\x80\xae"
                 "c\xe2\x80\x8b"
                 "d\xef\xbb\xbf"
                 "e\xff\xc3");
  cr_assert_str_eq(tn_error_text(), "a??b???c???d???e??");
  (void)tn__fail(TN_INVALID, "%s", "\xe2\x82\xac \xf0\x9f\x98\x80 \xd7\x90");
  cr_assert_str_eq(tn_error_text(), "\xe2\x82\xac \xf0\x9f\x98\x80 \xd7\x90");
}

static void *fail_elsewhere(void *arg) {
  (void)arg;
  (void)tn__fail(TN_IO, "of another thread");
  return NULL;
}

Test(error, threads_do_not_see_each_others_texts) {
  pthread_t thread;
  (void)tn__fail(TN_INVALID, "mine");
  cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
  cr_assert_eq(pthread_join(thread, NULL), 0);
  cr_assert_str_eq(tn_error_text(), "mine");
}

Test(error, codes_have_names) {
  cr_assert_str_eq(tn_code_name(TN_OK), "TN_OK");
  cr_assert_str_eq(tn_code_name(TN_SHAPE), "TN_SHAPE");
  cr_assert_str_eq(tn_code_name(TN_INTERNAL), "TN_INTERNAL");
  cr_assert_str_eq(tn_code_name(1), "TN_?");
  cr_assert_str_eq(tn_code_name(-16), "TN_?");
  cr_assert_str_eq(tn_code_name(INT32_MIN), "TN_?");
}
