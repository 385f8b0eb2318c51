/* SPDX-License-Identifier: Apache-2.0
 * Random graphs as programs: for any engine, memory plan, fusion and placement,
 * outputs and gradients equal those of the same graph computed node by node
 * (evaluate.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static uint64_t state;

static void open_with(const tn__engine_options *options) {
  world_cpus = 3;
  net_open_with(options);
  OK(tn__plugin_load(w.registry, TENSOR_FILE));
}

static uint32_t random_below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

static tn_array *random_array(size_t ndim, const int64_t *shape) {
  int64_t n = 1;
  for (size_t i = 0; i < ndim; ++i) n *= shape[i];
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  for (int64_t i = 0; i < n; ++i)
    v[i] = ((double)random_below(2001) - 1000) / 1000;
  tn_array *array = create_doubles(ndim, shape, v);
  free(v);
  return array;
}

/* -------------------------------------------------------------- random graphs
 */

/* The variables; those from N_WHOLE on have a row or a column. */
enum { N_WHOLE = 3, N_VARIABLES = 5, MOST_NODES = 40, MOST_SMOOTH = 14 };

static const char *const names[N_VARIABLES] = {"x", "y", "z", "row", "column"};

static tn_entry narrow[N_VARIABLES - N_WHOLE];
static bool smooth;       /* graphs that contain gradients */
static uint32_t n_slopes; /* number in this graph: 0 or 1 */

/* A part of the sum over columns, and `b` a second time. */
static tn_entry sum_beside(tn_entry a, tn_entry b) {
  tn_entry sum;
  const tn_graph_node node = {.struct_size = sizeof node,
                              .n_in = 1,
                              .op = "tensor.sum",
                              .params = "axis=[1] keepdims=true",
                              .in = &a};
  OK(tn__graph_call(g, &node, &sum));
  return OP(g, "plus_all", NULL, NULL, b,
            OP(g, "affine", "scale=0.015625", NULL, sum));
}

/* One of two requested gradients. A node that reads the other one exists, and
 * needs fewer operands than it could. */
static tn_entry random_slope(const tn_entry *all, uint32_t n) {
  tn_entry slopes[2];
  const uint32_t first = random_below(N_WHOLE);
  const tn_entry by[] = {all[first], all[(first + 1) % N_WHOLE]};
  const tn_entry head = OP(g, "mul", NULL, NULL, all[n - 1],
                           OP(g, "mul", NULL, NULL, by[0], by[1]));
  const tn__gradient_spec spec = {
      .query = {.heads = &head, .of = by, .n_heads = 1, .n_of = 2}};
  OK(tn__graph_gradient(g, &spec, slopes));
  return slopes[random_below(2)];
}

/* Operators that can be differentiated twice; programs do it once. */
static tn_entry smooth_node(const tn_entry *all, uint32_t n) {
  static const char *const binary[] = {"add", "sub", "mul", "tame"};
  static const char *const unary[] = {"tanh", "sigmoid", "square", "seen"};
  const tn_entry a = all[random_below(n)], b = all[n - 1 - random_below(2)];
  if (n_slopes == 0 && n > N_WHOLE + 2 && random_below(3) == 0) {
    ++n_slopes;
    return random_slope(all, n);
  }
  switch (random_below(6)) {
    case 0:
      return OP(g, unary[random_below(4)], NULL, NULL, a);
    case 1:
      return OP(g, "plus_all", NULL, NULL, b, narrow[random_below(2)]);
    default:
      return OP(g, binary[random_below(4)], NULL, NULL, a, b);
  }
}

static tn_entry random_node(const tn_entry *all, uint32_t n) {
  static const char *const binary[] = {"add", "sub", "mul", "tame", "plus"};
  static const char *const unary[] = {"tanh", "sigmoid", "same", "seen"};
  const tn_entry a = all[random_below(n)], b = all[n - 1 - random_below(2)];
  switch (random_below(12)) {
    case 0:
      return OP(g, unary[random_below(4)], NULL, NULL, a);
    case 1:
      return OP(g, "affine", "scale=-0.5 shift=0.25", NULL, a);
    case 2:
      return output_of(OP(g, "pair", NULL, NULL, a, b), random_below(2));
    case 3:
      return OP(g, "product", "alpha=0.5", NULL, a, b);
    case 4:
      return OP(g, "keep", NULL, NULL, a, b);
    case 5:
      return OP(g, "total", NULL, NULL, a, b, a);
    case 6:
      return OP(g, "cut", NULL, NULL, b);
    case 7:
      return OP(g, random_below(2) ? "plus_all" : "times_all", NULL, NULL, b,
                narrow[random_below(2)]);
    case 8:
      return sum_beside(a, b);
    default:
      return OP(g, binary[random_below(5)], NULL, NULL, a, b);
  }
}

/* Half of the nodes have a group. */
static void random_groups(void) {
  static const char *const groups[] = {"", "left", "right"};
  for (uint32_t id = 0; id < tn__n_nodes(g); ++id)
    if (random_below(2))
      OK(tn__attribute_set(g, id, "group", groups[random_below(3)]));
}

/* Heads: the last entry that has all variables, and another one. */
static void random_graph(uint32_t n) {
  tn_entry all[MOST_NODES + N_WHOLE];
  uint32_t k = 0;
  while (k < N_WHOLE) {
    all[k] = var_node(g, names[k]);
    ++k;
  }
  for (int i = 0; i < N_VARIABLES - N_WHOLE; ++i)
    narrow[i] = var_node(g, names[N_WHOLE + i]);
  n_slopes = 0;
  while (k < n + N_WHOLE) {
    all[k] = smooth ? smooth_node(all, k) : random_node(all, k);
    ++k;
  }
  const tn_entry last =
      OP(g, "total", NULL, "last", all[k - 1], all[0], all[1], all[2]);
  HEADS(g,
        OP(g, "plus_all", NULL, NULL,
           OP(g, "times_all", NULL, NULL, last, narrow[0]), narrow[1]),
        all[N_WHOLE + random_below(n)]);
  random_groups();
}

/* ------------------------------------------------------------- expectations */

enum { MOST = 8 };

/* Arrays of a graph, and the expected results. States begin with zeros, and
 * each forward run adds as much to them as the first. */
typedef struct expectation {
  const char *const *names;
  size_t n;
  const char *const *state_names;
  size_t n_states;
  tn_array *states[MOST]; /* after one run */
  tn_array *in[MOST];
  tn_array *slopes[MOST];
  size_t n_heads;
  tn_array *weights[MOST];
  tn_array *out[MOST];
} expectation;

static void expectation_drop(expectation *e) {
  for (size_t i = 0; i < e->n; ++i)
    tn__array_release(e->in[i]), tn__array_release(e->slopes[i]);
  for (size_t i = 0; i < e->n_heads; ++i)
    tn__array_release(e->weights[i]), tn__array_release(e->out[i]);
  for (size_t i = 0; i < e->n_states; ++i) tn__array_release(e->states[i]);
}

static tn_array *zeros_like(const tn_array *array) {
  const tn_tensor *t = &array->tensor;
  double *v = calloc(n_elements(array) + 1, sizeof *v);
  tn_array *zeros = create_doubles((size_t)t->ndim, t->shape, v);
  free(v);
  return zeros;
}

/* Gradients are those of `copy`, which has a gradient after its heads. */
static void expect_slopes(expectation *e, tn_graph *copy, feed *feeds) {
  tn_entry of[MOST], weights[MOST], slopes[MOST];
  for (size_t i = 0; i < e->n; ++i)
    OK(tn__graph_find(copy, e->names[i], &of[i]));
  for (size_t i = 0; i < e->n_heads; ++i) {
    static const char *const heads[] = {"head0", "head1", "head2"};
    const tn_tensor *t = &e->out[i]->tensor;
    e->weights[i] = random_array((size_t)t->ndim, t->shape);
    weights[i] = var_node(copy, heads[i]);
    feeds[e->n + i] = (feed){heads[i], e->weights[i]};
  }
  const tn__gradient_spec spec = {.query = {.heads = copy->heads,
                                            .weights = weights,
                                            .of = of,
                                            .n_heads = e->n_heads,
                                            .n_of = e->n}};
  OK(tn__graph_gradient(copy, &spec, slopes));
  const size_t n = e->n + e->n_heads;
  for (size_t i = 0; i < e->n_states; ++i)
    feeds[n + i] = (feed){e->state_names[i], zeros_like(e->states[i])};
  evaluate_heads(copy, feeds, n + e->n_states, slopes, e->n, e->slopes);
  for (size_t i = 0; i < e->n_states; ++i)
    tn__array_release(feeds[n + i].array);
}

/* Computes the rest from names and arrays. */
static void expect_all(expectation *e) {
  tn_graph *copy = NULL;
  feed feeds[3 * MOST];
  OK(tn__graph_copy(g, &copy));
  for (size_t i = 0; i < e->n; ++i) feeds[i] = (feed){e->names[i], e->in[i]};
  for (size_t i = 0; i < e->n_states; ++i)
    feeds[e->n + i] = (feed){e->state_names[i], e->states[i]};
  e->n_heads = copy->n_heads;
  evaluate_heads(copy, feeds, e->n + e->n_states, copy->heads, e->n_heads,
                 e->out);
  expect_slopes(e, copy, feeds);
  tn__graph_release(copy);
}

static void compare_arrays(tn_array *have, tn_array *want, const char *how,
                           const char *what) {
  double *a = elements_of(have), *b = elements_of(want);
  cr_assert_eq(n_elements(have), n_elements(want));
  double most = 1; /* for sums: parts may be larger than the sum */
  for (size_t i = 0; i < n_elements(have); ++i) most = fmax(most, fabs(b[i]));
  for (size_t i = 0; i < n_elements(have); ++i)
    cr_assert(
        fabs(a[i] - b[i]) <= 1e-12 * most * (n_elements(have) > 9 ? 9 : 1),
        "%s: element %zu of %s is %.17g, not %.17g", how, i, what, a[i], b[i]);
  free(a), free(b);
}

/* ------------------------------------------------------------------- programs
 */

/* The options of a program. */
typedef struct way {
  uint32_t plan;
  uint32_t flags;
  uint64_t memory;
  bool groups;
} way;

static const tn_group groups[] = {{"left", {TN_DEVICE_CPU, 1}},
                                  {"right", {TN_DEVICE_CPU, 2}}};

/* The program decides the device of an argument. */
static void arguments_copy(tn_program *p, const expectation *e) {
  tn_array *array = NULL;
  for (size_t i = 0; i < e->n; ++i) {
    OK(tn__program_array(p, TN_PROGRAM_ARGUMENT, e->names[i], &array));
    OK(tn__array_copy(array, e->in[i]));
  }
}

static tn_program *bind_case(const expectation *e, const way *how) {
  tn_argument arguments[MOST];
  tn_program *p = NULL;
  for (size_t i = 0; i < e->n; ++i) {
    const tn_tensor *t = &e->in[i]->tensor;
    arguments[i] = (tn_argument){.name = e->names[i]};
    if (how->groups)
      arguments[i].known = sig_of(t->dtype, (size_t)t->ndim, t->shape);
    else
      arguments[i].array = e->in[i];
  }
  const tn_bind b = {.struct_size = sizeof b,
                     .flags = how->flags,
                     .plan = how->plan,
                     .request = TN_REQ_WRITE,
                     .arguments = arguments,
                     .n_arguments = e->n,
                     .memory = how->memory,
                     .groups = groups,
                     .n_groups = how->groups ? 2 : 0};
  OK(tn__program_bind(g, &b, &p));
  if (how->groups) arguments_copy(p, e);
  return p;
}

static void compare_program(tn_program *p, const expectation *e,
                            const char *how) {
  tn_array *array = NULL;
  for (size_t i = 0; i < e->n_heads; ++i) {
    OK(tn__program_output(p, i, &array));
    compare_arrays(array, e->out[i], how, i == 0 ? "the first head" : "a head");
  }
  for (size_t i = 0; i < e->n; ++i) {
    OK(tn__program_array(p, TN_PROGRAM_GRADIENT, e->names[i], &array));
    compare_arrays(array, e->slopes[i], how, e->names[i]);
  }
}

static tn_array *state_of(const tn_program *p, const char *name) {
  tn_array *array = NULL;
  OK(tn__program_array(p, TN_PROGRAM_AUXILIARY, name, &array));
  return array;
}

static void states_clear(const tn_program *p, const expectation *e) {
  for (size_t i = 0; i < e->n_states; ++i) {
    tn_array *zeros = zeros_like(e->states[i]);
    OK(tn__array_copy(state_of(p, e->state_names[i]), zeros));
    tn__array_release(zeros);
  }
}

/* A state, after this many runs. */
static void compare_states(const tn_program *p, const expectation *e, int runs,
                           const char *how) {
  for (size_t i = 0; i < e->n_states; ++i) {
    tn_array *want = zeros_like(e->states[i]);
    double *v = elements_of(e->states[i]);
    for (size_t k = 0; k < n_elements(want); ++k) v[k] *= runs;
    OK(tn__array_set(want, v, n_elements(want) * sizeof *v));
    compare_arrays(state_of(p, e->state_names[i]), want, how,
                   e->state_names[i]);
    free(v);
    tn__array_release(want);
  }
}

static uint64_t n_fused; /* calls of all programs so far */

/* Runs twice: state left by the first run must not matter. */
static void run_program(const expectation *e, const way *how) {
  char what[64];
  tn_program *p = bind_case(e, how);
  (void)snprintf(what, sizeof what, "plan %u, flags %u, memory %llu%s",
                 how->plan, how->flags, (unsigned long long)how->memory,
                 how->groups ? ", groups" : "");
  states_clear(p, e);
  for (int i = 0; i < 2; ++i) {
    OK(tn__program_forward(p, TN_CALL_TRAIN));
    OK(tn__program_backward(p, (tn_array **)(uintptr_t)e->weights, e->n_heads));
    compare_program(p, e, what);
    compare_states(p, e, i + 1, what);
  }
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  n_fused += stats.n_fused;
  tn__program_release(p);
}

static const way ways[] = {
    {TN_PLAN_NONE, TN_BIND_NO_FUSE, 0, false},
    {TN_PLAN_NONE, 0, 0, false},
    {TN_PLAN_DEFAULT, TN_BIND_NO_FUSE, 0, false},
    {TN_PLAN_DEFAULT, 0, 0, false},
    {TN_PLAN_DEFAULT, TN_BIND_NO_FUSE, TN_MEMORY_MINIMAL, false},
    {TN_PLAN_DEFAULT, 0, TN_MEMORY_MINIMAL, false},
    {TN_PLAN_NONE, 0, 0, true},
    {TN_PLAN_DEFAULT, 0, 0, true},
    {TN_PLAN_DEFAULT, TN_BIND_NO_FUSE, 0, true},
    {TN_PLAN_DEFAULT, 0, TN_MEMORY_MINIMAL, true}};

static uint64_t pool_of(const expectation *e, const way *how) {
  tn_program *p = bind_case(e, how);
  tn_program_stats stats = {.struct_size = sizeof stats};
  tn__program_stats(p, &stats);
  tn__program_release(p);
  return stats.pool_bytes;
}

/* The minimal memory, as a number, is a sufficient budget, and so are numbers
 * up to the full memory: fused or not. */
static void run_budgets(const expectation *e, uint32_t plan) {
  way how = {plan, 0, 0, false};
  const uint64_t all = pool_of(e, &how);
  how.memory = TN_MEMORY_MINIMAL;
  const uint64_t least = pool_of(e, &how);
  for (int k = 0; k < 2 && least < all; ++k) {
    how.memory = least + (k ? random_below((uint32_t)(all - least)) : 0);
    cr_assert_leq(pool_of(e, &how), how.memory);
    run_program(e, &how);
  }
}

static void run_all(expectation *e) {
  expect_all(e);
  for (size_t k = 0; k < sizeof ways / sizeof *ways; ++k)
    run_program(e, &ways[k]);
  if (n_elements(e->in[0]) > 1000) {
    run_budgets(e, TN_PLAN_DEFAULT);
    run_budgets(e, TN_PLAN_NONE);
  }
  expectation_drop(e);
}

/* With sanitizers they take ten times as long. */
#if defined(TN_SANITIZED)
enum { N_GRAPHS = 150 };
#else
enum { N_GRAPHS = 1000 };
#endif

/* Every tenth has arrays that are large enough to be fused. */
static void run_graphs(uint64_t seed, int n) {
  state = seed;
  for (int i = 0; i < n; ++i) {
    expectation e = {.names = names, .n = N_VARIABLES};
    const bool large = i % 10 == 0 || i % 8 == 7; /* so that calls are fused */
    const int64_t whole[] = {large ? 65 : 2, large ? 64 : 3};
    const int64_t column[] = {whole[0], 1};
    smooth = i % 4 == 3;
    random_graph(1 + random_below(smooth ? MOST_SMOOTH : MOST_NODES));
    for (size_t k = 0; k < N_WHOLE; ++k) e.in[k] = random_array(2, whole);
    e.in[N_WHOLE] = random_array(1, whole + 1);
    e.in[N_WHOLE + 1] = random_array(2, column);
    run_all(&e);
    net_renew();
  }
  cr_assert_gt(n_fused, 100);
}

Test(programs, compute_the_results_of_their_graphs_on_one_thread) {
  open_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
  run_graphs(1, N_GRAPHS);
  net_close();
}

Test(programs, compute_the_results_of_their_graphs_on_several_threads) {
  open_with(&(tn__engine_options){.workers = 4});
  run_graphs(2, N_GRAPHS);
  net_close();
}

/* ---------------------------------------------------------- graphs and loops
 */

/* Other numbers and other groups each time. */
static void run_many(void (*run)(uint64_t seed)) {
  for (uint64_t seed = 3; seed < 13; ++seed) {
    run(seed);
    net_renew();
  }
}

/* h = tanh(dense(x, v) + h * u); out = h before the step times h after it. With
 * a state, it gets the sum of the dense operator's results. */
static tn_graph *recurrent_graph(bool tracked) {
  tn_graph *s = net_new();
  const tn_entry x = var_node(s, "x"), h = var_node(s, "h"),
                 u = var_node(s, "u");
  tn_entry fc =
      OP(s, "dense", "num_hidden=2", "fc", x, var_node(s, "v"), TN_ENTRY_NONE);
  if (tracked) fc = OP(s, "track", NULL, "track", fc, var_node(s, "sum"));
  const tn_entry next =
      OP(s, "tanh", NULL, "next",
         OP(s, "add", NULL, NULL, fc, OP(s, "mul", NULL, NULL, h, u)));
  HEADS(s, next, OP(s, "mul", NULL, "out", next, h));
  return s;
}

static tn_entry loop_of(const tn_graph *step, const char *name, bool reverse,
                        const tn_entry *in) {
  tn_entry out;
  OK(tn__graph_loop(
      g,
      &(tn_loop){.struct_size = sizeof(tn_loop),
                 .n_in = 4,
                 .step = step,
                 .name = name,
                 .sequences = (const char *const[]){"x"},
                 .states = (const char *const[]){"h"},
                 .n_sequences = 1,
                 .n_states = 1,
                 .reverse = reverse,
                 .in = in,
                 .keys = (const char *const[]){"x", "h", "v", "u"}},
      &out));
  return out;
}

/* A state is on the device of the loop that changes it. */
static void state_follows(const char *name, tn_entry loop) {
  tn_entry sum;
  OK(tn__graph_find(g, name, &sum));
  OK(tn__attribute_set(g, sum.node, "group",
                       tn__attribute_get(tn__node_at(g, loop.node), "group")));
}

static void run_loops(uint64_t seed) {
  static const char *const all[] = {"x", "h", "v", "u"}, *const sums[] = {
                                                             "there_sum",
                                                             "back_sum"};
  expectation e = {.names = all, .n = 4};
  state = seed;
  e.in[0] = random_array(3, (const int64_t[]){4, 2, 3});
  e.in[1] = random_array(2, (const int64_t[]){2, 2});
  e.in[2] = random_array(2, (const int64_t[]){2, 3});
  e.in[3] = random_array(2, (const int64_t[]){2, 2});
  if (seed % 2) {
    e.state_names = sums;
    e.n_states = 2;
    for (int i = 0; i < 2; ++i) e.states[i] = zeros_like(e.in[1]);
  }
  tn_graph *step = recurrent_graph(seed % 2);
  tn_entry in[4];
  for (int i = 0; i < 4; ++i) in[i] = var_node(g, all[i]);
  const tn_entry there = loop_of(step, "there", false, in);
  in[1] = OP(g, "square", NULL, NULL, there);
  const tn_entry back = loop_of(step, "back", true, in);
  HEADS(g, back,
        OP(g, "mul", NULL, NULL, output_of(there, 1), output_of(back, 1)));
  random_groups();
  if (seed % 2)
    state_follows("there_sum", there), state_follows("back_sum", back);
  run_all(&e);
  tn__graph_release(step);
}

Test(programs, compute_loops_on_one_thread) {
  open_with(&(tn__engine_options){.kind = TN__ENGINE_NAIVE});
  run_many(run_loops);
  net_close();
}

Test(programs, compute_loops_on_several_threads) {
  open_with(&(tn__engine_options){.workers = 4});
  run_many(run_loops);
  net_close();
}

/* A graph of two outputs, nested in itself once. */
static void run_embedded(uint64_t seed) {
  static const char *const all[] = {"x", "y"};
  expectation e = {.names = all, .n = 2};
  state = seed;
  for (int i = 0; i < 2; ++i)
    e.in[i] = random_array(2, (const int64_t[]){2, 3});
  tn_graph *b = net_new(), *outer = net_new();
  const tn_entry p = var_node(b, "p"), q = var_node(b, "q");
  HEADS(b, OP(b, "tame", NULL, NULL, p, q), OP(b, "keep", NULL, NULL, q, p));
  tn_embedding what = {.struct_size = sizeof what, .n_in = 2, .inner = b};
  tn_entry one, two, three;
  what.in = (const tn_entry[]){var_node(outer, "p"), var_node(outer, "q")};
  OK(tn__graph_embed(outer, &what, &one));
  what.in = (const tn_entry[]){one, output_of(one, 1)};
  OK(tn__graph_embed(outer, &what, &two));
  HEADS(outer, two, output_of(one, 1), output_of(two, 1));
  what.inner = outer;
  what.in = (const tn_entry[]){var_node(g, "x"), var_node(g, "y")};
  OK(tn__graph_embed(g, &what, &three));
  HEADS(g, three, OP(g, "mul", NULL, NULL, output_of(three, 2), three));
  random_groups();
  run_all(&e);
  tn__graph_release(outer);
  tn__graph_release(b);
}

Test(programs, compute_graphs_of_graphs) {
  open_with(&(tn__engine_options){.workers = 2});
  run_many(run_embedded);
  net_close();
}
