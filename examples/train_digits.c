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

#include "digits_net.h"
#include "learner.h"

/* data -> fc1 -> relu1 -> fc2 -> relu2 -> fc3 -> softmax. The variables of
 * weights and labels come by themselves. */
static tn_code build(tn_graph *g, tn_entry *head) {
  char params[64], name[16];
  tn_code rc = tn_graph_variable(g, "data", NULL, head);
  for (int i = 1; i <= NET_LAYERS && !rc; ++i) {
    (void)snprintf(params, sizeof params, "num_hidden=%d", (int)net_widths[i]);
    (void)snprintf(name, sizeof name, "fc%d", i);
    rc = learner_layer(g, "nn.fully_connected", params, name, head);
    (void)snprintf(name, sizeof name, "relu%d", i);
    if (!rc && i < NET_LAYERS)
      rc = learner_layer(g, "nn.activation", "act_type=relu", name, head);
  }
  if (!rc)
    rc = learner_layer(g, "nn.softmax_output",
                       "normalization=batch smooth_alpha=0.1", "softmax", head);
  return rc;
}

static tn_code train(tn_runtime *rt, const digits *d, digits_score *tested) {
  const learner_net net = {.build = build,
                           .ndim = 2,
                           .shape = {0, DIGITS_PIXELS},
                           .epochs = NET_EPOCHS,
                           .rate = net_rate,
                           .update = "momentum=0.9 wd=0.0005",
                           .place = {TN_DEVICE_CPU, 0}};
  learner_report report;
  const tn_code rc = learner_train(rt, d, &net, &report);
  *tested = report.tested;
  return rc;
}

int main(int argc, char **argv) {
  return net_main(argc, argv, 96, train);
}
