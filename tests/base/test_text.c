/* SPDX-License-Identifier: Apache-2.0
 * Text, numbers as text, nearest words and hashes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "../comma.h"
#include "base.h"

static void expect_text(tn__buf *buf, const char *text) {
  cr_assert_not(buf->failed);
  cr_assert_str_eq(buf->s, text);
  tn__buf_deinit(buf);
}

Test(text, adds_that_outgrow_the_buffer_are_kept_whole) {
  tn__buf buf;
  char long_text[1001];
  memset(long_text, 'x', 1000);
  long_text[1000] = '\0';
  tn__buf_init(&buf, tn__env_default());
  tn__buf_add(&buf, "a%sb", long_text);
  cr_assert_eq(buf.n, 1002);
  cr_assert_eq(buf.s[0], 'a');
  cr_assert_eq(buf.s[1001], 'b');
  tn__buf_deinit(&buf);
}

Test(text, json_escapes_controls_quotes_and_invalid_utf8) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_json(&buf, "a\"b\\c\n\x01\xc3\xa9\xff\xc0\x80");
  /* An overlong NUL (c0 80) is two invalid bytes. */
  expect_text(
      &buf,
      "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

Test(text, json_of_nothing_is_null) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_json(&buf, NULL);
  expect_text(&buf, "null");
}

Test(text, doubles_use_the_fewest_digits_that_read_back) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0.1, "0.1"},
               {1, "1"},
               {-2.5, "-2.5"},
               {1e300, "1e+300"},
               {10, "10"},
               {-20000, "-20000"},
               {999999999999999, "999999999999999"},
               {1e15, "1e+15"},
               {1e-5, "1e-05"},
               {0.1 + 0.2, "0.30000000000000004"},
               {INFINITY, "inf"},
               {-INFINITY, "-inf"},
               {NAN, "nan"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    tn__buf buf;
    tn__buf_init(&buf, tn__env_default());
    tn__buf_double(&buf, cases[i].value);
    expect_text(&buf, cases[i].text);
  }
}

Test(text, a_locale_does_not_change_the_decimal_point) {
  tn__buf buf;
  take_decimal_comma();
  tn__buf_init(&buf, tn__env_default());
  tn__buf_double(&buf, 2.5e-10);
  tn__buf_add(&buf, " ");
  tn__buf_float(&buf, -0.1f);
  expect_text(&buf, "2.5e-10 -0.1");
}

static void reads_a_number(void) {
  double value = 0;
  char *end = NULL;
  cr_assert_eq(tn__read_double("-2.5e-10,7", &end, &value), TN_OK);
  cr_assert_eq(value, -2.5e-10);
  cr_assert_str_eq(end, ",7");
  cr_assert_eq(errno, 0);
}

Test(text, numbers_are_read_up_to_another_character) {
  double value = 0;
  char *end = NULL;
  reads_a_number();
  cr_assert_eq(tn__read_double("1e400", &end, &value), TN_OK);
  cr_assert(isinf(value));
  cr_assert_eq(errno, ERANGE);
}

Test(text, a_locale_does_not_change_how_numbers_are_read) {
  take_decimal_comma();
  reads_a_number();
}

Test(text, floats_use_their_own_precision) {
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_float(&buf, 0.1f);
  tn__buf_add(&buf, " ");
  tn__buf_float(&buf, 1.1e10f); /* 10999999488 reads back as well */
  expect_text(&buf, "0.1 11000000000");
}

Test(text, shapes_show_unknown_dimensions) {
  const int64_t shape[] = {2, -1, 0};
  tn__buf buf;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_shape(&buf, 3, shape);
  tn__buf_shape(&buf, 0, NULL);
  tn__buf_shape(&buf, -1, NULL);
  expect_text(&buf, "(2,?,0)()unknown");
}

Test(text, a_text_outlives_the_buffer) {
  tn__buf buf;
  tn_text *text = NULL;
  tn__buf_init(&buf, tn__env_default());
  tn__buf_add(&buf, "hello");
  cr_assert_eq(tn__buf_text(&buf, &text), TN_OK);
  cr_assert_str_eq(tn_text_get(text), "hello");
  cr_assert_eq(buf.n, 0);
  tn_text_release(text);
  tn_text_release(NULL);
}

Test(text, the_nearest_word_is_the_intended_one) {
  static const char *const words[] = {"default", "dilate", "doc", "min"};
  cr_assert_str_eq(tn__find_nearest_word("defualt", words, 4), "default");
  cr_assert_str_eq(tn__find_nearest_word("dilat", words, 4), "dilate");
  cr_assert_str_eq(tn__find_nearest_word("mim", words, 4), "min");
  cr_assert_null(tn__find_nearest_word("workspace", words, 4));
  cr_assert_null(tn__find_nearest_word("", words, 4));
}

Test(text, hashes_depend_on_every_byte_and_on_the_length) {
  unsigned char bytes[64] = {0};
  const uint64_t zero = tn__hash(bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; ++i) {
    bytes[i] = 1;
    cr_assert_neq(tn__hash(bytes, sizeof bytes), zero);
    bytes[i] = 0;
  }
  for (size_t n = 0; n < sizeof bytes; ++n)
    cr_assert_neq(tn__hash(bytes, n), zero);
}
