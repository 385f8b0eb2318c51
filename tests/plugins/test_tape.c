/* SPDX-License-Identifier: Apache-2.0
 * Tapes over the operators of elemwise, through the public functions. Expected
 * numbers are closed forms: quadratic is a x^2 + b x + c with the derivative 2
 * a x + b; sigmoid s has the derivatives s (1 - s) and s (1 - s) (1 - 2 s).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "host.h"

static tn_runtime *rt;
static tn_tape *tape;

static void open_all(void) {
  rt = host_open();
  OK(tn_tape_create(rt, &tape));
}

static void close_all(void) {
  tn_tape_release(tape);
  tn_runtime_release(rt);
}

TestSuite(tape, .init = open_all, .fini = close_all);

#define N(...) (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define VEC(...)                                            \
  host_array(rt, TN_F64, (host_shape){1, {N(__VA_ARGS__)}}, \
             (double[]){__VA_ARGS__})
#define HOLDS(array, ...) \
  host_expect((array), (double[]){__VA_ARGS__}, N(__VA_ARGS__), 1e-12)

/* A watched array. */
#define WATCHED(...) watched(VEC(__VA_ARGS__))
static tn_array *watched(tn_array *array) {
  OK(tn_tape_watch(tape, array));
  return array;
}

static tn_array *quadratic(tn_array *x, const char *params) {
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *p = host_params(op, params);
  tn_array *y = NULL;
  OK(tn_tape_call(tape, op, TN_IN(x), p, TN_OUT(&y)));
  tn_params_release(p);
  return y;
}

static tn_array *one(const char *name, tn_array *x) {
  tn_array *y = NULL;
  OK(tn_tape_call(tape, host_operator(rt, name), TN_IN(x), NULL, TN_OUT(&y)));
  return y;
}

static tn_array *two(const char *name, tn_array *x, tn_array *y) {
  tn_array *z = NULL;
  OK(tn_tape_call(tape, host_operator(rt, name), TN_IN(x, y), NULL,
                  TN_OUT(&z)));
  return z;
}

static tn_tape_query query_of(const tn_inputs *heads, const tn_inputs *of,
                              const tn_outputs *to) {
  return (tn_tape_query){.struct_size = sizeof(tn_tape_query),
                         .heads = *heads,
                         .of = *of,
                         .gradients = *to};
}

static tn_array *gradient(tn_array *head, tn_array *of, uint32_t flags) {
  tn_array *g = NULL;
  tn_tape_query q = query_of(TN_IN(head), TN_IN(of), TN_OUT(&g));
  q.flags = flags;
  OK(tn_tape_gradient(tape, &q));
  return g;
}

#define DROP(...) drop((tn_array *[]){__VA_ARGS__, NULL})
static void drop(tn_array **arrays) {
  for (; *arrays; ++arrays) tn_array_release(*arrays);
}

/* ------------------------------------------------------------- first order */

Test(tape, follows_a_chain) {
  tn_array *x = WATCHED(0, 0);
  tn_array *s = one("elemwise.sigmoid", x); /* 1/2, slope 1/4 */
  tn_array *y = quadratic(s, "a=1 b=2");    /* slope 2/2 + 2 */
  tn_array *g = gradient(y, x, 0);
  HOLDS(g, 0.75, 0.75);
  DROP(x, s, y, g);
}

Test(tape, sums_the_uses_of_a_value) {
  tn_array *x = WATCHED(3, -5);
  tn_array *p = quadratic(x, "a=1");
  tn_array *q = quadratic(x, "b=10");
  tn_array *y = two("elemwise.add", p, q);
  tn_array *z = two("elemwise.add", y, x); /* x^2 + 10 x + x */
  tn_array *g = gradient(z, x, 0);
  HOLDS(g, 17, 1);
  DROP(x, p, q, y, z, g);
}

Test(tape, counts_both_places_of_an_array_in_one_call) {
  tn_array *x = WATCHED(3, -5);
  tn_array *y = two("elemwise.mul", x, x);
  tn_array *z = two("elemwise.mul", y, x);
  tn_array *g = gradient(z, x, 0);
  HOLDS(g, 27, 75);
  DROP(x, y, z, g);
}

Test(tape, weighs_several_heads) {
  tn_array *x = WATCHED(3, -5), *w = VEC(10, 100), *g = NULL;
  tn_array *p = quadratic(x, "a=1"), *q = quadratic(x, "b=7");
  tn_tape_query query = query_of(TN_IN(p, q), TN_IN(x), TN_OUT(&g));
  query.head_gradients = *TN_IN(w, NULL);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g, 10 * 6 + 7, 100 * -10 + 7);
  HOLDS(w, 10, 100);
  DROP(x, w, p, q, g);
}

Test(tape, gives_a_head_its_own_weight) {
  tn_array *x = WATCHED(3, -5), *w = VEC(10, 100), *g[3] = {NULL, NULL, NULL};
  tn_array *y = quadratic(x, "a=1"), *z = quadratic(y, "b=2");
  const tn_outputs to = {3, g, NULL};
  tn_tape_query query = query_of(TN_IN(y, z), TN_IN(y, x, z), &to);
  query.head_gradients = *TN_IN(w, NULL);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[0], 12, 102);
  HOLDS(g[1], 12 * 6, 102 * -10);
  HOLDS(g[2], 1, 1);
  HOLDS(w, 10, 100); /* the caller's array was not written */
  DROP(x, w, y, z, g[0], g[1], g[2]);
}

/* Gradients may go where a head's came from. */
Test(tape, writes_over_the_gradients_of_heads) {
  for (uint32_t flags = TN_TAPE_KEEP; flags <= TN_TAPE_RECORD; ++flags) {
    tn_array *x = WATCHED(3, -5), *w = VEC(10, 100), *sum = VEC(0, 0);
    tn_array *to[] = {w, sum, NULL};
    const tn_req req[] = {TN_REQ_ADD, TN_REQ_ADD, TN_REQ_WRITE};
    tn_tape_query q =
        query_of(TN_IN(x), TN_IN(x, x, x), &(tn_outputs){3, to, req});
    q.head_gradients = *TN_IN(w);
    q.flags = flags;
    OK(tn_tape_gradient(tape, &q));
    HOLDS(w, 20, 200), HOLDS(sum, 10, 100), HOLDS(to[2], 10, 100);
    DROP(x, w, sum, to[2]);
  }
}

Test(tape, writes_adds_and_skips_as_requested) {
  tn_array *x = WATCHED(3, -5), *v = WATCHED(1, 2), *u = WATCHED(7, 7);
  tn_array *y = two("elemwise.mul", x, v), *z = two("elemwise.mul", y, x);
  tn_array *s = two("elemwise.add", z, u);
  tn_array *g[3] = {VEC(1000, 1000), VEC(1000, 1000), NULL};
  const tn_req req[] = {TN_REQ_ADD, TN_REQ_WRITE, TN_REQ_NULL};
  const tn_outputs to = {3, g, req};
  tn_tape_query query = query_of(TN_IN(s), TN_IN(x, v, u), &to);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[0], 1006, 980); /* 2 x v */
  HOLDS(g[1], 9, 25);     /* x^2 */
  cr_assert_null(g[2]);
  DROP(x, v, u, y, z, s, g[0], g[1]);
}

/* Twice the same source, once added to its head's weight. */
Test(tape, adds_into_arrays_that_others_use) {
  tn_array *x = WATCHED(3, -5), *w = VEC(10, 100);
  tn_array *y = quadratic(x, "a=1");
  tn_array *g[2] = {w, NULL};
  const tn_req req[] = {TN_REQ_ADD, TN_REQ_WRITE};
  const tn_outputs to = {2, g, req};
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x, x), &to);
  query.head_gradients = *TN_IN(w);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[1], 60, -1000);
  HOLDS(w, 70, -900);
  DROP(x, w, y, g[1]);
}

Test(tape, answers_zeros_where_nothing_depends) {
  tn_array *x = WATCHED(3, -5), *v = WATCHED(1, 2);
  tn_array *y = quadratic(x, "a=1");
  tn_array *g[2] = {NULL, VEC(8, 9)};
  const tn_outputs to = {2, g, NULL};
  tn_tape_query query = query_of(TN_IN(y), TN_IN(v, v), &to);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[0], 0, 0);
  HOLDS(g[1], 0, 0);
  DROP(x, v, y, g[0], g[1]);
}

Test(tape, agrees_with_central_differences) {
  const double at[] = {0.3, -1.2, 2}, h = 1e-6;
  tn_array *x = WATCHED(0.3, -1.2, 2);
  tn_array *s = one("elemwise.sigmoid", x), *m = two("elemwise.mul", s, x);
  tn_array *q = quadratic(m, "a=0.5 b=-1"), *r = two("elemwise.mul", q, s);
  tn_array *g = gradient(r, x, 0);
  double slopes[3];
  for (int i = 0; i < 3; ++i) {
    double f[2];
    for (int k = 0; k < 2; ++k) {
      const double v = at[i] + (k ? h : -h), sv = 1 / (1 + exp(-v));
      f[k] = (0.5 * sv * v * sv * v - sv * v) * sv;
    }
    slopes[i] = (f[1] - f[0]) / (2 * h);
  }
  host_expect(g, slopes, 3, 1e-8);
  DROP(x, s, m, q, r, g);
}

Test(tape, works_in_every_floating_type) {
  const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32};
  for (size_t i = 0; i < 3; ++i) {
    tn_array *x = watched(
        host_array(rt, types[i], (host_shape){1, {2}}, (double[]){3, -5}));
    tn_array *y = two("elemwise.mul", x, x), *g = gradient(y, x, 0);
    cr_assert_eq(tn_array_tensor(g)->dtype, types[i]);
    host_expect(g, (double[]){6, -10}, 2, 0);
    DROP(x, y, g);
  }
}

Test(tape, takes_empty_arrays_and_scalars) {
  tn_array *x = watched(host_array(rt, TN_F64, (host_shape){2, {0, 3}}, NULL));
  tn_array *y = two("elemwise.mul", x, x), *g = gradient(y, x, 0);
  cr_assert_eq(tn_array_tensor(g)->ndim, 2);
  cr_assert_eq(tn_array_size(g), 0);
  tn_array *a =
      watched(host_array(rt, TN_F64, (host_shape){0, {0}}, (double[]){4}));
  tn_array *b = two("elemwise.mul", a, a), *h = gradient(b, a, 0);
  HOLDS(h, 8);
  DROP(x, y, g, a, b, h);
}

/* Values computed through an input without gradient, or through integers, do
 * not depend on the array for the tape; nor do values computed from them. */
Test(tape, heads_after_inputs_without_gradient_have_zeros) {
  tn_array *x = WATCHED(3, -5), *y = one("elemwise.stop_gradient", x);
  tn_array *z = two("elemwise.mul", y, y), *whole = NULL, *back = NULL;
  tn_array *g = gradient(y, x, TN_TAPE_KEEP);
  tn_array *h = gradient(z, x, TN_TAPE_KEEP);
  tn_operator *op = host_operator(rt, "elemwise.cast");
  tn_params *to = host_params(op, "dtype=i32"),
            *from = host_params(op, "dtype=f64");
  OK(tn_tape_call(tape, op, TN_IN(x), to, TN_OUT(&whole)));
  OK(tn_tape_call(tape, op, TN_IN(whole), from, TN_OUT(&back)));
  tn_array *i = gradient(back, x, TN_TAPE_KEEP);
  HOLDS(g, 0, 0), HOLDS(h, 0, 0), HOLDS(i, 0, 0);
  tn_array *sum = two("elemwise.mul", z, x), *k = gradient(sum, x, 0);
  HOLDS(k, 9, 25);
  tn_params_release(to), tn_params_release(from);
  DROP(x, y, z, g, h, whole, back, i, sum, k);
}

/* A step has the derivative 0, for any derivative of its argument: that of a
 * root of 0 is infinite, and 0 times it is NaN. */
Test(tape, slopes_that_are_zero_are_not_handed_on) {
  tn_array *x = WATCHED(0, 4), *root = one("elemwise.sqrt", x);
  tn_array *step = one("elemwise.floor", root);
  tn_array *y = two("elemwise.mul", step, x);
  tn_array *g = gradient(y, x, TN_TAPE_RECORD), *h = gradient(g, x, 0);
  HOLDS(g, 0, 2), HOLDS(h, 0, 0);
  DROP(x, root, step, y, g, h);
}

/* Into a new array, into one that is given, and added to it. */
Test(tape, recorded_gradients_that_are_constants_have_zeros) {
  tn_array *x = WATCHED(3, -5), *y = two("elemwise.add", x, x);
  tn_array *made = gradient(y, x, TN_TAPE_RECORD), *given = VEC(7, 7);
  const tn_req add = TN_REQ_ADD;
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&given));
  query.flags = TN_TAPE_RECORD;
  OK(tn_tape_gradient(tape, &query));
  query.gradients.req = &add;
  OK(tn_tape_gradient(tape, &query));
  tn_array *g = gradient(made, x, TN_TAPE_KEEP);
  tn_array *h = gradient(given, x, TN_TAPE_KEEP);
  tn_array *z = two("elemwise.mul", made, x), *i = gradient(z, x, 0);
  HOLDS(made, 2, 2), HOLDS(given, 4, 4);
  HOLDS(g, 0, 0), HOLDS(h, 0, 0), HOLDS(i, 2, 2);
  DROP(x, y, made, given, g, h, z, i);
}

/* ------------------------------------------------------------------- views */

/* The weights of a head of six elements, so that positions tell. */
static tn_array *weighted(tn_array *head, tn_array *of) {
  tn_array *w = host_array(rt, TN_F64, (host_shape){1, {6}},
                           (double[]){1, 10, 100, 1000, 10000, 100000});
  tn_array *shaped = NULL, *g = NULL;
  const tn_tensor *t = tn_array_tensor(head);
  OK(tn_array_reshape(w, t->ndim, t->shape, &shaped));
  tn_tape_query query = query_of(TN_IN(head), TN_IN(of), TN_OUT(&g));
  query.head_gradients = *TN_IN(shaped);
  OK(tn_tape_gradient(tape, &query));
  DROP(w, shaped);
  return g;
}

Test(tape, passes_reshaped_and_transposed_values) {
  tn_array *x = WATCHED(1, 2, 3, 4, 5, 6), *m = NULL, *t = NULL;
  tn_array *y = quadratic(x, "b=1");
  OK(tn_array_reshape(y, 2, (int64_t[]){2, 3}, &m));
  OK(tn_array_transpose(m, NULL, &t)); /* 1 4 / 2 5 / 3 6 */
  tn_array *z = quadratic(t, "a=1");
  tn_array *g = weighted(z, x);
  HOLDS(g, 2 * 1, 4 * 100, 6 * 10000, 8 * 10, 10 * 1000, 12 * 100000);
  DROP(x, m, t, y, z, g);
}

Test(tape, passes_parts_of_values) {
  tn_array *x = WATCHED(1, 2, 3, 4, 5, 6), *back = NULL, *first = NULL;
  tn_array *y = quadratic(x, "a=1");
  OK(tn_array_slice(y, &(tn_range){.begin = -1, .end = -7, .step = -2}, &back));
  OK(tn_array_slice(y, &(tn_range){.begin = 0, .end = 3}, &first));
  tn_array *p = two("elemwise.mul", back, first); /* 36 16 4 . 1 4 9 */
  tn_array *g = gradient(p, x, 0);
  /* of y: [1] += 9, [3] += 4, [5] += 1 and [0] += 36, [1] += 16, [2] += 4 */
  HOLDS(g, 2 * 36, 4 * 25, 6 * 4, 8 * 4, 0, 12 * 1);
  DROP(x, back, first, y, p, g);
}

Test(tape, sums_over_repeated_elements_of_a_broadcast_view) {
  tn_array *x = WATCHED(1, 2, 3), *row = NULL, *tall = NULL;
  const double ones[] = {1, 1, 1, 1, 1, 1};
  tn_array *m = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, ones);
  OK(tn_array_reshape(x, 2, (int64_t[]){1, 3}, &row));
  OK(tn_array_broadcast(row, 2, (int64_t[]){2, 3}, &tall));
  tn_array *y = two("elemwise.mul", tall, m);
  tn_array *g = weighted(y, x);
  HOLDS(g, 1001, 10010, 100100);
  DROP(x, row, tall, m, y, g);
}

Test(tape, sums_a_scalar_that_is_repeated) {
  tn_array *x = WATCHED(5), *all = NULL;
  OK(tn_array_broadcast(x, 2, (int64_t[]){2, 3}, &all));
  tn_array *y = two("elemwise.mul", all, all);
  tn_array *g = weighted(y, x);
  HOLDS(g, 10 * 111111);
  DROP(x, all, y, g);
}

Test(tape, knows_views_of_watched_and_of_head_arrays) {
  tn_array *x = WATCHED(1, 2, 3, 4, 5, 6), *part = NULL, *end = NULL;
  OK(tn_array_slice(x, &(tn_range){.begin = 1, .end = 5, .step = 2}, &part));
  tn_array *y = quadratic(part, "a=1"), *g[2] = {NULL, NULL};
  OK(tn_array_index(y, 0, -1, &end)); /* x[3]^2 */
  const tn_outputs to = {2, g, NULL};
  tn_tape_query query = query_of(TN_IN(end), TN_IN(x, part), &to);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[0], 0, 0, 0, 8, 0, 0);
  HOLDS(g[1], 0, 8);
  DROP(x, part, end, y, g[0], g[1]);
}

Test(tape, watches_parts_and_writes_transposed_outputs) {
  const double six[] = {1, 2, 3, 4, 5, 6};
  tn_array *m = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, six);
  tn_array *left = NULL, *right = NULL, *t = NULL, *g[2] = {NULL, NULL};
  tn_array *store = host_array(rt, TN_F64, (host_shape){2, {2, 2}}, six);
  OK(tn_array_slice(m, &(tn_range){.axis = 1, .begin = 0, .end = 2}, &left));
  OK(tn_array_slice(m, &(tn_range){.axis = 1, .begin = 1, .end = 3}, &right));
  OK(tn_array_transpose(store, NULL, &t));
  watched(left); /* 1 2 / 4 5 */
  OK(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(left, left),
                  NULL, TN_OUT(&t)));
  HOLDS(store, 1, 16, 4, 25);
  tn_array *y = quadratic(store, "b=3");
  const tn_outputs to = {1, g, NULL};
  tn_tape_query query = query_of(TN_IN(y), TN_IN(left), &to);
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g[0], 6, 12, 24, 30);
  FAILS(tn_tape_watch(tape, right), TN_INVALID, "overlaps several");
  DROP(m, left, right, t, store, y, g[0]);
}

Test(tape, refuses_views_beyond_the_recorded_elements) {
  tn_array *all = VEC(1, 2, 3, 4), *half = NULL, *y = NULL;
  tn_array *x = WATCHED(7, 8);
  OK(tn_array_slice(all, &(tn_range){.begin = 0, .end = 2}, &half));
  OK(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(x, x), NULL,
                  TN_OUT(&half)));
  FAILS(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(all, all),
                     NULL, TN_OUT(&y)),
        TN_INVALID, "elemwise.mul@1: input `lhs` reaches beyond");
  cr_assert_null(y);
  DROP(all, half, x);
}

/* Two values in one block, interleaved: neither is taken for the other. */
Test(tape, keeps_neighbours_in_one_block_apart) {
  tn_array *all = VEC(0, 0, 0, 0, 0, 0), *even = NULL, *odd = NULL;
  tn_array *x = WATCHED(1, 2, 3);
  OK(tn_array_slice(all, &(tn_range){.begin = 0, .end = 6, .step = 2}, &even));
  OK(tn_array_slice(all, &(tn_range){.begin = 1, .end = 6, .step = 2}, &odd));
  tn_operator *mul = host_operator(rt, "elemwise.mul");
  tn_array *c = VEC(10, 10, 10);
  OK(tn_tape_call(tape, mul, TN_IN(x, x), NULL, TN_OUT(&even)));
  OK(tn_tape_call(tape, mul, TN_IN(x, c), NULL, TN_OUT(&odd)));
  HOLDS(all, 1, 10, 4, 20, 9, 30);
  tn_array *y = two("elemwise.mul", even, odd); /* 10 x^3 */
  tn_array *g = gradient(y, x, 0);
  HOLDS(g, 30, 120, 270);
  DROP(all, even, odd, x, c, y, g);
}

/* ------------------------------------------------------- writing and memory */

Test(tape, tells_values_of_the_same_memory_apart) {
  tn_array *x = WATCHED(0, 0);
  tn_array *y = quadratic(x, "b=1");
  OK(tn_tape_call(tape, host_operator(rt, "elemwise.sigmoid"), TN_IN(y), NULL,
                  TN_OUT(&y))); /* needs its output only */
  tn_array *z = quadratic(y, "a=1 b=2");
  tn_array *g = gradient(z, x, 0);
  HOLDS(g, 0.75, 0.75);
  DROP(x, y, z, g);
}

Test(tape, refuses_values_that_were_overwritten) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "a=1"), *g = NULL;
  tn_array *z = quadratic(y, "a=1");
  OK(tn_array_set(y, (double[]){1, 2}, 16));
  tn_tape_query query = query_of(TN_IN(z), TN_IN(x), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID,
        "elemwise.quadratic@1: its gradient needs the value of input `data`, "
        "but that array was written");
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "but that array was");
  cr_assert_null(g);
  FAILS(tn_tape_call(tape, host_operator(rt, "elemwise.relu"), TN_IN(y), NULL,
                     TN_OUT(&g)),
        TN_INVALID, "input `data` was written after it was recorded");
  DROP(x, y, z);
}

/* The last product reads neither y nor the values that overwrite it. */
Test(tape, accepts_writes_over_values_that_no_gradient_needs) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "a=1");
  tn_array *z = quadratic(y, "b=4");
  tn_array *s = two("elemwise.add", y, z);
  OK(tn_array_set(s, (double[]){1, 2}, 16));
  OK(tn_array_set(z, (double[]){1, 2}, 16));
  tn_array *u = two("elemwise.add", y, y), *g = gradient(u, x, 0);
  HOLDS(g, 12, -20);
  DROP(x, y, z, s, u, g);
}

Test(tape, refuses_an_in_place_call_if_its_gradient_needs_the_input) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "b=1"), *g = NULL;
  tn_operator *op = host_operator(rt, "elemwise.quadratic");
  tn_params *p = host_params(op, "a=1");
  OK(tn_tape_call(tape, op, TN_IN(y), p, TN_OUT(&y)));
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "value of input `data`");
  tn_params_release(p);
  DROP(x, y);
}

Test(tape, differentiates_additions_to_an_array) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "b=10");
  const tn_req add = TN_REQ_ADD;
  OK(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(x, x), NULL,
                  &(tn_outputs){1, &y, &add}));
  HOLDS(y, 39, -25);
  tn_array *g = gradient(y, x, 0);
  HOLDS(g, 16, 0);
  DROP(x, y, g);
}

static tn_code add_to(const char *name, tn_array *x, tn_array *to) {
  const tn_req add = TN_REQ_ADD;
  const tn_outputs out = {1, &to, &add};
  return tn_tape_call(tape, host_operator(rt, name), TN_IN(x, x), NULL, &out);
}

/* As a call that is not recorded refuses them; nothing is added. */
Test(tape, refuses_to_add_to_arrays_that_do_not_fit) {
  tn_array *x = WATCHED(1, 2, 3), *short_one = VEC(5, 6), *wide = NULL;
  tn_array *long_one = VEC(1, 2, 3, 4), *one = VEC(7), *flat = VEC(1, 2, 3);
  tn_array *shaped = NULL, *single = NULL;
  tn_runtime *other = host_open();
  tn_array *far =
      host_array(other, TN_F64, (host_shape){1, {3}}, (double[]){0, 0, 0});
  OK(tn_array_broadcast(one, 1, (int64_t[]){3}, &wide));
  OK(tn_array_reshape(flat, 2, (int64_t[]){1, 3}, &shaped));
  OK(tn_array_cast(flat, TN_F32, &single));
  FAILS(add_to("elemwise.mul", x, short_one), TN_SHAPE, "output `out`");
  FAILS(add_to("elemwise.mul", x, long_one), TN_SHAPE, "output `out`");
  FAILS(add_to("elemwise.mul", x, shaped), TN_SHAPE, "output `out`");
  FAILS(add_to("elemwise.mul", x, single), TN_DTYPE, "output `out`");
  FAILS(add_to("elemwise.mul", x, wide), TN_INVALID, "repeats elements");
  FAILS(add_to("elemwise.mul", x, far), TN_INVALID, "another runtime");
  HOLDS(short_one, 5, 6), HOLDS(long_one, 1, 2, 3, 4), HOLDS(one, 7);
  OK(add_to("elemwise.mul", x, flat));
  HOLDS(flat, 2, 6, 12);
  tn_array *g = gradient(flat, x, 0);
  HOLDS(g, 2, 4, 6);
  DROP(x, short_one, wide, long_one, one, flat, shaped, single, far, g);
  tn_runtime_release(other);
}

Test(tape, serves_a_training_loop) {
  tn_array *x = WATCHED(10, -4), *g = VEC(0, 0);
  for (int i = 0; i < 60; ++i) { /* (x - 3)^2, steps of a quarter slope */
    double at[2], slope[2];
    tn_array *y = quadratic(x, "a=1 b=-6 c=9");
    tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&g));
    OK(tn_tape_gradient(tape, &query));
    host_values(x, at);
    host_values(g, slope);
    for (int k = 0; k < 2; ++k) at[k] -= slope[k] / 4;
    OK(tn_array_set(x, at, sizeof at));
    tn_array_release(y);
  }
  HOLDS(x, 3, 3);
  DROP(x, g);
}

/* ------------------------------------------------------------------- rules */

Test(tape, stops_at_detached_arrays) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "a=1"), *d = NULL;
  OK(tn_tape_detach(tape, y, &d));
  tn_array *z = two("elemwise.mul", y, d);
  tn_array *g = gradient(z, x, 0);
  HOLDS(g, 9 * 6, 25 * -10); /* not twice that */
  OK(tn_array_set(d, (double[]){0, 0}, 16));
  HOLDS(y, 9, 25); /* its memory is its own */
  DROP(x, y, d, z, g);
}

Test(tape, watches_floating_arrays_only) {
  tn_array *i = NULL, *x = VEC(1), *many = NULL;
  OK(tn_array_create(rt, &(tn_spec){TN_I32, 0, NULL}, &i));
  FAILS(tn_tape_watch(tape, i), TN_DTYPE, "i32 has no gradient");
  OK(tn_array_broadcast(x, 1, (int64_t[]){4}, &many));
  FAILS(tn_tape_watch(tape, many), TN_INVALID, "repeats elements");
  OK(tn_tape_watch(tape, x));
  OK(tn_tape_watch(tape, x));
  DROP(i, x, many);
}

Test(tape, forgets_unless_it_has_to_keep) {
  tn_array *x = WATCHED(3, -5), *y = quadratic(x, "a=1"), *g = NULL;
  for (int i = 0; i < 3; ++i) {
    g = gradient(y, x, i < 2 ? TN_TAPE_KEEP : 0);
    HOLDS(g, 6, -10);
    DROP(g);
  }
  g = NULL;
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "heads[0] is not on the");
  tn_array *z = quadratic(x, "a=1"); /* x is still watched */
  g = gradient(z, x, 0);
  HOLDS(g, 6, -10);
  DROP(x, y, z, g);
}

Test(tape, reports_unknown_arrays) {
  tn_array *x = WATCHED(3, -5), *c = VEC(1, 2), *g = NULL;
  tn_array *y = quadratic(c, "a=1"), *z = quadratic(x, "a=1");
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "heads[0] is not on the");
  query = query_of(TN_IN(z), TN_IN(c), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "of[0] is not on the");
  query = query_of(TN_IN(z), TN_IN(x, x), TN_OUT(&g));
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "`of` has 2 entries");
  query = query_of(TN_IN(z), TN_IN(x), TN_OUT(&g));
  query.head_gradients = *TN_IN(c, c);
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "1 heads");
  tn_array *odd = VEC(1, 2, 3);
  query.head_gradients = *TN_IN(odd);
  FAILS(tn_tape_gradient(tape, &query), TN_SHAPE, "head_gradients[0]");
  query = query_of(TN_IN(z), TN_IN(x), TN_OUT(&odd));
  FAILS(tn_tape_gradient(tape, &query), TN_SHAPE, "gradients.arrays[0]");
  const tn_req add = TN_REQ_ADD;
  query = query_of(TN_IN(z), TN_IN(x), &(tn_outputs){1, &g, &add});
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "TN_REQ_ADD wants");
  query.struct_size = 8;
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "struct_size is 8");
  query.struct_size = sizeof query;
  query.flags = 8;
  FAILS(tn_tape_gradient(tape, &query), TN_INVALID, "flags is 0x8");
  FAILS(tn_tape_gradient(tape, NULL), TN_INVALID, "`query` is NULL");
  cr_assert_null(g);
  g = gradient(z, x, 0); /* and is none the worse */
  HOLDS(g, 6, -10);
  DROP(x, c, y, z, odd, g);
}

Test(tape, may_be_released_before_and_after_its_runtime) {
  tn_tape *other = NULL;
  tn_runtime *mine = host_open();
  OK(tn_tape_create(mine, &other));
  tn_array *x = host_array(mine, TN_F64, (host_shape){1, {1}}, (double[]){2});
  tn_array *y = NULL;
  OK(tn_tape_watch(other, x));
  OK(tn_tape_call(other, host_operator(mine, "elemwise.mul"), TN_IN(x, x), NULL,
                  TN_OUT(&y)));
  FAILS(tn_plugin_unload(mine, "elemwise"), TN_BUSY, "elemwise.mul@1");
  FAILS(tn_tape_watch(tape, x), TN_INVALID, "another runtime");
  tn_array *own = WATCHED(2), *z = two("elemwise.mul", own, own), *v = NULL;
  OK(tn_array_set(x, (double[]){3}, sizeof(double))); /* its block has the
                                                         number of `own` */
  FAILS(tn_tape_call(tape, host_operator(rt, "elemwise.mul"), TN_IN(x, x), NULL,
                     TN_OUT(&v)),
        TN_INVALID, "another runtime");
  DROP(own, z);
  tn_runtime_release(mine);
  DROP(x, y);
  tn_tape_release(other);
  tn_tape_release(NULL);
}

/* ------------------------------------------------------------ second order */

Test(tape, differentiates_gradients) {
  tn_array *x = WATCHED(3, -5);
  tn_array *y = quadratic(x, "a=4 b=2");
  tn_array *g = gradient(y, x, TN_TAPE_RECORD);
  HOLDS(g, 26, -38);
  tn_array *h = gradient(g, x, 0);
  HOLDS(h, 8, 8); /* 2 a */
  DROP(x, y, g, h);
}

Test(tape, differentiates_gradients_of_shared_uses) {
  tn_array *x = WATCHED(3, -5);
  tn_array *y = two("elemwise.mul", x, x), *z = two("elemwise.mul", y, x);
  tn_array *g = gradient(z, x, TN_TAPE_RECORD);
  HOLDS(g, 27, 75);                        /* 3 x^2 */
  tn_array *w = two("elemwise.mul", g, x); /* 3 x^3 */
  tn_array *h = gradient(w, x, TN_TAPE_KEEP);
  HOLDS(h, 81, 225);
  tn_array *k = gradient(g, x, 0);
  HOLDS(k, 18, -30);
  DROP(x, y, z, g, w, h, k);
}

Test(tape, differentiates_gradients_that_read_outputs) {
  const double s = 1 / (1 + exp(-0.7));
  tn_array *x = WATCHED(0.7);
  tn_array *y = one("elemwise.sigmoid", x);
  tn_array *g = gradient(y, x, TN_TAPE_RECORD);
  HOLDS(g, s * (1 - s));
  tn_array *h = gradient(g, x, 0);
  HOLDS(h, s * (1 - s) * (1 - 2 * s));
  DROP(x, y, g, h);
}

/* relu(x) (x + x) is 2 x^2 above 0, and nothing below. */
Test(tape, differentiates_gradients_of_pieces) {
  tn_array *x = WATCHED(3, -5);
  tn_array *r = one("elemwise.relu", x), *s = two("elemwise.add", x, x);
  tn_array *y = two("elemwise.mul", r, s);
  tn_array *g = gradient(y, x, TN_TAPE_RECORD);
  HOLDS(g, 12, 0);
  tn_array *h = gradient(g, x, 0);
  HOLDS(h, 4, 0);
  tn_array *v = WATCHED(0.5, -3, 3);
  tn_array *z = one("elemwise.smooth_l1", v); /* v^2/2 between -1 and 1 */
  tn_array *k = gradient(z, v, TN_TAPE_RECORD);
  HOLDS(k, 0.5, -1, 1);
  tn_array *l = gradient(k, v, 0);
  HOLDS(l, 1, 0, 0);
  DROP(x, r, s, y, g, h, v, z, k, l);
}

/* Sum over i, j of m[i][j] x[j]^2 for x repeated over two rows: the gradient is
 * 2 x[j] (m[0][j] + m[1][j]), and that of x . gradient is twice it. */
Test(tape, differentiates_gradients_through_views) {
  const double six[] = {1, 2, 3, 4, 5, 6};
  tn_array *m = host_array(rt, TN_F64, (host_shape){2, {2, 3}}, six);
  tn_array *x = WATCHED(1, -2, 3), *tall = NULL;
  OK(tn_array_broadcast(x, 2, (int64_t[]){2, 3}, &tall));
  tn_array *sq = two("elemwise.mul", tall, tall);
  tn_array *y = two("elemwise.mul", sq, m);
  tn_array *g = gradient(y, x, TN_TAPE_RECORD);
  HOLDS(g, 10, -28, 54);
  tn_array *p = two("elemwise.mul", g, x), *h = gradient(p, x, 0);
  HOLDS(h, 20, -56, 108);
  DROP(m, x, tall, sq, y, g, p, h);
}

Test(tape, records_gradients_into_given_arrays) {
  tn_array *x = WATCHED(3, -5), *g = VEC(100, 100), *h = NULL;
  tn_array *y = quadratic(x, "a=4");
  const tn_req add = TN_REQ_ADD;
  tn_tape_query query = query_of(TN_IN(y), TN_IN(x), TN_OUT(&g));
  query.gradients.req = &add;
  query.flags = TN_TAPE_RECORD;
  OK(tn_tape_gradient(tape, &query));
  HOLDS(g, 124, 60);
  h = gradient(g, x, 0);
  HOLDS(h, 8, 8);
  DROP(x, y, g, h);
}

/* x + x has the gradient 2, which depends on nothing. It can be a head all the
 * same, in a new or in the caller's array, and so can values computed from it.
 */
Test(tape, differentiates_gradients_that_depend_on_nothing) {
  tn_array *x = WATCHED(3, -5), *y = two("elemwise.add", x, x);
  tn_array *other = WATCHED(1, 2), *w = VEC(7, 7), *s = VEC(7, 7);
  tn_array *given[] = {NULL, w, s, NULL};
  const tn_req req[] = {TN_REQ_WRITE, TN_REQ_WRITE, TN_REQ_ADD, TN_REQ_WRITE};
  tn_tape_query q = query_of(TN_IN(y), TN_IN(x, x, other, other),
                             &(tn_outputs){4, given, req});
  q.flags = TN_TAPE_RECORD;
  OK(tn_tape_gradient(tape, &q));
  HOLDS(given[0], 2, 2), HOLDS(w, 2, 2), HOLDS(s, 7, 7), HOLDS(given[3], 0, 0);
  for (int i = 0; i < 4; ++i) {
    tn_array *h = gradient(given[i], x, TN_TAPE_KEEP);
    HOLDS(h, 0, 0);
    tn_array *p = two("elemwise.mul", given[i], given[i]);
    tn_array *k = gradient(p, x, TN_TAPE_KEEP);
    HOLDS(k, 0, 0);
    DROP(h, p, k);
  }
  tn_array *p = two("elemwise.mul", w, x), *k = gradient(p, x, 0);
  HOLDS(k, 2, 2);
  DROP(x, y, other, w, s, given[0], given[3], p, k);
}

/* The tape notices that a recorded gradient of zeros overwrites an array, as
 * for any other gradient. */
Test(tape, records_zeros_over_known_arrays) {
  tn_array *x = WATCHED(3, -5), *other = WATCHED(1, 2);
  tn_array *y = two("elemwise.mul", x, x), *z = two("elemwise.mul", y, x);
  tn_tape_query q = query_of(TN_IN(z), TN_IN(other), TN_OUT(&y));
  q.flags = TN_TAPE_RECORD;
  OK(tn_tape_gradient(tape, &q));
  HOLDS(y, 0, 0);
  tn_array *p = two("elemwise.add", y, x), *g = gradient(p, x, TN_TAPE_KEEP);
  HOLDS(g, 1, 1);
  tn_array *h = gradient(y, x, 0);
  HOLDS(h, 0, 0);
  DROP(x, other, y, z, p, g, h);
}

Test(tape, says_which_operator_third_order_lacks) {
  tn_array *x = WATCHED(3, -5), *h = NULL;
  tn_array *y = quadratic(x, "a=4");
  tn_array *g = gradient(y, x, TN_TAPE_RECORD);
  tn_tape_query query = query_of(TN_IN(g), TN_IN(x), TN_OUT(&h));
  query.flags = TN_TAPE_RECORD;
  FAILS(tn_tape_gradient(tape, &query), TN_UNSUPPORTED,
        "no operator elemwise.quadratic_grad_grad@1");
  h = gradient(g, x, 0); /* the failed attempt left nothing */
  HOLDS(h, 8, 8);
  DROP(x, y, g, h);
}

Test(tape, keeps_the_gradients_operators_out_of_lists) {
  tn_operator *op = host_operator(rt, "elemwise.mul_grad");
  cr_assert(tn_operator_desc(op)->flags & TN_OP_BACKWARD_ONLY);
  op = host_operator(rt, "elemwise.mul");
  cr_assert(!(tn_operator_desc(op)->flags & TN_OP_BACKWARD_ONLY));
}
