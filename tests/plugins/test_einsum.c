/* SPDX-License-Identifier: Apache-2.0
 * einsum of plugins/tensor: values and gradients of NumPy and torch
 * (tests/reference/einsum.py), with and without a BLAS; integers; sums that are
 * larger than a block; and messages about texts and shapes that do not fit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { OPERANDS = 4 };

typedef struct einsum_case {
  const char *equation;
  size_t n_in;
  host_operand in[OPERANDS];
  host_operand gradient[OPERANDS];
  host_operand out, head;
} einsum_case;

static const einsum_case einsum_cases[] = {
#include "einsum_cases.inc"
};

/* The gradient of the sum of both first gradients, times weights. */
typedef struct second_case {
  const char *equation;
  size_t n_in;
  host_operand in[2];
  host_operand weight[2];
  host_operand second[2];
  host_operand head;
} second_case;

static const second_case second_cases[] = {
#include "einsum_second_cases.inc"
};

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(einsum, .init = open_all, .fini = close_all);

static tn_params *equation_params(tn_operator *op, const char *equation) {
  char text[300];
  (void)snprintf(text, sizeof text, "equation=\"%s\"", equation);
  return host_params(op, text);
}

static void check_case(const einsum_case *c, tn_dtype dtype) {
  tn_operator *op = host_operator(rt, "tensor.einsum");
  tn_params *params = equation_params(op, c->equation);
  tn_array *in[OPERANDS] = {NULL}, *found[OPERANDS] = {NULL}, *out = NULL;
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  for (size_t i = 0; i < c->n_in; ++i) {
    in[i] = host_operand_array(rt, dtype, &c->in[i]);
    OK(tn_tape_watch(tape, in[i]));
  }
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  host_expect_operand(out, &c->out, 0, "einsum", c->equation);
  tn_array *head = host_operand_array(rt, dtype, &c->head);
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(head),
                                       .of = {c->n_in, in},
                                       .gradients = {c->n_in, found, NULL}}));
  for (size_t i = 0; i < c->n_in; ++i) {
    host_expect_operand(found[i], &c->gradient[i], 0, "einsum", c->equation);
    tn_array_release(found[i]);
    tn_array_release(in[i]);
  }
  tn_array_release(out), tn_array_release(head);
  tn_tape_release(tape);
  tn_params_release(params);
}

static void check_all(void) {
  for (size_t i = 0; i < sizeof einsum_cases / sizeof *einsum_cases; ++i) {
    check_case(&einsum_cases[i], TN_F64);
    check_case(&einsum_cases[i], TN_F32);
    check_case(&einsum_cases[i], TN_F16);
  }
}

Test(einsum, values_and_gradients_are_those_of_numpy_and_torch) {
  check_all();
}

Test(einsum, a_blas_gives_the_same) {
  tn_runtime_release(rt);
  rt = NULL;
  OK(tn_runtime_create(NULL, &rt));
  if (tn_plugin_load(rt, OPENBLAS_FILE) != TN_OK)
    cr_skip_test("no OpenBLAS on this machine");
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  check_all();
}

/* Calls of one and of two operands have gradients of any order. */
static void check_second(const second_case *c) {
  tn_operator *op = host_operator(rt, "tensor.einsum");
  tn_params *params = equation_params(op, c->equation);
  tn_array *in[2] = {NULL}, *first[2] = {NULL}, *weight[2], *found[2] = {NULL};
  tn_array *out = NULL, *head = host_operand_array(rt, TN_F64, &c->head);
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  for (size_t i = 0; i < c->n_in; ++i) {
    in[i] = host_operand_array(rt, TN_F64, &c->in[i]);
    weight[i] = host_operand_array(rt, TN_F64, &c->weight[i]);
    OK(tn_tape_watch(tape, in[i]));
  }
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params, TN_OUT(&out)));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .flags = TN_TAPE_RECORD,
                                       .heads = *TN_IN(out),
                                       .head_gradients = *TN_IN(head),
                                       .of = {c->n_in, in},
                                       .gradients = {c->n_in, first, NULL}}));
  OK(tn_tape_gradient(tape,
                      &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                       .heads = {c->n_in, first},
                                       .head_gradients = {c->n_in, weight},
                                       .of = {c->n_in, in},
                                       .gradients = {c->n_in, found, NULL}}));
  for (size_t i = 0; i < c->n_in; ++i) {
    host_expect_operand(found[i], &c->second[i], 0, "einsum", c->equation);
    tn_array_release(in[i]), tn_array_release(first[i]);
    tn_array_release(weight[i]), tn_array_release(found[i]);
  }
  tn_array_release(out), tn_array_release(head);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(einsum, second_gradients_are_those_of_torch) {
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  for (size_t i = 0; i < sizeof second_cases / sizeof *second_cases; ++i)
    check_second(&second_cases[i]);
}

static tn_code call_einsum(const char *equation, const tn_inputs *in,
                           tn_array **out) {
  tn_operator *op = host_operator(rt, "tensor.einsum");
  tn_params *params = equation_params(op, equation);
  const tn_code code = tn_call(rt, op, in, params, TN_OUT(out));
  tn_params_release(params);
  return code;
}

/* Products beyond 32 bits: 65537 * 65537 = 2^32 + 2^17 + 1. */
Test(einsum, integers_wrap) {
  const host_operand two = {.shape = {1, {2}}, .v = {65537, 3}};
  tn_array *x = host_operand_array(rt, TN_I32, &two), *y = NULL, *wide = NULL;
  OK(call_einsum("i,i->", TN_IN(x, x), &y));
  OK(tn_array_cast(y, TN_F64, &wide));
  host_expect(wide, (double[]){131073 + 9}, 1, 0);
  tn_array_release(x), tn_array_release(y), tn_array_release(wide);
}

/* Sums of a few hundred terms, against a loop. The numbers are exact. */
static void check_large(tn_dtype dtype) {
  enum { B = 3, I = 70, J = 130, K = 33 };
  double *a = host_draw((int64_t)B * J * I, 1);
  double *b = host_draw((int64_t)J * B * K, 2);
  tn_array *x = host_many(rt, dtype, 3, (int64_t[]){B, J, I}, a), *z = NULL;
  tn_array *y = host_many(rt, dtype, 3, (int64_t[]){J, B, K}, b);
  OK(call_einsum("bji,jbk->kbi", TN_IN(x, y), &z));
  double *got = host_many_values(z);
  for (int64_t k = 0; k < K; ++k)
    for (int64_t n = 0; n < B; ++n)
      for (int64_t i = 0; i < I; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < J; ++j)
          sum += a[(n * J + j) * I + i] * b[(j * B + n) * K + k];
        cr_assert_float_eq(got[(k * B + n) * I + i], sum, 0);
      }
  free(a), free(b), free(got);
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

Test(einsum, operands_in_any_order_of_dimensions_are_products) {
  check_large(TN_F32);
  check_large(TN_F64);
}

/* The text has the rank of an operand without dots, and lengths of its labels
 * come from the other operands. */
Test(einsum, shapes_are_inferred_as_far_as_they_are_known) {
  tn_operator *op = host_operator(rt, "tensor.einsum");
  tn_params *params = equation_params(op, "ij,jk->ik");
  tn_sig in[] = {{TN_F32, 2, {3, 4}}, {.dtype = TN_F32, .ndim = -1}};
  tn_sig out = {.dtype = TN_F32, .ndim = -1};
  tn_signature io = {.n_in = 2, .n_out = 1, .in = in, .out = &out};
  FAILS(tn_operator_infer(op, params, &io), TN_INCOMPLETE,
        "input `args` number 1 (4,?), output `out` (3,?)");
  tn_params_release(params);
}

/* -------------------------------------------------------------- messages */

static tn_array *zeros(int32_t ndim, const int64_t *dims) {
  int64_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= dims[d];
  double *v = calloc((size_t)n + 1, sizeof *v);
  tn_array *array = host_many(rt, TN_F32, ndim, dims, v);
  free(v);
  return array;
}

typedef struct refused {
  const char *equation;
  tn_code code;
  const char *text;
} refused;

/* Each with one matrix of (2,3). */
static const refused bad_texts[] = {
    {"i1->i", TN_INVALID,
     "`equation` i1->i: character 2 (`1`): labels are letters"},
    {"ij>i", TN_INVALID, "character 3 (`>`): labels are letters"},
    {"ij-i", TN_INVALID, "character 3 (`-`): write `->`"},
    {"ij->i->j", TN_INVALID, "character 6 (`-`): there is one output"},
    {"ij->i,j", TN_INVALID, "character 6 (`,`): there is one output"},
    {"ij->k", TN_INVALID, "character 5 (`k`): no operand has this label"},
    {"ij->ii", TN_INVALID, "a label of the output occurs once"},
    {"i.j->i", TN_INVALID, "character 2 (`.`): write three dots"},
    {"...i...", TN_INVALID, "character 5 (`.`): each operand may have `...`"},
    {"abcdefghijklmnopq", TN_INVALID, "at most 16 dimensions"},
    {"ij,jk->ik", TN_SHAPE, "is for 2 operands; the call has 1"},
    {"ijk", TN_SHAPE,
     "operand 0 has 2 dimensions, but `equation` has 3 labels for it"},
    {"i", TN_SHAPE, "1 labels for it; `...` is for the others"},
    {"ii", TN_SHAPE, "label `i` has length 3 in operand 0, but 2 before"}};

Test(einsum, texts_that_do_not_fit_are_errors) {
  tn_array *x = zeros(2, (int64_t[]){2, 3}), *y = NULL;
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; ++i)
    FAILS(call_einsum(bad_texts[i].equation, TN_IN(x), &y), bad_texts[i].code,
          bad_texts[i].text);
  tn_array_release(x);
}

/* Only `...` repeats a dimension of length 1. */
Test(einsum, lengths_that_differ_are_errors) {
  tn_array *x = zeros(2, (int64_t[]){2, 3}), *y = zeros(1, (int64_t[]){1});
  tn_array *z = NULL;
  FAILS(call_einsum("ij,j->i", TN_IN(x, y), &z), TN_SHAPE,
        "label `j` has length 1 in operand 1, but 3 before");
  OK(call_einsum("i...,...->i", TN_IN(x, y), &z));
  tn_array_release(x), tn_array_release(y), tn_array_release(z);
}

Test(einsum, a_long_text_is_an_error) {
  char text[300] = {0};
  tn_array *x = zeros(2, (int64_t[]){2, 3}), *y = NULL;
  memset(text, ' ', 257);
  FAILS(call_einsum(text, TN_IN(x), &y), TN_INVALID,
        "`equation` has 257 characters; at most 256 are possible");
  tn_array_release(x);
}
