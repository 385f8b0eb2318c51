/* SPDX-License-Identifier: Apache-2.0
 * json.c: prints tables as JSON, for `tenon --json` and bindings. Keys are the
 * names of op.h; numbers with names are written as names, TN_NONE as null.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tables.h"

static void write_struct(tn__buf *out, const tnm_table *table,
                         const void *object);

/* Writes a set of flags as a list of their names, which are `width` bytes
 * apart. */
static void write_set(tn__buf *out, const char *names, size_t width, uint32_t n,
                      uint64_t set) {
  const char *comma = "";
  tn__buf_add(out, "[");
  for (uint32_t i = 0; i < n; ++i) {
    const char *name = names + i * width;
    if (!(set >> i & 1) || !*name) continue;
    tn__buf_add(out, "%s", comma);
    tn__buf_json(out, name);
    comma = ", ";
  }
  tn__buf_add(out, "]");
}

/* Writes a set of element types as a list of their names. */
static void write_dtypes(tn__buf *out, uint64_t set) {
  write_set(out, tn__dtype_names[0], sizeof tn__dtype_names[0], TN__N_DTYPES,
            set);
}

/* Writes a number. JSON has no infinities, so they are written as text. */
static void write_f64(tn__buf *out, uint64_t raw) {
  double value;
  memcpy(&value, &raw, sizeof value);
  const char *quote = isfinite(value) ? "" : "\"";
  tn__buf_add(out, "%s", quote);
  tn__buf_double(out, value);
  tn__buf_add(out, "%s", quote);
}

/* Writes a scalar member as a JSON value. */
static void write_scalar(tn__buf *out, const tnm_member *m, uint64_t raw) {
  switch (m->form) {
    case TNM_I32:
    case TNM_I64:
      tn__buf_add(out, "%" PRId64, tnm_unzigzag(raw));
      return;
    case TNM_F64:
      write_f64(out, raw);
      return;
    case TNM_DTYPE:
      tn__buf_json(out, raw ? tn__dtype_name((tn_dtype)raw) : NULL);
      return;
    case TNM_DTYPES:
      write_dtypes(out, raw);
      return;
    case TNM_FLAGS:
      write_set(out, m->names, m->width, m->n_names, raw);
      return;
    default:
      break;
  }
  if (m->form == TNM_INDEX && raw == TN_NONE)
    tn__buf_add(out, "null");
  else if (m->form == TNM_ENUM && *tnm_get_name(m, raw))
    tn__buf_json(out, tnm_get_name(m, raw));
  else
    tn__buf_add(out, "%" PRIu64, raw);
}

/* Writes element i of an array member as a JSON value. */
static void write_element(tn__buf *out, const tnm_member *m, const void *array,
                          size_t i) {
  switch (m->form) {
    case TNM_TEXTS:
      tn__buf_json(out, ((const char *const *)array)[i]);
      break;
    case TNM_U32S:
      tn__buf_add(out, "%" PRIu32, ((const uint32_t *)array)[i]);
      break;
    case TNM_U64S:
      write_dtypes(out, ((const uint64_t *)array)[i]);
      break;
    default:
      write_struct(out, m->of, tnm_get_element(m, array, i));
  }
}

/* Writes an array member with n elements as a JSON list. */
static void write_array(tn__buf *out, const tnm_member *m, const void *array,
                        uint32_t n) {
  tn__buf_add(out, "[");
  for (size_t i = 0; i < n; ++i) {
    if (i) tn__buf_add(out, ", ");
    write_element(out, m, array, i);
  }
  tn__buf_add(out, "]");
}

/* Writes one member of the struct `object` as `"name": value`. */
static void write_member(tn__buf *out, const tnm_table *table,
                         const void *object, const tnm_member *m) {
  if (m->form <= TNM_F64) {
    write_scalar(out, m, tnm_get_scalar(table, object, m));
    return;
  }
  const void *pointer = tnm_get_pointer(table, object, m);
  if (m->form == TNM_TEXT)
    tn__buf_json(out, pointer);
  else if (m->form != TNM_POINTER)
    write_array(out, m, pointer, tnm_get_count(table, object, m));
  else if (pointer)
    write_struct(out, m->of, pointer);
  else
    tn__buf_add(out, "null");
}

/* Writes the struct `object` as a JSON object. */
static void write_struct(tn__buf *out, const tnm_table *table,
                         const void *object) {
  tn__buf_add(out, "{");
  for (size_t i = 0; i < table->n_members; ++i) {
    tn__buf_add(out, "%s\"%s\": ", i ? ", " : "", table->members[i].name);
    write_member(out, table, object, &table->members[i]);
  }
  tn__buf_add(out, "}");
}

void tn__plugin_json(const tn_plugin *plugin, tn__buf *out) {
  write_struct(out, &tnm_table_plugin, plugin);
}

void tn__op_json(const tn_op *op, tn__buf *out) {
  write_struct(out, &tnm_table_op, op);
}
