/* SPDX-License-Identifier: Apache-2.0
 * trial.c: runs the child that computes examples, and reads its records. After
 * an example that ended the child, it starts another one.
 */
#include "trial.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "built.h"
#include "child.h"
#include "trial_child.h"

/* Most bytes of records from one child. */
enum { MOST_RECORDS = 64 << 20 };

/* The state of the reader. */
typedef struct listener {
  trials *t;
  const tnm_plugin *plugin; /* NULL: the plugin is only loaded */
  const trial_files *files;
  trial *at;     /* the example that began */
  bool ended;    /* and ended */
  bool stopped;  /* or was stopped after a finding */
  char call[80]; /* the last that began: "forward"; "" before the first */
  size_t n_done; /* examples that ended, or were skipped */
} listener;

/* ------------------------------------------------------------------ records */

static const char *keep_text(trials *t, const char *text) {
  const char *kept = tn__arena_text(&t->arena, text, strlen(text));
  return kept != NULL ? kept : "out of memory";
}

static void read_begin(listener *l, const char *text) {
  char *end = NULL;
  const size_t op = strtoul(text, &end, 10);
  const size_t example = strtoul(end, NULL, 10);
  if (l->plugin == NULL || op >= l->plugin->n_operators ||
      example >= l->plugin->operators[op].n_examples)
    return;
  l->at = &l->t->v[op][example];
  l->ended = false;
  l->call[0] = '\0';
}

/* Reads the rank and the dimensions; false if they are no shape, or one of more
 * than `most` elements. */
static bool read_shape(trial_value *value, char **at, size_t most) {
  const long ndim = strtol(*at, at, 10);
  value->n = 1;
  if (ndim < 0 || ndim > TN_MAX_NDIM) return false;
  value->ndim = (int32_t)ndim;
  for (int32_t i = 0; i < value->ndim; ++i) {
    value->shape[i] = strtoll(*at, at, 10);
    if (value->shape[i] < 0 ||
        !tn__mul(value->n, (size_t)value->shape[i], &value->n))
      return false;
  }
  return value->n <= most;
}

/* Reads "o NAME TYPE RANK DIMENSIONS VALUES"; the text of a value has two bytes
 * at least. */
static void read_value(listener *l, const tn__child_record *record) {
  trial_value *value = tn__arena_alloc(&l->t->arena, sizeof *value);
  const char *name = record->text + (record->n > 2 ? 2 : record->n);
  const size_t length = strcspn(name, " ");
  size_t bytes = 0;
  char *at = NULL;
  if (value == NULL || l->at == NULL) return;
  value->grad = record->text[0] == 'g';
  value->name = tn__arena_text(&l->t->arena, name, length);
  value->dtype = (tn_dtype)strtoul(name + length, &at, 10);
  if (!read_shape(value, &at, record->n / 2) ||
      !tn__mul(value->n + 1, sizeof(double), &bytes))
    return;
  value->v = tn__arena_alloc(&l->t->arena, bytes);
  if (value->v == NULL || value->name == NULL) return;
  for (size_t i = 0; i < value->n; ++i) value->v[i] = strtod(at, &at);
  trial_value **tail = &l->at->values;
  for (; *tail != NULL; tail = &(*tail)->next)
    if ((*tail)->grad == value->grad && strcmp((*tail)->name, value->name) == 0)
      ++value->number;
  *tail = value;
}

/* Marks all examples without a result as failed: a failure before the first
 * example concerns all of them. */
static void fail_all(listener *l, const char *text) {
  l->t->refused = text;
  for (size_t i = 0; l->plugin != NULL && i < l->plugin->n_operators; ++i)
    for (size_t k = 0; k < l->plugin->operators[i].n_examples; ++k)
      if (!l->t->v[i][k].ended) l->t->v[i][k].error = text;
}

static void read_failure(listener *l, const char *text) {
  if (l->at != NULL)
    l->at->error = keep_text(l->t, text);
  else
    fail_all(l, keep_text(l->t, text));
}

/* Adds a finding; `code` must be constant. */
static void add_finding(listener *l, const char *code, const char *text) {
  trial_finding *finding = tn__arena_alloc(&l->t->arena, sizeof *finding);
  trial_finding **tail = l->at != NULL ? &l->at->findings : &l->t->findings;
  if (finding == NULL) return;
  *finding = (trial_finding){.code = code, .text = keep_text(l->t, text)};
  while (*tail != NULL) tail = &(*tail)->next;
  *tail = finding;
}

/* Reads "CODE TEXT". */
static void read_finding(listener *l, const char *text) {
  const size_t n = strcspn(text, " ");
  const char *code = NULL;
  for (size_t i = 0; (code = tnm_code_at(i)) != NULL; ++i) {
    if (strlen(code) != n || memcmp(code, text, n) != 0) continue;
    add_finding(l, code, text + n + (text[n] == ' '));
    return;
  }
}

/* Reads "LEVEL LINE", or "0 LINE" for a line with its own prefix. */
static void read_log(const char *text) {
  char *at = NULL;
  const long level = strtol(text, &at, 10);
  at += *at == ' ';
  if (level == 0)
    fprintf(stderr, "%s\n", at);
  else if (level <= TN_LOG_WARNING)
    tn__log_stderr(NULL, (int32_t)level, at);
}

static void read_record(void *ctx, const tn__child_record *record) {
  listener *l = ctx;
  switch (record->kind) {
    case TRIAL_BEGIN:
      read_begin(l, record->text);
      break;
    case TRIAL_VALUE:
      read_value(l, record);
      break;
    case TRIAL_FAILURE:
      read_failure(l, record->text);
      break;
    case TRIAL_FINDING:
      read_finding(l, record->text);
      break;
    case TRIAL_LOG:
      read_log(record->text);
      break;
    case TRIAL_CALL:
      (void)snprintf(l->call, sizeof l->call, "%s", record->text);
      break;
    case TRIAL_STOP:
      l->stopped = true;
      break;
    default:
      l->ended = true;
      if (l->at != NULL) l->at->ended = true;
      ++l->n_done;
  }
}

/* ------------------------------------------------------------------ the end */

static int64_t seconds_of(const trial_files *files) {
  return files->seconds > 0 ? files->seconds : TRIAL_SECONDS;
}

/* Describes the end of a child that did not finish. */
static const char *end_text(const listener *l, const tn__child_end *end) {
  char text[160], whole[256];
  const int64_t seconds = seconds_of(l->files);
  if (end->late)
    (void)snprintf(text, sizeof text,
                   "it did not end within %" PRId64 " second%s", seconds,
                   seconds == 1 ? "" : "s");
  else if (end->flooded)
    (void)snprintf(text, sizeof text,
                   "it wrote more than %d MiB to a file of "
                   "opgen",
                   MOST_RECORDS >> 20);
  else if (end->foreign)
    (void)snprintf(text, sizeof text, "it wrote to a file of opgen");
  else if (end->signal != 0)
    (void)snprintf(text, sizeof text, "it ended the process: %s",
                   strsignal(end->signal));
  else if (end->status == TN__CHILD_LEFT)
    (void)snprintf(text, sizeof text, "it ended the process and left another");
  else
    (void)snprintf(text, sizeof text, "it ended the process with status %d",
                   end->status);
  (void)snprintf(whole, sizeof whole, "%s (%s)", text, l->call);
  return keep_text(l->t, l->at != NULL && l->call[0] != '\0' ? whole : text);
}

static void run_body(void *ctx, tn__answer *answer) {
  const listener *l = ctx;
  if (l->plugin == NULL)
    trial_child_load(l->files, answer);
  else
    trial_child(l->plugin, l->files, l->n_done, answer);
}

/* Runs one child, for the remaining examples. */
static bool run_child(listener *l, tn__child_end *end) {
  const tn__child child = {.env = tn__env_default(),
                           .body = run_body,
                           .take = read_record,
                           .ctx = l,
                           .milliseconds = 1000 * seconds_of(l->files),
                           .most_bytes = MOST_RECORDS};
  l->at = NULL;
  l->stopped = false;
  l->call[0] = '\0';
  if (tn__child_run(&child, end) != TN_OK) return false;
  if (end->complete && end->status == TN__CHILD_LEFT) {
    l->at = NULL;
    add_finding(l, "E0208", "it leaves processes, which opgen has ended");
  }
  return true;
}

static size_t count_examples(const tnm_plugin *plugin) {
  size_t n = 0;
  for (size_t i = 0; i < plugin->n_operators; ++i)
    n += plugin->operators[i].n_examples;
  return n;
}

/* Assigns the unexpected end of a child to the example that had begun, to all,
 * or to the plugin. */
static void blame_end(listener *l, const tn__child_end *end) {
  if (l->at != NULL && !l->ended) {
    if (!l->stopped) l->at->error = end_text(l, end);
    l->at->ended = true;
    ++l->n_done;
  } else if (l->at == NULL) {
    l->t->died = true;
    fail_all(l, end_text(l, end));
  } else {
    char text[200];
    l->at = NULL;
    (void)snprintf(text, sizeof text, "after its examples, %s",
                   end_text(l, end));
    add_finding(l, "E0080", text);
  }
}

/* False after the attempt failed. After a crash the next child continues with
 * the next example. At least one child loads the plugin. */
static bool run_children(listener *l) {
  const size_t n = count_examples(l->plugin);
  do {
    tn__child_end end;
    const size_t before = l->n_done;
    if (!run_child(l, &end)) return false;
    if (!end.complete) blame_end(l, &end);
    if (end.complete && l->n_done < n && l->t->refused == NULL)
      fail_all(l, "its examples were not computed");
    if (l->n_done == before) return true;
  } while (l->n_done < n && l->t->refused == NULL);
  return true;
}

/* ------------------------------------------------------------- the examples */

static bool make_places(trials *t, const tnm_plugin *plugin) {
  t->v = tn__arena_alloc(&t->arena, (plugin->n_operators + 1) * sizeof *t->v);
  for (size_t i = 0; t->v != NULL && i < plugin->n_operators; ++i)
    t->v[i] = tn__arena_alloc(
        &t->arena, (plugin->operators[i].n_examples + 1) * sizeof **t->v);
  return !t->arena.failed;
}

/* The manifests of a plugin of bindings, which is loaded without compilation.
 * NULL if they have mistakes; loading reports those. */
static tnm_plugin *read_bound(const char *path) {
  const tnm_read_options options = {.lone = true};
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  tnm_plugin *plugin =
      diags == NULL ? NULL
                    : tnm_plugin_read(tn__env_default(), path, &options, diags);
  tnm_diags_release(diags);
  return plugin;
}

/* Refuses manifests of another plugin: their examples would be reported as
 * those of this plugin. The child refuses a file without a note, with the
 * reason. */
static void refuse_other(listener *l) {
  const tn_plugin *tables = NULL;
  const char *path = l->files->path, *end = strrchr(path, '.');
  tnm_plugin *bound = NULL;
  tn__buf text;
  if (end != NULL && strcmp(end, ".yaml") == 0)
    bound = read_bound(path);
  else if (tnm_read_note(&l->t->arena, path, &tables) != TN_OK)
    return;
  if (bound != NULL) tables = bound->plugin;
  tn__buf_init(&text, tn__env_default());
  if (tables != NULL) built_compare(l->plugin->plugin, tables, &text);
  if (text.n > 0 || text.failed)
    fail_all(l, keep_text(l->t, text.failed ? "out of memory" : text.s));
  tn__buf_deinit(&text);
  tnm_plugin_release(bound);
}

/* False, after a message, if the attempt failed. */
static bool report_attempt(const trials *t, bool fine) {
  if (fine && !t->arena.failed) return true;
  fprintf(stderr, "opgen: cannot run the plugin: %s\n",
          t->arena.failed ? "out of memory" : tn_error_text());
  return false;
}

bool trials_init(trials *t, const tnm_plugin *plugin,
                 const trial_files *files) {
  *t = (trials){0};
  tn__arena_init(&t->arena, tn__env_default());
  listener l = {.t = t, .plugin = plugin, .files = files};
  if (make_places(t, plugin)) refuse_other(&l);
  if (t->refused != NULL && !t->arena.failed) return true;
  return report_attempt(t, !t->arena.failed && run_children(&l));
}

bool trials_load(trials *t, const trial_files *files) {
  tn__child_end end;
  *t = (trials){0};
  tn__arena_init(&t->arena, tn__env_default());
  listener l = {.t = t, .files = files};
  const bool fine = run_child(&l, &end);
  if (fine && !end.complete) blame_end(&l, &end);
  return report_attempt(t, fine);
}

void trials_deinit(trials *t) {
  tn__arena_deinit(&t->arena);
}
