/* SPDX-License-Identifier: Apache-2.0
 * Recovery from a failed batch: nn's programs and calls keep no trace of it
 * once the next batch has overwritten its inputs. Also, calls change the states
 * that they declare to change.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

enum { WORDS = 10, WIDTH = 4 };

static tn_entry variable(tn_graph *g, const char *name) {
  tn_entry out;
  OK(tn_graph_variable(g, name, NULL, &out));
  return out;
}

static tn_entry node(tn_graph *g, const char *op, const char *params,
                     const char *name, uint32_t n, const tn_entry *in) {
  tn_entry out;
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = op,
                                    .params = params,
                                    .name = name,
                                    .n_in = n,
                                    .in = in},
                   &out));
  return out;
}

enum { MOST = 2 * 8 * 16 * 16 };

/* Overwrites an array with one number. */
static void set_all(tn_array *array, float value) {
  static float v[MOST];
  const int64_t n = tn_tensor_size(tn_array_tensor(array));
  for (int64_t i = 0; i < n; ++i) v[i] = value;
  OK(tn_array_set(array, v, (size_t)n * sizeof *v));
}

static tn_array *filled(tn_runtime *rt, int32_t ndim, const int64_t *shape,
                        float value) {
  tn_array *array = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_F32, ndim, shape}, &array));
  set_all(array, value);
  return array;
}

/* A program that takes rows of a table; the table's gradient is `slope`. */
static tn_program *table_bind(tn_runtime *rt, tn_array *rows, tn_array *table,
                              tn_array *slope, tn_req request) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  OK(tn_graph_create(rt, &g));
  tn_entry x = variable(g, "rows");
  x = node(g, "nn.embedding", "input_dim=10 output_dim=4", "emb", 1, &x);
  x = node(g, "nn.activation", "act_type=sigmoid", "out", 1, &x);
  OK(tn_graph_heads_set(g, &x, 1));
  const tn_argument arguments[] = {{.name = "rows", .array = rows},
                                   {.name = "emb_weight",
                                    .array = table,
                                    .gradient = slope,
                                    .request = request,
                                    .has_request = 1}};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = arguments,
                                .n_arguments = 2},
                     &p));
  tn_graph_release(g);
  return p;
}

static void set_rows(tn_array *rows, float second) {
  const float v[] = {1, second, 3};
  OK(tn_array_set(rows, v, sizeof v));
}

static void run(tn_program *p, tn_array *weight) {
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &weight, 1));
}

/* A row that there is not fails the first batch; the second is as the first
 * would have been. */
static void expect_table(tn_req request) {
  tn_runtime *rt = host_open();
  const int64_t words[] = {WORDS, WIDTH}, out[] = {3, WIDTH};
  tn_array *rows = filled(rt, 1, (const int64_t[]){3}, 0);
  tn_array *table = filled(rt, 2, words, 0), *slope = filled(rt, 2, words, 0);
  tn_array *weight = filled(rt, 2, out, 1);
  tn_program *p = table_bind(rt, rows, table, slope, request);
  float v[WORDS][WIDTH];
  set_rows(rows, 77);
  run(p, weight);
  FAILS(tn_array_get(slope, v, sizeof v), TN_OUT_OF_RANGE, "emb");
  (void)!tn_wait_all(rt);
  for (int batch = 0; batch < 3; ++batch) {
    set_rows(rows, 2);
    set_all(slope, 0);
    run(p, weight);
    OK(tn_array_get(slope, v, sizeof v));
    for (int i = 0; i < WORDS; ++i)
      cr_assert_eq(v[i][0], i >= 1 && i <= 3 ? 0.25f : 0);
    OK(tn_wait_all(rt));
  }
  tn_program_release(p);
  tn_array_release(rows), tn_array_release(table), tn_array_release(slope);
  tn_array_release(weight);
  tn_runtime_release(rt);
}

Test(recovery, a_gradient_is_there_again_after_a_bad_batch) {
  expect_table(TN_REQ_WRITE);
  expect_table(TN_REQ_ADD);
}

/* An image that failed to be computed: of rows of a table, one of which there
 * is not. */
static void set_image(tn_runtime *rt, tn_array **image, bool bad) {
  const int64_t rows[] = {2, 3, 16}, table[] = {WORDS, 16};
  tn_operator *take = host_operator(rt, "nn.embedding");
  tn_params *params = host_params(take, "input_dim=10 output_dim=16");
  tn_array *which = filled(rt, 3, rows, bad ? 77 : 1);
  tn_array *from = filled(rt, 2, table, 1);
  cr_assert_eq(tn_call(rt, take, TN_IN(which, from), params, TN_OUT(image)),
               bad ? TN_OUT_OF_RANGE : TN_OK, "%s", tn_error_text());
  tn_array_release(which), tn_array_release(from);
  tn_params_release(params);
}

static tn_program *layers_bind(tn_runtime *rt, tn_array *image,
                               uint32_t flags) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  OK(tn_graph_create(rt, &g));
  tn_entry x = variable(g, "x");
  x = node(g, "nn.convolution", "kernel=[3,3] num_filter=8 pad=[1,1]", "c", 1,
           &x);
  x = node(g, "nn.activation", "act_type=relu", "r", 1, &x);
  OK(tn_graph_heads_set(g, &x, 1));
  const tn_argument argument = {
      .name = "x", .array = image, .request = TN_REQ_NULL, .has_request = 1};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .flags = flags,
                                .request = TN_REQ_WRITE,
                                .arguments = &argument,
                                .n_arguments = 1},
                     &p));
  tn_graph_release(g);
  return p;
}

static void expect_layers(uint32_t flags) {
  tn_runtime *rt = host_open();
  const int64_t shape[] = {2, 3, 16, 16}, out[] = {2, 8, 16, 16};
  tn_array *image = filled(rt, 4, shape, 1), *weight = filled(rt, 4, out, 1);
  tn_array *slope = NULL, *output = NULL;
  tn_program *p = layers_bind(rt, image, flags);
  OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "c_weight", &slope));
  OK(tn_program_output(p, 0, &output));
  for (int batch = 0; batch < 4; ++batch) {
    set_image(rt, &image, batch == 1);
    run(p, weight);
    cr_assert_eq(tn_array_wait(output), batch == 1 ? TN_OUT_OF_RANGE : TN_OK,
                 "batch %d: %s", batch, tn_error_text());
    cr_assert_eq(tn_array_wait(slope), batch == 1 ? TN_OUT_OF_RANGE : TN_OK,
                 "batch %d: %s", batch, tn_error_text());
    (void)!tn_wait_all(rt);
  }
  tn_program_release(p);
  tn_array_release(image), tn_array_release(weight);
  tn_runtime_release(rt);
}

Test(recovery, layers_that_are_joined_work_again_after_a_bad_batch) {
  expect_layers(0);
  expect_layers(TN_BIND_NO_FUSE);
}

/* ------------------------------------------------------------------- states */

typedef struct norm {
  tn_array *data, *gamma, *beta, *mean, *var;
} norm;

static norm norm_open(tn_runtime *rt) {
  const int64_t shape[] = {2, 3, 16, 16}, three[] = {3};
  return (norm){filled(rt, 4, shape, 1), filled(rt, 1, three, 1),
                filled(rt, 1, three, 0), filled(rt, 1, three, 0.5f),
                filled(rt, 1, three, 2)};
}

static void norm_close(const norm *n) {
  tn_array_release(n->data), tn_array_release(n->gamma);
  tn_array_release(n->beta), tn_array_release(n->mean);
  tn_array_release(n->var);
}

static tn_code normalise(tn_runtime *rt, const norm *n) {
  tn_operator *op = host_operator(rt, "nn.batch_norm");
  tn_array *out = NULL;
  tn_code code =
      tn_call(rt, op, TN_IN(n->data, n->gamma, n->beta, n->mean, n->var), NULL,
              TN_OUT(&out));
  if (code == TN_OK) code = tn_array_wait(out);
  tn_array_release(out);
  return code;
}

Test(recovery, inference_leaves_moving_averages_alone) {
  tn_runtime *rt = host_open();
  norm n = norm_open(rt);
  float v[3];
  for (int request = 0; request < 4; ++request) {
    set_image(rt, &n.data, request == 1);
    cr_assert_eq(normalise(rt, &n), request == 1 ? TN_OUT_OF_RANGE : TN_OK,
                 "request %d: %s", request, tn_error_text());
    OK(tn_array_get(n.mean, v, sizeof v));
    cr_assert_eq(v[0], 0.5f);
    OK(tn_array_wait(n.var));
  }
  (void)!tn_wait_all(rt);
  norm_close(&n);
  tn_runtime_release(rt);
}

Test(recovery, programs_that_infer_leave_moving_averages_alone) {
  tn_runtime *rt = host_open();
  norm n = norm_open(rt);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_array *out = NULL;
  OK(tn_graph_create(rt, &g));
  tn_entry x = variable(g, "x");
  x = node(g, "nn.batch_norm", NULL, "bn", 1, &x);
  OK(tn_graph_heads_set(g, &x, 1));
  const tn_argument arguments[] = {{.name = "x", .array = n.data},
                                   {.name = "bn_moving_mean", .array = n.mean},
                                   {.name = "bn_moving_var", .array = n.var}};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .arguments = arguments,
                                .n_arguments = 3},
                     &p));
  OK(tn_program_output(p, 0, &out));
  for (int request = 0; request < 4; ++request) {
    set_image(rt, &n.data, request == 1);
    OK(tn_program_forward(p, 0));
    cr_assert_eq(tn_array_wait(out), request == 1 ? TN_OUT_OF_RANGE : TN_OK,
                 "request %d: %s", request, tn_error_text());
    OK(tn_array_wait(n.mean));
  }
  (void)!tn_wait_all(rt);
  tn_program_release(p);
  tn_graph_release(g);
  norm_close(&n);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------- absent operands
 */

Test(recovery, an_input_that_is_absent_has_no_gradient) {
  static const char text[] =
      "{\"tenon\":1,\"nodes\":[{\"name\":\"x\",\"kind\":\"variable\"},"
      "{\"name\":\"w\",\"kind\":\"variable\"},"
      "{\"name\":\"y\",\"kind\":\"call\",\"op\":\"nn.fully_connected@1\","
      "\"params\":\"num_hidden=3 no_bias=true\","
      "\"inputs\":[[0,0],[1,0],null]}],\"heads\":[[2,0]]}";
  tn_runtime *rt = host_open();
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_array *slope = NULL;
  const int64_t shape[] = {2, 3};
  tn_array *x = filled(rt, 2, shape, 1), *weight = filled(rt, 2, shape, 1);
  OK(tn_graph_parse(rt, text, strlen(text), &g));
  const tn_argument argument = {.name = "x", .array = x};
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .request = TN_REQ_WRITE,
                                .arguments = &argument,
                                .n_arguments = 1},
                     &p));
  run(p, weight);
  OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "w", &slope));
  host_expect(slope, (const double[]){2, 2, 2, 2, 2, 2, 2, 2, 2}, 9, 0);
  tn_program_release(p);
  tn_graph_release(g);
  tn_array_release(x), tn_array_release(weight);
  tn_runtime_release(rt);
}
