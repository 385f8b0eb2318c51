/* SPDX-License-Identifier: Apache-2.0
 * train_lenet.c: a small network of convolutions (after LeCun et al., 1998)
 * learns digits, on a GPU if there is one.
 *
 *   train_lenet DIGITS.csv.gz [PLUGIN.so ...]
 *
 * Without plugins it loads the installed ones. It prints a line per epoch, then
 * the time of a step and the most memory that there was in use, and leaves a
 * trace of one step in lenet.json, which chrome://tracing and ui.perfetto.dev
 * open. It succeeds if at least 98 % of the rows that it has not learned from
 * come out right.
 */
#include <math.h>
#include <stdio.h>

#include "digits_net.h"
#include "learner.h"

enum { EPOCHS = 36 };

typedef struct layer {
  const char *op, *params, *name;
} layer;

/* Images of 8 x 8 become 4 x 4, then 2 x 2. */
static const layer layers[] = {
    {"nn.convolution", "kernel=(3,3) pad=(1,1) num_filter=32", "conv1"},
    {"nn.activation", "act_type=relu", "relu1"},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", "pool1"},
    {"nn.convolution", "kernel=(3,3) pad=(1,1) num_filter=64", "conv2"},
    {"nn.activation", "act_type=relu", "relu2"},
    {"nn.pooling", "kernel=(2,2) stride=(2,2) pool_type=max", "pool2"},
    {"nn.fully_connected", "num_hidden=128", "fc1"},
    {"nn.activation", "act_type=relu", "relu3"},
    {"nn.fully_connected", "num_hidden=10", "fc2"},
    {"nn.softmax_output", "normalization=batch smooth_alpha=0.1", "softmax"}};

static tn_code build(tn_graph *g, tn_entry *head) {
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (size_t i = 0; i < sizeof layers / sizeof *layers && !rc; ++i)
    rc = learner_layer(g, layers[i].op, layers[i].params, layers[i].name, head);
  return rc;
}

/* From 0.05 down to nothing, slowly at both ends. */
static double rate(int epoch) {
  return 0.025 * (1 + cos(3.14159265358979 * (epoch - 1) / EPOCHS));
}

/* The first device that is there and is not the cpu. */
static tn_place best_place(tn_runtime *rt, const char **name) {
  tn_device_entry device;
  *name = "cpu";
  for (size_t i = 0; tn_device_at(rt, i, &device) == TN_OK; ++i)
    if (device.device_type != TN_DEVICE_CPU && device.count > 0) {
      *name = device.name;
      return (tn_place){device.device_type, 0};
    }
  return (tn_place){TN_DEVICE_CPU, 0};
}

static tn_code train(tn_runtime *rt, const digits *d, digits_score *tested) {
  const char *device = NULL;
  learner_net net = {.build = build,
                     .ndim = 4,
                     .shape = {0, 1, 8, 8},
                     .epochs = EPOCHS,
                     .rate = rate,
                     .update = "momentum=0.9 wd=0.0005",
                     .place = best_place(rt, &device),
                     .trace = "lenet.json"};
  learner_report report;
  tn_memory memory = {.struct_size = sizeof memory};
  tn_code rc = learner_train(rt, d, &net, &report);
  if (rc == TN_UNSUPPORTED && net.place.device_type != TN_DEVICE_CPU) {
    printf("on the cpu, as on %s: %s\n", device, tn_error_text());
    net.place = (tn_place){TN_DEVICE_CPU, 0};
    device = "cpu";
    rc = learner_train(rt, d, &net, &report);
  }
  if (!rc) rc = tn_memory_get(rt, net.place, &memory);
  *tested = report.tested;
  if (!rc)
    printf("%s: %.3f ms per step of %d rows, at most %.1f MiB, a trace in %s\n",
           device, 1000 * report.seconds / (double)report.n_steps,
           (int)DIGITS_BATCH, (double)memory.peak_live / 1048576, net.trace);
  return rc;
}

int main(int argc, char **argv) {
  return net_main(argc, argv, 98, train);
}
