/* SPDX-License-Identifier: Apache-2.0
 * Reductions after elementwise calls: fed tile by tile they give the same bits
 * as whole calls, for all shapes and numbers of workers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static void open_with(uint32_t workers) {
  net_open_on(workers);
  OK(tn__plugin_load(w.registry, TENSOR_FILE));
}

/* Not exact in any type, so that another order of additions has other bits. */
static double number_for(int64_t i) {
  return sin((double)i) * (double)(1 + i % 7);
}

static tn_array *create_array(tn_dtype dtype, size_t ndim,
                              const int64_t *shape) {
  return numbers_of(dtype, ndim, shape, number_for);
}

static tn_entry reduce_entry(const char *op, tn_entry of, const char *params) {
  tn_entry out;
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = 1,
                              .op = op,
                              .params = params,
                              .in = &of};
  OK(tn__graph_call(g, &node, &out));
  return out;
}

static tn_entry sum_entry(tn_entry of, const char *params) {
  return reduce_entry("tensor.sum", of, params);
}

static tn_program *bind_with(tn_array *x, tn_array *row, tn_bind how) {
  const tn_argument arguments[] = {{.name = "x", .array = x},
                                   {.name = "row", .array = row}};
  tn_program *p = NULL;
  how.struct_size = sizeof how;
  how.arguments = arguments;
  how.n_arguments = row ? 2 : 1;
  OK(tn__program_bind(g, &how, &p));
  return p;
}

static tn_array *head_array(const tn_program *p, size_t i) {
  tn_array *array = NULL;
  OK(tn__program_output(p, i, &array));
  return array;
}

static uint64_t n_fused(const tn_program *p) {
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  return stats.n_fused;
}

static void has_text(const tn_program *p, const char *part) {
  tn_text *text = NULL;
  OK(tn__program_text(p, 1, &text));
  cr_assert(strstr(tn_text_get(text), part) != NULL, "no \"%s\" in\n%s", part,
            tn_text_get(text));
  tn_text_release(text);
}

/* ---------------------------------------------------------------- same bits
 */

static void same_heads(const tn_program *a, const tn_program *b, size_t n,
                       const char *what) {
  for (size_t i = 0; i < n; ++i) {
    size_t na = 0, nb = 0;
    void *x = bytes_of(head_array(a, i), &na),
         *y = bytes_of(head_array(b, i), &nb);
    cr_assert_eq(na, nb);
    cr_assert_eq(memcmp(x, y, na), 0, "%s: head %zu differs", what, i);
    free(x), free(y);
  }
}

/* tanh and a sum of its square, or of its square plus a row; of an entry that
 * is also a head, or of one without memory. */
static void fold_bits(tn_dtype dtype, const int64_t *shape, const char *axis) {
  char what[128];
  tn_array *x = create_array(dtype, 3, shape);
  tn_array *row = create_array(dtype, 1, shape + 2);
  const bool repeats = dtype != TN_F16; /* no such kernel for f16 */
  const tn_entry t = OP(g, "tanh", NULL, NULL, var_node(g, "x"));
  tn_entry u = OP(g, "mul", NULL, NULL, t, t);
  if (repeats) u = OP(g, "plus_all", NULL, NULL, u, var_node(g, "row"));
  HEADS(g, sum_entry(u, axis), t);
  (void)snprintf(what, sizeof what, "%s (%lld,%lld,%lld) %s",
                 tn__dtype_name(dtype), (long long)shape[0],
                 (long long)shape[1], (long long)shape[2], axis ? axis : "all");
  tn_array *second = repeats ? row : NULL;
  tn_program *one = bind_with(x, second, (tn_bind){.flags = TN_BIND_NO_FUSE});
  tn_program *two = bind_with(x, second, (tn_bind){0});
  cr_assert_eq(n_fused(one), 0);
  cr_assert_eq(n_fused(two), repeats ? 4 : 3, "%s is not fused", what);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(one, 0));
    OK(tn__program_forward(two, run ? TN_CALL_TRAIN : 0));
    same_heads(one, two, 2, what);
  }
  tn__program_release(one), tn__program_release(two);
  tn__array_release(x), tn__array_release(row);
  net_renew();
}

static void all_bits(uint32_t workers) {
  static const tn_dtype dtypes[] = {TN_F64, TN_F32, TN_F16};
  static const int64_t shapes[][3] = {
      {3, 67, 131}, {2, 3, 5003}, {1, 301, 99}, {129, 5, 64}, {40, 1, 1030}};
  static const char *const axes[] = {NULL, "axis=[2]", "axis=[-1,1]",
                                     "axis=[2] keepdims=true"};
  open_with(workers);
  for (int d = 0; d < 3; ++d)
    for (int s = 0; s < 5; ++s)
      for (int a = 0; a < 4; ++a) fold_bits(dtypes[d], shapes[s], axes[a]);
  net_close();
}

Test(reductions, have_the_same_bits_on_one_worker) {
  all_bits(1);
}
Test(reductions, have_the_same_bits_on_two_workers) {
  all_bits(2);
}
Test(reductions, have_the_same_bits_on_eight_workers) {
  all_bits(8);
}

/* A reduction of the tanh of x, fed and not fed; `n` is the number of calls in
 * one step. */
static void same_bits(const char *op, tn_dtype dtype, const int64_t *shape,
                      const char *axis, uint64_t n) {
  tn_array *x = create_array(dtype, 3, shape);
  const tn_entry t = OP(g, "tanh", NULL, NULL, var_node(g, "x"));
  HEADS(g, reduce_entry(op, t, axis), t);
  tn_program *one = bind_with(x, NULL, (tn_bind){.flags = TN_BIND_NO_FUSE});
  tn_program *two = bind_with(x, NULL, (tn_bind){0});
  cr_assert_eq(n_fused(two), n, "%s is %d calls", op, (int)n_fused(two));
  OK(tn__program_forward(one, 0));
  OK(tn__program_forward(two, 0));
  same_heads(one, two, 2, op);
  tn__program_release(one), tn__program_release(two);
  tn__array_release(x);
  net_renew();
}

Test(reductions, of_every_kind_have_the_same_bits) {
  static const char *const ops[] = {
      "tensor.mean",   "tensor.prod",    "tensor.max", "tensor.min",
      "tensor.nansum", "tensor.nanprod", "tensor.norm"};
  static const int64_t shapes[][3] = {
      {3, 67, 131}, {2, 3, 5003}, {40, 1, 1030}};
  open_with(3);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
    for (int s = 0; s < 3; ++s) {
      same_bits(ops[i], TN_F32, shapes[s], "axis=[2]", 2);
      same_bits(ops[i], TN_F64, shapes[s], NULL, 2);
    }
  net_close();
}

/* For a square matrix, shapes alone do not determine the reduced axis. */
Test(reductions, over_the_first_axis_of_a_square_are_not_fed) {
  const int64_t square[3] = {1, 600, 600};
  open_with(3);
  same_bits("tensor.sum", TN_F32, square, "axis=[1]", 0);
  same_bits("tensor.max", TN_F64, square, "axis=[1]", 0);
  net_close();
}

/* Sums of one tanh over different axes, and of its square, by one step; a
 * reader of a sum is no part of it. */
static void several_bits(const int64_t *shape, uint32_t workers) {
  open_with(workers);
  tn_array *x = create_array(TN_F32, 3, shape);
  const tn_entry t = OP(g, "tanh", NULL, NULL, var_node(g, "x"));
  const tn_entry square = OP(g, "mul", NULL, NULL, t, t);
  const tn_entry rows = sum_entry(square, "axis=[2] keepdims=true");
  HEADS(g, rows, sum_entry(t, NULL), sum_entry(square, "axis=[2,1]"),
        sum_entry(t, "axis=[2]"), OP(g, "plus_all", NULL, NULL, rows, t),
        sum_entry(rows, NULL));
  tn_program *one = bind_with(x, NULL, (tn_bind){.flags = TN_BIND_NO_FUSE});
  tn_program *two = bind_with(x, NULL, (tn_bind){0});
  cr_assert_eq(n_fused(one), 0);
  cr_assert_eq(n_fused(two), 6);
  for (int run = 0; run < 2; ++run) {
    OK(tn__program_forward(one, 0));
    OK(tn__program_forward(two, run ? TN_CALL_TRAIN : 0));
    same_heads(one, two, 6, "several");
  }
  tn__program_release(one), tn__program_release(two);
  tn__array_release(x);
  net_close();
}

Test(reductions, may_be_several) {
  static const int64_t shapes[][3] = {
      {3, 67, 131}, {2, 3, 5003}, {129, 5, 64}, {40, 1, 1030}, {300, 2, 60}};
  for (uint32_t workers = 1; workers < 9; workers *= 2)
    for (int s = 0; s < 5; ++s) several_bits(shapes[s], workers);
}

/* ------------------------------------------------------------- right numbers
 */

/* Sums of f32 over the axes that are bits of `axes`, in long double. */
static void check_sums(const int64_t *n, const char *params, int axes,
                       bool fuse) {
  tn_array *x = create_array(TN_F32, 3, n);
  const int64_t kept[3] = {axes & 1 ? 1 : n[0], axes & 2 ? 1 : n[1],
                           axes & 4 ? 1 : n[2]};
  const int64_t size = kept[0] * kept[1] * kept[2];
  long double *want = calloc((size_t)size, sizeof *want);
  for (int64_t i = 0; i < n[0] * n[1] * n[2]; ++i) {
    const int64_t a = i / n[2] / n[1], b = i / n[2] % n[1], c = i % n[2];
    want[((a % kept[0]) * kept[1] + b % kept[1]) * kept[2] + c % kept[2]] +=
        2 * (long double)(float)number_for(i);
  }
  HEADS(g,
        sum_entry(OP(g, "affine", "scale=2", NULL, var_node(g, "x")), params));
  tn_program *p =
      bind_with(x, NULL, (tn_bind){.flags = fuse ? 0 : TN_BIND_NO_FUSE});
  OK(tn__program_forward(p, 0));
  size_t bytes = 0;
  float *have = bytes_of(head_array(p, 0), &bytes);
  cr_assert_eq(bytes, (size_t)size * sizeof *have);
  for (int64_t i = 0; i < size; ++i)
    cr_assert(fabsl((long double)have[i] - want[i]) <=
                  1e-12L * 4 * (long double)(n[0] * n[1] * n[2]) +
                      6e-8L * fabsl(want[i]),
              "%s: sum %lld is %.9g, not %.9Lg", params ? params : "all",
              (long long)i, (double)have[i], want[i]);
  free(have), free(want);
  tn__program_release(p);
  tn__array_release(x);
  net_renew();
}

Test(reductions, give_the_sums_over_any_axes) {
  static const int64_t shapes[][3] = {
      {7, 33, 131}, {3, 2000, 5}, {300, 2, 300}};
  static const char *const params[8] = {
      NULL,       "axis=[0]",   "axis=[1]",     "axis=[0,1]",
      "axis=[2]", "axis=[2,0]", "axis=[-2,-1]", NULL};
  open_with(2);
  for (int s = 0; s < 3; ++s)
    for (int axes = 1; axes < 8; ++axes)
      for (int fuse = 0; fuse < 2; ++fuse)
        check_sums(shapes[s], params[axes], axes, fuse != 0);
  net_close();
}

/* -------------------------------------------------------------- other stuff
 */

Test(reductions, that_cannot_be_fed_say_why) {
  open_with(1);
  tn_array *x = create_array(TN_F64, SHAPE(100, 100));
  const tn_entry from = var_node(g, "x"), t = OP(g, "tanh", NULL, NULL, from);
  HEADS(g, sum_entry(t, "axis=[0]"), sum_entry(from, NULL));
  tn_program *p = bind_with(x, NULL, (tn_bind){0});
  has_text(p, "takes such a call whole only");
  has_text(p, "no step before it computes its input");
  tn__program_release(p);
  tn__array_release(x);
  net_close();
}

static int n_shown;
static void count_shown(void *ctx, const char *name, tn_array *array) {
  (void)ctx, (void)name, (void)array;
  ++n_shown;
}

/* With a monitor, parts are computed whole, with their records in the same
 * place. */
Test(reductions, can_be_watched_and_trained) {
  open_with(2);
  tn_array *x = create_array(TN_F64, SHAPE(90, 120));
  const tn_entry t = OP(g, "tanh", NULL, NULL, var_node(g, "x"));
  HEADS(g, sum_entry(OP(g, "square", NULL, NULL, t), "axis=[1]"));
  tn_program *one = bind_with(x, NULL, (tn_bind){.request = TN_REQ_WRITE});
  tn_program *two = bind_with(x, NULL, (tn_bind){.request = TN_REQ_WRITE});
  cr_assert_geq(n_fused(one), 3);
  OK(tn__program_monitor(two, count_shown, NULL));
  tn_array *weight = create_array(TN_F64, SHAPE(90)), *slope[2];
  tn_program *const both[] = {one, two};
  for (int i = 0; i < 2; ++i) {
    OK(tn__program_forward(both[i], TN_CALL_TRAIN));
    OK(tn__program_backward(both[i], &weight, 1));
    OK(tn__program_array(both[i], TN_PROGRAM_GRADIENT, "x", &slope[i]));
  }
  same_heads(one, two, 1, "watched");
  cr_assert_geq(n_shown, 3);
  double *a = elements_of(slope[0]), *b = elements_of(slope[1]);
  for (int64_t i = 0; i < 90 * 120; ++i) {
    const double y = tanh(number_for(i));
    cr_assert_eq(a[i], b[i]);
    cr_assert_float_eq(a[i], number_for(i / 120) * 2 * y * (1 - y * y), 1e-12);
  }
  free(a), free(b);
  tn__program_release(one), tn__program_release(two);
  tn__array_release(x), tn__array_release(weight);
  net_close();
}
