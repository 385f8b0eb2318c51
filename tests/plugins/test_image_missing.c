/* SPDX-License-Identifier: Apache-2.0
 * plugins/image where the libraries for files lack their functions (fake/image;
 * LD_LIBRARY_PATH leads to them): the decoders are withdrawn with a reason, and
 * the other operators compute.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static char lines[2048];

static void note(void *ctx, int32_t level, const char *line) {
  (void)ctx, (void)level;
  strncat(lines, line, sizeof lines - strlen(lines) - 2);
  strcat(lines, "\n");
}

static tn_runtime *load(void) {
  tn_runtime *rt = NULL;
  lines[0] = '\0';
  OK(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .log = note}, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

Test(image_missing, decoders_are_withdrawn_with_the_reason) {
  tn_runtime *rt = load();
  const double byte = 255;
  const int64_t n = 1;
  tn_array *in = host_many(rt, TN_U8, 1, &n, &byte), *out = NULL;
  cr_assert_not_null(strstr(lines, "JPEG files cannot be decoded: libjpeg.so"),
                     "%s", lines);
  cr_assert_not_null(strstr(lines, "PNG files cannot be decoded: libpng16.so"),
                     "%s", lines);
  FAILS(tn_call(rt, host_operator(rt, "image.decode"), TN_IN(in), NULL,
                TN_OUT(&out)),
        TN_UNSUPPORTED, "install libjpeg-turbo 1.5 or newer");
  tn_array_release(in);
  tn_runtime_release(rt);
}

Test(image_missing, other_operators_compute) {
  tn_runtime *rt = load();
  const double pixels[] = {1, 2};
  const int64_t dims[] = {1, 2, 1};
  tn_array *in = host_many(rt, TN_U8, 3, dims, pixels), *out = NULL;
  OK(tn_call(rt, host_operator(rt, "image.flip"), TN_IN(in), NULL,
             TN_OUT(&out)));
  double *v = host_many_values(out);
  cr_assert(v[0] == 2 && v[1] == 1);
  free(v);
  tn_array_release(in), tn_array_release(out);
  tn_runtime_release(rt);
}
