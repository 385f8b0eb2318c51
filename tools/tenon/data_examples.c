/* SPDX-License-Identifier: Apache-2.0
 * data_examples.c: the files that `tenon data pack` packs, with their labels:
 * all files of a folder, or those of a list.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data_set.h"

/* -------------------------------------------------------------------- lists */

void *list_grow(void *list, size_t n, size_t *capacity, size_t size) {
  if (n < *capacity) return list;
  const size_t more = *capacity ? 2 * *capacity : 16;
  void *grown = more > SIZE_MAX / size ? NULL : realloc(list, more * size);
  if (grown) *capacity = more;
  return grown;
}

static bool fail_memory(text *why) {
  return report_failure(why, "out of memory");
}

static bool add_label(examples *e, float label, text *why) {
  float *labels =
      list_grow(e->labels, e->n_labels, &e->label_capacity, sizeof *labels);
  if (!labels) return fail_memory(why);
  e->labels = labels;
  labels[e->n_labels++] = label;
  return true;
}

/* Adds an example without labels. */
static bool add_example(examples *e, const char *path, uint64_t id, text *why) {
  example *list = list_grow(e->list, e->n, &e->capacity, sizeof *list);
  if (list) e->list = list;
  char *copy = list ? strdup(path) : NULL;
  if (!copy) return fail_memory(why);
  list[e->n++] = (example){.path = copy, .id = id, .first_label = e->n_labels};
  return true;
}

static bool add_class(examples *e, const char *folder, text *why) {
  example_class *classes =
      list_grow(e->classes, e->n_classes, &e->class_capacity, sizeof *classes);
  if (classes) e->classes = classes;
  char *copy = classes ? strdup(folder) : NULL;
  if (!copy) return fail_memory(why);
  classes[e->n_classes++] = (example_class){.folder = copy};
  return true;
}

void examples_shuffle(examples *e, uint64_t seed) {
  for (size_t i = e->n; i > 1; --i) {
    const size_t other = (size_t)(generate_bits(&seed) % i);
    const example last = e->list[i - 1];
    e->list[i - 1] = e->list[other];
    e->list[other] = last;
  }
}

void examples_deinit(examples *e) {
  for (size_t i = 0; i < e->n; ++i) free(e->list[i].path);
  for (size_t i = 0; i < e->n_classes; ++i) free(e->classes[i].folder);
  free(e->list);
  free(e->labels);
  free(e->classes);
  *e = (examples){0};
}

/* ------------------------------------------------------------------ folders */

static bool has_suffix(const char *name, const char *suffix) {
  const size_t n = strlen(name), m = strlen(suffix);
  return n >= m && !strcasecmp(name + n - m, suffix);
}

bool examples_select(const char *name, const arguments *args) {
  for (size_t i = 0; i < args->n_suffixes; ++i)
    if (has_suffix(name, args->suffixes[i])) return true;
  return args->n_suffixes == 0;
}

/* A folder, and those that contain it. */
typedef struct folder {
  const struct folder *up;
  dev_t device;
  ino_t number;
  const char *path;
  const char *below; /* the path below the packed folder */
} folder;

typedef struct walk {
  examples *e;
  const arguments *args;
  text *why;
} walk;

static bool walk_folder(walk *w, folder *f);

/* A link may lead back to a folder that contains it. */
static bool check_circle(walk *w, const folder *f) {
  for (const folder *up = f->up; up; up = up->up)
    if (up->device == f->device && up->number == f->number)
      return report_failure(w->why,
                            "%s: is a link to %s, which contains it; remove "
                            "the link",
                            f->path, up->path);
  return true;
}

static bool fail_path(text *why, const char *path) {
  return report_failure(why, "%s: %s", path, strerror(errno));
}

static bool add_file(walk *w, const char *path, const folder *f,
                     bool *is_class) {
  examples *e = w->e;
  if (!*is_class && !add_class(e, f->below, w->why)) return false;
  *is_class = true;
  if (!add_example(e, path, e->n, w->why)) return false;
  e->list[e->n - 1].n_labels = 1;
  e->classes[e->n_classes - 1].n++;
  return add_label(e, (float)(e->n_classes - 1), w->why);
}

/* One name of a folder, which has files before folders. */
typedef struct entry {
  const char *path;
  const char *name;
  struct stat state;
} entry;

static bool take_file(walk *w, const entry *each, const folder *f,
                      bool *is_class) {
  if (S_ISDIR(each->state.st_mode)) return true;
  if (!examples_select(each->name, w->args)) return true;
  if (S_ISREG(each->state.st_mode)) return add_file(w, each->path, f, is_class);
  return report_failure(w->why,
                        "%s: is neither a file nor a folder; remove it, or "
                        "select the files with --suffix",
                        each->path);
}

static bool take_folder(walk *w, const entry *each, const folder *f) {
  if (!S_ISDIR(each->state.st_mode)) return true;
  text below = {0};
  if (strcmp(f->below, ".") != 0) text_add(&below, "%s/", f->below);
  text_add(&below, "%s", each->name);
  folder inner = {.up = f,
                  .device = each->state.st_dev,
                  .number = each->state.st_ino,
                  .path = each->path,
                  .below = text_get(&below)};
  const bool ok = below.failed ? fail_memory(w->why) : walk_folder(w, &inner);
  text_deinit(&below);
  return ok;
}

/* Does the files first, then the folders. */
static bool take_entries(walk *w, folder *f, struct dirent *const *names,
                         int n) {
  bool ok = true, is_class = false;
  for (int i = 0; ok && i < 2 * n; ++i) {
    entry each = {.name = names[i % n]->d_name};
    text path = {0};
    text_add(&path, "%s/%s", f->path, each.name);
    each.path = text_get(&path);
    if (path.failed)
      ok = fail_memory(w->why);
    else if (stat(each.path, &each.state) == 0)
      ok = i < n ? take_file(w, &each, f, &is_class) : take_folder(w, &each, f);
    else if (examples_select(each.name, w->args))
      ok = fail_path(w->why, each.path);
    text_deinit(&path);
  }
  return ok;
}

static int is_shown(const struct dirent *name) {
  return name->d_name[0] != '.';
}

/* By bytes, in every language. */
static int compare_names(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static bool walk_folder(walk *w, folder *f) {
  struct dirent **names = NULL;
  if (!check_circle(w, f)) return false;
  const int n = scandir(f->path, &names, is_shown, compare_names);
  if (n < 0) return fail_path(w->why, f->path);
  const bool ok = n == 0 || take_entries(w, f, names, n);
  for (int i = 0; i < n; ++i) free(names[i]);
  free(names);
  return ok;
}

bool examples_find(examples *e, const char *path, const arguments *args,
                   text *why) {
  struct stat state;
  walk w = {e, args, why};
  if (stat(path, &state) != 0) return fail_path(why, path);
  if (!S_ISDIR(state.st_mode))
    return report_failure(why,
                          "%s: is no folder; pack the folder with the files, "
                          "or name a list with --list",
                          path);
  folder f = {.device = state.st_dev,
              .number = state.st_ino,
              .path = path,
              .below = "."};
  return walk_folder(&w, &f);
}

/* --------------------------------------------------------------- their list */

/* A line of a list. */
typedef struct line {
  examples *e;
  const char *folder;
  const char *list; /* the name of the file */
  uint64_t number;  /* from 1 on */
  text *why;
} line;

static bool fail_line(const line *l, const char *reason) {
  return report_failure(l->why,
                        "%s, line %llu: %s; a line is `LABEL PATH`, or has an "
                        "index, labels and a "
                        "path with tabs between them",
                        l->list, (unsigned long long)l->number, reason);
}

static char *trim_blanks(char *word) {
  while (*word == ' ') ++word;
  size_t n = strlen(word);
  while (n > 0 && word[n - 1] == ' ') word[--n] = '\0';
  return word;
}

/* Cuts the text at the first `c`, and returns the text after it, or NULL. */
static char *cut_at(char *words, char c) {
  char *end = strchr(words, c);
  if (end) *end++ = '\0';
  return end;
}

static bool parse_label(const line *l, char *word) {
  float label = 0;
  text reason = {0};
  if (element_parse(TN_F32, trim_blanks(word), &label, &reason)) {
    text_deinit(&reason);
    return add_label(l->e, label, l->why);
  }
  fail_line(l, text_get(&reason));
  text_deinit(&reason);
  return false;
}

static bool parse_index(const line *l, char *word, uint64_t *out) {
  char *end = NULL;
  word = trim_blanks(word);
  errno = 0;
  *out = strtoull(word, &end, 10);
  if (isdigit((unsigned char)*word) && !*end && !errno) return true;
  return fail_line(l, "the index is not a number from 0 to 2^64-1");
}

/* Relative paths begin in the packed folder. */
static bool add_path(const line *l, char *word, uint64_t id) {
  text path = {0};
  struct stat state;
  word = trim_blanks(word);
  if (!*word) return fail_line(l, "the path is missing");
  if (*word != '/') text_add(&path, "%s/", l->folder);
  text_add(&path, "%s", word);
  bool ok = !path.failed || fail_memory(l->why);
  const bool exists = ok && stat(path.data, &state) == 0;
  if (ok && (!exists || S_ISDIR(state.st_mode)))
    ok = report_failure(
        l->why, "%s, line %llu: %s: %s; correct the path, or the folder",
        l->list, (unsigned long long)l->number, path.data,
        exists ? "is a folder" : strerror(errno));
  ok = ok && add_example(l->e, path.data, id, l->why);
  text_deinit(&path);
  return ok;
}

/* `words`: fields with tabs between them. */
static bool parse_fields(const line *l, char *words, uint64_t id) {
  const size_t first = l->e->n_labels;
  char *next = cut_at(words, '\t');
  if (strchr(next, '\t')) {
    if (!parse_index(l, words, &id)) return false;
    words = next;
    next = cut_at(words, '\t');
  }
  for (; next; words = next, next = cut_at(words, '\t'))
    if (!parse_label(l, words)) return false;
  if (!add_path(l, words, id)) return false;
  example *added = &l->e->list[l->e->n - 1];
  added->first_label = first;
  added->n_labels = l->e->n_labels - first;
  return true;
}

static bool parse_line(const line *l, char *words) {
  const uint64_t id = l->e->n;
  words = trim_blanks(words);
  if (!*words) return true;
  char *blank = strchr(words, ' ');
  if (!strchr(words, '\t') && !blank)
    return fail_line(l, "the path is missing");
  if (!strchr(words, '\t')) *blank = '\t';
  return parse_fields(l, words, id);
}

bool examples_read(examples *e, const char *path, const arguments *args,
                   text *why) {
  text all = {0};
  line l = {e, path, args->list, 0, why};
  bool ok = scratch_read(args->list, &all, why);
  if (ok && (all.failed || (all.n && memchr(all.data, '\0', all.n))))
    ok = report_failure(
        why, "%s: %s", args->list,
        all.failed ? "out of memory" : "is no text; name a list of files");
  for (char *at = all.data, *next; ok && at; at = next) {
    next = cut_at(at, '\n');
    char *end = strchr(at, '\r');
    if (end && !end[1]) *end = '\0';
    ++l.number;
    ok = parse_line(&l, at);
  }
  text_deinit(&all);
  return ok;
}
