/* SPDX-License-Identifier: Apache-2.0
 * train_digits.c: a network with two hidden layers learns digits, as a graph:
 * forward, gradients and a step of every weight are one program.
 *
 *   train_digits DIGITS.csv.gz [PLUGIN.so ...]
 *
 * Without plugins it loads the installed ones. It prints a line per epoch, and
 * succeeds if at least 96 % of the rows that it has not learned from come out
 * right. train_digits_eager.c makes the same calls one by one, and gets the
 * same numbers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/graph.h>

#include "digits.h"

enum { LAYERS = 3, WEIGHTS = 2 * LAYERS, EPOCHS = 50 };
static const int64_t widths[LAYERS + 1] = {DIGITS_PIXELS, 256, 128,
                                           DIGITS_CLASSES};

/* Goes to `fail` with a text of the library. */
#define TRY(call) \
  if ((call) != TN_OK) goto fail

typedef struct network {
  tn_runtime *rt;
  tn_array *weight[WEIGHTS], *step[WEIGHTS]; /* weights, biases behind them */
  tn_array *pixels, *labels;                 /* of a batch */
  tn_array *test_pixels, *test_labels;
  tn_program *learn, *test;
} network;

/* An array of these elements. */
static tn_code array(tn_runtime *rt, int32_t ndim, const int64_t *shape,
                     const float *values, tn_array **out) {
  size_t n = 1;
  for (int32_t d = 0; d < ndim; ++d) n *= (size_t)shape[d];
  tn_code rc = tn_array_create(rt, &(tn_spec){TN_F32, ndim, shape}, out);
  if (!rc) rc = tn_array_set(*out, values, n * sizeof *values);
  return rc;
}

/* Weights drawn between bounds that keep the size of signals (Glorot and
 * Bengio, 2010), biases of zero. */
static tn_code make_weights(network *net, digits_random *random) {
  tn_code rc = TN_OK;
  for (int i = 0; i < WEIGHTS && !rc; ++i) {
    const int64_t in = widths[i / 2], out = widths[i / 2 + 1];
    const int64_t shape[2] = {out, in};
    const size_t n = (size_t)(i % 2 ? out : out * in);
    float *values = calloc(n, sizeof *values);
    if (!values) return TN_OUT_OF_MEMORY;
    rc = array(net->rt, i % 2 ? 1 : 2, shape, values, &net->step[i]);
    if (i % 2 == 0)
      digits_uniform(random, sqrt(6.0 / (double)(in + out)), values, n);
    if (!rc) rc = array(net->rt, i % 2 ? 1 : 2, shape, values, &net->weight[i]);
    free(values);
  }
  return rc;
}

/* ------------------------------------------------------------------- graph */

static tn_code call(tn_graph *g, const char *op, const char *params,
                    const char *name, uint32_t n, const tn_entry *in,
                    tn_entry *out) {
  return tn_graph_call(g,
                       &(tn_graph_node){.struct_size = sizeof(tn_graph_node),
                                        .op = op,
                                        .params = params,
                                        .name = name,
                                        .n_in = n,
                                        .in = in},
                       out);
}

/* data -> fc1 -> relu1 -> fc2 -> relu2 -> fc3 -> softmax. The variables of
 * weights and labels come by themselves. */
static tn_code build(tn_graph *g, tn_entry *head) {
  char params[64], name[16];
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (int i = 1; i <= LAYERS && !rc; ++i) {
    (void)snprintf(params, sizeof params, "num_hidden=%d", (int)widths[i]);
    (void)snprintf(name, sizeof name, "fc%d", i);
    rc = call(g, "nn.fully_connected", params, name, 1, head, head);
    (void)snprintf(name, sizeof name, "relu%d", i);
    if (!rc && i < LAYERS)
      rc = call(g, "nn.activation", "act_type=relu", name, 1, head, head);
  }
  if (!rc)
    rc = call(g, "nn.softmax_output", "normalization=batch smooth_alpha=0.1",
              "softmax", 1, head, head);
  return rc;
}

static const char *weight_name(int i, char *to, size_t bytes) {
  (void)snprintf(to, bytes, "fc%d_%s", i / 2 + 1, i % 2 ? "bias" : "weight");
  return to;
}

/* A step of every weight, by the gradient of the head. */
static tn_code add_steps(tn_graph *g, tn_entry head, tn_entry *steps) {
  tn_entry weights[WEIGHTS], slopes[WEIGHTS];
  char name[32];
  tn_code rc = TN_OK;
  for (int i = 0; i < WEIGHTS && !rc; ++i)
    rc = tn_graph_find(g, weight_name(i, name, sizeof name), &weights[i]);
  if (!rc)
    rc = tn_graph_gradient(
        g,
        &(tn_gradient_query){
            .heads = &head, .n_heads = 1, .of = weights, .n_of = WEIGHTS},
        slopes);
  for (int i = 0; i < WEIGHTS && !rc; ++i) {
    (void)snprintf(name, sizeof name, "step%d", i);
    rc = call(g, "optim.sgd_mom_update", "lr=0.1 momentum=0.9 wd=0.0005", name,
              2, (const tn_entry[]){weights[i], slopes[i]}, &steps[i]);
  }
  return rc;
}

/* ---------------------------------------------------------------- programs */

/* The program of a graph whose weights are the network's; with steps, new
 * weights take the place of the old. */
static tn_code bind(network *net, const tn_graph *g, tn_array *pixels,
                    tn_array *labels, int steps, tn_program **out) {
  tn_argument a[2 + 2 * WEIGHTS] = {{.name = "data", .array = pixels},
                                    {.name = "softmax_label", .array = labels}};
  char names[WEIGHTS][2][32];
  tn_array *outputs[1 + WEIGHTS] = {NULL};
  size_t n = 2;
  for (int i = 0; i < WEIGHTS; ++i) {
    a[n++] = (tn_argument){.name = weight_name(i, names[i][0], 32),
                           .array = net->weight[i]};
    (void)snprintf(names[i][1], 32, "step%d_mom", i);
    outputs[1 + i] = net->weight[i];
    if (steps)
      a[n++] = (tn_argument){.name = names[i][1], .array = net->step[i]};
  }
  return tn_program_bind(g,
                         &(tn_bind){.struct_size = sizeof(tn_bind),
                                    .arguments = a,
                                    .n_arguments = n,
                                    .outputs = outputs,
                                    .n_outputs = steps ? 1 + WEIGHTS : 0},
                         out);
}

static tn_code make_programs(network *net) {
  tn_graph *g = NULL;
  tn_entry heads[1 + WEIGHTS];
  TRY(tn_graph_create(net->rt, &g));
  TRY(build(g, &heads[0]));
  TRY(tn_graph_heads_set(g, heads, 1));
  TRY(bind(net, g, net->test_pixels, net->test_labels, 0, &net->test));
  TRY(add_steps(g, heads[0], heads + 1));
  TRY(tn_graph_heads_set(g, heads, 1 + WEIGHTS));
  TRY(bind(net, g, net->pixels, net->labels, 1, &net->learn));
  tn_graph_release(g);
  return TN_OK;
fail:
  tn_graph_release(g);
  return TN_INVALID;
}

static tn_code make_arrays(network *net, const digits *d) {
  static const float none[DIGITS_BATCH * DIGITS_PIXELS];
  const size_t first = digits_n_train(d);
  const int64_t batch[2] = {DIGITS_BATCH, DIGITS_PIXELS};
  const int64_t test[2] = {DIGITS_TEST, DIGITS_PIXELS};
  tn_code rc = array(net->rt, 2, batch, none, &net->pixels);
  if (!rc) rc = array(net->rt, 1, batch, none, &net->labels);
  if (!rc)
    rc = array(net->rt, 2, test, d->pixels + first * DIGITS_PIXELS,
               &net->test_pixels);
  if (!rc) rc = array(net->rt, 1, test, d->labels + first, &net->test_labels);
  return rc;
}

/* ------------------------------------------------------------------- learn */

/* Shorter steps in every epoch: a parameter that may change between runs. */
static tn_code set_rate(network *net, int epoch) {
  const tn_value lr = tn_value_float("lr", 0.1 * pow(0.93, epoch - 1));
  char name[16];
  tn_code rc = TN_OK;
  for (int i = 0; i < WEIGHTS && !rc; ++i) {
    (void)snprintf(name, sizeof name, "step%d", i);
    rc = tn_program_set(net->learn, name, &lr);
  }
  return rc;
}

/* Takes what came out into the score. */
static tn_code count(const tn_program *program, const float *labels, size_t n,
                     digits_score *score) {
  static float p[DIGITS_TEST * DIGITS_CLASSES];
  tn_array *out = NULL;
  tn_code rc = tn_program_output(program, 0, &out);
  if (!rc) rc = tn_array_get(out, p, n * DIGITS_CLASSES * sizeof *p);
  if (!rc) digits_count(score, p, labels, n);
  return rc;
}

/* All batches once, in a new order. */
static tn_code run_epoch(network *net, const digits *d, digits_random *random,
                         digits_score *score) {
  static float pixels[DIGITS_BATCH * DIGITS_PIXELS], labels[DIGITS_BATCH];
  size_t *order = malloc(digits_n_train(d) * sizeof *order);
  tn_code rc = order ? TN_OK : TN_OUT_OF_MEMORY;
  if (order) digits_shuffle(d, random, order);
  for (size_t at = 0; !rc && at + DIGITS_BATCH <= digits_n_train(d);
       at += DIGITS_BATCH) {
    digits_batch(d, order + at, random, pixels, labels);
    rc = tn_array_set(net->pixels, pixels, sizeof pixels);
    if (!rc) rc = tn_array_set(net->labels, labels, sizeof labels);
    if (!rc) rc = tn_program_forward(net->learn, TN_CALL_TRAIN);
    if (!rc) rc = count(net->learn, labels, DIGITS_BATCH, score);
  }
  free(order);
  return rc;
}

static tn_code train(network *net, const digits *d, digits_score *tested) {
  digits_random random = {1};
  const double start = digits_clock();
  tn_code rc = make_weights(net, &random);
  if (!rc) rc = make_arrays(net, d);
  if (!rc) rc = make_programs(net);
  for (int epoch = 1; epoch <= EPOCHS && !rc; ++epoch) {
    digits_score learned = {0};
    *tested = (digits_score){0};
    rc = set_rate(net, epoch);
    if (!rc) rc = run_epoch(net, d, &random, &learned);
    if (!rc) rc = tn_program_forward(net->test, 0);
    if (!rc)
      rc = count(net->test, d->labels + digits_n_train(d), DIGITS_TEST, tested);
    if (!rc) digits_report(epoch, &learned, tested, digits_clock() - start);
  }
  return rc;
}

static void release(network *net) {
  tn_program_release(net->learn), tn_program_release(net->test);
  for (int i = 0; i < WEIGHTS; ++i)
    tn_array_release(net->weight[i]), tn_array_release(net->step[i]);
  tn_array_release(net->pixels), tn_array_release(net->labels);
  tn_array_release(net->test_pixels), tn_array_release(net->test_labels);
  tn_runtime_release(net->rt);
}

int main(int argc, char **argv) {
  digits d;
  network net = {0};
  digits_score tested = {0};
  if (argc < 2) {
    fprintf(stderr, "usage: %s DIGITS.csv.gz [PLUGIN.so ...]\n", argv[0]);
    return 2;
  }
  if (!digits_read(argv[1], &d)) return 2;
  tn_code rc = tn_runtime_create(NULL, &net.rt);
  if (!rc && argc == 2) rc = tn_plugins_load_standard(net.rt);
  for (int i = 2; i < argc && !rc; ++i) rc = tn_plugin_load(net.rt, argv[i]);
  if (!rc) rc = train(&net, &d, &tested);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  release(&net);
  digits_free(&d);
  return rc || 100 * tested.n_right < 96 * tested.n;
}
