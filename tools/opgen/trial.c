/* SPDX-License-Identifier: Apache-2.0
 * trial.c: runs the child that computes examples, reads its lines, and starts
 * another one behind an example that killed it.
 */
#include "trial.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "built.h"
#include "examples.h"
#include "trial_child.h"

/* Seconds that one child may take. */
enum { PATIENCE = 60 };

/* What is being read. */
typedef struct listener {
  trials *t;
  const tnm_plugin *plugin;
  const trial_files *files;
  trial *at;     /* the example that began */
  bool ended;    /* and ended */
  size_t n_done; /* examples that ended, or were given up */
} listener;

/* ------------------------------------------------------------------ the child
 */

static void be_child(const tnm_plugin *plugin, const trial_files *files,
                     size_t first, int fd) {
  const struct rlimit none = {0, 0};
  FILE *to = fdopen(fd, "w");
  (void)setrlimit(RLIMIT_CORE, &none);
  (void)alarm(PATIENCE);
  if (to != NULL) trial_child(plugin, files, first, to);
  if (to != NULL) (void)fclose(to);
  _exit(to != NULL ? 0 : 1);
}

static bool read_all(int fd, tn__buf *out) {
  char chunk[4096];
  for (;;) {
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0) tn__buf_bytes(out, chunk, (size_t)n);
    if (n == 0) return !out->failed;
    if (n < 0 && errno != EINTR) return false;
  }
}

/* What a child says of the examples that are left, and how it ended. */
static bool ask(const listener *l, tn__buf *said, int *status) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    (void)close(ends[0]);
    be_child(l->plugin, l->files, l->n_done, ends[1]);
  }
  (void)close(ends[1]);
  bool fine = pid > 0 && read_all(ends[0], said);
  (void)close(ends[0]);
  while (pid > 0 && waitpid(pid, status, 0) < 0)
    if (errno != EINTR) fine = false;
  return fine;
}

/* ------------------------------------------------------------------ its lines
 */

static const char *keep(trials *t, const char *text) {
  const char *kept = tn__arena_text(&t->arena, text, strlen(text));
  return kept != NULL ? kept : "out of memory";
}

static void take_begin(listener *l, char *line) {
  char *end = NULL;
  const size_t op = strtoul(line, &end, 10);
  const size_t example = strtoul(end, NULL, 10);
  if (op >= l->plugin->n_operators ||
      example >= l->plugin->operators[op].n_examples)
    return;
  l->at = &l->t->v[op][example];
  l->ended = false;
}

static size_t read_shape(trial_value *value, char **at) {
  size_t n = 1;
  value->ndim = (int32_t)strtol(*at, at, 10);
  if (value->ndim < 0 || value->ndim > TN_MAX_NDIM) value->ndim = 0;
  for (int32_t i = 0; i < value->ndim; ++i) {
    value->shape[i] = strtoll(*at, at, 10);
    n *= (size_t)value->shape[i];
  }
  return n;
}

static void take_value(listener *l, char *line) {
  trial_value *value = tn__arena_alloc(&l->t->arena, sizeof *value);
  char *name = line + 2;
  const size_t length = strcspn(name, " ");
  if (value == NULL || l->at == NULL) return;
  char *at = name + length;
  value->grad = line[0] == 'g';
  value->name = tn__arena_text(&l->t->arena, name, length);
  value->dtype = (tn_dtype)strtoul(at, &at, 10);
  value->n = read_shape(value, &at);
  value->v = tn__arena_alloc(&l->t->arena, (value->n + 1) * sizeof(double));
  if (value->v == NULL || value->name == NULL) return;
  for (size_t i = 0; i < value->n; ++i) value->v[i] = strtod(at, &at);
  trial_value **tail = &l->at->values;
  for (; *tail != NULL; tail = &(*tail)->next)
    if ((*tail)->grad == value->grad && strcmp((*tail)->name, value->name) == 0)
      ++value->number;
  *tail = value;
}

/* A failure before the first example is one of all of them. */
static void fail_all(listener *l, const char *text) {
  l->t->refused = text;
  for (size_t i = 0; i < l->plugin->n_operators; ++i)
    for (size_t k = 0; k < l->plugin->operators[i].n_examples; ++k)
      l->t->v[i][k].error = text;
}

static void take_line(listener *l, char *line) {
  if (line[0] == 'B') take_begin(l, line + 1);
  if (line[0] == 'V') take_value(l, line + 2);
  if (line[0] == 'F' && l->at != NULL) l->at->error = keep(l->t, line + 2);
  if (line[0] == 'F' && l->at == NULL) fail_all(l, keep(l->t, line + 2));
  if (line[0] != 'E') return;
  l->ended = true;
  ++l->n_done;
}

static void take_lines(listener *l, char *text) {
  while (text != NULL && *text != '\0') {
    char *eol = strchr(text, '\n');
    if (eol == NULL) return;
    *eol = '\0';
    take_line(l, text);
    text = eol + 1;
  }
}

/* -------------------------------------------------------------------- the end
 */

static const char *end_text(trials *t, int status) {
  char text[128];
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    (void)snprintf(text, sizeof text, "it did not end within %d seconds",
                   PATIENCE);
  else if (WIFSIGNALED(status))
    (void)snprintf(text, sizeof text, "it ended the process: %s",
                   strsignal(WTERMSIG(status)));
  else
    (void)snprintf(text, sizeof text, "it ended the process with status %d",
                   WEXITSTATUS(status));
  return keep(t, text);
}

static size_t count(const tnm_plugin *plugin) {
  size_t n = 0;
  for (size_t i = 0; i < plugin->n_operators; ++i)
    n += plugin->operators[i].n_examples;
  return n;
}

/* False once the attempt failed. After a crash the next child goes on with what
 * follows. One at least loads the plugin, whatever there is to compute. */
static bool run_children(listener *l) {
  const size_t n = count(l->plugin);
  do {
    int status = 0;
    tn__buf said;
    tn__buf_init(&said, tn__env_default());
    l->at = NULL;
    const size_t before = l->n_done;
    const bool fine = ask(l, &said, &status);
    if (fine) take_lines(l, said.s);
    tn__buf_deinit(&said);
    if (!fine) return false;
    if (l->at != NULL && !l->ended) {
      l->at->error = end_text(l->t, status);
      ++l->n_done;
    }
    if (l->n_done == before) {
      if (status != 0) fail_all(l, end_text(l->t, status));
      return true;
    }
  } while (l->n_done < n);
  return true;
}

static bool make_places(trials *t, const tnm_plugin *plugin) {
  t->v = tn__arena_alloc(&t->arena, (plugin->n_operators + 1) * sizeof *t->v);
  for (size_t i = 0; t->v != NULL && i < plugin->n_operators; ++i)
    t->v[i] = tn__arena_alloc(
        &t->arena, (plugin->operators[i].n_examples + 1) * sizeof **t->v);
  return !t->arena.failed;
}

/* The manifests of a plugin of bindings, which is loaded as it stands; NULL if
 * they have mistakes, which loading them says. */
static tnm_plugin *read_bound(const char *path) {
  const tnm_read_options options = {.lone = true};
  tnm_diags *diags = tnm_diags_create(tn__env_default());
  tnm_plugin *plugin =
      diags == NULL ? NULL
                    : tnm_plugin_read(tn__env_default(), path, &options, diags);
  tnm_diags_release(diags);
  return plugin;
}

/* Examples of other manifests would be told as this plugin's. What has no note
 * is refused by the child, which says why. */
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
    fail_all(l, keep(l->t, text.failed ? "out of memory" : text.s));
  tn__buf_deinit(&text);
  tnm_plugin_release(bound);
}

bool trials_init(trials *t, const tnm_plugin *plugin,
                 const trial_files *files) {
  *t = (trials){0};
  tn__arena_init(&t->arena, tn__env_default());
  listener l = {.t = t, .plugin = plugin, .files = files};
  if (make_places(t, plugin)) refuse_other(&l);
  if (t->refused != NULL && !t->arena.failed) return true;
  if (!t->arena.failed && run_children(&l) && !t->arena.failed) return true;
  fprintf(stderr, "opgen: cannot run the examples: %s\n",
          t->arena.failed ? "out of memory" : strerror(errno));
  return false;
}

void trials_deinit(trials *t) {
  tn__arena_deinit(&t->arena);
}

/* ------------------------------------------------------------------ the values
 */

static double tolerance(const tnm_example *example, tn_dtype dtype) {
  if (example->tol > 0) return example->tol;
  if (dtype == TN_F64) return 1e-9;
  if (dtype == TN_F32) return 1e-5;
  return dtype == TN_F16 || dtype == TN_BF16 ? 1e-2 : 0;
}

static const tnm_data *stated(const tnm_example *example,
                              const trial_value *value) {
  const tnm_example_item *items = value->grad ? example->grads : example->items;
  const size_t n = value->grad ? example->n_grads : example->n_items;
  return example_find(items, n, value->name, value->number);
}

double trial_distance(const tnm_example *example, const trial_value *value) {
  const tnm_data *data = stated(example, value);
  double most = 0;
  if (data == NULL || data->n != value->n) return INFINITY;
  for (size_t i = 0; i < value->n; ++i) {
    const double want = data->values[i], got = value->v[i];
    if (want == got || (isnan(want) && isnan(got))) continue;
    const double distance = fabs(want - got) / (1 + fabs(want));
    if (!(distance <= most)) most = distance;
  }
  return most;
}

bool trial_agrees(const tnm_example *example, const trial_value *value) {
  const tnm_data *data = stated(example, value);
  const double tol = tolerance(example, value->dtype);
  if (data == NULL) return true;
  if (data->n != value->n) return false;
  for (size_t i = 0; i < value->n; ++i) {
    const double want = data->values[i], got = value->v[i];
    if (want == got || (isnan(want) && isnan(got))) continue;
    if (!(fabs(want - got) <= tol * (1 + fabs(want)))) return false;
  }
  return true;
}

/* ---------------------------------------------------------------------- texts
 */

/* Elements of one nested list. */
typedef struct nested {
  int32_t ndim;
  const int64_t *shape;
  const double *v;
  tn_dtype dtype;
} nested;

static void print_number(tn__buf *out, const nested *x, double value) {
  if (x->dtype == TN_BOOL)
    tn__buf_add(out, "%s", value != 0 ? "true" : "false");
  else if (value == rint(value) && fabs(value) < 1e7)
    tn__buf_add(out, "%.0f", value);
  else if (x->dtype == TN_F32)
    tn__buf_float(out, (float)value);
  else
    tn__buf_double(out, value);
}

static size_t print_nested(tn__buf *out, const nested *x, int32_t axis,
                           size_t at) {
  if (axis == x->ndim) {
    print_number(out, x, x->v[at]);
    return at + 1;
  }
  tn__buf_add(out, "[");
  for (int64_t i = 0; i < x->shape[axis]; ++i) {
    if (i > 0) tn__buf_add(out, ", ");
    at = print_nested(out, x, axis + 1, at);
  }
  tn__buf_add(out, "]");
  return at;
}

void trial_print(tn__buf *out, const trial_value *value) {
  const nested x = {value->ndim, value->shape, value->v, value->dtype};
  (void)print_nested(out, &x, 0, 0);
}

void trial_print_data(tn__buf *out, const tnm_data *data) {
  const nested x = {data->ndim, data->shape, data->values, TN_F64};
  (void)print_nested(out, &x, 0, 0);
}
