/* SPDX-License-Identifier: Apache-2.0
 * fields.h: what the files that turn text and values into a params struct share
 * among themselves. Nobody else includes it.
 */
#ifndef TENON_FIELDS_H_
#define TENON_FIELDS_H_

#include "registry.h"

/* A tn_value of type TN_FIELD_STRING whose text stood in quotes has this `n`:
 * `name="None"` is a text, `name=None` is no value. */
#define TN__QUOTED 1u

/* A struct while it is filled, one member after the other. */
typedef struct tn__fill {
  const tn__fields *fields;
  const tn_field *field; /* the member's description */
  const tn_value *value; /* what was given for it */
  unsigned char *data;   /* the struct */
  unsigned char *tail;   /* free memory for lists and texts, 8-byte aligned */
} tn__fill;

/* Bytes that follow the struct for lists and texts keep this alignment. */
static inline size_t tn__round8(size_t n) {
  return (n + 7) & ~(size_t)7;
}

/* Most entries that a list made of `value` can have. */
size_t tn__value_entries(const tn_value *value);

/* Whether the value is None for this field. */
bool tn__value_is_none(const tn_field *field, const tn_value *value);

/* Converts, checks and stores one value. A list gets room for `entries`. */
tn_code tn__fill_member(tn__fill *fill, size_t entries);

/* "parameter `a` of elemwise.quadratic@1: ", then what is wrong. */
tn_code tn__fill_fail(const tn__fill *fill, tn_code code, const char *format,
                      ...) TN_PRINTF(3, 4);

/* What a field takes, for people: "an integer", "a list of floats". */
const char *tn__field_kind(const tn_field *field);

/* Where the parts of a member lie. */
static inline void *tn__member(const tn_field *field, unsigned char *data) {
  return data + field->offset;
}
static inline const void *tn__member_of(const tn_field *field,
                                        const void *data) {
  return (const unsigned char *)data + field->offset;
}

/* Whether the member of an optional field holds a value. */
bool tn__member_given(const tn_field *field, const void *data);

static inline bool tn__field_is_list(const tn_field *field) {
  return field->type == TN_FIELD_INTS || field->type == TN_FIELD_FLOATS;
}

#endif /* TENON_FIELDS_H_ */
