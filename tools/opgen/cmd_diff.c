/* SPDX-License-Identifier: Apache-2.0
 * cmd_diff.c: `opgen diff`: prints the rows of a comparison, in the order of
 * NEW, and their verdict.
 */
#include <stdarg.h>
#include <string.h>

#include "diff.h"

static const char *const kinds[] = {"ok",     "note", "doc",
                                    "source", "abi",  "model"};

static char *format_text(diff *d, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, format, args);
  char *text = n < 0 ? NULL : tn__arena_alloc(d->arena, (size_t)n + 1);
  if (text != NULL) (void)vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}

static const char *place_text(const diff *d, const char *const *path) {
  if (path == NULL || d->written == NULL) return NULL;
  const tnm_pos pos = tnm_find_place(d->written, path);
  const size_t n = strlen(d->written->file) + 24;
  char *text = tn__arena_alloc(d->arena, n);
  if (text != NULL)
    (void)snprintf(text, n, "%s:%u:%u", d->written->file, pos.line, pos.column);
  return text;
}

void diff_add(diff *d, int kind, const char *const *path, const char *format,
              ...) {
  diff_row *row = tn__arena_alloc(d->arena, sizeof *row);
  va_list args;
  if (row == NULL) return;
  va_start(args, format);
  *row = (diff_row){.op = d->name,
                    .kind = d->excused && kind > DIFF_DOC ? DIFF_OK : kind,
                    .text = format_text(d, format, args),
                    .place = place_text(d, path)};
  va_end(args);
  if (tn__vec_push(tn__env_default(), &d->rows, row) != TN_OK)
    d->arena->failed = true;
}

/* ----------------------------------------------------------------- printing */

/* Rows with a position are in columns; longer texts than this do not widen
 * them. */
enum { MAX_TEXT = 64 };

static int longest_text(const diff *d, bool op) {
  size_t most = 0;
  for (size_t i = 0; i < d->rows.n; ++i) {
    const diff_row *row = d->rows.v[i];
    const size_t n = strlen(op ? row->op : row->text);
    if (n > most && (op || n <= MAX_TEXT)) most = n;
  }
  return (int)most;
}

static void print_rows(const diff *d) {
  const int ops = longest_text(d, true), texts = longest_text(d, false);
  for (size_t i = 0; i < d->rows.n; ++i) {
    const diff_row *row = d->rows.v[i];
    printf("%-*s  %-6s  ", ops, row->op, kinds[row->kind]);
    if (row->place != NULL)
      printf("%-*s  %s\n", texts, row->text, row->place);
    else
      printf("%s\n", row->text);
  }
}

/* A change of interface adds a new operator to the old one, so it is minor;
 * additions and corrections are minor too. */
static int print_verdict(const diff *d) {
  int worst = -1, status = EXIT_FINE;
  for (size_t i = 0; i < d->rows.n; ++i) {
    const int kind = ((const diff_row *)d->rows.v[i])->kind;
    if (kind > worst) worst = kind;
    if (kind == DIFF_OK || kind == DIFF_NOTE) status = EXIT_MINOR;
  }
  if (worst >= DIFF_SOURCE) status = EXIT_MAJOR;
  printf("verdict: %s\n", status == EXIT_MAJOR   ? "major"
                          : status == EXIT_MINOR ? "minor"
                          : worst == DIFF_DOC    ? "compatible"
                                                 : "no change");
  return status;
}

static int compare_sides(const diff_side *old, const diff_side *new) {
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  diff d = {.arena = &arena, .old = old, .new = new};
  int status = EXIT_ERRORS;
  diff_operators(&d);
  if (!arena.failed) {
    print_rows(&d);
    status = print_verdict(&d);
  } else {
    fprintf(stderr, "opgen: out of memory\n");
  }
  tn__vec_deinit(tn__env_default(), &d.rows);
  tn__arena_deinit(&arena);
  return status;
}

int cmd_diff(const opgen_args *args) {
  diff_side old, new;
  int status = EXIT_ERRORS;
  bool fine = diff_side_init(&old, args, args->files[0]);
  fine = diff_side_init(&new, args, args->files[1]) && fine;
  if (fine && old.manifests != NULL && new.manifests != NULL)
    fine = diff_side_add_companion(&old) && diff_side_add_companion(&new);
  if (fine) status = compare_sides(&old, &new);
  diff_side_deinit(&old);
  diff_side_deinit(&new);
  return status;
}
