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

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/graph.h>
#include <tenon/kernel_options.h>

#include "measure.h"

enum { MOST = 256 };               /* weights */
enum { WARM = 3 };                 /* steps until one is launched as one */
enum { ROUNDS = 20, BEHIND = 10 }; /* of steps, on a device; as the peer does */

static tn_place place = {TN_DEVICE_CPU, 0};

static void must_succeed(tn_code code) {
  if (code != TN_OK)
    measure_fail("%s: %s", tn_code_name(code), tn_error_text());
}

/* ------------------------------------------------------------------ layers */

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

/* A call on x, with weights that are added automatically; the rest are its
 * parameters, as for printf. */
static tn_entry add_layer(tn_graph *g, tn_entry x, const char *op,
                          const char *params, ...) {
  char text[256];
  va_list rest;
  va_start(rest, params);
  (void)vsnprintf(text, sizeof text, params, rest);
  va_end(rest);
  return add_call(g, op, text, 1, &x);
}

static tn_entry add_relu(tn_graph *g, tn_entry x) {
  return add_layer(g, x, "nn.activation", "act_type=relu");
}

/* Layers that connect all with all, with relu between them. */
static tn_entry add_connected(tn_graph *g, tn_entry x, const int64_t *widths,
                              int n) {
  for (int i = 1; i <= n; ++i) {
    x = add_layer(g, x, "nn.fully_connected", "num_hidden=%d", (int)widths[i]);
    if (i < n) x = add_relu(g, x);
  }
  return x;
}

static tn_entry build_mlp(tn_graph *g, tn_entry x) {
  return add_connected(g, x, mlp_widths, MLP_LAYERS);
}

static tn_entry build_lenet(tn_graph *g, tn_entry x) {
  for (int i = 0; i < 2; ++i) {
    const int pad = i == 0 ? 2 : 0;
    x = add_layer(g, x, "nn.convolution",
                  "kernel=(5,5) pad=(%d,%d) num_filter=%d", pad, pad,
                  (int)lenet_filters[i]);
    x = add_layer(g, add_relu(g, x), "nn.pooling",
                  "kernel=(2,2) stride=(2,2) pool_type=max");
  }
  return add_connected(g, x, lenet_widths, LENET_LAYERS);
}

/* A convolution without bias, followed by a batch normalisation. */
static tn_entry add_normalised(tn_graph *g, tn_entry x, int kernel, int stride,
                               int64_t filters) {
  char text[256];
  (void)snprintf(text, sizeof text,
                 "kernel=(%d,%d) stride=(%d,%d) pad=(%d,%d) num_filter=%d "
                 "no_bias=true",
                 kernel, kernel, stride, stride, kernel / 2, kernel / 2,
                 (int)filters);
  return add_layer(g, add_layer(g, x, "nn.convolution", text), "nn.batch_norm",
                   "fix_gamma=false");
}

static tn_entry add_sum(tn_graph *g, tn_entry y, tn_entry x) {
  return add_relu(
      g, add_call(g, "elemwise.add", NULL, 2, (const tn_entry[]){y, x}));
}

/* Two convolutions, and a shortcut around them. */
static tn_entry add_block(tn_graph *g, tn_entry x, int stride,
                          int64_t filters) {
  tn_entry y = add_relu(g, add_normalised(g, x, 3, stride, filters));
  y = add_normalised(g, y, 3, 1, filters);
  if (stride > 1) x = add_normalised(g, x, 1, stride, filters);
  return add_sum(g, y, x);
}

/* The same with three, of which that in the middle has fewer filters. */
static tn_entry add_bottleneck(tn_graph *g, tn_entry x, int stride,
                               int64_t filters, int is_first) {
  const int64_t wide = filters * RESNET_WIDER;
  tn_entry y = add_relu(g, add_normalised(g, x, 1, 1, filters));
  y = add_normalised(g, add_relu(g, add_normalised(g, y, 3, stride, filters)),
                     1, 1, wide);
  if (is_first) x = add_normalised(g, x, 1, stride, wide);
  return add_sum(g, y, x);
}

static tn_entry resnet_begin(tn_graph *g, tn_entry x) {
  x = add_relu(g, add_normalised(g, x, 7, 2, resnet_filters[0]));
  return add_layer(g, x, "nn.pooling",
                   "kernel=(3,3) stride=(2,2) pad=(1,1) pool_type=max");
}

static tn_entry resnet_end(tn_graph *g, tn_entry x) {
  x = add_layer(g, x, "nn.pooling",
                "kernel=(1,1) global_pool=true pool_type=avg");
  return add_layer(g, x, "nn.fully_connected", "num_hidden=1000");
}

static tn_entry build_resnet(tn_graph *g, tn_entry x) {
  x = resnet_begin(g, x);
  for (int stage = 0; stage < RESNET_STAGES; ++stage) {
    x = add_block(g, x, stage == 0 ? 1 : 2, resnet_filters[stage]);
    x = add_block(g, x, 1, resnet_filters[stage]);
  }
  return resnet_end(g, x);
}

static tn_entry build_resnet50(tn_graph *g, tn_entry x) {
  x = resnet_begin(g, x);
  for (int stage = 0; stage < RESNET_STAGES; ++stage)
    for (int i = 0; i < resnet50_blocks[stage]; ++i)
      x = add_bottleneck(g, x, i == 0 && stage > 0 ? 2 : 1,
                         resnet_filters[stage], i == 0);
  return resnet_end(g, x);
}

/* ----------------------------------------------------------------- program */

static tn_array *array_of(tn_runtime *rt, const tn_sig *sig) {
  tn_array *array = NULL;
  must_succeed(tn_array_create_on(rt, &(tn_spec){TN_F32, sig->ndim, sig->shape},
                                  place, &array));
  const size_t n = (size_t)tn_array_size(array);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("no memory for %zu floats", n);
  for (size_t i = 0; i < n; ++i)
    values[i] = (float)(i * 7919 % 1000) / 10000 - 0.05f;
  must_succeed(tn_array_set(array, values, n * sizeof *values));
  free(values);
  return array;
}

/* The arrays that a net trains: everything that its output depends on except
 * the data and the labels. */
typedef struct weights {
  tn_argument given[MOST + 1]; /* followed by data */
  tn_entry entry[MOST];
  tn_entry heads[MOST + 1]; /* the loss, and the new weights */
  size_t n;
} weights;

static void weights_find(tn_runtime *rt, tn_graph *g, weights *w) {
  const char *name = NULL;
  tn_entry entry;
  tn_sig sig;
  for (size_t i = 0;
       tn_graph_name(g, TN_GRAPH_ARGUMENTS, i, &name, &entry) == TN_OK; ++i) {
    if (strcmp(name, "data") == 0 || strcmp(name, "label") == 0) continue;
    if (w->n == MOST) measure_fail("more than %d weights", MOST);
    must_succeed(tn_graph_sig(g, entry, &sig));
    w->entry[w->n] = entry;
    w->given[w->n++] = (tn_argument){.name = name, .array = array_of(rt, &sig)};
  }
}

/* A step of every weight, which takes its place. */
static void add_steps(tn_graph *g, tn_entry loss, weights *w) {
  tn_entry slopes[MOST];
  char params[32];
  (void)snprintf(params, sizeof params, "lr=%g", TRAIN_RATE);
  must_succeed(tn_graph_gradient(
      g,
      &(tn_gradient_query){
          .heads = &loss, .n_heads = 1, .of = w->entry, .n_of = w->n},
      slopes));
  w->heads[0] = loss;
  for (size_t i = 0; i < w->n; ++i)
    w->heads[i + 1] = add_call(g, "optim.sgd_update", params, 2,
                               (const tn_entry[]){w->entry[i], slopes[i]});
  must_succeed(tn_graph_heads_set(g, w->heads, w->n + 1));
}

static tn_program *bind_step(tn_graph *g, const weights *w, uint32_t flags) {
  tn_array *outputs[MOST + 1] = {NULL};
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
static double time_step(tn_runtime *rt, tn_graph *g, const weights *w,
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

static void time_training(tn_runtime *rt,
                          tn_entry (*build)(tn_graph *, tn_entry),
                          const tn_sig *data) {
  const tn_sig label = {.dtype = TN_F32, .ndim = 1, .shape = {data->shape[0]}};
  tn_graph *g = NULL;
  tn_entry in[2];
  static weights w;
  w.n = 0;
  must_succeed(tn_graph_create(rt, &g));
  must_succeed(tn_graph_variable(g, "data", data, &in[0]));
  must_succeed(tn_graph_variable(g, "label", &label, &in[1]));
  in[0] = build(g, in[0]);
  const tn_entry loss = add_call(g, "nn.softmax_output", NULL, 2, in);
  must_succeed(tn_graph_heads_set(g, &loss, 1));
  must_succeed(tn_graph_infer(g, NULL, 0));
  weights_find(rt, g, &w);
  tn_array *x = array_of(rt, data);
  add_steps(g, loss, &w);
  w.given[w.n] = (tn_argument){.name = "data", .array = x};
  print_time("step", data, time_step(rt, g, &w, 0));
  if (on_device())
    print_time("captured", data, time_step(rt, g, &w, TN_BIND_CAPTURE));
  tn_graph_release(g), tn_array_release(x);
  for (size_t i = 0; i < w.n; ++i) tn_array_release(w.given[i].array);
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
    time_training(rt, build_mlp, &rows), time_training(rt, build_mlp, &row);
  if (strcmp(net, "lenet") == 0) time_training(rt, build_lenet, &small);
  if (strcmp(net, "resnet") == 0) time_training(rt, build_resnet, &large);
  if (strcmp(net, "resnet50") == 0) time_training(rt, build_resnet50, &large);
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
