/* SPDX-License-Identifier: Apache-2.0
 * diag.c: collects messages with positions, in order and one per cause. print.c
 * renders them.
 */
#include "diag.h"

#include <stdio.h>
#include <string.h>

/* Largest number of messages that are kept. Further ones are only counted. */
enum { MAX_KEPT = 1000 };

/* The id of a message that is not kept. */
#define DROPPED SIZE_MAX

tnm_diags *tnm_diags_create(const tn__env *env) {
  tnm_diags *diags = tn__zalloc(env, sizeof *diags);
  if (diags == NULL) {
    tn__fail_memory(sizeof *diags, "the list of messages");
    return NULL;
  }
  diags->env = env;
  tn__arena_init(&diags->arena, env);
  return diags;
}

void tnm_diags_release(tnm_diags *diags) {
  if (diags == NULL) return;
  const tn__env *env = diags->env;
  tn__vec_deinit(env, &diags->files);
  tn__vec_deinit(env, &diags->by_id);
  tn__vec_deinit(env, &diags->sorted);
  tn__vec_deinit(env, &diags->quoted);
  tn__arena_deinit(&diags->arena);
  tn__free(env, diags);
}

size_t tnm_diags_errors(const tnm_diags *diags) {
  return diags->errors;
}

size_t tnm_diags_warnings(const tnm_diags *diags) {
  return diags->warnings;
}

bool tnm_diags_has_failed(const tnm_diags *diags) {
  return diags->failed || diags->arena.failed;
}

tnm_pos tnm_pos_start(uint32_t file) {
  return (tnm_pos){.line = 1, .column = 1, .length = 1, .file = file};
}

/* Finds a registered file with this name and text, and returns whether there
 * is one. Two names on a command line may lead to one file; its mistakes are
 * reported once. */
static bool find_same_file(const tnm_diags *diags, const char *name,
                           const char *text, size_t n, uint32_t *index) {
  for (size_t i = 0; i < diags->files.n; ++i) {
    const tnm_file *file = diags->files.v[i];
    if (file->n != n || strcmp(file->name, name) != 0 ||
        memcmp(file->text, text, n) != 0)
      continue;
    *index = (uint32_t)i;
    return true;
  }
  return false;
}

uint32_t tnm_diags_add_file(tnm_diags *diags, const char *name,
                            const char *text, size_t n) {
  uint32_t known = 0;
  if (find_same_file(diags, name, text, n, &known)) return known;
  tnm_file *file = tn__arena_alloc(&diags->arena, sizeof *file);
  char *name_copy = tn__arena_text(&diags->arena, name, strlen(name));
  char *text_copy = tn__arena_text(&diags->arena, text, n);
  uint32_t index = (uint32_t)diags->files.n;
  if (file == NULL || name_copy == NULL || text_copy == NULL ||
      tn__vec_push(diags->env, &diags->files, file) != TN_OK) {
    diags->failed = true;
    return index;
  }
  *file = (tnm_file){.name = name_copy, .text = text_copy, .n = n};
  return index;
}

const tnm_file *tnm_diags_get_file(const tnm_diags *diags, uint32_t index) {
  static const tnm_file none = {"", "", 0};
  return index < diags->files.n ? diags->files.v[index] : &none;
}

const char *tnm_diags_get_text(const tnm_diags *diags, uint32_t file,
                               size_t *n) {
  const tnm_file *found = tnm_diags_get_file(diags, file);
  *n = found->n;
  return found->text;
}

/* Maximal number of bytes of one text in a message. A manifest may contain a
 * word of a megabyte, which a message should not repeat. */
enum { MAX_TEXT = 2000 };

/* Shortens a text to MAX_TEXT bytes at a whole character, with three dots. */
static void shorten_text(char *text) {
  size_t n = MAX_TEXT - 3;
  while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) --n;
  memcpy(text + n, "...", 4);
}

/* Replaces line ends by blanks. A message is one line, even if it quotes a text
 * of several lines. */
static void replace_line_ends(char *text) {
  for (; *text != '\0'; ++text)
    if ((unsigned char)*text < ' ' || *text == 0x7f) *text = ' ';
}

/* Returns a message's text in the arena, shortened and on one line; NULL if
 * memory ran out. */
static char *format_text(tnm_diags *diags, const char *format, va_list args) {
  va_list copy;
  va_copy(copy, args);
  const int wanted = vsnprintf(NULL, 0, format, copy);
  va_end(copy);
  const size_t n = wanted < 0          ? 0
                   : wanted > MAX_TEXT ? MAX_TEXT
                                       : (size_t)wanted;
  char *text = tn__arena_alloc(&diags->arena, n + 1);
  if (text == NULL) return NULL;
  vsnprintf(text, n + 1, format, args);
  if (wanted > MAX_TEXT) shorten_text(text);
  replace_line_ends(text);
  return text;
}

int tnm_pos_compare(tnm_pos a, tnm_pos b) {
  if (a.file != b.file) return a.file < b.file ? -1 : 1;
  if (a.line != b.line) return a.line < b.line ? -1 : 1;
  if (a.column != b.column) return a.column < b.column ? -1 : 1;
  return 0;
}

/* Tests whether the same message exists at the same place. A family lowers its
 * shared text once for each member, but one mistake is reported once. */
static bool has_message(const tnm_diags *diags, const tnm_diag_spec *spec,
                        const char *text) {
  for (size_t i = 0; i < diags->by_id.n; ++i) {
    const tnm_message *m = diags->by_id.v[i];
    if (tnm_pos_compare(m->spec.pos, spec->pos) == 0 &&
        strcmp(m->spec.code, spec->code) == 0 && strcmp(m->text, text) == 0)
      return true;
  }
  return false;
}

/* Returns the index in the sorted list at which a message with position `pos`
 * belongs. */
static size_t find_sorted_index(const tnm_diags *diags, tnm_pos pos) {
  size_t at = diags->sorted.n;
  while (at > 0) {
    const tnm_message *before = diags->sorted.v[at - 1];
    if (tnm_pos_compare(before->spec.pos, pos) <= 0) break;
    --at;
  }
  return at;
}

/* Adds a message to both lists: by id, and sorted by position. Returns false
 * if memory ran out. */
static bool keep_message(tnm_diags *diags, tnm_message *message) {
  if (tn__vec_reserve(diags->env, &diags->by_id, 1) != TN_OK ||
      tn__vec_reserve(diags->env, &diags->sorted, 1) != TN_OK)
    return false;
  size_t at = find_sorted_index(diags, message->spec.pos);
  tn__vec_insert_reserved(&diags->sorted, at, message);
  tn__vec_insert_reserved(&diags->by_id, diags->by_id.n, message);
  return true;
}

/* Adds 1 to the number of errors or of warnings. */
static void count_message(tnm_diags *diags, const tnm_diag_spec *spec) {
  if (spec->code[0] == 'W')
    ++diags->warnings;
  else
    ++diags->errors;
}

/* Stores a message with its text. Returns its id, or DROPPED if memory ran
 * out. */
static size_t add_message(tnm_diags *diags, const tnm_diag_spec *spec,
                          const char *text) {
  const char *under = spec->under;
  if (under != NULL)
    under = tn__arena_text(&diags->arena, under, strlen(under));
  tnm_message *message = tn__arena_alloc(&diags->arena, sizeof *message);
  if (message == NULL) return DROPPED;
  *message = (tnm_message){.spec = *spec, .text = text};
  message->spec.under = under;
  if (keep_message(diags, message)) return diags->by_id.n - 1;
  diags->failed = true;
  return DROPPED;
}

size_t tnm_diag_add(tnm_diags *diags, const tnm_diag_spec *spec,
                    const char *format, ...) {
  bool full = diags->by_id.n == MAX_KEPT;
  va_list args;
  va_start(args, format);
  const char *text = full ? NULL : format_text(diags, format, args);
  va_end(args);
  tnm_diag_spec placed = *spec;
  if (text != NULL) placed.pos = tnm_diags_file_pos(diags, spec->pos);
  if (text != NULL && has_message(diags, &placed, text)) return DROPPED;
  count_message(diags, &placed);
  return text == NULL ? DROPPED : add_message(diags, &placed, text);
}

/* Adds a line to a kept message. */
static void add_extra_line(tnm_diags *diags, size_t id, tnm_extra extra) {
  if (id >= diags->by_id.n || extra.text == NULL) return;
  tnm_message *message = diags->by_id.v[id];
  tnm_extra *kept = tn__arena_alloc(&diags->arena, sizeof *kept);
  if (kept == NULL) return;
  *kept = extra;
  kept->pos = tnm_diags_file_pos(diags, extra.pos);
  tnm_extra **tail = &message->extras;
  while (*tail != NULL) tail = &(*tail)->next;
  *tail = kept;
}

void tnm_diag_add_note(tnm_diags *diags, size_t id, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tnm_extra extra = {.kind = TNM_NOTE};
  extra.text = format_text(diags, format, args);
  va_end(args);
  add_extra_line(diags, id, extra);
}

void tnm_diag_add_help(tnm_diags *diags, size_t id, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tnm_extra extra = {.kind = TNM_HELP};
  extra.text = format_text(diags, format, args);
  va_end(args);
  add_extra_line(diags, id, extra);
}

void tnm_diag_add_place(tnm_diags *diags, size_t id, tnm_pos pos,
                        const char *format, ...) {
  va_list args;
  va_start(args, format);
  tnm_extra extra = {.kind = TNM_ALSO, .pos = pos};
  extra.text = format_text(diags, format, args);
  va_end(args);
  add_extra_line(diags, id, extra);
}
