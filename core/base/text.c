/* SPDX-License-Identifier: Apache-2.0
 * text.c: the growing string, numbers and shapes as text, the nearest word, and
 * the hash.
 */
#include "base.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tn__buf_init(tn__buf *buf, const tn__env *env) {
  *buf = (tn__buf){.env = env};
}

void tn__buf_deinit(tn__buf *buf) {
  tn__free(buf->env, buf->s);
  *buf = (tn__buf){.env = buf->env};
}

/* Reserves room for n more characters and the NUL. */
static bool reserve_room(tn__buf *buf, size_t n) {
  if (buf->failed) return false;
  if (buf->capacity - buf->n > n) return true;
  size_t capacity = buf->capacity < 128 ? 256 : buf->capacity * 2;
  if (capacity < buf->n + n + 1) capacity = buf->n + n + 1;
  char *s = tn__alloc(buf->env, capacity);
  if (s == NULL) {
    buf->failed = true;
    return false;
  }
  if (buf->n > 0) memcpy(s, buf->s, buf->n);
  s[buf->n] = '\0';
  tn__free(buf->env, buf->s);
  buf->s = s;
  buf->capacity = capacity;
  return true;
}

void tn__buf_bytes(tn__buf *buf, const void *bytes, size_t n) {
  if (!reserve_room(buf, n)) return;
  if (n > 0) memcpy(buf->s + buf->n, bytes, n);
  buf->n += n;
  buf->s[buf->n] = '\0';
}

void tn__buf_add(tn__buf *buf, const char *format, ...) {
  char small[256];
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  const int n = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof small) {
    tn__buf_bytes(buf, small, (size_t)n);
  } else if (n >= 0 && reserve_room(buf, (size_t)n)) {
    (void)vsnprintf(buf->s + buf->n, (size_t)n + 1, format, again);
    buf->n += (size_t)n;
  }
  va_end(again);
}

size_t tn__utf8_length(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = 0;
  uint32_t c = 0;
  if (s[0] < 0x80) return 1;
  if (s[0] >= 0xf0 && s[0] < 0xf8)
    n = 4, c = s[0] & 0x07u;
  else if (s[0] >= 0xe0 && s[0] < 0xf0)
    n = 3, c = s[0] & 0x0fu;
  else if (s[0] >= 0xc0 && s[0] < 0xe0)
    n = 2, c = s[0] & 0x1fu;
  else
    return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s[i] & 0x3fu);
  }
  if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
  return n;
}

/* C0 and C1 controls; marks of direction and of no width, line and paragraph
 * separators, which some terminals obey; tags, which none shows. */
static bool is_hidden(uint32_t c) {
  static const uint32_t ranges[][2] = {
      {0x00, 0x08},     {0x0b, 0x1f},      {0x7f, 0x9f},     {0x61c, 0x61c},
      {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f}, {0xfeff, 0xfeff},
      {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
  return false;
}

size_t tn__shown_length(const char *s) {
  const size_t n = tn__utf8_length(s);
  static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t c = (unsigned char)s[0] & first_bits[n];
  for (size_t i = 1; i < n; ++i) c = c << 6 | ((unsigned char)s[i] & 0x3fu);
  return n == 0 || is_hidden(c) ? 0 : n;
}

bool tn__is_utf8(const char *s, size_t n) {
  const char *end = s + n;
  while (s < end) {
    size_t length = tn__utf8_length(s);
    if (length == 0) return false;
    s += length;
  }
  return s == end;
}

static void json_escape(tn__buf *buf, unsigned char c) {
  switch (c) {
    case '"':
      tn__buf_bytes(buf, "\\\"", 2);
      break;
    case '\\':
      tn__buf_bytes(buf, "\\\\", 2);
      break;
    case '\n':
      tn__buf_bytes(buf, "\\n", 2);
      break;
    case '\t':
      tn__buf_bytes(buf, "\\t", 2);
      break;
    default:
      tn__buf_add(buf, "\\u%04x", c);
  }
}

void tn__buf_json(tn__buf *buf, const char *text) {
  if (text == NULL) {
    tn__buf_bytes(buf, "null", 4);
    return;
  }
  tn__buf_bytes(buf, "\"", 1);
  for (const char *s = text; *s != 0;) {
    const size_t n = tn__utf8_length(s);
    if (n == 0)
      tn__buf_bytes(buf, "\xef\xbf\xbd", 3);
    else if (n == 1 && ((unsigned char)*s < 0x20 || *s == '"' || *s == '\\'))
      json_escape(buf, (unsigned char)*s);
    else
      tn__buf_bytes(buf, s, n);
    s += n == 0 ? 1 : n;
  }
  tn__buf_bytes(buf, "\"", 1);
}

/* inf and nan without printf's choice of sign and spelling. */
static bool add_special(tn__buf *buf, double value) {
  if (isnan(value))
    tn__buf_add(buf, "nan");
  else if (isinf(value))
    tn__buf_add(buf, value < 0 ? "-inf" : "inf");
  else
    return false;
  return true;
}

/* The host may use a locale with another decimal point, of one or more bytes;
 * the result always has a dot. */
static void add_with_dot(tn__buf *buf, const char *text) {
  const size_t whole = strspn(text, "+-0123456789");
  const char *rest = text + whole;
  tn__buf_bytes(buf, text, whole);
  if (*rest != '\0' && *rest != 'e') {
    tn__buf_bytes(buf, ".", 1);
    rest += strcspn(rest, "0123456789");
  }
  tn__buf_bytes(buf, rest, strlen(rest));
}

enum { DECIMAL = 40 }; /* room for one number */

/* Writes whole numbers of up to 15 digits without an exponent: 1e+01 as 10. */
static void write_whole(char *text) {
  const double value = strchr(text, 'e') ? strtod(text, NULL) : 0;
  if (fabs(value) >= 1 && fabs(value) < 1e15)
    (void)snprintf(text, DECIMAL, "%.0f", value);
}

void tn__buf_double(tn__buf *buf, double value) {
  char text[DECIMAL];
  if (add_special(buf, value)) return;
  for (int digits = 1; digits <= 17; ++digits) {
    (void)snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  write_whole(text);
  add_with_dot(buf, text);
}

/* newlocale of "C" does not allocate in glibc. */
tn_code tn__read_double(const char *text, char **end, double *out) {
  const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c == (locale_t)0) return tn__fail_memory(sizeof(locale_t), "a number");
  errno = 0;
  *out = strtod_l(text, end, c);
  const int error = errno;
  freelocale(c);
  errno = error;
  return TN_OK;
}

void tn__buf_float(tn__buf *buf, float value) {
  char text[DECIMAL];
  if (add_special(buf, (double)value)) return;
  for (int digits = 1; digits <= 9; ++digits) {
    (void)snprintf(text, sizeof text, "%.*g", digits, (double)value);
    if (strtof(text, NULL) == value) break;
  }
  write_whole(text);
  add_with_dot(buf, text);
}

void tn__buf_shape(tn__buf *buf, int32_t ndim, const int64_t *shape) {
  if (ndim < 0) {
    tn__buf_add(buf, "unknown");
    return;
  }
  tn__buf_add(buf, "(");
  for (int32_t i = 0; i < ndim; ++i) {
    if (i > 0) tn__buf_add(buf, ",");
    if (shape[i] < 0)
      tn__buf_add(buf, "?");
    else
      tn__buf_add(buf, "%lld", (long long)shape[i]);
  }
  tn__buf_add(buf, ")");
}

void tn__buf_json_shape(tn__buf *buf, int32_t ndim, const int64_t *shape) {
  tn__buf_add(buf, "[");
  for (int32_t i = 0; i < ndim; ++i) {
    if (i > 0) tn__buf_add(buf, ", ");
    if (shape[i] < 0)
      tn__buf_add(buf, "null");
    else
      tn__buf_add(buf, "%lld", (long long)shape[i]);
  }
  tn__buf_add(buf, "]");
}

/* ----------------------------------------------------------- text for users */

struct tn_text {
  tn_allocator allocator; /* a copy: the text may outlive the runtime */
  char s[];
};

tn_code tn__buf_text(tn__buf *buf, tn_text **out) {
  const size_t n = buf->n;
  tn_text *text = NULL;
  *out = NULL;
  if (!buf->failed) text = tn__alloc(buf->env, sizeof *text + n + 1);
  if (text == NULL) {
    tn__buf_deinit(buf);
    return tn__fail_memory(n, "a text");
  }
  text->allocator = buf->env->allocator;
  if (n > 0) memcpy(text->s, buf->s, n);
  text->s[n] = '\0';
  tn__buf_deinit(buf);
  *out = text;
  return TN_OK;
}

const char *tn_text_get(const tn_text *text) {
  return text->s;
}

void tn_text_release(tn_text *text) {
  if (text != NULL) text->allocator.free(text->allocator.ctx, text);
}

/* ------------------------------------------------------------ nearest word */

enum { WORD_MAX = 40 };

static size_t min_of_3(size_t a, size_t b, size_t c) {
  const size_t ab = a < b ? a : b;
  return ab < c ? ab : c;
}

/* Edits (insert, delete, replace, swap of neighbours) between two words. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
  size_t rows[3][WORD_MAX + 1];
  for (size_t j = 0; j <= m; ++j) rows[0][j] = j;
  for (size_t i = 1; i <= n; ++i) {
    size_t *row = rows[i % 3];
    const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= m; ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = min_of_3(above[j] + 1, row[j - 1] + 1, replace);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
          two_above[j - 2] + 1 < row[j])
        row[j] = two_above[j - 2] + 1;
    }
  }
  return rows[n % 3][m];
}

const char *tn__find_nearest_word(const char *word,
                                  const char *const *candidates, size_t n) {
  const size_t length = strlen(word);
  const char *best = NULL;
  size_t best_distance = length < 3 ? 1 : (length + 2) / 3;
  if (length == 0 || length > WORD_MAX) return NULL;
  for (size_t i = 0; i < n; ++i) {
    const size_t m = strlen(candidates[i]);
    if (m == 0 || m > WORD_MAX) continue;
    const size_t d = edit_distance(word, length, candidates[i], m);
    if (d >= (m > length ? m : length)) continue;
    if (d < best_distance || (d == best_distance && best == NULL)) {
      best = candidates[i];
      best_distance = d;
    }
  }
  return best;
}

/* -------------------------------------------------------------------- hash */

static uint64_t mix_bits(uint64_t h) {
  h ^= h >> 32;
  h *= 0xe9846af9b1a615dull;
  h ^= h >> 32;
  h *= 0xe9846af9b1a615dull;
  return h ^ h >> 28;
}

/* Eight bytes at a time, little-endian, each folded in by a multiplication with
 * an odd constant and a rotation; then the tail, the length and a final mix. */
uint64_t tn__hash(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t h = 0x9e3779b97f4a7c15ull, word = 0;
  for (size_t left = n; left > 0;) {
    const size_t take = left < 8 ? left : 8;
    word = 0;
    memcpy(&word, p, take);
    h = (h ^ word) * 0xff51afd7ed558ccdull;
    h = h << 29 | h >> 35;
    p += take;
    left -= take;
  }
  return mix_bits(h ^ (uint64_t)n);
}
