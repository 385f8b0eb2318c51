/* SPDX-License-Identifier: Apache-2.0
 * nn.attention and nn.rotary: values and gradients of torch, calls of several
 * tiles against sums in f64, masks that hide everything, dropped weights, and
 * operands that do not fit. With ATTENTION_PLACE and the plugins of
 * ATTENTION_FILES the calls of several tiles run on a device too
 * (tests/cuda).
 */
#include <stdlib.h>

#include "cases.h"

static tn_runtime *rt;

static void open_all(void) {
  rt = host_open();
}

static void close_all(void) {
  tn_runtime_release(rt);
}

TestSuite(attention, .init = open_all, .fini = close_all);

Test(attention, values_and_gradients_are_those_of_torch) {
  cases_check(rt, "nn.attention", 10);
}

Test(attention, rotations_are_those_of_torch) {
  cases_check(rt, "nn.rotary", 5);
}

/* ------------------------------------------------------------ several tiles */

static double key_noise(int64_t i) {
  return cases_noise(3 * i + 11) / 2;
}

static double value_noise(int64_t i) {
  return cases_noise(5 * i + 2);
}

static double head_noise(int64_t i) {
  return cases_noise(7 * i + 5);
}

static double mask_bit(int64_t i) {
  return i % 7 != 3;
}

static const char *place_name; /* the device of the calls; NULL: the CPU */

/* Moves an array to the device of the calls. */
static void move(tn_array **array) {
  tn_place place;
  tn_array *moved = NULL;
  if (!place_name || !*array) return;
  OK(tn_place_parse(rt, place_name, &place));
  OK(tn_array_to(*array, place, &moved));
  tn_array_release(*array);
  *array = moved;
}

/* Shapes and parameters of a call. */
typedef struct problem {
  const char *params;
  int64_t batch, heads, key_heads, rows, columns, depth, width;
  int masked; /* with a mask of bool of (B,1,1,Sk) */
  int causal;
  int64_t offset, window;
  double cap;
} problem;

static void fill(cases_call *c, const problem *p, tn_dtype dtype) {
  *c = (cases_call){.op = "nn.attention",
                    .params = p->params,
                    .n_in = p->masked ? 4 : 3,
                    .n_out = 3};
  c->in[0] = cases_array(rt, dtype, 4,
                         (int64_t[]){p->batch, p->heads, p->rows, p->depth},
                         cases_noise);
  c->in[1] = cases_array(
      rt, dtype, 4, (int64_t[]){p->batch, p->key_heads, p->columns, p->depth},
      key_noise);
  c->in[2] = cases_array(
      rt, dtype, 4, (int64_t[]){p->batch, p->key_heads, p->columns, p->width},
      value_noise);
  if (p->masked)
    c->in[3] = cases_array(rt, TN_BOOL, 4,
                           (int64_t[]){p->batch, 1, 1, p->columns}, mask_bit);
  c->heads[0] = cases_array(rt, dtype, 4,
                            (int64_t[]){p->batch, p->heads, p->rows, p->width},
                            head_noise);
  for (int i = 0; i < 3; ++i) c->req[i] = TN_REQ_WRITE;
  for (int i = 0; i < 4; ++i) move(&c->in[i]);
  move(&c->heads[0]);
}

/* The expected results of a call, in f64. */
typedef struct expected {
  double *q, *k, *v, *h; /* operands */
  double *out, *dq, *dk, *dv;
  double *weight, *slope; /* of one row */
} expected;

static double *zeros(int64_t n) {
  double *x = calloc((size_t)n + 1, sizeof *x);
  cr_assert_not_null(x);
  return x;
}

static double dot(const double *x, const double *y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

static int is_hidden(const problem *p, int64_t batch, int64_t row,
                     int64_t column) {
  const int64_t own = row + p->offset;
  if (p->masked && mask_bit(batch * p->columns + column) == 0) return 1;
  if (p->causal && column > own) return 1;
  return p->window > 0 && column <= own - p->window;
}

/* Adds the results of one row of one head. */
static void add_row(const problem *p, expected *e, int64_t batch, int64_t head,
                    int64_t row) {
  const int64_t at = (batch * p->heads + head) * p->rows + row;
  const int64_t keys = batch * p->key_heads + head * p->key_heads / p->heads;
  const double *q = e->q + at * p->depth, *h = e->h + at * p->width;
  const double *k = e->k + keys * p->columns * p->depth;
  const double *v = e->v + keys * p->columns * p->width;
  const double scale = 1 / sqrt((double)p->depth);
  double sum = 0, all = 0;
  for (int64_t c = 0; c < p->columns; ++c) {
    double s = scale * dot(q, k + c * p->depth, p->depth);
    if (p->cap > 0) s = p->cap * tanh(s / p->cap);
    e->slope[c] = p->cap > 0 ? 1 - s * s / (p->cap * p->cap) : 1;
    e->weight[c] = is_hidden(p, batch, row, c) ? 0 : exp(s);
    sum += e->weight[c];
  }
  for (int64_t c = 0; c < p->columns; ++c) {
    e->weight[c] = sum > 0 ? e->weight[c] / sum : 0;
    all += e->weight[c] * dot(h, v + c * p->width, p->width);
  }
  for (int64_t c = 0; c < p->columns; ++c) {
    const double w = e->weight[c];
    const double s =
        e->slope[c] * scale * w * (dot(h, v + c * p->width, p->width) - all);
    for (int64_t d = 0; d < p->width; ++d) {
      e->out[at * p->width + d] += w * v[c * p->width + d];
      e->dv[(keys * p->columns + c) * p->width + d] += w * h[d];
    }
    for (int64_t d = 0; d < p->depth; ++d) {
      e->dq[at * p->depth + d] += s * k[c * p->depth + d];
      e->dk[(keys * p->columns + c) * p->depth + d] += s * q[d];
    }
  }
}

static void expect_near(tn_array *array, double *want, const char *name) {
  double *got = cases_values(array);
  for (int64_t i = 0; i < tn_array_size(array); ++i)
    cr_assert(fabs(got[i] - want[i]) <= 2e-5 * fmax(1, fabs(want[i])),
              "%s, element %lld: %.9g, not %.9g", name, (long long)i, got[i],
              want[i]);
  free(got), free(want);
}

static void check(const problem *p) {
  const int64_t rows = p->batch * p->heads * p->rows;
  const int64_t columns = p->batch * p->key_heads * p->columns;
  cases_call c;
  fill(&c, p, TN_F32);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  expected e = {.q = cases_values(c.in[0]),
                .k = cases_values(c.in[1]),
                .v = cases_values(c.in[2]),
                .h = cases_values(c.heads[0]),
                .out = zeros(rows * p->width),
                .dq = zeros(rows * p->depth),
                .dk = zeros(columns * p->depth),
                .dv = zeros(columns * p->width),
                .weight = zeros(p->columns),
                .slope = zeros(p->columns)};
  for (int64_t i = 0; i < rows; ++i)
    add_row(p, &e, i / p->rows / p->heads, i / p->rows % p->heads, i % p->rows);
  expect_near(c.out[0], e.out, "out");
  expect_near(c.grads[0], e.dq, "gradient of q");
  expect_near(c.grads[1], e.dk, "gradient of k");
  expect_near(c.grads[2], e.dv, "gradient of v");
  free(e.q), free(e.k), free(e.v), free(e.h), free(e.weight), free(e.slope);
  cases_release(&c);
}

Test(attention, rows_and_columns_of_several_tiles_are_right) {
  check(&(problem){"", 1, 1, 1, 64, 96, 8, 8, .cap = 0});
  check(&(problem){"", 2, 3, 3, 130, 200, 20, 33, .cap = 0});
  check(&(problem){"", 1, 4, 2, 70, 97, 65, 40, .masked = 1});
  check(&(problem){"", 1, 1, 1, 3, 100, 600, 130, .cap = 0});
  check(&(problem){"", 5, 4, 2, 70, 100, 8, 12, .cap = 0}); /* many heads */
  check(&(problem){"softcap=2", 2, 2, 1, 33, 130, 5, 3, .cap = 2});
  check(&(problem){.params = "causal=true",
                   .batch = 1,
                   .heads = 2,
                   .key_heads = 1,
                   .rows = 150,
                   .columns = 150,
                   .depth = 16,
                   .width = 16,
                   .causal = 1});
  check(&(problem){.params = "causal=true causal_offset=-40",
                   .batch = 1,
                   .heads = 1,
                   .key_heads = 1,
                   .rows = 140,
                   .columns = 120,
                   .depth = 4,
                   .width = 4,
                   .causal = 1,
                   .offset = -40});
  check(
      &(problem){.params = "causal=true causal_offset=130 window=70 softcap=3",
                 .batch = 2,
                 .heads = 2,
                 .key_heads = 2,
                 .rows = 100,
                 .columns = 230,
                 .depth = 6,
                 .width = 20,
                 .masked = 1,
                 .causal = 1,
                 .offset = 130,
                 .window = 70,
                 .cap = 3});
}

static void make_call(tn_runtime *own, cases_call *c) {
  tn_runtime *kept = rt;
  rt = own;
  fill(c,
       &(problem){.params = "causal=true softcap=4",
                  .batch = 2,
                  .heads = 4,
                  .key_heads = 2,
                  .rows = 150,
                  .columns = 190,
                  .depth = 24,
                  .width = 40,
                  .masked = 1},
       TN_F32);
  rt = kept;
}

Test(attention, results_do_not_depend_on_threads) {
  cases_same_for_all_threads(make_call);
}

/* -------------------------------------------------------------------- masks */

static double large_number(int64_t i) {
  return i % 2 ? 100 : -100;
}

/* A mask of each type and form, all of which hide the same columns. */
static void check_mask(tn_dtype dtype, int32_t ndim, const int64_t *dims,
                       double (*value)(int64_t i)) {
  cases_call c;
  fill(&c,
       &(problem){.params = "",
                  .batch = 2,
                  .heads = 2,
                  .key_heads = 2,
                  .rows = 70,
                  .columns = 133,
                  .depth = 5,
                  .width = 3,
                  .masked = 1},
       TN_F32);
  cases_forward(rt, &c);
  double *want = cases_values(c.out[0]);
  tn_array_release(c.in[3]);
  tn_array_release(c.out[0]), tn_array_release(c.out[1]);
  tn_array_release(c.out[2]);
  memset(c.out, 0, sizeof c.out);
  c.in[3] = cases_array(rt, dtype, ndim, dims, value);
  move(&c.in[3]);
  cases_forward(rt, &c);
  expect_near(c.out[0], want, "out");
  cases_release(&c);
}

/* The bits of mask_bit for (2,1,1,133), repeated for 70 rows. */
static double repeated_bit(int64_t i) {
  return mask_bit(i / (70 * 133) * 133 + i % 133);
}

static double repeated_number(int64_t i) {
  return repeated_bit(i) != 0 ? 0 : -INFINITY;
}

static double mask_number(int64_t i) {
  return mask_bit(i) != 0 ? 0 : -INFINITY;
}

Test(attention, masks_of_every_type_and_form_are_alike) {
  const int64_t rows[4] = {2, 1, 70, 133}, columns[4] = {2, 1, 1, 133};
  check_mask(TN_BOOL, 4, rows, repeated_bit);
  check_mask(TN_F16, 4, columns, mask_number);
  check_mask(TN_F16, 4, rows, repeated_number);
  check_mask(TN_BF16, 4, rows, repeated_number);
  check_mask(TN_F32, 4, rows, repeated_number);
  check_mask(TN_F64, 4, rows, repeated_number);
}

/* ------------------------------------------------------------ on a device */

Test(attention, tiles_of_a_device_are_right) {
  const char *files = getenv("ATTENTION_FILES");
  const int64_t rows[4] = {2, 1, 70, 133}, columns[4] = {2, 1, 1, 133};
  place_name = getenv("ATTENTION_PLACE");
  if (!place_name || !files)
    cr_skip_test("ATTENTION_PLACE and ATTENTION_FILES name no device");
  host_load_all(rt, files);
  check(&(problem){"", 1, 2, 1, 40, 70, 33, 40, .cap = 0});
  check(&(problem){"", 1, 1, 1, 3, 33, 4, 300, .cap = 0});
  check(&(problem){.params = "causal=true causal_offset=30 window=20 softcap=3",
                   .batch = 2,
                   .heads = 4,
                   .key_heads = 2,
                   .rows = 40,
                   .columns = 71,
                   .depth = 6,
                   .width = 5,
                   .masked = 1,
                   .causal = 1,
                   .offset = 30,
                   .window = 20,
                   .cap = 3});
  check_mask(TN_BOOL, 4, rows, repeated_bit);
  check_mask(TN_F16, 4, columns, mask_number);
  check_mask(TN_F64, 4, rows, repeated_number);
}

/* Scores are 10000 and -10000. */
Test(attention, large_scores_do_not_overflow) {
  const int64_t dims[4] = {1, 1, 2, 1};
  cases_call c = {
      .op = "nn.attention", .params = "scale=1", .n_in = 3, .n_out = 3};
  for (int i = 0; i < 3; ++i)
    c.in[i] = cases_array(rt, TN_F32, 4, dims, large_number);
  cases_forward(rt, &c);
  host_expect(c.out[0], (double[]){-100, 100}, 2, 0);
  host_expect(c.out[1], (double[]){10000, 10000}, 2, 0);
  cases_release(&c);
}

Test(attention, a_row_without_columns_is_zero) {
  const double mask[] = {1, 1, 0, 0}, ones[] = {1, 1, 1, 1};
  const host_shape shape = {4, {1, 1, 2, 2}};
  cases_call c = {.op = "nn.attention", .params = "", .n_in = 4, .n_out = 3};
  for (int i = 0; i < 3; ++i) {
    c.in[i] = host_array(rt, TN_F32, shape, ones);
    c.req[i] = TN_REQ_WRITE;
  }
  c.in[3] = host_array(rt, TN_BOOL, (host_shape){2, {2, 2}}, mask);
  c.heads[0] = host_array(rt, TN_F32, shape, ones);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.out[0], (double[]){1, 1, 0, 0}, 4, 0);
  double lse[HOST_MAX];
  host_values(c.out[1], lse);
  cr_assert(isinf(lse[1]) && lse[1] < 0);
  host_expect(c.grads[0], (double[]){0, 0, 0, 0}, 4, 0);
  host_expect(c.grads[2], (double[]){0.5, 0.5, 0.5, 0.5}, 4, 1e-6);
  cases_release(&c);
}

Test(attention, no_rows_and_no_columns_are_allowed) {
  cases_call c;
  fill(&c, &(problem){"", 1, 2, 2, 3, 0, 4, 2, .cap = 0}, TN_F32);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.out[0], (double[12]){0}, 12, 0);
  host_expect(c.grads[0], (double[24]){0}, 24, 0);
  cases_release(&c);
  fill(&c, &(problem){"", 1, 2, 1, 0, 3, 4, 2, .cap = 0}, TN_F16);
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  host_expect(c.grads[1], (double[12]){0}, 12, 0);
  host_expect(c.grads[2], (double[6]){0}, 6, 0);
  cases_release(&c);
  fill(&c, &(problem){"causal=true", 1, 1, 1, 2, 3, 0, 1, .causal = 1}, TN_F64);
  cases_forward(rt, &c);
  double *v = cases_values(c.in[2]);
  host_expect(c.out[0], (double[]){v[0], (v[0] + v[1]) / 2}, 2, 1e-15);
  free(v);
  cases_release(&c);
}

Test(attention, infinite_numbers_of_a_mask_hide_and_win) {
  const double mask[] = {-INFINITY, 0, 0.5, -INFINITY}, ones[] = {1, 1, 1, 1};
  const double v[] = {1, 2, 3, 4};
  const host_shape shape = {4, {1, 1, 2, 2}};
  cases_call c = {.op = "nn.attention", .params = "", .n_in = 4, .n_out = 3};
  for (int i = 0; i < 2; ++i) c.in[i] = host_array(rt, TN_F64, shape, ones);
  c.in[2] = host_array(rt, TN_F64, shape, v);
  c.in[3] = host_array(rt, TN_F16, (host_shape){2, {2, 2}}, mask);
  cases_forward(rt, &c);
  host_expect(c.out[0], (double[]){3, 4, 1, 2}, 4, 0);
  cases_release(&c);
}

/* ------------------------------------------------------------------ dropout */

static double unit(int64_t i) {
  return i / 8 == i % 8;
}

/* v is the unit matrix, so `out` has the weights themselves. */
Test(attention, dropped_weights_are_the_same_in_the_gradient) {
  const int64_t q[4] = {1, 2, 70, 3}, k[4] = {1, 1, 8, 3}, v[4] = {1, 1, 8, 8};
  const int64_t h[4] = {1, 2, 70, 8};
  cases_call c = {.op = "nn.attention",
                  .params = "p=0.25 scale=0",
                  .flags = TN_CALL_TRAIN,
                  .n_in = 3,
                  .n_out = 3};
  c.in[0] = cases_array(rt, TN_F32, 4, q, cases_noise);
  c.in[1] = cases_array(rt, TN_F32, 4, k, cases_noise);
  c.in[2] = cases_array(rt, TN_F32, 4, v, unit);
  c.heads[0] = cases_array(rt, TN_F32, 4, h, head_noise);
  c.req[2] = TN_REQ_WRITE;
  cases_forward(rt, &c);
  cases_backward(rt, &c);
  double *weight = cases_values(c.out[0]), *head = cases_values(c.heads[0]);
  double *got = cases_values(c.grads[2]), want[64] = {0};
  int64_t n_dropped = 0;
  for (int64_t i = 0; i < 140 * 8; ++i) {
    n_dropped += weight[i] == 0;
    cr_assert(weight[i] == 0 || fabs(weight[i] - 1 / 6.0) < 1e-6);
    for (int64_t d = 0; d < 8; ++d)
      want[i % 8 * 8 + d] += weight[i] * head[i / 8 * 8 + d];
  }
  cr_assert(n_dropped > 220 && n_dropped < 340, "%lld", (long long)n_dropped);
  for (int64_t i = 0; i < 64; ++i)
    cr_assert(fabs(got[i] - want[i]) < 1e-4, "%g, not %g", got[i], want[i]);
  free(weight), free(head), free(got);
  cases_release(&c);
}

Test(attention, nothing_is_dropped_outside_of_training) {
  const int64_t dims[4] = {1, 1, 8, 8};
  cases_call c = {
      .op = "nn.attention", .params = "p=1 scale=0", .n_in = 3, .n_out = 3};
  for (int i = 0; i < 3; ++i) c.in[i] = cases_array(rt, TN_F32, 4, dims, unit);
  cases_forward(rt, &c);
  double *out = cases_values(c.out[0]);
  for (int i = 0; i < 64; ++i) cr_assert(fabs(out[i] - 0.125) < 1e-6);
  free(out);
  cases_release(&c);
}

/* ----------------------------------------------------------------- messages */

static tn_code infer(const char *name, const char *text, tn_sig *in,
                     uint32_t n_in) {
  tn_operator *op = host_operator(rt, name);
  tn_params *params = host_params(op, text);
  tn_sig out[3] = {{.ndim = -1}, {.ndim = -1}, {.ndim = -1}};
  const uint32_t n_out = strcmp(name, "nn.rotary") ? 3 : 1;
  const tn_code rc = tn_operator_infer(
      op, params, &(tn_signature){n_in, n_out, 0, 0, in, out, NULL});
  tn_params_release(params);
  return rc;
}

Test(attention, operands_that_do_not_fit_are_errors) {
  tn_sig in[4] = {{TN_F32, 4, {2, 3, 5, 4}},
                  {TN_F32, 4, {2, 3, 7, 4}},
                  {TN_F32, 4, {2, 3, 7, 6}},
                  {TN_BOOL, 2, {5, 6}}};
  FAILS(infer("nn.attention", "", in, 4), TN_SHAPE,
        "`mask` (5,6) must broadcast to the scores (B,Hq,Sq,Sk) of `q` "
        "(2,3,5,4) and `k` (2,3,7,4)");
  in[3] = (tn_sig){TN_F16, 2, {1, 7}};
  OK(infer("nn.attention", "", in, 4));
  in[1].shape[1] = in[2].shape[1] = 2;
  FAILS(infer("nn.attention", "", in, 3), TN_SHAPE,
        "the heads of `q` must be a multiple of the heads of `k` and `v`");
  in[1].shape[1] = in[2].shape[1] = 1;
  FAILS(infer("nn.attention", "window=2", in, 3), TN_SHAPE,
        "set causal=true or window=0");
}

Test(attention, tables_that_do_not_fit_are_errors) {
  tn_sig in[3] = {{TN_F32, 4, {2, 3, 5, 4}},
                  {TN_F32, 2, {4, 2}},
                  {.ndim = -1, .dtype = TN_F32}};
  FAILS(infer("nn.rotary", "", in, 3), TN_SHAPE,
        "`cos` (4,2) has fewer rows than `data` (2,3,5,4) has places");
  FAILS(infer("nn.rotary", "rotary_dim=3", in, 3), TN_SHAPE, "must be even");
  FAILS(infer("nn.rotary", "num_heads=2", in, 3), TN_SHAPE, "(B,S,H*D)");
  in[1].shape[0] = 5;
  OK(infer("nn.rotary", "", in, 3));
  cr_assert_eq(in[2].ndim, 2);
}

static double every_other(int64_t i) {
  return 2 * (double)i;
}

Test(attention, a_position_out_of_range_is_an_error) {
  const double numbers[] = {1, 2, 3, 4};
  const host_shape table = {2, {2, 1}};
  tn_operator *op = host_operator(rt, "nn.rotary");
  tn_array *x = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, numbers);
  tn_array *cosine = host_array(rt, TN_F32, table, numbers);
  tn_array *at = cases_array(rt, TN_I64, 2, (int64_t[]){1, 2}, every_other);
  tn_array *y = host_array(rt, TN_F32, (host_shape){4, {1, 1, 2, 2}}, numbers);
  FAILS(tn_call(rt, op, TN_IN(x, cosine, cosine, at), NULL, TN_OUT(&y)),
        TN_OUT_OF_RANGE,
        "position 2 (number 1 of `positions`) is out of range: `cos` has 2 "
        "rows");
  tn_array_release(x), tn_array_release(cosine);
  tn_array_release(at), tn_array_release(y);
}
