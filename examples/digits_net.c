/* SPDX-License-Identifier: Apache-2.0
 * digits_net.c: see digits_net.h.
 */
#include "digits_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const int64_t net_widths[NET_LAYERS + 1] = {DIGITS_PIXELS, 256, 128,
                                            DIGITS_CLASSES};

tn_code net_array(tn_runtime *rt, tn_place place, int32_t ndim,
                  const int64_t *shape, const float *values, tn_array **out) {
  size_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= (size_t)shape[d];
  float *zeros = values ? NULL : calloc(n, sizeof *zeros);
  if (!values && !zeros) return TN_OUT_OF_MEMORY;
  tn_code rc =
      tn_array_create_on(rt, &(tn_spec){TN_F32, ndim, shape}, place, out);
  if (!rc) rc = tn_array_set(*out, values ? values : zeros, n * sizeof *values);
  free(zeros);
  return rc;
}

/* Weight i, or the bias after it. */
static tn_code make(tn_runtime *rt, int i, const float *values,
                    tn_array **out) {
  const int64_t shape[2] = {net_widths[i / 2 + 1], net_widths[i / 2]};
  return net_array(rt, (tn_place){TN_DEVICE_CPU, 0}, i % 2 ? 1 : 2, shape,
                   values, out);
}

double net_limit(size_t n_in, size_t n_out) {
  return sqrt(6.0 / (double)(n_in + n_out));
}

tn_code net_zeros(tn_runtime *rt, tn_array *out[NET_WEIGHTS]) {
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) rc = make(rt, i, NULL, &out[i]);
  return rc;
}

tn_code net_weights(tn_runtime *rt, digits_random *random,
                    tn_array *out[NET_WEIGHTS]) {
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_WEIGHTS && !rc; i += 2) {
    const int64_t in = net_widths[i / 2], width = net_widths[i / 2 + 1];
    const size_t n = (size_t)(width * in);
    float *values = malloc(n * sizeof *values);
    if (!values) return TN_OUT_OF_MEMORY;
    digits_uniform(random, net_limit((size_t)in, (size_t)width), values, n);
    rc = make(rt, i, values, &out[i]);
    if (!rc) rc = make(rt, i + 1, NULL, &out[i + 1]);
    free(values);
  }
  return rc;
}

double net_rate(int epoch) {
  return 0.1 * pow(0.93, epoch - 1);
}

tn_code net_count(tn_array *out, const float *labels, size_t n,
                  digits_score *score) {
  static float p[DIGITS_TEST * DIGITS_CLASSES];
  const tn_code rc = tn_array_get(out, p, n * DIGITS_CLASSES * sizeof *p);
  if (!rc) digits_count(score, p, labels, n);
  return rc;
}

int net_main(int argc, char **argv, unsigned percent, net_train *train) {
  digits d;
  tn_runtime *rt = NULL;
  digits_score tested = {0};
  if (argc < 2) {
    fprintf(stderr, "usage: %s DIGITS.csv.gz [PLUGIN.so ...]\n", argv[0]);
    return 2;
  }
  if (!digits_read(argv[1], &d)) return 2;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc && argc == 2) rc = tn_plugins_load_standard(rt);
  for (int i = 2; i < argc && !rc; ++i) rc = tn_plugin_load(rt, argv[i]);
  if (!rc) rc = train(rt, &d, &tested);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(rt);
  digits_free(&d);
  return rc || 100 * tested.n_right < percent * tested.n;
}
