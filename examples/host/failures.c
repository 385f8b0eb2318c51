/* SPDX-License-Identifier: Apache-2.0
 * Shows how an error is reported when work fails after its call has returned.
 *
 *   ./failures PLUGIN, which is that of examples/kernel
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { N = 4 << 20 }; /* too many for the calling thread */

static void say(const char *what, tn_code rc) {
  printf("%s: %s\n", what, rc ? tn_error_text() : "fine");
}

static void work(tn_runtime *rt, float *values) {
  tn_operator *root = NULL, *add = NULL;
  tn_array *x = NULL, *y = NULL, *z = NULL;
  const int64_t shape[] = {N};
  tn_code rc = tn_operator_get(rt, "lab.root", &root);
  if (!rc) rc = tn_operator_get(rt, "elemwise.add", &add);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &x);
  if (rc) {
    say("begin", rc);
    return;
  }

  values[5] = -1;
  say("set x", tn_array_set(x, values, N * sizeof *values));
  say("y = root(x)", tn_call(rt, root, TN_IN(x), NULL, TN_OUT(&y)));
  say("z = add(y, x)", tn_call(rt, add, TN_IN(y, x), NULL, TN_OUT(&z)));
  say("wait x", tn_array_wait(x));
  say("wait z", tn_array_wait(z));
  say("wait all", tn_wait_all(rt));
  say("wait all", tn_wait_all(rt));
  say("z = add(x, x)", tn_call(rt, add, TN_IN(x, x), NULL, TN_OUT(&z)));
  say("wait z", tn_array_wait(z));
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  float *values = calloc(N, sizeof *values);
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc && argc > 1) rc = tn_plugin_load(rt, argv[1]);
  if (rc) say("runtime", rc);
  if (!rc && values) work(rt, values);
  tn_runtime_release(rt);
  free(values);
  return rc || !values;
}
