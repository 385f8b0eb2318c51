/* SPDX-License-Identifier: Apache-2.0
 * fixture_gpu.c: fixture.h on a GPU that is there: the driver is the machine's,
 * so options of a simulated one do not count.
 */
#include <criterion/criterion.h>

#include "fixture.h"

tn_runtime *fixture;

void fixture_init(void) {
  fixture = NULL;
}

void fixture_open(const fake_cuda_options *options) {
  const tn_options how = {.struct_size = sizeof how, .workers = 2};
  (void)options;
  OK(tn_runtime_create(&how, &fixture));
  OK(tn_plugin_load(fixture, CUDA_FILE));
}

void fixture_close(void) {
  tn_runtime_release(fixture);
  fixture = NULL;
}

tn_place fixture_place(const char *text) {
  tn_place place;
  OK(tn_place_parse(fixture, text, &place));
  return place;
}
