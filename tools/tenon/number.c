/* SPDX-License-Identifier: Apache-2.0
 * number.c: one element as text: the fewest digits that read back as the very
 * same element of its type, integers plain, 1e16 and beyond with an exponent.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* Digits that always suffice for the type. */
static int max_digits(tn_dtype dtype) {
  switch (dtype) {
    case TN_F16:
      return 5;
    case TN_BF16:
      return 4;
    case TN_F32:
      return 9;
    default:
      return 17;
  }
}

/* Whether the decimal text reads back as this element. */
static bool reads_back(tn_dtype dtype, const char *decimal, double value) {
  unsigned char element[8] = {0};
  element_set(dtype, strtod(decimal, NULL), element);
  if (dtype == TN_F32) {
    float f32 = strtof(decimal, NULL);
    memcpy(element, &f32, sizeof f32);
  }
  return element_get(dtype, element) == value;
}

/* d.ddde+xx becomes plain digits when the exponent is small. `decimal` is the
 * output of %e, without a sign. */
static void add_decimal(text *t, const char *decimal) {
  char digits[20] = {0};
  size_t n = 0;
  const char *at = decimal;
  for (; *at && *at != 'e'; ++at)
    if (*at != '.') digits[n++] = *at;
  int exponent = (int)strtol(at + 1, NULL, 10);
  if (exponent < -4 || exponent >= 16) {
    text_add(t, "%c%s%se%d", digits[0], n > 1 ? "." : "", digits + 1, exponent);
  } else if (exponent < 0) {
    text_add(t, "0.%.*s%s", -exponent - 1, "000", digits);
  } else if (n <= (size_t)exponent + 1) {
    text_add(t, "%s%.*s", digits, exponent + 1 - (int)n, "000000000000000");
  } else {
    text_add(t, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
  }
}

static void add_float(text *t, tn_dtype dtype, double value) {
  char decimal[40] = "0e0";
  if (isnan(value)) {
    text_add(t, "nan");
    return;
  }
  if (signbit(value)) text_add(t, "-");
  if (isinf(value)) {
    text_add(t, "inf");
    return;
  }
  value = fabs(value);
  for (int digits = 1; digits <= max_digits(dtype); ++digits) {
    snprintf(decimal, sizeof decimal, "%.*e", digits - 1, value);
    if (reads_back(dtype, decimal, value)) break;
  }
  add_decimal(t, decimal);
}

static void add_signed(text *t, int64_t bits, const void *element) {
  int64_t value = 0;
  memcpy(&value, element, (size_t)(bits + 7) / 8);
  const int unused = 64 - (int)bits;
  /* Up to the top and arithmetically back: the sign spreads. */
  value = (int64_t)((uint64_t)value << unused) >> unused;
  text_add(t, "%" PRId64, value);
}

static void add_unsigned(text *t, int64_t bits, const void *element) {
  uint64_t value = 0;
  memcpy(&value, element, (size_t)(bits + 7) / 8);
  text_add(t, "%" PRIu64, value);
}

void number_add(text *t, tn_dtype dtype, const void *element) {
  const int64_t bits = tn_dtype_bits(dtype);
  if (dtype == TN_BOOL) {
    text_add(t, *(const uint8_t *)element ? "true" : "false");
  } else if (dtype_has_fractions(dtype)) {
    add_float(t, dtype, element_get(dtype, element));
  } else if ((dtype & 0xffu) == (TN_I8 & 0xffu)) {
    add_signed(t, bits, element);
  } else {
    add_unsigned(t, bits, element);
  }
}
