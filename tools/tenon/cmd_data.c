/* SPDX-License-Identifier: Apache-2.0
 * cmd_data.c: `tenon data`: its words, the records of a file (`list`), and its
 * damaged places (`check`). data_pack.c has `pack`.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data_set.h"

const char *const data_words[] = {"pack", "list", "check", NULL};
enum { WORD_PACK, WORD_LIST, WORD_CHECK, N_WORDS };

/* ------------------------------------------------------------ damaged places
 */

/* Reads one file of records. */
typedef struct reading {
  tn_runtime *rt;
  const char *path;
  const char *index; /* NULL: none */
  tn_record_damage *damage;
  size_t n_damage;
  size_t damage_capacity;
  uint64_t *offsets; /* of the undamaged records */
  uint64_t n;
  size_t offset_capacity;
  uint64_t bytes; /* of them, without heads */
  text *why;
} reading;

static bool fail_memory(text *why) {
  return report_failure(why, "out of memory");
}

static bool add_damage(reading *r, const tn_record_damage *damage) {
  tn_record_damage *list =
      list_grow(r->damage, r->n_damage, &r->damage_capacity, sizeof *list);
  if (!list) return fail_memory(r->why);
  r->damage = list;
  list[r->n_damage++] = *damage;
  return true;
}

static bool add_offset(reading *r, uint64_t offset) {
  uint64_t *list =
      list_grow(r->offsets, (size_t)r->n, &r->offset_capacity, sizeof *list);
  if (!list) return fail_memory(r->why);
  r->offsets = list;
  list[r->n++] = offset;
  return true;
}

static void reading_deinit(reading *r) {
  free(r->damage);
  free(r->offsets);
}

/* Has each record, in the order of the file. */
typedef void record_fn(void *ctx, const reading *r, const tn_record *record);

static bool open_reader(const reading *r, const char *index,
                        tn_record_reader **out) {
  const tn_record_options options = {.struct_size = sizeof options,
                                     .index = index};
  return !tn_record_reader_open(r->rt, r->path, &options, out) ||
         fail_library(r->why);
}

/* Notes the place that the reader has met. */
static bool note_damage(reading *r, const tn_record_reader *reader) {
  tn_record_damage damage;
  if (tn_record_damage_get(reader, &damage)) return fail_library(r->why);
  return add_damage(r, &damage);
}

static bool read_all(reading *r, const char *index, record_fn *each,
                     void *ctx) {
  tn_record_reader *reader = NULL;
  tn_record record = {0};
  bool ok = open_reader(r, index, &reader);
  while (ok) {
    const tn_code rc = tn_record_read(reader, &record);
    if (rc == TN_INVALID) {
      ok = note_damage(r, reader);
    } else if (rc) {
      ok = fail_library(r->why);
    } else if (!record.data) {
      break;
    } else {
      if (each) each(ctx, r, &record);
      r->bytes += record.bytes;
      ok = add_offset(r, record.offset);
    }
  }
  tn_record_reader_release(reader);
  return ok;
}

static void print_damage(const reading *r, text *out) {
  table rows = {.n_columns = 3};
  for (size_t i = 0; i < r->n_damage; ++i) {
    if (i == 0) {
      table_add(&rows, "RECORD");
      table_add(&rows, "OFFSET");
      table_add(&rows, "DAMAGE");
    }
    table_add(&rows, "%" PRIu64, r->damage[i].record);
    table_add(&rows, "%" PRIu64, r->damage[i].offset);
    table_add(&rows, "%s", r->damage[i].reason);
  }
  table_print(&rows, "", out);
}

static void add_json_damage(const reading *r, text *out) {
  text_add(out, "\"damage\": [");
  for (size_t i = 0; i < r->n_damage; ++i) {
    text_add(out,
             "%s{\"record\": %" PRIu64 ", \"offset\": %" PRIu64
             ", \"reason\": ",
             i ? ", " : "", r->damage[i].record, r->damage[i].offset);
    text_add_json(out, r->damage[i].reason);
    text_add(out, "}");
  }
  text_add(out, "]");
}

/* -------------------------------------------------------------------- kinds */

/* The first bytes of files that are often packed. */
static const struct {
  const char *kind;
  size_t n;
  const char *bytes;
} signatures[] = {
    {"jpeg", 3, "\xff\xd8\xff"}, {"png", 8, "\x89PNG\r\n\x1a\n"},
    {"gif", 4, "GIF8"},          {"npy", 6, "\x93NUMPY"},
    {"zip", 4, "PK\x03\x04"},    {"gzip", 2, "\x1f\x8b"},
    {"webp", 4, "RIFF"},         {"bmp", 2, "BM"},
};
enum { N_SIGNATURES = sizeof signatures / sizeof signatures[0], SHOWN = 16 };

static bool is_text(const unsigned char *data, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!isprint(data[i]) && !isspace(data[i])) return false;
  return n > 0;
}

/* `n`: at most SHOWN. */
static const char *find_kind(const unsigned char *data, size_t n) {
  for (size_t i = 0; i < N_SIGNATURES; ++i)
    if (n >= signatures[i].n &&
        !memcmp(data, signatures[i].bytes, signatures[i].n))
      return signatures[i].kind;
  return n == 0 ? "empty" : is_text(data, n) ? "text" : "bytes";
}

/* A record as it is shown. */
typedef struct shown_record {
  bool has_labels;
  tn_record_header header; /* without labels, its data is the whole record */
  size_t n;                /* first bytes of the data that are shown */
  const unsigned char *first;
  const char *kind;
} shown_record;

/* A record does not say whether it begins with labels. The files of signatures,
 * and texts, would begin with a number of labels that no example has. */
static bool find_labels(const tn_record *record, tn_record_header *out) {
  enum { MOST_LABELS = 1 << 16 };
  return record->bytes >= TN_RECORD_HEADER_BYTES &&
         !tn_record_header_read(record, out) && out->n_labels <= MOST_LABELS &&
         isfinite(out->label);
}

static void describe_record(const tn_record *record, shown_record *out) {
  *out = (shown_record){0};
  out->has_labels = find_labels(record, &out->header);
  if (!out->has_labels)
    out->header =
        (tn_record_header){.data = record->data, .bytes = record->bytes};
  out->first = out->header.data;
  out->n = out->header.bytes < SHOWN ? (size_t)out->header.bytes : SHOWN;
  out->kind = find_kind(out->first, out->n);
}

static void add_number(text *out, float label, bool is_json) {
  const char *quote = is_json && !isfinite(label) ? "\"" : "";
  text_add(out, "%s", quote);
  number_add(out, TN_F32, &label);
  text_add(out, "%s", quote);
}

/* At most `most` labels, 0: all. */
static void add_labels(text *out, const shown_record *s, uint32_t most) {
  const tn_record_header *h = &s->header;
  const bool is_json = most == 0;
  if (!s->has_labels) return;
  if (h->n_labels == 0) add_number(out, h->label, is_json);
  for (uint32_t i = 0; i < h->n_labels; ++i) {
    if (i) text_add(out, is_json ? ", " : " ");
    if (most && i == most) {
      text_add(out, "...");
      break;
    }
    add_number(out, h->labels[i], is_json);
  }
}

static void add_hex(text *out, const shown_record *s, size_t most) {
  for (size_t i = 0; i < s->n && i < most; ++i)
    text_add(out, "%02x", s->first[i]);
}

/* --------------------------------------------------------------------- list */

/* Rows for people. */
static void add_row(void *ctx, const reading *r, const tn_record *record) {
  enum { LABELS = 4, BYTES = 8 };
  table *rows = (table *)ctx;
  shown_record s;
  text cell = {0};
  describe_record(record, &s);
  table_add(rows, "%" PRIu64, r->n);
  table_add(rows, "%" PRIu64, record->key);
  table_add(rows, "%" PRIu64, record->offset);
  table_add(rows, "%" PRIu64, record->bytes);
  add_labels(&cell, &s, LABELS);
  table_add(rows, "%s", cell.n ? text_get(&cell) : "-");
  table_add(rows, "%s", s.kind);
  text_deinit(&cell);
  if (is_text(s.first, s.n))
    text_add_bytes(&cell, (const char *)s.first, s.n);
  else
    add_hex(&cell, &s, BYTES);
  table_add(rows, "%s", text_get(&cell));
  text_deinit(&cell);
}

static void add_json_record(void *ctx, const reading *r,
                            const tn_record *record) {
  text *out = (text *)ctx;
  shown_record s;
  describe_record(record, &s);
  text_add(out,
           "%s{\"number\": %" PRIu64 ", \"key\": %" PRIu64
           ", \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"labels\": ",
           r->n ? ", " : "", r->n, record->key, record->offset, record->bytes);
  text_add(out, s.has_labels ? "[" : "null");
  add_labels(out, &s, 0);
  text_add(out, "%s, \"id\": ", s.has_labels ? "]" : "");
  if (s.has_labels)
    text_add(out, "%" PRIu64, s.header.id);
  else
    text_add(out, "null");
  text_add(out, ", \"kind\": \"%s\", \"begins\": \"", s.kind);
  add_hex(out, &s, SHOWN);
  text_add(out, "\"}");
}

static bool list_json(reading *r, text *out) {
  text_add(out, "{\"file\": ");
  text_add_json(out, r->path);
  text_add(out, ", \"records\": [");
  if (!read_all(r, r->index, add_json_record, out)) return false;
  text_add(out, "], ");
  add_json_damage(r, out);
  text_add(out, "}\n");
  return true;
}

static bool list_rows(reading *r, text *out) {
  static const char *const heads[] = {"NUMBER", "KEY",  "OFFSET", "BYTES",
                                      "LABEL",  "KIND", "BEGINS"};
  table rows = {.n_columns = sizeof heads / sizeof heads[0]};
  for (size_t i = 0; i < rows.n_columns; ++i) table_add(&rows, "%s", heads[i]);
  const bool ok = read_all(r, r->index, add_row, &rows);
  if (r->n)
    table_print(&rows, "", out);
  else
    text_add(out, "%s: has no record\n", r->path);
  text_deinit(&rows.cells);
  print_damage(r, out);
  return ok;
}

/* -------------------------------------------------------------------- check */

static bool has_damage_at(const reading *r, uint64_t offset) {
  for (size_t i = 0; i < r->n_damage; ++i)
    if (r->damage[i].offset == offset) return true;
  return false;
}

/* Compares the records that the index has with those of the file. Both are in
 * the order of their offsets. */
static bool compare_index(reading *r, const reading *indexed) {
  size_t next = 0;
  bool ok = true;
  for (size_t i = 0; ok && i < indexed->n_damage; ++i) {
    tn_record_damage damage = indexed->damage[i];
    damage.reason = "the index has an entry here, but no record begins here";
    ok = has_damage_at(r, damage.offset) || add_damage(r, &damage);
  }
  for (uint64_t i = 0; ok && i < r->n; ++i) {
    const uint64_t offset = r->offsets[i];
    while (next < indexed->n && indexed->offsets[next] < offset) ++next;
    if (next < indexed->n && indexed->offsets[next] == offset) continue;
    ok = add_damage(
        r, &(tn_record_damage){i, offset, "the index has no entry for it"});
  }
  return ok;
}

static bool check_index(reading *r) {
  reading indexed = {.rt = r->rt, .path = r->path, .why = r->why};
  if (!r->index) return true;
  const bool ok =
      read_all(&indexed, r->index, NULL, NULL) && compare_index(r, &indexed);
  reading_deinit(&indexed);
  return ok;
}

static bool check_file(reading *r, const arguments *args, text *out) {
  if (!read_all(r, NULL, NULL, NULL) || !check_index(r)) return false;
  if (args->given & OPTION_JSON) {
    text_add(out, "{\"file\": ");
    text_add_json(out, r->path);
    text_add(out, ", \"records\": %" PRIu64 ", \"bytes\": %" PRIu64 ", ", r->n,
             r->bytes);
    add_json_damage(r, out);
    text_add(out, "}\n");
    return true;
  }
  print_damage(r, out);
  const size_t from = out->n;
  text_add(out, "%s: %" PRIu64 " records with %" PRIu64 " bytes", r->path, r->n,
           r->bytes);
  text_make_line(out, from);
  if (r->n_damage)
    text_add(out,
             ", %zu damaged places; pack the file again, or read it with "
             "TN_DAMAGE_SKIP\n",
             r->n_damage);
  else
    text_add(out, ", no damage\n");
  return true;
}

/* ------------------------------------------------------------------ command */

/* The first word, or -1. */
static int find_word(const arguments *args, text *why) {
  int word = 0;
  if (args->n_words < 2) {
    report_failure(why,
                   "data wants `pack` and a folder, or `list` or `check` and a "
                   "file, such as `tenon data check train.rec`");
    return -1;
  }
  while (word < N_WORDS && strcmp(args->words[0], data_words[word]) != 0)
    ++word;
  if (word < N_WORDS) return word;
  const char *meant = did_you_mean(args->words[0], data_words, N_WORDS);
  report_failure(
      why, "data: unknown word `%s`%s%s%s", args->words[0],
      meant ? "; did you mean `" : "; there are pack, list and check",
      meant ? meant : "", meant ? "`?" : "");
  return -1;
}

/* Options of `pack` only. */
static bool check_options(const arguments *args, text *why) {
  static const struct {
    const char *option;
    uint32_t bit;
  } of_pack[] = {{"--out", OPTION_RECORDS},   {"--list", OPTION_LIST},
                 {"--suffix", OPTION_SUFFIX}, {"--parts", OPTION_PARTS},
                 {"--seed", OPTION_SEED},     {"--shuffle", OPTION_SHUFFLE}};
  for (size_t i = 0; i < sizeof of_pack / sizeof of_pack[0]; ++i)
    if (args->given & of_pack[i].bit)
      return report_failure(why,
                            "%s is an option of `data pack`, not of `data %s`",
                            of_pack[i].option, args->words[0]);
  if (args->n_words <= 3) return true;
  return report_failure(
      why, "data %s: unexpected `%s`; name one file, and its index if needed",
      args->words[0], args->words[3]);
}

static bool do_word(int word, reading *r, const arguments *args, text *out) {
  if (word == WORD_CHECK) return check_file(r, args, out);
  return args->given & OPTION_JSON ? list_json(r, out) : list_rows(r, out);
}

static int read_file(int word, const arguments *args, text *out, text *why) {
  host h;
  if (!check_options(args, why)) return STATUS_USAGE;
  if (!host_open(&h, args, 1, why)) return STATUS_FAILED;
  reading r = {.rt = h.rt,
               .path = args->words[1],
               .index = args->n_words > 2 ? args->words[2] : NULL,
               .why = why};
  int status = STATUS_FAILED;
  if (do_word(word, &r, args, out))
    status = r.n_damage ? STATUS_REPORTED : STATUS_OK;
  reading_deinit(&r);
  host_close(&h);
  return status;
}

int cmd_data(const arguments *args, text *out, text *why) {
  const int word = find_word(args, why);
  if (word < 0) return STATUS_USAGE;
  return word == WORD_PACK ? data_pack(args, out, why)
                           : read_file(word, args, out, why);
}
