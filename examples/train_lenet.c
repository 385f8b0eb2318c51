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
#include <stdio.h>

#include "digits_net.h"
#include "lenet_net.h"

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
  learner_net net = {.build = lenet_build,
                     .ndim = 4,
                     .shape = {0, 1, 8, 8},
                     .epochs = LENET_EPOCHS,
                     .rate = lenet_rate,
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
