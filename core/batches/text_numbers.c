/* SPDX-License-Identifier: Apache-2.0
 * text_numbers.c: numbers in a line of text. Most are short decimals, for which
 * one multiplication or division by a power of ten is exact (Clinger 1990); the
 * others are read by the C library.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sources.h"

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* A decimal number while it is read. */
typedef struct decimal {
  const char *at;
  const char *end;
  uint64_t digits; /* as a whole number */
  int n_digits;    /* without leading zeros */
  int exponent;    /* of ten */
} decimal;

static bool read_digits(decimal *d, int step) {
  const char *begin = d->at;
  for (; d->at < d->end && is_digit(*d->at); ++d->at) {
    if (d->n_digits < 19) {
      d->digits = 10 * d->digits + (uint64_t)(*d->at - '0');
      d->n_digits += d->digits != 0;
      d->exponent -= step;
    } else {
      d->n_digits = 20; /* too many */
    }
  }
  return d->at > begin;
}

static bool read_exponent(decimal *d) {
  int value = 0, sign = 1;
  if (d->at == d->end || (*d->at != 'e' && *d->at != 'E')) return true;
  ++d->at;
  if (d->at < d->end && (*d->at == '-' || *d->at == '+'))
    sign = *d->at++ == '-' ? -1 : 1;
  if (d->at == d->end) return false;
  for (; d->at < d->end && is_digit(*d->at); ++d->at)
    if (value < 10000) value = 10 * value + (*d->at - '0');
  d->exponent += sign * value;
  return true;
}

/* Reads a short decimal; false if it is none. */
static bool read_short(const char *begin, const char *end, double *out) {
  static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  decimal d = {.at = begin, .end = end};
  const bool is_negative = begin < end && *begin == '-';
  if (begin < end && (*begin == '-' || *begin == '+')) ++d.at;
  bool has_digits = read_digits(&d, 0);
  if (d.at < end && *d.at == '.') {
    ++d.at;
    has_digits |= read_digits(&d, 1);
  }
  if (!has_digits || !read_exponent(&d) || d.at != end) return false;
  if (d.n_digits > 19 || d.digits > UINT64_C(1) << 53 || d.exponent < -22 ||
      d.exponent > 22)
    return false;
  const double value = d.exponent < 0 ? (double)d.digits / tens[-d.exponent]
                                      : (double)d.digits * tens[d.exponent];
  *out = is_negative ? -value : value;
  return true;
}

/* The same for any number. */
static bool read_number(const char *begin, const char *end, double *out) {
  char text[128], *rest = NULL;
  const size_t n = (size_t)(end - begin);
  if (read_short(begin, end, out)) return true;
  if (n == 0 || n >= sizeof text || (unsigned char)*begin <= ' ') return false;
  memcpy(text, begin, n);
  text[n] = '\0';
  return tn__read_double(text, &rest, out) == TN_OK && rest == text + n;
}

bool tn__read_whole(const char *begin, const char *end, int64_t *out) {
  const bool is_negative = begin < end && *begin == '-';
  const uint64_t most = (uint64_t)INT64_MAX + is_negative;
  uint64_t value = 0;
  if (begin < end && (*begin == '-' || *begin == '+')) ++begin;
  if (begin == end) return false;
  for (; begin < end; ++begin) {
    const uint64_t digit = (uint64_t)(*begin - '0');
    if (!is_digit(*begin) || value > (most - digit) / 10) return false;
    value = 10 * value + digit;
  }
  *out = (int64_t)(is_negative ? 0 - value : value);
  return true;
}

bool tn__store_number(const char *begin, const char *end, tn_dtype dtype,
                      void *to, size_t at) {
  double number = 0;
  int64_t whole = 0;
  if (dtype == TN_F32 || dtype == TN_F64) {
    if (!read_number(begin, end, &number)) return false;
    if (dtype == TN_F32)
      ((float *)to)[at] = (float)number;
    else
      ((double *)to)[at] = number;
    return true;
  }
  if (!tn__read_whole(begin, end, &whole)) return false;
  if (dtype == TN_I64) ((int64_t *)to)[at] = whole;
  if (dtype == TN_I32) {
    if (whole < INT32_MIN || whole > INT32_MAX) return false;
    ((int32_t *)to)[at] = (int32_t)whole;
  }
  if (dtype == TN_U8) {
    if (whole < 0 || whole > UINT8_MAX) return false;
    ((uint8_t *)to)[at] = (uint8_t)whole;
  }
  return true;
}
