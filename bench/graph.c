/* SPDX-License-Identifier: Apache-2.0
 * Programs made of graphs, through the public functions; PLUGIN is a file:
 *
 *   graph nodes THREADS ELEMWISE     nanoseconds per node of a chain of tiny
 *                                    calls, and of a loop of function calls
 *   graph chain THREADS ELEMWISE     milliseconds of six elementwise calls,
 *                                    fused and not, and of one loop in C, as
 *                                    exact and roughly
 *   graph deep THREADS NN            seconds to make a program of a deep net
 */
#include "graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/graph.h>

#include "measure.h"
#include "tenon/kernel/math.h"

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

static void print_value(const char *what, int64_t n, double value) {
  printf("%s/%lld %.4f\n", what, (long long)n, value);
  fflush(stdout);
}

static tn_array *array_of(tn_runtime *rt, int32_t ndim, const int64_t *shape) {
  tn_array *array = NULL;
  must_succeed(tn_array_create(rt, &(tn_spec){TN_F32, ndim, shape}, &array));
  const size_t n = (size_t)tn_array_size(array);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu floats", n);
  for (size_t i = 0; i < n; ++i) values[i] = (float)(i % 1000) / 1000 - 0.5f;
  must_succeed(tn_array_set(array, values, n * sizeof *values));
  free(values);
  return array;
}

static tn_entry add_call(tn_graph *g, const char *op, const char *params,
                         uint32_t n, const tn_entry *in) {
  tn_entry out;
  must_succeed(
      tn_graph_call(g,
                    &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                     .op = op,
                                     .params = params,
                                     .n_in = n,
                                     .in = in},
                    &out));
  return out;
}

/* A graph that maps `x` to something, as a program on one array. */
typedef struct subject {
  tn_array *in;
  tn_program *program;
  tn_array *out;
} subject;

static void bind_subject(subject *s, const tn_graph *g, uint32_t flags) {
  const tn_argument x = {.name = "x", .array = s->in};
  must_succeed(tn_program_bind(g,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .flags = flags,
                                          .arguments = &x,
                                          .n_arguments = 1},
                               &s->program));
  must_succeed(tn_program_output(s->program, 0, &s->out));
}

static void run_subject(void *arg) {
  const subject *s = arg;
  must_succeed(tn_program_forward(s->program, 0));
}

static void run_through(void *arg) {
  const subject *s = arg;
  must_succeed(tn_program_forward(s->program, 0));
  must_succeed(tn_array_wait(s->out));
}

/* ------------------------------------------------------------------- nodes */

/* The floor: functions that are called through a pointer and check. */
typedef struct direct {
  const float *in;
  float *out;
  int64_t n_in;
  int64_t n_out;
} direct;

typedef struct bare {
  void (*function[GRAPH_NODES])(const direct *);
  direct call[GRAPH_NODES];
  float values[GRAPH_NODES + 1][64];
} bare;

static void add_one(const direct *d) {
  if (d->n_in != d->n_out) abort();
  for (int64_t i = 0; i < d->n_out; ++i) d->out[i] = d->in[i] + 1;
}

static void run_bare(void *arg) {
  const bare *b = arg;
  for (int i = 0; i < GRAPH_NODES; ++i) b->function[i](&b->call[i]);
}

static double bare_each(int64_t n) {
  static bare b;
  for (int i = 0; i < GRAPH_NODES; ++i) {
    b.function[i] = add_one;
    b.call[i] = (direct){b.values[i], b.values[i + 1], n, n};
  }
  return measure_each(run_bare, &b, GRAPH_SECONDS) / GRAPH_NODES;
}

static void measure_nodes(tn_runtime *rt) {
  const int64_t sizes[] = {1, 64};
  for (int k = 0; k < 2; ++k) {
    tn_graph *g = NULL;
    subject s = {.in = array_of(rt, 1, &sizes[k])};
    tn_entry y;
    must_succeed(tn_graph_create(rt, &g));
    must_succeed(tn_graph_variable(g, "x", NULL, &y));
    for (int i = 0; i < GRAPH_NODES; ++i)
      y = add_call(g, "elemwise.add_scalar", "scalar=1", 1, &y);
    must_succeed(tn_graph_heads_set(g, &y, 1));
    bind_subject(&s, g, 0);
    print_value("node", sizes[k],
                measure_each(run_subject, &s, GRAPH_SECONDS) / GRAPH_NODES);
    print_value("bare", sizes[k], bare_each(sizes[k]));
    tn_program_release(s.program), tn_graph_release(g), tn_array_release(s.in);
  }
}

/* ------------------------------------------------------------------- chain */

static tn_graph *chain_graph(tn_runtime *rt) {
  tn_graph *g = NULL;
  tn_entry x, square, line, sum;
  must_succeed(tn_graph_create(rt, &g));
  must_succeed(tn_graph_variable(g, "x", NULL, &x));
  square = add_call(g, "elemwise.mul", NULL, 2, (const tn_entry[]){x, x});
  square = add_call(g, "elemwise.mul_scalar", "scalar=0.5", 1, &square);
  line = add_call(g, "elemwise.mul_scalar", "scalar=-1.25", 1, &x);
  sum = add_call(g, "elemwise.add", NULL, 2, (const tn_entry[]){square, line});
  sum = add_call(g, "elemwise.add_scalar", "scalar=0.75", 1, &sum);
  sum = add_call(g, "elemwise.sigmoid", NULL, 1, &sum);
  must_succeed(tn_graph_heads_set(g, &sum, 1));
  return g;
}

typedef struct loop {
  const float *in;
  float *out;
  int64_t n;
} loop;

/* A hand-written loop for all six calls at once, with the same logistic
 * function as the calls. */
static void run_loop(void *arg) {
  const loop *l = arg;
  const float a = (float)CHAIN_A, b = (float)CHAIN_B, c = (float)CHAIN_C;
  for (int64_t i = 0; i < l->n; ++i) {
    const float x = l->in[i];
    l->out[i] = tn_math_sigmoid_f32((a * x + b) * x + c);
  }
}

/* The same with an exp that is good to 1e-5 or so. */
static void run_rough(void *arg) {
  const loop *l = arg;
  const float a = (float)CHAIN_A, b = (float)CHAIN_B, c = (float)CHAIN_C;
  for (int64_t i = 0; i < l->n; ++i) {
    const float x = l->in[i], y = (a * x + b) * x + c;
    const float t = -y * 1.44269504f, k = floorf(t + 0.5f), f = t - k;
    const float p =
        1 + f * (0.693147180f +
                 f * (0.240226507f +
                      f * (0.0555041087f +
                           f * (0.00961812911f + f * 0.00133335581f))));
    const int32_t bits = ((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    l->out[i] = 1 / (1 + p * power);
  }
}

/* It is compared, so it computes the same. */
static void compare_values(tn_array *array, const float *values, int64_t n) {
  float *have = malloc((size_t)n * sizeof *have);
  if (!have) measure_fail("no memory");
  must_succeed(tn_array_get(array, have, (size_t)n * sizeof *have));
  for (int64_t i = 0; i < n; ++i)
    if (!(fabsf(have[i] - values[i]) < 1e-4f))
      measure_fail("element %lld: %g is not %g", (long long)i, (double)have[i],
                   (double)values[i]);
  free(have);
}

static void measure_chain(tn_runtime *rt) {
  tn_graph *g = chain_graph(rt);
  for (size_t k = 0; k < sizeof chain_sizes / sizeof *chain_sizes; ++k) {
    const int64_t n = chain_sizes[k];
    subject fused = {.in = array_of(rt, 1, &n)}, apart = {.in = fused.in};
    tn_array *spare = array_of(rt, 1, &n);
    loop by_hand = {tn_array_tensor(fused.in)->data,
                    tn_array_tensor(spare)->data, n};
    bind_subject(&fused, g, 0);
    bind_subject(&apart, g, TN_BIND_NO_FUSE);
    run_through(&fused), run_through(&apart), run_loop(&by_hand);
    compare_values(fused.out, by_hand.out, n),
        compare_values(apart.out, by_hand.out, n);
    run_rough(&by_hand);
    compare_values(fused.out, by_hand.out, n);
    print_value("fused", n,
                measure_single(run_through, &fused, CHAIN_SECONDS) / 1e6);
    print_value("apart", n,
                measure_single(run_through, &apart, CHAIN_SECONDS) / 1e6);
    print_value("by_hand", n,
                measure_single(run_loop, &by_hand, CHAIN_SECONDS) / 1e6);
    print_value("rough", n,
                measure_single(run_rough, &by_hand, CHAIN_SECONDS) / 1e6);
    tn_program_release(fused.program), tn_program_release(apart.program);
    tn_array_release(spare), tn_array_release(fused.in);
  }
  tn_graph_release(g);
}

/* -------------------------------------------------------------------- deep */

/* The loss; its labels are floats. */
static tn_entry loss_of(tn_graph *g, tn_entry x) {
  tn_sig label = {.dtype = TN_F32, .ndim = -1};
  tn_entry in[2] = {x};
  must_succeed(tn_graph_variable(g, "label", &label, &in[1]));
  return add_call(g, "nn.softmax_output", NULL, 2, in);
}

/* Layers with a shortcut around each two: as deep as residual nets are. */
static void measure_deep(tn_runtime *rt) {
  const int64_t depths[] = {250, 500, 1000};
  const int64_t shape[2] = {32, 64};
  for (int k = 0; k < 3; ++k) {
    const double begin = measure_now();
    tn_graph *g = NULL;
    subject s = {0};
    tn_entry x, y;
    must_succeed(tn_graph_create(rt, &g));
    must_succeed(tn_graph_variable(g, "x", NULL, &x));
    for (int64_t i = 0; i < depths[k]; ++i) {
      y = add_call(g, "nn.fully_connected", "num_hidden=64", 1, &x);
      y = add_call(g, "nn.activation", "act_type=relu", 1, &y);
      x = i % 2 ? add_call(g, "elemwise.add", NULL, 2, (const tn_entry[]){x, y})
                : y;
    }
    x = loss_of(g, x);
    must_succeed(tn_graph_heads_set(g, &x, 1));
    const tn_argument data = {.name = "x", .array = array_of(rt, 2, shape)};
    const double built = measure_now();
    must_succeed(tn_program_bind(g,
                                 &(tn_bind){.struct_size = sizeof(tn_bind),
                                            .request = TN_REQ_WRITE,
                                            .arguments = &data,
                                            .n_arguments = 1},
                                 &s.program));
    print_value("build", depths[k], built - begin);
    print_value("bind", depths[k], measure_now() - built);
    tn_program_release(s.program), tn_graph_release(g);
    tn_array_release(data.array);
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  tn_runtime *rt = NULL;
  must_succeed(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options),
                    .workers = (uint32_t)strtoul(argv[2], NULL, 10)},
      &rt));
  for (int i = 3; i < argc; ++i) must_succeed(tn_plugin_load(rt, argv[i]));
  if (strcmp(argv[1], "nodes") == 0) measure_nodes(rt);
  if (strcmp(argv[1], "chain") == 0) measure_chain(rt);
  if (strcmp(argv[1], "deep") == 0) measure_deep(rt);
  tn_runtime_release(rt);
  return 0;
}
