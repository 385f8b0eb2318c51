/* SPDX-License-Identifier: Apache-2.0
 * A graph is made, saved, read again, and becomes a program that is run forward
 * and backward: y = s*sigmoid(s) with s = x + shift.
 */
#include <stdio.h>
#include <tenon/graph.h>

static tn_code call(tn_graph *net, const char *op, const char *name,
                    const tn_entry *in, uint32_t n, tn_entry *out) {
  return tn_graph_call(net,
                       &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                        .op = op,
                                        .name = name,
                                        .n_in = n,
                                        .in = in},
                       out);
}

static tn_code make(tn_runtime *rt, tn_graph **out) {
  tn_entry x, sum, pair[2], y;
  tn_code rc = tn_graph_create(rt, out);
  if (!rc) rc = tn_graph_variable(*out, "x", NULL, &x);
  if (!rc) rc = call(*out, "elemwise.add", "sum", &x, 1, &sum);
  pair[0] = sum;
  if (!rc) rc = call(*out, "elemwise.sigmoid", "gate", &sum, 1, &pair[1]);
  if (!rc) rc = call(*out, "elemwise.mul", "y", pair, 2, &y);
  if (!rc) rc = tn_graph_heads_set(*out, &y, 1);
  return rc;
}

static tn_code list(tn_graph *net) {
  const char *name = NULL;
  for (size_t i = 0; !tn_graph_name(net, TN_GRAPH_ARGUMENTS, i, &name, NULL);
       ++i)
    printf("argument %s\n", name);
  return TN_OK;
}

static tn_code show(const char *what, tn_array *array) {
  float v[3];
  tn_code rc = tn_array_get(array, v, sizeof v);
  if (!rc) printf("%-6s %.3f %.3f %.3f\n", what, v[0], v[1], v[2]);
  return rc;
}

static tn_code run(tn_graph *net, tn_array *x, tn_array *ones) {
  tn_program *p = NULL;
  tn_array *y = NULL, *dx = NULL;
  const tn_argument data = {.name = "x", .array = x};
  tn_code rc = tn_program_bind(net,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .request = TN_REQ_WRITE,
                                          .arguments = &data,
                                          .n_arguments = 1},
                               &p);
  if (!rc) rc = tn_program_forward(p, TN_CALL_TRAIN);
  if (!rc) rc = tn_program_backward(p, &ones, 1);
  if (!rc) rc = tn_program_output(p, 0, &y);
  if (!rc) rc = tn_program_array(p, TN_PROGRAM_GRADIENT, "x", &dx);
  if (!rc) rc = show("y", y);
  if (!rc) rc = show("dy/dx", dx);
  tn_program_release(p);
  return rc;
}

int main(void) {
  const float values[] = {-1, 0, 2}, one[] = {1, 1, 1};
  const int64_t shape[] = {3};
  tn_runtime *rt = NULL;
  tn_graph *made = NULL, *net = NULL;
  tn_array *x = NULL, *ones = NULL;
  tn_code rc = tn_runtime_create(NULL, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc) rc = make(rt, &made);
  if (!rc) rc = tn_graph_save(made, "net.json");
  if (!rc) rc = tn_graph_load(rt, "net.json", &net);
  if (!rc) rc = list(net);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_array_create(rt, &(tn_spec){TN_F32, 1, shape}, &ones);
  if (!rc) rc = tn_array_set(ones, one, sizeof one);
  if (!rc) rc = run(net, x, ones);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_array_release(x), tn_array_release(ones);
  tn_graph_release(made), tn_graph_release(net);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
