/* SPDX-License-Identifier: Apache-2.0
 * train_digits_eager.c: a network with two hidden layers learns digits, by
 * calls that are recorded on a tape and differentiated by it.
 *
 *   train_digits_eager DIGITS.csv.gz [PLUGIN.so ...]
 *
 * Without plugins it loads the installed ones. It prints a line per epoch, and
 * succeeds if at least 96 % of the rows that it has not learned from come out
 * right. train_digits.c does the same through a graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "digits_net.h"

static const tn_place cpu = {TN_DEVICE_CPU, 0};

/* The network: operators with their parameters, weights followed by biases, and
 * for each its gradient and its last step. */
typedef struct network {
  tn_runtime *rt;
  tn_operator *connect, *activate, *loss, *update;
  tn_params *connect_params[NET_LAYERS], *activate_params, *loss_params;
  tn_params *update_params;
  tn_array *weight[NET_WEIGHTS], *gradient[NET_WEIGHTS], *step[NET_WEIGHTS];
} network;

static tn_code find_operators(network *net) {
  char text[64];
  TRY(tn_operator_get(net->rt, "nn.fully_connected", &net->connect));
  TRY(tn_operator_get(net->rt, "nn.activation", &net->activate));
  TRY(tn_operator_get(net->rt, "nn.softmax_output", &net->loss));
  TRY(tn_operator_get(net->rt, "optim.sgd_mom_update", &net->update));
  for (int i = 0; i < NET_LAYERS; ++i) {
    (void)snprintf(text, sizeof text, "num_hidden=%d", (int)net_widths[i + 1]);
    TRY(tn_params_parse(net->connect, text, &net->connect_params[i]));
  }
  TRY(tn_params_parse(net->activate, "act_type=relu", &net->activate_params));
  TRY(tn_params_parse(net->loss, "normalization=batch smooth_alpha=0.1",
                      &net->loss_params));
  return TN_OK;
fail:
  return TN_NOT_FOUND;
}

/* Shorter steps in every epoch. */
static tn_code set_rate(network *net, int epoch) {
  char text[80];
  tn_params_release(net->update_params), net->update_params = NULL;
  (void)snprintf(text, sizeof text, "lr=%.9g momentum=0.9 wd=0.0005",
                 net_rate(epoch));
  return tn_params_parse(net->update, text, &net->update_params);
}

/* Probabilities of the digits; the calls that compute them stay on the tape. */
static tn_code forward(network *net, tn_tape *tape, tn_array *pixels,
                       tn_array *labels, tn_array **out) {
  tn_array *x = tn_array_retain(pixels), *y = NULL;
  tn_code rc = TN_OK;
  for (int i = 0; i < NET_LAYERS && !rc; ++i) {
    rc = tn_tape_call(tape, net->connect,
                      TN_IN(x, net->weight[2 * i], net->weight[2 * i + 1]),
                      net->connect_params[i], TN_OUT(&y));
    tn_array_release(x), x = y, y = NULL;
    if (rc || i == NET_LAYERS - 1) break;
    rc = tn_tape_call(tape, net->activate, TN_IN(x), net->activate_params,
                      TN_OUT(&y));
    tn_array_release(x), x = y, y = NULL;
  }
  if (!rc)
    rc = tn_tape_call(tape, net->loss, TN_IN(x, labels), net->loss_params,
                      TN_OUT(out));
  tn_array_release(x);
  return rc;
}

/* One batch: forward, gradients, and a step of every weight. */
static tn_code step(network *net, tn_array *pixels, tn_array *labels,
                    tn_array **out) {
  tn_tape *tape = NULL;
  *out = NULL;
  TRY(tn_tape_create(net->rt, &tape));
  for (int i = 0; i < NET_WEIGHTS; ++i)
    TRY(tn_tape_watch(tape, net->weight[i]));
  TRY(forward(net, tape, pixels, labels, out));
  TRY(tn_tape_gradient(
      tape, &(tn_tape_query){.struct_size = sizeof(tn_tape_query),
                             .heads = {1, out},
                             .of = {NET_WEIGHTS, net->weight},
                             .gradients = {NET_WEIGHTS, net->gradient, NULL}}));
  for (int i = 0; i < NET_WEIGHTS; ++i)
    TRY(tn_call(net->rt, net->update,
                TN_IN(net->weight[i], net->gradient[i], net->step[i]),
                net->update_params, TN_OUT(&net->weight[i])));
  tn_tape_release(tape);
  return TN_OK;
fail:
  tn_tape_release(tape);
  tn_array_release(*out), *out = NULL;
  return TN_INVALID;
}

/* All batches once, in a new order. */
static tn_code run_epoch(network *net, const digits *d, digits_random *random,
                         digits_score *score) {
  static float pixels[DIGITS_BATCH * DIGITS_PIXELS], labels[DIGITS_BATCH];
  const int64_t shape[2] = {DIGITS_BATCH, DIGITS_PIXELS};
  size_t *order = malloc(digits_n_train(d) * sizeof *order);
  tn_array *x = NULL, *y = NULL, *out = NULL;
  tn_code rc = order ? TN_OK : TN_OUT_OF_MEMORY;
  if (order) digits_shuffle(d, random, order);
  for (size_t at = 0; !rc && at + DIGITS_BATCH <= digits_n_train(d);
       at += DIGITS_BATCH) {
    digits_batch(d, order + at, random, pixels, labels);
    rc = net_array(net->rt, cpu, 2, shape, pixels, &x);
    if (!rc) rc = net_array(net->rt, cpu, 1, shape, labels, &y);
    if (!rc) rc = step(net, x, y, &out);
    if (!rc) rc = net_count(out, labels, DIGITS_BATCH, score);
    tn_array_release(x), tn_array_release(y), tn_array_release(out);
    x = y = out = NULL;
  }
  free(order);
  return rc;
}

/* The rows that were not learned from. */
static tn_code test(network *net, const digits *d, digits_score *score) {
  const size_t first = digits_n_train(d);
  const int64_t shape[2] = {DIGITS_TEST, DIGITS_PIXELS};
  tn_array *x = NULL, *y = NULL, *out = NULL;
  tn_tape *tape = NULL;
  tn_code rc =
      net_array(net->rt, cpu, 2, shape, d->pixels + first * DIGITS_PIXELS, &x);
  if (!rc) rc = net_array(net->rt, cpu, 1, shape, d->labels + first, &y);
  if (!rc) rc = tn_tape_create(net->rt, &tape); /* watches nothing */
  if (!rc) rc = forward(net, tape, x, y, &out);
  if (!rc) rc = net_count(out, d->labels + first, DIGITS_TEST, score);
  tn_tape_release(tape);
  tn_array_release(x), tn_array_release(y), tn_array_release(out);
  return rc;
}

static tn_code learn(network *net, const digits *d, digits_score *tested) {
  digits_random random = {1};
  const double start = digits_clock();
  tn_code rc = find_operators(net);
  if (!rc) rc = net_weights(net->rt, &random, net->weight);
  if (!rc) rc = net_zeros(net->rt, net->gradient);
  if (!rc) rc = net_zeros(net->rt, net->step);
  for (int epoch = 1; epoch <= NET_EPOCHS && !rc; ++epoch) {
    digits_score learned = {0};
    *tested = (digits_score){0};
    rc = set_rate(net, epoch);
    if (!rc) rc = run_epoch(net, d, &random, &learned);
    if (!rc) rc = test(net, d, tested);
    if (!rc) digits_report(epoch, &learned, tested, digits_clock() - start);
  }
  return rc;
}

static void release(network *net) {
  for (int i = 0; i < NET_WEIGHTS; ++i) {
    tn_array_release(net->weight[i]), tn_array_release(net->gradient[i]);
    tn_array_release(net->step[i]);
  }
  for (int i = 0; i < NET_LAYERS; ++i)
    tn_params_release(net->connect_params[i]);
  tn_params_release(net->activate_params), tn_params_release(net->loss_params);
  tn_params_release(net->update_params);
}

static tn_code train(tn_runtime *rt, const digits *d, digits_score *tested) {
  network net = {.rt = rt};
  const tn_code rc = learn(&net, d, tested);
  release(&net);
  return rc;
}

int main(int argc, char **argv) {
  return net_main(argc, argv, 96, train);
}
