/* SPDX-License-Identifier: Apache-2.0
 * Elements at places of their own, triangles and diagonals, of plugins/tensor:
 * values and gradients of NumPy (tests/reference/gather.py), sums in f16, and
 * messages about indices and shapes that do not fit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "host.h"

typedef struct positions {
  host_shape shape;
  int64_t v[HOST_MAX];
} positions;

typedef struct gather_case {
  const char *op;
  const char *params;
  size_t n_in;
  host_operand data;
  positions indices;
  host_operand out, head, gradient;
} gather_case;

static const gather_case gather_cases[] = {
#include "gather_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(gather, .init = open_all, .fini = close_all);

static tn_array *index_array(const positions *p) {
  const tn_spec spec = {TN_I64, p->shape.ndim, p->shape.dims};
  tn_array *array = NULL;
  OK(tn_array_create(rt, &spec, &array));
  OK(tn_array_set(array, p->v, (size_t)tn_array_size(array) * 8));
  return array;
}

static void check_case(const gather_case *c, tn_dtype dtype) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[2] = {NULL, NULL}, *out = NULL, *head = NULL, *grad = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  if (c->n_in > 0) in[0] = host_array(rt, dtype, c->data.shape, c->data.v);
  if (c->n_in > 1) in[1] = index_array(&c->indices);
  if (c->n_in > 0) OK(tn_tape_watch(tape, in[0]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect_operand(out, &c->out, 0, c->op, c->params);
  if (c->n_in > 0) {
    head = host_array(rt, dtype, c->head.shape, c->head.v);
    OK(tn_tape_gradient(tape,
                        &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                         .heads = *TN_IN(out),
                                         .head_gradients = *TN_IN(head),
                                         .of = {1, in},
                                         .gradients = *TN_OUT(&grad)}));
    host_expect_operand(grad, &c->gradient, 0, c->op, c->params);
  }
  tn_array_release(in[0]), tn_array_release(in[1]), tn_array_release(out);
  tn_array_release(head), tn_array_release(grad);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(gather, values_and_gradients_are_those_of_numpy) {
  for (size_t i = 0; i < sizeof gather_cases / sizeof *gather_cases; ++i) {
    check_case(&gather_cases[i], TN_F64);
    if (gather_cases[i].n_in > 0) check_case(&gather_cases[i], TN_F32);
    if (gather_cases[i].n_in > 0) check_case(&gather_cases[i], TN_F16);
  }
}

static tn_code call_gather(const char *text, const tn_inputs *in,
                           tn_array **out) {
  tn_operator *op = host_operator(rt, "tensor.gather_elements");
  tn_params *params = host_params(op, text);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(out));
  tn_params_release(params);
  return code;
}

/* 2048 is the first f16 with a distance of 2 to the next one: added one by one
 * in f16, ones would get lost. */
Test(gather, gradients_of_halves_are_rounded_once) {
  enum { N = 5 };
  const double heads[N] = {2048, 1, 1, 1, 1};
  const positions zeros = {.shape = {1, {N}}};
  tn_operator *op = host_operator(rt, "tensor.gather_elements");
  tn_array *x = host_array(rt, TN_F16, (host_shape){1, {2}}, heads);
  tn_array *head = host_array(rt, TN_F16, zeros.shape, heads);
  tn_array *at = index_array(&zeros), *y = NULL, *grad = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_call(tape, op, TN_IN(x, at), NULL, TN_OUT(&y)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(y),
                                       .head_gradients = *TN_IN(head),
                                       .of = *TN_IN(x),
                                       .gradients = *TN_OUT(&grad)}));
  host_expect(grad, (double[]){2052, 0}, 2, 0);
  tn_array_release(x), tn_array_release(head), tn_array_release(at);
  tn_array_release(y), tn_array_release(grad);
  tn_tape_release(tape);
}

/* Both before anything is written. */
Test(gather, an_index_out_of_range_is_an_error) {
  const double numbers[] = {1, 2, 3};
  const positions above = {.shape = {1, {2}}, .v = {0, 3}};
  const positions below = {.shape = {1, {2}}, .v = {-4, 0}};
  tn_array *x = host_array(rt, TN_F64, (host_shape){1, {3}}, numbers);
  tn_array *y = host_array(rt, TN_F64, (host_shape){1, {2}}, numbers);
  tn_array *high = index_array(&above), *low = index_array(&below);
  FAILS(call_gather("", TN_IN(x, high), &y), TN_OUT_OF_RANGE,
        "index 3 (number 1 of `indices`) is out of range: axis 0 of `data` has "
        "length 3");
  FAILS(call_gather("", TN_IN(x, low), &y), TN_OUT_OF_RANGE,
        "index -4 (number 0 of `indices`)");
  tn_array_release(x), tn_array_release(y);
  tn_array_release(high), tn_array_release(low);
}

Test(gather, shapes_that_do_not_fit_are_errors) {
  const double numbers[] = {1, 2, 3, 4};
  const positions vector = {.shape = {1, {2}}};
  const positions wide = {.shape = {2, {1, 3}}};
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {2, 2}}, numbers);
  tn_array *flat = index_array(&vector), *more = index_array(&wide), *y = NULL;
  FAILS(call_gather("", TN_IN(x, flat), &y), TN_SHAPE,
        "`indices` has 1 dimensions, `data` 2");
  FAILS(call_gather("axis=0", TN_IN(x, more), &y), TN_SHAPE,
        "`indices` (1,3) is longer than `data` (2,2) in dimension 1");
  FAILS(call_gather("axis=2", TN_IN(x, more), &y), TN_OUT_OF_RANGE, "axis=2");
  OK(call_gather("axis=1", TN_IN(x, more), &y));
  tn_array_release(x), tn_array_release(flat);
  tn_array_release(more), tn_array_release(y);
}

Test(gather, a_diagonal_is_of_a_matrix_or_a_vector) {
  const double numbers[8] = {0};
  tn_array *x = host_array(rt, TN_F64, (host_shape){3, {2, 2, 2}}, numbers);
  tn_array *y = NULL;
  FAILS(
      tn_call(rt, host_operator(rt, "tensor.diag"), TN_IN(x), NULL, TN_OUT(&y)),
      TN_SHAPE, "`data` has 3 dimensions; pass a matrix for its diagonal");
  tn_array_release(x);
}
