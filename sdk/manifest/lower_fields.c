/* SPDX-License-Identifier: Apache-2.0
 * lower_fields.c: lowers parameters and kernel options from `params:` to
 * tn_field tables, with the offsets that a C compiler gives to the members of
 * the generated struct.
 */
#include <string.h>
#include <strings.h>

#include "front.h"

/* The state of reading a list of parameters or options: the fields so far, and
 * the node and table of the current field. */
typedef struct field_reader {
  const tnm_reader *reader;
  tnm_diags *diags;
  tn_field **fields;
  uint32_t n; /* fields before this one */
  uint32_t least_since;
  const tnm_tree *node;
  tn_field *field;
} field_reader;

static const char *const type_names[] = {
    "bool", "int", "float", "string", "enum", "ints", "floats", "dtype", NULL};

static bool is_list_field(const tn_field *f) {
  return f->type == TN_FIELD_INTS || f->type == TN_FIELD_FLOATS;
}

/* -------------------------------------------------------------------- enums */

void tnm_report_meaningless_key(tnm_diags *diags, const tn_field *f,
                                const tnm_tree *value,
                                const char *types_with_key) {
  tnm_diag_spec spec = {"E0021", value->key_pos, NULL};
  size_t id = tnm_diag_add(diags, &spec, "`%s` has no meaning for type `%s`",
                           value->key, type_names[f->type - 1]);
  tnm_diag_add_help(diags, id, "%s", types_with_key);
}

/* Checks the name of an enum's value. Returns false after a message. */
static bool read_enum_name(const field_reader *s, const tnm_tree *item) {
  if (!tnm_check_scalar(s->diags, item, "a name")) return false;
  const char *allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  if (strspn(item->text, allowed) == strlen(item->text) &&
      strlen(item->text) <= TNM_MAX_NAME)
    return true;
  tnm_diag_spec spec = {"E0015", item->pos, NULL};
  size_t id = tnm_diag_add(s->diags, &spec, "`%.80s` cannot name an enum value",
                           item->text);
  tnm_diag_add_help(s->diags, id, "use letters, digits and `_`");
  return false;
}

/* Tests whether the name of an enum value differs from those of the earlier
 * values in C, where all letters become upper case. */
static bool is_new_in_c(const field_reader *s, const char *const *values,
                        const tnm_tree *item) {
  for (uint32_t i = 0; i < s->field->n_values; ++i) {
    if (strcasecmp(values[i], item->text) != 0) continue;
    tnm_diag_spec spec = {"E0015", item->pos, NULL};
    size_t id =
        tnm_diag_add(s->diags, &spec, "`%.80s` and `%.80s` are one name in C",
                     values[i], item->text);
    tnm_diag_add_help(s->diags, id, "use names that differ in more than case");
    return false;
  }
  return true;
}

/* Checks an item of `values`: a name of an enum, or an element type. */
static bool read_value_name(const field_reader *s, tnm_unique *names,
                            const char *const *values, const tnm_tree *item) {
  tn_dtype dtype;
  const bool is_enum = s->field->type == TN_FIELD_ENUM;
  const bool valid = is_enum ? read_enum_name(s, item)
                             : tnm_read_dtype(s->diags, item, &dtype);
  return valid && tnm_unique_add(names, s->diags, item) &&
         (!is_enum || is_new_in_c(s, values, item));
}

static void read_values(const field_reader *s) {
  const tnm_tree *list = tnm_tree_get(s->node, "values");
  const bool is_enum = s->field->type == TN_FIELD_ENUM;
  const bool is_dtype = s->field->type == TN_FIELD_DTYPE;
  if (list != NULL && !is_enum && !is_dtype)
    tnm_report_meaningless_key(s->diags, s->field, list,
                               "an enum and a dtype have it");
  if (!is_enum && !(is_dtype && list != NULL)) return;
  if (list == NULL || list->n == 0) {
    tnm_diag_spec spec = {"E0011", list == NULL ? s->node->pos : list->pos,
                          NULL};
    size_t id = tnm_diag_add(s->diags, &spec, "%s needs `values`",
                             is_enum ? "an enum" : "a list of types");
    tnm_diag_add_help(s->diags, id, "add `values: [%s]`",
                      is_enum ? "first, second" : "f32, i4");
    return;
  }
  const char **values = TNM_NEW(s->reader->arena, const char *, list->n);
  tnm_unique names;
  if (values == NULL || !tnm_unique_init(&names, s->reader->arena, list->n))
    return;
  for (const tnm_tree *item = list->first; item != NULL; item = item->next) {
    if (read_value_name(s, &names, values, item))
      values[s->field->n_values++] = item->text;
  }
  s->field->values = values;
}

/* --------------------------------------------------------------------- rank */

/* Parses a list's length, "2", "1..3" or "1.."; false for other text. */
static bool parse_list_length(const char *text, tn_field *f) {
  const char *dots = strstr(text, "..");
  char first[24];
  size_t n = dots == NULL ? strlen(text) : (size_t)(dots - text);
  int64_t least, most = TN_NONE;
  if (n >= sizeof first) return false;
  memcpy(first, text, n);
  first[n] = '\0';
  if (!tnm_parse_int(first, &least)) return false;
  if (dots == NULL)
    most = least;
  else if (dots[2] != '\0' && !tnm_parse_int(dots + 2, &most))
    return false;
  if (least < 0 || most < least || most > TN_NONE) return false;
  f->min_rank = (uint32_t)least;
  f->max_rank = (uint32_t)most;
  return true;
}

/* Copies the bounds of the length of list `name`; false if there is none. */
static bool find_length_field(const field_reader *s, const char *name) {
  for (uint32_t i = 0; i < s->n; ++i) {
    const tn_field *other = s->fields[i];
    if (strcmp(other->name, name) != 0 || !is_list_field(other)) continue;
    s->field->rank_of = i;
    s->field->min_rank = other->min_rank;
    s->field->max_rank = other->max_rank;
    return true;
  }
  return false;
}

/* Reads `rank`: the bounds of a list's length, or another list's name. */
static void read_list_length(const field_reader *s) {
  const tnm_tree *value = tnm_tree_get(s->node, "rank");
  if (value == NULL) return;
  if (!is_list_field(s->field)) {
    tnm_report_meaningless_key(s->diags, s->field, value,
                               "ints and floats have it");
    return;
  }
  if (parse_list_length(value->text, s->field) ||
      find_length_field(s, value->text))
    return;
  tnm_diag_spec spec = {"E0022", value->pos, NULL};
  size_t id =
      tnm_diag_add(s->diags, &spec, "invalid rank `%.80s`", value->text);
  tnm_diag_add_help(s->diags, id,
                    "write a length `2`, a range `1..3`, or the name of a list "
                    "parameter before this one");
}

uint64_t tnm_param_dtypes(const tn_field *field) {
  uint64_t set = 0;
  tn_dtype dtype;
  for (uint32_t i = 0; i < field->n_values; ++i)
    if (tn__dtype_parse(field->values[i], &dtype)) set |= tn__dtype_bit(dtype);
  return field->n_values > 0 ? set : (1ull << TN__N_ARITHMETIC) - 1;
}

/* ---------------------------------------------------------- checking values */

/* A value that is checked: the field that it is for, its node in the manifest,
 * and `what`, its kind for messages ("a default"). */
typedef struct checked_value {
  tnm_diags *diags;
  const tn_field *field;
  const tnm_tree *node;
  const char *what;
  bool item; /* the value is one item of a list */
} checked_value;

/* Tests whether a text is a word like `null`: None in other languages. */
static bool means_none(const char *text) {
  return strcasecmp(text, "none") == 0 || strcasecmp(text, "null") == 0 ||
         strcasecmp(text, "nil") == 0 || strcmp(text, "~") == 0;
}

/* Reports a value that breaks a rule of its field. Returns the message's id. */
static size_t report_bad_value(const checked_value *c, const char *rule) {
  tnm_diag_spec spec = {"E0020", c->node->pos, NULL};
  const bool optional = !c->item && (c->field->flags & TN_FIELD_OPTIONAL) != 0;
  const char *more = optional ? " or None" : "";
  if (c->node->kind != TNM_SCALAR)
    return tnm_diag_add(c->diags, &spec, "%s of `%s` must be %s%s", c->what,
                        c->field->name, rule, more);
  const size_t id =
      tnm_diag_add(c->diags, &spec, "%s of `%s` is `%.80s`, must be %s%s",
                   c->what, c->field->name, c->node->text, rule, more);
  if (optional && means_none(c->node->text))
    tnm_diag_add_help(c->diags, id, "did you mean `None`?");
  return id;
}

/* Returns the parameter type that accepts a value like this one, for a help
 * line; NULL if no type is likely. */
static const char *find_likely_type(const checked_value *c) {
  const char *text = c->node->text;
  const bool list = is_list_field(c->field);
  int64_t whole = 0;
  double number = 0;
  if (c->node->kind == TNM_MAP) return NULL;
  if (c->node->kind == TNM_LIST) {
    const tnm_tree *first = c->node->first;
    if (first == NULL || first->kind != TNM_SCALAR) return NULL;
    return tnm_parse_double(first->text, &number) ? "ints` or `floats" : NULL;
  }
  if (!list && tnm_parse_int(text, &whole)) return "int";
  if (tnm_parse_double(text, &number)) return list ? "floats" : "float";
  if (list || strchr("0123456789+-.", text[0]) != NULL) return NULL;
  const bool truth = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 ||
                     strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
  if (truth && c->field->type == TN_FIELD_BOOL) return NULL;
  return truth ? "bool" : "string";
}

/* Reports a value of the wrong type; `form` describes values of that type. */
static void report_wrong_type(const checked_value *c, const char *rule,
                              const char *form) {
  const size_t id = report_bad_value(c, rule);
  const char *name = c->field->name;
  const char *type = find_likely_type(c);
  const bool nothing = c->node->kind == TNM_SCALAR && means_none(c->node->text);
  if (nothing && (c->field->flags & TN_FIELD_OPTIONAL) == 0)
    tnm_diag_add_help(c->diags, id,
                      "write %s, or declare `%s` with `optional: "
                      "true`",
                      form, name);
  else if (type != NULL && !nothing)
    tnm_diag_add_help(c->diags, id, "write %s, or declare `%s` with `type: %s`",
                      form, name, type);
  else if (!nothing)
    tnm_diag_add_help(c->diags, id, "write %s", form);
}

/* Reports a value outside of its bounds. `rule` is "at least 1", "above 0" or
 * "other than 0". */
static void report_out_of_bounds(const checked_value *c, const char *rule) {
  const char *bound = strrchr(rule, ' ') + 1;
  const size_t id = report_bad_value(c, rule);
  if (strncmp(rule, "other", 5) == 0)
    tnm_diag_add_help(c->diags, id, "write another number, or drop `nonzero`");
  else if (strncmp(rule, "at ", 3) != 0)
    tnm_diag_add_help(c->diags, id, "write a number %s, or change `%.5s`", rule,
                      rule);
  else
    tnm_diag_add_help(c->diags, id, "write `%s`, or change `%s`", bound,
                      strstr(rule, "least") != NULL ? "min" : "max");
}

/* Checks an integer and its bounds. Returns false after a message. */
static bool check_int(const checked_value *c) {
  int64_t value;
  char rule[64];
  if (!tnm_parse_int(c->node->text, &value)) {
    report_wrong_type(c, tnm_expected_int(c->node->text),
                      "a whole number such as `1`");
    return false;
  }
  if (tnm_check_int_limits(c->field, value, rule)) return true;
  report_out_of_bounds(c, rule);
  return false;
}

/* Checks a number and its bounds. Returns false after a message. */
static bool check_float(const checked_value *c) {
  double value;
  char rule[64];
  if (!tnm_parse_double(c->node->text, &value)) {
    report_wrong_type(c, tnm_expected_double(c->node->text),
                      "a number such as `0.5`");
    return false;
  }
  if (tnm_check_float_limits(c->field, value, rule)) return true;
  report_out_of_bounds(c, rule);
  return false;
}

/* Checks an element type. Returns false after a message. */
static bool check_dtype(const checked_value *c) {
  const uint64_t allowed = tnm_param_dtypes(c->field);
  tn_dtype dtype;
  if (!tn__dtype_parse(c->node->text, &dtype)) {
    tnm_suggest_dtype(c->diags, report_bad_value(c, "a type"), c->node->text);
    return false;
  }
  if (tn__dtype_bit(dtype) & allowed) return true;
  const size_t id = report_bad_value(c, "one of its types");
  if (c->field->n_values > 0)
    tnm_suggest_word(c->diags, id, c->node->text, c->field->values,
                     c->field->n_values);
  else
    tnm_diag_add_help(c->diags, id,
                      "a parameter takes storage types if `values` lists "
                      "them: `values: [f32, %s]`",
                      c->node->text);
  return false;
}

/* Checks the name of an enum's value. Returns false after a message. */
static bool check_enum(const checked_value *c) {
  const tn_field *f = c->field;
  for (uint32_t i = 0; i < f->n_values; ++i) {
    if (strcmp(c->node->text, f->values[i]) == 0) return true;
  }
  if (f->n_values == 0) return true;
  size_t id = report_bad_value(c, "one of its values");
  tnm_suggest_word(c->diags, id, c->node->text, f->values, f->n_values);
  return false;
}

/* Checks a boolean: true, false, 1 or 0. Returns false after a message. */
static bool check_bool(const checked_value *c) {
  const char *text = c->node->text;
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 ||
      strcmp(text, "1") == 0 || strcmp(text, "0") == 0)
    return true;
  report_wrong_type(c, "true or false", "`true` or `false`");
  return false;
}

/* Checks one value, or item of a list. Returns false after a message. */
static bool check_scalar(const checked_value *c) {
  if (c->node->kind != TNM_SCALAR) {
    report_wrong_type(c, "a single value", "one value without brackets");
    return false;
  }
  switch (c->field->type) {
    case TN_FIELD_BOOL:
      return check_bool(c);
    case TN_FIELD_INT:
    case TN_FIELD_INTS:
      return check_int(c);
    case TN_FIELD_FLOAT:
    case TN_FIELD_FLOATS:
      return check_float(c);
    case TN_FIELD_ENUM:
      return check_enum(c);
    case TN_FIELD_DTYPE:
      return check_dtype(c);
    default:
      return true;
  }
}

/* Checks a list: its length and its items. Returns false after a message. */
static bool check_list(const checked_value *c) {
  const tn_field *f = c->field;
  size_t n = c->node->kind == TNM_LIST ? c->node->n : 1;
  bool repeated = c->node->kind == TNM_SCALAR && f->rank_of != TN_NONE;
  if (!repeated && (n < f->min_rank || n > f->max_rank)) {
    char rule[64];
    if (f->min_rank == f->max_rank)
      snprintf(rule, sizeof rule, "a list of %u", f->min_rank);
    else if (f->max_rank == TN_NONE)
      snprintf(rule, sizeof rule, "a list of at least %u", f->min_rank);
    else
      snprintf(rule, sizeof rule, "a list of %u to %u", f->min_rank,
               f->max_rank);
    report_bad_value(c, rule);
    return false;
  }
  if (c->node->kind == TNM_SCALAR) return check_scalar(c);
  bool ok = true;
  for (const tnm_tree *item = c->node->first; item != NULL; item = item->next) {
    checked_value one = *c;
    one.node = item;
    one.item = true;
    ok = check_scalar(&one) && ok;
  }
  return ok;
}

bool tnm_check_value(tnm_diags *diags, const tn_field *field,
                     const tnm_tree *node, const char *what) {
  checked_value c = {
      .diags = diags, .field = field, .node = node, .what = what};
  if (node->kind == TNM_MAP) {
    report_bad_value(&c, "a value or a list");
    return false;
  }
  if ((field->flags & TN_FIELD_OPTIONAL) && node->kind == TNM_SCALAR &&
      strcmp(node->text, "None") == 0)
    return true;
  return is_list_field(field) ? check_list(&c) : check_scalar(&c);
}

const char *tnm_value_text(tn__arena *arena, const tnm_tree *node) {
  if (node->kind == TNM_SCALAR) return node->text;
  size_t size = 3;
  for (const tnm_tree *i = node->first; i != NULL; i = i->next)
    size += i->kind == TNM_SCALAR ? strlen(i->text) + 2 : 0;
  char *text = tn__arena_alloc(arena, size);
  if (text == NULL) return NULL;
  char *at = text;
  *at++ = '[';
  for (const tnm_tree *i = node->first; i != NULL; i = i->next) {
    if (i->kind != TNM_SCALAR) continue;
    if (at > text + 1) at = stpcpy(at, ", ");
    at = stpcpy(at, i->text);
  }
  *at = ']';
  return text;
}

/* ---------------------------------------------------------- default, layout */

/* Returns the number of values of a default: "[1, 2]" has 2, "1" has 1. */
static size_t count_default_values(const char *text) {
  size_t n = 1;
  if (strcmp(text, "[]") == 0) return 0;
  for (const char *at = text; (at = strchr(at, ',')) != NULL; ++at) ++n;
  return n;
}

/* Tests whether two lists that must have the same length do so by default. */
static bool has_fitting_default(const field_reader *s, const tnm_tree *value) {
  if (value->kind != TNM_LIST || s->field->rank_of == TN_NONE) return true;
  const tn_field *other = s->fields[s->field->rank_of];
  if (other->default_text == NULL || other->default_text[0] != '[') return true;
  size_t n = count_default_values(other->default_text);
  if (value->n == n) return true;
  tnm_diag_spec spec = {"E0020", value->pos, NULL};
  size_t id = tnm_diag_add(
      s->diags, &spec, "default of `%s` has %zu values, that of `%s` has %zu",
      s->field->name, value->n, other->name, n);
  tnm_diag_add_help(s->diags, id, "give one value, or as many as `%s` has",
                    other->name);
  return false;
}

static void read_default(const field_reader *s) {
  tn_field *f = s->field;
  const tnm_tree *value = tnm_tree_get(s->node, "default");
  if (value == NULL && (f->flags & TN_FIELD_OPTIONAL) != 0) {
    f->default_text = "None";
  } else if (value == NULL) {
    f->flags |= TN_FIELD_REQUIRED;
  } else if (tnm_check_value(s->diags, f, value, "default") &&
             has_fitting_default(s, value)) {
    f->default_text = tnm_value_text(s->reader->arena, value);
  }
}

/* Returns the next offset with this alignment in a struct of *size bytes, and
 * adds `bytes` bytes there to *size. */
static uint32_t reserve_bytes(uint32_t *size, uint32_t bytes, uint32_t align) {
  uint32_t offset = (*size + align - 1) / align * align;
  *size = offset + bytes;
  return offset;
}

/* Returns the offset of the struct member for field f, and adds its bytes to
 * the struct's size. Sizes and alignments are those of its C type on every
 * 64-bit machine. */
static uint32_t reserve_member(uint32_t *size, const tn_field *f) {
  switch (f->type) {
    case TN_FIELD_INTS:
    case TN_FIELD_FLOATS:
      return reserve_bytes(size, 16, 8);
    case TN_FIELD_INT:
    case TN_FIELD_FLOAT:
    case TN_FIELD_STRING:
      return reserve_bytes(size, 8, 8);
    default:
      return reserve_bytes(size, 4, 4);
  }
}

static bool has_8_byte_alignment(const tn_field *f) {
  return f->type != TN_FIELD_BOOL && f->type != TN_FIELD_ENUM &&
         f->type != TN_FIELD_DTYPE;
}

/* Sets the offsets of n fields, and returns the size of their struct. */
static uint32_t set_offsets(tn_field *const *fields, uint32_t n) {
  uint32_t size = 0;
  uint32_t align = 4;
  for (uint32_t i = 0; i < n; ++i) {
    tn_field *f = fields[i];
    if (has_8_byte_alignment(f)) align = 8;
    f->offset = reserve_member(&size, f);
    if (f->flags & TN_FIELD_OPTIONAL)
      f->has_offset = reserve_bytes(&size, 4, 4);
  }
  return (size + align - 1) / align * align;
}

/* ---------------------------------------------------------------- one field */

static void read_flags(const field_reader *s) {
  if (tnm_get_bool(s->diags, s->node, "optional"))
    s->field->flags |= TN_FIELD_OPTIONAL;
  if (!tnm_get_bool(s->diags, s->node, "dynamic")) return;
  if (s->field->type <= TN_FIELD_FLOAT)
    s->field->flags |= TN_FIELD_DYNAMIC;
  else
    tnm_report_meaningless_key(s->diags, s->field,
                               tnm_tree_get(s->node, "dynamic"),
                               "bool, int and float have it");
}

static void read_lifecycle(const field_reader *s) {
  tn_field *f = s->field;
  tnm_life life = tnm_read_life(s->reader, s->node, s->least_since);
  f->since = life.since;
  f->deprecated_since = life.deprecated_since;
  f->use = life.use;
  if (s->n > 0)
    tnm_check_since(s->diags, s->node, "parameter", s->fields[s->n - 1]->since,
                    life.since);
}

/* Reads `name` and `alias`. Returns false without a valid name. */
static bool read_names(const field_reader *s, tnm_unique *names) {
  const tnm_tree *name = tnm_tree_get(s->node, "name");
  const tnm_tree *alias = tnm_tree_get(s->node, "alias");
  if (name == NULL || !tnm_read_member_name(s->diags, name, "a parameter") ||
      !tnm_unique_add(names, s->diags, name))
    return false;
  s->field->name = name->text;
  if (alias != NULL && tnm_read_member_name(s->diags, alias, "a parameter") &&
      tnm_unique_add(names, s->diags, alias))
    s->field->alias = alias->text;
  return true;
}

/* Reads the type of a field; false after a mistake: it then counts as float. */
static bool read_type(const field_reader *s) {
  const tnm_tree *type = tnm_tree_get(s->node, "type");
  int found = type == NULL ? -1
                           : tnm_read_word(s->diags, type,
                                           "the type of a "
                                           "parameter",
                                           type_names);
  s->field->type = found < 0 ? TN_FIELD_FLOAT : (uint32_t)found + 1;
  return found >= 0;
}

static void read_field(const field_reader *s) {
  *s->field = (tn_field){.struct_size = sizeof *s->field,
                         .name = s->field->name,
                         .alias = s->field->alias,
                         .has_offset = TN_NONE,
                         .rank_of = TN_NONE,
                         .max_rank = TN_NONE,
                         .doc = tnm_get_text(s->node, "doc")};
  bool typed = read_type(s);
  read_lifecycle(s);
  if (!typed) return;
  read_flags(s);
  read_values(s);
  tnm_lower_limits(s->diags, s->node, s->field);
  read_list_length(s);
  read_default(s);
}

tn_field **tnm_lower_fields(const tnm_reader *reader, const tnm_tree *list,
                            uint32_t since, uint32_t *n, uint32_t *size) {
  *n = 0;
  *size = 0;
  if (list == NULL || list->n == 0) return NULL;
  tn_field **fields = TNM_NEW(reader->arena, tn_field *, list->n);
  tnm_unique names;
  if (fields == NULL || !tnm_unique_init(&names, reader->arena, 2 * list->n))
    return NULL;
  for (tnm_tree *node = list->first; node != NULL; node = node->next) {
    tn_field *field = TNM_NEW(reader->arena, tn_field, 1);
    if (field == NULL) return NULL;
    field_reader s = {reader, reader->diags, fields, *n, since, node, field};
    if (!tnm_schema_check(reader->diags, &tnm_schema_param, node) ||
        !read_names(&s, &names))
      continue;
    read_field(&s);
    fields[(*n)++] = field;
  }
  *size = set_offsets(fields, *n);
  return fields;
}
