/* SPDX-License-Identifier: Apache-2.0
 * fields_value.c: converts one value, a text or a typed one, to one member of a
 * params struct. Every rule about a single value is here; rules between members
 * are in fields.c.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fields.h"

tn_code tn__fill_fail(const tn__fill *fill, tn_code code, const char *format,
                      ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return tn__fail(code, "parameter `%s` of %s: %s", fill->field->name,
                  fill->fields->where, text);
}

const char *tn__field_kind(const tn_field *field) {
  static const char kinds[][19] = {"nothing",
                                   "true or false",
                                   "an integer",
                                   "a number",
                                   "a text",
                                   "one of its names",
                                   "a list of integers",
                                   "a list of numbers",
                                   "an element type"};
  return field->type < sizeof kinds / sizeof *kinds ? kinds[field->type]
                                                    : "nothing";
}

static tn_code fail_wrong_type(const tn__fill *fill) {
  const tn_field given = {.type = fill->value->type};
  return tn__fill_fail(fill, TN_INVALID, "takes %s, but %s was given",
                       tn__field_kind(fill->field), tn__field_kind(&given));
}

/* ------------------------------------------------------------------ ranges */

static tn_code check_int(const tn__fill *fill, int64_t v) {
  const tn_field *field = fill->field;
  if ((field->flags & TN_FIELD_HAS_MIN) != 0 && v < field->min_int)
    return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                         "%lld is too small; the least value allowed is %lld",
                         (long long)v, (long long)field->min_int);
  if ((field->flags & TN_FIELD_HAS_MAX) != 0 && v > field->max_int)
    return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                         "%lld is too large; the greatest value allowed is "
                         "%lld",
                         (long long)v, (long long)field->max_int);
  if ((field->flags & TN_FIELD_NONZERO) != 0 && v == 0)
    return tn__fill_fail(fill, TN_OUT_OF_RANGE, "0 is not allowed");
  return TN_OK;
}

/* Fails for a number on the wrong side of a bound, which `open` excludes. */
static tn_code fail_bound(const tn__fill *fill, double v, bool least,
                          bool open) {
  const double bound = least ? fill->field->min_float : fill->field->max_float;
  if (open)
    return tn__fill_fail(
        fill, TN_OUT_OF_RANGE, "%.15g is too %s; the value must be %s %.15g", v,
        least ? "small" : "large", least ? "above" : "below", bound);
  return tn__fill_fail(
      fill, TN_OUT_OF_RANGE, "%.15g is too %s; the %s value allowed is %.15g",
      v, least ? "small" : "large", least ? "least" : "greatest", bound);
}

static tn_code check_float(const tn__fill *fill, double v) {
  const tn_field *f = fill->field;
  const uint32_t rules = TN_FIELD_HAS_MIN | TN_FIELD_HAS_MAX | TN_FIELD_NONZERO;
  const bool above = (f->flags & TN_FIELD_ABOVE) != 0;
  const bool below = (f->flags & TN_FIELD_BELOW) != 0;
  if ((f->flags & rules) != 0 && isnan(v))
    return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                         "nan is in no range, and this parameter has one");
  if ((f->flags & TN_FIELD_HAS_MIN) != 0 &&
      (above ? v <= f->min_float : v < f->min_float))
    return fail_bound(fill, v, true, above);
  if ((f->flags & TN_FIELD_HAS_MAX) != 0 &&
      (below ? v >= f->max_float : v > f->max_float))
    return fail_bound(fill, v, false, below);
  if ((f->flags & TN_FIELD_NONZERO) != 0 && !(v < 0) && !(v > 0))
    return tn__fill_fail(fill, TN_OUT_OF_RANGE, "0 is not allowed");
  return TN_OK;
}

/* ------------------------------------------------------------ numbers, text */

static const char *skip_blanks(const char *s) {
  while (isspace((unsigned char)*s)) ++s;
  return s;
}

static tn_code fail_malformed(const tn__fill *fill) {
  return tn__fill_fail(fill, TN_INVALID, "`%.80s` is not %s", fill->value->as.s,
                       tn__field_kind(fill->field));
}

/* Reads one integer at *s and moves *s after it. */
static tn_code scan_int(const tn__fill *fill, const char **s, int64_t *out) {
  char *end = NULL;
  errno = 0;
  const long long v = strtoll(*s, &end, 10);
  if (end == *s) return fail_malformed(fill);
  if (errno == ERANGE)
    return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                         "`%.80s` does not fit an integer of 64 bits",
                         fill->value->as.s);
  *s = end;
  *out = v;
  return TN_OK;
}

/* The same for a double. */
static tn_code scan_float(const tn__fill *fill, const char **s, double *out) {
  char *end = NULL;
  double v;
  TN__TRY(tn__read_double(*s, &end, &v));
  if (end == *s) return fail_malformed(fill);
  if (errno == ERANGE && (isinf(v) || v == 0))
    return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                         "`%.80s` does not fit a number of 64 bits (it is too "
                         "%s)",
                         fill->value->as.s, v == 0 ? "near to 0" : "large");
  *s = end;
  *out = v;
  return TN_OK;
}

/* ----------------------------------------------------------------- scalars */

static tn_code bool_of(const tn__fill *fill, int32_t *out) {
  const tn_value *v = fill->value;
  if (v->type == TN_FIELD_STRING) {
    const bool yes =
        strcasecmp(v->as.s, "true") == 0 || strcmp(v->as.s, "1") == 0;
    const bool no =
        strcasecmp(v->as.s, "false") == 0 || strcmp(v->as.s, "0") == 0;
    *out = yes ? 1 : 0;
    return yes || no ? TN_OK : fail_malformed(fill);
  }
  if (v->type != TN_FIELD_BOOL && v->type != TN_FIELD_INT)
    return fail_wrong_type(fill);
  if (v->as.i != 0 && v->as.i != 1)
    return tn__fill_fail(fill, TN_INVALID, "%lld is not true (1) or false (0)",
                         (long long)v->as.i);
  *out = (int32_t)v->as.i;
  return TN_OK;
}

static tn_code int_of(const tn__fill *fill, int64_t *out) {
  const tn_value *v = fill->value;
  if (v->type == TN_FIELD_STRING) {
    const char *s = v->as.s;
    TN__TRY(scan_int(fill, &s, out));
    if (*skip_blanks(s) != '\0') return fail_malformed(fill);
  } else if (v->type == TN_FIELD_INT) {
    *out = v->as.i;
  } else {
    return fail_wrong_type(fill);
  }
  return check_int(fill, *out);
}

static tn_code float_of(const tn__fill *fill, double *out) {
  const tn_value *v = fill->value;
  if (v->type == TN_FIELD_STRING) {
    const char *s = v->as.s;
    TN__TRY(scan_float(fill, &s, out));
    if (*skip_blanks(s) != '\0') return fail_malformed(fill);
  } else if (v->type == TN_FIELD_FLOAT) {
    *out = v->as.f;
  } else if (v->type == TN_FIELD_INT) {
    *out = (double)v->as.i;
  } else {
    return fail_wrong_type(fill);
  }
  return check_float(fill, *out);
}

/* "; choose one of a, b; did you mean `a`?" */
static tn_code add_names(tn_code code, const char *given,
                         const char *const *names, size_t n) {
  const char *nearest = tn__find_nearest_word(given, names, n);
  for (size_t i = 0; i < n; ++i)
    (void)tn__fail_more(code, "%s%s", i == 0 ? "; choose one of " : ", ",
                        names[i]);
  if (nearest != NULL)
    (void)tn__fail_more(code, "; did you mean `%s`?", nearest);
  return code;
}

static tn_code enum_of(const tn__fill *fill, int32_t *out) {
  const tn_field *field = fill->field;
  const tn_value *v = fill->value;
  if (v->type == TN_FIELD_ENUM) {
    if (v->as.i < 0 || v->as.i >= field->n_values)
      return tn__fill_fail(fill, TN_OUT_OF_RANGE,
                           "has %u values, but number %lld was given",
                           field->n_values, (long long)v->as.i);
    *out = (int32_t)v->as.i;
    return TN_OK;
  }
  if (v->type != TN_FIELD_STRING) return fail_wrong_type(fill);
  const char *name = v->as.s == NULL ? "None" : v->as.s;
  for (uint32_t i = 0; i < field->n_values; ++i) {
    if (strcmp(field->values[i], name) != 0) continue;
    *out = (int32_t)i;
    return TN_OK;
  }
  return add_names(
      tn__fill_fail(fill, TN_INVALID, "has no value `%.80s`", name), name,
      field->values, field->n_values);
}

static bool takes_dtype(const tn_field *field, tn_dtype dtype) {
  if (field->n_values == 0) return !tn__dtype_is_storage(dtype);
  for (uint32_t i = 0; i < field->n_values; ++i)
    if (strcmp(field->values[i], tn__dtype_name(dtype)) == 0) return true;
  return false;
}

/* Adds the names of the types that the field takes. */
static tn_code add_dtype_names(tn_code code, const tn_field *field,
                               const char *given) {
  const char *names[TN__N_DTYPES];
  tn__dtype_list_names(names);
  return field->n_values > 0
             ? add_names(code, given, field->values, field->n_values)
             : add_names(code, given, names, TN__N_ARITHMETIC);
}

static tn_code dtype_of(const tn__fill *fill, tn_dtype *out) {
  const tn_value *v = fill->value;
  const tn_field *field = fill->field;
  if (v->type != TN_FIELD_DTYPE && v->type != TN_FIELD_STRING)
    return fail_wrong_type(fill);
  if (v->type == TN_FIELD_DTYPE) {
    *out = (tn_dtype)v->as.i;
    if (tn__dtype_bit(*out) == 0)
      return tn__fill_fail(fill, TN_INVALID, "%#llx is not an element type",
                           (unsigned long long)v->as.i);
  } else if (!tn__dtype_parse(v->as.s, out)) {
    return add_dtype_names(
        tn__fill_fail(fill, TN_INVALID, "`%.80s` is not an element type",
                      v->as.s),
        field, v->as.s);
  }
  if (takes_dtype(field, *out)) return TN_OK;
  const char *const name = tn__dtype_name(*out);
  return add_dtype_names(
      tn__fill_fail(fill, TN_INVALID, "%s is not one of its types", name),
      field, name);
}

static tn_code fill_string(tn__fill *fill, const char **out) {
  const tn_value *v = fill->value;
  if (v->type != TN_FIELD_STRING) return fail_wrong_type(fill);
  const size_t n = strlen(v->as.s) + 1;
  memcpy(fill->tail, v->as.s, n);
  *out = (const char *)fill->tail;
  fill->tail += tn__round_up_8(n);
  return TN_OK;
}

/* ------------------------------------------------------------------- lists */

/* Iterates over the entries of a list in any form. */
typedef struct entries {
  const char *at; /* in a text; NULL for a typed value */
  char close;     /* the closing bracket of the text, or NUL */
  uint32_t i;     /* entries seen */
  bool more;      /* `whole` or `number` holds an entry */
  int64_t whole;  /* of ints */
  double number;  /* of floats */
} entries;

static entries entries_of(const tn_value *value) {
  entries e = {0};
  if (value->type != TN_FIELD_STRING) return e;
  e.at = skip_blanks(value->as.s);
  if (*e.at == '[') e.close = ']';
  if (*e.at == '(') e.close = ')';
  if (e.close != '\0') ++e.at;
  return e;
}

static tn_code read_next_word(const tn__fill *fill, entries *e) {
  e->at = skip_blanks(e->at);
  const bool comma = e->i > 0 && *e->at == ',';
  if (comma) e->at = skip_blanks(e->at + 1);
  if (*e->at == e->close && (e->i > 0 || e->close != '\0')) {
    if (e->close != '\0' && *skip_blanks(e->at + 1) != '\0')
      return fail_malformed(fill);
    e->more = false;
    return TN_OK;
  }
  if (e->i > 0 && !comma) return fail_malformed(fill);
  e->more = true;
  return fill->field->type == TN_FIELD_INTS
             ? scan_int(fill, &e->at, &e->whole)
             : scan_float(fill, &e->at, &e->number);
}

/* Length of a typed value; a single number is a list of one. */
static uint32_t typed_length(const tn_value *v) {
  return v->type == TN_FIELD_INTS || v->type == TN_FIELD_FLOATS ? v->n : 1;
}

static tn_code read_next_typed(const tn__fill *fill, entries *e) {
  const tn_value *v = fill->value;
  const bool ints = fill->field->type == TN_FIELD_INTS;
  e->more = e->i < typed_length(v);
  if (!e->more) return TN_OK;
  if (v->type == TN_FIELD_INT || v->type == TN_FIELD_INTS) {
    e->whole = v->type == TN_FIELD_INT ? v->as.i : v->as.ints[e->i];
    e->number = (double)e->whole;
    return TN_OK;
  }
  if (ints || (v->type != TN_FIELD_FLOAT && v->type != TN_FIELD_FLOATS))
    return fail_wrong_type(fill);
  e->number = v->type == TN_FIELD_FLOAT ? v->as.f : v->as.floats[e->i];
  return TN_OK;
}

static tn_code store_entry(tn__fill *fill, const entries *e) {
  void *at = fill->tail + (size_t)e->i * 8;
  if (fill->field->type == TN_FIELD_INTS) {
    TN__TRY(check_int(fill, e->whole));
    memcpy(at, &e->whole, sizeof e->whole);
  } else {
    TN__TRY(check_float(fill, e->number));
    memcpy(at, &e->number, sizeof e->number);
  }
  return TN_OK;
}

/* tn_ints and tn_floats differ in the type of `v` only. */
static tn_code fill_list(tn__fill *fill, size_t room) {
  const tn_value *v = fill->value;
  entries e = entries_of(v);
  if (v->type != TN_FIELD_STRING && typed_length(v) > 0 && v->as.s == NULL &&
      tn__field_is_list(&(tn_field){.type = v->type}))
    return tn__fill_fail(fill, TN_INVALID, "a list without numbers (NULL)");
  for (;; ++e.i) {
    TN__TRY(e.at != NULL ? read_next_word(fill, &e)
                         : read_next_typed(fill, &e));
    if (!e.more) break;
    TN__TRY(store_entry(fill, &e));
  }
  if (fill->field->type == TN_FIELD_INTS)
    *(tn_ints *)tn__member(fill->field, fill->data) =
        (tn_ints){(const int64_t *)(void *)fill->tail, e.i};
  else
    *(tn_floats *)tn__member(fill->field, fill->data) =
        (tn_floats){(const double *)(void *)fill->tail, e.i};
  fill->tail += room * 8;
  return TN_OK;
}

/* ------------------------------------------------------------------ members */

size_t tn__value_entries(const tn_value *value) {
  size_t n = 1;
  if (value->type != TN_FIELD_STRING) return typed_length(value);
  for (const char *s = value->as.s; s != NULL && *s != '\0'; ++s)
    n += *s == ',';
  return n;
}

bool tn__value_is_none(const tn_field *field, const tn_value *value) {
  if (value->type == TN_FIELD_ENUM) return value->as.s == NULL;
  if (value->type != TN_FIELD_STRING) return false;
  if (value->as.s == NULL) return true;
  if (strcmp(value->as.s, "None") != 0) return false;
  if (field->type != TN_FIELD_STRING) return true;
  return (field->flags & TN_FIELD_OPTIONAL) != 0 && value->n != TN__QUOTED;
}

bool tn__member_is_set(const tn_field *field, const void *data) {
  int32_t has = 1;
  if ((field->flags & TN_FIELD_OPTIONAL) != 0 && field->has_offset != TN_NONE)
    memcpy(&has, (const unsigned char *)data + field->has_offset, sizeof has);
  return has != 0;
}

tn_code tn__fill_member(tn__fill *fill, size_t room) {
  void *at = tn__member(fill->field, fill->data);
  switch (fill->field->type) {
    case TN_FIELD_BOOL:
      return bool_of(fill, at);
    case TN_FIELD_INT:
      return int_of(fill, at);
    case TN_FIELD_FLOAT:
      return float_of(fill, at);
    case TN_FIELD_STRING:
      return fill_string(fill, at);
    case TN_FIELD_ENUM:
      return enum_of(fill, at);
    case TN_FIELD_DTYPE:
      return dtype_of(fill, at);
    case TN_FIELD_INTS:
    case TN_FIELD_FLOATS:
      return fill_list(fill, room);
    default:
      return tn__fill_fail(fill, TN_PLUGIN,
                           "has the unknown type %u; the plugin needs a newer "
                           "Tenon",
                           fill->field->type);
  }
}
