/* SPDX-License-Identifier: Apache-2.0
 * test_record_data.c: data of kind records and images. An operator of this test
 * takes the place of image.decode_batch: it adds the bytes of each file.
 */
#include "../meter.h"
#include "batches_test.h"
#include "tenon/define.h"

static tn_runtime *rt;

static void open_all(void) {
  OK(tn_runtime_create(NULL, &rt));
  make_folder();
}

static void close_all(void) {
  tn_runtime_release(rt);
  remove_folder();
}

TestSuite(record_data, .init = open_all, .fini = close_all, .timeout = 60);

typedef struct blob {
  const char *data;
  size_t bytes;
} blob;

/* Writes a file with an index, whose keys are 10 apart. */
static const char *write_records(const blob *records, size_t n) {
  tn_record_writer *writer = NULL;
  const char *path = path_of("a.rec");
  OK(tn_record_writer_create(rt, path, path_of("a.rec.idx"), &writer));
  for (size_t i = 0; i < n; ++i)
    OK(tn_record_write(writer, 10 * i, records[i].data, records[i].bytes));
  OK(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
  return path;
}

static char *index_param(const char *more) {
  static char text[256];
  (void)snprintf(text, sizeof text, "index=\"%s\" %s", path_of("a.rec.idx"),
                 more);
  return text;
}

static tn_code open_kind(const char *kind, const char *params,
                         const tn_data_options *options, tn_data **out) {
  return tn_data_open(rt, &(tn_data_file){path_of("a.rec"), kind, params},
                      options, out);
}

static tn_batch next(tn_data *data) {
  tn_batch batch;
  OK(tn_data_next(data, &batch));
  cr_assert_gt(batch.n_arrays, 0);
  return batch;
}

/* ------------------------------------------------------------------ records */

#define MAGIC "\x0a\x23\xd7\xce"
static const blob some[] = {
    {"one", 3},
    {"", 0},
    {MAGIC, 4},
    {"abcd" MAGIC "efgh" MAGIC "i", 17},
    {MAGIC MAGIC MAGIC, 12},
    {"a" MAGIC "bcd", 8},
};
enum { N_SOME = sizeof some / sizeof *some, LONGEST = 17 };

static void expect_records(const tn_batch *batch, size_t width) {
  const char *bytes = elements(batch->arrays[0]);
  const int64_t *lengths = elements(batch->arrays[1]);
  cr_assert_eq(tn_array_tensor(batch->arrays[0])->shape[1], (int64_t)width);
  for (uint64_t i = 0; i < batch->n_examples; ++i) {
    const blob *want = &some[batch->index[i]];
    cr_assert_eq(lengths[i], (int64_t)want->bytes);
    cr_assert_eq(memcmp(bytes + i * width, want->data, want->bytes), 0);
    for (size_t k = want->bytes; k < width; ++k)
      cr_assert_eq(bytes[i * width + k], 0);
  }
}

Test(record_data, has_every_record_with_and_without_an_index) {
  (void)write_records(some, N_SOME);
  for (uint32_t indexed = 0; indexed < 2; ++indexed)
    for (uint32_t shuffle = 0; shuffle < 2; ++shuffle)
      for (uint32_t batch = 1; batch < 9; ++batch) {
        static sequence s;
        tn_data *data = NULL;
        OK(open_kind("records", indexed ? index_param("bytes=20") : NULL,
                     OPTIONS(.batch = batch, .shuffle = shuffle), &data));
        cr_assert_eq(tn_data_count_examples(data), N_SOME);
        s.n = 0;
        for (uint64_t b = 0; b < tn_data_count_batches(data); ++b) {
          const tn_batch each = next(data);
          expect_records(&each, indexed ? 20 : LONGEST);
          for (uint64_t i = 0; i < each.n_examples - each.pad; ++i)
            s.at[s.n++] = each.index[i];
        }
        expect_all(&s, N_SOME, 1);
        tn_data_release(data);
      }
}

Test(record_data, of_all_parts_has_every_record_without_an_index) {
  (void)write_records(some, N_SOME);
  for (uint32_t n = 1; n < 9; ++n) {
    static sequence s;
    s.n = 0;
    for (uint32_t part = 0; part < n; ++part) {
      tn_data *data = NULL;
      OK(open_kind("records", NULL, OPTIONS(.part = part, .n_parts = n),
                   &data));
      (void)read_batches(data, 100, &s);
      tn_data_release(data);
    }
    expect_all(&s, N_SOME, 1);
  }
}

/* Changes one byte of the file. */
static void damage(long at, int value) {
  FILE *file = fopen(path_of("a.rec"), "r+b");
  cr_assert_not_null(file);
  cr_assert_eq(fseek(file, at, SEEK_SET), 0);
  cr_assert_eq(fputc(value, file), value);
  cr_assert_eq(fclose(file), 0);
}

Test(record_data, with_damage_is_refused_or_leaves_records_out) {
  for (int indexed = 0; indexed < 2; ++indexed) {
    tn_data *data = NULL;
    (void)write_records(some, N_SOME);
    damage(12, 0); /* the head of the second record */
    FAILS(open_kind("records", indexed ? index_param("") : NULL, NULL, &data),
          TN_INVALID, "at byte 12: no record begins here");
    OK(open_kind("records", indexed ? index_param("") : NULL,
                 OPTIONS(.on_damage = TN_DAMAGE_SKIP, .batch = 5), &data));
    cr_assert_eq(tn_data_count_examples(data), N_SOME - 1);
    cr_assert_eq(tn_data_count_damage(data), 1);
    const tn_batch batch = next(data);
    static const size_t kept[] = {0, 2, 3, 4, 5};
    const int64_t *lengths = elements(batch.arrays[1]);
    for (int i = 0; i < 5; ++i)
      cr_assert_eq(lengths[i], (int64_t)some[kept[i]].bytes);
    tn_data_release(data);
  }
}

Test(record_data, that_changes_while_it_is_read_is_reported) {
  tn_data *data = NULL;
  tn_batch batch;
  (void)write_records(some, N_SOME);
  OK(open_kind("records", NULL, OPTIONS(.prefetch = TN_NO_PREFETCH), &data));
  damage(12, 0);
  (void)next(data);
  FAILS(tn_data_next(data, &batch), TN_INVALID, "the record at byte 12");
  batch = next(data);
  cr_assert_eq(batch.index[0], 2);
  tn_data_release(data);
  (void)write_records(some, N_SOME);
  FAILS(open_kind("records", "bytes=16", NULL, &data), TN_OUT_OF_RANGE,
        "17 bytes, and `bytes` is 16");
}

/* Every byte of a file, changed in turn: reading ends, and never leaves the
 * memory of the batch. */
Test(record_data, of_hostile_files_ends) {
  const char *path = write_records(some, N_SOME);
  FILE *file = fopen(path, "rb");
  char bytes[256];
  cr_assert_not_null(file);
  const size_t n = fread(bytes, 1, sizeof bytes, file);
  (void)fclose(file);
  for (size_t at = 0; at < n; ++at) {
    static sequence s;
    tn_data *data = NULL;
    s.n = 0;
    bytes[at] = (char)(bytes[at] ^ (1 << at % 8));
    (void)write_file("a.rec", bytes, n);
    bytes[at] = (char)(bytes[at] ^ (1 << at % 8));
    OK(open_kind("records", NULL, OPTIONS(.on_damage = TN_DAMAGE_SKIP), &data));
    (void)read_batches(data, 100, &s);
    cr_assert_leq(s.n, 30);
    tn_data_release(data);
  }
}

/* ------------------------------------------------------------------- images */

static const char manifest[] =
    "opgen: 1\n"
    "op: add_bytes\n"
    "summary: For each file the sum of its bytes, and its seed\n"
    "params: [{name: times, type: int, default: 1}]\n"
    "inputs:\n"
    "  - {name: bytes, dtype: u8, shape: [B], independent: true, "
    "layout: contiguous}\n"
    "  - {name: offsets, dtype: i64, shape: [N + 1], layout: contiguous}\n"
    "  - {name: seeds, dtype: i64, shape: [N], layout: contiguous}\n"
    "outputs: [{name: out, dtype: i64, shape: [N, 2], layout: contiguous}]\n"
    "kernels: [{device: cpu, forward: add_bytes, flags: [reentrant]}]\n";

static int32_t add_bytes(const tn_frame *call) {
  const unsigned char *bytes = call->in[0].data;
  const int64_t *offsets = call->in[1].data, *seeds = call->in[2].data;
  int64_t *out = call->out[0].data;
  for (int64_t i = 0; i < call->in[2].shape[0]; ++i) {
    out[2 * i] = 0;
    out[2 * i + 1] = seeds[i];
    for (int64_t b = offsets[i]; b < offsets[i + 1]; ++b) {
      if (bytes[b] == 255)
        return TN_FAIL(call, TN_INVALID, "file %d is damaged", (int)i);
      out[2 * i] += bytes[b] * *(const int64_t *)call->params;
    }
  }
  return TN_OK;
}

static void define_operator(void) {
  const tn_host_kernel functions[] = {{"add_bytes", add_bytes, NULL, NULL}};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = functions};
  OK(tn_operator_define(rt, manifest, &kernels, NULL));
}

/* Image i has i + 1 bytes of value i, and the label i / 2. With more labels
 * these are i, i + 1, ... */
enum { IMAGES = 20, HEAD = 24 };

static size_t make_image(size_t i, uint32_t n_labels, unsigned char *to) {
  const float label = n_labels > 1 ? 0 : (float)i / 2;
  const uint32_t flag = n_labels > 1 ? n_labels : 0;
  size_t n = HEAD;
  memset(to, 0, HEAD);
  memcpy(to, &flag, sizeof flag);
  memcpy(to + 4, &label, sizeof label);
  memcpy(to + 8, &(uint64_t){1000 + i}, 8);
  for (uint32_t k = 0; k < flag; ++k, n += 4)
    memcpy(to + n, &(float){(float)(i + k)}, 4);
  memset(to + n, (int)i, i + 1);
  return n + i + 1;
}

static void write_images(uint32_t n_labels) {
  static unsigned char bytes[IMAGES][256];
  blob records[IMAGES];
  for (size_t i = 0; i < IMAGES; ++i)
    records[i] =
        (blob){(const char *)bytes[i], make_image(i, n_labels, bytes[i])};
  (void)write_records(records, IMAGES);
}

#define DECODE "operator=host.add_bytes decode=\"times=3\" "

static void expect_images(const tn_batch *batch, uint32_t n_labels) {
  const int64_t *sums = elements(batch->arrays[0]);
  const float *labels = elements(batch->arrays[1]);
  cr_assert_eq(batch->n_arrays, 2);
  cr_assert_eq(tn_array_tensor(batch->arrays[1])->ndim, n_labels > 1 ? 2 : 1);
  for (uint64_t i = 0; i < batch->n_examples; ++i) {
    const uint64_t example = batch->index[i];
    cr_assert_eq(sums[2 * i], (int64_t)(3 * example * (example + 1)));
    for (uint32_t k = 0; k < n_labels; ++k)
      cr_assert_eq(labels[i * n_labels + k],
                   n_labels > 1 ? (float)(example + k) : (float)example / 2);
  }
}

Test(record_data, of_images_is_decoded_by_an_operator) {
  define_operator();
  for (uint32_t n_labels = 1; n_labels < 4; n_labels += 2) {
    write_images(n_labels);
    for (uint32_t batch = 1; batch < 40; batch += 6) {
      tn_data *data = NULL;
      OK(open_kind("images",
                   n_labels > 1 ? DECODE "label_width=3" : index_param(DECODE),
                   OPTIONS(.batch = batch, .shuffle = 1), &data));
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (uint64_t b = 0; b < tn_data_count_batches(data); ++b) {
          const tn_batch each = next(data);
          expect_images(&each, n_labels);
        }
        OK(tn_data_rewind(data));
      }
      tn_data_release(data);
    }
  }
}

typedef struct order_case {
  size_t n;
  uint64_t seed, epoch;
  uint64_t order[24];
  int64_t seeds[3];
} order_case;

static const order_case cases[] = {
#include "batches_cases.inc"
};

Test(record_data, of_images_has_seeds_that_no_order_changes) {
  define_operator();
  write_images(1);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c)
    for (uint32_t batch = 1; batch < 30; batch += 9) {
      tn_data *data = NULL;
      char state[256];
      OK(open_kind(
          "images", DECODE,
          OPTIONS(.batch = batch, .shuffle = batch > 9, .seed = cases[c].seed),
          &data));
      (void)snprintf(state, sizeof state,
                     "kind=images examples=20 batch=%u last=0 shuffle=%d "
                     "seed=%" PRId64 " part=0 n_parts=1 epoch=%" PRIu64
                     " next=0 carried=[]",
                     batch, batch > 9, (int64_t)cases[c].seed, cases[c].epoch);
      OK(tn_data_restore(data, state));
      for (uint64_t b = 0; b < tn_data_count_batches(data); ++b) {
        const tn_batch each = next(data);
        const int64_t *sums = elements(each.arrays[0]);
        for (uint64_t i = 0; i < each.n_examples; ++i)
          if (each.index[i] < 3 && each.index[i] < cases[c].n)
            cr_assert_eq(sums[2 * i + 1], cases[c].seeds[each.index[i]]);
      }
      tn_data_release(data);
    }
}

Test(record_data, of_images_without_the_operator_says_how_to_load_it) {
  tn_data *data = NULL;
  write_images(1);
  FAILS(open_kind("images", "decode=\"height=2 width=2\"", NULL, &data),
        TN_NOT_FOUND, "image.so");
  cr_assert_not_null(strstr(tn_error_text(), "image.decode_batch"));
  define_operator();
  FAILS(open_kind("images", "operator=host.add_bytes decode=\"size=2\"", NULL,
                  &data),
        TN_NOT_FOUND, "size");
}

Test(record_data, of_images_with_wrong_labels_is_refused_or_leaves_them_out) {
  tn_data *data = NULL;
  define_operator();
  write_images(3);
  FAILS(open_kind("images", DECODE, NULL, &data), TN_INVALID,
        "record 0, at byte 0: it has not as many labels as `label_width`");
  FAILS(open_kind("images", DECODE "label_width=4", NULL, &data), TN_INVALID,
        "label_width");
  static unsigned char bytes[2][256];
  const blob records[] = {{"short", 5},
                          {(char *)bytes[0], make_image(4, 1, bytes[0])},
                          {(char *)bytes[1], make_image(4, 3, bytes[1])}};
  (void)write_records(records, 3);
  FAILS(open_kind("images", DECODE, NULL, &data), TN_INVALID,
        "too short for the head of an image");
  OK(open_kind("images", DECODE, OPTIONS(.on_damage = TN_DAMAGE_SKIP), &data));
  cr_assert_eq(tn_data_count_examples(data), 1);
  cr_assert_eq(tn_data_count_damage(data), 2);
  const tn_batch batch = next(data);
  cr_assert_eq(*(const int64_t *)elements(batch.arrays[0]), 3 * 4 * 5);
  tn_data_release(data);
}

Test(record_data, of_images_that_cannot_be_decoded_fails_one_batch) {
  static unsigned char bytes[4][256];
  blob records[4];
  tn_data *data = NULL;
  tn_batch batch;
  define_operator();
  for (size_t i = 0; i < 4; ++i)
    records[i] = (blob){(char *)bytes[i], make_image(i, 1, bytes[i])};
  bytes[2][HEAD] = 255;
  (void)write_records(records, 4);
  OK(open_kind("images", DECODE, NULL, &data));
  (void)next(data), (void)next(data);
  FAILS(tn_data_next(data, &batch), TN_INVALID, "file 0 is damaged");
  cr_assert_not_null(strstr(tn_error_text(), "batch 2 of epoch 0"));
  batch = next(data);
  expect_images(&batch, 1);
  OK(tn_data_next(data, &batch));
  cr_assert_eq(batch.n_arrays, 0);
  tn_data_release(data);
}

/* ------------------------------------------------------------------ lives */

Test(record_data, of_images_is_released_at_any_time) {
  define_operator();
  write_images(1);
  for (size_t n = 0; n < 8; ++n) {
    static sequence s;
    tn_data *data = NULL;
    s.n = 0;
    OK(open_kind("images", DECODE,
                 OPTIONS(.batch = 3, .prefetch = 4, .shuffle = 1), &data));
    (void)read_batches(data, n, &s);
    if (n % 2) OK(tn_data_rewind(data));
    tn_data_release(data);
  }
  OK(tn_wait_all(rt));
}

static tn_code use_with_failures(meter *m, size_t at) {
  tn_runtime *other = NULL;
  tn_data *data = NULL;
  tn_batch batch;
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .workers = 1,
                                     .log = quiet,
                                     .allocator = {m, meter_alloc, meter_free}},
                       &other));
  const tn_host_kernel functions[] = {{"add_bytes", add_bytes, NULL, NULL}};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = functions};
  OK(tn_operator_define(other, manifest, &kernels, NULL));
  m->n_allocated = 0;
  m->fail_at = at;
  tn_code rc =
      tn_data_open(other, &(tn_data_file){path_of("a.rec"), "images", DECODE},
                   OPTIONS(.batch = 7), &data);
  for (int i = 0; i < 2 && rc == TN_OK; ++i) rc = tn_data_next(data, &batch);
  const size_t n_allocated = m->n_allocated;
  m->fail_at = 0;
  tn_data_release(data);
  tn_runtime_release(other);
  m->n_allocated = n_allocated;
  return rc;
}

Test(record_data, survives_the_failure_of_each_allocation) {
  write_images(1);
  for (size_t at = 1;; ++at) {
    meter m = {0};
    const tn_code rc = use_with_failures(&m, at);
    cr_assert_eq(m.n_living, 0, "failure %zu leaves %zu blocks", at,
                 m.n_living);
    if (m.n_allocated < at) {
      cr_assert_eq(rc, TN_OK, "%s", tn_error_text());
      cr_assert_gt(at, 30);
      break;
    }
    cr_assert_lt(at, 10000);
  }
}
