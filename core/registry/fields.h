/* SPDX-License-Identifier: Apache-2.0
 * fields.h: declarations that only the fields*.c files share. They convert text
 * and values to a params struct.
 */
#ifndef TENON_FIELDS_H_
#define TENON_FIELDS_H_

#include "registry.h"

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
