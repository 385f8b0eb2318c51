/* SPDX-License-Identifier: Apache-2.0
 * Memory that a program reuses while others need it: heads that overwrite
 * arguments, gradients with request ADD, and results of which a reader needs
 * nothing, or only the shape.
 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "program_fixture.h"

enum { ROWS = 64, COLUMNS = 64, MANY = ROWS * COLUMNS, ROUNDS = 2 };

static void open_net(void) {
  net_open_on(2);
}

static void close_net(void) {
  drop_arrays();
  net_close();
}

TestSuite(overwritten, .init = open_net, .fini = close_net);

static tn_entry node_of(uint32_t kind, uint32_t n, const tn_entry *in) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = kind,
                              .n_in = n,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "node",
                              .in = in};
  OK(tn__node_add(g, &spec, &node));
  return (tn_entry){node->id, 0};
}

static void add_gradients(tn_entry of, size_t n, const tn_entry *by,
                          tn_entry *out) {
  const tn__gradient_spec spec = {
      .query = {.heads = &of, .of = by, .n_heads = 1, .n_of = n}};
  OK(tn__graph_gradient(g, &spec, out));
}

static tn_program *bind_to(uint32_t flags, size_t n, tn_array *const *outputs) {
  return BIND(.flags = flags, .n_outputs = n, .outputs = outputs);
}

/* Element i of a head is want(x, i), for the numbers of the argument. */
static void head_is(const tn_program *p, size_t head,
                    double (*want)(double x, int64_t i)) {
  double *all = elements_of(head_of(p, head));
  for (size_t i = 0; i < n_elements(head_of(p, head)); ++i) {
    const double expected = want(number_at((int64_t)i), (int64_t)i);
    cr_assert_float_eq(all[i], expected, 1e-9, "head %zu, element %zu: %g, %g",
                       head, i, all[i], expected);
  }
  free(all);
}

/* ------------------------------------------------------------ partial reads */

static double s_of(double x) {
  return x * x;
}

static double q_of(double x, int64_t i) {
  (void)i;
  return (s_of(x) + x) * s_of(x);
}

static double slope_by_v(double x, int64_t i) {
  (void)i;
  return s_of(x);
}

/* q = (s + v)*s with s = w*w. One call makes both gradients and reads q's
 * factors; for the gradient that is a head it needs only s. */
Test(overwritten, entries_that_one_gradient_does_not_need_are_made_for_others) {
  tn_entry slope[2];
  give_array("v", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  give_array("w", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry by[] = {var_node(g, "v"), var_node(g, "w")};
  const tn_entry s = OP(g, "square", NULL, NULL, by[1]);
  const tn_entry q =
      OP(g, "mul", NULL, NULL, OP(g, "add", NULL, NULL, s, by[0]), s);
  add_gradients(q, 2, by, slope);
  HEADS(g, q, slope[0]);
  for (uint32_t flags = 0; flags <= TN_BIND_NO_FUSE; flags += TN_BIND_NO_FUSE) {
    tn_program *p = BIND(.flags = flags);
    OK(tn__program_forward(p, 0));
    head_is(p, 0, q_of);
    head_is(p, 1, slope_by_v);
    tn__program_release(p);
  }
}

static double times_six(double x, int64_t i) {
  (void)i;
  return 6 * x;
}

/* The second derivative of x*x*x reads only the shape of the first one, which
 * is a sum. */
Test(overwritten, a_sum_of_which_only_the_shape_is_read_is_not_made) {
  tn_entry first, second;
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry x = var_node(g, "x");
  const tn_entry y = OP(g, "mul", NULL, NULL, x, x);
  add_gradients(OP(g, "mul", NULL, NULL, y, x), 1, &x, &first);
  add_gradients(first, 1, &x, &second);
  HEADS(g, second);
  tn_program *p = BIND(0);
  OK(tn__program_forward(p, 0));
  head_is(p, 0, times_six);
  tn__program_release(p);
}

/* -------------------------------------------- gradients that are added to
 */

/* Element i is the number of runs times the weight times the head, and `by`. */
static void adds_up(const tn_program *p, const char *name,
                    double (*by)(double x, int64_t i)) {
  double *all = elements_of(slope_of(p, name)),
         *out = elements_of(head_of(p, 0));
  for (int64_t i = 0; i < MANY; ++i) {
    const double x = number_at(i), want = ROUNDS * x * out[i] * by(x, i);
    cr_assert_float_eq(all[i], want, 1e-9 * (1 + out[i]), "%s: %g, %g", name,
                       all[i], want);
  }
  free(all), free(out);
}

static double just_one(double x, int64_t i) {
  (void)x, (void)i;
  return 1;
}

static double times_two(double x, int64_t i) {
  (void)i;
  return 2 * x;
}

/* exp(x*x + v): the gradient of v is that of the sum, and the gradient of x
 * reads it. */
Test(overwritten, a_gradient_that_others_read_is_not_the_sum_of_all_runs) {
  tn_array *weight = create_filled(TN_F64, SHAPE(ROWS, COLUMNS));
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  give_array("v", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry x = var_node(g, "x"), v = var_node(g, "v");
  const tn_entry terms[] = {OP(g, "square", NULL, NULL, x), v};
  HEADS(g, OP(g, "exp", NULL, NULL, node_of(TN__NODE_SUM, 2, terms)));
  tn_program *p = BIND(.request = TN_REQ_ADD);
  for (int i = 0; i < ROUNDS; ++i) run_training(p, weight);
  adds_up(p, "v", just_one);
  adds_up(p, "x", times_two);
  tn__program_release(p);
  tn__array_release(weight);
}

/* --------------------------------------------------- heads over arguments
 */

/* A view of `of` from element `from` on. */
static tn_array *shifted_view(tn_array *of, int64_t from, int64_t n) {
  const int64_t one = 1;
  const tn__view view = {1, &n, &one, from};
  tn_array *out = NULL;
  OK(tn__array_view(of, &view, &out));
  return out;
}

static void overwrite_shifted(uint32_t flags, int64_t from, int64_t to) {
  enum { N = 40000, BY = 100 };
  tn_array *base = create_filled(TN_F64, SHAPE(N + BY));
  tn_array *out = shifted_view(base, to * BY, N);
  give_array("x", shifted_view(base, from * BY, N));
  const tn_entry x = var_node(g, "x");
  HEADS(g,
        OP(g, "affine", "shift=1", NULL, OP(g, "affine", "scale=2", NULL, x)));
  tn_program *p = bind_to(flags, 1, &out);
  OK(tn__program_forward(p, 0));
  double *all = elements_of(head_of(p, 0));
  for (int64_t i = 0; i < N; ++i)
    cr_assert_eq(all[i], 2 * number_at(i + from * BY) + 1,
                 "from %d to %d: element %d", (int)from, (int)to, (int)i);
  free(all);
  tn__program_release(p);
  tn__array_release(out), tn__array_release(base);
  drop_arrays();
  net_renew();
}

Test(overwritten, a_head_may_overlap_its_own_argument) {
  for (uint32_t flags = 0; flags <= TN_BIND_NO_FUSE; flags += TN_BIND_NO_FUSE) {
    overwrite_shifted(flags, 0, 1);
    overwrite_shifted(flags, 1, 0);
    overwrite_shifted(flags, 0, 0);
  }
}

static tn_array *transposed_view(tn_array *of) {
  const int64_t shape[] = {COLUMNS, ROWS}, strides[] = {1, COLUMNS};
  const tn__view view = {2, shape, strides, 0};
  tn_array *out = NULL;
  OK(tn__array_view(of, &view, &out));
  return out;
}

/* The head of a sum or a copy of a matrix is its own transpose. */
static void overwrite_transposed(uint32_t kind, uint32_t n) {
  tn_array *base = create_filled(TN_F64, SHAPE(ROWS, COLUMNS));
  tn_array *out = transposed_view(base);
  give_array("x", tn__array_retain(base));
  const tn_entry x = var_node(g, "x"), in[] = {x, x};
  HEADS(g, node_of(kind, n, in));
  tn_program *p = bind_to(0, 1, &out);
  OK(tn__program_forward(p, 0));
  double *all = elements_of(head_of(p, 0));
  for (int64_t i = 0; i < MANY; ++i)
    cr_assert_eq(all[i], n * number_at(i), "element %d", (int)i);
  free(all);
  tn__program_release(p);
  tn__array_release(out), tn__array_release(base);
  drop_arrays();
  net_renew();
}

Test(overwritten, a_sum_or_copy_may_overlap_its_terms) {
  overwrite_transposed(TN__NODE_SUM, 2);
  overwrite_transposed(TN__NODE_COPY, 1);
}

static double next_of(double x, int64_t i) {
  (void)i;
  return x + 1;
}

static double same_value(double x, int64_t i) {
  (void)i;
  return x;
}

/* A head without an array of its own has the old value of the argument. */
Test(overwritten, a_head_that_is_an_argument_has_its_old_value) {
  tn_array *array = create_filled(TN_F64, SHAPE(ROWS, COLUMNS));
  give_array("x", tn__array_retain(array));
  const tn_entry x = var_node(g, "x");
  HEADS(g, OP(g, "affine", "shift=1", NULL, x), x);
  tn_program *p = bind_to(0, 1, &array);
  OK(tn__program_forward(p, 0));
  head_is(p, 0, next_of);
  head_is(p, 1, same_value);
  tn__program_release(p);
  tn__array_release(array);
}

static double double_value(double x, int64_t i) {
  (void)i;
  return 2 * x;
}

/* Programs of other shapes also overwrite a weight that a head overwrites. */
Test(overwritten, arguments_stay_so_where_other_shapes_change) {
  tn_array *weight = create_filled(TN_F64, SHAPE(ROWS, COLUMNS));
  tn_program *small = NULL, *none = NULL;
  const tn_known few = {"x", UNTYPED(3, 5)}, other = {"w", UNTYPED(3, 5)};
  give_array("w", tn__array_retain(weight));
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry old = var_node(g, "w");
  HEADS(g, OP(g, "add", NULL, "step", old, old),
        OP(g, "square", NULL, NULL, var_node(g, "x")));
  tn_program *p = bind_to(0, 1, &weight);
  OK(tn__program_reshape(p, &few, 1, &small));
  OK(tn__program_forward(small, 0));
  cr_assert_eq(head_of(small, 0), weight);
  head_is(small, 0, double_value);
  FAILS(tn__program_reshape(p, &other, 1, &none), TN_INVALID, "`step",
        "overwrites an argument");
  cr_assert_null(none);
  tn__program_release(small), tn__program_release(p);
  tn__array_release(weight);
}

/* For any place, and any previous content. */
Test(overwritten, heads_are_zeros_until_a_run) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry square = OP(g, "square", NULL, NULL, var_node(g, "x"));
  HEADS(g, OP(g, "square", NULL, NULL, square), square);
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan)
    for (int again = 0; again < 2; ++again) {
      tn_program *p = BIND(.plan = plan);
      for (size_t i = 0; i < 2; ++i) {
        double *v = elements_of(head_of(p, i));
        for (int k = 0; k < ROWS * COLUMNS; ++k)
          cr_assert_eq(v[k], 0, "plan %u: head %zu", plan, i);
        free(v);
      }
      OK(tn__program_forward(p, 0));
      OK(tn__array_wait(head_of(p, 0), TN__WAIT_WRITERS, TN__FOREVER));
      tn__program_release(p);
    }
}

/* ------------------------------------------------------------- shapes alone */

/* Its sum with `x` is `x`. */
static tn_entry zeros_like(const tn_entry *entry) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_ZERO,
                              .n_in = 1,
                              .n_out = 1,
                              .of = TN_NONE,
                              .stem = "shape",
                              .in = entry};
  OK(tn__node_add(g, &spec, &node));
  return (tn_entry){node->id, 0};
}

static tn_entry sum_of(const char *name, tn_entry a, tn_entry b) {
  tn__node *node = NULL;
  const tn__node_spec spec = {.kind = TN__NODE_SUM,
                              .n_in = 2,
                              .n_out = 1,
                              .of = TN_NONE,
                              .name = name,
                              .stem = name,
                              .in = (const tn_entry[]){a, b}};
  OK(tn__node_add(g, &spec, &node));
  return (tn_entry){node->id, 0};
}

/* Squares of squares, of which only the shape is read. */
Test(overwritten, an_unread_step_reads_nothing) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry x = var_node(g, "x"), one = OP(g, "square", NULL, "one", x),
                 two = OP(g, "square", NULL, "two", one),
                 both = sum_of("both", one, two);
  HEADS(g, OP(g, "add", NULL, NULL, x, zeros_like(&both)));
  for (uint32_t plan = TN_PLAN_DEFAULT; plan <= TN_PLAN_NONE; ++plan) {
    tn_program *p = BIND(.plan = plan);
    OK(tn__program_forward(p, 0));
    same_bits(head_of(p, 0), given[0].array, "x");
    has_text(p, "one  nothing");
    has_text(p, "two  nothing");
    has_text(p, "both  nothing");
    if (plan == TN_PLAN_DEFAULT) /* the zeros */
      cr_assert_leq(stats_of(p).pool_bytes, MANY * sizeof(double));
    tn__program_release(p);
  }
}

/* Whether or not other nodes read the results. */
Test(overwritten, states_change_although_only_shapes_are_read) {
  tn_array *state = NULL;
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry x = var_node(g, "x"),
                 tracked = OP(g, "track", NULL, "tracked", x),
                 square = OP(g, "square", NULL, NULL, tracked),
                 again = OP(g, "square", NULL, NULL, square);
  HEADS(g, OP(g, "add", NULL, NULL, x, zeros_like(&again)));
  tn_program *p = BIND(.plan = TN_PLAN_DEFAULT);
  OK(tn__program_forward(p, 0));
  OK(tn__program_array(p, TN_PROGRAM_AUXILIARY, "tracked_sum", &state));
  same_bits(state, given[0].array, "what is tracked");
  same_bits(head_of(p, 0), given[0].array, "x");
  tn__program_release(p);
}

/* A term of two sums, one of which is not read, is added to the other sum,
 * which is made before or after it, like their first terms. */
Test(overwritten, a_term_of_an_unread_sum_is_added_to_the_other) {
  give_array("x", create_filled(TN_F64, SHAPE(ROWS, COLUMNS)));
  const tn_entry x = var_node(g, "x"), bent = OP(g, "tanh", NULL, NULL, x),
                 twice = OP(g, "add", NULL, NULL, x, x),
                 term = OP(g, "square", NULL, "term", x),
                 read = sum_of("read", twice, term),
                 unread = sum_of("unread", bent, term);
  for (int behind = 0; behind < 2; ++behind) {
    HEADS(
        g,
        OP(g, "mul", NULL, NULL, behind ? twice : bent, behind ? bent : twice),
        OP(g, "mul", NULL, NULL, read, x),
        OP(g, "add", NULL, NULL, x, zeros_like(&unread)));
    tn_program *p = BIND(.flags = TN_BIND_NO_FUSE);
    has_text(p, "unread  nothing");
    has_text(p, " add @");
    OK(tn__program_forward(p, 0));
    double *v = elements_of(head_of(p, 1));
    for (int i = 0; i < MANY; ++i) {
      const double at = number_at(i);
      cr_assert_float_eq(v[i], at * (2 * at + at * at), 1e-12, "%d", i);
    }
    free(v);
    tn__program_release(p);
  }
}
