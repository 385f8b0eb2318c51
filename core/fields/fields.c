/* SPDX-License-Identifier: Apache-2.0
 * fields.c: makes a params struct of values by its field table. It finds the
 * field of each value, adds defaults, and checks the rules between fields. The
 * rules for a single value are in fields_value.c.
 */
#include "fields.h"

#include <string.h>

/* -------------------------------------------------------------------- keys */

/* Keys like `__this__` belong to front ends. */
static bool is_hidden(const char *key) {
  const size_t n = strlen(key);
  return n > 4 && strncmp(key, "__", 2) == 0 && strcmp(key + n - 2, "__") == 0;
}

static bool is_key_of(const tn_field *field, const char *key) {
  return strcmp(field->name, key) == 0 ||
         (field->alias != NULL && strcmp(field->alias, key) == 0);
}

static const tn_field *field_of(const tn__fields *fields, const char *key) {
  for (uint32_t i = 0; i < fields->n; ++i)
    if (is_key_of(fields->fields[i], key)) return fields->fields[i];
  return NULL;
}

bool tn__fields_has_key(const tn__fields *fields, const char *key) {
  return field_of(fields, key) != NULL;
}

static tn_code fail_unknown_key(const tn__fields *fields, const char *key) {
  const char *names[128];
  size_t n = 0;
  if (fields->n == 0)
    return tn__fail(TN_NOT_FOUND, "%s takes no parameters; remove `%.80s`",
                    fields->where, key);
  for (uint32_t i = 0; i < fields->n && n + 2 <= 128; ++i) {
    names[n++] = fields->fields[i]->name;
    if (fields->fields[i]->alias != NULL) names[n++] = fields->fields[i]->alias;
  }
  const char *nearest = tn__find_nearest_word(key, names, n);
  (void)tn__fail(TN_NOT_FOUND, "`%.80s` is not a parameter of %s", key,
                 fields->where);
  if (nearest != NULL)
    (void)tn__fail_more(TN_NOT_FOUND, "; did you mean `%s`?", nearest);
  (void)tn__fail_more(TN_NOT_FOUND, " (its parameters are");
  for (uint32_t i = 0; i < fields->n; ++i)
    (void)tn__fail_more(TN_NOT_FOUND, "%s `%s`", i == 0 ? "" : ",",
                        fields->fields[i]->name);
  return tn__fail_more(TN_NOT_FOUND, ")");
}

static tn_code fail_repeated(const tn__fields *fields, const tn_field *field,
                             const char *first, const char *second) {
  if (strcmp(first, second) == 0)
    return tn__fail(TN_INVALID,
                    "parameter `%s` of %s is given twice; give it once",
                    field->name, fields->where);
  return tn__fail(TN_INVALID,
                  "parameter `%s` of %s is given twice, as `%s` and as `%s`, "
                  "which mean the same; give it once",
                  field->name, fields->where, first, second);
}

/* Checks that every key is known and that no field occurs twice. */
static tn_code check_keys(const tn__fields *fields, const tn_value *values,
                          size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (values[i].key == NULL)
      return tn__fail(TN_INVALID, "value number %zu for %s has no key", i,
                      fields->where);
    if (is_hidden(values[i].key)) continue;
    const tn_field *field = field_of(fields, values[i].key);
    if (field == NULL) return fail_unknown_key(fields, values[i].key);
    for (size_t j = 0; j < i; ++j)
      if (is_key_of(field, values[j].key))
        return fail_repeated(fields, field, values[j].key, values[i].key);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ sources */

/* The user's values, then the defaults. */
typedef struct source {
  const tn__env *env;
  const tn__fields *fields;
  const tn_value *values;
  size_t n;
} source;

static const tn_value *user_value(const source *from, const tn_field *field) {
  for (size_t i = 0; i < from->n; ++i)
    if (is_key_of(field, from->values[i].key)) return &from->values[i];
  return NULL;
}

/* The user's value, otherwise the default; a NULL text is None. */
static tn_value value_of(const source *from, const tn_field *field) {
  const tn_value *value = user_value(from, field);
  return value != NULL ? *value
                       : tn_value_text(field->name, field->default_text);
}

/* The field that decides the length of this list: the end of the rank_of
 * chain. */
static const tn_field *rank_root(const tn__fields *fields,
                                 const tn_field *field) {
  for (uint32_t hops = 0; hops < fields->n; ++hops) {
    if (field->rank_of >= fields->n) break;
    field = fields->fields[field->rank_of];
  }
  return field;
}

/* Entries that a list needs room for, including repetition. */
static size_t list_room(const source *from, const tn_field *field) {
  const tn_value own = value_of(from, field);
  const tn_value root = value_of(from, rank_root(from->fields, field));
  const size_t a = tn__value_entries(&own), b = tn__value_entries(&root);
  return a > b ? a : b;
}

static size_t tail_bytes(const source *from) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < from->fields->n; ++i) {
    const tn_field *field = from->fields->fields[i];
    const tn_value value = value_of(from, field);
    if (tn__field_is_list(field))
      bytes += list_room(from, field) * 8;
    else if (field->type == TN_FIELD_STRING && value.type == TN_FIELD_STRING &&
             value.as.s != NULL)
      bytes += tn__round_up_8(strlen(value.as.s) + 1);
  }
  return bytes;
}

/* ------------------------------------------------------------------ filling */

/* A value that the field accepts, as an example for a message. */
static const char *find_sample(const tn_field *field) {
  switch (field->type) {
    case TN_FIELD_BOOL:
      return "true";
    case TN_FIELD_INT:
      return "1";
    case TN_FIELD_FLOAT:
      return "0.5";
    case TN_FIELD_ENUM:
      return field->n_values > 0 ? field->values[0] : "name";
    case TN_FIELD_INTS:
      return "[1, 2]";
    case TN_FIELD_FLOATS:
      return "[0.5, 1]";
    case TN_FIELD_DTYPE:
      return field->n_values > 0 ? field->values[0] : "f32";
    default:
      return "\"text\"";
  }
}

static tn_code fail_missing(const tn__fields *fields, const tn_field *field) {
  return tn__fail(TN_INVALID,
                  "%s needs the parameter `%s` (%s), which has no default; "
                  "give it, for example %s=%s",
                  fields->where, field->name, tn__field_kind(field),
                  field->name, find_sample(field));
}

static void warn_deprecated(const source *from, const tn_field *field) {
  tn__log(from->env, TN__LOG_REGISTRY, TN_LOG_WARNING,
          "parameter `%s` of %s is deprecated since release %u%s%s",
          field->name, from->fields->where, field->deprecated_since,
          field->use == NULL ? "" : "; use ",
          field->use == NULL ? "" : field->use);
}

static void set_flag(const tn__fill *fill, int32_t given) {
  const tn_field *field = fill->field;
  if ((field->flags & TN_FIELD_OPTIONAL) != 0 && field->has_offset != TN_NONE)
    memcpy(fill->data + field->has_offset, &given, sizeof given);
}

/* Stores one value; a list may have `room` entries. */
static tn_code fill_value(tn__fill *fill, const tn_value *value, size_t room) {
  const tn_field *field = fill->field;
  const bool none = tn__value_is_none(field, value);
  tn_code rc = TN_OK;
  fill->value = value;
  set_flag(fill, none ? 0 : 1);
  if (!none)
    rc = tn__fill_member(fill, room);
  else if ((field->flags & TN_FIELD_OPTIONAL) == 0)
    rc = tn__fill_fail(fill, TN_INVALID, "None is no value for it; it takes %s",
                       tn__field_kind(field));
  fill->value = NULL;
  return rc;
}

static tn_code fill_one(const source *from, tn__fill *fill) {
  const tn_field *field = fill->field;
  const bool user = user_value(from, field) != NULL;
  const tn_value value = value_of(from, field);
  if (!user && (field->flags & TN_FIELD_REQUIRED) != 0)
    return fail_missing(from->fields, field);
  if (user && field->deprecated_since != 0) warn_deprecated(from, field);
  const tn_code rc = fill_value(
      fill, &value, tn__field_is_list(field) ? list_room(from, field) : 0);
  if (rc == TN_OK || rc == TN_OUT_OF_MEMORY || user) return rc;
  return tn__fail_more(TN_PLUGIN,
                       " (this is the default of the parameter, so the plugin "
                       "is at fault)");
}

/* -------------------------------------------------------------------- ranks */

static tn_code check_rank(const tn__fill *fill, int64_t n) {
  const tn_field *field = fill->field;
  if (field->min_rank == field->max_rank && n != (int64_t)field->min_rank)
    return tn__fill_fail(fill, TN_INVALID,
                         "has %lld value%s, but exactly %u %s wanted",
                         (long long)n, n == 1 ? "" : "s", field->min_rank,
                         field->min_rank == 1 ? "is" : "are");
  if (n < (int64_t)field->min_rank)
    return tn__fill_fail(fill, TN_INVALID,
                         "has %lld value%s, but at least %u are wanted",
                         (long long)n, n == 1 ? "" : "s", field->min_rank);
  if (field->max_rank != TN_NONE && n > (int64_t)field->max_rank)
    return tn__fill_fail(fill, TN_INVALID,
                         "has %lld values, but at most %u are allowed",
                         (long long)n, field->max_rank);
  return TN_OK;
}

/* Extends a list to the length of another one by repeating its single value. */
static tn_code repeat_to_rank(tn__fill *fill, const tn_field *root,
                              tn_ints *list, int64_t n) {
  if (list->n == n) return TN_OK;
  if (list->n != 1)
    return tn__fill_fail(fill, TN_INVALID,
                         "has %lld values, but `%s` has %lld; give one value "
                         "or as many",
                         (long long)list->n, root->name, (long long)n);
  /* The list is in the struct's tail, with room for the repetition. */
  int64_t *v =
      (int64_t *)(void *)(fill->data +
                          ((const unsigned char *)list->v - fill->data));
  for (int64_t i = 1; i < n; ++i) v[i] = v[0];
  list->n = n;
  return TN_OK;
}

/* tn_floats has the representation of tn_ints (a pointer to eight-byte entries
 * and a length), so one function handles both. */
static tn_code finish_list(tn__fill *fill) {
  const tn_field *field = fill->field;
  const tn_field *root = rank_root(fill->fields, field);
  tn_ints list, other;
  if (!tn__member_is_set(field, fill->data)) return TN_OK;
  memcpy(&list, tn__member(field, fill->data), sizeof list);
  memcpy(&other, tn__member(root, fill->data), sizeof other);
  if (root != field && tn__field_is_list(root) &&
      tn__member_is_set(root, fill->data)) {
    TN__TRY(repeat_to_rank(fill, root, &list, other.n));
    memcpy(tn__member(field, fill->data), &list, sizeof list);
  }
  return check_rank(fill, list.n);
}

static tn_code fill_all(const source *from, tn__fill *fill) {
  const tn__fields *fields = from->fields;
  for (uint32_t i = 0; i < fields->n; ++i) {
    fill->field = fields->fields[i];
    TN__TRY(fill_one(from, fill));
  }
  for (uint32_t i = 0; i < fields->n; ++i) {
    fill->field = fields->fields[i];
    if (tn__field_is_list(fill->field)) TN__TRY(finish_list(fill));
  }
  return TN_OK;
}

tn_code tn__fields_build(const tn__env *env, const tn__fields *fields,
                         const tn_value *values, size_t n, void **out) {
  const source from = {env, fields, values, n};
  *out = NULL;
  TN__TRY(check_keys(fields, values, n));
  const size_t head = tn__round_up_8(fields->size);
  const size_t bytes = head + tail_bytes(&from);
  unsigned char *data = tn__zalloc(env, bytes);
  if (data == NULL) return tn__fail_memory(bytes, "parameters");
  tn__fill fill = {.fields = fields, .data = data, .tail = data + head};
  const tn_code rc = fill_all(&from, &fill);
  if (rc != TN_OK) {
    tn__free(env, data);
    return rc;
  }
  *out = data;
  return TN_OK;
}

/* ------------------------------------------------------------------- change */

static bool is_number(const tn_field *field) {
  return !tn__field_is_list(field) && field->type != TN_FIELD_STRING;
}

static bool is_changeable(const tn_field *field) {
  return (field->flags & TN_FIELD_DYNAMIC) != 0 && is_number(field);
}

static size_t number_bytes(const tn_field *field) {
  return field->type == TN_FIELD_INT || field->type == TN_FIELD_FLOAT ? 8 : 4;
}

static tn_code check_dynamic(const tn__fields *fields, const tn_field *field) {
  if (is_changeable(field)) return TN_OK;
  return tn__fail(
      TN_UNSUPPORTED,
      "parameter `%s` of %s is not declared dynamic%s, so it cannot "
      "change after a call was prepared; prepare another call",
      field->name, fields->where,
      is_number(field) ? "" : " and no single number");
}

tn_code tn__fields_set(const tn__fields *fields, const tn_value *value,
                       void *data) {
  if (value->key == NULL)
    return tn__fail(TN_INVALID, "the value for %s has no key", fields->where);
  const tn_field *field = field_of(fields, value->key);
  if (field == NULL) return fail_unknown_key(fields, value->key);
  TN__TRY(check_dynamic(fields, field));
  /* Keep the old scalar and its flag, in case the value is refused. */
  const size_t bytes = number_bytes(field);
  unsigned char before[8];
  int32_t given = tn__member_is_set(field, data);
  memcpy(before, tn__member_of(field, data), bytes);
  tn__fill fill = {.fields = fields, .field = field, .data = data};
  const tn_code rc = fill_value(&fill, value, 0);
  if (rc == TN_OK) return TN_OK;
  memcpy(tn__member(field, data), before, bytes);
  set_flag(&fill, given);
  return rc;
}

void tn__fields_copy_dynamic(const tn__fields *fields, void *data,
                             const void *from) {
  for (uint32_t i = 0; i < fields->n; ++i) {
    const tn_field *field = fields->fields[i];
    if (!is_changeable(field)) continue;
    const tn__fill fill = {.fields = fields, .field = field, .data = data};
    memcpy(tn__member(field, data), tn__member_of(field, from),
           number_bytes(field));
    set_flag(&fill, tn__member_is_set(field, from));
  }
}

/* ------------------------------------------------------------------- prefix */

static bool fail_prefix(const tn_target *want, const tn_field *field,
                        const char *what) {
  (void)tn__fail(TN_PLUGIN,
                 "the kernels for %s were compiled for other parameters: %s "
                 "of `%s` differs from the loaded one; regenerate and rebuild "
                 "them against the operator's current manifest",
                 want->op, what, field->name);
  return false;
}

static bool is_same_field(const tn_target *want, const tn_field *a,
                          const tn_field *b) {
  if (strcmp(a->name, b->name) != 0) return fail_prefix(want, a, "the name");
  if (a->type != b->type) return fail_prefix(want, a, "the type");
  if (a->offset != b->offset || a->has_offset != b->has_offset)
    return fail_prefix(want, a, "the offset");
  if (a->type != TN_FIELD_ENUM) return true;
  if (a->n_values > b->n_values) return fail_prefix(want, a, "the enum");
  for (uint32_t i = 0; i < a->n_values; ++i)
    if (strcmp(a->values[i], b->values[i]) != 0)
      return fail_prefix(want, a, "the enum");
  return true;
}

bool tn__fields_prefix(const tn_target *want, const tn_op *have) {
  if (want->n_params > have->n_params ||
      want->params_size > have->params_size) {
    (void)tn__fail(TN_PLUGIN,
                   "the kernels for %s were compiled for %u parameters in %u "
                   "bytes, but the operator that is loaded has %u in %u; load "
                   "a newer plugin of the operator",
                   want->op, want->n_params, want->params_size, have->n_params,
                   have->params_size);
    return false;
  }
  for (uint32_t i = 0; i < want->n_params; ++i)
    if (!is_same_field(want, want->params[i], have->params[i])) return false;
  return true;
}
