/* SPDX-License-Identifier: Apache-2.0
 * Gradients of loops with steps that draw random numbers or change states: the
 * loop keeps their outputs, and does not compute them twice. lab.noise
 * multiplies by random factors, which are also an output, so that the tests
 * know them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

TestSuite(kept_values, .init = net_open, .fini = net_close);

enum { WIDE = 2 }; /* elements of a state */

static tn_program *p;

/* A loop over `sequence` with the state `state`, and further inputs. */
static tn_entry loop_over(tn_graph *graph, const tn_graph *step, bool reverse,
                          size_t n, const char *const *keys,
                          const tn_entry *in) {
  tn_entry out;
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = (uint32_t)n,
                        .step = step,
                        .name = "loop",
                        .sequences = keys,
                        .states = keys + 1,
                        .n_sequences = 1,
                        .n_states = 1,
                        .reverse = reverse,
                        .in = in,
                        .keys = keys};
  OK(tn__graph_loop(graph, &what, &out));
  return out;
}

/* Fills an argument, with different values for each. */
static void fill_argument(const char *name, double first) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, name, &array));
  const size_t n = n_elements(array);
  double *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; i < n; ++i) v[i] = first + 0.25 * (double)i;
  OK(tn__array_set(array, v, n * sizeof *v));
  free(v);
}

static double *output_values(uint32_t i) {
  tn_array *array = NULL;
  OK(tn__program_output(p, i, &array));
  return elements_of(array);
}

static double *slope_of(const char *name) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_GRADIENT, name, &array));
  return elements_of(array);
}

static void bind_graph(tn_req request) {
  const tn_bind how = {.struct_size = sizeof how, .request = request};
  OK(tn__program_bind(g, &how, &p));
}

/* The first head with ones, the second with zeros. */
static void train_program(void) {
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  tn_array *weights[2] = {NULL}, *out = NULL;
  for (uint32_t i = 0; i < 2; ++i) {
    OK(tn__program_output(p, i, &out));
    const size_t n = n_elements(out);
    double *v = malloc((n + 1) * sizeof *v);
    for (size_t k = 0; k < n; ++k) v[k] = i == 0;
    weights[i] = create_doubles((size_t)out->tensor.ndim, out->tensor.shape, v);
    free(v);
  }
  OK(tn__program_backward(p, weights, 2));
  tn__array_release(weights[0]), tn__array_release(weights[1]);
}

static void is_near(double have, double want, const char *what) {
  cr_assert(fabs(have - want) <= 1e-12 * (1 + fabs(want)),
            "%s: %.17g, not %.17g", what, have, want);
}

/* ------------------------------------------------------------------- numbers
 */

/* h' = noise(h) + x; collected: the factors. */
static tn_graph *noisy_step(void) {
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h");
  const tn_entry noise = OP(step, "noise", NULL, "noise", h);
  HEADS(step, OP(step, "add", NULL, NULL, noise, var_node(step, "x")),
        output_of(noise, 1));
  return step;
}

/* The last state is h times all factors, and each x times the later ones. */
static void slopes_are_of(const double *factors, int64_t n, bool reverse) {
  double *dh = slope_of("h"), *dx = slope_of("x");
  for (int i = 0; i < WIDE; ++i) {
    double product = 1;
    for (int64_t k = n; k-- > 0;) {
      const int64_t t = reverse ? n - 1 - k : k;
      is_near(dx[t * WIDE + i], product, "dx");
      product *= factors[t * WIDE + i];
    }
    is_near(dh[i], product, "dh");
  }
  free(dh), free(dx);
}

static void noisy_loop(int64_t n, bool reverse) {
  static const char *const keys[] = {"x", "h"};
  tn_graph *step = noisy_step();
  const tn_entry in[] = {typed_var(g, "x", F64(n, WIDE)),
                         typed_var(g, "h", F64(WIDE))};
  const tn_entry out = loop_over(g, step, reverse, 2, keys, in);
  HEADS(g, out, output_of(out, 1));
  bind_graph(TN_REQ_WRITE);
  fill_argument("x", 1), fill_argument("h", 2);
  double before = -1;
  for (int run = 0; run < 3; ++run) {
    train_program();
    double *factors = output_values(1);
    slopes_are_of(factors, n, reverse);
    if (n > 0) cr_assert_neq(factors[0], before);
    if (n > 0) before = factors[0];
    free(factors);
  }
  tn__program_release(p);
  tn__graph_release(step);
  net_renew();
}

Test(kept_values, random_numbers_are_those_of_the_forward_part) {
  for (int64_t n = 0; n < 5; ++n) {
    noisy_loop(n, false);
    noisy_loop(n, true);
  }
}

/* A loop over `v` in the step of a loop over `x`: all factors of all steps. */
Test(kept_values, random_numbers_of_loops_in_loops) {
  enum { OUTER = 3, INNER = 2 };
  static const char *const inner_keys[] = {"x", "h"}, *const keys[] = {"x", "h",
                                                                       "v"};
  tn_graph *innermost = noisy_step(), *step = net_new();
  const tn_entry given[] = {
      var_node(step, "v"),
      OP(step, "add", NULL, NULL, var_node(step, "h"), var_node(step, "x"))};
  const tn_entry inner =
      loop_over(step, innermost, false, 2, inner_keys, given);
  HEADS(step, inner, output_of(inner, 1));
  const tn_entry in[] = {typed_var(g, "x", F64(OUTER, WIDE)),
                         typed_var(g, "h", F64(WIDE)),
                         typed_var(g, "v", F64(INNER, WIDE))};
  const tn_entry out = loop_over(g, step, false, 3, keys, in);
  HEADS(g, out, output_of(out, 1));
  bind_graph(TN_REQ_WRITE);
  fill_argument("x", 1), fill_argument("h", 2), fill_argument("v", 3);
  train_program();
  double *factors = output_values(1), *dh = slope_of("h"), *dx = slope_of("x"),
         *dv = slope_of("v");
  for (int i = 0; i < WIDE; ++i) {
    double product = 1, sums[INNER] = {0};
    for (int t = OUTER * INNER; t-- > 0;) {
      sums[t % INNER] += product;
      product *= factors[t * WIDE + i];
      if (t % INNER == 0) is_near(dx[t / INNER * WIDE + i], product, "dx");
    }
    is_near(dh[i], product, "dh");
    for (int t = 0; t < INNER; ++t) is_near(dv[t * WIDE + i], sums[t], "dv");
  }
  free(factors), free(dh), free(dx), free(dv);
  tn__program_release(p);
  tn__graph_release(innermost);
  tn__graph_release(step);
}

/* h' = h h f x with factors f that depend on no h. Over two steps the last
 * state is f1 (f0 h h x0)^2 x1: its gradients of first and second order. */
Test(kept_values, second_derivatives_know_the_same_numbers) {
  static const char *const keys[] = {"x", "h", "k"};
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h");
  const tn_entry noise = OP(step, "noise", NULL, NULL, var_node(step, "k"));
  const tn_entry scaled =
      OP(step, "mul", NULL, NULL, output_of(noise, 1), var_node(step, "x"));
  HEADS(step,
        OP(step, "mul", NULL, NULL, OP(step, "mul", NULL, NULL, h, h), scaled),
        output_of(noise, 1));
  const tn_entry in[] = {typed_var(g, "x", F64(2, WIDE)),
                         typed_var(g, "h", F64(WIDE)),
                         typed_var(g, "k", F64(WIDE))};
  const tn_entry out = loop_over(g, step, false, 3, keys, in);
  tn_entry first, second[2];
  tn__gradient_spec spec = {
      .query = {.heads = &out, .of = &in[1], .n_heads = 1, .n_of = 1}};
  OK(tn__graph_gradient(g, &spec, &first));
  spec.query.heads = &first;
  spec.query.of = in;
  spec.query.n_of = 2;
  OK(tn__graph_gradient(g, &spec, second));
  HEADS(g, out, output_of(out, 1), first, second[0], second[1]);
  bind_graph(TN_REQ_NULL);
  fill_argument("x", 1), fill_argument("h", 2), fill_argument("k", 1);
  OK(tn__program_forward(p, TN_CALL_TRAIN));
  double *f = output_values(1), *d = output_values(2), *dx = output_values(3),
         *dh = output_values(4);
  for (int i = 0; i < WIDE; ++i) {
    const double hi = 2 + 0.25 * i, x0 = 1 + 0.25 * i, x1 = 1.5 + 0.25 * i;
    const double c = f[WIDE + i] * f[i] * f[i];
    is_near(d[i], 4 * c * x0 * x0 * x1 * hi * hi * hi, "d/dh");
    is_near(dh[i], 12 * c * x0 * x0 * x1 * hi * hi, "d2/dhdh");
    is_near(dx[i], 8 * c * x0 * x1 * hi * hi * hi, "d2/dhdx0");
    is_near(dx[WIDE + i], 4 * c * x0 * x0 * hi * hi * hi, "d2/dhdx1");
  }
  free(f), free(d), free(dx), free(dh);
  tn__program_release(p);
  tn__graph_release(step);
}

/* --------------------------------------------------------------------- states
 */

/* h' = track(h) x, where `sum` gets the states before each step. */
static tn_graph *tracked_step(void) {
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h");
  const tn_entry y = OP(step, "track", NULL, "y", h, var_node(step, "sum"));
  HEADS(step, OP(step, "mul", NULL, NULL, y, var_node(step, "x")), y);
  return step;
}

Test(kept_values, states_change_once_for_each_step) {
  static const char *const keys[] = {"x", "h"};
  tn_graph *step = tracked_step();
  const tn_entry in[] = {typed_var(g, "x", F64(2, WIDE)),
                         typed_var(g, "h", F64(WIDE))};
  const tn_entry out = loop_over(g, step, false, 2, keys, in);
  HEADS(g, out, output_of(out, 1));
  bind_graph(TN_REQ_WRITE);
  fill_argument("x", 1), fill_argument("h", 2);
  tn_array *sum = NULL;
  OK(tn__program_array(p, TN_PROGRAM_AUXILIARY, "loop_sum", &sum));
  OK(tn__array_set(sum, (const double[WIDE]){0}, WIDE * sizeof(double)));
  for (int run = 1; run <= 2; ++run) {
    train_program();
    double *sums = elements_of(sum), *dh = slope_of("h"), *dx = slope_of("x");
    for (int i = 0; i < WIDE; ++i) {
      const double h = 2 + 0.25 * i, x0 = 1 + 0.25 * i, x1 = 1.5 + 0.25 * i;
      is_near(sums[i], run * (h + h * x0), "the state");
      is_near(dh[i], x0 * x1, "dh");
      is_near(dx[i], h * x1, "dx0");
      is_near(dx[WIDE + i], h * x0, "dx1");
    }
    free(sums), free(dh), free(dx);
  }
  tn__program_release(p);
  tn__graph_release(step);
}

/* The value of a state is another one at a second run. */
Test(kept_values, a_state_that_is_read_is_refused) {
  static const char *const keys[] = {"x", "h"};
  tn_graph *step = net_new();
  const tn_entry h = var_node(step, "h"), sum = var_node(step, "sum");
  const tn_entry y = OP(step, "track", NULL, "y", h, sum);
  HEADS(step, OP(step, "mul", NULL, NULL, OP(step, "mul", NULL, NULL, y, sum),
                 var_node(step, "x")));
  const tn_entry in[] = {typed_var(g, "x", F64(2, WIDE)),
                         typed_var(g, "h", F64(WIDE))};
  const tn_entry out = loop_over(g, step, false, 2, keys, in);
  tn_entry slope;
  const tn__gradient_spec spec = {
      .query = {.heads = &out, .of = &in[1], .n_heads = 1, .n_of = 1}};
  FAILS(tn__graph_gradient(g, &spec, &slope), TN_UNSUPPORTED, "node `loop`",
        "the state `sum`", "make it a state of the loop");
  tn__graph_release(step);
}

/* --------------------------------------------------- states without a loop */

static void set_state(const char *name, double value) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_AUXILIARY, name, &array));
  OK(tn__array_set(array, (const double[WIDE]){value, value},
                   WIDE * sizeof(double)));
}

/* x times the state, or times a copy of it; after that a call changes the
 * state. */
static tn_entry product_before(bool of_copy) {
  const tn_entry x = typed_var(g, "x", F64(WIDE)), sum = var_node(g, "sum");
  const tn_entry read = of_copy ? OP(g, "same", NULL, NULL, sum) : sum;
  const tn_entry y = OP(g, "mul", NULL, "y", x, read);
  HEADS(g, y, OP(g, "track", NULL, "t", typed_var(g, "h", F64(WIDE)), sum));
  return y;
}

/* Gradients follow all calls that change a state. */
Test(kept_values, a_gradient_that_wants_an_old_state_is_refused) {
  (void)product_before(false);
  const tn_bind how = {.struct_size = sizeof how, .request = TN_REQ_WRITE};
  FAILS(tn__program_bind(g, &how, &p), TN_UNSUPPORTED, "the gradient of `y`",
        "the state `sum`", "`t` changes later", "a copy of the state");
}

Test(kept_values, a_gradient_reads_a_copy_of_an_old_state) {
  (void)product_before(true);
  bind_graph(TN_REQ_WRITE);
  fill_argument("x", 1), fill_argument("h", 2), set_state("sum", 5);
  train_program();
  double *dx = slope_of("x");
  for (int i = 0; i < WIDE; ++i) is_near(dx[i], 5, "dx");
  free(dx);
  tn__program_release(p);
}

Test(kept_values, a_gradient_reads_a_state_that_changed_before) {
  const tn_entry x = typed_var(g, "x", F64(WIDE)), sum = var_node(g, "sum");
  const tn_entry t =
      OP(g, "track", NULL, "t", typed_var(g, "h", F64(WIDE)), sum);
  HEADS(g, OP(g, "mul", NULL, "y", x, sum), t);
  bind_graph(TN_REQ_WRITE);
  fill_argument("x", 1), fill_argument("h", 2), set_state("sum", 5);
  train_program();
  double *dx = slope_of("x");
  for (int i = 0; i < WIDE; ++i) is_near(dx[i], 7 + 0.25 * i, "dx");
  free(dx);
  tn__program_release(p);
}

/* A reader of a state is not computed again after the state has changed. */
Test(kept_values, little_memory_does_not_change_the_states_that_are_read) {
  enum { DEEP = 6 };
  const tn_entry x = typed_var(g, "x", F64(WIDE)), sum = var_node(g, "sum");
  tn_entry y = OP(g, "add", NULL, NULL, x, sum);
  y = OP(g, "square", NULL, NULL, y);
  for (int i = 0; i < DEEP; ++i) y = OP(g, "tanh", NULL, NULL, y);
  HEADS(g, y, OP(g, "track", NULL, "t", typed_var(g, "h", F64(WIDE)), sum));
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = TN_BIND_NO_FUSE,
                       .request = TN_REQ_WRITE,
                       .memory = TN_MEMORY_MINIMAL};
  OK(tn__program_bind(g, &how, &p));
  fill_argument("x", 0.5), fill_argument("h", 2), set_state("sum", 0.25);
  train_program();
  double *dx = slope_of("x");
  for (int i = 0; i < WIDE; ++i) {
    double v = 0.75 + 0.25 * i, slope = 2 * v;
    v *= v;
    for (int k = 0; k < DEEP; ++k) v = tanh(v), slope *= 1 - v * v;
    is_near(dx[i], slope, "dx");
  }
  free(dx);
  tn__program_release(p);
}

/* Random numbers are not drawn again either: out = x f1 f2 ... v^(2 DEEP). The
 * factors are not visible, so both gradients follow from out itself. */
Test(kept_values, little_memory_does_not_draw_again) {
  enum { DEEP = 6 };
  const tn_entry x = typed_var(g, "x", F64(WIDE)),
                 v = typed_var(g, "v", F64(WIDE));
  tn_entry y = x;
  for (int i = 0; i < DEEP; ++i) {
    y = OP(g, "mul", NULL, NULL, OP(g, "noise", NULL, NULL, y), v);
    y = OP(g, "mul", NULL, NULL, y, v);
  }
  HEADS(g, y, OP(g, "same", NULL, NULL, x));
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .memory = TN_MEMORY_MINIMAL};
  OK(tn__program_bind(g, &how, &p));
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  cr_assert_gt(stats.repeated, 0);
  fill_argument("x", 0.5), fill_argument("v", 1.25);
  for (int run = 0; run < 2; ++run) {
    train_program();
    double *out = output_values(0), *dx = slope_of("x"), *dv = slope_of("v");
    for (int i = 0; i < WIDE; ++i) {
      is_near(dx[i], out[i] / (0.5 + 0.25 * i), "dx");
      is_near(dv[i], 2 * DEEP * out[i] / (1.25 + 0.25 * i), "dv");
    }
    free(out), free(dx), free(dv);
  }
  tn__program_release(p);
}

/* A loop that draws is not run again either: for x of zeros, out = (h f1 f2
 * ...)^2. Its kept outputs are most of the memory while the other head is
 * computed. */
Test(kept_values, little_memory_does_not_loop_again) {
  enum { STEPS = 64, DEEP = 6 };
  static const char *const keys[] = {"x", "h"};
  tn_graph *step = noisy_step();
  const tn_entry x = typed_var(g, "x", F64(STEPS, WIDE));
  const tn_entry last = loop_over(
      g, step, false, 2, keys, (tn_entry[]){x, typed_var(g, "h", F64(WIDE))});
  const tn_entry out = OP(g, "square", NULL, NULL, last);
  tn_entry y = OP(g, "plus_all", NULL, NULL, x, out);
  for (int i = 0; i < DEEP; ++i) y = OP(g, "tanh", NULL, NULL, y);
  HEADS(g, out, y);
  const tn_bind how = {.struct_size = sizeof how,
                       .request = TN_REQ_WRITE,
                       .memory = TN_MEMORY_MINIMAL};
  OK(tn__program_bind(g, &how, &p));
  fill_argument("h", 2); /* x is made of zeros */
  train_program();
  double *square = output_values(0), *dh = slope_of("h");
  for (int i = 0; i < WIDE; ++i)
    is_near(dh[i], 2 * square[i] / (2 + 0.25 * i), "dh");
  free(square), free(dh);
  tn__program_release(p);
  tn__graph_release(step);
}

/* ---------------------------------------------------------------------- files
 */

static char *json_of(const tn_graph *graph) {
  tn_text *text = NULL;
  OK(tn__graph_json(graph, false, &text));
  char *copy = strdup(tn_text_get(text));
  tn_text_release(text);
  return copy;
}

static void kept_graph(void) {
  static const char *const keys[] = {"x", "h"};
  tn_graph *step = noisy_step();
  const tn_entry in[] = {typed_var(g, "x", F64(2, WIDE)),
                         typed_var(g, "h", F64(WIDE))};
  const tn_entry out = loop_over(g, step, false, 2, keys, in);
  tn_entry slopes[2];
  const tn__gradient_spec spec = {
      .query = {.heads = &out, .of = in, .n_heads = 1, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, slopes));
  HEADS(g, slopes[0], slopes[1]);
  tn__graph_release(step);
}

Test(kept_values, files_contain_the_kept_entries) {
  tn_graph *again = NULL;
  kept_graph();
  char *first = json_of(g);
  cr_assert_not_null(strstr(first, "\"kept\": [[1, 0], [1, 1]]"), "%s", first);
  OK(tn__graph_parse(&w.caller, first, strlen(first), &again));
  char *second = json_of(again);
  cr_assert_str_eq(first, second);
  tn__graph_release(again);
  free(first), free(second);
}

/* Replaces `from` by `to`, which has the same length; reading must fail. */
static void file_is_refused(const char *from, const char *to,
                            const char *what) {
  tn_graph *none = NULL;
  char *text = json_of(g);
  char *at = strstr(text, from);
  cr_assert_not_null(at);
  cr_assert_eq(strlen(from), strlen(to));
  memcpy(at, to, strlen(to));
  FAILS(tn__graph_parse(&w.caller, text, strlen(text), &none), TN_INVALID,
        what);
  cr_assert_null(none);
  free(text);
}

Test(kept_values, files_cannot_keep_missing_entries) {
  kept_graph();
  file_is_refused("\"kept\": [[1, 0]", "\"kept\": [[9, 0]",
                  "a kept entry of a step is output 0 of node 9");
  file_is_refused("\"kept\": [[1, 0]", "\"kept\": [[1, 7]",
                  "a kept entry of a step is output 7 of node `noise`");
  file_is_refused("\"kept\": [[1, 0], [1, 1]]", "\"kept\": [[1, 0]        ]",
                  "an output of node 2");
}
