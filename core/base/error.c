/* SPDX-License-Identifier: Apache-2.0
 * error.c: the error text of a thread, the names of codes, and the log. The
 * text lives in a fixed buffer, so that reporting a failed allocation cannot
 * fail itself.
 */
#include <stdio.h>
#include <string.h>

#include "base.h"

static _Thread_local char error_text[TN__ERROR_MAX];

/* Appends at `used`; marks text that does not fit with a closing "...". */
static void append(size_t used, const char *format, va_list args) {
  const size_t room = sizeof error_text - used;
  const int n = vsnprintf(error_text + used, room, format, args);
  if (n >= 0 && (size_t)n >= room)
    memcpy(error_text + sizeof error_text - 4, "...", 4);
}

tn_code tn__vfail(tn_code code, const char *format, va_list args) {
  /* The arguments may point into the old text; it is replaced in one go. */
  char text[TN__ERROR_MAX];
  const int n = vsnprintf(text, sizeof text, format, args);
  if (n < 0) text[0] = '\0';
  if (n >= (int)sizeof text) memcpy(text + sizeof text - 4, "...", 4);
  memcpy(error_text, text, strlen(text) + 1);
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
  va_list args;
  va_start(args, format);
  append(strlen(error_text), format, args);
  va_end(args);
  return code;
}

tn_code tn__fail_memory(size_t bytes, const char *what) {
  return tn__fail(TN_OUT_OF_MEMORY,
                  "out of memory: the allocator refused %zu bytes for %s",
                  bytes, what);
}

const char *tn_error_text(void) {
  return error_text;
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
  if (n >= 0 && env->log != NULL) env->log(env->log_ctx, level, line);
}
