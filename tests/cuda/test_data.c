/* SPDX-License-Identifier: Apache-2.0
 * test_data.c: batches on a device (tenon/data.h): they are those of the cpu,
 * come through pinned memory, and use memory again while copies are late.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "tenon/data.h"

enum { N = 90, WIDTH = 5, BATCH = 7 };

static tn_data *open_data(const char *place, uint32_t prefetch) {
  const tn_data_options options = {.struct_size = sizeof options,
                                   .batch = BATCH,
                                   .shuffle = 1,
                                   .last = TN_LAST_ROLL,
                                   .prefetch = prefetch,
                                   .place = fixture_place(place)};
  float values[N * WIDTH];
  tn_array *array = NULL;
  tn_data *data = NULL;
  for (int i = 0; i < N * WIDTH; ++i) values[i] = (float)i;
  OK(tn_array_create(fixture, &(tn_spec){TN_F32, 2, (int64_t[]){N, WIDTH}},
                     &array));
  OK(tn_array_set(array, values, sizeof values));
  OK(tn_data_from_arrays(fixture, &array, 1, &options, &data));
  tn_array_release(array);
  return data;
}

/* Compares the elements with the numbers of the examples. */
static void expect_batch(const tn_batch *batch) {
  float got[BATCH * WIDTH];
  cr_assert_eq(tn_array_tensor(batch->arrays[0])->device_type, TN_DEVICE_CUDA);
  OK(tn_array_get(batch->arrays[0], got, sizeof got));
  for (uint64_t i = 0; i < BATCH; ++i)
    for (uint64_t k = 0; k < WIDTH; ++k)
      cr_assert_eq(got[i * WIDTH + k], (float)(batch->index[i] * WIDTH + k));
}

/* Bytes that a device holds in pinned memory. */
static long pinned_bytes(const char *device) {
  char name[64];
  tn_text *text = NULL;
  OK(tn_runtime_json(fixture, &text));
  (void)snprintf(name, sizeof name, "\"name\": \"%s\", \"open\"", device);
  const char *at = strstr(tn_text_get(text), name);
  at = at ? strstr(at, "\"staging\": ") : NULL;
  cr_assert_not_null(at, "%s", tn_text_get(text));
  const long bytes = strtol(at + strlen("\"staging\": "), NULL, 10);
  tn_text_release(text);
  return bytes;
}

static void read_epochs(uint64_t seed, uint32_t prefetch) {
  const void *addresses[8];
  size_t n = 0;
  fixture_open(&(fake_cuda_options){.devices = 2, .seed = seed});
  tn_data *data = open_data("cuda(1)", prefetch);
  cr_assert_geq(pinned_bytes("cuda(1)"),
                (long)((prefetch + 1) * BATCH * WIDTH * sizeof(float)));
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t b = 0; b < tn_data_count_batches(data); ++b) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
      expect_batch(&batch);
      const void *address = tn_array_tensor(batch.arrays[0])->data;
      size_t at = 0;
      while (at < n && addresses[at] != address) ++at;
      if (at == n) addresses[n++] = address;
      cr_assert_leq(n, prefetch + 1);
    }
    OK(tn_data_rewind(data));
  }
  tn_data_release(data);
  fixture_close();
}

Test(data, on_a_device_is_that_of_the_cpu) {
  for (uint64_t seed = 1; seed < 9; ++seed)
    for (uint32_t prefetch = 1; prefetch < 4; ++prefetch)
      read_epochs(seed, prefetch);
}

/* A batch is copied on the device and dropped at once, without a wait: the
 * copies run while later batches are filled. */
Test(data, on_a_device_may_be_read_late) {
  enum { BATCHES = N / BATCH };
  for (uint64_t seed = 1; seed < 9; ++seed) {
    tn_array *kept[BATCHES];
    uint64_t index[BATCHES][BATCH];
    fixture_open(
        &(fake_cuda_options){.devices = 1, .seed = seed, .latency_us = 100});
    tn_data *data = open_data("cuda(0)", 1);
    for (int b = 0; b < BATCHES; ++b) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
      memcpy(index[b], batch.index, sizeof index[b]);
      OK(tn_array_cast(batch.arrays[0], TN_F32, &kept[b]));
    }
    for (int b = 0; b < BATCHES; ++b) {
      expect_batch(
          &(tn_batch){.n_arrays = 1, .arrays = &kept[b], .index = index[b]});
      tn_array_release(kept[b]);
    }
    tn_data_release(data);
    fixture_close();
  }
}

Test(data, on_a_device_is_released_while_copies_are_late) {
  for (int n = 0; n < 6; ++n) {
    fixture_open(&(fake_cuda_options){
        .devices = 1, .seed = (uint64_t)n, .latency_us = 200});
    tn_data *data = open_data("cuda(0)", 3);
    for (int b = 0; b < n; ++b) {
      tn_batch batch;
      OK(tn_data_next(data, &batch));
    }
    if (n % 2) OK(tn_data_rewind(data));
    tn_data_release(data);
    fixture_close();
  }
}
