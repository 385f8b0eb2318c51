/* SPDX-License-Identifier: Apache-2.0
 * Images per second by plugins/image, on the calling thread. The files of
 * FOLDER have one size, HEIGHT x WIDTH:
 *
 *   images PLUGIN FOLDER HEIGHT WIDTH
 *
 * Prints `decode`, image after image; `batch`, the same by one call; `resize`,
 * to 224 x 224; `augment`, random parts of 224 x 224 as planes of floats;
 * `draft`, the same at a fraction of the size where possible; and `loaded`, the
 * random parts by tn_data from a file of records, FOLDER/images.rec, which the
 * program writes.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/data.h>

#include "measure.h"

enum { MOST = 64 /* files */ };

#define SECONDS 0.3

/* One kind of call. */
typedef struct task {
  tn_runtime *rt;
  tn_operator *op;
  tn_params *params;
  tn_array *files[MOST]; /* of `decode` */
  tn_array *in[3];       /* of `decode_batch` */
  tn_data *data;
  size_t n;
} task;

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

static tn_array *make_array(tn_runtime *rt, tn_dtype dtype, const void *data,
                            int64_t n) {
  tn_array *array = NULL;
  const tn_spec spec = {dtype, 1, &n};
  must_succeed(tn_array_create(rt, &spec, &array));
  must_succeed(tn_array_set(array, data, (size_t)(n * tn_dtype_bytes(dtype))));
  return array;
}

/* Appends a file to the bytes; returns their new number. */
static int64_t read_file(const char *path, unsigned char **bytes, int64_t at) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    measure_fail("%s cannot be read", path);
  const long n = ftell(file);
  *bytes = realloc(*bytes, (size_t)(at + n));
  if (!*bytes) measure_fail("no memory for %s", path);
  rewind(file);
  if (fread(*bytes + at, 1, (size_t)n, file) != (size_t)n)
    measure_fail("%s cannot be read", path);
  (void)fclose(file);
  return at + n;
}

/* Reads all files into arrays. */
static void read_folder(task *t, const char *folder) {
  DIR *list = opendir(folder);
  unsigned char *bytes = NULL;
  int64_t offsets[MOST + 1] = {0};
  if (!list) measure_fail("%s cannot be read", folder);
  for (struct dirent *each; t->n < MOST && (each = readdir(list));) {
    char path[4096];
    if (!strstr(each->d_name, ".jpg")) continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
    offsets[t->n + 1] = read_file(path, &bytes, offsets[t->n]);
    ++t->n;
  }
  (void)closedir(list);
  if (t->n == 0) measure_fail("%s has no files .jpg", folder);
  for (size_t i = 0; i < t->n; ++i)
    t->files[i] = make_array(t->rt, TN_U8, bytes + offsets[i],
                             offsets[i + 1] - offsets[i]);
  t->in[0] = make_array(t->rt, TN_U8, bytes, offsets[t->n]);
  t->in[1] = make_array(t->rt, TN_I64, offsets, (int64_t)t->n + 1);
  free(bytes);
}

static void decode_each(void *arg) {
  const task *t = arg;
  for (size_t i = 0; i < t->n; ++i) {
    tn_array *out = NULL;
    must_succeed(
        tn_call(t->rt, t->op, TN_IN(t->files[i]), t->params, TN_OUT(&out)));
    must_succeed(tn_array_wait(out));
    tn_array_release(out);
  }
}

static void decode_all(void *arg) {
  task *t = arg;
  tn_array *out = NULL;
  must_succeed(
      tn_call(t->rt, t->op, &(tn_inputs){3, t->in}, t->params, TN_OUT(&out)));
  must_succeed(tn_array_wait(out));
  tn_array_release(out);
}

static void measure_task_of(task *t, const char *name, const char *op,
                            const char *params) {
  must_succeed(tn_operator_get(t->rt, op, &t->op));
  must_succeed(tn_params_parse(t->op, params, &t->params));
  const double each = measure_cpu(
      strcmp(op, "image.decode") == 0 ? decode_each : decode_all, t, SECONDS);
  printf("%s %.1f\n", name, (double)t->n * 1e9 / each);
  tn_params_release(t->params);
}

/* ------------------------------------------------------------------- loader */

/* Packs the files as `tenon data pack` does. */
static void write_records(const task *t, const char *path) {
  tn_record_writer *writer = NULL;
  must_succeed(tn_record_writer_create(t->rt, path, NULL, &writer));
  for (size_t i = 0; i < t->n; ++i) {
    const tn_tensor *file = tn_array_tensor(t->files[i]);
    const tn_record_header header = {
        .id = i, .data = file->data, .bytes = (uint64_t)file->shape[0]};
    must_succeed(tn_record_write_labelled(writer, i, &header));
  }
  must_succeed(tn_record_writer_finish(writer));
  tn_record_writer_release(writer);
}

static void load_all(void *arg) {
  const task *t = arg;
  tn_batch batch;
  must_succeed(tn_data_next(t->data, &batch));
  if (batch.n_examples != t->n) measure_fail("an epoch has several batches");
  must_succeed(tn_data_rewind(t->data));
}

static void measure_loader(task *t, const char *folder, const char *part) {
  char path[4096], params[400];
  const tn_data_file file = {path, "images", params};
  const tn_data_options options = {.struct_size = sizeof options,
                                   .batch = (uint32_t)t->n,
                                   .shuffle = 1,
                                   .prefetch = TN_NO_PREFETCH};
  (void)snprintf(path, sizeof path, "%s/images.rec", folder);
  (void)snprintf(params, sizeof params, "decode=\"%s\"", part);
  write_records(t, path);
  must_succeed(tn_data_open(t->rt, &file, &options, &t->data));
  printf("loaded %.1f\n",
         (double)t->n * 1e9 / measure_cpu(load_all, t, SECONDS));
  tn_data_release(t->data);
}

int main(int argc, char **argv) {
  task t = {0};
  char size[64], random[160];
  if (argc != 5) measure_fail("usage: images PLUGIN FOLDER HEIGHT WIDTH");
  must_succeed(
      tn_runtime_create(&(tn_options){.struct_size = sizeof(tn_options),
                                      .workers = 1,
                                      .engine = TN_ENGINE_NAIVE},
                        &t.rt));
  must_succeed(tn_plugin_load(t.rt, argv[1]));
  read_folder(&t, argv[2]);
  (void)snprintf(size, sizeof size, "height=%s width=%s", argv[3], argv[4]);
  static const char part[] =
      "height=224 width=224 mode=random mirror=0.5 dtype=f32 layout=chw "
      "mean=[0.485,0.456,0.406] std=[0.229,0.224,0.225]";
  (void)snprintf(random, sizeof random, "%s draft=true", part);
  measure_task_of(&t, "augment", "image.decode_batch", part);
  measure_task_of(&t, "draft", "image.decode_batch", random);
  measure_loader(&t, argv[2], part);
  measure_task_of(&t, "resize", "image.decode_batch", "height=224 width=224");
  measure_task_of(&t, "batch", "image.decode_batch", size);
  measure_task_of(&t, "decode", "image.decode", "");
  for (size_t i = 0; i < t.n; ++i) tn_array_release(t.files[i]);
  tn_array_release(t.in[0]);
  tn_array_release(t.in[1]);
  tn_runtime_release(t.rt);
  return 0;
}
