/* SPDX-License-Identifier: Apache-2.0
 * test_later_programs.c: programs with calls that complete later. Such a call
 * is a job of its own; other steps run meanwhile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jobs.h"
#include "later_plugin.h"
#include "tenon/graph.h"
#include "tenon/program.h"

enum { N = 3 };
static const float values[N] = {1, 2, 3};

typedef struct net {
  tn_runtime *rt;
  tn_graph *graph;
  tn_program *program;
} net;

static net open_net(uint32_t engine) {
  net n = {.rt = open_runtime(engine, 1)};
  EXPECT(tn_plugin_add(n.rt, &later_plugin), TN_OK);
  EXPECT(tn_graph_create(n.rt, &n.graph), TN_OK);
  later_set_mode(LATER_KEEP);
  return n;
}

static void close_net(net *n) {
  tn_program_release(n->program);
  tn_graph_release(n->graph);
  close_runtime(n->rt);
}

static tn_entry variable(tn_graph *graph, int32_t ndim) {
  const tn_sig known = {.dtype = TN_F32, .ndim = ndim, .shape = {N, N}};
  tn_entry x;
  EXPECT(tn_graph_variable(graph, "x", &known, &x), TN_OK);
  return x;
}

static tn_entry node(tn_graph *graph, const char *op, const char *name,
                     tn_entry in) {
  tn_entry out;
  EXPECT(tn_graph_call(graph,
                       &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                        .op = op,
                                        .name = name,
                                        .n_in = 1,
                                        .in = &in},
                       &out),
         TN_OK);
  return out;
}

static void bind(net *n, const tn_entry *heads, size_t n_heads) {
  const tn_bind how = {.struct_size = sizeof how, .request = TN_REQ_WRITE};
  EXPECT(tn_graph_heads_set(n->graph, heads, n_heads), TN_OK);
  EXPECT(tn_program_bind(n->graph, &how, &n->program), TN_OK);
}

static tn_array *array_of(const net *n, uint32_t what, const char *name) {
  tn_array *array = NULL;
  EXPECT(tn_program_array(n->program, what, name, &array), TN_OK);
  return array;
}

static void set_x(const net *n) {
  EXPECT(tn_array_set(array_of(n, TN_PROGRAM_ARGUMENT, "x"), values,
                      sizeof values),
         TN_OK);
}

static tn_array *output(const net *n, size_t i) {
  tn_array *array = NULL;
  EXPECT(tn_program_output(n->program, i, &array), TN_OK);
  return array;
}

static void expect_values(tn_array *array, float a, float b, float c) {
  float got[N] = {0};
  EXPECT(tn_array_get(array, got, sizeof got), TN_OK);
  cr_assert(got[0] == a && got[1] == b && got[2] == c, "%g %g %g",
            (double)got[0], (double)got[1], (double)got[2]);
}

/* y = 2*((2*(x + 1) + 1) + 1) = 4*x + 8 */
static net open_chain(uint32_t engine) {
  net n = open_net(engine);
  const tn_entry x = variable(n.graph, 1),
                 a = node(n.graph, "later.next", "a", x),
                 b = node(n.graph, "later.twice", "b", a),
                 c = node(n.graph, "later.next", "c", b),
                 d = node(n.graph, "later.next", "d", c),
                 y = node(n.graph, "later.twice", "y", d);
  bind(&n, &y, 1);
  set_x(&n);
  return n;
}

Test(later_programs, run_forward_and_backward, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    net n = open_chain(engines[e]);
    tn_array *weight = NULL;
    const int64_t shape[] = {N};
    EXPECT(tn_array_create(n.rt, &(tn_spec){TN_F32, 1, shape}, &weight), TN_OK);
    EXPECT(tn_array_set(weight, values, sizeof values), TN_OK);
    later_start_helper();
    for (int run = 0; run < 4; ++run) {
      EXPECT(tn_program_forward(n.program, TN_CALL_TRAIN), TN_OK);
      EXPECT(tn_program_backward(n.program, &weight, 1), TN_OK);
    }
    expect_values(output(&n, 0), 12, 16, 20);
    expect_values(array_of(&n, TN_PROGRAM_GRADIENT, "x"), 4, 8, 12);
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    expect_values(output(&n, 0), 12, 16, 20);
    EXPECT(tn_wait_all(n.rt), TN_OK);
    later_stop_helper();
    tn_array_release(weight);
    close_net(&n);
  }
}

/* With one worker. */
Test(later_programs, other_steps_run_meanwhile, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    net n = open_net(threaded[e]);
    const tn_entry x = variable(n.graph, 1),
                   p = node(n.graph, "later.twice", "p", x),
                   q = node(n.graph, "later.next", "q", x);
    const tn_entry heads[] = {node(n.graph, "later.next", "p1", p),
                              node(n.graph, "later.next", "q1", q)};
    bind(&n, heads, 2);
    set_x(&n);
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    later_await(1);
    expect_values(output(&n, 1), 3, 4, 5);
    EXPECT(tn_array_wait_for(output(&n, 0), 0), TN_BUSY);
    EXPECT(tn_program_forward(n.program, 0), TN_OK); /* waits for the first */
    later_complete(TN_OK, NULL);
    later_await(1);
    later_complete(TN_OK, NULL);
    expect_values(output(&n, 0), 3, 5, 7);
    close_net(&n);
  }
}

Test(later_programs, a_failure_names_its_node, .timeout = 100) {
  for (int e = 0; e < 2; ++e) {
    net n = open_chain(threaded[e]);
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    later_await(1);
    later_complete(TN_IO, "the line is cut");
    EXPECT(tn_array_wait(output(&n, 0)), TN_IO);
    EXPECT_TEXT(
        "node `b` (later.twice@1): later.twice@1: the line is cut; in "
        "compute of kernel later.twice.cpu");
    later_start_helper();
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    expect_values(output(&n, 0), 12, 16, 20);
    later_stop_helper();
    cr_assert_eq(tn_wait_all(n.rt), TN_IO);
    close_net(&n);
  }
}

static void count_output(void *ctx, const char *name, tn_array *array) {
  float got[N];
  (void)name;
  EXPECT(tn_array_get(array, got, sizeof got), TN_OK);
  ++*(int *)ctx;
}

Test(later_programs, run_in_parts_and_with_a_monitor, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    net n = open_chain(engines[e]);
    size_t left = 1;
    int n_seen = 0;
    later_start_helper();
    for (size_t steps = 1; left > 0; ++steps)
      EXPECT(tn_program_forward_part(n.program, 0, steps, &left), TN_OK);
    expect_values(output(&n, 0), 12, 16, 20);
    EXPECT(tn_program_monitor(n.program, count_output, &n_seen), TN_OK);
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    cr_assert_eq(n_seen, 5);
    later_stop_helper();
    close_net(&n);
  }
}

/* The thread that runs the loop waits for each call. */
Test(later_programs, run_in_loops, .timeout = 100) {
  for (int e = 0; e < N_ENGINES; ++e) {
    const float many[N * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const char *const sequences[] = {"x"};
    float got[N * N];
    net n = open_net(engines[e]);
    tn_graph *step = NULL;
    tn_entry out;
    EXPECT(tn_graph_create(n.rt, &step), TN_OK);
    const tn_entry head = node(step, "later.twice", "t", variable(step, 1));
    EXPECT(tn_graph_heads_set(step, &head, 1), TN_OK);
    const tn_entry x = variable(n.graph, 2);
    EXPECT(tn_graph_loop(n.graph,
                         &(tn_loop){.struct_size = sizeof(tn_loop),
                                    .n_in = 1,
                                    .step = step,
                                    .name = "loop",
                                    .sequences = sequences,
                                    .n_sequences = 1,
                                    .in = &x},
                         &out),
           TN_OK);
    bind(&n, &out, 1);
    EXPECT(
        tn_array_set(array_of(&n, TN_PROGRAM_ARGUMENT, "x"), many, sizeof many),
        TN_OK);
    later_start_helper();
    EXPECT(tn_program_forward(n.program, 0), TN_OK);
    EXPECT(tn_array_get(output(&n, 0), got, sizeof got), TN_OK);
    for (int i = 0; i < N * N; ++i) cr_assert(got[i] == 2 * many[i]);
    later_stop_helper();
    tn_graph_release(step);
    close_net(&n);
  }
}

static void *release(void *arg) {
  tn_program_release(arg);
  return NULL;
}

Test(later_programs, a_release_waits_for_calls, .timeout = 100) {
  pthread_t other;
  net n = open_chain(TN_ENGINE_POOLED);
  EXPECT(tn_program_forward(n.program, 0), TN_OK);
  later_await(1);
  cr_assert_eq(pthread_create(&other, NULL, release, n.program), 0);
  n.program = NULL;
  later_complete(TN_OK, NULL);
  later_await(1);
  later_complete(TN_OK, NULL);
  (void)pthread_join(other, NULL);
  close_net(&n);
}

/* Steps between two such calls are one job, and the calls have their spans. */
Test(later_programs, a_trace_shows_nodes, .timeout = 100) {
  char path[] = "/tmp/tenon-later-XXXXXX", text[1 << 15] = "";
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  net n = open_chain(TN_ENGINE_POOLED);
  later_start_helper();
  EXPECT(tn_trace_start(n.rt), TN_OK);
  EXPECT(tn_program_forward(n.program, 0), TN_OK);
  expect_values(output(&n, 0), 12, 16, 20);
  EXPECT(tn_wait_all(n.rt), TN_OK);
  EXPECT(tn_trace_write(n.rt, path), TN_OK);
  (void)close(fd);
  fd = open(path, O_RDONLY);
  cr_assert_gt(read(fd, text, sizeof text - 1), 0);
  (void)close(fd), (void)unlink(path);
  cr_assert_not_null(strstr(text, "\"b\",\"cat\":\"later\",\"ph\":\"b\""), "%s",
                     text);
  cr_assert_not_null(strstr(text, "\"y\",\"cat\":\"later\",\"ph\":\"e\""));
  cr_assert_not_null(strstr(text, "\"c .. d\",\"cat\":\"host\""));
  later_stop_helper();
  close_net(&n);
}
