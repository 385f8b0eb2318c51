/* SPDX-License-Identifier: Apache-2.0
 * rig_gpu.c: rig.h on a GPU that is there: the driver is the machine's, so
 * options of a simulated one do not count.
 */
#include <criterion/criterion.h>

#include "rig.h"

tn_runtime *rig;

void rig_init(void) {
  rig = NULL;
}

void rig_open(const fake_cuda_options *options) {
  const tn_options how = {.struct_size = sizeof how, .workers = 2};
  (void)options;
  OK(tn_runtime_create(&how, &rig));
  OK(tn_plugin_load(rig, CUDA_FILE));
}

void rig_close(void) {
  tn_runtime_release(rig);
  rig = NULL;
}

tn_place rig_place(const char *text) {
  tn_place place;
  OK(tn_place_parse(rig, text, &place));
  return place;
}
