/* SPDX-License-Identifier: Apache-2.0
 * A table in batches: shuffled, with the next batches prepared in advance; and
 * a run that continues where another one has stopped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tenon/data.h>

static tn_code write_table(void) {
  FILE *file = fopen("flowers.csv", "w");
  if (!file) return TN_IO;
  fputs("length,width,kind\n", file);
  for (int i = 0; i < 10; ++i) fprintf(file, "%d.5,%d,%d\n", i, 2 * i, i % 3);
  return fclose(file) ? TN_IO : TN_OK;
}

static tn_code open_table(tn_runtime *rt, tn_data **out) {
  const tn_data_file file = {"flowers.csv", "csv",
                             "header=1 label=[-1] label_dtype=i64"};
  const tn_data_options options = {
      .struct_size = sizeof options, .batch = 4, .shuffle = 1, .seed = 42};
  return tn_data_open(rt, &file, &options, out);
}

/* The place of training. */
static tn_code show(const tn_batch *batch) {
  float data[4][2];
  int64_t labels[4];
  tn_code rc = tn_array_get(batch->arrays[0], data, sizeof data);
  if (!rc) rc = tn_array_get(batch->arrays[1], labels, sizeof labels);
  printf("epoch %" PRIu64 " batch %" PRIu64 ":", batch->epoch, batch->number);
  for (uint64_t i = 0; i < batch->n_examples - batch->pad; ++i)
    printf(" (%g %g) is %" PRId64, (double)data[i][0], (double)data[i][1],
           labels[i]);
  printf("\n");
  return rc;
}

/* Reads some batches, over the ends of epochs. */
static tn_code read_batches(tn_data *data, int n) {
  tn_code rc = TN_OK;
  while (!rc && n > 0) {
    tn_batch batch;
    rc = tn_data_next(data, &batch);
    if (!rc && batch.n_arrays == 0) rc = tn_data_rewind(data);
    if (!rc && batch.n_arrays > 0) {
      rc = show(&batch);
      --n;
    }
  }
  return rc;
}

int main(void) {
  tn_runtime *rt = NULL;
  tn_data *first = NULL, *second = NULL;
  tn_text *state = NULL;
  tn_code rc = write_table();
  if (!rc) rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = open_table(rt, &first);
  if (!rc) rc = read_batches(first, 4);
  if (!rc) rc = tn_data_save(first, &state);
  if (!rc) printf("%s\n", tn_text_get(state));
  if (!rc) rc = open_table(rt, &second);
  if (!rc) rc = tn_data_restore(second, tn_text_get(state));
  if (!rc) rc = read_batches(second, 2);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_text_release(state);
  tn_data_release(second), tn_data_release(first);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
