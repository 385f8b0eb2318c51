/* SPDX-License-Identifier: Apache-2.0
 * error.c: the error text of a thread, the names of codes, and the log. A
 * thread gets memory for its text when something first fails; if there is none,
 * a short text has to do, so that reporting a failed allocation cannot fail
 * itself. (The text is not a thread-local array: as such it would be static
 * TLS, of which a program that opens this library late has a few hundred bytes
 * left.)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

enum { SHORT_MAX = 128 };

static _Thread_local char short_text[SHORT_MAX];
static _Thread_local char *long_text; /* TN__ERROR_MAX bytes, or NULL */

static pthread_key_t key; /* frees long_text when its thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static void text_free(void *text) {
  long_text = NULL;
  free(text);
}

static void key_create(void) {
  has_key = pthread_key_create(&key, text_free) == 0;
}

/* Where the text stands, and how much fits. It outlives any runtime, so it is
 * not of an allocator of one. */
static char *text_room(size_t *bytes) {
  if (!long_text) {
    (void)pthread_once(&once, key_create);
    char *made = has_key ? malloc(TN__ERROR_MAX) : NULL;
    if (made && pthread_setspecific(key, made) != 0) {
      free(made);
      made = NULL;
    }
    if (made) memcpy(made, short_text, sizeof short_text);
    long_text = made;
  }
  *bytes = long_text ? TN__ERROR_MAX : SHORT_MAX;
  return long_text ? long_text : short_text;
}

/* Marks text that does not fit with a closing "...". */
static void mark(char *text, size_t bytes, size_t wanted) {
  if (wanted >= bytes) memcpy(text + bytes - 4, "...", 4);
}

/* Names come from files and plugins that may be hostile: no message has what a
 * terminal obeys. */
static void tame(char *text) {
  while (*text != '\0') {
    const size_t n = tn__shown_length(text);
    if (n == 0) *text = '?';
    text += n > 0 ? n : 1;
  }
}

tn_code tn__vfail(tn_code code, const char *format, va_list args) {
  /* The arguments may point into the old text; it is replaced in one go. */
  char text[TN__ERROR_MAX];
  size_t bytes = 0;
  char *to = text_room(&bytes);
  const int n = vsnprintf(text, bytes, format, args);
  if (n < 0) text[0] = '\0';
  if (n > 0) mark(text, bytes, (size_t)n);
  tame(text);
  memcpy(to, text, strlen(text) + 1);
  return code;
}

tn_code tn__fail(tn_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)tn__vfail(code, format, args);
  va_end(args);
  return code;
}

tn_code tn__fail_more(tn_code code, const char *format, ...) {
  size_t bytes = 0;
  char *text = text_room(&bytes);
  const size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(text + used, bytes - used, format, args);
  va_end(args);
  if (n > 0) mark(text, bytes, used + (size_t)n);
  tame(text + used);
  return code;
}

tn_code tn__fail_memory(size_t bytes, const char *what) {
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the allocator refused %zu bytes for %s",
                  bytes, what);
}

const char *tn_error_text(void) {
  return long_text ? long_text : short_text;
}

const char *tn_code_name(tn_code code) {
  static const char *const names[] = {
      "TN_OK",          "TN_INVALID",       "TN_NOT_FOUND",
      "TN_EXISTS",      "TN_OUT_OF_MEMORY", "TN_OUT_OF_RANGE",
      "TN_SHAPE",       "TN_DTYPE",         "TN_INCOMPLETE",
      "TN_UNSUPPORTED", "TN_UNIMPLEMENTED", "TN_PLUGIN",
      "TN_IO",          "TN_DEVICE",        "TN_BUSY",
      "TN_INTERNAL"};
  const int64_t index = -(int64_t)code;
  const int64_t n = (int64_t)(sizeof names / sizeof names[0]);
  return index >= 0 && index < n ? names[index] : "TN_?";
}

void tn__log(const tn__env *env, int32_t level, const char *format, ...) {
  char line[TN__ERROR_MAX];
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n < 0 || env->log == NULL) return;
  tame(line);
  env->log(env->log_ctx, level, line);
}
