/* SPDX-License-Identifier: Apache-2.0
 * ops_row.c: see ops_row.h.
 */
#include "ops_row.h"

#include <stdlib.h>
#include <string.h>

#include "measure.h"

void ops_must_succeed(tn_code code) {
  if (code != TN_OK) measure_fail("%s", tn_error_text());
}

tn_array *ops_draw_array(tn_runtime *rt, tn_dtype dtype, int32_t ndim,
                         const int64_t *dims) {
  static uint32_t seed = 1;
  tn_array *drawn = NULL, *array = NULL;
  ops_must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, ndim, dims}, &drawn));
  const size_t n = (size_t)tn_array_size(drawn);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu floats", n);
  for (size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
  ops_must_succeed(tn_array_set(drawn, values, n * sizeof *values));
  free(values);
  if (dtype == TN_F32) return drawn;
  ops_must_succeed(tn_array_cast(drawn, dtype, &array));
  tn_array_release(drawn);
  return array;
}

void ops_row_prepare(ops_row *row) {
  const tn_inputs in = {row->n_in, row->in};
  const tn_outputs to = {row->n_out, row->out, NULL};
  if (row->flags & TN_CALL_TRAIN)
    ops_must_succeed(tn_call_train(row->rt, row->op, &in, row->params, &to));
  else
    ops_must_succeed(tn_call(row->rt, row->op, &in, row->params, &to));
  const tn_tensor *out = tn_array_tensor(row->out[0]);
  row->head[0] = ops_draw_array(row->rt, row->dtype, out->ndim, out->shape);
  ops_must_succeed(
      tn_call_prepare(row->rt,
                      &(tn_preparation){.struct_size = sizeof(tn_preparation),
                                        .flags = row->flags,
                                        .op = row->op,
                                        .params = row->params,
                                        .inputs = in,
                                        .outputs = to},
                      &row->forward));
}

void ops_row_close(ops_row *row) {
  tn_prepared_release(row->forward);
  for (size_t i = 0; i < row->n_in; ++i) {
    tn_array_release(row->in[i]);
    tn_array_release(row->grads[i]);
  }
  for (size_t i = 0; i < row->n_out; ++i) tn_array_release(row->out[i]);
  tn_array_release(row->head[0]);
  tn_params_release(row->params);
}

void ops_row_forward(void *row) {
  ops_row *r = row;
  ops_must_succeed(tn_call_run(r->forward));
  ops_must_succeed(tn_array_wait(r->out[0]));
}

void ops_row_backward(void *row) {
  ops_row *r = row;
  ops_must_succeed(tn_call_backward(
      r->rt, r->op,
      &(tn_backward){.struct_size = sizeof(tn_backward),
                     .flags = r->flags,
                     .params = r->params,
                     .inputs = {r->n_in, r->in},
                     .outputs = {r->n_out, r->out},
                     .out_grads = {r->n_out, r->head},
                     .in_grads = {r->n_grads, r->grads, r->req}}));
  for (size_t i = 0; i < r->n_grads; ++i)
    if (r->req[i] != TN_REQ_NULL) ops_must_succeed(tn_array_wait(r->grads[i]));
}

int ops_is_wanted(const char *name, int n, char **parts) {
  for (int i = 0; i < n; ++i)
    if (strstr(name, parts[i])) return 1;
  return n == 0;
}
