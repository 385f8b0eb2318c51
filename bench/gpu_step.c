/* SPDX-License-Identifier: Apache-2.0
 * gpu_step.c: steps of the MLP of train.h on a CUDA device: forward, backward
 * and update, once step by step and once recorded and launched as one.
 * `name value unit`.
 *
 *   gpu_step PLUGIN.so ...
 */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "tenon/graph.h"
#include "train.h"

enum { N_WEIGHTS = 2 * MLP_LAYERS, WARM = 3 };

static tn_runtime *rt;
static tn_place place;

static void must(tn_code code) {
  if (code != TN_OK) measure_fail("gpu_step: %s", tn_error_text());
}

static tn_entry call(tn_graph *g, const char *op, const char *params,
                     uint32_t n, const tn_entry *in) {
  tn_entry out;
  must(tn_graph_call(g,
                     &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                      .op = op,
                                      .params = params,
                                      .n_in = n,
                                      .in = in},
                     &out));
  return out;
}

static tn_entry variable(tn_graph *g, const char *name, int32_t ndim,
                         int64_t rows, int64_t columns) {
  const tn_sig sig = {TN_F32, ndim, {rows, columns}};
  tn_entry out;
  must(tn_graph_variable(g, name, &sig, &out));
  return out;
}

/* Small numbers that differ. */
static tn_array *array(int32_t ndim, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  tn_array *made = NULL;
  must(tn_array_create_on(rt, &(tn_spec){TN_F32, ndim, shape}, place, &made));
  const size_t n = (size_t)tn_array_size(made);
  float *values = malloc(n * sizeof *values + 1);
  if (!values) measure_fail("gpu_step: no memory");
  for (size_t i = 0; i < n; ++i)
    values[i] = (float)(i * 7919 % 1000) / 10000 - 0.05f;
  must(tn_array_set(made, values, n * sizeof *values));
  free(values);
  return made;
}

/* ------------------------------------------------------------------- program
 */

typedef struct net {
  tn_graph *graph;
  tn_entry weights[N_WEIGHTS];
  tn_entry heads[1 + N_WEIGHTS];
  tn_argument given[1 + N_WEIGHTS];
  tn_array *outputs[1 + N_WEIGHTS];
  char names[N_WEIGHTS][16];
} net;

/* The weight and the bias of layer `i`, from 0. */
static void add_weights(net *x, int i) {
  const int64_t rows = mlp_widths[i + 1], columns = mlp_widths[i];
  for (int k = 2 * i; k < 2 * i + 2; ++k) {
    const int32_t ndim = k % 2 ? 1 : 2;
    (void)snprintf(x->names[k], sizeof x->names[k], "w%d", k);
    x->weights[k] = variable(x->graph, x->names[k], ndim, rows, columns);
    x->outputs[1 + k] = array(ndim, rows, columns);
    x->given[1 + k] =
        (tn_argument){.name = x->names[k], .array = x->outputs[1 + k]};
  }
}

static tn_entry layers(net *x, tn_entry at) {
  char params[32];
  for (int i = 0; i < MLP_LAYERS; ++i) {
    add_weights(x, i);
    (void)snprintf(params, sizeof params, "num_hidden=%d",
                   (int)mlp_widths[i + 1]);
    at = call(x->graph, "nn.fully_connected", params, 3,
              (const tn_entry[]){at, x->weights[2 * i], x->weights[2 * i + 1]});
    if (i + 1 < MLP_LAYERS)
      at = call(x->graph, "nn.activation", "act_type=relu", 1, &at);
  }
  return at;
}

static void build(net *x, int64_t batch) {
  tn_entry in[2], slopes[N_WEIGHTS];
  must(tn_graph_create(rt, &x->graph));
  in[0] = layers(x, variable(x->graph, "data", 2, batch, mlp_widths[0]));
  in[1] = variable(x->graph, "label", 1, batch, 0);
  x->given[0] =
      (tn_argument){.name = "data", .array = array(2, batch, mlp_widths[0])};
  x->heads[0] = call(x->graph, "nn.softmax_output", NULL, 2, in);
  must(tn_graph_gradient(
      x->graph,
      &(tn_gradient_query){
          .heads = x->heads, .n_heads = 1, .of = x->weights, .n_of = N_WEIGHTS},
      slopes));
  for (int k = 0; k < N_WEIGHTS; ++k)
    x->heads[1 + k] = call(x->graph, "optim.sgd_update", "lr=0.0001", 2,
                           (const tn_entry[]){x->weights[k], slopes[k]});
  must(tn_graph_heads_set(x->graph, x->heads, 1 + N_WEIGHTS));
}

static tn_program *bind(const net *x, uint32_t flags) {
  tn_program *program = NULL;
  must(tn_program_bind(x->graph,
                       &(tn_bind){.struct_size = sizeof(tn_bind),
                                  .flags = flags,
                                  .arguments = x->given,
                                  .n_arguments = 1 + N_WEIGHTS,
                                  .outputs = x->outputs,
                                  .n_outputs = 1 + N_WEIGHTS,
                                  .place = place},
                       &program));
  return program;
}

static void end(net *x) {
  tn_graph_release(x->graph);
  tn_array_release(x->given[0].array);
  for (int k = 0; k < N_WEIGHTS; ++k) tn_array_release(x->outputs[1 + k]);
}

/* ---------------------------------------------------------------------- step
 */

typedef struct subject {
  tn_program *program;
  tn_array *out;
} subject;

static void run_step(void *arg) {
  const subject *s = arg;
  must(tn_program_forward(s->program, TN_CALL_TRAIN));
  must(tn_array_wait(s->out));
}

/* Microseconds of one, in which the device is waited for. */
static double step(const net *x, uint32_t flags) {
  subject s = {.program = bind(x, flags)};
  tn_text *why = NULL;
  must(tn_program_output(s.program, 0, &s.out));
  for (int i = 0; i < WARM; ++i) run_step(&s);
  if (flags & TN_BIND_CAPTURE)
    must(tn_program_captured(s.program, TN_PART_TRAIN, &why));
  if (why) measure_fail("gpu_step: not captured: %s", tn_text_get(why));
  const double ns = measure_single(run_step, &s, TRAIN_SECONDS);
  tn_program_release(s.program);
  return ns / 1e3;
}

static void steps(int64_t batch) {
  net x = {.graph = NULL};
  build(&x, batch);
  const double apart = step(&x, 0), one = step(&x, TN_BIND_CAPTURE);
  printf("%s.%lld %10.2f us\n", "mlp.step_by_step", (long long)batch, apart);
  printf("%s.%lld %10.2f us\n", "mlp.captured", (long long)batch, one);
  (void)fflush(stdout);
  end(&x);
}

int main(int argc, char **argv) {
  must(tn_runtime_create(NULL, &rt));
  for (int i = 1; i < argc; ++i) must(tn_plugin_load(rt, argv[i]));
  if (tn_place_parse(rt, "cuda(0)", &place) != TN_OK) {
    printf("SKIPPED: %s\n", tn_error_text());
  } else {
    steps(MLP_BATCH);
    steps(1);
  }
  tn_runtime_release(rt);
  return 0;
}
