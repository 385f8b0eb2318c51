/* SPDX-License-Identifier: Apache-2.0
 * The same random numbers once more.
 *
 *   ./random PLUGIN, which is that of examples/kernel
 */
#include <stdio.h>
#include <tenon/tenon.h>

static tn_code draw(tn_runtime *rt, tn_operator *uniform, tn_array *like) {
  float v[3];
  tn_array *numbers = NULL;
  tn_code rc = tn_call(rt, uniform, TN_IN(like), NULL, TN_OUT(&numbers));
  if (!rc) rc = tn_array_get(numbers, v, sizeof v);
  if (!rc) printf("%.6f %.6f %.6f\n", v[0], v[1], v[2]);
  tn_array_release(numbers);
  return rc;
}

int main(int argc, char **argv) {
  const int64_t shape[] = {3};
  const tn_options options = {.struct_size = sizeof options, .seed = 7};
  tn_random_state state;
  tn_runtime *rt = NULL;
  tn_operator *uniform = NULL;
  tn_array *like = NULL;
  tn_code rc = tn_runtime_create(&options, &rt);
  if (!rc && argc > 1) rc = tn_plugin_load(rt, argv[1]);
  if (!rc) rc = tn_operator_get(rt, "lab.uniform", &uniform);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &like);
  if (!rc) rc = draw(rt, uniform, like);
  if (!rc) rc = tn_random_get(rt, &state);
  if (!rc) rc = draw(rt, uniform, like);
  if (!rc) rc = tn_random_set(rt, &state);
  if (!rc) rc = draw(rt, uniform, like);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_array_release(like);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
