/* SPDX-License-Identifier: Apache-2.0
 * source_records.c: examples in a file of records: bytes of any kind, or images
 * with the head that MXNet writes. An operator decodes the images.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "records.h"
#include "sources.h"

typedef struct record_source {
  tn__source base;
  tn__example_file file;
  void *params;       /* records_params or images_params */
  uint64_t n_longest; /* bytes of the longest record */
  size_t capacity;    /* of the bytes of an example, or of a batch of images */
  uint32_t n_labels;  /* of an image */
  uint32_t *n_image;  /* bytes of each image, while the file is opened */
} record_source;

/* --------------------------------------------------------------------- scan */

/* Checks a record at an offset, before it is added. TN_INVALID: it is damaged.
 */
typedef tn_code check_record(record_source *t, const tn_record *record);

typedef struct scan {
  tn_record_reader *reader;
  check_record *check;
  bool skips;
} scan;

static tn_code scan_records(record_source *t, const scan *s) {
  tn_record record;
  for (;;) {
    TN__TRY(tn__record_read(s->reader, &record));
    if (!record.data) break;
    const tn_code rc = s->check ? s->check(t, &record) : TN_OK;
    if (rc == TN_INVALID && s->skips) {
      ++t->base.n_damaged;
      continue;
    }
    TN__TRY(rc);
    TN__TRY(tn__example_file_add(&t->file, record.offset,
                                 tn__record_end(s->reader) - record.offset));
    if (record.bytes > t->n_longest) t->n_longest = record.bytes;
  }
  t->base.n = t->file.n;
  t->base.n_damaged += tn__record_count_damage(s->reader);
  return TN_OK;
}

/* Finds the places of all records. */
static tn_code find_records(record_source *t, const tn__opening *o,
                            const char *index, check_record *check) {
  scan s = {.check = check, .skips = o->options->on_damage == TN_DAMAGE_SKIP};
  const tn_record_options options = {.struct_size = sizeof options,
                                     .on_damage = o->options->on_damage,
                                     .index = index};
  TN__TRY(tn__example_file_open(o->env, o->path, &t->file));
  TN__TRY(tn__record_reader_open(o->env, o->path, &options, &s.reader));
  tn__record_read_heads_only(s.reader);
  const tn_code rc = scan_records(t, &s);
  tn__record_reader_release(s.reader);
  return rc;
}

static tn_code fail_changed(const record_source *t, uint64_t offset) {
  return tn__fail(TN_INVALID,
                  "%s: the record at byte %" PRIu64
                  " has changed since the file was opened",
                  t->file.path, offset);
}

static void deinit_records(tn__source *source) {
  record_source *t = (record_source *)source;
  tn__example_file_deinit(&t->file);
  tn__free(source->env, t->params);
  tn__free(source->env, t->n_image);
}

typedef tn_code open_records(record_source *t, const tn__opening *o);

static tn_code create_source(const tn__opening *o, uint32_t n_fields,
                             open_records *open, tn__source **out) {
  tn__source *source = NULL;
  TN__TRY(tn__source_create(o, sizeof(record_source), n_fields, &source));
  source->deinit = deinit_records;
  ((record_source *)source)->file.env = o->env;
  const tn_code rc = open((record_source *)source, o);
  if (rc == TN_OK)
    *out = source;
  else
    tn__source_release(source);
  return rc;
}

/* ---------------------------------------------------------------- any bytes */

typedef struct records_params {
  int64_t bytes;
  const char *index;
  int32_t has_index;
} records_params;

static const tn__source_param any_params[] = {
    {"bytes", TN_FIELD_INT, offsetof(records_params, bytes), 0, 0, "0"},
    {"index", TN_FIELD_STRING, offsetof(records_params, index),
     offsetof(records_params, has_index), INT64_MIN, "None"}};
static const tn__source_params any_fields = {
    any_params, sizeof any_params / sizeof *any_params, sizeof(records_params),
    "data of kind records"};

enum { BYTES, LENGTH }; /* fields */

static tn_code use_record(void *context, const tn__example *example) {
  const record_source *t = ((void **)context)[0];
  const tn__filling *f = ((void **)context)[1];
  unsigned char *to = (unsigned char *)f->to[BYTES] + example->at * t->capacity;
  size_t n = 0;
  const unsigned char *data =
      tn__record_join(example->data, example->bytes, &n);
  if (!data || n > t->capacity) return fail_changed(t, example->offset);
  memcpy(to, data, n);
  memset(to + n, 0, t->capacity - n);
  ((int64_t *)f->to[LENGTH])[example->at] = (int64_t)n;
  return TN_OK;
}

static tn_code fill_records(const tn__source *source, const tn__filling *f) {
  const record_source *t = (const record_source *)source;
  void *context[2] = {(void *)(uintptr_t)t, (void *)(uintptr_t)f};
  return tn__example_file_read(&t->file, f, use_record, context);
}

static tn_code open_any(record_source *t, const tn__opening *o) {
  TN__TRY(tn__source_params_parse(o, &any_fields, &t->params));
  const records_params *p = t->params;
  t->base.kind = "records";
  t->base.fill = fill_records;
  TN__TRY(find_records(t, o, p->has_index ? p->index : NULL, NULL));
  if (p->bytes > 0 && t->n_longest > (uint64_t)p->bytes)
    return tn__fail(TN_OUT_OF_RANGE,
                    "%s: the longest record has %" PRIu64
                    " bytes, and `bytes` is %" PRId64
                    "; make it greater, or leave it out",
                    o->path, t->n_longest, p->bytes);
  t->capacity = p->bytes > 0 ? (size_t)p->bytes : (size_t)t->n_longest;
  TN__TRY(tn__source_set_field(
      &t->base, BYTES, TN_U8,
      &(tn__batch_field){.ndim = 1, .shape = {(int64_t)t->capacity}}));
  return tn__source_set_field(&t->base, LENGTH, TN_I64, &(tn__batch_field){0});
}

tn_code tn__source_of_records(const tn__opening *opening, tn__source **out) {
  return create_source(opening, 2, open_any, out);
}

/* ------------------------------------------------------------------- images */

typedef struct images_params {
  const char *index;
  int32_t has_index;
  int64_t label_width;
  const char *decode;
  const char *op;
} images_params;

static const tn__source_param image_params[] = {
    {"index", TN_FIELD_STRING, offsetof(images_params, index),
     offsetof(images_params, has_index), INT64_MIN, "None"},
    {"label_width", TN_FIELD_INT, offsetof(images_params, label_width), 0, 1,
     "1"},
    {"decode", TN_FIELD_STRING, offsetof(images_params, decode), 0, INT64_MIN,
     "\"\""},
    {"operator", TN_FIELD_STRING, offsetof(images_params, op), 0, INT64_MIN,
     "image.decode_batch@1"}};
static const tn__source_params image_fields = {
    image_params, sizeof image_params / sizeof *image_params,
    sizeof(images_params), "data of kind images"};

/* Fields of the job; the operator reads the first three. */
enum { FILES, OFFSETS, SEEDS, LABELS, N_IMAGE_FIELDS };

static tn_code fail_image(const record_source *t, const tn_record *record,
                          const char *problem) {
  return tn__fail(TN_INVALID,
                  "%s: record %" PRIu64 ", at byte %" PRIu64
                  ": %s; write the file again, or use TN_DAMAGE_SKIP",
                  t->file.path, record->key, record->offset, problem);
}

/* The bytes of an image that follow its head and its labels. False if the
 * number of labels is wrong, or the record too short. */
static bool find_image(const record_source *t, uint32_t flag, uint64_t bytes,
                       uint64_t *n_head) {
  *n_head = TN_RECORD_HEADER_BYTES + UINT64_C(4) * flag;
  return (flag == 0 ? 1 : flag) == t->n_labels && *n_head <= bytes;
}

static tn_code reserve_sizes(record_source *t) {
  const size_t n = t->file.n;
  if (n != 0 && (n < 256 || (n & (n - 1)) != 0)) return TN_OK;
  const size_t capacity = n == 0 ? 256 : 2 * n;
  uint32_t *more = tn__alloc(t->base.env, capacity * sizeof *more);
  if (!more) return tn__fail_memory(capacity * sizeof *more, "sizes of images");
  if (n > 0) memcpy(more, t->n_image, n * sizeof *more);
  tn__free(t->base.env, t->n_image);
  t->n_image = more;
  return TN_OK;
}

/* A head that is divided into pieces is checked when the image is read. */
static tn_code check_image(record_source *t, const tn_record *record) {
  unsigned char head[TN__PIECE_HEAD + 4];
  uint64_t n_head = 0;
  if (record->bytes < TN_RECORD_HEADER_BYTES)
    return fail_image(t, record, "it is too short for the head of an image");
  TN__TRY(tn__file_read(&(tn__spot){&t->file.file, NULL}, record->offset, head,
                        sizeof head));
  const uint32_t n_piece = tn__piece_get_number(head + 4) & TN__PIECE_MOST;
  const uint32_t flag = n_piece >= 4 ? tn__piece_get_number(head + 8) : 0;
  if (n_piece >= 4 && !find_image(t, flag, record->bytes, &n_head))
    return fail_image(t, record,
                      flag > 1 || t->n_labels > 1
                          ? "it has not as many labels as `label_width` says"
                          : "it is too short for its labels");
  TN__TRY(reserve_sizes(t));
  t->n_image[t->file.n] = (uint32_t)(record->bytes - n_head);
  return TN_OK;
}

/* Reads the header of an example. */
static tn_code read_header(const record_source *t, const tn__example *example,
                           tn_record_header *out) {
  size_t n = 0;
  uint64_t n_head = 0;
  tn_record record = {.offset = example->offset};
  record.data = tn__record_join(example->data, example->bytes, &n);
  record.bytes = n;
  if (!record.data || tn__record_header_read(&record, out) != TN_OK ||
      !find_image(t, out->n_labels, n, &n_head))
    return fail_changed(t, example->offset);
  return TN_OK;
}

static tn_code use_image(void *context, const tn__example *example) {
  const record_source *t = ((void **)context)[0];
  const tn__filling *f = ((void **)context)[1];
  int64_t *offsets = (int64_t *)f->to[OFFSETS] + example->at;
  float *labels = (float *)f->to[LABELS] + example->at * t->n_labels;
  const uint64_t begin = (uint64_t)offsets[0];
  tn_record_header header;
  TN__TRY(read_header(t, example, &header));
  if (header.bytes > t->capacity - begin)
    return fail_changed(t, example->offset);
  memcpy(labels, header.labels ? header.labels : &header.label,
         t->n_labels * sizeof *labels);
  memcpy((char *)f->to[FILES] + begin, header.data, (size_t)header.bytes);
  offsets[1] = (int64_t)(begin + header.bytes);
  ((int64_t *)f->to[SEEDS])[example->at] =
      tn__example_seed(f->key, f->index[example->at]);
  return TN_OK;
}

static tn_code fill_images(const tn__source *source, const tn__filling *f) {
  const record_source *t = (const record_source *)source;
  void *context[2] = {(void *)(uintptr_t)t, (void *)(uintptr_t)f};
  *(int64_t *)f->to[OFFSETS] = 0;
  return tn__example_file_read(&t->file, f, use_image, context);
}

static int compare_sizes(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Sets the capacity to the bytes of the largest batch of n images that can
 * occur: of the largest images, each as often as the batch repeats all. */
static tn_code set_capacity(record_source *t, uint32_t n) {
  size_t total = 0;
  const size_t n_all = t->file.n;
  if (n_all > 0) qsort(t->n_image, n_all, sizeof *t->n_image, compare_sizes);
  for (size_t i = 0; i < n && n_all > 0; ++i)
    total += t->n_image[n_all < n ? 0 : i];
  t->capacity = total;
  tn__free(t->base.env, t->n_image);
  t->n_image = NULL;
  return total <= INT64_MAX ? TN_OK
                            : tn__fail_memory(total, "a batch of images");
}

static tn_code find_operator(record_source *t, const tn__opening *o) {
  const images_params *p = t->params;
  const tn_code rc = tn_operator_get(o->rt, p->op, &t->base.decode);
  if (rc != TN_OK)
    return tn__fail_more(rc,
                         " (it decodes data of kind images; load its plugin "
                         "first: image.so, or tn_plugins_load_standard)");
  return tn_params_parse(t->base.decode, p->decode, &t->base.decode_params);
}

static tn_code set_image_fields(record_source *t, uint32_t batch) {
  tn__batch_field *fields = t->base.fields;
  const tn__batch_field label = {.ndim = t->n_labels > 1,
                                 .shape = {t->n_labels}};
  fields[FILES] = (tn__batch_field){TN_U8, 1, {(int64_t)t->capacity}};
  fields[OFFSETS] = (tn__batch_field){TN_I64, 1, {(int64_t)batch + 1}};
  fields[SEEDS] = (tn__batch_field){TN_I64, 1, {batch}};
  return tn__source_set_field(&t->base, LABELS, TN_F32, &label);
}

static tn_code open_images(record_source *t, const tn__opening *o) {
  TN__TRY(tn__source_params_parse(o, &image_fields, &t->params));
  const images_params *p = t->params;
  t->base.kind = "images";
  t->base.fill = fill_images;
  if (p->label_width > UINT32_MAX / 8)
    return tn__fail(TN_OUT_OF_RANGE,
                    "data of kind images: `label_width` is too large");
  t->n_labels = (uint32_t)p->label_width;
  TN__TRY(find_operator(t, o));
  TN__TRY(find_records(t, o, p->has_index ? p->index : NULL, check_image));
  TN__TRY(set_capacity(t, o->options->batch));
  return set_image_fields(t, o->options->batch);
}

tn_code tn__source_of_images(const tn__opening *opening, tn__source **out) {
  return create_source(opening, N_IMAGE_FIELDS, open_images, out);
}
