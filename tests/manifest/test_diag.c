/* SPDX-License-Identifier: Apache-2.0
 * test_diag.c: messages: their order, their carets, one per cause, and their
 * three forms.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "manifest.h"

static tnm_diags *diags;

static void set_up(void) {
  diags = tnm_diags_create(tn__env_default());
}

static void tear_down(void) {
  tnm_diags_release(diags);
}

TestSuite(diag, .init = set_up, .fini = tear_down);

static void expect_as(int format, bool color, const char *expected) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  tnm_diags_print(diags, to, format, color);
  fclose(to);
  cr_assert_str_eq(text, expected, "came:\n%s", text);
  free(text);
}

static void expect_text(const char *expected) {
  expect_as(TNM_HUMAN, false, expected);
}

static size_t report_at(uint32_t line, uint32_t column, uint32_t length,
                        const char *text) {
  tnm_diag_spec spec = {"E0012", {line, column, length, 0}, "here"};
  return tnm_diag_add(diags, &spec, "%s", text);
}

Test(diag, nothing_is_printed_when_nothing_is_wrong) {
  tnm_diags_add_file(diags, "a.yaml", "opgen: 1\n", 9);
  expect_text("");
  expect_as(TNM_JSON, false, "[]\n");
}

Test(diag, the_sample_of_the_manual_is_printed_exactly) {
  const char *text = "opgen: 1\n  out: a*data^2 + b*dat + c\n";
  tnm_diags_add_file(diags, "quadratic.yaml", text, strlen(text));
  tnm_diag_spec spec = {"E0031", {2, 21, 3, 0}, "unknown name"};
  size_t id = tnm_diag_add(diags, &spec, "`%s` is not an input", "dat");
  tnm_diag_add_note(diags, id, "in scope here: %s", "data, a, b, c");
  tnm_diag_add_help(diags, id, "did you mean `data`?");
  expect_text(
      "quadratic.yaml:2:21: error[E0031]: `dat` is not an input\n"
      "  2 |   out: a*data^2 + b*dat + c\n"
      "    |                     ^^^ unknown name\n"
      "    = note: in scope here: data, a, b, c\n"
      "    = help: did you mean `data`?\n"
      "opgen: 1 error in 1 manifest; `opgen explain E0031` says more\n");
}

Test(diag, messages_come_in_order_of_file_line_and_column) {
  tnm_diags_add_file(diags, "a.yaml", "one\ntwo\n", 8);
  tnm_diags_add_file(diags, "b.yaml", "", 0);
  tnm_diag_spec other = {"W0061", {1, 1, 1, 1}, NULL};
  tnm_diag_add(diags, &other, "in another file");
  report_at(2, 1, 3, "third");
  report_at(1, 2, 1, "second");
  report_at(1, 1, 1, "first");
  expect_as(TNM_SHORT, false,
            "a.yaml:1:1: error[E0012]: first\n"
            "a.yaml:1:2: error[E0012]: second\n"
            "a.yaml:2:1: error[E0012]: third\n"
            "b.yaml:1:1: warning[W0061]: in another file\n"
            "opgen: 3 errors, 1 warning in 2 manifests; `opgen explain E0012` "
            "says more\n");
}

Test(diag, the_same_message_at_the_same_place_comes_once) {
  tnm_diags_add_file(diags, "a.yaml", "one\n", 4);
  report_at(1, 1, 3, "again");
  size_t id = report_at(1, 1, 3, "again");
  tnm_diag_add_help(diags, id, "is dropped with it");
  report_at(1, 1, 3, "another");
  cr_assert_eq(tnm_diags_errors(diags), 2);
  expect_as(TNM_SHORT, false,
            "a.yaml:1:1: error[E0012]: again\n"
            "a.yaml:1:1: error[E0012]: another\n"
            "opgen: 2 errors in 1 manifest; `opgen explain E0012` says more\n");
}

Test(diag, the_same_file_is_one) {
  const uint32_t a = tnm_diags_add_file(diags, "a.yaml", "one\n", 4);
  cr_assert_eq(tnm_diags_add_file(diags, "a.yaml", "one\n", 4), a);
  cr_assert_neq(tnm_diags_add_file(diags, "a.yaml", "two\n", 4), a);
  cr_assert_neq(tnm_diags_add_file(diags, "b.yaml", "one\n", 4), a);
}

Test(diag, carets_are_placed_by_display_width) {
  /* Two wide characters, then an e with a combining accent: 2+2+1+0. */
  const char *text = "\xe6\x95\xb0\xe6\x8d\xaei\xcc\x81x\n";
  tnm_diags_add_file(diags, "a.yaml", text, strlen(text));
  report_at(1, 5, 1, "the x");
  report_at(1, 1, 2, "the wide ones");
  expect_text(
      "a.yaml:1:1: error[E0012]: the wide ones\n"
      "  1 | \xe6\x95\xb0\xe6\x8d\xaei\xcc\x81x\n"
      "    | ^^^^ here\n"
      "a.yaml:1:5: error[E0012]: the x\n"
      "  1 | \xe6\x95\xb0\xe6\x8d\xaei\xcc\x81x\n"
      "    |      ^ here\n"
      "opgen: 2 errors in 1 manifest; `opgen explain E0012` says more\n");
}

Test(diag, a_second_place_is_printed_in_order_of_its_line) {
  tnm_diags_add_file(diags, "a.yaml", "one\ntwo\nthree\n", 14);
  size_t id = report_at(2, 1, 3, "between");
  tnm_diag_add_place(diags, id, (tnm_pos){3, 1, 5, 0}, "after");
  tnm_diag_add_place(diags, id, (tnm_pos){1, 1, 3, 0}, "before");
  tnm_diag_add_place(diags, id, (tnm_pos){2, 3, 1, 0}, "same line");
  expect_text(
      "a.yaml:2:1: error[E0012]: between\n"
      "  1 | one\n"
      "    | --- before\n"
      "  2 | two\n"
      "    | ^^^ here\n"
      "    |   - same line\n"
      "  3 | three\n"
      "    | ----- after\n"
      "opgen: 1 error in 1 manifest; `opgen explain E0012` says more\n");
}

Test(diag, a_place_in_another_file_names_it) {
  tnm_diags_add_file(diags, "a.yaml", "one\n", 4);
  tnm_diags_add_file(diags, "b.yaml", "two\n", 4);
  size_t id = report_at(1, 1, 3, "twice");
  tnm_diag_add_place(diags, id, (tnm_pos){1, 1, 3, 1}, "first");
  expect_text(
      "a.yaml:1:1: error[E0012]: twice\n"
      "  1 | one\n"
      "    | ^^^ here\n"
      "    ::: b.yaml:1:1\n"
      "  1 | two\n"
      "    | --- first\n"
      "opgen: 1 error in 2 manifests; `opgen explain E0012` says more\n");
}

Test(diag, a_line_of_a_mebibyte_is_shown_around_the_caret) {
  size_t n = 1 << 20;
  char *text = malloc(n);
  memset(text, 'x', n);
  tnm_diags_add_file(diags, "a.yaml", text, n);
  free(text);
  report_at(1, 500000, 3, "deep inside");
  char *printed = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&printed, &length);
  tnm_diags_print(diags, to, TNM_HUMAN, false);
  fclose(to);
  cr_assert_lt(length, 600);
  /* "  1 | ...": six columns and three dots, then sixty characters. */
  const char *second = strchr(strchr(printed, '\n') + 1, '\n') + 1;
  const char *caret = strchr(second, '^');
  cr_assert_not_null(caret);
  cr_assert_eq(caret - second, 6 + 3 + 60);
  free(printed);
}

Test(diag, control_bytes_are_not_printed) {
  tnm_diags_add_file(diags, "a.yaml", "a\033[2Jb\xff\n", 8);
  report_at(1, 1, 1, "hidden");
  expect_text(
      "a.yaml:1:1: error[E0012]: hidden\n"
      "  1 | a\xef\xbf\xbd[2Jb\xef\xbf\xbd\n"
      "    | ^ here\n"
      "opgen: 1 error in 1 manifest; `opgen explain E0012` says more\n");
}

Test(diag, json_is_one_array_with_every_part) {
  tnm_diags_add_file(diags, "a.yaml", "\"x\"\n", 4);
  size_t id = report_at(1, 2, 1, "say \"x\"");
  tnm_diag_add_help(diags, id, "help");
  tnm_diag_add_place(diags, id, (tnm_pos){1, 3, 1, 0}, "there");
  expect_as(TNM_JSON, false,
            "[{\"file\": \"a.yaml\", \"line\": 1, \"column\": 2, \"length\": 1,"
            " \"severity\": \"error\", \"code\": \"E0012\", \"message\": \"say "
            "\\\"x\\\"\", \"label\": \"here\", \"notes\": [], \"help\": "
            "[\"help\"], \"places\": [{\"file\": \"a.yaml\", \"line\": 1, "
            "\"column\": 3, \"length\": 1, \"label\": \"there\"}]}]\n");
}

Test(diag, ten_thousand_messages_are_counted_and_a_thousand_kept) {
  tnm_diags_add_file(diags, "a.yaml", "one\n", 4);
  for (uint32_t i = 1; i <= 10000; ++i) report_at(i, 1, 1, "one of many");
  cr_assert_eq(tnm_diags_errors(diags), 10000);
  char *printed = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&printed, &length);
  tnm_diags_print(diags, to, TNM_SHORT, false);
  fclose(to);
  cr_assert_not_null(strstr(
      printed, "opgen: 10000 errors in 1 manifest; the first 1000 are shown;"));
  free(printed);
}

Test(codes, every_code_is_explained_with_a_wrong_and_a_right_example) {
  size_t n = 0;
  for (; tnm_code_at(n) != NULL; ++n) {
    const char *code = tnm_code_at(n);
    const char *text = tnm_code_explain(code);
    cr_assert_not_null(text, "%s", code);
    cr_assert_eq(strncmp(text, code, strlen(code)), 0, "%s", code);
    cr_assert_not_null(strstr(text, "\nwrong:\n"), "%s", code);
    cr_assert_not_null(strstr(text, "\nright:\n"), "%s", code);
    cr_assert(n == 0 || strcmp(tnm_code_at(n - 1) + 1, code + 1) < 0, "%s",
              code);
  }
  cr_assert_gt(n, 40);
  cr_assert_null(tnm_code_explain("E9999"));
}
