/* SPDX-License-Identifier: Apache-2.0
 * diff_params.c: compares the parameters. Compiled kernels use them as members
 * of a struct; calls and saved graphs use their names and values, and may omit
 * values.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff.h"

static const char *const type_names[] = {
    "?", "bool", "int", "float", "string", "enum", "ints", "floats", "dtype"};

static const char *type_name(const tn_field *f) {
  return f->type < sizeof type_names / sizeof *type_names ? type_names[f->type]
                                                          : "?";
}

static bool has_flag(const tn_field *f, uint32_t flag) {
  return (f->flags & flag) != 0;
}

/* "parameter `a`" in the arena. */
static const char *label_of(diff *d, const tn_field *f) {
  const size_t n = strlen(f->name) + sizeof "parameter ``";
  char *text = tn__arena_alloc(d->arena, n);
  if (text != NULL) (void)snprintf(text, n, "parameter `%s`", f->name);
  return diff_text(text, "parameter");
}

/* ----------------------------------------------------------------- defaults */

/* "0" and "0.0" are the same number. */
static bool is_same_default(const tn_field *a, const tn_field *b) {
  if (diff_is_same(a->default_text, b->default_text)) return true;
  if (a->default_text == NULL || b->default_text == NULL ||
      (a->type != TN_FIELD_INT && a->type != TN_FIELD_FLOAT))
    return false;
  char *ends[2];
  const double old = strtod(a->default_text, &ends[0]);
  const double new = strtod(b->default_text, &ends[1]);
  return ends[0] != a->default_text && *ends[0] == '\0' &&
         ends[1] != b->default_text && *ends[1] == '\0' && old == new;
}

static void compare_default(diff *d, const tn_field *a, const tn_field *b) {
  const char *const *path = DIFF_AT("params", b->name, "default");
  const bool was = has_flag(a, TN_FIELD_REQUIRED),
             is = has_flag(b, TN_FIELD_REQUIRED);
  if (was && !is)
    diff_add(d, DIFF_OK, path, "parameter `%s` has a default now: %s", b->name,
             diff_text(b->default_text, ""));
  else if (!was && is)
    diff_add(d, DIFF_SOURCE, path, "parameter `%s` has no default any more",
             b->name);
  else if (!was && !is_same_default(a, b))
    diff_add(d, DIFF_MODEL, path, "default of `%s` changed %s -> %s", b->name,
             diff_text(a->default_text, ""), diff_text(b->default_text, ""));
}

/* ------------------------------------------------------------------- ranges */

/* A bound as a text; "none" if there is none. */
typedef struct bound {
  bool set;
  bool open; /* it is not allowed itself */
  double value;
  char text[40];
} bound;

/* Prints the shortest text that reads back exactly. */
static void print_real(double value, char *out, size_t size) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_double(&text, value);
  (void)snprintf(out, size, "%s", diff_text(text.s, ""));
  tn__buf_deinit(&text);
}

static bound bound_of(const tn_field *f, bool max) {
  bound b = {.set = has_flag(f, max ? TN_FIELD_HAS_MAX : TN_FIELD_HAS_MIN),
             .open = has_flag(f, max ? TN_FIELD_BELOW : TN_FIELD_ABOVE)};
  const bool real = f->type == TN_FIELD_FLOAT || f->type == TN_FIELD_FLOATS;
  const int64_t whole = max ? f->max_int : f->min_int;
  b.value = real ? (max ? f->max_float : f->min_float) : (double)whole;
  if (!b.set)
    (void)snprintf(b.text, sizeof b.text, "none");
  else if (real)
    print_real(b.value, b.text, sizeof b.text);
  else
    (void)snprintf(b.text, sizeof b.text, "%" PRId64, whole);
  return b;
}

static void compare_bound(diff *d, const tn_field *a, const tn_field *b,
                          bool max) {
  const char *name = max ? "max" : "min";
  const bound old = bound_of(a, max), new = bound_of(b, max);
  const bool equal = strcmp(old.text, new.text) == 0;
  if (equal && old.open == new.open) return;
  const bool narrow =
      equal ? new.open
            : new.set && (!old.set || (max ? new.value < old.value
                                           : new.value > old.value));
  diff_add(d, narrow ? DIFF_MODEL : DIFF_OK, DIFF_AT("params", b->name, name),
           "%s of `%s` %s %s%s -> %s%s", name, b->name,
           narrow ? "narrowed" : "widened", old.text,
           old.open ? " excluded" : "", new.text, new.open ? " excluded" : "");
}

static void compare_nonzero(diff *d, const tn_field *a, const tn_field *b) {
  const bool was = has_flag(a, TN_FIELD_NONZERO);
  const bool is = has_flag(b, TN_FIELD_NONZERO);
  if (was == is) return;
  diff_add(d, is ? DIFF_MODEL : DIFF_OK, DIFF_AT("params", b->name, "nonzero"),
           "`%s` may %s 0", b->name, is ? "no longer be" : "be");
}

static void compare_rank(diff *d, const tn_field *a, const tn_field *b) {
  const char *const *path = DIFF_AT("params", b->name, "rank");
  const uint32_t old_max = a->max_rank, new_max = b->max_rank;
  if (a->rank_of != b->rank_of &&
      (a->rank_of == TN_NONE) != (b->rank_of == TN_NONE)) {
    diff_add(d, b->rank_of == TN_NONE ? DIFF_OK : DIFF_MODEL, path,
             "rank of `%s` %s", b->name,
             b->rank_of == TN_NONE ? "no longer follows another parameter"
                                   : "follows another parameter now");
    return;
  }
  if (a->min_rank == b->min_rank && old_max == new_max) return;
  const bool narrow = b->min_rank > a->min_rank || new_max < old_max;
  diff_add(d, narrow ? DIFF_MODEL : DIFF_OK, path, "rank of `%s` %s", b->name,
           narrow ? "narrowed" : "widened");
}

/* ------------------------------------------------------------------- values */

/* Values of a dtype have no numbers, so that only the sets count. */
static void compare_dtypes(diff *d, const tn_field *a, const tn_field *b) {
  const uint64_t was = tnm_param_dtypes(a), is = tnm_param_dtypes(b);
  const char *const *path = DIFF_AT("params", b->name, "values");
  if (was & ~is)
    diff_add(d, DIFF_MODEL, path, "types of `%s` without %s", b->name,
             diff_dtypes(d, was & ~is));
  if (is & ~was)
    diff_add(d, DIFF_OK, path, "types of `%s` with %s", b->name,
             diff_dtypes(d, is & ~was));
}

static void compare_values(diff *d, const tn_field *a, const tn_field *b) {
  diff_match m;
  if (a->type == TN_FIELD_DTYPE && b->type == TN_FIELD_DTYPE) {
    compare_dtypes(d, a, b);
    return;
  }
  if (!diff_match_init(d, &m, (diff_list){a->values, a->n_values},
                       (diff_list){b->values, b->n_values}) ||
      !diff_match_finish(d, &m))
    return;
  for (uint32_t i = 0; i < a->n_values; ++i) {
    if (m.to_new[i] == DIFF_GONE)
      diff_add(d, DIFF_SOURCE, DIFF_AT("params", b->name, "values"),
               "value `%s` of `%s` removed", a->values[i], b->name);
    else if (m.moved[i])
      diff_add(d, DIFF_ABI, DIFF_AT("params", b->name, "values", a->values[i]),
               "value `%s` of `%s` moved to %" PRId64, a->values[i], b->name,
               m.to_new[i]);
  }
  for (uint32_t i = 0; i < b->n_values; ++i) {
    if (m.to_old[i] != DIFF_GONE) continue;
    const bool last = diff_is_last(&m, i);
    diff_add(d, last ? DIFF_OK : DIFF_ABI,
             DIFF_AT("params", b->name, "values", b->values[i]),
             "value `%s` of `%s` added %s", b->values[i], b->name,
             last ? "last" : "before others, which changes their numbers");
  }
}

/* ---------------------------------------------------------------- one field */

static void compare_flags(diff *d, const tn_field *a, const tn_field *b) {
  const bool was = has_flag(a, TN_FIELD_OPTIONAL),
             is = has_flag(b, TN_FIELD_OPTIONAL);
  if (was != is)
    diff_add(d, DIFF_ABI, DIFF_AT("params", b->name, "optional"),
             is ? "parameter `%s` may be None now: the struct has a new member"
                : "parameter `%s` may not be None any more",
             b->name);
  const bool could = has_flag(a, TN_FIELD_DYNAMIC),
             can = has_flag(b, TN_FIELD_DYNAMIC);
  if (could != can)
    diff_add(d, can ? DIFF_OK : DIFF_SOURCE,
             DIFF_AT("params", b->name, "dynamic"),
             can ? "parameter `%s` may change between calls now"
                 : "parameter `%s` may not change between calls any more",
             b->name);
}

static void compare_texts(diff *d, const tn_field *a, const tn_field *b) {
  if (!diff_is_same(a->alias, b->alias) && !diff_is_same(a->name, b->alias)) {
    const char *const *path = DIFF_AT("params", b->name, "alias");
    if (a->alias != NULL)
      diff_add(d, DIFF_SOURCE, path, "alias `%s` of `%s` removed", a->alias,
               b->name);
    if (b->alias != NULL)
      diff_add(d, DIFF_OK, path, "alias `%s` of `%s` added", b->alias, b->name);
  }
  if (!diff_is_same(a->doc, b->doc))
    diff_add(d, DIFF_DOC, DIFF_AT("params", b->name, "doc"),
             "doc of `%s` changed", b->name);
  diff_lives(d, DIFF_AT("params", b->name, "since"), label_of(d, b),
             (diff_life){a->since, a->deprecated_since, a->use},
             (diff_life){b->since, b->deprecated_since, b->use});
}

static void compare_field(diff *d, const tn_field *a, const tn_field *b) {
  if (strcmp(a->name, b->name) != 0)
    diff_add(d, diff_is_same(a->name, b->alias) ? DIFF_OK : DIFF_SOURCE,
             DIFF_AT("params", b->name, "name"),
             diff_is_same(a->name, b->alias)
                 ? "parameter `%s` renamed to `%s`, the old name an alias"
                 : "parameter `%s` renamed to `%s` without an alias",
             a->name, b->name);
  if (a->type != b->type) {
    diff_add(d, DIFF_ABI, DIFF_AT("params", b->name, "type"),
             "type of `%s` changed %s -> %s", b->name, type_name(a),
             type_name(b));
    return;
  }
  compare_flags(d, a, b);
  compare_rank(d, a, b);
  compare_values(d, a, b);
  compare_default(d, a, b);
  compare_bound(d, a, b, false);
  compare_bound(d, a, b, true);
  compare_nonzero(d, a, b);
  compare_texts(d, a, b);
}

/* ----------------------------------------------------------------- the list */

static diff_list names_of(diff *d, const tn_op *op) {
  const char **names =
      tn__arena_alloc(d->arena, (op->n_params + 1u) * sizeof *names);
  for (uint32_t i = 0; i < op->n_params && names != NULL; ++i)
    names[i] = op->params[i]->name;
  return (diff_list){names, op->n_params};
}

/* Finds renamed parameters: an alias names the old one; without an alias, the
 * same position and type do. */
static void find_renamed(const diff *d, diff_match *m) {
  for (uint32_t i = 0; i < m->n_new; ++i) {
    const tn_field *b = d->b->params[i];
    for (uint32_t k = 0; k < m->n_old && m->to_old[i] == DIFF_GONE; ++k)
      if (m->to_new[k] == DIFF_GONE &&
          diff_is_same(d->a->params[k]->name, b->alias))
        diff_match_pair(m, k, i);
    if (i < m->n_old && m->to_old[i] == DIFF_GONE &&
        m->to_new[i] == DIFF_GONE && d->a->params[i]->type == b->type)
      diff_match_pair(m, i, i);
  }
}

static void report_new(diff *d, const diff_match *m, uint32_t i) {
  const tn_field *f = d->b->params[i];
  const char *const *path = DIFF_AT("params", f->name);
  if (!diff_is_last(m, i))
    diff_add(d, DIFF_ABI, path, "parameter `%s` added before others", f->name);
  else if (has_flag(f, TN_FIELD_REQUIRED))
    diff_add(d, DIFF_SOURCE, path, "parameter `%s` added without a default",
             f->name);
  else if (diff_since(d, DIFF_AT("params", f->name, "since"), label_of(d, f),
                      f->since))
    diff_add(d, DIFF_OK, path,
             "parameter `%s` added last, default %s, since %u", f->name,
             diff_text(f->default_text, ""), f->since);
}

void diff_params(diff *d) {
  diff_match m;
  const diff_list old = names_of(d, d->a), new = names_of(d, d->b);
  if (d->arena->failed || !diff_match_init(d, &m, old, new)) return;
  find_renamed(d, &m);
  if (!diff_match_finish(d, &m)) return;
  for (uint32_t i = 0; i < m.n_old; ++i)
    if (m.to_new[i] != DIFF_GONE)
      diff_rename_add(d, old.names[i], new.names[m.to_new[i]]);
  for (uint32_t i = 0; i < m.n_old; ++i) {
    const tn_field *f = d->a->params[i];
    if (m.to_new[i] == DIFF_GONE) {
      diff_add(d, DIFF_SOURCE, DIFF_AT("params"), "parameter `%s` removed",
               f->name);
      continue;
    }
    const tn_field *b = d->b->params[m.to_new[i]];
    if (m.moved[i])
      diff_add(d, DIFF_ABI, DIFF_AT("params", b->name, "name"),
               "params[%u] `%s` moved to %" PRId64, i, b->name, m.to_new[i]);
    compare_field(d, f, b);
  }
  for (uint32_t i = 0; i < m.n_new; ++i)
    if (m.to_old[i] == DIFF_GONE) report_new(d, &m, i);
}
