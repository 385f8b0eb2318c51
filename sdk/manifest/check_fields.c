/* SPDX-License-Identifier: Apache-2.0
 * check_fields.c: checks the fields of a params or options struct: names,
 * lengths of lists, and offsets. The members fill the struct and none overlaps
 * another, since the host writes values there without a further check.
 */
#include <string.h>

#include "check.h"

static bool is_list_type(const tn_field *f) {
  return f->type == TN_FIELD_INTS || f->type == TN_FIELD_FLOATS;
}

/* Returns the bytes of a struct member for a field of this type (TN_FIELD_*).
 */
static uint32_t get_type_bytes(uint32_t type) {
  if (type == TN_FIELD_BOOL || type == TN_FIELD_ENUM || type == TN_FIELD_DTYPE)
    return 4;
  return type == TN_FIELD_INTS || type == TN_FIELD_FLOATS ? 16 : 8;
}

/* ------------------------------------------------------------------- places */

/* Limits of the marks for used bytes of a struct, one mark for each unit of 4
 * bytes. A field uses at most 5 units: a list, and a flag for its presence.
 * Padding may add up to as many units as the fields. */
enum { UNIT = 4, MOST_UNITS = 10 * TNM_MOST_FIELDS };

typedef struct units {
  uint8_t used[MOST_UNITS];
  uint32_t n;
} units;

/* Marks the bytes of a params struct that a member uses. Fails if they are
 * outside of the struct, not aligned, or in use; `name` is for that message. */
static tn_code mark_units_used(units *u, const char *name, uint32_t offset,
                               uint32_t bytes) {
  const uint32_t size = u->n * UNIT;
  if (offset > size || bytes > size - offset ||
      offset % (bytes < 8 ? bytes : 8) != 0)
    return tn__fail(TN_PLUGIN,
                    "%s is %u: %u aligned bytes do not fit into a struct of %u "
                    "bytes there",
                    name, offset, bytes, size);
  for (uint32_t i = offset / UNIT; i < (offset + bytes) / UNIT; ++i) {
    if (u->used[i])
      return tn__fail(TN_PLUGIN,
                      "%s is %u: its %u bytes overlap another member of the "
                      "struct",
                      name, offset, bytes);
    u->used[i] = 1;
  }
  return TN_OK;
}

/* Marks the bytes that a field and its flag of presence use. */
static tn_code mark_field_used(units *u, const tn_field *f) {
  TN__TRY(mark_units_used(u, "offset", f->offset, get_type_bytes(f->type)));
  if (f->flags & TN_FIELD_OPTIONAL)
    return mark_units_used(u, "has_offset", f->has_offset, sizeof(int32_t));
  if (f->has_offset == TN_NONE) return TN_OK;
  return tn__fail(TN_PLUGIN, "has_offset is %u, but the value is not optional",
                  f->has_offset);
}

/* Checks that unused space between members is at most 4 bytes: no member is
 * aligned to more than 8 bytes. */
static tn_code check_unused_space(const units *u) {
  for (uint32_t i = 1; i < u->n; ++i)
    if (!u->used[i - 1] && !u->used[i])
      return tn__fail(TN_PLUGIN,
                      "the struct has %u bytes, but no member is at %u",
                      u->n * UNIT, (i - 1) * UNIT);
  return TN_OK;
}

/* ------------------------------------------------------------------- fields */

/* Checks the length bounds of list field `i`, and the list that it gets its
 * length from. A list may have the length of another list, but no cycle is
 * allowed. */
static tn_code check_list_length(const tnm_fields *all, uint32_t i) {
  uint32_t steps = 0;
  if (all->v[i]->min_rank > all->v[i]->max_rank)
    return tn__fail(TN_PLUGIN, "min_rank %u is greater than max_rank %u",
                    all->v[i]->min_rank, all->v[i]->max_rank);
  for (uint32_t at = all->v[i]->rank_of; at != TN_NONE;
       at = all->v[at]->rank_of) {
    if (at >= all->n || !is_list_type(all->v[at]) || !is_list_type(all->v[i]))
      return tn__fail(TN_PLUGIN, "rank_of is %u, which is not a list", at);
    if (++steps > all->n)
      return tn__fail(TN_PLUGIN, "rank_of leads back to where it began");
  }
  return TN_OK;
}

/* Checks that every field has a default, except required ones. */
static tn_code check_field_default(const tn_field *f) {
  bool required = f->flags & TN_FIELD_REQUIRED;
  if (required == !f->default_text) return TN_OK;
  return tn__fail(TN_PLUGIN, required ? "it is required but has a default"
                                      : "it has no default_text");
}

/* Checks that flags of bounds belong to a number that has the bounds. */
static tn_code check_field_bounds(const tn_field *f) {
  const bool real = f->type == TN_FIELD_FLOAT || f->type == TN_FIELD_FLOATS;
  const bool whole = f->type == TN_FIELD_INT || f->type == TN_FIELD_INTS;
  const uint32_t flags = f->flags;
  if ((flags & TN_FIELD_ABOVE) && (!real || !(flags & TN_FIELD_HAS_MIN)))
    return tn__fail(TN_PLUGIN, "it is `above` a bound that it does not have");
  if ((flags & TN_FIELD_BELOW) && (!real || !(flags & TN_FIELD_HAS_MAX)))
    return tn__fail(TN_PLUGIN, "it is `below` a bound that it does not have");
  if ((flags & TN_FIELD_NONZERO) && !real && !whole)
    return tn__fail(TN_PLUGIN, "it is `nonzero`, but no number");
  return TN_OK;
}

/* Checks field number i: its names, the length of a list, and the values of an
 * enum. */
static tn_code check_field(const tnm_fields *all, uint32_t i) {
  const tn_field *f = all->v[i];
  TN__TRY(tnm_check_name("it", f->name, false));
  if (f->alias) TN__TRY(tnm_check_name("its alias", f->alias, false));
  TN__TRY(check_list_length(all, i));
  TN__TRY(check_field_bounds(f));
  if (f->type == TN_FIELD_ENUM && !f->n_values)
    return tn__fail(TN_PLUGIN, "it is an enum without values");
  for (uint32_t other = 0; other < i; ++other)
    if (!strcmp(all->v[other]->name, f->name))
      return tn__fail(TN_PLUGIN, "the name \"%.80s\" occurs twice", f->name);
  return TN_OK;
}

/* Checks the number of fields and the size of their struct; `name` is for
 * messages ("option"). */
static tn_code check_struct_size(const char *name, const tnm_fields *all) {
  if (all->n > TNM_MOST_FIELDS)
    return tn__fail(TN_PLUGIN, "%u %ss are too many; at most %d are allowed",
                    all->n, name, TNM_MOST_FIELDS);
  if (all->size % UNIT == 0 && all->size / UNIT <= MOST_UNITS &&
      (all->n || !all->size))
    return TN_OK;
  return tn__fail(TN_PLUGIN,
                  "the struct of %u %ss has %u bytes, which they cannot fill",
                  all->n, name, all->size);
}

tn_code tnm_check_fields(const char *name, const tnm_fields *all,
                         bool defaults) {
  units u = {.n = all->size / UNIT};
  TN__TRY(check_struct_size(name, all));
  for (uint32_t i = 0; i < all->n; ++i) {
    tn_code rc = check_field(all, i);
    if (!rc) rc = mark_field_used(&u, all->v[i]);
    if (!rc && defaults) rc = check_field_default(all->v[i]);
    if (rc)
      return tn__fail_more(rc, ", in %s %u (%.80s)", name, i,
                           all->v[i]->name ? all->v[i]->name : "?");
  }
  return check_unused_space(&u);
}
