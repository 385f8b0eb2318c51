/* SPDX-License-Identifier: Apache-2.0
 * An operator whose kernel is a function of this program.
 */
#include <stdio.h>
#include <tenon/define.h>

static const char manifest[] =
    "opgen: 1\n"
    "op: count\n"
    "summary: How many elements lie above a limit\n"
    "params: [{name: limit, type: float, default: 0}]\n"
    "inputs: [{name: x, dtype: f32, layout: contiguous}]\n"
    "outputs: [{name: out, dtype: i64, shape: []}]\n"
    "kernels: [{device: cpu, forward: count, flags: [reentrant]}]\n";

static int32_t count(const tn_frame *call) {
  const double limit = *(const double *)call->params;
  const float *x = call->in[0].data;
  int64_t n = 0;
  for (int64_t i = 0; i < tn_tensor_size(&call->in[0]); ++i) n += x[i] > limit;
  *(int64_t *)call->out[0].data = n;
  return TN_OK;
}

int main(void) {
  const tn_host_kernel functions[] = {{"count", count, NULL, NULL}};
  const tn_host_kernels kernels = {
      .struct_size = sizeof kernels, .n = 1, .v = functions};
  const float values[] = {1, 5, -2, 7};
  const int64_t n = 4;
  int64_t result = 0;
  tn_runtime *rt = NULL;
  tn_operator *op = NULL;
  tn_params *params = NULL;
  tn_array *x = NULL, *out = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_operator_define(rt, manifest, &kernels, &op);
  if (!rc) rc = tn_params_parse(op, "limit=2", &params);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, &n}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_call(rt, op, TN_IN(x), params, TN_OUT(&out));
  if (!rc) rc = tn_array_get(out, &result, sizeof result);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  printf("%s: %lld\n", op ? tn_operator_name(op) : "?", (long long)result);
  tn_array_release(out), tn_array_release(x), tn_params_release(params);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
