/* SPDX-License-Identifier: Apache-2.0
 * terminal.c: the only path of text to a terminal. Names and texts come from
 * manifests and plugins that are not trusted yet. Control characters and marks
 * that reverse or hide text are escaped, as in JSON; bytes that are not UTF-8
 * as \xff. The colours of diagnostics pass.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opgen.h"

enum { COLOUR = 7 /* bytes of the longest sequence */ };

/* A stream, and the beginning of an incomplete character. */
typedef struct terminal {
  int fd;
  tn__buf rest;
} terminal;

static terminal terminals[2];

static bool write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    const ssize_t done = write(fd, bytes, n);
    if (done <= 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

/* Length of "\033[0m" or "\033[1;31m", which print.c of sdk/manifest writes. */
static size_t colour_length(const char *s) {
  if (s[0] != '\033' || s[1] != '[') return 0;
  const size_t digits = strspn(s + 2, "013;4");
  return digits <= COLOUR - 3 && s[2 + digits] == 'm' ? digits + 3 : 0;
}

static size_t escape_character(const char *s, char *to) {
  static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  const size_t n = *s ? tn__utf8_length(s) : 1;
  unsigned c = (unsigned char)s[0] & (n ? first_bits[n] : 0xffu);
  for (size_t i = 1; i < n; ++i) c = c << 6 | ((unsigned char)s[i] & 0x3fu);
  const char *format = n == 0 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
  (void)snprintf(to, 12, format, c);
  return n ? n : 1;
}

/* Writes text with escapes. `text` ends in a NUL, which is not among its `n`
 * bytes. */
static bool write_shown(int fd, const char *text, size_t n) {
  const char *const end = text + n;
  const char *from = text;
  char escaped[12];
  while (text < end) {
    const size_t shown = *text ? tn__shown_length(text) : 0;
    const size_t passes = shown ? shown : colour_length(text);
    if (passes) {
      text += passes;
      continue;
    }
    if (!write_all(fd, from, (size_t)(text - from))) return false;
    text += escape_character(text, escaped);
    if (!write_all(fd, escaped, strlen(escaped))) return false;
    from = text;
  }
  return write_all(fd, from, (size_t)(text - from));
}

/* Bytes at the end that may begin a character or a colour. */
static size_t count_open(const char *s, size_t n) {
  for (size_t k = 1; k < COLOUR && k <= n; ++k) {
    const unsigned char c = (unsigned char)s[n - k];
    const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
    if (whole > k || (c == '\033' && !colour_length(s + n - k))) return k;
  }
  return 0;
}

/* Writes the complete characters, and keeps the rest. */
static bool write_whole(terminal *t) {
  const size_t open = count_open(t->rest.s, t->rest.n);
  const size_t whole = t->rest.n - open;
  const char first = t->rest.s[whole];
  t->rest.s[whole] = '\0';
  const bool fine = write_shown(t->fd, t->rest.s, whole);
  t->rest.s[whole] = first;
  memmove(t->rest.s, t->rest.s + whole, open + 1);
  t->rest.n = open;
  return fine;
}

static ssize_t on_write(void *cookie, const char *bytes, size_t n) {
  terminal *t = cookie;
  tn__buf_bytes(&t->rest, bytes, n);
  return !t->rest.failed && write_whole(t) ? (ssize_t)n : 0;
}

/* Writes incomplete characters too. */
static void end_streams(void) {
  (void)fflush(stdout);
  (void)fflush(stderr);
  for (int i = 0; i < 2; ++i) {
    terminal *t = &terminals[i];
    if (t->rest.n) (void)write_shown(t->fd, t->rest.s, t->rest.n);
    tn__buf_deinit(&t->rest);
  }
}

static FILE *open_stream(terminal *t, int fd, int buffering) {
  const cookie_io_functions_t functions = {.write = on_write};
  *t = (terminal){.fd = fd};
  tn__buf_init(&t->rest, tn__env_default());
  FILE *stream = fopencookie(t, "w", functions);
  if (stream) (void)setvbuf(stream, NULL, buffering, BUFSIZ);
  return stream;
}

void opgen_terminal_begin(void) {
  const bool lines = isatty(STDOUT_FILENO) != 0;
  FILE *out =
      open_stream(&terminals[0], STDOUT_FILENO, lines ? _IOLBF : _IOFBF);
  FILE *err = open_stream(&terminals[1], STDERR_FILENO, _IOLBF);
  if (out) stdout = out;
  if (err) stderr = err;
  (void)atexit(end_streams);
}
