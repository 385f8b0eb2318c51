/* SPDX-License-Identifier: Apache-2.0
 * Tests of text.c and args.c: growing text, aligned tables, command lines.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tenon_tool.h"

static void expect_text(text *t, const char *expected) {
  cr_expect_str_eq(text_get(t), expected);
  text_deinit(t);
}

Test(text, grows_as_far_as_it_must) {
  text t = {0};
  cr_expect_str_eq(text_get(&t), "");
  for (int i = 0; i < 1000; ++i) text_add(&t, "%03d", i);
  text_add(&t, "%0600d", 7);
  cr_expect_eq(t.n, 3600);
  cr_expect_eq(strlen(text_get(&t)), 3600);
  cr_expect_eq(strncmp(text_get(&t) + 2991, "997998999000", 12), 0);
  text_deinit(&t);
}

/* As JSON escapes them; the last is no UTF-8. */
Test(text, a_terminal_gets_nothing_that_it_obeys) {
  char got[200] = "";
  text t = {0};
  FILE *file = fmemopen(got, sizeof got, "w");
  text_add(&t, "a\x1b[2J\r\n\t\xc2\x9b\x7f|\xe2\x80\xae|\xef\xbb\xbf|");
  text_add(&t, "\xf3\xa0\x81\x81|\xe2\x82\xac \xff");
  text_print(&t, file);
  fclose(file);
  cr_expect_str_eq(got,
                   "a\\u001b[2J\\u000d\n\t\\u009b\\u007f|\\u202e|\\ufeff|"
                   "\\udb40\\udc41|\xe2\x82\xac \\xff");
  text_deinit(&t);
}

Test(text, a_cell_is_one_line) {
  table rows = {.n_columns = 2};
  text t = {0};
  table_add(&rows, "a\n  b");
  table_add(&rows, "c");
  table_print(&rows, "", &t);
  expect_text(&t, "a\\n  b  c\n");
}

Test(text, a_message_may_quote_the_one_that_it_replaces) {
  text why = {0};
  cr_expect_not(report_failure(&why, "`%s` is not a number", "x"));
  cr_expect_not(report_failure(&why, "input %d: %s", 2, text_get(&why)));
  expect_text(&why, "input 2: `x` is not a number");
}

Test(text, json_strings_are_escaped) {
  text t = {0};
  text_add_json(&t, "a \"b\" \\ \n\t\xc3\xa9");
  text_add_json(&t, NULL);
  expect_text(&t, "\"a \\\"b\\\" \\\\ \\n\\u0009\xc3\xa9\"null");
}

Test(text, json_strings_are_valid_whatever_the_bytes) {
  text t = {0};
  text_add_json(&t, "\xff.\xc3.\xed\xa0\x80.\xf0\x9f\x98\x80.\xe2\x82");
  expect_text(&t,
              "\"\\ufffd.\\ufffd.\\ufffd\\ufffd\\ufffd."
              "\xf0\x9f\x98\x80.\\ufffd\\ufffd\"");
}

Test(table, columns_are_aligned_and_lines_end_without_blanks) {
  table rows = {.n_columns = 3};
  text out = {0};
  const char *const cells[] = {"a", "b",        "c", "long", "",
                               "c", "\xc3\xa9", "b", ""};
  for (size_t i = 0; i < 9; ++i) table_add(&rows, "%s", cells[i]);
  table_print(&rows, "  ", &out);
  expect_text(&out, "  a     b  c\n  long     c\n  \xc3\xa9     b\n");
}

Test(table, columns_without_content_take_no_room) {
  table rows = {.n_columns = 3};
  text out = {0};
  const char *const cells[] = {"a", "", "c", "b", "", "d"};
  for (size_t i = 0; i < 6; ++i) table_add(&rows, "%s", cells[i]);
  table_print(&rows, "", &out);
  expect_text(&out, "a  c\nb  d\n");
}

/* ---------------------------------------------------------------- arguments */

static const uint32_t all_options = UINT32_MAX;

Test(args, words_and_options_may_be_in_any_order) {
  char *argv[] = {"op",      "--json", "[1]",       "--plugin",
                  "a.so",    "a=1",    "--seed=18", "--plugin=b.so",
                  "--dtype", "f64",    NULL};
  arguments args;
  text why = {0};
  cr_assert(args_parse(all_options, argv, &args, &why), "%s", text_get(&why));
  cr_expect_eq(args.given,
               OPTION_JSON | OPTION_PLUGIN | OPTION_SEED | OPTION_DTYPE);
  cr_assert_eq(args.n_words, 3);
  cr_expect_str_eq(args.words[1], "[1]");
  cr_expect_str_eq(args.words[2], "a=1");
  cr_assert_eq(args.n_plugins, 2);
  cr_expect_str_eq(args.plugins[0], "a.so");
  cr_expect_str_eq(args.plugins[1], "b.so");
  cr_expect_eq(args.seed, 18);
  cr_expect_eq(args.dtype, TN_F64);
  args_deinit(&args);
}

Test(args, negative_numbers_are_words) {
  char *argv[] = {"-1", "-.5", "-inf", "-", "--", "--json", NULL};
  arguments args;
  text why = {0};
  cr_assert(args_parse(all_options, argv, &args, &why), "%s", text_get(&why));
  cr_expect_eq(args.given, 0);
  cr_expect_eq(args.n_words, 5);
  args_deinit(&args);
}

static void expect_refused(char *word, const char *expected) {
  char *argv[] = {word, NULL};
  arguments args;
  text why = {0};
  cr_expect_not(args_parse(OPTION_JSON | OPTION_SEED, argv, &args, &why));
  expect_text(&why, expected);
}

Test(args, refuses_unknown_options) {
  expect_refused("--jsno", "unknown option --jsno; did you mean --json?");
  expect_refused("--grad",
                 "unknown option --grad; --help lists those of this command");
  expect_refused("-x", "unknown option -x; --help lists those of this command");
}

Test(args, refuses_values_that_are_missing_unwanted_or_malformed) {
  expect_refused("--seed", "--seed wants N behind it");
  expect_refused("--json=1", "--json takes no value");
  expect_refused("--seed=x",
                 "--seed wants a number from 0 to 18446744073709551615, not "
                 "`x`");
  expect_refused("--seed=18446744073709551616",
                 "--seed wants a number from 0 to 18446744073709551615, not "
                 "`18446744073709551616`");
}

Test(args, only_near_names_are_suggested) {
  const char *const names[] = {"list", "show", "inspect", "run"};
  cr_expect_str_eq(did_you_mean("lsit", names, 4), "list");
  cr_expect_str_eq(did_you_mean("inspcet", names, 4), "inspect");
  cr_expect_null(did_you_mean("frobnicate", names, 4));
  cr_expect_null(did_you_mean("", names, 4));
}
