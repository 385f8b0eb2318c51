/* SPDX-License-Identifier: Apache-2.0
 * profile.c: records the spans of a run for --trace and --profile, and adds
 * their times up per operator.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tenon_tool.h"

bool recording_start(recording *r, const arguments *args, tn_runtime *rt,
                     text *why) {
  *r = (recording){.rt = rt,
                   .path = args->trace,
                   .profiles = (args->given & OPTION_PROFILE) != 0};
  if (!r->path && !r->profiles) return true;
  if (!r->path) r->path = r->scratch = scratch_create(".json", why);
  if (!r->path) return false;
  return !tn_trace_start(rt) || fail_library(why);
}

void recording_deinit(recording *r) {
  for (size_t i = 0; i < r->n; ++i) free(r->rows[i].name);
  free(r->rows);
  scratch_remove(r->scratch);
  *r = (recording){0};
}

/* --------------------------------------------------------------------- sums */

static bool add_time(recording *r, const char *name, double us) {
  for (size_t i = 0; i < r->n; ++i)
    if (!strcmp(r->rows[i].name, name)) {
      r->rows[i].calls++;
      r->rows[i].us += us;
      return true;
    }
  profile_row *rows =
      (profile_row *)realloc(r->rows, (r->n + 1) * sizeof *rows);
  if (!rows) return false;
  r->rows = rows;
  rows[r->n] = (profile_row){strdup(name), 1, us};
  return rows[r->n].name && ++r->n;
}

/* Text after `key` in a line, or NULL. */
static char *value_of(char *line, const char *key) {
  char *at = strstr(line, key);
  return at ? at + strlen(key) : NULL;
}

/* When a span ran, and on which thread. */
typedef struct interval {
  long thread;
  double begin;
  double end;
} interval;

/* The span of a run is in the file after those of its steps, and has their time
 * in it. */
static bool contains_interval(const interval *outer, const interval *inner) {
  return outer->thread == inner->thread && outer->begin <= inner->begin &&
         outer->end >= inner->end;
}

/* One line of the file: a span has a name without escapes, and times. */
static bool add_line(recording *r, char *line, interval *last,
                     span_name_fn *name_of, void *ctx) {
  char *name = value_of(line, "{\"name\":\"");
  const char *thread = value_of(line, "\"tid\":");
  const char *begin = value_of(line, "\"ts\":");
  const char *duration = value_of(line, "\"dur\":");
  if (!name || !thread || !begin || !duration) return true;
  const double us = strtod(duration, NULL);
  interval now = {.thread = strtol(thread, NULL, 10),
                  .begin = strtod(begin, NULL)};
  now.end = now.begin + us;
  name[strcspn(name, "\"")] = '\0';
  text operator_name = {0};
  if (!contains_interval(&now, last)) name_of(ctx, name, &operator_name);
  if (operator_name.n) *last = now;
  const bool ok = !operator_name.n || add_time(r, text_get(&operator_name), us);
  text_deinit(&operator_name);
  return ok;
}

static int by_time(const void *a, const void *b) {
  const profile_row *x = (const profile_row *)a;
  const profile_row *y = (const profile_row *)b;
  return x->us < y->us ? 1 : x->us > y->us ? -1 : strcmp(x->name, y->name);
}

static bool add_file(recording *r, span_name_fn *name_of, void *ctx,
                     text *why) {
  text spans = {0};
  interval last = {.thread = -1}; /* that was counted */
  bool ok = scratch_read(r->path, &spans, why);
  for (char *line = spans.data, *next; ok && line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    ok = add_line(r, line, &last, name_of, ctx) ||
         report_failure(why, "out of memory");
  }
  text_deinit(&spans);
  if (r->n > 1) qsort(r->rows, r->n, sizeof *r->rows, by_time);
  return ok;
}

bool recording_end(recording *r, span_name_fn *name_of, void *ctx, text *why) {
  if (!r->path) return true;
  if (tn_trace_write(r->rt, r->path)) return fail_library(why);
  return !r->profiles || add_file(r, name_of, ctx, why);
}

/* ----------------------------------------------------------------- printing */

static void add_duration(table *rows, double us) {
  if (us < 1000)
    table_add(rows, "%.1f us", us);
  else if (us < 1e6)
    table_add(rows, "%.2f ms", us / 1e3);
  else
    table_add(rows, "%.2f s", us / 1e6);
}

void profile_print(const recording *r, text *out) {
  table rows = {.n_columns = 4};
  static const char *const heads[] = {"OPERATOR", "CALLS", "TIME", "SHARE"};
  double all = 0;
  uint64_t calls = 0;
  if (!r->profiles) return;
  for (size_t i = 0; i < 4; ++i) table_add(&rows, "%s", heads[i]);
  for (size_t i = 0; i < r->n; ++i) {
    all += r->rows[i].us;
    calls += r->rows[i].calls;
  }
  for (size_t i = 0; i < r->n; ++i) {
    table_add(&rows, "%s", r->rows[i].name);
    table_add(&rows, "%" PRIu64, r->rows[i].calls);
    add_duration(&rows, r->rows[i].us);
    table_add(&rows, "%.0f %%", all > 0 ? r->rows[i].us / all * 100 : 0);
  }
  table_add(&rows, "total");
  table_add(&rows, "%" PRIu64, calls);
  add_duration(&rows, all);
  table_add(&rows, "%s", "");
  text_add(out, "%s", out->n ? "\n" : "");
  table_print(&rows, "", out);
}

void profile_print_json(const recording *r, text *out) {
  if (!r->profiles) return;
  text_add(out, ", \"profile\": [");
  for (size_t i = 0; i < r->n; ++i) {
    text_add(out, "%s{\"operator\": ", i ? ", " : "");
    text_add_json(out, r->rows[i].name);
    text_add(out, ", \"calls\": %" PRIu64 ", \"microseconds\": %.3f}",
             r->rows[i].calls, r->rows[i].us);
  }
  text_add(out, "]");
}
