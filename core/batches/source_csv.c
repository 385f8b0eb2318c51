/* SPDX-License-Identifier: Apache-2.0
 * source_csv.c: a table of numbers: each line is an example, and has the same
 * number of cells. Some columns are the label, the others the data.
 */
#include <stddef.h>
#include <string.h>

#include "sources.h"

/* --------------------------------------------------------------- parameters */

typedef struct csv_params {
  tn_ints label;
  tn_ints shape;
  tn_dtype dtype;
  tn_dtype label_dtype;
  int32_t has_label_dtype;
  int32_t has_missing;
  double missing;
  const char *delimiter;
  int64_t header;
} csv_params;

static const tn__source_param params[] = {
    {"label", TN_FIELD_INTS, offsetof(csv_params, label), 0, INT64_MIN, "[]"},
    {"shape", TN_FIELD_INTS, offsetof(csv_params, shape), 0, 1, "[]"},
    {"dtype", TN_FIELD_DTYPE, offsetof(csv_params, dtype), 0, INT64_MIN, "f32"},
    {"label_dtype", TN_FIELD_DTYPE, offsetof(csv_params, label_dtype),
     offsetof(csv_params, has_label_dtype), INT64_MIN, "None"},
    {"missing", TN_FIELD_FLOAT, offsetof(csv_params, missing),
     offsetof(csv_params, has_missing), INT64_MIN, "None"},
    {"delimiter", TN_FIELD_STRING, offsetof(csv_params, delimiter), 0,
     INT64_MIN, ","},
    {"header", TN_FIELD_INT, offsetof(csv_params, header), 0, 0, "0"}};
static const tn__source_params csv_fields = {
    params, sizeof params / sizeof *params, sizeof(csv_params),
    "data of kind csv"};

/* -------------------------------------------------------------------- cells */

enum { DATA, LABEL };

/* Where the cells of a column go. */
typedef struct column {
  uint32_t field; /* DATA or LABEL */
  size_t at;      /* element of the example */
} column;

typedef struct csv {
  tn__source base;
  tn__example_file file;
  csv_params *params;
  size_t n_columns; /* 0: not known yet */
  column *columns;
  tn_dtype dtypes[2];
  size_t sizes[2]; /* elements of an example */
  tn__room row;    /* for checks */
} csv;

/* Finds the next cell of a line, without blanks around it, and goes to the
 * delimiter after it. */
static void find_cell(const csv *t, tn__line *line, const char **begin,
                      const char **end) {
  const char delimiter = *t->params->delimiter;
  const char *after =
      memchr(line->at, delimiter, (size_t)(line->end - line->at));
  if (!after) after = line->end;
  *begin = line->at;
  *end = after;
  while (*begin < *end && (**begin == ' ' || **begin == '\t')) ++*begin;
  while (*end > *begin && ((*end)[-1] == ' ' || (*end)[-1] == '\t')) --*end;
  line->at = after;
}

static size_t count_cells(const csv *t, const tn__line *line) {
  size_t n = 1;
  for (const char *c = line->begin; c < line->end; ++c)
    n += *c == *t->params->delimiter;
  return n;
}

static tn_code fail_cell(const tn__line *line, const char *begin,
                         const char *end, tn_dtype dtype) {
  tn__line at = *line;
  at.at = begin;
  if (begin == end)
    return tn__line_fail(&at, "set `missing` to the number for empty cells",
                         "the cell is empty");
  return tn__line_fail(
      &at,
      "set `header` if the first lines have names, and `delimiter` if the "
      "cells have another one between them",
      "`%.*s` is no %s", end - begin > 40 ? 40 : (int)(end - begin), begin,
      tn_dtype_name(dtype));
}

/* Stores the number for an empty cell. */
static void store_missing(const csv *t, tn_dtype dtype, void *to, size_t at) {
  const double number = t->params->missing;
  if (dtype == TN_F32) ((float *)to)[at] = (float)number;
  if (dtype == TN_F64) ((double *)to)[at] = number;
  if (dtype == TN_I32) ((int32_t *)to)[at] = (int32_t)number;
  if (dtype == TN_I64) ((int64_t *)to)[at] = (int64_t)number;
  if (dtype == TN_U8) ((uint8_t *)to)[at] = (uint8_t)number;
}

/* Stores the cells of a line. The memory of an example is to[DATA] and
 * to[LABEL]. */
static tn_code read_cells(const csv *t, tn__line *line, void *const to[2]) {
  for (size_t c = 0; c < t->n_columns; ++c) {
    const char *begin, *end;
    const column *to_column = &t->columns[c];
    const tn_dtype dtype = t->dtypes[to_column->field];
    void *cells = to[to_column->field];
    find_cell(t, line, &begin, &end);
    if (begin == end && t->params->has_missing)
      store_missing(t, dtype, cells, to_column->at);
    else if (!tn__store_number(begin, end, dtype, cells, to_column->at))
      return fail_cell(line, begin, end, dtype);
    const bool is_last = line->at == line->end;
    if (is_last != (c + 1 == t->n_columns))
      return tn__line_fail(line, "give every line the same number of cells",
                           "the line has %zu cells, and the first one has %zu",
                           count_cells(t, line), t->n_columns);
    if (!is_last) ++line->at;
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ columns */

/* Marks the columns of the label. */
static tn_code mark_labels(csv *t) {
  const tn_ints *label = &t->params->label;
  for (int64_t i = 0; i < label->n; ++i) {
    const int64_t n = (int64_t)t->n_columns;
    const int64_t c = label->v[i] < 0 ? label->v[i] + n : label->v[i];
    if (c < 0 || c >= n)
      return tn__fail(TN_OUT_OF_RANGE,
                      "%s: `label` has column %lld, and the first line has "
                      "%lld columns",
                      t->file.path, (long long)label->v[i], (long long)n);
    if (t->columns[c].field == LABEL)
      return tn__fail(TN_INVALID, "%s: `label` has column %lld twice",
                      t->file.path, (long long)c);
    t->columns[c] = (column){LABEL, t->sizes[LABEL]++};
  }
  return TN_OK;
}

/* Decides the columns by the first line of numbers. */
static tn_code set_columns(csv *t, const tn__line *line) {
  const size_t n = count_cells(t, line);
  t->columns = tn__zalloc(t->base.env, n * sizeof *t->columns);
  if (!t->columns) return tn__fail_memory(n * sizeof *t->columns, "columns");
  t->n_columns = n;
  TN__TRY(mark_labels(t));
  for (size_t c = 0; c < n; ++c)
    if (t->columns[c].field == DATA) t->columns[c].at = t->sizes[DATA]++;
  return tn__room_reserve(t->base.env, &t->row, 2 * (n + 1) * sizeof(double),
                          0);
}

static tn_code check_line(void *context, tn__line *line, bool *is_example) {
  csv *t = context;
  *is_example = false;
  if (line->number <= (uint64_t)t->params->header || line->begin == line->end)
    return TN_OK;
  if (t->n_columns == 0) {
    const tn_code rc = set_columns(t, line);
    /* A mistake in the parameters is no mistake of one line. */
    if (rc != TN_OK) return rc == TN_INVALID ? TN_OUT_OF_RANGE : rc;
  }
  double *row = (double *)(void *)t->row.data;
  *is_example = true;
  return read_cells(t, line, (void *const[2]){row, row + t->n_columns + 1});
}

/* ------------------------------------------------------------------- source */

static tn_code use_example(void *context, const tn__example *example) {
  const tn__filling *f = ((void **)context)[1];
  const csv *t = ((void **)context)[0];
  tn__line line = tn__line_of_example(&t->file, example);
  void *to[2] = {NULL, NULL};
  for (uint32_t k = 0; k < t->base.n_fields; ++k)
    to[k] = (char *)f->to[k] +
            example->at * t->sizes[k] * (size_t)tn_dtype_bytes(t->dtypes[k]);
  return read_cells(t, &line, to);
}

static tn_code fill_table(const tn__source *source, const tn__filling *f) {
  const csv *t = (const csv *)source;
  void *context[2] = {(void *)(uintptr_t)t, (void *)(uintptr_t)f};
  return tn__example_file_read(&t->file, f, use_example, context);
}

static void deinit_csv(tn__source *source) {
  csv *t = (csv *)source;
  tn__example_file_deinit(&t->file);
  tn__free(source->env, t->params);
  tn__free(source->env, t->columns);
  tn__free(source->env, t->row.data);
}

static tn_code set_fields(csv *t) {
  const csv_params *p = t->params;
  tn__batch_field example = {.ndim = 1, .shape = {(int64_t)t->sizes[DATA]}};
  int64_t n = 1;
  if (p->shape.n > 0) example.ndim = (int32_t)p->shape.n;
  for (int64_t d = 0; d < p->shape.n; ++d)
    n *= example.shape[d] = p->shape.v[d];
  if (p->shape.n > 0 && (uint64_t)n != t->sizes[DATA] && t->n_columns > 0)
    return tn__fail(TN_SHAPE,
                    "%s: `shape` has %lld elements, and a line has %zu columns "
                    "of data",
                    t->file.path, (long long)n, t->sizes[DATA]);
  TN__TRY(tn__source_set_field(&t->base, DATA, t->dtypes[DATA], &example));
  if (t->base.n_fields == 1) return TN_OK;
  example = (tn__batch_field){.ndim = p->label.n > 1, .shape = {p->label.n}};
  return tn__source_set_field(&t->base, LABEL, t->dtypes[LABEL], &example);
}

static tn_code check_delimiter(const csv *t) {
  if (strlen(t->params->delimiter) == 1) return TN_OK;
  return tn__fail(TN_INVALID,
                  "data of kind csv: `delimiter` must be one character, and it "
                  "is \"%s\"",
                  t->params->delimiter);
}

static tn_code open_csv(csv *t, const tn__opening *o) {
  void *values = NULL;
  tn__line_scan scan = {.check = check_line, .context = t};
  TN__TRY(tn__source_params_parse(o, &csv_fields, &values));
  t->params = values;
  TN__TRY(check_delimiter(t));
  t->base.n_fields = t->params->label.n > 0 ? 2 : 1;
  t->dtypes[DATA] = t->params->dtype;
  t->dtypes[LABEL] =
      t->params->has_label_dtype ? t->params->label_dtype : t->params->dtype;
  TN__TRY(tn__example_file_open(o->env, o->path, &t->file));
  scan.skips = o->options->on_damage == TN_DAMAGE_SKIP;
  TN__TRY(tn__scan_lines(&t->file, &scan));
  t->base.n = t->file.n;
  t->base.n_damaged = scan.n_skipped;
  return set_fields(t);
}

tn_code tn__source_of_csv(const tn__opening *opening, tn__source **out) {
  tn__source *source = NULL;
  TN__TRY(tn__source_create(opening, sizeof(csv), 2, &source));
  source->kind = "csv";
  source->fill = fill_table;
  source->deinit = deinit_csv;
  ((csv *)source)->file.env = opening->env;
  const tn_code rc = open_csv((csv *)source, opening);
  if (rc == TN_OK)
    *out = source;
  else
    tn__source_release(source);
  return rc;
}
