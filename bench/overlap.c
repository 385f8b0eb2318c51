/* SPDX-License-Identifier: Apache-2.0
 * How much of the time of all_reduce a training step hides: two runtimes of
 * this process compute the gradients of a net, and add them with the backend
 * `local`. PLUGIN is a file, one of them comm:
 *
 *   overlap mlp|lenet|resnet BATCH BUCKET_KB PLUGIN ...
 *
 * Prints `gradients`, `both` and `all_reduce` with milliseconds: forward and
 * backward pass; the same with an all_reduce of each bucket of gradients as
 * soon as they are computed; and the all_reduces of as many numbers alone. The
 * last line, `hidden`, is (gradients + all_reduce - both) / all_reduce. Each is
 * the median of rounds in which all three are measured.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/comm.h>

#include "measure.h"
#include "train.h"
#include "train_nets.h"

enum { RANKS = 2, WARM = 2, ROUNDS = 11, VARIANTS = 3 };
enum { GRADIENTS, BOTH, ALL_REDUCE }; /* variants */

/* Program arguments, for all ranks. */
typedef struct settings {
  const char *net;
  int64_t batch;
  int64_t bucket; /* bytes */
  char **plugins;
  int n_plugins;
} settings;

/* One runtime, which a thread drives. */
typedef struct member {
  const settings *how;
  int rank;
  pthread_barrier_t *meeting;
  tn_runtime *rt;
  tn_rank_group *group;
  tn_program *programs[VARIANTS];
  tn_array *last[VARIANTS][NETS_WEIGHTS]; /* outputs, borrowed */
  size_t n_last[VARIANTS];
  double seconds[VARIANTS][ROUNDS];
} member;

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* -------------------------------------------------------------- gradients */

/* Adds an all_reduce of n entries, and replaces them by its outputs. */
static void add_bucket(tn_graph *g, tn_entry *entries, uint32_t n) {
  char params[64];
  (void)snprintf(params, sizeof params, "op=mean num_arrays=%u pack=%d",
                 (unsigned)n, 1 << 30);
  const tn_entry first =
      nets_add_call(g, "comm.all_reduce", params, n, entries);
  for (uint32_t i = 0; i < n; ++i) {
    entries[i] = first;
    entries[i].index = i;
  }
}

/* Divides the entries, in their order, into buckets of at most `most` bytes; a
 * larger array is alone. `arrays` have as many elements. */
static void add_buckets(tn_graph *g, tn_entry *entries, tn_array *const *arrays,
                        size_t n, int64_t most) {
  size_t begin = 0;
  int64_t held = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t bytes = tn_array_size(arrays[i]) * (int64_t)sizeof(float);
    if (i > begin && held + bytes > most) {
      add_bucket(g, entries + begin, (uint32_t)(i - begin));
      begin = i;
      held = 0;
    }
    held += bytes;
  }
  add_bucket(g, entries + begin, (uint32_t)(n - begin));
}

/* The gradients of all weights, the last layer's first, as the backward pass
 * computes them. */
static void add_gradients(tn_graph *g, tn_entry loss, const nets_weights *w,
                          tn_entry *gradients) {
  tn_entry of[NETS_WEIGHTS];
  for (size_t i = 0; i < w->n; ++i) of[i] = w->entry[w->n - 1 - i];
  must_succeed(tn_graph_gradient(
      g,
      &(tn_gradient_query){
          .heads = &loss, .n_heads = 1, .of = of, .n_of = w->n},
      gradients));
}

/* --------------------------------------------------------------- programs */

/* Binds a graph with n heads, and keeps its outputs. */
static void bind_program(member *m, int variant, tn_graph *g,
                         const tn_argument *given, size_t n_given) {
  must_succeed(tn_program_bind(g,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .arguments = given,
                                          .n_arguments = n_given},
                               &m->programs[variant]));
  for (size_t i = 0; i < m->n_last[variant]; ++i)
    must_succeed(
        tn_program_output(m->programs[variant], i, &m->last[variant][i]));
}

static tn_sig data_of(const settings *how) {
  if (strcmp(how->net, "mlp") == 0)
    return (tn_sig){TN_F32, 2, {how->batch, mlp_widths[0]}};
  if (strcmp(how->net, "lenet") == 0)
    return (tn_sig){TN_F32, 4, {how->batch, 1, LENET_SIDE, LENET_SIDE}};
  return (tn_sig){TN_F32, 4, {how->batch, 3, RESNET_SIDE, RESNET_SIDE}};
}

/* The passes, with or without buckets. */
static void bind_passes(member *m, int variant) {
  const tn_sig data = data_of(m->how);
  nets_weights w = {.n = 0};
  tn_entry heads[NETS_WEIGHTS];
  tn_graph *g = NULL;
  must_succeed(tn_graph_create(m->rt, &g));
  const tn_entry loss = nets_build(g, m->how->net, &data);
  nets_create_weights(m->rt, g, (tn_place){TN_DEVICE_CPU, 0}, &w);
  tn_array *x = nets_create_array(m->rt, &data, (tn_place){TN_DEVICE_CPU, 0});
  w.given[w.n] = (tn_argument){.name = "data", .array = x};
  add_gradients(g, loss, &w, heads);
  if (variant == BOTH)
    add_buckets(g, heads, m->last[GRADIENTS], w.n, m->how->bucket);
  must_succeed(tn_graph_heads_set(g, heads, w.n));
  m->n_last[variant] = w.n;
  bind_program(m, variant, g, w.given, w.n + 1);
  tn_graph_release(g), tn_array_release(x);
  nets_release_weights(&w);
}

/* The same buckets alone: variables take the place of the gradients. */
static void bind_buckets(member *m) {
  tn_entry heads[NETS_WEIGHTS];
  tn_argument given[NETS_WEIGHTS];
  char names[NETS_WEIGHTS][16];
  const size_t n = m->n_last[BOTH];
  tn_graph *g = NULL;
  must_succeed(tn_graph_create(m->rt, &g));
  for (size_t i = 0; i < n; ++i) {
    const tn_sig sig = {TN_F32, 1, {tn_array_size(m->last[BOTH][i])}};
    (void)snprintf(names[i], sizeof names[i], "g%zu", i);
    must_succeed(tn_graph_variable(g, names[i], &sig, &heads[i]));
    given[i] = (tn_argument){
        .name = names[i],
        .array = nets_create_array(m->rt, &sig, (tn_place){TN_DEVICE_CPU, 0})};
  }
  add_buckets(g, heads, m->last[GRADIENTS], n, m->how->bucket);
  must_succeed(tn_graph_heads_set(g, heads, n));
  m->n_last[ALL_REDUCE] = n;
  bind_program(m, ALL_REDUCE, g, given, n);
  tn_graph_release(g);
  for (size_t i = 0; i < n; ++i) tn_array_release(given[i].array);
}

/* ----------------------------------------------------------------- measure */

/* Seconds of a step; all members begin together. */
static double run_variant(member *m, int variant) {
  (void)pthread_barrier_wait(m->meeting);
  const double begin = measure_now();
  must_succeed(tn_program_forward(m->programs[variant], TN_CALL_TRAIN));
  for (size_t i = 0; i < m->n_last[variant]; ++i)
    must_succeed(tn_array_wait(m->last[variant][i]));
  return measure_now() - begin;
}

/* Both members compute the same gradients, so their means are equal to them. */
static void check_means(const member *m) {
  for (size_t i = 0; i < m->n_last[BOTH]; ++i) {
    const int64_t n = tn_array_size(m->last[BOTH][i]);
    const size_t bytes = (size_t)n * sizeof(float);
    float *means = measure_floats(n);
    float *gradients = measure_floats(n);
    must_succeed(tn_array_get(m->last[BOTH][i], means, bytes));
    must_succeed(tn_array_get(m->last[GRADIENTS][i], gradients, bytes));
    if (memcmp(means, gradients, bytes) != 0)
      measure_fail("overlap: mean %zu differs from the gradients", i);
    free(means), free(gradients);
  }
}

static void start_member(member *m) {
  must_succeed(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .workers = 1}, &m->rt));
  for (int i = 0; i < m->how->n_plugins; ++i)
    must_succeed(tn_plugin_load(m->rt, m->how->plugins[i]));
  must_succeed(
      tn_group_join(m->rt,
                    &(tn_group_options){.struct_size = sizeof(tn_group_options),
                                        .backend = "local",
                                        .rank = m->rank,
                                        .size = RANKS},
                    &m->group));
}

static void *run_member(void *arg) {
  member *m = arg;
  start_member(m);
  bind_passes(m, GRADIENTS);
  bind_passes(m, BOTH);
  bind_buckets(m);
  for (int i = -WARM; i < ROUNDS; ++i)
    for (int variant = 0; variant < VARIANTS; ++variant) {
      const double seconds = run_variant(m, variant);
      if (i >= 0) m->seconds[variant][i] = seconds;
    }
  check_means(m);
  (void)pthread_barrier_wait(m->meeting);
  for (int variant = 0; variant < VARIANTS; ++variant)
    tn_program_release(m->programs[variant]);
  tn_group_release(m->group);
  tn_runtime_release(m->rt);
  return NULL;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(double *values) {
  qsort(values, ROUNDS, sizeof *values, compare_doubles);
  return values[ROUNDS / 2];
}

/* Prints medians of the slowest member, and of the share of each round. */
static void report(const member *members) {
  static const char *const names[] = {"gradients", "both", "all_reduce"};
  double slowest[VARIANTS][ROUNDS], hidden[ROUNDS];
  for (int i = 0; i < ROUNDS; ++i) {
    for (int v = 0; v < VARIANTS; ++v) {
      const double a = members[0].seconds[v][i];
      const double b = members[1].seconds[v][i];
      slowest[v][i] = a > b ? a : b;
    }
    hidden[i] =
        (slowest[GRADIENTS][i] + slowest[ALL_REDUCE][i] - slowest[BOTH][i]) /
        slowest[ALL_REDUCE][i];
  }
  for (int v = 0; v < VARIANTS; ++v)
    printf("%s %.4f\n", names[v], median_of(slowest[v]) * 1e3);
  printf("hidden %.4f\n", median_of(hidden));
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  const settings how = {argv[1], strtoll(argv[2], NULL, 10),
                        strtoll(argv[3], NULL, 10) << 10, argv + 4, argc - 4};
  pthread_barrier_t meeting;
  pthread_t threads[RANKS];
  static member members[RANKS];
  (void)pthread_barrier_init(&meeting, NULL, RANKS);
  for (int i = 0; i < RANKS; ++i) {
    members[i] = (member){.how = &how, .rank = i, .meeting = &meeting};
    if (pthread_create(&threads[i], NULL, run_member, &members[i]))
      measure_fail("cannot start a thread");
  }
  for (int i = 0; i < RANKS; ++i) (void)pthread_join(threads[i], NULL);
  (void)pthread_barrier_destroy(&meeting);
  report(members);
  return 0;
}
