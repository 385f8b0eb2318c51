/* SPDX-License-Identifier: Apache-2.0
 * lower_limits.c: lowers the bounds of a parameter (`min`, `max`, `above`,
 * `below` and `nonzero`), and compares values with them.
 */
#include <inttypes.h>
#include <string.h>

#include "front.h"

static bool is_integer_field(const tn_field *f) {
  return f->type == TN_FIELD_INT || f->type == TN_FIELD_INTS;
}

static bool is_float_field(const tn_field *f) {
  return f->type == TN_FIELD_FLOAT || f->type == TN_FIELD_FLOATS;
}

/* Reports a key of a field that is no number. */
static void report_no_number(tnm_diags *diags, const tn_field *f,
                             const tnm_tree *value) {
  tnm_report_meaningless_key(diags, f, value,
                             "int, float, ints and floats have it");
}

/* Makes a bound of integers that is not allowed itself the next one, which is.
 * Returns false after a message if there is none. */
static bool close_bound(tnm_diags *diags, const tnm_tree *value, bool least,
                        int64_t *bound) {
  const int64_t last = least ? INT64_MAX : INT64_MIN;
  if (*bound != last) {
    *bound += least ? 1 : -1;
    return true;
  }
  tnm_diag_spec spec = {"E0021", value->pos, NULL};
  tnm_diag_add(diags, &spec, "no integer is %s this one", value->key);
  return false;
}

/* Reads a bound under `key`, which is itself allowed unless it is `open`. */
static void read_bound(tnm_diags *diags, const tnm_tree *value, tn_field *f,
                       bool least, bool open) {
  bool ok = false;
  if (value == NULL) return;
  if (is_integer_field(f)) {
    int64_t *bound = least ? &f->min_int : &f->max_int;
    ok = tnm_read_int(diags, value, INT64_MIN, INT64_MAX, bound) &&
         (!open || close_bound(diags, value, least, bound));
  } else if (is_float_field(f)) {
    ok = tnm_read_double(diags, value, least ? &f->min_float : &f->max_float);
    if (ok && open) f->flags |= least ? TN_FIELD_ABOVE : TN_FIELD_BELOW;
  } else {
    report_no_number(diags, f, value);
  }
  if (ok) f->flags |= (uint32_t)(least ? TN_FIELD_HAS_MIN : TN_FIELD_HAS_MAX);
}

/* Returns the bound of one side, which has two keys; reports both of them. */
static const tnm_tree *find_bound(tnm_diags *diags, const tnm_tree *node,
                                  const char *closed, const char *open) {
  const tnm_tree *one = tnm_tree_get(node, closed);
  const tnm_tree *two = tnm_tree_get(node, open);
  if (one == NULL) return two;
  if (two == NULL) return one;
  tnm_diag_spec spec = {"E0021", two->key_pos, NULL};
  const size_t id =
      tnm_diag_add(diags, &spec, "`%s` beside `%s`", open, closed);
  tnm_diag_add_help(diags, id, "keep one of them");
  return one;
}

static void read_nonzero(tnm_diags *diags, const tnm_tree *node, tn_field *f) {
  const tnm_tree *value = tnm_tree_get(node, "nonzero");
  if (value == NULL) return;
  if (!is_integer_field(f) && !is_float_field(f))
    report_no_number(diags, f, value);
  else if (tnm_get_bool(diags, node, "nonzero"))
    f->flags |= TN_FIELD_NONZERO;
}

/* Tests whether no value is between the bounds. */
static bool is_empty(const tn_field *f) {
  const bool open = (f->flags & (TN_FIELD_ABOVE | TN_FIELD_BELOW)) != 0;
  if (is_integer_field(f)) return f->min_int > f->max_int;
  return open ? !(f->min_float < f->max_float) : f->min_float > f->max_float;
}

void tnm_lower_limits(tnm_diags *diags, const tnm_tree *node, tn_field *f) {
  const uint32_t both = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX;
  const tnm_tree *least = find_bound(diags, node, "min", "above");
  const tnm_tree *most = find_bound(diags, node, "max", "below");
  read_bound(diags, least, f, true,
             least != NULL && strcmp(least->key, "above") == 0);
  read_bound(diags, most, f, false,
             most != NULL && strcmp(most->key, "below") == 0);
  read_nonzero(diags, node, f);
  if ((f->flags & both) != both || !is_empty(f)) return;
  f->flags &= ~(both | TN_FIELD_ABOVE | TN_FIELD_BELOW);
  tnm_diag_spec spec = {"E0021", most->pos, NULL};
  const bool closed = strcmp(most->key, "max") == 0;
  const size_t id =
      tnm_diag_add(diags, &spec,
                   closed && strcmp(least->key, "min") == 0
                       ? "`%s` of `%s` is less than its `%s`"
                       : "`%s` of `%s` leaves no value beside its `%s`",
                   most->key, f->name, least->key);
  tnm_diag_add_place(diags, id, least->pos, "the least");
}

/* ------------------------------------------------------------------- values */

bool tnm_check_int_limits(const tn_field *f, int64_t value, char rule[64]) {
  if ((f->flags & TN_FIELD_HAS_MIN) && value < f->min_int)
    snprintf(rule, 64, "at least %" PRId64, f->min_int);
  else if ((f->flags & TN_FIELD_HAS_MAX) && value > f->max_int)
    snprintf(rule, 64, "at most %" PRId64, f->max_int);
  else if ((f->flags & TN_FIELD_NONZERO) && value == 0)
    snprintf(rule, 64, "other than 0");
  else
    return true;
  return false;
}

bool tnm_check_float_limits(const tn_field *f, double value, char rule[64]) {
  const bool above = (f->flags & TN_FIELD_ABOVE) != 0;
  const bool below = (f->flags & TN_FIELD_BELOW) != 0;
  const bool low = above ? !(value > f->min_float) : !(value >= f->min_float);
  const bool high = below ? !(value < f->max_float) : !(value <= f->max_float);
  if ((f->flags & TN_FIELD_HAS_MIN) && low)
    snprintf(rule, 64, "%s %g", above ? "above" : "at least", f->min_float);
  else if ((f->flags & TN_FIELD_HAS_MAX) && high)
    snprintf(rule, 64, "%s %g", below ? "below" : "at most", f->max_float);
  else if ((f->flags & TN_FIELD_NONZERO) && !(value < 0) && !(value > 0))
    snprintf(rule, 64, "other than 0");
  else
    return true;
  return false;
}
