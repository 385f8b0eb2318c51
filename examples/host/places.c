/* SPDX-License-Identifier: Apache-2.0
 * A graph with nodes on two devices. Both are cpu devices, so that the example
 * runs anywhere: y = s*sigmoid(s) with s = x + shift, where the sum is computed
 * on the first and the rest on the second.
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
  const int64_t n = 3;
  const tn_sig known = {.dtype = TN_F32, .ndim = 1, .shape = {n}};
  const tn_attribute left = {"group", "left"}, right = {"group", "right"};
  tn_entry x, sum, pair[2], y;
  tn_code rc = tn_graph_create(rt, out);
  if (!rc) rc = tn_graph_scope_push(*out, &left, 1);
  if (!rc) rc = tn_graph_variable(*out, "x", &known, &x);
  if (!rc) rc = call(*out, "elemwise.add", "sum", &x, 1, &sum);
  if (!rc) rc = tn_graph_scope_pop(*out);
  if (!rc) rc = tn_graph_scope_push(*out, &right, 1);
  pair[0] = sum;
  if (!rc) rc = call(*out, "elemwise.sigmoid", "gate", &sum, 1, &pair[1]);
  if (!rc) rc = call(*out, "elemwise.mul", "y", pair, 2, &y);
  if (!rc) rc = tn_graph_scope_pop(*out);
  if (!rc) rc = tn_graph_heads_set(*out, &y, 1);
  return rc;
}

static tn_code run(tn_graph *net) {
  const float values[] = {-1, 0, 2};
  const tn_group groups[] = {{"left", {TN_DEVICE_CPU, 0}},
                             {"right", {TN_DEVICE_CPU, 1}}};
  float out[3];
  tn_program *p = NULL;
  tn_array *x = NULL, *y = NULL;
  tn_text *table = NULL;
  tn_code rc = tn_program_bind(
      net,
      &(tn_bind){
          .struct_size = sizeof(tn_bind), .groups = groups, .n_groups = 2},
      &p);
  if (!rc) rc = tn_program_array(p, TN_PROGRAM_ARGUMENT, "x", &x);
  if (!rc) rc = tn_array_set(x, values, sizeof values);
  if (!rc) rc = tn_program_forward(p, 0);
  if (!rc) rc = tn_program_output(p, 0, &y);
  if (!rc) rc = tn_array_get(y, out, sizeof out);
  if (!rc) printf("y %.3f %.3f %.3f\n", out[0], out[1], out[2]);
  if (!rc) rc = tn_program_text(p, 0, &table);
  if (!rc) fputs(tn_text_get(table), stdout);
  tn_text_release(table);
  tn_program_release(p);
  return rc;
}

int main(void) {
  const tn_options options = {.struct_size = sizeof options, .n_cpus = 2};
  tn_runtime *rt = NULL;
  tn_graph *net = NULL;
  tn_code rc = tn_runtime_create(&options, &rt);
  if (!rc) rc = tn_plugins_load_standard(rt);
  if (!rc) rc = make(rt, &net);
  if (!rc) rc = run(net);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_graph_release(net);
  tn_runtime_release(rt);
  return rc ? 1 : 0;
}
