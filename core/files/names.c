/* SPDX-License-Identifier: Apache-2.0
 * names.c: decides which names an array in a file may have. This library never
 * creates a file of such a name, but other programs may. So names that could
 * lead out of a folder are neither read nor written.
 */
#include <string.h>

#include "formats.h"

static bool has_parent_part(const char *name, size_t n) {
  for (size_t i = 0; i + 1 < n; ++i) {
    bool begins = i == 0 || name[i - 1] == '/';
    bool ends = i + 2 == n || name[i + 2] == '/';
    if (begins && ends && name[i] == '.' && name[i + 1] == '.') return true;
  }
  return false;
}

const char *tn__find_name_fault(const char *name, size_t n) {
  if (n == 0) return "the name of an array is empty";
  for (size_t i = 0; i < n; ++i)
    if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
      return "the name of an array has a control character in it";
  if (memchr(name, '\\', n))
    return "the name of an array has a backslash in it";
  if (name[0] == '/') return "the name of an array begins with a slash";
  if (has_parent_part(name, n))
    return "the name of an array leads upwards with `..`";
  if (!tn__is_utf8(name, n)) return "the name of an array is not UTF-8";
  return NULL;
}

const char *tn__show_text(const char *text, char to[TN__SHOWN]) {
  size_t n = 0;
  for (; n + 1 < TN__SHOWN && text[n] != '\0'; ++n)
    to[n] = text[n] < 0x20 || text[n] > 0x7e ? '?' : text[n];
  to[n] = '\0';
  return to;
}
