/* SPDX-License-Identifier: Apache-2.0
 * Arguments, requests, gradients and outputs of programs: those of the user,
 * and those that a program creates. A bind that fails leaves no memory
 * allocated.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

#define ROW(...)                                                              \
  create_doubles(                                                             \
      1, (const int64_t[]){sizeof((double[]){__VA_ARGS__}) / sizeof(double)}, \
      (const double[]){__VA_ARGS__})

static void expect_value(tn_array *array, size_t n, const double *want) {
  double *have = elements_of(array);
  cr_assert_eq(n_elements(array), n);
  for (size_t i = 0; i < n; ++i)
    cr_assert_eq(have[i], want[i], "element %zu is %g, not %g", i, have[i],
                 want[i]);
  free(have);
}
static double one_more(int64_t i) {
  return (double)i + 1;
}

static void is_zero(tn_array *array) {
  double *have = elements_of(array);
  for (size_t i = 0; i < n_elements(array); ++i)
    cr_assert_eq(have[i], 0, "element %zu is %g", i, have[i]);
  free(have);
}
#define IS(array, ...)                                                    \
  expect_value((array), sizeof((double[]){__VA_ARGS__}) / sizeof(double), \
               (const double[]){__VA_ARGS__})

#define ARGUMENTS(...)                             \
  .arguments = (const tn_argument[]){__VA_ARGS__}, \
  .n_arguments = sizeof((tn_argument[]){__VA_ARGS__}) / sizeof(tn_argument)
#define GIVEN(name_, array_) \
  { .name = (name_), .array = (array_) }
#define BIND(...)                               \
  &(tn_bind) {                                  \
    .struct_size = sizeof(tn_bind), __VA_ARGS__ \
  }

static tn_array *gradient_of(const tn_program *p, const char *name) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, name, &array));
  return array;
}

static tn_array *head_of(const tn_program *p, size_t i) {
  tn_array *array = NULL;
  OK(tn__program_output(p, i, &array));
  return array;
}

static void run_forward(tn_program *p) {
  OK(tn__program_forward(p, TN_CALL_TRAIN));
}

/* ---------------------------------------------------------------- arguments */

Test(binding, reports_faults_of_arguments) {
  tn_program *p = NULL;
  net_open();
  tn_array *three = ROW(1, 2, 3), *two = ROW(1, 2);
  tn_array *single = floats(SHAPE(3), VALUES(1, 2, 3));
  HEADS(g,
        OP(g, "add", NULL, "sum", var_node(g, "left"), var_node(g, "right")));
  FAILS(tn__program_bind(g, BIND(0), &p), TN_INCOMPLETE, "left");
  FAILS(tn__program_bind(g, BIND(ARGUMENTS(GIVEN("lefd", three))), &p),
        TN_NOT_FOUND, "`lefd`", "`left`");
  FAILS(tn__program_bind(
            g, BIND(ARGUMENTS(GIVEN("left", three), GIVEN("left", three))), &p),
        TN_INVALID, "left", "twice");
  FAILS(tn__program_bind(
            g, BIND(ARGUMENTS(GIVEN("left", three), GIVEN("right", two))), &p),
        TN_SHAPE, "sum");
  FAILS(
      tn__program_bind(
          g, BIND(ARGUMENTS(GIVEN("left", three), GIVEN("right", single))), &p),
      TN_DTYPE, "sum");
  FAILS(tn__program_bind(g, BIND(ARGUMENTS(GIVEN("left", three)), .request = 7),
                         &p),
        TN_INVALID, "request");
  FAILS(tn__program_bind(g,
                         BIND(ARGUMENTS({.name = "left",
                                         .array = three,
                                         .request = TN_REQ_INPLACE,
                                         .has_request = 1})),
                         &p),
        TN_INVALID, "left");
  FAILS(tn__program_bind(g, BIND(ARGUMENTS(GIVEN("left", three)), .plan = 99),
                         &p),
        TN_INVALID, "99");
  FAILS(tn__program_bind(
            g,
            BIND(ARGUMENTS({.name = "left", .array = three, .gradient = two}),
                 .request = TN_REQ_WRITE),
            &p),
        TN_SHAPE, "left");
  FAILS(tn__program_bind(g,
                         BIND(ARGUMENTS(GIVEN("left", three)), .n_outputs = 2,
                              .outputs = (tn_array *const[]){NULL, NULL}),
                         &p),
        TN_INVALID, "2");
  FAILS(tn__program_bind(g,
                         BIND(ARGUMENTS(GIVEN("left", three)), .n_outputs = 1,
                              .outputs = (tn_array *const[]){two}),
                         &p),
        TN_SHAPE, "sum_output");
  cr_assert_null(p);
  tn__array_release(three), tn__array_release(two);
  tn__array_release(single);
  net_close();
}

/* One of the two results would be lost. */
Test(binding, refuses_two_results_in_one_array) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2), *y = ROW(3, 4), *both = ROW(0, 0);
  const tn_entry sum =
      OP(g, "add", NULL, "sum", var_node(g, "left"), var_node(g, "right"));
  HEADS(g, sum, OP(g, "same", NULL, "twin", sum));
  for (int adds = 0; adds < 2; ++adds) {
    const tn_bind *how =
        BIND(ARGUMENTS({.name = "left", .array = x, .gradient = both},
                       {.name = "right", .array = y, .gradient = both}),
             .request = adds ? TN_REQ_ADD : TN_REQ_WRITE);
    FAILS(tn__program_bind(g, how, &p), TN_INVALID, "the gradient of `left`",
          "the gradient of `right`", "overlap");
  }
  FAILS(tn__program_bind(
            g,
            BIND(ARGUMENTS(GIVEN("left", x), GIVEN("right", y)), .n_outputs = 2,
                 .outputs = (tn_array *const[]){both, both}),
            &p),
        TN_INVALID, "output 0", "output 1", "overlap");
  tn__array_release(x), tn__array_release(y), tn__array_release(both);
  net_close();
}

/* The gradient of `first` needs `second`, which would be overwritten. */
Test(binding, refuses_a_gradient_in_the_array_of_an_argument) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2), *y = ROW(3, 4);
  HEADS(g,
        OP(g, "mul", NULL, NULL, var_node(g, "first"), var_node(g, "second")));
  const tn_bind *how =
      BIND(ARGUMENTS(GIVEN("first", x),
                     {.name = "second", .array = y, .gradient = x}),
           .request = TN_REQ_WRITE);
  FAILS(tn__program_bind(g, how, &p), TN_INVALID, "`first`",
        "the gradient of `second`", "overlap");
  tn__array_release(x), tn__array_release(y);
  net_close();
}

Test(binding, refuses_arrays_of_another_runtime) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2);
  tn__env other = w.env;
  const tn__env *mine = x->env;
  HEADS(g, OP(g, "same", NULL, NULL, var_node(g, "x")));
  x->env = &other;
  FAILS(tn__program_bind(g, BIND(ARGUMENTS(GIVEN("x", x))), &p), TN_INVALID,
        "`x`", "another runtime");
  x->env = mine;
  tn__array_release(x);
  net_close();
}

Test(binding, a_graph_without_heads_is_no_program) {
  tn_program *p = NULL;
  net_open();
  (void)var_node(g, "x");
  FAILS(tn__program_bind(g, BIND(0), &p), TN_INVALID, "tn_graph_heads_set");
  net_close();
}

/* Before the first run, arrays do not show old content of their memory. */
Test(binding, arrays_of_a_program_begin_as_zeros) {
  static const char *const names[] = {"x", "y", "state_sum"};
  net_open();
  const tn_entry x = typed_var(g, "x", F64(50, 20)), y = var_node(g, "y");
  HEADS(g, OP(g, "mul", NULL, NULL, OP(g, "track", NULL, "state", x), y),
        OP(g, "same", NULL, NULL, y), OP(g, "total", NULL, NULL, x, y, x));
  for (tn_req request = TN_REQ_WRITE; request <= TN_REQ_ADD; request += 2)
    for (uint32_t flags = 0; flags <= TN_BIND_NO_FUSE; ++flags) {
      tn_array *stains[16], *array = NULL;
      tn_program *p = NULL;
      for (int i = 0; i < 16; ++i)
        stains[i] = numbers_of(TN_F64, SHAPE(50, 20), one_more);
      for (int i = 0; i < 16; ++i) tn__array_release(stains[i]);
      OK(tn__program_bind(g, BIND(.request = request, .flags = flags), &p));
      for (size_t i = 0; i < 3; ++i) is_zero(head_of(p, i));
      for (int i = 0; i < 3; ++i) {
        const uint32_t what =
            i < 2 ? TN_PROGRAM_ARGUMENT : TN_PROGRAM_AUXILIARY;
        OK(tn__program_array(p, what, names[i], &array));
        is_zero(array);
        if (i < 2) is_zero(gradient_of(p, names[i]));
      }
      tn__program_release(p);
    }
  net_close();
}

/* ---------------------------------------------------------------- gradients */

/* Gradients of a sum, a copy, ones, zeros, a kernel, a loop. */
static tn_graph *summing_graph(void) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h");
  HEADS(s, OP(s, "add", NULL, NULL, h, x), OP(s, "mul", NULL, NULL, x, h));
  return s;
}

static tn_entry loop_of(const tn_graph *step, tn_entry x, tn_entry h) {
  tn_entry out;
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 2,
                        .step = step,
                        .sequences = (const char *const[]){"x"},
                        .states = (const char *const[]){"h"},
                        .n_sequences = 1,
                        .n_states = 1,
                        .in = (const tn_entry[]){x, h},
                        .keys = (const char *const[]){"x", "h"}};
  OK(tn__graph_loop(g, &what, &out));
  return out;
}

enum { N_KINDS = 6 };

static const char *const kinds[N_KINDS] = {"sum",  "copy", "call",
                                           "none", "many", "state"};

/* One row of two numbers each, except `seq` with two rows. */
static void every_kind(void) {
  const tn_entry sum = var_node(g, "sum"), copy = var_node(g, "copy"),
                 called = var_node(g, "call"), none = var_node(g, "none"),
                 many = var_node(g, "many"), state = var_node(g, "state");
  tn_graph *step = summing_graph();
  HEADS(g,
        OP(g, "mul", NULL, "a", OP(g, "square", NULL, NULL, sum),
           OP(g, "tanh", NULL, NULL, sum)),
        OP(g, "same", NULL, "b", copy), OP(g, "tame", NULL, "c", called, sum),
        OP(g, "cut", NULL, "d", none),
        OP(g, "total", NULL, "e", many, many, many, many),
        loop_of(step, var_node(g, "seq"), state));
  tn__graph_release(step);
}

static tn_program *bind_kinds(tn_req request, tn_array *const *in,
                              tn_array *seq) {
  tn_argument given[N_KINDS + 1];
  tn_program *p = NULL;
  for (int i = 0; i < N_KINDS; ++i)
    given[i] = (tn_argument){.name = kinds[i], .array = in[i]};
  given[N_KINDS] = (tn_argument){.name = "seq", .array = seq};
  OK(tn__program_bind(
      g,
      BIND(.request = request, .arguments = given, .n_arguments = N_KINDS + 1),
      &p));
  return p;
}

static void run_kinds(tn_program *p, tn_array *const *weights) {
  run_forward(p);
  OK(tn__program_backward(p, weights, 6));
}

/* Three runs with ADD give three times one with WRITE, for every kind of
 * gradient. */
Test(binding, gradients_add_up) {
  tn_array *in[N_KINDS], *weights[N_KINDS];
  net_open();
  every_kind();
  for (int i = 0; i < N_KINDS; ++i) {
    in[i] = ROW(0.5 + i, 0.25 * i);
    weights[i] = ROW(1 + i, 2);
  }
  tn_array *seq = create_doubles(SHAPE(2, 2), (const double[]){1, 2, 3, 4});
  tn_program *once = bind_kinds(TN_REQ_WRITE, in, seq),
             *more = bind_kinds(TN_REQ_ADD, in, seq);
  run_kinds(once, weights);
  run_kinds(once, weights);
  for (int i = 0; i < 3; ++i) run_kinds(more, weights);
  for (int i = 0; i <= N_KINDS; ++i) {
    const char *name = i < N_KINDS ? kinds[i] : "seq";
    double *one = elements_of(gradient_of(once, name)),
           *three = elements_of(gradient_of(more, name));
    for (size_t k = 0; k < n_elements(gradient_of(once, name)); ++k)
      cr_assert_float_eq(three[k], 3 * one[k], 1e-12, "%s: %g, not 3 * %g",
                         name, three[k], one[k]);
    free(one), free(three);
  }
  IS(gradient_of(once, "none"), 0, 0);
  IS(gradient_of(once, "many"), 4 * 5, 4 * 2);
  tn__program_release(once), tn__program_release(more);
  for (int i = 0; i < N_KINDS; ++i)
    tn__array_release(in[i]), tn__array_release(weights[i]);
  tn__array_release(seq);
  net_close();
}

/* lab.like has no gradient, and needs none here: its output has integers, like
 * one of its inputs. */
Test(binding, gradients_stop_at_integers_with_the_type_of_an_input) {
  tn_program *p = NULL;
  net_open();
  tn_array *like = empty(TN_I32, SHAPE(2)), *in = ROW(2.5, -3.25);
  tn_array *weight = ROW(1, 10);
  const tn_entry x = var_node(g, "x");
  const tn_entry cut = OP(g, "like", NULL, "cut", x, var_node(g, "like"));
  const tn_entry back = OP(g, "like", NULL, "back", cut, var_node(g, "plain"));
  HEADS(g, OP(g, "mul", NULL, NULL, back, x));
  OK(tn__program_bind(
      g,
      BIND(.request = TN_REQ_WRITE,
           ARGUMENTS(GIVEN("x", in),
                     {.name = "like", .array = like, .has_request = 1},
                     {.name = "plain", .array = in, .has_request = 1})),
      &p));
  run_forward(p);
  IS(head_of(p, 0), 5, 9.75);
  OK(tn__program_backward(p, &weight, 1));
  IS(gradient_of(p, "x"), 2, -30);
  tn__program_release(p);
  tn__array_release(like), tn__array_release(in);
  tn__array_release(weight);
  net_close();
}

Test(binding, each_argument_may_have_its_own_request) {
  tn_program *p = NULL;
  tn_array *array = NULL;
  net_open();
  tn_array *x = ROW(1, 2), *slope = ROW(10, 20), *weight = ROW(1, 1);
  HEADS(g, OP(g, "mul", NULL, NULL, var_node(g, "x"), var_node(g, "y")),
        OP(g, "square", NULL, NULL, var_node(g, "z")));
  OK(tn__program_bind(
      g,
      BIND(.request = TN_REQ_WRITE, ARGUMENTS({.name = "x",
                                               .array = x,
                                               .gradient = slope,
                                               .request = TN_REQ_ADD,
                                               .has_request = 1},
                                              {.name = "y", .array = x},
                                              {.name = "z",
                                               .array = x,
                                               .request = TN_REQ_NULL,
                                               .has_request = 1})),
      &p));
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  cr_assert_eq(stats.own_bytes, 2 * sizeof(double), "%llu",
               (unsigned long long)stats.own_bytes);
  run_forward(p);
  FAILS(tn__program_backward(p, &weight, 3), TN_INVALID, "3");
  OK(tn__program_backward(p, &weight, 1));
  IS(slope, 11, 22);
  IS(gradient_of(p, "y"), 1, 2);
  FAILS(tn__program_array(p, TN_PROGRAM_GRADIENT, "z", &array), TN_NOT_FOUND,
        "z");
  FAILS(tn__program_array(p, TN_PROGRAM_GRADIENT, "w", &array), TN_NOT_FOUND,
        "no argument named `w`");
  FAILS(tn__program_array(p, TN_PROGRAM_AUXILIARY, "x", &array), TN_NOT_FOUND,
        "no auxiliary state named `x`");
  FAILS(tn__program_array(p, TN_PROGRAM_OUTPUT, "x", &array), TN_NOT_FOUND,
        "no output named `x`");
  FAILS(tn__program_array(p, 77, "x", &array), TN_INVALID, "of kind 77");
  tn__program_release(p);
  tn__array_release(x), tn__array_release(slope), tn__array_release(weight);
  net_close();
}

Test(binding, a_head_that_is_no_loss_wants_a_weight) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2);
  HEADS(g, OP(g, "square", NULL, "quad", var_node(g, "x")));
  OK(tn__program_bind(
      g, BIND(.request = TN_REQ_WRITE, ARGUMENTS(GIVEN("x", x))), &p));
  FAILS(tn__program_backward(p, NULL, 0), TN_INVALID, "forward");
  OK(tn__program_forward(p, 0));
  FAILS(tn__program_backward(p, NULL, 0), TN_INVALID, "TN_CALL_TRAIN");
  run_forward(p);
  FAILS(tn__program_backward(p, NULL, 0), TN_INVALID, "`quad_output`");
  tn__program_release(p);
  tn__array_release(x);
  net_close();
}

/* It must not have another shape or type. */
Test(binding, a_weight_is_like_its_head) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2), *three = ROW(1, 2, 3);
  tn_array *whole = empty(TN_I32, SHAPE(2));
  HEADS(g, OP(g, "square", NULL, "quad", var_node(g, "x")));
  OK(tn__program_bind(
      g, BIND(.request = TN_REQ_WRITE, ARGUMENTS(GIVEN("x", x))), &p));
  run_forward(p);
  FAILS(tn__program_backward(p, &three, 1), TN_SHAPE,
        "the gradient of head `quad_output`: the array is f64 (3), but it has "
        "to be f64 (2)");
  FAILS(tn__program_backward(p, &whole, 1), TN_SHAPE, "the array is i32 (2)");
  OK(tn__program_backward(p, &x, 1));
  IS(gradient_of(p, "x"), 2, 8);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(three), tn__array_release(whole);
  net_close();
}

/* Replaces the options of one argument by `what`; the bind must fail. */
static void refuse_one(tn_argument what, const char *text) {
  tn_program *p = NULL;
  tn_array *x = ROW(1, 2), *n = empty(TN_I32, SHAPE(2));
  tn_argument all[] = {GIVEN("x", x), GIVEN("y", x), GIVEN("n", n), what};
  size_t n_all = 4;
  for (size_t i = 0; i < 3; ++i)
    if (strcmp(all[i].name, what.name) == 0) {
      what.array = all[i].array;
      all[i] = what;
      n_all = 3;
    }
  FAILS(tn__program_bind(g, BIND(.arguments = all, .n_arguments = n_all), &p),
        TN_INVALID, text);
  tn__array_release(x), tn__array_release(n);
}

Test(binding, requests_of_gradients_are_never_dropped) {
  net_open();
  tn_array *slope = ROW(0, 0);
  const tn_entry count = var_node(g, "n");
  HEADS(g, OP(g, "broad", NULL, NULL, count, count),
        OP(g, "square", NULL, NULL, var_node(g, "x")),
        OP(g, "track", NULL, "run", var_node(g, "y")));
  refuse_one(
      (tn_argument){.name = "x", .gradient = slope},
      "an array is passed for the gradient of argument `x`, which is not "
      "requested");
  refuse_one(
      (tn_argument){.name = "n", .request = TN_REQ_WRITE, .has_request = 1},
      "argument `n` is i32, which has no gradient");
  refuse_one((tn_argument){.name = "run_sum",
                           .request = TN_REQ_WRITE,
                           .has_request = 1,
                           .known = {.ndim = -1}},
             "`run_sum` is a state, which has no gradient");
  tn__array_release(slope);
  net_close();
}

Test(binding, heads_that_are_no_floats_have_no_gradient) {
  tn_program *p = NULL;
  net_open();
  tn_array *x = ROW(1, 2), *weight = ROW(3, 4);
  tn_array *n = empty(TN_I32, SHAPE(2));
  OK(tn__array_set(n, (const int32_t[]){1, 2}, 8));
  const tn_entry count = var_node(g, "n");
  HEADS(g, OP(g, "broad", NULL, NULL, count, count),
        OP(g, "square", NULL, NULL, var_node(g, "x")));
  OK(tn__program_bind(
      g, BIND(.request = TN_REQ_WRITE, ARGUMENTS(GIVEN("x", x), GIVEN("n", n))),
      &p));
  run_forward(p);
  OK(tn__program_backward(p, (tn_array *[]){NULL, weight}, 2));
  IS(gradient_of(p, "x"), 6, 16);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(n), tn__array_release(weight);
  net_close();
}

/* The variable of its output gradient gets a shorter name. */
Test(binding, a_head_with_the_longest_name_has_a_gradient) {
  net_open();
  char name[TN__NAME_MAX + 1];
  tn_program *p = NULL;
  tn_array *x = ROW(1, 2), *weight = ROW(3, 4);
  memset(name, 'a', TN__NAME_MAX);
  name[TN__NAME_MAX] = '\0';
  HEADS(g, OP(g, "square", NULL, name, var_node(g, "x")));
  OK(tn__program_bind(
      g, BIND(.request = TN_REQ_WRITE, ARGUMENTS(GIVEN("x", x))), &p));
  run_forward(p);
  OK(tn__program_backward(p, &weight, 1));
  IS(gradient_of(p, "x"), 6, 16);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(weight);
  net_close();
}

/* ------------------------------------------------------------------ outputs */

static tn_program *bind_outputs(tn_array *x, tn_array *y, size_t n,
                                tn_array *const *outputs, uint32_t flags) {
  tn_program *p = NULL;
  OK(tn__program_bind(g,
                      BIND(.flags = flags, .n_outputs = n, .outputs = outputs,
                           ARGUMENTS(GIVEN("x", x), GIVEN("y", y))),
                      &p));
  return p;
}

Test(binding, one_entry_may_be_several_heads) {
  net_open();
  tn_array *x = ROW(1, 2), *y = ROW(5, 6);
  tn_array *a = ROW(0, 0), *b = ROW(0, 0), *c = ROW(0, 0);
  const tn_entry sum =
      OP(g, "add", NULL, NULL, var_node(g, "x"), var_node(g, "y"));
  tn_entry first;
  OK(tn__graph_find(g, "x", &first));
  HEADS(g, sum, sum, first, sum, first);
  tn_program *p = bind_outputs(x, y, 3, (tn_array *const[]){a, b, c}, 0);
  OK(tn__program_forward(p, 0));
  IS(a, 6, 8);
  IS(b, 6, 8);
  IS(c, 1, 2);
  IS(head_of(p, 3), 6, 8);
  IS(head_of(p, 4), 1, 2);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(y);
  tn__array_release(a), tn__array_release(b), tn__array_release(c);
  net_close();
}

/* Runs `g` twice with its first heads written into x and, if there are two,
 * into y. Then x, y and the second head equal two rounds by hand. */
typedef struct round {
  double x, y, last;
} round;

static void run_late(size_t n, const round *want) {
  tn_array *x = ROW(3, 3), *y = ROW(5, 5);
  tn_program *p = bind_outputs(x, y, n, (tn_array *const[]){x, y}, 0);
  OK(tn__program_forward(p, 0));
  OK(tn__program_forward(p, 0));
  IS(x, want->x, want->x);
  IS(y, want->y, want->y);
  IS(head_of(p, 1), want->last, want->last);
  tn__program_release(p);
  tn__array_release(x), tn__array_release(y);
}

Test(binding, a_head_may_overwrite_an_argument) {
  net_open();
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  /* x = x + y; last = x * y: 3 5 -> 8 5, 15 -> 13 5, 40 */
  HEADS(g, OP(g, "add", NULL, NULL, x, y), OP(g, "mul", NULL, NULL, x, y));
  run_late(1, &(round){13, 5, 40});
  /* The other head reads the new one, and the old argument. */
  const tn_entry next = OP(g, "add", NULL, NULL, x, y);
  HEADS(g, next, OP(g, "mul", NULL, NULL, next, x));
  run_late(1, &(round){13, 5, 13 * 8});
  net_close();
}

Test(binding, heads_may_overwrite_each_others_arguments) {
  net_open();
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  /* x, y = x - y, x * y: 3 5 -> -2 15 -> -17 -30 */
  const tn_entry product = OP(g, "mul", NULL, NULL, x, y);
  HEADS(g, OP(g, "sub", NULL, NULL, x, y), product);
  run_late(2, &(round){-17, -30, -30});
  /* x, y = y, x, twice; the last head is the second. */
  HEADS(g, y, x);
  run_late(2, &(round){3, 5, 5});
  /* y is read after the new x was written, which is made of the new y. */
  const tn_entry m = OP(g, "add", NULL, NULL, y, x);
  HEADS(g, OP(g, "add", NULL, NULL, x, OP(g, "mul", NULL, NULL, m, y)), m);
  /* 3 5: m 8, x 43, y 8; m 51, x 43 + 408, y 51 */
  run_late(2, &(round){451, 51, 51});
  net_close();
}

/* ------------------------------------------------------------ out of memory */

static tn_code bind_big(tn_array *x, tn_program **p) {
  return tn__program_bind(
      g,
      BIND(.request = TN_REQ_WRITE, .memory = TN_MEMORY_MINIMAL,
           ARGUMENTS(GIVEN("x", x))),
      p);
}

static void fail_everywhere(tn_array *x) {
  tn_program *p = NULL;
  int64_t n = 1;
  for (;; ++n) {
    w.memory.fail_at = w.memory.asked + n;
    const tn_code rc = bind_big(x, &p);
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%lld: %s", (long long)n,
                 tn_error_text());
    cr_assert_null(p);
  }
  cr_assert_gt(n, 40);
  run_forward(p);
  OK(tn__program_backward(p, (tn_array *[]){x}, 1));
  tn__program_release(p);
}

Test(binding, frees_everything_without_memory) {
  net_open();
  tn_array *x = empty(TN_F64, SHAPE(64, 128));
  double *zeros = calloc(64 * 128, sizeof *zeros);
  OK(tn__array_set(x, zeros, 64 * 128 * sizeof *zeros));
  free(zeros);
  tn_entry h = var_node(g, "x");
  for (int i = 0; i < 4; ++i)
    h = OP(g, "tanh", NULL, NULL, OP(g, "mul", NULL, NULL, h, h));
  HEADS(g, OP(g, "total", NULL, NULL, h, h, h));
  fail_everywhere(x);
  tn__array_release(x);
  net_close();
}

Test(binding, frees_everything_when_a_loop_finds_no_memory) {
  net_open();
  tn_array *x = ROW(1, 2);
  tn_graph *step = summing_graph();
  const tn_entry v = var_node(g, "x");
  HEADS(g, loop_of(step, v, typed_var(g, "h", SCALAR(TN_F64))));
  tn__graph_release(step);
  tn_program *p = NULL;
  for (int64_t n = 1; !p; ++n) {
    w.memory.fail_at = w.memory.asked + n;
    const tn_code rc = tn__program_bind(g, BIND(ARGUMENTS(GIVEN("x", x))), &p);
    w.memory.fail_at = 0;
    cr_assert(rc == TN_OK || rc == TN_OUT_OF_MEMORY, "%s", tn_error_text());
  }
  OK(tn__program_forward(p, 0));
  IS(head_of(p, 0), 3);
  tn__program_release(p);
  tn__array_release(x);
  net_close();
}
