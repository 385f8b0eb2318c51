/* SPDX-License-Identifier: Apache-2.0
 * test_text_data.c: data of kind csv, libsvm and idx: values, types, mistakes
 * with their places. Expected numbers are those of the texts.
 */
#include <math.h>

#include "../meter.h"
#include "batches_test.h"

static tn_runtime *rt;

static void open_all(void) {
  OK(tn_runtime_create(NULL, &rt));
  make_folder();
}

static void close_all(void) {
  tn_runtime_release(rt);
  remove_folder();
}

TestSuite(text_data, .init = open_all, .fini = close_all, .timeout = 60);

static tn_data *open_text(const char *kind, const char *text,
                          const char *params, const tn_data_options *options) {
  tn_data *data = NULL;
  const char *path = write_text("a.csv", text);
  OK(tn_data_open(rt, &(tn_data_file){path, kind, params}, options, &data));
  return data;
}

static tn_batch next(tn_data *data) {
  tn_batch batch;
  OK(tn_data_next(data, &batch));
  cr_assert_gt(batch.n_arrays, 0);
  return batch;
}

/* ---------------------------------------------------------------------- csv */

Test(text_data, of_a_table_is_read) {
  tn_data *data = open_text("csv", "1,2,3\r\n4,5.5,-6e2\n\n7,8,9", NULL,
                            OPTIONS(.batch = 2));
  cr_assert_eq(tn_data_count_examples(data), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    tn_batch batch = next(data);
    cr_assert_eq(batch.n_arrays, 1);
    expect_floats(batch.arrays[0], (float[]){1, 2, 3, 4, 5.5f, -600}, 6);
    batch = next(data);
    cr_assert_eq(batch.pad, 1);
    expect_floats(batch.arrays[0], (float[]){7, 8, 9, 1, 2, 3}, 6);
    OK(tn_data_rewind(data));
  }
  tn_data_release(data);
}

Test(text_data, of_a_table_has_labels_shapes_and_names) {
  tn_data *data =
      open_text("csv", "\xef\xbb\xbfx;y;z;t;kind\n 1 ;2;3;4;\t10\n5;;7;8;11\n",
                "label=[-1] label_dtype=i64 delimiter=\";\" header=1 "
                "shape=[2, 2] missing=-1 dtype=f64",
                OPTIONS(.batch = 2));
  const tn_batch batch = next(data);
  static const double want[] = {1, 2, 3, 4, 5, -1, 7, 8};
  const tn_tensor *t = tn_array_tensor(batch.arrays[0]);
  cr_assert_eq(batch.n_arrays, 2);
  cr_assert(t->dtype == TN_F64 && t->ndim == 3 && t->shape[0] == 2 &&
            t->shape[1] == 2 && t->shape[2] == 2);
  cr_assert_eq(memcmp(elements(batch.arrays[0]), want, sizeof want), 0);
  t = tn_array_tensor(batch.arrays[1]);
  cr_assert(t->dtype == TN_I64 && t->ndim == 1 && t->shape[0] == 2);
  const int64_t *labels = elements(batch.arrays[1]);
  cr_assert(labels[0] == 10 && labels[1] == 11);
  tn_data_release(data);
  data = open_text("csv", "1 2 3 4\n", "label=[2,0] delimiter=\" \"", NULL);
  expect_floats(next(data).arrays[0], (float[]){2, 4}, 2);
  OK(tn_data_rewind(data));
  expect_floats(next(data).arrays[1], (float[]){3, 1}, 2);
  tn_data_release(data);
}

Test(text_data, has_the_numbers_of_the_c_library) {
  static const char *const texts[] = {"0",
                                      "-0",
                                      "+1.5",
                                      "1.",
                                      ".25",
                                      "1e22",
                                      "1e23",
                                      "123456789",
                                      "0.1",
                                      "1e-22",
                                      "1e-23",
                                      "3.4028235e38",
                                      "1e-320",
                                      "nan",
                                      "-inf",
                                      "9007199254740993",
                                      "12345678901234567890123",
                                      "0.30000000000000004",
                                      "2.2250738585072011e-308",
                                      "1e400",
                                      "00000000000000000000001.5"};
  enum { N = sizeof texts / sizeof *texts };
  for (int i = 0; i < N; ++i) {
    tn_data *data = open_text("csv", texts[i], "dtype=f64", NULL);
    const double got = *(const double *)elements(next(data).arrays[0]);
    const double want = strtod(texts[i], NULL);
    cr_assert(
        memcmp(&got, &want, sizeof got) == 0 || (isnan(got) && isnan(want)),
        "%s is %.17g", texts[i], got);
    tn_data_release(data);
  }
  tn_data *data = open_text("csv", "-9223372036854775808,9223372036854775807",
                            "dtype=i64", NULL);
  const int64_t *whole = elements(next(data).arrays[0]);
  cr_assert(whole[0] == INT64_MIN && whole[1] == INT64_MAX);
  tn_data_release(data);
}

typedef struct mistake {
  const char *kind;
  const char *text;
  const char *params;
  tn_code code;
  const char *part;
} mistake;

static const mistake mistakes[] = {
    {"csv", "1,2\n3,x4\n", NULL, TN_INVALID,
     "line 2, column 3: `x4` is no f32"},
    {"csv", "1,2\n\n3,4,5\n", NULL, TN_INVALID,
     "line 3, column 4: the line has 3 cells, and the first one has 2"},
    {"csv", "1,2\n3\n", NULL, TN_INVALID,
     "line 2, column 2: the line has 1 cells, and the first one has 2"},
    {"csv", "1,2\n3, \n", NULL, TN_INVALID,
     "line 2, column 4: the cell is empty; set `missing`"},
    {"csv", "x,y\n3,4\n", NULL, TN_INVALID, "set `header`"},
    {"csv", "1,300\n", "dtype=u8", TN_INVALID, "column 3: `300` is no u8"},
    {"csv", "1.5\n", "dtype=i32", TN_INVALID, "`1.5` is no i32"},
    {"csv", "9223372036854775808\n", "dtype=i64", TN_INVALID, "is no i64"},
    {"csv", "1,2\n", "label=[2]", TN_OUT_OF_RANGE, "column 2"},
    {"csv", "1,2\n", "label=[0,-2]", TN_OUT_OF_RANGE, "column 0 twice"},
    {"csv", "1,2\n", "shape=[3]", TN_SHAPE, "3 elements"},
    {"csv", "1,2\n", "delimiter=ab", TN_INVALID, "one character"},
    {"csv", "1,2\n", "lable=[0]", TN_NOT_FOUND, "label"},
    {"csv", "1,2\n", "dtype=f16", TN_INVALID, "f16"},
    {"libsvm", "1 1:2\n0 x:1\n", NULL, TN_INVALID,
     "line 2, column 3: `x:1` has no index"},
    {"libsvm", "1 1:2 5\n", NULL, TN_INVALID, "column 7: `5` has no `:`"},
    {"libsvm", "1 2:x\n", NULL, TN_INVALID, "column 3: `2:x` has no number"},
    {"libsvm", "1 0:2\n", NULL, TN_INVALID,
     "column 3: feature 0, but the first one is 1; set `first_index`"},
    {"libsvm", "1 4:2\n", "features=3", TN_INVALID,
     "feature 4, but the last one is 3; set `features`"},
    {"libsvm", "a 1:2\n", NULL, TN_INVALID, "column 1: `a` is no label"},
    {"libsvm", "1 qid:3 1:2\n", NULL, TN_INVALID, "`qid:3`"},
    {"libsvm", "1 99999999999999999999:3\n", NULL, TN_INVALID, "no index"}};

Test(text_data, with_a_mistake_names_its_line_and_column) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    const mistake *m = &mistakes[i];
    tn_data *data = NULL;
    const char *path = write_text("a.csv", m->text);
    FAILS(tn_data_open(rt, &(tn_data_file){path, m->kind, m->params}, NULL,
                       &data),
          m->code, m->part);
    cr_assert_null(data);
  }
  tn_data *data = NULL;
  FAILS(tn_data_open(rt, &(tn_data_file){"/nowhere/x.csv", "csv", NULL}, NULL,
                     &data),
        TN_NOT_FOUND, "/nowhere/x.csv");
}

Test(text_data, with_a_mistake_is_left_out_on_demand) {
  tn_data *data = open_text("csv", "1,2\n3,x\n4\n5,6\n", NULL,
                            OPTIONS(.batch = 2, .on_damage = TN_DAMAGE_SKIP));
  cr_assert_eq(tn_data_count_examples(data), 2);
  cr_assert_eq(tn_data_count_damage(data), 2);
  expect_floats(next(data).arrays[0], (float[]){1, 2, 5, 6}, 4);
  tn_data_release(data);
  data = open_text("libsvm", "1 1:2\n1 x\n2 2:4\n", NULL,
                   OPTIONS(.batch = 2, .on_damage = TN_DAMAGE_SKIP));
  cr_assert_eq(tn_data_count_damage(data), 1);
  expect_floats(next(data).arrays[0], (float[]){2, 0, 0, 4}, 4);
  tn_data_release(data);
}

Test(text_data, of_an_empty_file_has_no_batches) {
  static const char *const texts[] = {"", "\n\n", "# only a remark"};
  for (int i = 0; i < 3; ++i) {
    tn_batch batch;
    tn_data *data = open_text(i == 2 ? "libsvm" : "csv", texts[i], NULL, NULL);
    cr_assert_eq(tn_data_count_batches(data), 0);
    OK(tn_data_next(data, &batch));
    cr_assert_eq(batch.n_arrays, 0);
    tn_data_release(data);
  }
}

/* A file that is longer than one piece of a scan, with lines of all lengths,
 * read in order and shuffled. */
Test(text_data, of_a_long_file_is_the_same_in_every_order) {
  enum { LINES = 30000 };
  FILE *file = fopen(path_of("a.csv"), "wb");
  cr_assert_not_null(file);
  for (int i = 0; i < LINES; ++i)
    cr_assert_gt(fprintf(file, "%*d,%d.5\n", i % 40, i, i), 0);
  cr_assert_eq(fclose(file), 0);
  for (uint32_t shuffle = 0; shuffle < 2; ++shuffle) {
    tn_data *data = NULL;
    uint64_t n = 0;
    const char *path = path_of("a.csv");
    OK(tn_data_open(rt, &(tn_data_file){path, "csv", NULL},
                    OPTIONS(.batch = 100, .shuffle = shuffle), &data));
    for (;;) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
      if (batch.n_arrays == 0) break;
      const float *values = elements(batch.arrays[0]);
      for (int i = 0; i < 100; ++i, ++n) {
        cr_assert_eq(values[2 * i], (float)batch.index[i]);
        cr_assert_eq(values[2 * i + 1], (float)batch.index[i] + 0.5f);
        if (!shuffle) cr_assert_eq(batch.index[i], n);
      }
    }
    cr_assert_eq(n, LINES);
    tn_data_release(data);
  }
}

Test(text_data, that_changes_while_it_is_read_is_reported) {
  tn_batch batch;
  tn_data *data =
      open_text("csv", "1,2\n3,4\n5,6\n", NULL, OPTIONS(.prefetch = 1));
  (void)next(data);
  FILE *file = fopen(path_of("a.csv"), "r+b");
  cr_assert_not_null(file);
  cr_assert_eq(fseek(file, 8, SEEK_SET), 0);
  cr_assert_eq(fputc('x', file), 'x');
  cr_assert_eq(fclose(file), 0);
  OK(tn_data_rewind(data));
  (void)next(data), (void)next(data);
  FAILS(tn_data_next(data, &batch), TN_INVALID, "byte 8: `x` is no f32");
  cr_assert_not_null(strstr(tn_error_text(), "batch 2 of epoch 1"));
  cr_assert_eq(batch.n_arrays, 0);
  OK(tn_data_next(data, &batch)); /* the end of the epoch */
  cr_assert_eq(batch.n_arrays, 0);
  OK(tn_data_rewind(data));
  (void)next(data);
  cr_assert_eq(truncate(path_of("a.csv"), 2), 0);
  OK(tn_data_rewind(data));
  FAILS(tn_data_next(data, &batch), TN_IO, "shorter");
  tn_data_release(data);
}

/* ------------------------------------------------------------------- libsvm */

Test(text_data, of_libsvm_becomes_dense) {
  tn_data *data = open_text("libsvm", "+1 1:0.5 3:2 # a remark\n\n-1 2:4\n0\n",
                            NULL, OPTIONS(.batch = 3));
  tn_batch batch = next(data);
  cr_assert_eq(batch.n_arrays, 2);
  expect_floats(batch.arrays[0], (float[]){0.5f, 0, 2, 0, 4, 0, 0, 0, 0}, 9);
  expect_floats(batch.arrays[1], (float[]){1, -1, 0}, 3);
  tn_data_release(data);
  data = open_text("libsvm", "1 0:1 1:2\n", "features=4 first_index=0", NULL);
  batch = next(data);
  expect_floats(batch.arrays[0], (float[]){1, 2, 0, 0}, 4);
  tn_data_release(data);
}

/* ---------------------------------------------------------------------- idx */

static const unsigned char images[] = {0, 0, 8, 3, 0, 0,  0,  3,  0, 0,
                                       0, 2, 0, 0, 0, 2,  1,  2,  3, 4,
                                       5, 6, 7, 8, 9, 10, 11, 255};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9};

static char *idx_params(const char *more) {
  static char text[256];
  (void)snprintf(text, sizeof text, "label=\"%s\" %s", path_of("b.idx"), more);
  return text;
}

Test(text_data, of_mnist_is_read) {
  tn_data *data = NULL;
  const char *path = write_file("a.idx", images, sizeof images);
  (void)write_file("b.idx", labels, sizeof labels);
  OK(tn_data_open(rt, &(tn_data_file){path, "idx", idx_params("")},
                  OPTIONS(.batch = 2), &data));
  tn_batch batch = next(data);
  const tn_tensor *t = tn_array_tensor(batch.arrays[0]);
  cr_assert(t->dtype == TN_U8 && t->ndim == 3 && t->shape[0] == 2 &&
            t->shape[1] == 2 && t->shape[2] == 2);
  cr_assert_eq(memcmp(elements(batch.arrays[0]), images + 16, 8), 0);
  cr_assert_eq(memcmp(elements(batch.arrays[1]), labels + 8, 2), 0);
  batch = next(data);
  cr_assert_eq(batch.pad, 1);
  cr_assert_eq(memcmp(elements(batch.arrays[0]), images + 24, 4), 0);
  cr_assert_eq(memcmp(elements(batch.arrays[1]), "\x09\x07", 2), 0);
  tn_data_release(data);
  OK(tn_data_open(rt,
                  &(tn_data_file){path, "idx", "dtype=f32 scale=0.00390625"},
                  OPTIONS(.batch = 3), &data));
  float want[12];
  for (int i = 0; i < 12; ++i) want[i] = (float)images[16 + i] / 256;
  expect_floats(next(data).arrays[0], want, 12);
  tn_data_release(data);
}

Test(text_data, of_idx_files_of_every_type_is_read) {
  /* Two examples, 1 and -2, in each type with the highest byte first. */
  static const struct {
    unsigned char bytes[24];
    size_t n;
    double want[2];
  } files[] = {{{0, 0, 9, 1, 0, 0, 0, 2, 1, 0xfe}, 10, {1, -2}},
               {{0, 0, 11, 1, 0, 0, 0, 2, 0, 1, 0xff, 0xfe}, 12, {1, -2}},
               {{0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe},
                16,
                {1, -2}},
               {{0, 0, 13, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0}, 16, {1, -2}},
               {{0, 0, 14, 1, 0, 0, 0, 2, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0},
                24,
                {1, -2}}};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    tn_data *data = NULL;
    const char *path = write_file("a.idx", files[i].bytes, files[i].n);
    OK(tn_data_open(rt, &(tn_data_file){path, "idx", "dtype=f64"},
                    OPTIONS(.batch = 2), &data));
    cr_assert_eq(memcmp(elements(next(data).arrays[0]), files[i].want,
                        sizeof files[i].want),
                 0);
    tn_data_release(data);
    OK(tn_data_open(rt, &(tn_data_file){path, "idx", NULL}, OPTIONS(.batch = 2),
                    &data));
    tn_array *same = NULL;
    double got[2];
    OK(tn_array_cast(next(data).arrays[0], TN_F64, &same));
    OK(tn_array_get(same, got, sizeof got));
    cr_assert_eq(memcmp(got, files[i].want, sizeof got), 0);
    tn_array_release(same);
    tn_data_release(data);
  }
}

/* The labels, compressed by `gzip -9n`. */
static const unsigned char compressed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
    0x60, 0xe0, 0x60, 0x64, 0x60, 0x60, 0x60, 0x66, 0xe7, 0xe0, 0x04,
    0x00, 0xad, 0x98, 0x0a, 0xba, 0x0b, 0x00, 0x00, 0x00};

Test(text_data, of_compressed_idx_files_is_read) {
  tn_data *data = NULL;
  const char *path = write_file("a.idx", compressed, sizeof compressed);
  OK(tn_data_open(rt, &(tn_data_file){path, "idx", NULL}, OPTIONS(.batch = 2),
                  &data));
  cr_assert_eq(tn_data_count_examples(data), 3);
  cr_assert_eq(memcmp(elements(next(data).arrays[0]), labels + 8, 2), 0);
  tn_data_release(data);
}

Test(text_data, of_damaged_idx_files_is_refused) {
  static const struct {
    unsigned char bytes[24];
    size_t n;
    tn_code code;
    const char *part;
  } wrong[] = {
      {{0, 0, 8}, 3, TN_INVALID, "too short"},
      {{1, 0, 8, 1, 0, 0, 0, 1, 5}, 9, TN_INVALID, "first two bytes"},
      {{0, 0, 7, 1, 0, 0, 0, 1, 5}, 9, TN_INVALID, "third byte"},
      {{0, 0, 8, 0, 0, 0, 0, 1, 5}, 9, TN_INVALID, "number of dimensions"},
      {{0, 0, 8, 17, 0, 0, 0, 1, 5}, 9, TN_INVALID, "number of dimensions"},
      {{0, 0, 8, 2, 0, 0, 0, 1, 5}, 9, TN_INVALID, "inside of the dimensions"},
      {{0, 0, 8, 1, 0, 0, 0, 2, 5},
       9,
       TN_INVALID,
       "has 1 bytes of elements, and its dimensions need 2"},
      {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255},
       16,
       TN_INVALID,
       "too large"},
      {{0x1f, 0x8b, 8, 0}, 4, TN_INVALID, "the end is missing"},
      {{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 7},
       24,
       TN_INVALID,
       "the compressed file is damaged"}};
  tn_data *data = NULL;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const char *path = write_file("a.idx", wrong[i].bytes, wrong[i].n);
    FAILS(tn_data_open(rt, &(tn_data_file){path, "idx", NULL}, NULL, &data),
          wrong[i].code, wrong[i].part);
  }
  const char *path = write_file("a.idx", images, sizeof images);
  (void)write_file("b.idx", "\0\0\x08\x01\0\0\0\x01\x05", 9);
  FAILS(tn_data_open(rt, &(tn_data_file){path, "idx", idx_params("")}, NULL,
                     &data),
        TN_SHAPE, "1 labels");
  FAILS(
      tn_data_open(rt, &(tn_data_file){path, "idx", "dtype=i32"}, NULL, &data),
      TN_INVALID, "f32 or f64");
  FAILS(tn_data_open(rt, &(tn_data_file){path, "idx", "scale=2"}, NULL, &data),
        TN_INVALID, "`scale` needs");
}

/* ----------------------------------------------------------------- faults */

typedef struct part {
  const void *data;
  size_t bytes;
} part;

static tn_code use_with_failures(meter *m, size_t at, const char *kind,
                                 const part *content) {
  tn_runtime *other = NULL;
  tn_data *data = NULL;
  tn_batch batch;
  const char *path = write_file("a.csv", content->data, content->bytes);
  OK(tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                     .workers = 1,
                                     .log = quiet,
                                     .allocator = {m, meter_alloc, meter_free}},
                       &other));
  m->n_allocated = 0;
  m->fail_at = at;
  tn_code rc = tn_data_open(other, &(tn_data_file){path, kind, NULL},
                            OPTIONS(.batch = 2), &data);
  for (int i = 0; i < 2 && rc == TN_OK; ++i) rc = tn_data_next(data, &batch);
  const size_t n_allocated = m->n_allocated;
  m->fail_at = 0;
  tn_data_release(data);
  tn_runtime_release(other);
  m->n_allocated = n_allocated;
  return rc;
}

Test(text_data, survives_the_failure_of_each_allocation) {
  static const char *const kinds[] = {"csv", "libsvm", "idx"};
  const part parts[] = {{"1,2\n3,4\n5,6\n", 12},
                        {"1 1:2\n0 2:3\n2\n", 14},
                        {compressed, sizeof compressed}};
  for (int k = 0; k < 3; ++k)
    for (size_t at = 1;; ++at) {
      meter m = {0};
      const tn_code rc = use_with_failures(&m, at, kinds[k], &parts[k]);
      cr_assert_eq(m.n_living, 0, "%s: failure %zu leaves %zu blocks", kinds[k],
                   at, m.n_living);
      if (m.n_allocated < at) {
        cr_assert_eq(rc, TN_OK, "%s", tn_error_text());
        cr_assert_gt(at, 20);
        break;
      }
      cr_assert_lt(at, 10000);
    }
}
