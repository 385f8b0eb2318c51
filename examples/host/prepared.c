/* SPDX-License-Identifier: Apache-2.0
 * A call that is made again and again, with a parameter that changes.
 *
 *   ./prepared PLUGIN, which is that of examples/kernel
 */
#include <stdio.h>
#include <tenon/tenon.h>

static tn_code prepare(tn_runtime *rt, tn_operator *root, tn_array *x,
                       tn_array **y, tn_prepared **call) {
  const tn_preparation what = {.struct_size = sizeof what,
                               .op = root,
                               .inputs = *TN_IN(x),
                               .outputs = *TN_OUT(y)};
  return tn_call_prepare(rt, &what, call);
}

static tn_code work(tn_runtime *rt) {
  const float values[] = {1, 4, 9};
  const int64_t shape[] = {3};
  float result[3];
  tn_operator *root = NULL;
  tn_array *x = NULL, *y = NULL;
  tn_prepared *call = NULL;
  tn_code rc = tn_operator_get(rt, "lab.root", &root);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = prepare(rt, root, x, &y, &call);
  for (int step = 1; !rc && step <= 3; ++step) {
    const tn_value scale = tn_value_float("scale", step);
    rc = tn_call_set(call, &scale);
    if (!rc) rc = tn_call_run(call);
    if (!rc) rc = tn_array_get(y, result, sizeof result);
    if (!rc) printf("%g %g %g\n", result[0], result[1], result[2]);
  }
  tn_prepared_release(call);
  tn_array_release(x), tn_array_release(y);
  return rc;
}

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc && argc > 1) rc = tn_plugin_load(rt, argv[1]);
  if (!rc) rc = work(rt);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
