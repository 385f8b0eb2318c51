/* SPDX-License-Identifier: Apache-2.0
 * tensor.dot and tensor.batch_dot through cuBLASLt, beyond their examples: the
 * option `fast`, and a recorded program.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "fixture.h"
#include "tenon/graph.h"
#include "tenon/kernel_options.h"

TestSuite(dot, .init = fixture_init, .fini = fixture_close);

static void open_dot(void) {
  fixture_open(&(fake_cuda_options){.devices = 1, .seed = 4});
  OK(tn_plugin_load(fixture, TENSOR_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
}

static tn_array *array_of(int32_t ndim, const int64_t *shape,
                          const float *values) {
  tn_array *array = NULL;
  OK(tn_array_create_on(fixture, &(tn_spec){TN_F32, ndim, shape},
                        fixture_place("cuda(0)"), &array));
  OK(tn_array_set(array, values,
                  (size_t)tn_array_size(array) * sizeof *values));
  return array;
}

/* The only element of a product of (1 + 2^-12, 1) and (3, 5), of which TF32
 * drops the 2^-12. */
static float product(tn_operator *op, int32_t ndim) {
  const int64_t rows[] = {1, 1, 2}, columns[] = {1, 2, 1};
  tn_array *in[] = {
      array_of(ndim, rows + 3 - ndim, (const float[]){1 + 0x1p-12f, 1}),
      array_of(ndim, columns + 3 - ndim, (const float[]){3, 5})};
  tn_array *out = NULL;
  float value = 0;
  OK(tn_call(fixture, op, &(tn_inputs){2, in}, NULL,
             &(tn_outputs){1, &out, NULL}));
  OK(tn_array_get(out, &value, sizeof value));
  tn_array_release(in[0]);
  tn_array_release(in[1]);
  tn_array_release(out);
  return value;
}

static void may_be_fast(const char *name, const char *kernel, int32_t ndim) {
  tn_operator *op = NULL;
  open_dot();
  OK(tn_operator_get(fixture, name, &op));
  cr_expect_eq(product(op, ndim), 8 + 3 * 0x1p-12f);
  OK(tn_operator_tune(op, kernel, "fast=true"));
  cr_expect_eq(product(op, ndim), 8);
  OK(tn_operator_tune(op, kernel, NULL));
  cr_expect_eq(product(op, ndim), 8 + 3 * 0x1p-12f);
}

Test(dot, loses_bits_of_its_factors_only_if_it_may) {
  may_be_fast("tensor.dot", "cublaslt.dot.cuda", 2);
}

Test(dot, of_batches_loses_bits_of_its_factors_only_if_it_may) {
  may_be_fast("tensor.batch_dot", "cublaslt.batch_dot.cuda", 3);
}

/* y = a b for batches of two, three times; the last result. */
static void run(uint32_t flags, float out[8]) {
  const tn_sig sig = {TN_F32, 3, {2, 2, 2}};
  tn_entry in[2], y;
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_array *array = NULL;
  OK(tn_graph_create(fixture, &g));
  OK(tn_graph_variable(g, "a", &sig, &in[0]));
  OK(tn_graph_variable(g, "b", &sig, &in[1]));
  OK(tn_graph_call(g,
                   &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                    .op = "tensor.batch_dot",
                                    .n_in = 2,
                                    .in = in},
                   &y));
  OK(tn_graph_heads_set(g, &y, 1));
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .place = fixture_place("cuda(0)")};
  OK(tn_program_bind(g, &how, &p));
  for (int i = 0; i < 3; ++i) {
    const float x = (float)i;
    const float a[] = {1, x, 0, 2, x, 1, 1, 1}, b[] = {1, 2, 3, 4, x, 6, 7, 8};
    OK(tn_program_array(p, TN_PROGRAM_ARGUMENT, "a", &array));
    OK(tn_array_set(array, a, sizeof a));
    OK(tn_program_array(p, TN_PROGRAM_ARGUMENT, "b", &array));
    OK(tn_array_set(array, b, sizeof b));
    OK(tn_program_forward(p, 0));
  }
  OK(tn_program_output(p, 0, &array));
  OK(tn_array_get(array, out, 8 * sizeof *out));
  tn_program_release(p);
  tn_graph_release(g);
}

Test(dot, of_batches_is_launched_again) {
  /* (1 2; 0 2)(1 2; 3 4) and (2 1; 1 1)(2 6; 7 8) */
  const float want[] = {7, 10, 6, 8, 11, 20, 9, 14};
  float have[8];
  open_dot();
  run(TN_BIND_CAPTURE, have);
  cr_expect_arr_eq(have, want, sizeof want);
  cr_expect_eq(fake_graph_counts_get().launched, 2);
}
