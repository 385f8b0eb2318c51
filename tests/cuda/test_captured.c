/* SPDX-License-Identifier: Apache-2.0
 * Programs that the simulated GPU records and launches as one
 * (TN_BIND_CAPTURE): their results are those of separate steps, and a program
 * that is not recorded has a reason. test_capture_failures.c has failures.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "driver.h" /* results */

enum { ROWS = 6, COLUMNS = 5, HIDDEN = 7, CLASSES = 3, N_WEIGHTS = 4 };
enum { RUNS = 12 };

TestSuite(captured, .init = fixture_init, .fini = fixture_close);

/* ----------------------------------------------------------- a step of an MLP
 */

/* A network that changes its weights in its own run. */
typedef struct mlp {
  tn_program *program;
  bool counts; /* its steps, for the update */
  tn_array *data, *label;
  tn_array *weights[N_WEIGHTS], *moms[N_WEIGHTS];
  const char *place;
} mlp;

static const char *const weight_names[] = {"fc1_weight", "fc1_bias",
                                           "fc2_weight", "fc2_bias"};
static const int64_t weight_shapes[][2] = {
    {HIDDEN, COLUMNS}, {HIDDEN}, {CLASSES, HIDDEN}, {CLASSES}};

static bool drops; /* networks have a dropout */

static tn_entry layers(tn_graph *g) {
  tn_entry x = add_variable(g, "data", 2, ROWS, COLUMNS);
  x = fixture_call(g, "nn.fully_connected", "num_hidden=7", "fc1", 1, &x);
  x = fixture_call(g, "nn.activation", "act_type=relu", "relu", 1, &x);
  if (drops) x = fixture_call(g, "nn.dropout", "p=0.3", "drop", 1, &x);
  x = fixture_call(g, "nn.fully_connected", "num_hidden=3", "fc2", 1, &x);
  return fixture_call(g, "nn.softmax_output", "normalization=batch", "softmax",
                      1, &x);
}

static tn_graph *mlp_graph(const char *update) {
  tn_entry heads[1 + N_WEIGHTS], of[N_WEIGHTS], slopes[N_WEIGHTS];
  tn_graph *g = NULL;
  OK(tn_graph_create(fixture, &g));
  heads[0] = layers(g);
  for (int i = 0; i < N_WEIGHTS; ++i)
    OK(tn_graph_find(g, weight_names[i], &of[i]));
  OK(tn_graph_gradient(
      g,
      &(tn_gradient_query){
          .heads = heads, .n_heads = 1, .of = of, .n_of = N_WEIGHTS},
      slopes));
  for (int i = 0; i < N_WEIGHTS; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "step%d", i);
    heads[1 + i] = fixture_call(g, update, "lr=0.5", name, 2,
                                (const tn_entry[]){of[i], slopes[i]});
  }
  OK(tn_graph_heads_set(g, heads, 1 + N_WEIGHTS));
  return g;
}

/* `update` is the operator that changes weights. */
static void mlp_open(mlp *m, const char *place, const char *update,
                     uint32_t flags) {
  tn_argument given[2 + 2 * N_WEIGHTS];
  tn_array *outputs[1 + N_WEIGHTS] = {NULL};
  char moms[N_WEIGHTS][16];
  size_t n = 0;
  *m =
      (mlp){.place = place, .counts = strcmp(update, "optim.adam_update") == 0};
  m->data = create_array(place, 2, (const int64_t[]){ROWS, COLUMNS});
  m->label = create_array(place, 1, (const int64_t[]){ROWS});
  given[n++] = (tn_argument){.name = "data", .array = m->data};
  given[n++] = (tn_argument){.name = "softmax_label", .array = m->label};
  for (int i = 0; i < N_WEIGHTS; ++i) {
    m->weights[i] = create_array(place, i % 2 ? 1 : 2, weight_shapes[i]);
    put_values(m->weights[i], 11u + (uint32_t)i);
    outputs[1 + i] = m->weights[i];
    given[n++] = (tn_argument){.name = weight_names[i], .array = m->weights[i]};
    if (strcmp(update, "optim.sgd_mom_update") != 0) continue;
    (void)snprintf(moms[i], sizeof moms[i], "step%d_mom", i);
    m->moms[i] = create_array(place, i % 2 ? 1 : 2, weight_shapes[i]);
    OK(tn_array_set(m->moms[i], (const float[64]){0},
                    (size_t)tn_tensor_size(tn_array_tensor(m->moms[i])) * 4));
    given[n++] = (tn_argument){.name = moms[i], .array = m->moms[i]};
  }
  tn_graph *g = mlp_graph(update);
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = flags,
                       .arguments = given,
                       .n_arguments = n,
                       .outputs = outputs,
                       .n_outputs = 1 + N_WEIGHTS,
                       .place = fixture_place(place)};
  OK(tn_program_bind(g, &how, &m->program));
  tn_graph_release(g);
}

static void mlp_close(mlp *m) {
  tn_program_release(m->program);
  tn_array_release(m->data);
  tn_array_release(m->label);
  for (int i = 0; i < N_WEIGHTS; ++i) {
    tn_array_release(m->weights[i]);
    tn_array_release(m->moms[i]);
  }
}

static void set_rate(const mlp *m, double rate) {
  const tn_value lr = tn_value_float("lr", rate);
  for (int i = 0; i < N_WEIGHTS; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "step%d", i);
    OK(tn_program_set(m->program, name, &lr));
  }
}

static void set_count(const mlp *m, uint32_t run) {
  const tn_value step = tn_value_int("step", run + 1);
  for (int i = 0; i < N_WEIGHTS && m->counts; ++i) {
    char name[16];
    (void)snprintf(name, sizeof name, "step%d", i);
    OK(tn_program_set(m->program, name, &step));
  }
}

static void mlp_run(const mlp *m, uint32_t run) {
  float labels[ROWS];
  for (uint32_t i = 0; i < ROWS; ++i) labels[i] = (float)((i + run) % CLASSES);
  put_values(m->data, run);
  OK(tn_array_set(m->label, labels, sizeof labels));
  if (run % 3 == 0) set_rate(m, 0.5 / (1 + run));
  set_count(m, run);
  OK(tn_program_forward(m->program, TN_CALL_TRAIN));
}

/* Rates and batches change from run to run; all are on their way at once. */
static void mlp_learn(mlp *m) {
  OK(tn_random_seed(fixture, 12));
  for (uint32_t run = 0; run < RUNS; ++run) mlp_run(m, run);
}

static void same(tn_array *a, tn_array *b, float most) {
  float x[64], y[64];
  const size_t n = (size_t)tn_tensor_size(tn_array_tensor(a));
  OK(tn_array_get(a, x, n * sizeof *x));
  OK(tn_array_get(b, y, n * sizeof *y));
  for (size_t i = 0; i < n; ++i)
    cr_assert(x[i] - y[i] <= most && y[i] - x[i] <= most,
              "element %zu is %.9g, not %.9g", i, (double)x[i], (double)y[i]);
}

static void same_mlp(const mlp *a, const mlp *b, float most) {
  tn_array *x = NULL, *y = NULL;
  OK(tn_program_output(a->program, 0, &x));
  OK(tn_program_output(b->program, 0, &y));
  same(x, y, most);
  for (int i = 0; i < N_WEIGHTS; ++i) same(a->weights[i], b->weights[i], most);
}

static void open_learning(const fake_cuda_options *options) {
  fixture_open(options);
  OK(tn_plugin_load(fixture, NN_FILE));
  OK(tn_plugin_load(fixture, NN_CUDA_FILE));
  OK(tn_plugin_load(fixture, CUBLASLT_FILE));
  OK(tn_plugin_load(fixture, OPTIM_FILE));
  OK(tn_plugin_load(fixture, OPTIM_CUDA_FILE));
}

/* Bit for bit the results of steps on the GPU, and as exact as those of the
 * cpu.
 */
static void learns_alike(const char *update, uint64_t seed) {
  mlp steps, one, cpu;
  open_learning(&(fake_cuda_options){
      .devices = 1, .seed = seed, .latency_us = seed == 3 ? 20 : 0});
  mlp_open(&steps, "cuda(0)", update, 0);
  mlp_open(&one, "cuda(0)", update, TN_BIND_CAPTURE);
  mlp_open(&cpu, "cpu", update, 0);
  mlp_learn(&steps);
  mlp_learn(&one);
  mlp_learn(&cpu);
  same_mlp(&one, &steps, 0);
  same_mlp(&one, &cpu, 1e-5f);
  expect_captured(one.program, TN_PART_TRAIN);
  expect_line(one.program, "training runs are launched as one\n");
  expect_line(one.program,
              "forward runs are made step by step: the second run");
  expect_uncaptured(steps.program, TN_PART_TRAIN, "no TN_BIND_CAPTURE");
  const fake_graph_counts counts = fake_graph_counts_get();
  cr_expect_eq(counts.created, 1);
  cr_expect_eq(counts.launched, RUNS - 1);
  mlp_close(&steps);
  mlp_close(&one);
  mlp_close(&cpu);
  fixture_close();
}

Test(captured, steps_with_momentum_learn_the_same_as_one_by_one) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    learns_alike("optim.sgd_mom_update", seed);
}

/* The update is a formula: the kernel is generated. */
Test(captured, generated_kernels_read_parameters_that_change) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    learns_alike("optim.sgd_update", seed);
}

/* Its rate is found on the device, by pow and sqrt there. */
Test(captured, steps_of_adam_are_counted_on_the_device) {
  learns_alike("optim.adam_update", 1);
}

Test(captured, dropout_drops_the_same_elements_as_step_by_step) {
  drops = true;
  learns_alike("optim.sgd_mom_update", 2);
}

/* No result shows it, including updates in place and random numbers.
 */
Test(captured, a_launch_without_memory_is_made_step_by_step) {
  mlp steps, one;
  drops = true;
  open_learning(&(fake_cuda_options){.devices = 1});
  mlp_open(&steps, "cuda(0)", "optim.sgd_mom_update", 0);
  mlp_open(&one, "cuda(0)", "optim.sgd_mom_update", TN_BIND_CAPTURE);
  mlp_learn(&steps);
  OK(tn_random_seed(fixture, 12));
  for (uint32_t run = 0; run < RUNS; ++run) {
    if (run == 2)
      fake_graph_refuse(
          &(fake_graph_refusal){FAKE_GRAPH_LAUNCH, CUDA_OUT_OF_MEMORY});
    mlp_run(&one, run);
    OK(tn_wait_all(fixture));
  }
  same_mlp(&one, &steps, 0);
  expect_captured(one.program, TN_PART_TRAIN);
  cr_expect_eq(fake_graph_counts_get().launched, RUNS - 1 - 9);
  mlp_close(&steps);
  mlp_close(&one);
}

Test(captured, a_program_is_released_while_launches_are_on_their_way) {
  mlp one;
  open_learning(&(fake_cuda_options){.devices = 1, .latency_us = 50});
  mlp_open(&one, "cuda(0)", "optim.sgd_mom_update", TN_BIND_CAPTURE);
  mlp_learn(&one);
  mlp_close(&one);
}

/* Nothing is executed until all runs are enqueued. Setting a rate does not wait
 * for the device, and does not write host memory that pending copies still
 * read. */
Test(captured, rates_that_follow_one_another_all_count) {
  mlp steps, one;
  open_learning(&(fake_cuda_options){.devices = 1});
  mlp_open(&steps, "cuda(0)", "optim.sgd_update", 0);
  mlp_open(&one, "cuda(0)", "optim.sgd_update", TN_BIND_CAPTURE);
  for (uint32_t run = 0; run < 3; ++run) { /* allocates memory */
    mlp_run(&steps, run);
    mlp_run(&one, run);
  }
  OK(tn_wait_all(fixture));
  fake_hold(fake_cuda());
  for (uint32_t run = 0; run < RUNS; ++run) {
    set_rate(&steps, 1.0 / (2 + run));
    set_rate(&one, 1.0 / (2 + run));
    OK(tn_program_forward(steps.program, TN_CALL_TRAIN));
    OK(tn_program_forward(one.program, TN_CALL_TRAIN));
  }
  fake_go(fake_cuda());
  same_mlp(&one, &steps, 0);
  mlp_close(&steps);
  mlp_close(&one);
}

/* -------------------------------------------------------- forward and backward
 */

Test(captured, both_parts_of_a_run_are_launched_with_gradients_added_up) {
  fixture_open_all(&(fake_cuda_options){.devices = 1, .seed = 5});
  tn_graph *g = build_curve();
  tn_program *p[2];
  tn_array *weight = fixture_array("cuda(0)", 32);
  put_values(weight, 9);
  for (uint32_t i = 0; i < 2; ++i) {
    const tn_bind how = {.struct_size = sizeof how,
                         .flags = i ? TN_BIND_CAPTURE : 0,
                         .request = TN_REQ_ADD,
                         .place = fixture_place("cuda(0)")};
    OK(tn_program_bind(g, &how, &p[i]));
    for (uint32_t run = 0; run < 5; ++run) run_curve(p[i], run, weight);
  }
  expect_captured(p[1], TN_PART_TRAIN);
  expect_captured(p[1], TN_PART_BACKWARD);
  for (int i = 0; i < 2; ++i) {
    const char *name = i ? "b" : "a";
    same(find_array(p[1], TN_PROGRAM_GRADIENT, name),
         find_array(p[0], TN_PROGRAM_GRADIENT, name), 0);
  }
  same(find_array(p[1], TN_PROGRAM_OUTPUT, "y_output"),
       find_array(p[0], TN_PROGRAM_OUTPUT, "y_output"), 0);
  tn_program_release(p[0]);
  tn_program_release(p[1]);
  tn_array_release(weight);
  tn_graph_release(g);
}

/* --------------------------------------------------------------- random
 * numbers
 */

enum { DRAWS = 6 };

/* Results of runs that draw twice each. */
static void draw(uint32_t flags, uint64_t reseed, float out[DRAWS][24]) {
  static const char *const ops[] = {"trial.noise", "elemwise.tanh",
                                    "trial.noise"};
  tn_array *y = NULL;
  tn_program *p = bind_chain(ops, 3, flags);
  OK(tn_random_seed(fixture, 77));
  for (uint32_t run = 0; run < DRAWS; ++run) {
    if (run == 4 && reseed) OK(tn_random_seed(fixture, reseed));
    OK(tn_program_forward(p, 0));
    OK(tn_program_output(p, 0, &y));
    OK(tn_array_get(y, out[run], sizeof out[run]));
  }
  if (flags & TN_BIND_CAPTURE) expect_captured(p, TN_PART_FORWARD);
  tn_program_release(p);
}

Test(captured, random_numbers_go_on_from_run_to_run) {
  static float steps[DRAWS][24], one[DRAWS][24];
  open_trial(1);
  draw(0, 0, steps);
  draw(TN_BIND_CAPTURE, 0, one);
  cr_expect_arr_eq(steps, one, sizeof steps);
  for (int i = 1; i < DRAWS; ++i)
    cr_expect_arr_neq(one[i], one[i - 1], sizeof one[i]);
  cr_expect_eq(fake_graph_counts_get().created, 1);
}

Test(captured, a_new_seed_is_recorded_again) {
  static float steps[DRAWS][24], one[DRAWS][24];
  open_trial(2);
  draw(0, 5, steps);
  draw(TN_BIND_CAPTURE, 5, one);
  cr_expect_arr_eq(steps, one, sizeof steps);
  cr_expect_eq(fake_graph_counts_get().created, 2);
}

/* ------------------------------------------------------------------- reasons
 */

static void refuses(const char *op, const char *why) {
  const char *const ops[] = {"elemwise.tanh", op};
  char line[320];
  tn_program *p = run_thrice(ops, 2);
  expect_uncaptured(p, TN_PART_FORWARD, why);
  (void)snprintf(line, sizeof line, "forward runs are made step by step: %s",
                 why);
  expect_line(p, line);
  cr_expect_eq(fake_graph_counts_get().launched, 0);
  tn_program_release(p);
}

Test(captured, a_kernel_that_is_not_capturable_is_named) {
  open_trial(0);
  refuses("trial.shy",
          "node `n1`: the kernel trial.shy.cuda does not declare that it is "
          "capturable");
}

Test(captured, a_kernel_that_gets_changing_parameters_by_value_is_named) {
  open_trial(0);
  refuses("trial.scale",
          "node `n1`: the kernel trial.scale.cuda does not declare that it is "
          "capturable, with parameters that may change between runs");
}

Test(captured, a_failure_to_record_is_kept_and_the_run_is_made_all_the_same) {
  open_trial(0);
  refuses("trial.brittle",
          "node `n1` (trial.brittle@1): trial.brittle@1: this is not to be "
          "recorded");
}

Test(captured, the_reason_is_there_before_the_first_run) {
  const char *const ops[] = {"trial.shy"};
  open_trial(0);
  tn_program *p = bind_chain(ops, 1, TN_BIND_CAPTURE);
  expect_uncaptured(p, TN_PART_FORWARD, "trial.shy.cuda");
  expect_uncaptured(p, TN_PART_BACKWARD, "there is nothing to run");
  tn_program_release(p);
}

Test(captured, the_first_run_is_never_recorded) {
  const char *const ops[] = {"elemwise.tanh"};
  open_trial(0);
  tn_program *p = bind_chain(ops, 1, TN_BIND_CAPTURE);
  expect_uncaptured(p, TN_PART_FORWARD, "the second run will be recorded");
  OK(tn_program_forward(p, 0));
  expect_uncaptured(p, TN_PART_FORWARD, "the second run will be recorded");
  OK(tn_program_forward(p, 0));
  expect_captured(p, TN_PART_FORWARD);
  expect_uncaptured(p, TN_PART_TRAIN, "the second run will be recorded");
  FAILS(tn_program_captured(p, 3, &(tn_text *){NULL}), TN_INVALID, "no part 3");
  tn_program_release(p);
}

Test(captured, steps_on_the_cpu_are_not_recorded) {
  tn_program *p = NULL;
  fixture_open_all(&(fake_cuda_options){.devices = 1});
  tn_graph *g = build_curve();
  const tn_bind how = {.struct_size = sizeof how, .flags = TN_BIND_CAPTURE};
  OK(tn_program_bind(g, &how, &p));
  for (int run = 0; run < 3; ++run) OK(tn_program_forward(p, 0));
  expect_uncaptured(p, TN_PART_FORWARD, "cpu(0) cannot record");
  tn_program_release(p);
  tn_graph_release(g);
}

Test(captured, steps_on_several_devices_are_not_recorded) {
  tn_program *p = NULL;
  tn_entry entry;
  fixture_open_all(&(fake_cuda_options){.devices = 2});
  const tn_group groups[] = {{"here", fixture_place("cuda(0)")},
                             {"there", fixture_place("cuda(1)")}};
  tn_graph *g = build_curve();
  OK(tn_graph_find(g, "bent_output", &entry));
  OK(tn_graph_attribute_set(g, entry.node, "group", "there"));
  OK(tn_graph_find(g, "y_output", &entry));
  OK(tn_graph_attribute_set(g, entry.node, "group", "here"));
  const tn_bind how = {.struct_size = sizeof how,
                       .flags = TN_BIND_CAPTURE,
                       .place = fixture_place("cuda(0)"),
                       .groups = groups,
                       .n_groups = 2};
  OK(tn_program_bind(g, &how, &p));
  for (int run = 0; run < 3; ++run) OK(tn_program_forward(p, 0));
  expect_uncaptured(
      p, TN_PART_FORWARD,
      "node `bent_0_copy` runs on cuda(0), and others on cuda(1)");
  tn_program_release(p);
  tn_graph_release(g);
}

/* -------------------------------------------------------------------- loops */

/* h = op(h + x[t]) for each t; the head is all h. */
static tn_program *loop_of(const char *op, uint32_t flags) {
  const char *const sequences[] = {"x"}, *const states[] = {"h"};
  tn_graph *step = NULL, *g = NULL;
  tn_entry in[2], out[2];
  OK(tn_graph_create(fixture, &step));
  in[0] = add_variable(step, "x", 1, 4, 0);
  in[1] = add_variable(step, "h", 1, 4, 0);
  out[0] = fixture_call(step, "elemwise.add", NULL, "sum", 2, in);
  out[0] = out[1] = fixture_call(step, op, NULL, "next", 1, out);
  OK(tn_graph_heads_set(step, out, 2));
  OK(tn_graph_create(fixture, &g));
  in[0] = add_variable(g, "xs", 2, 5, 4);
  in[1] = add_variable(g, "h0", 1, 4, 0);
  OK(tn_graph_loop(g,
                   &(tn_loop){.struct_size = sizeof(tn_loop),
                              .n_in = 2,
                              .step = step,
                              .name = "loop",
                              .sequences = sequences,
                              .states = states,
                              .n_sequences = 1,
                              .n_states = 1,
                              .in = in},
                   &out[0]));
  out[0].index = 1;
  OK(tn_graph_heads_set(g, out, 1));
  tn_graph_release(step);
  return bind_graph(g, flags);
}

static void run_loop(tn_program *p, tn_array **out) {
  for (uint32_t run = 0; run < 4; ++run) {
    put_values(find_array(p, TN_PROGRAM_ARGUMENT, "xs"), run);
    put_values(find_array(p, TN_PROGRAM_ARGUMENT, "h0"), run + 1);
    OK(tn_program_forward(p, 0));
  }
  OK(tn_program_output(p, 0, out));
}

Test(captured, a_loop_is_recorded_with_all_its_steps) {
  tn_array *steps = NULL, *one = NULL;
  open_trial(3);
  tn_program *p = loop_of("elemwise.tanh", 0);
  tn_program *q = loop_of("elemwise.tanh", TN_BIND_CAPTURE);
  run_loop(p, &steps);
  run_loop(q, &one);
  same(one, steps, 0);
  expect_captured(q, TN_PART_FORWARD);
  cr_expect_eq(fake_graph_counts_get().launched, 3);
  tn_program_release(p);
  tn_program_release(q);
}

Test(captured, a_loop_with_steps_that_draw_is_named) {
  tn_array *out = NULL;
  open_trial(3);
  tn_program *p = loop_of("trial.noise", TN_BIND_CAPTURE);
  run_loop(p, &out);
  expect_uncaptured(
      p, TN_PART_FORWARD,
      "node `next` of the loop `loop` draws random numbers or has "
      "parameters that may change between runs");
  tn_program_release(p);
}

static void look(void *ctx, const char *name, tn_array *array) {
  (void)name;
  (void)array;
  ++*(int *)ctx;
}

Test(captured, a_monitor_sees_every_step_and_ends_nothing) {
  const char *const ops[] = {"elemwise.tanh", "elemwise.sigmoid"};
  int seen = 0;
  open_trial(0);
  tn_program *p = run_thrice(ops, 2);
  expect_captured(p, TN_PART_FORWARD);
  OK(tn_program_monitor(p, look, &seen));
  OK(tn_program_forward(p, 0));
  cr_expect_eq(seen, 2);
  expect_uncaptured(p, TN_PART_FORWARD, "a monitor looks at each step");
  OK(tn_program_monitor(p, NULL, NULL));
  OK(tn_program_forward(p, 0));
  expect_captured(p, TN_PART_FORWARD);
  cr_expect_eq(fake_graph_counts_get().launched, 3);
  tn_program_release(p);
}

Test(captured, a_driver_without_graphs_is_the_reason) {
  const char *const ops[] = {"elemwise.tanh"};
  fixture_open_all(&(fake_cuda_options){.devices = 1, .version = 11020});
  tn_program *p = run_thrice(ops, 1);
  expect_uncaptured(
      p, TN_PART_FORWARD,
      "cuda(0): beginning to record failed: the driver has no graphs: it is "
      "for CUDA 11.2, and at least 11.4 is needed; update the driver");
  tn_program_release(p);
}
