/* SPDX-License-Identifier: Apache-2.0
 * compare.c: compares tables in memory with encoded ones. Walks the bytes and
 * the tables in parallel and allocates nothing, because it runs at every load.
 */
#include <inttypes.h>
#include <string.h>

#include "tables.h"

/* The place of the member that is compared now: the member, or one element of
 * it, in the struct at place `up`. */
typedef struct path {
  const struct path *up;
  const char *name;
  int64_t index; /* index of the element; -1: the member itself */
} path;

typedef struct comparison {
  tnm_byte_reader reader;
  tn__buf message; /* gets the first difference */
  bool differs;
} comparison;

/* Prints the place of a member: "operators[0].name". */
static void print_path(tn__buf *out, const path *p) {
  if (p->up) {
    print_path(out, p->up);
    tn__buf_add(out, ".");
  }
  tn__buf_add(out, "%s", p->name);
  if (p->index >= 0) tn__buf_add(out, "[%" PRId64 "]", p->index);
}

/* Prints a scalar member; `raw` is its value as 64 bits. */
static void print_number(tn__buf *out, const tnm_member *m, uint64_t raw) {
  double f;
  memcpy(&f, &raw, sizeof f);
  if (m->form == TNM_F64)
    tn__buf_double(out, f);
  else if (m->form == TNM_I32 || m->form == TNM_I64)
    tn__buf_add(out, "%" PRId64, tnm_unzigzag(raw));
  else if (m->form == TNM_DTYPE)
    tn__buf_add(out, "%s", tn__dtype_name((tn_dtype)raw));
  else if (m->form == TNM_INDEX && raw == TN_NONE)
    tn__buf_add(out, "none");
  else
    tn__buf_add(out, "%" PRIu64, raw);
}

/* Prints a text in quotes, shortened; "absent" for NULL. */
static void print_text(tn__buf *out, tnm_view view) {
  enum { SHOWN = 60 };
  if (!view.s)
    tn__buf_add(out, "absent");
  else
    tn__buf_add(out, "\"%.*s%s\"", view.n > SHOWN ? SHOWN : (int)view.n, view.s,
                view.n > SHOWN ? "..." : "");
}

/* Compares two numbers of the form of `m`. */
static void compare_number(comparison *c, const path *p, const tnm_member *m,
                           const uint64_t raw[2]) {
  if (c->reader.why || raw[0] == raw[1]) return;
  c->differs = true;
  print_path(&c->message, p);
  tn__buf_add(&c->message, " is ");
  print_number(&c->message, m, raw[0]);
  tn__buf_add(&c->message, " in the note, ");
  print_number(&c->message, m, raw[1]);
  tn__buf_add(&c->message, " in the descriptor");
}

/* Compares the next text of the note with `text` in memory; both may be
 * NULL. */
static void compare_text(comparison *c, const path *p, const char *text) {
  tnm_view view = tnm_read_text(&c->reader);
  tnm_view other = {text, text ? strlen(text) : 0};
  if (c->reader.why) return;
  if (!view.s == !text && view.n == other.n &&
      (!text || !memcmp(view.s, text, view.n)))
    return;
  c->differs = true;
  print_path(&c->message, p);
  tn__buf_add(&c->message, " is ");
  print_text(&c->message, view);
  tn__buf_add(&c->message, " in the note, ");
  print_text(&c->message, other);
  tn__buf_add(&c->message, " in the descriptor");
}

/* Reports that the note has an item where the pointer in memory is NULL. */
static void report_missing_item(comparison *c, const path *p) {
  c->differs = true;
  print_path(&c->message, p);
  tn__buf_add(&c->message,
              " is in the note, but is NULL in the "
              "descriptor");
}

static void compare_struct(comparison *c, const path *p, const tnm_table *table,
                           const void *object);

/* Compares element p->index of an array with the next one in the encoding. */
static void compare_element(comparison *c, const path *p, const tnm_member *m,
                            const void *array) {
  const tnm_member number = {.form = TNM_U64};
  size_t i = (size_t)p->index;
  if (m->form == TNM_TEXTS) {
    compare_text(c, p, ((const char *const *)array)[i]);
  } else if (m->form == TNM_U32S || m->form == TNM_U64S) {
    uint64_t wide = m->form == TNM_U32S ? ((const uint32_t *)array)[i]
                                        : ((const uint64_t *)array)[i];
    compare_number(
        c, p, &number,
        (uint64_t[2]){tnm_read_varint(&c->reader, UINT64_MAX), wide});
  } else {
    const void *element = tnm_get_element(m, array, i);
    if (element)
      compare_struct(c, p, m->of, element);
    else
      report_missing_item(c, p);
  }
}

/* Compares the next array of the note with an array of `n_items` items in
 * memory. */
static void compare_array(comparison *c, path *p, const tnm_member *m,
                          const void *array, uint32_t n_items) {
  const tnm_member number = {.form = TNM_U64};
  const path length = {p, "length", -1};
  uint32_t n = tnm_read_count(&c->reader, m);
  compare_number(c, &length, &number, (uint64_t[2]){n, n_items});
  if (n && !array && !c->differs) report_missing_item(c, p);
  for (size_t i = 0; i < n && !c->differs && !c->reader.why; ++i) {
    p->index = (int64_t)i;
    compare_element(c, p, m, array);
  }
}

/* Tests whether a plugin that was compiled for older hosts has no such member,
 * and they need not know it: a list of numbers, which generated code leaves out
 * for those hosts. */
static bool is_left_out(const tnm_table *table, const void *object,
                        const tnm_member *m) {
  if (m->form != TNM_VALUES || tnm_has_member(table, object, m)) return false;
  for (size_t i = 0; i < m->of->n_members; ++i)
    if (m->of->members[i].form > TNM_F64) return false;
  return true;
}

/* Passes over the next list of numbers in the encoding. */
static void skip_numbers(comparison *c, const tnm_member *m) {
  const uint32_t n = tnm_read_count(&c->reader, m);
  for (uint32_t i = 0; i < n && !c->reader.why; ++i) {
    const uint8_t *outer = tnm_read_enter(&c->reader, m->of);
    for (size_t k = 0; k < m->of->n_members && !c->reader.why; ++k)
      (void)tnm_read_scalar(&c->reader, &m->of->members[k]);
    tnm_read_leave(&c->reader, m->of, outer);
  }
}

/* Compares a member of a struct with the next one in the encoding. A plugin for
 * older hosts is compiled without the newer texts of its note. */
static void compare_member(comparison *c, path *p, const tnm_table *table,
                           const void *object, const tnm_member *m) {
  const void *pointer = tnm_get_pointer(table, object, m);
  if (m->form == TNM_TEXT && !tnm_has_member(table, object, m)) {
    (void)tnm_read_text(&c->reader);
  } else if (m->form == TNM_TEXT) {
    compare_text(c, p, pointer);
  } else if (m->form == TNM_POINTER) {
    const tnm_member number = {.form = TNM_U64};
    uint64_t there = tnm_read_varint(&c->reader, 1);
    compare_number(c, p, &number, (uint64_t[2]){there, pointer ? 1 : 0});
    if (there && pointer) compare_struct(c, p, m->of, pointer);
  } else if (is_left_out(table, object, m)) {
    skip_numbers(c, m);
  } else {
    compare_array(c, p, m, pointer, tnm_get_count(table, object, m));
  }
}

/* Compares a member with zero. The writer of the note was older than the
 * member, so the note does not contain it. */
static void compare_with_zero(comparison *c, path *p, const tnm_table *table,
                              const void *object, const tnm_member *m) {
  bool zero = false;
  if (m->form <= TNM_F64)
    zero = tnm_get_scalar(table, object, m) == 0;
  else if (m->form == TNM_TEXT || m->form == TNM_POINTER)
    zero = tnm_get_pointer(table, object, m) == NULL;
  else
    zero = tnm_get_count(table, object, m) == 0;
  if (zero) return;
  c->differs = true;
  print_path(&c->message, p);
  tn__buf_add(&c->message,
              " is not in the note, which an older opgen wrote, but in the "
              "descriptor");
}

/* Compares all members of a struct. Most of them are equal numbers, which this
 * loop compares without a call. */
static void compare_struct(comparison *c, const path *up,
                           const tnm_table *table, const void *object) {
  const uint8_t *outer = tnm_read_enter(&c->reader, table);
  const tnm_member *m = table->members;
  path p = {up, NULL, -1};
  for (size_t i = 0; i < table->n_members && !c->reader.why; ++i, ++m) {
    const bool ended = tnm_read_ended(&c->reader, table);
    uint64_t raw[2] = {0, 0};
    if (m->form <= TNM_F64 && !ended) {
      raw[0] = tnm_read_scalar(&c->reader, m);
      raw[1] = tnm_get_scalar(table, object, m);
      if (raw[0] == raw[1]) continue;
      if (table == &tnm_table_plugin && i < TNM_PLUGIN_VERSIONS) continue;
    }
    p.name = m->name;
    p.index = -1;
    if (ended)
      compare_with_zero(c, &p, table, object, m);
    else if (m->form <= TNM_F64)
      compare_number(c, &p, m, raw);
    else
      compare_member(c, &p, table, object, m);
    if (c->differs) return;
  }
  tnm_read_leave(&c->reader, table, outer);
}

tn_code tn__tables_compare(const tn__env *env, const tn_plugin *plugin,
                           const void *bytes, size_t n) {
  comparison c = {.differs = false};
  tn_code rc = TN_OK;
  tnm_byte_reader_open(&c.reader, bytes, n);
  tn__buf_init(&c.message, env);
  compare_struct(&c, NULL, &tnm_table_plugin, plugin);
  if (!c.differs)
    rc = tnm_byte_reader_close(&c.reader);
  else if (c.message.failed)
    rc = tn__fail_memory(0, "a message");
  else
    rc = tn__fail(TN_PLUGIN, "%s", c.message.s);
  tn__buf_deinit(&c.message);
  return rc;
}
