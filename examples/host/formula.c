/* SPDX-License-Identifier: Apache-2.0
 * An operator that is a formula: nothing is compiled.
 */
#include <stdio.h>
#include <tenon/define.h>

int main(void) {
  const tn_value scale = tn_value_float("scale", 2);
  const tn_formula cube = {.struct_size = sizeof cube,
                           .n = 1,
                           .params = &scale,
                           .name = "cube",
                           .expression = "scale*data^3"};
  const float values[] = {1, 2};
  const int64_t n = 2;
  float result[2] = {0};
  tn_runtime *rt = NULL;
  tn_operator *op = NULL;
  tn_array *x = NULL, *out = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_formula_define(rt, &cube, &op);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&out));
  if (!rc) rc = tn_array_get(out, result, sizeof result);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  printf("%s: %g %g\n", op ? tn_operator_name(op) : "?", (double)result[0],
         (double)result[1]);
  tn_array_release(out), tn_array_release(x);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
