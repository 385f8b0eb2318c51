/* SPDX-License-Identifier: Apache-2.0
 * shape.c: reads the type and shape of a variable from a command line:
 * "data=f32[32,784]".
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

/* Reads "32" or "?"; leaves *at after it. */
static bool dimension_parse(const char *word, const char **at, tn_sig *sig,
                            text *why) {
  char *end = NULL;
  if (sig->ndim == TN_MAX_NDIM)
    return fail_at(why, word, *at, "there are more than %d dimensions",
                   TN_MAX_NDIM);
  if (**at == '?') {
    sig->shape[sig->ndim++] = -1;
    ++*at;
    return true;
  }
  errno = 0;
  const long long n = strtoll(*at, &end, 10);
  if (!isdigit((unsigned char)**at) || errno)
    return fail_at(why, word, *at, "a dimension is a whole number or `?`");
  sig->shape[sig->ndim++] = n;
  *at = end;
  return true;
}

static bool list_parse(const char *word, const char *at, tn_sig *sig,
                       text *why) {
  sig->ndim = 0;
  ++at; /* the bracket */
  while (*at != ']') {
    if (sig->ndim > 0 && *at++ != ',')
      return fail_at(why, word, at - 1, "`,` or `]` is expected");
    if (!dimension_parse(word, &at, sig, why)) return false;
  }
  return !at[1] || fail_at(why, word, at + 1, "nothing follows the shape");
}

static bool dtype_parse(const char *word, const char *at, size_t n, tn_sig *sig,
                        text *why) {
  char name[16] = {0};
  if (n == 0) return true;
  if (n < sizeof name) memcpy(name, at, n);
  sig->dtype = dtype_from_name(name);
  if (sig->dtype != TN_DTYPE_UNKNOWN) return true;
  const char *meant = dtype_nearest(name);
  return fail_at(why, word, at, "this is no element type%s%s%s",
                 meant ? "; did you mean `" : "", meant ? meant : "",
                 meant ? "`?" : "");
}

static bool sig_parse(const char *word, const char *at, tn_sig *sig,
                      text *why) {
  const size_t n = strcspn(at, "[");
  *sig = (tn_sig){.dtype = TN_DTYPE_UNKNOWN, .ndim = -1};
  if (!dtype_parse(word, at, n, sig, why)) return false;
  return !at[n] || list_parse(word, at + n, sig, why);
}

bool shape_parse(const char *word, shape_word *out, text *why) {
  const size_t n = strcspn(word, "=");
  *out = (shape_word){0};
  if (n == 0 || !word[n] || !word[n + 1])
    return report_failure(why, "--shape wants NAME=TYPE[D,...], not `%s`",
                          word);
  if (!sig_parse(word, word + n + 1, &out->sig, why))
    return report_failure(why, "--shape: %s", text_get(why));
  out->name = strndup(word, n);
  return out->name || report_failure(why, "out of memory");
}
