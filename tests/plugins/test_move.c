/* SPDX-License-Identifier: Apache-2.0
 * The operators of plugins/tensor that move elements, through the public API:
 * values and gradients of torch (tests/reference/tensor_move.py), shapes in
 * both directions, gradients of gradients, matrices that are turned in squares,
 * and memory that a program need not copy. Places and mistakes:
 * test_indexing.c.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

/* ----------------------------------------------------------- torch's values */

enum { MOST = 3 };

typedef struct move_case {
  const char *op;
  const char *params;
  size_t n_in;
  host_operand in[MOST];
  size_t n_out;
  host_operand out[MOST];
  host_operand heads[MOST]; /* gradients of the outputs */
  size_t n_grads;
  host_operand grads[MOST]; /* of the first n_grads inputs */
} move_case;

static const move_case move_cases[] = {
#include "move_cases.inc"
};

static void drop(tn_array **arrays, size_t n) {
  for (size_t i = 0; i < n; ++i) tn_array_release(arrays[i]);
}

static void check_case(tn_runtime *rt, const move_case *c, tn_dtype dtype) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_array *in[MOST] = {0}, *out[MOST] = {0}, *heads[MOST] = {0};
  tn_array *grads[MOST] = {0};
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  for (size_t i = 0; i < c->n_in; ++i)
    in[i] = host_array(rt, dtype, c->in[i].shape, c->in[i].v);
  for (size_t i = 0; i < c->n_grads; ++i) OK(tn_tape_watch(tape, in[i]));
  OK(tn_tape_call(tape, op, &(tn_inputs){c->n_in, in}, params,
                  &(tn_outputs){c->n_out, out, NULL}));
  for (size_t i = 0; i < c->n_out; ++i) {
    host_expect_operand(out[i], &c->out[i], 0, c->op, c->params);
    heads[i] = host_array(rt, dtype, c->heads[i].shape, c->heads[i].v);
  }
  OK(tn_tape_gradient(
      tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                             .heads = {c->n_out, out},
                             .head_gradients = {c->n_out, heads},
                             .of = {c->n_grads, in},
                             .gradients = {c->n_grads, grads, NULL}}));
  for (size_t i = 0; i < c->n_grads; ++i)
    host_expect_operand(grads[i], &c->grads[i], 0, c->op, c->params);
  drop(in, MOST), drop(out, MOST), drop(heads, MOST), drop(grads, MOST);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(move, values_and_gradients_are_those_of_torch) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof move_cases / sizeof *move_cases; ++i) {
    check_case(rt, &move_cases[i], TN_F64);
    check_case(rt, &move_cases[i], TN_F32);
  }
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------------ shapes */

/* The shape of a signature, of which -1 dimensions are not known. */
typedef struct partial {
  int32_t ndim;
  int64_t dims[6];
} partial;

static tn_sig sig_of(const partial *p) {
  tn_sig sig = {.dtype = TN_F32, .ndim = p->ndim};
  for (int32_t d = 0; d < p->ndim; ++d) sig.shape[d] = p->dims[d];
  return sig;
}

/* The known types and shapes of up to three inputs and then of all outputs. */
typedef struct shape_case {
  const char *op;
  const char *params;
  uint32_t n_in, n_out;
  partial before[5];
  partial after[5];
} shape_case;

static void check_shapes(tn_runtime *rt, const shape_case *c) {
  tn_operator *op = host_operator(rt, c->op);
  tn_params *params = host_params(op, c->params);
  tn_sig sigs[5];
  for (uint32_t i = 0; i < c->n_in + c->n_out; ++i)
    sigs[i] = sig_of(&c->before[i]);
  tn_signature io = {c->n_in, c->n_out, 0, 0, sigs, &sigs[c->n_in], NULL};
  const tn_code rc = tn_operator_infer(op, params, &io);
  cr_assert(rc == TN_OK || rc == TN_INCOMPLETE, "%s %s: %s", c->op, c->params,
            tn_error_text());
  for (uint32_t i = 0; i < c->n_in + c->n_out; ++i) {
    cr_assert_eq(sigs[i].ndim, c->after[i].ndim, "%s %s, operand %u: rank %d",
                 c->op, c->params, i, (int)sigs[i].ndim);
    for (int32_t d = 0; d < sigs[i].ndim; ++d)
      cr_assert_eq(sigs[i].shape[d], c->after[i].dims[d],
                   "%s %s, operand %u, dimension %d: %lld", c->op, c->params, i,
                   (int)d, (long long)sigs[i].shape[d]);
  }
  tn_params_release(params);
}

/* test_operator.py of the era has these of reshape. */
typedef struct code_case {
  const char *params;
  partial from, to;
} code_case;

static const code_case code_cases[] = {
    {"shape=[0,-1]", {4, {2, 3, 5, 5}}, {2, {2, 75}}},
    {"shape=[0,0,-1]", {4, {2, 3, 5, 5}}, {3, {2, 3, 25}}},
    {"shape=[0,-1,0]", {4, {5, 3, 4, 5}}, {3, {5, 15, 4}}},
    {"shape=[-1,0,0]", {4, {2, 3, 5, 4}}, {3, {8, 3, 5}}},
    {"shape=[0,0,0,0]", {4, {2, 3, 5, 5}}, {4, {2, 3, 5, 5}}},
    {"shape=[-1,2,2,1]", {4, {2, 4, 5, 3}}, {4, {30, 2, 2, 1}}},
    {"shape=[-2]", {4, {2, 3, 5, 6}}, {4, {2, 3, 5, 6}}},
    {"shape=[6,1,-2]", {4, {2, 3, 5, 6}}, {4, {6, 1, 5, 6}}},
    {"shape=[-3,-3]", {4, {2, 3, 5, 6}}, {2, {6, 30}}},
    {"shape=[-3,-1]", {4, {2, 3, 5, 6}}, {2, {6, 30}}},
    {"shape=[-4,16,4]", {1, {64}}, {2, {16, 4}}},
    {"shape=[-4,16,-1]", {1, {64}}, {2, {16, 4}}},
    {"shape=[-4,16,-1,-2]", {4, {64, 1, 2, 3}}, {5, {16, 4, 1, 2, 3}}},
    {"shape=[0,-1] reverse=true", {4, {2, 3, 5, 5}}, {2, {5, 30}}},
    {"shape=[0,0,-1] reverse=true", {4, {2, 3, 5, 5}}, {3, {3, 5, 10}}},
    {"shape=[0,-1,0] reverse=true", {4, {5, 3, 4, 5}}, {3, {3, 20, 5}}},
    {"shape=[-1,0,0] reverse=true", {4, {2, 3, 5, 4}}, {3, {6, 5, 4}}},
    {"shape=[3,-1,0] reverse=true", {4, {2, 3, 4, 5}}, {3, {3, 8, 5}}},
    {"shape=[5,3,0,-1] reverse=true", {4, {2, 3, 5, 5}}, {4, {5, 3, 5, 2}}},
    {"shape=[0,0,0,0] reverse=true", {4, {2, 3, 5, 5}}, {4, {2, 3, 5, 5}}},
    {"shape=[-2] reverse=true", {4, {2, 3, 5, 6}}, {4, {2, 3, 5, 6}}},
    {"shape=[-2,1,30] reverse=true", {4, {2, 3, 5, 6}}, {4, {2, 3, 1, 30}}},
    {"shape=[-3,-3] reverse=true", {4, {2, 3, 5, 6}}, {2, {6, 30}}},
    {"shape=[16,4,-4] reverse=true", {1, {64}}, {2, {16, 4}}},
    {"shape=[16,-1,-4] reverse=true", {1, {64}}, {2, {16, 4}}},
    {"shape=[-2,-1,16,-4] reverse=true",
     {4, {1, 2, 3, 64}},
     {5, {1, 2, 3, 4, 16}}},
};

Test(move, reshape_reads_its_codes_from_either_end) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof code_cases / sizeof *code_cases; ++i) {
    const code_case *c = &code_cases[i];
    check_shapes(rt, &(shape_case){"tensor.reshape",
                                   c->params,
                                   1,
                                   1,
                                   {c->from, {-1, {0}}},
                                   {c->from, c->to}});
  }
  tn_runtime_release(rt);
}

/* The tests of the era leave out each dimension in turn, of either shape. */
Test(move, reshape_finds_the_one_dimension_that_is_missing) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof code_cases / sizeof *code_cases; ++i)
    for (int32_t d = 0; d < code_cases[i].from.ndim + code_cases[i].to.ndim;
         ++d) {
      const code_case *c = &code_cases[i];
      const int32_t rank = c->from.ndim;
      code_case less = *c;
      *(d < rank ? &less.from.dims[d] : &less.to.dims[d - rank]) = -1;
      check_shapes(rt, &(shape_case){"tensor.reshape",
                                     c->params,
                                     1,
                                     1,
                                     {less.from, less.to},
                                     {c->from, c->to}});
    }
  tn_runtime_release(rt);
}

#define NOTHING \
  {             \
    -1, {       \
      0         \
    }           \
  }
static const shape_case shape_cases[] = {
    /* From `out` back to the one dimension that is missing. */
    {"tensor.reshape",
     "shape=[-1,4]",
     1,
     1,
     {{2, {8, -1}}, {2, {6, 4}}},
     {{2, {8, 3}}, {2, {6, 4}}}},
    {"tensor.reshape",
     "shape=[0,-1]",
     1,
     1,
     {{3, {-1, 3, 2}}, {2, {5, -1}}},
     {{3, {5, 3, 2}}, {2, {5, 6}}}},
    {"tensor.reshape",
     "shape=[0,-2]",
     1,
     1,
     {{2, {-1, 3}}, {2, {7, -1}}},
     {{2, {7, 3}}, {2, {7, 3}}}},
    {"tensor.reshape",
     "shape=[3,-1]",
     1,
     1,
     {{2, {-1, 3}}, NOTHING},
     {{2, {-1, 3}}, {2, {3, -1}}}},
    {"tensor.reshape",
     "shape=[-1,5]",
     1,
     1,
     {{2, {0, 3}}, NOTHING},
     {{2, {0, 3}}, {2, {0, 5}}}},
    {"tensor.flatten",
     "",
     1,
     1,
     {{4, {-1, 3, -1, 2}}, {2, {7, 30}}},
     {{4, {7, 3, 5, 2}}, {2, {7, 30}}}},
    {"tensor.flatten",
     "",
     1,
     1,
     {{3, {0, 3, 2}}, NOTHING},
     {{3, {0, 3, 2}}, {2, {0, 6}}}},
    {"tensor.expand_dims",
     "axis=1",
     1,
     1,
     {NOTHING, {3, {2, -1, 3}}},
     {{2, {2, 3}}, {3, {2, 1, 3}}}},
    {"tensor.squeeze",
     "axis=-1",
     1,
     1,
     {{3, {-1, 3, -1}}, {2, {2, -1}}},
     {{3, {2, 3, 1}}, {2, {2, 3}}}},
    {"tensor.transpose",
     "axes=[2,0,1]",
     1,
     1,
     {{3, {2, -1, -1}}, {3, {4, -1, 3}}},
     {{3, {2, 3, 4}}, {3, {4, 2, 3}}}},
    {"tensor.transpose",
     "",
     1,
     1,
     {NOTHING, {2, {2, 3}}},
     {{2, {3, 2}}, {2, {2, 3}}}},
    {"tensor.transpose_back",
     "axes=[2,0,1]",
     1,
     1,
     {{3, {4, 2, 3}}, NOTHING},
     {{3, {4, 2, 3}}, {3, {2, 3, 4}}}},
    {"tensor.swap_axes",
     "dim1=0 dim2=1",
     1,
     1,
     {NOTHING, {2, {2, 3}}},
     {{2, {3, 2}}, {2, {2, 3}}}},
    /* incomplete_infer_concat: missing lengths come from the other inputs, and
     * one length along the axis from that of the whole. */
    {"tensor.concat",
     "dim=1",
     2,
     1,
     {{2, {-1, 3}}, {2, {5, -1}}, {2, {-1, 10}}},
     {{2, {5, 3}}, {2, {5, 7}}, {2, {5, 10}}}},
    {"tensor.concat",
     "dim=0",
     3,
     1,
     {{2, {1, -1}}, {2, {-1, 4}}, {2, {2, -1}}, NOTHING},
     {{2, {1, 4}}, {2, {-1, 4}}, {2, {2, 4}}, {2, {-1, 4}}}},
    {"tensor.stack",
     "axis=1",
     2,
     1,
     {{2, {-1, 3}}, NOTHING, {3, {4, -1, -1}}},
     {{2, {4, 3}}, {2, {4, 3}}, {3, {4, 2, 3}}}},
    /* incomplete_infer_slicechannel */
    {"tensor.split",
     "num_outputs=2 axis=1 squeeze_axis=true",
     1,
     2,
     {{2, {-1, 2}}, NOTHING, {1, {5}}},
     {{2, {5, 2}}, {1, {5}}, {1, {5}}}},
    {"tensor.split",
     "num_outputs=3 axis=1",
     1,
     3,
     {{3, {-1, 15, -1}}, NOTHING, {3, {3, -1, 2}}, NOTHING},
     {{3, {3, 15, 2}}, {3, {3, 5, 2}}, {3, {3, 5, 2}}, {3, {3, 5, 2}}}},
    {"tensor.split",
     "num_outputs=3 axis=0",
     1,
     3,
     {NOTHING, NOTHING, {2, {4, 2}}, NOTHING},
     {{2, {12, 2}}, {2, {4, 2}}, {2, {4, 2}}, {2, {4, 2}}}},
    {"tensor.slice_axis",
     "axis=1 begin=1",
     1,
     1,
     {{2, {-1, 5}}, {2, {3, -1}}},
     {{2, {3, 5}}, {2, {3, 4}}}},
    {"tensor.slice",
     "begin=[1] end=[-1]",
     1,
     1,
     {{2, {-1, 5}}, NOTHING},
     {{2, {-1, 5}}, {2, {-1, 5}}}},
    {"tensor.take",
     "axis=1",
     2,
     1,
     {{3, {-1, 5, -1}}, {2, {3, -1}}, {4, {2, -1, 7, 4}}},
     {{3, {2, 5, 4}}, {2, {3, 7}}, {4, {2, 3, 7, 4}}}},
    {"tensor.one_hot",
     "depth=3",
     1,
     1,
     {NOTHING, {3, {2, 5, -1}}},
     {{2, {2, 5}}, {3, {2, 5, 3}}}},
    {"tensor.tile",
     "reps=[2,3]",
     1,
     1,
     {{3, {5, -1, 4}}, NOTHING},
     {{3, {5, -1, 4}}, {3, {5, -1, 12}}}},
    {"tensor.pad",
     "pad_width=[1,2,0,3]",
     1,
     1,
     {{2, {-1, 4}}, {2, {7, -1}}},
     {{2, {4, 4}}, {2, {7, 7}}}},
    {"tensor.repeat",
     "repeats=2",
     1,
     1,
     {{2, {3, 4}}, NOTHING},
     {{2, {3, 4}}, {1, {24}}}},
};

Test(move, known_dimensions_reach_all_shapes) {
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; ++i)
    check_shapes(rt, &shape_cases[i]);
  tn_runtime_release(rt);
}

/* --------------------------------------------------------- larger matrices */

/* Element i of an array of `bytes` each: its number, so that every element of
 * every type differs from its neighbours. */
static uint64_t number_of(int64_t i) {
  return (uint64_t)i * 2654435761u + 1;
}

static void number(unsigned char *to, int64_t i, int64_t bytes) {
  const uint64_t value = number_of(i);
  memcpy(to + i * bytes, &value, (size_t)bytes);
}

/* (a,b,c) as (b,a,c), or as (c,b,a), for sizes that no square divides. */
static void check_turn(tn_runtime *rt, tn_dtype dtype, const char *axes,
                       const int order[3], const int64_t shape[3]) {
  const tn_spec spec = {dtype, 3, shape};
  const int64_t bytes = tn_dtype_bytes(dtype);
  const int64_t n = shape[0] * shape[1] * shape[2];
  unsigned char *from = malloc((size_t)(n * bytes));
  unsigned char *to = malloc((size_t)(n * bytes));
  tn_operator *op = host_operator(rt, "tensor.transpose");
  tn_params *params = host_params(op, axes);
  tn_array *x = NULL, *y = NULL;
  for (int64_t i = 0; i < n; ++i) number(from, i, bytes);
  OK(tn_array_create(rt, &spec, &x));
  OK(tn_array_set(x, from, (size_t)(n * bytes)));
  OK(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)));
  OK(tn_array_get(y, to, (size_t)(n * bytes)));
  const int64_t step[3] = {shape[1] * shape[2], shape[2], 1};
  const unsigned char *at = to;
  for (int64_t i = 0; i < shape[order[0]]; ++i)
    for (int64_t j = 0; j < shape[order[1]]; ++j)
      for (int64_t k = 0; k < shape[order[2]]; ++k, at += bytes)
        cr_assert_eq(memcmp(at,
                            from + (i * step[order[0]] + j * step[order[1]] +
                                    k * step[order[2]]) *
                                       bytes,
                            (size_t)bytes),
                     0, "%s, %lld bytes: (%lld,%lld,%lld)", axes,
                     (long long)bytes, (long long)i, (long long)j,
                     (long long)k);
  tn_array_release(x), tn_array_release(y);
  tn_params_release(params);
  free(from), free(to);
}

/* Instructions that a host may lack, from none to all but the base. */
static const uint64_t masks[] = {0, TN_CPU_AVX512, TN_CPU_AVX512 | TN_CPU_AVX2};
enum { N_MASKS = sizeof masks / sizeof *masks };

static tn_runtime *open_without(uint64_t mask) {
  const tn_options options = {.struct_size = sizeof options, .cpu_mask = mask};
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(&options, &rt));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

static void check_turns(tn_runtime *rt, tn_dtype dtype) {
  check_turn(rt, dtype, "axes=[2,1,0]", (int[]){2, 1, 0},
             (int64_t[]){67, 3, 130});
  check_turn(rt, dtype, "axes=[0,2,1]", (int[]){0, 2, 1},
             (int64_t[]){3, 301, 35});
  check_turn(rt, dtype, "axes=[1,0,2]", (int[]){1, 0, 2},
             (int64_t[]){37, 51, 5});
  check_turn(rt, dtype, "axes=[2,0,1]", (int[]){2, 0, 1},
             (int64_t[]){2, 16, 32});
}

Test(move, matrices_of_any_type_and_size_are_turned) {
  static const tn_dtype dtypes[] = {TN_U8, TN_F16, TN_F32, TN_I64};
  for (int m = 0; m < N_MASKS; ++m) {
    tn_runtime *rt = open_without(masks[m]);
    for (int i = 0; i < 4; ++i) check_turns(rt, dtypes[i]);
    tn_runtime_release(rt);
  }
}

/* Parts of many lines, which are copied line by line: some have too few
 * elements for that, or another length than the others. */
enum { PARTS = 12, ROWS = 40 };

static const int64_t part_widths[PARTS] = {300, 64, 129, 3,   77, 1,
                                           256, 70, 500, 100, 65, 91};

/* Element (i,j) of part k is element (i,j) of the whole from column `first` on,
 * which has its place for a number. */
static void check_part(const unsigned char *part, int64_t k, int64_t first,
                       int64_t all, int64_t bytes) {
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t j = 0; j < part_widths[k]; ++j) {
      const uint64_t want = number_of(i * all + first + j);
      cr_assert_eq(
          memcmp(part + (i * part_widths[k] + j) * bytes, &want, (size_t)bytes),
          0, "%lld bytes, part %lld: (%lld,%lld)", (long long)bytes,
          (long long)k, (long long)i, (long long)j);
    }
}

static int64_t all_widths(void) {
  int64_t all = 0;
  for (int k = 0; k < PARTS; ++k) all += part_widths[k];
  return all;
}

/* A whole with numbered elements, split and concatenated again. */
static void check_parts(tn_runtime *rt, tn_dtype dtype) {
  const int64_t bytes = tn_dtype_bytes(dtype), all = all_widths();
  unsigned char *room = malloc((size_t)(ROWS * all * bytes));
  unsigned char *copy = malloc((size_t)(ROWS * all * bytes));
  tn_array *whole = NULL, *again = NULL, *part[PARTS] = {0};
  tn_operator *slice = host_operator(rt, "tensor.slice_axis");
  tn_operator *concat = host_operator(rt, "tensor.concat");
  for (int64_t i = 0; i < ROWS * all; ++i) number(room, i, bytes);
  OK(tn_array_create(rt, &(tn_spec){dtype, 2, (int64_t[]){ROWS, all}}, &whole));
  OK(tn_array_set(whole, room, (size_t)(ROWS * all * bytes)));
  int64_t first = 0;
  for (int k = 0; k < PARTS; first += part_widths[k++]) {
    char text[64];
    snprintf(text, sizeof text, "axis=1 begin=%d end=%d", (int)first,
             (int)(first + part_widths[k]));
    tn_params *params = host_params(slice, text);
    OK(tn_call(rt, slice, TN_IN(whole), params, TN_OUT(&part[k])));
    OK(tn_array_get(part[k], copy, (size_t)(ROWS * part_widths[k] * bytes)));
    check_part(copy, k, first, all, bytes);
    tn_params_release(params);
  }
  tn_params *params = host_params(concat, "dim=1");
  OK(tn_call(rt, concat, &(tn_inputs){PARTS, part}, params, TN_OUT(&again)));
  OK(tn_array_get(again, copy, (size_t)(ROWS * all * bytes)));
  cr_assert_eq(memcmp(copy, room, (size_t)(ROWS * all * bytes)), 0,
               "%lld bytes", (long long)bytes);
  drop(part, PARTS);
  tn_array_release(whole), tn_array_release(again);
  tn_params_release(params);
  free(room), free(copy);
}

Test(move, parts_of_many_lines_are_put_together) {
  for (int m = 0; m < N_MASKS; ++m) {
    tn_runtime *rt = open_without(masks[m]);
    check_parts(rt, TN_U8);
    check_parts(rt, TN_F16);
    check_parts(rt, TN_F32);
    check_parts(rt, TN_I64);
    tn_runtime_release(rt);
  }
}

/* The gradient of the whole, taken apart; two of the parts want none. */
Test(move, a_gradient_of_many_lines_is_taken_apart) {
  const int64_t all = all_widths();
  tn_runtime *rt = host_open();
  tn_operator *concat = host_operator(rt, "tensor.concat");
  tn_params *params = host_params(concat, "dim=1");
  unsigned char *room = malloc((size_t)(ROWS * all * 4));
  tn_array *part[PARTS] = {0}, *grads[PARTS] = {0}, *out = NULL, *head = NULL;
  tn_req req[PARTS];
  for (int64_t i = 0; i < ROWS * all; ++i) number(room, i, 4);
  OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, (int64_t[]){ROWS, all}}, &head));
  OK(tn_array_set(head, room, (size_t)(ROWS * all * 4)));
  for (int k = 0; k < PARTS; ++k) {
    const int64_t dims[2] = {ROWS, part_widths[k]};
    OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, dims}, &part[k]));
    memset(room, 0, (size_t)(dims[0] * dims[1] * 4));
    OK(tn_array_set(part[k], room, (size_t)(dims[0] * dims[1] * 4)));
    req[k] = k == 2 || k == 6 ? TN_REQ_NULL : TN_REQ_WRITE;
  }
  OK(tn_call(rt, concat, &(tn_inputs){PARTS, part}, params, TN_OUT(&out)));
  OK(tn_call_backward(rt, concat,
                      &(tn_backward){.struct_size = sizeof(tn_backward),
                                     .params = params,
                                     .inputs = {PARTS, part},
                                     .outputs = {1, &out},
                                     .out_grads = {1, &head},
                                     .in_grads = {PARTS, grads, req}}));
  int64_t first = 0;
  for (int k = 0; k < PARTS; first += part_widths[k++]) {
    if (req[k] == TN_REQ_NULL) continue;
    OK(tn_array_get(grads[k], room, (size_t)(ROWS * part_widths[k] * 4)));
    check_part(room, k, first, all, 4);
  }
  drop(part, PARTS), drop(grads, PARTS);
  tn_array_release(out), tn_array_release(head);
  tn_params_release(params);
  free(room);
  tn_runtime_release(rt);
}

/* ------------------------------------------------------------- no elements */

/* They have no memory that anything might begin in: UBSan would say so. */
Test(move, of_arrays_without_elements_nothing_is_taken) {
  static const struct {
    const char *op, *params;
    int64_t width;
  } cases[] = {{"tensor.reverse", "axis=[1]", 3},
               {"tensor.slice_axis", "axis=1 begin=1 end=3", 2},
               {"tensor.pad", "mode=edge pad_width=[0,0,1,2]", 6}};
  tn_runtime *rt = host_open();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tn_operator *op = host_operator(rt, cases[i].op);
    tn_params *params = host_params(op, cases[i].params);
    tn_array *in = NULL, *out = NULL;
    OK(tn_array_create(rt, &(tn_spec){TN_F32, 2, (int64_t[]){0, 3}}, &in));
    OK(tn_call(rt, op, TN_IN(in), params, TN_OUT(&out)));
    OK(tn_array_wait(out));
    cr_assert_eq(tn_array_tensor(out)->shape[0], 0);
    cr_assert_eq(tn_array_tensor(out)->shape[1], cases[i].width);
    tn_array_release(in), tn_array_release(out);
    tn_params_release(params);
  }
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- limits */

/* Each axis that is repeated is two on the way. */
Test(move, sixteen_axes_have_no_room_for_copies) {
  static const char *const names[] = {"tensor.tile", "tensor.repeat"};
  static const char *const texts[] = {"reps=[2]", "repeats=2 axis=-1"};
  const int64_t dims[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  tn_runtime *rt = host_open();
  tn_array *x = host_many(rt, TN_F64, 16, dims, (const double[]){1});
  for (int i = 0; i < 2; ++i) {
    tn_operator *op = host_operator(rt, names[i]);
    tn_params *params = host_params(op, texts[i]);
    tn_array *y = NULL;
    FAILS(tn_call(rt, op, TN_IN(x), params, TN_OUT(&y)), TN_UNSUPPORTED,
          "together they may be 16: reshape `data` to fewer axes first");
    tn_params_release(params);
  }
  tn_array_release(x);
  tn_runtime_release(rt);
}

/* -------------------------------------------------- gradients of gradients */

/* Of f(x)^2 weighted by w, where f moves elements: the gradient is
 * 2 f^T(w f(x)), so the gradient of its sum is 2 f^T(w f(1)). */
static void check_twice(tn_runtime *rt, const char *name, const char *text,
                        const double *expected) {
  const double ones[6] = {1, 1, 1, 1, 1, 1}, x_is[6] = {1, 2, 3, 4, 5, 6};
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_array *x = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, x_is);
  tn_array *y = NULL, *square = NULL, *first = NULL, *second = NULL;
  tn_array *in[2] = {
      x, host_array(rt, TN_F64, (host_shape){1, {2}}, (double[]){1, 1})};
  tn_tape *tape = NULL;
  OK(tn_tape_create(rt, &tape));
  OK(tn_tape_watch(tape, x));
  const size_t n_in = strcmp(name, "tensor.take") == 0 ? 2 : 1;
  OK(tn_tape_call(tape, op, &(tn_inputs){n_in, in}, params, TN_OUT(&y)));
  OK(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(y, y), NULL,
                  TN_OUT(&square)));
  tn_tape_query query = {.struct_size = sizeof query,
                         .heads = *TN_IN(square),
                         .of = *TN_IN(x),
                         .gradients = *TN_OUT(&first),
                         .flags = TN_TAPE_RECORD};
  OK(tn_tape_gradient(tape, &query));
  query.heads = *TN_IN(first);
  query.gradients = *TN_OUT(&second);
  query.flags = 0;
  OK(tn_tape_gradient(tape, &query));
  host_expect(second, expected ? expected : ones, 6, 0);
  tn_array_release(x), tn_array_release(in[1]), tn_array_release(y);
  tn_array_release(square), tn_array_release(first), tn_array_release(second);
  tn_tape_release(tape);
  tn_params_release(params);
}

Test(move, gradients_have_gradients) {
  tn_runtime *rt = host_open();
  static const double all[6] = {2, 2, 2, 2, 2, 2};
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  check_twice(rt, "tensor.reshape", "shape=[3,-1]", all);
  check_twice(rt, "tensor.flatten", "", all);
  check_twice(rt, "tensor.expand_dims", "axis=1", all);
  check_twice(rt, "tensor.transpose", "", all);
  check_twice(rt, "tensor.swap_axes", "dim1=0 dim2=1", all);
  check_twice(rt, "tensor.reverse", "axis=[0]", all);
  check_twice(rt, "tensor.slice", "begin=[0,1] end=[2,3]",
              (double[]){0, 2, 2, 0, 2, 2});
  check_twice(rt, "tensor.slice_axis", "axis=0 begin=1",
              (double[]){0, 0, 0, 2, 2, 2});
  check_twice(rt, "tensor.take", "axis=0", (double[]){0, 0, 0, 4, 4, 4});
  check_twice(rt, "tensor.tile", "reps=[3,1]", (double[]){6, 6, 6, 6, 6, 6});
  check_twice(rt, "tensor.pad", "mode=edge pad_width=[1,0,0,1]",
              (double[]){4, 4, 8, 2, 2, 4});
  check_twice(rt, "tensor.pad", "pad_width=[1,0,0,1] constant_value=3", all);
  check_twice(rt, "tensor.repeat", "repeats=2", (double[]){4, 4, 4, 4, 4, 4});
  tn_runtime_release(rt);
}

/* ----------------------------------------------------------------- programs */

static void call_node(tn_graph *g, const char *op, const char *params,
                      tn_entry in, tn_entry *out) {
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = 1,
                              .op = op,
                              .params = params,
                              .in = &in};
  OK(tn_graph_call(g, &node, out));
}

/* Gradients take the memory of those of the outputs: without it, that of the
 * reshaped array and that of s would need a place each. */
Test(move, a_gradient_is_reshaped_where_it_is) {
  tn_runtime *rt = host_open();
  const double values[6] = {1, 4, 9, 16, 25, 36};
  const double ones[6] = {1, 1, 1, 1, 1, 1};
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_entry x, s, r, y;
  tn_array *data = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, values);
  tn_array *head = host_array(rt, TN_F64, (host_shape){2, {3, 2}}, ones);
  tn_array *slope = NULL;
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", NULL, &x));
  call_node(g, "elemwise.negative", NULL, x, &s);
  call_node(g, "tensor.reshape", "shape=[3,-1]", s, &r);
  call_node(g, "elemwise.negative", NULL, r, &y);
  OK(tn_graph_heads_set(g, &y, 1));
  OK(tn_program_bind(
      g,
      &(tn_bind){
          .struct_size = sizeof(tn_bind),
          .request = TN_REQ_WRITE,
          .arguments = &(tn_argument){.name = "x", .array = data, .request = 0},
          .n_arguments = 1},
      &p));
  tn_program_stats stats = {.struct_size = sizeof stats};
  OK(tn_program_stats_get(p, &stats));
  cr_assert_leq(stats.pool_bytes, 64, "%llu",
                (unsigned long long)stats.pool_bytes);
  OK(tn_program_forward(p, TN_CALL_TRAIN));
  OK(tn_program_backward(p, &head, 1));
  OK(tn_program_array(p, TN_PROGRAM_GRADIENT, "x", &slope));
  host_expect(slope, ones, 6, 0);
  tn_array_release(data), tn_array_release(head);
  tn_program_release(p);
  tn_graph_release(g);
  tn_runtime_release(rt);
}

/* The elements of s = sqrt(x) are not used any more: their other shape costs no
 * memory, and is nothing to compute. */
Test(move, a_program_reshapes_where_the_elements_are) {
  tn_runtime *rt = host_open();
  const double values[6] = {1, 4, 9, 16, 25, 36};
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_entry x, s, r, y;
  tn_array *data = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, values);
  tn_array *out = NULL;
  tn_program_stats stats = {.struct_size = sizeof stats};
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", NULL, &x));
  call_node(g, "elemwise.sqrt", NULL, x, &s);
  call_node(g, "tensor.reshape", "shape=[3,-1]", s, &r);
  call_node(g, "elemwise.square", NULL, r, &y);
  OK(tn_graph_heads_set(g, &y, 1));
  OK(tn_program_bind(
      g,
      &(tn_bind){.struct_size = sizeof(tn_bind),
                 .arguments = &(tn_argument){.name = "x", .array = data},
                 .n_arguments = 1},
      &p));
  OK(tn_program_stats_get(p, &stats));
  cr_assert_leq(stats.pool_bytes, 64, "%llu",
                (unsigned long long)stats.pool_bytes);
  OK(tn_program_forward(p, 0));
  OK(tn_program_output(p, 0, &out));
  cr_assert_eq(tn_array_tensor(out)->shape[0], 3);
  host_expect(out, values, 6, 1e-15);
  tn_array_release(data);
  tn_program_release(p);
  tn_graph_release(g);
  tn_runtime_release(rt);
}
