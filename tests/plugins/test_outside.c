/* SPDX-License-Identifier: Apache-2.0
 * Calls that made kernels read and write outside of their arrays: parameters
 * that no shape was compared with, by name and from a graph file. Each is
 * refused now, with a text that names the cause.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(outside, .init = open_all, .fini = close_all, .timeout = 100);

/* ----------------------------------------------------------------- by name */

enum { MOST_IN = 3 };

typedef struct refusal {
  const char *op, *params;
  tn_code code;
  const char *part; /* of the text */
  uint32_t n_in;
  host_shape in[MOST_IN];
} refusal;

#define ROWS(a, b)        \
  3, {                    \
    {1, {a}}, {1, {b}}, { \
      1, {                \
        a                 \
      }                   \
    }                     \
  }

static const refusal refusals[] = {
    {"tensor.pad_grad", "mode=reflect pad_width=[2,2]", TN_SHAPE,
     "axis 0 of `data` has length 1", ROWS(3, 1)},
    {"tensor.pad_grad", "mode=edge pad_width=[2,2147483647]", TN_SHAPE,
     "dimension 0 of input `out_head` is 4", ROWS(4, 2)},
    {"tensor.pad_grad", "pad_width=[20000,0]", TN_SHAPE,
     "dimension 0 of input `out_head` is 4", ROWS(4, 2)},
    {"tensor.pad_grad", "pad_width=[]", TN_SHAPE, "`pad_width` has 0 numbers",
     ROWS(4, 2)},
    {"tensor.pad_grad", "pad_width=[1,1,1]", TN_SHAPE,
     "`pad_width` has 3 numbers", ROWS(4, 2)},
    {"tensor.pad_grad",
     "pad_width=[1,1]",
     TN_SHAPE,
     "the number of dimensions of input `out_head` is 4",
     3,
     {{4, {1, 1, 1, 1}}, {1, {1}}, {4, {1, 1, 1, 1}}}},
};

static tn_code call(const refusal *r) {
  tn_operator *op = host_operator(rt, r->op);
  tn_params *params = host_params(op, r->params);
  tn_array *in[MOST_IN] = {NULL}, *out = NULL;
  double values[HOST_MAX] = {0};
  for (uint32_t i = 0; i < r->n_in; ++i)
    in[i] = host_array(rt, TN_F32, r->in[i], values);
  const tn_code code =
      tn_call(rt, op, &(tn_inputs){r->n_in, in}, params, TN_OUT(&out));
  for (uint32_t i = 0; i < r->n_in; ++i) tn_array_release(in[i]);
  tn_array_release(out);
  tn_params_release(params);
  return code;
}

Test(outside, parameters_that_do_not_fit_the_shapes_are_refused) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    const refusal *r = &refusals[i];
    const tn_code code = call(r);
    cr_expect(code == r->code && strstr(tn_error_text(), r->part),
              "%s %s: %s, %s", r->op, r->params, tn_code_name(code),
              code == TN_OK ? "no error" : tn_error_text());
  }
}

/* ------------------------------------------------------------ from a file */

#define VARIABLE(name, n) \
  "{\"name\": \"" name    \
  "\", \"kind\": \"variable\", \"dtype\": \"f32\", \"shape\": [" n "]}"

static const char file[] =
    "{\"tenon\": 1, \"nodes\": [" VARIABLE("head", "4") ", "
    VARIABLE("data", "2") ", " VARIABLE("out", "4") ", "
    "{\"name\": \"slope\", \"kind\": \"call\", \"op\": "
    "\"tensor.pad_grad@1\", \"params\": \"mode=edge pad_width=[20000,0]\", "
    "\"inputs\": [[0, 0], [1, 0], [2, 0]]}], \"heads\": [[3, 0]]}";

Test(outside, a_graph_file_cannot_call_a_gradient_with_shapes_that_do_not_fit) {
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  OK(tn_graph_parse(rt, file, strlen(file), &graph));
  const tn_bind how = {.struct_size = sizeof how};
  FAILS(tn_program_bind(graph, &how, &program), TN_SHAPE,
        "of input `out_head` is 4");
  cr_expect_null(program);
  tn_graph_release(graph);
}
