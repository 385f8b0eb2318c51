/* SPDX-License-Identifier: Apache-2.0
 * The shortest program that embeds libtenon. It prints `6 11 18 27`.
 *
 *   cc main.c $(pkg-config --cflags --libs tenon) -o main
 */
#include <stdio.h>
#include <tenon/tenon.h>

int main(void) {
  const float values[] = {1, 2, 3, 4};
  const int64_t shape[] = {2, 2};
  float result[4] = {0};
  tn_runtime *rt = NULL;
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *x = NULL, *y = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc) rc = tn_operator_get(rt, "elemwise.quadratic", &op);
  if (!rc) rc = tn_params_parse(op, "a=1 b=2 c=3", &params);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 2, shape}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_call(rt, op, TN_IN(x), params, TN_OUT(&y));
  if (!rc) rc = tn_array_get(y, result, sizeof result);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  printf("%g %g %g %g\n", result[0], result[1], result[2], result[3]);
  tn_array_release(y), tn_array_release(x), tn_params_release(params);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
