/* SPDX-License-Identifier: Apache-2.0
 * source_libsvm.c: lines "label index:value index:value ...", which name only
 * the features that are not 0. Batches are dense.
 */
#include <stddef.h>
#include <string.h>

#include "sources.h"

typedef struct libsvm_params {
  int64_t features;
  int64_t first_index;
  tn_dtype dtype;
} libsvm_params;

static const tn__source_param params[] = {
    {"features", TN_FIELD_INT, offsetof(libsvm_params, features), 0, 0, "0"},
    {"first_index", TN_FIELD_INT, offsetof(libsvm_params, first_index), 0, 0,
     "1"},
    {"dtype", TN_FIELD_DTYPE, offsetof(libsvm_params, dtype), 0, INT64_MIN,
     "f32"}};
static const tn__source_params libsvm_fields = {
    params, sizeof params / sizeof *params, sizeof(libsvm_params),
    "data of kind libsvm"};

enum { DATA, LABEL };

typedef struct libsvm {
  tn__source base;
  tn__example_file file;
  libsvm_params *params;
  int64_t n_features; /* 0: not known yet */
  int64_t n_found;    /* the greatest feature of the file, plus 1 */
} libsvm;

/* One feature of a line. */
typedef struct feature {
  int64_t at; /* from 0 on */
  const char *value;
  const char *end;
} feature;

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* Goes to the next word, and finds its end. False if there is none. */
static bool find_word(tn__line *line, const char **end) {
  while (line->at < line->end && is_blank(*line->at)) ++line->at;
  if (line->at == line->end || *line->at == '#') return false;
  *end = line->at;
  while (*end < line->end && !is_blank(**end)) ++*end;
  return true;
}

static tn_code fail_word(const tn__line *line, const char *end,
                         const char *problem) {
  const int n = end - line->at > 40 ? 40 : (int)(end - line->at);
  return tn__line_fail(line, "a line is: label index:value index:value ...",
                       "`%.*s` %s", n, line->at, problem);
}

static tn_code check_index(const libsvm *t, const tn__line *line,
                           int64_t index) {
  const int64_t first = t->params->first_index;
  if (index < first)
    return tn__line_fail(line, "set `first_index` to the least index",
                         "feature %lld, but the first one is %lld",
                         (long long)index, (long long)first);
  if (t->n_features > 0 && index - first >= t->n_features)
    return tn__line_fail(line,
                         "set `features` to their number, and `first_index` to "
                         "the least index",
                         "feature %lld, but the last one is %lld",
                         (long long)index,
                         (long long)(t->n_features - 1 + first));
  return TN_OK;
}

static tn_code read_feature(const libsvm *t, const tn__line *line,
                            const char *end, feature *out) {
  const char *colon = memchr(line->at, ':', (size_t)(end - line->at));
  int64_t index = 0;
  if (!colon) return fail_word(line, end, "has no `:`");
  if (!tn__read_whole(line->at, colon, &index) || index == INT64_MAX)
    return fail_word(line, end, "has no index of a feature");
  TN__TRY(check_index(t, line, index));
  *out = (feature){index - t->params->first_index, colon + 1, end};
  return TN_OK;
}

static tn_code read_label(const libsvm *t, tn__line *line, const char *end,
                          void *to) {
  if (!tn__store_number(line->at, end, t->params->dtype, to, 0))
    return fail_word(line, end, "is no label");
  line->at = end;
  return TN_OK;
}

/* ------------------------------------------------------------------ reading */

static tn_code check_line(void *context, tn__line *line, bool *is_example) {
  libsvm *t = context;
  const char *end;
  double number;
  int64_t n_found = t->n_found;
  *is_example = find_word(line, &end);
  if (!*is_example) return TN_OK;
  TN__TRY(read_label(t, line, end, &number));
  while (find_word(line, &end)) {
    feature f;
    TN__TRY(read_feature(t, line, end, &f));
    if (!tn__store_number(f.value, f.end, t->params->dtype, &number, 0))
      return fail_word(line, end, "has no number of the type");
    if (f.at >= n_found) n_found = f.at + 1;
    line->at = end;
  }
  t->n_found = n_found;
  return TN_OK;
}

static tn_code use_example(void *context, const tn__example *example) {
  const libsvm *t = ((void **)context)[0];
  const tn__filling *filling = ((void **)context)[1];
  const size_t bytes = (size_t)tn_dtype_bytes(t->params->dtype);
  const size_t n = (size_t)t->n_features;
  char *row = (char *)filling->to[DATA] + example->at * n * bytes;
  tn__line line = tn__line_of_example(&t->file, example);
  const char *end;
  memset(row, 0, n * bytes);
  if (!find_word(&line, &end)) return fail_word(&line, line.at, "is no label");
  TN__TRY(read_label(t, &line, end,
                     (char *)filling->to[LABEL] + example->at * bytes));
  while (find_word(&line, &end)) {
    feature f;
    TN__TRY(read_feature(t, &line, end, &f));
    if (!tn__store_number(f.value, f.end, t->params->dtype, row, (size_t)f.at))
      return fail_word(&line, end, "has no number of the type");
    line.at = end;
  }
  return TN_OK;
}

static tn_code fill_dense(const tn__source *source, const tn__filling *f) {
  const libsvm *t = (const libsvm *)source;
  void *context[2] = {(void *)(uintptr_t)t, (void *)(uintptr_t)f};
  return tn__example_file_read(&t->file, f, use_example, context);
}

/* ------------------------------------------------------------------- source */

static void deinit_libsvm(tn__source *source) {
  libsvm *t = (libsvm *)source;
  tn__example_file_deinit(&t->file);
  tn__free(source->env, t->params);
}

static tn_code open_libsvm(libsvm *t, const tn__opening *o) {
  void *values = NULL;
  tn__line_scan scan = {.check = check_line, .context = t};
  TN__TRY(tn__source_params_parse(o, &libsvm_fields, &values));
  t->params = values;
  t->n_features = t->params->features;
  TN__TRY(tn__example_file_open(o->env, o->path, &t->file));
  scan.skips = o->options->on_damage == TN_DAMAGE_SKIP;
  TN__TRY(tn__scan_lines(&t->file, &scan));
  t->base.n = t->file.n;
  t->base.n_damaged = scan.n_skipped;
  if (t->n_features == 0) t->n_features = t->n_found;
  TN__TRY(tn__source_set_field(
      &t->base, DATA, t->params->dtype,
      &(tn__batch_field){.ndim = 1, .shape = {t->n_features}}));
  return tn__source_set_field(&t->base, LABEL, t->params->dtype,
                              &(tn__batch_field){0});
}

tn_code tn__source_of_libsvm(const tn__opening *opening, tn__source **out) {
  tn__source *source = NULL;
  TN__TRY(tn__source_create(opening, sizeof(libsvm), 2, &source));
  source->kind = "libsvm";
  source->fill = fill_dense;
  source->deinit = deinit_libsvm;
  ((libsvm *)source)->file.env = opening->env;
  const tn_code rc = open_libsvm((libsvm *)source, opening);
  if (rc == TN_OK)
    *out = source;
  else
    tn__source_release(source);
  return rc;
}
