/* SPDX-License-Identifier: Apache-2.0
 * api_records.c: the functions of data.h about files of records. Each checks
 * its arguments and calls core/records.
 */
#include <string.h>

#include "records.h"
#include "runtime.h"

/* ------------------------------------------------------------------- writing
 */

tn_code tn_record_writer_create(tn_runtime *rt, const char *path,
                                const char *index, tn_record_writer **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  if (index && strcmp(index, path) == 0)
    return tn__fail(TN_INVALID,
                    "%s: the index must have another name than the file of "
                    "records",
                    path);
  return tn__record_writer_create(&rt->env, path, index, out);
}

tn_code tn_record_write(tn_record_writer *writer, uint64_t key,
                        const void *data, size_t bytes) {
  TN__REQUIRE(writer);
  if (bytes > 0) TN__REQUIRE(data);
  TN__TRY(tn__runtime_check(tn__record_writer_env(writer)));
  return tn__record_write(writer, key, data, bytes);
}

tn_code tn_record_write_labelled(tn_record_writer *writer, uint64_t key,
                                 const tn_record_header *header) {
  TN__REQUIRE(writer);
  TN__REQUIRE(header);
  if (header->n_labels > 0) TN__REQUIRE(header->labels);
  if (header->bytes > 0) TN__REQUIRE(header->data);
  TN__TRY(tn__runtime_check(tn__record_writer_env(writer)));
  return tn__record_write_labelled(writer, key, header);
}

tn_code tn_record_writer_finish(tn_record_writer *writer) {
  TN__REQUIRE(writer);
  TN__TRY(tn__runtime_check(tn__record_writer_env(writer)));
  return tn__record_writer_finish(writer);
}

void tn_record_writer_release(tn_record_writer *writer) {
  if (writer) tn__record_writer_release(writer);
}

/* ------------------------------------------------------------------- reading
 */

static tn_code check_options(const tn_record_options *options) {
  if (options->struct_size < sizeof *options)
    return tn__fail(TN_INVALID,
                    "tn_record_reader_open: tn_record_options.struct_size is "
                    "%u; set it to sizeof(tn_record_options)",
                    options->struct_size);
  if (options->on_damage > TN_DAMAGE_SKIP)
    return tn__fail(TN_INVALID,
                    "tn_record_reader_open: tn_record_options.on_damage is %u; "
                    "use TN_DAMAGE_STOP or TN_DAMAGE_SKIP",
                    options->on_damage);
  if (options->part >= (options->n_parts == 0 ? 1 : options->n_parts))
    return tn__fail(
        TN_INVALID,
        "tn_record_reader_open: part %u of %u does not exist; parts "
        "are counted from 0",
        options->part, options->n_parts);
  return TN_OK;
}

tn_code tn_record_reader_open(tn_runtime *rt, const char *path,
                              const tn_record_options *options,
                              tn_record_reader **out) {
  static const tn_record_options usual = {.struct_size = sizeof usual};
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  if (!options) options = &usual;
  TN__TRY(check_options(options));
  return tn__record_reader_open(&rt->env, path, options, out);
}

tn_code tn_record_read(tn_record_reader *reader, tn_record *out) {
  TN__REQUIRE(out);
  *out = (tn_record){0};
  TN__REQUIRE(reader);
  TN__TRY(tn__runtime_check(tn__record_reader_env(reader)));
  return tn__record_read(reader, out);
}

tn_code tn_record_find(tn_record_reader *reader, uint64_t key, tn_record *out) {
  TN__REQUIRE(out);
  *out = (tn_record){0};
  TN__REQUIRE(reader);
  TN__TRY(tn__runtime_check(tn__record_reader_env(reader)));
  return tn__record_find(reader, key, out);
}

void tn_record_rewind(tn_record_reader *reader) {
  if (reader) tn__record_rewind(reader);
}

uint64_t tn_record_count_damage(const tn_record_reader *reader) {
  return reader ? tn__record_count_damage(reader) : 0;
}

tn_code tn_record_damage_get(const tn_record_reader *reader,
                             tn_record_damage *out) {
  TN__REQUIRE(out);
  *out = (tn_record_damage){0};
  TN__REQUIRE(reader);
  return tn__record_damage_get(reader, out);
}

tn_code tn_record_header_read(const tn_record *record, tn_record_header *out) {
  TN__REQUIRE(out);
  *out = (tn_record_header){0};
  TN__REQUIRE(record);
  TN__REQUIRE(record->data);
  return tn__record_header_read(record, out);
}

tn_code tn_record_count(const tn_record_reader *reader, uint64_t *out) {
  TN__REQUIRE(out);
  *out = 0;
  TN__REQUIRE(reader);
  return tn__record_count(reader, out);
}

void tn_record_reader_release(tn_record_reader *reader) {
  if (reader) tn__record_reader_release(reader);
}
