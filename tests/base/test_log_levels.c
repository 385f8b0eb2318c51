/* SPDX-License-Identifier: Apache-2.0
 * test_log_levels.c: levels of the log for parts of the library, and their
 * text.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

static tn__log_levels levels;

static void expect_levels(const char *text, uint8_t engine, uint8_t others) {
  tn__log_levels_fill(&levels, TN_LOG_WARNING);
  cr_assert_eq(tn__log_levels_parse(&levels, text), TN_OK, "%s",
               tn_error_text());
  for (int part = 0; part < TN__LOG_PARTS; ++part)
    cr_expect_eq(levels.of[part], part == TN__LOG_ENGINE ? engine : others,
                 "%s: part %d has level %d", text, part, levels.of[part]);
}

Test(log_levels, a_level_is_for_all_parts_without_their_own) {
  expect_levels("", TN_LOG_WARNING, TN_LOG_WARNING);
  expect_levels("debug", TN_LOG_DEBUG, TN_LOG_DEBUG);
  expect_levels("engine:debug", TN_LOG_DEBUG, TN_LOG_WARNING);
  expect_levels("engine:debug,info", TN_LOG_DEBUG, TN_LOG_INFO);
  expect_levels("error,engine:warning,", TN_LOG_WARNING, TN_LOG_ERROR);
}

Test(log_levels, every_part_has_a_name_that_is_read) {
  for (int part = 0; part < TN__LOG_PARTS; ++part) {
    char text[64];
    (void)snprintf(text, sizeof text, "error,%s:debug",
                   tn__log_part_name((tn__log_part)part));
    cr_assert_eq(tn__log_levels_parse(&levels, text), TN_OK, "%s",
                 tn_error_text());
    for (int other = 0; other < TN__LOG_PARTS; ++other)
      cr_expect_eq(levels.of[other],
                   other == part ? TN_LOG_DEBUG : TN_LOG_ERROR, "%s", text);
  }
}

static void expect_refusal(const char *text, const char *message) {
  cr_assert_eq(tn__log_levels_parse(&levels, text), TN_INVALID, "%s", text);
  cr_expect_str_eq(tn_error_text(), message);
}

#define VALID                                                                 \
  "write [PART:]LEVEL, with commas between; levels: error, warning, info, "   \
  "debug; parts: engine, storage, loading, registry, kernels, graph, program" \
  ", plugins"

Test(log_levels, a_wrong_word_gets_a_list_of_the_valid_ones) {
  expect_refusal("engine:loud",
                 "tn_options.log_levels is \"engine:loud\", and `loud` is no "
                 "level; " VALID);
  expect_refusal("info,enigne:debug",
                 "tn_options.log_levels is \"info,enigne:debug\", and `enigne` "
                 "is no part; " VALID);
  expect_refusal("debugger",
                 "tn_options.log_levels is \"debugger\", and `debugger` is no "
                 "level; " VALID);
  expect_refusal("engine:",
                 "tn_options.log_levels is \"engine:\", and `` is no "
                 "level; " VALID);
}

static char logged[256];

static void keep_line(void *ctx, int32_t level, const char *line) {
  (void)ctx;
  (void)snprintf(logged, sizeof logged, "%d %s", level, line);
}

static const char *log_line(tn__env *env, tn__log_part part, int32_t level) {
  logged[0] = '\0';
  tn__log(env, part, level, "line %d", 5);
  return logged;
}

Test(log_levels, a_line_is_logged_up_to_the_level_of_its_part) {
  tn__env env = {.log = keep_line};
  cr_assert_eq(tn__log_levels_parse(&env.log_levels, "storage:debug,error"),
               TN_OK);
  cr_expect_str_eq(log_line(&env, TN__LOG_STORAGE, TN_LOG_DEBUG),
                   "4 storage: line 5");
  cr_expect_str_eq(log_line(&env, TN__LOG_STORAGE, TN_LOG_WARNING), "2 line 5");
  cr_expect_str_eq(log_line(&env, TN__LOG_ENGINE, TN_LOG_WARNING), "");
  cr_expect_str_eq(log_line(&env, TN__LOG_ENGINE, TN_LOG_ERROR), "1 line 5");
}

Test(log_levels, lines_of_plugins_get_no_prefix) {
  tn__env env = {.log = keep_line};
  cr_expect_str_eq(log_line(&env, TN__LOG_PLUGINS, TN_LOG_INFO), "3 line 5");
  cr_expect_str_eq(log_line(&env, TN__LOG_PLUGINS, TN_LOG_DEBUG), "");
}
