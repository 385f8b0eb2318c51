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
#include <stdio.h>
#include <stdlib.h>
#include <tenon/graph.h>

#include "digits_net.h"

typedef struct network {
  tn_runtime *rt;
  tn_array *weight[NET_WEIGHTS], *step[NET_WEIGHTS];
  tn_array *pixels, *labels; /* of a batch */
  tn_array *test_pixels, *test_labels;
  tn_program *learn, *test;
} network;

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
  for (int i = 1; i <= NET_LAYERS && !rc; ++i) {
    (void)snprintf(params, sizeof params, "num_hidden=%d", (int)net_widths[i]);
    (void)snprintf(name, sizeof name, "fc%d", i);
    rc = call(g, "nn.fully_connected", params, name, 1, head, head);
    (void)snprintf(name, sizeof name, "relu%d", i);
    if (!rc && i < NET_LAYERS)
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
  tn_entry weights[NET_WEIGHTS], slopes[NET_WEIGHTS];
  char name[32];
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i)
    rc = tn_graph_find(g, weight_name(i, name, sizeof name), &weights[i]);
  if (!rc)
    rc = tn_graph_gradient(
        g,
        &(tn_gradient_query){
            .heads = &head, .n_heads = 1, .of = weights, .n_of = NET_WEIGHTS},
        slopes);
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) {
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
  tn_argument a[2 + 2 * NET_WEIGHTS] = {
      {.name = "data", .array = pixels},
      {.name = "softmax_label", .array = labels}};
  char names[NET_WEIGHTS][2][32];
  tn_array *outputs[1 + NET_WEIGHTS] = {NULL};
  size_t n = 2;
  for (int i = 0; i < NET_WEIGHTS; ++i) {
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
                                    .n_outputs = steps ? 1 + NET_WEIGHTS : 0},
                         out);
}

static tn_code make_programs(network *net) {
  tn_graph *g = NULL;
  tn_entry heads[1 + NET_WEIGHTS];
  TRY(tn_graph_create(net->rt, &g));
  TRY(build(g, &heads[0]));
  TRY(tn_graph_heads_set(g, heads, 1));
  TRY(bind(net, g, net->test_pixels, net->test_labels, 0, &net->test));
  TRY(add_steps(g, heads[0], heads + 1));
  TRY(tn_graph_heads_set(g, heads, 1 + NET_WEIGHTS));
  TRY(bind(net, g, net->pixels, net->labels, 1, &net->learn));
  tn_graph_release(g);
  return TN_OK;
fail:
  tn_graph_release(g);
  return TN_INVALID;
}

static tn_code make_arrays(network *net, const digits *d) {
  const size_t first = digits_n_train(d);
  const int64_t batch[2] = {DIGITS_BATCH, DIGITS_PIXELS};
  const int64_t test[2] = {DIGITS_TEST, DIGITS_PIXELS};
  tn_code rc = net_array(net->rt, 2, batch, NULL, &net->pixels);
  if (!rc) rc = net_array(net->rt, 1, batch, NULL, &net->labels);
  if (!rc)
    rc = net_array(net->rt, 2, test, d->pixels + first * DIGITS_PIXELS,
                   &net->test_pixels);
  if (!rc)
    rc = net_array(net->rt, 1, test, d->labels + first, &net->test_labels);
  return rc;
}

/* ------------------------------------------------------------------- learn */

/* Shorter steps in every epoch: a parameter that may change between runs. */
static tn_code set_rate(network *net, int epoch) {
  const tn_value lr = tn_value_float("lr", net_rate(epoch));
  char name[16];
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_WEIGHTS && !rc; ++i) {
    (void)snprintf(name, sizeof name, "step%d", i);
    rc = tn_program_set(net->learn, name, &lr);
  }
  return rc;
}

/* Takes what came out into the score. */
static tn_code count(const tn_program *program, const float *labels, size_t n,
                     digits_score *score) {
  tn_array *out = NULL;
  tn_code rc = tn_program_output(program, 0, &out);
  if (!rc) rc = net_count(out, labels, n, score);
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

static tn_code learn(network *net, const digits *d, digits_score *tested) {
  digits_random random = {1};
  const double start = digits_clock();
  tn_code rc = net_weights(net->rt, &random, net->weight);
  if (!rc) rc = net_zeros(net->rt, net->step);
  if (!rc) rc = make_arrays(net, d);
  if (!rc) rc = make_programs(net);
  for (int epoch = 1; epoch <= NET_EPOCHS && !rc; ++epoch) {
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
  for (int i = 0; i < NET_WEIGHTS; ++i)
    tn_array_release(net->weight[i]), tn_array_release(net->step[i]);
  tn_array_release(net->pixels), tn_array_release(net->labels);
  tn_array_release(net->test_pixels), tn_array_release(net->test_labels);
}

static tn_code train(tn_runtime *rt, const digits *d, digits_score *tested) {
  network net = {.rt = rt};
  const tn_code rc = learn(&net, d, tested);
  release(&net);
  return rc;
}

int main(int argc, char **argv) {
  return net_main(argc, argv, train);
}
