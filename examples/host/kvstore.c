/* SPDX-License-Identifier: Apache-2.0
 * Sums the gradients of two devices, and updates a weight. kvstore.h has the
 * same lines.
 */
#include <stdio.h>
#include <tenon/kvstore.h>
#include <tenon/tenon.h>

int main(void) {
  const float ones[] = {1, 1, 1};
  float result[3] = {0};
  tn_runtime *rt = NULL;
  tn_kvstore *kv = NULL;
  tn_array *weight = NULL, *a = NULL, *b = NULL;
  const tn_spec spec = {TN_F32, 1, (const int64_t[]){3}};
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc) rc = tn_array_create(rt, &spec, &weight);
  if (!rc) rc = tn_array_create(rt, &spec, &a);
  if (!rc) rc = tn_array_create(rt, &spec, &b);
  if (!rc) rc = tn_array_set(weight, ones, sizeof ones);
  if (!rc) rc = tn_array_set(a, ones, sizeof ones);
  if (!rc) rc = tn_array_set(b, ones, sizeof ones);

  if (!rc) rc = tn_kvstore_create(rt, "local", NULL, &kv);
  if (!rc) rc = tn_kvstore_set_optimizer(kv, "optim.sgd_update", "lr=0.1");
  if (!rc) rc = tn_kvstore_init(kv, &TN_KEYED("weight", weight), 1);
  if (!rc) rc = tn_kvstore_push(kv, &TN_KEYED("weight", a, b), 1);
  if (!rc) rc = tn_kvstore_pull(kv, &TN_KEYED("weight", weight), 1);

  if (!rc) rc = tn_array_get(weight, result, sizeof result);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  printf("%g %g %g\n", result[0], result[1], result[2]);
  tn_kvstore_release(kv), tn_array_release(b), tn_array_release(a);
  tn_array_release(weight), tn_runtime_release(rt);
  return rc ? 1 : 0;
}
