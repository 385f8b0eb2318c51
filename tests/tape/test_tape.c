/* SPDX-License-Identifier: Apache-2.0
 * test_tape.c: which arrays a tape keeps, how it computes gradients, and how it
 * fails. Operators: probe.mul is x*y. probe.split has the outputs x+1 and 10 x,
 * the second hidden. probe.keep is the same, and claims that its gradient is
 * the output gradient times 10 x. probe.fan adds any number of inputs.
 * probe.loss is x*label, and claims a gradient of size(x) * out. probe.all is 2
 * x and has no gradient.
 */
#include <criterion/criterion.h>

#include "fake.h"
#include "fixture.h"
#include "probe.h"
#include "tape.h"

static tn_tape *tape;

static void open_all(void) {
  world_open();
  cr_assert_eq(tn__tape_create(&w.caller, &tape), TN_OK);
}

static void close_all(void) {
  tn__tape_release(tape);
  world_close();
}

TestSuite(tape, .init = open_all, .fini = close_all);

#define OK(call) cr_assert_eq((call), TN_OK, "%s: %s", #call, tn_error_text())

static tn_array *array_of_two(float a, float b) {
  return floats(SHAPE(2), VALUES(a, b));
}

static tn_array *watched_array(float a, float b) {
  tn_array *array = array_of_two(a, b);
  OK(tn__tape_watch(tape, array));
  return array;
}

static tn_code tape_call(const char *op, size_t n, tn_array *const *in,
                         const tn_outputs *out) {
  const tn__target_op target = {&w.caller, op_get(op), NULL, TN_PASS_FORWARD,
                                0};
  return tn__tape_call(tape, &target, &(tn_inputs){n, in}, out);
}

/* Calls an operator with one new output. */
static tn_array *run_operator(const char *op, size_t n, tn_array *const *in) {
  tn_array *out = NULL;
  OK(tape_call(op, n, in, TN_OUT(&out)));
  return out;
}

static tn_code request_gradient(tn_array *head, tn_array *of, tn_array **g) {
  return tn__tape_gradient(
      tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                             .flags = TN_TAPE_KEEP,
                             .heads = *TN_IN(head),
                             .of = *TN_IN(of),
                             .gradients = *TN_OUT(g)});
}

static tn_array *gradient_of(tn_array *head, tn_array *of) {
  tn_array *g = NULL;
  OK(request_gradient(head, of, &g));
  return g;
}

#define DROP(...) drop_arrays((tn_array *[]){__VA_ARGS__, NULL})
static void drop_arrays(tn_array **arrays) {
  for (; *arrays; ++arrays) tn__array_release(*arrays);
}

static bool is_kept(const tn_array *array) {
  return atomic_load(&array->n_owners) > 1;
}

/* ------------------------------------------------------------------- keeps */

Test(tape, keeps_only_inputs_that_a_gradient_reads) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(5, 7),
           *d = array_of_two(1, 1);
  tn_array *y =
      run_operator("probe.mul", IN(x, c)); /* the gradient of x reads c */
  tn_array *z = run_operator("probe.fan", IN(y, d));
  cr_assert(is_kept(c));
  cr_assert(!is_kept(y) && !is_kept(d) && !is_kept(z));
  DROP(y, d);
  tn_array *g = gradient_of(z, x);
  expect(g, VALUES(5, 7));
  DROP(x, c, z, g);
}

Test(tape, keeps_nothing_of_constants) {
  tn_array *x = array_of_two(2, 3), *c = array_of_two(5, 7);
  tn_array *y = run_operator("probe.mul", IN(x, c));
  cr_assert(!is_kept(x) && !is_kept(c));
  cr_assert_null(tape->first);
  DROP(x, c, y);
}

Test(tape, releases_kept_arrays) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(5, 7), *g = NULL;
  tn_array *y = run_operator("probe.mul", IN(x, c));
  OK(tn__tape_gradient(tape,
                       &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                                        .heads = *TN_IN(y),
                                        .of = *TN_IN(x),
                                        .gradients = *TN_OUT(&g)}));
  cr_assert(!is_kept(c));
  cr_assert(is_kept(x)); /* watched */
  DROP(x, c, y, g);
  tn__tape_forget(tape); /* only the tape has it now */
  cr_assert_eq(tape->watched.n, 0);
}

/* A new block may have the address of a forgotten one. */
Test(tape, does_not_confuse_a_new_block_with_an_old_one) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(5, 7), *g = NULL;
  for (int i = 0; i < 8; ++i) {
    tn_array *y = run_operator("probe.mul", IN(x, c));
    tn__array_release(y);
    tn_array *z = array_of_two(1, 1); /* may have the memory of y */
    cr_assert_eq(request_gradient(z, x, &g), TN_INVALID);
    EXPECT_TEXT("heads[0] is not on the tape");
    tn__array_release(z);
  }
  DROP(x, c);
}

Test(tape, needs_no_values_if_shapes_are_enough) {
  tn_array *x = watched_array(2, 3), *label = array_of_two(5, 7);
  tn_array *y = run_operator("probe.mul", IN(x, x));
  tn_array *z = run_operator("probe.loss", IN(y, label)); /* 20 63 */
  cr_assert(!is_kept(y) && !is_kept(label) && is_kept(z));
  DROP(y, label);
  tn_array *g = gradient_of(z, x);
  expect(g, VALUES(2 * 20 * 4, 2 * 63 * 6));
  DROP(x, z, g);
}

/* ----------------------------------------------------------------- outputs */

Test(tape, counts_missing_heads_as_zeros) {
  tn_array *x = watched_array(2, 3), *out[2] = {NULL, NULL};
  OK(tape_call("probe.split", IN(x), &(tn_outputs){2, out, NULL}));
  expect(out[1], VALUES(20, 30));
  tn_array *g = gradient_of(out[0], x), *h = gradient_of(out[1], x);
  expect(g, VALUES(1, 1));
  expect(h, VALUES(10, 10));
  DROP(x, out[0], out[1], g, h);
}

Test(tape, sums_the_gradients_of_several_outputs) {
  tn_array *x = watched_array(2, 3), *out[2] = {NULL, NULL};
  OK(tape_call("probe.split", IN(x), &(tn_outputs){2, out, NULL}));
  tn_array *y =
      run_operator("probe.mul", IN(out[0], out[1])); /* 10 x (x + 1) */
  tn_array *g = gradient_of(y, x);
  expect(g, VALUES(50, 70));
  DROP(x, out[0], out[1], y, g);
}

Test(tape, requests_hidden_outputs_that_it_needs) {
  tn_array *x = watched_array(2, 3), *y = run_operator("probe.keep", IN(x));
  expect(y, VALUES(3, 4));
  tn_array *g = gradient_of(y, x);
  expect(g, VALUES(20, 30));
  DROP(x, y, g);
}

Test(tape, computes_needed_outputs_that_the_caller_skips) {
  tn_array *x = watched_array(2, 3), *out[2] = {NULL, NULL};
  const tn_req req[] = {TN_REQ_WRITE, TN_REQ_NULL};
  OK(tape_call("probe.keep", IN(x), &(tn_outputs){2, out, req}));
  cr_assert_null(out[1]);
  tn_array *g = gradient_of(out[0], x);
  expect(g, VALUES(20, 30));
  DROP(x, out[0], g);
}

Test(tape, refuses_hidden_outputs_that_were_overwritten) {
  tn_array *x = watched_array(2, 3), *out[2] = {NULL, array_of_two(0, 0)},
           *g = NULL;
  OK(tape_call("probe.keep", IN(x), &(tn_outputs){2, out, NULL}));
  OK(tn__array_set(out[1], (float[]){1, 2}, 8));
  cr_assert_eq(request_gradient(out[0], x, &g), TN_INVALID);
  EXPECT_TEXT("probe.keep@1", "value of output `high`", "was written");
  DROP(x, out[0], out[1]);
}

/* The other output stays as it was. */
Test(tape, makes_no_call_whose_sum_it_cannot_record) {
  tn_array *x = watched_array(2, 3), *y = run_operator("probe.mul", IN(x, x));
  tn_array *first = array_of_two(7, 7);
  const tn_req req[] = {TN_REQ_WRITE, TN_REQ_ADD};
  OK(tn__array_set(y, (float[]){1, 2}, 8));
  cr_assert_eq(tape_call("probe.split", IN(x),
                         &(tn_outputs){2, (tn_array *[]){first, y}, req}),
               TN_INVALID);
  EXPECT_TEXT("output `high`", "was written");
  expect(first, VALUES(7, 7));
  DROP(x, y, first);
}

/* Two outputs in one place would be ambiguous. */
Test(tape, refuses_to_add_to_another_output) {
  tn_array *x = watched_array(2, 3), *y = array_of_two(7, 7);
  const tn_req req[] = {TN_REQ_WRITE, TN_REQ_ADD};
  cr_assert_eq(tape_call("probe.split", IN(x),
                         &(tn_outputs){2, (tn_array *[]){y, y}, req}),
               TN_INVALID);
  EXPECT_TEXT("share memory");
  expect(y, VALUES(7, 7));
  DROP(x, y);
}

/* -------------------------------------------------------------- operators */

Test(tape, passes_any_number_of_inputs) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(1, 1);
  tn_array *y = run_operator("probe.mul", IN(x, x));
  tn_array *z = run_operator("probe.fan", IN(x, c, y, x, y)); /* 2 x^2 + 2 x */
  tn_array *g = gradient_of(z, x);
  expect(g, VALUES(10, 14));
  DROP(x, c, y, z, g);
}

Test(tape, stops_where_the_operator_does) {
  tn_array *x = watched_array(2, 3), *label = watched_array(5, 7);
  tn_array *y = run_operator("probe.mul", IN(x, x));
  tn_array *z = run_operator("probe.loss", IN(y, label));
  tn_array *g = gradient_of(z, label);
  expect(g, VALUES(0, 0));
  DROP(x, label, y, z, g);
}

Test(tape, reports_operators_without_gradient_on_the_path) {
  tn_array *x = watched_array(2, 3), *v = watched_array(1, 1), *g = NULL;
  tn_array *y = run_operator("probe.all", IN(x));
  tn_array *z = run_operator("probe.fan", IN(y, v));
  cr_assert_eq(request_gradient(z, x, &g), TN_UNSUPPORTED);
  EXPECT_TEXT("depends on probe.all@1", "no gradient: it only records");
  cr_assert_null(g);
  g = gradient_of(z, v); /* which does not pass probe.all */
  expect(g, VALUES(1, 1));
  DROP(x, v, y, z, g);
}

Test(tape, reports_failing_calls_as_any_call_does) {
  tn_array *x = watched_array(2, 3), *y = NULL;
  probe_code = TN_DEVICE;
  cr_assert_eq(tape_call("probe.fail", IN(x), TN_OUT(&y)), TN_DEVICE);
  EXPECT_TEXT("element 3 is odd");
  cr_assert_eq(tape_call("probe.mul", IN(x, x, x), TN_OUT(&y)), TN_INVALID);
  EXPECT_TEXT("takes 2 inputs", "but 3 were given");
  cr_assert_eq(tape_call("probe.mul", IN(x), TN_OUT(&y)), TN_INVALID);
  cr_assert_eq(tape_call("probe.mul", IN(x, NULL), TN_OUT(&y)), TN_INVALID);
  cr_assert_null(y);
  cr_assert_null(tape->first);
  tn__array_release(x);
}

/* probe.split's backward kernel can only write, probe.fan's adds itself. */
Test(tape, adds_with_kernels_that_cannot) {
  tn_array *x = watched_array(2, 3);
  tn_array *a = run_operator("probe.split", IN(x)),
           *b = run_operator("probe.split", IN(x));
  tn_array *y = run_operator("probe.mul", IN(a, b)), *g = gradient_of(y, x);
  expect(g, VALUES(6, 8));
  DROP(x, a, b, y, g);
}

Test(tape, runs_only_the_calls_between) {
  tn_array *x = watched_array(2, 3), *v = watched_array(1, 1);
  tn_array *a = run_operator("probe.mul", IN(x, x)),
           *b = run_operator("probe.mul", IN(v, v));
  tn_array *y = run_operator("probe.mul", IN(a, b)),
           *z = run_operator("probe.mul", IN(y, y));
  int calls = probe.calls;
  tn_array *g = gradient_of(y, v); /* y, then b twice: both inputs are v */
  cr_assert_eq(probe.calls - calls, 3);
  expect(g, VALUES(8, 18));
  DROP(x, v, a, b, y, z, g);
}

/* --------------------------------------------------------- versions, memory */

Test(tape, knows_its_own_writes_to_other_parts) {
  tn_array *both = floats(SHAPE(4), VALUES(1, 2, 3, 4)), *part[2];
  for (int i = 0; i < 2; ++i)
    OK(tn__array_slice(both, &(tn_range){.begin = 2 * i, .end = 2 * i + 2},
                       &part[i]));
  tn_array *x = watched_array(2, 3);
  OK(tape_call("probe.mul", IN(x, x), TN_OUT(&part[0])));
  tn_array *y =
      run_operator("probe.mul", IN(part[0], part[0])); /* keeps part 0 */
  OK(tape_call("probe.mul", IN(x, x), TN_OUT(&part[1])));
  tn_array *g = gradient_of(y, x);
  expect(g, VALUES(32, 108));
  OK(tn__array_set(part[1], (float[]){0, 0}, 8));
  tn_array *h = NULL; /* a foreign write to an unknown place */
  cr_assert_eq(request_gradient(y, x, &h), TN_INVALID);
  DROP(both, part[0], part[1], x, y, g);
}

Test(tape, hides_a_value_by_a_constant) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(5, 7), *g = NULL;
  tn_array *y = run_operator("probe.mul", IN(x, x));
  OK(tape_call("probe.mul", IN(c, c), TN_OUT(&y)));
  tn_array *z = run_operator("probe.mul", IN(y, x)); /* y is 25 49 now */
  OK(request_gradient(z, x, &g));
  expect(g, VALUES(25, 49));
  tn_array *h = NULL;
  OK(request_gradient(y, x, &h)); /* which no longer depends on x */
  expect(h, VALUES(0, 0));
  DROP(x, c, y, z, g, h);
}

Test(tape, is_grown_and_emptied_many_times) {
  tn_array *x = watched_array(1, 1), *c = array_of_two(1, 1);
  for (int round = 0; round < 3; ++round) {
    tn_array *y = run_operator("probe.fan", IN(x, c));
    for (int i = 0; i < 400; ++i) {
      tn_array *next = run_operator("probe.fan", IN(y, x));
      tn__array_release(y);
      y = next;
    }
    tn_array *g = gradient_of(y, x);
    expect(g, VALUES(401, 401));
    tn__tape_forget(tape);
    DROP(y, g);
  }
  DROP(x, c);
}

/* ----------------------------------------------------------------- workers */

static void open_dispatched(void) {
  world_open_with(&(tn__engine_options){.workers = 2, .dispatch = 1});
  OK(tn__tape_create(&w.caller, &tape));
}

TestSuite(tape_on_workers, .init = open_dispatched, .fini = close_all);

/* Sum over rows r and elements i of (x[i]^2 m[r][i]) x[i]. */
Test(tape_on_workers, differentiates_pending_results) {
  tn_array *m = floats(SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6));
  tn_array *x = watched_array(2, 3), *wide = NULL;
  tn_array *y = run_operator("probe.mul", IN(x, x));
  OK(tn__array_broadcast(x, 2, (int64_t[]){3, 2}, &wide));
  tn_array *high = NULL;
  OK(tn__array_broadcast(y, 2, (int64_t[]){3, 2}, &high));
  tn_array *z = run_operator("probe.mul", IN(high, m));
  DROP(y, high);
  tn_array *v = run_operator("probe.mul", IN(z, wide));
  DROP(z, wide, m);
  tn_array *g = gradient_of(v, x);
  expect(g, VALUES(3 * 4 * 9, 3 * 9 * 12));
  DROP(x, v, g);
}

Test(tape_on_workers, passes_on_the_error_of_its_inputs) {
  tn_array *x = watched_array(2, 3), *c = array_of_two(5, 7);
  float got[2];
  probe_code = TN_DEVICE;
  tn_array *y = run_operator("probe.fail", IN(c)),
           *z = run_operator("probe.mul", IN(x, y));
  tn_array *g = gradient_of(z, x);
  cr_assert_eq(tn__array_get(g, got, sizeof got), TN_DEVICE);
  EXPECT_TEXT("element 3 is odd");
  DROP(x, c, y, z, g);
}

/* ------------------------------------------------------------------ places */

/* Finds the place of a view in another, which is `how` in case i. */
static tn__part_place expect_part(const tn_array *of, const tn_array *part,
                                  int how, size_t i) {
  const tn__layout outer = tn__layout_of(of), inner = tn__layout_of(part);
  tn__part_place place;
  cr_assert_eq(tn__layout_find_part(&outer, &inner, &place), how, "case %zu",
               i);
  return place;
}

/* Compares every position of the view, found by counting, with its position in
 * a dense array. */
static void check_place(const tn_array *of, const tn_array *part) {
  const tn__layout outer = tn__layout_of(of), inner = tn__layout_of(part);
  tn__part_place place;
  cr_assert_eq(tn__layout_find_part(&outer, &inner, &place), TN__PART_INSIDE);
  int64_t at[2];
  for (at[0] = 0; at[0] < inner.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < inner.shape[1]; ++at[1]) {
      const int64_t byte = inner.offset + 4 * (at[0] * inner.strides[0] +
                                               at[1] * inner.strides[1]);
      int64_t found = -1, n = 0;
      for (int64_t i = 0; i < outer.shape[0]; ++i)
        for (int64_t k = 0; k < outer.shape[1]; ++k, ++n)
          if (outer.offset +
                  4 * (i * outer.strides[0] + k * outer.strides[1]) ==
              byte)
            found = n;
      cr_assert_eq(place.view.offset + at[0] * place.strides[0] +
                       at[1] * place.strides[1],
                   found);
    }
}

static tn_array *part_of(tn_array *array, int32_t axis, int64_t begin,
                         int64_t end, int64_t step) {
  tn_array *out = NULL;
  const tn_range range = {axis, 0, begin, end, step};
  OK(tn__array_slice(array, &range, &out));
  return out;
}

Test(tape, finds_every_view_inside_of_every_other) {
  tn_array *all = empty(TN_F32, SHAPE(6, 7));
  tn_array *outer[4] = {tn__array_retain(all), part_of(all, 1, 1, 6, 2),
                        part_of(all, 0, -1, -7, -1), NULL};
  OK(tn__array_transpose(outer[1], NULL, &outer[3]));
  for (int i = 0; i < 4; ++i) {
    tn_array *rows = part_of(outer[i], 0, 1, 3, 1);
    tn_array *back = part_of(outer[i], 1, -1, -4, -2);
    tn_array *less = part_of(rows, 1, -1, -3, -1), *turned = NULL;
    OK(tn__array_transpose(less, NULL, &turned));
    check_place(outer[i], outer[i]);
    check_place(outer[i], rows);
    check_place(outer[i], back);
    check_place(outer[i], less);
    check_place(outer[i], turned);
    DROP(rows, back, less, turned);
  }
  DROP(all, outer[0], outer[1], outer[2], outer[3]);
}

Test(tape, separates_neighbours_from_overlapping_views) {
  tn_array *all = empty(TN_F32, SHAPE(6, 8)), *line = NULL;
  tn_array *left = part_of(all, 1, 0, 4, 1), *right = part_of(all, 1, 4, 8, 1);
  tn_array *even = part_of(all, 1, 0, 8, 2), *odd = part_of(all, 1, 1, 8, 2);
  tn_array *low = part_of(all, 0, 0, 3, 1), *high = part_of(all, 0, 3, 6, 1);
  OK(tn__array_reshape(all, 1, (int64_t[]){48}, &line));
  const struct {
    const tn_array *of, *part;
    int how;
  } cases[] = {
      {left, right, TN__PART_DISJOINT}, {right, left, TN__PART_DISJOINT},
      {even, odd, TN__PART_DISJOINT},   {odd, even, TN__PART_DISJOINT},
      {low, high, TN__PART_DISJOINT},   {high, low, TN__PART_DISJOINT},
      {left, even, TN__PART_ACROSS},    {left, all, TN__PART_ACROSS},
      {low, left, TN__PART_ACROSS},     {left, line, TN__PART_ACROSS},
      {line, left, TN__PART_INSIDE},    {all, line, TN__PART_INSIDE},
      {line, even, TN__PART_INSIDE},    {all, high, TN__PART_INSIDE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    (void)expect_part(cases[i].of, cases[i].part, cases[i].how, i);
  DROP(all, left, right, even, odd, low, high, line);
}

Test(tape, finds_views_of_packed_elements_by_their_numbers) {
  tn_array *all = empty(TN_U4, SHAPE(6, 4)), *line = NULL;
  tn_array *low = part_of(all, 0, 0, 2, 1), *high = part_of(all, 0, 2, 5, 1);
  OK(tn__array_reshape(all, 1, (int64_t[]){24}, &line));
  const struct {
    const tn_array *of, *part;
    int how;
    int64_t offset; /* elements 8 to 19 of the array are those of `high` */
  } cases[] = {
      {all, high, TN__PART_INSIDE, 8},   {line, high, TN__PART_INSIDE, 8},
      {line, low, TN__PART_INSIDE, 0},   {low, high, TN__PART_DISJOINT, 0},
      {high, low, TN__PART_DISJOINT, 0}, {high, all, TN__PART_ACROSS, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const tn__part_place place =
        expect_part(cases[i].of, cases[i].part, cases[i].how, i);
    cr_assert_eq(place.view.offset, cases[i].offset, "case %zu", i);
  }
  DROP(all, low, high, line);
}

/* Adds 0.1 a hundred thousand times, in f32. Single f32 sums would be off by
 * more than one in a thousand. */
Test(tape, sums_many_small_numbers_exactly) {
  enum { MANY = 100000 };
  tn_array *sum = scalar(0), *tenth = scalar(0.1f), *to = NULL, *from = NULL;
  OK(tn__array_broadcast(sum, 1, (int64_t[]){MANY}, &to));
  OK(tn__array_broadcast(tenth, 1, (int64_t[]){MANY}, &from));
  OK(tn__array_accumulate(to, from));
  expect(sum, VALUES(10000.0f)); /* 100000 * 0.1f is 10000.00015 */
  DROP(sum, tenth, to, from);
}

/* On a device with queues: adds two rows to one. */
Test(tape, sums_on_the_device_of_the_arrays) {
  fake *f = fake_create(&(fake_options){.count = 1, .seed = 5});
  tn__device *there = NULL;
  tn_array *row = NULL, *rows = NULL, *to = NULL;
  OK(tn__devices_add(w.devices, fake_table(f)));
  OK(tn__device_find(w.devices, TN_DEVICE_EXT, 0, &there));
  tn_array *host = floats(SHAPE(2, 3), VALUES(1, 2, 3, 40, 50, 60)),
           *start = floats(SHAPE(3), VALUES(100, 200, 300));
  OK(tn__array_to(start, there, &row));
  OK(tn__array_to(host, there, &rows));
  OK(tn__array_broadcast(row, SHAPE(2, 3), &to));
  OK(tn__array_accumulate(to, rows));
  expect(row, VALUES(141, 252, 363));
  cr_assert_eq(tn__array_accumulate(to, host), TN_UNSUPPORTED);
  EXPECT_TEXT("cannot be summed on fake(0)");
  tn_array *const all[] = {host, start, row, rows, to};
  for (int i = 0; i < 5; ++i) tn__array_release(all[i]);
  close_all();
  cr_assert_eq(fake_counts_get(f).violations, 0, "%s", fake_violation(f));
  fake_destroy(f);
  open_all();
}

/* ------------------------------------------------------------------ faults */

static tn_array *x, *c;

/* Does everything that allocates memory once. */
static tn_code all_of_it(void) {
  tn_array *y = NULL, *z = NULL, *g[2] = {NULL, NULL}, *wide = NULL;
  tn_tape *mine = tape;
  tn_code rc = tn__tape_create(&w.caller, &tape);
  if (!rc) rc = tn__tape_watch(tape, x);
  if (!rc) rc = tape_call("probe.keep", IN(x), TN_OUT(&y));
  if (!rc) rc = tn__array_broadcast(y, 2, (int64_t[]){3, 2}, &wide);
  if (!rc) rc = tape_call("probe.mul", IN(wide, c), TN_OUT(&z));
  if (!rc) {
    rc = tn__tape_gradient(
        tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                               .heads = *TN_IN(z),
                               .of = *TN_IN(x, y),
                               .gradients = {2, g, NULL}});
    if (rc) cr_assert(!g[0] && !g[1]);
  }
  tn__tape_release(tape);
  tape = mine;
  tn__array_release(y);
  tn__array_release(z);
  tn__array_release(wide);
  tn__array_release(g[0]);
  tn__array_release(g[1]);
  return rc;
}

static bool fails_cleanly(int64_t n, bool for_ever) {
  int64_t living = w.memory.living;
  w.memory.for_ever = for_ever;
  w.memory.fail_at = w.memory.asked + n;
  tn_code rc = all_of_it();
  w.memory.fail_at = 0;
  if (rc == TN_OK) return false;
  cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
  EXPECT_TEXT("memory");
  cr_assert_leq(w.memory.living, living, "after failure %lld", (long long)n);
  return true;
}

Test(tape, survives_every_failing_allocation) {
  x = array_of_two(2, 3);
  c = floats(SHAPE(3, 2), VALUES(1, 2, 3, 4, 5, 6));
  OK(all_of_it());
  for (int mode = 0; mode < 2; ++mode) {
    int64_t n = 1;
    while (fails_cleanly(n, mode == 1)) ++n;
    cr_assert_gt(n, 5);
  }
  OK(all_of_it());
  DROP(x, c);
}
