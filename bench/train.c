/* SPDX-License-Identifier: Apache-2.0
 * Training steps of whole nets: forward, gradients and a step of every weight
 * as one program. PLUGIN is a file:
 *
 *   train mlp|lenet|resnet|resnet50 THREADS|DEVICE PLUGIN ...
 *
 * Prints `step/BATCH milliseconds`, and on a device, "cuda(0)",
 * `captured/BATCH` too, of a step that is launched as one. Without the device
 * it prints why.
 */
#include "train.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel_options.h>

#include "measure.h"
#include "train_nets.h"

enum { WARM = 3 };                 /* steps until one is launched as one */
enum { ROUNDS = 20, BEHIND = 10 }; /* of steps, on a device; as the peer does */

static tn_place place = {TN_DEVICE_CPU, 0};

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* ----------------------------------------------------------------- program */

/* A step of every weight, which takes its place. */
static void add_steps(tn_graph *g, tn_entry loss, const nets_weights *w) {
  tn_entry slopes[NETS_WEIGHTS], heads[NETS_WEIGHTS + 1];
  char params[32];
  (void)snprintf(params, sizeof params, "lr=%g", TRAIN_RATE);
  must_succeed(tn_graph_gradient(
      g,
      &(tn_gradient_query){
          .heads = &loss, .n_heads = 1, .of = w->entry, .n_of = w->n},
      slopes));
  heads[0] = loss;
  for (size_t i = 0; i < w->n; ++i)
    heads[i + 1] = nets_add_call(g, "optim.sgd_update", params, 2,
                                 (const tn_entry[]){w->entry[i], slopes[i]});
  must_succeed(tn_graph_heads_set(g, heads, w->n + 1));
}

static tn_program *bind_step(tn_graph *g, const nets_weights *w,
                             uint32_t flags) {
  tn_array *outputs[NETS_WEIGHTS + 1] = {NULL};
  tn_program *program = NULL;
  for (size_t i = 0; i < w->n; ++i) outputs[i + 1] = w->given[i].array;
  must_succeed(tn_program_bind(g,
                               &(tn_bind){.struct_size = sizeof(tn_bind),
                                          .flags = flags,
                                          .arguments = w->given,
                                          .n_arguments = w->n + 1,
                                          .outputs = outputs,
                                          .n_outputs = w->n + 1,
                                          .place = place},
                               &program));
  return program;
}

/* -------------------------------------------------------------------- step */

typedef struct subject {
  tn_runtime *rt;
  tn_program *program;
  tn_array *out;
} subject;

static void run_step(void *arg) {
  const subject *s = arg;
  must_succeed(tn_program_forward(s->program, TN_CALL_TRAIN));
  must_succeed(tn_array_wait(s->out));
}

/* Consecutive steps, and one wait for a device that executes them. */
static void run_steps(void *arg) {
  const subject *s = arg;
  for (int i = 0; i < BEHIND; ++i)
    must_succeed(tn_program_forward(s->program, TN_CALL_TRAIN));
  must_succeed(tn_wait_all(s->rt));
}

static bool on_device(void) {
  return place.device_type != TN_DEVICE_CPU;
}

static double ms_of(subject *s) {
  if (on_device()) return measure_best(run_steps, s, ROUNDS) / BEHIND / 1e6;
  return measure_single(run_step, s, TRAIN_SECONDS) / 1e6;
}

/* Milliseconds of a step by a program with `flags`; below 0 if it is not
 * launched as one where the flags request it. */
static double time_step(tn_runtime *rt, tn_graph *g, const nets_weights *w,
                        uint32_t flags) {
  subject s = {.rt = rt, .program = bind_step(g, w, flags)};
  tn_text *why = NULL;
  double ms = -1;
  must_succeed(tn_program_output(s.program, 0, &s.out));
  for (int i = 0; i < WARM; ++i) run_step(&s);
  if (flags & TN_BIND_CAPTURE)
    must_succeed(tn_program_captured(s.program, TN_PART_TRAIN, &why));
  if (why)
    fprintf(stderr, "train: not launched as one: %s\n", tn_text_get(why));
  else
    ms = ms_of(&s);
  tn_text_release(why);
  tn_program_release(s.program);
  return ms;
}

static void print_time(const char *what, const tn_sig *data, double ms) {
  if (ms < 0) return;
  printf("%s/%lld %.4f\n", what, (long long)data->shape[0], ms);
  (void)fflush(stdout);
}

static void time_training(tn_runtime *rt, const char *net, const tn_sig *data) {
  tn_graph *g = NULL;
  static nets_weights w;
  must_succeed(tn_graph_create(rt, &g));
  const tn_entry loss = nets_build(g, net, data);
  nets_create_weights(rt, g, place, &w);
  tn_array *x = nets_create_array(rt, data, place);
  add_steps(g, loss, &w);
  w.given[w.n] = (tn_argument){.name = "data", .array = x};
  print_time("step", data, time_step(rt, g, &w, 0));
  if (on_device())
    print_time("captured", data, time_step(rt, g, &w, TN_BIND_CAPTURE));
  tn_graph_release(g), tn_array_release(x);
  nets_release_weights(&w);
}

static tn_sig image_sig(int64_t batch, int64_t channels, int64_t side) {
  return (tn_sig){TN_F32, 4, {batch, channels, side, side}};
}

/* Engines of convolutions are tried on the device, as the peer does. Without
 * cuDNN there are no such kernels either. */
static void tune_convolutions(tn_runtime *rt) {
  static const char *const tuned[][2] = {
      {"nn.convolution", "cudnn.convolution.cuda"},
      {"nn.convolution_activation", "cudnn.convolution_activation.cuda"}};
  for (size_t i = 0; i < sizeof tuned / sizeof *tuned; ++i) {
    tn_operator *op = NULL;
    must_succeed(tn_operator_get(rt, tuned[i][0], &op));
    const tn_code rc = tn_operator_tune(op, tuned[i][1], "measure=true");
    if (rc != TN_NOT_FOUND) must_succeed(rc);
  }
}

static void train_net(tn_runtime *rt, const char *net) {
  if (on_device()) tune_convolutions(rt);
  const tn_sig rows = {TN_F32, 2, {MLP_BATCH, mlp_widths[0]}};
  const tn_sig row = {TN_F32, 2, {1, mlp_widths[0]}};
  const tn_sig small = image_sig(LENET_BATCH, 1, LENET_SIDE);
  const tn_sig large = image_sig(RESNET_BATCH, 3, RESNET_SIDE);
  if (strcmp(net, "mlp") == 0)
    time_training(rt, net, &rows), time_training(rt, net, &row);
  if (strcmp(net, "lenet") == 0) time_training(rt, net, &small);
  if (strncmp(net, "resnet", 6) == 0) time_training(rt, net, &large);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const uint32_t threads = (uint32_t)strtoul(argv[2], NULL, 10);
  tn_runtime *rt = NULL;
  must_succeed(tn_runtime_create(
      &(tn_options){.struct_size = sizeof(tn_options), .workers = threads},
      &rt));
  for (int i = 3; i < argc; ++i) must_succeed(tn_plugin_load(rt, argv[i]));
  if (threads == 0 && tn_place_parse(rt, argv[2], &place) != TN_OK)
    printf("SKIPPED: %s\n", tn_error_text());
  else
    train_net(rt, argv[1]);
  tn_runtime_release(rt);
  return 0;
}
