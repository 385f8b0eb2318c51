/* SPDX-License-Identifier: Apache-2.0
 * train_on_cuda.c: networks learn digits on the cpu and on cuda(0), from the
 * same weights: the same number of digits comes out right, give or take two.
 * So it does where steps are launched as one: on the played GPU the same
 * network bit for bit, where no plan is chosen by time. The networks are those
 * of examples/train_digits.c and train_lenet.c.
 *
 *   train_on_cuda DIGITS.csv.gz PLUGIN.so ...
 *
 * 0 if so, 77 without a GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include "digits_net.h"
#include "lenet_net.h"

enum { APART = 2 };

static tn_code dense_build(tn_graph *g, tn_entry *head) {
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
    rc = learner_layer(g, "nn.softmax_output", "normalization=batch", "softmax",
                       head);
  return rc;
}

typedef struct subject {
  const char *name;
  int is_exact; /* two runs make the same bits */
  int played;   /* epochs on the played GPU, which is slow */
  learner_net net;
} subject;

static const subject subjects[] = {{"dense layers",
                                    1,
                                    2,
                                    {.build = dense_build,
                                     .ndim = 2,
                                     .shape = {0, DIGITS_PIXELS},
                                     .epochs = 2,
                                     .rate = net_rate,
                                     .update = "momentum=0.9 wd=0.0005"}},
                                   {"LeNet",
                                    0,
                                    1,
                                    {.build = lenet_build,
                                     .ndim = 4,
                                     .shape = {0, 1, 8, 8},
                                     .epochs = 2,
                                     .rate = lenet_rate,
                                     .update = "momentum=0.9 wd=0.0005"}}};

static tn_code train_on(tn_runtime *rt, const digits *d, const subject *s,
                        tn_place place, uint32_t flags,
                        learner_report *report) {
  learner_net net = s->net;
  net.place = place;
  net.flags = flags;
  if (getenv("FAKE_CUDA")) net.epochs = s->played;
  return learner_train(rt, d, &net, report);
}

static tn_code load(tn_runtime *rt, int n, char **paths) {
  tn_code rc = TN_OK;
  for (int i = 0; i < n && !rc; ++i) rc = tn_plugin_load(rt, paths[i]);
  return rc;
}

/* With `most` 0 they have the same loss, too. */
static int differ(const digits_score *a, const digits_score *b, long most) {
  return labs((long)a->n_right - (long)b->n_right) > most ||
         (most == 0 && a->loss != b->loss);
}

/* 0 if all learn alike. */
static int compare(tn_runtime *rt, const digits *d, const subject *s,
                   tn_place place) {
  learner_report here = {0}, there = {0}, one_go = {0};
  tn_code rc = train_on(rt, d, s, (tn_place){TN_DEVICE_CPU, 0}, 0, &here);
  if (!rc) rc = train_on(rt, d, s, place, 0, &there);
  if (!rc) rc = train_on(rt, d, s, place, TN_BIND_CAPTURE, &one_go);
  if (rc) {
    fprintf(stderr, "train_on_cuda: %s: %s\n", s->name, tn_error_text());
    return 1;
  }
  const long one = (long)here.tested.n_right, two = (long)there.tested.n_right;
  printf("%s: %ld of %ld right on the cpu, %ld on cuda(0), %ld %s\n", s->name,
         one, (long)here.tested.n, two, (long)one_go.tested.n_right,
         one_go.captured ? "launched as one" : "not launched as one");
  return !one_go.captured || differ(&here.tested, &there.tested, APART) ||
         differ(&there.tested, &one_go.tested,
                s->is_exact && getenv("FAKE_CUDA") ? 0 : APART);
}

int main(int argc, char **argv) {
  static digits d;
  tn_runtime *rt = NULL;
  tn_place place;
  int status = 1;
  if (argc < 3 || !digits_read(argv[1], &d)) return 2;
  if (tn_runtime_create(NULL, &rt) || load(rt, argc - 2, argv + 2)) {
    fprintf(stderr, "train_on_cuda: %s\n", tn_error_text());
  } else if (tn_place_parse(rt, "cuda(0)", &place)) {
    printf("SKIPPED: %s\n", tn_error_text());
    status = 77;
  } else {
    status = 0;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; ++i)
      status |= compare(rt, &d, &subjects[i], place);
  }
  tn_runtime_release(rt);
  digits_free(&d);
  return status;
}
