/* SPDX-License-Identifier: Apache-2.0
 * log_levels.c: the parts of the library and the levels of their lines in the
 * log, as text: "engine:debug,info".
 */
#include <string.h>

#include "base.h"

/* Arrays, since each pointer of a table would need a relocation. */
typedef char name[9];

static const name part_names[TN__LOG_PARTS] = {"engine",   "storage", "loading",
                                               "registry", "kernels", "graph",
                                               "program",  "plugins"};
static const name level_names[] = {"error", "warning", "info", "debug"};

enum { N_LEVELS = sizeof level_names / sizeof *level_names };

const char *tn__log_part_name(tn__log_part part) {
  return part_names[part];
}

const char *tn__log_level_name(uint32_t level) {
  return level_names[level != 0 ? level - 1 : TN_LOG_INFO - 1];
}

void tn__log_levels_fill(tn__log_levels *levels, uint32_t level) {
  memset(levels->of, (int)level, sizeof levels->of);
}

/* A word of the text, without a NUL. */
typedef struct word {
  const char *at;
  size_t n;
} word;

/* Returns the position of the word in the list, or `n_names`. */
static size_t find_name(word w, const name *names, size_t n_names) {
  size_t i = 0;
  while (i < n_names &&
         (strlen(names[i]) != w.n || memcmp(names[i], w.at, w.n) != 0))
    ++i;
  return i;
}

static tn_code fail_word(const char *text, word w, const char *kind) {
  (void)tn__fail(TN_INVALID,
                 "tn_options.log_levels is \"%.200s\", and `%.*s` is no %s; "
                 "write [PART:]LEVEL, with commas between;",
                 text, (int)(w.n < 40 ? w.n : 40), w.at, kind);
  for (size_t i = 0; i < N_LEVELS + TN__LOG_PARTS; ++i)
    (void)tn__fail_more(
        TN_INVALID, "%s %s",
        i == 0          ? " levels:"
        : i == N_LEVELS ? "; parts:"
                        : ",",
        i < N_LEVELS ? level_names[i] : part_names[i - N_LEVELS]);
  return TN_INVALID;
}

/* One entry of the text. Part TN__LOG_PARTS means the parts without an entry.
 */
typedef struct entry {
  size_t part;
  uint8_t level;
} entry;

static tn_code read_entry(const char *text, word w, entry *out) {
  const char *colon = memchr(w.at, ':', w.n);
  out->part = TN__LOG_PARTS;
  if (colon != NULL) {
    const word part = {w.at, (size_t)(colon - w.at)};
    out->part = find_name(part, part_names, TN__LOG_PARTS);
    if (out->part == TN__LOG_PARTS) return fail_word(text, part, "part");
    w = (word){colon + 1, w.n - part.n - 1};
  }
  const size_t level = find_name(w, level_names, N_LEVELS);
  if (level == N_LEVELS) return fail_word(text, w, "level");
  out->level = (uint8_t)(level + 1);
  return TN_OK;
}

tn_code tn__log_levels_parse(tn__log_levels *levels, const char *text) {
  tn__log_levels named = {{0}};
  for (const char *at = text; *at != '\0';) {
    const word w = {at, strcspn(at, ",")};
    entry e = {0};
    TN__TRY(read_entry(text, w, &e));
    if (e.part == TN__LOG_PARTS)
      tn__log_levels_fill(levels, e.level);
    else
      named.of[e.part] = e.level;
    at += w.n;
    if (*at == ',') ++at;
  }
  for (size_t i = 0; i < TN__LOG_PARTS; ++i)
    if (named.of[i] != 0) levels->of[i] = named.of[i];
  return TN_OK;
}
