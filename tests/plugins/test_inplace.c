/* SPDX-License-Identifier: Apache-2.0
 * Drawn networks of nn and elemwise, trained by programs with results that
 * share memory, and by programs with own memory for each result. All gradients
 * have the same bits, because the same kernels compute them: in place or not.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tenon/graph.h"

enum { N_LAYERS = 9, N_NETS = 24, N_DIMS = 4 };

static const int64_t image[N_DIMS] = {2, 8, 10, 12};

/* One layer that keeps the shape of its input. `two`: it has a second input, an
 * earlier result. */
static const struct kind {
  const char *op;
  const char *params;
  bool two;
} kinds[] = {
    {"nn.convolution", "kernel=[3,3] pad=[1,1] num_filter=8", false},
    {"nn.convolution", "kernel=[1,1] num_filter=8 no_bias=true", false},
    {"nn.batch_norm", "", false},
    {"nn.layer_norm", "", false},
    {"nn.activation", "act_type=tanh", false},
    {"nn.activation", "act_type=relu", false},
    {"nn.leaky_relu", "act_type=prelu", false},
    {"nn.leaky_relu", "act_type=elu", false},
    {"nn.pooling", "kernel=[3,3] stride=[1,1] pad=[1,1]", false},
    {"nn.pooling", "kernel=[3,3] stride=[1,1] pad=[1,1] pool_type=avg", false},
    {"nn.softmax", "axis=1", false},
    {"nn.log_softmax", "axis=1", false},
    {"nn.fully_connected", "num_hidden=12 flatten=false", false},
    {"elemwise.mul", "", true},
    {"elemwise.add", "", true},
    {"elemwise.sub", "", true},
    {"elemwise.broadcast_mul", "", true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static uint32_t draw(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static tn_graph *make_net(tn_runtime *rt, uint64_t seed) {
  tn_entry made[N_LAYERS + 1];
  tn_graph *g = NULL;
  const tn_sig sig = {TN_F32, N_DIMS, {image[0], image[1], image[2], image[3]}};
  OK(tn_graph_create(rt, &g));
  OK(tn_graph_variable(g, "x", &sig, &made[0]));
  for (uint32_t i = 0; i < N_LAYERS; ++i) {
    char name[16];
    const struct kind *kind = &kinds[draw(&seed, N_KINDS)];
    const tn_entry in[2] = {made[i], made[draw(&seed, i + 1)]};
    (void)snprintf(name, sizeof name, "l%u", i);
    OK(tn_graph_call(g,
                     &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                      .op = kind->op,
                                      .params = kind->params,
                                      .name = name,
                                      .in = in,
                                      .n_in = kind->two ? 2 : 1},
                     &made[i + 1]));
  }
  OK(tn_graph_heads_set(g, &made[N_LAYERS], 1));
  return g;
}

/* The arguments that a net may have, by number; NULL after the last. */
static const char *argument_at(uint32_t i, char name[24]) {
  static const char *const parts[] = {"weight", "bias", "gamma", "beta"};
  if (i == 0) return "x";
  if (i > 4 * N_LAYERS) return NULL;
  (void)snprintf(name, 24, "l%u_%s", (i - 1) / 4, parts[(i - 1) % 4]);
  return name;
}

static tn_array *drawn_like(tn_runtime *rt, tn_array *like, uint64_t seed) {
  const tn_tensor *t = tn_array_tensor(like);
  const int64_t n = tn_tensor_size(t);
  double *values = host_draw(n, seed);
  for (int64_t i = 0; i < n; ++i)
    values[i] = sin(3 * values[i] + (double)(i % 89) + (double)seed);
  tn_array *array = host_many(rt, TN_F32, t->ndim, t->shape, values);
  free(values);
  return array;
}

static tn_program *train(tn_runtime *rt, const tn_graph *g, uint32_t plan,
                         uint32_t flags) {
  char name[24];
  tn_program *p = NULL;
  tn_array *array = NULL;
  OK(tn_program_bind(g,
                     &(tn_bind){.struct_size = sizeof(tn_bind),
                                .flags = flags,
                                .plan = plan,
                                .request = TN_REQ_WRITE},
                     &p));
  for (uint32_t i = 0; argument_at(i, name) != NULL; ++i) {
    if (tn_program_array(p, TN_PROGRAM_ARGUMENT, argument_at(i, name),
                         &array) != TN_OK)
      continue;
    tn_array *values = drawn_like(rt, array, i);
    OK(tn_array_copy(array, values));
    tn_array_release(values);
  }
  OK(tn_program_output(p, 0, &array));
  tn_array *head = drawn_like(rt, array, 99);
  for (int i = 0; i < 2; ++i) { /* the second run finds old elements */
    OK(tn_program_forward(p, TN_CALL_TRAIN));
    OK(tn_program_backward(p, &head, 1));
  }
  tn_array_release(head);
  return p;
}

static void compare_bits(tn_array *a, tn_array *b, const char *name) {
  const size_t n = (size_t)tn_array_size(a) * sizeof(float);
  float *one = malloc(n + 1), *two = malloc(n + 1);
  OK(tn_array_get(a, one, n));
  OK(tn_array_get(b, two, n));
  for (size_t i = 0; i < n / sizeof(float); ++i)
    cr_assert_eq(memcmp(&one[i], &two[i], sizeof(float)), 0,
                 "%s: element %zu is %.9g, not %.9g", name, i, (double)two[i],
                 (double)one[i]);
  free(one), free(two);
}

static void compare_programs(tn_program *a, tn_program *b, uint64_t seed) {
  char name[24], full[80];
  tn_array *one = NULL, *two = NULL;
  OK(tn_program_output(a, 0, &one));
  OK(tn_program_output(b, 0, &two));
  (void)snprintf(full, sizeof full, "net %u, output", (unsigned)seed);
  compare_bits(one, two, full);
  for (uint32_t i = 0; argument_at(i, name) != NULL; ++i) {
    const char *argument = argument_at(i, name);
    if (tn_program_array(a, TN_PROGRAM_GRADIENT, argument, &one) != TN_OK)
      continue;
    OK(tn_program_array(b, TN_PROGRAM_GRADIENT, argument, &two));
    (void)snprintf(full, sizeof full, "net %u, gradient of %s", (unsigned)seed,
                   argument);
    compare_bits(one, two, full);
  }
}

static tn_runtime *open_runtime(uint32_t workers) {
  tn_runtime *rt = NULL;
  OK(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .workers = workers},
      &rt));
  OK(tn_plugin_load(rt, ELEMWISE_FILE));
  OK(tn_plugin_load(rt, PLUGIN_FILE));
  return rt;
}

static void compare_nets(uint32_t workers) {
  tn_runtime *rt = open_runtime(workers);
  uint64_t shared = 0, separate = 0;
  for (uint64_t seed = 1; seed <= N_NETS; ++seed) {
    tn_graph *g = make_net(rt, seed);
    const uint32_t flags = seed % 2 == 0 ? 0u : (uint32_t)TN_BIND_NO_FUSE;
    tn_program *a = train(rt, g, TN_PLAN_NONE, flags);
    tn_program *b = train(rt, g, TN_PLAN_DEFAULT, flags);
    tn_program_stats one = {.struct_size = sizeof one}, two = one;
    compare_programs(a, b, seed);
    OK(tn_program_stats_get(a, &one));
    OK(tn_program_stats_get(b, &two));
    separate += one.pool_bytes;
    shared += two.pool_bytes;
    tn_program_release(a), tn_program_release(b);
    tn_graph_release(g);
  }
  cr_expect_lt(shared, separate, "%zu of %zu bytes", (size_t)shared,
               (size_t)separate);
  tn_runtime_release(rt);
}

Test(inplace, networks_have_the_same_gradients_in_shared_memory) {
  compare_nets(1);
}

Test(inplace, networks_have_them_with_four_workers_too) {
  compare_nets(4);
}
