/* SPDX-License-Identifier: Apache-2.0
 * new_list.c: adds a file to `operators` of a plugin.yaml that was read without
 * a mistake. It adds only the bytes of the new entry, so that comments and
 * spacing stay.
 */
#include <string.h>

#include "new.h"

/* The beginning of the next line. */
static const char *next_line(const char *s) {
  s += strcspn(s, "\n");
  return *s == '\n' ? s + 1 : s;
}

/* Finds the key at the beginning of a line, or NULL. */
static const char *find_key(const char *text) {
  static const char key[] = "operators:";
  for (; *text != '\0'; text = next_line(text))
    if (strncmp(text, key, strlen(key)) == 0) return text + strlen(key);
  return NULL;
}

/* Finds the end of the last name of a list: commas, blanks and comments may
 * follow up to its bracket. The beginning of the list if there is no name, NULL
 * if there is no bracket. */
static const char *find_end(const char *s) {
  const char *end = s;
  char quote = '\0';
  for (; *s != '\0'; ++s) {
    if (quote == '\0' && *s == ']') return end;
    if (quote == '\0' && *s == '#' && strchr(" \n", s[-1]) != NULL) {
      s += strcspn(s, "\n") - 1;
      continue;
    }
    if (quote != '\0')
      quote = *s == quote ? '\0' : quote;
    else if (*s == '"' || *s == '\'')
      quote = *s;
    if (strchr(" \t\r\n,", *s) == NULL) end = s + 1;
  }
  return NULL;
}

/* Writes "[a.yaml" + ", c.yaml" + "]". */
static bool add_to_flow(tn__buf *out, const char *text, const char *open,
                        const char *file) {
  const char *end = find_end(open + 1);
  if (end == NULL) return false;
  tn__buf_bytes(out, text, (size_t)(end - text));
  tn__buf_add(out, "%s%s%s", end > open + 1 ? ", " : "", file, end);
  return true;
}

/* Adds one more line after the last "  - a.yaml" line. */
static bool add_to_block(tn__buf *out, const char *text, const char *at,
                         const char *file) {
  const char *last = NULL;
  size_t indent = 0;
  for (; *at != '\0'; at = next_line(at)) {
    const size_t blanks = strspn(at, " ");
    if (at[blanks] == '-' && at[blanks + 1] == ' ') {
      indent = blanks;
      last = next_line(at);
    } else if (at[blanks] != '#' && at[blanks] != '\n' && at[blanks] != '\r' &&
               blanks == 0) {
      break;
    }
  }
  if (last == NULL) return false;
  tn__buf_bytes(out, text, (size_t)(last - text));
  tn__buf_add(out, "%s%*s- %s\n%s", last[-1] == '\n' ? "" : "\n", (int)indent,
              "", file, last);
  return true;
}

bool new_list_add(tn__buf *out, const char *text, const char *file) {
  const char *at = find_key(text);
  if (at == NULL) return false;
  const char *value = at + strspn(at, " ");
  if (*value == '[') return add_to_flow(out, text, value, file);
  return add_to_block(out, text, next_line(at), file);
}
