/* SPDX-License-Identifier: Apache-2.0
 * comma.h: for tests of numbers as text in a host that has chosen a locale.
 */
#ifndef TENON_TESTS_COMMA_H_
#define TENON_TESTS_COMMA_H_

#include <criterion/criterion.h>
#include <locale.h>

/* Numbers have a decimal comma from here on; ends the test where the machine
 * has no locale with one. */
static inline void take_decimal_comma(void) {
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",
                                      "fr_FR.UTF-8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (setlocale(LC_NUMERIC, names[i]) != NULL) return;
  cr_skip_test("no locale with a decimal comma here");
}

#endif /* TENON_TESTS_COMMA_H_ */
