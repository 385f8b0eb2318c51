/* SPDX-License-Identifier: Apache-2.0
 * Gradients by name: the five cases of Paddle's document about backward nets,
 * with its names of variables and operators, "x@GRAD" for the gradient of x.
 * Closed forms give the expected numbers. They also equal, bit for bit, the
 * gradients of the same entries.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

TestSuite(gradient_names, .init = net_open, .fini = net_close);

/* ------------------------------------------------------------------ helpers */

#define LIST(...) ((const char *const[]){__VA_ARGS__})
#define COUNT(...) (sizeof LIST(__VA_ARGS__) / sizeof(char *))
#define OF(...) .of = LIST(__VA_ARGS__), .n_of = COUNT(__VA_ARGS__)
#define STOP(...) .stop = LIST(__VA_ARGS__), .n_stop = COUNT(__VA_ARGS__)
#define BACKWARD(...) \
  OK(tn__graph_backward(g, &(tn_gradient_names){__VA_ARGS__}))

static tn_entry find_node(const char *name) {
  tn_entry entry;
  OK(tn__graph_find(g, name, &entry));
  return entry;
}

/* The node of a named gradient. */
static const tn__node *source_of(const char *name) {
  const tn__node *node = tn__node_at(g, find_node(name).node);
  cr_assert_eq(node->kind, TN__NODE_COPY);
  cr_assert_str_eq(node->name, name);
  return tn__node_at(g, node->in[0].node);
}

/* The operators of a backward net in their order: "<name>_grad", and sum,
 * fill_zeros_like and fill_constant as in the document. */
static const char *list_operators(const tn_graph *graph, uint32_t from) {
  static const char *const others[] = {[TN__NODE_SUM] = "sum",
                                       [TN__NODE_ZERO] = "fill_zeros_like",
                                       [TN__NODE_ONE] = "fill_constant",
                                       [TN__NODE_GRAPH] = "net",
                                       [TN__NODE_LOOP] = "recurrent"};
  static char text[600];
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t id = from; id < tn__n_nodes(graph); ++id) {
    const tn__node *node = tn__node_at(graph, id);
    const bool gradient = node->kind == TN__NODE_BACKWARD;
    const char *name = node->desc ? node->desc->name : others[node->kind];
    if (node->kind == TN__NODE_COPY || node->kind == TN__NODE_VARIABLE)
      continue;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s", at ? " " : "",
                           name, gradient ? "_grad" : "");
  }
  return text;
}

/* The names of all gradients, in order of nodes. */
static const char *list_gradients(void) {
  static char text[600];
  size_t at = 0;
  text[0] = '\0';
  for (uint32_t id = 0; id < tn__n_nodes(g); ++id)
    if (tn__node_is_variable_gradient(tn__node_at(g, id)))
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? " " : "",
                             tn__node_at(g, id)->name);
  return text;
}

/* ------------------------------------------------------------------- numbers
 */

enum { N = 3, MOST = 8 };

/* Each variable has numbers of its own: 0.5, 0.75, ... by its name's letters.
 */
static tn_array *create_numbers(const char *name, size_t ndim,
                                const int64_t *shape) {
  double v[64];
  for (int i = 0; i < 64; ++i)
    v[i] = 0.25 + (double)((name[0] * 7 + i * 5) % 11) / 8;
  return create_doubles(ndim, shape, v);
}

static tn_array *values[MOST];

/* Computes entries, with numbers of shape (3) for all variables; the caller
 * releases them. */
static void compute_heads(const tn_entry *heads, size_t n) {
  feed feeds[MOST] = {0};
  size_t n_feeds = 0;
  for (uint32_t id = 0; id < tn__n_nodes(g); ++id) {
    const tn__node *node = tn__node_at(g, id);
    if (node->kind != TN__NODE_VARIABLE) continue;
    feeds[n_feeds++] =
        (feed){node->name, create_numbers(node->name, 1, (int64_t[]){N})};
  }
  evaluate_heads(g, feeds, n_feeds, heads, n, values);
  for (size_t i = 0; i < n_feeds; ++i) tn__array_release(feeds[i].array);
}

static double number_of(const char *name, int i) {
  tn_array *array = create_numbers(name, 1, (int64_t[]){N});
  double *all = elements_of(array);
  const double v = all[i];
  free(all);
  tn__array_release(array);
  return v;
}

/* Asserts the gradient with this name: element i is want[i]. */
static void gradient_is(const char *name, const double *want) {
  const tn_entry entry = find_node(name);
  compute_heads(&entry, 1);
  double *have = elements_of(values[0]);
  for (int i = 0; i < N; ++i)
    cr_expect(fabs(have[i] - want[i]) < 1e-12, "%s[%d] is %.17g, not %.17g",
              name, i, have[i], want[i]);
  free(have);
  tn__array_release(values[0]);
}

/* Gradients by entries give the same numbers. `of` are the entries of the
 * names. */
static void check_entries(const char *const *names, size_t n) {
  tn_entry weights[4], of[4], both[2 * 4];
  for (size_t i = 0; i < g->n_heads; ++i) {
    char name[TN__ENTRY_TEXT + 8], text[TN__ENTRY_TEXT];
    (void)snprintf(name, sizeof name, "%s@GRAD",
                   tn__entry_text(g, g->heads[i], text));
    weights[i] = TN_ENTRY_NONE;
    (void)!tn__graph_find(g, name, &weights[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    char name[64];
    of[i] = find_node(names[i]);
    (void)snprintf(name, sizeof name, "%s@GRAD", names[i]);
    both[i] = find_node(name);
  }
  const tn__gradient_spec spec = {.query = {.heads = g->heads,
                                            .weights = weights,
                                            .of = of,
                                            .n_heads = g->n_heads,
                                            .n_of = n}};
  OK(tn__graph_gradient(g, &spec, both + n));
  compute_heads(both, 2 * n);
  for (size_t i = 0; i < n; ++i) {
    double *a = elements_of(values[i]), *b = elements_of(values[n + i]);
    cr_expect_eq(memcmp(a, b, n_elements(values[i]) * sizeof *a), 0,
                 "the gradients of %s differ", names[i]);
    free(a), free(b);
  }
  for (size_t i = 0; i < 2 * n; ++i) tn__array_release(values[i]);
}
#define AGREES(...) check_entries(LIST(__VA_ARGS__), COUNT(__VA_ARGS__))

/* --------------------------------------------------------- case 1: an operator
 */

Test(gradient_names, of_an_operator_is_its_gradient_operator) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry m = OP(g, "product", "alpha=2", "m", x, y);
  const tn_entry out = OP(g, "mul", NULL, "out", m, y);
  HEADS(g, out);
  var_node(g, "out_output@GRAD");
  const tn__node forward = *tn__node_at(g, out.node);
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(OF("m_output", "y"), STOP("m_output"));
  cr_expect_str_eq(list_operators(g, n), "mul_grad");
  cr_expect_str_eq(list_gradients(), "m_output@GRAD y@GRAD");
  /* Inputs of mul_grad: the gradient of its output, and the operands of mul. */
  const tn__node *back = source_of("y@GRAD");
  cr_expect_eq(back->of, out.node);
  cr_expect(tn__entry_is_same(back->in[0], find_node("out_output@GRAD")));
  cr_expect(tn__entry_is_same(back->in[1], m));
  cr_expect(tn__entry_is_same(back->in[2], y));
  cr_expect(tn__entry_is_none(back->in[3]), "out itself is not read");
  cr_expect_eq(memcmp(&forward, tn__node_at(g, out.node), sizeof forward), 0);
}

Test(gradient_names, of_an_operator_is_nothing_if_its_outputs_have_none) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  HEADS(g, OP(g, "mul", NULL, "out", x, y));
  const uint32_t n = tn__n_nodes(g);
  tn_entry entry;
  BACKWARD(STOP("out_output"));
  cr_expect_eq(tn__n_nodes(g), n);
  cr_expect_eq(tn__graph_find(g, "x@GRAD", &entry), TN_NOT_FOUND);
}

Test(gradient_names, of_an_operator_is_nothing_if_its_inputs_want_none) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  HEADS(g, OP(g, "mul", NULL, "out", x, y));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(.of = LIST(NULL), .n_of = 0);
  cr_expect_eq(tn__n_nodes(g), n);
}

/* --------------------------------------------------------------- case 2: a net
 */

/* act(add(mul(x, w), b)), in `net`. */
static tn_entry fc_layer(tn_graph *net, const char *name, tn_entry x,
                         tn_entry w_, tn_entry b) {
  char act[32];
  (void)snprintf(act, sizeof act, "%s_act", name);
  return OP(net, "sigmoid", NULL, act,
            OP(net, "add", NULL, NULL, OP(net, "mul", NULL, NULL, x, w_), b));
}

Test(gradient_names, of_a_net_is_the_net_of_gradients_in_reverse) {
  HEADS(g, fc_layer(g, "fc", var_node(g, "x"), var_node(g, "w"),
                    var_node(g, "b")));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(.of = NULL);
  cr_expect_str_eq(list_operators(g, n),
                   "fill_constant sigmoid_grad add_grad mul_grad");
  cr_expect_str_eq(list_gradients(), "x@GRAD w@GRAD b@GRAD");
  double want[N];
  for (int i = 0; i < N; ++i) {
    const double s =
        1 /
        (1 + exp(-(number_of("x", i) * number_of("w", i) + number_of("b", i))));
    want[i] = s * (1 - s) * number_of("x", i);
  }
  gradient_is("w@GRAD", want);
  AGREES("x", "w", "b");
}

Test(gradient_names, of_a_net_goes_no_further_than_requested) {
  const tn_entry hidden =
      fc_layer(g, "one", var_node(g, "x"), var_node(g, "w"), var_node(g, "b"));
  HEADS(g, fc_layer(g, "two", hidden, var_node(g, "v"), var_node(g, "c")));
  const uint32_t n = tn__n_nodes(g);
  tn_entry entry;
  BACKWARD(STOP("one_act_output"));
  cr_expect_str_eq(list_operators(g, n),
                   "fill_constant sigmoid_grad add_grad mul_grad");
  cr_expect_str_eq(list_gradients(), "v@GRAD c@GRAD");
  cr_expect_eq(tn__graph_find(g, "x@GRAD", &entry), TN_NOT_FOUND);
}

Test(gradient_names, of_a_net_in_a_net_is_a_net_in_a_net) {
  tn_graph *net = net_new();
  HEADS(net, fc_layer(net, "in", var_node(net, "x"), var_node(net, "w"),
                      var_node(net, "b")));
  tn_entry inner;
  const tn_entry x = var_node(g, "x");
  const tn_embedding what = {.struct_size = sizeof what,
                             .n_in = 1,
                             .inner = net,
                             .name = "net",
                             .in = &x,
                             .keys = LIST("x")};
  OK(tn__graph_embed(g, &what, &inner));
  HEADS(g, OP(g, "mul", NULL, "out", inner, x));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(.of = NULL);
  cr_expect_str_eq(list_operators(g, n), "fill_constant mul_grad net sum");
  cr_expect_str_eq(list_gradients(), "x@GRAD net_w@GRAD net_b@GRAD");
  const tn_graph *back = source_of("net_w@GRAD")->inner;
  cr_expect_not_null(
      strstr(list_operators(back, 0), "sigmoid_grad add_grad mul_grad"), "%s",
      list_operators(back, 0));
  tn__graph_release(net);
}

/* ------------------------------------------------------- case 3: a step net
 */

/* h = tanh(x * w + h): each step reads w. */
static tn_graph *step_net(void) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h"),
                 w_ = var_node(s, "w");
  HEADS(s, OP(s, "tanh", NULL, "next",
              OP(s, "add", NULL, NULL, OP(s, "mul", NULL, NULL, x, w_), h)));
  return s;
}

Test(gradient_names, of_a_recurrent_net_is_one_over_the_steps_gradients) {
  tn_graph *s = step_net();
  tn_entry out;
  const tn_entry in[] = {var_node(g, "x"), var_node(g, "h"), var_node(g, "w")};
  const tn_loop what = {.struct_size = sizeof what,
                        .n_in = 3,
                        .step = s,
                        .name = "rnn",
                        .sequences = LIST("x"),
                        .states = LIST("h"),
                        .n_sequences = 1,
                        .n_states = 1,
                        .in = in,
                        .keys = LIST("x", "h", "w")};
  OK(tn__graph_loop(g, &what, &out));
  HEADS(g, out);
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(OF("w", "h"));
  cr_expect_str_eq(list_gradients(), "w@GRAD h@GRAD");
  const tn__node *back = NULL;
  for (uint32_t id = n; id < tn__n_nodes(g); ++id)
    if (tn__node_at(g, id)->kind == TN__NODE_LOOP) back = tn__node_at(g, id);
  cr_assert_not_null(back, "%s", list_operators(g, n));
  cr_expect_eq(back->loop->reverse, 1);
  cr_expect_not_null(
      strstr(list_operators(back->inner, 0), "tanh_grad add_grad"));
  /* Two steps of three numbers: h2 = tanh(x2*w + tanh(x1*w + h)). */
  tn_array *x = create_numbers("x", 2, (int64_t[]){2, N});
  const feed feeds[] = {{"x", x},
                        {"h", create_numbers("h", 1, (int64_t[]){N})},
                        {"w", create_numbers("w", 1, (int64_t[]){N})}};
  const tn_entry heads[] = {find_node("w@GRAD"), find_node("h@GRAD")};
  evaluate_heads(g, feeds, 3, heads, 2, values);
  double *xs = elements_of(x), *dw = elements_of(values[0]),
         *dh = elements_of(values[1]);
  for (int i = 0; i < N; ++i) {
    const double v = number_of("w", i);
    const double h1 = tanh(xs[i] * v + number_of("h", i));
    const double h2 = tanh(xs[N + i] * v + h1);
    const double d2 = 1 - h2 * h2, d1 = d2 * (1 - h1 * h1);
    cr_expect_float_eq(dw[i], d2 * xs[N + i] + d1 * xs[i], 1e-12);
    cr_expect_float_eq(dh[i], d1, 1e-12);
  }
  free(xs), free(dw), free(dh);
  for (int i = 0; i < 3; ++i) tn__array_release(feeds[i].array);
  for (int i = 0; i < 2; ++i) tn__array_release(values[i]);
  tn__graph_release(s);
}

/* ----------------------------------------------------- case 4: shared
 * variables
 */

Test(gradient_names, of_a_variable_used_twice_is_a_sum_of_two) {
  const tn_entry x = var_node(g, "x"), w_ = var_node(g, "w");
  const tn_entry one = OP(g, "mul", NULL, "one", x, w_);
  HEADS(g, OP(g, "mul", NULL, "two", one, w_));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(OF("w"));
  cr_expect_str_eq(list_operators(g, n), "fill_constant mul_grad mul_grad sum");
  cr_expect_eq(source_of("w@GRAD")->n_in, 2);
  double want[N];
  for (int i = 0; i < N; ++i)
    want[i] = 2 * number_of("x", i) * number_of("w", i);
  gradient_is("w@GRAD", want);
  AGREES("w");
}

Test(gradient_names, of_a_variable_used_three_times_is_a_sum_of_three) {
  const tn_entry w_ = var_node(g, "w");
  tn_entry y = var_node(g, "x");
  for (int i = 0; i < 3; ++i) y = OP(g, "mul", NULL, NULL, y, w_);
  HEADS(g, y);
  BACKWARD(OF("w"));
  cr_expect_eq(source_of("w@GRAD")->kind, TN__NODE_SUM);
  cr_expect_eq(source_of("w@GRAD")->n_in, 3);
  AGREES("w");
}

/* Gradients that are not computed are not summed. */
Test(gradient_names, of_a_variable_sums_only_computed_gradients) {
  const tn_entry x = var_node(g, "x"), w_ = var_node(g, "w");
  const tn_entry one = OP(g, "mul", NULL, "one", x, w_);
  HEADS(g, OP(g, "mul", NULL, "two", one, w_));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(OF("w"), STOP("one_output"));
  cr_expect_str_eq(list_operators(g, n), "fill_constant mul_grad");
}

/* -------------------------------------------------- case 5: a part has none
 */

Test(gradient_names, of_an_unused_part_is_filled_with_zeros) {
  const tn_entry x = var_node(g, "x"), y = var_node(g, "y");
  const tn_entry p = OP(g, "pair", NULL, "p", x, y);
  HEADS(g, output_of(p, 1));
  const uint32_t n = tn__n_nodes(g);
  BACKWARD(OF("x"));
  cr_expect_str_eq(list_operators(g, n),
                   "fill_constant fill_zeros_like pair_grad");
  const tn__node *back = source_of("x@GRAD");
  const tn__node *zero = tn__node_at(g, back->in[0].node);
  cr_expect_eq(zero->kind, TN__NODE_ZERO);
  cr_expect(tn__entry_is_same(zero->in[0], find_node("p_product")));
  gradient_is("x@GRAD", (double[]){1, 1, 1}); /* x + y */
  AGREES("x");
}

/* ------------------------------------------------------------ the beginning
 */

/* A target without output gradient begins with ones, as in AppendBackward. */
Test(gradient_names, of_a_target_begins_with_ones_or_a_passed_gradient) {
  const tn_entry x = var_node(g, "x");
  HEADS(g, OP(g, "square", NULL, "loss", x));
  double want[N];
  for (int i = 0; i < N; ++i) want[i] = 2 * number_of("x", i);
  BACKWARD(.of = NULL);
  gradient_is("x@GRAD", want);
  net_renew();
  HEADS(g, OP(g, "square", NULL, "loss", var_node(g, "x")));
  var_node(g, "loss_output@GRAD");
  BACKWARD(.of = NULL);
  for (int i = 0; i < N; ++i) want[i] *= number_of("loss", i);
  gradient_is("x@GRAD", want);
  AGREES("x");
}

/* ------------------------------------------------------------- names, mistakes
 */

Test(gradient_names, are_found_in_files_and_programs) {
  tn_graph *read = NULL;
  tn_text *text = NULL;
  tn_program *p = NULL;
  tn_array *slope = NULL;
  tn_entry entry;
  HEADS(g, OP(g, "square", NULL, "loss", var_node(g, "x")));
  BACKWARD(.of = NULL);
  HEADS(g, find_node("loss_output"), find_node("x@GRAD"));
  OK(tn__graph_json(g, false, &text));
  OK(tn__graph_parse(&w.caller, tn_text_get(text), strlen(tn_text_get(text)),
                     &read));
  OK(tn__graph_find(read, "x@GRAD", &entry));
  const tn_argument given = {.name = "x",
                             .array = create_numbers("x", 1, (int64_t[]){N})};
  const tn_bind how = {
      .struct_size = sizeof how, .arguments = &given, .n_arguments = 1};
  OK(tn__program_bind(read, &how, &p));
  OK(tn__program_forward(p, 0));
  OK(tn__program_array(p, TN_PROGRAM_OUTPUT, "x@GRAD", &slope));
  double *have = elements_of(slope);
  for (int i = 0; i < N; ++i) cr_expect_eq(have[i], 2 * number_of("x", i));
  free(have);
  tn__array_release(given.array);
  tn__program_release(p);
  tn_text_release(text);
  tn__graph_release(read);
}

#define REFUSED(code, part, ...)                                            \
  do {                                                                      \
    const uint32_t n_ = tn__n_nodes(g);                                     \
    FAILS(tn__graph_backward(g, &(tn_gradient_names){__VA_ARGS__}), (code), \
          (part));                                                          \
    cr_assert_eq(tn__n_nodes(g), n_);                                       \
  } while (0)

Test(gradient_names, of_missing_names_are_refused) {
  const tn_entry x = var_node(g, "x");
  var_node(g, "apart");
  HEADS(g, OP(g, "mul", NULL, "m", x,
              OP(g, "rough", NULL, "r", var_node(g, "z"))));
  REFUSED(TN_NOT_FOUND, "no variable `y`", OF("y"));
  REFUSED(TN_NOT_FOUND, "no variable `q_output`", OF("x"), STOP("q_output"));
  REFUSED(TN_INVALID, "with respect to `apart`", OF("apart"));
  REFUSED(TN_UNSUPPORTED, "`r`", .of = NULL);
  BACKWARD(OF("x"));
  REFUSED(TN_EXISTS, "a node named `x@GRAD` already", OF("x"));
}

Test(gradient_names, survive_each_failing_allocation) {
  HEADS(g, fc_layer(g, "fc", var_node(g, "x"), var_node(g, "w"),
                    var_node(g, "b")));
  const uint32_t n = tn__n_nodes(g);
  int64_t struck = 0;
  for (int64_t i = 1;; ++i, ++struck) {
    w.memory.asked = 0;
    w.memory.fail_at = i;
    const tn_code rc = tn__graph_backward(g, &(tn_gradient_names){.of = NULL});
    w.memory.fail_at = 0;
    if (rc == TN_OK) break;
    cr_assert_eq(rc, TN_OUT_OF_MEMORY, "%s", tn_error_text());
    cr_assert_eq(tn__n_nodes(g), n);
  }
  cr_assert_gt(struck, 20);
}
