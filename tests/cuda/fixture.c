/* SPDX-License-Identifier: Apache-2.0
 * fixture.c: see fixture.h.
 */
#include "fixture.h"

#include <criterion/criterion.h>

#include "../must.h"

tn_runtime *fixture;
bool fixture_is_broken;

void fixture_init(void) {
  fixture = NULL;
  fixture_is_broken = false;
}

void fixture_open(const fake_cuda_options *options) {
  fixture_open_within(options, UINT64_MAX);
}

void fixture_open_within(const fake_cuda_options *options, uint64_t bytes) {
  const tn_memory_limit limit = {TN_DEVICE_CUDA, 0, bytes};
  const tn_options how = {.struct_size = sizeof how,
                          .workers = 2,
                          .n_memory_limits = bytes != UINT64_MAX,
                          .memory_limits = &limit};
  fake_cuda_begin(options);
  OK(tn_runtime_create(&how, &fixture));
  OK(tn_plugin_load(fixture, CUDA_FILE));
}

void fixture_open_all(const fake_cuda_options *options) {
  fixture_open(options);
  OK(tn_plugin_load(fixture, ELEMWISE_FILE));
  OK(tn_plugin_load(fixture, ELEMWISE_CUDA_FILE));
}

void fixture_close(void) {
  if (!fixture) return;
  tn_runtime_release(fixture);
  fixture = NULL;
  const char *told = fake_cuda_end();
  if (!fixture_is_broken) must_be_silent(told);
}

tn_place fixture_place(const char *text) {
  tn_place place;
  OK(tn_place_parse(fixture, text, &place));
  return place;
}

tn_array *fixture_array(const char *place, int64_t n) {
  tn_array *array = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, 1, &n},
                        fixture_place(place), &array));
  return array;
}
