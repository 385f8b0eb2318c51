/* SPDX-License-Identifier: Apache-2.0
 * error.c: the error text of a thread, the names of codes, and the log.
 *
 * A thread allocates memory for its text at its first failure. Without memory
 * it uses a short text, so reporting a failed allocation cannot fail itself.
 * The text is not a thread-local array, because that would be static TLS. A
 * program that opens this library late has only a few hundred bytes of static
 * TLS left.
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

static void free_text(void *text) {
  long_text = NULL;
  free(text);
}

static void create_key(void) {
  has_key = pthread_key_create(&key, free_text) == 0;
}

/* Returns the memory of the text, and its size. The text outlives every
 * runtime, so it does not use an allocator of one. */
static char *text_memory(size_t *bytes) {
  if (!long_text) {
    (void)pthread_once(&once, create_key);
    char *allocated = has_key ? malloc(TN__ERROR_MAX) : NULL;
    if (allocated && pthread_setspecific(key, allocated) != 0) {
      free(allocated);
      allocated = NULL;
    }
    if (allocated) memcpy(allocated, short_text, sizeof short_text);
    long_text = allocated;
  }
  *bytes = long_text ? TN__ERROR_MAX : SHORT_MAX;
  return long_text ? long_text : short_text;
}

/* Ends a text that does not fit with "...". */
static void mark_cut(char *text, size_t bytes, size_t wanted) {
  if (wanted >= bytes) memcpy(text + bytes - 4, "...", 4);
}

/* Replaces bytes that a terminal would obey: names come from files and plugins
 * that may be hostile. */
static void replace_controls(char *text) {
  while (*text != '\0') {
    const size_t n = tn__shown_length(text);
    if (n == 0) *text = '?';
    text += n > 0 ? n : 1;
  }
}

tn_code tn__vfail(tn_code code, const char *format, va_list args) {
  /* The arguments may point into the old text, so it is replaced at once. */
  char text[TN__ERROR_MAX];
  size_t bytes = 0;
  char *to = text_memory(&bytes);
  const int n = vsnprintf(text, bytes, format, args);
  if (n < 0) text[0] = '\0';
  if (n > 0) mark_cut(text, bytes, (size_t)n);
  replace_controls(text);
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
  char *text = text_memory(&bytes);
  const size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(text + used, bytes - used, format, args);
  va_end(args);
  if (n > 0) mark_cut(text, bytes, used + (size_t)n);
  replace_controls(text + used);
  return code;
}

void tn__error_clear(void) {
  (long_text ? long_text : short_text)[0] = '\0';
}

tn_code tn__fail_memory(size_t bytes, const char *purpose) {
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the allocator refused %zu bytes for %s",
                  bytes, purpose);
}

const char *tn_error_text(void) {
  return long_text ? long_text : short_text;
}

const char *tn_code_name(tn_code code) {
  /* Arrays, since each pointer of a table would need a relocation. */
  static const char names[][17] = {
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

/* Writes "engine: " before lines that are neither failures nor of a plugin. */
static size_t begin_line(char *to, size_t bytes, tn__log_part part,
                         int32_t level) {
  if (level <= TN_LOG_WARNING || part == TN__LOG_PLUGINS) return 0;
  return (size_t)snprintf(to, bytes, "%s: ", tn__log_part_name(part));
}

void tn__log(const tn__env *env, tn__log_part part, int32_t level,
             const char *format, ...) {
  char line[TN__ERROR_MAX];
  va_list args;
  if (env->log == NULL || !tn__log_wants(env, part, level)) return;
  const size_t used = begin_line(line, sizeof line, part, level);
  va_start(args, format);
  const int n = vsnprintf(line + used, sizeof line - used, format, args);
  va_end(args);
  if (n < 0) return;
  replace_controls(line);
  env->log(env->log_ctx, level, line);
}
