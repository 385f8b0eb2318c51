/* SPDX-License-Identifier: Apache-2.0
 * graph_cases.c: collective calls as steps of programs.
 */
#include "ranks.h"
#include "tenon/graph.h"
#include "tenon/program.h"

/* y = 2*all_reduce(3*x); the gradient of x is 6 times the sum of weights. */
static const char *runs_in_programs(member *me) {
  const double x[] = {me->rank + 1, 1}, w[] = {me->rank, 1};
  const double ranks = me->size * (me->size + 1) / 2.0;
  const double want[] = {6 * ranks, 6 * me->size};
  const double want_gradient[] = {6 * (ranks - me->size), 6 * me->size};
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_entry data, y;
  tn_array *out = NULL, *gradient = NULL;
  tn_array *in = make_vector(me, TN_F32, 2, x);
  tn_array *weight = make_vector(me, TN_F32, 2, w);
  OK(tn_graph_create(me->rt, &graph));
  OK(tn_graph_variable(graph, "x", NULL, &data));
  OK(tn_graph_call(graph,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .n_in = 1,
                                    .op = "elemwise.mul_scalar",
                                    .params = "scalar=3",
                                    .in = &data},
                   &y));
  OK(tn_graph_call(graph,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .n_in = 1,
                                    .op = "comm.all_reduce",
                                    .in = &y},
                   &y));
  OK(tn_graph_call(graph,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .n_in = 1,
                                    .op = "elemwise.mul_scalar",
                                    .params = "scalar=2",
                                    .in = &y},
                   &y));
  OK(tn_graph_heads_set(graph, &y, 1));
  const tn_argument argument = {.name = "x", .array = in};
  OK(tn_program_bind(graph,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .request = TN_REQ_WRITE,
                                .arguments = &argument,
                                .n_arguments = 1,
                                .place = get_place(me)},
                     &program));
  for (int run = 0; run < 3; ++run) {
    OK(tn_program_forward(program, TN_CALL_TRAIN));
    OK(tn_program_backward(program, &weight, 1));
  }
  OK(tn_program_output(program, 0, &out));
  TRY(expect(me, out, want, 2, 0));
  OK(tn_program_array(program, TN_PROGRAM_GRADIENT, "x", &gradient));
  TRY(expect(me, gradient, want_gradient, 2, 0));
  tn_program_release(program);
  tn_graph_release(graph);
  tn_array_release(in);
  tn_array_release(weight);
  return NULL;
}

/* Steps of three independent collective calls, in one order on all ranks. */
static const char *keeps_the_order_of_steps(member *me) {
  static const char *const ops[] = {"comm.all_gather", "comm.reduce_scatter",
                                    "comm.all_to_all"};
  double x[64], sums[64], blocks[64];
  const int n = me->size;
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_entry data, heads[3];
  tn_array *out = NULL;
  for (int i = 0; i < n; ++i) x[i] = me->rank * n + i;
  for (int s = 0; s < n; ++s) blocks[s] = s * n + me->rank;
  sums[0] = n * (n - 1) / 2 * n + n * me->rank;
  tn_array *in = make_vector(me, TN_F32, n, x);
  OK(tn_graph_create(me->rt, &graph));
  OK(tn_graph_variable(graph, "x", NULL, &data));
  for (int k = 0; k < 3; ++k)
    OK(tn_graph_call(graph,
                     &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                      .n_in = 1,
                                      .op = ops[k],
                                      .in = &data},
                     &heads[k]));
  OK(tn_graph_heads_set(graph, heads, 3));
  const tn_argument argument = {.name = "x", .array = in};
  OK(tn_program_bind(graph,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = &argument,
                                .n_arguments = 1,
                                .place = get_place(me)},
                     &program));
  for (int run = 0; run < 20; ++run) OK(tn_program_forward(program, 0));
  OK(tn_program_output(program, 1, &out));
  TRY(expect(me, out, sums, 1, 0));
  OK(tn_program_output(program, 2, &out));
  TRY(expect(me, out, blocks, n, 0));
  tn_program_release(program);
  tn_graph_release(graph);
  tn_array_release(in);
  return NULL;
}

const test_case graph_cases[] = {
    {.name = "runs_in_programs", .run = runs_in_programs},
    {.name = "keeps_the_order_of_steps", .run = keeps_the_order_of_steps},
    {.name = NULL}};
