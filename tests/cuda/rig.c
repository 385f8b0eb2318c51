/* SPDX-License-Identifier: Apache-2.0
 * rig.c: see rig.h.
 */
#include "rig.h"

#include <criterion/criterion.h>

#include "must.h"

tn_runtime *rig;
bool rig_is_broken;

void rig_init(void) {
  rig = NULL;
  rig_is_broken = false;
}

void rig_open(const fake_cuda_options *options) {
  rig_open_within(options, UINT64_MAX);
}

void rig_open_within(const fake_cuda_options *options, uint64_t bytes) {
  const tn_memory_limit limit = {TN_DEVICE_CUDA, 0, bytes};
  const tn_options how = {.struct_size = sizeof how,
                          .workers = 2,
                          .n_memory_limits = bytes != UINT64_MAX,
                          .memory_limits = &limit};
  fake_cuda_begin(options);
  OK(tn_runtime_create(&how, &rig));
  OK(tn_plugin_load(rig, CUDA_FILE));
}

void rig_open_all(const fake_cuda_options *options) {
  rig_open(options);
  OK(tn_plugin_load(rig, ELEMWISE_FILE));
  OK(tn_plugin_load(rig, ELEMWISE_CUDA_FILE));
}

void rig_close(void) {
  if (!rig) return;
  tn_runtime_release(rig);
  rig = NULL;
  const char *told = fake_cuda_end();
  if (!rig_is_broken) must_be_silent(told);
}

tn_place rig_place(const char *text) {
  tn_place place;
  OK(tn_place_parse(rig, text, &place));
  return place;
}

tn_array *rig_array(const char *place, int64_t n) {
  tn_array *array = NULL;
  OK(tn_array_create_on(rig, &(tn_spec){TN_F32, 1, &n}, rig_place(place),
                        &array));
  return array;
}
