/* SPDX-License-Identifier: Apache-2.0
 * fields.h: the members of a params or options struct, as text, as values and
 * as JSON.
 *
 * files:
 *   fields.c        makes a struct of values; hashes, compares and copies it
 *   fields_parse.c  makes values of a text
 *   fields_value.c  converts, checks and stores one value
 *   fields_print.c  writes a struct as text and JSON
 */
#ifndef TENON_FIELDS_H_
#define TENON_FIELDS_H_

#include "base.h"
#include "tenon/define.h"

/* Fields of a params or options struct of `size` bytes. `where` is the
 * operator's or kernel's name, for messages. tn__fields_build makes the struct
 * from values. *out is one allocation: the struct, then its lists and texts;
 * the caller frees it. It refuses unknown keys and names the nearest known one;
 * it ignores `__hidden__` keys. */
typedef struct tn__fields {
  const tn_field *const *fields;
  uint32_t n;
  uint32_t size;
  const char *where;
} tn__fields;

tn_code tn__fields_build(const tn__env *env, const tn__fields *fields,
                         const tn_value *values, size_t n, void **out);
/* The same from "a=1 b=[2,3]". */
tn_code tn__fields_parse(const tn__env *env, const tn__fields *fields,
                         const char *text, void **out);
/* Whether a field has this name or alias. */
bool tn__fields_has_key(const tn__fields *fields, const char *key);
void tn__fields_text(const tn__fields *fields, const void *data, tn__buf *out);
void tn__fields_json(const tn__fields *fields, const void *data, tn__buf *out);
uint64_t tn__fields_hash(const tn__fields *fields, const void *data);
/* Compares bit for bit, lists and texts by content. */
bool tn__fields_equal(const tn__fields *fields, const void *a, const void *b);
/* Checks and stores one value of a scalar field that is declared dynamic. */
tn_code tn__fields_set(const tn__fields *fields, const tn_value *value,
                       void *data);

/* Copies the dynamic fields of `from`, a struct of the same fields. */
void tn__fields_copy_dynamic(const tn__fields *fields, void *data,
                             const void *from);

/* Whether `have` begins with `want`: names, types and offsets are equal. On
 * false the error text names the difference. */
bool tn__fields_prefix(const tn_target *want, const tn_op *have);

/* --------------------------------------------------- shared by the files only
 */

/* `n` of a tn_value of type TN_FIELD_STRING with a quoted text: `name="None"`
 * is a text, `name=None` is no value. */
#define TN__QUOTED 1u

/* A struct while it is filled, one member after the other. */
typedef struct tn__fill {
  const tn__fields *fields;
  const tn_field *field; /* the member's description */
  const tn_value *value; /* the value for it */
  unsigned char *data;   /* the struct */
  unsigned char *tail;   /* free memory for lists and texts, 8-byte aligned */
} tn__fill;

/* Bytes that follow the struct for lists and texts keep this alignment. */
static inline size_t tn__round_up_8(size_t n) {
  return (n + 7) & ~(size_t)7;
}

/* Largest number of entries of a list made of `value`. */
size_t tn__value_entries(const tn_value *value);

/* Whether the value is None for this field. */
bool tn__value_is_none(const tn_field *field, const tn_value *value);

/* Converts, checks and stores one value. A list gets room for `entries`. */
tn_code tn__fill_member(tn__fill *fill, size_t entries);

/* Fails with "parameter `a` of elemwise.quadratic@1: " and the text. */
tn_code tn__fill_fail(const tn__fill *fill, tn_code code, const char *format,
                      ...) TN_PRINTF(3, 4);

/* The kind of value that a field accepts, for messages: "an integer", "a list
 * of floats". */
const char *tn__field_kind(const tn_field *field);

/* Address of a member. */
static inline void *tn__member(const tn_field *field, unsigned char *data) {
  return data + field->offset;
}
static inline const void *tn__member_of(const tn_field *field,
                                        const void *data) {
  return (const unsigned char *)data + field->offset;
}

/* Whether the member of an optional field has a value. */
bool tn__member_is_set(const tn_field *field, const void *data);

static inline bool tn__field_is_list(const tn_field *field) {
  return field->type == TN_FIELD_INTS || field->type == TN_FIELD_FLOATS;
}

#endif /* TENON_FIELDS_H_ */
