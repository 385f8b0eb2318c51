/* SPDX-License-Identifier: Apache-2.0
 * The same plugin linked into the program: its symbol has the plugin's name,
 * and the host registers it by hand.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "host.h"

extern const tn_plugin tn_plugin_elemwise;

Test(static, a_linked_plugin_registers_and_computes_like_a_loaded_one) {
  const double values[4] = {1, 2, 3, 4};
  tn_runtime *rt = NULL;
  tn_array *y = NULL;
  OK(tn_runtime_create(NULL, &rt));
  OK(tn_plugin_add(rt, &tn_plugin_elemwise));
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *params = host_params(op, "a=1 b=2 c=3");
  tn_array *x = host_array(rt, TN_F32, (host_shape){1, {4}}, values);
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
  host_expect(y, (double[]){6, 11, 18, 27}, 4, 0);
  FAILS(tn_plugin_add(rt, &tn_plugin_elemwise), TN_EXISTS, "elemwise");
  FAILS(tn_plugin_load(rt, PLUGIN_FILE), TN_EXISTS, "elemwise");
  FAILS(tn_plugin_unload(rt, "elemwise"), TN_BUSY, "elemwise.quadratic");
  tn_params_release(params);
  OK(tn_plugin_unload(rt, "elemwise"));
  FAILS(tn_call(rt, op, TN_IN(x), NULL, TN_OUT(&y)), TN_NOT_FOUND,
        "elemwise.quadratic");
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  tn_array_release(x), tn_array_release(y);
  tn_runtime_release(rt);
}
